"""A snapshot whose only difference is that its manifests are fewer.

Source: Java `operation/FileStoreCommitImpl.compactManifest`, `operation/ManifestFileMerger`.
"""

from __future__ import annotations

from dataclasses import replace

from paimon_spark.engine.commit.attempts import BATCH_COMMIT_IDENTIFIER, Author, make_snapshot
from paimon_spark.engine.commit.changes import Changes
from paimon_spark.engine.commit.committer import new_commit_user
from paimon_spark.engine.commit.entries import no_entries
from paimon_spark.engine.commit.publish import check_store
from paimon_spark.engine.commit.requests import Wanted
from paimon_spark.engine.commit.snapshot import NothingToMerge
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.retry import Surroundings

_NOW = Surroundings()


def compact_manifest(handle: TableHandle, around: Surroundings = _NOW) -> Snapshot | None:
    """Merge the manifests of the head, whatever the table's thresholds: the same files in fewer manifests.

    Everything else is as in the head. When others commit meanwhile, their head is merged.

    Returns:
        The snapshot made, of kind COMPACT; None when the manifests are as few as they can be, or there are none.

    Raises:
        UnsupportedFeatureError: the store cannot create a snapshot exclusively (`publish.check_store`).
        CorruptFileError: the manifests contradict each other.
        CommitRetriesExhaustedError: others were faster every time.
        CommitOutcomeUnknownError: the store stopped answering at the decisive moment.
        StorageError: the store failed before that; the table is as before.
    """
    check_store(handle)
    options = replace(handle.options.commit, manifest_merge_min_count=1, manifest_full_compaction_bytes=1)
    nothing = Changes(no_entries(), no_entries())
    wanted = Wanted(CommitKind.COMPACT, BATCH_COMMIT_IDENTIFIER, lambda _: nothing, compacts_manifests=True)
    try:
        return make_snapshot(handle, options, wanted, Author(new_commit_user(handle.options)), around).snapshot
    except NothingToMerge:
        return None
