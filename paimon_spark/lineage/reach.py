"""Questions along the graph: upstream, downstream, and the impact of a snapshot.

Impact follows two things: batches that read the snapshot, the snapshots they made, the batches that read those, and so
on, where a batch that may have read a part counts unless its own snapshot excludes it; and the first snapshot of each
table that stems from it at all, also by a batch with state that held its rows back.

Source: PIP-5, "Query Table Lineage" and "Query Data Lineage"; docs/design/lineage.md.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from paimon_spark.errors import LineageError
from paimon_spark.lineage.answers import (
    Affected,
    Batch,
    Beyond,
    Impact,
    Met,
    ProvenanceOf,
    Reach,
    ReachedJob,
    ReachedTable,
    Refs,
    RefsOf,
    source_range_of,
)
from paimon_spark.lineage.batch_sequence import FAR
from paimon_spark.lineage.graph import NOWHERE, Graph, Node
from paimon_spark.lineage.provenance import Provenance, SourceRange

if TYPE_CHECKING:
    from paimon_spark.lineage.readers import Readers


def upstream(
    graph: Graph, asked: Node | str, snapshot: int | None = None, provenance_of: ProvenanceOf | None = None
) -> Reach:
    """The tables and jobs that something comes from.

    Args:
        graph: loaded with `Walk.UP`.
        asked: a table, or a job by its name.
        snapshot: of the table; None: the table whatever its snapshot.
        provenance_of: makes ranges exact, and finds sources outside any warehouse.

    Raises:
        LineageError: an unknown table, or a snapshot of a job. JobNotFoundError: an unknown job.
    """
    _check(graph, asked, snapshot)
    tables, jobs = shortest_paths(asked, graph.written_by, graph.reads, graph.sources_of)
    if snapshot is None or isinstance(asked, str):
        return Reach(asked, *_plain(tables, jobs))
    met = _met(graph, asked, snapshot, provenance_of)
    found = [ReachedTable(n, w.depth, w.path, _newest(met.get(n, ())), met.get(n, ())) for n, w in tables.items()]
    for node in met:
        if node not in tables:  # outside any warehouse, or so read that no row could say it
            way = min((w for m in met[node] if (w := _way(asked, tables, m, node))), key=lambda w: w.depth)
            found.append(ReachedTable(node, way.depth, way.path, _newest(met[node]), met[node]))
    by = made_by(graph, asked, snapshot, provenance_of)
    return Reach(asked, _nearest(found), _plain(tables, jobs)[1], snapshot, by, note_of(graph, asked, snapshot, by))


def downstream(
    graph: Graph, asked: Node | str, snapshot: int | None = None, provenance_of: ProvenanceOf | None = None
) -> Reach:
    """The tables and jobs that come from something; arguments and errors as of `upstream`, loaded with `Walk.DOWN`."""
    _check(graph, asked, snapshot)
    tables, jobs = shortest_paths(asked, graph.read_by, graph.writes, graph.sinks_of)
    if snapshot is None or isinstance(asked, str):
        return Reach(asked, *_plain(tables, jobs))
    _, firsts = followed(graph, asked, snapshot, provenance_of)
    found = _nearest(ReachedTable(n, w.depth, w.path, firsts.get(n)) for n, w in tables.items())
    by = made_by(graph, asked, snapshot, provenance_of)
    return Reach(asked, found, _plain(tables, jobs)[1], snapshot, by, note_of(graph, asked, snapshot, by))


def _check(graph: Graph, asked: Node | str, snapshot: int | None) -> None:
    if isinstance(asked, Node):
        graph.check_table(asked)
        if snapshot is not None:
            check_snapshot(asked, snapshot)
        return
    graph.check_job(asked)
    if snapshot is not None:
        raise LineageError(f"job {asked!r} has no snapshots: ask about a table, or leave {snapshot} out", job=asked)


def _plain(
    tables: Mapping[Node, Path], jobs: Mapping[str, Path]
) -> tuple[tuple[ReachedTable, ...], tuple[ReachedJob, ...]]:
    return (
        _nearest(ReachedTable(n, w.depth, w.path) for n, w in tables.items()),
        tuple(ReachedJob(j, w.depth, w.path) for j, w in jobs.items()),
    )


def _nearest(tables: Iterable[ReachedTable]) -> tuple[ReachedTable, ...]:
    return tuple(sorted(tables, key=lambda t: (t.depth, t.node)))


def _newest(met: Sequence[Met]) -> int:
    return max((m.last for m in met), default=0)


def _way(asked: Node, tables: Mapping[Node, Path], met: Met, node: Node) -> Path | None:
    before = Path(0, (asked.name,)) if met.sink == asked else tables.get(met.sink)
    return None if before is None else Path(before.depth + 1, (*before.path, met.job, node.name))


def _met(graph: Graph, asked: Node, snapshot: int, provenance_of: ProvenanceOf | None) -> dict[Node, tuple[Met, ...]]:
    """What was read of the tables upstream of a snapshot; a table is not followed into its own past."""
    found: dict[Node, dict[Met, None]] = {}
    seen: set[tuple[Node, int]] = set()
    todo = [(asked, snapshot, frozenset([asked]))]
    while todo:
        node, at, on_the_way = todo.pop()
        if (node, at) in seen:
            continue
        seen.add((node, at))
        jobs = dict.fromkeys(graph.written_by.get(node, ()))
        if provenance_of is not None and (said := provenance_of(node, at)) is not None:
            jobs[said.job] = None  # of a branch also those that wrote what it was made from
        for job in jobs:
            for source, met in _read(graph, job, node, at, provenance_of).items():
                found.setdefault(source, {})[met] = None
                if met.last and source not in on_the_way:
                    todo.append((source, met.last, on_the_way | {source}))
    return {n: tuple(sorted(some, key=lambda m: (-m.last, -m.barrier, m.job, m.sink))) for n, some in found.items()}


def _read(graph: Graph, job: str, node: Node, snapshot: int, provenance_of: ProvenanceOf | None) -> dict[Node, Met]:
    """What a job had read of each source when it made a snapshot, or last made one before it."""
    barrier, said = _batch(graph, job, node, snapshot, provenance_of)
    if barrier is None:
        return {}
    found = {}
    if said is not None and said.knows_sources:
        for s in said.sources:
            source = Node(s.location or "", NOWHERE) if s.ref is None else Node(s.warehouse or node.warehouse, s.ref)
            found[source] = _met_at(s, job, barrier, node)
        for source in graph.sources_of(job, node):
            elsewhere = None if source in found else source_range_of(said, node, source, graph.sources(job, source))
            if elsewhere is not None:
                found[source] = _met_at(elsewhere, job, barrier, node)
        return found
    for source in graph.sources_of(job, node):
        series = graph.sources(job, source)
        at, before = series.row(barrier), series.row(barrier - 1)
        found[source] = Met(job, barrier, node, series.snapshot(before), series.snapshot(at))
    return found


def _met_at(read: SourceRange, job: str, barrier: int, sink: Node) -> Met:
    return Met(job, barrier, sink, read.after or 0, read.last or 0, read.within)


def _batch(
    graph: Graph, job: str, node: Node, snapshot: int, provenance_of: ProvenanceOf | None
) -> tuple[int | None, Provenance | None]:
    """The newest batch of a job in a snapshot, and its provenance; None when no batch of the job is in it."""
    sinks = graph.sinks(job, node)
    row = sinks.row_of(snapshot)
    if provenance_of is None:
        return (sinks.barriers[row] if row >= 0 else None), None
    said = provenance_of(node, snapshot)
    if said is not None and said.job == job:  # also a copy of an older one, or one whose row is not written yet
        return said.barrier, said
    while row >= 0:
        said = provenance_of(node, sinks.snapshots[row])
        if said is None or (said.job, said.barrier) == (job, sinks.barriers[row]):
            return sinks.barriers[row], said
        row -= 1  # another batch's by now: the branch was rolled back or merged
    return None, None


def impact(
    graph: Graph,
    asked: Node,
    snapshot: int,
    provenance_of: ProvenanceOf | None = None,
    refs_of: RefsOf | None = None,
) -> Impact:
    """Everything that a snapshot went into. Where rows leave it open, a batch counts as having read it.

    Args:
        graph: loaded with `Walk.DOWN`.
        asked: the table.
        snapshot: of it.
        provenance_of: makes it exact where the snapshots of sinks still tell what was read.
        refs_of: what lives of a table.

    Raises:
        LineageError: an unknown table, or no snapshot id.
    """
    graph.check_table(asked)
    check_snapshot(asked, snapshot)
    by = made_by(graph, asked, snapshot, provenance_of)
    tables, jobs = shortest_paths(asked, graph.read_by, graph.writes, graph.sinks_of)
    readers, firsts = followed(graph, asked, snapshot, provenance_of)
    affected = []
    for node, way in tables.items():
        made, batches = tuple(readers.snapshots(node).tolist()), readers.batches(node)
        found = Affected(node, way.depth, way.path, firsts.get(node), made, batches)
        affected.append(_with_refs(found, refs_of))
    origin = _with_refs(Affected(asked, 0, (asked.name,), snapshot, (snapshot,), by), refs_of)
    reached = tuple(ReachedJob(j, w.depth, w.path) for j, w in jobs.items())
    nearest = tuple(sorted(affected, key=lambda a: (a.depth, a.node)))
    return Impact(origin, nearest, reached, by, note_of(graph, asked, snapshot, by))


def followed(
    graph: Graph, asked: Node, snapshot: int, provenance_of: ProvenanceOf | None
) -> tuple[Readers, dict[Node, int]]:
    """The batches that read a snapshot, and table downstream → the first snapshot that stems from it."""
    from paimon_spark.lineage.readers import Readers  # with numpy

    readers = Readers(graph, provenance_of)
    readers.follow(asked, snapshot)
    firsts = _firsts(graph, asked, snapshot)
    for node in readers.sinks:
        if len(made := readers.snapshots(node)):
            firsts[node] = min(int(made[0]), firsts.get(node, FAR))
    return readers, firsts


def check_snapshot(node: Node, snapshot: int) -> None:
    """Raise LineageError for an id below 1."""
    if snapshot < 1:
        raise LineageError(f"table {node.name!r} has no snapshot {snapshot}: ids begin at 1", table=node.name)


def made_by(graph: Graph, node: Node, snapshot: int, provenance_of: ProvenanceOf | None) -> tuple[Batch, ...]:
    """The batches that made a snapshot, from its provenance or else from rows."""
    if provenance_of is not None and (said := provenance_of(node, snapshot)) is not None:
        return (Batch(said.job, said.barrier, snapshot),)
    found = []
    for job in graph.written_by.get(node, ()):
        sinks = graph.sinks(job, node)
        row = sinks.row_of(snapshot)
        if sinks.snapshot(row) == snapshot:
            found.append(Batch(job, sinks.barriers[row], snapshot))
    return tuple(found)


def note_of(graph: Graph, node: Node, snapshot: int, by: tuple[Batch, ...]) -> str | None:
    """A note on a snapshot that no job recorded."""
    if by:
        return None
    if not graph.written_by.get(node):
        return f"no recorded job writes {node.name}"
    before = {}
    for job in graph.written_by[node]:
        sinks = graph.sinks(job, node)
        before[job] = sinks.snapshot(sinks.row_of(snapshot))
    job = max(before, key=lambda j: before[j])
    last = f"snapshot {before[job]}, by job {job!r}" if before[job] else "none"
    return (
        f"no job recorded snapshot {snapshot} of {node.name}: it was written without lineage, or by a compaction, or "
        f"is not there; the last one recorded before it: {last}"
    )


def _with_refs(affected: Affected, refs_of: RefsOf | None) -> Affected:
    if refs_of is None:
        return affected
    refs: Refs = refs_of(affected.node)
    low, high = refs.alive or (1, 0)
    first = affected.first
    return replace(
        affected,
        alive=tuple(s for s in affected.snapshots if low <= s <= high),
        tags=tuple(sorted((n, s) for n, s in (refs.tags or {}).items() if first is not None and s >= first)),
        branches=tuple(sorted((n, s) for n, s in (refs.branches or {}).items() if first is not None and s >= first)),
    )


def _firsts(graph: Graph, asked: Node, snapshot: int) -> dict[Node, int]:
    """Table downstream → its first snapshot made when the job had read the snapshot, or the first that has it."""
    found: dict[Node, int] = {}
    todo = [(asked, snapshot)]
    while todo:
        node, at = todo.pop()
        for job in graph.read_by.get(node, ()):
            series = graph.sources(job, node)
            row = bisect_left(series.snapshots, at)
            if row == len(series):
                continue
            for sink in graph.sinks_of(job, node):
                sinks = graph.sinks(job, sink)
                made = bisect_left(sinks.barriers, series.barriers[row])
                if made < len(sinks) and sinks.snapshots[made] < found.get(sink, sinks.snapshots[made] + 1):
                    found[sink] = sinks.snapshots[made]
                    todo.append((sink, found[sink]))
    return found


@dataclass(frozen=True, slots=True)
class Path:
    """A shortest path from what was asked about.

    Attributes:
        depth: jobs on it; a job itself counts.
        path: names of jobs and tables by turns, both ends included.
    """

    depth: int
    path: tuple[str, ...]


def shortest_paths(
    asked: Node | str, jobs_of: Mapping[Node, Sequence[str]], tables_of: Mapping[str, Sequence[Node]], beyond: Beyond
) -> tuple[dict[Node, Path], dict[str, Path]]:
    """Tables and jobs reached from a table or a job, nearest first. What was asked about is included only by a ring.

    Args:
        asked: a table, or a job by its name.
        jobs_of: table → the jobs next to it.
        tables_of: job → the tables next to it.
        beyond: those of them that it joins with a table.
    """
    tables: dict[Node, Path] = {}
    jobs: dict[str, Path] = {}
    ends: list[tuple[Node, Path]] = []
    if isinstance(asked, Node):
        ends = [(asked, Path(0, (asked.name,)))]
    else:
        for node in tables_of.get(asked, ()):
            tables[node] = Path(1, (asked, node.name))
        ends = list(tables.items())
    while ends:
        reached: list[tuple[Node, Path]] = []
        for node, way in ends:
            for job in jobs_of.get(node, ()):
                jobs.setdefault(job, Path(way.depth + 1, (*way.path, job)))
                if job == asked:
                    continue
                for further in beyond(job, node):
                    if further not in tables:
                        tables[further] = Path(way.depth + 1, (*way.path, job, further.name))
                        reached.append((further, tables[further]))
        ends = reached
    return tables, jobs
