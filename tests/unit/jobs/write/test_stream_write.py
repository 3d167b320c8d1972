"""The sink of a stream, without Spark: what each batch makes visible, exactly once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.engine.commit import attempts
from paimon_spark.engine.compaction.task import BucketTask
from paimon_spark.errors import (
    BatchesLostError,
    CommitConflictError,
    CommitError,
    DataError,
    InvalidInputError,
    PaimonError,
    SchemaMismatchError,
    TableNotFoundError,
)
from paimon_spark.format.metadata_files.snapshot import CommitKind
from paimon_spark.jobs.upkeep import compaction as compact_written
from paimon_spark.jobs.write.stream import plan_stream_commit
from paimon_spark.metadata.snapshots import latest_snapshot
from tests.harness.fault_store import FaultStore
from tests.harness.keywords import keywords
from tests.harness.sinks import (
    KINDS,
    QUERY,
    ROWS,
    batch,
    batches_of,
    ids,
    left_over,
    plan,
    read,
    rows_of,
    through,
    write,
)

HIDDEN = ("first_row", "deletion_vectors")
"""Tables whose rows are seen only after a compaction."""


@pytest.mark.ci
@pytest.mark.parametrize("kind", KINDS)
def test_each_batch_is_seen_once_however_often_it_is_asked_for(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    for number in range(3):
        for again in range(3):
            result = batch(path, number, rows_of(number, number + 100, number + 201), **KINDS[kind])
            assert result.was_committed == (again > 0)
            assert bool(result.snapshot_ids) == (again == 0)
        assert len(ids(path)) == 3 * (number + 1)
    assert batches_of(path) == [0, 1, 2]
    assert left_over(path) == []


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "cross_partition"])
def test_all_tasks_of_a_batch_are_one_snapshot(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    for number in range(2):
        sink = plan(path, **KINDS[kind])
        tasks = [rows_of(number, number + 10), ROWS.slice(0, 0), rows_of(number + 20, number + 31)]
        result = sink.commit(write(sink, number, *tasks), number)
        assert len(result.snapshot_ids) == (2 if kind in HIDDEN else 1)
    assert ids(path) == [0, 1, 10, 11, 20, 21, 31, 32]
    assert batches_of(path) == [0, 1]
    assert left_over(path) == []


def test_a_task_that_fails_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "t"
    batch(path, 0, ROWS)
    bad = pa.table({"id": pa.array([2**40]), "v": ["a"], "dt": ["x"]})
    paimon_spark.load_table(str(path)).alter(add={"n": "INT"})
    sink = plan(path, ROWS.append_column("n", pa.array([1, 2, 3])))
    with pytest.raises(DataError):
        write(sink, 1, bad.append_column("n", pa.array([2**40])))
    assert left_over(path) == []


@pytest.mark.parametrize("kind", HIDDEN)
def test_rows_whose_compaction_failed_are_seen_after_the_batch_is_asked_for_again(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    batch(path, 0, rows_of(1), **KINDS[kind])

    def fail(*_: object) -> list[BucketTask]:
        raise OSError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(compact_written, "plan_after_write", fail)
        with pytest.raises(CommitError, match="Start the query again"):
            batch(path, 1, rows_of(2))
    assert ids(path) == [1]
    result = batch(path, 1, rows_of(2))
    assert result.was_committed
    assert ids(path) == [1, 2]
    kinds = [(s.commit_identifier, s.commit_kind) for s in paimon_spark.load_table(str(path)).snapshots()]
    assert kinds == [(b, kind) for b in (0, 1) for kind in (CommitKind.APPEND, CommitKind.COMPACT)]
    assert batch(path, 1, rows_of(2)).snapshot_ids == ()
    assert batch(path, 2, rows_of(3)).snapshot_ids
    assert ids(path) == [1, 2, 3]
    assert left_over(path) == []


def test_the_very_rows_that_are_in_keep_their_files(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for kind in ("keys", "dynamic", "changelog", "deletion_vectors"):
        at = path / kind
        sink = plan(at, **KINDS[kind])
        rows = write(sink, 0, rows_of(1, 2), rows_of(4, 5)) if kind == "keys" else write(sink, 0, rows_of(1, 2))
        assert not sink.commit(rows, 0).was_committed
        assert sink.commit(rows, 0).was_committed
        batch(at, 1, rows_of(9))
        assert sink.commit(rows, 0).was_committed
        assert left_over(at) == []
        assert ids(at)[:2] == [1, 2]


def test_rows_that_may_be_in_are_not_removed_when_the_store_fails(tmp_path: Path) -> None:
    path = tmp_path / "t"
    sink = plan(path)
    rows = write(sink, 0, ROWS)
    sink.commit(rows, 0)
    paimon_spark.load_table(str(path)).create_branch("b", snapshot_id=1)
    for s in ("snapshot", "schema"):
        (path / s).rename(tmp_path / s)
    with pytest.raises(TableNotFoundError):
        sink.commit(rows, 0)
    for s in ("snapshot", "schema"):
        (tmp_path / s).rename(path / s)
    assert ids(path) == [1, 2, 3]
    assert left_over(path) == []


@pytest.mark.ci
@pytest.mark.parametrize("kind", ["unaware", "keys", "dynamic", "deletion_vectors"])
def test_twins_that_commit_one_batch_at_once_commit_it_once(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    for number in range(4):
        sinks = [plan(path, **KINDS[kind]) for _ in range(3)]
        rows = [write(sink, number, rows_of(number, number + 100)) for sink in sinks]

        def commit(n: int) -> bool | Exception:
            try:
                return sinks[n].commit(rows[n], number).was_committed  # noqa: B023 - run within the loop
            except PaimonError as e:
                return e

        with ThreadPoolExecutor(3) as pool:
            done = list(pool.map(commit, range(3)))
        assert done.count(False) <= 1
        for sink in [plan(path)]:  # whoever failed asks again
            sink.commit(write(sink, number, rows_of(number, number + 100)), number)
        assert batches_of(path) == list(range(number + 1))
        assert len(ids(path)) == 2 * (number + 1)
        assert left_over(path) == []


def test_a_twin_that_was_faster_after_the_look_is_found_in_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    batch(path, 0, rows_of(0))
    slow = plan(path)
    rows = write(slow, 1, rows_of(1))
    real, turns = latest_snapshot, [lambda: batch(path, 1, rows_of(1))]

    def faster(handle: object) -> object:
        if turns:
            turns.pop()()
        return real(handle)  # type: ignore[arg-type]

    monkeypatch.setattr(attempts, "latest_snapshot", faster)
    result = slow.commit(rows, 1)
    assert result.was_committed
    assert not turns
    assert ids(path) == [0, 1]
    assert left_over(path) == []


def test_an_empty_batch_makes_no_snapshot_and_is_not_missed(tmp_path: Path) -> None:
    path = tmp_path / "t"
    nothing = ROWS.slice(0, 0)
    assert batch(path, 0, nothing, nothing).snapshot_ids == ()
    assert batch(path, 1, rows_of(1)).snapshot_ids == (1,)
    for number in range(2, 6):
        assert batch(path, number, nothing).snapshot_ids == ()
        assert batch(path, number, nothing).snapshot_ids == ()
    assert batch(path, 6, rows_of(2)).snapshot_ids == (2,)
    assert batches_of(path) == [1, 6]


def test_an_empty_batch_makes_a_snapshot_where_the_table_says_so(tmp_path: Path) -> None:
    path = tmp_path / "t"
    options: dict[str, Any] = {"snapshot.ignore-empty-commit": "false"}
    assert batch(path, 0, ROWS.slice(0, 0), **options).snapshot_ids == (1,)
    assert batch(path, 0, ROWS.slice(0, 0), **options).was_committed


@pytest.mark.parametrize("kind", KINDS)
def test_complete_replaces_the_table_with_every_batch(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    for number, rows in enumerate([rows_of(1, 2), rows_of(3, 4, 5), ROWS.slice(0, 0), rows_of(6)]):
        for again in (False, True):
            assert batch(path, number, rows, complete=True, **KINDS[kind]).was_committed == again
            assert ids(path) == rows.column("id").to_pylist()
    assert batches_of(path) == [0, 1, 2, 3]
    assert left_over(path) == []


def test_complete_goes_on_whatever_became_of_earlier_batches(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for number in range(3):
        batch(path, number, rows_of(number), complete=True)
    table = paimon_spark.load_table(str(path))
    table.rollback_to(1)
    assert not batch(path, 3, rows_of(3), complete=True).was_committed
    assert ids(path) == [3]


def test_rows_of_a_branch_go_to_that_branch(tmp_path: Path) -> None:
    path = tmp_path / "t"
    batch(path, 0, rows_of(1))
    paimon_spark.load_table(str(path)).create_branch("b", snapshot_id=1)
    batch(path, 1, rows_of(2), branch="b")
    assert (ids(path), ids(path, "b")) == ([1], [1, 2])
    assert batch(path, 1, rows_of(2)).snapshot_ids == (2,)  # main does not have it


def test_a_user_of_ones_own_is_told_from_others_of_that_name(tmp_path: Path) -> None:
    path = tmp_path / "t"
    options: dict[str, Any] = {"commit.user": "team.etl"}
    batch(path, 0, rows_of(1), **options)
    paimon_spark.load_table(str(path)).write(rows_of(2), **options)
    other = plan(path, **options)
    for number in range(3):
        other.commit(write(other, number, rows_of(10 + number), query="other"), number)
    assert not batch(path, 1, rows_of(3), **options).was_committed
    assert batch(path, 1, rows_of(3), **options).was_committed
    assert ids(path) == [1, 2, 3, 10, 11, 12]
    assert {s.commit_user for s in paimon_spark.load_table(str(path)).snapshots()} == {"team.etl"}


def test_a_prefix_of_users_holds(tmp_path: Path) -> None:
    path = tmp_path / "t"
    batch(path, 0, rows_of(1), **keywords({"commit.user-prefix": "team"}))
    assert [s.commit_user for s in paimon_spark.load_table(str(path)).snapshots()] == [f"team_{QUERY}"]
    assert batch(path, 0, rows_of(1)).was_committed
    assert not batch(path, 1, rows_of(2), **keywords({"commit.user-prefix": "other"})).was_committed


def test_tasks_of_two_queries_are_not_one_batch(tmp_path: Path) -> None:
    sink = plan(tmp_path / "t")
    rows = [*write(sink, 0, ROWS), *write(sink, 0, ROWS, query="other")]
    with pytest.raises(CommitError, match="other"):
        sink.commit(rows, 0)
    with pytest.raises(CommitError, match="no task"):
        sink.commit([], 0)


def test_only_files_of_this_batch_and_run_are_swept(tmp_path: Path) -> None:
    path = tmp_path / "t"
    sink = plan(path)
    for number in range(3):
        sink.commit(write(sink, number, rows_of(number)), number)
    killed = write(sink, 3, rows_of(3), rows_of(4))
    earlier = plan(path).task().write(rows_of(3).to_batches(), 0, QUERY, 3)  # of a run before
    assert len({r.job for r in killed}) == 1
    assert sink.sweep(killed[:1]) == 2
    assert sink.sweep(killed[:1]) == 0
    assert ids(path) == [0, 1, 2]
    sink.abort([earlier])
    assert left_over(path) == []


def test_every_second_batch_merges_all_that_it_wrote(tmp_path: Path) -> None:
    path = tmp_path / "t"
    options = {**KINDS["keys"], **keywords({"full-compaction.delta-commits": "2"})}
    made = [batch(path, number, rows_of(1, 2, 3), **options).snapshot_ids for number in range(4)]
    assert [len(ids) for ids in made] == [1, 2, 1, 2]
    assert not batch(path, 3, rows_of(1, 2, 3), **options).snapshot_ids
    table = paimon_spark.load_table(str(path))
    assert table.scan().to_arrow().num_rows == 3


def test_write_only_leaves_rows_to_a_compaction_by_others(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for number in range(3):
        result = batch(path, number, rows_of(number), **KINDS["deletion_vectors"], **keywords({"write-only": "true"}))
        assert len(result.snapshot_ids) == 1
    assert ids(path) == []
    paimon_spark.load_table(str(path)).compact()
    assert ids(path) == [0, 1, 2]
    assert batch(path, 2, rows_of(2)).was_committed
    assert not batch(path, 3, rows_of(3)).was_committed


@pytest.mark.usefixtures("noon")
@pytest.mark.parametrize("kind", ["buckets", "keys"])
def test_periodic_savepoints_are_made_by_the_commits_of_batches(tmp_path: Path, kind: str) -> None:
    options: dict[str, Any] = {**KINDS[kind], "savepoint.create-time": "00:00", "savepoint.create-interval": "1d"}
    for number in range(3):
        batch(tmp_path / "t", number, rows_of(number, number + 10), **options)
    table = paimon_spark.load_table(str(tmp_path / "t"))
    (savepoint,) = table.savepoints()
    kept = table.at(f"savepoint.{savepoint.id}").scan(columns=["id"]).to_arrow()
    assert sorted(kept.column("id").to_pylist()) == [0, 10]
    assert table.scan().to_arrow().num_rows == 6


def test_a_batch_makes_the_tags_that_are_due(tmp_path: Path) -> None:
    path = tmp_path / "t"
    options: dict[str, Any] = {"tag.automatic-creation": "process-time", "tag.creation-period": "hourly"}
    batch(path, 0, rows_of(1), **options)
    assert len(paimon_spark.load_table(str(path)).tags()) == 1


@pytest.mark.ci
def test_snapshots_expire_with_the_batches(tmp_path: Path) -> None:
    path = tmp_path / "t"
    options: dict[str, Any] = {
        "snapshot.num-retained.min": "2",
        "snapshot.num-retained.max": "2",
        **KINDS["deletion_vectors"],
    }
    for number in range(6):
        batch(path, number, rows_of(number), **options)
        assert batch(path, number, rows_of(number)).was_committed
    table = paimon_spark.load_table(str(path))
    assert len(table.snapshots()) == 2
    assert ids(path) == list(range(6))
    for _ in range(4):
        table.write(rows_of(100))
    assert batches_of(path) == []
    assert not batch(path, 6, rows_of(6)).was_committed
    assert ids(path) == [0, 1, 2, 3, 4, 5, 6, 100]
    assert left_over(path) == []


@pytest.mark.parametrize("user", [{}, {"commit.user": "etl"}])
def test_a_batch_of_which_only_the_compaction_is_left_is_not_written_again(
    user: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "t"
    options: dict[str, Any] = {
        "snapshot.num-retained.min": "1",
        "snapshot.num-retained.max": "1",
        **KINDS["deletion_vectors"],
        **user,
    }
    sink = plan(path, **options)
    rows = write(sink, 0, ROWS)
    sink.commit(rows, 0)
    assert [s.commit_kind for s in paimon_spark.load_table(str(path)).snapshots()] == [CommitKind.COMPACT]
    assert batch(path, 0, ROWS, **user).was_committed
    assert left_over(path) == []
    assert sink.commit(rows, 0).was_committed  # these may be alive
    assert "remove_orphan_files" in caplog.text
    assert ids(path) == [1, 2, 3]


def test_a_commit_alone_changes_no_table(tmp_path: Path) -> None:
    path = tmp_path / "t"
    options: dict[str, Any] = {"write.merge-schema": "true"}
    batch(path, 0, ROWS)
    wide = ROWS.append_column("n", pa.array([1, 2, 3]))
    rows = write(plan(path, wide, **options), 1, wide)
    sink = plan_stream_commit({"path": str(path), "checkpointLocation": "/c", **options}, False)
    assert sink.commit(rows, 1).snapshot_ids == (2,)
    assert sorted(r["n"] for r in read(path) if r["n"]) == [1, 2, 3]
    with pytest.raises(TableNotFoundError):
        plan_stream_commit({"path": str(tmp_path / "nothing")}, False)


def test_rows_that_do_not_fit_make_no_table_and_change_none(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with pytest.raises(InvalidInputError):
        plan(path, **keywords({"primary-key": "nothing"}))
    assert not path.exists()
    batch(path, 0, ROWS)
    with pytest.raises(SchemaMismatchError):
        plan(path, ROWS.append_column("n", pa.array([1, 2, 3])))
    wider = plan(path, ROWS.append_column("n", pa.array([1, 2, 3])), **keywords({"write.merge-schema": "true"}))
    assert [field.name for field in wider.handle.schema.fields] == ["id", "v", "dt", "n"]
    assert paimon_spark.load_table(str(path)).row_type.names == ("id", "v", "dt", "n")


def test_tasks_that_saw_other_heads_are_one_batch(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for kind in ("keys", "unaware", "buckets"):
        at = path / kind
        batch(at, 0, rows_of(1, 2), **KINDS[kind])
        sink = plan(at)
        first = write(sink, 1, rows_of(1, text="early"))
        paimon_spark.load_table(str(at)).write(rows_of(7))
        late = write(sink, 1, ROWS.slice(0, 0), rows_of(3))
        sink.commit([*first, *late], 1)
        assert sorted(set(ids(at))) == [1, 2, 3, 7]
        assert left_over(at) == []


def test_dynamic_buckets_that_others_changed_meanwhile_are_a_conflict_and_then_none(tmp_path: Path) -> None:
    path = tmp_path / "t"
    batch(path, 0, rows_of(1), **KINDS["dynamic"])
    sink = plan(path)
    rows = write(sink, 1, rows_of(2))
    paimon_spark.load_table(str(path)).write(rows_of(3))
    with pytest.raises(CommitConflictError):
        sink.commit(rows, 1)
    assert left_over(path) == []
    assert batch(path, 1, rows_of(2)).snapshot_ids
    assert ids(path) == [1, 2, 3]


def test_steady_commits_cost_few_calls_and_no_more_as_history_grows(tmp_path: Path) -> None:
    path = tmp_path / "t"
    sink = plan(path, **KINDS["keys"])
    store = FaultStore(sink.handle.store)
    sink = through(sink, store)
    counts = []
    for number in range(12):
        rows = write(sink, number, rows_of(number))
        store.arm(None)
        sink.commit(rows, number)
        counts.append(store.count())
    assert max(counts[2:]) <= 32, counts


def test_a_loss_goes_on_where_the_query_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "t"
    for number in range(4):
        batch(path, number, rows_of(number))
    paimon_spark.load_table(str(path)).rollback_to(2)
    with pytest.raises(BatchesLostError, match=r"write\.stream\.lost-batches"):
        batch(path, 4, rows_of(4))
    assert left_over(path) == []
    batch(path, 4, rows_of(4), **keywords({"write.stream.lost-batches": "continue"}))
    assert "batch 3" in caplog.text or "batches 2 to 3" in caplog.text
    assert ids(path) == [0, 1, 4]
    batch(path, 5, rows_of(5))
    assert ids(path) == [0, 1, 4, 5]
