"""Committer: commit messages of writers become one snapshot, or none.

Source: Java `operation/FileStoreCommitImpl`, `table/sink/TableCommitImpl`.

Tests: tests/unit/engine/commit/test_committer.py, test_model.py, test_compact_manifest.py, test_set_statistics.py.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, TypedDict

import pyarrow as pa

from paimon_spark.engine.commit.attempts import Author, CommitResult, make_snapshot
from paimon_spark.engine.commit.conflicts import rewrites_rows
from paimon_spark.engine.commit.entries import (
    Changes,
    adds,
    column,
    compact_changes,
    data_changes,
    new_files,
    no_entries,
    of_kind,
    remove_files,
    together,
    where,
)
from paimon_spark.engine.commit.listeners import CommitListener
from paimon_spark.engine.commit.overwrite import (
    NamedPartitions,
    Overwritten,
    WholeTable,
    check_nothing_appears,
    checked_overwrite,
)
from paimon_spark.engine.commit.publish import check_store
from paimon_spark.engine.commit.requests import (
    BATCH_COMMIT_IDENTIFIER,
    Append,
    ChangeColumns,
    ChangeRows,
    Compact,
    CompactManifests,
    Overwrite,
    PlannedOn,
    Restore,
    SetStatistics,
    SnapshotRequest,
)
from paimon_spark.engine.scan.fallback import other_partitions
from paimon_spark.engine.tasks import NOTHING, CommitMessage, Increment
from paimon_spark.errors import CommitError, CommitOutcomeUnknownError, InvalidInputError
from paimon_spark.format.metadata_files.index_manifest import DELETION_VECTORS
from paimon_spark.format.metadata_files.manifest import FileKind
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.format.metadata_files.statistics import Statistics, encode
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests
from paimon_spark.metadata.partition_path import partition_path_of
from paimon_spark.metadata.retry import Clock
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.options.table import TableOptions
from paimon_spark.redaction import get_logger

_LOG = get_logger(__name__)

OPERATIONS: Final = (
    "WRITE", "OVERWRITE", "DELETE", "TRUNCATE", "UPDATE", "MERGE", "CREATE_TABLE_AS_SELECT",
    "REPLACE_TABLE_AS_SELECT", "CREATE_OR_REPLACE_TABLE_AS_SELECT",
)  # fmt: skip
"""Java's `Snapshot.Operation`."""


class _About(TypedDict):
    """Values that all requests of one commit share."""

    identifier: int
    watermark: int | None
    operation: str | None
    planned_on: PlannedOn | None


def new_commit_user(options: TableOptions) -> str:
    """A new name: option `commit.user-prefix`, then a random UUID."""
    prefix = options.commit.user_prefix
    name = str(uuid.uuid4())
    return f"{prefix}_{name}" if prefix else name


