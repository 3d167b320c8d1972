"""Lanes of `log --graph`."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.versioning.log import draw as draw_commits


class Point(NamedTuple):
    """What `draw` needs of a commit."""

    key: Hashable
    parent: Hashable | None
    is_after_gap: bool
    text: str


def draw(points: Sequence[Point]) -> Iterator[str]:
    return draw_commits(points, lambda p: p.text)  # type: ignore[arg-type, attr-defined]


def drawn(*points: tuple[str, str | None]) -> str:
    return "\n".join(draw([Point(key, parent, False, key) for key, parent in points]))


def test_a_straight_history_is_one_lane() -> None:
    assert drawn(("3", "2"), ("2", "1"), ("1", None)) == "*  3\n*  2\n*  1"


def test_branches_have_lanes_that_join_where_they_parted() -> None:
    assert drawn(("m4", "2"), ("f4", "f3"), ("f3", "2"), ("2", "1"), ("1", None)) == (
        "*  m4\n"
        "| *  f4\n"
        "| *  f3\n"
        "|/\n"
        "*  2\n"
        "*  1"
    )  # fmt: skip


def test_lanes_bend_under_those_between() -> None:
    assert drawn(("a", "0"), ("b", "1"), ("c", "0"), ("0", None), ("1", None)) == (
        "*  a\n"
        "| *  b\n"
        "| | *  c\n"
        "|_|/\n"
        "* |  0\n"
        "  *  1"
    )  # fmt: skip


def test_a_gap_is_drawn() -> None:
    points = [Point("9", "5", True, "9"), Point("5", None, False, "5")]
    assert list(draw(points)) == ["*  9", ":", "*  5"]


def test_a_history_that_a_limit_cuts_ends_there() -> None:
    assert drawn(("9", "8")) == "*  9"


def test_histories_that_share_nothing_stand_side_by_side_or_below() -> None:
    assert drawn(("a2", "a1"), ("b1", None), ("a1", None)) == "*  a2\n| *  b1\n*  a1"


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40))
def test_every_commit_is_drawn_once(steps: list[int]) -> None:
    # Commit i has as its parent one of those that come after it.
    count = len(steps)
    points = [Point(i, i + 1 + step if i + 1 + step < count else None, False, f"c{i}") for i, step in enumerate(steps)]
    lines = list(draw(points))
    assert [line.split("  ")[-1] for line in lines if "*" in line] == [f"c{i}" for i in range(count)]


def test_ten_thousand_commits_are_drawn_at_once() -> None:
    points = [Point(i, i + 1, False, str(i)) for i in range(10_000)]
    began = time.thread_time()
    assert len(list(draw(points))) == 10_000
    assert time.thread_time() - began < 5
