"""SUPPORT.md names tests that are there; pages name files and commands that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from paimon_spark.operations import PROCEDURES

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / name for name in ("README.md", "SUPPORT.md", "CHANGES.md")] + sorted((ROOT / "docs").rglob("*.md"))
IDS = [str(page.relative_to(ROOT)) for page in PAGES]


def rows(text: str) -> list[list[str]]:
    """Cells of the tables of a page, without their heads."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def named_in(cell: str) -> list[str]:
    """Tests that a cell names; one without a folder lies in the folder of the one before it."""
    found: list[str] = []
    for name in re.findall(r"`([\w./-]+)`", cell):
        if name.startswith("tests/"):
            found.append(name)
        elif name.endswith(".py") and found:
            folder = found[-1] if not found[-1].endswith(".py") else str(Path(found[-1]).parent)
            found.append(f"{folder}/{name}")
    return found


SUPPORT = rows((ROOT / "SUPPORT.md").read_text(encoding="utf-8"))
NAMED = sorted({name for row in SUPPORT for name in named_in(row[-1])})


@pytest.mark.parametrize("name", NAMED)
def test_a_test_that_support_names_is_there(name: str) -> None:
    assert (ROOT / name).exists()


def test_every_row_of_support_says_what_shows_it() -> None:
    said = ("`", "the same", "golden tables")
    without = [row[0] for row in SUPPORT if len(row) == 3 and row[0] and not any(s in row[2] for s in said)]
    assert set(without) <= {"---", "PySpark 4.0 and older"}


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    made = {"support.md": "SUPPORT.md", "changes.md": "CHANGES.md"}
    for target in re.findall(r"\]\(([^)\s#]+)(?:#[\w-]+)?\)", text):
        if "://" not in target:
            found = (page.parent / target).exists() or (ROOT / made.get(Path(target).name, target)).exists()
            assert found, target


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_scripts_that_pages_name_are_there(page: Path) -> None:
    for script in re.findall(r"`(examples/\w+\.py)", page.read_text(encoding="utf-8")):
        assert (ROOT / script).is_file(), script


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_make_targets_that_pages_name_are_there(page: Path) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = re.findall(r"`make ([a-z0-9-]+)", page.read_text(encoding="utf-8"))
    assert set(named) <= targets


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_procedures_that_pages_name_are_there(page: Path) -> None:
    named = set(re.findall(r"\bCALL sys\.(\w+)", page.read_text(encoding="utf-8")))
    assert named <= {name for name, forms in PROCEDURES.items() if not forms[0].instead}
