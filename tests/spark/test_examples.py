"""Every example runs and shows what it promises."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.newest]

FOLDER = Path(__file__).resolve().parents[2] / "examples"
EXAMPLES = [*sorted(FOLDER.glob("*.py")), FOLDER / "declarative_pipeline" / "run.py"]


def name_of(script: Path) -> str:
    """Its path in the folder of the examples."""
    return str(script.relative_to(FOLDER))


# What a reader must see in the output: that the script ran is not enough.
SHOWN = {
    "declarative_pipeline/run.py": [
        "   shop.revenue, snapshots [1]:\n   mon: 30.0\n   tue: 4030.0\n",
        "   shop.revenue$branch_fix, snapshots [1, 2, 3]:\n   mon: 30.0\n   tue: 30.0\n3. Publish",
        "   shop.revenue, snapshots [1, 2, 3, 4, 5]:\n   mon: 30.0\n   tue: 30.0\n   wed: 50.0\n",
        "   new rows of shop.valid_orders: [{'id': 5, 'day': 'wed', 'amount': 50.0}]\n",
    ],
    "write_table.py": [
        "|  2|2024-01-01|  21.0|",
        "|  9|2024-01-02|  90.0|",
        "|  2|2024-01-01|  63.0|",
        "|  4|2024-01-02|  40.0|",
        "Snapshots: 1 APPEND, 2 APPEND, 3 OVERWRITE",
    ],
    "correct_table.py": [
        "|  3|2024-01-02|3000.0|",
        "| fix|2024-01-01|                 1|",
        "|2024-01-01      |1          |[fix]   |",
        "Published. Snapshots [2, 3] of main are kept in main_backup_",
        "|  5|2024-01-03|  50.0|",
    ],
    "stream_correct.py": [
        "|  3|tue|3000.0|",
        "|  3|tue| 30.0|\n|  4|wed| 40.0|\n+",
        "Published. What main had since is kept in main_backup_",
        "|  3|tue| 30.0|\n|  4|wed| 40.0|\n|  5|thu| 50.0|",
    ],
    "lineage.py": [
        "{'shop.euros': 1, 'shop.visits': 1}",
        "|     2| 30.0|",
        "shop.visits: since snapshot 2, by shop.orders → to-visits → shop.visits",
        "shop.report: not yet",
        't1 -->|"snapshot 2"| j5',
    ],
    "maintain.py": [
        "Compacted 6 files into 1",
        "Every row once, in one file: 1 file(s), 7 rows",
        "Would expire: snapshots 1, 2, 3, 4, 5, 6, with 3 data files",
        "Snapshots: [7]; rows at the tag: 4",
        "Orphans older than a day: 1",
        "What is wrong with the table: nothing",
    ],
    "story.py": [
        "shop.revenue: since snapshot 2, by shop.sales → sum up → shop.revenue",
        "2 tables, 1 job\n-  shop.sales\n1  shop.revenue  written by sum up",
        "0 rows added, 0 removed, 2 changed\nchanged values: euros 2",
        "< day=tue, euros=3000.0\n> day=tue, euros=30.0",
        "release 1: branch fix",
        "|tue|3000.0|\n|wed|4000.0|",
        "release 3: undo of release 2",
        "|mon| 30.0|\n|tue| 30.0|\n|wed| 40.0|",
        "Wrong with the tables: nothing",
    ],
    "read_table.py": ["|  3|main only|", "At tag t1", "On branch from_tag", "|  4|branch|"],
}


ALONE = {"story.py", "declarative_pipeline/run.py"}
"""Run in a process of their own: the demo, and what starts a pipeline of Spark itself."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("script", [s for s in EXAMPLES if name_of(s) in ALONE], ids=name_of)
def test_example_runs_alone(script: Path, tmp_path: Path) -> None:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=480, check=False, env=plain
    )
    assert done.returncode == 0, done.stderr[-3000:]
    check_shown(script, done.stdout, tmp_path)


@pytest.mark.parametrize("script", [s for s in EXAMPLES if name_of(s) not in ALONE], ids=name_of)
def test_example_runs_in_a_session(
    script: Path,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its `getOrCreate` finds the session of the tests, which goes on when it stops it."""
    stopped: list[SparkSession] = []
    monkeypatch.setattr(SparkSession, "stop", lambda session: stopped.append(session))
    monkeypatch.setattr(sys, "argv", [str(script)])
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")
    check_shown(script, capsys.readouterr().out, tmp_path)
    assert stopped == ([spark] if "SparkSession" in script.read_text(encoding="utf-8") else [])


def check_shown(script: Path, printed: str, folder: Path) -> None:
    """See that an example printed what it must, and left nothing in the working folder."""
    missing = [text for text in SHOWN[name_of(script)] if text not in printed]
    assert not missing, f"{missing} not in:\n{printed}"
    assert list(folder.iterdir()) == []


def test_the_demo_runs_the_story() -> None:
    shown = subprocess.run(
        ["make", "-n", "demo"], cwd=FOLDER.parent, capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert [line.split()[-1] for line in shown.splitlines() if "examples/" in line] == ["examples/story.py"]
