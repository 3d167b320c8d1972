"""Naming system tables, and what they refuse."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.errors import BranchNotFoundError, ColumnNotFoundError, InvalidInputError, InvalidOptionError
from paimon_spark.system_tables.registry import NAMES
from tests.harness.tables import MetadataTable, a_schema

SPEC = (
    "snapshots", "schemas", "options", "tags", "branches", "savepoints", "consumers", "files", "manifests",
    "partitions", "buckets", "audit_log", "binlog", "ro", "statistics", "aggregation_fields", "table_indexes",
)  # fmt: skip


@pytest.fixture
def table() -> MetadataTable:
    made = MetadataTable().schema(a_schema(options={"row-tracking.enabled": "true"})).snapshots([])
    return made.schema(branch="fix").snapshots([4], branch="fix")


def opened(table: MetadataTable, suffix: str, **options: str) -> Table:
    return paimon_spark.load_table(f"memory://{table.root}{suffix}", **options)


def test_every_system_table_of_the_contract_is_there_in_any_case(table: MetadataTable) -> None:
    assert set(SPEC) <= set(NAMES)
    for name in NAMES:
        scan = opened(table, "$" + name.upper()).scan()
        found = scan.to_arrow()
        assert found.schema.names == list(scan.row_type.names) != []
        assert [f.nullable for f in found.schema] == [f.type.nullable for f in scan.row_type]


def test_an_unknown_name_offers_the_nearest(table: MetadataTable) -> None:
    with pytest.raises(InvalidOptionError, match=r"no system table 'snapshot'; did you mean 'snapshots'"):
        opened(table, "$snapshot")
    with pytest.raises(InvalidOptionError, match=r"no system table 'zzz'; there are snapshots, .*\$branch_<name>"):
        opened(table, "$zzz")


def test_of_a_branch_by_name_and_by_option(table: MetadataTable) -> None:
    for t in (
        opened(table, "$branch_fix$snapshots"),
        opened(table, "$snapshots", branch="fix"),
        opened(table, "$snapshots").branch("fix"),
        pickle.loads(pickle.dumps(opened(table, "$branch_fix$snapshots"))),
    ):
        assert t.scan().to_arrow()["snapshot_id"].to_pylist() == [4]
    assert opened(table, "$snapshots").scan().to_arrow().num_rows == 0
    with pytest.raises(BranchNotFoundError):
        opened(table, "$branch_nope$snapshots")


def test_messages_and_the_plan_call_it_by_its_name(table: MetadataTable) -> None:
    t = opened(table, "$branch_fix$SNAPSHOTS")
    assert t.name.endswith("t$snapshots")
    assert "t$snapshots, branch fix" in str(t.scan().plan())
    with pytest.raises(ColumnNotFoundError, match=r"\$snapshots has no column 'snapshot'; did you mean 'snapshot_id'"):
        t.scan(columns=["snapshot"]).to_arrow()
    with pytest.raises(InvalidOptionError, match="'schema_id' is named twice"):
        t.scan(columns=["schema_id", "SCHEMA_ID"]).to_arrow()


WRITES: dict[str, Callable[[Table], object]] = {
    "written to": lambda t: t.write(pa.table({"k": [1]})),
    "deleted from": lambda t: t.delete("k = 1"),
    "updated": lambda t: t.update(None, {"k": "1"}),
    "merged into": lambda t: t.merge(None, on="t.k = s.k"),
    "altered": lambda t: t.alter(drop=["v"]),
}


@pytest.mark.parametrize("what", WRITES)
def test_they_are_only_read(table: MetadataTable, what: str) -> None:
    with pytest.raises(
        InvalidInputError, match=r"t\$files is a system table, which is only read; open table .*t itself"
    ):
        WRITES[what](opened(table, "$files"))
