"""`CALL sys.…`: every procedure, its arguments, its result and its refusals."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.catalog import Catalog
from paimon_spark.api.table import Table
from paimon_spark.errors import (
    BranchNotFoundError,
    InvalidInputError,
    InvalidOptionError,
    ProcedureNotFoundError,
    SnapshotNotFoundError,
    SqlSyntaxError,
    TagNotFoundError,
    UnsupportedFeatureError,
)
from paimon_spark.operations import PROCEDURES
from paimon_spark.sql.execute import parse
from paimon_spark.sql.names import CallContext
from paimon_spark.sql.procedures import Call, call, find_procedure
from paimon_spark.sql.statement import Query
from tests.harness.clock import StandingClock, age_files
from tests.harness.keywords import keywords

JAVA = """
rollback(table* STRING, version STRING, snapshot BIGINT, tag STRING)
rollback_to_timestamp(table* STRING, timestamp* BIGINT)
rollback_to_watermark(table* STRING, watermark* BIGINT)
purge_files(table* STRING)
create_tag(table* STRING, tag* STRING, snapshot BIGINT, time_retained STRING)
replace_tag(table* STRING, tag* STRING, snapshot BIGINT, time_retained STRING)
rename_tag(table* STRING, tag* STRING, target_tag* STRING)
create_tag_from_timestamp(table* STRING, tag* STRING, timestamp BIGINT, time_retained STRING)
delete_tag(table* STRING, tag* STRING)
expire_tags(table* STRING, older_than STRING)
create_branch(table* STRING, branch* STRING, tag STRING, ignoreIfExists STRING)
create_global_index(table* STRING, index_column* STRING, index_type* STRING, partitions STRING, options STRING)
drop_global_index(table* STRING, index_column* STRING, index_type* STRING, partitions STRING, dry_run BOOLEAN)
delete_branch(table* STRING, branch* STRING)
rename_branch(table* STRING, from_branch* STRING, to_branch* STRING)
compact(table* STRING, partitions STRING, compact_strategy STRING, order_strategy STRING, order_by STRING, \
where STRING, options STRING, partition_idle_time STRING, buckets STRING)
materialize_deletion_vectors(table* STRING, partitions STRING, options STRING, where STRING)
compact_database(including_databases STRING, including_tables STRING, excluding_tables STRING, options STRING)
compact_chain_table(table* STRING, partition* STRING, overwrite BOOLEAN)
rescale(table* STRING, bucket_num INT, partitions STRING, where STRING)
migrate_database(source_type* STRING, database* STRING, options STRING, options_map MAP<STRING, STRING>, \
parallelism INT)
migrate_table(source_type* STRING, table* STRING, options STRING, delete_origin BOOLEAN, target_table STRING, \
options_map MAP<STRING, STRING>, parallelism INT)
remove_orphan_files(table* STRING, older_than STRING, dry_run BOOLEAN, parallelism INT, mode STRING)
remove_unexisting_files(table* STRING, dry_run BOOLEAN, parallelism INT)
expire_snapshots(table* STRING, retain_max INT, retain_min INT, older_than STRING, max_deletes INT, options STRING)
expire_partitions(table* STRING, expiration_time STRING, timestamp_formatter STRING, timestamp_pattern STRING, \
expire_strategy STRING, max_expires INT, options STRING)
repair(database_or_table* STRING)
repair_earliest_snapshot(table* STRING, snapshot_id* BIGINT)
fast_forward(table* STRING, branch* STRING)
merge_branch(table* STRING, source_branch* STRING, target_branch STRING)
reset_consumer(table* STRING, consumerId* STRING, nextSnapshotId BIGINT)
mark_partition_done(table* STRING, partitions* STRING)
compact_manifest(table* STRING, options STRING, dry_run BOOLEAN, manifest_sort_enabled BOOLEAN, \
manifest_sort_partition_field STRING, manifest_sort_max_rewrite_size STRING)
clear_consumers(table* STRING, includingConsumers STRING, excludingConsumers STRING)
alter_view_dialect(view* STRING, action* STRING, engine STRING, query STRING)
create_function(function* STRING, inputParams* STRING, returnParams* STRING, deterministic BOOLEAN, comment STRING, \
options STRING)
alter_function(function* STRING, change* STRING)
drop_function(function* STRING)
trigger_tag_automatic_creation(table* STRING)
rewrite_file_index(table* STRING, where STRING)
copy(source_table* STRING, target_table* STRING, where STRING)
reassign_row_id(table* STRING, partitions STRING)
""".strip().splitlines()
"""The registry of Paimon's Spark connector, with `*` on what must be given."""


