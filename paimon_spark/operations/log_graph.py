"""Commits of all branches → lines with lanes, as `git log --graph` draws them.

A lane waits for one commit. Newest first: a commit stands in the lane that waits for it; where several do, they join
in the line after it. A new lane opens at the right for a commit that nobody waits for.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

_COMMIT = "*"


@dataclass(frozen=True, slots=True)
class Point:
    """A commit to draw.

    Attributes:
        key: names it among the others.
        parent: key of the one before; None for the first, or where the history is cut.
        is_after_gap: whether commits between the parent and it are left out.
        text: what stands beside it; further lines stand below.
    """

    key: Hashable
    parent: Hashable | None
    is_after_gap: bool
    text: Sequence[str]


def draw(points: Sequence[Point]) -> Iterator[str]:
    """Lines of the graph, as they are needed; a parent stands after its children, or nowhere."""
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
        marks = [_COMMIT if i == lane else " " if key is None else "|" for i, key in enumerate(lanes)]
        yield f"{' '.join(marks)}  {point.text[0] if point.text else ''}".rstrip()
        lanes[lane] = point.parent if point.parent in known else None
        _trim(lanes)
        marks = [" " if key is None else "|" for key in lanes]
        yield from (f"{' '.join(marks).ljust(2 * len(lanes))}  {line}".rstrip() for line in point.text[1:])
        if point.is_after_gap and lane < len(lanes) and lanes[lane] is not None:
            marks[lane] = ":"
            yield " ".join(marks).rstrip()


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
