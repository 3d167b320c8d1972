"""Universal compaction: which sorted runs are merged, and which files only move.

A file of level 0 is a sorted run; so is every higher level that has files. Only neighbours in age are merged, from the
newest run on, so that the rows of a key stay in order whatever is merged first. Pure functions.

Source: Java `mergetree/compact/UniversalCompaction`, `EarlyFullCompaction`, `ForceUpLevel0Compaction`, `OffPeakHours`,
`CompactStrategy.pickFullCompaction`, `MergeTreeCompactTask`, `LookupMergeTreeCompactRewriter.upgradeStrategy`,
`mergetree/Levels`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from paimon_spark.engine.merge.runs import Section, key_ranks, sections
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.options.compaction import CompactionOptions
from paimon_spark.types import DataType


class MergeMode(Enum):
    """How the files of a unit are compacted.

    Attributes:
        MERGE: all go to the level; files that share no keys only move, others are merged (`MergeTreeCompactTask`).
        LEVEL_0: those of level 0 go there, merged with those they share keys with; others stay.
        EACH_ALONE: they are in the last level, and each is rewritten by itself (`FileRewriteCompactTask`).
    """

    MERGE = "merge"
    LEVEL_0 = "level 0"
    EACH_ALONE = "each alone"


@dataclass(frozen=True, slots=True)
class Unit:
    """The numbers of the files of a bucket to compact, whole sorted runs from the newest on, and the output level."""

    files: tuple[int, ...]
    level: int
    mode: MergeMode = MergeMode.MERGE


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Sections, neighbours in key order, that become new files together."""

    sections: tuple[Section, ...]

    @property
    def files(self) -> tuple[int, ...]:
        return tuple(f for section in self.sections for f in section.files)


@dataclass(frozen=True, slots=True)
class Upgrade:
    """A file that moves to the output level unchanged."""

    file: int


@dataclass(slots=True)
class _Pending:
    """Sections that are rewritten if it pays."""

    sections: list[Section] = field(default_factory=list)
    must: bool = False
    new: int = 0

    def add(self, section: Section, *, must: bool, new: bool) -> None:
        self.sections.append(section)
        self.must |= must
        self.new += new


def output_level(files: Sequence[DataFileMeta], last_level: int, small_bytes: int) -> int:
    """The level that level 0 is merged into.

    Levels are included, from the first on, while they are smaller than `small_bytes` or not larger than the ones before
    together, so that a row is written again only as often as the bucket doubles.
    """
    taken = sum(f.file_size for f in files if f.level == 0)
    for level in range(1, last_level + 1):
        size = sum(f.file_size for f in files if f.level == level)
        if level > 1 and size > max(taken, small_bytes):
            return level - 1
        taken += size
    return last_level


def pick_level0(
    files: Sequence[DataFileMeta],
    key_types: Sequence[DataType],
    *,
    level: int,
    small_bytes: int,
    trigger: int,
    may_upgrade: Callable[[DataFileMeta], bool],
) -> list[Rewrite | Upgrade]:
    """How to empty level 0 of a bucket: what is rewritten into `level`, what only moves there.

    Files that share no key with one of level 0 stay where they are, except small ones beside others, so that
    small commits do not leave ever more small files. Files below `level` are not touched.

    Args:
        files: all live files of the bucket.
        key_types: types of the trimmed primary key.
        level: of the result.
        small_bytes: smaller files are small.
        trigger: number of small neighbours that are worth being joined.
        may_upgrade: whether a file of level 0 that shares no key with others may move unchanged.
    """
    if not any(f.level == 0 for f in files):
        return []
    out: list[Rewrite | Upgrade] = []
    pending = _Pending()

    def settle() -> None:
        nonlocal pending
        if pending.must or (pending.new and len(pending.sections) >= trigger):
            out.append(Rewrite(tuple(pending.sections)))
        else:
            out.extend(Upgrade(n) for s in pending.sections for n in s.files if files[n].level == 0)
        pending = _Pending()

    for section in _sections(files, key_types, [n for n, f in enumerate(files) if f.level <= level]):
        if len(section.runs) > 1:
            if any(files[n].level == 0 for n in section.files):
                pending.add(section, must=True, new=True)
            else:
                settle()
            continue
        for number in section.files:
            file = files[number]
            new = file.level == 0
            alone = Section(((number,),))
            if new and not may_upgrade(file):
                pending.add(alone, must=True, new=True)
            elif file.file_size < small_bytes:
                pending.add(alone, must=False, new=new)
            else:
                settle()
                if new:
                    out.append(Upgrade(number))
    settle()
    return out


