"""Automatic tags: one for each period of the clock or the watermark, or one for each batch.

Snapshots and names are the same as those of Paimon's writers: a period's tag is created from the
first snapshot whose time reaches the end of the period, plus the delay.

Source: Java `tag/TagAutoCreation`, `tag/TagTimeExtractor`, `tag/TagBatchCreation`.

Tests: tests/unit/versioning/test_auto_tags.py, test_tag_expiry.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Final, TypeAlias

from paimon_spark.display import ShownAsFacts
from paimon_spark.errors import InvalidOptionError
from paimon_spark.format.metadata_files.snapshot import Snapshot, Tag
from paimon_spark.maintenance.change import change_branch
from paimon_spark.metadata.handle import TableHandle, branch_names
from paimon_spark.metadata.journal.change import Step, TableChange
from paimon_spark.metadata.layout import TAG_PREFIX
from paimon_spark.metadata.retry import local_now
from paimon_spark.metadata.snapshots import find_snapshot, latest_snapshot, list_snapshot_ids
from paimon_spark.metadata.tags import (
    TagPeriods,
    find_tag,
    get_tag,
    guarded_branch,
    list_tags,
    savepoint_id_of,
    tag_names,
    tag_periods,
)
from paimon_spark.metadata.version import zone_of
from paimon_spark.options.retention import TagCreation, TagOptions
from paimon_spark.text import named
from paimon_spark.versioning.names import check_tag_name
from paimon_spark.versioning.tag_steps import (
    check_not_expired,
    create_steps,
    delete_steps,
    local_time,
    new_tag,
    tag_root,
)

_BATCH_PREFIX: Final = "batch-write-"


@dataclass(frozen=True, slots=True, repr=False)
class AutoTags(ShownAsFacts):
    """Result of automatic tagging.

    Attributes:
        created: names of the tags that were created or moved.
        deleted: names of the tags that were deleted because of `tag.num-retained-max`.
    """

    created: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()

    def text_lines(self) -> list[str]:
        out = [f"created {named(self.created, 'tag')}"] if self.created else ["no automatic tag is due"]
        return [*out, f"deleted {named(self.deleted, 'tag')}"] if self.deleted else out


def create_automatic_tags(handle: TableHandle, *, wait_ms: int = 60_000) -> AutoTags:
    """Create the tags that are due, as after a commit. Nothing without option `tag.automatic-creation`."""
    head = latest_snapshot(handle)
    return AutoTags() if head is None else run_automatic_tags(handle, head, wait_ms=wait_ms)


def run_automatic_tags(
    handle: TableHandle,
    snapshot: Snapshot,
    *,
    wait_ms: int = 60_000,
    clock: Callable[[], datetime] = local_now,
) -> AutoTags:
    """Create the tags that are due once `snapshot` is the head, and delete those beyond `tag.num-retained-max`.

    For tags of batches, `snapshot` holds what a batch wrote. Costs nothing without option `tag.automatic-creation`;
    when no tag is due, a listing and one read.
    """
    options = handle.options.tags
    if options.creation is TagCreation.NONE:
        return AutoTags()
    if options.creation is not TagCreation.BATCH and not _may_be_due(handle, options, snapshot):
        return AutoTags()
    done = AutoTags()
    made: list[Tag] = []

    def plan(branch: TableHandle) -> TableChange | None:
        nonlocal done, made
        find = _of_batch if options.creation is TagCreation.BATCH else _by_time
        change, made, done = find(branch, options, clock())
        return change

    change_branch(handle, "automatic-tags", plan, wait_ms=wait_ms)
    for tag in made:
        check_not_expired(handle, tag)
    return done


_Done: TypeAlias = tuple[TableChange | None, list[Tag], AutoTags]
"""A change, the tags that it creates, and its result."""


@dataclass(slots=True)
class Schedule:
    """Which tag is due next; advanced by each snapshot given to `tag`.

    Attributes:
        extract: the local time of a snapshot; None when it has none.
        next_tag: start of the period whose tag is created next; None before the first tag.
    """

    periods: TagPeriods
    delay: timedelta
    completion: bool
    extract: Callable[[Snapshot], datetime | None]
    next_tag: datetime | None = None

    def is_due(self, snapshot: Snapshot) -> bool:
        """Whether a tag is created from the snapshot."""
        time = self.extract(snapshot)
        return time is not None and self._reached(time)

    def _reached(self, time: datetime) -> bool:
        if self.next_tag is None:
            return True
        try:
            return time - self.delay >= self.next_tag + self.periods.length
        except OverflowError:  # beyond the calendar
            return False

    def tag(self, snapshot: Snapshot) -> str | None:
        """The name of the tag created from the snapshot; None for none."""
        time = self.extract(snapshot)
        if time is None or not self._reached(time):
            return None
        try:
            begin = self.next_tag if self.completion and self.next_tag is not None else self.periods.last_whole(time)
            self.next_tag = begin + self.periods.length
        except OverflowError:
            return None
        return self.periods.name_of(begin)


def schedule_of(handle: TableHandle, options: TagOptions) -> Schedule:
    """The schedule of a branch's options, before its first tag. Raises InvalidOptionError."""
    periods = tag_periods(options)
    delay = timedelta(milliseconds=options.delay_ms)
    if delay >= periods.length:
        raise InvalidOptionError(
            f"option tag.creation-delay of {handle.describe()} is {delay}, but must be shorter than the period of "
            f"{periods.length}; set a shorter delay",
            option="tag.creation-delay",
            table=handle.name,
        )
    if options.creation is TagCreation.PROCESS_TIME:
        zone = zone_of(options.process_zone)
        return Schedule(periods, delay, options.completion, lambda s: _local(s.time_ms, zone))
    zone = zone_of(options.watermark_zone)
    return Schedule(
        periods, delay, options.completion, lambda s: None if s.watermark is None else _local(s.watermark, zone)
    )


