"""A snapshot with the state of an earlier one, as the newest: history goes on, nothing of it is taken away.

Source: Java `operation/FileStoreCommitImpl.rollbackToAsLatest`.
"""

from __future__ import annotations

from paimon_spark.engine.commit.attempts import BATCH_COMMIT_IDENTIFIER, Author, make_snapshot
from paimon_spark.engine.commit.changes import Changes
from paimon_spark.engine.commit.entries import named_in, no_entries, of_kind, together, where
from paimon_spark.engine.commit.publish import check_store
from paimon_spark.engine.commit.requests import Wanted
from paimon_spark.format.metadata_files.manifest import FileKind
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests
from paimon_spark.metadata.retry import Surroundings

_NOW = Surroundings()


def restore(handle: TableHandle, target: Snapshot, commit_user: str, around: Surroundings = _NOW) -> Snapshot:
    """Make the state of `target` the branch's newest, by one snapshot of kind OVERWRITE, on whatever head there is.

    The files of `target` must be kept by a snapshot or tag until this is done.

    Raises:
        UnsupportedFeatureError: the store cannot create a snapshot exclusively (`publish.check_store`).
        FileMissingError, CorruptFileError: what `target` names cannot be read.
        CommitRetriesExhaustedError: others were faster every time.
        CommitConflictError: the table was dropped, or the branch has another history now.
        CommitOutcomeUnknownError: the store stopped answering at the decisive moment.
        StorageError: the store failed before that; the table is as before.
    """
    check_store(handle)
    live = live_entries(handle, data_manifests(handle, target))

    def changes_on(head: Snapshot | None) -> Changes:
        now = no_entries() if head is None else live_entries(handle, data_manifests(handle, head))
        gone = of_kind(where(now, ~named_in(now, live)), FileKind.DELETE)
        back = of_kind(where(live, ~named_in(live, now)), FileKind.ADD)
        return Changes(together(gone, back), no_entries())

    wanted = Wanted(CommitKind.OVERWRITE, BATCH_COMMIT_IDENTIFIER, changes_on, same_changes=False, restores=target)
    options = handle.options.commit
    return make_snapshot(handle, options, wanted, Author(commit_user), around).snapshot