def pick_merge(
    files: Sequence[DataFileMeta],
    key_types: Sequence[DataType],
    unit: Unit,
    *,
    small_bytes: int,
    must_rewrite: Callable[[DataFileMeta], bool],
) -> list[Rewrite | Upgrade]:
    """How all files of a unit get to its level: what is rewritten together, and what only moves there.

    Args:
        files: all live files of the bucket.
        key_types: types of the trimmed primary key.
        unit: the files to compact.
        small_bytes: smaller files are rewritten with their neighbours.
        must_rewrite: whether a file must be rewritten even if it shares no key with others.
    """
    out: list[Rewrite | Upgrade] = []
    pending: list[Section] = []

    def move(number: int) -> None:
        if must_rewrite(files[number]):
            out.append(Rewrite((Section(((number,),)),)))
        elif files[number].level != unit.level:
            out.append(Upgrade(number))

    def settle() -> None:
        if len(pending) == 1 and len(pending[0].runs) == 1:
            for number in pending[0].files:
                move(number)
        elif pending:
            out.append(Rewrite(tuple(pending)))
        pending.clear()

    for section in _sections(files, key_types, unit.files):
        if len(section.runs) > 1:
            pending.append(section)
            continue
        for number in section.files:
            if files[number].file_size < small_bytes:
                pending.append(Section(((number,),)))
            else:
                settle()
                move(number)
    settle()
    return out


def _sections(files: Sequence[DataFileMeta], key_types: Sequence[DataType], numbers: Sequence[int]) -> list[Section]:
    """Sections of some files, with the numbers these have in `files`."""
    found = sections(key_ranks([files[n] for n in numbers], key_types))
    return [Section(tuple(tuple(numbers[n] for n in run) for run in section.runs)) for section in found]


class Run(NamedTuple):
    """A sorted run: numbers of its files, and their bytes."""

    level: int
    files: tuple[int, ...]
    size: int


class Moment(NamedTuple):
    """The time of a pick: local hour of the day, and milliseconds as in `DataFileMeta.creation_time_ms`."""

    hour: int
    wall_clock_ms: int


def sorted_runs(files: Sequence[DataFileMeta]) -> list[Run]:
    """The sorted runs of a bucket, the newest first."""
    level0 = [n for n, f in enumerate(files) if f.level == 0]
    level0.sort(key=lambda n: _age(files[n]))
    runs = [Run(0, (n,), files[n].file_size) for n in level0]
    for level in sorted({f.level for f in files if f.level > 0}):
        numbers = tuple(n for n, f in enumerate(files) if f.level == level)
        runs.append(Run(level, numbers, sum(files[n].file_size for n in numbers)))
    return runs


def _age(file: DataFileMeta) -> tuple[int, int, int, str]:
    return -file.max_sequence_number, file.min_sequence_number, file.creation_time_ms or 0, file.file_name


def last_level(files: Sequence[DataFileMeta], num_levels: int) -> int:
    """The deepest level of a bucket; the option may have been larger once."""
    return max(num_levels - 1, *(f.level for f in files)) if files else num_levels - 1


def pick_full(
    files: Sequence[DataFileMeta], last: int, options: CompactionOptions, has_deletions: Callable[[DataFileMeta], bool]
) -> Unit | None:
    """Everything into the last level; None for a bucket that is in it already, without deleted or expired rows."""
    if not files:
        return None
    if any(f.level != last for f in files):
        return Unit(tuple(range(len(files))), last)
    again = tuple(n for n, f in enumerate(files) if options.force_rewrite or has_deletions(f))
    return Unit(again, last, MergeMode.EACH_ALONE) if again else None


