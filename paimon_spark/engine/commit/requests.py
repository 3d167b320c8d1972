"""What a commit wants of one snapshot, whatever the head is when it gets made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from paimon_spark.engine.commit.changes import Changes
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """One snapshot to make.

    Attributes:
        changes_on: the changes on top of a head, asked for at every attempt; an overwrite deletes what is there then.
        same_changes: whether `changes_on` gives the same for every head, so that its manifests can be used again.
        check_conflicts: whether the changes are compared with the files of the head.
        planned_on: id of the snapshot that the writers continued from, 0 when there was none; None when not told.
        base: that snapshot, when the branch has to have gone on from it: what was written stands on its rows, or on the
            numbers that they had. None when any history will do.
        watermark: epoch milliseconds; the larger of this and the head's is kept.
        statistics: name of a new statistics file.
        compacts_manifests: only the manifests change; `new_snapshot.NothingToMerge` when they would not.
        restores: an earlier snapshot whose state the new one has; `changes_on` is the difference to it.
    """

    kind: CommitKind
    identifier: int
    changes_on: Callable[[Snapshot | None], Changes]
    same_changes: bool = True
    check_conflicts: bool = False
    planned_on: int | None = None
    base: Snapshot | None = None
    watermark: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    operation: str | None = None
    statistics: str | None = None
    compacts_manifests: bool = False
    restores: Snapshot | None = None
