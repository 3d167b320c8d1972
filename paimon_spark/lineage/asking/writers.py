"""Jobs that count as writers of a table, and their batches without rows that present snapshots contradict.

Rows stay when a snapshot is rolled back, when a branch becomes main, and when a query is replaced by another. So of the
rows those are left out whose snapshots are of another batch by now, and of the jobs those that a later query replaced.

Source: docs/design/lineage.md.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from paimon_spark.lineage.asking.batch_sequence import EMPTY, FAR, BatchSequence, sink_sequence
from paimon_spark.lineage.asking.graph import Graph, Node
from paimon_spark.lineage.asking.snapshot_facts import SnapshotFacts

_NUMBERED: Final = re.compile(r"(@([0-9a-f]{8}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|batch))+$")
"""Suffix of a query whose name was taken (`job_registry`)."""
_MOST_SHARED: Final = 1000
"""Most newest snapshots with rows of several jobs whose provenance is read."""
_LOOKED_BACK: Final = 100
"""Most newest snapshots of a job searched for one that it certainly made."""


@dataclass(frozen=True, slots=True)
class TableWriters:
    """The jobs that write a table.

    Attributes:
        active: jobs that count as its writers.
        made: their batches, and those of the jobs that they replaced.
        ignored: batches of the jobs that the caller ignores.
    """

    active: tuple[str, ...]
    made: Mapping[str, BatchSequence]
    ignored: Mapping[str, BatchSequence]

    @property
    def newest_possible(self) -> int:
        """The last snapshot before what ignored jobs made after all others; `FAR` where the others made the newest.

        A table that none of the others has written yet is at any snapshot, like one that no job writes.
        """
        newest = max((sinks.snapshot(len(sinks) - 1) for sinks in self.made.values()), default=0)
        if not newest:
            return FAR
        later = [s.snapshots[row] for s in self.ignored.values() if (row := s.row_of(newest) + 1) < len(s)]
        return min(later, default=FAR + 1) - 1

    @property
    def counted(self) -> Mapping[str, BatchSequence]:
        """Job → its batches as they count for the newest recorded snapshot: none of ignored jobs, if others wrote."""
        if any(len(sinks) for sinks in self.made.values()):
            return {**dict.fromkeys(self.ignored, EMPTY), **self.made}
        return self.made


def writers_of(graph: Graph, node: Node, facts: SnapshotFacts, ignoring: Collection[str]) -> TableWriters:
    """The writers of a table; `graph` is `verified_by` the provenance in `facts`."""
    every = graph.written_by.get(node, ())
    made, lost = _present_batches(graph, node, facts, [job for job in every if job not in ignoring])
    ignored, _ = _present_batches(graph, node, facts, [job for job in every if job in ignoring])
    return TableWriters(_active_jobs(made, lost, facts), made, ignored)


def _present_batches(
    graph: Graph, node: Node, facts: SnapshotFacts, jobs: Sequence[str]
) -> tuple[dict[str, BatchSequence], dict[str, list[int]]]:
    """The batches of each job that wrote a table, and the snapshots whose ids are of other batches by now."""
    found = {job: graph.sinks(job, node) for job in jobs}
    lost: dict[str, list[int]] = {}
    provenance_of = facts.provenance_of
    if provenance_of is None:
        return found, lost
    shared = _in_several([sinks.snapshots for sinks in found.values()])[-_MOST_SHARED:] if len(jobs) > 1 else []
    makers = {s: provenance.job for s in shared if (provenance := provenance_of(node, s)) is not None}
    for job in jobs:
        others = [snapshot for snapshot, maker in makers.items() if maker != job]
        others += _replaced(node, job, found[job], facts)
        if others and (rows := graph.rows("sink", job, node)) is not None:
            found[job] = sink_sequence(rows, others)
            lost[job] = others
    return found, lost


def _replaced(node: Node, job: str, sinks: BatchSequence, facts: SnapshotFacts) -> list[int]:
    """Of a job's newest snapshots those whose ids others have now, after a merge or rollback.

    Provenance names the batch of a snapshot. One without it is not the job's if an older one is.
    """
    assert facts.provenance_of is not None
    alive = facts.newest_between
    head = FAR if alive is None else alive(node, 1, None) or 0
    others: list[int] = []
    without: list[int] = []
    newest = sinks.row_of(head)
    for row in range(newest, max(-1, newest - _LOOKED_BACK), -1):
        snapshot = sinks.snapshots[row]
        provenance = facts.provenance_of(node, snapshot)
        if provenance is not None and provenance.batch == (job, sinks.barriers[row]):
            # The job puts provenance into its snapshots, so those without are of somebody else.
            return [*others, *without]
        if provenance is not None:
            others.append(snapshot)
        elif alive is None or alive(node, snapshot, snapshot) is None:
            break  # expired
        else:
            without.append(snapshot)
    # No snapshot shows that the job writes provenance: another engine may have written its rows, which are trusted.
    return others


def _active_jobs(
    made: Mapping[str, BatchSequence], lost: Mapping[str, Sequence[int]], facts: SnapshotFacts
) -> tuple[str, ...]:
    """Of the jobs that write a table those that no later query replaced: of their name, or of any if they ended.

    A query that ran a job again on a branch has the job's name. One takes over that first wrote after all that the
    other made; also one that lost snapshots to the other, as a merge or a roll-back does, and went on after it.
    """
    by_base_name: dict[str, dict[str, BatchSequence]] = {}
    for job, sinks in made.items():
        by_base_name.setdefault(_NUMBERED.sub("", facts.replays.get(job, job)), {})[job] = sinks
    out: set[str] = set()
    for same_name in by_base_name.values():
        begun = max((_first(sinks) for sinks in same_name.values()), default=0)
        for job, sinks in same_name.items():
            later = [other for other, its in same_name.items() if _last(its) > _last(sinks)]
            took_over = any(_has(sinks, snapshot) for other in later for snapshot in lost.get(other, ()))
            if took_over or _last(sinks) < begun:
                out.add(job)
    # Of other names, jobs may run side by side, as far as anyone knows; only one that ended was replaced for certain.
    # A batch job replaces none: corrections by hand come between the runs of a query.
    stream_begun = max((_first(sinks) for job, sinks in made.items() if job in facts.streams), default=0)
    out.update(job for job, s in made.items() if facts.streams.get(job) and 0 < _last(s) < stream_begun)
    return tuple(job for job in made if job not in out)


def _first(sinks: BatchSequence) -> int:
    """The first snapshot made; 0 without any."""
    return sinks.snapshots[0] if len(sinks) else 0


def _last(sinks: BatchSequence) -> int:
    """The last snapshot made; 0 without any."""
    return sinks.snapshot(len(sinks) - 1)


def _has(sinks: BatchSequence, snapshot: int) -> bool:
    return sinks.snapshot(sinks.row_of(snapshot)) == snapshot


def _in_several(columns: Sequence[Sequence[int]]) -> list[int]:
    """Values that are in more than one column, ascending; each column holds no value twice."""
    import numpy as np

    values, counts = np.unique(np.concatenate([np.asarray(c, np.int64) for c in columns]), return_counts=True)
    return [int(v) for v in values[counts > 1]]
