"""Facts about snapshots that rows of lineage do not hold, such as their branches.

Several branches of a table hold the same snapshots: those from before a fork, and published ones. Batches read such a
snapshot by the name of either branch.

Source: docs/design/lineage.md.
Tests: tests/unit/lineage/asking/test_impact.py, tests/unit/lineage/asking/test_unified_version.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.lineage.asking.batch_sequence import BatchSequence, source_sequence
from paimon_spark.lineage.asking.graph import Graph, Node, main_of
from paimon_spark.lineage.asking.results import ProvenanceOf, SharedUntil

NewestBetween: TypeAlias = Callable[[Node, int, int | None], int | None]
"""(table, first, last): its newest snapshot alive from `first` to `last`, both included; None for `last`: to the head.
None as the answer: none of them is alive."""


@dataclass(frozen=True, slots=True)
class SnapshotFacts:
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
    provenance_of: ProvenanceOf | None = None
    streams: Mapping[str, bool] = field(default_factory=dict)
    replays: Mapping[str, str] = field(default_factory=dict)

    def cached(self) -> SnapshotFacts:
        """The same, with each snapshot read once."""
        return replace(
            self,
            is_compaction=self.is_compaction and cache(self.is_compaction),
            provenance_of=self.provenance_of and cache(self.provenance_of),
        )


Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


class SharedSnapshots:
    """Finds other branches of a table that hold the same snapshots, and what was read of them.

    Two branches have their snapshots up to some id in common. Where that is unknown, as one of them is gone, a snapshot
    counts as the same unless rows and provenance name different batches.

    Args:
        graph: `verified_by` provenance.
        shared_until: as of `TableHistory.shared_until`; None: it is always unknown.
    """

    def __init__(self, graph: Graph, shared_until: SharedUntil | None = None) -> None:
        self._graph = graph
        self._shared_until = shared_until and cache(shared_until)
        self._makers: dict[Node, dict[int, set[tuple[str, int]]]] = {}
        self._read: dict[Node, list[Node]] = {}
        for node in graph.read_by:
            self._read.setdefault(main_of(node), []).append(node)

    def of(self, node: Node) -> list[Node]:
        """Other branches of a table that jobs read."""
        return [other for other in self._read.get(main_of(node), ()) if other != node]

    def held(self, node: Node, other: Node, snapshots: Numbers) -> Numbers:
        """Snapshots among some of a branch that another branch holds, too."""
        until = None if self._shared_until is None else self._shared_until(node, other)
        same = snapshots <= (0 if until is None else until)
        for i in np.flatnonzero(~same).tolist():
            one, its = (self.makers(branch, int(snapshots[i])) for branch in (node, other))
            same[i] = bool(one & its) if one and its else until is None
        return snapshots[same]

    def makers(self, node: Node, snapshot: int) -> set[tuple[str, int]]:
        """Job and barrier of the batch that made a snapshot, by its provenance; else those of all rows with its id."""
        graph = self._graph
        if node not in self._makers:
            found: dict[int, set[tuple[str, int]]] = {}
            for job in graph.written_by.get(node, ()):
                if (rows := graph.rows("sink", job, node)) is not None:
                    pairs = zip(rows["snapshot_id"].to_pylist(), rows["barrier_id"].to_pylist(), strict=True)
                    for made, barrier in pairs:
                        found.setdefault(made, set()).add((job, barrier))
            self._makers[node] = found
        made_by = self._makers[node].get(snapshot, set())
        provenance = graph.provenance_of(node, snapshot) if made_by and graph.provenance_of is not None else None
        return made_by if provenance is None else {provenance.batch}

    def positions_of(self, job: str, sink: Node) -> dict[Node, BatchSequence]:
        """The sources that a job fills a sink from, and how far it had read each, of the batches that the sink holds.

        What these read on another branch instead counts for the sink's own branch, as they were published with it.
        Without provenance the sources are those of `Graph.sources_of`.
        """
        graph, sources = self._graph, self._graph.sources_of(job, sink)
        if graph.provenance_of is None:
            return {source: graph.sources(job, source) for source in sources}
        found: dict[Node, BatchSequence] = {}
        moved: dict[Node, list[pa.Table]] = {}
        made = graph.sinks(job, sink).barriers
        for source in sources:
            own = Node(source.warehouse, source.ref.on_branch(sink.ref.branch))
            if own == source or (rows := self._published(job, source, own, made)) is None:
                found[source] = graph.sources(job, source)
            elif rows.num_rows:
                moved.setdefault(own, []).append(rows)
        for own, parts in moved.items():
            main = graph.rows("source", job, own)
            found[own] = source_sequence(pa.concat_tables([*parts, *([] if main is None else [main])]))
        return found

    def _published(self, job: str, source: Node, own: Node, made: Sequence[int]) -> pa.Table | None:
        """Rows of a branch that a job read in place of another one, on which the snapshots are now.

        None where it read both side by side, or they are not the same snapshots. Of a batch job only runs that `made`
        what a sink holds.
        """
        graph = self._graph
        rows, others = graph.rows("source", job, source), graph.rows("source", job, own)
        if rows is None:
            return None
        if graph.is_batch(job):
            if others is None or not others.num_rows:
                return None  # it ran on the branch alone, and does not go on
            rows = rows.filter(pc.is_in(rows["barrier_id"], pa.array(made, pa.int64())))
        if not rows.num_rows:
            return rows
        if others is not None and pc.any(pc.is_in(rows["barrier_id"], others["barrier_id"].combine_chunks())).as_py():
            return None
        last = pc.max(rows["snapshot_id"]).as_py()
        one, its = self.makers(own, last), self.makers(source, last)
        return None if one and its and one.isdisjoint(its) else rows
