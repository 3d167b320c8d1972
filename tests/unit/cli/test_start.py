"""The command line starts quickly: what is heavy is imported by the commands that need it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.command_line import orders

HEAVY = ("pyspark", "pyarrow", "numpy", "fsspec", "fastavro", "sqlglot", "pandas")
PROBE = """
import sys
from paimon_spark.cli.main import main
code = main(sys.argv[1:])
print("imported:", *(m for m in {heavy!r} if m in sys.modules), file=sys.stderr)
sys.exit(code)
"""


def imported(*words: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(heavy=HEAVY), *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stderr.rpartition("imported:")[2].split()


@pytest.mark.parametrize("words", ["--help", "branch --help", "branch create --help", "completion bash"])
def test_help_and_completion_import_nothing_heavy(words: str) -> None:
    assert imported(*words.split()) == []


@pytest.mark.ci
@pytest.mark.parametrize(
    "words",
    ["branch list", "tag list", "status", "log --graph", "diff v1 fix", "refs", "show", "branch create b --tag v1"],
)
def test_spark_is_not_imported_where_it_is_not_needed(words: str, tmp_path: Path) -> None:
    orders(tmp_path)
    verb, noun = words.split()[:2] if " " in words and words.split()[0] in ("branch", "tag") else (words.split()[0], "")
    rest = words.split()[2 if noun else 1 :]
    named = [verb, *([noun] if noun else []), str(tmp_path / "db.db" / "orders"), *rest]
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(heavy=HEAVY), *named], capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    assert "pyspark" not in done.stderr.rpartition("imported:")[2].split()


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "paimon_spark", "version", "--json"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert '"paimon-spark"' in done.stdout
