"""Names of tables that Spark hands to an attached catalog."""

from __future__ import annotations

from typing import Any

from paimon_spark.options.location import TableName
from paimon_spark.sql.names import name_of


def table_name(ident: Any) -> TableName:
    """The table that Spark's `Identifier` means: `db.t`, `db.t$branch_b`, or `db.t.branch_b` as Iceberg writes it.

    Raises InvalidOptionError: what follows `$` is neither a branch nor a system table.
    """
    return name_of((*ident.namespace(), ident.name()))
