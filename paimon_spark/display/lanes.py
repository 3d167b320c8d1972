"""A graph of lines that part, as one strip of SVG for each row of a table. Pure.

Each line has a lane. A point lies in its row on its lane; from a point an edge goes down its own lane to the row of its
parent, and there bends into the lane of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from paimon_spark.display.html import Markup

HEIGHT: Final = 24
_STEP: Final = 16
_RADIUS: Final = 4
_COLOURS: Final = ("#3b82c4", "#c4763b", "#4a9e5c", "#a35bb5", "#b5485b", "#7a8c2e")
"""Between light and dark, so that they are seen on both."""


class Point(NamedTuple):
    """A row of the graph.

    Attributes:
        parent: the row that its edge leads to; -1 for one further down than is shown, None for no edge.
        is_dashed: something is left out between the two.
        is_hollow: the point is drawn as a ring.
    """

    lane: int
    parent: int | None
    is_dashed: bool = False
    is_hollow: bool = False


def strips(points: Sequence[Point]) -> list[Markup]:
    """The graph, a picture for each row, all of one width."""
    lanes = 1 + max((p.lane for p in points), default=0)
    parts: list[list[str]] = [[] for _ in points]
    middle = HEIGHT // 2
    for row, point in enumerate(points):
        if point.parent is None:
            continue
        x, end = _x(point.lane), len(points) if point.parent < 0 else point.parent
        parts[row].append(_path(f"M{x} {middle}V{HEIGHT}", point))
        for between in range(row + 1, end):
            parts[between].append(_path(f"M{x} 0V{HEIGHT}", point))
        if end < len(points):
            to = _x(points[end].lane)
            bend = f"M{x} 0V{middle}" if to == x else f"M{x} 0C{x} {middle} {to} 0 {to} {middle}"
            parts[end].append(_path(bend, point))
    width = lanes * _STEP
    return [
        Markup(
            f'<svg width="{width}" height="{HEIGHT}" viewBox="0 0 {width} {HEIGHT}" style="display:block" '
            f'aria-hidden="true">{"".join(paths)}{_dot(point)}</svg>'
        )
        for point, paths in zip(points, parts, strict=True)
    ]


def _x(lane: int) -> int:
    return lane * _STEP + _STEP // 2


def _path(route: str, point: Point) -> str:
    dashes = ' stroke-dasharray="3 3"' if point.is_dashed else ""
    return f'<path d="{route}" fill="none" stroke="{_colour(point.lane)}" stroke-width="2"{dashes}/>'


def _dot(point: Point) -> str:
    colour = _colour(point.lane)
    ink = f'fill="none" stroke="{colour}" stroke-width="2"' if point.is_hollow else f'fill="{colour}"'
    return f'<circle cx="{_x(point.lane)}" cy="{HEIGHT // 2}" r="{_RADIUS}" {ink}/>'


def _colour(lane: int) -> str:
    return _COLOURS[lane % len(_COLOURS)]
