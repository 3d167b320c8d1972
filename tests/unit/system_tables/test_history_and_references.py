"""$snapshots, $schemas, $options, $aggregation_fields, $tags, $branches, $savepoints, $consumers."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.errors import CorruptFileError, InvalidOptionError
from paimon_spark.format.metadata_files.snapshot import CommitKind, Tag, encode_tag
from paimon_spark.system_tables.history import duration_text
from paimon_spark.types import BIGINT, INT, STRING, ArrayType, DataField, RowType
from tests.harness.real_tables import a_catalog
from tests.harness.tables import MetadataTable, a_schema, a_snapshot

MS = 1_700_000_000_123
IN_UTC = {"time-zone": "UTC"}


def read(table: MetadataTable, name: str, branch: str = "main", **options: Any) -> list[dict[str, Any]]:
    suffix = "" if branch == "main" else f"$branch_{branch}"
    found = paimon_spark.load_table(f"memory://{table.root}{suffix}${name}", **{**IN_UTC, **options})
    return list(found.scan().to_arrow().to_pylist())


def test_snapshots_in_the_readers_zone() -> None:
    full = a_snapshot(
        2, MS, commit_kind=CommitKind.COMPACT, changelog_manifest_list="c", total_record_count=7, delta_record_count=-1,
        changelog_record_count=0, watermark=5, next_row_id=9, operation="COMPACT", commit_identifier=2**63 - 1,
    )  # fmt: skip
    table = MetadataTable().schema().snapshots([1, full])
    first, second = read(table, "snapshots")
    assert second == {
        "snapshot_id": 2,
        "schema_id": 0,
        "commit_user": "user",
        "commit_identifier": 2**63 - 1,
        "commit_kind": "COMPACT",
        "commit_time": datetime(2023, 11, 14, 22, 13, 20, 123000),
        "base_manifest_list": "manifest-list-2-0",
        "delta_manifest_list": "manifest-list-2-1",
        "changelog_manifest_list": "c",
        "total_record_count": 7,
        "delta_record_count": -1,
        "changelog_record_count": 0,
        "watermark": 5,
        "next_row_id": 9,
        "operation": "COMPACT",
    }
    assert first["commit_time"] == datetime(1970, 1, 1, 0, 0, 1)
    assert [first[k] for k in ("changelog_manifest_list", "total_record_count", "watermark", "operation")] == [None] * 4
    [_, there] = read(table, "snapshots", **{"time-zone": "Asia/Tokyo"})
    assert there["commit_time"] == datetime(2023, 11, 15, 7, 13, 20, 123000)
    [_, here] = paimon_spark.load_table(f"memory://{table.root}$snapshots").scan().to_arrow().to_pylist()
    assert here["commit_time"] == datetime.fromtimestamp(MS / 1000, UTC).astimezone().replace(tzinfo=None)


def test_snapshots_with_a_hole_and_none_at_all() -> None:
    table = MetadataTable().schema()
    assert read(table, "snapshots") == []
    table.snapshots([3, 7])
    assert [r["snapshot_id"] for r in read(table, "snapshots")] == [3, 7]


def test_schemas_are_compact_json() -> None:
    row = RowType(False, (DataField(0, "k", INT.with_nullable(False)), DataField(3, "é", STRING, "a 'c'", "x")))
    table = MetadataTable().schema(
        a_schema(row_type=row, primary_keys=("k",), options={"bucket": "2"}, comment="c", time_ms=MS)
    )
    table.schema(a_schema(1, time_ms=0))
    first, second = read(table, "schemas")
    assert json.loads(first["fields"])[1] == {
        "id": 3, "name": "é", "type": "STRING", "description": "a 'c'", "defaultValue": "x",
    }  # fmt: skip
    assert ": " not in first["fields"]
    assert first["fields"].startswith('[{"id":0,"name":"k","type":"INT NOT NULL"},{"id":3,"name":"é"')
    assert (first["partition_keys"], first["primary_keys"], first["options"]) == ("[]", '["k"]', '{"bucket":"2"}')
    assert first["update_time"] == datetime(2023, 11, 14, 22, 13, 20, 123000)
    assert (first["comment"], second["comment"]) == ("c", None)


def test_options_are_those_stored_now_and_not_of_this_read() -> None:
    table = MetadataTable().schema(a_schema(options={"bucket": "2"}))
    opened = paimon_spark.load_table(f"memory://{table.root}$options", **{"write-only": True})
    table.schema(a_schema(1, options={"bucket": "3", "write-buffer-size": "1 mb"}))
    assert opened.scan().to_arrow().to_pylist() == [
        {"key": "bucket", "value": "3"},
        {"key": "write-buffer-size", "value": "1 mb"},
    ]


def test_aggregation_fields_go_by_dots() -> None:
    nested = ArrayType(element=RowType(fields=(DataField(4, "a`b", INT, "it's", "1"),)))
    row = RowType(False, (DataField(0, "k", INT), DataField(1, "v", nested, "values"), DataField(2, "w", BIGINT)))
    options = {
        "fields.v.aggregate-function": "collect",
        "fields.v.distinct": "true",
        "fields.default-aggregate-function": "sum",
    }
    table = MetadataTable().schema(a_schema(row_type=row, options=options))
    k, v, w = read(table, "aggregation_fields")
    assert (k["function"], k["function_options"], w["function"]) == ("[]", "[]", "[]")
    assert v == {
        "field_name": "v",
        "field_type": "ARRAY<ROW<`a``b` INT COMMENT 'it''s' DEFAULT 1>>",
        "function": "[collect, true]",
        "function_options": "[fields.v.aggregate-function, fields.v.distinct]",
        "comment": "values",
    }


def test_tags_savepoints_and_guards() -> None:
    table = MetadataTable().schema().snapshots([5])
    table.tag("b", 5).tag("savepoint-3", a_snapshot(3, MS, total_record_count=4)).tag("branch-guard-fix", 5)
    lives = Tag("a", a_snapshot(4), datetime(2024, 2, 3, 4, 5, 6, 789000), 86400.0)
    table.put(table.layout().tag_path("a"), encode_tag(lives))
    rows = {r["tag_name"]: r for r in read(table, "tags")}
    assert list(rows) == ["a", "b", "branch-guard-fix", "savepoint-3"]
    assert rows["a"] == {
        "tag_name": "a",
        "snapshot_id": 4,
        "schema_id": 0,
        "commit_time": datetime(1970, 1, 1, 0, 0, 4),
        "record_count": None,
        "create_time": datetime(2024, 2, 3, 4, 5, 6, 789000),
        "time_retained": "PT24H",
        "tagged_snapshot_id": 4,
        "branches": [],
        "guarded_branch": None,
    }
    assert {n: r["guarded_branch"] for n, r in rows.items() if r["guarded_branch"]} == {"branch-guard-fix": "fix"}
    assert read(table, "savepoints") == [{"savepoint_id": 3, "schema_id": 0, "save_time": MS, "record_count": 4}]


def test_branches_know_their_tag_and_tags_their_branches(tmp_path: Any) -> None:
    catalog = a_catalog(tmp_path)
    catalog.create_table("db.t", pa.schema([("k", pa.int64())]))
    t = catalog.table("db.t")
    assert catalog.table("db.t$branches").scan().to_arrow().num_rows == 0
    t.write(pa.table({"k": [1]}))
    t.create_tag("v1")
    t.write(pa.table({"k": [2]}))
    t.create_branch("fix", tag="v1")
    t.create_branch("late", snapshot_id=2)
    before = datetime.now() + timedelta(minutes=1)  # noqa: DTZ005 - the reader's clock
    rows = catalog.table("db.t$branches").scan().to_arrow().to_pylist()
    shown = [(r["branch_name"], r["name"], r["tag_name"], r["tagged_snapshot_id"]) for r in rows]
    assert shown == [("fix", "fix", "v1", 1), ("late", "late", None, 2)]
    assert all(before - timedelta(hours=1) < r["create_time"] < before for r in rows)
    tags = {r["tag_name"]: (r["branches"], r["guarded_branch"]) for r in catalog.table("db.t$tags").scan(
        columns=["tag_name", "branches", "guarded_branch"]).to_arrow().to_pylist()}  # fmt: skip
    assert tags["v1"] == (["fix"], None)
    assert tags["branch-guard-fix"] == ([], "fix")
    assert catalog.table("db.t$branch_fix$snapshots").scan().to_arrow()["snapshot_id"].to_pylist() == [1]


def test_consumers_of_the_branch() -> None:
    table = MetadataTable().schema().schema(branch="b")
    assert read(table, "consumers") == []
    table.put(f"{table.layout().consumer_dir}/consumer-etl", b'{"nextSnapshot": 12}')
    table.put(f"{table.layout('b').consumer_dir}/consumer-other", b'{"nextSnapshot": 3}')
    assert read(table, "consumers") == [{"consumer_id": "etl", "next_snapshot_id": 12}]
    assert read(table, "consumers", "b") == [{"consumer_id": "other", "next_snapshot_id": 3}]
    table.put(f"{table.layout().consumer_dir}/consumer-bad", b"{}")
    with pytest.raises(CorruptFileError, match="consumer-bad"):
        read(table, "consumers")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "PT0S"), (86400, "PT24H"), (5400, "PT1H30M"), (61.5, "PT1M1.5S"), (0.001, "PT0.001S"), (3600.25, "PT1H0.25S")],
)
def test_durations_are_shown_as_java_does(seconds: float, shown: str) -> None:
    assert duration_text(seconds) == shown


@pytest.mark.parametrize("name", ["snapshots", "schemas", "options", "tags", "branches", "savepoints", "consumers"])
def test_history_has_no_version(name: str) -> None:
    table = MetadataTable().schema().snapshots([1])
    with pytest.raises(
        InvalidOptionError, match=rf"versionAsOf does not apply to .*\${name}: .*t\$branch_<name>\${name}"
    ):
        read(table, name, versionAsOf="1")
    with pytest.raises(InvalidOptionError, match=r"incremental-between does not apply to .*\$audit_log"):
        read(table, name, **{"incremental-between": "1,1"})
