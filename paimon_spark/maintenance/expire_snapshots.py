"""Expire old snapshots of a branch, and the files that only they need; the retention rule.

Where changelogs outlive their snapshots, each expired snapshot leaves a long-lived changelog behind.

Paimon's retention rule counts ids. Here it counts positions among the existing ids, which is the same where ids have no
gaps; where other engines left gaps, as many snapshots are kept as the numbers say.

Source: Java `table/ExpireSnapshotsImpl`, `table/ExpireChangelogImpl` (2.0), `utils/ChangelogManager`; `removal` decides
which files are deleted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from paimon_spark.errors import FileMissingError, InvalidInputError
from paimon_spark.format.metadata_files.snapshot import Snapshot, decode, encode
from paimon_spark.maintenance.change import change_table, preview, reopened
from paimon_spark.maintenance.consumers import first_needed
from paimon_spark.maintenance.removal import Removed
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.change import (
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
from paimon_spark.metadata.small_files import find_decoded
from paimon_spark.metadata.snapshots import find_snapshot, list_snapshot_ids, read_hint
from paimon_spark.options.retention import Retention

KIND: Final = "expire-snapshots"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a caller wants instead of the table's options; None means as they say.

    Attributes:
        older_than_ms: epoch milliseconds.
        max_deletes: how many may expire at a time; see `ANY_NUMBER`.
    """

    retain_max: int | None = None
    retain_min: int | None = None
    older_than_ms: int | None = None
    max_deletes: int | None = None


AS_OPTIONS_SAY: Final = Limits()
ANY_NUMBER: Final = (1 << 63) - 1
"""`max_deletes` of who wants all to go that may."""


def expire_snapshots(
    handle: TableHandle,
    limits: Limits = AS_OPTIONS_SAY,
    *,
    dry_run: bool = False,
    wait_ms: int = 60_000,
    clock_ms: Callable[[], int] = now_ms,
) -> Removed:
    """Let the branch's old snapshots expire, as its options or the caller say. The head always stays.

    Args:
        handle: the branch.
        limits: what the caller says.
        dry_run: only tell what would go.
        wait_ms: how long to wait for another process that changes the table's refs.
        clock_ms: epoch milliseconds.

    Raises:
        InvalidInputError: the limits contradict each other.
        BranchNotFoundError: the branch is no longer there.
        OperationInProgressError: another process is at it all the time.
        UnsafeDeletionError: it cannot be told what is still needed; nothing was deleted.
        CorruptFileError: a snapshot or consumer cannot be read; nothing was deleted.
    """
    now = clock_ms()

    def plan() -> TableChange | None:
        current = reopened(handle)
        going = _going(current, limits, now)
        return _change(current, going) if going else None

    rule_of(handle, handle.options.expiry.snapshots, limits, now)
    return preview(handle, plan()) if dry_run else change_table(handle, KIND, plan, wait_ms=wait_ms)


def rule_of(handle: TableHandle, retention: Retention, limits: Limits, at_ms: int) -> Rule:
    """The table's options, and what the caller says instead. Raises InvalidInputError: they contradict each other."""
    retain_max = retention.retain_max if limits.retain_max is None else limits.retain_max
    retain_min = retention.retain_min if limits.retain_min is None else limits.retain_min
    if limits.retain_max is not None and limits.retain_min is None:
        # Who says how many may stay need not know of an option that wants more.
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


def may_expire(handle: TableHandle, head_id: int, clock_ms: Callable[[], int] = now_ms) -> bool:
    """Whether `expire_snapshots` may find something, by few small reads: False is certain but for stale hints.

    Args:
        handle: the branch, whose head is `head_id`.
        head_id: id of the newest snapshot.
        clock_ms: epoch milliseconds.
    """
    options = handle.options.expiry
    retention = options.snapshots
    if head_id <= retention.retain_min:
        return False
    earliest = read_hint(handle.store, _hint(handle))
    if earliest is None or earliest > head_id:
        earliest = _hinted_anew(handle)
    if earliest is None or head_id - earliest < retention.retain_min:
        return False
    second = find_snapshot(handle, earliest + 1)
    if second is None:  # the hint is old, or there is a hole
        earliest = _hinted_anew(handle)
        if earliest is None or head_id - earliest < retention.retain_min:
            return False
    too_many = head_id - earliest >= retention.retain_max
    if not too_many and second is not None and clock_ms() - retention.time_retained_ms <= second.time_ms:
        return False
    needed = first_needed(handle) if options.consumers_hold_snapshots else None
    return needed is None or needed > earliest


def root_of(handle: TableHandle, kind: RootKind, snapshot: Snapshot) -> Root:
    """A snapshot or changelog of the handle's branch as a root."""
    return Root(kind, handle.layout.directory_branch, str(snapshot.id), snapshot)


@dataclass(frozen=True, slots=True)
class _Going:
    """A snapshot that expires, and the bytes of its file."""

    snapshot: Snapshot
    data: bytes
    next_id: int


class _Files:
    """Snapshot files read ahead, with their bytes."""

    def __init__(self, handle: TableHandle, ids: list[int]) -> None:
        self._handle, self._ids = handle, ids
        self._read: dict[int, tuple[Snapshot, bytes] | None] = {}

    def get(self, snapshot_id: int) -> tuple[Snapshot, bytes] | None:
        if snapshot_id not in self._read:
            at = self._ids.index(snapshot_id)
            self._read_some(self._ids[at : at + _READ_AHEAD])
        return self._read[snapshot_id]

    def time_ms(self, snapshot_id: int) -> int | None:
        found = self.get(snapshot_id)
        return None if found is None else found[0].time_ms

    def _read_some(self, ids: list[int]) -> None:
        paths = [self._handle.layout.snapshot_path(i) for i in ids]
        try:
            files = self._handle.store.read_many(paths)
            for i, path, data in zip(ids, paths, files, strict=True):
                self._read[i] = decode(data, path), data
        except FileMissingError:  # another engine let one expire meanwhile
            for i, path in zip(ids, paths, strict=True):
                self._read[i] = find_decoded(self._handle.store, path, lambda data, path: (decode(data, path), data))


