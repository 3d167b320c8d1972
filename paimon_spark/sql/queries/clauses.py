"""What Spark's grammar lacks, or has no use for, in the text of a statement: → where it stands, and what it says.

In: the words of a statement. Out: versions after names (`VERSION AS OF …`), options (`WITH ('k' = 'v')`), and names
with unquoted `$`. Nothing here knows which tables are Paimon's: that is decided later, and the text of the others
stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from paimon_spark.errors import SqlSyntaxError
from paimon_spark.sql.tokens import Token, abbreviated, depth_change

_VERSION: Final = ("VERSION", "SYSTEM_VERSION")
_TIMESTAMP: Final = ("TIMESTAMP", "SYSTEM_TIME")
_BEFORE_NO_VERSION: Final = frozenset(
    (
        "SELECT", "DISTINCT", "ALL", "BY", "WHERE", "ON", "AND", "OR", "NOT", "HAVING", "FROM", "JOIN",
        "WHEN", "THEN", "ELSE", "CASE", "IN", "AS", "SET", "VALUES", "IS",
    )
)  # fmt: skip
"""After these `version as of` is a column called `version` with the alias `of`, not a version."""
_AFTER_TABLE: Final = frozenset(
    (
        "AS", "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "OFFSET", "JOIN", "INNER", "LEFT", "RIGHT",
        "FULL", "OUTER", "CROSS", "NATURAL", "SEMI", "ANTI", "ON", "USING", "UNION", "EXCEPT", "MINUS",
        "INTERSECT", "LATERAL", "PIVOT", "UNPIVOT", "TABLESAMPLE", "WINDOW", "QUALIFY", "CLUSTER",
        "DISTRIBUTE", "SORT", "WITH", "SELECT", "WHEN", "INSERT", "|>", ",", ";", ")",
    )
)  # fmt: skip
"""Words that end the expression of a timestamp."""
_ENDS_VALUE: Final = frozenset(")]")


@dataclass(frozen=True, slots=True)
class Version:
    """A version after the name of a table.

    Attributes:
        start: of the clause in the text.
        end: after it.
        is_timestamp: `TIMESTAMP AS OF`.
        value: a literal or PIP-14's words, as text; None when it is another expression.
        expression: the text of the value.
        parameter: the name of the parameter that it is, `?` for one by position.
    """

    start: int
    end: int
    is_timestamp: bool
    value: str | None
    expression: str
    parameter: str | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """Options after the name of a table: `WITH ('k' = 'v')`."""

    start: int
    end: int
    options: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Dollars:
    """A part of a name that holds unquoted `$`."""

    start: int
    end: int
    text: str


def versions(sql: str, tokens: Sequence[Token]) -> tuple[Version, ...]:
    """The versions after names of tables.

    Raises:
        SqlSyntaxError: there is no value after `AS OF`.
    """
    return tuple(found for i in range(1, len(tokens)) if (found := _version(sql, tokens, i)) is not None)


def settings(tokens: Sequence[Token]) -> tuple[Settings, ...]:
    """Options after names of tables. What is written otherwise is left to Spark."""
    return tuple(found for i in range(1, len(tokens)) if (found := _settings(tokens, i)) is not None)


def dollars(tokens: Sequence[Token]) -> Iterator[Dollars]:
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
            yield Dollars(tokens[i].start, tokens[end].end, "".join(w.text for w in tokens[i : end + 1]))
        i = end + 1


def _version(sql: str, tokens: Sequence[Token], at: int) -> Version | None:
    """The version whose clause begins with the word `at`, if one does."""
    i = at
    if tokens[i].keyword == "FOR":
        i += 1
    elif tokens[i - 1].keyword == "FOR":
        return None  # found one word earlier
    if i + 3 >= len(tokens) or tokens[i].keyword not in (*_VERSION, *_TIMESTAMP):
        return None
    before = tokens[at - 1]
    if tokens[i + 1].keyword != "AS" or tokens[i + 2].keyword != "OF" or not before.is_name:
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
    return Version(tokens[at].start, tokens[last - 1].end, is_timestamp, value, text, parameter)


def _version_end(sql: str, tokens: Sequence[Token], first: int) -> int:
    """After the last word of a version: all that is written together, as `fix.v1` and `tag-name.x` are."""
    word = tokens[first]
    end = first + 1
    if word.is_text or word.keyword == "?":
        return end
    if word.keyword == ":":
        return min(end + 1, len(tokens))
    if not (word.is_name or word.is_number):
        raise SqlSyntaxError(
            f"expected a version after AS OF, found {sql[word.start : word.end]!r} at position {word.start + 1} of: "
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
    """After the last word of a timestamp's expression: before what can follow a table, such as its alias."""
    end, depth, in_interval = first, 0, False
    while end < len(tokens):
        word = tokens[end]
        if depth == 0 and end > first:
            if word.keyword in _AFTER_TABLE:
                break
            if word.is_name and not in_interval and not word.is_number and _ends_value(tokens[end - 1]):
                break  # the alias, without AS
        depth += depth_change(word)
        if depth < 0:
            break
        if depth == 0:
            # The unit of an interval is a name after a value, and no alias.
            in_interval = word.keyword == "INTERVAL" or (in_interval and _is_of_interval(tokens, end))
        end += 1
    return end


def _is_of_interval(tokens: Sequence[Token], at: int) -> bool:
    """Whether after this word of an interval another one of it may follow."""
    word, before = tokens[at], tokens[at - 1]
    if word.is_text or word.is_number or word.keyword in ("-", "+", "TO"):
        return True
    if before.keyword == "TO":
        return False
    follows = tokens[at + 1] if at + 1 < len(tokens) else None
    return follows is not None and (follows.is_number or follows.is_text or follows.keyword == "TO")


def _ends_value(word: Token) -> bool:
    return word.is_text or word.is_number or word.is_name or word.keyword in _ENDS_VALUE


def _settings(tokens: Sequence[Token], at: int) -> Settings | None:
    """The options that begin with the word `at`, if they do: `WITH ('k' = 'v', …)`."""
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
            return Settings(tokens[at].start, tokens[i - 1].end, tuple(found))
        if tokens[i - 1].keyword != ",":
            return None
