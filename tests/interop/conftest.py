"""One JVM, and one folder of tables, for the whole run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.java_paimon import JavaPaimon
from tests.interop.java_tables import JavaTables


@pytest.fixture(scope="session")
def java() -> Iterator[JavaPaimon]:
    """Java Paimon, started at its first call."""
    with JavaPaimon() as peer:
        yield peer


@pytest.fixture(scope="session")
def java_tables(java: JavaPaimon, tmp_path_factory: pytest.TempPathFactory) -> JavaTables:
    """The tables that Java writes, each when it is first asked for."""
    return JavaTables(java, tmp_path_factory.mktemp("java"))