@pytest.mark.parametrize("line", JAVA, ids=lambda line: line.partition("(")[0])
def test_every_procedure_of_paimons_connector_is_known_with_its_signature(line: str) -> None:
    name = line.partition("(")[0]
    forms = find_procedure(name)
    signatures = [
        f"{name}("
        + ", ".join(f"{p.name}{'*' * p.required} {p.type.value}" for p in form.parameters if not p.is_own)
        + ")"
        for form in forms
    ]
    assert line in signatures
    assert not forms[0].is_own


def test_what_is_ours_is_marked_and_everything_says_what_it_does() -> None:
    names = {line.partition("(")[0] for line in JAVA}
    assert {name for name, forms in PROCEDURES.items() if not forms[0].is_own} == names
    for forms in PROCEDURES.values():
        assert all(form.sentence.endswith(".") for form in forms)
        assert not forms[0].instead or all(form.instead for form in forms)
        assert all(parameter.help for form in forms for parameter in form.parameters)


@pytest.mark.parametrize("name", sorted(name for name, forms in PROCEDURES.items() if forms[0].instead))
def test_what_cannot_be_done_is_refused_with_what_to_do_instead(name: str, catalog: Catalog) -> None:
    (procedure,) = PROCEDURES[name]
    values: dict[str, Any] = {"BIGINT": 1, "INT": 1, "BOOLEAN": True, "STRING": "db.t"}
    with pytest.raises(UnsupportedFeatureError, match=f"sys.{name} is not available here: ") as e:
        call(catalog, name, [], {p.name: values[p.type.value] for p in procedure.parameters if p.required})
    assert procedure.instead in str(e.value)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    catalog = paimon_spark.load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    return catalog


@pytest.fixture
def table(catalog: Catalog) -> Table:
    """Three snapshots, one row each."""
    table = catalog.create_table("db.t", "k BIGINT, v STRING")
    for i in (1, 2, 3):
        table.write(pa.table({"k": [i], "v": ["x"]}))
    return table


@pytest.fixture
def run(catalog: Catalog, table: Table) -> Callable[..., list[tuple[Any, ...]]]:
    """Call a procedure on `db.t`."""

    def run(name: str, *positional: object, **named: object) -> list[tuple[Any, ...]]:
        return list(call(catalog, name, ["db.t", *positional], named).rows)

    return run


def keys(table: Table, version: str | int | None = None) -> list[int]:
    return sorted(table.scan(version=version).to_arrow().column("k").to_pylist())


Run = Callable[..., list[tuple[Any, ...]]]


def test_tags_are_made_moved_renamed_and_deleted(table: Table, run: Run) -> None:
    assert run("create_tag", "a", 2, "7 d") == [(True,)]
    assert run("create_tag", tag="b") == [(True,)]
    assert {t.name: t.snapshot.id for t in table.tags()} == {"a": 2, "b": 3}
    assert run("REPLACE_TAG", "a", snapshot="1") == [(True,)]
    assert run("rename_tag", "a", target_tag="c") == [(True,)]
    assert {t.name: t.snapshot.id for t in table.tags()} == {"c": 1, "b": 3}
    with pytest.raises(TagNotFoundError):
        run("rename_tag", "a", "d")
    assert run("delete_tag", "c, gone,b") == [(True,)]
    assert run("delete_tag", "gone") == [(True,)]
    assert table.tags() == []


