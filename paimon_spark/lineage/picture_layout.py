"""Where the boxes and lines of a picture are: layers from left to right, one band for each group.

Longest-path layers (`picture_layers.py`), barycentre ordering, then heights by least squares. The same input gives the
same output.

Source: Sugiyama, Tagawa, Toda, "Methods for visual understanding of hierarchical system structures" (1981).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from paimon_spark.lineage.picture_layers import components, ordered, ranks

PORT_STEP: Final = 15.0
"""Between two lines that meet a box on the same side; a label is less high."""
MARGIN: Final = 24.0
BAND_TITLE: Final = 26.0
_BETWEEN_BOXES: Final = 18.0
_BETWEEN_COMPONENTS: Final = 30.0
_BETWEEN_BANDS: Final = 22.0
_BEND: Final = 56.0
"""Width in which a line changes its height; more where lines go far up or down."""
_LONGEST_BEND: Final = 180.0
_STUB: Final = 14.0
_SWEEPS: Final = 8


class Item(NamedTuple):
    """A box to be placed.

    Attributes:
        group: number of its band, from the top.
        column: 0 or 1: the layer it is in when nothing leads to it.
    """

    width: float
    height: float
    group: int = 0
    column: int = 0


class Link(NamedTuple):
    """A line to be drawn, between two boxes by their numbers.

    Attributes:
        label: width of its label.
    """

    source: int
    target: int
    label: float = 0.0


class Box(NamedTuple):
    """A place: x and y of the upper left corner, width and height."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


class Bend(NamedTuple):
    """A part of a line: from one height to another between two x."""

    x0: float
    y0: float
    x1: float
    y1: float


