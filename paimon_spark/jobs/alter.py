"""Table.alter: its arguments as schema changes; columns given as Arrow, Spark or DDL text as types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa

from paimon_spark.errors import InvalidInputError
from paimon_spark.jobs.branch_access import alter_exclusively
from paimon_spark.metadata.definition import ddl, from_arrow
from paimon_spark.metadata.definition.alter import alter_table
from paimon_spark.metadata.definition.schema_changes import (
    AddColumn,
    After,
    Before,
    DropColumn,
    First,
    Last,
    MoveColumn,
    Path,
    Position,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateComment,
    UpdateDefault,
    UpdateNullability,
    UpdateTableComment,
    UpdateType,
    parse_path,
)
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.options.location import quoted
from paimon_spark.spark_port import spark_jobs
from paimon_spark.types import DataField, DataType, RowType

_PLACES: Final[Mapping[str, Callable[[], Position]]] = {"first": First, "last": Last}
_BESIDE: Final[Mapping[str, Callable[[str], Position]]] = {"after": After, "before": Before}


def altered(handle: TableHandle, changes: Callable[[RowType], Sequence[SchemaChange]]) -> TableHandle:
    """The table after `changes`, computed from its current columns. Raises as `alter_table`."""

    def alter() -> None:
        fresh = open_table(handle.store, handle.layout.root, handle.branch, handle.name, handle.overrides)
        alter_table(fresh, lambda newest: changes(newest.row_type))

    alter_exclusively(handle, alter)
    return open_table(handle.store, handle.layout.root, handle.branch, handle.name, handle.overrides)


def schema_changes(
    columns: RowType,
    *,
    add: Mapping[str, Any],
    drop: Sequence[str],
    rename: Mapping[str, str],
    retype: Mapping[str, Any],
    set_options: Mapping[str, Any],
    unset_options: Sequence[str],
    nullable: Mapping[str, bool],
    comments: Mapping[str, str | None],
    defaults: Mapping[str, str | None],
    move: Mapping[str, str],
    comment: str | None,
) -> list[SchemaChange]:
    """The changes in order: options, then columns dropped, renamed, changed and added.

    Raises:
        InvalidInputError: a path, type or place cannot be read.
        UnsupportedFeatureError: a type that tables cannot have.
    """
    renamed = dict(rename)
    names = [renamed.get(n, n) for n in columns.names]

    def path(text: str) -> Path:
        return parse_path(text, names)

    changes: list[SchemaChange] = [RemoveOption(key) for key in _several(unset_options, "unset_options")]
    changes += [SetOption(key, _text(value)) for key, value in set_options.items()]
    changes += [DropColumn(parse_path(c, columns.names)) for c in _several(drop, "drop")]
    changes += [RenameColumn(parse_path(old, columns.names), new) for old, new in rename.items()]
    changes += [_retype(path(c), c, stated) for c, stated in retype.items()]
    changes += [UpdateNullability(path(c), wanted) for c, wanted in nullable.items()]
    changes += [_add(path(c), stated) for c, stated in add.items()]
    changes += [UpdateComment(path(c), text) for c, text in comments.items()]
    changes += [UpdateDefault(path(c), text) for c, text in defaults.items()]
    changes += [MoveColumn(path(c), _position(c, where)) for c, where in move.items()]
    if comment is not None:
        changes.append(UpdateTableComment(comment))
    return changes


def _add(path: Path, stated: Any) -> SchemaChange:
    field = column_of(path[-1], stated)
    return AddColumn(path, field.type, field.description, field.default_value)


def _retype(path: Path, column: str, stated: Any) -> SchemaChange:
    field = column_of(path[-1], stated)
    if field.description is not None or field.default_value is not None:
        raise InvalidInputError(f"retype {column}: {stated!r} is more than a type; use comments and defaults")
    return UpdateType(path, field.type, keep_nullability=field.type.nullable)


def _position(column: str, where: str) -> Position:
    word, _, other = where.strip().partition(" ")
    if not other and word.lower() in _PLACES:
        return _PLACES[word.lower()]()
    if other.strip() and word.lower() in _BESIDE:
        return _BESIDE[word.lower()](other.strip().strip("`"))
    raise InvalidInputError(
        f"column {column} cannot be moved to {where!r}; say first, last, after <column> or before <column>",
        column=column,
    )


def _several(names: Sequence[str], argument: str) -> Sequence[str]:
    if isinstance(names, str):
        raise InvalidInputError(f"{argument} = {names!r}: expected a list of names")
    return names


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


SchemaLike: TypeAlias = Any
"""pyarrow.Schema, pyspark StructType, DDL text or RowType."""
_SPARK: Final = "pyspark.sql.types"


def columns_of(schema: SchemaLike) -> RowType:
    """The columns of a schema given by users; field ids just count up.

    Raises:
        InvalidInputError: it is not a schema.
        UnsupportedFeatureError: a type that tables cannot have.
    """
    match schema:
        case RowType():
            return schema
        case str():
            return ddl.row_type(schema)
        case pa.Schema():
            return from_arrow.row_type(schema)
    if _is_spark(schema, "StructType"):
        return spark_jobs().row_type(schema)
    raise _unknown(schema, "the columns of a table", "a pyarrow.Schema, a StructType or DDL text")


def column_of(name: str, stated: Any) -> DataField:
    """The column `name` of a type given by users, which may have a comment and default. Raises as `columns_of`."""
    match stated:
        case DataType():
            return DataField(0, name, stated)
        case pa.DataType():
            return DataField(0, name, from_arrow.data_type(stated, name))
        case str():
            (field,) = _single(ddl.row_type(f"{quoted(name)} {stated}"), stated)
            return field
    if _is_spark(stated, ""):
        return spark_jobs().column(name, stated)
    raise _unknown(stated, f"the type of column {name}", "DDL text such as 'DECIMAL(10, 2)', or an Arrow or Spark type")


def _single(row: RowType, text: str) -> tuple[DataField]:
    if len(row) != 1:
        raise InvalidInputError(f"{text!r} is not the type of one column")
    return (row.fields[0],)


def _is_spark(value: Any, name: str) -> bool:
    kind = type(value)
    return kind.__module__ == _SPARK and kind.__name__.endswith(name or "Type")


def _unknown(value: Any, what: str, wanted: str) -> InvalidInputError:
    kind = type(value)
    return InvalidInputError(f"{what} is {wanted}; found {kind.__module__}.{kind.__qualname__}")
