"""Fault points that a run of the chaos tests tries: a few, a share, or all.

`PAIMON_SPARK_CHAOS=full` asks for all, `PAIMON_SPARK_SHARE=i/n` for the share with the number `i` of `n` equal ones.
The shares of all `i` are together all points, each in one share.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, TypeVar

import pytest

from tests.harness.shards import Part

T = TypeVar("T")


FULL: Final = os.environ.get("PAIMON_SPARK_CHAOS") == "full"
SHARE: Final = Part.parse(os.environ["PAIMON_SPARK_SHARE"]) if os.environ.get("PAIMON_SPARK_SHARE") else None
ALL: Final = Part(0, 1)


def selected_points(
    points: Sequence[T], step: int, turn: int = 0, share: Part | None = SHARE or (ALL if FULL else None)
) -> list[T]:
    """The points of a test case that this run tries, in their order; never none.

    A test case without a point in this share is skipped.

    Args:
        points: all of them, in an order that is the same in each run.
        step: without a share, every how many points one is tried.
        turn: where the count begins, so that not all test cases try the same points.
        share: the share of this run.
    """
    assert points, "the test case has no fault points"
    if share is None:
        few = [point for i, point in enumerate(points) if i % step == turn % step]
        return few or [points[turn % len(points)]]
    found = [point for i, point in enumerate(points, turn) if i % share.count == share.index]
    if not found:
        pytest.skip(f"share {share.index}/{share.count} has none of the {len(points)} fault points")
    return found
