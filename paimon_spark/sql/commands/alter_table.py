"""Run ALTER TABLE, COMMENT ON and DROP TABLE."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from paimon_spark.errors import InvalidInputError, InvalidOptionError, SqlSyntaxError, UnsupportedFeatureError
from paimon_spark.jobs.branch_access import to_change
from paimon_spark.jobs.definition.alter import altered
from paimon_spark.jobs.upkeep.maintain import drop_partitions as delete_partitions
from paimon_spark.metadata.definition.schema_changes import (
    AddColumn,
    After,
    DropColumn,
    MoveColumn,
    Path,
    RemoveOption,
    SchemaChange,
    SetOption,
    UpdateComment,
    UpdateTableComment,
)
from paimon_spark.options.location import TableName
from paimon_spark.redaction import get_logger
from paimon_spark.sql.commands.target import CASE_SENSITIVE, on_table
from paimon_spark.sql.grammar.alter_table import (
    AddPartitions,
    AlterTable,
    CommentOnColumn,
    DropPartitions,
    DropTable,
    RenameTable,
)
from paimon_spark.sql.names import name_of, resolve_name
from paimon_spark.sql.session import Session
from paimon_spark.sql.statement import Name, Outcome, Result
from paimon_spark.types import ArrayType, DataType, MapType, MultisetType, RowType, in_any_case

_FIXED_PROPERTIES: Final = ("provider", "location", "owner", "external")


@on_table
def alter_table(session: Session, name: TableName, statement: AlterTable) -> None:
    """Change columns and properties of a table or branch, all or nothing."""
    table = to_change(session.table(session.to_write(name)))
    for change in statement.changes:
        if isinstance(change, (SetOption, RemoveOption)) and change.key in _FIXED_PROPERTIES:
            raise InvalidOptionError(
                f"property {change.key!r} of {table.handle.describe()} cannot be changed", option=change.key
            )
    exact = session.conf.get(CASE_SENSITIVE, "false").lower() == "true"
    altered(table.handle, lambda columns: _resolved_changes(columns, statement, exact))


def comment_on_column(session: Session, statement: CommentOnColumn) -> Result:
    """Change the comment of a column of a table or branch. Raises SqlSyntaxError: no table is named."""
    parts = statement.name
    if len(parts) > 2 and session.is_other_catalog(parts[0]):
        return Outcome.RUN_BY_SPARK
    has_catalog = parts[0].lower() == session.catalog_name.lower()
    is_qualified = has_catalog or (len(parts) > 2 and session.has_database(parts[0]))
    length = (3 if has_catalog else 2) if is_qualified else 1
    if len(parts) <= length:
        raise SqlSyntaxError(
            f"COMMENT ON COLUMN {'.'.join(parts)} names no column; write table.column or database.table.column",
            sql=statement.sql,
        )
    change = UpdateComment(parts[length:], statement.comment)
    outcome: Result = alter_table(session, AlterTable(statement.sql, parts[:length], (change,)))
    return outcome


@on_table
def rename_table(session: Session, name: TableName, statement: RenameTable) -> None:
    """Rename a table, also into another database."""
    name.refuse_branch_of_session("renamed")
    session.refuse_whole(name, "renamed")
    if name.branch is not None and name.system is None:
        raise UnsupportedFeatureError(
            f"{name} is a branch; use CALL sys.rename_branch('{name.database}.{name.table}', '{name.branch}', '…')",
            feature="ALTER TABLE of a branch RENAME TO",
        )
    name.refuse_suffix("renamed")
    session.catalog.on_main().rename_table(name.bare, new_name(session, name, statement.new).bare)


def new_name(session: Session, old: TableName, parts: Name) -> TableName:
    """The new name of a table: in its database, in another one, or of three parts.

    Raises InvalidInputError: it is in another catalog; DatabaseNotFoundError.
    """
    if len(parts) == 1:
        parts = (old.database, *parts)
    if len(parts) > 3 or (len(parts) == 3 and parts[0].lower() != session.catalog_name.lower()):
        raise InvalidInputError(
            f"{old} cannot be renamed to {'.'.join(parts)}, which is in another catalog; give table, database.table or "
            f"{session.catalog_name}.database.table",
            table=str(old),
        )
    if not session.has_database(parts[-2]):
        session.catalog.list_tables(parts[-2])  # raises, and lists the databases
    new = name_of(parts[-2:])
    new.refuse_suffix("given a name")
    return new


def drop_table(session: Session, statement: DropTable) -> Result:
    """Drop a table with its branches and files."""
    name = resolve_name(session, statement.table)
    if name is None:
        return Outcome.RUN_BY_SPARK
    if name.branch is not None and name.system is None:
        raise UnsupportedFeatureError(
            f"{name} is a branch; use CALL sys.delete_branch('{name.database}.{name.table}', '{name.branch}')",
            feature="DROP TABLE of a branch",
        )
    name.refuse_suffix("dropped")
    session.refuse_whole(name, "dropped")
    is_ours = session.has_table(name.database, name.table)
    if not is_ours and len(statement.table) == 1 and session.has_view(name.table):
        return Outcome.RUN_BY_SPARK
    session.catalog.on_main().drop_table(name.bare, ignore_if_not_exists=statement.if_exists)
    return None


_LOG = get_logger(__name__)


@on_table
def add_partitions(session: Session, name: TableName, statement: AddPartitions) -> None:
    """Check the partitions; nothing is created, as in Java's file catalog, and the log says so."""
    handle = to_change(session.table(name)).handle
    keys = handle.schema.partition_keys
    for spec in statement.specs:
        if sorted(k.lower() for k in spec) != sorted(k.lower() for k in keys):
            raise InvalidInputError(
                f"ADD PARTITION ({', '.join(spec)}): {handle.describe()} is partitioned by "
                f"{', '.join(keys) or 'nothing'}",
                table=handle.name,
            )
    _LOG.warning(
        "ADD PARTITION created nothing in table %s: a partition exists, and is listed, once it has rows",
        handle.name,
    )


