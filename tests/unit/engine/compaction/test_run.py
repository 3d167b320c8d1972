"""A whole table compacted: what is planned, beside which others it holds its own, and what it leaves when it fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.engine.commit.committer import Committer
from paimon_spark.engine.compaction import plan, run
from paimon_spark.engine.compaction.keyed import compact_bucket
from paimon_spark.engine.compaction.plan import buckets_of, plan_compaction
from paimon_spark.engine.compaction.run import compact_branch, run_here
from paimon_spark.engine.compaction.task import BucketTask, CompactResult
from paimon_spark.engine.tasks import CommitMessage
from paimon_spark.errors import (
    BranchNotFoundError,
    CommitConflictError,
    CommitOutcomeUnknownError,
    CorruptFileError,
    DataError,
    InvalidInputError,
    UnsupportedFeatureError,
)
from paimon_spark.format.metadata_files.manifest import files_of
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.jobs.write.batch import plan_path_write
from paimon_spark.metadata.definition.from_arrow import row_type
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.options.write_request import WriteMode
from paimon_spark.predicate.parse import parse_predicate

COLUMNS = pa.schema([("id", pa.int64()), ("p", pa.int32()), ("v", pa.string())])
Runner = Callable[[TableHandle, Snapshot, Sequence[BucketTask], str], Sequence[CommitMessage | None]]


def rows(ids: Sequence[int], v: str = "a", p: int | None = None) -> pa.Table:
    return pa.table({"id": ids, "p": [i % 2 if p is None else p for i in ids], "v": [v] * len(ids)}, schema=COLUMNS)


@dataclass
class Made:
    path: Path
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        keys = {"primary-key": "id,p", "partition": "p", "bucket": "1", "write-only": "true"}
        given = {"path": str(self.path), **keys, **self.options}
        job = plan_path_write(given, WriteMode.APPEND, COLUMNS, lambda: row_type(COLUMNS))
        job.commit(job.write(()))

    @property
    def table(self) -> paimon_spark.Table:
        return paimon_spark.load_table(str(self.path))

    @property
    def handle(self) -> TableHandle:
        return self.table.handle

    def write(self, data: pa.Table) -> None:
        self.table.write(data)

    def overwrite(self, data: pa.Table) -> None:
        job = plan_path_write({"path": str(self.path)}, WriteMode.OVERWRITE, COLUMNS)
        job.commit(job.write(data.to_batches()))

    def rows(self) -> dict[tuple[int, int], str]:
        return {(r["id"], r["p"]): r["v"] for r in self.table.scan().to_arrow().to_pylist()}

    def levels(self) -> list[int]:
        head = latest_snapshot(self.handle)
        assert head is not None
        return sorted(f.level for f in files_of(live_entries(self.handle, data_manifests(self.handle, head))))

    def head(self) -> Snapshot:
        found = latest_snapshot(self.handle)
        assert found is not None
        return found

    def live_files(self) -> set[str]:
        return {f.file_name for f in files_of(live_entries(self.handle, data_manifests(self.handle, self.head())))}

    def data_files(self) -> set[str]:
        return {p.name for p in self.path.rglob("bucket-*/*")}

    def compact(self, runner: Runner = run_here, *, full: bool = True, **chosen: Any) -> CompactResult:
        return compact_branch(self.handle, full=full, runner=runner, **chosen)


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """Three commits of rows in two partitions."""
    table = Made(tmp_path / "t")
    for v in "abc":
        table.write(rows(range(4), v))
    return table


def beside(others: Callable[[], object], times: int = 1) -> tuple[Runner, list[int]]:
    """A runner during which others do something, so often; and the numbers of tasks it was given."""
    given: list[int] = []

    def runner(
        handle: TableHandle, snapshot: Snapshot, tasks: Sequence[BucketTask], user: str
    ) -> Sequence[CommitMessage | None]:
        given.append(len(tasks))
        messages = run_here(handle, snapshot, tasks, user)
        if len(given) <= times:
            others()
        return messages

    return runner, given


def test_a_full_compaction_is_one_snapshot_of_every_bucket(made: Made) -> None:
    before = made.rows()
    size = sum(p.stat().st_size for p in made.path.rglob("bucket-*/*"))
    result = made.compact()
    assert result.snapshot == made.head()
    assert (result.snapshot_ids, result.buckets, result.files_before, result.files_after) == ((4,), 2, 6, 2)
    assert (result.bytes_before, result.bytes_after < size) == (size, True)
    assert made.head().commit_kind is CommitKind.COMPACT
    assert (made.head().total_record_count, made.head().delta_record_count) == (4, -8)
    assert made.levels() == [5, 5]
    assert made.rows() == before == {(i, i % 2): "c" for i in range(4)}


def test_what_is_compact_already_makes_no_snapshot(made: Made) -> None:
    first = made.compact()
    assert made.compact() == CompactResult(first.snapshot)
    assert made.compact(full=False) == CompactResult(first.snapshot)


def test_a_table_without_snapshots_has_nothing_to_compact(tmp_path: Path) -> None:
    assert Made(tmp_path / "t").compact() == CompactResult()


def test_only_partitions_asked_for_are_compacted(made: Made) -> None:
    made.compact(partitions=[{"p": 1}])
    assert made.levels() == [0, 0, 0, 5]
    where = parse_predicate("p = 0", made.handle.schema.row_type)
    assert made.compact(partitions=[{"p": "1"}], where=where).snapshot_ids == ()
    assert made.compact(where=where).buckets == 1
    assert made.levels() == [5, 5]


def test_partitions_that_are_none_are_refused(made: Made) -> None:
    with pytest.raises(InvalidInputError, match=r"'q' is not a partition column of table .*partitioned by p"):
        made.compact(partitions=[{"q": 1}])
    with pytest.raises(InvalidInputError, match=r"'x' is not a value of partition column 'p'"):
        made.compact(partitions=[{"p": "x"}])


def test_tables_that_would_be_compacted_wrongly_are_refused(made: Made) -> None:
    outside = paimon_spark.load_table(str(made.path), **{"data-file.external-paths": "file:///x"}).handle
    with pytest.raises(UnsupportedFeatureError, match=r"data-file\.external-paths"):
        compact_branch(outside, full=True)


def test_the_largest_buckets_are_begun_first(made: Made) -> None:
    made.write(rows([100 + 2 * i for i in range(500)], "long" * 9))
    tasks = plan_compaction(made.handle, made.head(), full=True)
    assert [t.input_bytes for t in tasks] == sorted((t.input_bytes for t in tasks), reverse=True)
    assert len(tasks) == 2


def test_buckets_are_described_a_few_files_at_a_time(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = live_entries(made.handle, data_manifests(made.handle, made.head()))
    whole = list(buckets_of(entries))
    assert sorted(len(b.files) for b in whole) == [3, 3]
    for chunk in (1, 3, 4, 5):
        monkeypatch.setattr(plan, "_CHUNK", chunk)
        assert list(buckets_of(entries)) == whole
        assert list(buckets_of(entries, {whole[1][:2]})) == whole[1:]
    assert list(buckets_of(entries.slice(0, 0))) == []


def test_rows_written_beside_a_compaction_stay_new(made: Made) -> None:
    runner, given = beside(lambda: made.write(rows([0, 9], "new")))
    result = made.compact(runner)
    assert given == [2]
    assert result.snapshot == made.head()
    assert made.rows() == {(0, 0): "new", (1, 1): "c", (2, 0): "c", (3, 1): "c", (9, 1): "new"}
    assert made.levels() == [0, 0, 5, 5]


def test_rows_overwritten_beside_a_compaction_do_not_come_back(made: Made) -> None:
    runner, given = beside(lambda: made.overwrite(rows([7], "only")))
    result = made.compact(runner)
    assert made.rows() == {(7, 1): "only"}
    assert result.snapshot == made.head()
    assert len(given) <= 2
    assert made.compact().snapshot_ids == ()


def test_a_compaction_gives_way_to_one_that_was_faster(made: Made) -> None:
    runner, given = beside(lambda: made.compact(partitions=[{"p": 0}]))
    before = made.data_files()
    result = made.compact(runner)
    # What was made of the other partition is used again, what was made of this one goes.
    assert given == [2]
    assert (result.buckets, result.snapshot_ids) == (1, (5,))
    assert len(made.data_files() - before) == 2
    assert made.levels() == [5, 5]
    assert made.rows() == {(i, i % 2): "c" for i in range(4)}


def test_buckets_that_changed_are_compacted_again(made: Made) -> None:
    def others() -> None:
        made.compact(partitions=[{"p": 0}])
        made.write(rows([0], "later"))

    runner, given = beside(others, times=2)
    before = made.data_files()
    made.compact(runner)
    assert given == [2, 1, 1]
    assert made.levels() == [5, 5]
    assert made.rows() == {**{(i, i % 2): "c" for i in range(4)}, (0, 0): "later"}
    live = made.table.scan().to_arrow()
    assert live.num_rows == 4
    # Two compactions and writes of others each, and one file for each partition of ours.
    assert len(made.data_files() - before) == 2 * 2 + 2


def overwrite_and_expire(made: Made) -> None:
    made.overwrite(rows(range(4), "y"))
    made.write(rows(range(4), "z"))
    made.table.expire_snapshots(1)


def before(others: Callable[[], None], times: int = 1) -> tuple[Runner, list[int]]:
    """As `beside`, but the others are done before the tasks begin to read."""
    given: list[int] = []

    def runner(
        handle: TableHandle, snapshot: Snapshot, tasks: Sequence[BucketTask], user: str
    ) -> Sequence[CommitMessage | None]:
        given.append(len(tasks))
        if len(given) <= times:
            others()
        return run_here(handle, snapshot, tasks, user)

    return runner, given


def test_what_expired_under_a_compaction_is_looked_at_again(made: Made) -> None:
    runner, given = before(lambda: overwrite_and_expire(made))
    result = made.compact(runner)
    assert given[0] == 2 and result.snapshot_ids
    assert set(made.rows().values()) == {"z"}
    made.table.expire_snapshots(1)
    assert made.data_files() == made.live_files()


def test_a_compaction_whose_snapshot_expires_every_time_says_so(made: Made) -> None:
    made.table.alter(set_options={"commit.max-retries": "1"})
    runner, given = before(lambda: overwrite_and_expire(made), 10)
    with pytest.raises(CommitConflictError, match=r"snapshot \d+ of table .* expired during its compaction") as caught:
        made.compact(runner)
    assert isinstance(caught.value.__cause__, CorruptFileError) and len(given) == 2
    assert made.data_files() == made.live_files()


def test_main_that_came_to_mean_another_branch_is_compacted_there(made: Made) -> None:
    made.table.create_branch("b", empty=True)
    branch = made.table.branch("b")
    branch.write(rows(range(4), "b"))
    branch.write(rows(range(4), "b"))
    runner, given = beside(lambda: made.table.replace_main("b"))
    assert made.compact(runner).snapshot_ids == (3,) and given == [2, 2]
    assert set(made.rows().values()) == {"b"} and made.levels() == [5, 5]


def test_a_branch_that_was_deleted_is_not_there(made: Made) -> None:
    made.table.create_branch("b", empty=True)
    handle = made.table.branch("b").handle
    made.table.delete_branch("b")
    with pytest.raises(BranchNotFoundError, match="'b'"):
        compact_branch(handle, full=True)


def test_others_who_are_faster_every_time_win(made: Made) -> None:
    table = Made(made.path.parent / "u", {"commit.max-retries": "2", "commit.min-retry-wait": "1 ms"})
    table.write(rows([0], p=0))

    def others() -> None:
        table.compact()
        table.write(rows([0], "x", p=0))

    runner, given = beside(others, times=9)
    table.write(rows([0], p=0))
    with pytest.raises(CommitConflictError, match="another commit deleted or rewrote"):
        table.compact(runner)
    assert given == [1, 1, 1]
    assert table.levels() == [0, 5]
    assert len(table.data_files()) == 2 + 3 * 2


def test_columns_added_beside_a_compaction_are_kept(made: Made) -> None:
    def others() -> None:
        made.table.alter(add={"w": "INT"})
        made.compact(partitions=[{"p": 0}])
        made.write(rows([0, 1], "later").append_column("w", pa.array([7, 8], pa.int32())))

    runner, given = beside(others)
    made.compact(runner)
    assert given == [2, 2]
    assert made.levels() == [5, 5]
    assert {r["id"]: r["w"] for r in made.table.scan().to_arrow().to_pylist()} == {0: 7, 1: 8, 2: None, 3: None}


def test_a_task_that_fails_leaves_no_file(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    before, head = made.data_files(), made.head()
    real = compact_bucket
    calls: list[int] = []

    def sometimes(*arguments: Any) -> CommitMessage:
        calls.append(len(calls))
        if len(calls) == 2:
            raise DataError("broken")
        return real(*arguments)

    monkeypatch.setattr(run, "compact_bucket", sometimes)
    with pytest.raises(DataError, match="broken"):
        made.compact()
    assert (made.data_files(), made.head()) == (before, head)


def test_a_commit_that_fails_leaves_no_file(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    before = made.data_files()

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setattr(Committer, "commit", broken)
    with pytest.raises(RuntimeError, match="broken"):
        made.compact()
    assert made.data_files() == before


def test_files_stay_while_nobody_knows_whether_they_landed(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    before = made.data_files()

    def silent(*_: Any, **__: Any) -> Any:
        raise CommitOutcomeUnknownError("no answer")

    monkeypatch.setattr(Committer, "commit", silent)
    with pytest.raises(CommitOutcomeUnknownError):
        made.compact()
    assert len(made.data_files() - before) == 2


def test_a_damaged_file_is_named_and_nothing_changes(made: Made) -> None:
    broken = next(iter(sorted(made.path.rglob("bucket-*/*.parquet"))))
    broken.write_bytes(b"PAR1" + b"x" * 100)
    before = made.data_files()
    with pytest.raises(CorruptFileError, match=broken.name):
        made.compact()
    assert made.data_files() == before
