"""Results of lineage questions as frozen values, and the callbacks that questions need."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.lineage.batch_sequence import BatchSequence
from paimon_spark.lineage.graph import Graph, Node
from paimon_spark.lineage.provenance import Provenance, SourceRange, TableRef

ProvenanceOf: TypeAlias = Callable[[Node, int], Provenance | None]
"""The provenance of a snapshot of a table; None when it has none, or has expired."""


Beyond: TypeAlias = Callable[[str, Node], Sequence[Node]]
"""(job, table on this side of it) → the tables on its other side."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of a job that read or made a snapshot.

    Attributes:
        snapshot: that it made of the sink; None when it made none, or one whose id another batch has by now, as a
            branch was merged or rolled back.
        certain: False when the rows leave open whether it read what was asked about.
    """

    job: str
    barrier: int
    snapshot: int | None = None
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Met:
    """What a batch read of a source that a snapshot stems from.

    Attributes:
        job, barrier: the batch that read.
        sink: the table whose snapshot stems from it.
        after: the last snapshot read whole before the batch; 0 when there was none.
        last: the last snapshot read whole at its end; 0 when there was none.
        within: the snapshot of which a part was read when it ended; None when none, or when only rows speak of it.
    """

    job: str
    barrier: int
    sink: Node
    after: int
    last: int
    within: int | None = None


@dataclass(frozen=True, slots=True)
class ReachedTable:
    """A table upstream or downstream of what was asked about.

    Attributes:
        depth: jobs between it and what was asked about; 1 for the nearest.
        path: a shortest way from what was asked about to it: jobs and tables by turns, names; both ends included.
        met: for a question about a snapshot, upstream: where it was met, newest first. Two that differ in `last`
            mean that the snapshot asked about holds it in two states.
        snapshot: upstream of a snapshot: the newest it stems from (0: nothing was read of it); downstream of a
            snapshot: the first that contains it, None when none does yet. None in questions about a table.
    """

    node: Node
    depth: int
    path: tuple[str, ...]
    snapshot: int | None = None
    met: tuple[Met, ...] = ()


@dataclass(frozen=True, slots=True)
class ReachedJob:
    """A job upstream or downstream of what was asked about; depth and path as of a table."""

    job: str
    depth: int
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reach:
    """What is upstream or downstream of a table, a snapshot or a job, nearest first.

    Attributes:
        asked: the table, or the job.
        snapshot: asked about; None when the whole table was.
        made_by: the batches that made it, as rows or its properties tell; empty: no job recorded it.
        note: a sentence for people where the answer needs one: a snapshot that no job recorded, a table of no job.
    """

    asked: Node | str
    tables: tuple[ReachedTable, ...]
    jobs: tuple[ReachedJob, ...]
    snapshot: int | None = None
    made_by: tuple[Batch, ...] = ()
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Refs:
    """Snapshots, tags and branches of a table, as the caller finds them.

    Attributes:
        alive: the earliest and the newest snapshot; None when there is none.
        tags: name → snapshot, savepoints and guard tags among them.
        branches: name → the snapshot it was made from.
    """

    alive: tuple[int, int] | None = None
    tags: Mapping[str, int] | None = None
    branches: Mapping[str, int] | None = None


RefsOf: TypeAlias = Callable[[Node], Refs]


@dataclass(frozen=True, slots=True)
class Affected:
    """A table that holds what a snapshot brought.

    Attributes:
        depth, path: as in ReachedTable; depth 0 is the table asked about.
        first: the first snapshot that contains it; all later ones do, until rows are overwritten or deleted. None
            when a job reads the table above but has made no snapshot from it yet.
        snapshots: recorded ones, ascending, made by the batches that read it.
        batches: those batches, by job and barrier; also such as made no snapshot.
        alive: those of `snapshots` that have not expired; None when the caller gave no `refs_of`.
        tags: that hold `first` or a later snapshot, name → snapshot, sorted; they outlive expiry.
        branches: made from `first` or a later snapshot, name → that snapshot, sorted.
    """

    node: Node
    depth: int
    path: tuple[str, ...]
    first: int | None
    snapshots: tuple[int, ...] = ()
    batches: tuple[Batch, ...] = ()
    alive: tuple[int, ...] | None = None
    tags: tuple[tuple[str, int], ...] = ()
    branches: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Impact:
    """Everything that a snapshot went into.

    Attributes:
        origin: the table and snapshot asked about, with the tags and branches that hold it.
        tables: everything downstream, nearest first.
        jobs: that read it, or something that came from it.
        made_by, note: as in Reach.
    """

    origin: Affected
    tables: tuple[Affected, ...]
    jobs: tuple[ReachedJob, ...]
    made_by: tuple[Batch, ...] = ()
    note: str | None = None


def source_range_of(said: Provenance, sink: Node, source: Node, rows: BatchSequence) -> SourceRange | None:
    """What the batch that made a snapshot read of a table; None when nothing.

    A batch job finds its sources in the notes in the warehouse of its sink. Its sources in another warehouse are in the
    rows there, under the barrier that reads and writes were both given.

    Args:
        said: the provenance of the snapshot.
        sink: the table that the snapshot is of.
        source: the table that may have been read.
        rows: of the job and the source.
    """
    for known in said.sources:
        if known.ref == source.ref and (known.warehouse or sink.warehouse) == source.warehouse:
            return known
    if said.query_id is not None or source.warehouse == sink.warehouse:
        return None
    row = rows.row(said.barrier)
    if row < 0 or rows.barriers[row] != said.barrier:
        return None
    return SourceRange(source.ref, source.warehouse, last=rows.snapshots[row])


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest rows of jobs.

    Attributes:
        read: (job, table) → the newest snapshot read whole.
        made: (job, table) → the newest snapshot made.
        barriers: job → its newest batch.
    """

    read: Mapping[tuple[str, Node], int] = field(default_factory=dict)
    made: Mapping[tuple[str, Node], int] = field(default_factory=dict)
    barriers: Mapping[str, int] = field(default_factory=dict)


def newest_of(graph: Graph) -> Newest:
    """The newest batch and snapshots of each job of a graph that was loaded with its snapshots."""
    read: dict[tuple[str, Node], int] = {}
    made: dict[tuple[str, Node], int] = {}
    barriers: dict[str, int] = {}
    for part in graph.parts:
        for rows, into in ((part.source_snapshots, read), (part.sink_snapshots, made)):
            for row in [] if rows is None else _last_rows(rows):
                job, node = row["job"], Node(part.warehouse, TableRef(row["database"], row["table"]))
                into[job, node] = row["snapshot_id"]
                barriers[job] = max(barriers.get(job, -1), row["barrier_id"])
    return Newest(read, made, barriers)


def _last_rows(rows: pa.Table) -> list[dict[str, Any]]:
    """The row of the newest batch of each job and table."""
    keys = ["job", "database", "table"]
    newest = rows.group_by(keys).aggregate([("barrier_id", "max")]).rename_columns([*keys, "barrier_id"])
    few = rows.filter(pc.is_in(rows["barrier_id"], pc.unique(newest["barrier_id"])))  # a join of all is 30 times slower
    found = few.join(newest, [*keys, "barrier_id"], join_type="inner").sort_by([(k, "ascending") for k in keys])
    out: list[dict[str, Any]] = found.to_pylist()
    return out
