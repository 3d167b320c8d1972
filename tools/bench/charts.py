"""Charts of figures as SVG: reads a list of charts as JSON, writes files. Run by a Python that has Matplotlib.

A chart of kind `bars` has `bars`: name, and seconds by contender. One of kind `lines` has `lines`: name, sizes and
seconds.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt

COLOURS = ("#1b6ca8", "#e07a1f", "#5b8c5a", "#8a5a9e", "#b23a48", "#7a7a7a")


def bars(chart: dict[str, Any], path: Path) -> None:
    """Seconds of each contender beside each other, case by case; ours is 1."""
    cases = chart["bars"]
    height = 0.5 + 0.3 * sum(len(c["seconds"]) + 1 for c in cases)
    figure, axes = plt.subplots(figsize=(8, height))
    labels: dict[str, str] = {}
    at, ticks = 0.0, []
    for case in cases:
        ours = next(iter(case["seconds"].values()))
        first = at
        for label, seconds in case["seconds"].items():
            colour = labels.setdefault(label, COLOURS[len(labels) % len(COLOURS)])
            axes.barh(at, seconds / ours, color=colour, label=label if at == first else None)
            axes.text(seconds / ours, at, f" {seconds:.3g} s", va="center", fontsize=7)
            at += 1
        ticks.append(((first + at - 1) / 2, case["name"]))
        at += 1
    axes.set_yticks([y for y, _ in ticks], [name for _, name in ticks], fontsize=8)
    axes.set_xscale("log")
    axes.set_xlabel("time, that of paimon_spark is 1", fontsize=8)
    axes.invert_yaxis()
    handles = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour in labels.values()]
    axes.legend(handles, labels, fontsize=7, loc="lower right")
    save(figure, path)


def lines(chart: dict[str, Any], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(5.5, 3.4))
    for number, line in enumerate(chart["lines"]):
        axes.plot(line["sizes"], line["seconds"], marker="o", color=COLOURS[number], label=line["name"])
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(chart["axis"], fontsize=8)
    axes.set_ylabel("seconds", fontsize=8)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)
    save(figure, path)


def save(figure: plt.Figure, path: Path) -> None:
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=7)
    figure.tight_layout()
    # Without a date, so that equal figures are equal files.
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    mpl.rcParams["svg.hashsalt"] = "paimon_spark"
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    for chart in json.load(sys.stdin):
        {"bars": bars, "lines": lines}[chart["kind"]](chart, target / f"{chart['file']}.svg")


if __name__ == "__main__":
    main()