def test_a_tag_is_made_of_the_first_snapshot_since_a_moment(table: Table, run: Run) -> None:
    second = table.snapshots()[1]
    assert run("create_tag_from_timestamp", "a", second.time_ms) == [("a", 2, second.time_ms, "null")]
    with pytest.raises(SnapshotNotFoundError, match="at or after 99999999999999"):
        run("create_tag_from_timestamp", "b", 99999999999999)
    with pytest.raises(InvalidInputError, match="needs timestamp"):
        run("create_tag_from_timestamp", "b")
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert run("create_tag_from_timestamp", "c", 0)[0][:2] == ("c", 2), "expired snapshots are found by their tags"


DRY_RUNS: dict[str, tuple[dict[str, Any], str]] = {
    "expire_snapshots": ({"retain_max": 1, "retain_min": 1}, "would expire: 1 snapshot (1)"),
    "expire_changelogs": ({"delete_all": True}, "would expire"),
    "expire_tags": ({"older_than": "9999-01-01 00:00:00"}, "would expire"),
    "expire_partitions": ({"expiration_time": "1 d"}, "partition"),
    "delete_tag": ({"tag": "a"}, "would delete tag a of db.t"),
    "replace_tag": ({"tag": "a", "snapshot": 3}, "would move tag a of db.t"),
    "delete_branch": ({"branch": "fix"}, "would delete branch fix of db.t"),
    "delete_savepoint": ({"savepoint_id": 2}, "would delete savepoint 4 of db.t"),
    "rollback": ({"version": "1"}, "would"),
    "rollback_to_timestamp": ({"timestamp": 99999999999999}, "snapshot"),
    "rollback_to_watermark": ({"watermark": 100}, "snapshot"),
    "fast_forward": ({"branch": "fix"}, "would"),
    "replace_main": ({"branch": "fix"}, "would"),
    "undo": ({}, "would"),
    "purge_files": ({}, "would purge db.t"),
    "reset_consumer": ({"consumerId": "c"}, "would remove consumer c"),
    "clear_consumers": ({}, "would remove 1 consumer"),
}


def test_every_procedure_that_deletes_has_a_dry_run_that_changes_nothing(catalog: Catalog, tmp_path: Path) -> None:
    names = {n for n, forms in PROCEDURES.items() if any(f.effect == "delete" for f in forms)}
    assert all("dry_run" in [p.name for p in PROCEDURES[n][0].parameters] for n in names)
    covered = DRY_RUNS.keys() | {"merge_branch", "remove_orphan_files", "forget_lineage_job", "prepare"}
    assert names <= covered
    for name, (arguments, said) in DRY_RUNS.items():
        table = catalog.create_table(f"db.{name}", "k BIGINT, v STRING, p STRING", partition_keys=["p"])
        for i in (1, 2, 3):
            written = keywords({"end-input.watermark": "100"}) if i == 3 else {}
            table.write(pa.table({"k": [i], "v": ["x"], "p": ["2020-01-01"]}), **written)
        table.create_tag("a", snapshot_id=2)
        table.create_branch("fix", version=3)
        table.branch("fix").write(pa.table({"k": [9], "v": ["x"], "p": ["2020-01-01"]}))
        table.reset_consumer("c", next_snapshot=2)
        if name == "delete_savepoint":
            arguments = {"savepoint_id": table.create_savepoint().id}
        if name == "undo":
            table.rollback_to(2, backup=True)
        files = sorted(p for p in (tmp_path / "db.db" / name).rglob("*") if p.is_file())
        returned = call(catalog, name, [f"db.{name}"], {**arguments, "dry_run": True})
        assert returned.columns.endswith(", would_do STRING")
        assert said in returned.rows[0][-1].replace(f"db.{name}", "db.t")
        assert sorted(p for p in (tmp_path / "db.db" / name).rglob("*") if p.is_file()) == files, name


def test_tags_expire_and_are_named(run: Run, clock: StandingClock) -> None:
    run("create_tag", "short", time_retained="1 ms")
    run("create_tag", "long")
    clock.advance(2)
    assert run("expire_tags") == [("short",)]
    assert run("expire_tags") == [("No expired tags.",)]
    assert run("expire_tags", older_than="9999-01-01 00:00:00") == [("long", datetime(9999, 1, 1, tzinfo=UTC))]


