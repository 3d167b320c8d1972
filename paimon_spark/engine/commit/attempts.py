"""Attempts at one snapshot, until it is there or certainly will not be.

Source: Java `operation/FileStoreCommitImpl.tryCommit`.

What a commit has written, so that what is not needed can go.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from paimon_spark.engine.commit.checks import Base, check_schema, checked
from paimon_spark.engine.commit.listeners import tell
from paimon_spark.engine.commit.publish import (
    Committed,
    LostRace,
    Outcome,
    Refused,
    Unknown,
    is_alive,
    is_stray,
    publish,
    write_hints,
)
from paimon_spark.engine.commit.requests import Wanted
from paimon_spark.engine.commit.snapshot import Prepared, prepare
from paimon_spark.engine.commit.verify import counts
from paimon_spark.errors import (
    CommitOutcomeUnknownError,
    CommitRetriesExhaustedError,
    FileMissingError,
    StorageError,
)
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.retry import Retries, Surroundings
from paimon_spark.metadata.snapshots import find_snapshot, latest_snapshot
from paimon_spark.options.commit import CommitOptions
from paimon_spark.storage.store import Store

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


class _Recording:
    """A store that notes the path of each file before it is written."""

    def __init__(self, inner: Store, paths: list[str]) -> None:
        self._inner = inner
        self._paths = paths

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def write(self, path: str, data: bytes) -> None:
        self._paths.append(path)
        self._inner.write(path, data)


@dataclass(frozen=True, slots=True)
class Written:
    """The metadata files written for one snapshot, over all attempts, whole or not.

    Attributes:
        handle: the branch; metadata of the commit is written through it alone.
    """

    handle: TableHandle
    paths: list[str] = field(default_factory=list)

    @classmethod
    def through(cls, handle: TableHandle) -> Written:
        """Records what is written from now on."""
        paths: list[str] = []
        store = cast(Store, _Recording(handle.store, paths))
        return cls(replace(handle, store=store), paths)

    def remove(self, keep: Iterable[str] = ()) -> None:
        """Delete what was written, but for the paths in `keep`. Failures leave orphans and are logged."""
        kept = set(keep)
        gone = [p for p in self.paths if p not in kept]
        self.paths[:] = [p for p in self.paths if p in kept]
        if not gone:
            return
        try:
            self.handle.store.delete_many(gone)
        except Exception as e:  # noqa: BLE001 - whatever it is, it must not make a commit look failed
            _LOG.warning("files of a failed attempt to commit to %s stay: %s", self.handle.describe(), e)
