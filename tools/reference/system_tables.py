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
    "options": "Options that are stored.",
    "tags": "Tags, savepoints and guards of branches.",
    "branches": "Branches of the whole table.",
    "savepoints": "Savepoints.",
    "consumers": "Streaming readers that keep snapshots from expiring.",
    "files": "Data files of a snapshot, with statistics of their columns.",
    "manifests": "Manifests of a snapshot.",
    "partitions": "Partitions of a snapshot.",
    "buckets": "Buckets of a snapshot.",
    "statistics": "Statistics that ANALYZE kept with a snapshot.",
    "aggregation_fields": "How each column is aggregated.",
    "table_indexes": "Index files of a snapshot, deletion vectors among them.",
    "file_key_ranges": "Key ranges of the data files of a snapshot.",
}
"""A sentence on each listing."""

VIEWS: Final = {
    "audit_log": "The rows with their kind: a first column `rowkind`, `+I`, `-U`, `+U` or `-D`, then the table's.",
    "binlog": "The same, each column as an array: one value, or for an update the old and the new one.",
    "ro": "The table's columns; of a primary-key table only what is compacted fully, which needs no merge.",
    "row_tracking": "The table's columns, then `_ROW_ID` and `_SEQUENCE_NUMBER`; with `row-tracking.enabled` alone.",
}
"""A sentence on each view, whose columns are those of the table."""


def system_tables_page() -> str:
    """The page."""
    return page(
        "System tables",
        _INTRODUCTION,
        *(_listing(listing) for listing in LISTINGS.values()),
        "## Views\n\nOther looks at the table's own rows.",
        table(("name", "rows and columns"), ((code(f"${name}"), text) for name, text in VIEWS.items())),
    )


_INTRODUCTION: Final = """
`t$snapshots` is a table about the table `t`, and `t$branch_fix$snapshots` about its branch `fix`. They are read like
every table: in `catalog.sql` as `shop.orders$tags`, with or without quotes, by
`spark.read.format("paimon").load("…/orders$tags")`, and without Spark by `catalog.table("shop.orders$tags").scan()`.
Names, types and order of the columns are those of Paimon 2.0; a few columns follow them that the proposals name.
Tables that tell of one snapshot can be read at a version.
"""


def _listing(listing: Listing) -> str:
    columns = [
        (code(f.name), code(f.type.with_nullable(True)), "yes" if f.type.nullable else "no")
        for f in listing.row_type.fields
    ]
    version = " Can be read at a version." if listing.travels else ""
    parts = [f"## ${listing.name}", f"{ABOUT[listing.name]}{version}", table(("column", "type", "null"), columns)]
    return "\n\n".join(inspect.cleandoc(part) for part in parts)