@on_table
def drop_partitions(session: Session, name: TableName, statement: DropPartitions) -> None:
    """Delete the rows of partitions in one commit."""
    table = session.table(name)
    keys = [key.lower() for key in table.schema.partition_keys]
    for spec in statement.specs:
        named = {name.lower() for name in spec}
        # Other names are refused below. Java Paimon drops partitions by their first columns only.
        if named <= set(keys) and named != set(keys[: len(named)]):
            raise InvalidInputError(
                f"partitions of {table.handle.describe()} to drop are named by {', '.join(spec)}, without a column "
                f"before, so every match would go; begin with the first of {', '.join(keys)}, or delete by a condition",
                table=table.name,
            )
    delete_partitions(table, statement.specs, time_zone=session.time_zone, must_exist=not statement.if_exists)


def _resolved_changes(columns: RowType, statement: AlterTable, exact: bool) -> list[SchemaChange]:
    """The changes with names in the case of the columns, without DROP COLUMN IF EXISTS of missing columns."""
    out: list[SchemaChange] = []
    for change in statement.changes:
        if isinstance(change, (SetOption, RemoveOption, UpdateTableComment)) or not hasattr(change, "path"):
            out.append(change)
            continue
        path, exists = _located(columns, change.path)
        found: Any = change
        if not exact:
            found = replace(found, path=path)
        if isinstance(found, (AddColumn, MoveColumn)) and isinstance(found.position, After) and not exact:
            beside, _ = _located(columns, (*found.path[:-1], found.position.column))
            found = replace(found, position=After(beside[-1]))
        if isinstance(found, DropColumn) and statement.if_exists and not (exists and found.path == path):
            continue
        out.append(found)
    return out


def _located(columns: RowType, written: Path) -> tuple[Path, bool]:
    """A path in the case of the columns, from the first missing one on as written, and whether all exist."""
    out: list[str] = []
    at: DataType | None = columns
    exists = True
    for part in written:
        step = _step(at, part)
        exists = exists and step is not None
        out.append(part if step is None else step[0])
        at = None if step is None else step[1]
    return tuple(out), exists


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
