"""Maintenance after each job's commit: automatic tags, savepoints and expiry that are due.

None of it is urgent: a failure never fails the job, whose rows are committed, and what another process is doing is
left to it. What is due is found out without locks: when nothing is, it costs a listing of the tags and a read or two.

Source: Java `table/sink/TableCommitImpl.maintain`, whose order this is; PIP-4 for savepoints.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from datetime import datetime, timedelta
from typing import Final, TypeVar

from paimon_spark.errors import OperationInProgressError, PaimonError
from paimon_spark.format.metadata_files.snapshot import Snapshot, Tag
from paimon_spark.jobs.compaction import compact_fully
from paimon_spark.maintenance.consumers import expire_consumers
from paimon_spark.maintenance.expiry import (
    expire_changelogs,
    expire_snapshots,
    may_expire_changelogs,
    may_expire_snapshots,
)
from paimon_spark.maintenance.partitions import expire_partitions
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import TAG_PREFIX
from paimon_spark.metadata.retry import Clock
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.metadata.tags import list_tags
from paimon_spark.options.retention import TagCreation
from paimon_spark.redaction import get_logger

_LOG = get_logger(__name__)

V = TypeVar("V")
_REMEMBERED: Final = 1000
"""Most branches that each of the following holds."""
_NEXT_EXPIRY: Final[dict[Hashable, tuple[Hashable, datetime | None]]] = {}
"""The tag files of a branch, and when the next of the tags expires."""
_LAST_CHECK_MS: Final[dict[Hashable, int]] = {}
"""When a branch was last checked for expired partitions."""


def after_commit(
    handle: TableHandle,
    snapshot_ids: Sequence[int],
    *,
    wrote_rows: bool = False,
    batch: bool = True,
    clock: Clock | None = None,
) -> None:
    """Run the maintenance that is due after a job made `snapshot_ids`. Driver. Never raises an error of this package.

    Nothing is done without a new snapshot. With option `write-only` only the tag of a batch is created.

    Args:
        handle: the branch, with the options of the job.
        snapshot_ids: in order, with those of the compaction that followed.
        wrote_rows: whether the job wrote files, for which `tag.automatic-creation = batch` creates a tag: a write, a
            row-level change or a batch of a stream, but not a compaction, nor a job that only drops files.
        batch: whether this is the only commit of the job.
        clock: clock and random numbers.

    Source: Java `paimon-spark` `WriteHelper.postCommit` for tags of batches.
    """
    if not snapshot_ids:
        return
    work = _Maintenance(handle, snapshot_ids[-1], batch, clock or Clock())
    if wrote_rows:
        _guarded(work, "making the tag of a batch", work.batch_tag)
    try:
        if handle.options.commit.write_only:
            return
    except PaimonError:
        return
    for what, run in (
        ("making automatic tags", work.tags),
        ("expiring tags: see expire_tags()", work.expire_tags),
        ("making a savepoint: see create_savepoint()", work.savepoint),
        ("expiring partitions: see expire_partitions()", work.expire_partitions),
        ("expiring consumers: see clear_consumers()", work.expire_consumers),
        ("expiring snapshots: see expire_snapshots()", work.expire_snapshots),
        ("expiring changelogs: see expire_changelogs()", work.expire_changelogs),
        ("deleting old backup branches: see expire_snapshots()", work.expire_backups),
    ):
        _guarded(work, what, run)


class _Maintenance:
    """The maintenance that may be due after one job's commit."""

    def __init__(self, handle: TableHandle, head_id: int, batch: bool, clock: Clock) -> None:
        self.handle, self.head_id = handle, head_id
        self._batch, self._clock = batch, clock
        self._head: Snapshot | None = None

    def batch_tag(self) -> None:
        if self.handle.options.tags.creation is TagCreation.BATCH:
            self._make_tags()

    def tags(self) -> None:
        if self.handle.options.tags.creation not in (TagCreation.NONE, TagCreation.BATCH):
            self._make_tags()

    def _make_tags(self) -> None:
        from paimon_spark.versioning.auto_tags import run_automatic_tags

        run_automatic_tags(self.handle, self._newest(), wait_ms=0, clock=self._now)

    def expire_tags(self) -> None:
        if not self.handle.options.tags.time_expire or not _may_expire_tags(self.handle, self._now()):
            return
        from paimon_spark.versioning.tags import expire_tags

        expire_tags(self.handle, wait_ms=0, clock=self._now)

    def savepoint(self) -> None:
        if self.handle.options.savepoints is None:
            return
        from paimon_spark.versioning.savepoints import run_periodic_savepoint

        run_periodic_savepoint(self.handle, self._newest(), compact=compact_fully, wait_ms=0)

    def expire_partitions(self) -> None:
        options = self.handle.options.partition_expiry
        if options is None or not self.handle.schema.partition_keys:
            return
        now = self._clock.clock_ms()
        is_due = _check_is_due(self.handle, options.check_interval_ms, now, self._clock.random)
        if is_due or (self._batch and options.checks_batches):
            _remember(_LAST_CHECK_MS, _branch(self.handle), now)
            expire_partitions(self.handle, clock_ms=lambda: now)

    def expire_consumers(self) -> None:
        age_ms = self.handle.options.expiry.consumer_expiration_ms
        if age_ms is not None:
            expire_consumers(self.handle, self._clock.clock_ms() - age_ms)

    def expire_snapshots(self) -> None:
        if may_expire_snapshots(self.handle, self.head_id, self._clock.clock_ms):
            expire_snapshots(self.handle, wait_ms=0, clock_ms=self._clock.clock_ms)

    def expire_changelogs(self) -> None:
        if not self.handle.options.expiry.changelogs_outlive:
            return
        if may_expire_changelogs(self.handle, self.head_id, self._clock.clock_ms):
            expire_changelogs(self.handle, wait_ms=0, clock_ms=self._clock.clock_ms)

    def expire_backups(self) -> None:
        if self.handle.options.expiry.backup_time_retained_ms is None:
            return
        from paimon_spark.versioning.undo import expire_backups, may_expire_backups

        if may_expire_backups(self.handle, self._clock.clock_ms):
            expire_backups(self.handle, wait_ms=0, clock_ms=self._clock.clock_ms)

    def _now(self) -> datetime:
        """The local wall clock, in which times of tags are stored."""
        return datetime.fromtimestamp(self._clock.clock_ms() / 1000)  # noqa: DTZ006 - tags store it without a zone

    def _newest(self) -> Snapshot:
        """The head, which may be newer than the job's commit."""
        self._head = self._head or latest_snapshot(self.handle)
        assert self._head is not None
        return self._head


