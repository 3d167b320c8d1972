"""Search for the newest state of tables in which each table is at one snapshot.

The unknowns are the snapshot of each table and, for each job that writes it, the newest batch in it. They are tied:
the batch is one of which it is known what it read; the table is at the snapshot that the batch made; each source of the
job is at the snapshot that the batch had read, and the batch did not end within one. Every tie is monotone, so of two
consistent states the later of each value is consistent too: there is a newest state, and lowering whatever breaks a tie
ends at it. Each step removes at least one row for good.

Source: docs/design/lineage.md.
Tests: tests/unit/lineage/asking/test_unified_version.py
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from paimon_spark.lineage.asking.batch_sequence import FAR, BatchSequence
from paimon_spark.lineage.asking.graph import Graph, Node
from paimon_spark.lineage.asking.snapshot_facts import SharedSnapshots, SnapshotFacts
from paimon_spark.lineage.asking.writers import TableWriters, writers_of

_SEARCHED: Final = 1000
"""Most snapshots searched for one with provenance."""


@dataclass(slots=True, eq=False)
class _Table:
    """A table; `snapshot` is the newest that it may be at."""

    node: Node
    snapshot: int = FAR
    writers: list[_Writer] = field(default_factory=list)
    readers: list[_Writer] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Writer:
    """A job that writes a table; `barrier` is the newest batch that the table may hold.

    Attributes:
        sinks: what it made of the table.
        sources: the tables that it reads, but those in a cycle with the table, and how far it had come in each.
        finished: the newest batch of which all rows are there.
        is_queued: whether its ties are to be enforced (again).
    """

    job: str
    table: _Table
    sinks: BatchSequence
    finished: int
    sources: list[tuple[_Table, BatchSequence]] = field(default_factory=list)
    barrier: int = FAR
    is_queued: bool = True

    @property
    def has_rows(self) -> bool:
        """Whether the rows tell what its newest batch read; else its provenance does."""
        return self.barrier <= self.finished


class Alignment:
    """The search. `snapshot` and `barriers` are upper bounds, and the answer once `lower` has returned.

    Attributes:
        tables: the tables asked about and all above them, sorted.
    """

    def __init__(self, graph: Graph, asked: Iterable[Node], facts: SnapshotFacts, ignoring: Collection[str]) -> None:
        self._facts = facts.cached()
        self._graph = graph.verified_by(self._facts.provenance_of)
        self._shared = SharedSnapshots(self._graph)
        self._positions: dict[tuple[str, Node], dict[Node, BatchSequence]] = {}
        self._writers_of = self._closure(asked, ignoring)
        self._tables = {node: _Table(node, its.newest_possible) for node, its in self._writers_of.items()}
        self._todo: deque[_Writer] = deque()
        self._connect()

    @property
    def tables(self) -> tuple[Node, ...]:
        return tuple(sorted(self._tables))

    @property
    def barriers(self) -> dict[tuple[Node, str], int]:
        """(table, job that writes it) → the newest batch; `FAR` where nothing bounds it."""
        return {(n, w.job): w.barrier for n in self.tables for w in self._tables[n].writers}

    def snapshot(self, node: Node) -> int:
        """The newest snapshot that a table may be at; `FAR` where nothing bounds it."""
        return self._tables[node].snapshot

    def is_written(self, node: Node) -> bool:
        return bool(self._tables[node].writers)

    def lower(self) -> None:
        """Lower every bound until all ties hold."""
        while self._todo:
            while self._todo:
                writer = self._todo.popleft()
                writer.is_queued = False
                self._enforce_ties(writer)
            # Reads a snapshot for each writer, so it comes once the cheap ties hold.
            for table in self._tables.values():
                for writer in table.writers:
                    self._end_between_snapshots(writer)

    def drop(self, node: Node, snapshot: int) -> None:
        """A table is to be older than a snapshot."""
        self._bound_snapshot(self._tables[node], snapshot - 1)

    def recorded(self, node: Node) -> int:
        """Newest snapshot in the rows, not after the bound; 0 without one."""
        return self._graph.newest(node, self._tables[node].snapshot, self._writers_of[node].counted)

    def is_compaction(self, node: Node, snapshot: int) -> bool:
        is_compaction = self._facts.is_compaction
        return is_compaction is not None and is_compaction(node, snapshot)

    def lacks_provenance(self, node: Node, snapshot: int) -> bool:
        """Whether a snapshot is known to hold no provenance."""
        provenance_of = self._facts.provenance_of
        return provenance_of is not None and provenance_of(node, snapshot) is None

    def canonical(self, node: Node, snapshot: int) -> int:
        """The snapshot with the same rows before compactions."""
        while 0 < snapshot < FAR and self.is_compaction(node, snapshot):
            snapshot -= 1
        return snapshot

    # --- tables and jobs

    def _closure(self, asked: Iterable[Node], ignoring: Collection[str]) -> dict[Node, TableWriters]:
        """The writers of the tables asked about, and of all above them."""
        found: dict[Node, TableWriters] = {}
        todo = list(asked)
        while todo:
            if (node := todo.pop()) not in found:
                found[node] = writers_of(self._graph, node, self._facts, ignoring)
                todo.extend(source for job in found[node].active for source in self._read(job, node))
        return found

    def _read(self, job: str, sink: Node) -> dict[Node, BatchSequence]:
        """The sources that a job fills a table from, and how far it had read each."""
        if (job, sink) not in self._positions:
            self._positions[job, sink] = self._shared.positions_of(job, sink)
        return self._positions[job, sink]

    def _connect(self) -> None:
        """Join each table with the jobs that write it, and these with their sources; queue all of them.

        A table that comes from itself cannot be at the snapshot that its own batches had read, so sources in a cycle
        with the table are left out.
        """
        above = {n: [s for job in its.active for s in self._read(job, n)] for n, its in self._writers_of.items()}
        cycle = _cycles(above)
        for node, table in self._tables.items():
            found = self._writers_of[node]
            for job in found.active:
                writer = _Writer(job, table, found.made[job], _finished(self._graph, job, node))
                for source, positions in self._read(job, node).items():
                    if cycle[source] != cycle[node]:
                        writer.sources.append((self._tables[source], positions))
                        self._tables[source].readers.append(writer)
                table.writers.append(writer)
                self._todo.append(writer)

    # --- ties

    def _enforce_ties(self, writer: _Writer) -> None:
        """Enforce the ties of a writer once. Ends when its batch is lowered, which queues it again."""
        if self._bound_barrier(writer, self._complete_barrier(writer)) or self._tie_snapshot(writer):
            return
        for source, positions in writer.sources:
            if self._tie_source(writer, source, positions):
                return

    def _complete_barrier(self, writer: _Writer) -> int:
        """The newest barrier up to the bound of which rows or provenance tell what it read."""
        sinks = writer.sinks
        if not writer.has_rows:
            # Rows of one batch may come from processes of two warehouses; its snapshot has all, once it is there.
            newest = sinks.row(writer.barrier)
            for row in range(newest, max(-1, newest - _SEARCHED), -1):
                if sinks.barriers[row] <= writer.finished:
                    break
                if self._sources_read(writer, row) is not None:
                    return sinks.barriers[row]
        barrier = min(writer.barrier, writer.finished)
        return min(barrier, sinks.end(sinks.row(barrier)))

    def _sources_read(self, writer: _Writer, row: int) -> dict[Node, tuple[int, int | None]] | None:
        """Source → (last read whole, read in part), by the provenance of a sink row's snapshot; None without one."""
        if self._facts.provenance_of is None:
            return None
        found = self._facts.provenance_of(writer.table.node, writer.sinks.snapshots[row])
        batch, home = (writer.job, writer.sinks.barriers[row]), writer.table.node.warehouse
        if found is None or not found.knows_sources or found.batch != batch:
            return None
        return {Node(s.warehouse or home, s.ref): (s.last or 0, s.within) for s in found.sources if s.ref is not None}

    def _tie_snapshot(self, writer: _Writer) -> bool:
        """Tie a batch to the snapshot that it made of the table; whether the batch was lowered."""
        table, sinks = writer.table, writer.sinks
        of_snapshot, of_barrier = sinks.row_of(table.snapshot), sinks.row(writer.barrier)
        if of_barrier > of_snapshot:
            return self._bound_barrier(writer, sinks.end(of_snapshot))
        if of_snapshot > of_barrier:
            self._bound_snapshot(table, sinks.snapshots[of_barrier + 1] - 1)
        return False

    def _tie_source(self, writer: _Writer, source: _Table, positions: BatchSequence) -> bool:
        """Tie a batch to the snapshot that it had read of a source; whether the batch was lowered."""
        if writer.has_rows:
            row = positions.row(writer.barrier)
            if self._bound_barrier(writer, positions.end(row)):
                return True
            read = positions.snapshot(row)
        else:
            by_provenance = self._sources_read(writer, writer.sinks.row(writer.barrier)) or {}
            read, _ = by_provenance.get(source.node, (0, None))
        if read > source.snapshot:
            older = positions.end(positions.row_of(source.snapshot)) if writer.has_rows else writer.barrier - 1
            return self._bound_barrier(writer, older)
        # Compactions after it have the same rows.
        while read < source.snapshot and self.is_compaction(source.node, read + 1):
            read += 1
        self._bound_snapshot(source, read)
        return False

    def _end_between_snapshots(self, writer: _Writer) -> None:
        """The newest batch in a table did not end within a snapshot of a source."""
        row = writer.sinks.row(writer.barrier)
        if row < 0 or (read := self._sources_read(writer, row)) is None:
            return
        for source, positions in writer.sources:
            last, within = read.get(source.node, (0, None))
            if writer.has_rows:
                # A later batch that made no snapshot may have read the rest.
                last = max(last, positions.snapshot(positions.row(writer.barrier)))
            if within is not None and last < within:
                self._bound_barrier(writer, writer.sinks.barriers[row] - 1)

    # --- bounds

    def _bound_snapshot(self, table: _Table, most: int) -> None:
        if most < table.snapshot:
            table.snapshot = most
            for writer in (*table.writers, *table.readers):
                self._enqueue(writer)

    def _bound_barrier(self, writer: _Writer, most: int) -> bool:
        """Lower a bound; whether it was higher."""
        if most >= writer.barrier:
            return False
        writer.barrier = most
        self._enqueue(writer)
        return True

    def _enqueue(self, writer: _Writer) -> None:
        if not writer.is_queued:
            writer.is_queued = True
            self._todo.append(writer)


def _finished(graph: Graph, job: str, sink: Node) -> int:
    """The newest batch of which every warehouse with sources of a table has rows, of it or of a later one."""
    newest: dict[str, int] = {}
    for node in graph.sources_of(job, sink):
        newest[node.warehouse] = max(newest.get(node.warehouse, -1), graph.sources(job, node).newest)
    return min(newest.values(), default=FAR)


def _cycles(sources: Mapping[Node, Sequence[Node]]) -> dict[Node, int]:
    """Table → a number that it shares with exactly the tables that it comes from and that come from it (Tarjan)."""
    number: dict[Node, int] = {}
    low: dict[Node, int] = {}
    cycle: dict[Node, int] = {}
    stack: list[Node] = []
    for start in sources:
        work = [(start, iter(sources[start]))] if start not in number else []
        while work:
            node, rest = work[-1]
            if node not in number:
                number[node] = low[node] = len(number)
                stack.append(node)
            for source in rest:
                if source not in number:
                    work.append((source, iter(sources[source])))
                    break
                if source not in cycle:
                    low[node] = min(low[node], number[source])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == number[node]:
                    while node not in cycle:
                        cycle[stack.pop()] = number[node]
    return cycle
