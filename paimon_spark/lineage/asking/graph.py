"""Graph of jobs between tables, made of the lineage tables of one or more warehouses.

A job is one node, whatever warehouse its rows lie in: source rows are in the source's warehouse, sink rows in the
sink's, and (job, barrier) joins them. Rows of snapshots stay Arrow columns; `BatchSequence` reads them.

A job that reads and writes several tables need not write rows of each source into each sink: `sinks_of` and
`sources_of` give those that it joins.

Source: PIP-5; docs/design/lineage.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import CorruptFileError, JobNotFoundError, LineageError
from paimon_spark.lineage.asking.batch_sequence import (
    EMPTY,
    FAR,
    BatchSequence,
    RowsByJobAndTable,
    positions,
    sink_sequence,
    source_sequence,
)
from paimon_spark.lineage.index.job_registry import find_owner
from paimon_spark.lineage.index.provenance import Provenance, TableRef
from paimon_spark.lineage.index.tables import (
    JOB_STARTUP,
    SINK_JOB,
    SINK_SNAPSHOT,
    SOURCE_JOB,
    SOURCE_SNAPSHOT,
    Definition,
    Index,
    job_is_in,
)
from paimon_spark.metadata.layout import MAIN
from paimon_spark.options.descriptor import did_you_mean

K = TypeVar("K", str, "Node")
V = TypeVar("V", str, "Node")


class Node(NamedTuple):
    """A branch of a table of the warehouse at a URL; a table outside any warehouse is `NOWHERE` at its own URL."""

    warehouse: str
    ref: TableRef

    @property
    def name(self) -> str:
        """`db.t` or `db.t$branch_fix`; the URL of a table outside any warehouse."""
        return self.ref.name if self.ref != NOWHERE else self.warehouse


NOWHERE: Final = TableRef("", "")
_VERIFIED: Final = 1000
"""Most snapshots that several batches had, whose provenance is read."""
_LOOKED_BACK: Final = 16
"""Newest batches of a job that are checked first for whether a source goes into a sink."""


@dataclass(frozen=True, slots=True)
class GraphPart:
    """Rows of the lineage tables of the warehouse at a URL; None: not read."""

    warehouse: str
    source_jobs: pa.Table
    sink_jobs: pa.Table
    source_snapshots: pa.Table | None = None
    sink_snapshots: pa.Table | None = None
    startup: pa.Table | None = None


class Direction(Enum):
    """Which jobs a question needs: upstream, downstream or both."""

    UP = "up"
    DOWN = "down"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Graph:
    """Jobs between tables, and the snapshots that their batches read and made.

    Attributes:
        reads: job → the tables it reads, sorted.
        writes: job → the tables it writes, sorted.
        read_by, written_by: table → the jobs that do, sorted.
        is_batch: whether a job is known to be a batch job, whose runs each record all that they read.
        provenance_of: decides which of several batches made a snapshot, where it is given; see `verified_by`.
    """

    reads: Mapping[str, tuple[Node, ...]]
    writes: Mapping[str, tuple[Node, ...]]
    read_by: Mapping[Node, tuple[str, ...]] = field(repr=False)
    written_by: Mapping[Node, tuple[str, ...]] = field(repr=False)
    parts: tuple[GraphPart, ...] = field(repr=False, compare=False)
    is_batch: Callable[[str], bool] = field(default=lambda job: False, repr=False, compare=False)
    provenance_of: Callable[[Node, int], Provenance | None] | None = field(default=None, repr=False, compare=False)
    _edges: dict[str, frozenset[tuple[Node, Node]] | None] = field(default_factory=dict, repr=False, compare=False)
    _series: dict[tuple[str, str, Node], BatchSequence] = field(default_factory=dict, repr=False, compare=False)
    _pairs: dict[tuple[str, str], RowsByJobAndTable] = field(default_factory=dict, repr=False, compare=False)

    @staticmethod
    def of(parts: Sequence[GraphPart], is_batch: Callable[[str], bool] = lambda job: False) -> Graph:
        """The graph of the rows of one or more warehouses."""
        reads = _pairs((p.warehouse, p.source_jobs) for p in parts)
        writes = _pairs((p.warehouse, p.sink_jobs) for p in parts)
        read_by = _grouped((node, job) for job, node in reads)
        written_by = _grouped((node, job) for job, node in writes)
        return Graph(_grouped(reads), _grouped(writes), read_by, written_by, tuple(parts), is_batch)

    def verified_by(self, provenance_of: Callable[[Node, int], Provenance | None] | None) -> Graph:
        """A graph that decides by provenance which of several batches made a snapshot of a sink.

        After a merge the later batch made the present snapshot, after an undo the earlier one.
        """
        return replace(self, provenance_of=provenance_of, _edges={}, _series={})

    def sinks_of(self, job: str, source: Node) -> tuple[Node, ...]:
        """The sinks that a job fills from a source."""
        edges, sinks = self._edges_of(job), self.writes.get(job, ())
        return sinks if edges is None else tuple(n for n in sinks if (source, n) in edges)

    def sources_of(self, job: str, sink: Node) -> tuple[Node, ...]:
        """The sources that a job fills a sink from."""
        edges, sources = self._edges_of(job), self.reads.get(job, ())
        return sources if edges is None else tuple(n for n in sources if (n, sink) in edges)

    def other_sinks_of(self, job: str, source: Node) -> tuple[Node, ...]:
        """The sinks that a job fills from a source, without the branches of that table itself if it is a batch job.

        A batch that copies rows from a branch to another corrects the table by hand. Where the other one becomes main,
        its rows make the job read and write main; no run of a job on main alone is recorded so.
        """
        return tuple(
            n for n in self.sinks_of(job, source) if not (main_of(n) == main_of(source) and self.is_batch(job))
        )

    def other_sources_of(self, job: str, sink: Node) -> tuple[Node, ...]:
        """The sources that a job fills a sink from, without the branches of that table; as `other_sinks_of`."""
        return tuple(n for n in self.sources_of(job, sink) if not (main_of(n) == main_of(sink) and self.is_batch(job)))

    def groups(self, job: str) -> list[tuple[tuple[Node, ...], tuple[Node, ...]]]:
        """Sources and sinks of a job, in groups within which it joins all."""
        found: dict[tuple[Node, ...], list[Node]] = {}
        for sink in self.writes.get(job, ()):
            found.setdefault(self.sources_of(job, sink), []).append(sink)
        alone = tuple(n for n in self.reads.get(job, ()) if not self.sinks_of(job, n))
        groups = [(sources, tuple(sinks)) for sources, sinks in found.items()]
        return [*groups, (alone, ())] if alone else groups

    @property
    def jobs(self) -> tuple[str, ...]:
        """Every job, sorted."""
        return tuple(sorted({*self.reads, *self.writes}))

    @property
    def tables(self) -> tuple[Node, ...]:
        """Every table that a job reads or writes, sorted."""
        return tuple(sorted({*self.read_by, *self.written_by}))

    def node(self, name: str, warehouse: str | None = None) -> Node:
        """The table of a name (`db.t` or `db.t$branch_fix`), of the warehouse at a URL, or of whichever has it.

        Raises:
            LineageError: no job reads or writes it (the nearest names are offered), or two warehouses have one.
        """
        ref = TableRef.parse(name)
        found = [n for n in self.tables if n.ref == ref and warehouse in (None, n.warehouse)]
        if len(found) > 1:
            raise LineageError(
                f"table {name!r} is in the lineage of {len(found)} warehouses; give one of them: "
                f"{', '.join(n.warehouse for n in found)}",
                table=name,
            )
        if not found:
            raise self._unknown(name, warehouse)
        return found[0]

    def check_table(self, node: Node) -> None:
        """Raises LineageError: no job reads or writes it; the nearest names are offered."""
        if node not in self.read_by and node not in self.written_by:
            raise self._unknown(node.name, node.warehouse)

    def check_job(self, job: str) -> None:
        """Raises JobNotFoundError: no table is read or written by it; the nearest names are offered."""
        if job not in self.reads and job not in self.writes:
            raise JobNotFoundError(
                f"no job {job!r} in the lineage of {_list(p.warehouse for p in self.parts)}"
                f"{did_you_mean(job, self.jobs) or '; jobs: ' + (_list(self.jobs) if self.jobs else 'none')}",
                job=job,
            )

    def sinks(self, job: str, node: Node) -> BatchSequence:
        """The batches of a job, and the snapshots they made of a table."""
        return self._series_of("sink", job, node)

    def sources(self, job: str, node: Node) -> BatchSequence:
        """The batches of a job, and how far each had read a table."""
        return self._series_of("source", job, node)

    def read_before(self, job: str, node: Node, snapshots: Sequence[int]) -> list[tuple[int, int]]:
        """For each snapshot of a table the first batches that may have read a part of it, and that had read it whole.

        Of all rows, also of those that `sources` leaves out; -1: any batch; `FAR`: none yet.
        """
        rows = self.rows("source", job, node)
        if rows is None or not rows.num_rows:
            return [(FAR, FAR)] * len(snapshots)
        barriers, read = positions(rows)
        found = []
        for at in read.searchsorted(snapshots).tolist():
            begun = -1 if at == 0 else int(barriers[read.searchsorted(read[at - 1])])
            found.append((begun, int(barriers[at]) if at < len(barriers) else FAR))
        return found

    def runs_that_read(self, job: str, node: Node, snapshot: int, sink: Node) -> Collection[int] | None:
        """Barriers of the runs of a batch job that read a table up to a snapshot or a later one; None: not known.

        Each run has a row of all that it read before one of what it made.
        """
        if sink.warehouse != node.warehouse or not self.is_batch(job):
            return None
        if (rows := self.rows("source", job, node)) is None:
            return None
        return frozenset(rows.filter(pc.greater_equal(rows["snapshot_id"], snapshot))["barrier_id"].to_pylist())

    def newest(self, node: Node, bound: int = FAR, made_by: Mapping[str, BatchSequence] | None = None) -> int:
        """Newest snapshot of a table, not after a bound, that a job made or read; 0 without one.

        `made_by`: job → what it made of the table, where that is known better than by its rows.
        """
        known = made_by or {}
        made = (known[job] if job in known else self.sinks(job, node) for job in self.written_by.get(node, ()))
        read = (self.sources(job, node) for job in self.read_by.get(node, ()))
        return max((s.snapshot(s.row_of(bound)) for s in (*made, *read)), default=0)

    def startup(self, job: str) -> dict[Node, int]:
        """The snapshots that a job was given to start from, from `job_startup`."""
        found: dict[Node, int] = {}
        for part in self.parts:
            if part.startup is not None:
                rows = part.startup.filter(pc.equal(part.startup["job"], job))
                for row in rows.to_pylist():
                    found[Node(part.warehouse, TableRef(row["database"], row["table"]))] = row["snapshot_id"]
        return found

    def _series_of(self, kind: str, job: str, node: Node) -> BatchSequence:
        if (key := (kind, job, node)) not in self._series:
            rows = self.rows(kind, job, node)
            if rows is None:
                self._series[key] = EMPTY
            elif kind == "source":
                self._series[key] = source_sequence(rows)
            else:
                self._series[key] = sink_sequence(rows, *self._verified(job, node, rows))
        return self._series[key]

    def _verified(self, job: str, node: Node, rows: pa.Table) -> tuple[list[int], dict[int, int]]:
        """Of the newest snapshots that several batches had those of another job, and snapshot → the batch."""
        others: list[int] = []
        verified: dict[int, int] = {}
        if self.provenance_of is None or not rows.num_rows:
            return others, verified
        counts = rows.group_by("snapshot_id").aggregate([([], "count_all")])
        several = counts.filter(pc.greater(counts["count_all"], 1))["snapshot_id"].to_pylist()
        for snapshot in sorted(several)[-_VERIFIED:]:
            if (provenance := self.provenance_of(node, snapshot)) is not None:
                if provenance.job == job:
                    verified[snapshot] = provenance.barrier
                else:
                    others.append(snapshot)
        return others, verified

    def rows(self, kind: str, job: str, node: Node) -> pa.Table | None:
        """Barriers and snapshots of a job and a table, as recorded; None: not read. `kind`: source or sink."""
        for part in self.parts:
            rows = part.sink_snapshots if kind == "sink" else part.source_snapshots
            if part.warehouse == node.warehouse and rows is not None:
                if (key := (kind, part.warehouse)) not in self._pairs:
                    self._pairs[key] = RowsByJobAndTable.of(rows)
                return self._pairs[key].of_pair(job, *node.ref)
        return None

    def _edges_of(self, job: str) -> frozenset[tuple[Node, Node]] | None:
        """Sources and sinks that a job joins; None where it joins all of them."""
        if job not in self._edges:
            self._edges[job] = self._find_edges(job)
        return self._edges[job]

    def _find_edges(self, job: str) -> frozenset[tuple[Node, Node]] | None:
        """Pairs that a run of a batch job had both of. A stream joins all its sources with all its sinks."""
        pairs = [(source, sink) for source in self.reads.get(job, ()) for sink in self.writes.get(job, ())]
        if all(self._meet(job, *pair) for pair in pairs) or not self.is_batch(job):
            return None
        rows = {k: self._numbered(k, job, n) for k, n in (("source", self.reads[job]), ("sink", self.writes[job]))}
        both = rows["source"].join(rows["sink"], "barrier_id", join_type="inner")
        met = both.group_by(["source", "sink"]).aggregate([]).to_pylist()
        edges = {(self.reads[job][row["source"]], self.writes[job][row["sink"]]) for row in met}
        unread = {n for n in self.reads[job] if not self.rows("source", job, n)}
        unmade = {n for n in self.writes[job] if not self.rows("sink", job, n)}
        edges.update(p for p in pairs if p[0].warehouse != p[1].warehouse or (p[0] in unread and p[1] in unmade))
        return frozenset(edges)

    def _meet(self, job: str, source: Node, sink: Node) -> bool:
        """Whether one of the newest batches that wrote `sink` also read `source`."""
        if source.warehouse != sink.warehouse:
            return True  # each warehouse may have barriers of its own
        read, made = self.sources(job, source), self.sinks(job, sink)
        rows = range(len(made) - 1, max(-1, len(made) - 1 - _LOOKED_BACK), -1)
        return any((at := read.row(made.barriers[i])) >= 0 and read.barriers[at] == made.barriers[i] for i in rows)

    def _numbered(self, kind: str, job: str, nodes: Sequence[Node]) -> pa.Table:
        """Barriers of a job, and the number of the table of each row as column `kind`."""
        parts = [pa.table({"barrier_id": pa.array([], pa.int64()), kind: pa.array([], pa.int64())})]
        for number, node in enumerate(nodes):
            if (rows := self.rows(kind, job, node)) is not None:
                numbers = pa.repeat(pa.scalar(number, pa.int64()), rows.num_rows)
                parts.append(rows.select(["barrier_id"]).append_column(kind, numbers))
        return pa.concat_tables(parts, promote_options="permissive")

    def _unknown(self, name: str, warehouse: str | None) -> LineageError:
        near = did_you_mean(name, [n.name for n in self.tables])
        return LineageError(
            f"no job reads or writes table {name!r} in the lineage of "
            f"{warehouse or _list(p.warehouse for p in self.parts)}{near}",
            table=name,
        )


class Newest(NamedTuple):
    """(job, table) → the newest snapshot read whole, and made; job → its newest batch."""

    read: dict[tuple[str, Node], int]
    made: dict[tuple[str, Node], int]
    barriers: dict[str, int]


def newest_of(graph: Graph) -> Newest:
    """The newest batch and snapshots of each job of a graph that was loaded with its snapshots."""
    found = Newest({}, {}, {})
    for part in graph.parts:
        for rows, into in ((part.source_snapshots, found.read), (part.sink_snapshots, found.made)):
            for row in [] if rows is None else _last_rows(rows):
                job, node = row["job"], Node(part.warehouse, TableRef(row["database"], row["table"]))
                into[job, node] = row["snapshot_id"]
                found.barriers[job] = max(found.barriers.get(job, -1), row["barrier_id"])
    return found


def _last_rows(rows: pa.Table) -> list[dict[str, Any]]:
    """The row of the newest batch of each job and table."""
    keys = ["job", "database", "table"]
    newest = rows.group_by(keys).aggregate([("barrier_id", "max")]).rename_columns([*keys, "barrier_id"])
    few = rows.filter(pc.is_in(rows["barrier_id"], pc.unique(newest["barrier_id"])))  # a join of all is 30 times slower
    found = few.join(newest, [*keys, "barrier_id"], join_type="inner").sort_by([(k, "ascending") for k in keys])
    out: list[dict[str, Any]] = found.to_pylist()
    return out


def load(
    indexes: Sequence[Index],
    tables: Iterable[Node | str] = (),
    jobs: Iterable[str] = (),
    *,
    direction: Direction = Direction.UP,
    snapshots: bool = True,
    startup: bool = False,
) -> Graph:
    """Load the graph that a question about some tables and jobs needs.

    All rows of jobs are read, as they are few; rows of snapshots only of the jobs in `direction`.

    Args:
        indexes: the lineage tables of each warehouse.
        tables: asked about; a name stands for the tables of that name in every warehouse.
        jobs: asked about. With neither tables nor jobs: all jobs.
        direction: UP for `upstream`, `unified_version` and `start_snapshots`, DOWN for `downstream` and `impact`.
        snapshots: whether to read rows of snapshots.
        startup: whether to read rows of `job_startup`.
    """
    small = [GraphPart(i.warehouse.url, i.read(SOURCE_JOB), i.read(SINK_JOB)) for i in indexes]
    graph = Graph.of(small)
    tables, jobs = tuple(tables), tuple(jobs)
    concerned = _reached(graph, tables, jobs, direction) if tables or jobs else set(graph.jobs)
    parts = []
    for index, part in zip(indexes, small, strict=True):
        sources = _rows_of(index, SOURCE_SNAPSHOT, part.source_jobs, concerned) if snapshots else None
        sinks = _rows_of(index, SINK_SNAPSHOT, part.sink_jobs, concerned) if snapshots else None
        start = index.read(JOB_STARTUP) if startup else None
        parts.append(replace(part, source_snapshots=sources, sink_snapshots=sinks, startup=start))
    return Graph.of(parts, lambda job: _is_batch(indexes, job))


def _is_batch(indexes: Sequence[Index], job: str) -> bool:
    """Whether a warehouse has a job as a batch job, and none as a stream. Other engines register no jobs."""
    owners = []
    for index in indexes:
        with suppress(CorruptFileError):
            if (owner := find_owner(index.warehouse, job)) is not None:
                owners.append(owner)
    return bool(owners) and all(owner.query_id is None for owner in owners)


def _rows_of(index: Index, definition: Definition, jobs: pa.Table, concerned: set[str]) -> pa.Table | None:
    every = set(jobs["job"].to_pylist())
    wanted = every & concerned
    return index.read(definition, None if wanted == every else job_is_in(wanted)) if wanted else None


def _reached(graph: Graph, tables: Sequence[Node | str], jobs: Sequence[str], direction: Direction) -> set[str]:
    asked = {table for table in tables if isinstance(table, Node)}
    refs = {TableRef.parse(table) for table in tables if isinstance(table, str)}
    asked |= {n for n in graph.tables if n.ref in refs}
    found = set(jobs)
    if direction is not Direction.DOWN:
        found |= _closure(asked, jobs, graph.reads, _on_any_branch(graph, graph.written_by))
    if direction is not Direction.UP:
        found.update(job for node in asked for job in graph.written_by.get(node, ()))  # the makers of the snapshot
        found |= _closure(asked, jobs, graph.writes, _on_any_branch(graph, graph.read_by))
    return found


def _on_any_branch(graph: Graph, jobs_of: Mapping[Node, Sequence[str]]) -> dict[Node, tuple[str, ...]]:
    """Table → the jobs of all its branches, which may hold the same snapshots."""
    by_table = _grouped((main_of(node), job) for node, jobs in jobs_of.items() for job in jobs)
    return {node: by_table.get(main_of(node), ()) for node in graph.tables}


def main_of(node: Node) -> Node:
    """Main of a branch of a table."""
    return Node(node.warehouse, node.ref.on_branch(MAIN))


def _closure(
    nodes: Iterable[Node],
    jobs: Iterable[str],
    tables: Mapping[str, Sequence[Node]],
    nexts: Mapping[Node, Sequence[str]],
) -> set[str]:
    found, seen = set(jobs), set(nodes)
    todo = [*seen, *(n for job in found for n in tables.get(job, ()))]
    seen.update(todo)
    while todo:
        for job in nexts.get(todo.pop(), ()):
            if job not in found:
                found.add(job)
                fresh = set(tables.get(job, ())) - seen
                seen |= fresh
                todo.extend(fresh)
    return found


def _pairs(rows: Iterable[tuple[str, pa.Table]]) -> list[tuple[str, Node]]:
    found = []
    for warehouse, table in rows:
        columns = (table[name].to_pylist() for name in ("job", "database", "table"))
        found += [(job, Node(warehouse, TableRef(db, name))) for job, db, name in zip(*columns, strict=True)]
    return found


def _grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, tuple[V, ...]]:
    found: dict[K, set[V]] = {}
    for key, value in pairs:
        found.setdefault(key, set()).add(value)
    return {key: tuple(sorted(found[key])) for key in sorted(found)}


def _list(names: Iterable[str]) -> str:
    some = list(names)
    return ", ".join(some[:10]) + (f" and {len(some) - 10} more" if len(some) > 10 else "") or "no warehouse"
