"""The files of the head that a commit has to agree with, and the checks against them.

Source: Java `operation/commit/CommitScanner`, `operation/FileStoreCommitImpl.tryCommitOnce`.

Strict mode: nobody else may have changed what a commit touches since a snapshot that is known.

Source: Java `operation/commit/StrictModeChecker`.

Whether the table is still the one that the files were written for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from paimon_spark.engine.commit.changes import Changes
from paimon_spark.engine.commit.conflicts import bucket_conflict, file_conflict, find_conflict
from paimon_spark.engine.commit.entries import Touched, adds, column, numbers, together, where
from paimon_spark.engine.commit.index_files import head_index
from paimon_spark.engine.commit.manifest_merge import cancelled
from paimon_spark.engine.commit.requests import Wanted
from paimon_spark.errors import CommitConflictError, CorruptFileError
from paimon_spark.format.arrays.python_values import array_of
from paimon_spark.format.metadata_files.index_manifest import DELETION_VECTORS, HASH, IndexManifestEntry
from paimon_spark.format.metadata_files.manifest import FileKind
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.metadata.branches import snapshot_identity
from paimon_spark.metadata.features import crosses_partitions
from paimon_spark.metadata.handle import TableHandle, read_main_branch
from paimon_spark.metadata.layout import MAIN
from paimon_spark.metadata.live_files import file_ids
from paimon_spark.metadata.schemas import list_schema_ids, read_schema
from paimon_spark.metadata.snapshots import find_snapshot, get_snapshot
from paimon_spark.options.commit import LAST_SAFE_SNAPSHOT, CommitOptions


@dataclass(frozen=True, slots=True, eq=False)
class Base:
    """Live entries of the touched partitions at `head`."""

    head: Snapshot
    entries: pa.Table


def checked(
    handle: TableHandle,
    options: CommitOptions,
    wanted: Wanted,
    changes: Changes,
    head: Snapshot | None,
    commit_user: str,
    earlier: Base | None,
) -> tuple[Changes, Base | None]:
    """The changes that fit on top of `head`, and what they were compared with, for the next attempt.

    Plain appends read nothing of the head.

    Raises:
        CommitConflictError: they do not fit.
    """
    touched = _touched(handle, changes)
    try:
        _fits(_history_conflict(handle, wanted, head))
        if head is None:
            _fits(bucket_conflict(handle, together(), changes.files) or file_conflict(together(), changes.files))
            return changes, None
        check_strictly(handle, options, wanted, touched, head, commit_user)
        _fits(_hash_conflict(handle, wanted, changes, touched, head))
        _fits(_merge_conflict(handle, wanted, touched, head))
        _fits(_key_conflict(handle, wanted, head))
        discards = options.discard_duplicate_files and wanted.kind is CommitKind.APPEND
        if wanted.check_conflicts or discards:
            base = _base(handle, wanted, touched, head, earlier)
            if discards:
                changes = _without_known(changes, base.entries)
            vectors = handle.options.deletion_vectors and wanted.same_changes
            _fits(
                find_conflict(
                    handle,
                    base.entries,
                    head_index(handle, head) if vectors else (),
                    changes.files,
                    changes.index,
                    overwrites=wanted.kind is CommitKind.OVERWRITE,
                    checks_vectors=vectors,
                    keys_are_ranges=bool(handle.schema.primary_keys) and not options.pk_clustering_override,
                )
            )
            return changes, base
        if _buckets_may_differ(handle, options, wanted, head):
            _fits(bucket_conflict(handle, touched.live(head), changes.files))
    except _ConflictFound as e:
        raise conflict(handle, head, commit_user, str(e)) from None
    return changes, None


class _ConflictFound(Exception):  # noqa: N818 - a sentence about the commit, made an error by `checked`
    """What is wrong, in words."""


def _fits(problem: str | None) -> None:
    if problem is not None:
        raise _ConflictFound(problem)


def conflict(handle: TableHandle, head: Snapshot | None, commit_user: str, what: str) -> CommitConflictError:
    """The error for a commit that does not fit on top of `head`."""
    on = "the empty table" if head is None else f"snapshot {head.id}, by user {head.commit_user}"
    return CommitConflictError(
        f"the commit of user {commit_user} to {handle.describe()} contradicts {on}: {what}. Nothing was committed; "
        "read the table again and write again",
        table=handle.name,
        branch=handle.branch,
        snapshot_id=None if head is None else head.id,
        commit_user=commit_user,
    )


def _touched(handle: TableHandle, changes: Changes) -> Touched:
    """Partitions with changed files, or changed vectors or global indexes."""
    partitions = column(changes.files, "partition")
    of_index = {e.partition for e in changes.index if e.index_type == DELETION_VECTORS or e.global_index is not None}
    return Touched(handle, pa.concat_arrays([partitions, array_of(sorted(of_index), pa.binary())]))


def _base(handle: TableHandle, wanted: Wanted, touched: Touched, head: Snapshot, earlier: Base | None) -> Base:
    """The head's live entries; those of an earlier attempt and the deltas since, where no overwrite came between."""
    if earlier is not None and wanted.same_changes and _continues(handle, earlier.head, head):
        between = _between(handle, earlier.head.id, head)
        if between is not None and all(s.commit_kind is not CommitKind.OVERWRITE for s in between):
            entries = cancelled(handle, together(earlier.entries, *(touched.delta(s) for s in between)))
            return Base(head, where(entries, adds(entries)))
    return Base(head, touched.live(head))


