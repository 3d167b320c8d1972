"""Java Paimon's Spark connector writes by SQL, DELETE, UPDATE and MERGE included, and we read what Java reads."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.harness.rows import difference
from tests.interop import peers
from tests.interop.comparing import disagreement, version_options
from tests.interop.connector_writer import SCENARIOS
from tests.interop.java_paimon import JavaPaimon

pytestmark = pytest.mark.interop


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Name of the scenario -> its table and what SQL reads from it."""
    python, jar = peers.connector()
    command = [str(python), "-m", "tests.interop.connector_writer", str(jar), str(tmp_path_factory.mktemp("connector"))]
    done = subprocess.run(command, cwd=peers.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    tables: dict[str, Any] = json.loads(done.stdout)
    return tables


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_version_reads_as_java_reads_it(name: str, written: dict[str, Any], java: JavaPaimon) -> None:
    table = written[name]
    assert "error" not in table, table["error"]
    versions = java.call("versions", path=table["path"])["versions"]
    # Two releases of Java agree on the head, so that a mistake of this test's own does not pass for one of ours.
    assert difference(table["rows"], versions["latest"]["rows"]) is None
    problems = []
    for label, theirs in versions.items():
        assert "error" not in theirs, f"{label}: {theirs['error']}"
        found = disagreement(table["path"], theirs, options=version_options(label))
        if found is not None:
            problems.append(f"{label}: {found}")
    assert not problems, "\n\n".join([table["path"], *problems])
