"""Attempts at one snapshot, until it is there or certainly will not be.

Source: Java `operation/FileStoreCommitImpl.tryCommit`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from paimon_spark.engine.commit.base import Base, checked
from paimon_spark.engine.commit.listeners import tell
from paimon_spark.engine.commit.new_snapshot import Prepared, prepare
from paimon_spark.engine.commit.outcome import Committed, LostRace, Outcome, Refused, Unknown
from paimon_spark.engine.commit.publish import publish, write_hints
from paimon_spark.engine.commit.retry import Retries, Surroundings
from paimon_spark.engine.commit.schema_check import check_schema
from paimon_spark.engine.commit.still_there import counts
from paimon_spark.engine.commit.stray import is_alive, is_stray
from paimon_spark.engine.commit.wanted import Wanted
from paimon_spark.engine.commit.written import Written
from paimon_spark.errors import (
    CommitOutcomeUnknownError,
    CommitRetriesExhaustedError,
    FileMissingError,
    StorageError,
)
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.snapshots import find_snapshot, latest_snapshot
from paimon_spark.options.commit import CommitOptions

_LOG = logging.getLogger(__name__)

BATCH_COMMIT_IDENTIFIER = 2**63 - 1
"""The identifier of every batch commit; those of streams count up."""


_SLOW_MS: Final = 1_000
"""How old a head may be at its commit without a look whether history has gone past it and expired."""


@dataclass(frozen=True, slots=True)
class Author:
    """Who commits, and what is known of what they committed before.

    Attributes:
        looked_up_to: the head at which commits of streams were filtered; a commit of the same user, identifier and
            kind after it is this one, made by a twin. None: never filtered.
        has_twins: whether others may make the same commit, as a stream that runs twice does.
    """

    commit_user: str
    looked_up_to: int | None = None
    has_twins: bool = True


@dataclass(frozen=True, slots=True)
class Made:
    """A snapshot that was asked for.

    Attributes:
        retries: times it was tried again.
        ours: False when a twin made it, with files of its own.
    """

    snapshot: Snapshot
    retries: int
    ours: bool = True


def make_snapshot(
    handle: TableHandle, options: CommitOptions, wanted: Wanted, author: Author, around: Surroundings
) -> Made:
    """Make the snapshot `wanted`, on whatever head it takes.

    Raises:
        CommitConflictError, CommitRetriesExhaustedError, StorageError: it was not made; its metadata files are gone.
        CommitOutcomeUnknownError: nobody knows; every file stays.
    """
    written = Written.through(handle)
    try:
        made, needed = _attempts(handle, options, wanted, author, around, written)
    except CommitOutcomeUnknownError:
        raise
    except Exception:
        written.remove()
        raise
    written.remove(keep=needed)
    if made.ours:
        tell(handle, made.snapshot)
    return made


def _attempts(
    handle: TableHandle,
    options: CommitOptions,
    wanted: Wanted,
    author: Author,
    around: Surroundings,
    written: Written,
) -> tuple[Made, Sequence[str]]:
    retries = Retries(options, around)
    prepared: Prepared | None = None
    base: Base | None = None
    seen = author.looked_up_to
    while True:
        read_ms = around.clock_ms()
        head = latest_snapshot(handle)
        twin = _twin(handle, wanted, author.commit_user, seen, head) if author.has_twins else None
        if twin is not None:
            return Made(twin, retries.count, ours=False), ()
        seen = 0 if head is None else head.id
        try:
            changes, base = checked(handle, options, wanted, wanted.changes_on(head), head, author.commit_user, base)
            prepared = prepare(
                written.handle,
                options,
                wanted,
                changes,
                head,
                commit_user=author.commit_user,
                schema_id=check_schema(handle),
                time_ms=around.clock_ms(),
                earlier=prepared,
            )
        except FileMissingError:
            if head is None or is_alive(handle, head) or not retries.again():
                raise
            _LOG.info("snapshot %d of %s expired while it was read", head.id, handle.describe())
            continue
        match _published(handle, prepared.snapshot, retries):
            case Committed(snapshot) if around.clock_ms() - read_ms > _SLOW_MS and _removed_as_stray(handle, snapshot):
                _LOG.warning("snapshot %d of %s came after later ones and is gone", snapshot.id, handle.describe())
            case Committed(snapshot):
                write_hints(handle, snapshot.id, first=snapshot.id == 1)
                if not counts(handle, snapshot, head, around):
                    _LOG.warning("%s has another history now, without snapshot %d", handle.describe(), snapshot.id)
                return Made(snapshot, retries.count), list(prepared.paths(handle))
            case Refused(error):
                if isinstance(error, FileMissingError):
                    check_schema(handle)  # a directory that is not there: the branch may have gone or been renamed
                raise error
            case Unknown(error):
                raise _unknown(handle, prepared.snapshot) from error
            case LostRace():
                _LOG.info("snapshot %d of %s was taken by another commit", prepared.snapshot.id, handle.describe())
        if not retries.again():
            raise _exhausted(handle, prepared.snapshot, retries)


def _published(handle: TableHandle, snapshot: Snapshot, retries: Retries) -> Outcome:
    """As `publish`; what nobody expected leaves the outcome open too."""
    try:
        return publish(handle, snapshot, retries)
    except Exception as e:
        raise _unknown(handle, snapshot) from e


def _removed_as_stray(handle: TableHandle, snapshot: Snapshot) -> bool:
    """Remove a snapshot just made if it is a stray; False when it counts, or when that cannot be told."""
    try:
        stray = is_stray(handle, snapshot)
    except Exception as e:  # noqa: BLE001 - the snapshot is there, and its files must stay
        _LOG.warning("it was not looked at what follows snapshot %d of %s: %s", snapshot.id, handle.describe(), e)
        return False
    if stray:
        try:
            handle.store.delete(handle.layout.snapshot_path(snapshot.id))
        except StorageError as e:
            raise _unknown(handle, snapshot) from e
    return stray


def _twin(
    handle: TableHandle, wanted: Wanted, commit_user: str, seen: int | None, head: Snapshot | None
) -> Snapshot | None:
    """The same commit of a stream, made by another process of it since `seen`. Batches have no twins."""
    if wanted.identifier == BATCH_COMMIT_IDENTIFIER or seen is None or head is None:
        return None
    for snapshot_id in range(seen + 1, head.id + 1):
        found = head if snapshot_id == head.id else find_snapshot(handle, snapshot_id)
        if found is None or not wanted.properties.items() <= (found.properties or {}).items():
            continue
        author = commit_user, wanted.identifier, wanted.kind
        if (found.commit_user, found.commit_identifier, found.commit_kind) == author:
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
