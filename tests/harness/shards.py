"""Static division of tests: into tiers, among the processes of one run, and into shares that runs of CI take in turn.

A test marked `slow` or `ci` is of that tier, any other is quick. Which tests share a process depends on the number of
processes, never on timing: files are divided so that the parts take about equally long, as `tests/seconds.json` says,
and each process collects its own files alone. `make record-seconds` writes that file.
"""

from __future__ import annotations

import heapq
import json
import re
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
from xdist.scheduler import EachScheduling

ROOT: Final = Path(__file__).resolve().parents[2]
SECONDS: Final = ROOT / "tests" / "seconds.json"
USUAL_SECONDS: Final = 1.0
"""Assumed of a file of which nothing is known."""
QUICK, CI, SLOW = "quick", "ci", "slow"
TIERS: Final[Mapping[str, tuple[str, ...]]] = {
    QUICK: (QUICK,),
    CI: (QUICK, CI),
    SLOW: (SLOW,),
    "all": (QUICK, CI, SLOW),
}
"""By the name that `--tier` takes, what is run."""
Seconds: TypeAlias = Mapping[str, Mapping[str, float]]
"""By file and tier, how long all its tests of that tier take."""


@dataclass(frozen=True)
class Part:
    """One of `count` parts, counted from 0."""

    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Part:
        """The part in a text such as `2/5`. Raises ValueError."""
        found = re.fullmatch(r"(\d+)/(\d+)", text)
        part = cls(int(found[1]), int(found[2])) if found else cls(0, 0)
        if not part.index < part.count:
            raise ValueError(f"{text!r} is not a part: expected i/n with 0 <= i < n, such as 2/5")
        return part


def divide(weights: Mapping[str, float], part: Part) -> set[str]:
    """Names in one of several parts of about equal weight; the same for the same weights."""
    parts = [(0.0, i) for i in range(part.count)]
    chosen = set()
    for name in sorted(weights, key=lambda name: (-weights[name], name)):
        weight, i = heapq.heappop(parts)
        heapq.heappush(parts, (weight + weights[name], i))
        if i == part.index:
            chosen.add(name)
    return chosen


def select_files(files: Iterable[str], tier: str, seconds: Seconds, *parts: Part) -> set[str]:
    """The files in a part; of two parts, the second is a part of the first."""
    chosen = set(files)
    for part in parts:
        weights = {}
        for file in chosen:
            known = seconds.get(file)
            weights[file] = USUAL_SECONDS if known is None else sum(known.get(t, 0.0) for t in TIERS[tier])
        chosen = divide(weights, part)
    return chosen


def tier_of(marks: Container[str]) -> str:
    """The tier of a test with these marks."""
    return SLOW if SLOW in marks else CI if CI in marks else QUICK


def files_of_tests(folders: Iterable[str]) -> list[str]:
    """The files of tests in folders, relative to the project."""
    return sorted(str(p.relative_to(ROOT)) for folder in folders for p in (ROOT / folder).rglob("test_*.py"))


def known_seconds() -> dict[str, dict[str, float]]:
    """What was recorded."""
    found: dict[str, dict[str, float]] = json.loads(SECONDS.read_text()) if SECONDS.exists() else {}
    return found


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("shards")
    group.addoption("--tier", choices=list(TIERS), default="all", help="which tests are run, by their marks")
    group.addoption("--part", default="0/1", metavar="I/N", help="run part I of N of the files, counted from 0")
    group.addoption("--write-marks", metavar="FILE", help="write the collected tests and their marks, as JSON")
    group.addoption("--record-seconds", action="store_true", help="write how long files took into tests/seconds.json")


class Division:
    """The files of this process, and the tests of the tier in them."""

    def __init__(self, config: pytest.Config, parts: tuple[Part, ...]) -> None:
        self._tiers = TIERS[config.getoption("--tier")]
        folders = [a for a in config.args if (ROOT / a).is_dir()]
        given = [a.partition("::")[0] for a in config.args if a not in folders]
        self._files: set[str] | None = None
        if any(part.count > 1 for part in parts):
            files = {*files_of_tests(folders), *given}
            self._files = select_files(files, config.getoption("--tier"), known_seconds(), *parts)

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Leave the files of other processes uncollected."""
        if self._files is None or not collection_path.name.startswith("test_") or collection_path.suffix != ".py":
            return None
        return None if str(collection_path.relative_to(ROOT)) in self._files else True

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect tests of other tiers."""
        chosen = [item for item in items if tier_of({mark.name for mark in item.iter_markers()}) in self._tiers]
        if len(chosen) < len(items):
            config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
            items[:] = chosen


def pytest_configure(config: pytest.Config) -> None:
    worker: Mapping[str, Any] = getattr(config, "workerinput", {"workerid": "gw0", "workercount": 1})
    try:
        part = Part.parse(config.getoption("--part"))
    except ValueError as e:
        raise pytest.UsageError(f"--part: {e}") from None
    own = Part(int(worker["workerid"].removeprefix("gw")), worker["workercount"])
    config.pluginmanager.register(Division(config, (part, own)), "division")
    if config.getoption("--record-seconds") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(), "record-seconds")


def pytest_collection_finish(session: pytest.Session) -> None:
    file = session.config.getoption("--write-marks")
    if file is not None:
        found = {item.nodeid: sorted({mark.name for mark in item.iter_markers()}) for item in session.items}
        Path(file).write_text(json.dumps(found))


class StaticScheduling(EachScheduling):  # type: ignore[misc]  # xdist has no types
    """Lets each process run all that it collects, and counts the tests of all for the progress and the exit code."""

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        super().add_node_collection(node, collection)
        session = self.config.pluginmanager.getplugin("dsession")._session
        session.testscollected = sum(map(len, self.node2collection.values()))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> StaticScheduling:
    """Replace the schedulers of xdist."""
    return StaticScheduling(config, log)


class Recorder:
    """Writes how long the files took, by tier; what did not run keeps its entry."""

    def __init__(self) -> None:
        self._seconds: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid.partition("::")[0]][tier_of(report.keywords)] += report.duration

    def pytest_sessionfinish(self) -> None:
        found = known_seconds()
        for file, tiers in self._seconds.items():
            found[file] = {**found.get(file, {}), **{tier: round(s, 1) for tier, s in tiers.items()}}
        SECONDS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
