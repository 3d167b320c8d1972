"""Changed columns of tables with data evolution: files beside those of their rows, races, and compaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.engine.commit.attempts import CommitResult
from paimon_spark.engine.commit.committer import Committer
from paimon_spark.engine.commit.index_files import head_index
from paimon_spark.engine.commit.requests import PlannedOn
from paimon_spark.engine.compaction.plan import plan_compaction
from paimon_spark.engine.compaction.run import compact_branch, compact_planned, run_here
from paimon_spark.engine.read.split_reader import read_split
from paimon_spark.engine.row_level.job import RowLevelJob, in_process, plan_rows
from paimon_spark.engine.scan.plan import plan_batch
from paimon_spark.engine.scan.query import ScanQuery
from paimon_spark.engine.tasks import CommitMessage, Increment
from paimon_spark.engine.write.request import WriteRequest
from paimon_spark.engine.write.table_writer import TableWriter
from paimon_spark.errors import CommitConflictError, StorageError, UnsupportedFeatureError
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.format.metadata_files.index_manifest import DELETION_VECTORS, GlobalIndexMeta, IndexManifestEntry
from paimon_spark.format.metadata_files.manifest import files_of
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.metadata.definition.alter import alter_table
from paimon_spark.metadata.definition.schema_changes import AddColumn
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests
from paimon_spark.metadata.snapshots import get_snapshot, latest_snapshot
from paimon_spark.predicate.parse import parse_predicate
from paimon_spark.types import parse_type
from tests.harness.writing import empty_table, fail_at, files_below

VECTORS = {"deletion-vectors.enabled": "true"}
EVOLUTION = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
COLUMNS = {"p": "INT", "k": "BIGINT", "v": "STRING", "w": "BIGINT"}
SCHEMA = pa.schema([("p", pa.int32()), ("k", pa.int64()), ("v", pa.string()), ("w", pa.int64())])
NANOSECONDS = pa.timestamp("ns")
Change = Callable[[pa.RecordBatch], pa.RecordBatch]
Found = dict[int, tuple[int, str | None, int | None]]


def table_of(*, partitioned: bool = False, **more: str) -> TableHandle:
    options = {**EVOLUTION, **VECTORS, **{k.replace("_", "-").replace("--", "."): v for k, v in more.items()}}
    return empty_table(COLUMNS, partition_keys=["p"] if partitioned else [], options=options)


def append(handle: TableHandle, *keys: int) -> CommitResult:
    rows = pa.RecordBatch.from_pylist([{"p": k % 2, "k": k, "v": "a", "w": 0} for k in keys], schema=SCHEMA)
    with TableWriter(WriteRequest(handle, "tests"), rows.schema) as writer:
        writer.write(rows)
        return Committer(handle, "tests").commit(writer.close())


def job_of(handle: TableHandle, where: str | None, *, updates: bool) -> RowLevelJob:
    predicate = None if where is None else parse_predicate(where, handle.schema.row_type)
    return plan_rows(handle, predicate, updates=updates)


def commit(handle: TableHandle, base: Snapshot | None, messages: list[CommitMessage]) -> CommitResult:
    return Committer(handle, "tests").commit(messages, planned_on=PlannedOn.of(base, must_remain=True))


def setting(**values: Any) -> Change:
    def change(batch: pa.RecordBatch) -> pa.RecordBatch:
        for name, value in values.items():
            place = batch.schema.get_field_index(name)
            field = batch.schema.field(place)
            batch = batch.set_column(place, field, pa.array([value] * batch.num_rows, field.type))
        return batch

    return change


def planned(handle: TableHandle, where: str | None, change: Change | None) -> Callable[[], CommitResult]:
    """A DELETE or UPDATE that is ready; calling it commits."""
    job = job_of(handle, where, updates=change is not None)
    messages = in_process(job, change)
    return lambda: commit(handle, job.base, messages)


def update(handle: TableHandle, where: str | None, **values: Any) -> CommitResult:
    return planned(handle, where, setting(**values))()


def delete(handle: TableHandle, where: str) -> CommitResult:
    return planned(handle, where, None)()


def rows_of(handle: TableHandle, snapshot_id: int | None = None) -> Found:
    """Row id, v and w by k."""
    snapshot = latest_snapshot(handle) if snapshot_id is None else get_snapshot(handle, snapshot_id)
    plan = plan_batch(handle, snapshot, ScanQuery(("k", "_ROW_ID", "v", "w")))
    rows = [r for s in plan.splits for b in read_split(plan.requests[s.branch], s) for r in b.to_pylist()]
    assert len({r["k"] for r in rows}) == len(rows)
    return {r["k"]: (r["_ROW_ID"], r["v"], r["w"]) for r in rows}


def files(handle: TableHandle) -> list[DataFileMeta]:
    head = latest_snapshot(handle)
    assert head is not None
    return list(files_of(live_entries(handle, data_manifests(handle, head))))


def test_an_update_writes_the_changed_column_beside_its_rows() -> None:
    handle = table_of()
    append(handle, 0, 1, 2)
    append(handle, 3, 4, 5)
    before = {f.file_name for f in files(handle)}
    made = update(handle, "k = 1 OR k = 2", v="new")
    assert made.snapshot is not None and made.snapshot.commit_kind is CommitKind.APPEND
    (new,) = (f for f in files(handle) if f.file_name not in before)
    assert before <= {f.file_name for f in files(handle)}
    assert (new.first_row_id, new.row_count, new.write_cols, new.value_stats_cols) == (0, 3, ("v",), ("v",))
    assert (new.min_sequence_number, new.max_sequence_number) == (3, 3)
    assert rows_of(handle) == {k: (k, "new" if k in (1, 2) else "a", 0) for k in range(6)}
    assert made.snapshot.next_row_id == 6
    update(handle, "v = 'new'", w=7)
    update(handle, "k = 1", v=None)
    assert rows_of(handle) == {0: (0, "a", 0), 1: (1, None, 7), 2: (2, "new", 7)} | {k: (k, "a", 0) for k in (3, 4, 5)}


def test_deleted_rows_stay_deleted_when_columns_change() -> None:
    handle = table_of()
    append(handle, *range(6))
    delete(handle, "k = 1 OR k = 4")
    update(handle, "k > 2", v="new")
    delete(handle, "k = 5 OR k = 0")
    assert rows_of(handle) == {2: (2, "a", 0), 3: (3, "new", 0)}
    before = files(handle)
    delete(handle, "k >= 0")
    assert rows_of(handle) == {}
    assert [f.file_name for f in files(handle)] == [f.file_name for f in before]
    append(handle, 9)
    assert rows_of(handle) == {9: (6, "a", 0)}


def test_rows_are_deleted_by_vectors_only() -> None:
    handle = empty_table(COLUMNS, options=EVOLUTION)
    append(handle, 1, 2)
    with pytest.raises(UnsupportedFeatureError, match=r"deletion-vectors\.enabled = true"):
        job_of(handle, "k = 1", updates=False)
    update(handle, "k = 1", v="new")
    assert rows_of(handle) == {1: (0, "new", 0), 2: (1, "a", 0)}


def test_a_row_does_not_move_to_another_partition() -> None:
    handle = table_of(partitioned=True)
    append(handle, 1, 2)
    job = job_of(handle, "k = 1", updates=True)
    before = files_below(handle)
    with pytest.raises(UnsupportedFeatureError, match="partition column p"):
        in_process(job, setting(v="new", p=7))
    assert files_below(handle) == before


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_values_of_every_kind_are_replaced_and_kept(file_format: str) -> None:
    columns = {
        "k": "BIGINT",
        "t": "TIMESTAMP(6)" if file_format == "avro" else "TIMESTAMP(9)",
        "s": {
            "type": "ROW",
            "fields": [{"id": 20, "name": "a", "type": "INT"}, {"id": 21, "name": "b", "type": "STRING"}],
        },
        "l": {"type": "ARRAY", "element": "STRING"},
        "m": {"type": "MAP", "key": "STRING NOT NULL", "value": "INT"},
        "d": "DECIMAL(20, 3)",
        "b": "BYTES",
    }
    options = {**EVOLUTION, "file.format": file_format}
    handle = empty_table(columns, options=options)
    moment = pa.scalar(1_700_000_000_123_456_000 if file_format == "avro" else 1_700_000_000_123_456_789, NANOSECONDS)
    rows = pa.table(
        {
            "k": pa.array(range(5), pa.int64()),
            "t": pa.array([moment, None, moment, moment, None], NANOSECONDS),
            "s": [{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}, {"a": 2, "b": None}, {"a": 3, "b": "z"}],
            "l": [["a"], [], None, ["b", None], ["c"]],
            "m": pa.array([[("a", 1)], [], None, [("b", None)], [("c", 3)]], pa.map_(pa.string(), pa.int32())),
            "d": pa.array([1, None, 2, 3, 4], pa.decimal128(20, 3)),
            "b": [b"1", b"", None, b"\0", b"x"],
        }
    )
    rows = rows.set_column(2, "s", rows["s"].cast(pa.struct([("a", pa.int32()), ("b", pa.string())])))
    with TableWriter(WriteRequest(handle, "tests"), rows.schema) as writer:
        for batch in rows.to_batches():
            writer.write(batch)
        Committer(handle, "tests").commit(writer.close())

    def shift(batch: pa.RecordBatch) -> pa.RecordBatch:
        """Every column but k takes the values of other rows."""
        order = pa.array([(i + 1) % batch.num_rows for i in range(batch.num_rows)])
        arrays = [batch.column(0), *(c.take(order) for c in batch.columns[1:])]
        return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)

    def found() -> dict[int, dict[str, Any]]:
        plan = plan_batch(handle, latest_snapshot(handle), ScanQuery(tuple(columns)))
        table = pa.Table.from_batches([b for s in plan.splits for b in read_split(plan.requests[s.branch], s)])
        moments = table["t"].cast(pa.int64())
        return {r["k"]: r for r in table.set_column(1, "t", moments).to_pylist()}

    before = found()
    planned(handle, "k = 1 OR k = 3", shift)()
    expected = {**before, 1: {**before[3], "k": 1}, 3: {**before[1], "k": 3}}
    assert found() == expected
    compact_branch(handle, full=True)
    assert len(files(handle)) == 1
    assert found() == expected


def test_columns_added_later_can_be_set() -> None:
    handle = table_of()
    append(handle, 0, 1)
    alter_table(handle, [AddColumn(("x",), parse_type("INT"))])
    handle = open_table(handle.store, handle.layout.root)
    update(handle, "k = 1", x=5)
    plan = plan_batch(handle, latest_snapshot(handle), ScanQuery(("k", "x", "v")))
    rows = [r for s in plan.splits for b in read_split(plan.requests[s.branch], s) for r in b.to_pylist()]
    assert rows == [{"k": 0, "x": None, "v": "a"}, {"k": 1, "x": 5, "v": "a"}]


RACES: dict[str, tuple[tuple[str, Mapping[str, Any] | None], tuple[str, Mapping[str, Any] | None], str | None]] = {
    "one column of one file": (("k = 0", {"v": "x"}), ("k = 1", {"v": "y"}), "removed column v in the same files"),
    "one column of two files": (("k = 0", {"v": "x"}), ("k = 4", {"v": "y"}), None),
    "two columns of one row": (("k = 0", {"v": "x"}), ("k = 0", {"w": 1}), None),
    "two columns, one in common": (
        ("k = 0", {"v": "x", "w": 2}),
        ("k = 1", {"w": 1}),
        "removed column w in the same files",
    ),
    "delete after update": (("k = 0", {"v": "x"}), ("k = 1", None), "whose rows are to be deleted"),
    "delete of another file after update": (("k = 0", {"v": "x"}), ("k = 4", None), None),
    "update after delete": (("k = 0", None), ("k = 1", {"v": "y"}), None),
    "two deletes of one file": (("k = 0", None), ("k = 1", None), "were deleted by another commit meanwhile"),
}


@pytest.mark.parametrize("race", RACES)
def test_two_commits_change_no_column_of_a_row_twice(race: str) -> None:
    handle = table_of(deletion__vector_index__file_target__size="1 b")
    append(handle, 0, 1, 2)
    append(handle, 3, 4, 5)
    (first_where, first_values), (second_where, second_values), problem = RACES[race]
    late = planned(handle, second_where, None if second_values is None else setting(**second_values))
    planned(handle, first_where, None if first_values is None else setting(**first_values))()
    append(handle, 9)
    if problem is not None:
        before = latest_snapshot(handle)
        with pytest.raises(CommitConflictError, match=problem):
            late()
        assert latest_snapshot(handle) == before
        return
    late()
    expected = {k: (k, "a", 0) for k in range(6)} | {9: (6, "a", 0)}
    for where, values in (RACES[race][0], RACES[race][1]):
        key = int(where[-1])
        if values is None:
            del expected[key]
        else:
            row_id, v, w = expected[key]
            expected[key] = (row_id, values.get("v", v), values.get("w", w))
    assert rows_of(handle) == expected


def test_columns_of_rows_that_were_compacted_or_overwritten_meanwhile_are_a_conflict() -> None:
    handle = table_of()
    append(handle, 0, 1, 2)
    append(handle, 3, 4, 5)
    late = planned(handle, "k = 1", setting(v="late"))
    compact_branch(handle, full=True)
    with pytest.raises(CommitConflictError, match="rewrote or removed"):
        late()
    late = planned(handle, "k = 1", setting(v="late"))
    update(handle, "k = 2", w=1)
    compact_branch(handle, full=True)  # of one range, which stays as it is
    late()
    assert rows_of(handle)[1] == (1, "late", 0)
    late = planned(handle, "k = 1", setting(v="later"))
    Committer(handle, "tests").truncate()
    append(handle, *range(6))
    with pytest.raises(CommitConflictError, match="snapshot 7 changed or removed column v"):
        late()
    assert rows_of(handle) == {k: (6 + k, "a", 0) for k in range(6)}


@pytest.mark.parametrize("change", [None, setting(w=6)])
def test_values_that_a_rollback_took_back_meanwhile_are_a_conflict(change: Change | None) -> None:
    handle = table_of()
    before = append(handle, 0, 1, 2).snapshot
    assert before is not None
    update(handle, "k = 0", w=5)
    late = planned(handle, "w = 5 OR k = 1", change)
    Committer(handle, "tests").restore(before)
    with pytest.raises(CommitConflictError, match="snapshot 3 changed"):
        late()
    assert rows_of(handle) == {k: (k, "a", 0) for k in range(3)}


def test_a_compaction_beside_changed_columns_is_planned_again() -> None:
    handle = table_of()
    append(handle, 0, 1, 2)
    append(handle, 3, 4, 5)
    delete(handle, "k = 4")
    plans = []

    def runner(current: TableHandle, head: Snapshot, tasks: Any, user: str) -> Any:
        made = run_here(current, head, tasks, user)
        plans.append(tasks)
        if len(plans) == 1:
            update(handle, "k = 1", v="meanwhile")
        elif len(plans) == 2:
            delete(handle, "k = 0")
        return made

    result = compact_planned(handle, lambda h, s, b: plan_compaction(h, s, full=True, buckets=b), "us", runner)
    assert len(plans) == 3
    assert result.snapshot is not None and result.snapshot.commit_kind is CommitKind.COMPACT
    assert rows_of(handle) == {
        1: (1, "meanwhile", 0),
        2: (2, "a", 0),
        3: (3, "a", 0),
        5: (5, "a", 0),
    }
    live = {f.file_name for f in files(handle)}
    data = [p for p in files_below(handle) if "/bucket-0/" in p]
    assert live <= {p.rpartition("/")[2] for p in data}


def test_compacted_files_keep_row_ids_sequence_numbers_and_deleted_rows() -> None:
    handle = table_of()
    for first in (0, 3, 6):
        append(handle, first, first + 1, first + 2)
    update(handle, "k > 4", v="new")
    delete(handle, "k = 1 OR k = 3 OR k = 8")
    expected = rows_of(handle)
    result = compact_branch(handle, full=True)
    assert (result.files_before, result.files_after) == (5, 1)
    (file,) = files(handle)
    assert (file.first_row_id, file.row_count, file.write_cols) == (0, 9, None)
    assert (file.min_sequence_number, file.max_sequence_number) == (1, 4)
    (vectors,) = (e for e in head_index(handle, latest_snapshot(handle)) if e.index_type == DELETION_VECTORS)
    assert [(r.data_file_name, r.cardinality) for r in vectors.deletion_vectors or ()] == [(file.file_name, 3)]
    assert rows_of(handle) == expected
    assert compact_branch(handle, full=True).snapshot_ids == ()
    delete(handle, "k = 0")
    update(handle, "k = 2", w=5)
    append(handle, 20)
    assert rows_of(handle) == {2: (2, "a", 5), 20: (9, "a", 0)} | {k: expected[k] for k in (4, 5, 6, 7)}


def test_ranges_with_a_gap_between_them_stay_apart() -> None:
    handle = table_of(partitioned=True)
    for k in (0, 1, 2, 4, 3, 5):  # rows of the two partitions alternate at first
        append(handle, k)
    update(handle, "k = 0", v="new")
    assert compact_branch(handle, full=False).snapshot_ids == ()
    compact_branch(handle, full=True)
    found = sorted((f.first_row_id, f.row_count) for f in files(handle))
    assert found == [(0, 1), (1, 1), (2, 2), (4, 2)]
    assert rows_of(handle)[0] == (0, "new", 0)


def test_columns_with_a_global_index_are_refused() -> None:
    handle = table_of()
    append(handle, 0, 1)
    index = IndexManifestEntry(
        0, b"\0\0\0\0\0\0\0\0\0\0\0\0", 0, "btree", "index-1", 10, 2, global_index=GlobalIndexMeta(0, 1, 2)
    )
    partition = next(iter(plan_batch(handle, latest_snapshot(handle), ScanQuery()).splits)).partition
    added = CommitMessage(partition, 0, -1, Increment(new_index_files=(index._replace(partition=partition),)))
    Committer(handle, "tests").commit([added])
    before = files_below(handle)
    with pytest.raises(UnsupportedFeatureError, match=r"column v of .* has a global index"):
        update(handle, "k = 1", v="new")
    assert files_below(handle) == before
    update(handle, "k = 1", w=4)
    assert rows_of(handle) == {0: (0, "a", 0), 1: (1, "a", 4)}


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(st.integers(0, 40), min_size=1, max_size=6, unique=True)),
        st.tuples(st.just("delete"), st.integers(2, 6)),
        st.tuples(st.just("v"), st.integers(2, 6)),
        st.tuples(st.just("w"), st.integers(2, 6)),
        st.tuples(st.just("compact"), st.booleans()),
    ),
    min_size=2,
    max_size=9,
)


@given(STEPS, st.booleans())
def test_rows_and_ids_are_those_of_a_dictionary(steps: list[tuple[str, Any]], partitioned: bool) -> None:
    handle = table_of(partitioned=partitioned)
    model: Found = {}
    next_id = 0
    for number, (what, argument) in enumerate(steps):
        chosen = [] if isinstance(argument, list) else [k for k in model if k % argument == 0] if argument > 1 else []
        where = " OR ".join(f"k = {k}" for k in chosen)
        match what:
            case "append":
                keys = sorted((k for k in argument if k not in model), key=lambda k: k % 2 if partitioned else 0)
                if not keys:
                    continue
                append(handle, *keys)
                found = rows_of(handle)
                assert {found[k][0] for k in keys} == set(range(next_id, next_id + len(keys)))
                model |= {k: (found[k][0], "a", 0) for k in keys}
                next_id += len(keys)
            case "delete" if chosen:
                delete(handle, where)
                model = {k: r for k, r in model.items() if k not in chosen}
            case "v" if chosen:
                update(handle, where, v=f"v{number}")
                model |= {k: (model[k][0], f"v{number}", model[k][2]) for k in chosen}
            case "w" if chosen:
                update(handle, where, w=number)
                model |= {k: (model[k][0], model[k][1], number) for k in chosen}
            case "compact":
                compact_branch(handle, full=argument)
        assert latest_snapshot(handle) is None or rows_of(handle) == model


def test_rows_of_a_partition_are_marked_without_being_read() -> None:
    handle = table_of(partitioned=True)
    append(handle, *range(6))
    delete(handle, "k = 1")
    update(handle, "k < 3", v="new")
    before = {f.file_name for f in files(handle)}
    delete(handle, "p = 1")
    assert {f.file_name for f in files(handle)} == before
    assert {k: v for k, (_, v, _) in rows_of(handle).items()} == {0: "new", 2: "new", 4: "a"}


@pytest.mark.parametrize("what", ["update", "delete", "compact"])
def test_a_store_that_fails_leaves_no_file(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = table_of(partitioned=True)
    for first in (0, 6):
        append(handle, *range(first, first + 6))
    delete(handle, "k = 1 OR k = 8")
    update(handle, "k < 4", v="new")
    before, rows = set(files_below(handle)), rows_of(handle)
    actions: dict[str, Callable[[], object]] = {
        "update": lambda: in_process(job_of(handle, None, updates=True), setting(v="x", w=1)),
        "delete": lambda: in_process(job_of(handle, "k > 2", updates=False)),
        "compact": lambda: compact_branch(handle, full=True),
    }
    failures = 0
    for nth in range(1, 30):
        with monkeypatch.context() as patch:
            fail_at(patch, type(handle.store), nth)
            try:
                actions[what]()
            except StorageError:
                failures += 1
                assert set(files_below(handle)) == before
                continue
        break
    assert failures > 1
    assert rows_of(handle) == rows
