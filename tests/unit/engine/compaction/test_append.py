"""Compaction of tables without keys on real files: rows, ids and order stay; files and vectors become fewer."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paimon_spark
from paimon_spark.engine.commit.committer import Committer
from paimon_spark.engine.compaction.plan import plan_compaction
from paimon_spark.engine.compaction.run import compact_branch, run_here, run_task
from paimon_spark.engine.compaction.task import CompactResult
from paimon_spark.engine.row_level.job import in_process, plan_rows
from paimon_spark.engine.write.request import WriteRequest, new_job, remove_job_files
from paimon_spark.engine.write.table_writer import TableWriter
from paimon_spark.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    PaimonError,
    StorageError,
)
from paimon_spark.format.metadata_files.data_file import DataFileMeta, FileSource
from paimon_spark.format.metadata_files.index_manifest import IndexManifestEntry
from paimon_spark.format.metadata_files.manifest import FileKind, files_of
from paimon_spark.format.metadata_files.snapshot import CommitKind
from paimon_spark.metadata import live_files
from paimon_spark.metadata.definition.create import create_table
from paimon_spark.metadata.definition.from_arrow import row_type
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import (
    CACHE,
    data_manifests,
    read_index_manifest,
    read_manifest_list,
    read_manifests,
)
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.metadata.vector_files import read_vectors
from paimon_spark.predicate.parse import parse_predicate
from paimon_spark.storage.local import LocalStore
from tests.harness.fault_store import MUTATING, Fault, FaultStore
from tests.harness.search import is_nightly

STORE = LocalStore()
SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("v", pa.string())])
VECTORS = {"deletion-vectors.enabled": "true"}
TRACKED = {"row-tracking.enabled": "true"}
KINDS: dict[str, dict[str, str]] = {
    "plain": {},
    "partitions": {"partition": "p"},
    "vectors": VECTORS,
    "small_index_files": {**VECTORS, "deletion-vector.index-file.target-size": "60 b"},
    "buckets": {"bucket": "2", "bucket-key": "id"},
    "bucket_vectors": {"bucket": "1", "bucket-key": "id", **VECTORS},
    "row_ids": TRACKED,
    "row_ids_and_vectors": {**TRACKED, **VECTORS, "partition": "p"},
}


class Table:
    """A table without keys, what it holds, and how often rows were written."""

    def __init__(self, path: Path | str, options: dict[str, str]) -> None:
        self.root = f"{path}/{uuid4().hex}"
        keys = tuple(filter(None, [options.get("partition")]))
        create_table(
            STORE, self.root, row_type(SCHEMA), (), keys, options={k: v for k, v in options.items() if k != "partition"}
        )
        self.rows: dict[int, tuple[str | None, str | None]] = {}
        self.random = random.Random(0)

    @property
    def handle(self) -> TableHandle:
        return open_table(STORE, self.root)

    def write(self, count: int, size: int = 5) -> None:
        start = max(self.rows, default=-1) + 1
        new: list[dict[str, Any]] = [
            {"id": i, "p": "ab"[i % 2], "v": None if i % 5 == 0 else self.random.randbytes(size).hex()}
            for i in range(start, start + count)
        ]
        request = WriteRequest(self.handle, "w", latest_snapshot(self.handle))
        with TableWriter(request, SCHEMA) as writer:
            writer.write(pa.RecordBatch.from_pylist(new, schema=SCHEMA))
            Committer(self.handle, "w").commit(writer.close())
        self.rows |= {r["id"]: (r["p"], r["v"]) for r in new}

    def delete(self, every: int, of: int) -> None:
        gone = [i for i in self.rows if i % every == of % every]
        if gone:
            predicate = parse_predicate(f"id in ({', '.join(map(str, gone))})", self.handle.schema.row_type)
            job = plan_rows(self.handle, predicate, updates=False)
            Committer(self.handle, "d").commit(in_process(job))
        self.rows = {i: r for i, r in self.rows.items() if i not in gone}

    def compact(self, full: bool = True) -> CompactResult:
        return compact_branch(self.handle, full=full)

    def read(self, *more: str) -> list[tuple[Any, ...]]:
        rows = paimon_spark.load_table(self.root).scan(columns=["id", "p", "v", *more]).to_arrow()
        return list(zip(*(c.to_pylist() for c in rows.columns), strict=True))

    def files(self) -> list[DataFileMeta]:
        head = latest_snapshot(self.handle)
        return [] if head is None else files_of(live_entries(self.handle, data_manifests(self.handle, head)))

    def index(self) -> list[IndexManifestEntry]:
        head = latest_snapshot(self.handle)
        if head is None or head.index_manifest is None:
            return []
        return read_index_manifest(self.handle, head.index_manifest)

    def vectors(self) -> dict[str, list[int]]:
        return {n: p.tolist() for e in self.index() for n, p in read_vectors(self.handle, e).items()}

    def check(self) -> None:
        found = self.read()
        assert Counter(found) == Counter((i, *r) for i, r in self.rows.items())
        names = {f.file_name for f in self.files()}
        assert self.vectors().keys() <= names, "vectors of files that are gone"
        there = {p.name for p in Path(self.root).rglob("*") if p.suffix == ".parquet"}
        assert names <= there
        head = latest_snapshot(self.handle)
        deleted = sum(map(len, self.vectors().values()))
        if head is not None:
            assert sum(f.row_count for f in self.files()) - deleted == len(self.rows)


STEPS = st.one_of(
    st.tuples(st.just("write"), st.integers(1, 12), st.sampled_from([1, 60])),
    st.tuples(st.just("delete"), st.integers(2, 9), st.integers(0, 8)),
    st.tuples(st.just("compact"), st.booleans(), st.none()),
)
IDS = ("_ROW_ID", "_SEQUENCE_NUMBER")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=max(1, settings().max_examples // 12))
@given(st.lists(STEPS, min_size=4, max_size=16), st.sampled_from(["1600 b", "1 mb"]))
def test_no_reader_sees_that_a_table_was_compacted(
    kind: str, tmp_path_factory: pytest.TempPathFactory, steps: Sequence[tuple[str, Any, Any]], target: str
) -> None:
    few = {"compaction.min.file-num": "3", "target-file-size": target, "source.split.open-file-cost": "100 b"}
    table = Table(tmp_path_factory.getbasetemp(), {**KINDS[kind], **few})
    more = IDS if "row_ids" in kind else ()
    for verb, a, b in steps:
        if verb == "write":
            table.write(a, b)
        elif verb == "delete":
            table.delete(a, b)
        else:
            before, small = table.read(*more), table.files()
            result = table.compact(full=a)
            after = table.read(*more)
            if "bucket" in kind:
                assert after == before, "rows of a bucket keep their order"
            assert Counter(after) == Counter(before)
            assert (result.files_before, result.files_after) == _changed(small, table.files())
            if a:
                assert not table.vectors(), "a full compaction leaves no deleted row"
        table.check()


def _changed(before: Sequence[DataFileMeta], after: Sequence[DataFileMeta]) -> tuple[int, int]:
    old, new = {f.file_name for f in before}, {f.file_name for f in after}
    return len(old - new), len(new - old)


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_large_tables_are_replaced_without_their_statistics(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(tmp_path, KINDS[kind])
    for _ in range(3):
        table.write(10)
    rows, files = Counter(table.read()), len(table.files())
    monkeypatch.setattr(live_files, "_MANY_ENTRIES", 1)
    CACHE.clear()
    made = table.compact(full=True).snapshot
    assert made is not None
    entries = read_manifests(table.handle, read_manifest_list(table.handle, made.delta_manifest_list))
    by_kind = {kind_: entries.filter(pc.equal(entries.column("kind"), int(kind_))) for kind_ in FileKind}
    assert [len(lists) for lists in by_kind[FileKind.DELETE].column("value_nulls").to_pylist()] == [0] * files
    assert all(lists for lists in by_kind[FileKind.ADD].column("value_nulls").to_pylist())
    assert Counter(table.read()) == rows
    table.check()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_committed_is_what_paimon_commits(kind: str, tmp_path: Path) -> None:
    table = Table(tmp_path, KINDS[kind])
    for _ in range(3):
        table.write(10)
    table.delete(3, 0)
    table.write(10)
    head = latest_snapshot(table.handle)
    assert head is not None
    result = table.compact()
    made = latest_snapshot(table.handle)
    assert result.snapshot == made is not None
    assert made.commit_kind is CommitKind.COMPACT
    assert made.commit_identifier == 2**63 - 1
    assert made.total_record_count == len(table.rows)
    assert made.next_row_id == head.next_row_id
    assert made.changelog_manifest_list is None
    for f in table.files():
        assert (f.level, f.file_source, f.delete_row_count, f.first_row_id) == (0, FileSource.COMPACT, 0, None)
        tracked = "row_ids" in kind
        assert f.write_cols == (("id", "p", "v", *IDS) if tracked else None)
        if not tracked and "bucket" not in kind:
            assert (f.min_sequence_number, f.max_sequence_number) == (0, f.row_count - 1)
    assert len(table.files()) == (2 if kind in ("partitions", "buckets", "row_ids_and_vectors") else 1)
    assert table.index() == []
    assert table.compact() == CompactResult(made), "a second time there is nothing to do"


def test_rows_written_later_come_after_those_of_a_bucket_that_was_compacted(tmp_path: Path) -> None:
    """Writers beside each other number rows alike, so that the new files could reach over the next."""
    table = Table(tmp_path, {"bucket": "1", "bucket-key": "id"})
    messages = []
    for low in (0, 20):
        with TableWriter(WriteRequest(table.handle, "w"), SCHEMA) as writer:
            rows = [{"id": i, "p": "a", "v": None} for i in range(low, low + 20)]
            writer.write(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
            messages += writer.close()
    for message in messages:
        Committer(table.handle, "w").commit([message])
    table.rows = dict.fromkeys(range(40), ("a", None))
    table.write(200, 60)
    ids = [r[0] for r in table.read()]
    assert ids[-200:] == list(range(40, 240))
    each_batch_a_file = {"target-file-size": "1 b", "compaction.small-file-ratio": "5000"}
    result = compact_branch(open_table(STORE, table.root, "main", "t", each_batch_a_file), full=True)
    assert (result.files_before, result.files_after) == (2, 2)
    assert [r[0] for r in table.read()] == ids
    newest = max(f.max_sequence_number for f in table.files())
    table.write(2)
    assert [r[0] for r in table.read()] == [*ids, 240, 241]
    assert max(f.min_sequence_number for f in table.files()) == newest + 1


def test_only_index_files_of_the_rewritten_files_change(tmp_path: Path) -> None:
    table = Table(
        tmp_path, {**VECTORS, "deletion-vector.index-file.target-size": "1 b", "compaction.small-file-ratio": "0"}
    )
    for _ in range(3):
        table.write(10)
    table.delete(10, 3)
    before = {e.file_name for e in table.index()}
    assert len(before) == 3
    assert table.compact(full=False).files_before == 0
    predicate = parse_predicate("id < 4", table.handle.schema.row_type)
    Committer(table.handle, "d").commit(in_process(plan_rows(table.handle, predicate, updates=False)))
    table.rows = {i: r for i, r in table.rows.items() if i >= 4}
    assert table.compact(full=False).files_before == 1
    assert len({e.file_name for e in table.index()} & before) == 2
    table.check()


def test_a_file_whose_rows_are_all_deleted_leaves_none(tmp_path: Path) -> None:
    table = Table(tmp_path, {**VECTORS})
    table.write(4)
    table.write(4)
    table.delete(1, 0)
    result = table.compact()
    assert table.files() == []
    assert result.files_after == 0
    table.check()


@pytest.mark.parametrize("kind", ["plain", "vectors", "bucket_vectors"])
def test_rows_deleted_meanwhile_stay_deleted(kind: str, tmp_path: Path) -> None:
    table = Table(tmp_path, {**KINDS[kind], "commit.max-retries": "0"})
    table.write(10)
    table.write(10)
    times = 0

    def slow(*args: Any) -> Any:
        nonlocal times
        times += 1
        made = run_here(*args)
        table.delete(4, times)
        return made

    files = set(Path(table.root).rglob("*.parquet"))
    with pytest.raises(CommitConflictError):
        compact_branch(table.handle, full=True, runner=slow)
    table.check()
    live = {f.file_name for f in table.files()}
    assert {p.name for p in Path(table.root).rglob("*.parquet")} == {p.name for p in files} | live

    again = open_table(STORE, table.root, "main", "t", {"commit.max-retries": "3", "commit.min-retry-wait": "1 ms"})
    turns = iter([slow, run_here])
    compact_branch(again, full=True, runner=lambda *args: next(turns)(*args))
    table.check()
    assert len(table.files()) == 1


@pytest.mark.parametrize("kind", ["vectors", "buckets", "row_ids"])
def test_appends_meanwhile_stand_beside_it(kind: str, tmp_path: Path) -> None:
    table = Table(tmp_path, KINDS[kind])
    for _ in range(3):
        table.write(10)

    def slow(*args: Any) -> Any:
        made = run_here(*args)
        table.write(5)
        return made

    before = len(table.files())
    result = compact_branch(table.handle, full=True, runner=slow)
    assert len(result.snapshot_ids) == 1
    assert len(table.files()) < before
    table.check()


@pytest.mark.ci
@pytest.mark.parametrize("forever", [False, True])
@pytest.mark.parametrize("kind", ["vectors", "bucket_vectors"])
def test_a_failure_at_any_moment_leaves_the_old_files_or_the_new_ones(kind: str, forever: bool, tmp_path: Path) -> None:
    step = 1 if is_nightly() else 3
    for at in count(1 + (list(KINDS).index(kind) + 2 * forever) % step, step):
        table = Table(tmp_path, {**KINDS[kind], "commit.max-retries": "1", "commit.min-retry-wait": "1 ms"})
        table.write(5)
        table.write(5)
        table.delete(3, 1)
        before = {p for p in Path(table.root).rglob("*") if p.is_file()}
        store = FaultStore(STORE)
        store.arm(Fault(at, forever=forever, verbs=MUTATING))
        try:
            compact_branch(open_table(store, table.root), full=True)
        except (StorageError, CommitOutcomeUnknownError, PaimonError):
            table.check()
            if not forever:
                left = {p.parent.name for p in Path(table.root).rglob("*") if p.is_file() and p not in before}
                assert not left - {"snapshot"}, (at, left)
        table.check()
        if not store.failed:
            return


@pytest.mark.parametrize("kind", ["vectors", "bucket_vectors"])
def test_files_of_a_killed_task_are_found_by_its_job(kind: str, tmp_path: Path) -> None:
    table = Table(tmp_path, {**KINDS[kind], "target-file-size": "700 b"})
    for _ in range(3):
        table.write(10, 100)
    table.delete(10, 3)
    before = {p for p in Path(table.root).rglob("*") if p.is_file()}
    head = latest_snapshot(table.handle)
    assert head is not None
    job = new_job()
    marked = next(iter(table.vectors()))
    task = next(t for t in plan_compaction(table.handle, head, full=True) if marked in {f.file_name for f in t.files})
    alone = replace(task, files=tuple(f for f in task.files if f.file_name == marked))  # the index file is rewritten
    message = run_task(table.handle, head, alone, "u", job)
    assert message is not None and message.compact.new_index_files
    made = {p for p in Path(table.root).rglob("*") if p.is_file()} - before
    assert {p.parent.name for p in made} == {"bucket-0", "index"}
    assert remove_job_files(table.handle, job) == len(made)
    assert {p for p in Path(table.root).rglob("*") if p.is_file()} == before


def test_columns_added_later_are_in_the_new_files_and_newer_files_are_a_conflict(tmp_path: Path) -> None:
    table = Table(tmp_path, {})
    table.write(5)
    old = table.handle
    paimon_spark.load_table(table.root).alter(add={"more": "INT"})
    paimon_spark.load_table(table.root).write(
        pa.table({"id": [100], "p": ["a"], "v": ["x"], "more": pa.array([7], pa.int32())})
    )
    head = latest_snapshot(old)
    assert head is not None
    with pytest.raises(CommitConflictError, match="changed while its compaction was planned"):
        plan_compaction(old, head, full=True)
    compact_branch(old, full=True)  # opens it anew
    assert len(table.files()) == 1
    rows = paimon_spark.load_table(table.root).scan(columns=["id", "more"]).to_arrow().to_pylist()
    assert sorted((r["id"], r["more"]) for r in rows) == [*((i, None) for i in range(5)), (100, 7)]
