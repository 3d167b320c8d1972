"""We write the rows of pypaimon's tables to tables of ours; pypaimon reads them, goes on writing, and we read that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import paimon_spark
from paimon_spark.metadata.definition.create import create_table
from paimon_spark.storage.urls import open_store
from tests.harness.rows import difference, rows_of
from tests.interop.comparing import disagreement
from tests.interop.conftest import pypaimon
from tests.interop.pypaimon_writer import SCENARIOS

pytestmark = pytest.mark.interop

NAMES = [scenario.__name__ for scenario in SCENARIOS]


@pytest.fixture(scope="session")
def visited(pypaimon_tables: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Name -> path of our table, its rows as we read them before, and pypaimon's {"before", "after"}."""
    warehouse = tmp_path_factory.mktemp("ours")
    ours = {name: _copied(pypaimon_tables[name]["path"], warehouse / "db.db" / name) for name in NAMES}
    replies = pypaimon("pypaimon_guest", str(warehouse), *NAMES)
    return {name: {"path": str(warehouse / "db.db" / name), "rows": ours[name], **replies[name]} for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_pypaimon_reads_our_table(name: str, visited: dict[str, Any]) -> None:
    table = visited[name]
    assert "error" not in table["before"], table["before"]["error"]
    found = difference(table["rows"], table["before"]["rows"])
    assert found is None, f"{table['path']}: {found}"


@pytest.mark.parametrize("name", NAMES)
def test_we_read_what_pypaimon_wrote_to_our_table(name: str, visited: dict[str, Any]) -> None:
    table = visited[name]
    assert "error" not in table["after"], table["after"]["error"]
    found = disagreement(table["path"], table["after"], options={})
    assert found is None, f"{table['path']}: {found}"


def _copied(source: str, target: Path) -> list[dict[str, Any]]:
    """Our own table of the definition and rows of another, written in two commits; its rows, canonical."""
    original = paimon_spark.load_table(source)
    schema, rows = original.schema, original.scan().to_arrow()
    if "orc" in schema.options.get("file.format", ""):
        rows = _since_1970(rows)
    store, root = open_store(str(target))
    create_table(store, root, schema.row_type, schema.primary_keys, schema.partition_keys, schema.options)
    for part in (rows.slice(0, rows.num_rows // 2), rows.slice(rows.num_rows // 2)):
        paimon_spark.load_table(str(target)).write(part)
    written: pa.Table = paimon_spark.load_table(str(target)).scan().to_arrow()
    found = difference(rows_of(rows), rows_of(written))
    assert found is None, f"{target}: {found}"
    return rows_of(written)


def _since_1970(rows: pa.Table) -> pa.Table:
    """Without rows of older timestamps, whose fractions of seconds this package refuses to write to ORC."""
    kept = pa.chunked_array([pa.array([True] * rows.num_rows)])
    for column in rows.columns:
        if pa.types.is_timestamp(column.type):
            recent = pc.greater_equal(column.cast(pa.int64()), 0)
            kept = pc.and_(kept, pc.fill_null(recent, True))
    return rows.filter(kept)
