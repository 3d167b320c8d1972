"""pypaimon writes tables, and we read what pypaimon reads: every version of main and of each branch."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import paimon_spark
from tests.harness.rows import assert_same_rows, rows_of
from tests.interop import streams
from tests.interop.comparing import disagreement, version_options
from tests.interop.java_paimon import JavaPaimon
from tests.interop.pypaimon_writer import SCENARIOS

pytestmark = pytest.mark.interop

NAMES = [scenario.__name__ for scenario in SCENARIOS]
# Tables that we may refuse to read, and the word that the refusal must hold.
MAY_REFUSE = {"append_row_tracking": "data-evolution", "append_deleted": "data-evolution"}

# Java cannot read these files of pypaimon's, or takes columns that were written again for new rows.
NOT_STREAMED = ("append_types_orc", "append_row_tracking")


@pytest.mark.parametrize("name", NAMES)
def test_every_version_reads_as_pypaimon_reads_it(name: str, pypaimon_tables: dict[str, Any]) -> None:
    table = pypaimon_tables[name]
    assert "error" not in table, table["error"]
    assert Path(table["path"]).is_dir()
    problems = []
    for label, theirs in table["versions"].items():
        assert "error" not in theirs, f"{label}: {theirs['error']}"
        found = disagreement(table["path"], theirs, options=version_options(label), may_refuse=MAY_REFUSE.get(name))
        if found is not None:
            problems.append(f"{label}: {found}")
    assert not problems, "\n\n".join([table["path"], *problems])


@pytest.mark.parametrize("name", ["pk_rowkind", "pk_rowkind_apart"])
def test_rows_that_pypaimon_deletes_are_gone_here_and_in_java(
    name: str, pypaimon_tables: dict[str, Any], java: JavaPaimon
) -> None:
    """pypaimon counts no deletes in its files, whatever `rowkind.field` says of their rows."""
    path = pypaimon_tables[name]["path"]
    table = paimon_spark.load_table(path)
    for snapshot in table.snapshots():
        theirs = java.call("read", path=path, options={"scan.snapshot-id": str(snapshot.id)})
        ours = rows_of(table.at(f"snapshot.{snapshot.id}").scan().to_arrow())
        assert_same_rows(ours, theirs["rows"])
    plan = table.scan().plan()
    assert {f.delete_row_count for split in plan.splits for f in split.files} == {0}
    assert 0 < len(ours) < sum(f.row_count for split in plan.splits for f in split.files)


@pytest.mark.parametrize("name", [n for n in NAMES if n not in NOT_STREAMED])
def test_streams_give_what_javas_give(name: str, pypaimon_tables: dict[str, Any], java: JavaPaimon) -> None:
    path = pypaimon_tables[name]["path"]
    table = paimon_spark.load_table(path)
    earliest = str(min((s.id for s in table.snapshots()), default=1))
    for options in ({}, {"scan.mode": "from-snapshot", "scan.snapshot-id": earliest}):
        theirs = streams.JavaStream(path, options).follow(java)
        ours = streams.OurStream(path, options, random.Random(name)).follow()
        assert streams.disagreement(ours, theirs, table.schema.primary_keys) is None
