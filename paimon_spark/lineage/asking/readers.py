"""Find the batches that read a snapshot, the snapshots they made, and so on downstream.

All snapshots of a table that are reached are processed together, in columns, and each sink row is reached at most
twice: first as one that may have read it, then as one that has. So the cost is about that of the rows of the answer.

Source: docs/design/lineage.md.
Tests: tests/unit/lineage/asking/test_readers.py, tests/unit/lineage/asking/test_impact.py
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from paimon_spark.lineage.asking.batch_sequence import FAR, BatchSequence
from paimon_spark.lineage.asking.graph import Graph, Node
from paimon_spark.lineage.asking.results import Batch, NextTables, ProvenanceOf
from paimon_spark.lineage.asking.snapshot_facts import Numbers, SharedSnapshots
from paimon_spark.lineage.index.provenance import Provenance, SourceRange

Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

_MAYBE: Final = 1
_CERTAIN: Final = 2
_SAME: Final = "\0"
"""Stands for a job, in the order of tables, from a branch to another one with the same snapshots."""
_NONE: Final[Numbers] = np.empty(0, np.int64)


class _Kind(NamedTuple):
    """How snapshots are reached; `is_gone`: another batch's snapshot has the id by now, which other branches have."""

    level: int
    is_gone: bool


class Readers:
    """Follows snapshots through jobs, and collects the batches that read them.

    With `siblings` also on other branches that hold the same snapshots.
    """

    def __init__(
        self, graph: Graph, provenance_of: ProvenanceOf | None, siblings: SharedSnapshots | None = None
    ) -> None:
        self._graph = graph
        self._provenance_of = provenance_of
        self._siblings = siblings
        self._passed: dict[Node, dict[int, set[int]]] = {}
        self._is_stream: dict[str, bool] = {}
        self._made: dict[Node, dict[str, _Made]] = {}

    def follow(self, asked: Node, snapshot: int) -> None:
        """Find all batches that a snapshot went into, through any tables."""
        order = in_order(asked, *self._steps())
        nodes = list(order)
        reached: dict[Node, dict[_Kind, list[Numbers]]] = {}
        reached[asked] = {_Kind(_CERTAIN, False): [np.array([snapshot], np.int64)]}
        todo = [0]
        while todo:
            node = nodes[heapq.heappop(todo)]
            for kind, snapshots in reached.pop(node).items():
                at = np.unique(np.concatenate(snapshots))
                for job in self._graph.read_by.get(node, ()):
                    for sink in self._graph.sinks_of(job, node):
                        for made_as, made in self._read(job, node, at, kind.level, sink):
                            if sink not in reached:
                                heapq.heappush(todo, order[sink])
                            reached.setdefault(sink, {}).setdefault(made_as, []).append(made)
                for other, same in () if kind.is_gone else self._elsewhere(node, at, kind.level):
                    if other not in reached:
                        heapq.heappush(todo, order[other])
                    reached.setdefault(other, {}).setdefault(kind, []).append(same)

    def _steps(self) -> tuple[Mapping[Node, Sequence[str]], NextTables]:
        """Jobs of a table, and the tables that they lead to; other branches of it count as such."""
        graph, siblings = self._graph, self._siblings
        if siblings is None:
            return graph.read_by, graph.sinks_of
        jobs_of = {node: (*graph.read_by.get(node, ()), _SAME) for node in graph.tables}
        return jobs_of, lambda job, node: siblings.of(node) if job == _SAME else graph.sinks_of(job, node)

    def _elsewhere(self, node: Node, at: Numbers, level: int) -> list[tuple[Node, Numbers]]:
        """Other branches, and the snapshots that they hold of those reached on this one, each once."""
        if self._siblings is None or not (others := self._siblings.of(node)):
            return []
        found = []
        self._once(node, at, level)
        for other in others:
            same = self._once(other, self._siblings.held(node, other, at), level)
            if len(same):
                found.append((other, same))
        return found

    def _once(self, node: Node, at: Numbers, level: int) -> Numbers:
        """Snapshots that were not passed on at this level or a higher one; marks them."""
        passed = self._passed.setdefault(node, {_MAYBE: set(), _CERTAIN: set()})
        new = [s for s in at.tolist() if not any(s in passed[above] for above in passed if above >= level)]
        passed[level].update(new)
        return np.array(new, np.int64)

    @property
    def sinks(self) -> tuple[Node, ...]:
        """The tables that jobs write that may have read them."""
        return tuple(self._made)

    def batches(self, sink: Node) -> tuple[Batch, ...]:
        """The batches found, by job and barrier."""
        made = self._made.get(sink, {})
        return tuple(batch for job in sorted(made) for batch in made[job].batches(job))

    def snapshots(self, sink: Node) -> Numbers:
        """The snapshots that they made, ascending."""
        made = [m.snapshots[(m.levels > 0) & ~m.replaced] for m in self._made.get(sink, {}).values()]
        return np.unique(np.concatenate([_NONE, *made]))

    def _read(self, job: str, node: Node, at: Numbers, level: int, sink: Node) -> list[tuple[_Kind, Numbers]]:
        """Mark the batches of a job that read some snapshots; the snapshots that they made, where new."""
        made = self._made_of(job, sink)
        spans = _Spans.of(self._graph.sources(job, node), at, made.barriers)
        if self._provenance_of is not None:  # which tells reads of a present history from those of a former one
            spans = spans.since([begun for begun, _ in self._graph.read_before(job, node, at.tolist())], made.barriers)
        made.without[level].append(spans.without)
        if self._provenance_of is not None and self._stream(job):
            may, has = self._of_stream(job, node, spans, sink, made)
        else:
            may, has = self._of_any(job, node, spans, sink, made)
        return [*made.raise_to(level, has), *made.raise_to(_MAYBE, may)]

    def _made_of(self, job: str, sink: Node) -> _Made:
        by_job = self._made.setdefault(sink, {})
        if job not in by_job:
            by_job[job] = _Made.of(self._graph.sinks(job, sink))
        return by_job[job]

    def _of_any(self, job: str, node: Node, spans: _Spans, sink: Node, made: _Made) -> tuple[Numbers, Numbers]:
        """Rows that may have read one of the snapshots, and rows that have, of a job that may read its source whole."""
        first, done = int(spans.first[0]), spans.done
        if self._provenance_of is None:
            return made.unknown(first), done
        ranges = made.ranges.setdefault(node, _SourceRanges.of(len(made.barriers)))
        for row in range(first, ranges.since):
            if (provenance := self._provenance(job, sink, made, row)) is not None:
                ranges.put(row, self._range(provenance, sink, node))
        ranges.since = min(ranges.since, first)
        runs = self._graph.runs_that_read(job, node, int(spans.snapshots[0]), sink)
        unknown = made.unknown(first) if runs is None else made.of_runs(runs, first)
        replaced = made.replaced_later(int(spans.end[0]))
        known = np.flatnonzero(ranges.known[first:]) + first
        may = np.concatenate([unknown[~ranges.known[unknown]], replaced])
        return may, np.concatenate([done[~ranges.known[done]], ranges.read(known, spans)])

    def _of_stream(self, job: str, node: Node, spans: _Spans, sink: Node, made: _Made) -> tuple[Numbers, Numbers]:
        """The same of a stream, which reads each snapshot once: nothing later, and few snapshots need be looked at."""
        may: list[int] = []
        has: list[int] = []
        for snapshots, first, end, done in spans.grouped():
            if done:
                provenance = self._provenance(job, sink, made, end)
                if provenance is None or _of_those(self._range(provenance, sink, node), snapshots):
                    has.append(end)
            left = snapshots
            for row in range(end - 1, first - 1, -1):
                provenance = self._provenance(job, sink, made, row)
                if provenance is None:
                    if not made.replaced[row]:  # else it may have read a part, and what it made is gone
                        may.append(row)
                    continue
                left = _of_those(self._range(provenance, sink, node), left)
                if not left:
                    break  # a stream that begins a snapshot continues it in the next batch: earlier batches had not
                has.append(row)
        return np.array(may, np.int64), np.array(has, np.int64)

    def _range(self, provenance: Provenance, sink: Node, node: Node) -> SourceRange | None:
        return source_range_of(provenance, sink, node, self._graph.sources(provenance.job, node))

    def _provenance(self, job: str, sink: Node, made: _Made, row: int) -> Provenance | None:
        """The provenance of the snapshot of a sink row; None when it has none with sources."""
        if self._provenance_of is None:
            return None
        if row not in made.provenances:
            provenance = self._provenance_of(sink, int(made.snapshots[row]))
            is_own = provenance is not None and provenance.batch == (job, made.barriers[row])
            made.replaced[row] = provenance is not None and not is_own
            knows_sources = provenance is not None and provenance.knows_sources
            made.provenances[row] = provenance if is_own and knows_sources else None
        return made.provenances[row]

    def _stream(self, job: str) -> bool:
        """Whether a job is known to read each snapshot once, as streams do."""
        if job not in self._is_stream:
            provenance = None
            for sink in self._graph.writes.get(job, ()):
                made = self._made_of(job, sink)
                if len(made.barriers):
                    provenance = provenance or self._provenance(job, sink, made, len(made.barriers) - 1)
            self._is_stream[job] = provenance is not None and provenance.query_id is not None
        return self._is_stream[job]


