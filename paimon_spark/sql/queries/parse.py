"""Statement → sqlglot's trees, whose identifiers have their places in the statement. No SQL is made of them.

What sqlglot does not read is first blanked, or written so that it does, each character at its place: versions after
names, `$` in names, `TABLE t`, pipes.

Where the query in a statement begins, and what the statement does with it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import sqlglot
from sqlglot import exp

from paimon_spark.sql.queries.clauses import Dollars, Settings, Version, dollars, settings, versions
from paimon_spark.sql.tokens import Token, depth_change, outside_brackets, tokenize

DOLLAR: Final = "\u01c3"
"""Stands for `$` in what sqlglot reads: a letter that has no case, and that names hardly hold."""
_PIPE: Final = "|>"
_PIPED: Final = f"FROM {DOLLAR} "
"""What stands for the rows before a pipe."""
_BEFORE_TABLE: Final = frozenset(("(", "AS", "ALL", "DISTINCT", "UNION", "EXCEPT", "INTERSECT", "MINUS"))
_JOINING: Final = ("JOIN", "UNION", "EXCEPT", "INTERSECT", "MINUS", "FROM")

logging.getLogger("sqlglot").addHandler(logging.NullHandler())

Tree = Any
"""A node of sqlglot."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A statement as it was read.

    Attributes:
        sql: its text.
        tokens: its words.
        head: where its query begins.
        versions: after names.
        settings: options after names.
        dollars: parts of names with unquoted `$`.
        tables: places of `TABLE` that means `SELECT * FROM`.
        trees: of its query; None where sqlglot reads it not.
    """

    sql: str
    tokens: tuple[Token, ...]
    head: Head
    versions: tuple[Version, ...]
    settings: tuple[Settings, ...]
    dollars: tuple[Dollars, ...]
    tables: tuple[int, ...]
    trees: tuple[Tree, ...] | None

    @property
    def has_pipes(self) -> bool:
        return any(w.keyword == _PIPE for w in self.tokens)

    def name_at(self, identifier: exp.Identifier) -> str:
        """What an identifier says in the statement."""
        found = identifier.name
        return found.replace(DOLLAR, "$") if DOLLAR in found and "start" in identifier.meta else found


def read(sql: str) -> Reading:
    """Read a statement. Raises SqlSyntaxError."""
    found = tokenize(sql)
    head = head_of(found)
    cut = versions(sql, found), settings(found), tuple(dollars(found))
    if head.use is Use.OTHER:
        return Reading(sql, found, head, *cut, (), None)
    tables = _table_words(found, head.body)
    return Reading(sql, found, head, *cut, tables, _trees(_sketch(sql, found, head, *cut, tables), found, head))


def _table_words(found: Sequence[Token], body: int) -> tuple[int, ...]:
    """Where `TABLE t` is a query."""
    out = []
    for i in range(body, len(found) - 1):
        if found[i].keyword != "TABLE" or not found[i + 1].is_name:
            continue
        if i == body or (found[i - 1].keyword in _BEFORE_TABLE and not _opens_call(found, i - 1)):
            out.append(found[i].start)
    return tuple(out)


def _opens_call(found: Sequence[Token], at: int) -> bool:
    """Whether the word `at` is the bracket of a function's arguments."""
    if found[at].keyword != "(" or at == 0:
        return False
    before = found[at - 1]
    return before.is_name and before.keyword not in (
        "IN", "EXISTS", "AS", "FROM", "JOIN", "LATERAL", "UNION", "ALL", "EXCEPT", "INTERSECT", "MINUS", "DISTINCT",
        "AND", "OR", "NOT", "SELECT", "WHERE", "ON", "USING", "INTO", "ANY", "SOME",
    )  # fmt: skip


def _sketch(
    sql: str,
    found: Sequence[Token],
    head: Head,
    cut_versions: Sequence[Version],
    cut_settings: Sequence[Settings],
    cut_dollars: Sequence[Dollars],
    tables: Sequence[int],
) -> str:
    """The statement for sqlglot: of the same length, so that places are the same."""
    out = list(sql)
    begin = found[head.body].start if head.body < len(found) else 0
    blank = [(0, begin), *((v.start, v.end) for v in cut_versions), *((s.start, s.end) for s in cut_settings)]
    if found and found[-1].keyword == ";":
        blank.append((found[-1].start, found[-1].end))
    for start, end in blank:
        out[start:end] = " " * (end - start)
    for dollar in cut_dollars:
        for i in range(dollar.start, dollar.end):
            if out[i] == "$":
                out[i] = DOLLAR
    for start in tables:
        out[start : start + len("TABLE")] = "FROM "
    return "".join(out)


