"""Pipelines of tables and streaming jobs whose rows prove what lineage says of them.

A row says in which snapshot of the table that its job read it lay (`seen`), and in which one of the root table it was
written (`root`). Writers do not say so: tables that are read track rows, whose `_SEQUENCE_NUMBER` is the id of the
snapshot that they were written in. It stays through compaction, and when the snapshot has expired.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

import paimon_spark
from paimon_spark.api.catalog import Catalog
from paimon_spark.api.table import Table
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.jobs.read.stream import open_stream
from paimon_spark.jobs.write.stream import StreamWrite, plan_stream_write
from paimon_spark.metadata.manifests import CACHE
from paimon_spark.streaming.offset import Phase, StreamOffset
from paimon_spark.streaming.source import StreamSource
from tests.harness.mini_engine import Checkpoint, MiniEngine, Tasks

PATIENCE: Final = {"commit.max-retries": "1000", "commit.min-retry-wait": "5 ms", "commit.max-retry-wait": "200 ms"}
COLUMNS: Final = "id STRING NOT NULL, source STRING, seen BIGINT, root BIGINT"
SCHEMA: Final = pa.schema([("id", pa.string()), ("source", pa.string()), ("seen", pa.int64()), ("root", pa.int64())])
_SEQUENCE: Final = "_SEQUENCE_NUMBER"
SOURCE_COLUMNS: Final = f"id,root,{_SEQUENCE}"
"""What jobs read of a table."""


@dataclass(frozen=True)
class Job:
    """A streaming query.

    Attributes:
        sources: names of the tables that it reads.
        read: options of its sources.
        write: options of its sink.
    """

    name: str
    sources: tuple[str, ...]
    sink: str
    read: Mapping[str, str] = field(default_factory=lambda: {"read.stream.aligned": "true"})
    write: Mapping[str, str] = field(default_factory=dict)


def picture(**options: Any) -> tuple[Job, ...]:
    """The jobs of PIP-5: ETL 1 makes table 5 of 2 and 3, ETL 2 makes table 6 of 2, 3 and 4; table 2 is made of 1."""
    return (
        Job("etl 0", ("t1",), "t2", **options),
        Job("etl 1", ("t2", "t3"), "t5", **options),
        Job("etl 2", ("t2", "t3", "t4"), "t6", **options),
    )


@dataclass(frozen=True)
class Pipeline:
    """Tables of a warehouse and the jobs between them, in the order of the flow.

    Attributes:
        logs: directory of checkpoints, and of what processes say.
        keyed: tables with a primary key. No job may read them, as they do not track rows.
    """

    warehouse: str
    logs: Path
    jobs: tuple[Job, ...] = field(default_factory=picture)
    keyed: tuple[str, ...] = ("t6",)

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(sorted({t for j in self.jobs for t in (*j.sources, j.sink)}))

    @property
    def roots(self) -> tuple[str, ...]:
        """Tables that no job writes."""
        return tuple(t for t in self.tables if t not in {j.sink for j in self.jobs})

    def job(self, name: str) -> Job:
        return next(j for j in self.jobs if j.name == name)

    def url(self, table: str) -> str:
        return f"{self.warehouse}/db.db/{table}"

    def table(self, name: str) -> Table:
        return paimon_spark.load_table(self.url(name), **PATIENCE)

    @property
    def catalog(self) -> Catalog:
        return paimon_spark.load_catalog(self.warehouse)

    def make(self, lineage: bool = True) -> Pipeline:
        """Make the tables, empty, and switch lineage on."""
        catalog = self.catalog
        catalog.create_database("db")
        for name in self.tables:
            if name in self.keyed:
                catalog.create_table(f"db.{name}", COLUMNS, primary_keys=["id"], options={"bucket": "2"})
            else:
                catalog.create_table(f"db.{name}", COLUMNS, options={"row-tracking.enabled": "true"})
        if lineage:
            catalog.lineage.enable()
        return self

    def write(self, root: str, label: str, count: int = 3) -> None:
        """A commit to a root table."""
        rows = {"id": [f"{root}-{label}-{n}" for n in range(count)]}
        empty: dict[str, Any] = {name: pa.nulls(count, SCHEMA.field(name).type) for name in SCHEMA.names[1:]}
        self.table(root).write(pa.table({**rows, **empty}, SCHEMA))

    def checkpoint(self, job: Job) -> Checkpoint:
        return Checkpoint(self.logs / "checkpoints" / job.name.replace(" ", "-"))

    def engine(self, job: Job, *, available_now: bool = True, tasks: Tasks | None = None) -> MiniEngine:
        """A run of a job."""
        checkpoint = self.checkpoint(job)

        def sources() -> list[StreamSource]:
            given = {"columns": SOURCE_COLUMNS, "consumer-id": job.name.replace(" ", "-"), **job.read}
            return [open_stream(self.url(t), {"path": self.url(t), **given}) for t in job.sources]

        def sink(columns: pa.Schema) -> StreamWrite:
            options = {"path": self.url(job.sink), **checkpoint.spark_options(job.name), **PATIENCE, **job.write}
            return plan_stream_write(options, False, columns, None)

        shape = partial(shaped, job.sources)
        return MiniEngine(checkpoint, sources, sink, tasks or Tasks(), available_now, shape=shape)

    def run(self) -> None:
        """Run all jobs, in their order, until each has read what there is."""
        for job in self.jobs:
            self.engine(job).run()

    def data_snapshots(self, table: str) -> list[Snapshot]:
        """Snapshots alive that hold rows of their own, oldest first."""
        return [s for s in self.table(table).snapshots() if s.commit_kind is not CommitKind.COMPACT]

    def ends(self, job: Job) -> dict[int, dict[str, StreamOffset]]:
        """How far each batch that ended had read, by batch and source. Nothing of it comes from lineage."""
        checkpoint = self.checkpoint(job)
        ended = checkpoint.ended()
        batches = range(0 if ended is None else ended + 1)
        return {b: {t: checkpoint.offset(b, n) for n, t in enumerate(job.sources)} for b in batches}


def shaped(sources: Sequence[str], place: int, rows: Any) -> Any:
    """Rows of a source as its job writes them."""
    seen = rows.column(_SEQUENCE)
    return type(rows).from_arrays(
        [
            rows.column("id"),
            pa.repeat(pa.scalar(sources[place]), len(rows)),
            seen,
            pc.coalesce(rows.column("root"), seen),
        ],
        schema=SCHEMA,
    )


def whole(offset: StreamOffset) -> int:
    """The last snapshot that was read whole up to an offset; 0 for none."""
    snapshot = offset.snapshot_id or 0
    if offset.part is None:
        return snapshot
    return 0 if offset.part.phase is Phase.STATE else snapshot - 1


class Rows:
    """All rows of the tables of a pipeline, by the snapshots that hold them. Reads each table once, as it is now."""

    def __init__(self, pipeline: Pipeline) -> None:
        CACHE.clear()
        self._pipeline = pipeline
        self._read = {t: self._heads(t) for t in pipeline.tables if t not in pipeline.keyed}

    def of(self, table: str, snapshot_id: int) -> pa.Table:
        """The rows of a table at a snapshot; with `made`, the one that they were written in, unless it has keys."""
        if table in self._read:
            rows = self._read[table]
            return rows.filter(pc.less_equal(rows.column("made"), snapshot_id))
        return self._pipeline.table(table).at(f"snapshot.{snapshot_id}").scan().to_arrow()

    def proven(self, table: str, snapshot_id: int) -> dict[str, int]:
        """For each table that rows of a snapshot come from directly the newest of its snapshots that they lay in."""
        rows = self.of(table, snapshot_id).group_by("source").aggregate([("seen", "max")])
        return {s: n for s, n in zip(*rows.select(["source", "seen_max"]).to_pydict().values(), strict=True) if s}

    def share(self, table: str, snapshot_id: int, source: str) -> pa.Table:
        """The rows of a snapshot that come from a table directly."""
        rows = self.of(table, snapshot_id)
        return rows.filter(pc.equal(rows.column("source"), source))

    def _heads(self, table: str) -> pa.Table:
        opened = self._pipeline.table(table)
        if not opened.snapshots():
            return SCHEMA.append(pa.field("made", pa.int64())).empty_table()
        rows = opened.scan(columns=[*SCHEMA.names, _SEQUENCE]).to_arrow()
        return rows.rename_columns([*SCHEMA.names, "made"])


def pairs(rows: pa.Table, *columns: str) -> Iterator[tuple[Any, ...]]:
    """Values of columns, row by row."""
    yield from zip(*(rows.column(c).to_pylist() for c in columns), strict=True)
