"""Statement → sqlglot's trees, whose identifiers have their places in the statement. No SQL is made of them.

What sqlglot does not read is first blanked, or written so that it does, each character at its place: versions after
names, `$` in names, `TABLE t`, pipes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlglot
from sqlglot import exp

from paimon_spark.sql.brackets import change
from paimon_spark.sql.queries.clauses import Dollars, Settings, Version, dollars, settings, versions
from paimon_spark.sql.queries.head import Head, Use, head_of
from paimon_spark.sql.tokens import Word, words

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
        words: its words.
        head: where its query begins.
        versions: after names.
        settings: options after names.
        dollars: parts of names with unquoted `$`.
        tables: places of `TABLE` that means `SELECT * FROM`.
        trees: of its query; None where sqlglot reads it not.
    """

    sql: str
    words: tuple[Word, ...]
    head: Head
    versions: tuple[Version, ...]
    settings: tuple[Settings, ...]
    dollars: tuple[Dollars, ...]
    tables: tuple[int, ...]
    trees: tuple[Tree, ...] | None

    @property
    def has_pipes(self) -> bool:
        return any(w.keyword == _PIPE for w in self.words)

    def name_at(self, identifier: exp.Identifier) -> str:
        """What an identifier says in the statement."""
        found = identifier.name
        return found.replace(DOLLAR, "$") if DOLLAR in found and "start" in identifier.meta else found


def read(sql: str) -> Reading:
    """Read a statement. Raises SqlSyntaxError."""
    found = words(sql)
    head = head_of(found)
    cut = versions(sql, found), settings(found), tuple(dollars(found))
    if head.use is Use.OTHER:
        return Reading(sql, found, head, *cut, (), None)
    tables = _table_words(found, head.body)
    return Reading(sql, found, head, *cut, tables, _trees(_sketch(sql, found, head, *cut, tables), found, head))


def _table_words(found: Sequence[Word], body: int) -> tuple[int, ...]:
    """Where `TABLE t` is a query."""
    out = []
    for i in range(body, len(found) - 1):
        if found[i].keyword != "TABLE" or not found[i + 1].is_name:
            continue
        if i == body or (found[i - 1].keyword in _BEFORE_TABLE and not _opens_call(found, i - 1)):
            out.append(found[i].start)
    return tuple(out)


def _opens_call(found: Sequence[Word], at: int) -> bool:
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
    found: Sequence[Word],
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


def _trees(sketch: str, found: Sequence[Word], head: Head) -> tuple[Tree, ...] | None:
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


def _pieces(sketch: str, found: Sequence[Word], head: Head) -> Iterator[str]:
    """The query, or what is between its pipes: of those after the first, the ones that can read tables."""
    depth, start, first, inside = 0, 0, True, [""]
    for word in (*found[head.body :], None):
        if word is not None and not (depth == 0 and word.keyword == _PIPE):
            depth += change(word)
            inside.append(word.keyword)
            continue
        end = len(sketch) if word is None else word.start
        if first:
            yield " " * start + sketch[start:end]
        elif any(k in _JOINING for k in inside):
            yield " " * (start - len(_PIPED)) + _PIPED + sketch[start:end]
        first, inside = False, []
        start = end if word is None else word.end
