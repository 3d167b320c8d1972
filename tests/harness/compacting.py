"""Tables with keys that are compacted, and a dictionary model of their rows and changelog."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

import paimon_spark
from paimon_spark.engine.commit.committer import Committer
from paimon_spark.engine.compaction.plan import plan_after_write, plan_compaction
from paimon_spark.engine.compaction.run import run_here
from paimon_spark.engine.compaction.task import BucketTask
from paimon_spark.engine.tasks import CommitMessage
from paimon_spark.engine.write.request import WriteRequest
from paimon_spark.engine.write.table_writer import TableWriter
from paimon_spark.format import binary_row
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.format.metadata_files.index_manifest import IndexManifestEntry
from paimon_spark.format.metadata_files.manifest import files_of
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.definition.create import create_table
from paimon_spark.metadata.definition.from_arrow import row_type
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests, read_index_manifest
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.storage.local import LocalStore
from paimon_spark.types import BIGINT, SEQUENCE_NUMBER, VALUE_KIND
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

    def write(self, rows: Sequence[Record], *, counted: bool = True) -> None:
        """Commit rows; with `counted` False their retracts are not counted in manifests, as by pypaimon 2.1."""
        writer = TableWriter(WriteRequest(self.handle, "tester", latest_snapshot(self.handle)), SOURCE)
        data = [{"k": r.key, **r.values, VALUE_KIND: r.kind} for r in rows]
        writer.write(pa.RecordBatch.from_pylist(data, schema=SOURCE))
        messages = writer.close()
        if not counted:
            messages = [replace(m, data=replace(m.data, new_files=_uncounted(m.data.new_files))) for m in messages]
        self.committer.commit(messages)

    def compact(self) -> list[CommitMessage]:
        snapshot = latest_snapshot(self.handle)
        if snapshot is None:
            return []
        self.messages = compact_level0(self.handle, snapshot, [(binary_row.EMPTY, 0)], "tester")
        self.committer.commit(self.messages)
        return self.messages

    def plan(self, *, full: bool) -> list[BucketTask]:
        snapshot = latest_snapshot(self.handle)
        return [] if snapshot is None else plan_compaction(self.handle, snapshot, full=full)

    def compact_as(self, *, full: bool) -> list[BucketTask]:
        """Compact and commit; what was done."""
        tasks, snapshot = self.plan(full=full), latest_snapshot(self.handle)
        self.messages = []
        if tasks and snapshot is not None:
            self.messages = [m for m in run_here(self.handle, snapshot, tasks, "tester") if m is not None]
            self.committer.commit(self.messages)
        return tasks

    def check_files(self) -> None:
        """Every live file is as its manifest entry says, and no level above 0 holds a key twice."""
        spans: dict[int, list[tuple[int, int]]] = {}
        for file in self.files():
            rows = pq.read_table(f"{self.root}/bucket-0/{file.file_name}").to_pylist()
            keys, sequences = [r["k"] for r in rows], [r[SEQUENCE_NUMBER] for r in rows]
            assert keys == sorted(set(keys))
            assert len(rows) == file.row_count
            assert sum(r[VALUE_KIND] in (1, 3) for r in rows) == file.delete_row_count
            assert [binary_row.decode(b, [BIGINT])[0] for b in (file.min_key, file.max_key)] == [keys[0], keys[-1]]
            assert (min(sequences), max(sequences)) == (file.min_sequence_number, file.max_sequence_number)
            assert file.schema_id == 0 and file.file_size > 0
            assert file.file_source in ((0,) if file.level == 0 else (0, 1))
            spans.setdefault(file.level, []).append((keys[0], keys[-1]))
        for level, found in spans.items():
            found.sort()
            assert level == 0 or all(a[1] < b[0] for a, b in itertools.pairwise(found))

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


def _uncounted(files: Sequence[DataFileMeta]) -> tuple[DataFileMeta, ...]:
    return tuple(f._replace(delete_row_count=0) for f in files)


def compact_level0(
    handle: TableHandle, snapshot: Snapshot, buckets: list[tuple[bytes, int]], user: str
) -> list[CommitMessage]:
    tasks = plan_after_write(handle, snapshot, buckets)
    return [m for m in run_here(handle, snapshot, tasks, user) if m is not None]


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
    rule: Rule,
    state: dict[int, Record],
    rows: list[Record],
    number: int,
    *,
    deleted: dict[int, Record] | None = None,
    shown: dict[int, dict[str, Any]] | None = None,
) -> list[tuple[int, Record | None, Record | None]]:
    """Apply a commit to the visible state; per key what was and what is.

    Args:
        rule: of the merge engine.
        state: the visible rows by key; changed.
        rows: of the commit.
        number: of the commit.
        deleted: the last retract of keys that have no row; changed. Partial update begins with its values, as Java
            does, until a compaction into the deepest level with files drops it: which files there are decides that.
        shown: the rows that the table has after the commit, which tell whether it was dropped.
    """
    changes = []
    for kind, key, values in model.merged(rows, rule, keep_deletes=True):
        before = state.pop(key, None)
        record = Record(key, number, kind, 0, values)
        result = rule([record] if before is None else [before, record])
        ghost = None if deleted is None else deleted.pop(key, None)
        if ghost is not None and shown is not None:
            other = rule([ghost, record])
            result = other if other is not None and other[1] == shown.get(key) else result
        after = None if result is None else Record(key, number, result[0], 5, result[1])
        if after is not None and after.retract:
            if deleted is not None:
                deleted[key] = after
            after = None
        if after is not None:
            state[key] = after
        changes.append((key, before, after))
    return changes


def rows_of(*keys: int, value: int = 1, kind: int = 0) -> list[Record]:
    return [Record(k, 0, kind, 0, {"a": value, "b": "x", "s": 0}) for k in keys]
