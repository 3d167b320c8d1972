"""Tables, reads and catalogs as notebooks show them: HTML out. Reads metadata, and says so where it cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from paimon_spark.display import facts, grid, paragraph, section, shown_or_said
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.jobs.opened_table import OpenedTable, scan_of, schema_scan
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.options.known import shown_options

if TYPE_CHECKING:
    from paimon_spark.jobs.scan import Scan


def table_html(table: OpenedTable) -> str:
    """What the table is: branch, version, head, columns, options."""

    def show() -> str:
        scan = scan_of(table)
        schema = schema_scan(table).schema
        asked = table.read_options
        version = asked.version[1] if asked.version is not None else asked.incremental and asked.incremental.text
        head = latest_snapshot(scan.handle)
        told = facts(
            {
                "location": table.handle.location,
                "branch": table.handle.branch,
                "version": version,
                "head": "no snapshot" if head is None else head.brief,
                "rows at the head": None if head is None or table.is_system else head.total_record_count,
                "comment": schema.comment or None,
            }
        )
        parts = [told, _columns(schema)]
        if not table.is_system and schema.options:
            parts.append(grid(("option", "value"), sorted(shown_options(schema.options).items())))
        kind = "system table" if table.is_system else "primary key table" if schema.primary_keys else "append table"
        return section(table.name, kind, *parts)

    return shown_or_said(table.name, show)


def scan_html(scan: Scan) -> str:
    """What the read will read, and what it skips; it is not planned by being shown, and so not pinned to the head."""

    def show() -> str:
        if scan.is_system:
            return section(
                f"Read of {scan.table_name}", "", facts({"where": scan.options.where}), _columns(scan.schema)
            )
        return replace(scan).plan()._repr_html_()

    return shown_or_said(f"Read of {scan.table_name}", show)


def catalog_html(warehouse: str, options: Mapping[str, str], databases: Callable[[], Sequence[str]]) -> str:
    """Where the warehouse is, and its databases."""

    def show() -> str:
        names = databases()
        listed = grid(("database",), [(name,) for name in names]) if names else paragraph("no database yet")
        shown = shown_options(options)
        return section("Catalog", warehouse, facts(shown) if shown else "", listed)

    return shown_or_said("Catalog", show)


def _columns(schema: TableSchema) -> str:
    rows = [
        (
            f.name,
            str(f.type),
            ", ".join(
                word
                for word, names in (("primary key", schema.primary_keys), ("partition", schema.partition_keys))
                if f.name in names
            ),
            f.default_value,
            f.description,
        )
        for f in schema.fields
    ]
    return grid(("column", "type", "key", "default", "comment"), rows)
