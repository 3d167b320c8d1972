"""The graph of lineage as a Picture, and the newest batch and snapshots of each job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.lineage.graph import NOWHERE, Graph, Node
from paimon_spark.lineage.model import TableRef
from paimon_spark.lineage.picture import Edge, Picture
from paimon_spark.lineage.picture import Node as Box
from paimon_spark.lineage.unrecorded import NOTHING, Unrecorded


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest that is recorded of jobs.

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
    """Of each job and table the row of its newest batch."""
    keys = ["job", "database", "table"]
    newest = rows.group_by(keys).aggregate([("barrier_id", "max")]).rename_columns([*keys, "barrier_id"])
    few = rows.filter(pc.is_in(rows["barrier_id"], pc.unique(newest["barrier_id"])))  # a join of all is 30 times slower
    found = few.join(newest, [*keys, "barrier_id"], join_type="inner").sort_by([(k, "ascending") for k in keys])
    out: list[dict[str, Any]] = found.to_pylist()
    return out


def picture_of(
    graph: Graph, title: str = "Lineage", around: Sequence[Node] = (), unrecorded: Unrecorded = NOTHING
) -> Picture:
    """Jobs between tables, each arrow with the newest snapshot; a group for each warehouse when there are several.

    A job stands in the warehouse that it writes to, else in that it reads from. One whose runs read and wrote different
    tables has a box for each of them, as an arrow from a table to another says that rows went that way.

    Args:
        graph: loaded with its snapshots.
        title: of the picture.
        around: only what these tables come from and go into; none: everything.
        unrecorded: what was written without recorded lineage; without `around` its tables are drawn too.
    """
    newest = newest_of(graph)
    warehouses = [part.warehouse for part in graph.parts]
    tables, jobs = _near(graph, around) if around else (set(graph.tables), set(graph.jobs))
    counts = {table.node: len(table.snapshots) for table in unrecorded}
    shown = [n for n in graph.tables if n in tables] if around else sorted({*tables, *counts})
    boxes = [_table_box(node, warehouses, counts.get(node, 0)) for node in shown]
    edges: list[Edge] = []
    for job in (j for j in graph.jobs if j in jobs):
        for number, (sources, sinks) in enumerate(graph.groups(job)):
            reads, writes = [n for n in sources if n in tables], [n for n in sinks if n in tables]
            if not reads and not writes:
                continue
            key = f"job {job}" + (f" #{number + 1}" if number else "")
            homes = [n.warehouse for n in (*writes, *reads) if n.warehouse in warehouses]
            boxes.append(Box(key, "job", job, _batch(newest.barriers.get(job)), next(iter(homes), None)))
            edges += [Edge(_key(n), key, _snapshot(newest.read.get((job, n)))) for n in reads]
            edges += [Edge(key, _key(n), _snapshot(newest.made.get((job, n)))) for n in writes]
    return Picture(tuple(boxes), tuple(edges), title)


def _near(graph: Graph, around: Sequence[Node]) -> tuple[set[Node], set[str]]:
    """The tables and jobs upstream and downstream of some tables, these among them."""
    tables, jobs = set(around), set[str]()
    for by, beyond in ((graph.written_by, graph.sources_of), (graph.read_by, graph.sinks_of)):
        seen, left = set(around), list(around)
        while left:
            node = left.pop()
            for job in by.get(node, ()):
                jobs.add(job)
                found = [n for n in beyond(job, node) if n not in seen]
                seen.update(found)
                left += found
        tables |= seen
    return tables, jobs


def _table_box(node: Node, warehouses: list[str], unrecorded: int) -> Box:
    group = node.warehouse if node.warehouse in warehouses else None
    if node.ref == NOWHERE:
        return Box(_key(node), "table", node.warehouse, "outside any warehouse", group)
    ref = node.ref
    detail = "" if ref.table == ref.bare else f"branch {ref.branch}"
    if unrecorded:
        detail += f"{', ' if detail else ''}{unrecorded} unrecorded"
    return Box(_key(node), "table", f"{ref.database}.{ref.bare}", detail, group)


def _key(node: Node) -> str:
    return f"table {node.warehouse} {node.ref.name}"


def _batch(barrier: int | None) -> str:
    return "" if barrier is None else f"batch {barrier}"


def _snapshot(snapshot_id: int | None) -> str:
    return "" if snapshot_id is None else f"snapshot {snapshot_id}"
