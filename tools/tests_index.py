"""Index of the tests: `tests/README.md` from the first lines of modules, and a search by words.

python -m tools.tests_index write            # write tests/README.md anew
python -m tools.tests_index find WORD...     # modules and tests that say all the words, as file:line: sentence
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
README: Final = ROOT / "tests" / "README.md"
FOLDERS: Final[Mapping[str, str]] = {
    "tests/chaos": "Writers that race, are killed, and stores that fail (`make test-chaos`).",
    "tests/docs": "The code in README.md and docs, the site and the wheel (`make test-docs`, `make test-wheel`).",
    "tests/format": "Golden tables of other writers, listed in [CATALOG.md](format/CATALOG.md) (`make test-unit`).",
    "tests/harness": "Builders, models, fakes and servers that several folders of tests use.",
    "tests/hostile": "Forged, damaged and oversized input, secrets, links and raw errors (`make test-unit`).",
    "tests/interop": "Java Paimon, its Spark connector, pypaimon and dbt on the same tables (`make test-interop`).",
    "tests/spark": "Real Spark sessions, classic and Connect (`make test-spark`).",
    "tests/stores": "Servers of HDFS, S3, Google Cloud Storage and Azure (`make test-stores`).",
    "tests/unit": "Modules of the package without Spark, in folders that mirror it (`make test-unit`).",
}
"""By folder, a sentence; those below `tests/unit` have that of the package that they mirror."""
HEAD: Final = """\
# Tests

Every module and the behaviour that it holds, by folder. `make find WHAT="rename branch"` searches these lines, and the
names and docstrings of tests, and prints where each match is. Golden tables are described in
[fixtures](fixtures/README.md); benchmarks are in `tools/bench`.

`make docs` writes this page from the first lines of the modules.
"""


@dataclass(frozen=True)
class Place:
    """A module, test or helper function.

    Attributes:
        file: relative to the project.
        sentence: the first line of its docstring, or the words of its name.
        words: all text that a search looks at.
    """

    file: str
    line: int
    sentence: str
    words: str


@dataclass(frozen=True)
class Module:
    """A module of the tests, with what it holds."""

    file: str
    sentence: str
    parts: tuple[Place, ...]

    @property
    def folder(self) -> str:
        """Path of its folder, relative to the project."""
        return str(Path(self.file).parent)


def modules() -> Iterator[Module]:
    """Yield all modules of the tests, sorted by folder and name."""
    for path in sorted((ROOT / "tests").rglob("*.py"), key=lambda p: (str(p.parent), p.name)):
        if path.name != "__init__.py":
            yield read_module(path)


def read_module(path: Path) -> Module:
    """Read the first line of a module, and its tests; of the harness, its public functions and classes."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    file = str(path.relative_to(ROOT))
    in_harness = file.startswith("tests/harness/")
    nodes = tree.body if in_harness else list(ast.walk(tree))
    parts = []
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            is_test = node.name.startswith("test_") and isinstance(node, ast.FunctionDef)
            if is_test or (in_harness and not node.name.startswith("_")):
                said = ast.get_docstring(node) or ""
                name = node.name.removeprefix("test_").replace("_", " ") if is_test else node.name
                parts.append(Place(file, node.lineno, first_line(said) or name, f"{name} {said}"))
    return Module(file, first_line(ast.get_docstring(tree) or ""), tuple(sorted(parts, key=lambda p: p.line)))


def first_line(docstring: str) -> str:
    """Return the first line of a docstring."""
    return docstring.partition("\n")[0].strip()


def folder_sentence(folder: str) -> str:
    """Return the sentence of a folder: stated here, or that of the package which it mirrors."""
    if folder in FOLDERS:
        return FOLDERS[folder]
    package = ROOT / "paimon_spark" / Path(*Path(folder).parts[2:]) / "__init__.py"
    if not package.exists():
        return ""
    return first_line(ast.get_docstring(ast.parse(package.read_text(encoding="utf-8"))) or "")


def readme() -> str:
    """Return the text of tests/README.md."""
    lines = [HEAD]
    for folder, found in groupby(modules(), key=lambda m: m.folder):
        lines.append(f"## {folder}\n")
        if sentence := folder_sentence(folder):
            lines.append(f"{sentence}\n")
        lines += [f"- `{Path(module.file).name}`: {module.sentence}" for module in found]
        lines.append("")
    return "\n".join(lines)


def find(words: Sequence[str]) -> list[Place]:
    """Return the modules and tests that say all the words, each at the beginning of a word, in any case.

    A test is found by its own text and that of its module, if at least one word is in its own.
    """
    patterns = [re.compile(rf"(?<![^\W_]){re.escape(word)}", re.IGNORECASE) for word in words]
    out = []
    for module in modules():
        about = f"{module.file} {module.sentence}"
        if all(p.search(about) for p in patterns):
            out.append(Place(module.file, 1, module.sentence, about))
        for part in module.parts:
            own = [bool(p.search(part.words)) for p in patterns]
            if any(own) and all(here or p.search(about) for here, p in zip(own, patterns, strict=True)):
                out.append(part)
    return out


def main() -> int:
    """Run a command; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("write")
    commands.add_parser("find").add_argument("words", nargs="+")
    given = parser.parse_args()
    if given.command == "write":
        README.write_text(readme(), encoding="utf-8")
        return 0
    found = find(given.words)
    for place in found:
        print(f"{place.file}:{place.line}: {place.sentence}")
    if not found:
        sys.stderr.write(f"no test says {' '.join(given.words)!r}; try fewer or shorter words\n")
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
