"""Parts that several statements on tables have: properties, columns with their places, partitions. Cursor → values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NoReturn

from paimon_spark.errors import PaimonError, SqlSyntaxError, UnsupportedFeatureError
from paimon_spark.metadata.definition.ddl import row_type
from paimon_spark.metadata.definition.schema_changes import After, First, Path, Position
from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.statement import Statement
from paimon_spark.sql.tables.statements import Misread, Name, Spec
from paimon_spark.sql.text import quoted, shown
from paimon_spark.types import DataField

_TYPED_TEXTS: Final = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ")


@dataclass(frozen=True, slots=True)
class WrittenColumn:
    """A column as it was written.

    Attributes:
        field: its name (the last part of the path), type, comment and default.
    """

    path: Path
    field: DataField
    position: Position | None = None


def guarded(cursor: Cursor, name: Name, read: Callable[[], Statement], provider: str | None = None) -> Statement:
    """What `read` reads to the end of the statement; a `Misread` when it cannot.

    Args:
        cursor: behind the name.
        name: of the table.
        read: reads the rest.
        provider: of a table to be made; `""` stands for none.
    """
    try:
        statement = read()
        cursor.end()
    except PaimonError as e:
        return Misread(cursor.sql, name, e, creates=provider is not None, provider=provider or None)
    return statement


def unsupported(cursor: Cursor, what: str, instead: str) -> NoReturn:
    """Raise UnsupportedFeatureError: tables of the catalog have no such thing."""
    raise UnsupportedFeatureError(
        f"tables of the catalog have no {what}: {instead}; in: {shown(cursor.sql)}", feature=what
    )


def properties(cursor: Cursor) -> dict[str, str]:
    """`('key' = 'value', a.b = 1, …)`. Raises SqlSyntaxError."""
    found: dict[str, str] = {}
    cursor.expect("(")
    while True:
        key = property_key(cursor)
        if key in found:
            raise SqlSyntaxError(f"property {key!r} is given twice in: {shown(cursor.sql)}", sql=cursor.sql)
        cursor.take("=")
        found[key] = _property_value(cursor, key)
        if cursor.take(")"):
            return found
        if not cursor.take(","):
            cursor.fail("',' or ')'")


def property_key(cursor: Cursor) -> str:
    """Go past the key of a property: a text, or names with dots. Raises SqlSyntaxError."""
    if cursor.word is not None and cursor.word.is_text:
        return cursor.text()
    parts = [cursor.identifier("the key of a property")]
    while cursor.take("."):
        parts.append(cursor.identifier("the key of a property"))
    return ".".join(parts)


def _property_value(cursor: Cursor, key: str) -> str:
    found = _plain_value(cursor)
    return cursor.fail(f"a value of property {key!r} in quotes") if found is None else found


def _plain_value(cursor: Cursor) -> str | None:
    """Go past a text, a number, TRUE or FALSE, and give it as text; None when none of them comes next."""
    word = cursor.word
    if word is not None and word.is_text:
        return cursor.text()
    sign = "-" if cursor.take("-") else ""
    word = cursor.word
    if word is None or not (word.is_number or (not sign and word.keyword in ("TRUE", "FALSE"))):
        return None
    cursor.index += 1
    return sign + word.text.lower()


def path(cursor: Cursor) -> Path:
    """Go past the name of a column, or of a field inside it, `a.b`. Raises SqlSyntaxError."""
    parts = [cursor.identifier("the name of a column")]
    while cursor.take("."):
        parts.append(cursor.identifier("the name of a field"))
    return tuple(parts)


def position(cursor: Cursor) -> Position | None:
    """Go past FIRST or AFTER a column; None when neither comes next. Raises SqlSyntaxError."""
    if cursor.take("FIRST"):
        return First()
    if cursor.take("AFTER"):
        return After(cursor.identifier("the name of a column"))
    return None


def piece(cursor: Cursor, *stops: str) -> str:
    """`Cursor.until`, of a type and what follows it."""
    return cursor.until(*stops, of_types=True)


def column(cursor: Cursor) -> WrittenColumn:
    """Go past `path TYPE [NOT NULL] [DEFAULT …] [COMMENT '…'] [FIRST | AFTER other]`.

    Raises:
        SqlSyntaxError, InvalidInputError: it is written wrongly.
        UnsupportedFeatureError: a type or a clause that no table has.
    """
    where = path(cursor)
    cursor.take(":")
    pieces: list[str] = []
    place: Position | None = None
    while True:
        pieces.append(piece(cursor, ",", ")", "FIRST", "AFTER", "GENERATED", "PRIMARY", "UNIQUE", "CONSTRAINT"))
        found = position(cursor)
        if found is None:
            break
        place = found
    _refuse_clause(cursor, where)
    stated = " ".join(p for p in pieces if p)
    if not stated:
        cursor.fail(f"the type of column {where[-1]}")
    fields = row_type(f"{quoted(where[-1])} {stated}").fields
    return WrittenColumn(where, fields[0], place)


def _refuse_clause(cursor: Cursor, where: Path) -> None:
    if cursor.at("GENERATED"):
        unsupported(cursor, "generated columns", f"compute {where[-1]} in the query that writes")
    if cursor.at("PRIMARY", "KEY"):
        unsupported(
            cursor,
            "PRIMARY KEY clause",
            f"the key is a property, TBLPROPERTIES ('primary-key' = '{where[-1]}')",
        )
    if cursor.at("UNIQUE") or cursor.at("CONSTRAINT"):
        unsupported(cursor, "constraints but NOT NULL", "a primary key is a property, 'primary-key' = 'column,…'")


def columns(cursor: Cursor) -> list[WrittenColumn]:
    """Go past columns with commas between. Raises as `column`."""
    found = [column(cursor)]
    while cursor.take(","):
        found.append(column(cursor))
    return found


def partition(cursor: Cursor) -> Spec:
    """Go past `PARTITION (a = 1, b = 'x')`. Raises SqlSyntaxError."""
    cursor.expect("PARTITION")
    cursor.expect("(")
    found: dict[str, str | None] = {}
    while True:
        name = cursor.identifier("the name of a partition column")
        if name in found:
            raise SqlSyntaxError(f"partition column {name} is given twice in: {shown(cursor.sql)}", sql=cursor.sql)
        if not (cursor.take("=") or cursor.take("==")):
            cursor.fail("'=' and a value")
        found[name] = _constant(cursor)
        if cursor.take(")"):
            return found
        if not cursor.take(","):
            cursor.fail("',' or ')'")


def partitions(cursor: Cursor) -> tuple[Spec, ...]:
    """Go past one PARTITION (…) or several, with commas or nothing between. Raises SqlSyntaxError."""
    found = [partition(cursor)]
    while cursor.take(",") or cursor.at("PARTITION"):
        found.append(partition(cursor))
    return tuple(found)


def _constant(cursor: Cursor) -> str | None:
    if cursor.take("NULL"):
        return None
    follows = cursor.words[cursor.index + 1] if cursor.index + 1 < len(cursor.words) else None
    if follows is not None and follows.is_text:
        cursor.take_one(*_TYPED_TEXTS)
    found = _plain_value(cursor)
    if found is None:
        cursor.fail("a value: a text in quotes, a number, TRUE, FALSE, NULL or DATE '…'")
    return found
