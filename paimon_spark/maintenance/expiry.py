"""Expire old snapshots and changelogs of a branch, and the files that only they need.

Where changelogs outlive their snapshots, each expired snapshot becomes a long-lived changelog.

Paimon's retention rule counts ids. Here it counts positions among the existing ids, which is the same where ids have no
gaps; where other engines left gaps, as many snapshots are kept as the numbers say.

Source: Java `table/ExpireSnapshotsImpl`, `table/ExpireChangelogImpl` (2.0), `utils/ChangelogManager`; `removal` decides
which files are deleted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from paimon_spark.errors import InvalidInputError
from paimon_spark.format.metadata_files.snapshot import Snapshot, decode, encode
from paimon_spark.maintenance.change import change_branch
from paimon_spark.maintenance.consumers import first_needed
from paimon_spark.maintenance.removal import Removed
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.change import (
    DeleteFile,
    Put,
    Root,
    RootKind,
    Step,
    TableChange,
    delete_unchanged,
    put_all,
    relative_path,
)
from paimon_spark.metadata.layout import EARLIEST, LATEST
from paimon_spark.metadata.retry import now_ms
from paimon_spark.metadata.small_files import find_bytes, read_existing
from paimon_spark.metadata.snapshots import (
    find_changelog,
    find_snapshot,
    list_changelog_ids,
    list_snapshot_ids,
    read_hint,
)
from paimon_spark.options.retention import Retention
from paimon_spark.text import id_of

SNAPSHOT_EXPIRY: Final = "expire-snapshots"
CHANGELOG_EXPIRY: Final = "expire-changelogs"
"""Kinds of the two changes, in the lock and the journal."""
_READ_AHEAD: Final = 64
"""Snapshots read at once; each is about a kilobyte."""

_File: TypeAlias = tuple[Snapshot, bytes]
"""A snapshot or changelog with the bytes of its file."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Retention arguments of a call; None means the table option applies.

    Attributes:
        older_than_ms: epoch milliseconds.
        max_deletes: how many may expire in one call; `ANY_NUMBER` for no limit.
    """

    retain_max: int | None = None
    retain_min: int | None = None
    older_than_ms: int | None = None
    max_deletes: int | None = None


FROM_OPTIONS: Final = Limits()
ANY_NUMBER: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Rule:
    """The retention of one call: what stays.

    Attributes:
        retain_max: at most so many are kept, whatever their age.
        retain_min: so many of the newest are kept, whatever their age.
        older_than_ms: epoch milliseconds; later ones are kept.
        limit: how many may expire in one call.
        first_needed: id of the oldest one that a consumer needs; None when there is no consumer.
    """

    retain_max: int
    retain_min: int
    older_than_ms: int
    limit: int
    first_needed: int | None = None


def expire_snapshots(
    handle: TableHandle,
    limits: Limits = FROM_OPTIONS,
    *,
    dry_run: bool = False,
    wait_ms: int = 60_000,
    clock_ms: Callable[[], int] = now_ms,
) -> Removed:
    """Expire the branch's old snapshots. The head always stays."""
    now = clock_ms()

    def plan(current: TableHandle) -> TableChange | None:
        expired, next_id = _expired_snapshot_files(current, limits, now)
        return _snapshot_change(current, expired, next_id) if expired else None

    rule_of(handle, handle.options.expiry.snapshots, limits, now)  # refuses contradicting limits before the lock
    return change_branch(handle, SNAPSHOT_EXPIRY, plan, dry_run=dry_run, wait_ms=wait_ms)


def expire_changelogs(
    handle: TableHandle,
    limits: Limits = FROM_OPTIONS,
    *,
    delete_all: bool = False,
    dry_run: bool = False,
    wait_ms: int = 60_000,
    clock_ms: Callable[[], int] = now_ms,
) -> Removed:
    """Expire the branch's old long-lived changelogs; with `delete_all` all of them, otherwise the newest one stays.

    Numbers in `limits` count changelogs and snapshots together.
    """
    now = clock_ms()

    def plan(current: TableHandle) -> TableChange | None:
        expired, next_id = _expired_changelog_files(current, limits, now, delete_all)
        return _changelog_change(current, expired, next_id) if expired else None

    rule_of(handle, handle.options.expiry.changelogs, limits, now)
    return change_branch(handle, CHANGELOG_EXPIRY, plan, dry_run=dry_run, wait_ms=wait_ms)


