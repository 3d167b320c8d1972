"""The snapshot file: created exclusively, an ambiguous answer looked up.

While it is open whether a creation happened, the very same bytes are tried again under the same id: whichever of
the tries lands, it is the same snapshot, so nothing counts twice. Only a settled id leaves this module, or `Unknown`.
"""

from __future__ import annotations

import logging

from paimon_spark.engine.commit.outcome import Committed, LostRace, Outcome, Refused, Unknown
from paimon_spark.engine.commit.retry import Retries
from paimon_spark.errors import FileAlreadyThereError, StorageError, UnsupportedFeatureError
from paimon_spark.format.metadata_files.snapshot import Snapshot, encode
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import EARLIEST, LATEST
from paimon_spark.metadata.snapshots import find_snapshot
from paimon_spark.options.table import ALLOW_UNSAFE_CREATE
from paimon_spark.storage.store import AtomicCreate

_LOG = logging.getLogger(__name__)


def check_store(handle: TableHandle) -> None:
    """Check that the table's store can create a snapshot file exclusively. Call before the first file is written.

    Raises:
        UnsupportedFeatureError: it cannot, and option `commit.allow-unsafe-create` does not accept that.
    """
    if handle.store.atomic_create is AtomicCreate.NONE and not ALLOW_UNSAFE_CREATE.get(handle.options.raw):
        raise UnsupportedFeatureError(
            f"{handle.describe()} lies on {handle.location}, a store without exclusive creation of files: of two "
            f"commits at the same time one could silently be lost. If nobody else writes, set {ALLOW_UNSAFE_CREATE.key}"
            "=true on the write",
            feature="atomic create",
            table=handle.name,
            branch=handle.branch,
        )


def publish(handle: TableHandle, snapshot: Snapshot, retries: Retries) -> Outcome:
    """Create the snapshot file; tries again as long as the answers are ambiguous and `retries` allows it."""
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
                return LostRace()
        except StorageError as e:
            error = e
        settled = _look_up(handle, snapshot, error)
        if settled is not None:
            return settled
        ambiguous = True
        _LOG.warning("creating %s got no clear answer (%s); looking again", handle.store.url(path), error)
        if not retries.again():
            return Unknown(error)


def _look_up(handle: TableHandle, ours: Snapshot, error: StorageError) -> Outcome | None:
    """What the id holds after a failed creation; None when that is not known, or may still become ours."""
    try:
        found = find_snapshot(handle, ours.id)
    except StorageError:
        return None
    if found is not None:
        return Committed(ours) if found.uuid == ours.uuid else LostRace()
    if isinstance(error, FileAlreadyThereError) or error.retryable:
        return None
    return Refused(error)


def write_hints(handle: TableHandle, snapshot_id: int, first: bool) -> None:
    """Say where the head is, and the tail after the first snapshot. Hints are only hints: failures are logged."""
    for name in (LATEST, EARLIEST) if first else (LATEST,):
        path = f"{handle.layout.snapshot_dir}/{name}"
        try:
            handle.store.write(path, str(snapshot_id).encode())
        except Exception as e:  # noqa: BLE001 - the commit is done and must not look failed
            _LOG.warning("the hint %s could not be written: %s", handle.store.url(path), e)
