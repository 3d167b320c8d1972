"""Which sorted runs of a bucket are merged, and into which level: Paimon's universal compaction. Pure.

A file of level 0 is a sorted run; so is every higher level that has files. Only neighbours in age are merged, from the
newest run on, so that the rows of a key stay in order whatever is merged first.

Source: Java `mergetree/compact/UniversalCompaction`, `EarlyFullCompaction`, `ForceUpLevel0Compaction`, `OffPeakHours`,
`CompactStrategy.pickFullCompaction`, `mergetree/Levels`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from paimon_spark.engine.compaction.pick import Unit, Way
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.options.compaction import CompactionOptions


class Run(NamedTuple):
    """A sorted run: numbers of its files, and their bytes."""

    level: int
    files: tuple[int, ...]
    size: int


class Moment(NamedTuple):
    """When a pick is made.

    Attributes:
        hour: of the day, where this runs.
        wall_clock_ms: as `DataFileMeta.creation_time_ms` counts.
    """

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


def run_count(files: Sequence[DataFileMeta]) -> int:
    """How many sorted runs the files of a bucket are."""
    return sum(f.level == 0 for f in files) + len({f.level for f in files if f.level > 0})


def last_level(files: Sequence[DataFileMeta], num_levels: int) -> int:
    """The deepest level of a bucket; the option may have been larger once."""
    return max(num_levels - 1, *(f.level for f in files)) if files else num_levels - 1


def pick_full(
    files: Sequence[DataFileMeta], last: int, options: CompactionOptions, has_deletions: Callable[[DataFileMeta], bool]
) -> Unit | None:
    """Everything into the last level; None for a bucket that is in it already.

    Args:
        files: all live files of the bucket.
        last: its last level.
        options: of compaction.
        has_deletions: whether rows of a file are to go that no other file tells of.
    """
    if not files:
        return None
    if any(f.level != last for f in files):
        return Unit(tuple(range(len(files))), last)
    again = tuple(n for n, f in enumerate(files) if options.force_rewrite or has_deletions(f))
    return Unit(again, last, Way.EACH_ALONE) if again else None


def pick_universal(files: Sequence[DataFileMeta], last: int, options: CompactionOptions, moment: Moment) -> Unit | None:
    """What is worth merging by now; None when nothing is."""
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
    """All of level 0, and what is not much larger behind it; None without level 0."""
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
    """Whether a merge into `level` may leave deletes out: nothing lies deeper that they would hide."""
    return level != 0 and all(f.level <= level for f in files)
