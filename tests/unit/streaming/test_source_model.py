"""Random histories, limits and restarts: whatever happens, a stream delivers each change once, in order."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.engine.read.split_reader import read_split
from paimon_spark.errors import StreamError
from paimon_spark.format.metadata_files.snapshot import CommitKind
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.manifests import CACHE
from paimon_spark.options.stream_read import ReadLimits
from paimon_spark.streaming.offset import StreamOffset
from paimon_spark.streaming.source import StreamSource
from paimon_spark.types import BIGINT, STRING, DataField, RowType
from tests.harness.real_tables import a_catalog
from tests.harness.search import examples
from tests.harness.streams import again, names, stream
from tests.harness.table_builder import File, TableBuilder

APPEND, COMPACT, OVERWRITE, ANALYZE = CommitKind
ROW = RowType(False, (DataField(0, "k", BIGINT.with_nullable(False)), DataField(1, "v", STRING)))
KINDS = st.sampled_from([APPEND, APPEND, APPEND, COMPACT, OVERWRITE, ANALYZE])
COMMIT = st.tuples(KINDS, st.integers(0, 3), st.integers(0, 2), st.integers(0, 1))
LIMITS = st.one_of(
    st.just(ReadLimits()),
    st.builds(
        ReadLimits, st.none() | st.integers(1, 5), st.none() | st.integers(1, 4000), st.none() | st.integers(1, 50)
    ),
)
STEP = st.one_of(
    st.tuples(st.just("batch"), LIMITS, st.booleans()),
    st.tuples(st.just("batch"), LIMITS, st.booleans()),
    st.tuples(st.just("commit"), COMMIT, st.none()),
    st.tuples(st.just("restart"), st.none(), st.none()),
    st.tuples(st.just("expire"), st.none(), st.none()),
)


@dataclass
class Model:
    """A table of files, and what a stream has to deliver of it."""

    keyed: bool
    producer: str
    overwrites: bool
    alive: list[File] = field(default_factory=list)
    changes: dict[int, list[str]] = field(default_factory=dict)
    count: int = 0

    def __post_init__(self) -> None:
        options = {"bucket": "2" if self.keyed else "-1", "changelog-producer": self.producer}
        keys = ("k",) if self.keyed else ()
        self.table = TableBuilder(TableSchema(0, ROW, 2, primary_keys=keys, options=options))

    def commit(self, kind: CommitKind, adds: int, logs: int, deletes: int) -> None:
        added = [self.file() for _ in range(adds)] if kind is not ANALYZE else []
        logged = [self.file() for _ in range(logs)] if self.producer != "none" else []
        gone = self.alive[:deletes] if kind in (COMPACT, OVERWRITE) else []
        made = self.table.commit(*added, deletes=gone, kind=kind, changelog=logged)
        self.alive = [f for f in (*self.alive, *added) if f not in gone]
        read: list[str] = []
        if kind is OVERWRITE and self.overwrites:
            read = [f.name for f in added] + ([f"-{f.name}" for f in gone] if self.keyed else [])
        elif self.keyed and self.producer != "none":
            read = [f.name for f in logged]
        elif kind is APPEND:
            read = [f.name for f in added]
        self.changes[made.id] = read

    def file(self) -> File:
        """Every file has keys of its own, so that none is merged with another."""
        self.count += 1
        low, high = {"k": 10 * self.count}, {"k": 10 * self.count + 9}
        bucket, total = (self.count % 2, 2) if self.keyed else (0, -1)
        return File(f"f{self.count}", bucket=bucket, total_buckets=total, low=low, high=high, nulls={"k": 0, "v": 0})

    def stream(self, **options: Any) -> StreamSource:
        CACHE.clear()
        if self.overwrites:
            options["streaming_read_overwrite" if self.keyed else "streaming_read_append_overwrite"] = "true"
        return stream(self.table.open(), **options)

    def expire(self, before: int) -> None:
        layout = self.table.open().layout
        for i in list(self.changes):
            if i < before and i < max(self.changes):
                self.table.table.store.delete(layout.snapshot_path(i))


@dataclass
class Reader:
    """A query: what it has delivered, and where it stands."""

    model: Model
    options: dict[str, str]
    began: int = 0
    state: list[str] = field(default_factory=list)
    batches: list[list[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.source = self.model.stream(**self.options)
        self.at = again(self.source.first())
        self.fix_start()

    def fix_start(self) -> None:
        """What the stream begins with is decided by the first snapshot that it meets."""
        if self.at.snapshot_id is not None and not self.state and not self.batches:
            self.began = self.at.snapshot_id
            self.state = [f.name for f in self.model.alive] if self.at.part is not None else []

    def batch(self, limits: ReadLimits | None, replay: bool) -> None:
        began_empty = self.at.snapshot_id is None
        if began_empty and self.model.changes and self.options["scan__mode"] == "latest-full":
            self.began, self.state = max(self.model.changes), [f.name for f in self.model.alive]
        end = again(self.source.next(self.at, limits))
        files = names(self.source, self.at, end)
        if replay:
            self.source = self.model.stream(**self.options)
            assert names(self.source, self.at, end) == files
            assert names(self.source, self.at, end) == files
        if limits is not None and limits.max_files is not None:
            assert len(files) <= limits.max_files or self.model.overwrites
        self.batches.append(files)
        self.at = end

    @property
    def needs(self) -> int:
        """The first snapshot that must not expire."""
        return (self.at.snapshot_id or 0) + (self.at.part is None)

    def check(self) -> None:
        """All was delivered, each once, and what came later never before what came earlier."""
        while True:
            before = self.at
            self.batch(ReadLimits() if "read__stream__aligned__snapshots" not in self.options else None, False)
            if self.at == before:
                break
        delivered = [f for batch in self.batches for f in batch]
        expected = [*self.state, *(f for i, read in self.model.changes.items() if i > self.began for f in read)]
        assert sorted(delivered) == sorted(expected)
        number = dict.fromkeys(self.state, 0) | {
            f: i for i, read in self.model.changes.items() if i > self.began for f in read
        }
        spans = [[number[f] for f in batch] for batch in self.batches if batch]
        for earlier, later in pairwise(spans):
            assert max(earlier) <= min(later)
        for span in spans:
            assert 0 not in span or set(span) == {0}, "a state came with changes"


@settings(max_examples=examples(80), deadline=None)
@given(
    keyed=st.booleans(),
    producer=st.sampled_from(["none", "input", "lookup"]),
    overwrites=st.booleans(),
    first=st.lists(COMMIT, max_size=4),
    mode=st.sampled_from(["latest-full", "latest", "from-snapshot"]),
    steps=st.lists(STEP, max_size=12),
)
def test_files_are_delivered_once_whatever_the_limits_and_restarts(
    keyed: bool,
    producer: str,
    overwrites: bool,
    first: list[tuple[CommitKind, int, int, int]],
    mode: str,
    steps: list[tuple[str, Any, Any]],
) -> None:
    if not keyed:
        producer = "none"
    # Levels are of no account here, and a changelog that a compaction makes tells of overwrites itself.
    overwrites = overwrites and producer != "lookup"
    model = Model(keyed, "input" if producer == "lookup" else producer, overwrites)
    for commit in first:
        model.commit(*commit)
    options = {"scan__mode": mode} | ({"scan__snapshot_id": "1"} if mode == "from-snapshot" else {})
    reader = Reader(model, options)
    for verb, argument, more in steps:
        if verb == "commit":
            model.commit(*argument)
        elif verb == "restart":
            reader.source = model.stream(**options)
            reader.at = again(reader.at)
        elif verb == "expire":
            model.expire(reader.needs)
        else:
            reader.batch(argument, more)
    reader.check()


@settings(max_examples=examples(40), deadline=None)
@given(
    count=st.integers(1, 3),
    first=st.lists(COMMIT, max_size=3),
    steps=st.lists(st.one_of(COMMIT, st.booleans()), max_size=14),
)
def test_aligned_batches_are_so_many_snapshots_that_changed_something(
    count: int, first: list[tuple[CommitKind, int, int, int]], steps: list[Any]
) -> None:
    model = Model(False, "none", False)
    for commit in first:
        model.commit(*commit)
    options = {"scan__mode": "latest-full", "read__stream__aligned__snapshots": str(count)}
    reader = Reader(model, options)
    for step in steps:
        if isinstance(step, bool):
            reader.batch(None, step)
        else:
            model.commit(*step)
    waited = reader.at
    reader.source.stop_at_newest()
    reader.check()
    owner = {f: i for i, read in model.changes.items() for f in read}
    changed = [i for i, read in model.changes.items() if i > reader.began and read]
    spans = [sorted({owner[f] for f in b}) for b in reader.batches if b and not set(b) <= set(reader.state)]
    assert [i for span in spans for i in span] == changed
    assert all(len(span) == count for span in spans[:-1])
    assert waited == again(waited)


# --- rows

COLUMNS = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
TABLES: dict[str, dict[str, str]] = {
    "append": {"bucket": "-1"},
    "none": {"bucket": "2"},
    "input": {"bucket": "2", "changelog-producer": "input"},
    "lookup": {"bucket": "2", "changelog-producer": "lookup"},
    "full-compaction": {"bucket": "1", "changelog-producer": "full-compaction"},
}


def live(path: Path) -> Table:
    CACHE.clear()
    return paimon_spark.load_table(str(path / "db.db" / "t"))


def steps(path: Path, rng: random.Random, keyed: bool) -> Iterator[int]:
    """Yield after each commit or two; appended rows are numbered, so that each is there once."""
    for number in range(8):
        table = live(path)
        keys = sorted({rng.randrange(10) for _ in range(rng.randrange(1, 6))})
        if keyed and rng.random() < 0.2:
            table.delete(f"k < {rng.randrange(4)}")
        else:
            table.write(pa.table({"k": keys, "v": [f"{number}.{k}" for k in keys]}, schema=COLUMNS))
        if rng.random() < 0.3:
            live(path).compact(full=rng.random() < 0.5)
        yield number


def rows_between(source: StreamSource, start: StreamOffset, end: StreamOffset) -> list[tuple[str, int, str]]:
    plan = source.plan(start, end)
    found = (b for s in plan.splits for b in read_split(plan.requests[s.branch], s))
    return [(r["rowkind"], r["k"], r["v"]) for batch in found for r in batch.to_pylist()]


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("seed", range(2))
def test_rows_delivered_make_the_table(kind: str, seed: int, tmp_path: Path) -> None:
    rng, keyed = random.Random(f"{kind} {seed}"), kind != "append"
    catalog = a_catalog(tmp_path)
    catalog.create_table("db.t", COLUMNS, primary_keys=["k"] if keyed else [], options=TABLES[kind])
    held: dict[int, str] = {}
    every: list[tuple[int, str]] = []
    source: StreamSource | None = None
    start: StreamOffset | None = None

    def apply(batch: list[tuple[str, int, str]]) -> None:
        for sign, k, v in batch:
            if sign in ("+I", "+U"):
                held[k] = v
            else:
                held.pop(k, None)
            every.append((k, v))

    for number in steps(tmp_path, rng, keyed):
        if number == 2 or (source is not None and rng.random() < 0.3):
            source = stream(live(tmp_path).handle, read__changelog="true", scan__mode="latest-full")
            start = start or again(source.first())
        while source is not None and start is not None and rng.random() < 0.6:
            end = again(source.next(start, ReadLimits(rng.choice([None, 1, 2]))))
            apply(rows_between(source, start, end))
            start = end
    if keyed:
        live(tmp_path).compact(full=True)
    assert source is not None and start is not None
    while (end := source.next(start, ReadLimits(max_rows=rng.choice([None, 3])))) != start:
        apply(rows_between(source, start, end))
        start = end
    table = live(tmp_path).scan().to_arrow().to_pylist()
    if keyed:
        assert held == {r["k"]: r["v"] for r in table}
    else:
        assert sorted(every) == sorted((r["k"], r["v"]) for r in table)


@pytest.mark.parametrize("seed", range(6))
def test_a_stream_of_a_branch_that_moves_delivers_its_history_or_stops(seed: int, tmp_path: Path) -> None:
    """Roll-backs, merges, new mains: what was delivered is what the branch has, or an error says that it is not."""
    rng = random.Random(seed)
    catalog = a_catalog(tmp_path)
    catalog.create_table("db.t", COLUMNS, options={"bucket": "-1"})

    def write(branch: str, number: int) -> None:
        paimon_spark.load_table(str(tmp_path / "db.db" / "t"), branch=branch).write(
            pa.table({"k": [number], "v": [branch]}, schema=COLUMNS)
        )

    write("main", 0)
    source = stream(live(tmp_path).handle, read__changelog="true", scan__snapshot_id="1")
    start, delivered, stopped = again(source.first()), list[int](), False
    for number in range(1, 14):
        table = live(tmp_path)
        branches = [
            b.name for b in table.branches(include_internal=True) if b.name != "main" and not b.name.startswith("main-")
        ]
        match rng.choice(["write", "write", "write", "branch", "dev", "dev", "roll", "merge", "replace", "trigger"]):
            case "branch":
                table.create_branch(f"b{number}", snapshot_id=rng.choice(table.snapshots()).id)
            case "dev" if branches:
                write(rng.choice(branches), number)
            case "roll":
                table.rollback_to(rng.choice(table.snapshots()[-3:]).id)
            case "merge" | "replace" as verb if branches:
                try:
                    getattr(table, "merge_branch" if verb == "merge" else "replace_main")(rng.choice(branches))
                except paimon_spark.errors.InvalidInputError:
                    continue
            case "trigger":
                pass
            case _:
                write("main", number)
        CACHE.clear()
        if rng.random() < 0.3:
            source = stream(live(tmp_path).handle, read__changelog="true", scan__mode="latest")
        if rng.random() < 0.6:
            try:
                end = source.next(start, ReadLimits(rng.choice([None, 1])))
                batch = rows_between(source, start, end)
            except StreamError:
                stopped = True
                break
            delivered += [k for _, k, _ in batch]
            start = again(end)
    CACHE.clear()
    if not stopped:
        try:
            end = source.next(start)
            delivered += [k for _, k, _ in rows_between(source, start, end)]
        except StreamError:
            stopped = True
    now = sorted(r["k"] for r in live(tmp_path).scan().to_arrow().to_pylist())
    if stopped:
        assert set(delivered) - set(now), "it stopped though everything delivered is there"
    else:
        assert sorted(delivered) == now


def test_the_model_is_not_blind() -> None:
    model = Model(True, "none", True)
    model.commit(APPEND, 2, 0, 0)
    model.commit(OVERWRITE, 1, 0, 1)
    assert model.changes == {1: ["f1", "f2"], 2: ["f3", "-f1"]}
    reader = Reader(model, {"scan__mode": "from-snapshot", "scan__snapshot_id": "1"})
    reader.check()
    assert dataclasses.replace(reader.at, table="") == dataclasses.replace(again(reader.at), table="")
    reader.batches[0].pop()
    with pytest.raises(AssertionError):
        reader.check()
