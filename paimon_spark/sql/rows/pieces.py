"""Expressions and lists of them, cut out of a statement. They end at keywords that stand in no brackets and no CASE."""

from __future__ import annotations

from typing import Final

from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.grammar.write import Assignment, Name

_EQUALS: Final = ("=", "==")


def piece(cursor: Cursor, *stops: str) -> str:
    """`Cursor.until`, of an expression. Raises SqlSyntaxError: there is no text."""
    return cursor.until(*stops) or cursor.fail("an expression")


def dotted(cursor: Cursor, what: str = "the name of a column") -> Name:
    """Go past a name of several parts. Raises SqlSyntaxError."""
    parts = [cursor.identifier(what)]
    while cursor.take("."):
        parts.append(cursor.identifier(what))
    return tuple(parts)


def assignments(cursor: Cursor, *stops: str) -> tuple[Assignment, ...]:
    """Go past `a = 1, b.c = 2`, which ends at `stops`. Raises SqlSyntaxError."""
    found = []
    while True:
        target = dotted(cursor)
        if cursor.take_one(*_EQUALS) is None:
            cursor.fail("=")
        found.append(Assignment(target, piece(cursor, ",", *stops)))
        if not cursor.take(","):
            return tuple(found)


def expressions(cursor: Cursor) -> tuple[str, ...]:
    """Go past `(a + 1, b, DEFAULT)`. Raises SqlSyntaxError."""
    cursor.expect("(")
    found = [piece(cursor, ",")]
    while cursor.take(","):
        found.append(piece(cursor, ","))
    cursor.expect(")")
    return tuple(found)


def names(cursor: Cursor) -> tuple[Name, ...]:
    """Go past `(a, t.b)`. Raises SqlSyntaxError."""
    cursor.expect("(")
    found = [dotted(cursor)]
    while cursor.take(","):
        found.append(dotted(cursor))
    cursor.expect(")")
    return tuple(found)


def partition(cursor: Cursor) -> dict[str, str | None]:
    """Go past `(k = 'v', k2)`, behind PARTITION. Raises SqlSyntaxError."""
    out: dict[str, str | None] = {}
    cursor.expect("(")
    while True:
        name = cursor.identifier("a column of the partition")
        if name.lower() in (n.lower() for n in out):
            cursor.fail(f"each column once, not {name} again")
        out[name] = piece(cursor, ",") if cursor.take_one(*_EQUALS) else None
        if not cursor.take(","):
            cursor.expect(")")
            return out


def whole_partition(cursor: Cursor) -> dict[str, str]:
    """`partition`, in which every column has a value. Raises SqlSyntaxError."""
    found = partition(cursor)
    missing = [name for name, value in found.items() if value is None]
    if missing:
        cursor.fail(f"a value of {missing[0]}: PARTITION ({missing[0]} = …)")
    return {name: value for name, value in found.items() if value is not None}


def options(cursor: Cursor) -> dict[str, str]:
    """Go past `('key' = 'value', a.b = 1)`, behind WITH. Raises SqlSyntaxError."""
    out: dict[str, str] = {}
    cursor.expect("(")
    while True:
        word = cursor.word
        key = cursor.text() if word is not None and word.is_text else _option_key(cursor)
        cursor.take_one(*_EQUALS)
        value = cursor.word
        if value is None or value.keyword in (",", ")"):
            cursor.fail("a value")
        cursor.index += 1
        out[key] = value.text
        if not cursor.take(","):
            cursor.expect(")")
            return out


def _option_key(cursor: Cursor) -> str:
    parts = [cursor.identifier("the key of an option")]
    while (sign := cursor.take_one(".", "-")) is not None:
        parts += [sign, cursor.identifier("the key of an option")]
    return "".join(parts)
