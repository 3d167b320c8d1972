"""impact: where a snapshot has gone.

Two things are followed. Batches that read it, the snapshots they made, the batches that read those, and so on; a
batch that may have read a part of it counts, unless its own snapshot says otherwise. And the first snapshot of each
table that stems from it at all, also by a batch with state that held its rows back.

Source: own; NOTES.md.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from typing import TYPE_CHECKING

from paimon_spark.errors import LineageError
from paimon_spark.lineage.answers import Affected, Batch, Impact, ProvenanceOf, ReachedJob, Refs, RefsOf
from paimon_spark.lineage.graph import Graph, Node
from paimon_spark.lineage.series import FAR
from paimon_spark.lineage.ways import walk

if TYPE_CHECKING:
    from paimon_spark.lineage.readers import Readers


def impact(
    graph: Graph,
    asked: Node,
    snapshot: int,
    provenance_of: ProvenanceOf | None = None,
    refs_of: RefsOf | None = None,
) -> Impact:
    """Everything that a snapshot has gone into. Where rows leave it open, a batch counts as having read it.

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
    tables, jobs = walk(asked, graph.read_by, graph.writes, graph.sinks_of)
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
    """What read a snapshot, and table downstream → the first snapshot that stems from it; without one: not there."""
    from paimon_spark.lineage.readers import Readers  # with numpy

    readers = Readers(graph, provenance_of)
    readers.follow(asked, snapshot)
    firsts = _firsts(graph, asked, snapshot)
    for node in readers.sinks:
        if len(made := readers.snapshots(node)):
            firsts[node] = min(int(made[0]), firsts.get(node, FAR))
    return readers, firsts


def check_snapshot(node: Node, snapshot: int) -> None:
    """Raises LineageError: no snapshot can have that id."""
    if snapshot < 1:
        raise LineageError(f"table {node.name!r} has no snapshot {snapshot}: ids begin at 1", table=node.name)


def made_by(graph: Graph, node: Node, snapshot: int, provenance_of: ProvenanceOf | None) -> tuple[Batch, ...]:
    """The batches that made a snapshot, as the snapshot itself says, else as rows do."""
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
    """What to tell of a snapshot that no job recorded."""
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