@dataclass(slots=True)
class _Made:
    """The batches of a job that wrote a sink, and which of them are reached.

    Attributes:
        barriers, snapshots: of its rows.
        levels: of its rows: 0, `_MAYBE` or `_CERTAIN`.
        replaced: of its rows that were looked at: whether another batch's snapshot has the id by now, as a branch was
            merged or rolled back. Who read it has it, even if it is gone since.
        unknown_from, replaced_from: rows from here on are reached, of those without provenance, and of those replaced.
        without: level → batches that read it and made no snapshot.
        provenances: of rows whose snapshots were read.
        ranges: the same as columns, by source.
    """

    barriers: Numbers
    snapshots: Numbers
    levels: np.ndarray[Any, np.dtype[np.int8]]
    replaced: Flags
    unknown_from: int
    replaced_from: int
    without: Mapping[int, list[Numbers]] = field(default_factory=lambda: {_MAYBE: [], _CERTAIN: []})
    provenances: dict[int, Provenance | None] = field(default_factory=dict)
    ranges: dict[Node, _SourceRanges] = field(default_factory=dict)

    @staticmethod
    def of(sinks: BatchSequence) -> _Made:
        count = len(sinks)
        levels, replaced = np.zeros(count, np.int8), np.zeros(count, bool)
        return _Made(_numbers(sinks.barriers), _numbers(sinks.snapshots), levels, replaced, count, count)

    def unknown(self, first: int) -> Numbers:
        """Rows from one on that are not replaced, but for those given before."""
        rows = np.arange(first, max(first, self.unknown_from))
        self.unknown_from = min(self.unknown_from, first)
        return rows[~self.replaced[rows]]

    def of_runs(self, barriers: Collection[int], first: int) -> Numbers:
        """Rows from one on that are not replaced, of some batches."""
        rows = np.flatnonzero(np.isin(self.barriers, np.array(sorted(barriers), np.int64)) & ~self.replaced)
        return rows[rows >= first]

    def replaced_later(self, first: int) -> Numbers:
        """Rows from one on that are replaced, but for those given before."""
        rows = np.arange(first, max(first, self.replaced_from))
        self.replaced_from = min(self.replaced_from, first)
        return rows[self.replaced[rows]]

    def raise_to(self, level: int, rows: Numbers) -> list[tuple[_Kind, Numbers]]:
        """Mark rows; the snapshots of those that were below the level, apart from those that are gone."""
        raised = rows[self.levels[rows] < level]
        self.levels[raised] = level
        parts = ((gone, raised[self.replaced[raised] == gone]) for gone in (False, True))
        return [(_Kind(level, gone), self.snapshots[part]) for gone, part in parts if len(part)]

    def batches(self, job: str) -> list[Batch]:
        """Reached batches, by barrier."""
        has, may = (np.unique(np.concatenate([_NONE, *self.without[level]])) for level in (_CERTAIN, _MAYBE))
        may = np.setdiff1d(may, has, assume_unique=True)
        rows = np.flatnonzero(self.levels)
        barriers = np.concatenate([self.barriers[rows], has, may])
        made = np.where(self.replaced[rows], 0, self.snapshots[rows]).tolist()
        snapshots = [*(snapshot or None for snapshot in made), *[None] * (len(has) + len(may))]
        certain = np.concatenate([self.levels[rows] == _CERTAIN, np.ones(len(has), bool), np.zeros(len(may), bool)])
        order = np.argsort(barriers, kind="stable")
        return [
            Batch(job, barrier, snapshots[i], sure)
            for i, barrier, sure in zip(order.tolist(), barriers[order].tolist(), certain[order].tolist(), strict=True)
        ]


