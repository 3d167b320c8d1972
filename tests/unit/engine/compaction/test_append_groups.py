"""Which files of tables without keys are written again together."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.engine.compaction.append import Mark, pick
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.options.compaction import AppendCompactionOptions, parse_append_compaction_options
from tests.harness.commits import a_file

OPTIONS = AppendCompactionOptions(
    target_bytes=1000, small_bytes=700, open_bytes=10, min_files=5, delete_ratio=0.2, rewrites_all=False
)
NONE: dict[str, Mark] = {}


def files(*sizes: int) -> list[DataFileMeta]:
    """Files of ten rows each, in the order of their rows."""
    return [
        a_file(f"f{i}", file_size=size, min_sequence_number=10 * i, max_sequence_number=10 * i + 9)
        for i, size in enumerate(sizes)
    ]


def picked(
    sizes: list[int], marks: dict[str, Mark] = NONE, options: AppendCompactionOptions = OPTIONS, **how: bool
) -> list[tuple[int, ...]]:
    return pick(files(*sizes), marks, options, **{"full": False, "ordered": False, **how})


def test_few_small_files_wait_for_more() -> None:
    assert picked([10] * 4) == []
    assert picked([10] * 5) == [(0, 1, 2, 3, 4)]
    assert picked([10] * 4 + [700]) == []
    assert picked([10] * 4 + [699]) == [(0, 1, 2, 3, 4)]


def test_small_files_are_put_together_smallest_first_until_they_are_two_files() -> None:
    assert picked([600, 100, 650, 640]) == [(1, 0, 3, 2)]
    assert picked([690, 100, 680, 670, 650]) == [(1, 4, 3, 2)]  # 100 + 650 + 670 + 680 and their opening
    assert picked([500] * 2 + [690] * 2) == [(0, 1, 2, 3)]


def test_opening_a_file_weighs_but_not_when_all_shall_be_compact() -> None:
    dear = replace(OPTIONS, open_bytes=1000)
    assert picked([10, 10, 10], options=dear) == [(0, 1)]
    assert picked([10, 10, 10], options=dear, full=True) == [(0, 1, 2)]


def test_a_full_compaction_takes_what_is_small_but_no_file_alone() -> None:
    assert picked([10, 900, 10], full=True) == [(0, 2)]
    assert picked([10, 900], full=True) == []
    assert picked([900, 900], full=True) == []
    assert picked([900, 900], full=True, options=replace(OPTIONS, rewrites_all=True)) == [(0, 1)]
    assert picked([900], full=True, options=replace(OPTIONS, rewrites_all=True)) == [(0,)]
    assert picked([900, 900], options=replace(OPTIONS, rewrites_all=True)) == []


def test_large_files_are_written_again_when_enough_of_their_rows_are_deleted() -> None:
    assert picked([900], {"f0": Mark("i", 2)}) == []
    assert picked([900], {"f0": Mark("i", 3)}) == [(0,)]
    assert picked([900], {"f0": Mark("i", None)}) == [(0,)]
    assert picked([900], {"f0": Mark("i", 1)}, full=True) == [(0,)]
    assert picked([10], {"f0": Mark("i", 1)}) == [(0,)]


def test_files_with_vectors_in_one_index_file_are_written_by_one_task() -> None:
    marks = {"f0": Mark("i", 9), "f3": Mark("i", 9), "f1": Mark("j", 9), "f2": Mark("k", 9)}
    assert picked([990, 990, 990, 990], marks) == [(1, 2), (0, 3)]


def test_neighbours_alone_become_one_where_rows_have_an_order() -> None:
    assert picked([10, 10, 900, 10, 10, 10, 10], ordered=True) == []
    assert picked([10, 10, 900, 10, 10, 10, 10, 10], ordered=True) == [(3, 4, 5, 6, 7)]
    assert picked([10, 10, 900, 10, 10, 900, 10], ordered=True, full=True) == [(0, 1), (3, 4)]
    assert picked([690, 690, 690, 690], ordered=True) == [(0, 1, 2)]
    shuffled = files(10, 10, 900, 10, 10)[::-1]
    assert pick(shuffled, {}, OPTIONS, full=True, ordered=True) == [(4, 3), (1, 0)]


def test_a_bucket_with_vectors_has_one_task_for_them() -> None:
    """All its vectors are in one index file."""
    marks = {"f1": Mark("i", 9), "f3": Mark("i", 9)}
    sizes = [900, 900, 900, 900, 10, 10]
    assert picked(sizes, marks, ordered=True) == [(1,)]
    assert picked(sizes, marks, ordered=True, full=True) == [(1, 2, 3, 4, 5)]
    assert picked([10, 10, *sizes], {"f3": Mark("i", 9), "f5": Mark("i", 9)}, ordered=True, full=True) == [
        (3, 4, 5, 6, 7),
        (0, 1),
    ]


@given(
    st.lists(st.tuples(st.integers(1, 1500), st.sampled_from([None, "i", "j"]), st.integers(0, 10)), max_size=30),
    st.booleans(),
    st.booleans(),
)
def test_whatever_the_files(found: list[tuple[int, str | None, int]], full: bool, ordered: bool) -> None:
    given_files = files(*(size for size, _, _ in found))
    marks = {
        f"f{i}": Mark("i" if ordered else index, rows) for i, (_, index, rows) in enumerate(found) if index is not None
    }
    groups = pick(given_files, marks, OPTIONS, full=full, ordered=ordered)
    taken = [n for g in groups for n in g]
    assert len(set(taken)) == len(taken)
    indexes = [{marks[f"f{n}"].index_file for n in g if f"f{n}" in marks} for g in groups]
    assert sum(map(len, indexes)) == len(set().union(*indexes)), "an index file is rewritten by one task"
    for group, index in zip(groups, indexes, strict=True):
        assert len(group) > 1 or index, "nothing is gained by writing one file again"
        if ordered:
            assert list(group) == list(range(group[0], group[-1] + 1))
    if full:
        assert {n for n in range(len(found)) if f"f{n}" in marks} <= set(taken)
        left = [n for n in range(len(found)) if n not in taken and found[n][0] < OPTIONS.small_bytes]
        assert all(b - a > 1 for a, b in pairwise(left)) if ordered else len(left) <= 1


def test_options_are_those_of_the_table() -> None:
    options = parse_append_compaction_options(
        {"target-file-size": "10 mb", "compaction.small-file-ratio": "0.5", "compaction.min.file-num": "3",
         "compaction.delete-ratio-threshold": "0.4", "source.split.open-file-cost": "1 mb",
         "compaction.force-rewrite-all-files": "true"}
    )  # fmt: skip
    assert options == AppendCompactionOptions(
        target_bytes=10 << 20, small_bytes=5 << 20, open_bytes=1 << 20, min_files=3, delete_ratio=0.4, rewrites_all=True
    )
    plain = parse_append_compaction_options({})
    assert (plain.target_bytes, plain.min_files, plain.delete_ratio) == (256 << 20, 5, 0.2)
    assert plain.small_bytes == int(0.7 * (256 << 20))
