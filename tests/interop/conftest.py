"""One process of each peer, and one folder of its tables, for the whole run of a worker."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.doors import door as door  # the fixture
from tests.harness.doors import run_through_classic_doors
from tests.interop import peers
from tests.interop.connector import Connector
from tests.interop.java_paimon import JavaPaimon
from tests.interop.java_tables import JavaTables
from tests.interop.pypaimon_peer import PyPaimon


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests of this folder take longer: the first of a worker waits for peers that start on a busy machine.

    Tests that ask the Spark connector are slow: it brings a PySpark of its own.
    """
    for item in items:
        if item.path.is_relative_to(peers.HERE):
            item.add_marker(pytest.mark.timeout(900))
            if "connector" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.connector)
                item.add_marker(pytest.mark.slow)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests of statements through both classic doors."""
    run_through_classic_doors(metafunc)


@pytest.fixture(scope="session")
def java() -> Iterator[JavaPaimon]:
    """Java Paimon, started at its first call."""
    with JavaPaimon() as peer:
        yield peer


@pytest.fixture(scope="session")
def connector() -> Iterator[Connector]:
    """Java Paimon's Spark connector, started at its first request."""
    peer = Connector()
    yield peer
    peer.close()


@pytest.fixture(scope="session")
def py() -> Iterator[PyPaimon]:
    """pypaimon, started at its first call."""
    peer = PyPaimon()
    yield peer
    peer.close()


@pytest.fixture(scope="session")
def java_tables(java: JavaPaimon, tmp_path_factory: pytest.TempPathFactory) -> JavaTables:
    """The tables that Java writes, each when it is first asked for."""
    return JavaTables(java, tmp_path_factory.mktemp("java"))


@pytest.fixture(scope="session")
def pypaimon_tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Name of the scenario -> the table pypaimon wrote, and pypaimon's reads of it."""
    tables: dict[str, Any] = pypaimon("pypaimon_writer", str(tmp_path_factory.mktemp("pypaimon")))
    return tables


def pypaimon(module: str, *arguments: str) -> Any:
    """What a module of this folder prints as JSON when pypaimon's interpreter runs it."""
    command = [str(peers.pypaimon_python()), "-m", f"tests.interop.{module}", *arguments]
    done = subprocess.run(command, cwd=peers.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