@dataclass(frozen=True, slots=True)
class _Spans:
    """Where a job read some snapshots of a source, as ranges of rows of a sink.

    Attributes:
        snapshots: ascending.
        source_rows: the first that has the snapshot whole; two snapshots of one have the same span.
        first, end: rows of the sink from the batch that may have begun a snapshot to the one before that which had it
            whole; ascending.
        exact: whether the batch that had it whole has a sink row: row `end`.
        without: batches that had one whole and have no sink row.
    """

    snapshots: Numbers
    source_rows: Numbers
    first: Numbers
    end: Numbers
    exact: Flags
    without: Numbers

    @staticmethod
    def of(series: BatchSequence, at: Numbers, made: Numbers) -> _Spans:
        barriers, snapshots = _numbers(series.barriers), _numbers(series.snapshots)
        rows = np.searchsorted(snapshots, at)
        # The first batch that may have read a part of what its row has whole, and the row before has not.
        begun = np.full(len(at), -1, np.int64)
        later = rows > 0
        begun[later] = barriers[np.searchsorted(snapshots, snapshots[rows[later] - 1])]
        whole = rows < len(barriers)
        reached = np.full(len(at), FAR, np.int64)
        reached[whole] = barriers[rows[whole]]
        end = np.searchsorted(made, reached)
        exact = whole & (end < len(made))
        exact[exact] = made[end[exact]] == reached[exact]
        return _Spans(at, rows, np.searchsorted(made, begun), end, exact, np.unique(reached[whole & ~exact]))

    def since(self, begun: Sequence[int], made: Numbers) -> _Spans:
        """The same, from the batches on that may have begun the snapshots in any history of the source."""
        return replace(self, first=np.minimum(self.first, np.searchsorted(made, np.array(begun, np.int64))))

    @property
    def done(self) -> Numbers:
        """Rows of batches that had one of the snapshots whole."""
        return np.unique(self.end[self.exact])

    def grouped(self) -> list[tuple[list[int], int, int, bool]]:
        """Snapshots of one span, its first and end, and whether its end is the batch that had them whole."""
        starts = np.flatnonzero(np.diff(self.source_rows, prepend=-1))
        snapshots, bounds = self.snapshots.tolist(), [*starts.tolist(), len(self.snapshots)]
        columns = (c[starts].tolist() for c in (self.first, self.end, self.exact))
        parts = (snapshots[a:b] for a, b in pairwise(bounds))
        return list(zip(parts, *columns, strict=True))


