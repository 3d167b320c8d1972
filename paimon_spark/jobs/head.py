"""What verbs are called on: a branch at its head. A table opened at a version, and a system table, are only read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.errors import InvalidInputError
from paimon_spark.metadata.handle import TableHandle, open_table

if TYPE_CHECKING:
    from paimon_spark.api.table import Table


def at_head(table: Table) -> TableHandle:
    """The branch that a table is opened on. Raises as `refuse_version`."""
    refuse_version(table)
    return table.handle


def opened_anew(table: Table) -> TableHandle:
    """The branch that a table is opened on, as it is defined now. Raises as `refuse_version` and `open_table`."""
    handle = at_head(table)
    return open_table(handle.store, handle.layout.root, handle.branch, handle.name, handle.overrides)


def refuse_version(table: Table) -> None:
    """Refuse a table opened at a version, and a system table. Raises InvalidInputError."""
    if table.is_system:
        raise InvalidInputError(
            f"{table.name} is a system table, which is only read; open table {table.handle.name} itself",
            table=table.handle.name,
        )
    asked = table.read_options
    if asked.version is not None or asked.incremental is not None:
        version = asked.version[1] if asked.version is not None else asked.incremental and asked.incremental.text
        raise InvalidInputError(
            f"{table.handle.describe()} was opened at version {version!r}, which never changes and is only read; open "
            "it without a version, or open a branch that was made from it",
            table=table.name,
            version=version,
        )
