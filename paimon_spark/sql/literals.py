"""Values written in statements: literals become Python values; what is no literal is left to Spark."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias

from paimon_spark.errors import SqlSyntaxError
from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.tokens import Word, shown, words

if TYPE_CHECKING:
    from paimon_spark.sql.session import Session

Value: TypeAlias = object
"""None, bool, int, float, Decimal, str, or a mapping of such; of Spark's answers also date, datetime, bytes."""


class Left(Enum):
    """Stands for a value that only Spark can tell."""

    TO_SPARK = "to spark"


_CONSTANTS: Final = {"NULL": None, "TRUE": True, "FALSE": False}
_NUMBER: Final = re.compile(r"(-?(?:\d+\.?\d*|\.\d+))(E[+-]?\d+)?(L|S|Y|F|D|BD)?", re.ASCII)
_TYPED_TEXTS: Final = ("TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "DATE")


def arguments_of(sql: str) -> list[str]:
    """The texts between the commas of `sql` that are in no brackets; none of a blank text. Raises SqlSyntaxError."""
    cursor = Cursor(sql)
    out: list[str] = []
    while not cursor.is_over:
        out.append(cursor.until(","))
        if not out[-1] or (cursor.take(",") and cursor.is_over):
            cursor.fail("a value")
    return out


def values_of(session: Session, texts: Sequence[str]) -> list[Value]:
    """The values of expressions that name no columns: literals are read here, the rest by one query of Spark.

    Raises:
        SqlSyntaxError: a text is none.
        Spark's own errors: an expression is wrong, or names columns.
    """
    found: list[Value] = [literal(text) for text in texts]
    left = [i for i, value in enumerate(found) if value is Left.TO_SPARK]
    if left:
        row = session.run("SELECT " + ", ".join(f"{texts[i]} AS v{i}" for i in left)).collect()[0]
        for i, value in zip(left, row, strict=True):
            found[i] = value
    return found


def literal(text: str) -> Value:
    """The value of a literal: of texts, numbers, NULL, TRUE, FALSE, `TIMESTAMP '…'` and `map(…)` of such.

    Timestamps and dates stay text, which is read in the session's zone where it says none. What is no literal gives
    `Left.TO_SPARK`.

    Raises:
        SqlSyntaxError: a quote does not end.
    """
    found = words(text)
    if not found:
        raise SqlSyntaxError(f"a value is missing in: {shown(text)}", sql=text)
    if all(w.is_text for w in found):
        return "".join(w.text for w in found)
    match [w.keyword for w in found]:
        case [word] if word in _CONSTANTS:
            return _CONSTANTS[word]
        case [word, ""] if word in _TYPED_TEXTS and found[1].is_text:
            return found[1].text
        case ["MAP", "(", *_, ")"]:
            return _mapping(text, found)
    compact = "".join(text[w.start : w.end] for w in found).upper()
    number = _NUMBER.fullmatch(compact)
    return Left.TO_SPARK if number is None else _number(number)


def _number(match: re.Match[str]) -> Value:
    digits, exponent, suffix = match[1], match[2] or "", match[3] or ""
    if suffix in ("F", "D") or (exponent and suffix != "BD"):
        return float(digits + exponent)
    whole = digits.removeprefix("-").isdigit() and not exponent
    return int(digits) if whole and suffix != "BD" else Decimal(digits + exponent)


def _mapping(text: str, found: Sequence[Word]) -> Value:
    parts = [literal(part) for part in arguments_of(text[found[1].end : found[-1].start])]
    if len(parts) % 2 or any(p is Left.TO_SPARK for p in parts):
        return Left.TO_SPARK
    return dict(zip(parts[::2], parts[1::2], strict=True))
