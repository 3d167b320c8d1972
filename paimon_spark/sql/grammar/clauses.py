"""Clauses that several statements share: columns, properties, partitions, assignments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NoReturn, TypeAlias

from paimon_spark.errors import PaimonError, SqlSyntaxError, UnsupportedFeatureError
from paimon_spark.foreign.statements import CHECKS_AT_PUBLISHING
from paimon_spark.metadata.definition.ddl import row_type
from paimon_spark.metadata.definition.schema_changes import After, First, Path, Position
from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.statement import InvalidStatement, Name, Statement
from paimon_spark.sql.tokens import abbreviated
from paimon_spark.types import DataField, quoted

PartitionSpec: TypeAlias = Mapping[str, str | None]
"""The text of a constant, or None for null, by partition column."""
DATABASE: Final = ("DATABASE", "SCHEMA", "NAMESPACE")
"""Keywords that all mean a database."""
_EQUALS: Final = ("=", "==")
_TYPED_TEXTS: Final = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ")


@dataclass(frozen=True, slots=True)
class ColumnClause:
    """A column of CREATE TABLE or ADD COLUMN; the last part of its path is the name of its field."""

    path: Path
    field: DataField
    position: Position | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """`target = value` of a SET, of a column or nested field, with or without the name of the table before it."""

    target: Name
    value: str


def valid_or_invalid(
    cursor: Cursor, name: Name, read: Callable[[], Statement], provider: str | None = None
) -> Statement:
    """The statement on table `name` that `read` reads to the end; an `InvalidStatement` when it cannot.

    `provider` is the format of a table to create; `""` when none is given, None when no table is created.
    """
    try:
        statement = read()
        cursor.end()
    except PaimonError as e:
        return InvalidStatement(cursor.sql, name, e, creates=provider is not None, provider=provider or None)
    return statement


def unsupported(cursor: Cursor, what: str, instead: str) -> NoReturn:
    """Raise UnsupportedFeatureError: Paimon tables do not support a clause."""
    raise UnsupportedFeatureError(
        f"Paimon tables do not support {what}: {instead}; in: {abbreviated(cursor.sql)}", feature=what
    )


def constraint_advice(kind: str, key: str = "column,…") -> tuple[str, str]:
    """Name of a constraint, by its first keyword, and what to write in its place."""
    match kind:
        case "PRIMARY":
            return "PRIMARY KEY clause", f"the key is a property, TBLPROPERTIES ('primary-key' = '{key}')"
        case "CHECK" | "FOREIGN":
            what = f"{'CHECK' if kind == 'CHECK' else 'FOREIGN KEY'} constraints"
            return what, f"write to a branch, and publish it with checks: {CHECKS_AT_PUBLISHING}"
        case _:
            return "constraints but NOT NULL", f"a primary key is a property, 'primary-key' = '{key}'"


def expression(cursor: Cursor, *stops: str) -> str:
    """Read the text of an expression, up to one of the keywords `stops`. Raises SqlSyntaxError: it is blank."""
    return cursor.until(*stops) or cursor.fail("an expression")


def assignments(cursor: Cursor, *stops: str) -> tuple[Assignment, ...]:
    """Read `a = 1, b.c = 2` up to `stops`. Raises SqlSyntaxError."""

    def read() -> Assignment:
        target = column_path(cursor)
        if cursor.take_one(*_EQUALS) is None:
            cursor.fail("=")
        return Assignment(target, expression(cursor, ",", *stops))

    return tuple(cursor.listed(read))


def version_clause(cursor: Cursor) -> int | str | None:
    """Read VERSION AS OF and a snapshot id or text; None when it does not come next. Raises SqlSyntaxError."""
    if not cursor.take("VERSION", "AS", "OF"):
        return None
    return version(cursor)


def version(cursor: Cursor) -> int | str:
    """Read a version: the id of a snapshot, or text in quotes. Raises SqlSyntaxError."""
    return cursor.text() if cursor.at_text else cursor.whole_number("the id of a snapshot, or a version in quotes")


def properties(cursor: Cursor) -> dict[str, str]:
    """Read `('key' = 'value', a.b = 1, …)` of TBLPROPERTIES and its like. Raises SqlSyntaxError."""
    found: dict[str, str] = {}

    def read() -> None:
        key = property_key(cursor)
        if key in found:
            raise SqlSyntaxError(f"property {key!r} is given twice in: {abbreviated(cursor.sql)}", sql=cursor.sql)
        cursor.take("=")
        value = _constant_text(cursor)
        found[key] = cursor.fail(f"a value of property {key!r} in quotes") if value is None else value

    cursor.parenthesised_list(read)
    return found


def property_key(cursor: Cursor, what: str = "property", *signs: str) -> str:
    """Read a key: text in quotes, or names with dots or another of `signs` between. Raises SqlSyntaxError."""
    if cursor.at_text:
        return cursor.text()
    key = cursor.identifier(f"the key of a {what}")
    while (sign := cursor.take_one(".", *signs)) is not None:
        key += sign + cursor.identifier(f"the key of a {what}")
    return key


def write_options(cursor: Cursor) -> dict[str, str]:
    """Read `('key' = 'value', a.b-c = 1)` behind INSERT INTO t WITH. Raises SqlSyntaxError."""
    found: dict[str, str] = {}

    def read() -> None:
        key = property_key(cursor, "write option", "-")
        cursor.take_one(*_EQUALS)
        value = cursor.token
        if value is None or value.keyword in (",", ")"):
            cursor.fail("a value")
        cursor.index += 1
        found[key] = value.text

    cursor.parenthesised_list(read)
    return found


def _constant_text(cursor: Cursor) -> str | None:
    """Read a text, a number, TRUE or FALSE as text; None when none of them comes next."""
    if cursor.at_text:
        return cursor.text()
    sign = "-" if cursor.take("-") else ""
    word = cursor.token
    if word is None or not (word.is_number or (not sign and word.keyword in ("TRUE", "FALSE"))):
        return None
    cursor.index += 1
    return sign + word.text.lower()


def column_path(cursor: Cursor) -> Path:
    """Read the name of a column, or of a nested field, `a.b`. Raises SqlSyntaxError."""
    parts = [cursor.identifier("the name of a column")]
    while cursor.take("."):
        parts.append(cursor.identifier("the name of a field"))
    return tuple(parts)


def column_position(cursor: Cursor) -> Position | None:
    """Read FIRST or AFTER a column; None when neither comes next. Raises SqlSyntaxError."""
    if cursor.take("FIRST"):
        return First()
    if cursor.take("AFTER"):
        return After(cursor.identifier("the name of a column"))
    return None


def column_clause(cursor: Cursor) -> ColumnClause:
    """Read `path TYPE [NOT NULL] [DEFAULT …] [COMMENT '…'] [FIRST | AFTER other]`.

    Raises UnsupportedFeatureError: a type or clause that Paimon tables do not support; else as `row_type`.
    """
    path = column_path(cursor)
    cursor.take(":")
    parts: list[str] = []
    position: Position | None = None
    while True:
        stops = (",", ")", "FIRST", "AFTER", "GENERATED", "PRIMARY", "UNIQUE", "CHECK", "CONSTRAINT")
        parts.append(cursor.until(*stops, of_types=True))
        found = column_position(cursor)
        if found is None:
            break
        position = found
    _refuse_column_clauses(cursor, path)
    definition = " ".join(p for p in parts if p)
    if not definition:
        cursor.fail(f"the type of column {path[-1]}")
    fields = row_type(f"{quoted(path[-1])} {definition}").fields
    return ColumnClause(path, fields[0], position)


def _refuse_column_clauses(cursor: Cursor, path: Path) -> None:
    if cursor.at("GENERATED"):
        unsupported(cursor, "generated columns", f"compute {path[-1]} in the query that writes")
    if cursor.at("PRIMARY", "KEY"):
        instead = f"the key is a property, TBLPROPERTIES ('primary-key' = '{path[-1]}')"
        unsupported(cursor, "PRIMARY KEY clause", instead)
    kind = cursor.take_one("UNIQUE", "CHECK", "CONSTRAINT")
    if kind is not None:
        unsupported(cursor, *constraint_advice("CHECK" if cursor.until(",").upper().find("CHECK") >= 0 else kind))


def partition_spec(cursor: Cursor) -> PartitionSpec:
    """Read `PARTITION (a = 1, b = 'x')` with constants. Raises SqlSyntaxError."""
    cursor.expect("PARTITION")
    return _partition(cursor, lambda: _partition_constant(cursor))


def partition_specs(cursor: Cursor) -> tuple[PartitionSpec, ...]:
    """Read one PARTITION (…) or several, with commas or nothing between. Raises SqlSyntaxError."""
    found = [partition_spec(cursor)]
    while cursor.take(",") or cursor.at("PARTITION"):
        found.append(partition_spec(cursor))
    return tuple(found)


def _partition_constant(cursor: Cursor) -> str | None:
    if cursor.take_one(*_EQUALS) is None:
        cursor.fail("'=' and a value")
    if cursor.take("NULL"):
        return None
    following = cursor.tokens[cursor.index + 1] if cursor.index + 1 < len(cursor.tokens) else None
    if following is not None and following.is_text:
        cursor.take_one(*_TYPED_TEXTS)
    found = _constant_text(cursor)
    if found is None:
        cursor.fail("a value: text in quotes, a number, TRUE, FALSE, NULL or DATE '…'")
    return found


def partition_expressions(cursor: Cursor) -> dict[str, str | None]:
    """Read `(k = expression, k2)` behind PARTITION, of a write or SHOW. Raises SqlSyntaxError."""
    return _partition(cursor, lambda: expression(cursor, ",") if cursor.take_one(*_EQUALS) else None)


def _partition(cursor: Cursor, read_value: Callable[[], str | None]) -> dict[str, str | None]:
    """Read columns in brackets, each with what `read_value` reads behind its name."""
    found: dict[str, str | None] = {}

    def read() -> None:
        name = cursor.identifier("a column of the partition")
        if name.lower() in (n.lower() for n in found):
            cursor.fail(f"each column once, not {name} again")
        found[name] = read_value()

    cursor.parenthesised_list(read)
    return found


def complete_partition_expressions(cursor: Cursor) -> dict[str, str]:
    """As `partition_expressions`, but every column has a value. Raises SqlSyntaxError."""
    found = partition_expressions(cursor)
    missing = [name for name, value in found.items() if value is None]
    if missing:
        cursor.fail(f"a value of {missing[0]} in PARTITION (…)")
    return {name: value for name, value in found.items() if value is not None}