_READ_AHEAD: Final = 64
"""Snapshots read at once; each is about a kilobyte."""


def _going(handle: TableHandle, limits: Limits, now_ms: int) -> list[_Going]:
    """The snapshots that expire, ascending."""
    options = handle.options.expiry
    rule = rule_of(handle, options.snapshots, limits, now_ms)
    if options.consumers_hold_snapshots:
        rule = replace(rule, first_needed=first_needed(handle))
    ids = list_snapshot_ids(handle)
    files = _Files(handle, ids)
    count = expired_snapshots(ids, rule, files.time_ms)
    found = []
    for i in range(count):
        file = files.get(ids[i])
        if file is not None:
            found.append(_Going(*file, ids[count]))
    return found


def _keeps_changelogs(handle: TableHandle) -> bool:
    return handle.options.expiry.changelogs_outlive


def _change(handle: TableHandle, going: list[_Going]) -> TableChange:
    steps: list[Step] = []
    layout = handle.layout
    if _keeps_changelogs(handle):
        kept = [(relative_path(handle, layout.changelog_path(g.snapshot.id)), encode(g.snapshot)) for g in going]
        steps += put_all(kept)
        steps.append(Put(relative_path(handle, f"{layout.changelog_dir}/{LATEST}"), str(going[-1].snapshot.id)))
    steps += _misleading_hint(handle, going[0].next_id)
    # Oldest first, so that what is alive at any moment has no hole; the hint last: one that names a snapshot that is
    # gone makes readers list, one that names a later snapshot than the oldest would hide some from them.
    steps += [delete_unchanged(handle, layout.snapshot_path(g.snapshot.id), g.data) for g in going]
    steps.append(Put(relative_path(handle, _hint(handle)), str(going[0].next_id)))
    first, last = going[0].snapshot.id, going[-1].snapshot.id
    return TableChange(
        KIND,
        f"expiry of snapshots {first} to {last} of {handle.describe()}",
        tuple(steps),
        tuple(root_of(handle, RootKind.SNAPSHOT, g.snapshot) for g in going),
    )


def _misleading_hint(handle: TableHandle, first_kept: int) -> list[Step]:
    """Takes the hint at the head away where it is so old that what follows on it expires: Java would believe it."""
    path = f"{handle.layout.snapshot_dir}/{LATEST}"
    hint = find_decoded(handle.store, path, lambda data, _: data)
    return [delete_unchanged(handle, path, hint)] if hint and hint.isdigit() and int(hint) < first_kept - 1 else []


def _hinted_anew(handle: TableHandle) -> int | None:
    """Id of the oldest snapshot, looked for, and written down so that the next commit need not list."""
    ids = list_snapshot_ids(handle)
    if not ids:
        return None
    handle.store.write(_hint(handle), str(ids[0]).encode())
    return ids[0]


def _hint(handle: TableHandle) -> str:
    return f"{handle.layout.snapshot_dir}/{EARLIEST}"


@dataclass(frozen=True, slots=True)
class Rule:
    """What is kept.

    Attributes:
        retain_max: at most so many are kept, however young they are.
        retain_min: so many of the newest are kept, however old.
        older_than_ms: epoch milliseconds from which on one is young.
        limit: how many may expire at a time.
        first_needed: id from which on a consumer needs them; None when none does.
    """

    retain_max: int
    retain_min: int
    older_than_ms: int
    limit: int
    first_needed: int | None = None


def expired_snapshots(ids: Sequence[int], rule: Rule, time_ms: Callable[[int], int | None]) -> int:
    """How many of the oldest snapshots expire; never the last one.

    A snapshot is old when the next one is, so that at every moment looked back to there is a snapshot.

    Args:
        ids: those alive, ascending.
        rule: what is kept.
        time_ms: when a snapshot was made, epoch milliseconds; None when it is gone. Asked for in ascending order, and
            not beyond the first that is young.
    """
    end = _end(ids, len(ids), rule)
    for i in range(_start(len(ids), rule), end):
        made = time_ms(ids[i + 1])
        if made is not None and rule.older_than_ms <= made:
            return i
    return end


def expired_changelogs(
    ids: Sequence[int], rule: Rule, time_ms: Callable[[int], int | None], newest_snapshots: int
) -> int:
    """How many of the oldest long-lived changelogs expire; never the last one.

    Args:
        ids: those there are, ascending.
        rule: what is kept, of changelogs and snapshots together.
        time_ms: as in `expired_snapshots`; a changelog is old by its own time.
        newest_snapshots: how many snapshots are alive after the last changelog.
    """
    count = len(ids) + newest_snapshots
    end = _end(ids, count, rule)
    for i in range(_start(count, rule), end):
        made = time_ms(ids[i])
        if made is not None and rule.older_than_ms <= made:
            return i
    return end


def _start(count: int, rule: Rule) -> int:
    """Positions before this expire however young they are."""
    return max(count - rule.retain_max, 0)


def _end(ids: Sequence[int], count: int, rule: Rule) -> int:
    """Positions from this on stay, whatever their age."""
    end = min(count - rule.retain_min, rule.limit, len(ids) - 1)
    if rule.first_needed is not None:
        end = min(end, bisect_left(ids, rule.first_needed))
    return max(end, 0)
