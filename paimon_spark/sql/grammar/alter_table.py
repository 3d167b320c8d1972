"""Grammar of ALTER TABLE, COMMENT ON, DROP TABLE and MSCK REPAIR TABLE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.metadata.definition.ddl import data_type, default_text
from paimon_spark.metadata.definition.schema_changes import (
    AddColumn,
    DropColumn,
    MoveColumn,
    Path,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateComment,
    UpdateDefault,
    UpdateNullability,
    UpdateTableComment,
    UpdateType,
)
from paimon_spark.metadata.definition.schema_changes import shown as path_text
from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.grammar.clauses import (
    ColumnClause,
    PartitionSpec,
    column_clause,
    column_path,
    column_position,
    constraint_advice,
    partition_spec,
    partition_specs,
    properties,
    property_key,
    unsupported,
    valid_or_invalid,
)
from paimon_spark.sql.grammar.foreign import refuse_alteration
from paimon_spark.sql.grammar.tags_and_branches import read_alter_refs
from paimon_spark.sql.statement import Name, Statement, TableStatement

_COMMENT: Final = "comment"
_ACTIONS: Final = ("TYPE", "COMMENT", "FIRST", "AFTER", "SET", "DROP")
_UNSUPPORTED: Final = (
    (("LOCATION",), "SET LOCATION", "a table stays in its place; copy its rows to a new one"),
    *(
        ((word,), f"SET {word}", "the format is a property, SET TBLPROPERTIES ('file.format' = '…')")
        for word in ("SERDE", "SERDEPROPERTIES", "FILEFORMAT")
    ),
    (("RECOVER", "PARTITIONS"), "RECOVER PARTITIONS", "partitions are known by their rows, and need no recovery"),
    (("CLUSTER", "BY"), "CLUSTER BY", "it is a property, SET TBLPROPERTIES ('clustering.columns' = 'column,…')"),
    (("PARTITION",), "renaming or moving partitions", "write the rows again and drop the old partition"),
)
"""Clauses of Spark and Hive behind the verb: keywords, name, and what to do instead."""


@dataclass(frozen=True, slots=True)
class AlterTable(TableStatement):
    """ALTER TABLE of columns and properties; the names of columns are as written.

    With `if_exists`, missing columns to drop are not an error.
    """

    changes: tuple[SchemaChange, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class CommentOnColumn(Statement):
    """COMMENT ON COLUMN; `name` is that of the table and the column, and a comment of None removes it."""

    name: Name
    comment: str | None


@dataclass(frozen=True, slots=True)
class RenameTable(TableStatement):
    """ALTER TABLE … RENAME TO."""

    new: Name


@dataclass(frozen=True, slots=True)
class AddPartitions(TableStatement):
    """ALTER TABLE … ADD PARTITION."""

    specs: tuple[PartitionSpec, ...]


@dataclass(frozen=True, slots=True)
class DropPartitions(TableStatement):
    """ALTER TABLE … DROP PARTITION."""

    specs: tuple[PartitionSpec, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropTable(TableStatement):
    """DROP TABLE."""

    if_exists: bool = False


def read_alter(cursor: Cursor) -> Statement:
    """Read ALTER TABLE, also of tags and branches. Raises SqlSyntaxError: no name of a table follows."""
    name = cursor.name()
    return read_alter_refs(cursor, name) or valid_or_invalid(cursor, name, lambda: _alteration(cursor, name))


def read_comment(cursor: Cursor) -> Statement | None:
    """Read COMMENT ON TABLE or COLUMN; None for the comment of a database. Raises SqlSyntaxError."""
    what = cursor.take_one("TABLE", "COLUMN")
    if what is None:
        return None
    name = cursor.name("the name of a column" if what == "COLUMN" else "the name of a table")
    cursor.expect("IS")
    comment = None if cursor.take("NULL") else cursor.text("text in quotes, or NULL")
    if what == "COLUMN":
        return CommentOnColumn(cursor.sql, name, comment)
    return AlterTable(cursor.sql, name, (UpdateTableComment(comment),))


def read_drop_table(cursor: Cursor) -> Statement:
    """Read DROP TABLE. Raises SqlSyntaxError."""
    if_exists = cursor.take("IF", "EXISTS")
    name = cursor.name()

    def rest() -> Statement:
        cursor.take("PURGE")
        return DropTable(cursor.sql, name, if_exists)

    return valid_or_invalid(cursor, name, rest)


def read_repair(cursor: Cursor) -> Statement:
    """Read [MSCK] REPAIR TABLE, which is not supported. Raises SqlSyntaxError: no name of a table follows."""
    name = cursor.name()
    instead = "partitions are known by their rows, and need no repair"
    return valid_or_invalid(cursor, name, lambda: unsupported(cursor, "MSCK REPAIR TABLE", instead))


def _alteration(cursor: Cursor, name: Name) -> Statement:
    refuse_alteration(cursor, name)
    match cursor.take_one("SET", "UNSET", "RENAME", "ADD", "DROP", "ALTER", "CHANGE", "REPLACE"):
        case "SET" if cursor.take("TBLPROPERTIES"):
            return AlterTable(cursor.sql, name, tuple(_set_property(k, v) for k, v in properties(cursor).items()))
        case "UNSET":
            cursor.expect("TBLPROPERTIES")
            cursor.take("IF", "EXISTS")
            keys = cursor.parenthesised_list(lambda: property_key(cursor))
            return AlterTable(cursor.sql, name, tuple(_set_property(key, None) for key in keys))
        case "RENAME":
            return _rename(cursor, name)
        case "ADD":
            return _add(cursor, name)
        case "DROP":
            return _drop(cursor, name)
        case "ALTER":
            cursor.take_one("COLUMNS", "COLUMN")
            changes = cursor.listed(lambda: _change_column(cursor))
            return AlterTable(cursor.sql, name, tuple(c for found in changes for c in found))
        case "CHANGE":
            cursor.take("COLUMN")
            return AlterTable(cursor.sql, name, tuple(_change_column(cursor, hive=True)))
        case "REPLACE" if cursor.take("COLUMNS"):
            unsupported(cursor, "REPLACE COLUMNS", "use ADD, DROP, RENAME or ALTER for each column")
    for keywords, what, instead in _UNSUPPORTED:
        if cursor.at(*keywords):
            unsupported(cursor, what, instead)
    return cursor.fail("SET, UNSET, RENAME, ADD, DROP or ALTER, and what of the table")


def _set_property(key: str, value: str | None) -> SchemaChange:
    """Set a property; a value of None removes it."""
    if key == _COMMENT:
        return UpdateTableComment(value)
    return RemoveOption(key) if value is None else SetOption(key, value)


def _rename(cursor: Cursor, name: Name) -> Statement:
    if cursor.take("COLUMN"):
        old = column_path(cursor)
        cursor.expect("TO")
        new = column_path(cursor)
        if len(new) > 1:
            cursor.index -= 2
            cursor.fail("one name: a column stays where it is")
        return AlterTable(cursor.sql, name, (RenameColumn(old, new[0]),))
    cursor.expect("TO")
    return RenameTable(cursor.sql, name, cursor.name())


def _add(cursor: Cursor, name: Name) -> Statement:
    if cursor.take_one("COLUMNS", "COLUMN") is not None:
        in_brackets = cursor.take("(")
        found = cursor.listed(lambda: column_clause(cursor))
        if in_brackets:
            cursor.expect(")")
        return AlterTable(cursor.sql, name, tuple(_added_column(c) for c in found))
    cursor.take("IF", "NOT", "EXISTS")
    if cursor.at("PARTITION"):
        specs = [partition_spec(cursor)]
        while True:
            if cursor.at("LOCATION"):
                unsupported(cursor, "partitions with a LOCATION", "the files of a table are in its own directory")
            if not (cursor.take(",") or cursor.at("PARTITION")):
                return AddPartitions(cursor.sql, name, tuple(specs))
            specs.append(partition_spec(cursor))
    if cursor.take("CONSTRAINT"):
        cursor.identifier("the name of a constraint")
    kind = cursor.take_one("PRIMARY", "CHECK", "FOREIGN", "UNIQUE")
    if kind in ("CHECK", "FOREIGN"):
        unsupported(cursor, *constraint_advice(kind))
    if kind is not None:
        unsupported(cursor, "adding constraints", "a primary key is a property of a new table, 'primary-key'")
    return cursor.fail("COLUMN, COLUMNS or PARTITION")


def _added_column(clause: ColumnClause) -> SchemaChange:
    field = clause.field
    if field.default_value is not None:
        name = path_text(clause.path)
        raise UnsupportedFeatureError(
            f"column {name} cannot be added with a DEFAULT, as existing rows would show null instead; add it without "
            f"one, then set it for new rows: ALTER COLUMN {name} SET DEFAULT …",
            feature="ADD COLUMN with DEFAULT",
            column=name,
        )
    return AddColumn(clause.path, field.type, field.description, None, clause.position)


def _drop(cursor: Cursor, name: Name) -> Statement:
    if cursor.take_one("COLUMNS", "COLUMN") is not None:
        if_exists = cursor.take("IF", "EXISTS")
        in_brackets = cursor.take("(")
        found = cursor.listed(lambda: DropColumn(column_path(cursor)))
        if in_brackets:
            cursor.expect(")")
        return AlterTable(cursor.sql, name, tuple(found), if_exists)
    if cursor.at("PRIMARY") or cursor.at("CONSTRAINT"):
        unsupported(cursor, "dropping keys and constraints", "create a new table and copy the rows")
    if_exists = cursor.take("IF", "EXISTS")
    if not cursor.at("PARTITION"):
        cursor.fail("COLUMN, COLUMNS, PARTITION, TAG or BRANCH")
    specs = partition_specs(cursor)
    cursor.take("PURGE")
    return DropPartitions(cursor.sql, name, specs, if_exists)


def _change_column(cursor: Cursor, *, hive: bool = False) -> list[SchemaChange]:
    """Read `path TYPE … COMMENT …`, or Hive's `old new TYPE …` with the same name twice."""
    path = column_path(cursor)
    found: list[SchemaChange] = []
    if hive and cursor.token is not None and cursor.token.keyword not in _ACTIONS:
        found += _change_column_as_hive(cursor, path)
    while (action := cursor.take_one(*_ACTIONS)) is not None:
        found.append(_column_action(cursor, path, action))
    if not found:
        cursor.fail("TYPE, COMMENT, FIRST, AFTER, SET or DROP NOT NULL, SET or DROP DEFAULT")
    return found


