"""MiniEngine: a micro-batch engine in this process, with the checkpoint and the order of steps that Spark has.

A query has one source or several. Their rows go to the sink as a union, or as what a join makes of those of one batch.

Only what a source and a sink can tell it from Spark by: what is on disk when it is killed at any instant, what is
asked again after a restart, what crosses to tasks by pickling, and tasks whose first attempt is lost after it wrote.
Between it and them stands what `paimon_spark.spark` does: the end of the first batch says where the query began.

Source: Spark `execution/streaming/runtime/MicroBatchExecution.scala`, `checkpointing/HDFSMetadataLog.scala`.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from paimon_spark.engine.read.split_reader import read_split
from paimon_spark.engine.scan.plan import Plan
from paimon_spark.engine.tasks import DataSplit, ReadRequest
from paimon_spark.format.arrays.arrow_types import arrow_schema
from paimon_spark.streaming.offset import StreamOffset, decode, encode

if TYPE_CHECKING:
    from paimon_spark.jobs.write.stream import StreamWrite
    from paimon_spark.jobs.write.tasks import StreamRows, StreamTask
    from paimon_spark.streaming.source import StreamSource


class Step(StrEnum):
    """What the engine has just done. It may be killed, or a branch be moved, between any two."""

    OPENED = "opened"
    ADMITTED = "admitted"
    LOGGED = "logged"
    CONFIRMED = "confirmed"
    PLANNED = "planned"
    WRITTEN = "written"
    COMMITTED = "committed"
    DONE = "done"
    IDLE = "idle"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The directory that a query owns: `metadata`, `offsets/<n>`, `commits/<n>`."""

    root: Path

    def query_id(self) -> str:
        """The query's id, made when it first starts."""
        path = self.root / "metadata"
        if not path.exists():
            _publish(path, json.dumps({"id": str(uuid.uuid4())}))
        return str(json.loads(path.read_text())["id"])

    def offset(self, batch: int, source: int = 0) -> StreamOffset:
        """Where a batch ends in a source."""
        return decode(self.kept(batch)[source])

    def start(self, batch: int, source: int = 0) -> StreamOffset:
        """Where a batch begins in a source."""
        return self.offset(batch - 1, source) if batch else decode(self.kept(0)[source]["start"])

    def add_offset(self, batch: int, ends: Sequence[dict[str, Any]]) -> None:
        """A batch is about to run, up to these offsets of its sources."""
        lines = ["v1", '{"batchWatermarkMs":0}', *map(json.dumps, ends)]
        _publish(self.root / "offsets" / str(batch), "\n".join(lines))

    def add_commit(self, batch: int) -> None:
        """A batch was run and committed."""
        _publish(self.root / "commits" / str(batch), 'v1\n{"nextBatchWatermarkMs":0}')

    def kept(self, batch: int) -> list[dict[str, Any]]:
        """Where a batch ends, as Spark keeps it: an offset of each source."""
        return [json.loads(line) for line in (self.root / "offsets" / str(batch)).read_text().splitlines()[2:]]

    def spark_options(self, query_name: str | None = None) -> dict[str, str]:
        """What Spark adds to the options of a sink."""
        named = {} if query_name is None else {"queryname": query_name}
        return {"checkpointlocation": str(self.root), **named}

    def begun(self) -> int | None:
        """The newest batch that began."""
        return _newest(self.root / "offsets")

    def ended(self) -> int | None:
        """The newest batch that ended."""
        return _newest(self.root / "commits")

    def needs_sink_since(self) -> datetime | None:
        """The time from which the query needs the snapshots of its sink, with a margin; None when it needs all.

        A query that starts again looks for its last two batches among the snapshots made since the first of them began.
        """
        ended = self.ended() or 0
        if ended < 2:
            return None
        made_s = (self.root / "commits" / str(ended - 2)).stat().st_mtime
        return datetime.fromtimestamp(made_s, UTC) - timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Tasks:
    """How the tasks of a batch run.

    Attributes:
        number: how many there are at most.
        threads: whether they run at the same time.
        lost: share of the tasks whose first attempt is lost after it wrote, so that they run again.
        seed: decides which.
    """

    number: int = 2
    threads: bool = False
    lost: float = 0.0
    seed: int = 0