def _continues(handle: TableHandle, before: Snapshot, head: Snapshot) -> bool:
    """Whether `head` was committed on the history that has the snapshot `before`; False also when that has expired.

    A merge writes the new history over main's snapshot files. MAIN-BRANCH names another directory until all of them are
    written, so it is read first: when it is unchanged, either `before` is read as it is in the history of `head`, or
    the merge began after `head` was read, which `still_there.counts` notices.
    """
    layout = handle.layout
    if layout.branch == MAIN and read_main_branch(handle.store, layout.root) != layout.main_branch:
        return False
    now = find_snapshot(handle, before.id) if before.id < head.id else None
    return now is not None and snapshot_identity(now) == snapshot_identity(before)


def _between(handle: TableHandle, after_id: int, head: Snapshot) -> list[Snapshot] | None:
    """The snapshots after an id up to the head; None when one of them is gone."""
    found = [head if i == head.id else find_snapshot(handle, i) for i in range(after_id + 1, head.id + 1)]
    alive = [s for s in found if s is not None]
    return alive if len(alive) == len(found) else None


def _without_known(changes: Changes, base: pa.Table) -> Changes:
    """The changes without files that the table has."""
    ids = file_ids(together(base, changes.files))
    known = np.isin(ids[len(base) :], ids[: len(base)])
    return replace(changes, files=together(where(changes.files, ~known)))


def _buckets_may_differ(handle: TableHandle, options: CommitOptions, wanted: Wanted, head: Snapshot) -> bool:
    """Whether an append has to look at the number of buckets: its writers did not, or an overwrite came after them."""
    if handle.options.bucket <= 0 or wanted.kind is not CommitKind.APPEND:
        return False
    if options.checks_buckets:
        return True
    if wanted.planned_on is None or wanted.planned_on == head.id:
        return False
    return _overwritten_since(handle, wanted.planned_on, head)


def _overwritten_since(handle: TableHandle, snapshot_id: int, head: Snapshot) -> bool:
    """Whether an overwrite is among the snapshots after an id, or may be: one is gone, or the table was rolled back."""
    if snapshot_id > head.id:
        return True
    between = _between(handle, snapshot_id, head)
    return between is None or any(s.commit_kind is CommitKind.OVERWRITE for s in between)


def _history_conflict(handle: TableHandle, wanted: Wanted, head: Snapshot | None) -> str | None:
    """Whether the branch was given another history since the writers read it, by a merge or a roll-back.

    Their rows of keys were numbered after rows that are gone, so older ones could be taken for newer.
    """
    base = wanted.base
    if base is None:
        return None
    now = head if head is None or head.id == base.id else find_snapshot(handle, base.id)
    if now is None and head is not None and base.id < head.id:
        return None  # it has expired
    if now is not None and snapshot_identity(now) == snapshot_identity(base):
        return None
    return f"snapshot {base.id}, which its writers continued from, is no more in the branch's history"


def _hash_conflict(
    handle: TableHandle, wanted: Wanted, changes: Changes, touched: Touched, head: Snapshot
) -> str | None:
    """Whether another commit gave or took keys of a touched partition after the writers read its hash index.

    Writers without new keys need what they read still to be there; only an overwrite takes it away.
    """
    if wanted.planned_on is None or wanted.planned_on == head.id or not wanted.same_changes:
        return None
    if wanted.kind is CommitKind.COMPACT or handle.options.bucket != -1 or not handle.schema.primary_keys:
        return None
    places_keys = any(e.index_type == HASH and e.kind == FileKind.ADD for e in changes.index)
    if not places_keys and not _overwritten_since(handle, wanted.planned_on, head):
        return None
    read = find_snapshot(handle, wanted.planned_on) if wanted.planned_on else None
    if wanted.planned_on and read is None:
        return f"snapshot {wanted.planned_on}, which its writers continued from, is gone meanwhile"
    before = _hash_files(touched, head_index(handle, read))
    if before == _hash_files(touched, head_index(handle, head)):
        return None
    return (
        "another commit changed which keys the dynamic buckets of the same partitions have, so a key could come to lie "
        "in two; only one job at a time can write to a partition with dynamic buckets"
    )


