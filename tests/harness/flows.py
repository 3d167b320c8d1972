"""The stops that docs/how-it-works.md lists, and the functions that are really called."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "how-it-works.md"
STOP = re.compile(r"^\d+\. `(?P<file>[\w/]+\.py)`: `(?P<function>[\w.]+)`", re.MULTILINE)


def stops(heading: str) -> list[tuple[str, str]]:
    """The (file, function) of each stop below a heading of the page."""
    section = PAGE.read_text().split(f"\n### {heading}\n", 1)[1].split("\n#", 1)[0]
    return [(m["file"], m["function"].rpartition(".")[2]) for m in STOP.finditer(section)]


def calls(act: Callable[[], Any]) -> list[tuple[str, str]]:
    """The (file, function) that `act` calls in the package, each at its first call, in order, of all threads."""
    seen: dict[tuple[str, str], None] = {}
    package = f"{ROOT}/paimon_spark/"

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(package):
            seen.setdefault((frame.f_code.co_filename.removeprefix(package), frame.f_code.co_name))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return list(seen)


def check_stops(heading: str, most: int, act: Callable[[], Any]) -> None:
    """Check that `act` makes the stops below a heading, in their order, of which there are at most `most`."""
    wanted, made = stops(heading), calls(act)
    assert 5 <= len(wanted) <= most
    assert [stop for stop in wanted if stop not in made] == [], "stops that are not made"
    assert sorted(wanted, key=made.index) == wanted, "the order of the stops"