def rule_of(handle: TableHandle, retention: Retention, limits: Limits, at_ms: int) -> Rule:
    """Merge the table's options with the limits of a call. Raises InvalidInputError: they contradict each other."""
    retain_max = retention.retain_max if limits.retain_max is None else limits.retain_max
    retain_min = retention.retain_min if limits.retain_min is None else limits.retain_min
    if limits.retain_max is not None and limits.retain_min is None:
        # A caller that limits the number need not know of an option that keeps more.
        retain_min = min(retain_min, max(retain_max, 1))
    rule = Rule(
        retain_max,
        retain_min,
        at_ms - retention.time_retained_ms if limits.older_than_ms is None else limits.older_than_ms,
        retention.limit if limits.max_deletes is None else limits.max_deletes,
    )
    if rule.retain_min < 1:
        raise InvalidInputError(
            f"retain_min = {rule.retain_min} for {handle.describe()}: at least one is kept; give 1 or more",
            argument="retain_min",
        )
    if rule.retain_max < rule.retain_min:
        raise InvalidInputError(
            f"retain_max = {rule.retain_max} is less than retain_min = {rule.retain_min} for {handle.describe()}; "
            "give both, or a larger retain_max",
            argument="retain_max",
        )
    if rule.limit < 0:
        raise InvalidInputError(
            f"max_deletes = {rule.limit} for {handle.describe()}: give 0 or more", argument="max_deletes"
        )
    return rule


def may_expire_snapshots(handle: TableHandle, head_id: int, clock_ms: Callable[[], int] = now_ms) -> bool:
    """Whether `expire_snapshots` may find something, by few small reads. False is certain unless hints are stale."""
    options = handle.options.expiry
    retention = options.snapshots
    if head_id <= retention.retain_min:
        return False
    earliest = read_hint(handle.store, _earliest_path(handle))
    if earliest is None or earliest > head_id:
        earliest = _correct_earliest(handle)
    if earliest is None or head_id - earliest < retention.retain_min:
        return False
    second = find_snapshot(handle, earliest + 1)
    if second is None:  # the hint is stale, or there is a gap
        earliest = _correct_earliest(handle)
        if earliest is None or head_id - earliest < retention.retain_min:
            return False
    too_many = head_id - earliest >= retention.retain_max
    if not too_many and second is not None and clock_ms() - retention.time_retained_ms <= second.time_ms:
        return False
    needed = first_needed(handle) if options.consumers_hold_snapshots else None
    return needed is None or needed > earliest


def may_expire_changelogs(handle: TableHandle, head_id: int, clock_ms: Callable[[], int] = now_ms) -> bool:
    """Whether `expire_changelogs` may find something, by a listing and few small reads."""
    retention = handle.options.expiry.changelogs
    ids = list_changelog_ids(handle)
    if len(ids) < 2 or head_id - ids[0] < retention.retain_min:
        return False
    oldest = find_changelog(handle, ids[0]) if head_id - ids[0] < retention.retain_max else None
    if oldest is not None and clock_ms() - retention.time_retained_ms <= oldest.time_ms:
        return False
    needed = first_needed(handle)
    return needed is None or needed > ids[0]


def expired_snapshots(ids: Sequence[int], rule: Rule, time_ms: Callable[[int], int | None]) -> int:
    """How many of the oldest snapshots expire; never the last one.

    A snapshot is old when the next one is, so that for each retained time a snapshot exists.

    `ids`: of the snapshots, ascending. `time_ms`: commit time of a snapshot, epoch milliseconds; None when it is gone.
    Called in ascending order, up to the first snapshot that is kept.
    """
    return _count(ids, len(ids), rule, lambda i: time_ms(ids[i + 1]))


def expired_changelogs(
    ids: Sequence[int], rule: Rule, time_ms: Callable[[int], int | None], newest_snapshots: int
) -> int:
    """How many of the oldest long-lived changelogs expire; never the last one.

    `ids`: of the changelogs, ascending. `time_ms`: as in `expired_snapshots`; a changelog is old by its own time.
    `newest_snapshots`: how many snapshots follow the last changelog.
    """
    return _count(ids, len(ids) + newest_snapshots, rule, lambda i: time_ms(ids[i]))


def _count(ids: Sequence[int], count: int, rule: Rule, time_ms: Callable[[int], int | None]) -> int:
    """How many of the oldest ids expire; `count` includes what follows them, `time_ms` gets a position.

    Positions before `count - retain_max` expire whatever their age.
    """
    end = min(count - rule.retain_min, rule.limit, len(ids) - 1)
    if rule.first_needed is not None:
        end = min(end, bisect_left(ids, rule.first_needed))
    for i in range(max(count - rule.retain_max, 0), end):
        committed = time_ms(i)
        if committed is not None and rule.older_than_ms <= committed:
            return i
    return max(end, 0)


class _Files:
    """Snapshot files, read ahead."""

    def __init__(self, handle: TableHandle, ids: list[int]) -> None:
        self._handle, self._ids = handle, ids
        self._read: dict[int, _File | None] = {}

    def get(self, snapshot_id: int) -> _File | None:
        if snapshot_id not in self._read:
            at = self._ids.index(snapshot_id)
            ids = self._ids[at : at + _READ_AHEAD]
            paths = {self._handle.layout.snapshot_path(i): i for i in ids}
            self._read.update(dict.fromkeys(ids))
            for path, data in read_existing(self._handle.store, list(paths)):
                self._read[paths[path]] = decode(data, path), data
        return self._read[snapshot_id]

    def time_ms(self, snapshot_id: int) -> int | None:
        found = self.get(snapshot_id)
        return None if found is None else found[0].time_ms