def pick_universal(files: Sequence[DataFileMeta], last: int, options: CompactionOptions, moment: Moment) -> Unit | None:
    """Pick the files to merge now; None when no merge is worth it."""
    runs = sorted_runs(files)
    unit = (
        _early_full(files, runs, last, options, moment)
        or _size_amplification(runs, last, options)
        or _by_number(runs, last, options, moment)
    )
    if unit is None and options.force_up_level0:
        unit = pick_level0_up(runs, last, options, moment)
    if unit is None or (len(unit.files) == 1 and files[unit.files[0]].level == unit.level):
        return None
    return unit


def _early_full(
    files: Sequence[DataFileMeta], runs: Sequence[Run], last: int, options: CompactionOptions, moment: Moment
) -> Unit | None:
    if len(runs) < 2:
        return None
    interval, total, above = (
        options.optimization_interval_ms,
        options.total_size_threshold,
        options.incremental_size_threshold,
    )
    if interval is not None:
        newest = max((f.creation_time_ms or 0 for f in files if f.level == last), default=None)
        if newest is None or moment.wall_clock_ms - newest > interval:
            return _unit(runs, last)
    if total is not None and sum(r.size for r in runs) < total:
        return _unit(runs, last)
    if above is not None and sum(r.size for r in runs if r.level != last) > above:
        return _unit(runs, last)
    return None


def _size_amplification(runs: Sequence[Run], last: int, options: CompactionOptions) -> Unit | None:
    if len(runs) < options.trigger or len(runs) < 2:
        return None
    newer = sum(r.size for r in runs[:-1])
    return _unit(runs, last) if newer * 100 > options.max_size_amplification * runs[-1].size else None


def _by_number(runs: Sequence[Run], last: int, options: CompactionOptions, moment: Moment) -> Unit | None:
    if len(runs) < max(1, options.trigger):
        return None
    unit = _by_ratio(runs, last, options, moment, 1)
    if unit is None and len(runs) > options.trigger:
        unit = _by_ratio(runs, last, options, moment, len(runs) - options.trigger + 1)
    return unit


def pick_level0_up(runs: Sequence[Run], last: int, options: CompactionOptions, moment: Moment) -> Unit | None:
    """All of level 0, and the runs behind it that are not much larger; None without level 0."""
    count = sum(r.level == 0 for r in runs)
    return _by_ratio(runs, last, options, moment, count, triggered=True) if count else None


def _by_ratio(
    runs: Sequence[Run],
    last: int,
    options: CompactionOptions,
    moment: Moment,
    count: int,
    *,
    triggered: bool = False,
) -> Unit | None:
    """The newest `count` runs, and those behind that are not larger than all before them by more than the ratio."""
    percent = 100.0 + options.size_ratio + _off_peak(options, moment.hour)
    size = sum(r.size for r in runs[:count])
    triggered = triggered or count > 1
    for run in runs[count:]:
        if size * percent / 100.0 < run.size and (not triggered or run.level > 1):
            break
        size += run.size
        count += 1
        triggered = True
    return _cut(runs, last, count) if triggered else None


def _off_peak(options: CompactionOptions, hour: int) -> int:
    if options.offpeak_hours is None:
        return 0
    start, end = options.offpeak_hours
    inside = start <= hour < end if start <= end else hour < end or hour >= start
    return options.offpeak_ratio if inside else 0


def _cut(runs: Sequence[Run], last: int, count: int) -> Unit:
    """The newest `count` runs, into the level above the next; more of them when that would be level 0."""
    level = last if count == len(runs) else max(0, runs[count].level - 1)
    while level == 0 and count < len(runs):
        level = runs[count].level
        count += 1
    return _unit(runs[:count], last if count == len(runs) else level)


def _unit(runs: Sequence[Run], level: int) -> Unit:
    return Unit(tuple(n for r in runs for n in r.files), level)


def drops_deletes(files: Sequence[DataFileMeta], level: int) -> bool:
    """Whether a merge into `level` may drop deletes: no deeper level has rows that they would hide."""
    return level != 0 and all(f.level <= level for f in files)