@pytest.mark.usefixtures("noon")
def test_automatic_tags_are_made_when_asked(table: Table, run: Run) -> None:
    assert run("trigger_tag_automatic_creation") == [(True,)]
    assert table.tags() == []
    table.alter(set_options={"tag.automatic-creation": "process-time", "tag.creation-period": "daily"})
    assert run("trigger_tag_automatic_creation") == [(True,)]
    assert len(table.tags()) == 1


def test_a_branch_goes_back_to_a_version(table: Table, run: Run) -> None:
    run("create_tag", "a", 2)
    assert run("rollback", version="2") == [(3, 2)]
    assert run("rollback", "a") == [(2, 2)]
    assert run("rollback", tag="a") == [(2, 2)]
    assert keys(table) == [1, 2]
    assert run("rollback", snapshot=1) == [(2, 1)]
    assert keys(table) == [1]
    for wrong in ({}, {"version": "1", "tag": "a"}, {"snapshot": 1, "tag": "a"}):
        with pytest.raises(InvalidInputError, match="exactly one of version, snapshot and tag"):
            run("rollback", **wrong)


def test_a_branch_goes_back_to_a_time_or_a_watermark(table: Table, run: Run) -> None:
    with pytest.raises(SnapshotNotFoundError, match="watermark of at most 9"):
        run("rollback_to_watermark", 9)
    with pytest.raises(SnapshotNotFoundError, match="at or before 0"):
        run("rollback_to_timestamp", 0)
    for i, watermark in ((4, 100), (5, 200)):
        table.write(pa.table({"k": [i], "v": ["x"]}), **keywords({"end-input.watermark": str(watermark)}))
    assert run("rollback_to_watermark", 150) == [(5, 4)]
    assert run("rollback_to_as_latest", "2") == [(4, 5)]
    assert keys(table) == [1, 2]
    first = table.snapshots()[0]
    assert run("rollback_to_timestamp", first.time_ms) == [(5, 1)]


def test_branches_live_and_are_published(catalog: Catalog, table: Table, run: Run) -> None:
    run("create_tag", "a", 2)
    assert run("create_branch", "fix", "a") == [(True,)]
    assert run("create_branch", "fix", ignore_if_exists="true") == [(True,)]
    assert run("create_branch", "empty") == [(True,)]
    assert run("create_branch", "third", snapshot=3) == [(True,)]
    assert keys(table.branch("fix")) == [1, 2]
    assert keys(table.branch("empty")) == []
    assert keys(table.branch("third")) == [1, 2, 3]
    assert call(catalog, "create_tag", ["db.t$branch_fix", "b"]).rows == ((True,),)
    assert [t.name for t in table.branch("fix").tags() if t.name == "b"] == ["b"]
    assert run("rename_branch", "third", "fourth") == [(True,)]
    with pytest.raises(BranchNotFoundError):
        run("delete_branch", "fourth,gone")
    assert {b.name for b in table.branches()} == {"fix", "empty", "fourth"}
    assert run("delete_branch", "fourth, empty") == [(True,)]
    table.branch("fix").write(pa.table({"k": [9], "v": ["y"]}))
    assert run("fast_forward", "fix") == [(True,)]
    assert keys(table) == [1, 2, 9]
    table.write(pa.table({"k": [10], "v": ["z"]}))
    assert run("merge_branch", "fix") == [(True, table.snapshots()[-1].id, 0, None, True, None, None, None)]
    assert keys(table) == [1, 2, 9, 10]
    assert run("fast_forward", "fix") == [(True,)]
    assert keys(table) == [1, 2, 9], "as Paimon's, it takes main back"


def test_merge_branch_is_pip_14s_and_with_source_branch_paimons(catalog: Catalog, table: Table, run: Run) -> None:
    run("create_branch", "fix", snapshot=2)
    table.branch("fix").write(pa.table({"k": [9], "v": ["y"]}))
    assert run("merge_branch", source_branch="fix") == [(True,)]
    assert keys(table) == [1, 2, 3, 9]
    run("create_branch", "other", snapshot=2)
    assert run("merge_branch", "fix", "other") == [(True,)], "three arguments are those of Paimon's"
    assert keys(table.branch("other")) == [1, 2, 9]
    ((result, head, discarded, backup, already, lost, gained, by_partition),) = run("merge_branch", "fix")
    assert (result, discarded, already) == (True, 2, False)
    assert (lost, gained, by_partition) == (1, 0, ""), "row 9 is in a file that both have"
    assert keys(table) == [1, 2, 9]
    assert table.snapshots()[-1].id == head
    assert keys(table.branch(backup)) == [1, 2, 3, 9]
    assert run("merge_branch", branch="fix", backup=False)[0][2:5] == (0, None, True)
    with pytest.raises(InvalidInputError, match="needs branch"):
        run("merge_branch")


