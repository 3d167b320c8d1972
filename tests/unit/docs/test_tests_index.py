"""tests/README.md lists every module of the tests with its first line, and `make find` finds tests by their words."""

from __future__ import annotations

import re

import pytest

from tools import tests_index
from tools.tests_index import README, find, modules, readme

_UNCLEAR = re.compile(r"(What|Whatever|Those|None)\b")


def test_the_readme_is_made_of_the_first_lines_of_the_modules() -> None:
    assert README.read_text(encoding="utf-8") == readme(), "run `make docs`"


def test_every_module_says_what_it_holds() -> None:
    unclear = [m.file for m in modules() if not m.sentence.endswith((".", "?")) or _UNCLEAR.match(m.sentence)]
    assert unclear == []


def test_tests_are_found_by_words_of_their_names() -> None:
    here = "tests/unit/docs/test_tests_index.py"
    found = {place.line: place for place in find(["found", "WORD", "names"]) if place.file == here}
    assert [place.sentence for place in found.values()] == ["tests are found by words of their names"]


def test_modules_are_found_by_words_of_their_first_lines() -> None:
    (first, *_) = find(["README.md", "module", "first"])
    assert (first.file, first.line) == ("tests/unit/docs/test_tests_index.py", 1)
    assert first.sentence.startswith("tests/README.md lists")


def test_words_that_nothing_says_are_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["tests_index", "find", "no" + "such" + "word"])
    assert tests_index.main() == 1
    assert capsys.readouterr().err == "no test says 'nosuchword'; try fewer or shorter words\n"
