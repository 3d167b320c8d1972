"""Facts about snapshots that rows of lineage do not hold, for a unified version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TypeAlias

from paimon_spark.lineage.asking.graph import Node
from paimon_spark.lineage.asking.results import ProvenanceOf

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
