"""Where the query in a statement begins, and what the statement does with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from paimon_spark.sql.brackets import outside
from paimon_spark.sql.tokens import Word

_QUERY: Final = frozenset(("SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE"))
_EXPLAIN: Final = ("EXTENDED", "CODEGEN", "COST", "FORMATTED", "LOGICAL")
_WHOLE: Final = ("DELETE", "UPDATE", "MERGE", "SET", "DECLARE")
"""Statements of Spark that hold queries in their expressions."""


class Use(Enum):
    """What a statement does with its query."""

    ROWS = "rows"
    """Spark runs the statement once, with DataFrames in it."""
    VIEW = "view"
    """CREATE TEMPORARY VIEW."""
    CACHE = "cache"
    """CACHE TABLE … AS."""
    OTHER = "other"
    """Text that Spark would keep, or that has no query: Paimon tables cannot be put in."""


@dataclass(frozen=True, slots=True)
class Head:
    """How a statement begins.

    Attributes:
        use: what it does with its query.
        body: index of the first word of what is read as SQL; the words before it name no tables that are read.
    """

    use: Use
    body: int = 0


def head_of(words: Sequence[Word], start: int = 0) -> Head:
    """How the statement of these words begins, from the word `start` on."""
    keys = [w.keyword for w in words]
    first = keys[start] if start < len(keys) else ""
    if begins_query(keys, start):
        return Head(Use.ROWS, start)
    if first == "EXPLAIN":
        at = start + 2 if start + 1 < len(keys) and keys[start + 1] in _EXPLAIN else start + 1
        inner = head_of(words, at)
        return inner if inner.use is Use.ROWS else Head(Use.OTHER, inner.body)
    if first in ("DESCRIBE", "DESC"):
        at = start + 2 if keys[start + 1 : start + 2] == ["QUERY"] else start + 1
        return Head(Use.ROWS, at) if begins_query(keys, at) and keys[at] != "TABLE" else Head(Use.OTHER, start)
    if first == "INSERT":
        return _inserted(words, keys, start)
    if first in ("CREATE", "REPLACE"):
        return _created(words, keys, start)
    if first == "CACHE":
        at = start + 2 if keys[start + 1 : start + 2] == ["LAZY"] else start + 1
        body = _after_name(words, keys, at + 1)
        return Head(Use.OTHER, start) if body is None else Head(Use.CACHE, body)
    return Head(Use.ROWS if first in _WHOLE else Use.OTHER, start)


def begins_query(keys: Sequence[str], at: int) -> bool:
    """Whether a query can begin with the word `at`."""
    while at < len(keys) and keys[at] == "(":
        at += 1
    return at < len(keys) and keys[at] in _QUERY


def _inserted(words: Sequence[Word], keys: Sequence[str], start: int) -> Head:
    """The query of an INSERT comes after the name and what belongs to it."""
    at = start + 2  # INTO, OVERWRITE
    if keys[at : at + 1] == ["TABLE"]:
        at += 1
    body = _after_name(words, keys, at)
    return Head(Use.OTHER, start) if body is None else Head(Use.ROWS, body)


def _created(words: Sequence[Word], keys: Sequence[str], start: int) -> Head:
    begin = set(keys[start : start + 6])
    is_view = "VIEW" in begin and begin & {"TEMPORARY", "TEMP"} and "TABLE" not in begin
    is_table = "TABLE" in begin and "VIEW" not in begin and "FUNCTION" not in begin
    body = next((i + 1 for i in outside(words, start) if keys[i] == "AS" and begins_query(keys, i + 1)), None)
    if body is None or not (is_view or is_table):
        return Head(Use.OTHER, start)
    return Head(Use.VIEW if is_view else Use.ROWS, body)


def _after_name(words: Sequence[Word], keys: Sequence[str], at: int) -> int | None:
    """Where a query begins after a name, which may itself be called as a keyword; None when there is none."""
    at += 1
    while keys[at : at + 1] == ["."]:
        at += 2
    return next((i for i in outside(words, at) if begins_query(keys, i)), None)
