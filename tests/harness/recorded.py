"""A warehouse that records its lineage, and what it says then."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

import paimon_spark
from paimon_spark.api.catalog import Catalog
from paimon_spark.api.table import Table
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.lineage.index.provenance import Provenance, decode_provenance
from paimon_spark.lineage.index.table_index import TableIndex, open_index
from paimon_spark.lineage.index.tables import CATALOG_OPTIONS, TABLES, forget_settings
from paimon_spark.lineage.index.warehouse import find_warehouse_table


def recording_catalog(path: Path, tables: Iterable[str], schema: pa.Schema, data: bool = True) -> Catalog:
    """A new warehouse with tables in its database db."""
    catalog = paimon_spark.load_catalog(str(path))
    catalog.create_database("db")
    for name in tables:
        catalog.create_table(f"db.{name}", schema)
    switch(catalog, data=data)
    return catalog


def switch(catalog: Catalog, *, data: bool = True) -> None:
    """Record tables, and snapshots too."""
    index = index_of(catalog)
    index.create()
    index.upsert({CATALOG_OPTIONS.name: [("table-lineage", "true"), ("data-lineage", str(data).lower())]})
    forget_settings(index.warehouse)


def index_of(catalog: Catalog) -> TableIndex:
    """The lineage tables of a warehouse with a table db.a."""
    home = find_warehouse_table(catalog.table("db.a").handle)
    assert home is not None
    return open_index(home.warehouse)


def rows(catalog: Catalog, name: str) -> list[tuple[Any, ...]]:
    """The rows of a lineage table, sorted, without the database, which is always db."""
    table = index_of(catalog).read(TABLES[name])
    return sorted(tuple(v for k, v in row.items() if k != "database") for row in table.to_pylist())


def sources(catalog: Catalog) -> list[tuple[Any, ...]]:
    """Rows of `source_snapshot_lineage`: job, barrier, table, snapshot."""
    return rows(catalog, "source_snapshot_lineage")


def sinks(catalog: Catalog) -> list[tuple[Any, ...]]:
    """Rows of `sink_snapshot_lineage`: job, barrier, table, snapshot."""
    return rows(catalog, "sink_snapshot_lineage")


def head(table: Table) -> Snapshot:
    return table.snapshots()[-1]


def said(table: Table) -> Provenance:
    """What the head says of whence it came."""
    found = decode_provenance(head(table).properties)
    assert found is not None
    return found


def came_from(table: Table) -> dict[str, int | None]:
    """The sources that the head names, with the last snapshot read."""
    return {s.ref.name: s.last for s in said(table).sources if s.ref is not None}
