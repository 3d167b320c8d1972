"""Search for the newest state of tables in which each table is at one snapshot.

The unknowns are the snapshot of each table and, for each job that writes it, the newest batch in it. Every tie between
two of them is monotone, so of two consistent states the later of each value is consistent too: there is a newest state,
and lowering whatever breaks a tie ends at it. Each step removes at least one row for good.

Source: docs/design/lineage.md.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final, TypeAlias

from paimon_spark.lineage.batch_sequence import EMPTY, FAR, BatchSequence, sink_sequence
from paimon_spark.lineage.graph import Graph, Node
from paimon_spark.lineage.provenance import Provenance
from paimon_spark.lineage.shared_snapshots import SharedSnapshots

_NUMBERED: Final = re.compile(r"(@([0-9a-f]{8}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|batch))+$")
"""Suffix of a query whose name was taken (`job_registry`)."""
_SEARCHED: Final = 1000
"""Most snapshots searched for one with provenance."""
_LOOKED_BACK: Final = 100
"""Most newest snapshots of a job searched for one that it certainly made."""

NewestBetween: TypeAlias = Callable[[Node, int, int | None], int | None]
"""(table, first, last): its newest snapshot alive from `first` to `last`, both included; None for `last`: to the head.
None as the answer: none of them is alive."""


@dataclass(frozen=True, slots=True)
class History:
    """Facts about snapshots besides rows; None where unknown.

    Attributes:
        is_compaction: whether a snapshot only rewrote files; a compaction counts as the snapshot before it.
        newest_between: limits the answer to snapshots alive, and lets it take newer ones of the same content that no
            job recorded; without it the answer is recorded snapshots.
        provenance_of: what the newest batches read where their rows are not complete, and whether a batch ended within
            a snapshot.
        streams: jobs that are streaming queries → whether the query is known to have ended.
        replays: queries that ran a job again on a branch → the job.
    """

    is_compaction: Callable[[Node, int], bool] | None = None
    newest_between: NewestBetween | None = None
    provenance_of: Callable[[Node, int], Provenance | None] | None = None
    streams: Mapping[str, bool] = field(default_factory=dict)
    replays: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _State:
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
        is_queued: whether it is to be looked at again.
    """

    job: str
    state: _State
    sinks: BatchSequence
    finished: int
    sources: list[tuple[_State, BatchSequence]] = field(default_factory=list)
    barrier: int = FAR
    is_queued: bool = True


