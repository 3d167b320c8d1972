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
from paimon_spark.sql.tokens import change
from paimon_spark.sql.tokens import Word, shown

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


def versions(sql: str, words: Sequence[Word]) -> tuple[Version, ...]:
    """The versions after names of tables.

    Raises:
        SqlSyntaxError: there is no value after `AS OF`.
    """
    return tuple(found for i in range(1, len(words)) if (found := _version(sql, words, i)) is not None)


def settings(words: Sequence[Word]) -> tuple[Settings, ...]:
    """Options after names of tables. What is written otherwise is left to Spark."""
    return tuple(found for i in range(1, len(words)) if (found := _settings(words, i)) is not None)


def dollars(words: Sequence[Word]) -> Iterator[Dollars]:
    """Parts of names with unquoted `$`: `t$branch_x$files`."""
    i = 0
    while i < len(words):
        end = i
        while end + 2 < len(words) and words[i].is_name and words[end + 1].keyword == "$" and words[end + 2].is_name:
            if words[end].end != words[end + 1].start or words[end + 1].end != words[end + 2].start:
                break
            end += 2
        if end > i:
            yield Dollars(words[i].start, words[end].end, "".join(w.text for w in words[i : end + 1]))
        i = end + 1


def _version(sql: str, words: Sequence[Word], at: int) -> Version | None:
    """The version whose clause begins with the word `at`, if one does."""
    i = at
    if words[i].keyword == "FOR":
        i += 1
    elif words[i - 1].keyword == "FOR":
        return None  # found one word earlier
    if i + 3 >= len(words) or words[i].keyword not in (*_VERSION, *_TIMESTAMP):
        return None
    before = words[at - 1]
    if words[i + 1].keyword != "AS" or words[i + 2].keyword != "OF" or not before.is_name:
        return None
    if before.keyword in _BEFORE_NO_VERSION or words[i + 3].keyword in ("FROM", *_AFTER_TABLE):
        return None
    is_timestamp = words[i].keyword in _TIMESTAMP
    first = i + 3
    last = _expression_end(words, first) if is_timestamp else _version_end(sql, words, first)
    text = sql[words[first].start : words[last - 1].end]
    value, parameter = None, None
    if last - first == 1 and (words[first].is_text or words[first].is_number):
        value = words[first].text
    elif words[first].keyword == "?" and last - first == 1:
        parameter = "?"
    elif words[first].keyword == ":" and last - first == 2:
        parameter = words[first + 1].text
    elif not is_timestamp:
        value = "".join(w.text for w in words[first:last])
    return Version(words[at].start, words[last - 1].end, is_timestamp, value, text, parameter)


def _version_end(sql: str, words: Sequence[Word], first: int) -> int:
    """After the last word of a version: all that is written together, as `fix.v1` and `tag-name.x` are."""
    word = words[first]
    end = first + 1
    if word.is_text or word.keyword == "?":
        return end
    if word.keyword == ":":
        return min(end + 1, len(words))
    if not (word.is_name or word.is_number):
        raise SqlSyntaxError(
            f"expected a version after AS OF, found {sql[word.start : word.end]!r} at character {word.start + 1} of: "
            f"{shown(sql)}; a version is a tag, a snapshot id, <branch>.<version> or text in quotes",
            sql=sql,
        )
    while end < len(words) and words[end].start == words[end - 1].end:
        following = words[end]
        if not (following.is_name or following.is_number or following.keyword in (".", "-", "$", "/", ":", "+", "#")):
            break
        end += 1
    return end


def _expression_end(words: Sequence[Word], first: int) -> int:
    """After the last word of a timestamp's expression: before what can follow a table, such as its alias."""
    end, depth, in_interval = first, 0, False
    while end < len(words):
        word = words[end]
        if depth == 0 and end > first:
            if word.keyword in _AFTER_TABLE:
                break
            if word.is_name and not in_interval and not word.is_number and _ends_value(words[end - 1]):
                break  # the alias, without AS
        depth += change(word)
        if depth < 0:
            break
        if depth == 0:
            # The unit of an interval is a name after a value, and no alias.
            in_interval = word.keyword == "INTERVAL" or (in_interval and _is_of_interval(words, end))
        end += 1
    return end


def _is_of_interval(words: Sequence[Word], at: int) -> bool:
    """Whether after this word of an interval another one of it may follow."""
    word, before = words[at], words[at - 1]
    if word.is_text or word.is_number or word.keyword in ("-", "+", "TO"):
        return True
    if before.keyword == "TO":
        return False
    follows = words[at + 1] if at + 1 < len(words) else None
    return follows is not None and (follows.is_number or follows.is_text or follows.keyword == "TO")


def _ends_value(word: Word) -> bool:
    return word.is_text or word.is_number or word.is_name or word.keyword in _ENDS_VALUE


def _settings(words: Sequence[Word], at: int) -> Settings | None:
    """The options that begin with the word `at`, if they do: `WITH ('k' = 'v', …)`."""
    if words[at].keyword != "WITH" or at + 4 >= len(words) or words[at + 1].keyword != "(":
        return None
    before = words[at - 1]
    if not (before.is_name or before.is_text or before.is_number) or before.keyword in _BEFORE_NO_VERSION:
        return None
    found: list[tuple[str, str]] = []
    i = at + 2
    while True:
        key = ""
        while i < len(words) and (words[i].is_name or words[i].is_text or words[i].keyword in (".", "-")):
            key += words[i].text
            i += 1
        if not key or i + 2 >= len(words) or words[i].keyword != "=":
            return None
        value = words[i + 1]
        if not (value.is_text or value.is_number or value.keyword in ("TRUE", "FALSE")):
            return None
        found.append((key, value.text))
        i += 3
        if words[i - 1].keyword == ")":
            return Settings(words[at].start, words[i - 1].end, tuple(found))
        if words[i - 1].keyword != ",":
            return None
