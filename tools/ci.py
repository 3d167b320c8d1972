"""All steps of CI, as `.ci/run` runs them after the set-up: several at a time, as many as there are cores for.

Each step is a target of `make`. What it prints goes to a file in build/ci, and its end to standard output when the step
is over: more of it when the step failed. All steps run, and the table at the end says how long each took.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from tests.harness.shards import ROOT
from tools import shares

LOGS: Final = ROOT / "build" / "ci"
CORES: Final = max(2, min(4, os.cpu_count() or 2))
_END_LINES, _FAILED_LINES = 4, 400


@dataclass
class Step:
    """A step, which waits until so many cores are free.

    Attributes:
        words: of the command.
        cores: the processes that share its tests.
        after: names of steps that must be over before, whether they passed or not.
    """

    name: str
    words: list[str]
    cores: int = 1
    after: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    began: float = 0.0
    seconds: float = 0.0
    code: int | None = None

    @property
    def log(self) -> Path:
        """What it printed."""
        return LOGS / f"{self.name}.log"

    def start(self) -> None:
        """Start it."""
        self.began = time.monotonic()
        environment = {**os.environ, "JOBS": str(max(1, self.cores)), "PYTHONUNBUFFERED": "1"}
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                self.words, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    def ended(self, status: int) -> None:
        """Note how it ended, and show it."""
        assert self.process is not None
        self.code = self.process.returncode = os.waitstatus_to_exitcode(status)
        self.seconds = time.monotonic() - self.began
        lines = self.log.read_text(errors="replace").splitlines()
        shown = lines[-(_FAILED_LINES if self.code else _END_LINES) :]
        print(f"\n== {self.name}: {shlex.join(self.words)}", *shown, sep="\n")
        print(f"== {self.name} {'FAILED' if self.code else 'passed'} after {self.seconds:.0f} s", flush=True)


@dataclass
class Runner:
    """Runs steps in their order, as cores become free."""

    steps: Sequence[Step]
    cores: int = CORES
    running: dict[int, Step] = field(default_factory=dict)

    def run(self) -> bool:
        """Run all steps; whether all passed."""
        waiting = list(self.steps)
        while waiting or self.running:
            free = self.cores - sum(step.cores for step in self.running.values())
            for step in list(waiting):
                over = {s.name for s in self.steps if s.code is not None}
                if step.cores <= free and set(step.after) <= over:
                    waiting.remove(step)
                    step.start()
                    assert step.process is not None
                    self.running[step.process.pid] = step
                    free -= step.cores
            pid, status = os.wait()
            if pid in self.running:
                self.running.pop(pid).ended(status)
        return all(step.code == 0 for step in self.steps)


def make(name: str, words: str, *, cores: int = 1, after: tuple[str, ...] = ()) -> Step:
    """A step that is a target of make."""
    return Step(name, ["make", "--no-print-directory", *shlex.split(words)], cores, after)


def all_steps(chosen: Sequence[shares.Share]) -> list[Step]:
    """The steps of a run of CI, cheap ones first; those that use one core are beside each other."""
    tests, oldest, docs, wheel, interop, stores, chaos = shares.CI
    share = [sys.executable, "-m", "tools.shares"]
    return [
        # Beside everything else, as they wait for downloads most of the time.
        make("peers", "peers", cores=0),
        make("oldest-setup", ".venv-spark41/.ready", cores=0),
        *(Step(f"{s.name}-setup", [*share, "prepare", s.name], cores=0) for s in chosen),
        make("check", "check"),
        make("shares", "shares"),
        make("docs", docs),
        make("wheel", wheel),
        make("tests", tests, cores=CORES),
        make("chaos", chaos, cores=CORES),
        make("interop", interop, cores=CORES, after=("peers",)),
        make("stores", stores, cores=0, after=("peers",)),  # its races wait for servers most of the time
        make("oldest", oldest, after=("oldest-setup",)),
        *(Step(s.name, [*share, "run", s.name], cores=CORES, after=("peers", f"{s.name}-setup")) for s in chosen),
    ]


def write_junit(steps: Sequence[Step], file: Path) -> None:
    """Write how each step ended and how long it took, as JUnit XML."""
    suite = ET.Element("testsuite", name="ci", tests=str(len(steps)), failures=str(sum(s.code != 0 for s in steps)))
    for step in steps:
        case = ET.SubElement(suite, "testcase", classname="ci", name=step.name, time=f"{step.seconds:.1f}")
        if step.code:
            failure = ET.SubElement(case, "failure", message=f"exit code {step.code}")
            failure.text = f"see {step.log.relative_to(ROOT)}"
    file.parent.mkdir(parents=True, exist_ok=True)
    ET.ElementTree(suite).write(file, encoding="utf-8", xml_declaration=True)


def main() -> int:
    """Run all steps; 0 when all passed."""
    LOGS.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    chosen = shares.choose(1, commit.strip(), shares.last_run())
    steps = all_steps(chosen)
    passed = Runner(steps).run()
    print(f"\n{'step':30} {'seconds':>8}")
    for step in steps:
        print(f"{step.name:30} {step.seconds:8.0f}  {'FAILED' if step.code else 'passed'}")
    write_junit(steps, ROOT / "build" / "junit" / "ci.xml")
    print(f"{'all':30} {time.monotonic() - began:8.0f}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
