"""Tables of the public API, with files: one builder, and their rows as tuples.

table = a_table("k INT, v STRING", keys="k", options={"bucket": "1"}, rows=[(1, "a")], where=tmp_path)
put(table, (2, "b"), (3,))
assert read(table) == [(1, "a"), (2, "b"), (3, None)]
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pyarrow as pa

import paimon_spark
from paimon_spark import Catalog, Table, WriteResult
from paimon_spark.format.arrays.arrow_types import arrow_schema
from paimon_spark.metadata.definition.ddl import row_type
from paimon_spark.types import VALUE_KIND

Columns: TypeAlias = str | pa.Schema
"""DDL text such as `k BIGINT, v STRING`, or an Arrow schema."""
Names: TypeAlias = str | Sequence[str]
"""Names of columns, in a text with spaces between them."""


def a_catalog(where: Path | str | None = None, **options: Any) -> Catalog:
    """A catalog with the database `db`, in a directory or in memory."""
    catalog = paimon_spark.load_catalog(str(where or f"memory://{uuid.uuid4().hex}/wh"), **options)
    catalog.create_database("db", ignore_if_exists=True)
    return catalog


def a_table(
    columns: Columns = "k BIGINT, v STRING",
    *,
    keys: Names = (),
    by: Names = (),
    options: Mapping[str, Any] | None = None,
    rows: Iterable[Any] = (),
    where: Catalog | Path | str | None = None,
    name: str = "db.t",
) -> Table:
    """A new table; `rows` are its first snapshot.

    Args:
        columns: the columns.
        keys: primary keys.
        by: partition keys.
        options: table options.
        rows: as `put` takes them.
        where: a catalog, a directory that becomes a warehouse, or None for memory.
        name: with the database, which a warehouse has if it is `db`.
    """
    catalog = where if isinstance(where, Catalog) else a_catalog(where)
    table = catalog.create_table(
        name, columns, primary_keys=_names(keys), partition_keys=_names(by), options=options or {}
    )
    given = list(rows)
    if given:
        put(table, *given)
    return table


def rows(columns: Columns | Table, *values: Any) -> pa.Table:
    """Rows as an Arrow table, with the types of the columns.

    A row is a tuple, or the value of its first column. Columns that it leaves out are null. One value more than there
    are columns is the kind of the row, and then every row has one.
    """
    schema = _schema(columns)
    given = [row if isinstance(row, tuple) else (row,) for row in values]
    if any(len(row) > len(schema) for row in given):
        schema = schema.append(pa.field(VALUE_KIND, pa.int8()))
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=False)) for row in given], schema)


def put(table: Table, *values: Any, mode: Literal["append", "overwrite"] = "append", **options: Any) -> WriteResult:
    """Write rows, each as `rows` takes it, in one snapshot."""
    return table.write(rows(table, *values), mode=mode, **options)


def read(table: Table, column: str | None = None, *, where: str | None = None, **options: Any) -> list[Any]:
    """All rows as sorted tuples, or the sorted values of one column. Nulls come first."""
    found = table.scan([column] if column else None, where=where, **options).to_arrow()
    if column:
        return sorted(found[column].to_pylist(), key=_order)
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=_order)


def _schema(columns: Columns | Table) -> pa.Schema:
    match columns:
        case Table():
            return arrow_schema(columns.row_type)
        case str():
            return arrow_schema(row_type(columns))
    return columns


def _names(given: Names) -> list[str]:
    return given.split() if isinstance(given, str) else list(given)


def _order(value: Any) -> Any:
    """A key that orders nulls, and values of types that have no order."""
    if isinstance(value, tuple):
        return tuple(map(_order, value))
    return (0, "") if value is None else (2, repr(value)) if isinstance(value, dict | list) else (1, value)
