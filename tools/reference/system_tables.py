"""The columns of system tables → docs/reference/system-tables.md."""

from __future__ import annotations

import inspect
from typing import Final

from paimon_spark.system_tables.listing import Listing
from paimon_spark.system_tables.registry import LISTINGS
from tools.reference.text import code, page, table

ABOUT: Final = {
    "snapshots": "Snapshots of the branch.",
    "schemas": "Every schema that the branch has had.",
    "options": "Options that are stored with the table.",
    "tags": "Tags, savepoints, and guard tags of branches.",
    "branches": "Branches of the table.",
    "savepoints": "Savepoints.",
    "consumers": "Consumers: streaming readers whose progress prevents the expiry of snapshots.",
    "files": "Data files of a snapshot, with statistics of their columns.",
    "manifests": "Manifests of a snapshot.",
    "partitions": "Partitions of a snapshot.",
    "buckets": "Buckets of a snapshot.",
    "statistics": "Statistics that ANALYZE stored with a snapshot.",
    "aggregation_fields": "How each column is aggregated.",
    "table_indexes": "Index files of a snapshot, including deletion vectors.",
    "file_key_ranges": "Key ranges of the data files of a snapshot.",
}
"""A sentence on each listing."""

VIEWS: Final = {
    "audit_log": "A first column `rowkind` with `+I`, `-U`, `+U` or `-D`, then the columns of the table.",
    "binlog": "The same, with each column as an array: one value, or the old and the new value of an update.",
    "ro": "The columns of the table; of a primary-key table only fully compacted rows, which need no merge.",
    "row_tracking": "The columns of the table, then `_ROW_ID` and `_SEQUENCE_NUMBER`; requires `row-tracking.enabled`.",
}
"""A sentence on each view, whose columns are those of the table."""


def system_tables_page() -> str:
    """The page."""
    return page(
        "System tables",
        _INTRODUCTION,
        *(_listing(listing) for listing in LISTINGS.values()),
        "## Views\n\nThe rows of the table in other forms.",
        table(("name", "rows and columns"), ((code(f"${name}"), text) for name, text in VIEWS.items())),
    )


_INTRODUCTION: Final = """
`t$snapshots` describes the table `t`, and `t$branch_fix$snapshots` its branch `fix`. Read system tables like other
tables: in `catalog.sql` as `shop.orders$tags`, with or without backquotes, with
`spark.read.format("paimon").load("…/orders$tags")`, or without Spark with `catalog.table("shop.orders$tags").scan()`.
Columns have the names, types and order of Paimon 2.0; the columns of the proposals follow them. System tables about one
snapshot can be read at a version.
"""


def _listing(listing: Listing) -> str:
    columns = [
        (code(f.name), code(f.type.with_nullable(True)), "yes" if f.type.nullable else "no")
        for f in listing.row_type.fields
    ]
    version = " Can be read at a version." if listing.travels else ""
    parts = [f"## ${listing.name}", f"{ABOUT[listing.name]}{version}", table(("column", "type", "nullable"), columns)]
    return "\n\n".join(inspect.cleandoc(part) for part in parts)
