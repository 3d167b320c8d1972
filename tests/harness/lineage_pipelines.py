"""Pipelines of tables and jobs that run in memory: the lineage rows that they leave, and the rows of data themselves.

Every row of data is the history of itself: `("in", table, snapshot, i)` as it was written, `(job, table, row)` after a
job brought it into a table. So what a table should hold can be worked out anew from the tables above it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import pyarrow as pa
from hypothesis import strategies as st

from paimon_spark.lineage.asking.graph import Graph, GraphPart, Node
from paimon_spark.lineage.index.provenance import Provenance, SourceRange, TableRef
from paimon_spark.lineage.index.tables import SINK_JOB, SINK_SNAPSHOT, SOURCE_JOB, SOURCE_SNAPSHOT, Definition

ONE, TWO = "file:///one", "file:///two"


def node(name: str, warehouse: str = ONE) -> Node:
    """`db.t` of a warehouse; a name without a dot is of database `db`."""
    return Node(warehouse, TableRef.parse(name if "." in name else f"db.{name}"))


Row = tuple[str, int, Node, int]
"""job, barrier, table, snapshot."""


def graph_of(
    read: Iterable[Row],
    made: Iterable[Row],
    reads: Iterable[tuple[str, Node]] = (),
    writes: Iterable[tuple[str, Node]] = (),
    batch: Iterable[str] = (),
) -> Graph:
    """A graph of rows; jobs and tables are told by these, and by `reads` and `writes` beyond. `batch`: batch jobs."""
    return Graph.of(parts_of(list(read), list(made), list(reads), list(writes)), frozenset(batch).__contains__)


def parts_of(
    read: Sequence[Row], made: Sequence[Row], reads: Sequence[tuple[str, Node]], writes: Sequence[tuple[str, Node]]
) -> list[GraphPart]:
    reads = [*reads, *((r[0], r[2]) for r in read)]
    writes = [*writes, *((r[0], r[2]) for r in made)]
    found = []
    for warehouse in sorted({n.warehouse for _, n in (*reads, *writes)}):
        jobs = [{(j, *n.ref) for j, n in pairs if n.warehouse == warehouse} for pairs in (reads, writes)]
        rows = [[(j, b, *n.ref, s) for j, b, n, s in some if n.warehouse == warehouse] for some in (read, made)]
        found.append(
            GraphPart(
                warehouse,
                arrow(SOURCE_JOB, sorted(jobs[0])),
                arrow(SINK_JOB, sorted(jobs[1])),
                arrow(SOURCE_SNAPSHOT, rows[0]),
                arrow(SINK_SNAPSHOT, rows[1]),
            )
        )
    return found


def arrow(definition: Definition, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Rows of a lineage table as `Index.read` gives them."""
    columns = list(zip(*rows, strict=True)) or [()] * len(definition.columns)
    arrays = [pa.array(c, t) for c, t in zip(columns, definition.columns.values(), strict=True)]
    return pa.Table.from_arrays(arrays, schema=definition.schema)


