"""ALTER TABLE of columns, properties, names and partitions: text → statement."""

from __future__ import annotations

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
from paimon_spark.metadata.definition.schema_changes import shown as shown_path
from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.statement import Statement
from paimon_spark.sql.tables.grammar_parts import (
    WrittenColumn,
    column,
    columns,
    guarded,
    partition,
    partitions,
    path,
    piece,
    position,
    properties,
    property_key,
    unsupported,
)
from paimon_spark.sql.tables.statements import AddPartitions, AlterTable, DropPartitions, Name, RenameTable

_REFS: Final = ("CREATE", "REPLACE", "DELETE", "DROP", "RENAME")
_COMMENT: Final = "comment"
_ACTIONS: Final = ("TYPE", "COMMENT", "FIRST", "AFTER", "SET", "DROP")


def read_alter(cursor: Cursor) -> Statement | None:
    """ALTER TABLE; None when it is of a tag or a branch. Raises SqlSyntaxError: no name of a table follows."""
    cursor.expect("ALTER", "TABLE")
    name = cursor.name()
    if _is_of_refs(cursor):
        return None
    return guarded(cursor, name, lambda: _action(cursor, name))


def _is_of_refs(cursor: Cursor) -> bool:
    begin = cursor.index
    found = cursor.take_one("FAST", "MERGE") is not None
    if not found and cursor.take_one(*_REFS) is not None:
        cursor.take("OR", "REPLACE")
        found = cursor.at("TAG") or cursor.at("BRANCH")
    cursor.index = begin
    return found


def _action(cursor: Cursor, name: Name) -> Statement:
    match cursor.take_one("SET", "UNSET", "RENAME", "ADD", "DROP", "ALTER", "CHANGE", "REPLACE"):
        case "SET" if cursor.take("TBLPROPERTIES"):
            return AlterTable(cursor.sql, name, tuple(_set(k, v) for k, v in properties(cursor).items()))
        case "UNSET":
            cursor.expect("TBLPROPERTIES")
            return AlterTable(cursor.sql, name, _unset(cursor))
        case "RENAME":
            return _renamed(cursor, name)
        case "ADD":
            return _added(cursor, name)
        case "DROP":
            return _dropped(cursor, name)
        case "ALTER":
            cursor.take_one("COLUMNS", "COLUMN")
            changes = _changed(cursor)
            while cursor.take(","):
                changes += _changed(cursor)
            return AlterTable(cursor.sql, name, tuple(changes))
        case "CHANGE":
            cursor.take("COLUMN")
            return AlterTable(cursor.sql, name, tuple(_changed(cursor, hive=True)))
        case "REPLACE" if cursor.take("COLUMNS"):
            unsupported(cursor, "REPLACE COLUMNS", "say which columns to ADD, DROP, RENAME or ALTER")
    _refuse(cursor)
    return cursor.fail("SET, UNSET, RENAME, ADD, DROP or ALTER, and what of the table")


def _set(key: str, value: str) -> SchemaChange:
    return UpdateTableComment(value) if key == _COMMENT else SetOption(key, value)


def _unset(cursor: Cursor) -> tuple[SchemaChange, ...]:
    cursor.take("IF", "EXISTS")
    cursor.expect("(")
    found: list[SchemaChange] = []
    while True:
        key = property_key(cursor)
        found.append(UpdateTableComment(None) if key == _COMMENT else RemoveOption(key))
        if cursor.take(")"):
            return tuple(found)
        if not cursor.take(","):
            cursor.fail("',' or ')'")


def _renamed(cursor: Cursor, name: Name) -> Statement:
    if cursor.take("COLUMN"):
        old = path(cursor)
        cursor.expect("TO")
        new = path(cursor)
        if len(new) > 1:
            cursor.index -= 2
            cursor.fail("one name: a column stays where it is")
        return AlterTable(cursor.sql, name, (RenameColumn(old, new[0]),))
    cursor.expect("TO")
    return RenameTable(cursor.sql, name, cursor.name())


def _added(cursor: Cursor, name: Name) -> Statement:
    if cursor.take_one("COLUMNS", "COLUMN") is not None:
        in_brackets = cursor.take("(")
        found = columns(cursor)
        if in_brackets:
            cursor.expect(")")
        return AlterTable(cursor.sql, name, tuple(_new(c) for c in found))
    cursor.take("IF", "NOT", "EXISTS")
    if cursor.at("PARTITION"):
        specs = [partition(cursor)]
        while True:
            if cursor.at("LOCATION"):
                unsupported(cursor, "partitions with a LOCATION", "the table's files lie in its own directory")
            if not (cursor.take(",") or cursor.at("PARTITION")):
                return AddPartitions(cursor.sql, name, tuple(specs))
            specs.append(partition(cursor))
    if cursor.at("CONSTRAINT") or cursor.at("PRIMARY") or cursor.at("CHECK"):
        unsupported(cursor, "constraints that are added", "a primary key is a property of a new table, 'primary-key'")
    return cursor.fail("COLUMN, COLUMNS or PARTITION")


