"""Memory of a merge: some rows of each run, whatever the runs' length and however the keys lie."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from paimon_spark.engine.merge.functions import Deduplicate
from paimon_spark.engine.merge.sorted_merge import MergePlan, windows

RUN_ROWS = 64
BATCH_ROWS = 20
PLAN = MergePlan(Deduplicate(ignore_delete=False), ("k",), (), ("k",))


class Counted:
    """A run that counts the rows that were taken from it."""

    def __init__(self, keys: Iterator[int]) -> None:
        self._keys = keys
        self.taken = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        while keys := list(itertools.islice(self._keys, BATCH_ROWS)):
            self.taken += len(keys)
            yield pa.RecordBatch.from_arrays([pa.array(keys, pa.int64())], names=["k"])


def most_held(runs: list[Counted]) -> tuple[int, int]:
    """The most rows that were taken and not yet given out with their window, and all rows given out."""
    held = given = 0
    for window in windows([run.batches() for run in runs], PLAN, RUN_ROWS):
        held = max(held, sum(run.taken for run in runs) - given)
        given += len(window.order)
    return held, given


@pytest.mark.parametrize("length", [1_000, 20_000])
@pytest.mark.parametrize(
    "step",
    [
        pytest.param(lambda run: 1, id="the same keys"),
        pytest.param(lambda run: run + 1, id="some runs denser"),
        pytest.param(lambda run: 1 if run == 0 else 500, id="one run much denser"),
    ],
)
def test_a_window_holds_some_rows_of_each_run(step: Callable[[int], int], length: int) -> None:
    runs = [Counted(iter(range(0, length, step(number)))) for number in range(6)]
    held, given = most_held(runs)
    assert given == sum(len(range(0, length, step(number))) for number in range(6))
    assert held <= len(runs) * (RUN_ROWS + BATCH_ROWS)


def test_runs_that_follow_each_other_wait_with_few_rows() -> None:
    runs = [Counted(iter(range(number * 5_000, (number + 1) * 5_000))) for number in range(6)]
    held, given = most_held(runs)
    assert (given, held <= len(runs) * (RUN_ROWS + BATCH_ROWS)) == (30_000, True)


def test_one_key_is_held_whole_and_then_let_go() -> None:
    """A key's rows are merged together; those after it must not stay as many."""
    runs = [Counted(iter([0] * 2_000 + list(range(1, 2_000)))) for _ in range(3)]
    held, given = most_held(runs)
    assert given == 3 * 3_999
    assert held <= 3 * 2 * 2_000 + 3 * (RUN_ROWS + BATCH_ROWS)
