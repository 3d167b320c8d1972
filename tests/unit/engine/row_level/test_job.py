"""Rows deleted and updated on every kind of table, against a list of rows; nothing is left when it fails."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.engine.commit.attempts import CommitResult
from paimon_spark.engine.commit.committer import Committer
from paimon_spark.engine.commit.requests import PlannedOn
from paimon_spark.engine.read.split_reader import read_split
from paimon_spark.engine.row_level.job import Change, RowLevelJob, in_process, plan_rows
from paimon_spark.engine.row_level.strategy import DeleteStrategy, delete_strategy
from paimon_spark.engine.scan.plan import plan_batch
from paimon_spark.engine.scan.query import ScanQuery
from paimon_spark.engine.tasks import FILE_PATH, ROW_INDEX, CommitMessage, Increment
from paimon_spark.errors import CommitConflictError, DataError, InvalidInputError, StorageError, UnsupportedFeatureError
from paimon_spark.format.metadata_files.snapshot import CommitKind
from paimon_spark.metadata.definition.alter import alter_table
from paimon_spark.metadata.definition.schema_changes import AddColumn
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests
from paimon_spark.metadata.partition_path import index_file_path
from paimon_spark.metadata.snapshots import get_snapshot, latest_snapshot
from paimon_spark.metadata.vector_files import vector_files
from paimon_spark.predicate.parse import parse_predicate
from paimon_spark.types import parse_type
from tests.harness.writing import empty_table, fail_at, files_below, written

Row = tuple[Any, ...]
VECTORS = {"deletion-vectors.enabled": "true"}
EVOLUTION = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
BUCKETS = {"bucket": "2", "bucket-key": "k"}
TINY = {"source.split.target-size": "1 b", "source.split.open-file-cost": "1 b"}
KINDS: dict[str, dict[str, Any]] = {
    "rewrite": {},
    "rewrite_partitioned": {"partition_keys": ["p"], "options": TINY},
    "rewrite_buckets": {"options": {**BUCKETS, **TINY}},
    "vectors": {"options": VECTORS},
    "vectors_64": {"options": {**VECTORS, "deletion-vectors.bitmap64": "true"}},
    "vectors_small_files": {"options": {**VECTORS, **TINY, "deletion-vector.index-file.target-size": "1 b"}},
    "vectors_partitioned": {"partition_keys": ["p"], "options": VECTORS},
    "vectors_buckets": {"options": {**VECTORS, **BUCKETS}},
    "row_ids": {"partition_keys": ["p"], "options": {"row-tracking.enabled": "true", **TINY}},
    "row_ids_vectors": {"options": {"row-tracking.enabled": "true", **VECTORS}},
    "evolution": {"options": {**EVOLUTION, **VECTORS}},
    "evolution_partitioned": {"partition_keys": ["p"], "options": {**EVOLUTION, **VECTORS, **TINY}},
    "keys": {"primary_keys": ["k"], "options": {"bucket": "2"}},
    "keys_partitioned": {"primary_keys": ["p", "k"], "partition_keys": ["p"], "options": {"bucket": "1", **TINY}},
    "keys_dynamic": {"primary_keys": ["k"]},
    "keys_partial_update": {
        "primary_keys": ["k"],
        "options": {
            "bucket": "1",
            "merge-engine": "partial-update",
            "partial-update.remove-record-on-delete": "true",
        },
    },
}
SCHEMA = pa.schema([("p", pa.int32()), ("k", pa.int64()), ("v", pa.string())])


def table_of(kind: str, **more: str) -> TableHandle:
    given_ = KINDS[kind]
    keys = given_.get("primary_keys", ())
    columns = {n: t + (" NOT NULL" if n in keys else "") for n, t in (("p", "INT"), ("k", "BIGINT"), ("v", "STRING"))}
    return empty_table(columns, **{**given_, "options": {**given_.get("options", {}), **more}})


def batch(rows: Sequence[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, r, strict=True)) for r in rows], schema=SCHEMA)


def commit(handle: TableHandle, messages: Sequence[CommitMessage], **how: Any) -> CommitResult:
    return Committer(handle, "tests").commit(messages, **how)


def append(handle: TableHandle, rows: Sequence[Row]) -> None:
    commit(handle, written(handle, [batch(rows)], base=latest_snapshot(handle)))


def job_of(handle: TableHandle, where: str | None, updates: bool = False) -> RowLevelJob:
    predicate = None if where is None else parse_predicate(where, handle.schema.row_type)
    return plan_rows(handle, predicate, updates=updates)


def delete(handle: TableHandle, where: str | None) -> CommitResult:
    job = job_of(handle, where)
    return commit(handle, in_process(job), planned_on=PlannedOn.of(job.base), operation="DELETE")


def update(handle: TableHandle, where: str | None, change: Change) -> CommitResult:
    job = job_of(handle, where, updates=True)
    return commit(handle, in_process(job, change), planned_on=PlannedOn.of(job.base), operation="UPDATE")


def rows_of(handle: TableHandle) -> list[Row]:
    plan = plan_batch(handle, latest_snapshot(handle), ScanQuery())
    rows = [r for s in plan.splits for b in read_split(plan.requests[s.branch], s) for r in b.to_pylist()]
    return sorted((tuple(r.values()) for r in rows), key=repr)


def unreachable(handle: TableHandle) -> set[str]:
    """Data and index files that the head does not name; files that were replaced are among them."""
    head = latest_snapshot(handle)
    names = set()
    if head is not None:
        names = set(live_entries(handle, data_manifests(handle, head)).column("file_name").to_pylist())
    names |= {e.file_name for entries in vector_files(handle, head).values() for e in entries}
    return {p for p in files_below(handle) if "/snapshot/" not in p and "/manifest/" not in p} - {
        p for p in files_below(handle) if p.rpartition("/")[2] in names
    }


def set_v(text: str | None) -> Change:
    def change(rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows.set_column(2, "v", pa.array([text] * rows.num_rows, pa.string()))

    return change


CONDITIONS: dict[str, Callable[[Row], bool]] = {
    "k = 2": lambda r: r[1] == 2,
    "k < 3": lambda r: r[1] < 3,
    "v = 'a'": lambda r: r[2] == "a",
    "v IS NULL": lambda r: r[2] is None,
    "p = 1": lambda r: r[0] == 1,
    "p <> 1": lambda r: r[0] is not None and r[0] != 1,
    "p IS NULL": lambda r: r[0] is None,
    "p = 0 AND k > 2": lambda r: r[0] == 0 and r[1] > 2,
    "NOT (v = 'b')": lambda r: r[2] is not None and r[2] != "b",
}


def everything(_: Row) -> bool:
    return True


steps = st.lists(
    st.tuples(st.just("append"), st.lists(st.tuples(
        st.sampled_from([0, 1, None]), st.integers(0, 5), st.sampled_from(["a", "b", None])
    ), min_size=1, max_size=6))
    | st.tuples(st.just("delete"), st.sampled_from([*CONDITIONS, None]))
    | st.tuples(st.just("update"), st.sampled_from([*CONDITIONS, None])),
    min_size=1,
    max_size=6,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@given(steps=steps)
def test_a_table_holds_what_a_list_of_rows_holds(kind: str, steps: list[tuple[str, Any]]) -> None:
    handle = table_of(kind)
    keys = [SCHEMA.names.index(n) for n in handle.schema.primary_keys]
    model: list[Row] = []
    for number, (what, given_) in enumerate(steps):
        if what == "append":
            rows = [tuple(0 if i in keys and v is None else v for i, v in enumerate(r)) for r in given_]
            if "partial" in kind:
                rows = [(r[0] or 0, r[1], r[2] or "a") for r in rows]
            append(handle, rows)
            model = merged(model + rows, keys)
        elif what == "delete":
            delete(handle, given_)
            meant = CONDITIONS.get(given_, everything)
            model = [r for r in model if not meant(r)]
        else:
            update(handle, given_, set_v(f"new {number}"))
            meant = CONDITIONS.get(given_, everything)
            model = [(r[0], r[1], f"new {number}") if meant(r) else r for r in model]
        assert rows_of(handle) == sorted(model, key=repr)


def merged(rows: list[Row], keys: list[int]) -> list[Row]:
    return list({tuple(r[i] for i in keys): r for r in rows}.values()) if keys else rows


def test_deleting_by_vectors_leaves_the_data_files() -> None:
    handle = table_of("vectors")
    append(handle, [(0, k, "a") for k in range(10)])
    files = files_below(handle)
    result = delete(handle, "k < 3")
    assert result.snapshot is not None
    assert result.snapshot.commit_kind is CommitKind.OVERWRITE
    delete(handle, "k = 5")
    assert {p for p in files if "/bucket-" in p} == {p for p in files_below(handle) if "/bucket-" in p}
    ((entry,),) = vector_files(handle, latest_snapshot(handle)).values()
    assert [r.cardinality for r in entry.deletion_vectors or ()] == [4]


@pytest.mark.parametrize("kind", ["vectors", "vectors_buckets", "rewrite"])
def test_a_file_without_rows_goes_with_its_vector(kind: str) -> None:
    handle = table_of(kind)
    append(handle, [(0, 1, "a"), (0, 1, "b")])
    delete(handle, "v = 'a'")
    delete(handle, "v = 'b'")
    head = latest_snapshot(handle)
    assert head is not None
    assert len(live_entries(handle, data_manifests(handle, head))) == 0
    assert vector_files(handle, head) == {}


def test_vectors_that_stay_move_with_their_index_file() -> None:
    handle = table_of("vectors")
    for k in range(3):
        append(handle, [(0, k, v) for v in "abc"])
    delete(handle, "v = 'a'")
    delete(handle, "k = 1 AND v = 'b'")
    ((entry,),) = vector_files(handle, latest_snapshot(handle)).values()
    assert sorted(r.cardinality or 0 for r in entry.deletion_vectors or ()) == [1, 1, 2]


def test_tables_with_vectors_and_no_option_are_rewritten_and_their_vectors_go() -> None:
    handle = table_of("vectors")
    append(handle, [(0, k, "a") for k in range(5)])
    delete(handle, "k = 1")
    plain = TableHandle(
        handle.store, handle.layout, handle.name, handle.schema, table_of("rewrite").options, handle.overrides
    )
    assert delete_strategy(plain) is DeleteStrategy.REWRITE
    delete(plain, "k = 2")
    assert rows_of(plain) == [(0, k, "a") for k in (0, 3, 4)]
    assert vector_files(plain, latest_snapshot(plain)) == {}


def test_partitions_go_without_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = table_of("rewrite_partitioned")
    append(handle, [(p, k, "a") for p in (0, 1, None) for k in range(3)])
    job = job_of(handle, "p = 1 OR p IS NULL")
    monkeypatch.setattr("paimon_spark.engine.row_level.deletion.read_split", lambda *_: pytest.fail("it was read"))
    outcomes = [job.run(i) for i in range(len(job.splits))]
    assert sum(o.rows or 0 for o in outcomes) == 6
    commit(handle, job.finish(outcomes))
    assert rows_of(handle) == [(0, k, "a") for k in range(3)]


@pytest.mark.parametrize("where", ["k < 3", None])
@pytest.mark.parametrize("kind", ["rewrite", "vectors", "rewrite_buckets"])
def test_files_that_other_writers_gave_indexes_are_found_in_their_manifest(kind: str, where: str | None) -> None:
    """A file is known by its extra files and index bytes too, which plans leave out."""
    handle = table_of(kind)
    messages = written(handle, [batch([(0, k, "a") for k in range(6)])])
    indexed = [
        replace(
            m,
            data=Increment(
                tuple(
                    f._replace(extra_files=(f.file_name + ".index",), embedded_index=b"index") for f in m.data.new_files
                )
            ),
        )
        for m in messages
    ]
    commit(handle, indexed)
    delete(handle, where)
    assert rows_of(handle) == ([(0, k, "a") for k in range(3, 6)] if where else [])
    head = latest_snapshot(handle)
    assert head is not None
    names = live_entries(handle, data_manifests(handle, head)).column("file_name").to_pylist()
    if kind != "vectors" or where is None:
        assert not {f.file_name for m in messages for f in m.data.new_files if f.row_count == 6} & set(names)


def test_files_without_such_rows_stay_as_they_are() -> None:
    handle = table_of("rewrite")
    append(handle, [(0, 1, "a"), (0, 9, "a")])
    append(handle, [(0, 2, "a"), (0, 8, "a")])
    before = {p for p in files_below(handle) if "/bucket-" in p}
    delete(handle, "k = 2")
    kept = before - unreachable(handle)
    assert len(kept) == 1
    assert rows_of(handle) == [(0, 1, "a"), (0, 8, "a"), (0, 9, "a")]


@pytest.mark.parametrize("kind", KINDS)
def test_no_such_row_makes_no_snapshot(kind: str) -> None:
    handle = table_of(kind)
    assert delete(handle, "k = 1").snapshots == ()
    append(handle, [(0, 1, "a")])
    assert delete(handle, "k = 7").snapshots == ()
    assert update(handle, "k = 7", set_v("x")).snapshots == ()


def test_nulls_of_columns_with_a_default_stay_null_when_files_are_rewritten() -> None:
    handle = empty_table({"k": "BIGINT", "v": "STRING"}, defaults={"v": "filled"})
    fields = tuple(replace(f, default_value=None) for f in handle.schema.fields)
    row_type = replace(handle.schema.row_type, fields=fields)
    plain = replace(handle, schema=replace(handle.schema, row_type=row_type))
    rows = pa.table({"k": pa.array([1, 2], pa.int64()), "v": pa.nulls(2, pa.string())}).to_batches()
    commit(handle, written(plain, rows))
    delete(handle, "k = 1")
    assert rows_of(handle) == [(2, None)]


def test_a_task_travels_and_answers_with_plain_values() -> None:
    handle = table_of("rewrite_buckets")
    append(handle, [(0, k, "a") for k in range(20)])
    job = pickle.loads(pickle.dumps(job_of(handle, "k < 5")))
    outcomes = [pickle.loads(pickle.dumps(job.run(i))) for i in range(len(job.splits))]
    assert sum(o.rows for o in outcomes) == 5
    commit(handle, job.finish(outcomes))
    assert len(rows_of(handle)) == 15


@pytest.mark.parametrize("other", ["k < 3", "k >= 0"])
@pytest.mark.parametrize("kind", ["rewrite", "vectors", "vectors_buckets"])
def test_two_deletes_of_the_same_rows_conflict(kind: str, other: str) -> None:
    handle = table_of(kind)
    append(handle, [(0, k, "a") for k in range(4)])
    first, second = job_of(handle, "k = 1"), job_of(handle, other)
    late = in_process(second)
    commit(handle, in_process(first), planned_on=PlannedOn.of(get_snapshot(handle, 1)))
    with pytest.raises(CommitConflictError):
        commit(handle, late, planned_on=PlannedOn.of(get_snapshot(handle, 1)))
    assert rows_of(handle) == [(0, k, "a") for k in (0, 2, 3)]


def test_rows_appended_meanwhile_stay() -> None:
    handle = table_of("rewrite")
    append(handle, [(0, 1, "a"), (0, 2, "a")])
    job = job_of(handle, "k = 1")
    append(handle, [(0, 1, "late")])
    commit(handle, in_process(job), planned_on=PlannedOn.of(get_snapshot(handle, 1)))
    assert rows_of(handle) == [(0, 1, "late"), (0, 2, "a")]


@pytest.mark.parametrize("kind", ["rewrite", "vectors", "keys"])
def test_rows_of_a_newer_definition_are_not_written_again_with_an_old_one(kind: str) -> None:
    old = table_of(kind)
    alter_table(old, [AddColumn(("z",), parse_type("INT"))])
    new = open_table(old.store, old.layout.root)
    append(new, [(0, 1, "a"), (0, 2, "b")])
    before = files_below(old)
    with pytest.raises(CommitConflictError, match="from schema 0 to 1"):
        delete(old, "k = 1")
    assert files_below(old) == before


def test_a_primary_key_cannot_be_updated() -> None:
    handle = table_of("keys")
    append(handle, [(0, 1, "a")])
    before = files_below(handle)
    with pytest.raises(InvalidInputError, match="column k is part of the primary key"):
        update(handle, None, lambda b: b.set_column(1, "k", pc.add(b.column(1), pa.scalar(1, pa.int64()))))
    assert files_below(handle) == before


def test_a_sequence_field_cannot_be_updated() -> None:
    handle = empty_table(
        {"k": "BIGINT NOT NULL", "s": "INT", "v": "STRING"},
        primary_keys=["k"],
        options={"bucket": "1", "sequence.field": "s"},
    )
    commit(handle, written(handle, [pa.RecordBatch.from_pylist([{"k": 1, "s": 5, "v": "a"}])]))
    update(handle, None, set_v("b"))
    assert rows_of(handle) == [(1, 5, "b")]
    with pytest.raises(UnsupportedFeatureError, match="column s is the sequence field"):
        update(handle, None, lambda b: b.set_column(1, "s", pa.array([3], pa.int32())))


NUMBERS = pa.schema([("k", pa.int64()), ("g", pa.int32()), ("v", pa.int32())])
GATHERING: dict[str, dict[str, str]] = {
    "aggregation": {
        "merge-engine": "aggregation",
        "aggregation.remove-record-on-delete": "true",
        "fields.v.aggregate-function": "sum",
    },
    "partial_update": {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    "sequence": {
        "merge-engine": "partial-update",
        "partial-update.remove-record-on-delete": "true",
        "sequence.field": "g",
    },
}


def numbers_of(**options: str) -> TableHandle:
    columns = {"k": "BIGINT NOT NULL", "g": "INT", "v": "INT"}
    return empty_table(columns, primary_keys=["k"], options={"bucket": "1", **options})


def put(handle: TableHandle, *rows: tuple[int | None, ...]) -> None:
    given_ = pa.RecordBatch.from_pylist([dict(zip(NUMBERS.names, r, strict=True)) for r in rows], schema=NUMBERS)
    commit(handle, written(handle, [given_], base=latest_snapshot(handle)))


@pytest.mark.parametrize("engine", GATHERING)
def test_values_of_deleted_rows_do_not_come_back(engine: str) -> None:
    handle = numbers_of(**GATHERING[engine])
    put(handle, (1, 1, 5), (2, 1, 6))
    delete(handle, "v = 5")
    assert rows_of(handle) == [(2, 1, 6)]
    put(handle, (1, 2, None))
    assert rows_of(handle) == [(1, 2, None), (2, 1, 6)]
    put(handle, (1, 3, 4))
    assert rows_of(handle) == [(1, 3, 4), (2, 1, 6)]


def test_rows_that_a_sequence_group_would_keep_are_not_deleted_in_part() -> None:
    handle = numbers_of(
        **{
            "merge-engine": "partial-update",
            "fields.g.sequence-group": "v",
            "partial-update.remove-record-on-sequence-group": "g",
        }
    )
    put(handle, (1, 1, 5), (2, None, 6))
    before = files_below(handle)
    with pytest.raises(UnsupportedFeatureError, match="null in g"):
        delete(handle, None)
    assert files_below(handle) == before
    delete(handle, "g IS NOT NULL")
    assert [r[0] for r in rows_of(handle)] == [2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fields.g.sequence-group": "v"}, "does not replace the columns of a sequence group"),
        ({"fields.g.sequence-group": "v", "fields.v.aggregate-function": "sum"}, "column v would take in its old"),
    ],
)
def test_updates_that_the_engine_would_not_take_as_they_are(options: dict[str, str], message: str) -> None:
    handle = numbers_of(**{"merge-engine": "partial-update", **options})
    put(handle, (1, 1, 5))
    with pytest.raises(UnsupportedFeatureError, match=message):
        job_of(handle, None, updates=True)


def test_a_partition_may_be_updated_without_keys() -> None:
    handle = table_of("rewrite_partitioned")
    append(handle, [(0, 1, "a"), (0, 2, "b"), (1, 3, "c")])
    update(handle, "k <> 2", lambda b: b.set_column(0, "p", pa.array([7] * b.num_rows, pa.int32())))
    assert rows_of(handle) == [(0, 2, "b"), (7, 1, "a"), (7, 3, "c")]


def test_a_value_that_does_not_fit_leaves_no_file() -> None:
    handle = empty_table({"k": "BIGINT", "v": "STRING NOT NULL"})
    commit(handle, written(handle, [pa.RecordBatch.from_pylist([{"k": 1, "v": "a"}, {"k": 2, "v": "b"}])]))
    before = files_below(handle)
    with pytest.raises(DataError, match="column v"):
        update(handle, "k = 1", lambda b: b.set_column(1, "v", pa.array([None] * b.num_rows, pa.string())))
    assert files_below(handle) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["rewrite", "vectors", "rewrite_buckets", "vectors_buckets", "vectors_small_files", "row_ids", "evolution"]
)
@pytest.mark.parametrize("updates", [False, True])
def test_a_store_that_fails_leaves_no_file(kind: str, updates: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = table_of(kind, **TINY)
    for v in ("a", "b"):
        append(handle, [(0, k, v) for k in range(6)])
    before, rows = files_below(handle), rows_of(handle)
    store = type(handle.store)
    for nth in range(1, 12):
        with monkeypatch.context() as patch:
            calls = fail_at(patch, store, nth)
            try:
                in_process(job_of(handle, "k < 4", updates), set_v("x") if updates else None)
            except StorageError:
                assert len(calls) >= nth
                assert files_below(handle) == before
                continue
        break
    assert nth > 1
    assert rows_of(handle) == rows


@pytest.mark.parametrize(
    ("options", "keys", "updates", "what"),
    [
        ({"merge-engine": "first-row", "bucket": "1"}, ["k"], True, "merge-engine first-row does not put"),
        ({"merge-engine": "aggregation", "bucket": "1"}, ["k"], True, "merge-engine aggregation does not put"),
        ({"ignore-delete": "true", "bucket": "1"}, ["k"], False, "ignore-delete=false"),
    ],
)
def test_tables_whose_rows_would_not_go_are_refused(
    options: Mapping[str, str], keys: list[str], updates: bool, what: str
) -> None:
    handle = empty_table({"k": "BIGINT NOT NULL", "v": "STRING"}, primary_keys=keys, options=options)
    with pytest.raises(UnsupportedFeatureError, match=what):
        job_of(handle, "k = 1", updates)


@pytest.mark.parametrize("options", [{}, VECTORS, {"metadata.stats-dense-store": "false"}])
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_rows_keep_their_ids_when_others_go(options: dict[str, str], file_format: str) -> None:
    options = {**options, "row-tracking.enabled": "true", "file.format": file_format}
    handle = empty_table({"k": "BIGINT", "v": "STRING"}, options=options)

    def add(first: int) -> None:
        rows = [{"k": k, "v": "a"} for k in range(first, first + 3)]
        commit(handle, written(handle, [pa.RecordBatch.from_pylist(rows)]))

    def ids() -> dict[int, tuple[int, int]]:
        plan = plan_batch(handle, latest_snapshot(handle), ScanQuery(("k", "_ROW_ID", "_SEQUENCE_NUMBER")))
        found = [b for s in plan.splits for b in read_split(plan.requests[s.branch], s)]
        return {r["k"]: (r["_ROW_ID"], r["_SEQUENCE_NUMBER"]) for b in found for r in b.to_pylist()}

    add(0)
    add(3)
    before = ids()
    assert before[4] == (4, 2)
    delete(handle, "k = 1 OR k = 3")
    assert ids() == {k: before[k] for k in (0, 2, 4, 5)}
    add(6)
    delete(handle, "k = 4 OR k = 7")
    assert ids() == {**{k: before[k] for k in (0, 2, 5)}, 6: (6, 4), 8: (8, 4)}
    plan = plan_batch(
        handle, latest_snapshot(handle), ScanQuery(predicate=parse_predicate("k = 100", handle.schema.row_type))
    )
    assert plan.row_count == 0


@pytest.mark.parametrize("options", [{}, VECTORS, {"metadata.stats-dense-store": "false"}])
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_changed_rows_keep_their_ids_and_get_the_number_of_the_snapshot(
    options: dict[str, str], file_format: str
) -> None:
    options = {**options, "row-tracking.enabled": "true", "file.format": file_format}
    handle = empty_table({"p": "INT", "k": "BIGINT", "v": "STRING"}, partition_keys=["p"], options=options)

    def found() -> dict[int, tuple[int, str, int, int]]:
        query = ScanQuery(("k", "p", "v", "_ROW_ID", "_SEQUENCE_NUMBER"))
        plan = plan_batch(handle, latest_snapshot(handle), query)
        rows = [r for s in plan.splits for b in read_split(plan.requests[s.branch], s) for r in b.to_pylist()]
        return {r["k"]: tuple(r.values())[1:] for r in rows}

    for first in (0, 3):
        append(handle, [(0, k, "a") for k in range(first, first + 3)])
    update(handle, "k = 1 OR k = 3", set_v("new"))
    expected = {0: (0, "a", 0, 1), 1: (0, "new", 1, 3), 2: (0, "a", 2, 1)}
    expected |= {3: (0, "new", 3, 3), 4: (0, "a", 4, 2), 5: (0, "a", 5, 2)}
    assert found() == expected

    def move(rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows.set_column(0, "p", pa.array([1] * rows.num_rows, pa.int32()))

    update(handle, "k = 1 OR k = 2", move)
    expected |= {1: (1, "new", 1, 4), 2: (1, "a", 2, 4)}
    assert found() == expected
    append(handle, [(0, 6, "a")])
    delete(handle, "k = 1")
    del expected[1]
    assert found() == {**expected, 6: (0, "a", 6, 5)}


def test_a_null_cannot_be_written_over_a_value_of_partial_update() -> None:
    handle = table_of("keys_partial_update")
    append(handle, [(0, 1, "a")])
    with pytest.raises(UnsupportedFeatureError, match="keeps the old value for a null"):
        update(handle, None, set_v(None))


def test_index_files_lie_in_the_bucket_when_the_table_says_so() -> None:
    handle = table_of("vectors_partitioned", **{"index-file-in-data-file-dir": "true"})
    append(handle, [(0, k, "a") for k in range(4)])
    delete(handle, "k = 1")
    ((entry,),) = vector_files(handle, latest_snapshot(handle)).values()
    assert "/p=0/bucket-0/index-" in index_file_path(handle, entry)
    assert len(rows_of(handle)) == 3


@pytest.mark.parametrize("kind", ["rewrite", "rewrite_buckets", "vectors", "vectors_buckets"])
def test_rows_found_elsewhere_are_dropped_by_their_places(kind: str) -> None:
    handle = table_of(kind)
    for v in "ab":
        append(handle, [(0, k, v) for k in range(8)])
    delete(handle, "k = 2")
    plan = plan_batch(handle, latest_snapshot(handle), ScanQuery((FILE_PATH, ROW_INDEX, "k", "v")))
    places: dict[str, list[int]] = {}
    for split in plan.splits:
        for found in read_split(plan.requests[split.branch], split):
            for row in found.to_pylist():
                if row["k"] == 5 or row["v"] == "a":
                    places.setdefault(row[FILE_PATH].rpartition("/")[2], []).append(row[ROW_INDEX])
    positions = {name: np.array(found, np.int64) for name, found in places.items()}
    job = job_of(handle, None)
    outcomes = [job.drop(i, positions) for i in range(len(job.splits))]
    commit(handle, job.finish(outcomes))
    assert rows_of(handle) == [(0, k, "b") for k in (0, 1, 3, 4, 6, 7)]


def test_rows_with_keys_have_no_places() -> None:
    handle = table_of("keys")
    append(handle, [(0, 1, "a")])
    with pytest.raises(UnsupportedFeatureError, match="go by their keys"):
        job_of(handle, None).drop(0, {})


@pytest.mark.parametrize("updates", [False, True])
def test_rows_go_whatever_their_column_of_row_kinds_says(updates: bool) -> None:
    columns = {"k": "BIGINT NOT NULL", "v": "STRING", "kind": "STRING"}
    handle = empty_table(columns, primary_keys=["k"], options={"bucket": "1", "rowkind.field": "kind"})
    rows = [{"k": k, "v": "a", "kind": "+I"} for k in range(3)]
    commit(handle, written(handle, [pa.RecordBatch.from_pylist(rows)]))
    if updates:
        update(handle, "k = 1", lambda b: b.set_column(1, "v", pa.array(["x"] * b.num_rows, pa.string())))
        assert rows_of(handle) == [(0, "a", "+I"), (1, "x", "+I"), (2, "a", "+I")]
    else:
        delete(handle, "k = 1")
        assert rows_of(handle) == [(0, "a", "+I"), (2, "a", "+I")]


@pytest.mark.parametrize("kind", ["rewrite", "vectors"])
def test_what_tasks_answer_is_small_however_many_rows_go(kind: str) -> None:
    handle = table_of(kind)
    numbers = pa.array(range(200_000), pa.int64())
    rows = pa.RecordBatch.from_arrays(
        [pa.nulls(200_000, pa.int32()), numbers, pa.nulls(200_000, pa.string())], schema=SCHEMA
    )
    commit(handle, written(handle, [rows]))
    job = job_of(handle, "k >= 10 AND k <> 150000")
    outcomes = [job.run(i) for i in range(len(job.splits))]
    assert len(pickle.dumps(outcomes)) < 10_000
    commit(handle, job.finish(outcomes))
    assert [r[1] for r in sorted(rows_of(handle), key=lambda r: r[1])] == [*range(10), 150_000]
