"""Statements and clauses of Iceberg and Delta Lake, read to say what to write instead."""

from __future__ import annotations

from typing import Final, NoReturn

from paimon_spark.equivalents import instead
from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.predicate.ast import literal_text
from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.statement import Name, UnsupportedStatement
from paimon_spark.types import quoted_if_needed

_FIELDS: Final = (("PARTITION", "FIELD"), ("IDENTIFIER", "FIELDS"))
_VERBS: Final = ("ADD", "DROP", "REPLACE", "SET")
_DISTRIBUTED: Final = ("DISTRIBUTED", "BY", "PARTITION")
_CLONES: Final = ("SHALLOW CLONE", "DEEP CLONE", "CLONE")
_ORDERINGS: Final = frozenset(("ASC", "DESC", "NULLS", "FIRST", "LAST"))


def read_optimize(cursor: Cursor) -> UnsupportedStatement | None:
    """Read Delta Lake's OPTIMIZE; None for a table by its path. Raises SqlSyntaxError."""
    table = _table(cursor)
    if table is None:
        return None
    condition = cursor.until("ZORDER") if cursor.take("WHERE") else ""
    where = f", where => {literal_text(condition)}" if condition else ""
    if not cursor.take("ZORDER", "BY"):
        return _unsupported(cursor, "OPTIMIZE", table, "OPTIMIZE", where=where)
    columns = _columns(cursor)
    return _unsupported(cursor, "OPTIMIZE … ZORDER BY", table, "ZORDER", where=where, columns=columns)


def read_vacuum(cursor: Cursor) -> UnsupportedStatement | None:
    """Read Delta Lake's VACUUM; None for a table by its path. Raises SqlSyntaxError."""
    table = _table(cursor)
    if table is None:
        return None
    cursor.take_one("FULL", "LITE")
    hours = cursor.until("HOURS", "DRY") if cursor.take("RETAIN") else ""
    cursor.take("HOURS")
    older = f", older_than => current_timestamp() - INTERVAL {hours} HOURS" if hours else ""
    dry_run = ", dry_run => true" if cursor.take("DRY", "RUN") else ""
    return _unsupported(cursor, "VACUUM", table, "VACUUM", older_than=older, dry_run=dry_run)


def read_restore(cursor: Cursor) -> UnsupportedStatement | None:
    """Read Delta Lake's RESTORE; None for a table by its path. Raises SqlSyntaxError."""
    cursor.take("TABLE")
    table = _table(cursor)
    if table is None:
        return None
    cursor.take("TO")
    if cursor.take("TIMESTAMP", "AS", "OF"):
        return _unsupported(cursor, "RESTORE", table, "RESTORE TIMESTAMP", timestamp=cursor.rest())
    version = cursor.rest() if cursor.take("VERSION", "AS", "OF") else ""
    return _unsupported(cursor, "RESTORE", table, "RESTORE", version=version.strip("'\"") or "…")


def read_describe_detail(cursor: Cursor) -> UnsupportedStatement | None:
    """Read Delta Lake's DESCRIBE DETAIL; None for a table by its path. Raises SqlSyntaxError."""
    table = _table(cursor)
    return None if table is None else _unsupported(cursor, "DESCRIBE DETAIL", table)


def read_convert(cursor: Cursor) -> UnsupportedStatement | None:
    """Read Delta Lake's CONVERT TO DELTA; None for files by their path. Raises SqlSyntaxError."""
    table = _table(cursor)
    if table is None or "/" in table[-1]:
        return None
    return _unsupported(cursor, "CONVERT TO DELTA", table)


def read_undrop(cursor: Cursor) -> UnsupportedStatement:
    """Read UNDROP TABLE of Databricks. Raises SqlSyntaxError."""
    return _unsupported(cursor, "UNDROP TABLE", cursor.name(), may_be_missing=True)


