"""A query that is killed and started again, while others write, compact and expire its source and its sink.

Rows of the source have a text of their own each, so that a row that comes twice or not at all is seen wherever every
change is kept. Writers are not killed: what they said decides what the query has to have read.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.errors import (
    CommitConflictError,
    CommitRetriesExhaustedError,
    OperationInProgressError,
    SnapshotExpiredError,
)
from paimon_spark.format.data_files import parquet
from paimon_spark.jobs.read.stream import open_stream
from paimon_spark.jobs.upkeep import after_commit, compaction
from paimon_spark.jobs.write import batch as writing
from paimon_spark.jobs.write.stream import StreamWrite, plan_stream_write
from paimon_spark.metadata.manifests import CACHE
from paimon_spark.options.stream_read import parse_stream_options
from paimon_spark.streaming.source import StreamSource
from tests.harness.mini_engine import Checkpoint, MiniEngine, Step, Tasks
from tests.harness.real_tables import a_catalog
from tests.harness.until import until

# What the server of processes loads once for all.
WARM = (after_commit, compaction, writing, parquet, parse_stream_options, pa.array([1]))

PATIENCE: Final[dict[str, Any]] = {
    "commit.max-retries": "1000",
    "commit.min-retry-wait": "5 ms",
    "commit.max-retry-wait": "200 ms",
}
BUSY: Final = (CommitConflictError, CommitRetriesExhaustedError, OperationInProgressError)
FOREIGN: Final = 10**12
"""Keys from here on are written to the sink by others."""
RENAMED: Final = {"rowkind": "kind"}
"""A table has no column of the name that a stream gives to the kinds of rows."""
_SLOTS: Final = 40
_STEPS: Final = 20
KINDS: Final = {0: "+I", 3: "-D"}
Row = tuple[int, int, str]


@dataclass(frozen=True)
class Stream:
    """A source, a query and its sink, and who else is at both.

    Attributes:
        warehouse: directory of the tables.
        logs: directory of the checkpoint and of what the processes say.
        producer: changelog producer of the source; None: it has no primary key.
        keeps: whether the sink keeps every change, instead of the newest row of a key.
        same_table: the sink is a branch of the source.
        read: more options of the source.
        kills: times that the query is killed.
        life_s: the longest that it lives after it did some steps.
        pause_s: the longest that others rest after what they did.
        ahead: snapshots of the source that the query has yet to read, beyond which nothing is written: a query that
            starts slowly would not come to its end.
    """

    warehouse: str
    logs: Path
    producer: str | None = None
    keeps: bool = False
    same_table: bool = False
    read: Mapping[str, str] = field(default_factory=dict)
    kills: int = 3
    life_s: float = 0.15
    pause_s: float = 0.1
    ahead: int = 10**9
    seed: int = 1

    @property
    def keyed(self) -> bool:
        """Whether the source has a primary key."""
        return self.producer is not None

    @property
    def kinds(self) -> bool:
        """Whether the source's deletes reach the sink, with a column of row kinds."""
        return self.keyed and not self.same_table

    def url(self, table: str) -> str:
        return f"{self.warehouse}/db.db/{table}"

    @property
    def sink_url(self) -> str:
        return self.url("src" if self.same_table else "dst")

    @property
    def source_options(self) -> dict[str, str]:
        """Of the query."""
        options = {"consumer-id": "c", **self.read}
        if self.kinds:
            options["read.changelog"] = "true"
        if self.keeps or self.same_table:  # all changes from the first on; of the own table those after the fork
            options["scan.snapshot-id"] = "2" if self.same_table else "1"
        return options

    def source(self) -> Table:
        return paimon_spark.load_table(self.url("src"))

    def sink(self) -> Table:
        return paimon_spark.load_table(self.sink_url, branch="out")

    @property
    def checkpoint(self) -> Checkpoint:
        return Checkpoint(self.logs / "checkpoint")

    def engine(self, available_now: bool = False, seed: int = 0) -> MiniEngine:
        """A run of the query."""
        tasks = Tasks(threads=seed % 2 == 1, lost=0.2, seed=seed)
        source, sink = self.url("src"), self.sink_url

        def open_source() -> StreamSource:
            return open_stream(source, {"path": source, **self.source_options})

        def open_sink(columns: pa.Schema) -> StreamWrite:
            return plan_stream_write({"path": sink, "branch": "out", **PATIENCE}, False, columns, None)

        return MiniEngine(self.checkpoint, open_source, open_sink, tasks, available_now, RENAMED)