class Alignment:
    """The search. `snapshot` and `barriers` are upper bounds, and the answer once `lower` has returned.

    Attributes:
        tables: the tables asked about and all above them, sorted.
    """

    def __init__(self, graph: Graph, asked: Iterable[Node], history: History, ignoring: Collection[str]) -> None:
        self._graph = graph = graph.verified_by(history.provenance_of)
        self._shared = SharedSnapshots(graph)
        self._is_compaction = history.is_compaction and cache(history.is_compaction)
        self._provenance_of = history.provenance_of and cache(history.provenance_of)
        self._newest_between = history.newest_between
        self._streams = history.streams
        self._replays = history.replays
        self._positions: dict[tuple[str, Node], dict[Node, BatchSequence]] = {}
        self._made: dict[Node, dict[str, BatchSequence]] = {}
        self._ignored: dict[Node, dict[str, BatchSequence]] = {}
        self._lost: dict[tuple[Node, str], list[int]] = {}
        jobs = self._closure(asked, ignoring)
        cycle = _cycles({n: [s for job in its for s in self._read(job, n)] for n, its in jobs.items()})
        self._states = {node: _State(node, self._before_ignored(node)) for node in jobs}
        self._todo: deque[_Writer] = deque()
        for node, state in self._states.items():
            for job in jobs[node]:
                writer = _Writer(job, state, self._made[node][job], _finished(graph, job, node))
                for source, positions in self._read(job, node).items():
                    if cycle[source] != cycle[node]:
                        above = self._states[source]
                        writer.sources.append((above, positions))
                        above.readers.append(writer)
                state.writers.append(writer)
                self._todo.append(writer)

    @property
    def tables(self) -> tuple[Node, ...]:
        return tuple(sorted(self._states))

    @property
    def barriers(self) -> dict[tuple[Node, str], int]:
        """(table, job that writes it) → the newest batch; `FAR` where nothing bounds it."""
        return {(n, w.job): w.barrier for n in self.tables for w in self._states[n].writers}

    def snapshot(self, node: Node) -> int:
        """The newest snapshot that a table may be at; `FAR` where nothing bounds it."""
        return self._states[node].snapshot

    def is_written(self, node: Node) -> bool:
        return bool(self._states[node].writers)

    def lower(self) -> None:
        """Lower every bound until all ties hold."""
        while self._todo:
            while self._todo:
                writer = self._todo.popleft()
                writer.is_queued = False
                self._enforce_ties(writer)
            for state in self._states.values():
                for writer in state.writers:
                    self._end_between_snapshots(writer)

    def drop(self, node: Node, snapshot: int) -> None:
        """A table is to be older than a snapshot."""
        self._bound_snapshot(self._states[node], snapshot - 1)

    def recorded(self, node: Node) -> int:
        """Newest snapshot in the rows, not after the bound; 0 without one."""
        made = self._made[node]
        if any(len(series) for series in made.values()):
            made = {**dict.fromkeys(self._ignored[node], EMPTY), **made}
        return self._graph.newest(node, self._states[node].snapshot, made)

    def is_compaction(self, node: Node, snapshot: int) -> bool:
        return self._is_compaction is not None and self._is_compaction(node, snapshot)

    def lacks_provenance(self, node: Node, snapshot: int) -> bool:
        """Whether a snapshot is known to hold no provenance."""
        return self._provenance_of is not None and self._provenance_of(node, snapshot) is None

    def canonical(self, node: Node, snapshot: int) -> int:
        """The snapshot with the same rows before compactions."""
        while 0 < snapshot < FAR and self.is_compaction(node, snapshot):
            snapshot -= 1
        return snapshot

    def _closure(self, asked: Iterable[Node], ignoring: Collection[str]) -> dict[Node, tuple[str, ...]]:
        """Table → the jobs that count as its writers, of the tables asked about and all above them."""
        found: dict[Node, tuple[str, ...]] = {}
        todo = list(asked)
        while todo:
            if (node := todo.pop()) not in found:
                every = self._graph.written_by.get(node, ())
                jobs = [j for j in every if j not in ignoring]
                self._made[node] = self._sinks(node, jobs)
                self._ignored[node] = self._sinks(node, [j for j in every if j in ignoring])
                lost = {job: self._lost.get((node, job), []) for job in jobs}
                found[node] = _active_jobs(self._made[node], lost, self._streams, self._replays)
                todo.extend(source for job in found[node] for source in self._read(job, node))
        return found

    def _read(self, job: str, sink: Node) -> dict[Node, BatchSequence]:
        """The sources that a job fills a table from, and how far it had read each."""
        if (job, sink) not in self._positions:
            self._positions[job, sink] = self._shared.positions_of(job, sink)
        return self._positions[job, sink]

    def _sinks(self, node: Node, jobs: Sequence[str]) -> dict[str, BatchSequence]:
        """The batches of each job that wrote a table, without rows that present snapshots contradict."""
        found = {job: self._graph.sinks(job, node) for job in jobs}
        if self._provenance_of is None:
            return found
        twice = _in_several([series.snapshots for series in found.values()])[-_SEARCHED:] if len(jobs) > 1 else []
        makers = {s: provenance.job for s in twice if (provenance := self._provenance_of(node, s)) is not None}
        for job in jobs:
            others = [s for s, maker in makers.items() if maker != job] + self._replaced(node, job, found[job])
            if others and (rows := self._graph.rows("sink", job, node)) is not None:
                found[job] = sink_sequence(rows, others)
                self._lost[node, job] = others
        return found

    def _before_ignored(self, node: Node) -> int:
        """The last snapshot before what ignored jobs made after all others; `FAR` where the others made the newest.

        A table that none of the others has written yet is at any snapshot, like one that no job writes.
        """
        newest = max((s.snapshot(len(s) - 1) for s in self._made[node].values()), default=0)
        if not newest:
            return FAR
        later = [s.snapshots[row] for s in self._ignored[node].values() if (row := s.row_of(newest) + 1) < len(s)]
        return min(later, default=FAR + 1) - 1

    def _replaced(self, node: Node, job: str, sinks: BatchSequence) -> list[int]:
        """Of a job's newest snapshots those whose ids others have now, after a merge or rollback.

        Provenance names the batch of a snapshot. One without it is not the job's if an older one is.
        """
        assert self._provenance_of is not None
        alive = self._newest_between
        head = FAR if alive is None else alive(node, 1, None) or 0
        others: list[int] = []
        without: list[int] = []
        newest = sinks.row_of(head)
        for row in range(newest, max(-1, newest - _LOOKED_BACK), -1):
            snapshot = sinks.snapshots[row]
            provenance = self._provenance_of(node, snapshot)
            if provenance is not None and provenance.batch == (job, sinks.barriers[row]):
                return [*others, *without]
            if provenance is not None:
                others.append(snapshot)
            elif alive is None or alive(node, snapshot, snapshot) is None:
                break  # expired
            else:
                without.append(snapshot)
        return others

    # --- ties

    def _enforce_ties(self, writer: _Writer) -> None:
        """Enforce the ties of a table and a job that writes it once."""
        if self._bound_barrier(writer, self._complete_barrier(writer)):
            return
        state, sinks = writer.state, writer.sinks
        made, reached = sinks.row_of(state.snapshot), sinks.row(writer.barrier)
        if reached > made:
            self._bound_barrier(writer, sinks.end(made))
            return
        if made > reached:
            self._bound_snapshot(state, sinks.snapshots[reached + 1] - 1)
        for source, series in writer.sources:
            if self._tie_source(writer, source, series):
                return

    def _complete_barrier(self, writer: _Writer) -> int:
        """The newest barrier up to the bound for which rows or provenance are complete."""
        barrier, finished, sinks = writer.barrier, writer.finished, writer.sinks
        row = sinks.row(barrier)
        if barrier > finished:
            for older in range(row, max(-1, row - _SEARCHED), -1):
                if sinks.barriers[older] <= finished:
                    break
                if self._sources_read(writer, older) is not None:
                    return sinks.barriers[older]
            barrier = finished
            row = sinks.row(barrier)
        return min(barrier, sinks.end(row))

    def _sources_read(self, writer: _Writer, row: int) -> dict[Node, tuple[int, int | None]] | None:
        """Source → (last read whole, read in part), by the provenance of a sink row's snapshot; None without one."""
        if self._provenance_of is None:
            return None
        found = self._provenance_of(writer.state.node, writer.sinks.snapshots[row])
        batch, home = (writer.job, writer.sinks.barriers[row]), writer.state.node.warehouse
        if found is None or not found.knows_sources or found.batch != batch:
            return None
        return {Node(s.warehouse or home, s.ref): (s.last or 0, s.within) for s in found.sources if s.ref is not None}

    def _tie_source(self, writer: _Writer, source: _State, series: BatchSequence) -> bool:
        """Tie a batch to the common snapshot of a source; whether the batch was lowered."""
        barrier, bound = writer.barrier, source.snapshot
        by_rows = barrier <= writer.finished
        if by_rows:
            row = series.row(barrier)
            if self._bound_barrier(writer, series.end(row)):
                return True
            read = series.snapshot(row)
        else:
            read = (self._sources_read(writer, writer.sinks.row(barrier)) or {}).get(source.node, (0, None))[0]
        if read < bound:
            while read < bound and self.is_compaction(source.node, read + 1):
                read += 1
            self._bound_snapshot(source, read)
            return False
        if read == bound:
            return False
        return self._bound_barrier(writer, series.end(series.row_of(bound)) if by_rows else barrier - 1)

    def _end_between_snapshots(self, writer: _Writer) -> None:
        """The newest batch in a table did not end within a snapshot of a source."""
        row = writer.sinks.row(writer.barrier)
        if row < 0 or (read := self._sources_read(writer, row)) is None:
            return
        for source, series in writer.sources:
            last, within = read.get(source.node, (0, None))
            if writer.barrier <= writer.finished:
                last = max(last, series.snapshot(series.row(writer.barrier)))
            if within is not None and last < within:
                self._bound_barrier(writer, writer.sinks.barriers[row] - 1)

    # --- bounds

    def _bound_snapshot(self, state: _State, most: int) -> None:
        if most < state.snapshot:
            state.snapshot = most
            for writer in (*state.writers, *state.readers):
                self._enqueue(writer)

    def _bound_barrier(self, writer: _Writer, most: int) -> bool:
        if most >= writer.barrier:
            return False
        writer.barrier = most
        self._enqueue(writer)
        return True

    def _enqueue(self, writer: _Writer) -> None:
        if not writer.is_queued:
            writer.is_queued = True
            self._todo.append(writer)


