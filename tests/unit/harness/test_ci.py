"""The steps of CI run beside each other, none is left out, and a share is chosen that has waited longest."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tools import ci, shares
from tools.ci import Runner, Step, write_junit


@pytest.fixture(autouse=True)
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ci, "LOGS", tmp_path)
    monkeypatch.setattr(ci, "ROOT", tmp_path)


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_all_steps_run_whatever_fails_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = [
        Step("fails", python("print('why'); raise SystemExit(3)"), cores=2),
        Step("passes", python("print('fine')")),
        Step("waits", python("print('last')"), after=("fails",)),
    ]
    assert not Runner(steps, cores=2).run()
    assert [step.code for step in steps] == [3, 0, 0]
    shown = capsys.readouterr().out
    assert "why" in shown
    assert "== fails FAILED" in shown
    assert "== waits passed" in shown
    write_junit(steps, tmp_path / "junit" / "ci.xml")
    cases = ET.parse(tmp_path / "junit" / "ci.xml").getroot()
    assert [(case.get("name"), len(case)) for case in cases] == [("fails", 1), ("passes", 0), ("waits", 0)]


def test_steps_that_take_one_core_are_beside_each_other(tmp_path: Path) -> None:
    """Each of two steps ends only when both have begun, and one that takes both cores runs alone."""
    meet = "import os, pathlib, time\nwhile len(list(pathlib.Path({0!r}).iterdir())) < 2: time.sleep(0.01)"
    place = tmp_path / "begun"
    place.mkdir()
    begin = f"import pathlib, os; pathlib.Path({str(place)!r}, str(os.getpid())).touch()\n{meet.format(str(place))}"
    alone = f"import pathlib; assert len(list(pathlib.Path({str(place)!r}).iterdir())) == 2"
    steps = [Step("one", python(begin)), Step("all", python(alone), cores=2), Step("two", python(begin))]
    assert Runner(steps, cores=2).run()


def test_in_as_many_runs_as_there_are_shares_each_has_its_turn() -> None:
    turns, last_run = Counter[str](), dict[str, float]()
    for run in range(len(shares.SHARES)):
        [share] = shares.choose(1, f"commit {run}", last_run)
        turns[share.name] += 1
        last_run[share.name] = run + 1.0
    assert turns == Counter(share.name for share in shares.SHARES)
    assert len(shares.SHARES) <= 40


def test_on_a_new_machine_the_commit_chooses() -> None:
    assert shares.choose(1, "a", {}) == shares.choose(1, "a", {})
    assert len({shares.choose(1, str(n), {})[0].name for n in range(100)}) > 20


def test_a_damaged_ledger_is_as_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert shares.last_run() == {}
    shares.note_run(shares.SHARES[0])
    assert list(shares.last_run()) == [shares.SHARES[0].name]
    shares.ledger().write_text("[1")
    assert shares.last_run() == {}
    assert os.listdir(shares.ledger().parent) == ["shares.json"]


def test_a_share_that_does_not_exist_is_refused() -> None:
    with pytest.raises(SystemExit, match="no share is called 'nine'"):
        shares.find("nine")
