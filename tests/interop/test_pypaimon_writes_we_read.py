"""pypaimon writes tables, and we read what pypaimon reads: every version of main and of each branch."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.interop import peers
from tests.interop.comparing import disagreement, version_options
from tests.interop.pypaimon_writer import SCENARIOS

pytestmark = pytest.mark.interop

NAMES = [scenario.__name__ for scenario in SCENARIOS]
# Tables that we may refuse to read, and the word that the refusal must hold.
MAY_REFUSE = {"append_row_tracking": "data-evolution", "append_deleted": "data-evolution"}


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Name of the scenario -> its table and pypaimon's reads of it."""
    folder = tmp_path_factory.mktemp("pypaimon")
    command = [str(peers.pypaimon_python()), "-m", "tests.interop.pypaimon_writer", str(folder)]
    done = subprocess.run(command, cwd=peers.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    tables: dict[str, Any] = json.loads(done.stdout)
    return tables


@pytest.mark.parametrize("name", NAMES)
def test_every_version_reads_as_pypaimon_reads_it(name: str, written: dict[str, Any]) -> None:
    table = written[name]
    assert "error" not in table, table["error"]
    assert Path(table["path"]).is_dir()
    problems = []
    for label, theirs in table["versions"].items():
        assert "error" not in theirs, f"{label}: {theirs['error']}"
        found = disagreement(table["path"], theirs, options=version_options(label), may_refuse=MAY_REFUSE.get(name))
        if found is not None:
            problems.append(f"{label}: {found}")
    assert not problems, "\n\n".join([table["path"], *problems])
