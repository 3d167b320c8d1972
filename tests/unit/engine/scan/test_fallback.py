"""Partitions that main lacks are read from the fallback branch."""

from __future__ import annotations

from typing import Any

import pytest

from paimon_spark.engine.scan.plan import Plan, plan_batch
from paimon_spark.engine.scan.query import Reason, ScanQuery
from paimon_spark.errors import SchemaMismatchError
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.manifests import CACHE
from paimon_spark.predicate.parse import parse_predicate
from paimon_spark.types import BIGINT, INT, STRING, DataField, RowType
from tests.harness.table_builder import File, TableBuilder, named

ROW = RowType(False, (DataField(0, "id", INT), DataField(1, "dt", STRING)))


def two_branches(option: str = "scan.fallback-branch", partitioned: bool = True) -> tuple[TableBuilder, TableBuilder]:
    keys = ("dt",) if partitioned else ()
    main = TableBuilder(TableSchema(0, ROW, 1, partition_keys=keys, options={"bucket": "-1", option: "b"}))
    other = TableBuilder(TableSchema(0, ROW, 1, partition_keys=keys, options={"bucket": "-1"}), main.table, branch="b")
    return main, other


def file(name: str, day: str, low: int = 0) -> File:
    return File(name, {"dt": day}, low={"id": low}, high={"id": low + 9}, nulls={"id": 0})


def plan(t: TableBuilder, where: str | None = None, snapshot: Any = ...) -> Plan:
    CACHE.clear()
    predicate = None if where is None else parse_predicate(where, ROW, "UTC")
    travelled = snapshot is not ...
    return plan_batch(t.open(), snapshot if travelled else t.last, ScanQuery(predicate=predicate), travelled=travelled)


def names(p: Plan) -> dict[str, list[str]]:
    out: dict[str, list[str]] = {}
    for s in p.splits:
        out.setdefault(s.branch, []).extend(f.file_name for f in s.files)
    return {branch: sorted(files) for branch, files in out.items()}


def test_partitions_that_main_lacks_come_from_the_fallback_branch() -> None:
    main, other = two_branches()
    main.commit(file("m1", "x"))
    other.commit(file("o1", "x"), file("o2", "y"))
    p = plan(main)
    assert names(p) == {"main": ["m1"], "b": ["o2"]}
    assert set(p.requests) == {"main", "b"}
    assert p.requests["b"].branch == "b"
    assert {s.reason: s.files for s in p.report.skipped} == {Reason.OTHER_BRANCH: 1}


def test_a_partition_of_main_wins_even_where_its_rows_cannot_match() -> None:
    main, other = two_branches()
    main.commit(file("m1", "x", low=0))
    other.commit(file("o1", "x", low=100), file("o2", "y", low=100))
    assert names(plan(main, "id = 105")) == {"b": ["o2"]}
    assert names(plan(main, "dt = 'x' AND id = 105")) == {}
    assert names(plan(main, "dt = 'y'")) == {"b": ["o2"]}


def test_a_partition_of_main_wins_even_where_its_files_are_too_old() -> None:
    main, other = two_branches()
    main.commit(file("m1", "x"))
    other.commit(named(file("o1", "x"), "o1", created_ms=99), named(file("o2", "y"), "o2", created_ms=99))
    CACHE.clear()
    assert names(plan_batch(main.open(), main.last, ScanQuery(created_since_ms=50))) == {"b": ["o2"]}


@pytest.mark.ci
def test_the_primary_branch_wins() -> None:
    main, other = two_branches("scan.primary-branch")
    main.commit(file("m1", "x"), file("m2", "z"))
    other.commit(file("o1", "x"), file("o2", "y"))
    assert names(plan(main)) == {"main": ["m2"], "b": ["o1", "o2"]}


def test_without_partitions_one_branch_answers_all() -> None:
    main, other = two_branches(partitioned=False)
    other.commit(File("o1"))
    assert names(plan(main)) == {"b": ["o1"]}
    main.commit(File("m1"))
    assert names(plan(main)) == {"main": ["m1"]}


def test_the_past_of_main_is_read_beside_the_past_of_the_branch() -> None:
    main, other = two_branches()
    first = main.commit(file("m1", "x"))
    other.commit(file("o1", "y"))
    main.commit(file("m2", "z"))
    other.commit(file("o2", "w"))
    other.commit(file("o3", "v"))
    assert names(plan(main, snapshot=first)) == {"main": ["m1"], "b": ["o1"]}
    assert names(plan(main, snapshot=main.last)) == {"main": ["m1", "m2"], "b": ["o1", "o2"]}
    assert names(plan(main)) == {"main": ["m1", "m2"], "b": ["o1", "o2", "o3"]}


def test_the_branch_itself_reads_alone() -> None:
    main, other = two_branches()
    main.commit(file("m1", "x"))
    other.evolve(TableSchema(0, ROW, 1, partition_keys=("dt",), options={"bucket": "-1", "scan.fallback-branch": "b"}))
    other.commit(file("o1", "y"))
    assert names(plan(other)) == {"b": ["o1"]}


def test_a_branch_that_is_gone_is_read_past() -> None:
    main = TableBuilder(
        TableSchema(0, ROW, 1, partition_keys=("dt",), options={"bucket": "-1", "scan.fallback-branch": "gone"})
    )
    main.commit(file("m1", "x"))
    assert names(plan(main)) == {"main": ["m1"]}


def test_branches_with_other_columns_are_refused() -> None:
    main, other = two_branches()
    main.commit(file("m1", "x"))
    wide = RowType(False, (DataField(0, "id", BIGINT), DataField(1, "dt", STRING)))
    other.evolve(TableSchema(1, wide, 1, partition_keys=("dt",), options={"bucket": "-1"}))
    with pytest.raises(SchemaMismatchError, match="id INT, dt STRING and id BIGINT, dt STRING"):
        plan(main)


def test_nullability_may_differ() -> None:
    main, other = two_branches()
    main.commit(file("m1", "x"))
    strict = RowType(False, (DataField(0, "id", INT.with_nullable(False)), DataField(1, "dt", STRING)))
    other.evolve(TableSchema(1, strict, 1, partition_keys=("dt",), options={"bucket": "-1"}))
    other.commit(File("o1", {"dt": "y"}, schema_id=1))
    assert names(plan(main)) == {"main": ["m1"], "b": ["o1"]}
