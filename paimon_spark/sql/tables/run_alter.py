"""ALTER TABLE and DROP TABLE, run on tables of the catalog."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from paimon_spark.errors import InvalidInputError, InvalidOptionError, UnsupportedFeatureError
from paimon_spark.jobs.alter import altered
from paimon_spark.jobs.branch_access import refuse_version
from paimon_spark.jobs.maintain import drop_partitions
from paimon_spark.metadata.definition.schema_changes import (
    AddColumn,
    After,
    DropColumn,
    MoveColumn,
    Path,
    RemoveOption,
    SchemaChange,
    SetOption,
    UpdateTableComment,
)
from paimon_spark.sql.names import CATALOG, TableName, target
from paimon_spark.sql.session import Session
from paimon_spark.sql.subject import subject
from paimon_spark.sql.tables.run_create import to_create
from paimon_spark.sql.tables.statements import (
    AddPartitions,
    AlterTable,
    DropPartitions,
    DropTable,
    Misread,
    Name,
    Outcome,
    RenameTable,
)
from paimon_spark.sql.text import quoted
from paimon_spark.types import ArrayType, DataType, MapType, MultisetType, RowType, in_any_case

_OF_SPARK = ("provider", "location", "owner", "external")


def alter_table(session: Session, statement: AlterTable) -> Outcome:
    """Change columns and properties of a table or branch, all or nothing."""
    name = subject(session, statement.name)
    if name is None:
        return NotImplemented
    table = session.table(name)
    refuse_version(table)
    for change in statement.changes:
        if isinstance(change, (SetOption, RemoveOption)) and change.key in _OF_SPARK:
            raise InvalidOptionError(
                f"{change.key!r} is no property of {table.handle.describe()} that can change", option=change.key
            )
    exact = session.conf.get("spark.sql.caseSensitive", "false").lower() == "true"
    altered(table.handle, lambda columns: _resolved(columns, statement, exact))
    return None


def rename_table(session: Session, statement: RenameTable) -> Outcome:
    """Give a table another name, perhaps in another database."""
    name = subject(session, statement.name)
    if name is None:
        return NotImplemented
    if name.branch is not None and name.system is None:
        raise UnsupportedFeatureError(
            f"{name} is a branch; say CALL sys.rename_branch('{name.database}.{name.table}', '{name.branch}', '…')",
            feature="ALTER TABLE of a branch RENAME TO",
        )
    name.refuse_suffix("renamed")
    session.catalog.rename_table(name.bare, _new_name(session, name, statement.new).bare)
    return None


def _new_name(session: Session, old: TableName, parts: Name) -> TableName:
    if len(parts) == 1:
        parts = (old.database, *parts)
    if len(parts) > 3 or (len(parts) == 3 and parts[0].lower() != CATALOG):
        raise InvalidInputError(
            f"{old} cannot be renamed to {'.'.join(parts)}: that is another catalog; a name is table, "
            f"database.table or {CATALOG}.database.table",
            table=str(old),
        )
    if not session.has_database(parts[-2]):
        session.catalog.list_tables(parts[-2])  # says which databases there are
    new = target(session, parts)
    assert new is not None
    new.refuse_suffix("given a name")
    return new


def drop_table(session: Session, statement: DropTable) -> Outcome:
    """Remove a table with its branches and files."""
    name = target(session, statement.name)
    if name is None:
        return NotImplemented
    if name.branch is not None and name.system is None:
        raise UnsupportedFeatureError(
            f"{name} is a branch; say CALL sys.delete_branch('{name.database}.{name.table}', '{name.branch}')",
            feature="DROP TABLE of a branch",
        )
    name.refuse_suffix("dropped")
    is_there = session.has_table(name.database, name.table)
    if not is_there and len(statement.name) == 1 and session.spark.catalog.tableExists(quoted(name.table)):
        return NotImplemented
    session.catalog.drop_table(name.bare, ignore_if_not_exists=statement.if_exists)
    return None


def add_partitions(session: Session, statement: AddPartitions) -> Outcome:
    """Check the partitions, and do nothing: a partition is there once it has rows, as in Java's file-system catalog."""
    name = subject(session, statement.name)
    if name is None:
        return NotImplemented
    handle = session.table(name).handle
    keys = handle.schema.partition_keys
    for spec in statement.specs:
        if sorted(k.lower() for k in spec) != sorted(k.lower() for k in keys):
            raise InvalidInputError(
                f"ADD PARTITION ({', '.join(spec)}): {handle.describe()} is partitioned by "
                f"{', '.join(keys) or 'nothing'}",
                table=handle.name,
            )
    return None


def drop_some_partitions(session: Session, statement: DropPartitions) -> Outcome:
    """Remove the rows of partitions, by one commit."""
    name = subject(session, statement.name)
    if name is None:
        return NotImplemented
    drop_partitions(
        session.table(name), statement.specs, time_zone=session.time_zone, must_exist=not statement.if_exists
    )
    return None


def misread(session: Session, statement: Misread) -> Outcome:
    """Raise what is wrong with a statement, if its table is one of the catalog."""
    if statement.creates:
        name = to_create(session, statement.name, statement.provider)
    else:
        name = subject(session, statement.name)
    if name is None:
        return NotImplemented
    raise statement.error


def _resolved(columns: RowType, statement: AlterTable, exact: bool) -> list[SchemaChange]:
    """The changes with names as the columns have them; those of columns to drop that are not there left out."""
    out: list[SchemaChange] = []
    for change in statement.changes:
        if isinstance(change, (SetOption, RemoveOption, UpdateTableComment)) or not hasattr(change, "path"):
            out.append(change)
            continue
        found = change if exact else _with_path(change, _path(columns, change.path))
        if isinstance(found, (AddColumn, MoveColumn)) and isinstance(found.position, After) and not exact:
            beside = _path(columns, (*found.path[:-1], found.position.column))
            found = replace(found, position=After(beside[-1]))
        if isinstance(found, DropColumn) and statement.if_exists and not _is_there(columns, found.path):
            continue
        out.append(found)
    return out


def _with_path(change: Any, path: Path) -> Any:
    return replace(change, path=path)


def _path(columns: RowType, written: Path) -> Path:
    """A path in the case of the columns; from where there is no such column on, as it was written."""
    out: list[str] = []
    at: DataType | None = columns
    for part in written:
        step = _step(at, part)
        out.append(part if step is None else step[0])
        at = None if step is None else step[1]
    return tuple(out)


def _step(at: DataType | None, part: str) -> tuple[str, DataType] | None:
    match at:
        case RowType():
            name = in_any_case(part, at.names)
            return None if name is None else (name, at.field(name).type)
        case ArrayType() | MultisetType() if part.lower() == "element":
            return "element", at.element
        case MapType() if part.lower() == "value":
            return "value", at.value
    return None


def _is_there(columns: RowType, path: Path) -> bool:
    at: DataType | None = columns
    for part in path:
        step = _step(at, part)
        if step is None or step[0] != part:
            return False
        at = step[1]
    return True
