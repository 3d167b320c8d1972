"""Every example runs alone, as a user would run it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.py"))

# What a reader must see in the output: that the script ran is not enough.
SHOWN = {
    "write_table.py": [
        "|  2|2024-01-01|  21.0|",
        "|  9|2024-01-02|  90.0|",
        "|  2|2024-01-01|  63.0|",
        "|  4|2024-01-02|  40.0|",
        "Snapshots: 1 APPEND, 2 APPEND, 3 OVERWRITE",
    ],
    "read_table.py": ["|  3|main only|", "At tag t1", "On branch from_tag", "|  4|branch|"],
}


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda p: p.name)
def test_example_runs_alone(script: Path, tmp_path: Path) -> None:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False, env=plain
    )
    assert done.returncode == 0, done.stderr[-3000:]
    missing = [text for text in SHOWN[script.name] if text not in done.stdout]
    assert not missing, f"{missing} not in:\n{done.stdout}"
    assert list(tmp_path.iterdir()) == [], "an example leaves nothing behind in the working folder"