@dataclass(slots=True)
class _SourceRanges:
    """Provenance of sink rows about one source where `known`; loaded from row `since` on."""

    since: int
    known: Flags
    after: Numbers
    last: Numbers
    within: Numbers

    @staticmethod
    def of(count: int) -> _SourceRanges:
        return _SourceRanges(count, np.zeros(count, bool), *(np.zeros(count, np.int64) for _ in range(3)))

    def put(self, row: int, read: SourceRange | None) -> None:
        self.known[row] = True
        if read is not None:
            self.after[row], self.last[row], self.within[row] = read.after or 0, read.last or 0, read.within or 0

    def read(self, rows: Numbers, spans: _Spans) -> Numbers:
        """The rows that read one of the snapshots, within the spans of these."""
        # Of several within a range the least has the first span: if that begins later, so do all.
        above = np.searchsorted(spans.snapshots, self.after[rows], side="right")
        inside = np.searchsorted(spans.snapshots, self.within[rows])
        snapshots, first = np.append(spans.snapshots, FAR), np.append(spans.first, FAR)
        whole = (snapshots[above] <= self.last[rows]) & (first[above] <= rows)
        part = (snapshots[inside] == self.within[rows]) & (first[inside] <= rows)
        found: Numbers = rows[whole | part]
        return found


def source_range_of(provenance: Provenance, sink: Node, source: Node, rows: BatchSequence) -> SourceRange | None:
    """Range of `source` read by the batch that made a snapshot of `sink`, or None. `rows`: of job and source.

    A batch job finds its sources in the notes in the warehouse of its sink. Its sources in another warehouse are in the
    rows there, under the barrier that reads and writes were both given.
    """
    for found in provenance.sources:
        if found.ref == source.ref and (found.warehouse or sink.warehouse) == source.warehouse:
            return found
    if provenance.query_id is not None or source.warehouse == sink.warehouse:
        return None
    row = rows.row(provenance.barrier)
    if row < 0 or rows.barriers[row] != provenance.barrier:
        return None
    return SourceRange(source.ref, source.warehouse, last=rows.snapshots[row])


def _numbers(column: Sequence[int]) -> Numbers:
    return np.asarray(column, np.int64)


def _of_those(read: SourceRange | None, snapshots: list[int]) -> list[int]:
    """Snapshots among some that a batch read, whole or in part."""
    if read is None:
        return []
    after, last = read.after or 0, read.last or 0
    return [s for s in snapshots if s == read.within or after < s <= last]


def in_order(asked: Node, jobs_of: Mapping[Node, Sequence[str]], next_tables: NextTables) -> dict[Node, int]:
    """Order a table and those reached from it topologically, except within rings; table → its place."""
    last_first: list[Node] = []
    seen = {asked}
    on_the_way = [(asked, _next(asked, jobs_of, next_tables))]
    while on_the_way:
        node, further = on_the_way[-1]
        for table in further:
            if table not in seen:
                seen.add(table)
                on_the_way.append((table, _next(table, jobs_of, next_tables)))
                break
        else:
            last_first.append(node)
            on_the_way.pop()
    return {node: place for place, node in enumerate(reversed(last_first))}


def _next(node: Node, jobs_of: Mapping[Node, Sequence[str]], next_tables: NextTables) -> Iterator[Node]:
    return (table for job in jobs_of.get(node, ()) for table in next_tables(job, node))