def _guarded(work: _Maintenance, what: str, run: Callable[[], None]) -> None:
    try:
        run()
    except OperationInProgressError as e:
        _LOG.debug("left to others after snapshot %s of %s: %s: %s", work.head_id, work.handle.describe(), what, e)
    except PaimonError as e:
        _LOG.warning(
            "snapshot %s of %s is in, but this failed after it and is tried again after the next: %s: %s",
            work.head_id,
            work.handle.describe(),
            what,
            e,
        )
    except Exception:  # noqa: BLE001 - the rows are in; nothing may make the job look failed
        _LOG.exception("failed after snapshot %s of %s: %s", work.head_id, work.handle.describe(), what)


def _may_expire_tags(handle: TableHandle, now: datetime) -> bool:
    """Whether a tag may have expired. Lists the tags, and reads them when the list changed."""
    infos = handle.store.list(handle.layout.tag_dir)
    files = tuple((*i[:2], i.modified_ms) for i in infos if i.name.startswith(TAG_PREFIX) and not i.is_directory)
    known = _NEXT_EXPIRY.get(_branch(handle))
    if known is None or known[0] != files:
        known = files, min(filter(None, map(_expiry_time, list_tags(handle) if files else [])), default=None)
        _remember(_NEXT_EXPIRY, _branch(handle), known)
    return known[1] is not None and now > known[1]


def _expiry_time(tag: Tag) -> datetime | None:
    """When a tag expires; None for never."""
    if tag.create_time is None or tag.time_retained_s is None:
        return None
    try:
        return tag.create_time + timedelta(seconds=tag.time_retained_s)
    except OverflowError:
        return None


def _check_is_due(handle: TableHandle, interval_ms: int, now_ms: int, chance: Callable[[], float]) -> bool:
    """Whether to check for expired partitions. The first time is random, so that many jobs do not check at once."""
    if interval_ms == 0:
        return True
    key = _branch(handle)
    if key not in _LAST_CHECK_MS:
        _remember(_LAST_CHECK_MS, key, now_ms - int(chance() * interval_ms))
    return now_ms > _LAST_CHECK_MS[key] + interval_ms


def _branch(handle: TableHandle) -> Hashable:
    return handle.store.identity, handle.layout.branch_root


def _remember(known: dict[Hashable, V], key: Hashable, value: V) -> None:
    while key not in known and len(known) >= _REMEMBERED:
        known.pop(next(iter(known)))
    known[key] = value
