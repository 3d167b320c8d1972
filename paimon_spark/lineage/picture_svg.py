"""A Picture as SVG: sizes from the text, places from picture_layout.py; attributes only, so no style leaks out."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final
from unicodedata import combining, east_asian_width

from paimon_spark.lineage.picture import NOTHING, Edge, Node, Picture, shown
from paimon_spark.lineage.picture_layout import Box, Item, Link, Route, lay_out

_FONT: Final = "system-ui, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif"
_NAME_PX: Final = 13.0
_SMALL_PX: Final = 10.5
_LONGEST: Final = 270.0
"""Widest text of a box; longer ones lose their middle, and are shown whole when pointed at."""
_LEAST_WIDTH: Final = 90.0
_PAD: Final = 14.0
_HEIGHT: Final = 32.0
_TALL: Final = 46.0
_HEAD: Final = 7.0
_FILL: Final = {"table": "#eef4fb", "job": "#fdf3e0"}
_STROKE: Final = {"table": "#41719c", "job": "#b07d2b"}
_INK: Final = {"table": "#16293b", "job": "#3b2a0c"}
_LINE: Final = "#6b7785"
_FAINT: Final = "#4d5966"
_NARROW: Final = frozenset("ijlI.,'|:;!()[]{}/\\ ft-`\"")
_BROAD: Final = frozenset("mwMW@%")


def to_svg(picture: Picture) -> str:
    """The picture as one SVG element."""
    if not picture.nodes:
        return "".join(_empty(picture))
    groups = picture.groups
    titled = len(groups) > 1
    number = {node.key: i for i, node in enumerate(picture.nodes)}
    items = [
        Item(_width(n), _TALL if n.detail else _HEIGHT, groups.index(n.group), int(n.kind == "job"))
        for n in picture.nodes
    ]
    edges = [e for e in picture.edges if e.source != e.target]
    links = [Link(number[e.source], number[e.target], _measure(shown(e.label), _SMALL_PX)) for e in edges]
    layout = lay_out(items, links, len(groups), titled)
    width = max(layout.width, *(_measure(shown(g or ""), _SMALL_PX) + 60 for g in groups)) if titled else layout.width
    parts = [*_opening(picture.title, width, layout.height)]
    if titled:
        for group, band in zip(groups, layout.bands, strict=True):
            parts += _band(group or "", Box(band.x, band.y, width - 2 * band.x, band.height))
    for edge, route in zip(edges, layout.routes, strict=True):
        parts += _arrow(edge, route)
    for node, box in zip(picture.nodes, layout.boxes, strict=True):
        parts += _box(node, box)
    return "".join([*parts, "</svg>"])


def _empty(picture: Picture) -> Iterator[str]:
    yield from _opening(picture.title, _measure(NOTHING, _NAME_PX) + 60, 60)
    yield f'<text x="24" y="36" fill="{_FAINT}">{NOTHING}</text></svg>'


def _opening(title: str, width: float, height: float) -> Iterator[str]:
    w, h = _px(width), _px(height)
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" viewBox="0 0 {w} {h}" role="img" '
        f'font-family="{_FONT}" font-size="{_px(_NAME_PX)}">'
    )
    yield f'<title>{_text(title)}</title><rect width="{w}" height="{h}" fill="#ffffff"/>'


def _band(name: str, band: Box) -> Iterator[str]:
    yield (
        f'<rect x="{_px(band.x)}" y="{_px(band.y)}" width="{_px(band.width)}" height="{_px(band.height)}" rx="8" '
        f'fill="#f7f8fa" stroke="#c9d0d8"/>'
        f'<text x="{_px(band.x + 14)}" y="{_px(band.y + 20)}" font-size="{_px(_SMALL_PX)}" font-weight="600" '
        f'fill="{_FAINT}" xml:space="preserve">{_text(name)}</text>'
    )


def _arrow(edge: Edge, route: Route) -> Iterator[str]:
    (x0, y0), (x1, y1) = route.start, route.end
    path = [f"M{_px(x0 + (_HEAD if route.backwards else 0))} {_px(y0)}"]
    for bend in route.bends:
        middle = _px((bend.x0 + bend.x1) / 2)
        path.append(
            f"L{_px(bend.x0)} {_px(bend.y0)}"
            f"C{middle} {_px(bend.y0)} {middle} {_px(bend.y1)} {_px(bend.x1)} {_px(bend.y1)}"
        )
    path.append(f"L{_px(x1 - (0 if route.backwards else _HEAD))} {_px(y1)}")
    dashes = ' stroke-dasharray="5 3"' if route.backwards else ""
    yield f'<path d="{"".join(path)}" fill="none" stroke="{_LINE}" stroke-width="1.2"{dashes}/>'
    tip, y, back, anchor = (x0, y0, _HEAD, "start") if route.backwards else (x1, y1, -_HEAD, "end")
    yield (f'<path d="M{_px(tip)} {_px(y)}l{_px(back)} {_px(-_HEAD / 2)}v{_px(_HEAD)}z" fill="{_LINE}"/>')
    if edge.label:
        yield (
            f'<text x="{_px(tip + back * 1.6)}" y="{_px(y - 3)}" text-anchor="{anchor}" font-size="{_px(_SMALL_PX)}" '
            f'fill="{_FAINT}">{_text(edge.label)}</text>'
        )


def _box(node: Node, box: Box) -> Iterator[str]:
    radius = 5.0 if node.kind == "table" else min(box.height, _TALL) / 2
    fill, stroke, ink = _FILL[node.kind], _STROKE[node.kind], _INK[node.kind]
    whole = f"{node.kind} {node.name}" + (f", {node.detail}" if node.detail else "")
    yield f"<g><title>{_text(whole)}</title>"
    yield (
        f'<rect x="{_px(box.x)}" y="{_px(box.y)}" width="{_px(box.width)}" height="{_px(box.height)}" '
        f'rx="{_px(radius)}" fill="{fill}" stroke="{stroke}"/>'
    )
    if node.kind == "table":
        yield f'<rect x="{_px(box.x)}" y="{_px(box.y)}" width="5" height="{_px(box.height)}" rx="2" fill="{stroke}"/>'
    x, y = _px(box.x + box.width / 2), box.middle + (-3.0 if node.detail else 4.5)
    yield (
        f'<text x="{x}" y="{_px(y)}" text-anchor="middle" fill="{ink}" xml:space="preserve">'
        f"{_text(_fitted(node.name, _NAME_PX))}</text>"
    )
    if node.detail:
        yield (
            f'<text x="{x}" y="{_px(y + 16)}" text-anchor="middle" font-size="{_px(_SMALL_PX)}" fill="{_FAINT}" '
            f'xml:space="preserve">{_text(_fitted(node.detail, _SMALL_PX))}</text>'
        )
    yield "</g>"


def _width(node: Node) -> float:
    texts = _measure(_fitted(node.name, _NAME_PX), _NAME_PX), _measure(_fitted(node.detail, _SMALL_PX), _SMALL_PX)
    return max(_LEAST_WIDTH, *texts) + 2 * _PAD


def _fitted(text: str, size: float) -> str:
    """Text that fits into a box: the middle of what is too long is left out."""
    text = shown(text)
    if _measure(text, size) <= _LONGEST:
        return text
    kept = len(text) - 1
    while kept > 2 and _measure(_cut(text, kept), size) > _LONGEST:
        kept -= 1
    return _cut(text, kept)


def _cut(text: str, kept: int) -> str:
    return f"{text[: (kept + 1) // 2]}…{text[len(text) - kept // 2 :]}"


def _measure(text: str, size: float) -> float:
    """About how wide text is, in pixels: rather too much."""
    return sum(_em(c) for c in text) * size


def _em(char: str) -> float:
    if combining(char):
        return 0.0
    if east_asian_width(char) in ("W", "F"):
        return 1.05
    if char in _NARROW:
        return 0.4
    if char in _BROAD:
        return 0.95
    return 0.72 if char.isupper() or ord(char) > 0x2000 else 0.61


def _text(text: str) -> str:
    return escape(shown(text))


def _px(value: float) -> str:
    """A number of pixels, as short as it can be."""
    text = f"{value:.1f}"
    return text.removesuffix(".0") if text != "-0.0" else "0"
