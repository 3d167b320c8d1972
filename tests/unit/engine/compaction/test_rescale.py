"""Rescaling: the same rows in another number of buckets, of every kind of table, beside other writers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.engine.commit.committer import Committer
from paimon_spark.engine.commit.requests import PlannedOn
from paimon_spark.engine.compaction import rescale
from paimon_spark.engine.compaction.plan import buckets_of
from paimon_spark.engine.compaction.rescale import RescaleTask, rescale_branch, run_rescale_task
from paimon_spark.engine.tasks import CommitMessage
from paimon_spark.errors import (
    CommitConflictError,
    DataError,
    InvalidInputError,
    UnsupportedFeatureError,
)
from paimon_spark.format import binary_row
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.jobs.upkeep import compaction
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.types import INT
from tests.harness.fault_store import FaultStore, killed_at_each_change
from tests.harness.table_files import files_on_disk, missing_files, reachable_files
from tests.harness.writing import written

KEYS = 400


def rows_of(first: int, count: int, value: int) -> pa.Table:
    k = range(first, first + count)
    return pa.table({"p": pa.array([i % 3 for i in k], pa.int32()), "k": list(k), "v": [i + value for i in k]})


def made(path: Path, primary_keys: Sequence[str] = ("p", "k"), **options: str) -> paimon_spark.Table:
    """A table of three partitions and four buckets, written three times."""
    catalog = paimon_spark.load_catalog(str(path))
    catalog.create_database("d")
    table = catalog.create_table(
        "d.t",
        "p INT, k BIGINT, v BIGINT",
        primary_keys=list(primary_keys),
        partition_keys=["p"],
        options={"bucket": "4", **{key.replace("_", "-"): value for key, value in options.items()}},
    )
    for rows in (rows_of(0, KEYS, 0), rows_of(0, KEYS // 2, 1000), rows_of(KEYS // 4, KEYS // 4, 2000)):
        table.write(rows)
    return table


def content(table: paimon_spark.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.scan().to_arrow().to_pylist()
    return sorted(rows, key=lambda r: tuple(r.values()))


def totals(table: paimon_spark.Table) -> dict[int, tuple[set[int], int]]:
    """For each bucket number of all partitions together: the numbers of buckets said, and how many files."""
    head = latest_snapshot(table.handle)
    assert head is not None
    entries = live_entries(table.handle, data_manifests(table.handle, head)).to_pylist()
    out: dict[int, tuple[set[int], int]] = {}
    for e in entries:
        found, count = out.get(e["bucket"], (set(), 0))
        out[e["bucket"]] = (found | {e["total_buckets"]}, count + 1)
    return out


KINDS: dict[str, dict[str, Any]] = {
    "keys": {},
    "append": {"primary_keys": (), "bucket_key": "k"},
    "vectors": {"deletion_vectors.enabled": "true"},
    "lookup": {"changelog_producer": "lookup"},
    "full": {"changelog_producer": "full-compaction"},
    "first row": {"merge_engine": "first-row"},
    "aggregation": {"merge_engine": "aggregation", "fields.v.aggregate_function": "sum"},
    "partial": {"merge_engine": "partial-update"},
    "mod": {"bucket_function.type": "mod", "bucket_key": "k"},
}
"""Options of the kinds of tables."""


@pytest.mark.ci
@pytest.mark.parametrize(
    ("kind", "buckets"), [*((kind, 6) for kind in KINDS), ("keys", 1), ("append", 3), ("keys", 20)]
)
def test_rows_stay_and_later_writes_go_on(tmp_path: Path, kind: str, buckets: int) -> None:
    table = made(tmp_path, **KINDS[kind])
    before = content(table)
    done = table.rescale(buckets)
    head = table.snapshots()[-1]
    assert head.commit_kind is CommitKind.OVERWRITE
    assert done.snapshot_ids[-1] == head.id
    assert content(table) == before
    assert {frozenset(found) for found, _ in totals(table).values()} == {frozenset({buckets})}
    assert set(totals(table)) <= set(range(buckets))
    assert all(count <= 3 for _, count in totals(table).values()), "one file for each partition"
    assert table.rescale(buckets).snapshot_ids == ()

    with pytest.raises(CommitConflictError, match=f"in {buckets} buckets"):
        table.write(rows_of(0, 10, 5000))
    table = table.alter(set_options={"bucket": buckets})
    table.write(rows_of(KEYS, 50, 0))
    assert len(content(table)) == len(before) + 50
    assert table.scan(where=f"k = {KEYS + 7}").to_arrow().num_rows == 1
    assert missing_files(table.handle) == []
    table.expire_snapshots(1, retain_min=1)
    assert {f.path for f in files_on_disk(table.handle)} <= reachable_files(table.handle)


def test_only_chosen_partitions_change(tmp_path: Path) -> None:
    table = made(tmp_path)
    before = content(table)
    table.rescale(2, partitions={"p": 1})
    assert content(table) == before
    assert {(f["partition"], f["total_buckets"]) for f in files(table)} == {("{0}", 4), ("{1}", 2), ("{2}", 4)}
    table.rescale(8, where="p > 1")
    assert {(f["partition"], f["total_buckets"]) for f in files(table)} == {("{0}", 4), ("{1}", 2), ("{2}", 8)}
    table.rescale()
    assert {f["total_buckets"] for f in files(table)} == {4}
    assert content(table) == before


def files(table: paimon_spark.Table) -> list[dict[str, Any]]:
    """Live files with their partition and number of buckets."""
    head = latest_snapshot(table.handle)
    assert head is not None
    entries = live_entries(table.handle, data_manifests(table.handle, head)).to_pylist()
    return [{**e, "partition": f"{{{binary_row.decode(e['partition'], [INT])[0]}}}"} for e in entries]


def test_deletes_and_rows_of_every_level_come_along(tmp_path: Path) -> None:
    table = made(tmp_path, write_only="true")
    table.delete("k < 100")
    table.compact()
    table.write(rows_of(50, 10, 7))
    before = content(table)
    table.rescale(8)
    assert content(table) == before
    assert len(before) == KEYS - 90
    assert {f["level"] for f in files(table)} == {table.options.num_levels - 1}
    assert sum(f["delete_row_count"] for f in files(table)) == 0


def test_many_new_buckets_are_written_by_several_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path, **KINDS["vectors"])
    before = content(table)
    monkeypatch.setattr(rescale, "_OPEN_FILES", 2)
    head = latest_snapshot(table.handle)
    assert head is not None
    buckets = buckets_of(live_entries(table.handle, data_manifests(table.handle, head)))
    tasks = rescale.rescale_tasks(table.handle, buckets, {}, 10)
    assert len(tasks) == 3 * 2 * 3  # partitions, buckets modulo 2, two of five at a time
    assert sorted(t for task in tasks[:6] for t in task.targets) == sorted([*range(10)]) or len(tasks) > 6
    table.rescale(10)
    assert content(table) == before


def test_a_write_meanwhile_makes_it_begin_again(tmp_path: Path) -> None:
    table = made(tmp_path)
    turns: list[int] = []

    def slow(
        handle: TableHandle, head: Snapshot, tasks: Sequence[RescaleTask], user: str
    ) -> Sequence[list[CommitMessage]]:
        done = [run_rescale_task(handle, head, task, user) for task in tasks]
        turns.append(len(tasks))
        if len(turns) == 1:
            paimon_spark.load_table(table.location).write(rows_of(0, 3, 9000))
        return done

    rescale_branch(table.handle, 8, slow)
    assert len(turns) == 2
    assert {row["v"] for row in content(table) if row["k"] < 3} == {9000, 9001, 9002}
    assert {f["total_buckets"] for f in files(table)} == {8}
    table.expire_snapshots(1, retain_min=1)
    assert {f.path for f in files_on_disk(table.handle)} <= reachable_files(table.handle), "no file of the first try"


def test_a_write_to_another_partition_is_no_conflict(tmp_path: Path) -> None:
    table = made(tmp_path)
    turns: list[int] = []

    def slow(
        handle: TableHandle, head: Snapshot, tasks: Sequence[RescaleTask], user: str
    ) -> Sequence[list[CommitMessage]]:
        turns.append(len(tasks))
        paimon_spark.load_table(table.location).write(rows_of(0, 1, 9000))
        return [run_rescale_task(handle, head, task, user) for task in tasks]

    rescale_branch(table.handle, 8, slow, partitions=[{"p": 1}])
    assert len(turns) == 1
    assert {row["v"] for row in content(table) if row["k"] == 0} == {9000}


def test_a_writer_that_began_before_fails(tmp_path: Path) -> None:
    table = made(tmp_path)
    messages = written(table.handle, rows_of(0, 5, 0).to_batches(), base=latest_snapshot(table.handle))
    base = latest_snapshot(table.handle)
    table.rescale(8)
    committer = Committer(table.handle, "late")
    with pytest.raises(CommitConflictError, match="8 buckets and the commit brings files for 4"):
        committer.commit(messages, planned_on=PlannedOn.of(base))


def test_a_failure_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path)
    before = {f.path for f in files_on_disk(table.handle)}
    real = run_rescale_task

    def fails(handle: TableHandle, head: Snapshot, task: RescaleTask, commit_user: str, job: str) -> Any:
        done = real(handle, head, task, commit_user, job)
        if task.sources[0].bucket == 3:
            raise DataError("no more")
        return done

    monkeypatch.setattr(compaction, "run_rescale_task", fails)
    with pytest.raises(DataError, match="no more"):
        table.rescale(8)
    assert {f.path for f in files_on_disk(table.handle)} == before


@pytest.mark.ci
@pytest.mark.parametrize("kind", ["keys", "vectors"])
@pytest.mark.parametrize("step", [14, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_at_any_change_of_the_store_rows_stay_and_it_can_be_done_again(
    tmp_path: Path, kind: str, step: int
) -> None:
    table = made(tmp_path / "made", **KINDS[kind])
    before = content(table)

    def rescale(copied: Any, store: FaultStore) -> None:
        rescale_branch(replace(copied.handle, store=store), 6, compaction.rescale_anywhere)

    for copied in killed_at_each_change(table, tmp_path, rescale, step=step, between=(21, 500)):
        assert content(copied) == before
        assert {f["total_buckets"] for f in files(copied)} in ({4}, {6})
        copied.rescale(6)
        assert content(copied) == before
        assert {f["total_buckets"] for f in files(copied)} == {6}
        assert missing_files(copied.handle) == []


def test_rows_in_wrong_buckets_are_refused(tmp_path: Path) -> None:
    table = made(tmp_path, primary_keys=(), bucket_key="k")
    other = replace(table.handle, options=table.handle.options.changed({"bucket-function.type": "mod"}))

    def run(
        handle: TableHandle, head: Snapshot, tasks: Sequence[RescaleTask], user: str
    ) -> Sequence[list[CommitMessage]]:
        return [run_rescale_task(other, head, task, user) for task in tasks]

    before = {f.path for f in files_on_disk(table.handle)}
    with pytest.raises(DataError, match="in another bucket than its bucket function says"):
        rescale_branch(table.handle, 8, run)
    assert {f.path for f in files_on_disk(table.handle)} == before


WAITS: Any = {"postpone.batch-write-fixed-bucket": "false"}


def test_empty_tables_and_postponed_rows(tmp_path: Path) -> None:
    catalog = paimon_spark.load_catalog(str(tmp_path))
    catalog.create_database("d")
    empty = catalog.create_table("d.e", "k BIGINT, v INT", primary_keys=["k"], options={"bucket": "2"})
    assert empty.rescale(4).snapshot_ids == ()
    postponed = catalog.create_table("d.p", "k BIGINT, v INT", primary_keys=["k"], options={"bucket": "-2"})
    rows = pa.table({"k": [*range(50)], "v": pa.array([*range(50)], pa.int32())})
    postponed.write(rows, **WAITS)
    postponed.compact(True)
    postponed.write(rows.slice(10, 5), **WAITS)
    with pytest.raises(InvalidInputError, match="must be given"):
        postponed.rescale()
    postponed.rescale(3)
    assert {(f["bucket"] >= 0, f["total_buckets"]) for f in entries_of_head(postponed)} == {(True, 3), (False, -2)}
    postponed.compact(True)
    assert len(content(postponed)) == 50


def entries_of_head(table: paimon_spark.Table) -> list[dict[str, Any]]:
    head = latest_snapshot(table.handle)
    assert head is not None
    found: list[dict[str, Any]] = live_entries(table.handle, data_manifests(table.handle, head)).to_pylist()
    return found


def test_what_cannot_be_rescaled_is_refused(tmp_path: Path) -> None:
    catalog = paimon_spark.load_catalog(str(tmp_path))
    catalog.create_database("d")
    plain = catalog.create_table("d.a", "k BIGINT")
    dynamic = catalog.create_table("d.b", "k BIGINT", primary_keys=["k"])
    fixed = catalog.create_table("d.c", "k BIGINT", primary_keys=["k"], options={"bucket": "2"})
    with pytest.raises(UnsupportedFeatureError, match="it has no buckets"):
        plain.rescale(4)
    with pytest.raises(UnsupportedFeatureError, match="dynamic buckets"):
        dynamic.rescale(4)
    for bad in (0, -1, 40_000, True, "4", 2.5):
        with pytest.raises(InvalidInputError, match="expected a whole number from 1"):
            fixed.rescale(bad)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="no partitions"):
        fixed.rescale(4, where="k = 1")