def read_generate(cursor: Cursor) -> UnsupportedStatement | None:
    """Read Delta Lake's GENERATE; None for a table by its path. Raises SqlSyntaxError."""
    cursor.identifier("the name of a mode")
    cursor.expect("FOR", "TABLE")
    table = _table(cursor)
    return None if table is None else _unsupported(cursor, "GENERATE", table)


def read_reorg(cursor: Cursor) -> UnsupportedStatement | None:
    """Read Delta Lake's REORG TABLE; None for a table by its path. Raises SqlSyntaxError."""
    table = _table(cursor)
    return None if table is None else _unsupported(cursor, "REORG TABLE", table)


def read_fsck(cursor: Cursor) -> UnsupportedStatement | None:
    """Read Delta Lake's FSCK REPAIR TABLE; None for a table by its path. Raises SqlSyntaxError."""
    table = _table(cursor)
    return None if table is None else _unsupported(cursor, "FSCK REPAIR TABLE", table)


def refuse_alteration(cursor: Cursor, table: Name) -> None:
    """Refuse Iceberg's clauses of ALTER TABLE, where one comes next. Raises UnsupportedFeatureError."""
    verb = next((v for v in _VERBS if cursor.at(v)), None)
    for field in _FIELDS:
        if verb is not None and cursor.take(verb, *field):
            columns = "" if field[0] == "PARTITION" else _columns(cursor)
            _refuse(f"{verb} {' '.join(field)}", table, " ".join(field), columns=columns)
    if not cursor.take("WRITE"):
        return
    if cursor.take(*_DISTRIBUTED) and cursor.at_end:
        _refuse("WRITE DISTRIBUTED BY PARTITION", table)
    cursor.take("LOCALLY")
    cursor.take("UNORDERED")
    cursor.take("ORDERED", "BY")
    _refuse("WRITE ORDERED BY", table, columns=_columns(cursor))


def refuse_clone(cursor: Cursor, table: Name) -> None:
    """Refuse Delta Lake's CLONE of a new table, where it comes next. Raises UnsupportedFeatureError."""
    kind = next((c for c in _CLONES if cursor.take(*c.split())), None)
    if kind is None:
        return
    source = _shown(cursor.name())
    version = cursor.rest() if cursor.take("VERSION", "AS", "OF") else ""
    what = "SHALLOW CLONE" if kind.startswith("SHALLOW") else "DEEP CLONE"
    text = instead(
        what,
        table=source,
        new=_shown(table),
        branch=quoted_if_needed(table[-1]),
        as_of=f" AS OF VERSION {version}" if version else "",
        at=f" VERSION AS OF {version}" if version else "",
    )
    raise UnsupportedFeatureError(f"{kind} is not supported for table {_shown(table)}. {text}", feature=kind)


def _refuse(feature: str, table: Name, what: str | None = None, **values: str) -> NoReturn:
    text = instead(what or feature, table=_shown(table), **values)
    raise UnsupportedFeatureError(f"{feature} is not supported for table {_shown(table)}. {text}", feature=feature)


def _unsupported(
    cursor: Cursor, feature: str, table: Name, what: str | None = None, *, may_be_missing: bool = False, **values: str
) -> UnsupportedStatement:
    text = instead(what or feature, table=_shown(table), **values)
    return UnsupportedStatement(cursor.sql, (table,), feature, text, may_be_missing)


def _table(cursor: Cursor) -> Name | None:
    """The table that comes next; None for one by its path, which is another's. Raises SqlSyntaxError."""
    return None if cursor.at_text or cursor.at("DELTA", ".") else cursor.name()


def _shown(table: Name) -> str:
    return ".".join(part if "$" in part else quoted_if_needed(part) for part in table)


def _columns(cursor: Cursor) -> str:
    """The columns of a list, in brackets or not, without their order: `a,b`; '…' without any."""
    names: list[str] = []
    while not cursor.at_end:
        token = cursor.token
        if token is None or not token.is_name or token.keyword in _ORDERINGS:
            cursor.index += 1
        else:
            names.append(".".join(cursor.name()))
    return ",".join(names) or "…"
