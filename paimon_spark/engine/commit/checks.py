"""Checks of a commit against the current head: history, files, buckets, keys, schema.

Source: Java `operation/commit/CommitScanner`, `StrictModeChecker`, `operation/FileStoreCommitImpl.tryCommitOnce`.

Tests: tests/unit/engine/commit/test_conflicts.py, test_races.py, test_committer.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.engine.commit.conflicts import (
    bucket_conflict,
    column_conflict,
    deleted_ranges,
    file_conflict,
    find_conflict,
    rewrites_rows,
)
from paimon_spark.engine.commit.entries import Changes, Touched, adds, column, numbers, together, where
from paimon_spark.engine.commit.index_files import head_index
from paimon_spark.engine.commit.manifest_merge import cancelled
from paimon_spark.engine.commit.requests import Check, PlannedOn, SnapshotRequest
from paimon_spark.errors import CommitConflictError, CorruptFileError
from paimon_spark.format.arrays.arrow_numpy import array_of
from paimon_spark.format.metadata_files.index_manifest import DELETION_VECTORS, HASH, IndexManifestEntry
from paimon_spark.format.metadata_files.manifest import FileKind
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.metadata.branches import same_snapshot
from paimon_spark.metadata.features import crosses_partitions
from paimon_spark.metadata.handle import TableHandle, read_main_branch
from paimon_spark.metadata.layout import MAIN, POSTPONE_BUCKET
from paimon_spark.metadata.live_files import file_ids
from paimon_spark.metadata.schemas import list_schema_ids, read_schema, schemas_by_id
from paimon_spark.metadata.snapshots import find_snapshot, get_snapshot
from paimon_spark.options.write import LAST_SAFE_SNAPSHOT, CommitOptions


@dataclass(frozen=True, slots=True, eq=False)
class ComparedFiles:
    """Live entries of the touched partitions at `head`."""

    head: Snapshot
    entries: pa.Table


def check_changes(
    handle: TableHandle,
    options: CommitOptions,
    request: SnapshotRequest,
    head: Snapshot | None,
    commit_user: str,
    earlier: ComparedFiles | None,
) -> tuple[Changes, ComparedFiles | None]:
    """Check the changes of `request` on top of `head`: the changes to make, and the files they were compared with.

    Plain appends read nothing of the head. `earlier` are the files of an attempt on an older head.

    Raises:
        CommitConflictError: the changes contradict the head.
    """
    checks = _Checks(handle, options, request, request.changes_on(handle, head), head, commit_user)
    problem = checks.first_problem(earlier)
    if problem is not None:
        raise _conflict(handle, head, commit_user, problem)
    return checks.changes, checks.compared


def _conflict(handle: TableHandle, head: Snapshot | None, commit_user: str, problem: str) -> CommitConflictError:
    on = "the empty table" if head is None else f"snapshot {head.id}, by user {head.commit_user}"
    return CommitConflictError(
        f"the commit of user {commit_user} to {handle.describe()} contradicts {on}: {problem}. Nothing was committed; "
        "read the table again and write again",
        table=handle.name,
        branch=handle.branch,
        snapshot_id=None if head is None else head.id,
        commit_user=commit_user,
    )


class _Checks:
    """The checks of one attempt. Each returns a description of the first problem, or None.

    Attributes:
        changes: of the request, without files that the table has already where those are to be discarded.
        compared: the files of the head that they were compared with.
    """

    def __init__(
        self,
        handle: TableHandle,
        options: CommitOptions,
        request: SnapshotRequest,
        changes: Changes,
        head: Snapshot | None,
        commit_user: str,
    ) -> None:
        self._handle, self._options, self._request, self._head = handle, options, request, head
        self._commit_user = commit_user
        self.changes = changes
        self.compared: ComparedFiles | None = None

    def first_problem(self, earlier: ComparedFiles | None) -> str | None:
        wanted = self._request.checks
        problem = self._history(self._request.planned_on) if Check.HISTORY in wanted else None
        if problem is not None:
            return problem
        head = self._head
        only_on = self._request.only_on
        if only_on is not None and not same_snapshot(only_on, head):
            return f"it was computed for snapshot {only_on.id}, which is no longer the head"
        if head is None:
            files = self.changes.files
            return bucket_conflict(self._handle, together(), files) or file_conflict(together(), files)
        if self._options.last_safe_snapshot is not None and self._touched:
            self._strict(self._options.last_safe_snapshot, head)
        planned_on = self._request.planned_on
        if planned_on is not None and self.changes and not all(same_snapshot(s, head) for s in planned_on.snapshots):
            for check, find in (
                (Check.HASH_INDEX, self._hash_index),
                (Check.MERGED_ROWS, self._merged_rows),
                (Check.MOVED_KEYS, self._moved_keys),
                (Check.COLUMNS, self._columns),
            ):
                problem = find(planned_on, head) if check in wanted else None
                if problem is not None:
                    return problem
        discards = self._options.discard_duplicate_files and self._request.kind is CommitKind.APPEND
        if Check.FILES in wanted or discards:
            return self._files(head, earlier, discards)
        if Check.BUCKETS in wanted and self.changes and self._buckets_may_differ:
            return bucket_conflict(self._handle, self._touched.live(head), self.changes.files)
        return None

    @cached_property
    def _touched(self) -> Touched:
        """Partitions with changed files, or changed vectors or global indexes."""
        partitions = column(self.changes.files, "partition")
        of_index = {
            e.partition for e in self.changes.index if e.index_type == DELETION_VECTORS or e.global_index is not None
        }
        return Touched(self._handle, pa.concat_arrays([partitions, array_of(sorted(of_index), pa.binary())]))

    @cached_property
    def _has_lost_base(self) -> bool:
        """Whether a snapshot that the writers continued from expired, or the history was replaced."""
        bases = [] if self._request.planned_on is None else self._request.planned_on.snapshots
        return any(s is not None and not _continues(self._handle, s, self._head) for s in bases)

    @cached_property
    def _since(self) -> list[Snapshot] | None:
        """The snapshots after the oldest one that the writers continued from; None when that is unknown."""
        planned_on, head = self._request.planned_on, self._head
        assert planned_on is not None
        assert head is not None
        oldest = planned_on.oldest
        return None if self._has_lost_base else _between(self._handle, 0 if oldest is None else oldest.id, head)

    @property
    def _overwritten_since(self) -> bool:
        """Whether an overwrite is among the snapshots since, or may be."""
        return self._since is None or any(s.commit_kind is CommitKind.OVERWRITE for s in self._since)

    def _history(self, planned_on: PlannedOn | None) -> str | None:
        """Whether the branch lost a snapshot that must remain, by a merge or a roll-back.

        Rows of keys were numbered after rows that are gone, so older ones could be taken for newer.
        """
        # Compared by identity, never by id alone: after a merge or a roll-back an id may be another snapshot.
        if planned_on is None or not planned_on.must_remain:
            return None
        head = self._head
        for base in planned_on.snapshots:
            if base is None:
                continue
            now = head if head is None or head.id == base.id else find_snapshot(self._handle, base.id)
            has_expired = now is None and head is not None and base.id < head.id
            if not has_expired and not same_snapshot(now, base):
                return f"snapshot {base.id}, which its writers continued from, is no longer in the branch's history"
        return None

    def _hash_index(self, planned_on: PlannedOn, head: Snapshot) -> str | None:
        """Whether another commit gave or took keys of a touched partition after the writers read its hash index.

        Writers without new keys need what they read still to be there; only an overwrite takes it away.
        """
        if self._handle.options.bucket != -1 or not self._handle.schema.primary_keys:
            return None
        places_keys = any(e.index_type == HASH and e.kind == FileKind.ADD for e in self.changes.index)
        if not places_keys and not self._overwritten_since:
            return None
        read = planned_on.oldest
        if read is not None and self._has_lost_base:
            return f"snapshot {read.id}, which its writers continued from, is gone meanwhile"
        before = _hash_files(self._touched, head_index(self._handle, read))
        if before == _hash_files(self._touched, head_index(self._handle, head)):
            return None
        return (
            "another commit changed which keys the dynamic buckets of the same partitions have, so a key could come to "
            "lie in two; only one job at a time can write to a partition with dynamic buckets"
        )

    def _merged_rows(self, planned_on: PlannedOn, head: Snapshot) -> str | None:
        """Whether a row that a MERGE did not find was added by another MERGE or UPDATE, since the rows were read.

        Rows without keys would come twice. Plain appends are not looked at: they count as coming after the merge.
        """
        if self._request.operation != "MERGE" or self._handle.schema.primary_keys:
            return None
        if self._since is None:
            read = planned_on.oldest
            return (
                f"a snapshot after {0 if read is None else read.id}, which its rows were read from, has expired or was "
                "replaced meanwhile"
            )
        for snapshot in self._since:
            if snapshot.operation in ("MERGE", "UPDATE") and adds(self._touched.delta(snapshot)).any():
                return (
                    f"snapshot {snapshot.id}, a {snapshot.operation}, added rows to the same partitions, and the merge "
                    "did not see whether they match"
                )
        return None

    def _moved_keys(self, planned_on: PlannedOn, head: Snapshot) -> str | None:
        """Whether keys that may move between partitions may have done so after the writers looked where they are."""
        if not crosses_partitions(self._handle.schema, self._handle.options):
            return None
        if self._since is not None and all(s.commit_kind is CommitKind.COMPACT for s in self._since):
            return None
        return (
            "another commit wrote rows meanwhile, and since the primary key lacks a partition column, a key could come "
            "to lie in two partitions; only one job at a time can write to such a table"
        )

    def _columns(self, planned_on: PlannedOn, head: Snapshot) -> str | None:
        """Whether another commit changed or removed columns of the same rows since they were read (data evolution)."""
        if not self._handle.options.data_evolution:
            return None
        deleted = deleted_ranges(self._touched.live(head), self.changes.index)
        if not rewrites_rows(self.changes.files) and not len(deleted[0]):
            return None
        read = planned_on.oldest
        if self._since is None:
            return (
                f"a snapshot after {0 if read is None else read.id}, which its rows were read from, has expired or was "
                "replaced meanwhile"
            )
        theirs = [(s.id, self._touched.delta(s)) for s in self._since if s.commit_kind is not CommitKind.COMPACT]
        entries = together(self.changes.files, *(e for _, e in theirs))
        schemas = schemas_by_id(self._handle, pc.unique(entries.column("schema_id")).to_pylist())
        next_row_id = 0 if read is None else read.next_row_id or 0
        return column_conflict(schemas, self.changes.files, theirs, deleted, next_row_id)

    def _files(self, head: Snapshot, earlier: ComparedFiles | None, discards: bool) -> str | None:
        """Whether the changes contradict the live files of the head."""
        self.compared = compared = self._live(head, earlier)
        if discards:
            self.changes = _without_known(self.changes, compared.entries)
        vectors = self._handle.options.deletion_vectors and not self._request.depends_on_head
        return find_conflict(
            self._handle,
            compared.entries,
            head_index(self._handle, head) if vectors else (),
            self.changes.files,
            self.changes.index,
            overwrites=self._request.kind is CommitKind.OVERWRITE,
            checks_vectors=vectors,
            keys_are_ranges=bool(self._handle.schema.primary_keys) and not self._options.pk_clustering_override,
            next_row_id=head.next_row_id or 0,
            compacts=self._request.kind is CommitKind.COMPACT,
        )

    def _live(self, head: Snapshot, earlier: ComparedFiles | None) -> ComparedFiles:
        """The head's live entries; those of an earlier attempt and the deltas since, where none was an overwrite."""
        if earlier is not None and not self._request.depends_on_head and _continues(self._handle, earlier.head, head):
            between = _between(self._handle, earlier.head.id, head)
            if between is not None and all(s.commit_kind is not CommitKind.OVERWRITE for s in between):
                deltas = (self._touched.delta(s) for s in between)
                entries = cancelled(self._handle, together(earlier.entries, *deltas))
                return ComparedFiles(head, where(entries, adds(entries)))
        return ComparedFiles(head, self._touched.live(head))

    @property
    def _buckets_may_differ(self) -> bool:
        """Whether an append has to look at the number of buckets: its writers did not, or one may have changed it."""
        if self._handle.options.bucket == POSTPONE_BUCKET:
            # Any commit since may have given a new partition its number of buckets.
            planned_on, head = self._request.planned_on, self._head
            known = planned_on is not None and all(same_snapshot(s, head) for s in planned_on.snapshots)
            return not known and bool((numbers(self.changes.files, "total_buckets") > 0).any())
        if self._handle.options.bucket <= 0:
            return False
        return self._options.checks_buckets or (self._request.planned_on is not None and self._overwritten_since)

    def _strict(self, last_safe: int, head: Snapshot) -> None:
        """Check the snapshots of other users after `commit.strict-mode.last-safe-snapshot`.

        Compactions and overwrites may not have touched the same partitions; for an overwrite appends may not either.

        Raises:
            CommitConflictError: one has.
            SnapshotExpiredError: one of them is gone, so it cannot be told.
        """
        for snapshot_id in range(last_safe + 1, head.id + 1):
            snapshot = head if snapshot_id == head.id else get_snapshot(self._handle, snapshot_id)
            if snapshot.commit_user != self._commit_user and self._is_touched_by(snapshot):
                raise CommitConflictError(
                    f"snapshot {snapshot.id} of {self._handle.describe()}, {snapshot.commit_kind.value} by user "
                    f"{snapshot.commit_user}, changed partitions that the commit of user {self._commit_user} changes "
                    f"too, and {LAST_SAFE_SNAPSHOT.key} = {last_safe} forbids that. Nothing was committed; "
                    "read the table again and write again",
                    table=self._handle.name,
                    branch=self._handle.branch,
                    snapshot_id=snapshot.id,
                )

    def _is_touched_by(self, snapshot: Snapshot) -> bool:
        if snapshot.commit_kind in (CommitKind.COMPACT, CommitKind.OVERWRITE):
            return len(self._touched.delta(snapshot)) > 0 or self._has_changed_index(snapshot)
        if snapshot.commit_kind is CommitKind.APPEND and self._request.kind is CommitKind.OVERWRITE:
            entries = self._touched.delta(snapshot)
            return len(where(entries, np.asarray(numbers(entries, "bucket") >= 0))) > 0
        return False

    def _has_changed_index(self, snapshot: Snapshot) -> bool:
        before = find_snapshot(self._handle, snapshot.id - 1)
        if before is not None and before.index_manifest == snapshot.index_manifest:
            return False
        return any(e.partition in self._touched.bytes for e in head_index(self._handle, snapshot))