@dataclass
class Pipeline:
    """Jobs between tables, run step by step.

    Attributes:
        filters: whether jobs leave rows out (about every third), so that batches make no snapshot.
        data: rows of each table, with the snapshot that brought them.
        read, made: the lineage rows.
        provenance: of each snapshot that a job made.
        begun: how many rows were read of the snapshot after a job's position.
    """

    nodes: Sequence[Node]
    reads: Mapping[str, Sequence[Node]]
    writes: Mapping[str, Sequence[Node]]
    filters: bool = True
    heads: Counter[Node] = field(default_factory=Counter)
    barriers: Counter[str] = field(default_factory=Counter)
    positions: Counter[tuple[str, Node]] = field(default_factory=Counter)
    data: dict[Node, list[tuple[int, Any]]] = field(default_factory=dict)
    compactions: set[tuple[Node, int]] = field(default_factory=set)
    read: list[Row] = field(default_factory=list)
    made: list[Row] = field(default_factory=list)
    provenance: dict[tuple[Node, int], Provenance] = field(default_factory=dict)
    begun: Counter[tuple[str, Node]] = field(default_factory=Counter)

    @property
    def roots(self) -> list[Node]:
        return [n for n in self.nodes if not self.writers(n)]

    def writers(self, table: Node) -> list[str]:
        return [j for j in self.writes if table in self.writes[j]]

    def write(self, table: Node) -> None:
        """Somebody writes two rows by hand."""
        self.heads[table] += 1
        self._put(table, [("in", table, self.heads[table], i) for i in range(2)])

    def compact(self, table: Node) -> None:
        if self.heads[table]:
            self.heads[table] += 1
            self.compactions.add((table, self.heads[table]))

    def run(self, job: str, most: int, *, part: bool = False) -> None:
        """A batch that reads up to `most` snapshots of each source, and, if `part`, some rows of the next one."""
        barrier = self.barriers[job]
        self.barriers[job] += 1
        found, ranges = [], []
        for source in self.reads[job]:
            key, before = (job, source), self.positions[job, source]
            now = self.positions[key] = min(self.heads[source], before + most)
            if now:
                self.read.append((job, barrier, source, now))
            unread = self._rows(source, before, now + 1)[self.begun[key] :]
            following = self._rows(source, now, now + 1)
            rest = len(following) - (self.begun[key] if now == before else 0)
            take = rest // 2 if part else 0
            found += unread[: len(unread) - rest + take]
            self.begun[key] = len(following) - rest + take
            within = now + 1 if self.begun[key] else None
            ranges.append((source, before, now, within))
        for sink in self.writes[job]:
            if rows := [(job, sink, row) for row in found if self.keeps(job, sink, row)]:
                self.heads[sink] += 1
                self.made.append((job, barrier, sink, self.heads[sink]))
                self._put(sink, rows)
                sources = (
                    SourceRange(n.ref, None if n.warehouse == sink.warehouse else n.warehouse, None, *r)
                    for n, *r in ranges
                )
                self.provenance[sink, self.heads[sink]] = Provenance(job, barrier, tuple(sources), "query")

    def provenance_of(self, table: Node, snapshot: int) -> Provenance | None:
        return self.provenance.get((table, snapshot))

    def _rows(self, table: Node, after: int, last: int) -> list[Any]:
        return [row for s, row in self.data.get(table, ()) if after < s <= last]

    def keeps(self, job: str, sink: Node, row: Any) -> bool:
        return not self.filters or crc32(repr((job, sink, row)).encode()) % 3 > 0

    def graph(self) -> Graph:
        reads = [(j, n) for j, some in self.reads.items() for n in some]
        writes = [(j, n) for j, some in self.writes.items() for n in some]
        return graph_of(self.read, self.made, reads, writes)

    def newest_between(self, table: Node, first: int, last: int | None) -> int | None:
        newest = self.heads[table] if last is None else min(last, self.heads[table])
        return newest if newest >= first else None

    def content(self, table: Node, snapshot: int) -> Counter[Any]:
        """The rows of a snapshot."""
        return Counter(row for s, row in self.data.get(table, ()) if s <= snapshot)

    def worked_out(self, table: Node, at: Mapping[Node, int]) -> Counter[Any]:
        """What a table holds if everything above it is read whole, as of the snapshots `at`. Not for rings."""
        found = Counter(row for s, row in self.data.get(table, ()) if row[0] == "in" and s <= at[table])
        for job in self.writers(table):
            for source in self.reads[job]:
                above = self.worked_out(source, at)
                found += Counter({(job, table, r): n for r, n in above.items() if self.keeps(job, table, r)})
        return found

    def is_compaction(self, table: Node, snapshot: int) -> bool:
        return (table, snapshot) in self.compactions

    def _put(self, table: Node, rows: list[Any]) -> None:
        self.data.setdefault(table, []).extend((self.heads[table], row) for row in rows)


@st.composite
def pipelines(
    draw: st.DrawFn,
    *,
    rings: bool = True,
    filters: bool | None = None,
    by_hand: bool = True,
    parts: bool = False,
    steps: int = 24,
) -> Pipeline:
    """Up to 6 tables in two warehouses and 4 jobs, after some steps.

    Args:
        rings: whether a table may come from itself.
        filters: whether jobs leave rows out; None: either.
        by_hand: whether tables that jobs write are also written by hand.
        parts: whether a batch may end within a snapshot.
        steps: at most.
    """
    count = draw(st.integers(2, 6))
    nodes = [node(f"t{i}", draw(st.sampled_from([ONE, ONE, TWO]))) for i in range(count)]
    reads, writes = {}, {}
    for i in range(draw(st.integers(1, 4))):
        split = draw(st.integers(1, count - 1))
        above, below = (nodes, nodes) if rings and draw(st.integers(0, 3)) == 0 else (nodes[:split], nodes[split:])
        reads[f"j{i}"] = draw(st.lists(st.sampled_from(above), min_size=1, max_size=3, unique=True))
        writes[f"j{i}"] = draw(st.lists(st.sampled_from(below), min_size=1, max_size=2, unique=True))
    made = Pipeline(nodes, reads, writes, draw(st.booleans()) if filters is None else filters)
    for source in made.roots:
        made.write(source)
    written = nodes if by_hand else made.roots
    for _ in range(draw(st.integers(3, steps))):
        match draw(st.sampled_from(["write", "write", "run", "run", "run", "run", "compact"])):
            case "write" if written:
                made.write(draw(st.sampled_from(written)))
            case "compact":
                made.compact(draw(st.sampled_from(nodes)))
            case "run":
                part = parts and draw(st.booleans())
                made.run(
                    draw(st.sampled_from(sorted(reads))), draw(st.sampled_from([int(not part), 1, 2, 100])), part=part
                )
    return made
