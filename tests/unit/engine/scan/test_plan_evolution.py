"""Planning of tables that track rows."""

from __future__ import annotations

from typing import Any

from paimon_spark.engine.scan.plan import Plan, plan_batch
from paimon_spark.engine.scan.query import ScanQuery
from paimon_spark.engine.tasks import SplitMode
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.manifests import CACHE
from paimon_spark.predicate.parse import parse_predicate
from paimon_spark.types import BIGINT, INT, DataField, RowType
from tests.harness.table_builder import File, TableBuilder

ROW = RowType(False, (DataField(0, "a", INT), DataField(1, "b", INT)))


def table(**options: str) -> TableBuilder:
    given = {"bucket": "-1", "row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    return TableBuilder(TableSchema(0, ROW, 1, options={**given, **options}))


def file(name: str, first: int, rows: int, columns: tuple[str, ...] | None, a: int = 0, sequence: int = 1) -> File:
    bounds = dict.fromkeys(columns or ROW.names, a)
    return File(
        name, rows=rows, first_row_id=first, write_cols=columns, sequence=(sequence, sequence),
        low=bounds, high=bounds, nulls=dict.fromkeys(bounds, 0),
    )  # fmt: skip


def plan(t: TableBuilder, where: str | None = None, **query: Any) -> Plan:
    CACHE.clear()
    row_type = RowType(False, (*ROW.fields, DataField(9, "_ROW_ID", BIGINT)))
    predicate = None if where is None else parse_predicate(where, row_type, "UTC")
    return plan_batch(t.open(), t.last, ScanQuery(predicate=predicate, **query))


def names(p: Plan) -> list[list[str]]:
    return [[f.file_name for f in s.files] for s in p.splits]


def test_files_of_one_row_range_stay_together() -> None:
    t = table(**{"source.split.target-size": "1 b"})
    t.commit(
        file("x1", 100, 10, ("a",)),
        file("y", 0, 10, None),
        file("x2", 100, 10, ("b",), sequence=2),
        file("z", 10, 90, None),
    )
    p = plan(t)
    assert {s.mode for s in p.splits} == {SplitMode.EVOLVED}
    assert sorted(map(sorted, names(p))) == [["x1", "x2"], ["y"], ["z"]]


def test_statistics_of_a_part_of_the_columns_skip_nothing() -> None:
    t = table()
    t.commit(file("x1", 100, 10, ("a",), a=5), file("x2", 100, 10, ("b",), a=7), file("y", 0, 10, None, a=1))
    assert names(plan(t, "a = 9")) == [["x1", "x2"]]
    assert names(plan(t, "a = 1")) == [["y", "x1", "x2"]]


def test_rows_are_found_by_their_id() -> None:
    t = table()
    t.commit(file("y", 0, 10, None), file("z", 10, 90, None), file("x", 100, 10, None))
    assert names(plan(t, "_ROW_ID = 99", columns=("a", "_ROW_ID"))) == [["z"]]
    assert names(plan(t, "_ROW_ID >= 105")) == [["x"]]


def test_without_evolution_rows_are_read_as_they_lie() -> None:
    t = table(**{"data-evolution.enabled": "false"})
    t.commit(file("y", 0, 10, None), file("kept ids", 20, 10, ("a", "b", "_ROW_ID", "_SEQUENCE_NUMBER")))
    p = plan(t, "_ROW_ID = 5")
    assert {s.mode for s in p.splits} == {SplitMode.RAW}
    assert names(p) == [["y", "kept ids"]]
