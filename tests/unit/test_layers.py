"""The layering holds, and what it is for: a light import, no drawer for odds and ends."""

from __future__ import annotations

import subprocess
import sys
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


def test_there_is_no_drawer_for_odds_and_ends() -> None:
    drawers = {"util", "utils", "common", "helpers", "misc"}
    assert [str(p.relative_to(ROOT)) for p in sorted(PACKAGE.rglob("*")) if p.stem in drawers] == []


@pytest.mark.parametrize("heavy", ["pyspark", "pandas", "pyarrow", "fsspec", "fastavro", "numpy", "sqlglot"])
def test_importing_the_package_imports_nothing_heavy(heavy: str) -> None:
    probe = f"import sys, paimon_spark; sys.exit({heavy!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr or f"import paimon_spark imports {heavy}"