def make(stream: Stream) -> None:
    """The source with its first rows, and the sink's branch with a row of others."""
    catalog = a_catalog(stream.warehouse)
    plain = [
        pa.field("p", pa.int32(), nullable=False),
        pa.field("k", pa.int64(), nullable=False),
        pa.field("v", pa.string()),
    ]
    keys: dict[str, Any] = {"primary_keys": ["p", "k"], "partition_keys": ["p"]}
    options = {"bucket": "2", "changelog-producer": stream.producer or "none"}
    with_keys = {**keys, "options": options} if stream.keyed else {"partition_keys": ["p"]}
    catalog.create_table("db.src", pa.schema(plain), **with_keys)
    if not stream.same_table:
        kind = [pa.field("kind", pa.string(), nullable=False)] if stream.kinds else []
        merged: dict[str, Any] = {**keys, "options": {"bucket": "2", "rowkind.field": "kind"}}
        catalog.create_table(
            "db.dst", pa.schema([*kind, *plain]), **(merged if stream.kinds and not stream.keeps else {})
        )
    sink = paimon_spark.load_table(stream.sink_url)
    sink.write(foreign_row(stream, 0), **PATIENCE)
    sink.create_tag("base")
    sink.create_branch("out", tag="base")
    log = os.open(stream.logs / "writer.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    write(stream, 0, log)
    os.close(log)


def run(stream: Stream) -> dict[str, int]:
    """Kill the query again and again beside the others, and let it come to the end when they are done.

    In its last life it is killed only after each of the others has acted.
    """
    context = multiprocessing.get_context("forkserver")
    chance = random.Random(f"{stream.seed} {stream.producer} {stream.keeps} {stream.read}")
    query: Any = None
    lives = kills = 0
    try:
        with Others([stream]) as others:
            while kills < stream.kills:
                lives += 1
                assert lives < 20 * stream.kills, f"the query ends by itself all the time: {said(stream, '# ')}"
                query = context.Process(target=_query, args=(stream, lives))
                query.start()
                _wait(stream, query, lives, chance.randrange(_STEPS))
                query.join(chance.uniform(0, stream.life_s))
                if kills == stream.kills - 1:
                    others.wait(stream, query)
                if query.exitcode is None:
                    query.kill()
                    query.join()
                    kills += 1
                assert query.exitcode in (0, -9), f"the query failed: {said(stream, '# ')}"
                others.check()
    finally:
        if query is not None and query.exitcode is None:
            query.kill()
            query.join()
    before = stream.checkpoint.ended()
    CACHE.clear()
    stream.engine(available_now=True).run()
    return {"kills": kills, "refused": lives - kills, "batches": 1 + (before or 0)}


class Others:
    """The processes at sources and sinks beside queries: from the beginning to the end of a `with`, where all stop."""

    def __init__(self, streams: Sequence[Stream]) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["tests.chaos.streams"])
        self._streams = streams
        self._processes = [
            context.Process(target=job, args=(stream,))
            for stream in streams
            for job in (_writer, _source_keeper, _sink_keeper)
        ]

    def __enter__(self) -> Others:
        for process in self._processes:
            process.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        try:
            for stream in self._streams:
                (stream.logs / "stop").touch()
            for process in self._processes if kind is None else ():
                process.join(60)
                assert process.exitcode == 0, f"{process}: {self._said()}"
        finally:
            for process in self._processes:
                if process.exitcode is None:
                    process.kill()
                    process.join()

    def wait(self, stream: Stream, query: Any) -> None:
        """Wait until each of a stream has done all that it does, or its query has ended."""
        limit = time.monotonic() + 300
        while query.exitcode is None and not min(kept(stream).values()):
            assert time.monotonic() < limit, f"one of them does nothing: {kept(stream)}"
            self.check()
            time.sleep(0.01)

    def check(self) -> None:
        """Fail when one of them did."""
        assert all(p.exitcode is None for p in self._processes), f"another one failed: {self._said()}"

    def _said(self) -> list[str]:
        return [line for stream in self._streams for line in said(stream, "# ")]