def _key_conflict(handle: TableHandle, wanted: Wanted, head: Snapshot) -> str | None:
    """Whether keys that may move between partitions may have done so after the writers looked where they are."""
    if wanted.planned_on is None or wanted.planned_on == head.id or wanted.kind is CommitKind.COMPACT:
        return None
    if not crosses_partitions(handle.schema, handle.options):
        return None
    rolled_back = wanted.planned_on > head.id
    between = None if rolled_back else _between(handle, wanted.planned_on, head)
    if between is not None and all(s.commit_kind is CommitKind.COMPACT for s in between):
        return None
    return (
        "another commit wrote rows meanwhile, and since the primary key lacks a partition column, a key could come to "
        "lie in two partitions; only one job at a time can write to such a table"
    )


def _merge_conflict(handle: TableHandle, wanted: Wanted, touched: Touched, head: Snapshot) -> str | None:
    """Whether a row that a MERGE did not find was added by another MERGE or UPDATE, since the rows were read.

    Rows without keys would come twice. Plain appends are not looked at: they count as coming after the merge.
    """
    if wanted.operation != "MERGE" or wanted.planned_on is None or wanted.planned_on >= head.id:
        return None
    if handle.schema.primary_keys or wanted.kind is CommitKind.COMPACT:
        return None
    between = _between(handle, wanted.planned_on, head)
    if between is None:
        return f"a snapshot after {wanted.planned_on}, which its rows were read from, has expired meanwhile"
    for snapshot in between:
        if snapshot.operation in ("MERGE", "UPDATE") and adds(touched.delta(snapshot)).any():
            return (
                f"snapshot {snapshot.id}, a {snapshot.operation}, added rows to the same partitions, and the merge did "
                "not see whether they match"
            )
    return None


def _hash_files(touched: Touched, index: Sequence[IndexManifestEntry]) -> set[str]:
    return {e.file_name for e in index if e.index_type == HASH and e.partition in touched.bytes}


def check_strictly(
    handle: TableHandle,
    options: CommitOptions,
    wanted: Wanted,
    touched: Touched,
    head: Snapshot,
    commit_user: str,
) -> None:
    """Check the snapshots of other users after `commit.strict-mode.last-safe-snapshot`; nothing when it is not set.

    Compactions and overwrites may not have touched the same partitions; for an overwrite appends may not either.

    Raises:
        CommitConflictError: one has.
        SnapshotExpiredError: one of them is gone, so it cannot be told.
    """
    if options.last_safe_snapshot is None or not touched:
        return
    for snapshot_id in range(options.last_safe_snapshot + 1, head.id + 1):
        snapshot = head if snapshot_id == head.id else get_snapshot(handle, snapshot_id)
        if snapshot.commit_user != commit_user and _touches(handle, wanted, touched, snapshot):
            raise CommitConflictError(
                f"snapshot {snapshot.id} of {handle.describe()}, {snapshot.commit_kind.value} by user "
                f"{snapshot.commit_user}, changed partitions that the commit of user {commit_user} changes too, and "
                f"{LAST_SAFE_SNAPSHOT.key} = {options.last_safe_snapshot} forbids that. Nothing was committed; "
                "read the table again and write again",
                table=handle.name,
                branch=handle.branch,
                snapshot_id=snapshot.id,
            )


def _touches(handle: TableHandle, wanted: Wanted, touched: Touched, snapshot: Snapshot) -> bool:
    if snapshot.commit_kind in (CommitKind.COMPACT, CommitKind.OVERWRITE):
        return len(touched.delta(snapshot)) > 0 or _touches_index(handle, touched, snapshot)
    if snapshot.commit_kind is CommitKind.APPEND and wanted.kind is CommitKind.OVERWRITE:
        entries = touched.delta(snapshot)
        return len(where(entries, np.asarray(numbers(entries, "bucket") >= 0))) > 0
    return False


def _touches_index(handle: TableHandle, touched: Touched, snapshot: Snapshot) -> bool:
    before = find_snapshot(handle, snapshot.id - 1)
    if before is not None and before.index_manifest == snapshot.index_manifest:
        return False
    return any(e.partition in touched.bytes for e in head_index(handle, snapshot))


def check_schema(handle: TableHandle) -> int:
    """The id of the branch's newest schema, once the handle's own is found unchanged.

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
