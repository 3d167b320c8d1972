"""Small tables in memory whose streams are planned, and what of them a plan names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paimon_spark.engine.scan.incremental import Content
from paimon_spark.engine.scan.query import ScanQuery
from paimon_spark.engine.scan.stream_units import SnapshotUnits, plan_units
from paimon_spark.engine.tasks import DataSplit
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.manifests import CACHE
from paimon_spark.predicate.parse import parse_predicate
from paimon_spark.types import INT, STRING, DataField, RowType
from tests.harness.table_builder import File, TableBuilder

ROW = RowType(False, (DataField(0, "k", INT.with_nullable(False)), DataField(1, "v", INT), DataField(2, "p", STRING)))
QUERY = ScanQuery()


def keyed(**options: str) -> TableBuilder:
    return TableBuilder(TableSchema(0, ROW, 2, primary_keys=("k",), options={"bucket": "2", **options}))


def by_day(**options: str) -> TableBuilder:
    given = {"bucket": "2", **options}
    return TableBuilder(TableSchema(0, ROW, 2, partition_keys=("p",), primary_keys=("p", "k"), options=given))


def appended(**options: str) -> TableBuilder:
    return TableBuilder(TableSchema(0, ROW, 2, options={"bucket": "-1", **options}))


def file(name: str, low: int = 0, high: int = 9, **more: Any) -> File:
    more.setdefault("total_buckets", 2)
    return File(name, low={"k": low}, high={"k": high}, nulls={"k": 0}, **more)


def where(text: str) -> ScanQuery:
    return ScanQuery(predicate=parse_predicate(text, ROW, "UTC"))


def units(
    t: TableBuilder, content: Content, query: ScanQuery = QUERY, snapshot: Snapshot | None = None
) -> SnapshotUnits:
    CACHE.clear()
    found = snapshot or t.last
    assert found is not None
    return plan_units(t.open(), found, content, query)


def names(splits: Sequence[DataSplit]) -> list[str]:
    return [f.file_name for s in splits for f in s.files]


def unit_names(u: SnapshotUnits) -> list[list[str]]:
    return [names(u.splits(i, i + 1)) for i in range(len(u))]
