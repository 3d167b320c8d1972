"""Which sorted runs and files of a bucket a compaction takes, and where they go."""

from __future__ import annotations

from typing import Any

import pytest

from paimon_spark.engine.compaction.pick import (
    MergeMode,
    Moment,
    Rewrite,
    Unit,
    drops_deletes,
    last_level,
    output_level,
    pick_full,
    pick_level0,
    pick_universal,
    sorted_runs,
)
from paimon_spark.format import binary_row
from paimon_spark.format.metadata_files.data_file import DataFileMeta, SimpleStats
from paimon_spark.options.compaction import parse_compaction_options
from paimon_spark.types import BIGINT

NO_STATS = SimpleStats(b"", b"", None)


def file(level: int, low: int, high: int, size: int = 100, deletes: int = 0) -> DataFileMeta:
    keys = [binary_row.encode([k], [BIGINT]) for k in (low, high)]
    return DataFileMeta(f"f{level}-{low}-{high}", size, 1, keys[0], keys[1], NO_STATS, NO_STATS, 0, 0, 0, level,
                        delete_row_count=deletes)  # fmt: skip


def level0_steps(files: list[DataFileMeta], level: int = 5, small: int = 0, trigger: int = 5) -> list[set[int] | int]:
    """Files rewritten together as sets, files that move as numbers."""
    steps = pick_level0(
        files, [BIGINT], level=level, small_bytes=small, trigger=trigger, may_upgrade=lambda f: f.delete_row_count == 0
    )
    return [set(s.files) if isinstance(s, Rewrite) else s.file for s in steps]


def test_without_level_0_nothing_happens() -> None:
    assert level0_steps([file(5, 1, 9), file(4, 1, 9)]) == []


def test_files_alone_move_and_overlapping_ones_are_rewritten() -> None:
    assert level0_steps([file(0, 1, 2), file(0, 5, 6), file(5, 6, 9), file(5, 20, 30)]) == [0, {1, 2}]


def test_retracts_keep_a_file_from_moving() -> None:
    assert level0_steps([file(0, 1, 2, deletes=1), file(0, 5, 6)]) == [{0}, 1]


def test_small_neighbours_join_a_rewrite_and_large_ones_part_it() -> None:
    files = [file(5, 0, 1, 10), file(0, 3, 4, 10), file(5, 4, 5, 10), file(5, 7, 8), file(5, 9, 9, 10)]
    assert level0_steps(files, small=50) == [{0, 1, 2}]


def test_enough_small_neighbours_are_a_reason() -> None:
    files = [file(5, n, n, 10) for n in range(4)]
    assert level0_steps([*files, file(0, 9, 9, 10)], small=50) == [{0, 1, 2, 3, 4}]
    assert level0_steps([*files, file(0, 9, 9, 10)], small=50, trigger=6) == [4]
    assert level0_steps([*files, file(5, 9, 9, 10)], small=50) == []


def test_deeper_levels_are_left_out() -> None:
    files = [file(5, 0, 9), file(0, 3, 4), file(3, 4, 5)]
    assert level0_steps(files, level=4) == [{1, 2}]
    assert level0_steps(files, level=2) == [1]


def test_levels_are_taken_along_while_they_are_not_larger() -> None:
    assert output_level([file(0, 1, 2)], 5, 0) == 5
    assert output_level([file(0, 1, 2), file(5, 1, 2, 101)], 5, 0) == 4
    assert output_level([file(0, 1, 2), file(5, 1, 2, 101)], 5, 101) == 5
    assert output_level([file(0, 1, 2), file(4, 1, 2, 100), file(5, 1, 2, 200)], 5, 0) == 5
    assert output_level([file(0, 1, 2), file(4, 1, 2, 100), file(5, 1, 2, 201)], 5, 0) == 4
    assert output_level([file(0, 1, 2), file(1, 1, 2, 900), file(2, 1, 2, 2000)], 5, 0) == 1


NO_STATS = SimpleStats(b"", b"", None)
NOON = Moment(12, 1_000_000)


