"""Random tables written by Java read the same with us. INTEROP_SEEDS=first:last widens the search."""

from __future__ import annotations

import os

import pytest

from tests.interop.comparing import disagreement, version_options
from tests.interop.java_tables import JavaTables
from tests.interop.random_tables import random_script

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.random_tables]

FIRST, LAST = (int(part) for part in os.environ.get("INTEROP_SEEDS", "1:14").split(":"))


@pytest.mark.parametrize("seed", range(FIRST, LAST + 1))
def test_a_random_table_reads_as_java_reads_it(seed: int, java_tables: JavaTables) -> None:
    script = random_script(seed)
    table = java_tables.get(script)
    problems = []
    for label, theirs in table.versions.items():
        assert "error" not in theirs, f"{label}: {theirs['error']}"
        found = disagreement(table.path, theirs, options=version_options(label))
        if found is not None:
            problems.append(f"{label}: {found}")
    for read in script.reads:
        theirs = java_tables.read(script, read)
        found = disagreement(table.path, theirs, options=read.options, where=read.sql)
        if found is not None:
            problems.append(f"{read.label}: {found}")
    assert not problems, "\n\n".join([f"{table.path} {script.about}", *problems])
