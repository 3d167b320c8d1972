"""Maintenance after each job's commit: automatic tags, savepoints and expiry that are due.

All of it may as well happen later: nothing here fails the job, whose rows are committed, and what another process is
doing is left to it. Looks come before locks: where nothing is due, it costs a listing of the tags and a read or two.

Source: Java `table/sink/TableCommitImpl.maintain`, whose order this is; PIP-4 for savepoints.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Hashable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

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

_LOG = logging.getLogger(__name__)

_REMEMBERED: Final = 1000
"""Branches of which something is remembered in this process."""


def after_commit(
    handle: TableHandle,
    snapshot_ids: Sequence[int],
    *,
    wrote_rows: bool = False,
    batch: bool = True,
    clock: Clock | None = None,
) -> None:
    """Run the maintenance that is due after a job made `snapshot_ids`. Driver. Never raises an error of this package.

    Nothing is done without a new snapshot, and where option `write-only` leaves it to others only the tag of a batch
    is made.

    Args:
        handle: the branch, with the options of the job.
        snapshot_ids: in order, those of the compaction that followed among them.
        wrote_rows: whether the job committed files of its own, for which `tag.automatic-creation = batch` makes a tag:
            a write, a row-level change or a batch of a stream; no compaction and nothing that only drops files.
        batch: whether the job is over with this commit.
        clock: clock and chance.

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
        if not self.handle.options.tags.time_expire or not _TAGS.may_expire(self.handle, self._now()):
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
        if _CHECKS.is_due(self.handle, options.check_interval_ms, now, self._clock.random) or (
            self._batch and options.checks_batches
        ):
            _CHECKS.done(self.handle, now)
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

    def _now(self) -> datetime:
        """The local wall clock, which tags go by."""
        return datetime.fromtimestamp(self._clock.clock_ms() / 1000)  # noqa: DTZ006 - tags note it without a zone

    def _newest(self) -> Snapshot:
        """The head, which may be that of others by now."""
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


class _Tags:
    """When the next tag of a branch expires, while the branch has the same tags."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[Hashable, datetime | None]] = {}

    def may_expire(self, handle: TableHandle, now: datetime) -> bool:
        """Whether a tag may have expired. Lists the tags, and reads them when the list changed."""
        infos = handle.store.list(handle.layout.tag_dir)
        shown = tuple((*i[:2], i.modified_ms) for i in infos if i.name.startswith(TAG_PREFIX) and not i.is_directory)
        key = (handle.store.identity, handle.layout.tag_dir)
        known = self._known.get(key)
        if known is None or known[0] != shown:
            known = shown, min(filter(None, map(_expiry_time, list_tags(handle) if shown else [])), default=None)
            _forget_some(self._known)
            self._known[key] = known
        return known[1] is not None and now > known[1]


def _expiry_time(tag: Tag) -> datetime | None:
    """When a tag expires; None for never."""
    if tag.create_time is None or tag.time_retained_s is None:
        return None
    try:
        return tag.create_time + timedelta(seconds=tag.time_retained_s)
    except OverflowError:
        return None


class _Checks:
    """When each branch was last checked for expired partitions."""

    def __init__(self) -> None:
        self._last_ms: dict[Hashable, int] = {}

    def is_due(
        self, handle: TableHandle, interval_ms: int, now_ms: int, chance: Callable[[], float] = random.random
    ) -> bool:
        """Whether it is time. The first look comes at a random moment, so that many jobs do not look at once."""
        if interval_ms == 0:
            return True
        key = _branch(handle)
        if key not in self._last_ms:
            _forget_some(self._last_ms)
            self._last_ms[key] = now_ms - int(chance() * interval_ms)
        return now_ms > self._last_ms[key] + interval_ms

    def done(self, handle: TableHandle, now_ms: int) -> None:
        """Note that the branch was checked."""
        self._last_ms[_branch(handle)] = now_ms


def _branch(handle: TableHandle) -> Hashable:
    return handle.store.identity, handle.layout.branch_root


def _forget_some(remembered: dict[Hashable, Any]) -> None:
    while len(remembered) >= _REMEMBERED:
        remembered.pop(next(iter(remembered)))


_TAGS: Final = _Tags()
_CHECKS: Final = _Checks()
