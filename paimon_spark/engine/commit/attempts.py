"""Attempts at one snapshot, until it is there or certainly will not be.

Source: Java `operation/FileStoreCommitImpl.tryCommit`.

Tests: tests/unit/engine/commit/test_committer.py, test_races.py, test_model.py.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, cast

from paimon_spark.engine.commit.checks import ComparedFiles, check_changes, check_schema
from paimon_spark.engine.commit.listeners import CommitListener, named_listeners, notify
from paimon_spark.engine.commit.publish import (
    Committed,
    LostRace,
    Outcome,
    Refused,
    Unknown,
    is_unreachable,
    publish,
    write_hints,
)
from paimon_spark.engine.commit.requests import BATCH_COMMIT_IDENTIFIER, SnapshotRequest
from paimon_spark.engine.commit.snapshot import Prepared, SnapshotWriter
from paimon_spark.engine.commit.verify import check_unused, verify_committed
from paimon_spark.errors import (
    CommitOutcomeUnknownError,
    CommitRetriesExhaustedError,
    FileMissingError,
    StorageError,
)
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.retry import Clock, Retries
from paimon_spark.metadata.snapshots import find_snapshot, is_alive, latest_snapshot
from paimon_spark.options.write import CommitOptions
from paimon_spark.redaction import get_logger
from paimon_spark.storage.store import Store

_LOG = get_logger(__name__)

_SLOW_MS: Final = 1_000
"""Age of a head at its commit from which `is_unreachable` is checked."""


@dataclass(frozen=True, slots=True)
class Author:
    """Who commits, with which listeners, and how to recognise duplicates. As the arguments of `Committer`."""

    commit_user: str
    filtered_up_to: int | None = None
    may_repeat: bool = True
    listeners: tuple[CommitListener, ...] = ()


@dataclass(frozen=True, slots=True)
class CommitResult:
    """Result of a commit; empty when there was nothing to commit.

    Attributes:
        snapshots: the snapshots made, in order; of data first, then of the compaction that came with it.
        retries: times it was tried again because others were faster or the store gave no clear answer.
        is_duplicate: another process of the same stream made one of them, of files of its own: then `abort` removes
            those that were not needed.
    """

    snapshots: tuple[Snapshot, ...] = ()
    retries: int = 0
    is_duplicate: bool = False

    @property
    def snapshot_ids(self) -> tuple[int, ...]:
        return tuple(s.id for s in self.snapshots)

    @property
    def snapshot(self) -> Snapshot | None:
        """The newest snapshot made."""
        return self.snapshots[-1] if self.snapshots else None

    def followed_by(self, later: CommitResult) -> CommitResult:
        return CommitResult(
            (*self.snapshots, *later.snapshots),
            self.retries + later.retries,
            self.is_duplicate or later.is_duplicate,
        )


@dataclass(frozen=True, slots=True)
class _Duplicate:
    """Another process of the same stream made the snapshot."""

    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class _NothingToChange:
    """The head is already what was asked for."""


@dataclass(frozen=True, slots=True)
class _HeadExpired:
    """The head expired, and files of it, while it was read."""

    error: FileMissingError


_AttemptOutcome: TypeAlias = Outcome | _Duplicate | _NothingToChange | _HeadExpired


def make_snapshot(
    handle: TableHandle, options: CommitOptions, request: SnapshotRequest, author: Author, clock: Clock
) -> CommitResult:
    """Make the requested snapshot on the current head, and notify the listeners.

    Raises:
        CommitConflictError, CommitRetriesExhaustedError, StorageError: it was not made; its metadata files are gone.
        CommitOutcomeUnknownError: the outcome is unknown; every file stays.
    """
    attempts, start = _Attempts(handle, options, request, author, clock), time.perf_counter()
    try:
        result = attempts.run()
    # Where the outcome is unknown the snapshot may still appear, so every file that it names stays.
    except CommitOutcomeUnknownError:
        raise
    except Exception:
        attempts.written.remove(handle.describe())
        raise
    attempts.written.remove(handle.describe(), keep=attempts.needed_paths)
    for snapshot in () if result.is_duplicate else result.snapshots:
        _LOG.info(
            "%s: snapshot %d, %s, %+d rows, in %.3f s after %d retries",
            handle.describe(),
            snapshot.id,
            snapshot.commit_kind.value,
            snapshot.delta_record_count or 0,
            time.perf_counter() - start,
            result.retries,
        )
    for snapshot in result.snapshots:
        named = () if result.is_duplicate else named_listeners(handle)
        notify((*named, *author.listeners), handle, snapshot)
    return result


class _Attempts:
    """The attempts at one snapshot, and their shared state.

    Attributes:
        written: metadata files of all attempts.
        needed_paths: those that the snapshot made needs.
    """

    def __init__(
        self, handle: TableHandle, options: CommitOptions, request: SnapshotRequest, author: Author, clock: Clock
    ) -> None:
        self._handle, self._options, self._request, self._author, self._clock = handle, options, request, author, clock
        self._retries = Retries(options, clock)
        self._filtered_up_to = author.filtered_up_to
        self._compared: ComparedFiles | None = None
        self.written = WrittenMetadata(handle.store)
        recording = replace(handle, store=cast(Store, self.written))
        self._writer = SnapshotWriter(recording, options, request, author.commit_user)
        self.needed_paths: Sequence[str] = ()

    def run(self) -> CommitResult:
        """Try until an outcome is final."""
        while True:
            match self._attempt():
                case Committed(snapshot):
                    return CommitResult((snapshot,), self._retries.count)
                case _Duplicate(snapshot):
                    return CommitResult((snapshot,), self._retries.count, is_duplicate=True)
                case _NothingToChange():
                    return CommitResult()
                case Refused(error):
                    if isinstance(error, FileMissingError):
                        check_schema(self._handle)  # a missing directory: the branch may have gone or been renamed
                    raise error
                case Unknown(snapshot, error):
                    raise _unknown(self._handle, snapshot) from error
                case LostRace(snapshot):
                    if not self._retries.again():
                        raise _exhausted(self._handle, snapshot, self._retries)
                case _HeadExpired(error):
                    if not self._retries.again():
                        raise error

    def _attempt(self) -> _AttemptOutcome:
        handle, request = self._handle, self._request
        started_ms = self._clock.clock_ms()
        head = latest_snapshot(handle)
        duplicate = self._find_duplicate(head)
        if duplicate is not None:
            return _Duplicate(duplicate)
        self._filtered_up_to = 0 if head is None else head.id
        try:
            changes, self._compared = check_changes(
                handle, self._options, request, head, self._author.commit_user, self._compared
            )
            prepared = self._writer.prepare(changes, head, check_schema(handle), self._clock.clock_ms())
        except FileMissingError as e:
            if head is None or is_alive(handle, head):
                raise
            _LOG.debug("snapshot %d of %s expired while it was read", head.id, handle.describe())
            return _HeadExpired(e)
        if prepared is None:
            return _NothingToChange()
        outcome = publish(handle, prepared.snapshot, self._retries)
        # Only a commit that took longer than snapshots live can get an id that had been taken and expired. The look
        # costs a listing, so fast commits do without.
        if isinstance(outcome, Committed) and self._clock.clock_ms() - started_ms > _SLOW_MS:
            outcome = self._removed_if_unreachable(outcome)
        if isinstance(outcome, Committed):
            self._settle(outcome.snapshot, head, prepared)
        return outcome

    def _settle(self, snapshot: Snapshot, head: Snapshot | None, prepared: Prepared) -> None:
        """Write the hints to a new snapshot, and verify that its branch still has it."""
        handle = self._handle
        write_hints(handle, snapshot.id, first=snapshot.id == 1)
        if not verify_committed(handle, snapshot, head, self._clock):
            _LOG.warning("%s has another history now, without snapshot %d", handle.describe(), snapshot.id)
        self.needed_paths = list(prepared.paths(handle))

    def _removed_if_unreachable(self, committed: Committed) -> Outcome:
        """Remove a snapshot that later ones do not follow from: a lost race."""
        handle, snapshot = self._handle, committed.snapshot
        try:
            if not is_unreachable(handle, snapshot):
                return committed
        except Exception as e:  # noqa: BLE001 - the snapshot is there, and its files must stay
            _LOG.warning(
                "cannot tell whether later commits follow snapshot %d of %s: %s", snapshot.id, handle.describe(), e
            )
            return committed
        try:
            handle.store.delete(handle.layout.snapshot_path(snapshot.id))
        except StorageError as e:
            return Unknown(snapshot, e)
        check_unused(handle, snapshot, self._clock)
        _LOG.warning("snapshot %d of %s was made behind later ones, and was removed", snapshot.id, handle.describe())
        return LostRace(snapshot)

    def _find_duplicate(self, head: Snapshot | None) -> Snapshot | None:
        """The same commit of a stream, made by another process since the last look. Batches have no duplicates."""
        author, request, seen = self._author, self._request, self._filtered_up_to
        # The uuid tells our snapshot from others. User and identifier serve streams only: all batches have one
        # identifier, and a user may give several batches the same commit user.
        if not author.may_repeat or request.identifier == BATCH_COMMIT_IDENTIFIER or seen is None or head is None:
            return None
        wanted = author.commit_user, request.identifier, request.kind
        for snapshot_id in range(head.id, seen, -1):
            found = head if snapshot_id == head.id else find_snapshot(self._handle, snapshot_id)
            if found is None:  # it and the older ones have expired, or the head has a forged id
                return None
            if not request.properties.items() <= (found.properties or {}).items():
                continue
            if (found.commit_user, found.commit_identifier, found.commit_kind) == wanted:
                return found
        return None


def _unknown(handle: TableHandle, snapshot: Snapshot) -> CommitOutcomeUnknownError:
    path = handle.store.url(handle.layout.snapshot_path(snapshot.id))
    return CommitOutcomeUnknownError(
        f"the store did not say whether snapshot {snapshot.id} of {handle.describe()} was made. Before writing again, "
        f"look at {path}: if its uuid is {snapshot.uuid}, the commit succeeded; "
        "until then no file of the commit may be deleted",
        table=handle.name,
        branch=handle.branch,
        snapshot_id=snapshot.id,
        uuid=snapshot.uuid,
        path=path,
    )


def _exhausted(handle: TableHandle, snapshot: Snapshot, retries: Retries) -> CommitRetriesExhaustedError:
    return CommitRetriesExhaustedError(
        f"the commit to {handle.describe()} was tried {retries.count + 1} times in {retries.elapsed_ms} ms, and each "
        f"time another commit was faster, last with snapshot {snapshot.id}. Nothing was committed; write again, with "
        "a larger commit.max-retries or commit.max-retry-wait when many jobs write at once",
        table=handle.name,
        branch=handle.branch,
        snapshot_id=snapshot.id,
    )


class WrittenMetadata:
    """A store that records the metadata files written for one snapshot, over all attempts."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self._paths: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def write(self, path: str, data: bytes) -> None:
        self._paths.append(path)
        self._inner.write(path, data)

    def remove(self, table: str, keep: Iterable[str] = ()) -> None:
        """Delete what was written, except the paths in `keep`. Failures leave orphans and are logged."""
        gone = [p for p in self._paths if p not in set(keep)]
        try:
            if gone:
                self._inner.delete_many(gone)
        except Exception as e:  # noqa: BLE001 - whatever it is, it must not make a commit look failed
            _LOG.warning("files of a failed attempt to commit to %s remain: %s", table, e)
