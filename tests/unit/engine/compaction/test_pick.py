"""Which files a compaction of level 0 touches."""

from __future__ import annotations

from paimon_spark.engine.compaction.pick import Rewrite, output_level, pick_level0
from paimon_spark.format import binary_row
from paimon_spark.format.metadata_files.data_file import DataFileMeta, SimpleStats
from paimon_spark.types import BIGINT

NO_STATS = SimpleStats(b"", b"", None)


def file(level: int, low: int, high: int, size: int = 100, deletes: int = 0) -> DataFileMeta:
    keys = [binary_row.encode([k], [BIGINT]) for k in (low, high)]
    return DataFileMeta(f"f{level}-{low}-{high}", size, 1, keys[0], keys[1], NO_STATS, NO_STATS, 0, 0, 0, level,
                        delete_row_count=deletes)  # fmt: skip


def pick(files: list[DataFileMeta], level: int = 5, small: int = 0, trigger: int = 5) -> list[set[int] | int]:
    """Files rewritten together as sets, files that move as numbers."""
    steps = pick_level0(
        files, [BIGINT], level=level, small_bytes=small, trigger=trigger, may_upgrade=lambda f: f.delete_row_count == 0
    )
    return [set(s.files) if isinstance(s, Rewrite) else s.file for s in steps]


def test_without_level_0_nothing_happens() -> None:
    assert pick([file(5, 1, 9), file(4, 1, 9)]) == []


def test_files_alone_move_and_overlapping_ones_are_rewritten() -> None:
    assert pick([file(0, 1, 2), file(0, 5, 6), file(5, 6, 9), file(5, 20, 30)]) == [0, {1, 2}]


def test_retracts_keep_a_file_from_moving() -> None:
    assert pick([file(0, 1, 2, deletes=1), file(0, 5, 6)]) == [{0}, 1]


def test_small_neighbours_join_a_rewrite_and_large_ones_part_it() -> None:
    files = [file(5, 0, 1, 10), file(0, 3, 4, 10), file(5, 4, 5, 10), file(5, 7, 8), file(5, 9, 9, 10)]
    assert pick(files, small=50) == [{0, 1, 2}]


def test_enough_small_neighbours_are_a_reason() -> None:
    files = [file(5, n, n, 10) for n in range(4)]
    assert pick([*files, file(0, 9, 9, 10)], small=50) == [{0, 1, 2, 3, 4}]
    assert pick([*files, file(0, 9, 9, 10)], small=50, trigger=6) == [4]
    assert pick([*files, file(5, 9, 9, 10)], small=50) == []


def test_deeper_levels_are_left_out() -> None:
    files = [file(5, 0, 9), file(0, 3, 4), file(3, 4, 5)]
    assert pick(files, level=4) == [{1, 2}]
    assert pick(files, level=2) == [1]


def test_levels_are_taken_along_while_they_are_not_larger() -> None:
    assert output_level([file(0, 1, 2)], 5, 0) == 5
    assert output_level([file(0, 1, 2), file(5, 1, 2, 101)], 5, 0) == 4
    assert output_level([file(0, 1, 2), file(5, 1, 2, 101)], 5, 101) == 5
    assert output_level([file(0, 1, 2), file(4, 1, 2, 100), file(5, 1, 2, 200)], 5, 0) == 5
    assert output_level([file(0, 1, 2), file(4, 1, 2, 100), file(5, 1, 2, 201)], 5, 0) == 4
    assert output_level([file(0, 1, 2), file(1, 1, 2, 900), file(2, 1, 2, 2000)], 5, 0) == 1