def _change_column_as_hive(cursor: Cursor, path: Path) -> list[SchemaChange]:
    clause = column_clause(cursor)
    if clause.path[-1].lower() != path[-1].lower():
        instead = f"use RENAME COLUMN {path_text(path)} TO {clause.path[-1]}"
        unsupported(cursor, "CHANGE COLUMN to another name", instead)
    field = clause.field
    found: list[SchemaChange] = [UpdateType(path, field.type, keep_nullability=True)]
    if not field.type.nullable:
        found.append(UpdateNullability(path, False))
    if field.description is not None:
        found.append(UpdateComment(path, field.description))
    if field.default_value is not None:
        found.append(UpdateDefault(path, field.default_value))
    if clause.position is not None:
        found.append(MoveColumn(path, clause.position))
    return found


def _column_action(cursor: Cursor, path: Path, action: str) -> SchemaChange:
    match action:
        case "TYPE":
            text = cursor.until(",", *_ACTIONS, of_types=True) or cursor.fail("a type")
            return UpdateType(path, data_type(text), keep_nullability=True)
        case "COMMENT":
            return UpdateComment(path, cursor.text())
        case "SET" if cursor.take("DEFAULT"):
            text = cursor.until(",", of_types=True) or cursor.fail("a value")
            return UpdateDefault(path, default_text(text, path_text(path)))
        case "DROP" if cursor.take("DEFAULT"):
            return UpdateDefault(path, None)
        case "SET" | "DROP":
            cursor.expect("NOT", "NULL")
            return UpdateNullability(path, action == "DROP")
    cursor.index -= 1
    position = column_position(cursor)
    assert position is not None
    return MoveColumn(path, position)
