"""upstream and downstream: what something comes from, and what comes from it.

Source: PIP-5, "Query Table Lineage" and "Query Data Lineage".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from paimon_spark.errors import LineageError
from paimon_spark.lineage.answers import (
    Affected,
    Batch,
    Impact,
    Met,
    ProvenanceOf,
    Reach,
    ReachedJob,
    ReachedTable,
    Refs,
    RefsOf,
)
from paimon_spark.lineage.graph import NOWHERE, Graph, Node
from paimon_spark.lineage.impact import check_snapshot, followed, impact, made_by, note_of
from paimon_spark.lineage.model import Provenance, SourceRange
from paimon_spark.lineage.told import range_of
from paimon_spark.lineage.ways import Way, walk

__all__ = [
    "Affected",
    "Batch",
    "Impact",
    "Met",
    "ProvenanceOf",
    "Reach",
    "ReachedJob",
    "ReachedTable",
    "Refs",
    "RefsOf",
    "downstream",
    "impact",
    "upstream",
]


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
    tables, jobs = walk(asked, graph.written_by, graph.reads, graph.sources_of)
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
    tables, jobs = walk(asked, graph.read_by, graph.writes, graph.sinks_of)
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
    tables: Mapping[Node, Way], jobs: Mapping[str, Way]
) -> tuple[tuple[ReachedTable, ...], tuple[ReachedJob, ...]]:
    return (
        _nearest(ReachedTable(n, w.depth, w.path) for n, w in tables.items()),
        tuple(ReachedJob(j, w.depth, w.path) for j, w in jobs.items()),
    )


def _nearest(tables: Iterable[ReachedTable]) -> tuple[ReachedTable, ...]:
    return tuple(sorted(tables, key=lambda t: (t.depth, t.node)))


def _newest(met: Sequence[Met]) -> int:
    return max((m.last for m in met), default=0)


def _way(asked: Node, tables: Mapping[Node, Way], met: Met, node: Node) -> Way | None:
    before = Way(0, (asked.name,)) if met.sink == asked else tables.get(met.sink)
    return None if before is None else Way(before.depth + 1, (*before.path, met.job, node.name))


def _met(graph: Graph, asked: Node, snapshot: int, provenance_of: ProvenanceOf | None) -> dict[Node, tuple[Met, ...]]:
    """Where the tables above a snapshot were met; a table that comes from itself is not followed into its own past."""
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
    """How far a job had come in each of its sources when it made a snapshot, or last made one before it."""
    barrier, said = _batch(graph, job, node, snapshot, provenance_of)
    if barrier is None:
        return {}
    found = {}
    if said is not None and said.knows_sources:
        for s in said.sources:
            source = Node(s.location or "", NOWHERE) if s.ref is None else Node(s.warehouse or node.warehouse, s.ref)
            found[source] = _met_at(s, job, barrier, node)
        for source in graph.sources_of(job, node):
            elsewhere = None if source in found else range_of(said, node, source, graph.sources(job, source))
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
    """The newest batch of a job in a snapshot, and what its snapshot says; no batch: none of the job is in it."""
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