class Route(NamedTuple):
    """A line from left to right.

    Attributes:
        bends: joined by straight lines.
        start: its left end.
        end: its right end.
        backwards: whether the arrow is at the left end, as it closes a cycle.
    """

    start: tuple[float, float]
    bends: tuple[Bend, ...]
    end: tuple[float, float]
    backwards: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything is.

    Attributes:
        boxes: as the items.
        routes: as the links.
        bands: as the groups.
    """

    boxes: tuple[Box, ...]
    routes: tuple[Route, ...]
    bands: tuple[Box, ...]
    width: float
    height: float


def lay_out(items: Sequence[Item], links: Sequence[Link], groups: int = 1, titled: bool = False) -> Layout:
    """Place boxes and lines. No line joins a box with itself.

    Args:
        items: the boxes.
        links: the lines.
        groups: how many bands there are.
        titled: whether bands leave room for a title.
    """
    if not items:
        return Layout((), (), (), 2 * MARGIN, 2 * MARGIN)
    return _Layering(items, links, groups, titled).layout()


class _Layering:
    """The graph with a dummy in each layer that a line crosses. Boxes and dummies are numbers: dummies come last."""

    def __init__(self, items: Sequence[Item], links: Sequence[Link], groups: int, titled: bool) -> None:
        self.items, self.links, self.groups, self.titled = items, links, groups, titled
        order, self.backwards = ordered(len(items), [(i.source, i.target) for i in links])
        self.ends = [(t, s) if b else (s, t) for (s, t, _), b in zip(links, self.backwards, strict=True)]
        self.rank = ranks([i.column for i in items], self.ends, order)
        self.group = [i.group for i in items]
        self.component = components(len(items), self.ends)
        self.chains = [self._chain(a, b) for a, b in self.ends]
        count = len(self.rank)
        self.left: list[list[int]] = [[] for _ in range(count)]
        self.right: list[list[int]] = [[] for _ in range(count)]
        for chain in self.chains:
            for a, b in pairwise(chain):
                self.right[a].append(b)
                self.left[b].append(a)
        self.height = [PORT_STEP] * count
        for n, item in enumerate(items):
            ports = max(len(self.left[n]), len(self.right[n]))
            self.height[n] = max(item.height, ports * PORT_STEP + 6)
        self.layers: list[list[int]] = [[] for _ in range(max(self.rank) + 1)]
        for n in range(count):
            self.layers[self.rank[n]].append(n)

    def _chain(self, a: int, b: int) -> list[int]:
        """A box, dummies, a box."""
        chain = [a]
        for rank in range(self.rank[a] + 1, self.rank[b]):
            chain.append(len(self.rank))
            self.rank.append(rank)
            self.group.append(self.group[a])
            self.component.append(self.component[a])
        return [*chain, b]

    def layout(self) -> Layout:
        self._sort()
        middles, bands = self._heights()
        ports = self._ports(middles)
        lefts, widths, width = self._columns(ports)
        boxes = tuple(
            Box(lefts[self.rank[n]], middles[n] - self.height[n] / 2, widths[self.rank[n]], self.height[n])
            for n in range(len(self.items))
        )
        routes = tuple(self._route(i, ports, lefts, widths) for i in range(len(self.links)))
        whole = tuple(Box(MARGIN / 2, top, width - MARGIN, height) for top, height in bands)
        bottom = max((b.y + b.height for b in whole), default=0.0)
        return Layout(boxes, routes, whole, width, bottom + MARGIN / 2)

    def _sort(self) -> None:
        """Order each layer so that few lines cross: the best of some sweeps."""
        for layer in self.layers:
            layer.sort(key=lambda n: (self.group[n], self.component[n], n))
        best, fewest = [list(layer) for layer in self.layers], self._crossings()
        for sweep in range(_SWEEPS):
            if not fewest:
                break
            forward = sweep % 2 == 0
            for layer in self.layers[1:] if forward else self.layers[-2::-1]:
                self._by_barycentre(layer, self.left if forward else self.right)
            crossings = self._crossings()
            if crossings < fewest:
                best, fewest = [list(layer) for layer in self.layers], crossings
        self.layers = best

    def _by_barycentre(self, layer: list[int], beside: list[list[int]]) -> None:
        place = self._places()
        now = {n: i for i, n in enumerate(layer)}

        def key(n: int) -> tuple[int, int, float, int]:
            there = [place[m] for m in beside[n]]
            return self.group[n], self.component[n], sum(there) / len(there) if there else place[n], now[n]

        layer.sort(key=key)

    def _places(self) -> list[float]:
        place = [0.0] * len(self.rank)
        for layer in self.layers:
            for i, n in enumerate(layer):
                place[n] = (i + 0.5) / len(layer)
        return place

    def _crossings(self) -> int:
        place, found = self._places(), 0
        for layer in self.layers[:-1]:
            lines = [place[m] for n in layer for m in sorted(self.right[n], key=place.__getitem__)]
            found += _inversions(lines)
        return found

    def _heights(self) -> tuple[list[float], list[tuple[float, float]]]:
        """The middle of each box and dummy, and top and height of each band."""
        middles = [0.0] * len(self.rank)
        bands: list[tuple[float, float]] = []
        top = MARGIN / 2
        for group in range(self.groups):
            layers = [[n for n in layer if self.group[n] == group] for layer in self.layers]
            members = [n for layer in layers for n in layer]
            for layer in layers:
                self._settle(layer, [0.0] * len(layer), middles)
            for sweep in range(_SWEEPS):
                beside = self.left if sweep % 2 == 0 else self.right
                for layer in layers if sweep % 2 == 0 else layers[::-1]:
                    wanted = []
                    for n in layer:
                        near = [middles[m] for m in beside[n] if self.group[m] == group]
                        wanted.append(sum(near) / len(near) if near else middles[n])
                    self._settle(layer, wanted, middles)
            above = top + MARGIN / 2 + (BAND_TITLE if self.titled else 0.0)
            shift = above - min((middles[n] - self.height[n] / 2 for n in members), default=above)
            for n in members:
                middles[n] += shift
            bottom = max((middles[n] + self.height[n] / 2 for n in members), default=above) + MARGIN / 2
            bands.append((top, bottom - top))
            top = bottom + _BETWEEN_BANDS
        return middles, bands

    def _settle(self, layer: list[int], wanted: list[float], middles: list[float]) -> None:
        """Middles as near to what is wanted as the order and the distances allow: least squares."""
        offsets, offset = [], 0.0
        for i, n in enumerate(layer):
            if i:
                offset += self._distance(layer[i - 1], n)
            offsets.append(offset)
        for n, at, y in zip(
            layer, offsets, _isotonic([w - o for w, o in zip(wanted, offsets, strict=True)]), strict=True
        ):
            middles[n] = y + at

    def _distance(self, a: int, b: int) -> float:
        """Between the middles of two neighbours of a layer."""
        both = len(self.items)
        gap = 0.0 if a >= both and b >= both else _BETWEEN_BOXES
        if self.component[a] != self.component[b]:
            gap = max(gap, _BETWEEN_COMPONENTS)
        return (self.height[a] + self.height[b]) / 2 + gap

    def _ports(self, middles: list[float]) -> list[tuple[float, float]]:
        """The heights at which each line leaves its left box and meets its right one."""
        starts: dict[int, list[int]] = {}
        ends: dict[int, list[int]] = {}
        for i, chain in enumerate(self.chains):
            starts.setdefault(chain[0], []).append(i)
            ends.setdefault(chain[-1], []).append(i)
        leaves, meets = [0.0] * len(self.chains), [0.0] * len(self.chains)
        for box, lines in starts.items():
            lines.sort(key=lambda i: (middles[self.chains[i][1]], i))
            for place, i in enumerate(lines):
                leaves[i] = middles[box] + (place - (len(lines) - 1) / 2) * PORT_STEP
        for box, lines in ends.items():
            lines.sort(key=lambda i: (middles[self.chains[i][-2]], i))
            for place, i in enumerate(lines):
                meets[i] = middles[box] + (place - (len(lines) - 1) / 2) * PORT_STEP
        self.middles = middles
        return list(zip(leaves, meets, strict=True))

    def _levels(self, line: int, ports: list[tuple[float, float]]) -> list[float]:
        """The height of a line in each layer it is in."""
        chain = self.chains[line]
        return [ports[line][0], *(self.middles[n] for n in chain[1:-1]), ports[line][1]]

    def _columns(self, ports: list[tuple[float, float]]) -> tuple[list[float], list[float], float]:
        """Left side and width of each layer, and the width of the whole; keeps what each gap leaves for labels."""
        widths = [0.0] * len(self.layers)
        for n, item in enumerate(self.items):
            widths[self.rank[n]] = max(widths[self.rank[n]], item.width)
        gaps = len(self.layers) - 1
        self.before, self.after, bend = [_STUB] * gaps, [_STUB] * gaps, [_BEND] * gaps
        for i, chain in enumerate(self.chains):
            first, last = self.rank[chain[0]], self.rank[chain[-1]] - 1
            room = self.links[i].label + 2 * _STUB
            if self.backwards[i]:
                self.before[first] = max(self.before[first], room)
            else:
                self.after[last] = max(self.after[last], room)
            for k, (y0, y1) in enumerate(pairwise(self._levels(i, ports))):
                bend[first + k] = max(bend[first + k], min(_LONGEST_BEND, abs(y1 - y0) * 0.3))
        lefts, x = [], MARGIN
        for k, width in enumerate(widths):
            lefts.append(x)
            x += width + (self.before[k] + bend[k] + self.after[k] if k < gaps else 0.0)
        return lefts, widths, x + MARGIN

    def _route(self, line: int, ports: list[tuple[float, float]], lefts: list[float], widths: list[float]) -> Route:
        levels, first = self._levels(line, ports), self.rank[self.chains[line][0]]
        bends = []
        for k, (y0, y1) in enumerate(pairwise(levels)):
            gap = first + k
            x0 = lefts[gap] + widths[gap] + self.before[gap]
            bends.append(Bend(x0, y0, lefts[gap + 1] - self.after[gap], y1))
        start = (lefts[first] + widths[first], levels[0])
        return Route(start, tuple(bends), (lefts[first + len(bends)], levels[-1]), self.backwards[line])


def _inversions(values: list[float]) -> int:
    """How many pairs are in the wrong order."""
    from bisect import bisect_right, insort

    seen: list[float] = []
    found = 0
    for value in values:
        found += len(seen) - bisect_right(seen, value)
        insort(seen, value)
    return found


def _isotonic(wanted: Sequence[float]) -> list[float]:
    """The numbers that never fall and are nearest to those wanted: pool adjacent violators."""
    pools: list[tuple[float, int]] = []
    for value in wanted:
        total, size = value, 1
        while pools and pools[-1][0] / pools[-1][1] >= total / size:
            above, more = pools.pop()
            total, size = total + above, size + more
        pools.append((total, size))
    return [total / size for total, size in pools for _ in range(size)]
