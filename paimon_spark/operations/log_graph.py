"""Draw the commits of all branches as lines with lanes, as `git log --graph` does.

Commits come newest first. A lane waits for one commit: the parent of the last one drawn in it. Where several lanes wait
for the same commit they join; a commit that no lane waits for opens a new lane at the right.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """A commit to draw.

    Attributes:
        key: identifies it.
        parent: key of the commit before it; None for the first, or where the history is cut.
        is_after_gap: whether commits between the parent and it are left out.
        text: printed beside it.
    """

    key: Hashable
    parent: Hashable | None
    is_after_gap: bool
    text: str


def draw(points: Sequence[Point]) -> Iterator[str]:
    """Yield the lines of the graph; a parent comes after its children, or is missing."""
    lanes: list[Hashable | None] = []
    known = {p.key for p in points}
    for point in points:
        lane = _lane_of(point.key, lanes)
        others = [i for i, key in enumerate(lanes) if key == point.key and i != lane]
        if others:
            yield _joined(lanes, lane, others)
            for i in others:
                lanes[i] = None
            _trim(lanes)
        yield f"{_marked(lanes, lane, '*')}  {point.text}".rstrip()
        lanes[lane] = point.parent if point.parent in known else None
        if point.is_after_gap and lanes[lane] is not None:
            yield _marked(lanes, lane, ":").rstrip()
        _trim(lanes)


def _marked(lanes: Sequence[Hashable | None], lane: int, mark: str) -> str:
    return " ".join(mark if i == lane else " " if key is None else "|" for i, key in enumerate(lanes))


def _lane_of(key: Hashable, lanes: list[Hashable | None]) -> int:
    """The lane that waits for a commit; else a free one, or a new one."""
    for wanted in (key, None):
        if wanted in lanes:
            return lanes.index(wanted)
    lanes.append(key)
    return len(lanes) - 1


def _joined(lanes: Sequence[Hashable | None], lane: int, others: Sequence[int]) -> str:
    """The line in which lanes bend to the left: `|/`, or `|_|/` over lanes between."""
    last = others[-1]
    out = []
    for i, key in enumerate(lanes):
        mark = " " if key is None or i in others else "|"
        out.append(mark)
        if i == len(lanes) - 1:
            break
        is_bend = i + 1 in others
        out.append("/" if is_bend else "_" if lane <= i < last else " ")
    return "".join(out).rstrip()


def _trim(lanes: list[Hashable | None]) -> None:
    while lanes and lanes[-1] is None:
        lanes.pop()