@dataclass(slots=True)
class MiniEngine:
    """One run of a query: from its start to its end, or to its death. A restart is another one on the same checkpoint.

    Attributes:
        open_source: as the driver does when the query starts; gives the source, or all of them in their order.
        open_sink: the same; it gets the columns of the rows.
        available_now: whether it ends once it has what was there when it started.
        renamed: columns that have another name in the sink.
        shape: what tasks make of the rows of a source, told by its place.
        join: what becomes of the rows that a batch reads, one table for each source; without it their union.
        query_id: known once it runs.
    """

    checkpoint: Checkpoint
    open_source: Callable[[], StreamSource | Sequence[StreamSource]]
    open_sink: Callable[[pa.Schema], StreamWrite]
    tasks: Tasks = field(default_factory=Tasks)
    available_now: bool = True
    renamed: Mapping[str, str] = field(default_factory=dict)
    shape: Callable[[int, Any], Any] | None = None
    join: Callable[[Sequence[pa.Table]], pa.Table] | None = None
    query_id: str = ""

    def run(self) -> None:
        """All steps."""
        for _ in self.steps():
            pass

    def steps(self) -> Generator[Step, None, None]:
        """Do the steps one by one; each is named when it is done."""
        self.query_id = self.checkpoint.query_id()
        opened = self.open_source()
        sources = list(opened) if isinstance(opened, Sequence) else [opened]
        sink = self.open_sink(self._columns(sources))
        if self.available_now:
            for source in sources:
                source.stop_at_newest()
        yield Step.OPENED
        batch = 0
        starts: list[dict[str, Any]] | None = None
        begun, ended = self.checkpoint.begun(), self.checkpoint.ended()
        if begun is not None:
            if ended != begun:
                yield from self._run(sources, sink, begun)
            batch, starts = begun + 1, self.checkpoint.kept(begun)
        while True:
            ends = [_next(source, starts[n] if starts else None) for n, source in enumerate(sources)]
            yield Step.ADMITTED
            if ends == starts:  # a first batch runs even when it is empty
                if self.available_now:
                    return
                yield Step.IDLE
                continue
            self.checkpoint.add_offset(batch, ends)
            yield Step.LOGGED
            if batch:
                for n, source in enumerate(sources):
                    source.committed(self.checkpoint.offset(batch - 1, n))
                yield Step.CONFIRMED
            yield from self._run(sources, sink, batch)
            batch, starts = batch + 1, ends

    def _run(self, sources: Sequence[StreamSource], sink: StreamWrite, batch: int) -> Iterator[Step]:
        plans: list[Plan | None] = []
        for n, source in enumerate(sources):
            if not batch:
                source.first()  # Spark asks once more when the first batch runs, and again after each restart
            start, end = self.checkpoint.start(batch, n), self.checkpoint.offset(batch, n)
            stands = batch > 0 and start == end  # then Spark does not ask for its splits
            plans.append(None if stands else source.plan(start, end))
        yield Step.PLANNED
        rows: list[StreamRows] = []
        try:
            work = self._joined(sources, plans, self.join) if self.join else self._read(plans)
            self._write(sink, work, batch, rows)
        except Exception:
            if rows:
                sink.sweep(rows)
                sink.abort(rows)
            raise
        yield Step.WRITTEN
        committer, messages = pickle.loads(pickle.dumps((sink, rows)))  # a process of its own commits
        committer.commit(messages, batch)
        yield Step.COMMITTED
        self.checkpoint.add_commit(batch)
        yield Step.DONE

    def _columns(self, sources: Sequence[StreamSource]) -> pa.Schema:
        """The columns of the rows that go to the sink."""
        empty = [self._shaped(n, arrow_schema(s.row_type).empty_table()) for n, s in enumerate(sources)]
        return (empty[0] if self.join is None else self.join(empty)).schema

    def _shaped(self, source: int, rows: Any) -> Any:
        renamed = rows.rename_columns([self.renamed.get(name, name) for name in rows.schema.names])
        return renamed if self.shape is None else self.shape(source, renamed)

    def _write(self, sink: StreamWrite, work: Sequence[_Work], batch: int, rows: list[StreamRows]) -> None:
        """Run the tasks; what each wrote goes to `rows`."""
        chance = random.Random(f"{self.tasks.seed} {batch}")
        lost = [chance.random() < self.tasks.lost for _ in work]

        def run(number: int) -> None:
            sent = pickle.dumps((sink.task(), work[number]))
            if lost[number]:
                self._attempt(sent, number, batch)
            rows.append(self._attempt(sent, number, batch))

        with ThreadPoolExecutor(self.tasks.number if self.tasks.threads else 1) as pool:
            list(pool.map(run, range(len(work))))

    def _attempt(self, sent: bytes, number: int, batch: int) -> StreamRows:
        task: StreamTask
        work: _Work
        task, work = pickle.loads(sent)
        return task.write(work.rows(self), number, self.query_id, batch)

    def _read(self, plans: Sequence[Plan | None]) -> list[_Work]:
        """Tasks that read what they write, some of each source."""
        work: list[_Work] = []
        for n, plan in enumerate(plans):
            if plan is not None:
                for number, part in enumerate(packed(plan.splits, self.tasks.number)):
                    if number == len(work):
                        work.append(_Work())
                    work[number].reads.append((n, dict(plan.requests), part))
        return work or [_Work()]

    def _joined(
        self, sources: Sequence[StreamSource], plans: Sequence[Plan | None], join: Callable[..., pa.Table]
    ) -> list[_Work]:
        """Tasks that write rows of a join, which is made of all that the batch reads."""
        sides = []
        for n, (source, plan) in enumerate(zip(sources, plans, strict=True)):
            empty = self._shaped(n, arrow_schema(source.row_type).empty_table())
            found = [] if plan is None else list(_Work([(n, plan.requests, plan.splits)]).rows(self))
            sides.append(pa.concat_tables([empty, *map(_as_table, found)]))
        rows, number = join(sides), self.tasks.number
        size = -(-rows.num_rows // number)
        return [_Work(given=rows.slice(at * size, size)) for at in range(number)]


@dataclass(slots=True)
class _Work:
    """What one task writes.

    Attributes:
        reads: by the place of a source, how and what is read.
        given: rows that others have read.
    """

    reads: list[tuple[int, Mapping[str, ReadRequest], Sequence[DataSplit]]] = field(default_factory=list)
    given: pa.Table | None = None

    def rows(self, engine: MiniEngine) -> Iterator[Any]:
        if self.given is not None:
            yield from self.given.to_batches()
        for n, requests, splits in self.reads:
            for split in splits:
                for found in read_split(requests[split.branch], split):
                    yield engine._shaped(n, found)


def _next(source: StreamSource, start: dict[str, Any] | None) -> dict[str, Any]:
    """The next offset to keep: the one before where there is nothing new."""
    if start is None:
        begin = source.first()
        return {**encode(source.next(begin)), "start": encode(begin)}
    end = source.next(decode(start))
    return start if end == decode(start) else encode(end)


def _as_table(rows: Any) -> pa.Table:
    return rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])


def packed(splits: Sequence[DataSplit], most: int) -> list[list[DataSplit]]:
    """Splits by task: those of one bucket in one task, in their order."""
    buckets: dict[tuple[str, bytes, int], list[DataSplit]] = {}
    for split in splits:
        buckets.setdefault((split.branch, split.partition, split.bucket), []).append(split)
    parts: list[list[DataSplit]] = [[] for _ in range(min(most, len(buckets)))]
    for number, found in enumerate(buckets.values()):
        parts[number % most] += found
    return parts


def _publish(path: Path, text: str) -> None:
    """A file that is there whole or not at all, and never replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        raise FileExistsError(f"{path}: two runs of one query, or a batch that began twice")
    part = path.with_name(f".{path.name}.{uuid.uuid4()}.tmp")
    part.write_text(text)
    os.rename(part, path)


def _newest(directory: Path) -> int | None:
    names: Sequence[Any] = list(directory.iterdir()) if directory.exists() else []
    return max((int(path.name) for path in names if path.name.isdigit()), default=None)
