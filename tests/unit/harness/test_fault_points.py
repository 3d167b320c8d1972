"""Fault points of the chaos tests are divided into shares without a gap."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.fault_points import ALL, selected_points
from tests.harness.shards import Part


@given(st.integers(1, 200), st.integers(1, 40), st.integers(0, 1000))
def test_the_shares_are_together_all_points_each_in_one_share(points: int, shares: int, turn: int) -> None:
    every = range(points)
    found = [_selected(every, turn, Part(i, shares)) for i in range(shares)]
    assert sorted(chain(*found)) == list(every)
    assert all(share == sorted(share) for share in found)
    assert max(map(len, found)) - min(map(len, found)) <= 1


def test_the_whole_is_one_share() -> None:
    assert selected_points("abc", 30, 7, ALL) == ["a", "b", "c"]


@given(st.integers(1, 200), st.integers(1, 40), st.integers(0, 1000))
def test_without_a_share_every_test_case_has_a_point(points: int, step: int, turn: int) -> None:
    found = selected_points(range(points), step, turn, None)
    assert found
    assert found == list(range(turn % step, points, step)) or (len(found) == 1 and turn % step >= points)


def test_a_test_case_without_a_point_in_the_share_is_skipped() -> None:
    with pytest.raises(pytest.skip.Exception, match="share 3/4 has none of the 2 fault points"):
        selected_points("ab", 1, 0, Part(3, 4))


def test_a_test_case_without_fault_points_fails() -> None:
    with pytest.raises(AssertionError, match="no fault points"):
        selected_points([], 1)


def _selected(points: range, turn: int, share: Part) -> list[int]:
    try:
        return selected_points(points, 1, turn, share)
    except pytest.skip.Exception:
        return []