def test_main_is_replaced_by_a_branch(table: Table, run: Run, catalog: Catalog) -> None:
    run("create_branch", "fix", snapshot=2)
    ((result, discarded, backup, warning),) = run("replace_main", "fix")
    assert (result, discarded) == (True, 1)
    assert "MAIN-BRANCH" in warning
    assert keys(catalog.table("db.t")) == [1, 2]
    assert keys(catalog.table(f"db.t$branch_{backup}")) == [1, 2, 3]


def test_savepoints_are_made_and_deleted(table: Table, run: Run) -> None:
    ((savepoint,),) = run("create_savepoint")
    assert [s.id for s in table.savepoints()] == [savepoint]
    assert run("delete_savepoint", savepoint) == [(True,)]
    assert table.savepoints() == []


def test_the_doctor_tells_and_mends(table: Table, run: Run) -> None:
    assert run("doctor") == []
    (Path(table.location.removeprefix("file://")) / "snapshot" / "LATEST").write_text("99")
    ((*_, remedy, _),) = run("doctor")
    assert remedy.startswith("CALL sys.doctor(table => '") and "…" not in remedy and "', repair => true)" in remedy
    ((kind, severity, branch, _, _, repaired),) = run("doctor", repair=True)
    assert (kind, severity, branch, repaired) == ("stale-hint", severity, "main", True)
    assert run("doctor") == []


def test_snapshots_expire_and_are_counted(table: Table, run: Run) -> None:
    assert run("expire_snapshots", retain_max=2, retain_min=1, options="snapshot.expire.limit=1") == [(1,)]
    assert [s.id for s in table.snapshots()] == [2, 3]
    assert run("expire_snapshots", 10, 1, "2001-01-01 00:00:00") == [(0, datetime(2001, 1, 1, tzinfo=UTC))]
    expired = run("expire_snapshots", older_than="9999-01-01 00:00:00", retain_min=1, max_deletes=5)
    assert expired == [(1, datetime(9999, 1, 1, tzinfo=UTC))]
    with pytest.raises(InvalidOptionError, match="key=value"):
        run("expire_snapshots", options="snapshot.expire.limit")
    assert run("expire_changelogs", delete_all=True) == [(0,)]


def test_partitions_expire_are_named_and_can_be_marked_done(catalog: Catalog) -> None:
    table = catalog.create_table("db.p", "k INT, dt STRING, hr INT", partition_keys=["dt", "hr"])
    table.write(pa.table({"k": [1, 2], "dt": ["2001-01-01", "2999-01-01"], "hr": [1, 2]}))
    expire = {"expiration_time": "1 d", "timestamp_formatter": "yyyy-MM-dd", "timestamp_pattern": "$dt"}
    assert call(catalog, "expire_partitions", ["db.p"], expire).rows == (("dt=2001-01-01, hr=1",),)
    assert call(catalog, "expire_partitions", ["db.p"], expire).rows == (("No expired partitions.",),)
    assert call(catalog, "mark_partition_done", ["db.p", "dt=2999-01-01,hr=2;dt=a b"]).rows == ((True,),)
    root = Path(table.location.removeprefix("file://"))
    done = json.loads((root / "dt=2999-01-01" / "hr=2" / "_SUCCESS").read_text())
    assert done["creationTime"] == done["modificationTime"]
    call(catalog, "mark_partition_done", ["db.p", "dt=2999-01-01,hr=2"])
    again = json.loads((root / "dt=2999-01-01" / "hr=2" / "_SUCCESS").read_text())
    assert again["creationTime"] == done["creationTime"] <= again["modificationTime"]
    assert (root / "dt=a b" / "_SUCCESS").exists()
    with pytest.raises(InvalidInputError, match="needs values of dt, hr, or of the first of them; found hr"):
        call(catalog, "mark_partition_done", ["db.p", "hr=2"])
    table.alter(set_options={"partition.mark-done-action": "success-file,mark-event"})
    with pytest.raises(UnsupportedFeatureError, match="mark-event"):
        call(catalog, "mark_partition_done", ["db.p", "dt=2999-01-01,hr=2"])


