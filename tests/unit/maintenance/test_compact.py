"""Compaction that makes level 0 visible, on real tables: rows, changelog and files against a dictionary model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paimon_spark
from paimon_spark.commit.committer import Committer
from paimon_spark.definition.create import create_table
from paimon_spark.definition.from_arrow import row_type
from paimon_spark.errors import CommitConflictError, DataError
from paimon_spark.handoff.commit_message import CommitMessage, Increment
from paimon_spark.maintenance import bucket_merge, compact
from paimon_spark.maintenance.bucket_vectors import BucketVectors
from paimon_spark.maintenance.compact import compact_level0, hides_level0
from paimon_spark.merge.sorted_merge import SequenceField
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests, read_index_manifest
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.spec import binary_row, deletion_vector
from paimon_spark.spec.data_file import DataFileMeta
from paimon_spark.spec.index_manifest import DELETION_VECTORS, IndexManifestEntry
from paimon_spark.spec.manifest import files_of
from paimon_spark.storage.local import LocalStore
from paimon_spark.types import SEQUENCE_NUMBER, VALUE_KIND
from paimon_spark.write import merge_tree
from paimon_spark.write.request import WriteRequest
from paimon_spark.write.table_writer import TableWriter
from tests.harness import merge_model as model
from tests.harness.merge_model import Record

SCHEMA = pa.schema(
    [pa.field("k", pa.int64(), nullable=False), ("a", pa.int32()), ("b", pa.string()), ("s", pa.int32())]
)
SOURCE = pa.schema([*SCHEMA, pa.field(VALUE_KIND, pa.int8())])
STORE = LocalStore()
SMALL = st.none() | st.integers(-3, 3)
VALUES = st.fixed_dictionaries({"a": SMALL, "b": st.none() | st.sampled_from(["", "x", "y"]), "s": SMALL})
Rule = Callable[[list[Record]], Any]


@dataclass
class Table:
    root: str
    options: dict[str, str]
    messages: list[CommitMessage] = field(default_factory=list)

    def __post_init__(self) -> None:
        create_table(STORE, self.root, row_type(SCHEMA), ("k",), options={"bucket": "1", **self.options})

    @property
    def handle(self) -> TableHandle:
        return open_table(STORE, self.root)

    @property
    def committer(self) -> Committer:
        return Committer(self.handle, "tester")

    def write(self, rows: Sequence[Record]) -> None:
        writer = TableWriter(WriteRequest(self.handle, "tester", latest_snapshot(self.handle)), SOURCE)
        data = [{"k": r.key, **r.values, VALUE_KIND: r.kind} for r in rows]
        writer.write(pa.RecordBatch.from_pylist(data, schema=SOURCE))
        self.committer.commit(writer.close())

    def compact(self) -> list[CommitMessage]:
        snapshot = latest_snapshot(self.handle)
        if snapshot is None:
            return []
        self.messages = compact_level0(self.handle, snapshot, [(binary_row.EMPTY, 0)], "tester")
        self.committer.commit(self.messages)
        return self.messages

    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = paimon_spark.load_table(self.root).scan().to_arrow().to_pylist()
        return sorted(rows, key=lambda r: r["k"])

    def changelog(self) -> list[tuple[int, int, dict[str, Any]]]:
        """Kind, key and values of the last compaction's changelog."""
        out = []
        for message in self.messages:
            for file in message.compact.changelog_files:
                for row in pq.read_table(f"{self.root}/bucket-0/{file.file_name}").to_pylist():
                    out.append((row[VALUE_KIND], row["k"], {n: row[n] for n in ("a", "b", "s")}))
        return out

    def files(self) -> list[DataFileMeta]:
        snapshot = latest_snapshot(self.handle)
        return [] if snapshot is None else files_of(live_entries(self.handle, data_manifests(self.handle, snapshot)))

    def vectors(self) -> list[IndexManifestEntry]:
        snapshot = latest_snapshot(self.handle)
        if snapshot is None or snapshot.index_manifest is None:
            return []
        return [e for e in read_index_manifest(self.handle, snapshot.index_manifest) if e.deletion_vectors]


