"""The releases that CI installs are those that pyproject.toml asks for, all by hash."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
_ENTRY = re.compile(
    r"^(?P<requirement>[a-z0-9][^\\]*?)\s*\\\n(?P<hashes>(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE
)


def locked(file: str) -> dict[str, str]:
    """The releases of a file by name, for the Python that runs; every line of it is a release or a hash."""
    text = (ROOT / "requirements" / file).read_text()
    assert _ENTRY.sub("", text).strip() == ""
    found: dict[str, str] = {}
    for entry in _ENTRY.finditer(text):
        requirement = Requirement(entry["requirement"])
        if requirement.marker is None or requirement.marker.evaluate():
            [pin] = requirement.specifier
            assert pin.operator == "==", requirement
            found[canonicalize_name(requirement.name)] = pin.version
    return found


def asked_for(extra: str) -> list[Requirement]:
    """What an extra asks for, with the extras of this project in it."""
    found = []
    for text in PROJECT["optional-dependencies"][extra]:
        requirement = Requirement(text)
        if requirement.name == PROJECT["name"]:
            found += [r for inner in requirement.extras for r in asked_for(inner)]
        else:
            found.append(requirement)
    return found


def test_the_readme_lists_every_extra() -> None:
    listed = (ROOT / "README.md").read_text().partition("# extras: ")[2].partition("```")[0]
    words = {word.strip(",") for word in listed.replace("#", " ").split()}
    assert words == set(PROJECT["optional-dependencies"]) - {"test", "docs", "dev"}


def test_the_locked_releases_are_what_the_project_asks_for() -> None:
    releases = locked("ci.txt")
    wanted = [*map(Requirement, PROJECT["dependencies"]), *asked_for("dev")]
    assert len(wanted) > 30
    wrong = {
        str(r): releases.get(canonicalize_name(r.name))
        for r in wanted
        if not r.specifier.contains(releases.get(canonicalize_name(r.name), "0"))
    }
    assert wrong == {}, "run `make lock`"
    assert {"pip", "hatchling"} <= releases.keys()


def test_the_oldest_pyspark_is_locked_too() -> None:
    [oldest] = re.findall(r"^OLDEST := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    releases = locked("oldest.txt")
    assert releases["pyspark"].startswith(f"{oldest}.") and set(releases) == {"pyspark", "py4j"}