def test_files_are_compacted(catalog: Catalog, clock: StandingClock) -> None:
    table = catalog.create_table(
        "db.k",
        "k INT, dt STRING",
        primary_keys=["k", "dt"],
        partition_keys=["dt"],
        options={"bucket": 1, "write-only": True},
    )
    for _ in (1, 2):
        table.write(pa.table({"k": [1, 1], "dt": ["a", "b"]}))

    def files() -> dict[str, int]:
        found = catalog.table("db.k$files").scan().to_arrow()
        counts = found.group_by("partition").aggregate([("file_path", "count")]).to_pylist()
        return {row["partition"]: row["file_path_count"] for row in counts}

    assert files() == {"{a}": 2, "{b}": 2}
    assert call(catalog, "compact", ["db.k"], {"partition_idle_time": "1 d"}).rows == ((True,),)
    assert files() == {"{a}": 2, "{b}": 2}
    assert call(catalog, "compact", ["db.k", "dt=a"]).rows == ((True,),)
    assert files() == {"{a}": 1, "{b}": 2}
    assert call(catalog, "compact", ["db.k"], {"where": "dt > 'a'", "order_strategy": "NONE"}).rows == ((True,),)
    assert files() == {"{a}": 1, "{b}": 1}
    table.write(pa.table({"k": [1, 1], "dt": ["a", "b"]}))
    clock.advance(2)
    call(catalog, "compact", ["db.k"], {"partition_idle_time": "1 ms", "options": "num-levels=5"})
    assert files() == {"{a}": 1, "{b}": 1}
    assert call(catalog, "compact_manifest", ["db.k"], {"dry_run": True}).rows == ((True,),)
    assert call(catalog, "compact_manifest", ["db.k"]).rows == ((True,),)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"partitions": "dt=a", "where": "dt = 'a'"},
            "partitions and where both choose partitions of table .*; give one of them",
        ),
        ({"order_strategy": "zorder"}, "order_by = nothing for table .*: expected columns"),
        ({"order_by": "k"}, "cannot work with order_by"),
        ({"buckets": "1-2"}, "single buckets"),
        ({"compact_strategy": "huge"}, "full or minor"),
        ({"partition_idle_time": "1 d", "where": "k = 1"}, "partition_idle_time cannot be used with"),
        ({"partition_idle_time": "1 d"}, "has no partitions that could be idle"),
    ],
)
def test_compaction_that_cannot_be_is_refused(run: Run, arguments: dict[str, str], message: str) -> None:
    with pytest.raises((InvalidInputError, UnsupportedFeatureError), match=message):
        run("compact", **arguments)


def test_manifests_are_not_sorted(run: Run) -> None:
    with pytest.raises(UnsupportedFeatureError, match="leave manifest_sort_enabled out"):
        run("compact_manifest", manifest_sort_enabled=True)
    with pytest.raises(UnsupportedFeatureError, match="leave manifest_sort_partition_field out"):
        run("compact_manifest", manifest_sort_partition_field="dt")


def test_databases_are_compacted_and_failures_counted(catalog: Catalog, table: Table) -> None:
    catalog.create_database("other")
    catalog.create_table("other.u", "k INT")
    catalog.create_table("other.v", "k INT")
    assert call(catalog, "compact_database").rows == (("Compact database finished. Success: 3, Failed: 0",),)
    chosen = {"including_databases": "other|x", "including_tables": r"other\..", "excluding_tables": ".*v"}
    assert call(catalog, "compact_database", [], chosen).rows == (
        ("Compact database finished. Success: 1, Failed: 0",),
    )
    for path in Path(table.location.removeprefix("file://")).glob("schema/*"):
        path.write_text("{")
    assert call(catalog, "compact_database", ["db"]).rows == (("Compact database finished. Success: 0, Failed: 1",),)
    with pytest.raises(InvalidInputError, match="not a regular expression"):
        call(catalog, "compact_database", ["("])