def _new(written: WrittenColumn) -> SchemaChange:
    field = written.field
    if field.default_value is not None:
        name = shown_path(written.path)
        raise UnsupportedFeatureError(
            f"column {name} cannot be added with a DEFAULT: rows that are there would have to show it, and show null; "
            f"add it without one, then say ALTER COLUMN {name} SET DEFAULT for rows to come",
            feature="ADD COLUMN with DEFAULT",
            column=name,
        )
    return AddColumn(written.path, field.type, field.description, None, written.position)


def _dropped(cursor: Cursor, name: Name) -> Statement:
    if cursor.take_one("COLUMNS", "COLUMN") is not None:
        if_exists = cursor.take("IF", "EXISTS")
        in_brackets = cursor.take("(")
        found: list[SchemaChange] = [DropColumn(path(cursor))]
        while cursor.take(","):
            found.append(DropColumn(path(cursor)))
        if in_brackets:
            cursor.expect(")")
        return AlterTable(cursor.sql, name, tuple(found), if_exists)
    if cursor.at("PRIMARY") or cursor.at("CONSTRAINT"):
        unsupported(cursor, "keys and constraints that are dropped", "make a new table and copy the rows")
    if_exists = cursor.take("IF", "EXISTS")
    if not cursor.at("PARTITION"):
        cursor.fail("COLUMN, COLUMNS, PARTITION, TAG or BRANCH")
    specs = partitions(cursor)
    cursor.take("PURGE")
    return DropPartitions(cursor.sql, name, specs, if_exists)


def _changed(cursor: Cursor, *, hive: bool = False) -> list[SchemaChange]:
    """`path TYPE … COMMENT …`, or Hive's `old new TYPE …`, in which both names are the same."""
    where = path(cursor)
    found: list[SchemaChange] = []
    if hive and cursor.word is not None and cursor.word.keyword not in _ACTIONS:
        found += _hive_change(cursor, where)
    while (action := cursor.take_one(*_ACTIONS)) is not None:
        found.append(_one_change(cursor, where, action))
    if not found:
        cursor.fail("TYPE, COMMENT, FIRST, AFTER, SET or DROP NOT NULL, SET or DROP DEFAULT")
    return found


def _hive_change(cursor: Cursor, where: Path) -> list[SchemaChange]:
    written = column(cursor)
    if written.path[-1].lower() != where[-1].lower():
        unsupported(
            cursor,
            "CHANGE COLUMN to another name",
            f"say RENAME COLUMN {shown_path(where)} TO {written.path[-1]}",
        )
    field = written.field
    found: list[SchemaChange] = [UpdateType(where, field.type, keep_nullability=True)]
    if not field.type.nullable:
        found.append(UpdateNullability(where, False))
    if field.description is not None:
        found.append(UpdateComment(where, field.description))
    if field.default_value is not None:
        found.append(UpdateDefault(where, field.default_value))
    if written.position is not None:
        found.append(MoveColumn(where, written.position))
    return found


def _one_change(cursor: Cursor, where: Path, action: str) -> SchemaChange:
    match action:
        case "TYPE":
            stated = piece(cursor, ",", *_ACTIONS)
            if not stated:
                cursor.fail("a type")
            return UpdateType(where, data_type(stated), keep_nullability=True)
        case "COMMENT":
            return UpdateComment(where, cursor.text())
        case "SET" if cursor.take("DEFAULT"):
            stated = piece(cursor, ",")
            if not stated:
                cursor.fail("a value")
            return UpdateDefault(where, default_text(stated, shown_path(where)))
        case "DROP" if cursor.take("DEFAULT"):
            return UpdateDefault(where, None)
        case "SET" | "DROP":
            cursor.expect("NOT", "NULL")
            return UpdateNullability(where, action == "DROP")
    cursor.index -= 1
    place = position(cursor)
    assert place is not None
    return MoveColumn(where, place)


def _refuse(cursor: Cursor) -> None:
    """What Spark and Hive have besides; the verb is gone past."""
    if cursor.at("LOCATION"):
        unsupported(cursor, "SET LOCATION", "a table stays in its place; copy its rows to a new one")
    for words in (("SERDE",), ("SERDEPROPERTIES",), ("FILEFORMAT",)):
        if cursor.at(*words):
            unsupported(cursor, f"SET {words[0]}", "the format is a property, SET TBLPROPERTIES ('file.format' = '…')")
    if cursor.at("RECOVER", "PARTITIONS"):
        unsupported(cursor, "RECOVER PARTITIONS", "partitions are known by their rows, and need no recovery")
    if cursor.at("CLUSTER", "BY"):
        unsupported(cursor, "CLUSTER BY", "it is a property, SET TBLPROPERTIES ('clustering.columns' = 'column,…')")
    if cursor.at("WRITE"):
        unsupported(cursor, "WRITE ORDERED BY", "sort the rows in the query that writes, or set 'clustering.columns'")
    if cursor.at("PARTITION"):
        unsupported(cursor, "partitions that are renamed or moved", "write the rows anew and drop the old partition")