def _wait(stream: Stream, query: Any, life: int, steps: int) -> None:
    """Wait until the query has done so many steps."""
    path = stream.logs / f"query-{life}.log"

    def done() -> int:
        return path.read_text().count("\n") if path.exists() else 0

    until(lambda: query.exitcode is not None or done() >= steps, lambda: f"{done()} steps in {path}", poll_s=0.005)


def said(stream: Stream, word: str) -> list[str]:
    """What follows the word in the lines of the processes that begin with it."""
    return [
        line.removeprefix(word)
        for path in sorted(stream.logs.glob("*.log"))
        for line in path.read_text().splitlines()
        if line.startswith(word)
    ]


def kept(stream: Stream) -> dict[str, int]:
    """Writes to either table, and snapshots that compactions made and that were expired of it, beside the query.

    A source that looks up its changes is compacted by each write: others find nothing to compact.
    """
    found = {f"{table} {act}": 0 for table in ("source", "sink") for act in ("compact", "expire")}
    found |= {"source write": sum(label != "0" for label in said(stream, "done ")), "sink write": 0}
    if stream.producer == "lookup":
        del found["source compact"]
    for table in ("source", "sink"):
        log = stream.logs / f"keeper-{table}.log"
        for line in log.read_text().splitlines() if log.exists() else ():
            act, _, count = line.partition(" ")
            if f"{table} {act}" in found:
                found[f"{table} {act}"] += int(count)
    return found


