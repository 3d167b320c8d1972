"""The compaction that follows a write to a table whose rows are seen without it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.engine.compaction import plan
from paimon_spark.errors import StorageError
from paimon_spark.format.metadata_files.snapshot import CommitKind
from paimon_spark.jobs.upkeep import compaction as compact_written
from paimon_spark.jobs.write.batch import plan_path_write
from paimon_spark.jobs.write.commit import WriteResult
from paimon_spark.metadata.definition.from_arrow import row_type
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests
from paimon_spark.metadata.snapshots import find_snapshot, latest_snapshot
from paimon_spark.options.write_request import WriteMode
from tests.harness.keywords import keywords

COLUMNS = pa.schema([("id", pa.int64()), ("p", pa.int32()), ("v", pa.int32())])
FEW = {"num-sorted-run.compaction-trigger": "2", "num-sorted-run.stop-trigger": "3"}


def rows(*ids: int, p: int = 0, v: int = 0) -> pa.Table:
    return pa.table({"id": ids, "p": [p] * len(ids), "v": [v] * len(ids)}, schema=COLUMNS)


@pytest.fixture
def new(tmp_path: Path) -> Callable[..., paimon_spark.Table]:
    def make(**options: str) -> paimon_spark.Table:
        path = str(tmp_path / "t")
        given = {"path": path, "primary-key": "id,p", "partition": "p", "bucket": "1", **options}
        job = plan_path_write(given, WriteMode.APPEND, COLUMNS, lambda: row_type(COLUMNS))
        job.commit(job.write(()))
        return paimon_spark.load_table(path)

    return make


def runs(table: paimon_spark.Table) -> dict[bytes, list[int]]:
    """Levels of the files of each partition."""
    head = latest_snapshot(table.handle)
    assert head is not None
    out: dict[bytes, list[int]] = {}
    for e in live_entries(table.handle, data_manifests(table.handle, head)).select(["partition", "level"]).to_pylist():
        out.setdefault(e["partition"], []).append(e["level"])
    return {p: sorted(levels) for p, levels in sorted(out.items())}


def kinds(table: paimon_spark.Table, result: WriteResult) -> list[CommitKind]:
    return [s.commit_kind for i in result.snapshot_ids if (s := find_snapshot(table.handle, i)) is not None]


def test_a_bucket_of_many_sorted_runs_is_compacted(new: Callable[..., paimon_spark.Table]) -> None:
    table = new(**FEW)
    assert kinds(table, table.write(rows(1))) == [CommitKind.APPEND]
    assert kinds(table, table.write(rows(1, v=1))) == [CommitKind.APPEND]
    assert kinds(table, table.write(rows(1, v=2))) == [CommitKind.APPEND, CommitKind.COMPACT]
    assert list(runs(table).values()) == [[2]]
    assert [r["v"] for r in table.scan().to_arrow().to_pylist()] == [2]


def test_the_default_is_eight_runs(new: Callable[..., paimon_spark.Table]) -> None:
    table = new()
    counts = [len(table.write(rows(n)).snapshot_ids) for n in range(8)]
    assert counts == [1] * 7 + [2]
    assert list(runs(table).values()) == [[5]]


def test_only_buckets_that_were_written_are_looked_at(new: Callable[..., paimon_spark.Table]) -> None:
    table = new(**FEW)
    for v in range(4):
        table.write(rows(1, p=1, v=v), **keywords({"write-only": True}))
    table.write(rows(1, p=2))
    assert list(runs(table).values()) == [[0, 0, 0, 0], [0]]
    table.write(rows(2, p=1))
    assert list(runs(table).values()) == [[2], [0]]


@pytest.mark.parametrize("key", ["write-only", "write.compaction-skip"])
def test_writers_of_write_only_tables_compact_nothing(new: Callable[..., paimon_spark.Table], key: str) -> None:
    table = new(**FEW, **{key: "true"})
    assert [len(table.write(rows(n)).snapshot_ids) for n in range(4)] == [1, 1, 1, 1]


def test_level_0_may_be_forced_up_by_each_write(new: Callable[..., paimon_spark.Table]) -> None:
    table = new(**{"compaction.force-up-level-0": "true"})
    for n in range(3):
        assert len(table.write(rows(n)).snapshot_ids) == 2
        assert all(0 not in levels for levels in runs(table).values())


def test_small_tables_are_not_looked_at(
    new: Callable[..., paimon_spark.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new()

    def never(*_: Any) -> Any:
        raise AssertionError("files of the head were read")

    monkeypatch.setattr(plan, "read_manifests", never)
    assert [len(table.write(rows(n)).snapshot_ids) for n in range(7)] == [1] * 7


def test_a_write_is_done_though_the_compaction_after_it_fails(
    new: Callable[..., paimon_spark.Table], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table = new(**FEW)

    def broken(*_: Any) -> Any:
        raise StorageError("the disk is full")

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(compact_written, "plan_after_write", broken)
        for v in range(4):
            assert len(table.write(rows(1, v=v)).snapshot_ids) == 1
    assert "the rows are in table" in caplog.text
    assert "the disk is full" in caplog.text
    assert [r["v"] for r in table.scan().to_arrow().to_pylist()] == [3]
    table.write(rows(1, v=4))
    assert list(runs(table).values()) == [[2]]


def test_a_changelog_of_full_compactions_comes_with_a_write_that_compacts_everything(
    new: Callable[..., paimon_spark.Table],
) -> None:
    table = new(**FEW, **{"changelog-producer": "full-compaction"})
    for v in range(3):
        result = table.write(rows(1, v=v))
    made = find_snapshot(table.handle, result.snapshot_ids[-1])
    assert made is not None and made.commit_kind is CommitKind.COMPACT
    assert made.changelog_record_count == 1


EARLY = [{"compaction.optimization-interval": "1 ms"}, {"compaction.total-size-threshold": "1 gb"}]


@pytest.mark.parametrize("early", EARLY)
def test_buckets_are_merged_early_where_an_option_says_so(
    new: Callable[..., paimon_spark.Table], early: dict[str, str]
) -> None:
    table = new(**early)
    assert kinds(table, table.write(rows(1))) == [CommitKind.APPEND]
    assert kinds(table, table.write(rows(2))) == [CommitKind.APPEND, CommitKind.COMPACT]
    assert list(runs(table).values()) == [[5]]


def test_early_options_that_are_not_due_change_nothing(new: Callable[..., paimon_spark.Table]) -> None:
    table = new(**{"compaction.incremental-size-threshold": "1 gb"})
    assert [len(table.write(rows(n)).snapshot_ids) for n in range(4)] == [1] * 4


@pytest.mark.parametrize("commits", ["1", "3"])
def test_each_batch_write_may_merge_all_that_it_wrote(new: Callable[..., paimon_spark.Table], commits: str) -> None:
    """The number counts for streams only, as in Paimon's Spark writers."""
    table = new(**keywords({"full-compaction.delta-commits": commits, "changelog-producer": "full-compaction"}))
    table.write(rows(1, 2, p=2), **keywords({"full-compaction.delta-commits": 0}))
    assert list(runs(table).values()) == [[0]]
    for v, changed in enumerate([1, 2, 2]):
        result = table.write(rows(1, p=1, v=v))
        assert kinds(table, result) == [CommitKind.APPEND, CommitKind.COMPACT]
        made = find_snapshot(table.handle, result.snapshot_ids[-1])
        assert made is not None and made.changelog_record_count == changed
        assert list(runs(table).values()) == [[5], [0]]
    table.write(rows(3, p=2))
    assert list(runs(table).values()) == [[5], [5]]


def test_without_the_option_a_changelog_of_full_compactions_waits_for_one(
    new: Callable[..., paimon_spark.Table],
) -> None:
    table = new(**{"changelog-producer": "full-compaction"})
    assert [kinds(table, table.write(rows(1, v=v))) for v in range(3)] == [[CommitKind.APPEND]] * 3


def test_deleted_rows_are_merged_away_by_the_delete(new: Callable[..., paimon_spark.Table]) -> None:
    table = new(**{"full-compaction.delta-commits": "1", "changelog-producer": "full-compaction"})
    table.write(rows(1, 2))
    assert kinds(table, table.delete("id = 1"))[-1] is CommitKind.COMPACT
    assert list(runs(table).values()) == [[5]]
    assert [r["id"] for r in table.scan().to_arrow().to_pylist()] == [2]


def test_write_only_counts_more_than_full_compactions(new: Callable[..., paimon_spark.Table]) -> None:
    table = new(**{"full-compaction.delta-commits": "1", "write-only": "true"})
    assert [len(table.write(rows(n)).snapshot_ids) for n in range(3)] == [1] * 3