class Committer:
    """Publishes snapshots on one branch. Driver only; not safe for threads, any number may work side by side.

    After an error the table is as before, but for CommitOutcomeUnknownError, where it may be as after. Files of the
    messages are never deleted here: call `abort` with them when the error is not CommitOutcomeUnknownError.

    Args:
        handle: the branch. Its schema is the one the messages' files were written with.
        commit_user: who commits; streams keep theirs over restarts, batches take a new one (`new_commit_user`).
        clock: for tests.
        listeners: notified of each snapshot, beside those that the options name.
        filtered_up_to: id of the head up to which no snapshot is this commit, as the caller found out; 0 for a
            branch without snapshots. A later one of the same user, identifier and kind is a duplicate, and is not
            made again.
        may_repeat: whether others may make the same commits, as a stream that runs twice does. Batches never do.

    Raises:
        UnsupportedFeatureError: the store cannot create a snapshot exclusively (`publish.check_store`).
    """

    def __init__(
        self,
        handle: TableHandle,
        commit_user: str,
        *,
        clock: Clock = Clock(),  # noqa: B008 - a frozen value
        listeners: Sequence[CommitListener] = (),
        filtered_up_to: int | None = None,
        may_repeat: bool = True,
    ) -> None:
        check_store(handle)
        self._handle = handle
        self._user = commit_user
        self._options = handle.options.commit
        self._clock = clock
        self._listeners = tuple(listeners)
        self._filtered_up_to = filtered_up_to
        self._may_repeat = may_repeat
        self._landed: set[str] = set()

    def commit(
        self,
        messages: Sequence[CommitMessage],
        identifier: int = BATCH_COMMIT_IDENTIFIER,
        *,
        planned_on: PlannedOn | None = None,
        watermark: int | None = None,
        properties: Mapping[str, str] | None = None,
        provenance: Mapping[str, str] | None = None,
        operation: str | None = None,
        only_on: Snapshot | None = None,
        force_create: bool = False,
        removed: pa.Table | None = None,
    ) -> CommitResult:
        """Commit messages: a snapshot of their rows, then one of their compactions.

        The first is of kind APPEND, or OVERWRITE when it deletes rows or files. Without changes nothing is made.

        Args:
            messages: of all writers.
            identifier: number of this commit among the user's.
            planned_on: what the writers continued from. A change of the hash index or of the number of buckets since
                then is a conflict.
            watermark: epoch milliseconds up to which rows are complete.
            properties: kept in the snapshots.
            provenance: kept in the snapshot of the rows alone: a compaction moves them, and adds nothing.
            operation: Java's `Snapshot.Operation`, for the history (`WRITE`, `DELETE`…).
            only_on: the head that the rows must follow directly; any other one is a conflict. None: any head.
            force_create: make a snapshot even without changes.
            removed: live entries of files that are deleted, too.

        Raises:
            CommitConflictError: the changes contradict those of others, or the table's schema was replaced.
            CommitRetriesExhaustedError: others were faster every time.
            CommitOutcomeUnknownError: the store stopped answering at the decisive moment.
            StorageError: the store failed before that.
        """
        data, compact = data_changes(messages), compact_changes(messages)
        if removed is not None and len(removed):
            data = replace(data, files=together(of_kind(removed, FileKind.DELETE), data.files))
        about = _About(identifier=identifier, watermark=watermark, operation=_known(operation), planned_on=planned_on)
        requests: list[SnapshotRequest] = []
        if data or force_create or self._options.makes_empty_snapshots:
            kind = ChangeRows if _deletes(data) else ChangeColumns if rewrites_rows(data.files) else Append
            kept = {**(properties or {}), **(provenance or {})}
            requests.append(kind(changes=data, properties=kept, only_on=only_on, **about))
        if compact:
            requests.append(Compact(changes=compact, properties=properties or {}, **about))
        result = self._make(requests, messages)
        _warn_of_other_branch(self._handle, compact)
        return result

    def overwrite(
        self,
        messages: Sequence[CommitMessage],
        identifier: int = BATCH_COMMIT_IDENTIFIER,
        *,
        partitions: Overwritten = WholeTable(),  # noqa: B008 - a frozen value
        planned_on: PlannedOn | None = None,
        watermark: int | None = None,
        properties: Mapping[str, str] | None = None,
        provenance: Mapping[str, str] | None = None,
        operation: str | None = None,
    ) -> CommitResult:
        """Replace the rows of `partitions`, as of when the snapshot is made, with the new files of messages.

        One snapshot of kind OVERWRITE, also when nothing was replaced; none when the partitions present in the data
        are to be replaced and there is no data. Compactions follow in a second one. Changelog files are deleted, as
        Paimon shows no changelog of overwrites. `planned_on` is the snapshot whose keys the writers found to stay where
        they are, in tables whose keys may move between partitions; otherwise it plays no part.

        Raises:
            InvalidInputError: a partition is named wrongly, or new files lie outside of what is replaced.
            UnsupportedFeatureError: a partition gets no row, and those of a fallback branch would be read.
            CommitError, StorageError: as `commit`.
        """
        data, compact = data_changes(messages), compact_changes(messages)
        check_nothing_appears(self._handle, partitions, data)
        new = checked_overwrite(self._handle, self._options, partitions, data, upgrade=not compact)
        about = _About(identifier=identifier, watermark=watermark, operation=_known(operation), planned_on=planned_on)
        requests: list[SnapshotRequest] = []
        if new is not None:
            kept = {**(properties or {}), **(provenance or {})}
            requests.append(Overwrite(overwritten=partitions, new=new, properties=kept, **about))
        if compact:
            shown = replace(compact, changelog=no_entries())
            requests.append(Compact(changes=shown, properties=properties or {}, **about))
        result = self._make(requests, messages)
        self._drop_changelog(messages)
        return result

    def truncate(self) -> CommitResult:
        """Remove all rows, by one snapshot of kind OVERWRITE. Raises as `overwrite`."""
        return self.overwrite([], operation="TRUNCATE")

    def drop_partitions(self, specs: Sequence[Mapping[str, object]]) -> CommitResult:
        """Remove the rows of partitions that match one of `specs`, as in `NamedPartitions`. Raises as `overwrite`."""
        return self.overwrite([], partitions=NamedPartitions(tuple(specs)))

    def restore(self, target: Snapshot) -> CommitResult:
        """Make the state of an earlier snapshot the newest, by one snapshot of kind OVERWRITE; the history goes on.

        The files of `target` must be kept by a snapshot or tag until this is done.

        Raises:
            FileMissingError, CorruptFileError: what `target` names cannot be read.
            CommitError, StorageError: as `commit`.
        """
        live = live_entries(self._handle, data_manifests(self._handle, target))
        return self.make(Restore(target=target, live=live))

    def compact_manifests(self) -> CommitResult:
        """Merge the manifests of the head, whatever the table's thresholds: the same files in fewer manifests.

        Everything else is as in the head. When others commit meanwhile, their head is merged. The snapshot is of kind
        COMPACT; none is made when the manifests are as few as they can be.

        Raises:
            CorruptFileError: the manifests contradict each other.
            CommitError, StorageError: as `commit`.

        Source: Java `operation/FileStoreCommitImpl.compactManifest`, `operation/ManifestFileMerger`.
        """
        return self.make(CompactManifests())

    def set_statistics(self, statistics: Statistics) -> CommitResult:
        """Make statistics those of the branch, by a snapshot of kind ANALYZE; later ones of the same schema keep them.

        Raises:
            CommitError, StorageError: as `commit`; the statistics file is gone unless the outcome is unknown.

        Source: Java `operation/FileStoreCommitImpl.commitStatistics`.
        """
        name = f"stats-{uuid.uuid4()}-0"
        path = self._handle.layout.statistics_path(name)
        self._handle.store.write(path, encode(statistics))
        try:
            return self.make(SetStatistics(file_name=name))
        except CommitOutcomeUnknownError:
            raise
        except Exception:
            self._handle.store.delete(path)
            raise

    def make(self, request: SnapshotRequest) -> CommitResult:
        """Make the snapshot of one request. Raises as `commit`."""
        return make_snapshot(self._handle, self._options, request, self._author, self._clock)

    @property
    def _author(self) -> Author:
        return Author(self._user, self._filtered_up_to, self._may_repeat, self._listeners)

    def abort(self, messages: Sequence[CommitMessage]) -> None:
        """Delete the new files of messages, except those committed, or perhaps committed. Failures are logged."""
        remove_files(self._handle, messages, self._landed)

    def _make(self, requests: Sequence[SnapshotRequest], messages: Sequence[CommitMessage]) -> CommitResult:
        result = CommitResult()
        for request in requests:
            landing = _files(request, messages)
            self._landed |= landing  # until the contrary is certain: an interrupt may come at any moment
            try:
                made = make_snapshot(self._handle, self._options, request, self._author, self._clock)
            except CommitOutcomeUnknownError:
                raise
            except Exception as e:
                self._landed -= landing
                if result.snapshots and isinstance(e, CommitError):
                    e.message += f" (Snapshot {result.snapshots[-1].id} of the same commit was made before.)"
                    e.context["committed"] = result.snapshot_ids
                raise
            if made.is_duplicate:
                self._landed -= landing
            result = result.followed_by(made)
        return result

    def _drop_changelog(self, messages: Sequence[CommitMessage]) -> None:
        only = [
            replace(
                m, data=Increment(changelog_files=m.data.changelog_files + m.compact.changelog_files), compact=NOTHING
            )
            for m in messages
            if m.data.changelog_files or m.compact.changelog_files
        ]
        if only:
            _LOG.warning(
                "deleted changelog files of an overwrite of %s, which has no changelog", self._handle.describe()
            )
            remove_files(self._handle, only, ())