ENGINES: dict[str, tuple[dict[str, str], Rule, tuple[int, ...]]] = {
    "deduplicate": ({}, model.deduplicate(False), (0, 1, 2, 3)),
    "first-row": ({"merge-engine": "first-row"}, model.first_row(False), (0,)),
    "partial-update": (
        {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
        model.partial_update(remove_on_delete=True),
        (0, 2, 3),
    ),
    "aggregation": (
        {"merge-engine": "aggregation", "fields.default-aggregate-function": "last_value",
         "fields.a.aggregate-function": "sum"},
        model.aggregation(
            {"a": lambda acc, new: acc if new is None else new if acc is None else acc + new,
             "b": lambda acc, new: new, "s": lambda acc, new: new},
            {"a": lambda acc, new: acc if new is None else -new if acc is None else acc - new,
             "b": lambda acc, new: None, "s": lambda acc, new: None},
            False,
        ),
        (0, 1, 2, 3),
    ),
}  # fmt: skip


@st.composite
def commits(draw: st.DrawFn, kinds: tuple[int, ...]) -> list[list[Record]]:
    """Records of commits; keys of a commit lie near each other, so that files overlap now and then."""
    out = []
    for _ in range(draw(st.integers(1, 7))):
        low = draw(st.integers(0, 12))
        rows = draw(st.lists(st.tuples(st.integers(low, low + 4), st.sampled_from(kinds), VALUES), max_size=8))
        out.append([Record(k, n, kind, 0, values) for n, (k, kind, values) in enumerate(rows)])
    return out


def expected_changelog(
    engine: str, before: Record | None, after: Record | None, deduplicates: bool
) -> list[tuple[int, int, dict[str, Any]]]:
    if engine == "first-row":
        return [] if before is not None or after is None else [(after.kind, after.key, after.values)]
    if before is None:
        return [] if after is None else [(0, after.key, after.values)]
    if after is None:
        return [(3, before.key, before.values)]
    if deduplicates and before.values == after.values:
        return []
    return [(1, before.key, before.values), (2, after.key, after.values)]


def merge_commit(
    rule: Rule, state: dict[int, Record], rows: list[Record], number: int
) -> list[tuple[int, Record | None, Record | None]]:
    """Apply a commit to the visible state; per key what was and what is."""
    changes = []
    for kind, key, values in model.merged(rows, rule, keep_deletes=True):
        before = state.pop(key, None)
        group = ([] if before is None else [before]) + [Record(key, number, kind, 0, values)]
        result = rule(group)
        after = None if result is None or result[0] in (1, 3) else Record(key, number, result[0], 5, result[1])
        if after is not None:
            state[key] = after
        changes.append((key, before, after))
    return changes


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], str]:
    base = tmp_path_factory.mktemp("tables")
    return lambda: str(base / uuid4().hex)


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=25)
@given(data=st.data(), large=st.booleans(), vectors=st.booleans(), deduplicates=st.booleans())
def test_rows_and_changelog_are_those_of_the_model(
    root: Callable[[], str], engine: str, data: st.DataObject, large: bool, vectors: bool, deduplicates: bool
) -> None:
    options, rule, kinds = ENGINES[engine]
    options = {**options, "changelog-producer": "lookup"}
    options["changelog-producer.row-deduplicate"] = str(deduplicates).lower()
    if vectors and engine != "first-row":
        options["deletion-vectors.enabled"] = "true"
    if large:
        options["target-file-size"] = "1 b"
    state: dict[int, Record] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge_tree, "_BATCH_ROWS", 3)
        patch.setattr(bucket_merge, "_BATCH_ROWS", 3)
        table = Table(root(), options)
        for number, rows in enumerate(data.draw(commits(kinds))):
            if not rows:
                continue
            table.write(rows)
            changes = merge_commit(rule, state, rows, number)
            table.compact()
            assert table.rows() == [{"k": k, **state[k].values} for k in sorted(state)]
            expected = [e for _, b, a in changes for e in expected_changelog(engine, b, a, deduplicates)]
            assert table.changelog() == expected
            assert all(f.level > 0 for f in table.files())


@settings(max_examples=25)
@given(rows=commits((0, 2, 3)), descending=st.booleans(), large=st.booleans())
def test_rows_before_win_when_their_sequence_is_higher(
    root: Callable[[], str], rows: list[list[Record]], descending: bool, large: bool
) -> None:
    order = "descending" if descending else "ascending"
    options = {"deletion-vectors.enabled": "true", "sequence.field": "s", "sequence.field.sort-order": order}
    table = Table(root(), {**options, "target-file-size": "1 b" if large else "1 gb"})
    fields = (SequenceField("s", descending),)
    alive: dict[int, Record] = {}
    for number, records in enumerate(rows):
        if not records:
            continue
        table.write(records)
        table.compact()
        flushed = model.merged(records, model.deduplicate(False), sequence=fields, keep_deletes=True)
        new = [Record(key, 100 + number, kind, 0, values) for kind, key, values in flushed]
        merged = model.merged([*alive.values(), *new], model.deduplicate(False), sequence=fields)
        alive = {key: Record(key, number, kind, 5, values) for kind, key, values in merged}
        assert table.rows() == [{"k": k, **alive[k].values} for k in sorted(alive)]