def test_orphans_go_from_a_table_or_a_database(catalog: Catalog, table: Table, run: Run) -> None:
    orphan = Path(table.location.removeprefix("file://")) / "bucket-0" / "data-x.parquet"
    orphan.write_bytes(b"12345")
    assert run("remove_orphan_files") == [(0, 0)]
    age_files(orphan.parent)
    moment_ms = int(time.time() * 1000) - 1
    soon, at = {"older_than": str(moment_ms), "parallelism": 5}, datetime.fromtimestamp(moment_ms / 1000, UTC)
    assert run("remove_orphan_files", dry_run=True, **soon) == [(1, 5, at)]
    assert call(catalog, "remove_orphan_files", ["db.*"], {**soon, "mode": "LOCAL"}).rows == ((1, 5, at),)
    assert not orphan.exists()
    with pytest.raises(InvalidInputError, match="mode"):
        run("remove_orphan_files", mode="far")


def test_everything_is_purged(table: Table, run: Run) -> None:
    assert run("purge_files") == [("Success",)]
    assert keys(table) == []


def test_consumers_are_reset_and_cleared(table: Table, run: Run) -> None:
    assert run("reset_consumer", "a1", 2) == [(True,)]
    assert run("reset_consumer", consumer_id="a2", NextSnapshotId=3) == [(True,)]
    assert run("reset_consumer", consumerId="b", nextSnapshotId=3) == [(True,)]
    assert {c.name: c.next_snapshot for c in table.consumers()} == {"a1": 2, "a2": 3, "b": 3}
    assert run("clear_consumers", "a.*", "a2") == [(True,)]
    assert {c.name for c in table.consumers()} == {"a2", "b"}
    assert run("reset_consumer", "b") == [(True,)]
    assert run("clear_consumers", includingConsumers="", excludingConsumers="a2") == [(True,)]
    assert {c.name for c in table.consumers()} == {"a2"}
    assert run("clear_consumers") == [(True,)]
    assert table.consumers() == []


def test_lineage_is_switched(catalog: Catalog, table: Table, caplog: pytest.LogCaptureFixture) -> None:
    assert call(catalog, "enable_lineage").rows == ((True,),)
    assert "1 table keeps snapshots for less than a week" in caplog.text
    assert catalog.lineage.is_enabled
    assert call(catalog, "rebuild_lineage").rows == ((True,),)
    with pytest.raises(paimon_spark.errors.PaimonError, match="nobody"):
        call(catalog, "forget_lineage_job", ["nobody"])
    assert call(catalog, "disable_lineage").rows == ((True,),)
    assert not catalog.lineage.is_enabled


@pytest.mark.parametrize(
    ("positional", "named", "message"),
    [
        ([], [], "sys.create_tag needs table; it is sys.create_tag\\(table STRING, tag STRING, \\[snapshot BIGINT\\]"),
        (["db.t", None], [], "needs tag"),
        (["db.t"], [("tag", None)], "needs tag"),
        (["db.t", "a"], [("tag", "b")], "is given tag twice"),
        (["db.t", "a"], [("time_retained", "1 d"), ("TIMERETAINED", "2 d")], "is given time_retained twice"),
        (["db.t", "a"], [("snapshott", 1)], "has no parameter 'snapshott'; did you mean 'snapshot'"),
        (["db.t", "a", 1, "1 d", 5], [], "takes at most 4 arguments without names, found 5"),
        (["db.t", "a", "x"], [], "takes snapshot as BIGINT, found 'x'"),
        (["db.t", "a", True], [], "takes snapshot as BIGINT, found True"),
        (["db.t", "a", Decimal("1.5")], [], "takes snapshot as BIGINT"),
        (["db.t", "a", 1 << 63], [], "takes snapshot as BIGINT"),
        (["db.t", {"a": "b"}], [], "takes tag as STRING"),
    ],
)
def test_wrong_arguments_are_refused_with_the_signature(
    catalog: Catalog, positional: list[object], named: list[tuple[str, object]], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message) as e:
        call(catalog, "create_tag", positional, named)
    assert "it is sys.create_tag(table STRING" in str(e.value)