def _continues(handle: TableHandle, before: Snapshot, head: Snapshot | None) -> bool:
    """Whether `head` was committed on the history that has the snapshot `before`; False also when that has expired.

    A merge writes the new history over main's snapshot files. MAIN-BRANCH names another directory until all of them are
    written, so it is read first: when it is unchanged, either `before` is read as it is in the history of `head`, or
    the merge began after `head` was read, which `verify.verify_committed` notices.
    """
    if head is None or before.id >= head.id:
        return same_snapshot(before, head)
    layout = handle.layout
    if layout.branch == MAIN and read_main_branch(handle.store, layout.root) != layout.main_branch:
        return False
    return same_snapshot(find_snapshot(handle, before.id), before)


def _between(handle: TableHandle, after_id: int, head: Snapshot) -> list[Snapshot] | None:
    """The snapshots after an id up to the head; None when one of them is gone."""
    alive = []
    for i in range(after_id + 1, head.id + 1):
        found = head if i == head.id else find_snapshot(handle, i)
        if found is None:
            return None
        alive.append(found)
    return alive


def _without_known(changes: Changes, base: pa.Table) -> Changes:
    """The changes without files that the table has."""
    ids = file_ids(together(base, changes.files))
    known = np.isin(ids[len(base) :], ids[: len(base)])
    return replace(changes, files=together(where(changes.files, ~known)))


