"""Limits of the batches of a stream."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.engine.scan.stream_units import SnapshotUnits
from paimon_spark.options.stream_read import ReadLimits
from paimon_spark.streaming.reader import Admission

UNIT = st.tuples(st.integers(1, 4), st.integers(1, 50), st.integers(0, 20))


def some(*units: tuple[int, int, int]) -> SnapshotUnits:
    """Units by files, bytes and rows."""
    columns = [np.array([u[i] for u in units], np.int64) for i in range(3)]
    found = SimpleNamespace(files=columns[0], size_bytes=columns[1], row_counts=columns[2])
    return cast(SnapshotUnits, found)


@pytest.mark.parametrize(
    ("limits", "taken"),
    [
        (ReadLimits(), 4),
        (ReadLimits(max_files=1), 1),
        (ReadLimits(max_files=3), 3),
        (ReadLimits(max_files=9), 4),
        (ReadLimits(max_bytes=1), 1),
        (ReadLimits(max_bytes=100), 1),
        (ReadLimits(max_bytes=101), 2),
        (ReadLimits(max_rows=10), 1),
        (ReadLimits(max_rows=11), 2),
        (ReadLimits(max_files=3, max_rows=11), 2),
    ],
)
def test_units_are_taken_until_a_limit_is_reached(limits: ReadLimits, taken: int) -> None:
    admission = Admission(limits)
    assert admission.take(some(*[(1, 100, 10)] * 4), 0) == taken
    assert admission.taken == (taken, 100 * taken, 10 * taken)
    assert admission.is_full == (taken < 4)


def test_a_batch_is_full_of_several_snapshots() -> None:
    admission = Admission(ReadLimits(max_files=3))
    assert admission.take(some((1, 1, 1), (1, 1, 1)), 0) == 2
    was_full = admission.is_full
    assert not was_full
    assert admission.take(some((1, 1, 1), (1, 1, 1)), 0) == 1
    assert admission.is_full
    assert admission.take(some((1, 1, 1)), 0) == 0
    assert admission.taken[0] == 3


def test_it_goes_on_in_the_middle_of_a_snapshot() -> None:
    units = some((1, 1, 5), (1, 1, 6), (1, 1, 7))
    admission = Admission(ReadLimits(max_files=1))
    assert admission.take(units, 1) == 2 and admission.taken[2] == 6
    assert Admission(ReadLimits(max_files=1)).take(units, 3) == 3


def test_rows_are_waited_for_unless_more_would_not_be_taken() -> None:
    waits = Admission(ReadLimits(min_rows=10, max_delay_ms=1))
    waits.take(some((1, 1, 9)), 0)
    had_enough = waits.has_enough
    assert not had_enough and waits.takes_all
    waits.take(some((1, 1, 1)), 0)
    assert waits.has_enough
    full = Admission(ReadLimits(max_files=1, min_rows=10, max_delay_ms=1))
    full.take(some((1, 1, 1)), 0)
    assert full.has_enough and not full.takes_all
    assert Admission(ReadLimits()).has_enough


@given(
    st.lists(UNIT, max_size=8),
    st.none() | st.integers(1, 10),
    st.none() | st.integers(1, 200),
    st.none() | st.integers(1, 60),
    st.integers(0, 8),
)
def test_limits_are_soft(
    units: list[tuple[int, int, int]], files: int | None, size: int | None, rows: int | None, start: int
) -> None:
    start = min(start, len(units))
    limits: list[Any] = [files, size, rows]
    want, sums = start, [0, 0, 0]
    while want < len(units) and all(x is None or s < x for s, x in zip(sums, limits, strict=True)):
        sums = [s + u for s, u in zip(sums, units[want], strict=True)]
        want += 1
    admission = Admission(ReadLimits(files, size, rows))
    assert admission.take(some(*units), start) == want
    assert list(admission.taken) == sums
