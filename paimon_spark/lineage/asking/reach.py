"""Questions along the graph: upstream, downstream, and the impact of a snapshot.

Impact follows two things: batches that read the snapshot, the snapshots they made, the batches that read those, and so
on, where a batch that may have read a part counts unless its own snapshot excludes it; and the first snapshot of each
table that stems from it at all, also by a batch with state that held its rows back.

Source: PIP-5, "Query Table Lineage" and "Query Data Lineage"; docs/design/lineage.md.
Tests: tests/unit/lineage/asking/test_reach.py, tests/unit/lineage/asking/test_impact.py
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple, TypeAlias

import numpy as np

from paimon_spark.errors import LineageError
from paimon_spark.lineage.asking.batch_sequence import FAR
from paimon_spark.lineage.asking.graph import NOWHERE, Graph, Node, main_of
from paimon_spark.lineage.asking.readers import Readers, source_range_of
from paimon_spark.lineage.asking.results import (
    Affected,
    Batch,
    ImpactOfSnapshot,
    Met,
    NextTables,
    ProvenanceOf,
    ReachedJob,
    ReachedTable,
    RefsOfTable,
    Relations,
    SharedUntil,
)
from paimon_spark.lineage.asking.snapshot_facts import SharedSnapshots
from paimon_spark.lineage.index.provenance import Provenance, SourceRange

IsReplaced: TypeAlias = Callable[[Node, int, Node, int], bool]
"""(source, snapshot, sink, snapshot) → whether the source's snapshot is another one by now than the sink's was made
from."""


def upstream(
    graph: Graph,
    asked: Node | str,
    snapshot: int | None = None,
    provenance_of: ProvenanceOf | None = None,
    is_replaced: IsReplaced = lambda source, read, sink, made: False,
) -> Relations:
    """The tables and jobs that something comes from, in a graph loaded with `Direction.UP`.

    Args:
        graph: of jobs and tables.
        asked: a table, or a job by its name.
        snapshot: of the table; None: the table whatever its snapshot.
        provenance_of: makes ranges exact, and finds sources outside any warehouse.
        is_replaced: tells ranges of a former history of a source.

    Raises:
        LineageError: an unknown table, or a snapshot of a job. JobNotFoundError: an unknown job.
    """
    _check(graph, asked, snapshot)
    paths, jobs = _shortest_paths(asked, graph.written_by, graph.reads, graph.sources_of)
    if snapshot is None or isinstance(asked, str):
        return Relations(asked, "upstream", _nearest(ReachedTable(n, *p) for n, p in paths.items()), jobs)
    provenance_of = of_any_branch(graph, provenance_of)
    met = _met(graph, asked, snapshot, provenance_of, is_replaced)
    here = _by_newest(asked, paths, met)
    for node in [n for n in met if n not in paths]:  # outside any warehouse, or read in a way that no row can hold
        before, job = min(((here[m.sink], m.job) for m in met[node] if m.sink in here), key=lambda p: p[0].depth)
        paths[node] = here[node] = Path(before.depth + 1, (*before.path, job, node.name))
    found = [ReachedTable(n, *p, _newest_met(met.get(n, ())), met.get(n, ())) for n, p in paths.items()]
    made = _made_by(graph, asked, snapshot, provenance_of)
    return Relations(asked, "upstream", _nearest(found), jobs, snapshot, made, _note(graph, asked, snapshot, made))


def downstream(
    graph: Graph,
    asked: Node | str,
    snapshot: int | None = None,
    provenance_of: ProvenanceOf | None = None,
    shared_until: SharedUntil | None = None,
) -> Relations:
    """The tables and jobs that come from something; as `upstream`, with a graph loaded with `Direction.DOWN`.

    `shared_until` as of `impact`.
    """
    _check(graph, asked, snapshot)
    paths, jobs = _shortest_paths(asked, graph.read_by, graph.writes, graph.sinks_of)
    if snapshot is None or isinstance(asked, str):
        return Relations(asked, "downstream", _nearest(ReachedTable(n, *p) for n, p in paths.items()), jobs)
    provenance_of = of_any_branch(graph, provenance_of)
    _, firsts = _followed(graph, asked, snapshot, provenance_of, shared_until)
    paths = {**_paths_on_branches(graph, asked, firsts), **paths}
    found = _nearest(ReachedTable(n, *p, firsts.get(n)) for n, p in paths.items())
    made = _made_by(graph, asked, snapshot, provenance_of)
    return Relations(asked, "downstream", found, jobs, snapshot, made, _note(graph, asked, snapshot, made))


def impact(
    graph: Graph,
    asked: Node,
    snapshot: int,
    provenance_of: ProvenanceOf | None = None,
    refs_of: Callable[[Node], RefsOfTable] | None = None,
    shared_until: SharedUntil | None = None,
) -> ImpactOfSnapshot:
    """Everything that a snapshot went into, in a graph loaded with `Direction.DOWN`.

    Where rows leave it open, a batch counts as having read it; `provenance_of` makes it exact where the snapshots of
    sinks still hold what was read. With it also batches count that read the snapshot on another branch, which shares it
    with this one or was published; `shared_until` tells which snapshots these are, where the branches still exist.
    `refs_of` gives snapshots alive, tags and branches of a table.

    Raises:
        LineageError: an unknown table, or no snapshot id.
    """
    _check(graph, asked, snapshot)
    provenance_of = of_any_branch(graph, provenance_of)
    made = _made_by(graph, asked, snapshot, provenance_of)
    paths, jobs = _shortest_paths(asked, graph.read_by, graph.writes, graph.sinks_of)
    readers, firsts = _followed(graph, asked, snapshot, provenance_of, shared_until)
    paths = {**_paths_on_branches(graph, asked, firsts), **paths}
    affected = [
        Affected(n, *p, firsts.get(n), tuple(readers.snapshots(n).tolist()), readers.batches(n))
        for n, p in sorted(paths.items(), key=lambda found: (found[1].depth, found[0]))
        if n != asked
    ]
    # A table that a job corrected from its own rows is downstream of itself.
    again = readers.snapshots(asked).tolist() if asked in paths else []
    of_ring = readers.batches(asked) if asked in paths else ()
    holding = tuple(sorted({snapshot, *again}))
    origin = Affected(asked, 0, (asked.name,), snapshot, holding, tuple(dict.fromkeys((*made, *of_ring))))
    if refs_of is not None:
        origin, *affected = (_with_refs(a, refs_of(a.node)) for a in (origin, *affected))
    return ImpactOfSnapshot(origin, tuple(affected), jobs, made, _note(graph, asked, snapshot, made))


def _check(graph: Graph, asked: Node | str, snapshot: int | None) -> None:
    if isinstance(asked, Node):
        graph.check_table(asked)
        if snapshot is not None and snapshot < 1:
            raise LineageError(f"table {asked.name!r} has no snapshot {snapshot}: ids begin at 1", table=asked.name)
        return
    graph.check_job(asked)
    if snapshot is not None:
        raise LineageError(f"job {asked!r} has no snapshots: ask about a table, or leave {snapshot} out", job=asked)


def _nearest(tables: Iterable[ReachedTable]) -> tuple[ReachedTable, ...]:
    return tuple(sorted(tables, key=lambda t: (t.depth, t.node)))


def of_any_branch(graph: Graph, provenance_of: ProvenanceOf | None) -> ProvenanceOf | None:
    """Provenance of snapshots that are gone too, where another branch of the table has the snapshot of the same batch.

    A branch that was published and then deleted has its snapshots on main. Where several jobs have a row of a snapshot,
    it had two histories, and is not looked for.
    """
    if provenance_of is None:
        return None
    read, made_on = provenance_of, cache(partial(_branches_of, graph))

    def found(node: Node, snapshot: int) -> Provenance | None:
        if (known := read(node, snapshot)) is not None or not (branches := made_on(node)):
            return known
        made = [
            (job, sinks.barriers[row])
            for job in graph.written_by[node]
            if (row := (sinks := graph.sinks(job, node)).row_of(snapshot)) >= 0 and sinks.snapshots[row] == snapshot
        ]
        for other in branches.get(made[0][0], ()) if len(made) == 1 else ():
            sinks = graph.sinks(made[0][0], other)
            row = sinks.row(made[0][1])
            if row >= 0 and sinks.barriers[row] == made[0][1]:
                known = read(other, sinks.snapshots[row])
                if known is not None and known.batch == made[0]:
                    return known
        return None

    return found


def _branches_of(graph: Graph, node: Node) -> dict[str, list[Node]]:
    """Job that writes a branch → the other branches of the table that it writes; main first."""
    found = {
        job: sorted(n for n in graph.writes[job] if n != node and main_of(n) == main_of(node) and n.ref != NOWHERE)
        for job in graph.written_by.get(node, ())
    }
    return {job: some for job, some in found.items() if some}


def _newest_met(met: Sequence[Met]) -> int:
    """The newest snapshot read of the present history; of a former one if all are."""
    return max((m.last for m in met if not m.is_replaced), default=max((m.last for m in met), default=0))


def _by_newest(asked: Node, paths: dict[Node, Path], met: Mapping[Node, Sequence[Met]]) -> dict[Node, Path]:
    """Make each path go through the job that read the newest snapshot, if it is a shortest one; the start with them."""
    here = {asked: Path(0, (asked.name,))}
    for node, path in sorted(paths.items(), key=lambda found: found[1].depth):
        newest = next((m for m in met.get(node, ()) if m.last and m.last == _newest_met(met[node])), None)
        before = None if newest is None else here.get(newest.sink)
        if newest is not None and before is not None and before.depth + 1 == path.depth:
            paths[node] = Path(path.depth, (*before.path, newest.job, node.name))
        here.setdefault(node, paths[node])
    return here


def _met(
    graph: Graph, asked: Node, snapshot: int, provenance_of: ProvenanceOf | None, is_replaced: IsReplaced
) -> dict[Node, tuple[Met, ...]]:
    """Ranges read of the tables upstream of a snapshot; a table is not followed into its own past.

    A table between that a job made from itself, as one that copied main to a branch which became main, is upstream at
    the snapshot that was read of it, not at the one from which that was made.
    """
    found: dict[Node, dict[Met, None]] = {}
    seen: set[tuple[Node, int]] = set()
    todo = [(asked, snapshot, frozenset([asked]))]
    while todo:
        node, at, on_path = todo.pop()
        if (node, at) in seen:
            continue
        seen.add((node, at))
        jobs = dict.fromkeys(graph.written_by.get(node, ()))
        if provenance_of is not None and (provenance := provenance_of(node, at)) is not None:
            jobs[provenance.job] = None  # of a branch also those that wrote what it was made from
        for job in jobs:
            for source, met in read_by_job(graph, job, node, at, provenance_of).items():
                if source == node != asked:
                    continue
                sinks = graph.sinks(job, node)
                made = sinks.snapshot(sinks.row(met.barrier)) or at
                gone = met.last > 0 and is_replaced(source, met.last, node, made)
                found.setdefault(source, {})[replace(met, is_replaced=gone)] = None
                if met.last and source not in on_path:
                    todo.append((source, met.last, on_path | {source}))
    return {n: tuple(sorted(some, key=lambda m: (-m.last, -m.barrier, m.job, m.sink))) for n, some in found.items()}


def read_by_job(
    graph: Graph, job: str, node: Node, snapshot: int, provenance_of: ProvenanceOf | None
) -> dict[Node, Met]:
    """Positions of a job in each source when it made a snapshot of a table, or the last one before it.

    `graph` is loaded with `Direction.UP`; `provenance_of` as of `upstream`. Empty when the snapshot has nothing of it.
    """
    barrier, provenance = _batch(graph, job, node, snapshot, provenance_of)
    if barrier is None:
        return {}
    found: dict[Node, Met] = {}
    if provenance is None or not provenance.knows_sources:
        for source in graph.sources_of(job, node):
            series = graph.sources(job, source)
            at, before = series.row(barrier), series.row(barrier - 1)
            found[source] = Met(job, barrier, node, series.snapshot(before), series.snapshot(at))
        return found
    for s in provenance.sources:
        source = Node(s.location or "", NOWHERE) if s.ref is None else Node(s.warehouse or node.warehouse, s.ref)
        found[source] = _met_at(s, job, barrier, node)
    for source in graph.sources_of(job, node):
        if source not in found and (other := source_range_of(provenance, node, source, graph.sources(job, source))):
            found[source] = _met_at(other, job, barrier, node)
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
    provenance = provenance_of(node, snapshot)
    if provenance is not None and provenance.job == job:  # also a copy of an older one, or one without a row yet
        return provenance.barrier, provenance
    while row >= 0:
        provenance = provenance_of(node, sinks.snapshots[row])
        if provenance is None or provenance.batch == (job, sinks.barriers[row]):
            return sinks.barriers[row], provenance
        row -= 1  # another batch's by now: the branch was rolled back or merged
    return None, None


def _followed(
    graph: Graph,
    asked: Node,
    snapshot: int,
    provenance_of: ProvenanceOf | None,
    shared_until: SharedUntil | None,
) -> tuple[Readers, dict[Node, int]]:
    """The batches that read a snapshot, and table downstream → the first snapshot that stems from it."""
    siblings = None
    if provenance_of is not None:
        provenance_of = cache(provenance_of)
        graph = graph.verified_by(provenance_of)
        siblings = SharedSnapshots(graph, shared_until)
    readers = Readers(graph, provenance_of, siblings)
    readers.follow(asked, snapshot)
    firsts = _firsts(graph, asked, snapshot, provenance_of, siblings)
    for node in readers.sinks:
        if len(made := readers.snapshots(node)):
            firsts[node] = min(int(made[0]), firsts.get(node, FAR))
    return readers, firsts


def _paths_on_branches(graph: Graph, asked: Node, firsts: Mapping[Node, int]) -> dict[Node, Path]:
    """Paths to tables that only batches on another branch of a table filled, which has the same snapshots."""
    read_by: dict[Node, list[str]] = {}
    for node, jobs in graph.read_by.items():
        read_by.setdefault(main_of(node), []).extend(jobs)

    def next_tables(job: str, node: Node) -> list[Node]:
        branches = [n for n in graph.reads.get(job, ()) if main_of(n) == main_of(node)]
        return list(dict.fromkeys(sink for branch in branches for sink in graph.sinks_of(job, branch)))

    jobs_of = {node: tuple(dict.fromkeys(read_by.get(main_of(node), ()))) for node in graph.tables}
    paths, _ = _shortest_paths(asked, jobs_of, graph.writes, next_tables)
    return {node: path for node, path in paths.items() if node in firsts}


def _made_by(graph: Graph, node: Node, snapshot: int, provenance_of: ProvenanceOf | None) -> tuple[Batch, ...]:
    """The batches that made a snapshot, from its provenance or else from rows."""
    if provenance_of is not None and (provenance := provenance_of(node, snapshot)) is not None:
        return (Batch(*provenance.batch, snapshot),)
    found = []
    for job in graph.written_by.get(node, ()):
        sinks = graph.sinks(job, node)
        row = sinks.row_of(snapshot)
        if sinks.snapshot(row) == snapshot:
            found.append(Batch(job, sinks.barriers[row], snapshot))
    return tuple(found)


def _note(graph: Graph, node: Node, snapshot: int, made_by: tuple[Batch, ...]) -> str | None:
    """A note on a snapshot that no job recorded."""
    if made_by:
        return None
    if not graph.written_by.get(node):
        return f"no recorded job writes {node.name}"
    series = {job: graph.sinks(job, node) for job in graph.written_by[node]}
    before = {job: sinks.snapshot(sinks.row_of(snapshot)) for job, sinks in series.items()}
    job = max(before, key=lambda j: before[j])
    last = f"snapshot {before[job]}, by job {job!r}" if before[job] else "none"
    return (
        f"no job recorded snapshot {snapshot} of {node.name}: it was written without lineage, or by a compaction, or "
        f"is not there; the last one recorded before it: {last}"
    )


def _with_refs(affected: Affected, refs: RefsOfTable) -> Affected:
    low, high = refs.alive or (1, 0)
    first = FAR if affected.first is None else affected.first
    return replace(
        affected,
        alive=tuple(s for s in affected.snapshots if low <= s <= high),
        tags=tuple(sorted((n, s) for n, s in (refs.tags or {}).items() if s >= first)),
        branches=tuple(sorted((n, s) for n, s in (refs.branches or {}).items() if s >= first)),
        is_deleted=refs.is_deleted,
    )


def _firsts(
    graph: Graph, asked: Node, snapshot: int, provenance_of: ProvenanceOf | None, siblings: SharedSnapshots | None
) -> dict[Node, int]:
    """Table downstream → its first snapshot made when the job had read the snapshot, or the first that has it."""
    found: dict[Node, int] = {}
    lowest = {asked: snapshot}
    todo = [asked]

    def lower(node: Node, at: int) -> None:
        if at < lowest.get(node, FAR):
            lowest[node] = at
            todo.append(node)

    while todo:
        node = todo.pop()
        at = lowest[node]
        for job in graph.read_by.get(node, ()):
            ((_, barrier),) = graph.read_before(job, node, [at])
            for sink in graph.sinks_of(job, node):
                first = _first_made(graph, job, node, at, sink, barrier, provenance_of)
                if first is not None and first < found.get(sink, FAR):
                    found[sink] = first
                    lower(sink, first)
        for other in () if siblings is None else siblings.of(node):
            if siblings is not None and len(siblings.held(node, other, np.array([at], np.int64))):
                lower(other, at)
    return found


def _first_made(
    graph: Graph, job: str, source: Node, at: int, sink: Node, barrier: int, provenance_of: ProvenanceOf | None
) -> int | None:
    """The first snapshot of a sink made by a batch, from a barrier on, that holds what the job had read of a snapshot.

    A stream may keep rows and write them later, so any later batch counts; a run of a batch job only if it read the
    snapshot itself. Batches count that made present snapshots, and those of expired ones, of which it is unknown.
    """
    sinks = graph.sinks(job, sink)
    runs = None if provenance_of is None else graph.runs_that_read(job, source, at, sink)
    for row in range(bisect_left(sinks.barriers, barrier), len(sinks)):
        snapshot = sinks.snapshots[row]
        provenance = None if provenance_of is None else provenance_of(sink, snapshot)
        if provenance is None and (runs is None or sinks.barriers[row] in runs):
            return snapshot
        if provenance is None:
            continue
        if provenance.batch != (job, sinks.barriers[row]):
            continue  # another batch has the id by now: main was replaced, or rolled back
        if provenance.query_id is not None or not provenance.knows_sources:
            return snapshot
        read = source_range_of(provenance, sink, source, graph.sources(job, source))
        if read is not None and max(read.last or 0, read.within or 0) >= at:
            return snapshot
    return None


class Path(NamedTuple):
    """A shortest path: the number of jobs on it, and the names of jobs and tables by turns, both ends included."""

    depth: int
    path: tuple[str, ...]


def _shortest_paths(
    asked: Node | str,
    jobs_of: Mapping[Node, Sequence[str]],
    tables_of: Mapping[str, Sequence[Node]],
    next_tables: NextTables,
) -> tuple[dict[Node, Path], tuple[ReachedJob, ...]]:
    """Tables and jobs reached from a table or a job, nearest first. The start is included only by a ring."""
    tables: dict[Node, Path] = {}
    jobs: dict[str, Path] = {}
    if isinstance(asked, Node):
        ends = [(asked, Path(0, (asked.name,)))]
    else:
        tables = {node: Path(1, (asked, node.name)) for node in tables_of.get(asked, ())}
        ends = list(tables.items())
    while ends:
        reached: list[tuple[Node, Path]] = []
        for node, path in ends:
            for job in jobs_of.get(node, ()):
                jobs.setdefault(job, Path(path.depth + 1, (*path.path, job)))
                for further in () if job == asked else next_tables(job, node):
                    if further not in tables:
                        tables[further] = Path(path.depth + 1, (*path.path, job, further.name))
                        reached.append((further, tables[further]))
        ends = reached
    return tables, tuple(ReachedJob(job, *path) for job, path in jobs.items())
