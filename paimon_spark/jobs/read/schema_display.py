"""The columns of a table for notebooks."""

from __future__ import annotations

from paimon_spark.display import grid
from paimon_spark.format.metadata_files.table_schema import TableSchema


def columns_html(schema: TableSchema) -> str:
    """The columns of a schema as a table."""
    keys = (("primary key", schema.primary_keys), ("partition", schema.partition_keys))
    rows = [
        (
            f.name,
            str(f.type),
            ", ".join(word for word, names in keys if f.name in names),
            f.default_value,
            f.description,
        )
        for f in schema.fields
    ]
    return grid(("column", "type", "key", "default", "comment"), rows)
