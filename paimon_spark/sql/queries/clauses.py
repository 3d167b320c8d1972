"""Find Paimon's extensions to queries: versions and options after names, unquoted `$`.

Applies to all names; which tables are Paimon's is decided later, and the text of the others stays as written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from paimon_spark.errors import SqlSyntaxError
from paimon_spark.predicate.tokens import Token
from paimon_spark.sql.tokens import abbreviated, depth_change

_VERSION: Final = ("VERSION", "SYSTEM_VERSION")
_TIMESTAMP: Final = ("TIMESTAMP", "SYSTEM_TIME")
_BEFORE_NO_VERSION: Final = frozenset(
    (
        "SELECT", "DISTINCT", "ALL", "BY", "WHERE", "ON", "AND", "OR", "NOT", "HAVING", "FROM", "JOIN",
        "WHEN", "THEN", "ELSE", "CASE", "IN", "AS", "SET", "VALUES", "IS",
    )
)  # fmt: skip
"""After these, `version as of` is a column `version` with the alias `of`, not a version."""
_AFTER_TABLE: Final = frozenset(
    (
        "AS", "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "OFFSET", "JOIN", "INNER", "LEFT", "RIGHT",
        "FULL", "OUTER", "CROSS", "NATURAL", "SEMI", "ANTI", "ON", "USING", "UNION", "EXCEPT", "MINUS",
        "INTERSECT", "LATERAL", "PIVOT", "UNPIVOT", "TABLESAMPLE", "WINDOW", "QUALIFY", "CLUSTER",
        "DISTRIBUTE", "SORT", "WITH", "SELECT", "WHEN", "INSERT", "|>", ",", ";", ")",
    )
)  # fmt: skip
"""Keywords that end the expression of a timestamp."""
_ENDS_VALUE: Final = frozenset(")]")


@dataclass(frozen=True, slots=True)
class VersionClause:
    """A version after the name of a table, and its position in the text.

    The value is a literal or an unquoted version as in PIP-14; None for another expression. A parameter by position is
    called `?`.
    """

    start: int
    end: int
    is_timestamp: bool
    value: str | None
    expression: str
    parameter: str | None = None


@dataclass(frozen=True, slots=True)
class OptionClause:
    """Options after the name of a table: `WITH ('k' = 'v')`."""

    start: int
    end: int
    options: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class DollarName:
    """A part of a name with unquoted `$`."""

    start: int
    end: int
    text: str


def version_clauses(
    sql: str, tokens: Sequence[Token], options: Sequence[OptionClause] = ()
) -> tuple[VersionClause, ...]:
    """The versions after names of tables, or after their options. Raises SqlSyntaxError: AS OF has no value."""
    ends = {o.end for o in options}
    return tuple(found for i in range(1, len(tokens)) if (found := _version_clause(sql, tokens, i, ends)) is not None)


def option_clauses(tokens: Sequence[Token]) -> tuple[OptionClause, ...]:
    """The options after names of tables; other syntax is left to Spark."""
    return tuple(found for i in range(1, len(tokens)) if (found := _option_clause(tokens, i)) is not None)


def dollar_names(tokens: Sequence[Token]) -> Iterator[DollarName]:
    """Parts of names with unquoted `$`: `t$branch_x$files`."""
    i = 0
    while i < len(tokens):
        end = i
        while (
            end + 2 < len(tokens) and tokens[i].is_name and tokens[end + 1].keyword == "$" and tokens[end + 2].is_name
        ):
            if tokens[end].end != tokens[end + 1].start or tokens[end + 1].end != tokens[end + 2].start:
                break
            end += 2
        if end > i:
            yield DollarName(tokens[i].start, tokens[end].end, "".join(w.text for w in tokens[i : end + 1]))
        i = end + 1


def _version_clause(sql: str, tokens: Sequence[Token], at: int, option_ends: Collection[int]) -> VersionClause | None:
    """The version clause that begins at index `at`, if one does; `option_ends` are positions after options."""
    i = at
    if tokens[i].keyword == "FOR":
        i += 1
    elif tokens[i - 1].keyword == "FOR":
        return None  # found one token earlier
    if i + 3 >= len(tokens) or tokens[i].keyword not in (*_VERSION, *_TIMESTAMP):
        return None
    before = tokens[at - 1]
    if tokens[i + 1].keyword != "AS" or tokens[i + 2].keyword != "OF":
        return None
    if not before.is_name and before.end not in option_ends:
        return None
    if before.keyword in _BEFORE_NO_VERSION or tokens[i + 3].keyword in ("FROM", *_AFTER_TABLE):
        return None
    is_timestamp = tokens[i].keyword in _TIMESTAMP
    first = i + 3
    last = _expression_end(tokens, first) if is_timestamp else _version_end(sql, tokens, first)
    text = sql[tokens[first].start : tokens[last - 1].end]
    value, parameter = None, None
    if last - first == 1 and (tokens[first].is_text or tokens[first].is_number):
        value = tokens[first].text
    elif tokens[first].keyword == "?" and last - first == 1:
        parameter = "?"
    elif tokens[first].keyword == ":" and last - first == 2:
        parameter = tokens[first + 1].text
    elif not is_timestamp:
        value = "".join(w.text for w in tokens[first:last])
    return VersionClause(tokens[at].start, tokens[last - 1].end, is_timestamp, value, text, parameter)


def _version_end(sql: str, tokens: Sequence[Token], first: int) -> int:
    """The index after a version: all tokens without blanks between, as in `fix.v1` and `tag-name.x`."""
    token = tokens[first]
    end = first + 1
    if token.is_text or token.keyword == "?":
        return end
    if token.keyword == ":":
        return min(end + 1, len(tokens))
    if not (token.is_name or token.is_number):
        raise SqlSyntaxError(
            f"expected a version after AS OF, found {sql[token.start : token.end]!r} at position {token.start + 1} of: "
            f"{abbreviated(sql)}; a version is a tag, a snapshot id, <branch>.<version> or text in quotes",
            sql=sql,
        )
    while end < len(tokens) and tokens[end].start == tokens[end - 1].end:
        following = tokens[end]
        if not (following.is_name or following.is_number or following.keyword in (".", "-", "$", "/", ":", "+", "#")):
            break
        end += 1
    return end


def _expression_end(tokens: Sequence[Token], first: int) -> int:
    """The index after a timestamp expression: before what can follow a table, such as its alias."""
    end, depth, in_interval = first, 0, False
    while end < len(tokens):
        token = tokens[end]
        if depth == 0 and end > first:
            if token.keyword in _AFTER_TABLE:
                break
            before = tokens[end - 1]
            ends_value = before.is_text or before.is_number or before.is_name or before.keyword in _ENDS_VALUE
            if token.is_name and not in_interval and not token.is_number and ends_value:
                break  # the alias, without AS
        depth += depth_change(token)
        if depth < 0:
            break
        if depth == 0:
            # The unit of an interval is a name after a value, and no alias.
            in_interval = token.keyword == "INTERVAL" or (in_interval and _is_of_interval(tokens, end))
        end += 1
    return end


def _is_of_interval(tokens: Sequence[Token], at: int) -> bool:
    """Whether the interval may continue after this token."""
    token, before = tokens[at], tokens[at - 1]
    if token.is_text or token.is_number or token.keyword in ("-", "+", "TO"):
        return True
    if before.keyword == "TO":
        return False
    follows = tokens[at + 1] if at + 1 < len(tokens) else None
    return follows is not None and (follows.is_number or follows.is_text or follows.keyword == "TO")


def _option_clause(tokens: Sequence[Token], at: int) -> OptionClause | None:
    """The options `WITH ('k' = 'v', …)` that begin at index `at`, if they do."""
    if tokens[at].keyword != "WITH" or at + 4 >= len(tokens) or tokens[at + 1].keyword != "(":
        return None
    before = tokens[at - 1]
    if not (before.is_name or before.is_text or before.is_number) or before.keyword in _BEFORE_NO_VERSION:
        return None
    found: list[tuple[str, str]] = []
    i = at + 2
    while True:
        key = ""
        while i < len(tokens) and (tokens[i].is_name or tokens[i].is_text or tokens[i].keyword in (".", "-")):
            key += tokens[i].text
            i += 1
        if not key or i + 2 >= len(tokens) or tokens[i].keyword != "=":
            return None
        value = tokens[i + 1]
        if not (value.is_text or value.is_number or value.keyword in ("TRUE", "FALSE")):
            return None
        found.append((key, value.text))
        i += 3
        if tokens[i - 1].keyword == ")":
            return OptionClause(tokens[at].start, tokens[i - 1].end, tuple(found))
        if tokens[i - 1].keyword != ",":
            return None