def bucket(*runs: tuple[int, int]) -> list[DataFileMeta]:
    """Files of runs given as (level, size), the newest first."""
    return [
        DataFileMeta(f"f{n}", size, 1, b"", b"", NO_STATS, NO_STATS, 0, 100 - n, 0, level, creation_time_ms=5_000)
        for n, (level, size) in enumerate(runs)
    ]


def pick(*runs: tuple[int, int], last: int = 5, now: Moment = NOON, **options: Any) -> tuple[int, int] | None:
    """How many of the newest runs are taken, and the level they go to."""
    raw = {key.replace("__", ".").replace("_", "-"): str(value) for key, value in options.items()}
    unit = pick_universal(bucket(*runs), last, parse_compaction_options(raw), now)
    if unit is None:
        return None
    assert unit.mode is MergeMode.MERGE
    assert unit.files == tuple(range(len(unit.files)))
    return len(unit.files), unit.level


AMP = "compaction__max_size_amplification_percent"


def level0(*sizes: int) -> list[tuple[int, int]]:
    return [(0, size) for size in sizes]


def test_runs_go_from_new_to_old() -> None:
    files = bucket((2, 9), (0, 1), (1, 3), (0, 2), (2, 5))
    files[3] = files[3]._replace(max_sequence_number=500)
    runs = sorted_runs(files)
    assert [(r.level, r.files, r.size) for r in runs] == [(0, (3,), 2), (0, (1,), 1), (1, (2,), 3), (2, (0, 4), 14)]
    assert sorted_runs([]) == []


def test_files_of_one_sequence_are_ordered_by_age_and_name() -> None:
    one, two, three = (f._replace(max_sequence_number=7) for f in bucket((0, 1), (0, 1), (0, 1)))
    files = [one._replace(min_sequence_number=3), two._replace(creation_time_ms=9), three._replace(creation_time_ms=1)]
    assert [r.files for r in sorted_runs(files)] == [(2,), (1,), (0,)]


def test_a_few_runs_are_left_alone() -> None:
    assert pick(*level0(1, 1, 1, 1)) is None
    assert pick((5, 100)) is None
    assert pick() is None


def test_what_lies_above_a_small_last_run_is_merged_with_it() -> None:
    assert pick(*level0(1, 1, 1, 1, 1)) == (5, 5)
    assert pick(*level0(1, 2, 3), (3, 5), (5, 5)) == (5, 5)
    assert pick(*level0(1, 1, 1), (4, 8), (5, 5)) == (5, 5)
    assert pick(*level0(1, 1, 1), (4, 7), (5, 5)) == (3, 3)


def test_runs_join_while_they_are_not_much_larger() -> None:
    big: dict[str, Any] = {AMP: 10_000}
    assert pick((0, 10), (0, 10), (0, 10), (4, 1000), (5, 1000), **big) == (3, 3)
    assert pick((0, 100), (0, 101), (2, 203), (4, 1000), (5, 9999), **big) == (3, 3)
    assert pick((0, 100), (0, 101), (2, 204), (4, 1000), (5, 9999), **big) == (2, 1)
    assert pick((0, 100), (0, 100), (0, 100), (0, 100), (5, 400), **big) == (5, 5)
    more: dict[str, Any] = {**big, "compaction__size_ratio": 50}
    assert pick((0, 100), (0, 150), (2, 370), (4, 9000), (5, 9999), **more) == (3, 3)


def test_a_larger_first_neighbour_is_no_reason_until_runs_are_many() -> None:
    big: dict[str, Any] = {AMP: 10_000}
    assert pick((0, 1), (2, 50), (3, 100), (4, 500), (5, 1000), **big) is None
    # One run too many: the newest two are taken whatever their sizes.
    assert pick((0, 1), (0, 9), (2, 50), (3, 100), (4, 500), (5, 1000), **big) == (2, 1)


def test_level_1_is_taken_along_however_large() -> None:
    big: dict[str, Any] = {AMP: 10_000}
    assert pick((0, 1), (0, 1), (1, 50), (4, 500), (5, 1000), **big) == (3, 3)
    assert pick((0, 1), (1, 50), (3, 100), (4, 500), (5, 1000), **big) is None


def test_nothing_goes_to_level_0() -> None:
    options: dict[str, Any] = {AMP: 10_000, "num_sorted_run__compaction_trigger": 3}
    assert pick((0, 1), (0, 1), (1, 900), (2, 5000), **options) == (3, 1)
    assert pick((0, 1), (0, 1), (0, 900), **options) == (3, 5)


