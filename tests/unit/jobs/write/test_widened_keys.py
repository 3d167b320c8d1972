"""Keys get a wider type with the rows of a write only where they keep their binary form, on which buckets depend."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.errors import InvalidInputError, SchemaMismatchError
from tests.harness.keywords import keywords
from tests.harness.real_tables import a_table

WIDENING: dict[str, Any] = keywords({"write.merge-schema": "true", "write.merge-schema.type-widening": "true"})


def rows(kind: pa.DataType, values: dict[int, str]) -> pa.Table:
    return pa.table({"a": pa.array(values.keys(), kind), "b": list(values.values())})


def read(table: Table, where: str | None = None) -> dict[int, str]:
    found = table.scan(where=where).to_arrow().to_pylist()
    assert len({row["a"] for row in found}) == len(found)
    return {row["a"]: row["b"] for row in found}


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize(
    "options",
    [
        {"bucket": "1"},
        {"bucket": "3"},
        {"bucket": "-1"},
        {"bucket": "2", "changelog-producer": "lookup"},
        {"bucket": "2", "deletion-vectors.enabled": "true"},
    ],
    ids=str,
)
def test_keys_become_wider_with_the_rows_of_a_write(tmp_path: Path, options: dict[str, str], file_format: str) -> None:
    table = a_table("a INT, b STRING", keys="a", options={"file.format": file_format, **options}, where=tmp_path)
    expected = {i: f"x{i}" for i in range(20)}
    table.write(rows(pa.int32(), expected))
    new = {2: "n2", 4: "n4", 2**40: "big"}
    table.write(rows(pa.int64(), new), **WIDENING)
    expected |= new
    assert str(table.row_type.field("a").type) == "BIGINT NOT NULL"
    assert read(table) == expected
    assert (read(table, "a = 3"), read(table, "a = 2"), read(table, "a > 18")) == (
        {3: "x3"}, {2: "n2"}, {19: "x19", 2**40: "big"},
    )  # fmt: skip
    if "deletion-vectors.enabled" not in options:  # there the first snapshot waits for its compaction
        assert read(table.at("snapshot.1")) == {i: f"x{i}" for i in range(20)}
    table.delete("a = 5")
    table.write(rows(pa.int64(), {7: "seven"}))
    del expected[5]
    expected[7] = "seven"
    assert read(table) == expected
    table.compact(full=True)
    assert read(table) == expected


def test_rows_of_a_bucket_key_are_found_by_its_wider_type(tmp_path: Path) -> None:
    table = a_table("a INT, b STRING", options={"bucket": "4", "bucket-key": "a"}, where=tmp_path)
    table.write(rows(pa.int32(), dict.fromkeys(range(20), "old")))
    table.write(rows(pa.int64(), {2**33: "new", 20: "new"}), **WIDENING)
    assert [len(table.scan(where=f"a = {i}").to_arrow()) for i in (*range(21), 2**33)] == [1] * 22


@pytest.mark.parametrize(
    ("columns", "keys", "options"),
    [
        ("a INT, b STRING", ["a"], {"bucket": "2"}),
        ("a TINYINT, b STRING", [], {"bucket": "2", "bucket-key": "a"}),
        ("a INT, b STRING", ["b", "a"], {"bucket": "1"}),
    ],
    ids=str,
)
def test_a_key_with_negative_values_keeps_its_type(
    tmp_path: Path, columns: str, keys: list[str], options: dict[str, str]
) -> None:
    table = a_table(columns, keys=keys, options=options, where=tmp_path)
    kind = pa.int8() if "TINYINT" in columns else pa.int32()
    table.write(rows(kind, {1: "x", -1: "y"}))
    before = table.schema.id, len(table.snapshots())
    for value in (3, 2**40):
        with pytest.raises(
            SchemaMismatchError, match=r"column a of table db\.t is part of a key and cannot change from"
        ):
            table.write(rows(pa.int64(), {value: "z"}), **WIDENING)
    again = paimon_spark.load_table(table.location)
    assert (again.schema.id, len(again.snapshots())) == before
    table.delete("a = -1")
    table.compact(full=True)
    table.write(rows(pa.int64(), {3: "z"}), **WIDENING)
    assert read(table) == {1: "x", 3: "z"}


def test_a_key_without_statistics_keeps_its_type(tmp_path: Path) -> None:
    options = {"bucket": "2", "bucket-key": "a", "metadata.stats-mode": "none"}
    table = a_table("a INT, b STRING", options=options, where=tmp_path)
    table.write(rows(pa.int32(), {1: "x"}))
    with pytest.raises(SchemaMismatchError, match="or may have"):
        table.write(rows(pa.int64(), {3: "z"}), **WIDENING)


def test_other_keys_keep_their_type(tmp_path: Path) -> None:
    table = a_table("p INT, d DECIMAL(5, 2), s VARCHAR(3)", keys="p d s", by="p", where=tmp_path)
    one = {"p": pa.array([1], pa.int32()), "d": pa.array([Decimal("1.00")], pa.decimal128(5, 2)), "s": ["abc"]}
    table.write(pa.table(one))
    wide = pa.array([Decimal("1.00")], pa.decimal128(20, 2))
    with pytest.raises(SchemaMismatchError, match=r"cannot change from DECIMAL\(5, 2\) NOT NULL to DECIMAL\(20, 2\)"):
        table.write(pa.table({**one, "d": wide}), **WIDENING)
    with pytest.raises(InvalidInputError, match="part of the partition key"):
        table.write(pa.table({**one, "p": pa.array([1], pa.int64())}), **WIDENING)
    table.write(pa.table({**one, "s": ["abcdef"]}), **WIDENING)
    assert sorted(table.scan().to_arrow()["s"].to_pylist()) == ["abc", "abcdef"]
