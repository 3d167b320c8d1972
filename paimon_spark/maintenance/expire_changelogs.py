"""Expire long-lived changelogs, which expired snapshots left behind for readers of changes.

Source: Java `table/ExpireChangelogImpl`; `removal` decides which files are deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from paimon_spark.errors import FileMissingError
from paimon_spark.format.metadata_files.snapshot import Snapshot, decode
from paimon_spark.maintenance.change import change_table, preview, reopened
from paimon_spark.maintenance.consumers import first_needed
from paimon_spark.maintenance.expire_snapshots import AS_OPTIONS_SAY, Limits, expired_changelogs, root_of, rule_of
from paimon_spark.maintenance.removal import Removed
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.change import (
    Delete,
    Put,
    RootKind,
    Step,
    TableChange,
    delete_unchanged,
    relative_path,
)
from paimon_spark.metadata.layout import EARLIEST, LATEST
from paimon_spark.metadata.retry import now_ms
from paimon_spark.metadata.snapshots import find_changelog, list_changelog_ids, list_snapshot_ids

KIND: Final = "expire-changelogs"


def expire_changelogs(
    handle: TableHandle,
    limits: Limits = AS_OPTIONS_SAY,
    *,
    delete_all: bool = False,
    dry_run: bool = False,
    wait_ms: int = 60_000,
    clock_ms: Callable[[], int] = now_ms,
) -> Removed:
    """Let the branch's old changelogs expire, as its options or the caller say. The newest one stays.

    Args:
        handle: the branch.
        limits: what the caller says; numbers count changelogs and snapshots together.
        delete_all: all go, whatever the options, the caller and consumers say.
        dry_run: only tell what would go.
        wait_ms: how long to wait for another process that changes the table's refs.
        clock_ms: epoch milliseconds.

    Raises:
        As `expire_snapshots`.
    """
    now = clock_ms()

    def plan() -> TableChange | None:
        current = reopened(handle)
        going, next_id = _going(current, limits, now, delete_all)
        return _change(current, going, next_id) if going else None

    rule_of(handle, handle.options.expiry.changelogs, limits, now)
    return preview(handle, plan()) if dry_run else change_table(handle, KIND, plan, wait_ms=wait_ms)


def may_expire(handle: TableHandle, head_id: int, clock_ms: Callable[[], int] = now_ms) -> bool:
    """Whether `expire_changelogs` may find something, by a listing and few small reads.

    Args:
        handle: the branch, whose head is `head_id`.
        head_id: id of the newest snapshot.
        clock_ms: epoch milliseconds.
    """
    retention = handle.options.expiry.changelogs
    ids = list_changelog_ids(handle)
    if len(ids) < 2 or head_id - ids[0] < retention.retain_min:
        return False
    oldest = find_changelog(handle, ids[0]) if head_id - ids[0] < retention.retain_max else None
    if oldest is not None and clock_ms() - retention.time_retained_ms <= oldest.time_ms:
        return False
    needed = first_needed(handle)
    return needed is None or needed > ids[0]


def _going(
    handle: TableHandle, limits: Limits, now_ms: int, delete_all: bool
) -> tuple[list[tuple[Snapshot, bytes]], int | None]:
    """The changelogs that expire with the bytes of their files, and the first that stays; None if none does."""
    rule = rule_of(handle, handle.options.expiry.changelogs, limits, now_ms)
    if not delete_all:
        rule = replace(rule, first_needed=first_needed(handle))
    ids = list_changelog_ids(handle)
    if not ids:
        return [], None
    snapshots = list_snapshot_ids(handle)
    files = _read(handle, ids)
    count = len(ids)
    if not delete_all:
        count = expired_changelogs(
            ids, rule, lambda i: files[i][0].time_ms if i in files else None, sum(i > ids[-1] for i in snapshots)
        )
    return [files[i] for i in ids[:count] if i in files], ids[count] if count < len(ids) else None


def _read(handle: TableHandle, ids: list[int]) -> dict[int, tuple[Snapshot, bytes]]:
    paths = {i: handle.layout.changelog_path(i) for i in ids}
    try:
        found = handle.store.read_many(list(paths.values()))
    except FileMissingError:  # another engine let one expire meanwhile
        return {i: (decode(data, paths[i]), data) for i in ids for data in _one(handle, paths[i])}
    return {i: (decode(data, paths[i]), data) for i, data in zip(ids, found, strict=True)}


def _one(handle: TableHandle, path: str) -> list[bytes]:
    try:
        return [handle.store.read(path)]
    except FileMissingError:
        return []


def _change(handle: TableHandle, going: list[tuple[Snapshot, bytes]], next_id: int | None) -> TableChange:
    layout = handle.layout
    steps: list[Step] = [delete_unchanged(handle, layout.changelog_path(s.id), data) for s, data in going]
    hint = relative_path(handle, f"{layout.changelog_dir}/{EARLIEST}")
    if next_id is None:
        steps += [Delete(hint), Delete(relative_path(handle, f"{layout.changelog_dir}/{LATEST}"))]
    else:
        steps.append(Put(hint, str(next_id)))
    return TableChange(
        KIND,
        f"expiry of changelogs {going[0][0].id} to {going[-1][0].id} of {handle.describe()}",
        tuple(steps),
        tuple(root_of(handle, RootKind.CHANGELOG, s) for s, _ in going),
    )