def _query(stream: Stream, life: int) -> None:
    """A process that runs the query until it is killed."""
    log = os.open(stream.logs / f"query-{life}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        for step in stream.engine(seed=life).steps():
            if step is Step.IDLE:
                time.sleep(0.02)
            else:
                os.write(log, f"{step.value}\n".encode())
    except BUSY as e:
        os.write(log, f"refused {type(e).__name__} {e!s:.500}\n".encode())
    except SnapshotExpiredError as e:
        os.write(log, f"refused {type(e).__name__} {e!s:.500}\n".encode())
        if stream.checkpoint.begun() is not None:  # what it read before it began, nobody had to keep
            os.write(log, b"# that was to be kept\n")
            raise
    except BaseException as e:
        os.write(log, f"# {type(e).__name__} {json.dumps(str(e)[:2000])}\n".encode())
        raise


def _writer(stream: Stream) -> None:
    """A process that writes to the source."""
    chance = random.Random(f"{stream.seed} writer")
    log = os.open(stream.logs / "writer.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    label = 0
    while not (stream.logs / "stop").exists():
        if not _is_far_behind(stream):
            label += 1
            write(stream, label, log)
        time.sleep(chance.uniform(0, stream.pause_s))


def _is_far_behind(stream: Stream) -> bool:
    begun = stream.checkpoint.begun()
    if stream.ahead == Stream.ahead or begun is None:
        return False
    head = stream.source().snapshots()[-1].id
    return head - (stream.checkpoint.offset(begun).snapshot_id or 0) > stream.ahead


def write(stream: Stream, label: int, log: int) -> None:
    changes = changes_of(stream, label)
    columns: list[Any] = [list(column) for column in zip(*(row for row, _ in changes), strict=True)]
    arrays = [pa.array(columns[0], pa.int32()), pa.array(columns[1], pa.int64()), pa.array(columns[2], pa.string())]
    data = pa.table(arrays, names=["p", "k", "v"])
    if stream.keyed:
        data = data.append_column("_VALUE_KIND", pa.array([kind for _, kind in changes], pa.int8()))
    try:
        stream.source().write(data, **PATIENCE)
        word = "done"
    except BUSY:
        word = "conflict"
    except Exception as e:
        os.write(log, f"# {type(e).__name__} {json.dumps(str(e)[:2000])}\n".encode())
        raise
    os.write(log, f"{word} {label}\n".encode())


def changes_of(stream: Stream, label: int) -> list[tuple[Row, int]]:
    """The rows of a commit with their kinds, the same in every process; no key twice in one."""
    chance = random.Random(f"{stream.seed} {label}")
    keys = chance.sample(range(_SLOTS), chance.randrange(1, 20))
    if not stream.keyed:
        keys = [label * _SLOTS + key for key in keys]
    deletes = stream.kinds and label > 0
    return [((k % 3, k, f"{label}-{k}"), 3 if deletes and chance.random() < 0.2 else 0) for k in keys]


def foreign_row(stream: Stream, number: int) -> pa.Table:
    columns = {"p": pa.array([0], pa.int32()), "k": pa.array([FOREIGN + number]), "v": pa.array([str(number)])}
    return pa.table({"kind": pa.array(["+I"]), **columns} if stream.kinds else columns)


def _source_keeper(stream: Stream) -> None:
    """A process that compacts and expires the source, once the query fences what it needs."""
    while not list(Path(stream.url("src")).glob("consumer/consumer-*")) and not (stream.logs / "stop").exists():
        time.sleep(0.01)
    chance = random.Random(f"{stream.seed} expiry")

    def expire() -> int:
        now = datetime.now(UTC)
        keep = chance.randrange(1, 4)
        return len(stream.source().expire_snapshots(retain_max=keep, retain_min=1, older_than=now).snapshots)

    _keep(stream, "source", stream.source, expire, [])


def _sink_keeper(stream: Stream) -> None:
    """A process that writes to the sink, compacts and expires it.

    Time to live is longer than the query is down: what was made since its last batches is not expired, else nobody
    could tell whether the newest is there (`BatchesLostError`).
    """
    number = 0

    def write() -> int:
        nonlocal number
        number += 1
        stream.sink().write(foreign_row(stream, number), **PATIENCE)
        log = os.open(stream.logs / "foreign.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(log, f"foreign {number}\n".encode())
        os.close(log)
        return 1

    def expire() -> int:
        needed = stream.checkpoint.needs_sink_since()
        return len(stream.sink().expire_snapshots(retain_min=1, older_than=needed).snapshots) if needed else 0

    _keep(stream, "sink", stream.sink, expire, [write])


def _keep(
    stream: Stream, name: str, opened: Callable[[], Table], expire: Callable[[], int], more: list[Callable[[], int]]
) -> None:
    chance = random.Random(f"{stream.seed} {name}")
    log = os.open(stream.logs / f"keeper-{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def compact() -> int:
        return len(opened().compact(full=chance.random() < 0.3).snapshot_ids)

    while not (stream.logs / "stop").exists():
        act = chance.choice([expire, compact, *more])
        try:
            os.write(log, f"{act.__name__} {act()}\n".encode())
        except BUSY as e:
            os.write(log, f"refused {act.__name__} {type(e).__name__} {json.dumps(str(e)[:300])}\n".encode())
        except Exception as e:
            os.write(log, f"# {act.__name__} {type(e).__name__} {json.dumps(str(e)[:2000])}\n".encode())
            raise
        time.sleep(chance.uniform(0, stream.pause_s))