def _hash_files(touched: Touched, index: Sequence[IndexManifestEntry]) -> set[str]:
    return {e.file_name for e in index if e.index_type == HASH and e.partition in touched.bytes}


def check_schema(handle: TableHandle) -> int:
    """Return the id of the branch's newest schema, after checking that the handle's own is unchanged.

    Newer schemas are no matter: files are read by the ids of their fields.

    Raises:
        CommitConflictError: the schema is gone or another: the table was dropped, or made anew.
    """
    ids = list_schema_ids(handle.store, handle.layout)
    wanted = handle.schema
    if not ids or ids[-1] < wanted.id:
        raise _gone(handle, "its schema is gone, so it was dropped" if not ids else f"it has the schemas {ids} only")
    try:
        found = read_schema(handle.store, handle.layout, wanted.id)
    except CorruptFileError:
        if list_schema_ids(handle.store, handle.layout):
            raise
        raise _gone(handle, "its schema is gone, so it was dropped") from None
    if found != wanted:
        raise _gone(handle, f"its schema {wanted.id} is another now, so it was dropped and created again")
    return ids[-1]


def _gone(handle: TableHandle, what: str) -> CommitConflictError:
    return CommitConflictError(
        f"{handle.describe()} changed while it was written to with schema {handle.schema.id}: {what}. Nothing was "
        "committed; open the table again and write again",
        table=handle.name,
        branch=handle.branch,
        schema_id=handle.schema.id,
    )
