"""Values of literals in statements, and of other constant expressions by Spark.

Parsed from tokens, as sqlglot reads `'it''s'` as two texts and keeps no text of timestamps.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Final, TypeAlias

from paimon_spark.errors import SqlSyntaxError
from paimon_spark.predicate.tokens import Token
from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.tokens import abbreviated, tokenize

if TYPE_CHECKING:
    from paimon_spark.sql.session import Session

Value: TypeAlias = object
"""None, bool, int, float, Decimal, str, or a mapping of such; as evaluated by Spark also date, datetime, bytes."""


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
NO_LITERAL: Final = object()
"""Stands for the value of an expression that only Spark can evaluate."""
_CONSTANTS: Final = {"NULL": None, "TRUE": True, "FALSE": False}
_NUMBER: Final = re.compile(r"(-?(?:\d+\.?\d*|\.\d+))(E[+-]?\d+)?(L|S|Y|F|D|BD)?", re.ASCII)
_TYPED_TEXTS: Final = ("TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "DATE")


def split_arguments(sql: str) -> list[str]:
    """Split `sql` at the commas outside brackets; a blank text has no arguments. Raises SqlSyntaxError."""
    cursor = Cursor(sql)
    out: list[str] = []
    while not cursor.at_end:
        out.append(cursor.until(","))
        if not out[-1] or (cursor.take(",") and cursor.at_end):
            cursor.fail("a value")
    return out


def evaluate(session: Session, texts: Sequence[str]) -> list[Value]:
    """The values of expressions without columns: literals are parsed here, the others evaluated by one Spark query.

    Of a TIMESTAMP it is a datetime in UTC, of a TIMESTAMP_NTZ one without a zone.

    Raises SqlSyntaxError: a text is blank. An expression that is wrong or names columns raises Spark's own errors.
    """
    found: list[Value] = [parse_literal(text) for text in texts]
    others = [i for i, value in enumerate(found) if value is NO_LITERAL]
    if others:
        frame = session.run("SELECT " + ", ".join(f"{texts[i]} AS v{i}" for i in others))
        instants = {field.name for field in frame.schema if field.dataType.typeName() == "timestamp"}
        # `collect` gives wall clocks of the machine, where an hour of autumn is there twice.
        if instants:
            frame = frame.selectExpr(*(f"unix_micros({n}) AS {n}" if n in instants else n for n in frame.columns))
        for i, name, value in zip(others, frame.columns, frame.collect()[0], strict=True):
            is_instant = name in instants and value is not None
            found[i] = _EPOCH + timedelta(microseconds=value) if is_instant else value
    return found


def parse_literal(text: str) -> Value:
    """The value of a literal: text, number, NULL, TRUE, FALSE, `TIMESTAMP '…'`, or `map(…)` of such; else NO_LITERAL.

    Timestamps and dates stay text, which is read in the session's zone when it names none.

    Raises SqlSyntaxError: blank, or a quote does not end.
    """
    tokens = tokenize(text)
    if not tokens:
        raise SqlSyntaxError(f"a value is missing in: {abbreviated(text)}", sql=text)
    if all(t.is_text for t in tokens):
        return "".join(t.text for t in tokens)
    match [t.keyword for t in tokens]:
        case [word] if word in _CONSTANTS:
            return _CONSTANTS[word]
        case [word, ""] if word in _TYPED_TEXTS and tokens[1].is_text:
            return tokens[1].text
        case ["MAP", "(", *_, ")"]:
            return _mapping(text, tokens)
    compact = "".join(text[t.start : t.end] for t in tokens).upper()
    number = _NUMBER.fullmatch(compact)
    return NO_LITERAL if number is None else _number(number)


def _number(match: re.Match[str]) -> Value:
    digits, exponent, suffix = match[1], match[2] or "", match[3] or ""
    if suffix in ("F", "D") or (exponent and suffix != "BD"):
        return float(digits + exponent)
    whole = digits.removeprefix("-").isdigit() and not exponent
    return int(digits) if whole and suffix != "BD" else Decimal(digits + exponent)


def _mapping(text: str, tokens: Sequence[Token]) -> Value:
    parts = [parse_literal(part) for part in split_arguments(text[tokens[1].end : tokens[-1].start])]
    if len(parts) % 2 or any(p is NO_LITERAL for p in parts):
        return NO_LITERAL
    return dict(zip(parts[::2], parts[1::2], strict=True))
