"""We write tables of every kind; Java Paimon reads what it reads from its own twin, and goes on writing.

INTEROP_WRITE_SEEDS=first:last widens the search of random tables.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.interop.java_paimon import JavaPaimon
from tests.interop.random_tables import random_script
from tests.interop.table_script import TableScript
from tests.interop.test_java_writes_we_read import SCRIPTS
from tests.interop.twins import Refused, Twins

pytestmark = pytest.mark.interop

REFUSED = ("java", "blob", "type VECTOR")
"""How features begin whose tables are not written; SUPPORT.md says so of each."""

FIRST, LAST = (int(part) for part in os.environ.get("INTEROP_WRITE_SEEDS", "1001:1008").split(":"))


@pytest.mark.parametrize("script", SCRIPTS, ids=str)
def test_java_reads_our_table_as_its_own(script: TableScript, java: JavaPaimon, tmp_path: Path) -> None:
    check(Twins(script, java, tmp_path))


@pytest.mark.slow
@pytest.mark.random_tables
@pytest.mark.parametrize("seed", range(FIRST, LAST + 1))
def test_java_reads_our_random_table_as_its_own(seed: int, java: JavaPaimon, tmp_path: Path) -> None:
    check(Twins(random_script(seed, brief=True), java, tmp_path))


def check(twins: Twins) -> None:
    try:
        twins.run()
        if not twins.problems:
            twins.go_on_with_java()
    except Refused as refused:
        if not refused.feature.startswith(REFUSED):
            raise
        pytest.skip(f"refused: {refused}")
    assert not twins.problems, "\n\n".join([f"{twins.ours} {twins.script.about}", *twins.problems[:3]])
    assert twins.done_by_us