def _trees(sketch: str, found: Sequence[Token], head: Head) -> tuple[Tree, ...] | None:
    """What sqlglot makes of a sketch; None when it cannot read all of it."""
    out: list[Tree] = []
    for piece in _pieces(sketch, found, head):
        try:
            parsed = sqlglot.parse(piece, dialect="spark", error_level=sqlglot.ErrorLevel.RAISE)
        except Exception:  # noqa: BLE001 - whatever stops it, in syntax that it does not know
            return None
        if len(parsed) != 1 or parsed[0] is None or any(True for _ in parsed[0].find_all(exp.Command)):
            return None
        out.append(parsed[0])
    return tuple(out)


def _pieces(sketch: str, found: Sequence[Token], head: Head) -> Iterator[str]:
    """The query, or what is between its pipes: of those after the first, the ones that can read tables."""
    depth, start, first, inside = 0, 0, True, [""]
    for word in (*found[head.body :], None):
        if word is not None and not (depth == 0 and word.keyword == _PIPE):
            depth += depth_change(word)
            inside.append(word.keyword)
            continue
        end = len(sketch) if word is None else word.start
        if first:
            yield " " * start + sketch[start:end]
        elif any(k in _JOINING for k in inside):
            yield " " * (start - len(_PIPED)) + _PIPED + sketch[start:end]
        first, inside = False, []
        start = end if word is None else word.end


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


def head_of(tokens: Sequence[Token], start: int = 0) -> Head:
    """How the statement of these words begins, from the word `start` on."""
    keys = [w.keyword for w in tokens]
    first = keys[start] if start < len(keys) else ""
    if begins_query(keys, start):
        return Head(Use.ROWS, start)
    if first == "EXPLAIN":
        at = start + 2 if start + 1 < len(keys) and keys[start + 1] in _EXPLAIN else start + 1
        inner = head_of(tokens, at)
        return inner if inner.use is Use.ROWS else Head(Use.OTHER, inner.body)
    if first in ("DESCRIBE", "DESC"):
        at = start + 2 if keys[start + 1 : start + 2] == ["QUERY"] else start + 1
        return Head(Use.ROWS, at) if begins_query(keys, at) and keys[at] != "TABLE" else Head(Use.OTHER, start)
    if first == "INSERT":
        return _inserted(tokens, keys, start)
    if first in ("CREATE", "REPLACE"):
        return _created(tokens, keys, start)
    if first == "CACHE":
        at = start + 2 if keys[start + 1 : start + 2] == ["LAZY"] else start + 1
        body = _after_name(tokens, keys, at + 1)
        return Head(Use.OTHER, start) if body is None else Head(Use.CACHE, body)
    return Head(Use.ROWS if first in _WHOLE else Use.OTHER, start)


def begins_query(keys: Sequence[str], at: int) -> bool:
    """Whether a query can begin with the word `at`."""
    while at < len(keys) and keys[at] == "(":
        at += 1
    return at < len(keys) and keys[at] in _QUERY


def _inserted(tokens: Sequence[Token], keys: Sequence[str], start: int) -> Head:
    """The query of an INSERT comes after the name and what belongs to it."""
    at = start + 2  # INTO, OVERWRITE
    if keys[at : at + 1] == ["TABLE"]:
        at += 1
    body = _after_name(tokens, keys, at)
    return Head(Use.OTHER, start) if body is None else Head(Use.ROWS, body)


def _created(tokens: Sequence[Token], keys: Sequence[str], start: int) -> Head:
    begin = set(keys[start : start + 6])
    is_view = "VIEW" in begin and begin & {"TEMPORARY", "TEMP"} and "TABLE" not in begin
    is_table = "TABLE" in begin and "VIEW" not in begin and "FUNCTION" not in begin
    body = next((i + 1 for i in outside_brackets(tokens, start) if keys[i] == "AS" and begins_query(keys, i + 1)), None)
    if body is None or not (is_view or is_table):
        return Head(Use.OTHER, start)
    return Head(Use.VIEW if is_view else Use.ROWS, body)


def _after_name(tokens: Sequence[Token], keys: Sequence[str], at: int) -> int | None:
    """Where a query begins after a name, which may itself be called as a keyword; None when there is none."""
    at += 1
    while keys[at : at + 1] == ["."]:
        at += 2
    return next((i for i in outside_brackets(tokens, at) if begins_query(keys, i)), None)