def rows_of(*keys: int, value: int = 1, kind: int = 0) -> list[Record]:
    return [Record(k, 0, kind, 0, {"a": value, "b": "x", "s": 0}) for k in keys]


def test_a_file_that_shares_no_key_only_moves(root: Callable[[], str]) -> None:
    table = Table(root(), {"deletion-vectors.enabled": "true"})
    table.write(rows_of(1, 2))
    (before,) = table.files()
    table.compact()
    (after,) = table.files()
    assert after == before._replace(level=5)
    table.write(rows_of(3))
    table.compact()
    assert [f.level for f in table.files()] == [5, 5]
    assert len(list((Path(table.root) / "bucket-0").iterdir())) == 2


def test_small_files_beside_each_other_become_one(root: Callable[[], str]) -> None:
    table = Table(root(), {"deletion-vectors.enabled": "true"})
    for key in range(5):
        table.write(rows_of(key))
        table.compact()
    assert [f.row_count for f in table.files()] == [5]


def test_a_file_of_another_format_is_written_anew(root: Callable[[], str]) -> None:
    table = Table(root(), {"deletion-vectors.enabled": "true", "file.format.per.level": "0:avro"})
    table.write(rows_of(1, 2))
    assert [f.file_name.rpartition(".")[2] for f in table.files()] == ["avro"]
    table.compact()
    assert [f.file_name.rpartition(".")[2] for f in table.files()] == ["parquet"]
    assert [r["k"] for r in table.rows()] == [1, 2]


def test_sequence_numbers_of_winners_stay(root: Callable[[], str]) -> None:
    table = Table(root(), {"deletion-vectors.enabled": "true"})
    table.write(rows_of(1, 2))
    table.compact()
    table.write(rows_of(2, 3))
    table.compact()
    (file,) = table.files()
    rows = pq.read_table(f"{table.root}/bucket-0/{file.file_name}").to_pylist()
    assert [(r["k"], r[SEQUENCE_NUMBER]) for r in rows] == [(1, 0), (2, 2), (3, 3)]
    assert (file.min_sequence_number, file.max_sequence_number) == (0, 3)


def delete_rows(table: Table, positions: dict[str, list[int]]) -> None:
    """Commit deletion vectors as Java's compaction makes them."""
    data, ranges = deletion_vector.encode_file({n: np.array(p, np.int64) for n, p in positions.items()})
    name = f"index-{uuid4()}-0"
    STORE.write(table.handle.layout.index_path(name), data)
    entry = IndexManifestEntry(0, binary_row.EMPTY, 0, DELETION_VECTORS, name, len(data), len(ranges), ranges)
    message = CommitMessage(binary_row.EMPTY, 0, 1, compact=Increment(new_index_files=(entry,)))
    table.committer.commit([message])


def vectors_of(table: Table) -> dict[str, list[int]]:
    """Deleted positions by data file name."""
    out = {}
    for entry in table.vectors():
        data = Path(table.handle.layout.index_path(entry.file_name)).read_bytes()
        for found in entry.deletion_vectors or ():
            positions = deletion_vector.decode(data[found.offset :], "", length=found.length)
            assert len(positions) == found.cardinality
            out[found.data_file_name] = positions.tolist()
    return out


