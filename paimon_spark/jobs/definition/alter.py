"""Table.alter: schema changes from its arguments; types from Arrow, Spark or DDL text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa

from paimon_spark.errors import InvalidInputError
from paimon_spark.jobs.branch_access import alter_exclusively, on_session_branch, refuse_system_table
from paimon_spark.jobs.opened_table import OpenedTable, as_text
from paimon_spark.maintenance.change import reopened
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
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.spark_port import spark_jobs
from paimon_spark.types import DataField, DataType, RowType, quoted


def altered(handle: TableHandle, changes: Callable[[RowType], Sequence[SchemaChange]]) -> TableHandle:
    """The table after `changes`, computed from its current columns. Raises as `alter_table`."""

    def alter() -> None:
        alter_table(reopened(handle), lambda newest: changes(newest.row_type))

    alter_exclusively(handle, alter)
    return reopened(handle)


def alter(table: OpenedTable, asked: Alteration) -> TableHandle:
    """As `Table.alter`; the changed branch."""
    refuse_system_table(table)
    return altered(on_session_branch(table).handle, asked.changes)


@dataclass(frozen=True, slots=True)
class Alteration:
    """The arguments of `Table.alter`, where they are documented."""

    add: Mapping[str, Any]
    drop: Sequence[str]
    rename: Mapping[str, str]
    retype: Mapping[str, Any]
    set_options: Mapping[str, str | float | bool]
    unset_options: Sequence[str]
    nullable: Mapping[str, bool]
    comments: Mapping[str, str | None]
    defaults: Mapping[str, str | None]
    move: Mapping[str, str]
    comment: str | None

    def changes(self, columns: RowType) -> list[SchemaChange]:
        """The changes in order: options, then columns dropped, renamed, changed and added.

        Raises:
            InvalidInputError: a path, type or position cannot be read.
            UnsupportedFeatureError: a type that tables cannot have.
        """
        names = [self.rename.get(n, n) for n in columns.names]

        def path(text: str) -> Path:
            return parse_path(text, names)

        changes: list[SchemaChange] = [RemoveOption(key) for key in _checked_names(self.unset_options, "unset_options")]
        changes += [SetOption(key, value) for key, value in as_text(self.set_options).items()]
        changes += [DropColumn(parse_path(c, columns.names)) for c in _checked_names(self.drop, "drop")]
        changes += [RenameColumn(parse_path(old, columns.names), new) for old, new in self.rename.items()]
        changes += [_retype(path(c), c, stated) for c, stated in self.retype.items()]
        changes += [UpdateNullability(path(c), wanted) for c, wanted in self.nullable.items()]
        changes += [_add(path(c), stated) for c, stated in self.add.items()]
        changes += [UpdateComment(path(c), text) for c, text in self.comments.items()]
        changes += [UpdateDefault(path(c), text) for c, text in self.defaults.items()]
        changes += [MoveColumn(path(c), _position(c, where)) for c, where in self.move.items()]
        return changes if self.comment is None else [*changes, UpdateTableComment(self.comment)]


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
    beside = other.strip().strip("`")
    match word.lower(), bool(other.strip()):
        case "first", False:
            return First()
        case "last", False:
            return Last()
        case "after", True:
            return After(beside)
        case "before", True:
            return Before(beside)
    raise InvalidInputError(
        f"column {column} cannot be moved to {where!r}; say first, last, after <column> or before <column>",
        column=column,
    )


def _checked_names(names: Sequence[str], argument: str) -> Sequence[str]:
    if isinstance(names, str):
        raise InvalidInputError(f"{argument} = {names!r}: expected a list of names")
    return names


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
            row = ddl.row_type(f"{quoted(name)} {stated}")
            if len(row) != 1:
                raise InvalidInputError(f"{stated!r} is not the type of one column")
            return row.fields[0]
    if _is_spark(stated, ""):
        return spark_jobs().column(name, stated)
    raise _unknown(stated, f"the type of column {name}", "DDL text such as 'DECIMAL(10, 2)', or an Arrow or Spark type")


def _is_spark(value: Any, name: str) -> bool:
    kind = type(value)
    return kind.__module__ == _SPARK and kind.__name__.endswith(name or "Type")


def _unknown(value: Any, what: str, wanted: str) -> InvalidInputError:
    kind = type(value)
    return InvalidInputError(f"{what} is {wanted}; found {kind.__module__}.{kind.__qualname__}")