def _local(epoch_ms: int, zone: tzinfo | None) -> datetime | None:
    """The local time in a zone; None outside the calendar."""
    try:
        return local_time(epoch_ms, zone)
    except (OverflowError, ValueError, OSError):
        return None


def _may_be_due(handle: TableHandle, options: TagOptions, snapshot: Snapshot) -> bool:
    """Whether a tag may be due: times of snapshots ascend, so none is when none is due at the head."""
    schedule = schedule_of(handle, options)
    newest = _newest(schedule.periods, tag_names(handle))
    if newest is not None:
        schedule.next_tag = newest[0] + schedule.periods.length
    return schedule.is_due(snapshot)


def _newest(periods: TagPeriods, names: Iterable[str]) -> tuple[datetime, str] | None:
    """The newest automatic tag by the time in its name."""
    times = ((time, name) for name in names if (time := periods.time_of(name)) is not None)
    return max(times, default=None)


def _by_time(handle: TableHandle, options: TagOptions, now: datetime) -> _Done:
    """Tags by the clock or the watermark, for each snapshot since the newest tag."""
    schedule = schedule_of(handle, options)
    names = tag_names(handle)
    newest = _newest(schedule.periods, names)
    first = 0
    if newest is not None:
        schedule.next_tag = newest[0] + schedule.periods.length
        first = get_tag(handle, newest[1]).snapshot.id + 1
    snapshots = (find_snapshot(handle, i) for i in list_snapshot_ids(handle) if i >= first)
    due = [(name, s) for s in snapshots if s is not None and (name := schedule.tag(s)) is not None]
    if not due:
        return None, [], AutoTags()
    old = [t for t in list_tags(handle) if schedule.periods.time_of(t.name) is not None]
    tagged = {t.snapshot.id for t in old}  # Paimon's automatic tagging fails at a snapshot with two tags by time
    made = [
        new_tag(name, snapshot, options.default_time_retained_s, now)
        for name, snapshot in due
        if name not in names and snapshot.id not in tagged
    ]
    keep = options.num_retained_max
    gone = set() if keep is None or not made else _oldest([*old, *made], keep)
    return _change(handle, options, [t for t in made if t.name not in gone], [t for t in old if t.name in gone])


def _oldest(tags: list[Tag], keep: int) -> set[str]:
    """Names of the tags to delete so that the newest `keep` tagged snapshots stay."""
    ids = sorted({t.snapshot.id for t in tags})
    last_gone = ids[len(ids) - keep - 1] if len(ids) > max(keep, 0) else -1
    return {t.name for t in tags if t.snapshot.id <= last_gone}


def _of_batch(handle: TableHandle, options: TagOptions, now: datetime) -> _Done:
    """The tag of the last batch, or the last of a day. `tag.num-retained-max` counts other tags too, as in Java.

    Savepoints and guard tags do not count and stay.
    """
    head = latest_snapshot(handle)
    if head is None:
        return None, [], AutoTags()
    time = _local(head.time_ms, zone_of(options.process_zone))
    name = options.batch_name or f"{_BATCH_PREFIX}{time:%Y-%m-%d}"
    check_tag_name(name, table=handle.describe(), branch_names=branch_names(handle.store, handle.layout))
    tag = new_tag(name, head, options.default_time_retained_s, now)
    replaced = find_tag(handle, name)
    gone = list[Tag]()
    if options.num_retained_max is not None:
        tags = (t for t in list_tags(handle) if savepoint_id_of(t.name) is None and guarded_branch(t.name) is None)
        others = [t for t in tags if t.name != name]
        surplus = len(others) + 1 - max(options.num_retained_max, 1)
        gone = _by_age(handle, others)[: max(surplus, 0)]
    return _change(handle, options, [tag], gone, replaced)


def _by_age(handle: TableHandle, tags: list[Tag]) -> list[Tag]:
    """Tags by snapshot, then by when they were created."""
    made_ms = {i.name.removeprefix(TAG_PREFIX): i.modified_ms or 0 for i in handle.store.list(handle.layout.tag_dir)}
    return sorted(tags, key=lambda t: (t.snapshot.id, made_ms.get(t.name, 0), t.name))


def _change(
    handle: TableHandle, options: TagOptions, made: list[Tag], gone: list[Tag], replaced: Tag | None = None
) -> _Done:
    """The created and deleted tags as one change."""
    if not made and not gone:
        return None, [], AutoTags()
    steps: list[Step] = [step for tag in made for step in create_steps(handle, options, tag)]
    steps += [step for tag in gone for step in delete_steps(handle, options, tag.name)]
    released = [*gone, *([] if replaced is None else [replaced])]
    label = f"automatic tagging of branch {handle.branch!r}"
    change = TableChange("automatic-tags", label, tuple(steps), tuple(tag_root(handle, tag) for tag in released))
    return change, made, AutoTags(tuple(t.name for t in made), tuple(t.name for t in gone))
