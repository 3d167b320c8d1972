"""Requests for one snapshot, by kind: the changes of each, and its checks.

A request is made once and tried on any head, until its snapshot is there or certainly will not be.

Tests: tests/unit/engine/commit/test_committer.py, test_conflicts.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import ClassVar, Final

import pyarrow as pa

from paimon_spark.engine.commit.entries import Changes, live_at, named_in, no_entries, of_kind, together, where
from paimon_spark.engine.commit.overwrite import Overwritten, replaced_on
from paimon_spark.format.metadata_files.manifest import FileKind
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.metadata.branches import snapshot_identity
from paimon_spark.metadata.handle import TableHandle

BATCH_COMMIT_IDENTIFIER: Final = 2**63 - 1
"""The identifier of every batch commit; those of streams count up."""
ROWS_STAY: Final = "paimon-spark.rows-stay"
"""Property of a snapshot of kind OVERWRITE that has the rows of the one before it in other files."""


class Check(Enum):
    """Condition between a request and the head on which it is tried (`checks.py`)."""

    HISTORY = auto()
    """The branch still has the snapshots that the writers continued from, where they must remain."""
    HASH_INDEX = auto()
    """No other commit assigned keys of the same partitions to dynamic buckets."""
    MERGED_ROWS = auto()
    """No other MERGE or UPDATE added rows that a MERGE did not compare with its own."""
    COLUMNS = auto()
    """No other commit changed or removed columns of the same rows, or of deleted rows (data evolution)."""
    MOVED_KEYS = auto()
    """No key moved to another partition since the writers looked where it is."""
    FILES = auto()
    """Files to delete are there, files to add are not, and their keys do not overlap."""
    BUCKETS = auto()
    """The partitions have the number of buckets that the writers assumed."""


@dataclass(frozen=True, slots=True)
class PlannedOn:
    """The heads that the writers of a commit continued from.

    Attributes:
        snapshots: of all writers, each once; more than one where tasks began at different heads. None: an empty branch.
        must_remain: whether the commit fails where the branch was given a history without them: the rows stand on
            theirs, or on the numbers that they had. Ones that expired count as remaining.
    """

    snapshots: tuple[Snapshot | None, ...]
    must_remain: bool = False

    @classmethod
    def of(cls, *snapshots: Snapshot | None, must_remain: bool = False) -> PlannedOn:
        found = {None if s is None else snapshot_identity(s): s for s in snapshots}
        return cls(tuple(found.values()), must_remain)

    @property
    def oldest(self) -> Snapshot | None:
        found = [s for s in self.snapshots if s is not None]
        return min(found, key=lambda s: s.id) if len(found) == len(self.snapshots) else None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SnapshotRequest:
    """One snapshot to make, on whatever head there is.

    Attributes:
        identifier: number of the commit among the user's.
        properties: kept in the snapshot.
        watermark: epoch milliseconds; the larger of this and the head's is kept.
        operation: Java's `Snapshot.Operation`, for the history.
        planned_on: None when the writers read nothing of the branch.
        only_on: the head that the snapshot must follow directly; None for any.
    """

    kind: ClassVar[CommitKind]
    checks: ClassVar[frozenset[Check]] = frozenset()
    depends_on_head: ClassVar[bool] = False
    """Whether changes depend on the head, so that manifests of an earlier attempt cannot be reused."""

    identifier: int = BATCH_COMMIT_IDENTIFIER
    properties: Mapping[str, str] = field(default_factory=dict)
    watermark: int | None = None
    operation: str | None = None
    planned_on: PlannedOn | None = None
    only_on: Snapshot | None = None

    def changes_on(self, handle: TableHandle, head: Snapshot | None) -> Changes:
        """The changes on top of `head`. Called at every attempt."""
        return Changes(no_entries(), no_entries())


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Fixed(SnapshotRequest):
    """The same changes on every head."""

    changes: Changes

    def changes_on(self, handle: TableHandle, head: Snapshot | None) -> Changes:
        return self.changes


class Append(_Fixed):
    """Files that only add rows."""

    __slots__ = ()
    kind = CommitKind.APPEND
    checks = frozenset({Check.HISTORY, Check.HASH_INDEX, Check.MERGED_ROWS, Check.MOVED_KEYS, Check.BUCKETS})


class AppendBranch(_Fixed):
    """Files of another branch of the table."""

    __slots__ = ()
    kind = CommitKind.APPEND
    checks = frozenset({Check.FILES})


class ChangeRows(_Fixed):
    """New files, and deleted files or rows, named one by one."""

    __slots__ = ()
    kind = CommitKind.OVERWRITE
    checks = frozenset(
        {Check.HISTORY, Check.HASH_INDEX, Check.MERGED_ROWS, Check.MOVED_KEYS, Check.COLUMNS, Check.FILES}
    )


class ChangeColumns(_Fixed):
    """New rows, and files with new values of some columns of rows that are there (data evolution)."""

    __slots__ = ()
    kind = CommitKind.APPEND
    checks = frozenset({Check.HISTORY, Check.MERGED_ROWS, Check.COLUMNS, Check.FILES})


class Compact(_Fixed):
    """The same rows in other files."""

    __slots__ = ()
    kind = CommitKind.COMPACT
    checks = frozenset({Check.HISTORY, Check.FILES})


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Overwrite(SnapshotRequest):
    """New files that replace `overwritten` as it is when the snapshot is made.

    Attributes:
        new: the files; changelog files among them are left out, as in Paimon.
    """

    kind = CommitKind.OVERWRITE
    checks = frozenset({Check.MOVED_KEYS, Check.FILES})
    depends_on_head = True
    overwritten: Overwritten
    new: Changes

    def changes_on(self, handle: TableHandle, head: Snapshot | None) -> Changes:
        gone, index = (no_entries(), ()) if head is None else replaced_on(handle, self.overwritten, self.new, head)
        return Changes(together(gone, self.new.files), no_entries(), (*index, *self.new.index))


class CompactManifests(SnapshotRequest):
    """The same files in fewer manifests. No snapshot where they are as few as they can be."""

    __slots__ = ()
    kind = CommitKind.COMPACT


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Restore(SnapshotRequest):
    """The state of an earlier snapshot.

    Attributes:
        target: the snapshot.
        live: its live entries.

    Source: Java `operation/FileStoreCommitImpl.rollbackToAsLatest`.
    """

    kind = CommitKind.OVERWRITE
    depends_on_head = True
    target: Snapshot
    live: pa.Table

    def changes_on(self, handle: TableHandle, head: Snapshot | None) -> Changes:
        now = live_at(handle, head)
        gone = of_kind(where(now, ~named_in(now, self.live)), FileKind.DELETE)
        back = of_kind(where(self.live, ~named_in(self.live, now)), FileKind.ADD)
        return Changes(together(gone, back), no_entries())


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SetStatistics(SnapshotRequest):
    """Another file of column statistics."""

    kind = CommitKind.ANALYZE
    file_name: str


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Adopt(SnapshotRequest):
    """A snapshot that another branch has directly after `only_on`, with all its files.

    Attributes:
        snapshot: the snapshot; it gets the time of this commit, and `properties` beside its own.
    """

    kind = CommitKind.OVERWRITE
    snapshot: Snapshot
