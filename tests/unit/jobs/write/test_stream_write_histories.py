"""A sink whose branch changes under it: rolled back, merged, renamed, deleted, made anew, its columns changed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.errors import (
    BatchesLostError,
    BranchNotFoundError,
    CommitConflictError,
    PaimonError,
    SchemaChangedError,
    TableNotFoundError,
)
from paimon_spark.jobs.upkeep.compaction import compact_batch
from paimon_spark.jobs.write.stream import plan_stream_commit
from paimon_spark.streaming.batches import read_sink_log
from tests.harness.keywords import keywords
from tests.harness.sinks import KINDS, QUERY, ROWS, batch, batches_of, ids, left_over, plan, read, rows_of, write

KEYED: dict[str, Any] = {"primary-key": "id", "bucket": "1"}


def table(path: Path, branch: str = "main") -> paimon_spark.Table:
    return paimon_spark.load_table(str(path), branch=branch)


def batches(path: Path, numbers: range, **options: Any) -> None:
    for number in numbers:
        batch(path, number, rows_of(number), **options)


def test_a_batch_that_was_rolled_back_before_it_was_acknowledged_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "t"
    batches(path, range(3))
    table(path).rollback_to(2)
    assert not batch(path, 2, rows_of(2)).was_committed
    assert ids(path) == [0, 1, 2]
    assert left_over(path) == []


def test_no_compaction_takes_the_place_of_a_batch_that_is_rolled_back_before_it_begins(tmp_path: Path) -> None:
    path = tmp_path / "t"
    options: dict[str, Any] = KINDS["deletion_vectors"]
    batch(path, 0, rows_of(1), **options, **keywords({"write-only": "true"}))
    sink = plan(path, **keywords({"write-only": "true"}))
    rows = write(sink, 1, rows_of(2))
    sink.commit(rows, 1)
    made = table(path).snapshots()[-1]
    table(path).rollback_to(1)
    handle = paimon_spark.load_table(str(path), **{"write-only": "false"}).handle
    assert compact_batch(handle, QUERY, made, [m for r in rows for m in r.messages]) == ()
    with pytest.raises(BatchesLostError, match="batch 1 "):
        batch(path, 2, rows_of(3))
    # As long as the batch is there, what else waits in its bucket is compacted with it.
    batch(path, 1, rows_of(2), **keywords({"write-only": "false"}))
    assert ids(path) == [1, 2]


def test_earlier_batches_that_were_rolled_back_stop_the_query(tmp_path: Path) -> None:
    path = tmp_path / "t"
    batches(path, range(4))
    table(path).rollback_to(2)
    table(path).write(rows_of(100))
    with pytest.raises(BatchesLostError, match=r"batch 2 of query .* snapshot 3") as e:
        batch(path, 3, rows_of(3))
    assert (e.value.context["batch_id"], e.value.context["query_id"]) == (3, QUERY)
    assert left_over(path) == []
    assert ids(path) == [0, 1, 100]


def test_a_state_restored_as_the_latest_keeps_the_batches_in_its_history(tmp_path: Path) -> None:
    path = tmp_path / "t"
    batches(path, range(3))
    table(path).rollback_to_as_latest(1)
    assert batch(path, 2, rows_of(2)).was_committed  # taking rows away later is the user's wish
    batch(path, 3, rows_of(3))
    assert ids(path) == [0, 3]


def test_a_query_on_a_branch_goes_on_when_the_branch_becomes_main(tmp_path: Path) -> None:
    path = tmp_path / "t"
    batch(path, 0, rows_of(100))
    table(path).create_branch("b", snapshot_id=1)
    sink: dict[str, Any] = {"branch": "b"}
    for number in range(1, 3):
        batch(path, number, rows_of(number), **sink)
    table(path).merge_branch("b")
    assert batch(path, 2, rows_of(2), **sink).was_committed
    batch(path, 3, rows_of(3), **sink)
    assert (ids(path, "b"), ids(path)) == ([1, 2, 3, 100], [1, 2, 100])
    # The same query, sent to main from here on, finds its batches there.
    assert batch(path, 2, rows_of(2)).was_committed
    with pytest.raises(BatchesLostError):
        batch(path, 4, rows_of(4))
    assert left_over(path) == []


def test_a_merge_that_takes_mains_batches_away_stops_the_query(tmp_path: Path) -> None:
    path = tmp_path / "t"
    batches(path, range(2))
    table(path).create_branch("b", snapshot_id=2)
    table(path, "b").write(rows_of(50))
    batches(path, range(2, 4))
    table(path).merge_branch("b", if_main_moved="replace")
    with pytest.raises(
        BatchesLostError, match=r"batches 2 to 3 .* are not .* where batch 2 began \(the file offsets/1 "
    ):
        batch(path, 4, rows_of(4))
    assert ids(path) == [0, 1, 50]
    assert left_over(path) == []


def test_a_merge_that_takes_no_batch_away_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "t"
    batches(path, range(2))
    table(path).create_branch("b", snapshot_id=2)
    table(path, "b").write(rows_of(50))
    table(path).write(rows_of(60))
    batch(path, 2, ROWS.slice(0, 0))
    table(path).merge_branch("b", if_main_moved="replace")
    batch(path, 3, rows_of(3))
    assert ids(path) == [0, 1, 3, 50]


@pytest.mark.parametrize("kind", ["unaware", "keys", "dynamic"])
def test_rows_written_before_a_merge_are_committed_only_where_they_fit(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    batch(path, 0, rows_of(1), **KINDS[kind])
    table(path).create_branch("b", snapshot_id=1)
    for _ in range(3):
        table(path, "b").write(rows_of(1, text="branch"))
    table(path).write(rows_of(1, text="main"))
    sink = plan(path)
    rows = write(sink, 1, rows_of(1, text="stream"))
    table(path).merge_branch("b", backup=False, if_main_moved="replace")
    if kind == "unaware":
        sink.commit(rows, 1)
    else:
        with pytest.raises(CommitConflictError):
            sink.commit(rows, 1)
        batch(path, 1, rows_of(1, text="stream"))
        assert [r["v"] for r in read(path)] == ["stream"]
    assert batches_of(path) == [0, 1]
    assert left_over(path) == []


def test_rows_that_go_on_from_an_empty_branch_do_not_count_as_older_than_what_came_by_a_merge(tmp_path: Path) -> None:
    path = tmp_path / "t"
    paimon_spark.load_catalog(str(tmp_path)).create_database("db")
    catalog = paimon_spark.load_catalog(str(tmp_path))
    catalog.create_table("db.t", ROWS.schema, primary_keys=["id"], options={"bucket": "1"})
    path = tmp_path / "db.db" / "t"
    table(path).create_branch("b", empty=True)
    sink = plan(path)
    rows = write(sink, 0, rows_of(1, text="stream"))
    for _ in range(3):
        table(path, "b").write(rows_of(1, text="branch"))
    table(path).merge_branch("b")
    with pytest.raises(CommitConflictError, match="empty branch"):
        sink.commit(rows, 0)
    batch(path, 0, rows_of(1, text="stream"))
    assert [r["v"] for r in read(path)] == ["stream"]
    assert left_over(path) == []


@pytest.mark.parametrize("kind", ["unaware", "keys"])
def test_main_that_means_another_directory_is_followed(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    batch(path, 0, rows_of(1, text="old"), **KINDS[kind])
    table(path).create_branch("b", snapshot_id=1)
    table(path, "b").write(rows_of(2, text="branch"))
    sink = plan(path)
    early = write(sink, 1, rows_of(1, text="early"))
    table(path).replace_main("b")
    late = write(sink, 1, rows_of(1, text="late"))
    assert late[0].base is not None and late[0].base.id == 2
    result = sink.commit(late, 1)
    assert result.snapshot_ids == (3,)
    texts = ["branch", "late"] if kind == "keys" else ["branch", "late", "old"]
    assert sorted(r["v"] for r in read(path)) == texts
    assert sink.commit(early, 1).was_committed
    assert left_over(path) == []
    for number in range(2, 4):
        assert not batch(path, number, rows_of(number)).was_committed
        assert batch(path, number, rows_of(number)).was_committed


def test_empty_batches_are_known_to_a_main_that_means_another_directory(tmp_path: Path) -> None:
    path = tmp_path / "t"
    batch(path, 0, rows_of(0))
    table(path).create_branch("b", snapshot_id=1)
    table(path, "b").write(rows_of(50))
    for number in range(1, 4):
        batch(path, number, ROWS.slice(0, 0))
    table(path).replace_main("b")
    assert not list((path / "sink").iterdir())
    assert batch(path, 4, rows_of(4)).snapshot_ids == (3,)
    batch(path, 5, rows_of(5))
    table(path).create_branch("c", snapshot_id=3)
    table(path, "c").write(rows_of(60))
    table(path).replace_main("c")
    with pytest.raises(BatchesLostError, match="batch 5 "):
        batch(path, 6, rows_of(6))
    assert left_over(path) == []


def test_empty_batches_are_known_to_a_main_that_takes_over_the_branch_they_went_to(tmp_path: Path) -> None:
    path = tmp_path / "t"
    batch(path, 0, rows_of(0))
    table(path).create_branch("b", snapshot_id=1)
    for number in range(1, 3):
        batch(path, number, rows_of(number), branch="b")
    batch(path, 3, ROWS.slice(0, 0), branch="b")
    table(path).merge_branch("b")
    batch(path, 4, rows_of(4))
    # What main noted of a later batch stays, and tells that the batch is gone.
    table(path, "b").write(rows_of(50))
    table(path).merge_branch("b", if_main_moved="replace")
    with pytest.raises(BatchesLostError, match="batch 4 "):
        batch(path, 5, rows_of(5))
    assert ids(path) == [0, 1, 2, 50]
    assert left_over(path) == []


def test_what_a_query_noted_on_main_goes_to_the_backup_of_a_merge_too(tmp_path: Path) -> None:
    path = tmp_path / "t"
    batches(path, range(2))
    table(path).create_branch("b", snapshot_id=1)
    table(path, "b").write(rows_of(50))
    batch(path, 2, ROWS.slice(0, 0))
    backup = table(path).merge_branch("b", if_main_moved="replace").backup_branch
    assert backup is not None
    batch(path, 3, rows_of(3), branch=backup)
    assert (ids(path, backup), ids(path)) == ([0, 1, 3], [0, 50])
    assert left_over(path) == []


@pytest.mark.parametrize("garbage", [b"{", b"\xff\xfe", b'{"batch": "x"}'])
def test_notes_that_cannot_be_understood_stop_no_merge(garbage: bytes, tmp_path: Path) -> None:
    path = tmp_path / "t"
    batch(path, 0, rows_of(0))
    table(path).create_branch("b", snapshot_id=1)
    batch(path, 1, rows_of(1), branch="b")
    for place in (path, path / "branch" / "branch-b"):
        (place / "sink" / f"sink-{QUERY}").write_bytes(garbage)
    table(path).merge_branch("b")
    batch(path, 2, rows_of(2))
    assert ids(path) == [0, 1, 2]


def test_a_renamed_branch_takes_along_what_the_query_noted(tmp_path: Path) -> None:
    path = tmp_path / "t"
    batch(path, 0, rows_of(1))
    table(path).create_branch("b", empty=True)
    for number in range(2):
        batch(path, number, ROWS.slice(0, 0), branch="b")
    sink = plan(path, branch="b")
    rows = write(sink, 2, rows_of(2))
    table(path).rename_branch("b", "c")
    with pytest.raises(BranchNotFoundError):
        sink.commit(rows, 2)
    assert left_over(path) == []
    assert batch(path, 2, rows_of(2), branch="c").snapshot_ids == (1,)
    table(path).rename_branch("c", "b")
    assert batch(path, 2, rows_of(2), branch="b").was_committed
    assert not batch(path, 3, rows_of(3), branch="b").was_committed


def test_a_deleted_branch_stops_the_query_and_one_made_anew_does_too(tmp_path: Path) -> None:
    path = tmp_path / "t"
    batch(path, 0, rows_of(1))
    table(path).create_branch("b", snapshot_id=1)
    for number in range(2):
        batch(path, number, rows_of(number), branch="b")
    sink = plan(path, branch="b")
    rows = write(sink, 2, rows_of(2))
    table(path).delete_branch("b")
    with pytest.raises(BranchNotFoundError):  # as the process that ends the batch finds it
        plan_stream_commit({"path": str(path), "branch": "b"}, False).commit(rows, 2)
    assert left_over(path) == []
    assert not (path / "branch" / "branch-b").exists()
    table(path).create_branch("b", snapshot_id=1)
    assert read_sink_log(table(path, "b").handle, QUERY) is None
    with pytest.raises(BatchesLostError):
        batch(path, 2, rows_of(2), branch="b")


def test_the_note_of_a_query_disturbs_no_verb_on_branches(tmp_path: Path) -> None:
    path = tmp_path / "t"
    batches(path, range(3))
    main = table(path)
    main.create_tag("v", snapshot_id=2)
    main.create_branch("b", tag="v")
    batch(path, 2, rows_of(9), branch="b")
    main.rename_branch("b", "c")
    assert [b.name for b in main.branches() if not b.is_main] == ["c"]
    assert main.doctor() == []
    main.merge_branch("c", if_main_moved="replace")
    assert main.doctor() == []
    table(path).delete_branch("c")
    assert left_over(path) == []
    assert table(path).remove_orphan_files().files == 0
    assert ids(path) == [0, 1, 9]


def test_a_query_with_the_same_checkpoint_on_another_branch_is_told_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "t"
    batches(path, range(2))
    table(path).create_branch("early", snapshot_id=1)
    table(path).create_branch("late", snapshot_id=2)
    table(path).create_branch("empty", empty=True)
    assert not batch(path, 2, rows_of(2), branch="late").was_committed
    for branch in ("early", "empty"):
        told = (
            rf"checkpoint of query .* is of branch 'main' of .*, and branch '{branch}' of .* lacks some of them: give"
        )
        with pytest.raises(BatchesLostError, match=told) as e:
            batch(path, 2, rows_of(2), branch=branch)
        assert "step.checkpoint" in str(e.value) and "expired" not in str(e.value)
        batch(path, 2, rows_of(2), branch=branch, **keywords({"write.stream.lost-batches": "continue"}))
        batch(path, 3, rows_of(3), branch=branch)
    assert (ids(path, "late"), ids(path, "early"), ids(path, "empty")) == ([0, 1, 2], [0, 2, 3], [2, 3])


def test_a_table_that_was_dropped_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "t"
    sink = plan(path)
    rows = write(sink, 0, ROWS)
    shutil.rmtree(path)
    with pytest.raises(TableNotFoundError):
        sink.commit(rows, 0)
    batch(path, 0, ROWS, **KEYED)
    rows = write(plan(path), 1, ROWS)
    shutil.rmtree(path)
    batch(path, 0, ROWS)
    with pytest.raises(CommitConflictError, match="is another"):
        plan(path).commit(rows, 1)
    assert left_over(path) == []


def test_columns_that_others_add_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "t"
    sink = plan(path, **KEYED)
    for number in range(3):
        rows = write(sink, number, rows_of(number))
        table(path).alter(add={f"c{number}": "INT"})
        sink.commit(rows, number)
    batch(path, 3, rows_of(3))
    assert ids(path) == [0, 1, 2, 3]
    assert {r["c2"] for r in read(path)} == {None}


def test_a_column_that_others_rename_takes_the_rows_along(tmp_path: Path) -> None:
    path = tmp_path / "t"
    sink = plan(path)
    rows = write(sink, 0, rows_of(1))
    table(path).alter(rename={"v": "w"})
    sink.commit(rows, 0)
    assert read(path) == [{"id": 1, "w": "v", "dt": "y"}]
    with pytest.raises(PaimonError, match="v"):
        plan(path)


@pytest.mark.parametrize(
    ("change", "what"),
    [({"drop": ["v"]}, "was dropped"), ({"retype": {"n": "BIGINT"}}, "has type BIGINT now, not INT")],
)
def test_a_column_that_others_drop_or_retype_stops_the_batch(
    change: dict[str, object], what: str, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    wide = ROWS.append_column("n", pa.array([1, 2, 3], pa.int32()))
    sink = plan(path, wide)
    sink.commit(write(sink, 0, wide), 0)
    rows = write(sink, 1, wide)
    table(path).alter(**change)  # type: ignore[arg-type]
    with pytest.raises(SchemaChangedError, match=what):
        sink.commit(rows, 1)
    assert left_over(path) == []
    assert batches_of(path) == [0]


def test_a_schema_grows_with_the_rows_and_later_batches_go_on(tmp_path: Path) -> None:
    path = tmp_path / "t"
    batch(path, 0, rows_of(1))
    wide = rows_of(2).append_column("n", pa.array([7]))
    assert not batch(path, 1, wide, **keywords({"write.merge-schema": "true"})).was_committed
    assert batch(path, 1, wide, **keywords({"write.merge-schema": "true"})).was_committed
    batch(path, 2, rows_of(3))
    assert [r["n"] for r in read(path)] == [None, 7, None]


def test_another_number_of_buckets_does_not_break_the_next_batch(tmp_path: Path) -> None:
    path = tmp_path / "t"
    batch(path, 0, rows_of(1, 2), **KINDS["keys"])
    rows = write(plan(path), 1, rows_of(3))
    table(path).alter(set_options={"bucket": "4"})
    plan(path).commit(rows, 1)
    assert ids(path) == [1, 2, 3]


def test_a_doubtful_batch_is_told_with_what_to_do_whether_it_is_there_or_not(tmp_path: Path) -> None:
    path = tmp_path / "t"
    batches(path, range(4))
    for number in (50, 51):
        table(path).write(rows_of(number))
    table(path).expire_snapshots(retain_max=1, retain_min=1)
    with pytest.raises(
        BatchesLostError,
        match=r"it is unknown whether batch 3 of .* have expired.*If not, option write.stream.lost-batches = continue "
        r"writes .* second time: .* where batch 3 ends \(the file offsets/3 .*snapshot.time-retained.* Nothing was",
    ):
        batch(path, 3, rows_of(3))
    assert ids(path) == [0, 1, 2, 3, 50, 51]
    batch(path, 3, rows_of(3), **keywords({"write.stream.lost-batches": "continue"}))
    assert ids(path) == [0, 1, 2, 3, 3, 50, 51]


def test_doubtful_batches_before_are_told_with_what_to_do_whether_they_are_there_or_not(tmp_path: Path) -> None:
    path = tmp_path / "t"
    batches(path, range(4))
    for number in (50, 51):
        table(path).write(rows_of(number))
    table(path).expire_snapshots(retain_max=1, retain_min=1)
    (path / "sink" / f"sink-{QUERY}").unlink()
    with pytest.raises(
        BatchesLostError,
        match=r"it is unknown whether the batches before 4 of .* have expired.* If they are, option "
        r"write.stream.lost-batches = continue continues with batch 4; if not, give the query a new checkpoint",
    ):
        batch(path, 4, rows_of(4))
    batch(path, 4, rows_of(4), **keywords({"write.stream.lost-batches": "continue"}))
    assert ids(path) == [0, 1, 2, 3, 4, 50, 51]