def _expired_snapshot_files(handle: TableHandle, limits: Limits, now_ms: int) -> tuple[list[_File], int]:
    """The snapshots that expire, ascending, and the id of the first that stays."""
    options = handle.options.expiry
    rule = rule_of(handle, options.snapshots, limits, now_ms)
    if options.consumers_hold_snapshots:
        rule = replace(rule, first_needed=first_needed(handle))
    ids = list_snapshot_ids(handle)
    files = _Files(handle, ids)
    count = expired_snapshots(ids, rule, files.time_ms)
    return [file for i in ids[:count] if (file := files.get(i)) is not None], ids[count] if count else 0


def _expired_changelog_files(
    handle: TableHandle, limits: Limits, now_ms: int, delete_all: bool
) -> tuple[list[_File], int | None]:
    """The changelogs that expire, ascending, and the id of the first that stays; None if none does."""
    ids = list_changelog_ids(handle)
    if not ids:
        return [], None
    snapshots = list_snapshot_ids(handle)
    paths = {handle.layout.changelog_path(i): i for i in ids}
    files = {paths[p]: (decode(data, p), data) for p, data in read_existing(handle.store, list(paths))}
    count = len(ids)
    if not delete_all:
        rule = rule_of(handle, handle.options.expiry.changelogs, limits, now_ms)
        rule = replace(rule, first_needed=first_needed(handle))
        count = expired_changelogs(
            ids, rule, lambda i: files[i][0].time_ms if i in files else None, sum(i > ids[-1] for i in snapshots)
        )
    return [files[i] for i in ids[:count] if i in files], ids[count] if count < len(ids) else None


def _snapshot_change(handle: TableHandle, expired: Sequence[_File], next_id: int) -> TableChange:
    steps: list[Step] = []
    layout = handle.layout
    first, last = expired[0][0].id, expired[-1][0].id
    if handle.options.expiry.changelogs_outlive:
        steps += put_all([(relative_path(handle, layout.changelog_path(s.id)), encode(s)) for s, _ in expired])
        steps.append(Put(relative_path(handle, f"{layout.changelog_dir}/{LATEST}"), str(last)))
    steps += _delete_misleading_hint(handle, next_id)
    # Oldest first, so that the snapshots left have no gap at any moment. The hint is last: readers list when it names a
    # deleted snapshot, but would miss older snapshots when it names a later one.
    steps += [delete_unchanged(handle, layout.snapshot_path(s.id), data) for s, data in expired]
    steps.append(Put(relative_path(handle, _earliest_path(handle)), str(next_id)))
    label = f"expiry of snapshots {first} to {last} of {handle.describe()}"
    return TableChange(SNAPSHOT_EXPIRY, label, tuple(steps), _roots(handle, RootKind.SNAPSHOT, expired))


def _changelog_change(handle: TableHandle, expired: Sequence[_File], next_id: int | None) -> TableChange:
    layout = handle.layout
    steps: list[Step] = [delete_unchanged(handle, layout.changelog_path(s.id), data) for s, data in expired]
    hint = relative_path(handle, f"{layout.changelog_dir}/{EARLIEST}")
    if next_id is None:
        steps += [DeleteFile(hint), DeleteFile(relative_path(handle, f"{layout.changelog_dir}/{LATEST}"))]
    else:
        steps.append(Put(hint, str(next_id)))
    label = f"expiry of changelogs {expired[0][0].id} to {expired[-1][0].id} of {handle.describe()}"
    return TableChange(CHANGELOG_EXPIRY, label, tuple(steps), _roots(handle, RootKind.CHANGELOG, expired))


def _roots(handle: TableHandle, kind: RootKind, files: Sequence[_File]) -> tuple[Root, ...]:
    return tuple(Root(kind, handle.layout.directory_branch, str(s.id), s) for s, _ in files)


def _delete_misleading_hint(handle: TableHandle, first_kept: int) -> list[Step]:
    """Delete the hint LATEST when its successor expires: Java would take the snapshot that it names for the head."""
    path = f"{handle.layout.snapshot_dir}/{LATEST}"
    hint = find_bytes(handle.store, path)
    named = None if hint is None else id_of(hint.decode("latin-1"))
    if hint is None or named is None or named >= first_kept - 1:
        return []
    return [delete_unchanged(handle, path, hint)]


def _correct_earliest(handle: TableHandle) -> int | None:
    """Id of the oldest snapshot, by listing; also written as hint, so that the next commit need not list."""
    ids = list_snapshot_ids(handle)
    if not ids:
        return None
    handle.store.write(_earliest_path(handle), str(ids[0]).encode())
    return ids[0]


def _earliest_path(handle: TableHandle) -> str:
    return f"{handle.layout.snapshot_dir}/{EARLIEST}"
