"""Statements and clauses of Iceberg and Delta Lake, read to say what to write instead."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NoReturn

from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.foreign.statements import instead_of_statement
from paimon_spark.predicate.ast import literal_text
from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.statement import Name, UnsupportedStatement
from paimon_spark.types import quoted_if_needed

_FIELDS: Final = (("PARTITION", "FIELD"), ("IDENTIFIER", "FIELDS"))
_VERBS: Final = ("ADD", "DROP", "REPLACE", "SET")
_DISTRIBUTED: Final = ("DISTRIBUTED", "BY", "PARTITION")
_CLONES: Final = ("SHALLOW CLONE", "DEEP CLONE", "CLONE")
_OF_VACUUM: Final = ("RETAIN", "DRY", "FULL", "LITE", "USING")
_AFTER_CLONE: Final = ("TBLPROPERTIES", "LOCATION")
_ORDERINGS: Final = frozenset(("ASC", "DESC", "NULLS", "FIRST", "LAST"))


def read_optimize(cursor: Cursor) -> UnsupportedStatement | None:
    """Read Delta Lake's OPTIMIZE; None for a table by its path. Raises SqlSyntaxError."""
    table = _table(cursor)
    if table is None:
        return None
    where = _where(cursor, "ZORDER", "FULL")
    full = ", compact_strategy => 'full'" if cursor.take("FULL") else ""
    if not cursor.take("ZORDER", "BY"):
        return _unsupported(cursor, "OPTIMIZE", table, "OPTIMIZE", where=where, full=full)
    columns = _columns(cursor)
    return _unsupported(cursor, "OPTIMIZE … ZORDER BY", table, "ZORDER", where=where, columns=columns, full=full)


def read_vacuum(cursor: Cursor) -> UnsupportedStatement | None:
    """Read Delta Lake's VACUUM; None for a table by its path. Raises SqlSyntaxError."""
    table = _table(cursor)
    if table is None:
        return None
    older = dry_run = ""
    lost: list[str] = []
    while not cursor.at_end:
        if cursor.take("RETAIN"):
            hours = cursor.until("HOURS", *_OF_VACUUM)
            cursor.take("HOURS")
            older = f", older_than => current_timestamp() - INTERVAL {hours} HOURS"
        elif cursor.take("DRY", "RUN"):
            dry_run = ", dry_run => true"
        elif not cursor.take("FULL"):
            begin = cursor.start
            cursor.index += 1
            cursor.until(*_OF_VACUUM)
            lost.append(cursor.sql[begin : cursor.tokens[cursor.index - 1].end])
    found = _unsupported(cursor, "VACUUM", table, "VACUUM", older_than=older, dry_run=dry_run)
    return replace(found, instead=found.instead + _lost(" ".join(lost)))


def read_restore(cursor: Cursor) -> UnsupportedStatement | None:
    """Read Delta Lake's RESTORE; None for a table by its path. Raises SqlSyntaxError."""
    cursor.take("TABLE")
    table = _table(cursor)
    if table is None:
        return None
    cursor.take("TO")
    if cursor.take("TIMESTAMP", "AS", "OF"):
        literal = "TIMESTAMP " if cursor.at_text else ""
        return _unsupported(cursor, "RESTORE", table, "RESTORE TIMESTAMP", timestamp=literal + cursor.rest())
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
    if cursor.take("WITH", "ID"):
        return UnsupportedStatement(
            cursor.sql, (), "UNDROP TABLE WITH ID", instead_of_statement("UNDROP TABLE WITH ID")
        )
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
    if table is None:
        return None
    where = _where(cursor, "APPLY")
    cursor.take("APPLY", "(", "PURGE", ")")
    return _unsupported(cursor, "REORG TABLE", table, where=where)


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
    is_distributed = cursor.take(*_DISTRIBUTED)
    if is_distributed and cursor.at_end:
        _refuse("WRITE DISTRIBUTED BY PARTITION", table)
    if cursor.take("UNORDERED"):
        _refuse("WRITE UNORDERED", table)
    cursor.take("LOCALLY")
    cursor.take("ORDERED", "BY")
    begin = cursor.index
    order, cursor.index = cursor.rest() or "…", begin
    distribute = " DISTRIBUTE BY …" if is_distributed else ""
    _refuse("WRITE ORDERED BY", table, columns=_columns(cursor), order=order, distribute=distribute)


def refuse_clone(cursor: Cursor, table: Name, *, or_replace: bool = False, if_not_exists: bool = False) -> None:
    """Refuse Delta Lake's CLONE of a new table, where it comes next. Raises UnsupportedFeatureError."""
    kind = next((c for c in _CLONES if cursor.take(*c.split())), None)
    if kind is None:
        return
    source, new = cursor.name(), _shown(table)
    at = as_of = ""
    if cursor.take("VERSION", "AS", "OF"):
        version = cursor.until(*_AFTER_CLONE)
        at, as_of = f" VERSION AS OF {version}", f" AS OF VERSION {version}"
    elif cursor.take("TIMESTAMP", "AS", "OF"):
        time = cursor.until(*_AFTER_CLONE)
        at, as_of = f" TIMESTAMP AS OF {time}", f" AS OF VERSION <snapshot at {time} in DESCRIBE HISTORY>"
    properties = f" TBLPROPERTIES ({cursor.parenthesised()})" if cursor.take("TBLPROPERTIES") else ""
    what = "SHALLOW CLONE" if kind.startswith("SHALLOW") else "DEEP CLONE"
    branch = quoted_if_needed(table[-1])
    values = {
        "table": _shown(source),
        "new": new,
        "branch": branch,
        "as_of": as_of,
        "at": at,
        "properties": properties,
        "or_replace": "OR REPLACE " if or_replace else "",
        "drop": f"DROP TABLE IF EXISTS {new}, " if or_replace else "",
        "drop_branch": f"ALTER TABLE {_shown(source)} DROP BRANCH IF EXISTS {branch}, " if or_replace else "",
        "if_not_exists": "IF NOT EXISTS " if if_not_exists else "",
        "unless": f", if {new} was not there" if if_not_exists else "",
    }
    text = instead_of_statement("CLONE OF FILES" if _is_path(source) else what, **values) + _rest(cursor)
    raise UnsupportedFeatureError(f"{kind} is not supported for table {new}. {text}", feature=kind)


def _is_path(name: Name) -> bool:
    """Whether a name is that of files, as in parquet.`/path`."""
    return "/" in name[-1]


def _where(cursor: Cursor, *keywords: str) -> str:
    """The condition that comes next, up to one of the keywords, as an argument of compact; blank without one."""
    condition = cursor.until(*keywords) if cursor.take("WHERE") else ""
    return f", where => {literal_text(condition)}" if condition else ""


def _rest(cursor: Cursor) -> str:
    """Sentence on the rest of the statement, which has no equivalent; empty at its end."""
    return _lost(" ".join(cursor.rest().split()))


def _lost(text: str) -> str:
    return f"; {text} has no equivalent here" if text else ""


def _refuse(feature: str, table: Name, what: str | None = None, **values: str) -> NoReturn:
    text = instead_of_statement(what or feature, table=_shown(table), **values)
    raise UnsupportedFeatureError(f"{feature} is not supported for table {_shown(table)}. {text}", feature=feature)


def _unsupported(
    cursor: Cursor, feature: str, table: Name, what: str | None = None, *, may_be_missing: bool = False, **values: str
) -> UnsupportedStatement:
    text = instead_of_statement(what or feature, table=_shown(table), **values) + _rest(cursor)
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