def test_numbers_and_truths_come_as_text_too(table: Table, run: Run) -> None:
    assert run("create_tag", "a", "2") == [(True,)]
    assert run("create_tag", "b", Decimal(1), None) == [(True,)]
    assert {t.name: t.snapshot.id for t in table.tags()} == {"a": 2, "b": 1}
    assert run("remove_orphan_files", dry_run="TRUE") == [(0, 0)]
    with pytest.raises(InvalidInputError, match="takes dry_run as BOOLEAN, found 'yes'"):
        run("remove_orphan_files", dry_run="yes")


def test_tables_are_named_in_all_ways(catalog: Catalog, table: Table) -> None:
    here = CallContext(catalog, "db")
    for i, name in enumerate(["t", "db.t", "paimon.db.t", "`db`.`t`", "PAIMON.db.t", "t$branch_main"]):
        call(here, "create_tag", [name, f"tag{i}"])
    assert len(table.tags()) == 6
    for wrong in ("", "a.b.db.t", "other.db.t", "db.t x"):
        with pytest.raises(InvalidInputError):
            call(here, "create_tag", [wrong, "x"])
    with pytest.raises(InvalidInputError, match=r"db\.t\$tags is a system table"):
        call(here, "create_tag", ["t$tags", "x"])
    odd = catalog.create_table("db.`a.b ü`", "k BIGINT")
    odd.write(pa.table({"k": [1]}))
    call(here, "create_tag", ["`a.b ü`", "x"])
    assert [t.name for t in odd.tags()] == ["x"]


def test_an_unknown_procedure_is_refused_with_the_nearest_names(catalog: Catalog) -> None:
    with pytest.raises(ProcedureNotFoundError, match=r"sys\.create_tags; did you mean 'create_tag'"):
        call(catalog, "create_tags", [])


def test_a_call_is_read() -> None:
    found = parse("CALL Paimon.sys.create_tag('t', `tag` => 'a', Snapshot => 1 + (2), x => map('a', 'b'));")
    assert isinstance(found, Call)
    assert (found.name, found.positional) == ("create_tag", ("'t'",))
    assert found.named == (("tag", "'a'"), ("Snapshot", "1 + (2)"), ("x", "map('a', 'b')"))
    empty = parse("call `sys`.`compact_database`()")
    assert isinstance(empty, Call)
    assert (empty.name, empty.positional, empty.named) == ("compact_database", (), ())


@pytest.mark.parametrize(
    "sql", ["CALL spark_catalog.other.x()", "CALL other.rollback_to_snapshot('t', 1)", "CALL f(1)", "CALL a.b.c.d()"]
)
def test_calls_of_other_catalogs_are_sparks(sql: str) -> None:
    assert isinstance(parse(sql), Query)


@pytest.mark.parametrize(
    "sql",
    [
        "CALL sys.create_tag",
        "CALL sys.create_tag('t'",
        "CALL sys.create_tag('t',)",
        "CALL sys.create_tag(,'t')",
        "CALL sys.create_tag(table => )",
        "CALL sys.create_tag(table => 't', 'a')",
        "CALL sys.create_tag('t') x",
    ],
)
def test_a_call_written_wrongly_is_refused(sql: str) -> None:
    with pytest.raises(SqlSyntaxError):
        parse(sql)


def test_prepare_by_call(catalog: Catalog, table: Table) -> None:
    catalog.create_table("db.sums", "id BIGINT")
    made = call(catalog, "prepare", ["db.t,db.sums"], {"keep": "14 d", "tags": "daily", "only": True})
    assert ("db.sums", "snapshot.time-retained", "14 d") in made.rows
    assert catalog.table("db.t").handle.schema.options["tag.creation-period"] == "daily"
    assert catalog.lineage.is_enabled
    assert call(catalog, "prepare", named={"tables": "db.t"}).rows == ()
