"""Replace parts of a statement by what they stand for, before it is parsed.

t /*+ OPTIONS('k' = 'v') */             t WITH ('k' = 'v')      Flink's hint
t#savepoints                            t$savepoints            PIP-4's name
FROM IDENTIFIER('db.' || :name)         FROM `db`.`t`
current_database(), current_catalog()   'db', 'paimon'          after USE of a database of the warehouse
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from paimon_spark.errors import SqlSyntaxError
from paimon_spark.predicate.ast import literal_text
from paimon_spark.predicate.tokens import Token
from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.literals import NO_LITERAL, evaluate, parse_literal
from paimon_spark.sql.session import Session
from paimon_spark.sql.tokens import Edit, depth_change, edited, matching_bracket, tokenize
from paimon_spark.types import quoted, quoted_if_needed

_MARKS: Final = ("/*+", "#", "identifier", "current_")
"""One of these is in every statement that has something to replace."""
_HINT: Final = re.compile(
    r"\s+|--[^\n]*|/\*(?!\+).*?\*/|/\*\+\s*OPTIONS\s*(?P<options>\(.*?\))\s*\*/|.", re.IGNORECASE | re.DOTALL
)
_SETTING: Final = re.compile(
    r"(\s*(?:RE)?SET\s+)(spark\.paimon\.[^\s=`;]*[^\s=`;\w.][^\s=`;]*)((?:\s*=.*)?)", re.IGNORECASE | re.DOTALL
)
_IDENTIFIER: Final = "IDENTIFIER"
_READING: Final = frozenset(("FROM", "JOIN", "USING"))
_BEFORE_NAME: Final = _READING | {
    "TABLE", "INTO", "OVERWRITE", "UPDATE", "EXISTS", "DESCRIBE", "DESC", "EXTENDED", "FORMATTED", "USE", "DATABASE",
    "SCHEMA", "NAMESPACE", "IN", "LIKE", "TO",
}  # fmt: skip
"""Keywords before the name of a table or database."""
_CURRENT_CATALOG: Final = "CURRENT_CATALOG"
_CURRENT: Final = ("CURRENT_DATABASE", "CURRENT_SCHEMA", _CURRENT_CATALOG)
_AFTER_ITEM: Final = frozenset(
    ("", ",", ")", ";", "|>", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "EXCEPT", "INTERSECT")
)
"""What may follow an expression of SELECT that has no alias."""


def substituted(session: Session, sql: str) -> tuple[Session, str]:
    """The statement with its replacements, and the session without the parameters that they used up.

    Raises SqlSyntaxError: IDENTIFIER has no name, or a quote does not end.
    """
    lowered = sql.lower()
    if not any(mark in lowered for mark in _MARKS):
        return session, sql
    tokens = tokenize(sql)
    names = list(_identifiers(session, sql, tokens))
    edits = [*flink_hints(sql, tokens), *savepoint_names(tokens), *_current_names(session, sql, tokens)]
    edits = [e for e in edits if not any(n.start <= e.start < n.end for n in names)]
    return _without_used(session, tokens, names), edited(sql, [*edits, *names])


def with_quoted_setting(sql: str) -> str:
    """SET or RESET of a key `spark.paimon.…` in quotes, as Spark takes `-` and `*` in a key only in quotes."""
    found = _SETTING.fullmatch(sql)
    return sql if found is None else f"{found[1]}{quoted(found[2])}{found[3]}"


def flink_hints(sql: str, tokens: Sequence[Token]) -> Iterator[Edit]:
    """Flink's OPTIONS hints, which the tokenizer takes for comments unless they follow SELECT."""
    if "/*+" not in sql:
        return
    places = [(before.end, after.start) for before, after in pairwise(tokens)]
    if tokens:
        places.append((tokens[-1].end, len(sql)))
    for start, end in places:
        for found in _HINT.finditer(sql, start, end):
            if found["options"]:
                yield Edit(*found.span(), f" WITH {found['options']} ")


def savepoint_names(tokens: Sequence[Token]) -> Iterator[Edit]:
    """PIP-4's names of the system table `savepoints`."""
    for before, sign, name in zip(tokens, tokens[1:], tokens[2:], strict=False):
        is_suffix = before.end == sign.start and sign.end == name.start and before.is_name
        if sign.keyword == "#" and name.keyword == "SAVEPOINTS" and is_suffix:
            yield Edit(sign.start, sign.end, "$")


