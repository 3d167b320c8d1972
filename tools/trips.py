"""Count the modules and the frames that an append, a read, a tag and a publish go through.

    .venv/bin/python -m tools.trips            # a line for each trip
    .venv/bin/python -m tools.trips append     # and the deepest stack, with the lines of calls of each module

Each trip is taken once before it is measured, so that imports do not count. Work of other threads counts as modules,
not as depth.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, Final

import pyarrow as pa

from paimon_spark.api.catalog import load_catalog
from paimon_spark.api.table import Table

_PACKAGE: Final = str(Path(__file__).resolve().parents[1] / "paimon_spark") + "/"
_ROWS: Final = pa.table({"k": [1, 2, 3], "v": ["a", "b", "c"]})


class Trip:
    """Calls of one operation.

    Attributes:
        modules: calls by module.
        deepest: the functions of the package on the deepest stack, outermost first.
    """

    def __init__(self) -> None:
        self.modules: Counter[str] = Counter()
        self.deepest: list[str] = []

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Count the calls of the body."""
        main = threading.get_ident()

        def note(frame: FrameType, event: str, _: Any) -> None:
            name = frame.f_code.co_filename
            if event != "call" or not name.startswith(_PACKAGE):
                return
            self.modules[name.removeprefix(_PACKAGE)] += 1
            if threading.get_ident() == main:
                stack = [f"{module}: {function}" for module, function in _stack(frame)]
                if len(stack) > len(self.deepest):
                    self.deepest = stack

        threading.setprofile(note)
        sys.setprofile(note)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)


def _stack(frame: FrameType | None) -> list[tuple[str, str]]:
    """The functions of the package on a stack, outermost first; comprehensions and context managers are left out."""
    found = []
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(_PACKAGE) and not code.co_name.startswith("<"):
            found.append((code.co_filename.removeprefix(_PACKAGE), code.co_qualname))
        frame = frame.f_back
    return found[::-1]


def _append(table: Table) -> Callable[[], object]:
    return lambda: table.write(_ROWS)


def _scan(table: Table) -> Callable[[], object]:
    return lambda: table.scan().to_arrow()


def _tag(table: Table) -> Callable[[], object]:
    names = iter(("before", "measured"))
    return lambda: table.create_tag(next(names))


def _publish(table: Table) -> Callable[[], object]:
    names = iter(("before", "measured"))

    def publish() -> object:
        name = next(names)
        table.create_branch(name)
        table.branch(name).write(_ROWS)
        return lambda: table.merge_branch(name)

    return publish


_TRIPS: Final[dict[str, Callable[[Table], Callable[[], object]]]] = {
    "append": _append,
    "scan": _scan,
    "tag": _tag,
    "merge": _publish,
}


def take(name: str) -> Trip:
    """Take a trip twice on a new table, and measure the second time."""
    trip = Trip()
    with TemporaryDirectory() as folder:
        catalog = load_catalog(f"{folder}/warehouse")
        catalog.create_database("db")
        table = catalog.create_table("db.t", "k BIGINT, v STRING")
        table.write(_ROWS)
        act = _TRIPS[name](table)
        for is_measured in (False, True):
            step = act if name != "merge" else act()
            assert callable(step)
            if not is_measured:
                step()
                continue
            with trip.measured():
                step()
    return trip


def main() -> None:
    """Print what the trips named on the command line, or all, go through."""
    asked = sys.argv[1:]
    for name in asked or _TRIPS:
        trip = take(name)
        print(f"{name}: {len(trip.modules)} modules, {len(trip.deepest)} frames")
        if asked:
            print(*(f"  {step}" for step in trip.deepest), sep="\n")
            print(*(f"  {count:5} {module}" for module, count in sorted(trip.modules.items())), sep="\n")


if __name__ == "__main__":
    main()
