"""Metadata tables of Iceberg and its names of versions, and how they are read here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

METADATA_TABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "history": ("snapshots",),
    "metadata_log_entries": ("schemas",),
    "refs": ("branches", "tags"),
    "data_files": ("files",),
    "delete_files": ("files",),
    "position_deletes": ("files",),
    "entries": ("files",),
    "all_files": ("files",),
    "all_data_files": ("files",),
    "all_delete_files": ("files",),
    "all_entries": ("files",),
    "all_manifests": ("manifests",),
    "partition_statistics_files": ("statistics",),
}
"""Iceberg's metadata tables that have another name here; `snapshots`, `files` and `manifests` have the same."""

_SELECTORS: Final = (
    (re.compile(r"tag_(.+)", re.IGNORECASE), "VERSION AS OF '{}'"),
    (re.compile(r"snapshot_id_(\d+)", re.IGNORECASE), "VERSION AS OF {}"),
    (re.compile(r"at_timestamp_(\d+)", re.IGNORECASE), "TIMESTAMP AS OF timestamp_millis({})"),
)
"""How Iceberg names versions of a table, `db.t.tag_v1`, and the clauses of a query that read them."""


def instead_of_table(name: str, table: str) -> str | None:
    """The system tables, or the table with a clause, that are read in place of `name` of a table; None of others.

    `t$branches and t$tags` for Iceberg's `refs`, in any case, and `t VERSION AS OF 'v1'` for its version `tag_v1`.
    """
    ours = METADATA_TABLES.get(name.lower())
    if ours is not None:
        return " and ".join(f"{table}${each}" for each in ours)
    for pattern, clause in _SELECTORS:
        if found := pattern.fullmatch(name):
            version = found[1].replace("'", "\\'")
            return f"{table} {clause.format(version)}"
    return None


def documented_tables() -> list[tuple[str, str]]:
    """Metadata tables and what to read here, in Markdown."""
    return [(f"`t.{name}`", " and ".join(f"`t${each}`" for each in ours)) for name, ours in METADATA_TABLES.items()]
