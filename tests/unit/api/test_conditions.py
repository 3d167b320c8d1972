"""Conditions with functions and arithmetic, wherever a table takes a condition."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.api.table import Table
from paimon_spark.engine.scan.query import Reason
from paimon_spark.errors import DataError, InvalidInputError, PredicateSyntaxError
from tests.harness.real_tables import a_catalog, a_table


def events(folder: Path, keys: tuple[str, ...] = (), **options: str) -> Table:
    """A table with four partitions, one file in each; with keys, two rows are written again."""
    catalog = a_catalog(folder / "wh")
    schema = pa.schema([("id", pa.int32()), ("dt", pa.date32()), ("name", pa.string()), ("a", pa.int32())])
    table = catalog.create_table("db.events", schema, primary_keys=keys, partition_keys=("dt",), options=options)
    days = [18_992, 19_722, 19_723, None if not keys else 19_783]  # 2021-12-31, 2023-12-31, 2024-01-01, 2024-03-01
    names = ["Ann", "bob", "ANN", "it's"]
    ids = list(range(1, 5))
    table.write(pa.table([ids, days, names, [1, 0, 5, 4]], schema=pa.schema([(f.name, f.type) for f in schema])))
    if keys:
        table.write(pa.table([[1], [18_992], ["Zoe"], [9]], schema=schema))
    return table


def ids(table: Table, where: str, **options: str) -> list[int]:
    return sorted(table.scan(where=where, **options).to_arrow().column("id").to_pylist())


def skipped(table: Table, where: str) -> dict[Reason, int]:
    return {s.reason: s.files for s in table.scan(where=where).plan().report.skipped if s.files}


def test_functions_of_partition_columns_skip_partitions(tmp_path: Path) -> None:
    table = events(tmp_path)
    assert ids(table, "year(dt) = 2024") == [3]
    assert skipped(table, "year(dt) = 2024") == {Reason.PARTITION: 3}
    assert ids(table, "month(dt) = 12 AND a = 1") == [1]
    assert skipped(table, "month(dt) = 12 AND a + 0 = 1") == {Reason.PARTITION: 2}
    assert ids(table, "coalesce(dt, DATE '2000-01-01') < DATE '2001-01-01'") == [4]
    assert skipped(table, "date_trunc('year', dt) IS NULL") == {Reason.PARTITION: 3}


def test_what_skips_no_file_is_evaluated_on_rows(tmp_path: Path) -> None:
    table = events(tmp_path)
    assert ids(table, "upper(name) = 'ANN'") == [1, 3]
    assert skipped(table, "upper(name) = 'ANN'") == {}
    assert ids(table, "id = a OR id + 1 < a") == [1, 3, 4]
    assert ids(table, "name = 'it''s'") == [4]
    assert ids(table, "name RLIKE '^[A-Z]+$'") == [3]
    assert ids(table, "a <> 0 AND 4 / a = 1") == [4]
    with pytest.raises(DataError, match="division by zero"):
        ids(table, "4 / a = 1")


def test_a_condition_that_fails_for_a_partition_is_left_to_its_rows(tmp_path: Path) -> None:
    catalog = a_catalog(tmp_path / "wh")
    schema = pa.schema([pa.field("id", pa.int32(), nullable=False), pa.field("p", pa.int32(), nullable=False)])
    options = {"bucket": "1"}
    table = catalog.create_table("db.t", schema, primary_keys=("id", "p"), partition_keys=("p",), options=options)
    table.write(pa.table([[0, 1, 2], [0, 1, 2]], schema=schema))
    assert ids(table, "id <> 0 AND 2 / p = 1") == [2]
    assert ids(table, "p > 0 AND 2 / p = 1") == [2]
    assert skipped(table, "id <> 0 AND p < 2 AND 2 / p = 1")[Reason.PARTITION] == 1
    with pytest.raises(DataError, match="division by zero"):
        ids(table, "2 / p = 1")
    table.delete("id = 0")
    assert ids(table, "2 / p = 1") == [2]


def test_rows_are_tested_after_rows_of_a_key_are_merged(tmp_path: Path) -> None:
    table = events(tmp_path, ("id", "dt"), bucket="1")
    assert ids(table, "lower(name) = 'ann'") == [3]
    assert ids(table, "a - id = 8") == [1]
    assert ids(table, "abs(id) + year(dt) = 2022") == [1]


def test_the_time_zone_of_instants_is_the_option(tmp_path: Path) -> None:
    table = a_table("id INT, at TIMESTAMP", where=tmp_path / "wh")
    table.write(
        pa.table({"id": pa.array([1], pa.int32()), "at": pa.array([1_704_063_600_000_000], pa.timestamp("us", "UTC"))})
    )
    where = "date(at) = DATE '2024-01-01'"  # 2023-12-31 23:00 in UTC
    assert ids(table, where, **{"time-zone": "Europe/Berlin"}) == [1]
    assert ids(table, where, **{"time-zone": "UTC"}) == []


def test_rows_are_deleted_and_partitions_compacted_by_them(tmp_path: Path) -> None:
    table = events(tmp_path)
    table.delete("upper(name) = 'ANN' AND id = 1")
    assert ids(table, "true") == [2, 3, 4]
    table.delete("year(dt) = 2023")
    assert ids(table, "true") == [3, 4]
    more = pa.table(
        [[5], [19_723], ["x"], [1]], schema=pa.schema([(f.name, f.type) for f in table.scan().to_arrow().schema])
    )
    table.write(more)
    result = table.compact(full=True, where="year(dt) = 2024 AND month(dt) < 2")
    assert result.files_before == 2
    with pytest.raises(InvalidInputError, match="names name, but only whole partitions"):
        table.compact(where="upper(name) = 'X'")


def test_a_refused_condition_names_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PredicateSyntaxError, match=r"'ROUND\(a\)' at position 12 is not supported"):
        ids(events(tmp_path), "id = 1 AND round(a) = 1")
