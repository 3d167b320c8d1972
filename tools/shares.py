"""Shares of the tests that runs of CI take in turn, and the tests that neither CI nor a share runs.

python -m tools.shares list          # the shares, and what is left out; fails where something is
python -m tools.shares choose 2      # names of the shares that are next
python -m tools.shares prepare NAME  # get what a share needs
python -m tools.shares run NAME      # by name or number
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from _pytest.mark.expression import Expression, ExpressionMatcher

from tests.harness.shards import ROOT, TIERS, Part, Seconds, files_of_tests, known_seconds, select_files, tier_of


@dataclass(frozen=True)
class Group:
    """Tests that one target of `make` runs, in `count` parts of about three minutes on two cores.

    Attributes:
        arguments: target and variables.
        prepare: what gets what the tests need, before they run; none where CI has it anyway.
        divides: the variable that says which part, I/N.
    """

    name: str
    count: int
    arguments: str
    prepare: str = ""
    divides: str = "PART"


@dataclass(frozen=True)
class Share:
    """One part of a group."""

    group: Group
    part: Part

    @property
    def name(self) -> str:
        """Such as `slow-spark-3`."""
        return self.group.name if self.part.count == 1 else f"{self.group.name}-{self.part.index}"

    @property
    def command(self) -> list[str]:
        """The words after `make`."""
        part = f"{self.group.divides}={self.part.index}/{self.part.count}"
        return [*shlex.split(self.group.arguments), *([part] if self.part.count > 1 else [])]


GROUPS: Final = (
    Group("slow-spark", 6, "test-spark TIER=slow"),
    Group("slow-units", 1, "test-unit TIER=slow"),
    Group("slow-chaos", 1, "test-chaos TIER=slow"),
    Group("oldest-pyspark", 6, "test-oldest TIER=all", ".venv-spark41/.ready"),
    Group("python-3.12", 2, "test-python PYTHON=3.12", ".venv-python3.12/.ready"),
    Group("python-3.13", 2, "test-python PYTHON=3.13", ".venv-python3.13/.ready"),
    Group("connector", 1, "test-interop TIER=slow MARK=connector PEERS=connector", "tests/interop/setup.sh connector"),
    Group("dbt", 1, "test-interop TIER=slow MARK=dbt PEERS=dbt", "tests/interop/setup.sh dbt"),
    Group("random-tables", 1, "test-interop TIER=slow MARK=random_tables PEERS=catalogs"),
    Group("webhdfs", 1, "test-stores TIER=slow MARK=webhdfs STORES=hdfs"),
    Group("versitygw", 1, "test-stores TIER=slow MARK=versitygw STORES=s3", "tests/interop/setup.sh s3"),
    Group("gcs", 1, "test-stores TIER=slow MARK=gcs STORES=gcs", "tests/interop/setup.sh gcs"),
    Group("faults", 16, "test-chaos TIER=ci MARK=faults", divides="PAIMON_SPARK_SHARE"),
)
SHARES: Final = tuple(Share(group, Part(i, group.count)) for group in GROUPS for i in range(group.count))
CI: Final = (
    "test TIER=ci",
    "test-oldest TIER=ci MARK='oldest and not newest'",
    "test-docs",
    "test-wheel",
    "test-interop TIER=ci",
    "test-stores TIER=ci STORES='hdfs azure'",
    "test-chaos TIER=ci",
)
"""What each run of CI runs, as words after `make`."""


def find(name: str) -> Share:
    """The share of a name or number. Raises SystemExit."""
    for i, share in enumerate(SHARES):
        if name in (share.name, str(i)):
            return share
    raise SystemExit(f"no share is called {name!r}; `make shares` lists them")


def choose(count: int, commit: str, last_run: Mapping[str, float]) -> list[Share]:
    """The shares that have waited longest; among those that have never run, by the commit's hash.

    `last_run`: when a share last ran on this machine, in seconds, by its name.
    """

    def key(share: Share) -> tuple[float, str]:
        return last_run.get(share.name, 0.0), hashlib.sha256(f"{commit} {share.name}".encode()).hexdigest()

    return sorted(SHARES, key=key)[:count]


def ledger() -> Path:
    """Where this machine keeps when each share last ran."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home, "paimon-spark", "shares.json")


def last_run() -> dict[str, float]:
    """When each share last ran, as the ledger says."""
    try:
        return {str(name): float(time) for name, time in json.loads(ledger().read_text()).items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def note_run(share: Share) -> None:
    """Write down that a share has run now."""
    ledger().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=ledger().parent, delete=False) as file:
        json.dump({**last_run(), share.name: time.time()}, file)
    Path(file.name).replace(ledger())


