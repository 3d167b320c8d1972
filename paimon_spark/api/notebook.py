"""HTML of tables and catalogs for notebooks, or of the error that prevents it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from paimon_spark.display import facts, grid, html_or_error, paragraph, section
from paimon_spark.jobs.opened_table import OpenedTable
from paimon_spark.jobs.read.schema_display import columns_html
from paimon_spark.jobs.read.table_scan import scan_of, schema_scan
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.redaction import shown_options


def table_html(table: OpenedTable) -> str:
    """HTML of a table: branch, version, head, columns, options."""

    def show() -> str:
        scan = scan_of(table)
        schema = schema_scan(table).schema
        head = latest_snapshot(scan.handle)
        known = facts(
            {
                "location": table.handle.location,
                "branch": table.handle.branch,
                "version": table.read_options.version_text,
                "head": "no snapshot" if head is None else str(head),
                "rows at the head": None if head is None or table.is_system else head.total_record_count,
                "comment": schema.comment or None,
            }
        )
        parts = [known, columns_html(schema)]
        if not table.is_system and schema.options:
            parts.append(grid(("option", "value"), sorted(shown_options(schema.options).items())))
        kind = "system table" if table.is_system else "primary key table" if schema.primary_keys else "append table"
        return section(table.name, kind, *parts)

    return html_or_error(table.name, show)


def catalog_html(warehouse: str, options: Mapping[str, str], databases: Callable[[], Sequence[str]]) -> str:
    """HTML of a catalog: its warehouse, options and databases."""

    def show() -> str:
        names = databases()
        listed = grid(("database",), [(name,) for name in names]) if names else paragraph("no database yet")
        shown = shown_options(options)
        return section("Catalog", warehouse, facts(shown) if shown else "", listed)

    return html_or_error("Catalog", show)
