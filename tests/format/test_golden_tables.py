"""Every version of every golden table reads, as Arrow, exactly as its producer's own reader reads it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import paimon_spark
from paimon_spark.errors import PaimonError
from tests.harness.golden import (
    BEYOND_NANOSECONDS,
    FIXTURES,
    PRODUCERS,
    GoldenRead,
    golden_path,
    golden_reads,
    readable_as_arrow,
)
from tests.harness.rows import rows_of

READS = golden_reads()


def scan_of(read: GoldenRead) -> Any:
    return paimon_spark.load_table(str(read.path), **read.options).scan(columns=read.columns)


@pytest.mark.parametrize("read", READS, ids=str)
def test_rows_are_those_of_the_producer(read: GoldenRead) -> None:
    read = readable_as_arrow(read)
    table = scan_of(read).to_arrow()
    read.check(rows_of(table, read.types))
    if read.columns is not None:
        assert tuple(table.column_names) == read.columns


@pytest.mark.parametrize("read", [r for r in READS if r.schema and r.columns is None], ids=str)
def test_fields_are_those_of_the_producer(read: GoldenRead) -> None:
    fields = [(f.id, f.name, str(f.type).replace("`", "")) for f in scan_of(read).row_type.fields]
    assert fields == [(i, name, kind.replace("`", "")) for i, name, kind in read.schema or ()]


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("read", [r for r in READS if r.table in BEYOND_NANOSECONDS and r.rows], ids=str)
def test_a_value_that_arrow_cannot_hold_is_right_or_refused(read: GoldenRead, number: int) -> None:
    column = BEYOND_NANOSECONDS[read.table][number]
    read = read.project((next(iter(read.rows[0])), column))
    refusal = None
    try:
        table = scan_of(read).to_arrow()
    except PaimonError as error:
        refusal = str(error)
    if refusal is None:
        read.check(rows_of(table, read.types))
    else:
        assert f"column {column} may hold timestamps outside 1677-09-21" in refusal


@pytest.mark.parametrize("table", ["branches", "append_partitioned_escaped", "py_tags_branches"])
def test_a_table_may_be_moved(table: str, tmp_path: Path) -> None:
    home = tmp_path / "another place" / "t"
    shutil.copytree(golden_path(table), home)
    read = next(r for r in READS if r.table == table and r.label == "latest")
    read.check(rows_of(paimon_spark.load_table(str(home)).scan().to_arrow(), read.types))


def test_every_golden_table_is_read_and_catalogued() -> None:
    folders = {p.parent.name for producer in PRODUCERS for p in (FIXTURES / producer).glob("*/table")}
    assert {read.table for read in READS} == folders
    catalog = (Path(__file__).parent / "CATALOG.md").read_text(encoding="utf-8")
    assert [name for name in sorted(folders) if f"| `{name}` |" not in catalog] == []


def test_every_version_on_disk_is_among_the_reads() -> None:
    for table in sorted({read.table for read in READS}):
        home = golden_path(table)
        labels = {read.label for read in READS if read.table == table}
        for snapshot in home.glob("snapshot/snapshot-*"):
            assert f"snapshot={json.loads(snapshot.read_text())['id']}" in labels
        for branch in home.glob("branch/branch-*"):
            assert f"branch={branch.name.removeprefix('branch-')}" in labels