def run(share: Share) -> int:
    """Run a share; where it fails, on the parent commit too. 0 where it passes, or fails on the parent as well."""
    code = make(share.command, ROOT)
    note_run(share)
    if code == 0:
        return 0
    base = os.environ.get("CI_BASE") or "HEAD^"
    print(f"share {share.name} failed; running it on {base}", flush=True)
    with _checkout(base) as folder:
        if subprocess.run(
            ["make", "-n", *share.command], cwd=folder, stdout=subprocess.DEVNULL, check=False
        ).returncode:
            print(f"share {share.name} cannot be run on {base}: it fails by this change, or failed before", flush=True)
            return 1
        if make(share.command, folder) == 0:
            print(f"share {share.name} passes on {base}: this change breaks it", flush=True)
            return 1
    print(f"SHARE {share.name} FAILS ON {base} TOO: not by this change, and to be mended", flush=True)
    return 0


def make(words: Iterable[str], folder: Path) -> int:
    """Run `make`; its exit code."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(["make", "--no-print-directory", *words], cwd=folder, env=environment, check=False).returncode


@contextmanager
def _checkout(commit: str) -> Iterator[Path]:
    """A checkout of a commit, with the environments of this one."""
    with tempfile.TemporaryDirectory(prefix="parent-") as home:
        folder = Path(home, "checkout")
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--detach", "--quiet", str(folder), commit], check=True)
        try:
            for environment in [*ROOT.glob(".venv*"), ROOT / ".interop"]:
                if environment.exists():
                    (folder / environment.name).symlink_to(environment)
            for name in ("pyproject.toml", "tools/setup.sh"):  # older than the environments, which are not made anew
                os.utime(folder / name, (0, 0))
            yield folder
        finally:
            subprocess.run([*git, "remove", "--force", str(folder)], check=True)


@dataclass(frozen=True)
class Selection:
    """The tests that a command of pytest runs."""

    folders: tuple[str, ...]
    tier: str
    marks: str
    part: Part

    def of(self, tests: Mapping[str, frozenset[str]], seconds: Seconds) -> set[str]:
        """The selected tests among all, which are given with their marks."""
        expression = Expression.compile(self.marks or "not none")
        files = select_files(files_of_tests(self.folders), self.tier, seconds, self.part)
        return {
            test
            for test, marks in tests.items()
            if test.partition("::")[0] in files
            and tier_of(marks) in TIERS[self.tier]
            and expression.evaluate(_among(marks))
        }


def _among(marks: frozenset[str]) -> ExpressionMatcher:
    return lambda name, /, **_: name in marks


def selections(command: Iterable[str]) -> Iterator[Selection]:
    """What `make` would run."""
    words = ["make", "--no-print-directory", "-n", *command]
    recipe = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for line in recipe.splitlines():
        _, found, arguments = line.partition(" -m pytest ")
        if found:
            parser = argparse.ArgumentParser()
            parser.add_argument("-m", default="")
            parser.add_argument("--part", default="0/1")
            parser.add_argument("--tier", default="all")
            parser.add_argument("-n")
            parser.add_argument("--max-worker-restart")
            parser.add_argument("--junitxml")
            parser.add_argument("folders", nargs="+")
            given = parser.parse_args(shlex.split(arguments))
            yield Selection(tuple(given.folders), given.tier, given.m, Part.parse(given.part))


def collect() -> dict[str, frozenset[str]]:
    """All tests, with their marks."""
    with tempfile.TemporaryDirectory() as home:
        out = Path(home, "tests.json")
        words = [sys.executable, "-m", "pytest", "tests", "--collect-only", "-qq", "-p", "no:cacheprovider"]
        words += ["--write-marks", str(out)]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        if not out.exists():
            raise SystemExit(done.stdout[-3000:] + done.stderr[-3000:])
        return {test: frozenset(marks) for test, marks in json.loads(out.read_text()).items()}


def unreached() -> list[str]:
    """Tests that neither a run of CI nor a share runs."""
    tests = collect()
    seconds = known_seconds()
    commands = [*map(shlex.split, CI), *(share.command for share in SHARES)]
    reached = [selection.of(tests, seconds) for command in commands for selection in selections(command)]
    return sorted(tests.keys() - set().union(*reached))


def main() -> int:
    """Run a command; its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list")
    commands.add_parser("choose").add_argument("count", type=int)
    for name in ("prepare", "run"):
        commands.add_parser(name).add_argument("share")
    given = parser.parse_args()
    if given.command == "choose":
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        for share in choose(given.count, commit.strip(), last_run()):
            print(share.name)
        return 0
    if given.command == "list":
        for i, share in enumerate(SHARES):
            print(f"{i:3} {share.name:20} make {shlex.join(share.command)}")
        left = unreached()
        print("neither CI nor a share runs:", *(left or ["nothing"]), sep="\n  ")
        return 1 if left else 0
    share = find(given.share)
    if given.command == "run":
        return run(share)
    if share.group.prepare.startswith(".venv"):
        return make([share.group.prepare], ROOT)
    return subprocess.run(shlex.split(share.group.prepare) or ["true"], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
