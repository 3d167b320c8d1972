"""Scope of a pipeline: its tables and jobs, in the order of the data flow.

Only main of each table counts: what jobs did on branches, such as in an earlier correction, is no part of the pipeline.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from paimon_spark.lineage.asking.graph import Direction, Graph, Node
from paimon_spark.lineage.asking.results import NextTables
from paimon_spark.metadata.layout import MAIN


@dataclass(frozen=True, slots=True)
class Scope:
    """The tables and jobs of a pipeline.

    Attributes:
        tables: in the order of the data flow, then by name.
        jobs: that read and write tables of the pipeline, in the same order.
        sources: job → all tables that it reads on main, also those outside the pipeline.
        sinks: job → the tables of the pipeline that it writes.
        order: job → its place in the data flow, from 1; jobs with the same number do not depend on each other.
        outside: tables of other warehouses that jobs of the pipeline write; they are not part of it.
    """

    tables: tuple[Node, ...]
    jobs: tuple[str, ...] = ()
    sources: Mapping[str, tuple[Node, ...]] = field(default_factory=dict)
    sinks: Mapping[str, tuple[Node, ...]] = field(default_factory=dict)
    order: Mapping[str, int] = field(default_factory=dict)
    outside: tuple[Node, ...] = ()

    @property
    def derived(self) -> tuple[Node, ...]:
        """The tables that jobs of the pipeline write."""
        written = {node for nodes in self.sinks.values() for node in nodes}
        return tuple(node for node in self.tables if node in written)


def scope_of(
    graph: Graph,
    tables: Sequence[Node],
    *,
    downstream: bool = True,
    upstream: bool = False,
    stop_at: Collection[Node] = (),
) -> Scope:
    """The pipeline of some tables.

    Args:
        graph: loaded without directions, or in both.
        tables: where to begin.
        downstream: follow jobs from what they read to what they write.
        upstream: follow jobs from what they write to what they read.
        stop_at: tables that belong to the pipeline, and are not followed further.
    """
    warehouses = {node.warehouse for node in tables}
    found = dict.fromkeys(tables)
    jobs: set[str] = set()
    outside: set[Node] = set()
    if downstream:
        jobs |= _follow(graph, Direction.DOWN, tables, stop_at, found, warehouses, outside)
    if upstream:
        jobs |= _follow(graph, Direction.UP, tables, stop_at, found, warehouses, outside)
    return scope_of_jobs(graph, tuple(found), jobs, outside)


def scope_of_jobs(graph: Graph, tables: Collection[Node], jobs: Iterable[str], outside: Iterable[Node] = ()) -> Scope:
    """The pipeline of these tables and those of the jobs that write one of them.

    A batch job that only reads the table that it writes, on whatever branches, is no step: it corrected rows by hand.
    """
    inside = set(tables)

    def is_copy(found: Sequence[Node], others: Sequence[Node]) -> bool:
        return bool(found) and not others

    sinks = {
        job: tuple(
            n
            for n in graph.writes.get(job, ())
            if n in inside and not is_copy(graph.sources_of(job, n), graph.other_sources_of(job, n))
        )
        for job in jobs
    }
    sinks = {job: nodes for job, nodes in sinks.items() if nodes}
    sources = {
        job: tuple(
            n
            for n in graph.reads.get(job, ())
            if n.ref.branch == MAIN and not is_copy(graph.sinks_of(job, n), graph.other_sinks_of(job, n))
        )
        for job in sinks
    }
    order = _order(sinks.keys(), sources, sinks)
    depth = {node: max((order[job] for job in sinks if node in sinks[job]), default=0) for node in inside}
    return Scope(
        tuple(sorted(inside, key=lambda node: (depth[node], node))),
        tuple(sorted(sinks, key=lambda job: (order[job], job))),
        sources,
        sinks,
        order,
        tuple(sorted(outside)),
    )


def _follow(
    graph: Graph,
    direction: Direction,
    start: Iterable[Node],
    stop_at: Collection[Node],
    found: dict[Node, None],
    warehouses: Collection[str],
    outside: set[Node],
) -> set[str]:
    """Add the tables that are reached to `found`; the jobs on the way."""
    is_down = direction is Direction.DOWN
    jobs_of = graph.read_by if is_down else graph.written_by
    beyond: NextTables = graph.sinks_of if is_down else graph.sources_of
    beyond_itself: NextTables = graph.other_sinks_of if is_down else graph.other_sources_of
    jobs: set[str] = set()
    seen, left = set(start), [node for node in start if node not in stop_at]
    while left:
        node = left.pop()
        for job in jobs_of.get(node, ()):
            reached = [n for n in beyond_itself(job, node) if n.ref.branch == MAIN]
            outside.update(n for n in reached if n.warehouse not in warehouses)
            here = [n for n in reached if n.warehouse in warehouses]
            if here or not beyond(job, node):
                jobs.add(job)
            for further in here:
                if further not in seen:
                    seen.add(further)
                    found[further] = None
                    if further not in stop_at:
                        left.append(further)
    return jobs


def _order(
    jobs: Collection[str], sources: Mapping[str, Sequence[Node]], sinks: Mapping[str, Sequence[Node]]
) -> dict[str, int]:
    """Job → one more than the largest number of the jobs that it reads from; rings are broken where they are met."""
    writers: dict[Node, list[str]] = {}
    for job in sorted(jobs):
        for node in sinks[job]:
            writers.setdefault(node, []).append(job)
    before = {job: sorted({w for n in sources[job] for w in writers.get(n, ()) if w != job}) for job in jobs}
    order: dict[str, int] = {}
    for start in sorted(jobs):
        path: list[tuple[str, int]] = [(start, 0)]
        on_path = {start}
        while path:
            job, at = path.pop()
            if job in order:
                on_path.discard(job)
                continue
            if at < len(before[job]):
                path.append((job, at + 1))
                other = before[job][at]
                if other not in order and other not in on_path:
                    path.append((other, 0))
                    on_path.add(other)
                continue
            order[job] = 1 + max((order[other] for other in before[job] if other in order), default=0)
            on_path.discard(job)
    return order


def part_of(graph: Graph, scope: Scope) -> Graph:
    """The graph of a pipeline's tables and jobs alone, with their rows."""
    reads = {job: scope.sources[job] for job in scope.jobs}
    writes = {job: scope.sinks[job] for job in scope.jobs}
    read_by: dict[Node, tuple[str, ...]] = {}
    written_by: dict[Node, tuple[str, ...]] = {}
    for job in sorted(scope.jobs):
        for node in reads[job]:
            read_by[node] = (*read_by.get(node, ()), job)
        for node in writes[job]:
            written_by[node] = (*written_by.get(node, ()), job)
    return Graph(reads, writes, read_by, written_by, graph.parts, graph.is_batch)