def test_a_single_file_at_its_level_stays() -> None:
    options: dict[str, Any] = {"num_sorted_run__compaction_trigger": 1, AMP: 0}
    assert pick((5, 10), **options) is None
    assert pick((0, 10), **options) is None
    assert pick((0, 10), (0, 10), **options) == (2, 5)


def test_level_0_is_forced_up() -> None:
    force: dict[str, Any] = {"compaction__force_up_level_0": "true"}
    assert pick((0, 1), (0, 1), (3, 50), (5, 1000), **force) == (2, 2)
    assert pick((0, 30), (0, 30), (3, 50), (5, 1000), **force) == (3, 4)
    assert pick((0, 1), (5, 1000), **force) == (1, 4)
    assert pick((0, 1), **force) == (1, 5)
    assert pick((3, 50), (5, 1000), **force) is None


def test_ratios_are_higher_off_peak() -> None:
    options: dict[str, Any] = {AMP: 10_000, "compaction__offpeak_ratio": 100,
               "compaction__offpeak__start__hour": 22, "compaction__offpeak__end__hour": 6}  # fmt: skip
    runs = (0, 10), (0, 10), (2, 40), (4, 9000), (5, 9999)
    assert pick(*runs, **options) == (2, 1)
    for hour, taken in ((22, 3), (23, 3), (0, 3), (5, 3), (6, 2), (21, 2)):
        assert pick(*runs, now=Moment(hour, 0), **options) == (taken, 3 if taken == 3 else 1)
    day = {**options, "compaction__offpeak__start__hour": 6, "compaction__offpeak__end__hour": 22}
    assert pick(*runs, now=Moment(12, 0), **day) == (3, 3)
    assert pick(*runs, now=Moment(22, 0), **day) == (2, 1)


def test_early_full_compactions() -> None:
    runs = (0, 1), (5, 100)
    assert pick(*runs) is None
    assert pick(*runs, compaction__optimization_interval="1 min", now=Moment(0, 65_001)) == (2, 5)
    assert pick(*runs, compaction__optimization_interval="1 min", now=Moment(0, 65_000)) is None
    assert pick((0, 1), (3, 1), compaction__optimization_interval="1 d") == (2, 5)
    assert pick(*runs, compaction__total_size_threshold="102 b") == (2, 5)
    assert pick(*runs, compaction__total_size_threshold="101 b") is None
    assert pick((0, 3), (4, 3), (5, 100), compaction__incremental_size_threshold="5 b") == (3, 5)
    assert pick((0, 3), (4, 3), (5, 100), compaction__incremental_size_threshold="6 b") is None
    assert pick((5, 100), compaction__total_size_threshold="1 gb") is None


def test_a_full_compaction_takes_everything_once() -> None:
    options = parse_compaction_options({})
    files = bucket((0, 1), (5, 100))
    assert pick_full(files, 5, options, lambda _: False) == Unit((0, 1), 5)
    assert pick_full(bucket((5, 1), (5, 2)), 5, options, lambda _: False) is None
    assert pick_full([], 5, options, lambda _: True) is None
    marked = pick_full(bucket((5, 1), (5, 2)), 5, options, lambda f: f.file_name == "f1")
    assert marked == Unit((1,), 5, MergeMode.EACH_ALONE)
    forced = parse_compaction_options({"compaction.force-rewrite-all-files": "true"})
    assert pick_full(bucket((5, 1), (5, 2)), 5, forced, lambda _: False) == Unit((0, 1), 5, MergeMode.EACH_ALONE)


def test_the_last_level_is_where_files_are() -> None:
    assert last_level([], 6) == 5
    assert last_level(bucket((0, 1), (3, 1)), 6) == 5
    assert last_level(bucket((0, 1), (7, 1)), 6) == 7


@pytest.mark.parametrize(("level", "drops"), [(0, False), (3, False), (4, True), (5, True)])
def test_deletes_go_only_where_nothing_lies_deeper(level: int, drops: bool) -> None:
    assert drops_deletes(bucket((0, 1), (4, 1)), level) == drops
