"""Keys of type CHAR(n): written as the table has them, filled up with spaces or not, so that no key is there twice."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.types import parse_type
from tests.harness.real_tables import a_catalog

TEXTS = ("ab", "c", "def", "gh", "klmno")
PADDED = tuple(t.ljust(5) for t in TEXTS)
Make = Callable[..., Table]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    catalog = a_catalog(tmp_path)

    def made(pk: Sequence[str] = ("c",), partition: Sequence[str] = (), **options: str) -> Table:
        given = {k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}
        columns = "c CHAR(5), v INT, dt CHAR(3)"
        return catalog.create_table(
            "db.t", columns, primary_keys=list(pk), partition_keys=list(partition), options=given
        )

    return made


def rows(texts: Sequence[str], v: int, dt: str = "x") -> pa.Table:
    return pa.table({"c": list(texts), "v": pa.array([v] * len(texts), pa.int32()), "dt": [dt] * len(texts)})


def seen(table: Table) -> list[tuple[str, int]]:
    found = paimon_spark.load_table(table.location).scan(columns=["c", "v"]).to_arrow()
    return sorted(zip(found.column("c").to_pylist(), found.column("v").to_pylist(), strict=True))


TABLES: list[dict[str, Any]] = [
    {"bucket": "1"},
    {"bucket": "4"},
    {"bucket": "-1", "dynamic_bucket__target_row_num": "2"},
    {"bucket": "4", "file__format": "orc"},
    {"bucket": "1", "file__format": "avro"},
    {"bucket": "3", "merge_engine": "partial-update"},
    {"bucket": "2", "merge_engine": "aggregation"},
    {"bucket": "2", "changelog_producer": "lookup"},
    {"bucket": "-2", "postpone__default_bucket_num": "2"},
]


@pytest.mark.parametrize("options", TABLES, ids=lambda o: "-".join(o.values()))
@pytest.mark.parametrize("held", [TEXTS, PADDED], ids=["short", "padded"])
@pytest.mark.parametrize("compacted", [False, True])
def test_a_key_written_again_replaces_the_one_there(
    make: Make, options: dict[str, str], held: Sequence[str], compacted: bool
) -> None:
    table = make(**options)
    table.write(rows(held, 1))
    if compacted or options["bucket"] == "-2":
        table.compact(full=True)
    table.write(rows(TEXTS[:3], 2))
    table.write(rows(PADDED[3:] if held is PADDED else TEXTS[3:], 3))
    if options["bucket"] == "-2":
        table.compact(full=True)
    assert [(c.rstrip(), v) for c, v in seen(table)] == [("ab", 2), ("c", 2), ("def", 2), ("gh", 3), ("klmno", 3)]
    if options.get("file__format") != "orc":  # which fills up on its own, and readers cut
        assert {c for c, _ in seen(table)} == set(held)


def test_a_delete_takes_the_key_as_it_is(make: Make) -> None:
    table = make(bucket="2")
    table.write(rows(TEXTS, 1))
    table.delete("c = 'ab'")
    assert [c for c, _ in seen(table)] == sorted(TEXTS[1:])


def test_without_keys_text_stays_as_it_comes(make: Make) -> None:
    table = make(pk=())
    table.write(rows(["ab", "cd "], 1))
    assert [c for c, _ in seen(table)] == ["ab", "cd "]
    assert table.scan(where="c = 'ab'").to_arrow().num_rows == 1


def test_keys_in_both_forms_are_written_as_they_come_with_a_warning(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    table = make(bucket="1")
    table.write(rows(["ab"], 1))
    with caplog.at_level(logging.WARNING):
        table.write(rows(["cd   "], 1))
        assert not caplog.messages
        table.write(rows(["ab", "cd   "], 2))
    assert "column c of table t is CHAR(5) NOT NULL, and its values are padded" in caplog.text.replace("db.t", "t")
    assert seen(table) == [("ab", 2), ("cd   ", 2)]


@pytest.mark.parametrize("pk", [(), ("dt", "c")])
@pytest.mark.parametrize("form", ["p", "p  "])
def test_partitions_are_written_as_the_table_has_them(make: Make, pk: Sequence[str], form: str) -> None:
    table = make(pk=pk, partition=["dt"], bucket="1" if pk else "-1")
    table.write(rows(["a"], 1, form))
    table.write(rows(["b"], 1, "p"))
    assert set(table.scan(columns=["dt"]).to_arrow().column(0).to_pylist()) == {form}
    table.write(rows(["c"], 2, "p"), mode="overwrite", **{"overwrite.partition": "dt=p"})
    assert seen(table) == [("c", 2)]


def test_a_table_that_is_replaced_as_a_whole_takes_text_as_it_comes(make: Make) -> None:
    table = make(bucket="1")
    table.write(rows(["ab   "], 1))
    table.write(rows(["ab"], 2), mode="overwrite")
    assert seen(table) == [("ab", 2)]


def test_bounds_of_full_length_say_nothing(make: Make) -> None:
    table = make(bucket="1")
    table.write(rows(["aaaaa", "zzzzz"], 1))
    table.write(rows(["bb"], 2))
    assert seen(table) == [("aaaaa", 1), ("bb", 2), ("zzzzz", 1)]
    assert parse_type("CHAR(5)") == table.row_type.field("c").type.with_nullable(True)