def table_with_vectors(root: str, bitmap64: bool) -> tuple[Table, str, str]:
    """Two files of the last level: keys 1, 3 and 8 are left of 1, 2, 3 and 7, 8, 9."""
    options = {"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": str(bitmap64).lower()}
    table = Table(root, {**options, "target-file-size": "1 b"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compact, "output_level", lambda *_: 5)
        for keys in ((1, 2, 3), (7, 8, 9)):
            table.write(rows_of(*keys))
            table.compact()
    first, second = (f.file_name for f in sorted(table.files(), key=lambda f: f.min_key))
    delete_rows(table, {first: [1], second: [0, 2]})
    assert [r["k"] for r in table.rows()] == [1, 3, 8]
    return table, first, second


@pytest.mark.parametrize("bitmap64", [False, True])
def test_vectors_of_files_written_anew_go_and_others_stay(
    root: Callable[[], str], bitmap64: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, _, second = table_with_vectors(root(), bitmap64)
    monkeypatch.setattr(compact, "output_level", lambda *_: 5)
    table.write(rows_of(3, value=5))
    table.compact()
    assert [(r["k"], r["a"]) for r in table.rows()] == [(1, 1), (3, 5), (8, 1)]
    assert vectors_of(table) == {second: [0, 2]}
    table.write(rows_of(8, kind=3))
    table.compact()
    assert table.vectors() == []
    assert [r["k"] for r in table.rows()] == [1, 3]


@pytest.mark.parametrize("bitmap64", [False, True])
def test_rows_in_large_deeper_levels_are_marked_not_rewritten(root: Callable[[], str], bitmap64: bool) -> None:
    table, first, second = table_with_vectors(root(), bitmap64)
    table.write(rows_of(3, value=5))
    table.compact()
    assert [(r["k"], r["a"]) for r in table.rows()] == [(1, 1), (3, 5), (8, 1)]
    assert vectors_of(table) == {first: [1, 2], second: [0, 2]}
    assert {f.file_name for f in table.files() if f.level == 5} == {first, second}
    table.write(rows_of(8, kind=3))
    table.compact()
    assert vectors_of(table) == {first: [1, 2], second: [0, 1, 2]}
    assert [r["k"] for r in table.rows()] == [1, 3]


def test_a_failed_compaction_leaves_no_file(root: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(root(), {"changelog-producer": "lookup"})
    table.write(rows_of(1, 2))
    table.compact()
    table.write(rows_of(2, 3))
    before = {p.name for p in (Path(table.root) / "bucket-0").iterdir()}

    def broken(*_: Any) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setattr(BucketVectors, "changed", broken)
    with pytest.raises(RuntimeError, match="broken"):
        table.compact()
    assert {p.name for p in (Path(table.root) / "bucket-0").iterdir()} == before


@pytest.mark.parametrize("options", [{}, {"deletion-vectors.enabled": "true", "write-only": "true"}])
def test_other_tables_are_left_alone(root: Callable[[], str], options: dict[str, str]) -> None:
    table = Table(root(), options)
    table.write(rows_of(1))
    assert table.compact() == []
    assert hides_level0(table.handle) == bool(options)


def test_buckets_not_asked_for_are_left_alone(root: Callable[[], str]) -> None:
    table = Table(root(), {"deletion-vectors.enabled": "true"})
    table.write(rows_of(1))
    snapshot = latest_snapshot(table.handle)
    assert snapshot is not None
    assert compact_level0(table.handle, snapshot, [(binary_row.EMPTY, 7)], "tester") == []
    assert compact_level0(table.handle, snapshot, [], "tester") == []


def test_of_two_compactions_of_a_bucket_one_gives_way(root: Callable[[], str]) -> None:
    table = Table(root(), {"deletion-vectors.enabled": "true"})
    table.write(rows_of(1, 2))
    snapshot = latest_snapshot(table.handle)
    assert snapshot is not None
    late = compact_level0(table.handle, snapshot, [(binary_row.EMPTY, 0)], "other")
    table.write(rows_of(2, value=7))
    table.compact()
    with pytest.raises(CommitConflictError):
        table.committer.commit(late)
    table.committer.abort(late)
    assert [(r["k"], r["a"]) for r in table.rows()] == [(1, 1), (2, 7)]


def test_rows_that_cannot_be_merged_are_an_error_that_names_the_bucket(root: Callable[[], str]) -> None:
    options = {"merge-engine": "aggregation", "fields.default-aggregate-function": "last_value"}
    table = Table(root(), {**options, "fields.a.aggregate-function": "sum", "changelog-producer": "lookup"})
    table.write(rows_of(1, value=2**31 - 1))
    table.compact()
    table.write(rows_of(1))
    with pytest.raises(DataError, match=r"compaction of table .*bucket-0"):
        table.compact()


@pytest.mark.parametrize("most_open", [1, 3, 100])
def test_many_files_of_level_0_are_merged_a_few_open_at_a_time(
    root: Callable[[], str], monkeypatch: pytest.MonkeyPatch, most_open: int
) -> None:
    monkeypatch.setattr(bucket_merge, "_MOST_OPEN", most_open)
    table = Table(root(), {"changelog-producer": "lookup"})
    for value in range(6):
        table.write(rows_of(1, 2 + value, 9, value=value))
    table.compact()
    assert [(r["k"], r["a"]) for r in table.rows()] == [(1, 5), (2, 0), (3, 1), (4, 2), (5, 3), (6, 4), (7, 5), (9, 5)]
    assert [(kind, key) for kind, key, _ in table.changelog()] == [(0, k) for k in (1, 2, 3, 4, 5, 6, 7, 9)]