def _warn_of_other_branch(handle: TableHandle, compact: Changes) -> None:
    """Log the partitions that a compaction left without rows, so that a fallback branch is read for them."""
    coming = adds(compact.files)
    gone = set(column(where(compact.files, ~coming), "partition").to_pylist())
    gone -= set(column(where(compact.files, coming), "partition").to_pylist())
    beside = other_partitions(handle, latest_snapshot(handle)) if gone else None
    if beside is None:
        return
    for partition in sorted(gone & beside.read):
        _LOG.warning(
            "a compaction left no row in partition %s of %s, which is read from branch %s now; drop it there too, "
            "unless that is meant",
            partition_path_of(handle, partition),
            handle.describe(),
            beside.other.handle.branch,
        )


def _deletes(changes: Changes) -> bool:
    """Whether an append takes rows away, so that its snapshot must be an OVERWRITE."""
    return not adds(changes.files).all() or any(e.index_type == DELETION_VECTORS for e in changes.index)


def _files(request: SnapshotRequest, messages: Sequence[CommitMessage]) -> set[str]:
    """Names of the files that a snapshot adds."""
    compacts = request.kind is CommitKind.COMPACT
    return set().union(*(new_files(m.compact if compacts else m.data) for m in messages))


def _known(operation: str | None) -> str | None:
    """The operation, if Paimon knows it; it could not read a snapshot with another."""
    if operation is not None and operation not in OPERATIONS:
        raise InvalidInputError(f"unknown operation {operation!r} of a snapshot; expected {', '.join(OPERATIONS)}")
    return operation
