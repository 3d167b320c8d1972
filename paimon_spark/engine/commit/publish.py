"""Exclusive creation of the snapshot file, with ambiguous answers resolved by reading.

After an ambiguous answer the same bytes are written again under the same id: whichever try succeeds, it is the same
snapshot, so nothing counts twice. The result is certain, or `Unknown`.

Tests: tests/unit/engine/commit/test_committer.py, test_verify.py, test_races.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from paimon_spark.errors import FileAlreadyThereError, StorageError, UnsupportedFeatureError
from paimon_spark.format.metadata_files.snapshot import Snapshot, encode
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import EARLIEST, LATEST, SNAPSHOT_PREFIX
from paimon_spark.metadata.manifests import delta_manifests, read_manifest_list
from paimon_spark.metadata.retry import Retries
from paimon_spark.metadata.snapshots import find_snapshot, is_alive, list_snapshot_ids
from paimon_spark.options.core import ALLOW_UNSAFE_CREATE
from paimon_spark.redaction import get_logger
from paimon_spark.storage.store import AtomicCreate

_LOG = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Committed:
    """The snapshot file is there, and it is ours."""

    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class LostRace:
    """Another snapshot has the id."""

    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Refused:
    """The store answered that it did not create the file, and it is not there."""

    error: StorageError


@dataclass(frozen=True, slots=True)
class Unknown:
    """The store gave no clear answer: the snapshot may be there, or may still appear."""

    snapshot: Snapshot
    error: Exception


Outcome: TypeAlias = Committed | LostRace | Refused | Unknown
"""The outcome of one attempt to publish a snapshot."""


def check_store(handle: TableHandle) -> None:
    """Check that the table's store can create a snapshot file exclusively. Call before the first file is written.

    Raises:
        UnsupportedFeatureError: it cannot, and option `commit.allow-unsafe-create` does not accept that.
    """
    if handle.store.atomic_create is AtomicCreate.NONE and not handle.options.commit.allow_unsafe_create:
        raise UnsupportedFeatureError(
            f"{handle.describe()} lies on {handle.location}, a store without exclusive creation of files: of two "
            f"commits at the same time one could silently be lost. If nobody else writes, set {ALLOW_UNSAFE_CREATE.key}"
            "=true on the write",
            feature="atomic create",
            table=handle.name,
            branch=handle.branch,
        )


def publish(handle: TableHandle, snapshot: Snapshot, retries: Retries) -> Outcome:
    """Create the snapshot file; repeats while answers are ambiguous and `retries` allows it."""
    try:
        outcome = _create(handle, snapshot, retries)
    except Exception as e:  # noqa: BLE001 - what was not foreseen leaves the outcome open too
        return Unknown(snapshot, e)
    if isinstance(outcome, LostRace):
        _LOG.debug("snapshot %d of %s was taken by another commit", snapshot.id, handle.describe())
    return outcome


def _create(handle: TableHandle, snapshot: Snapshot, retries: Retries) -> Outcome:
    path = handle.layout.snapshot_path(snapshot.id)
    data = encode(snapshot)
    taken = ambiguous = False
    while True:
        error: StorageError
        try:
            if not taken:
                handle.store.create_exclusive(path, data)
                return Committed(snapshot)
        except FileAlreadyThereError as e:
            taken, error = True, e
            if not ambiguous:
                return LostRace(snapshot)
        except StorageError as e:
            error = e
        # Our uuid under the id is success, another one a lost race. Where nothing is there, a late PUT may still create
        # our file, so the very same bytes are tried again under the same id: whichever try lands, it is one snapshot.
        settled = _look_up(handle, snapshot, error)
        if settled is not None:
            return settled
        ambiguous = True
        _LOG.warning("creating %s got no clear answer (%s); looking again", handle.store.url(path), error)
        if not retries.again():
            return Unknown(snapshot, error)


def _look_up(handle: TableHandle, ours: Snapshot, error: StorageError) -> Outcome | None:
    """Who has the id after a failed creation; None when unknown, or when our file may still appear."""
    try:
        found = find_snapshot(handle, ours.id)
    except StorageError:
        return None
    if found is not None:
        return Committed(ours) if found.uuid == ours.uuid else LostRace(ours)
    if isinstance(error, FileAlreadyThereError) or error.retryable:
        return None
    return Refused(error)


def write_hints(handle: TableHandle, snapshot_id: int, first: bool) -> None:
    """Write the hint to the newest snapshot, and to the earliest after the first. Failures are logged only."""
    for name in (LATEST, EARLIEST) if first else (LATEST,):
        path = f"{handle.layout.snapshot_dir}/{name}"
        try:
            handle.store.write(path, str(snapshot_id).encode())
        except Exception as e:  # noqa: BLE001 - the commit is done and must not look failed
            _LOG.warning("the hint %s could not be written: %s", handle.store.url(path), e)


def is_unreachable(handle: TableHandle, made: Snapshot) -> bool:
    """Whether later snapshots are there that do not follow from `made`, which was just created.

    Its id had been taken, and had expired, since its head was read: no one would ever see its rows. Exclusive creation
    cannot prevent that, as the file that had the id is gone. It takes a writer that stops in the middle of a commit for
    longer than snapshots live.
    """
    if max(list_snapshot_ids(handle), default=0) <= made.id:
        return False
    following = find_snapshot(handle, made.id + 1)
    if following is None:
        # Expiry removes ascending ids: while this one is there, the gap is older than it.
        return is_alive(handle, made)
    ours = {m.file_name for m in delta_manifests(handle, made)}
    theirs = {m.file_name for m in read_manifest_list(handle, following.base_manifest_list)}
    if ours and ours <= theirs:
        return False
    total, delta = following.total_record_count, following.delta_record_count
    if total is not None and delta is not None and total - delta != made.total_record_count:
        return True
    changed = {i.name: i.modified_ms for i in handle.store.list(handle.layout.snapshot_dir)}
    mine, later = (changed.get(f"{SNAPSHOT_PREFIX}{i}") for i in (made.id, following.id))
    return mine is not None and later is not None and later < mine
