"""The layering holds, and what it is for: a light import, no drawer for odds and ends."""

from __future__ import annotations

import ast
import graphlib
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "paimon_spark"


def test_the_contracts_hold() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()", "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_package_says_what_it_is() -> None:
    modules = sorted(PACKAGE.rglob("*.py"))
    assert modules
    folders = {module.parent for module in modules}
    assert [str(f.relative_to(ROOT)) for f in sorted(folders) if not (f / "__init__.py").is_file()] == []


@cache
def trees() -> dict[str, ast.Module]:
    """The modules of the package, by their dotted names."""
    return {
        ".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): ast.parse(p.read_text())
        for p in sorted(PACKAGE.rglob("*.py"))
    }


def imports(tree: ast.Module) -> Iterator[str]:
    """What a module imports of the package, also inside functions, but not for types alone."""
    types_only = {
        child
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for child in ast.walk(node)
    }
    for node in ast.walk(tree):
        if node in types_only:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in trees() else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.ci
def test_no_files_import_each_other_in_a_circle() -> None:
    graph = {name: {i for i in imports(tree) if i in trees()} - {name} for name, tree in trees().items()}
    del graph["paimon_spark"]  # the top, which registers what runs jobs
    graphlib.TopologicalSorter({name: found - {"paimon_spark"} for name, found in graph.items()}).prepare()


@pytest.mark.ci
def test_no_module_is_imported_by_its_name_as_text() -> None:
    found = [
        f"{name}: {node.value}"
        for name, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if node.value in trees() and "." in node.value
    ]
    assert found == []


def test_modules_are_short_and_say_first_what_they_are_for() -> None:
    long = [name for name, tree in trees().items() if max((n.end_lineno or 0 for n in tree.body), default=0) > 500]
    assert long == []
    lines = {name: (ast.get_docstring(tree) or "").split("\n")[0] for name, tree in trees().items()}
    assert [name for name, line in lines.items() if not line.endswith(".") or len(line) >= 90] == []


def tests_of(name: str) -> list[Path]:
    """The test modules that the docstring of a module names; a name without a folder is in that of the one before."""
    line = re.search(r"^Tests: (.+)", ast.get_docstring(trees()[name]) or "", re.MULTILINE)
    found: list[Path] = []
    for path in re.findall(r"[\w/]+\.py", line[1] if line else ""):
        found.append(ROOT / path if "/" in path else found[-1].parent / path)
    return found


def test_modules_name_the_tests_that_cover_them() -> None:
    named = {name: tests_of(name) for name in trees()}
    assert [str(path) for paths in named.values() for path in paths if not path.is_file()] == []
    rooms = ("paimon_spark.engine.commit.", "paimon_spark.versioning.", "paimon_spark.streaming.")
    assert [name for name, paths in named.items() if name.startswith(rooms) and not paths] == []


_UNCLEAR = re.compile(
    r"^(What|Whatever|Those|None that|None)\b|\b(whence|told|nobody|somebody|is none|are none|its kin|whoever|none that"
    r"|is no|is over|are over|stands in|to be had)\b",
    re.IGNORECASE,
)


def test_first_lines_of_docstrings_name_what_a_thing_is_or_does() -> None:
    found = [
        f"{name}.{getattr(node, 'name', '')}: {line}"
        for name, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        if _UNCLEAR.search(line := (ast.get_docstring(node) or "").split("\n")[0])
    ]
    assert found == []


def test_there_is_no_drawer_for_odds_and_ends() -> None:
    drawers = {"util", "utils", "common", "helpers", "misc"}
    assert [str(p.relative_to(ROOT)) for p in sorted(PACKAGE.rglob("*")) if p.stem in drawers] == []


@pytest.mark.parametrize("heavy", ["pyspark", "pandas", "pyarrow", "fsspec", "fastavro", "numpy", "sqlglot"])
def test_importing_the_package_imports_nothing_heavy(heavy: str) -> None:
    probe = f"import sys, paimon_spark; sys.exit({heavy!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr or f"import paimon_spark imports {heavy}"
