"""Tags, branches and expiry on tables of older writers: what is kept reads as before, and nothing else changes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import paimon_spark
from paimon_spark.api.table import Table
from tests.harness.golden import BEYOND_NANOSECONDS, golden_reads
from tests.harness.table_files import missing_files

# Heads of this one show the other branch's head, and old versions its old one: tests/unit/engine/scan/test_fallback.py.
NOT_ALONE = ("fallback_branch",)
PATHS = sorted({r.path for r in golden_reads() if r.table not in (*BEYOND_NANOSECONDS, *NOT_ALONE)})


def rows(table: Table) -> list[str]:
    return sorted(map(str, table.scan().to_arrow().to_pylist()))


def every_kept_version(table: Table) -> dict[str, list[str]]:
    """Rows of every head and tag, by branch."""
    found = {}
    for name in ("main", *(b.name for b in table.branches(include_internal=True))):
        branch = table.branch(name)
        found[name] = rows(branch)
        found.update(
            {
                f"{name}.{tag.name}": rows(branch.at(f"tag-name.{tag.name}"))
                for tag in branch.tags(include_internal=True)
            }
        )
    return found


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.parent.name)
def test_what_is_kept_reads_as_before(path: Path, tmp_path: Path) -> None:
    shutil.copytree(path, tmp_path / "t")
    table = paimon_spark.load_table(str(tmp_path / "t"))
    if not table.snapshots():
        pytest.skip("it has no snapshot")
    unguarded = missing_files(table.handle)
    before = every_kept_version(table)
    first = table.snapshots()[0].id
    oldest = rows(table.at(first))
    table.create_tag("mine", snapshot_id=first)
    table.create_branch("ours", tag="mine")
    table.expire_snapshots(1, retain_min=1)
    assert len(table.snapshots()) == 1 or table.consumers()
    assert rows(table.at("mine")) == rows(table.branch("ours")) == oldest
    table.delete_tag("mine")
    assert rows(table.branch("ours")) == oldest
    table.delete_branch("ours")
    assert every_kept_version(table) == before
    assert missing_files(table.handle) == unguarded