def _current_names(session: Session, sql: str, tokens: Sequence[Token]) -> Iterator[Edit]:
    """Calls of `current_database()` and its like; before USE they are Spark's."""
    if session.used_database is None:
        return
    for i, token in enumerate(tokens[:-2]):
        is_call = token.keyword in _CURRENT and [t.keyword for t in tokens[i + 1 : i + 3]] == ["(", ")"]
        if not is_call or (i and tokens[i - 1].keyword == "."):
            continue
        value, called = session.catalog_name, token.text.lower()
        if token.keyword != _CURRENT_CATALOG:
            value, called = session.used_database, "current_schema" if session.is_attached else called
            value = quoted_if_needed(value) if session.is_attached else value  # as Spark shows it
        alias = f" AS {quoted(called + '()')}" if _is_select_item(tokens, i, i + 3) else ""
        yield Edit(token.start, tokens[i + 2].end, literal_text(value) + alias)


def _is_select_item(tokens: Sequence[Token], first: int, after: int) -> bool:
    """Whether these tokens are a whole expression of SELECT, without an alias."""
    if (tokens[after].keyword if after < len(tokens) else "") not in _AFTER_ITEM:
        return False
    if tokens[first - 1].keyword not in (",", "SELECT", "DISTINCT", "ALL"):
        return False
    depth = 0
    for token in reversed(tokens[:first]):
        depth -= depth_change(token)
        if depth < 0 or (depth == 0 and token.keyword in ("BY", "FROM")):
            return False
        if depth == 0 and token.keyword == "SELECT":
            return True
    return False


def _identifiers(session: Session, sql: str, tokens: Sequence[Token]) -> Iterator[Edit]:
    """IDENTIFIER(…) in place of the name of a table or database."""
    for i in range(1, len(tokens) - 1):
        if tokens[i].keyword != _IDENTIFIER or tokens[i + 1].keyword != "(":
            continue
        end = matching_bracket(tokens, i + 1)
        if end is None or not _is_table_place(tokens, i, end):
            continue
        place = tokens[i].start, tokens[end].end
        text = sql[tokens[i + 1].end : tokens[end].start]
        yield Edit(*place, ".".join(map(quoted, _parts(_with_parameters_of(session, tokens, i, end), text))))


def _is_table_place(tokens: Sequence[Token], first: int, last: int) -> bool:
    before = tokens[first - 1].keyword
    following = tokens[last + 1].keyword if last + 1 < len(tokens) else ""
    if before == ",":
        return _is_of_a_from(tokens, first) and following != "("
    return before in _BEFORE_NAME and not (before in _READING and following == "(")  # a table function


def _is_of_a_from(tokens: Sequence[Token], first: int) -> bool:
    """Whether the list with this token is that of FROM."""
    depth = 0
    for token in reversed(tokens[:first]):
        depth -= depth_change(token)
        if depth < 0 or (depth == 0 and token.keyword in ("SELECT", "BY", "WHERE", "SET", "VALUES")):
            return False
        if depth == 0 and token.keyword == "FROM":
            return True
    return False


def _with_parameters_of(session: Session, tokens: Sequence[Token], first: int, last: int) -> Session:
    """The session with the parameters by position between two tokens only."""
    if session.args is None or isinstance(session.args, Mapping):
        return session
    before, inside = (sum(t.keyword == "?" for t in part) for part in (tokens[:first], tokens[first:last]))
    return replace(session, args=session.args[before : before + inside] or None)


def _parts(session: Session, text: str) -> tuple[str, ...]:
    """The name that IDENTIFIER(text) computes."""
    value: object = parse_literal(text) if text.strip() else None
    if text.strip() == "?":
        value = None if isinstance(session.args, Mapping | None) else session.args[0]
    elif value is NO_LITERAL:
        inner_session, inner = substituted(session, text)
        value = evaluate(inner_session, [inner])[0]
    if not isinstance(value, str) or not value.strip():
        found = "NULL" if value is None else repr(value)
        raise SqlSyntaxError(f"IDENTIFIER({text.strip()}) is {found}; give the name as text: IDENTIFIER('db.t')")
    cursor = Cursor(edited(value, savepoint_names(tokenize(value))))
    parts = cursor.name("a name")
    cursor.end()
    return parts


def _without_used(session: Session, tokens: Sequence[Token], names: Sequence[Edit]) -> Session:
    """The session without the parameters by position that were names."""
    if session.args is None or isinstance(session.args, Mapping):
        return session
    places = [t.start for t in tokens if t.keyword == "?"]
    left = [
        value
        for n, value in enumerate(session.args)
        if n >= len(places) or not any(e.start <= places[n] < e.end for e in names)
    ]
    return replace(session, args=left or None) if len(left) < len(session.args) else session