def _active_jobs(
    made: Mapping[str, BatchSequence],
    lost: Mapping[str, Sequence[int]],
    streams: Mapping[str, bool],
    replays: Mapping[str, str],
) -> tuple[str, ...]:
    """Of the jobs that write a table those that no later query replaced: of their name, or of any if they ended.

    A query that ran a job again on a branch has the job's name. One takes over that first wrote after all that the
    other made; also one that lost snapshots to the other, as a merge or a roll-back does, and went on after it.
    """
    by_base_name: dict[str, dict[str, BatchSequence]] = {}
    for job, sinks in made.items():
        by_base_name.setdefault(_NUMBERED.sub("", replays.get(job, job)), {})[job] = sinks
    out: set[str] = set()
    for family in by_base_name.values():
        first = max((sinks.snapshots[0] for sinks in family.values() if len(sinks)), default=0)
        for job, sinks in family.items():
            last = sinks.snapshot(len(sinks) - 1)
            later = [other for other, its_sinks in family.items() if its_sinks.snapshot(len(its_sinks) - 1) > last]
            took = any(sinks.snapshot(sinks.row_of(s)) == s for other in later for s in lost[other])
            if took or last < first:
                out.add(job)
    begun = max((made[job].snapshots[0] for job in made if job in streams and len(made[job])), default=0)
    out.update(job for job, s in made.items() if streams.get(job) and 0 < s.snapshot(len(s) - 1) < begun)
    return tuple(job for job in made if job not in out)


def _in_several(columns: Sequence[Sequence[int]]) -> list[int]:
    """Values that are in more than one column, ascending; each column holds no value twice."""
    import numpy as np

    values, counts = np.unique(np.concatenate([np.asarray(c, np.int64) for c in columns]), return_counts=True)
    return [int(v) for v in values[counts > 1]]


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
