"""Parse a query into sqlglot's trees, whose identifiers keep their positions in the text.

What sqlglot does not parse is first blanked or replaced by text of the same length: version clauses, options, `$` in
names, `TABLE t`, pipes. No SQL is generated from the trees.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

import sqlglot
from sqlglot import exp

from paimon_spark.predicate.tokens import Token
from paimon_spark.sql.queries.clauses import (
    DollarName,
    OptionClause,
    VersionClause,
    dollar_names,
    option_clauses,
    version_clauses,
)
from paimon_spark.sql.queries.scopes import QueryScopes, Tree, lower_names
from paimon_spark.sql.tokens import depth_change, outside_brackets, tokenize

_DOLLAR: Final = "\u01c3"
"""Replaces `$` for sqlglot: a letter without case that names hardly contain."""
_PIPE: Final = "|>"
_PIPED: Final = f"FROM {_DOLLAR} "
"""Replaces the rows before a pipe."""
_BEFORE_TABLE: Final = frozenset(("(", "AS", "ALL", "DISTINCT", "UNION", "EXCEPT", "INTERSECT", "MINUS"))
_READING: Final = ("JOIN", "UNION", "EXCEPT", "INTERSECT", "MINUS", "FROM")
_QUERY: Final = frozenset(("SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE"))
EXPLAIN_MODES: Final = ("EXTENDED", "CODEGEN", "COST", "FORMATTED", "LOGICAL")
_WHOLE: Final = ("DELETE", "UPDATE", "MERGE", "SET", "DECLARE")
"""Statements of Spark with queries in their expressions."""

logging.getLogger("sqlglot").addHandler(logging.NullHandler())


class QueryUse(Enum):
    """Use of a statement's query."""

    ROWS = "rows"
    """Spark runs the statement once, with DataFrames in it."""
    VIEW = "view"
    """CREATE TEMPORARY VIEW."""
    CACHE = "cache"
    """CACHE TABLE … AS."""
    OTHER = "other"
    """Spark would store the text, or there is no query: Paimon tables cannot be replaced."""


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A parsed statement.

    Attributes:
        sql: its text.
        tokens: of the text.
        use: what the statement does with its query.
        body: index of the first token of the query; the tokens before it name no tables that are read.
        versions: version clauses after names.
        options: option clauses after names.
        dollars: parts of names with unquoted `$`.
        tables: positions of `TABLE` that means `SELECT * FROM`.
        trees: of the query, with names in lower case; None when sqlglot cannot parse it.
        scopes: of the trees.
    """

    sql: str
    tokens: tuple[Token, ...]
    use: QueryUse
    body: int
    versions: tuple[VersionClause, ...]
    options: tuple[OptionClause, ...]
    dollars: tuple[DollarName, ...]
    tables: tuple[int, ...] = ()
    trees: tuple[Tree, ...] | None = None
    scopes: QueryScopes = field(default_factory=QueryScopes, repr=False)

    @property
    def has_pipes(self) -> bool:
        return any(t.keyword == _PIPE for t in self.tokens)


_READS: Final = (exp.Query, exp.Values)
_FIRST_OF_READS: Final = ("SELECT", "VALUES", "TABLE", "(")


def only_reads(parsed: ParsedQuery) -> bool:
    """Whether a statement is a query, which changes nothing."""
    if parsed.trees:
        return all(isinstance(tree, _READS) for tree in parsed.trees)
    return (
        parsed.use is QueryUse.ROWS
        and parsed.tokens[0].keyword in _FIRST_OF_READS
        and ";" not in {token.keyword for token in parsed.tokens}
    )


def parse_query(sql: str) -> ParsedQuery:
    """Parse a statement that may contain a query. Raises SqlSyntaxError."""
    tokens = tokenize(sql)
    use, body = find_query(tokens)
    options = option_clauses(tokens)
    versions = version_clauses(sql, tokens, options)
    found = ParsedQuery(sql, tokens, use, body, versions, options, tuple(dollar_names(tokens)))
    if use is QueryUse.OTHER:
        return found
    found = replace(found, tables=table_queries(tokens, body))
    trees = _trees(found)
    return replace(found, trees=trees, scopes=QueryScopes(trees or ()))


def table_queries(tokens: Sequence[Token], body: int) -> tuple[int, ...]:
    """Positions of `TABLE t` that is a query."""
    out = []
    for i in range(body, len(tokens) - 1):
        if tokens[i].keyword != "TABLE" or not tokens[i + 1].is_name:
            continue
        if i == body or (tokens[i - 1].keyword in _BEFORE_TABLE and not _opens_arguments(tokens, i - 1)):
            out.append(tokens[i].start)
    return tuple(out)


def _opens_arguments(tokens: Sequence[Token], at: int) -> bool:
    """Whether the token at index `at` is the bracket before a function's arguments."""
    if tokens[at].keyword != "(" or at == 0:
        return False
    before = tokens[at - 1]
    return before.is_name and before.keyword not in (
        "IN", "EXISTS", "AS", "FROM", "JOIN", "LATERAL", "UNION", "ALL", "EXCEPT", "INTERSECT", "MINUS", "DISTINCT",
        "AND", "OR", "NOT", "SELECT", "WHERE", "ON", "USING", "INTO", "ANY", "SOME",
    )  # fmt: skip


def _text_for_sqlglot(query: ParsedQuery) -> str:
    """The statement as sqlglot parses it, of the same length so that positions stay."""
    out, tokens = list(query.sql), query.tokens
    begin = tokens[query.body].start if query.body < len(tokens) else 0
    blank = [(0, begin), *((v.start, v.end) for v in query.versions), *((o.start, o.end) for o in query.options)]
    if tokens and tokens[-1].keyword == ";":
        blank.append((tokens[-1].start, tokens[-1].end))
    for start, end in blank:
        out[start:end] = " " * (end - start)
    for dollar in query.dollars:
        for i in range(dollar.start, dollar.end):
            if out[i] == "$":
                out[i] = _DOLLAR
    for start in query.tables:
        out[start : start + len("TABLE")] = "FROM "
    return "".join(out)


def _trees(query: ParsedQuery) -> tuple[Tree, ...] | None:
    """The trees of a query; None when sqlglot cannot parse all of it."""
    out: list[Tree] = []
    for part in _parts(_text_for_sqlglot(query), query.tokens[query.body :]):
        try:
            found = sqlglot.parse(part, dialect="spark", error_level=sqlglot.ErrorLevel.RAISE)
        except Exception:  # noqa: BLE001 - whatever it raises on unknown syntax
            return None
        if len(found) != 1 or found[0] is None or any(True for _ in found[0].find_all(exp.Command)):
            return None
        lower_names(found[0], _DOLLAR)
        out.append(found[0])
    return tuple(out)


def _parts(text: str, tokens: Sequence[Token]) -> Iterator[str]:
    """The text before the first pipe, and the parts between pipes that can read tables, at their positions."""
    depth, start, first, keywords = 0, 0, True, [""]
    for token in (*tokens, None):
        if token is not None and not (depth == 0 and token.keyword == _PIPE):
            depth += depth_change(token)
            keywords.append(token.keyword)
            continue
        end = len(text) if token is None else token.start
        if first:
            yield " " * start + text[start:end]
        elif any(k in _READING for k in keywords):
            yield " " * (start - len(_PIPED)) + _PIPED + text[start:end]
        first, keywords = False, []
        start = end if token is None else token.end


def find_query(tokens: Sequence[Token], start: int = 0) -> tuple[QueryUse, int]:
    """The use of the query in the statement that begins at index `start`, and the index of its first token."""
    keys = [t.keyword for t in tokens]
    first = keys[start] if start < len(keys) else ""
    body: int | None
    if _begins_query(keys, start):
        return QueryUse.ROWS, start
    match first:
        case "EXPLAIN":
            at = start + 2 if start + 1 < len(keys) and keys[start + 1] in EXPLAIN_MODES else start + 1
            use, body = find_query(tokens, at)
            return use if use is QueryUse.ROWS else QueryUse.OTHER, body
        case "DESCRIBE" | "DESC":
            at = start + 2 if keys[start + 1 : start + 2] == ["QUERY"] else start + 1
            return (QueryUse.ROWS, at) if _begins_query(keys, at) and keys[at] != "TABLE" else (QueryUse.OTHER, start)
        case "INSERT":
            at = start + 3 if keys[start + 2 : start + 3] == ["TABLE"] else start + 2  # INTO or OVERWRITE
            use, body = QueryUse.ROWS, _query_after_name(tokens, keys, at)
        case "CREATE" | "REPLACE":
            use, body = _query_of_create(tokens, keys, start)
        case "CACHE":
            at = start + 2 if keys[start + 1 : start + 2] == ["LAZY"] else start + 1
            use, body = QueryUse.CACHE, _query_after_name(tokens, keys, at + 1)
        case _:
            return QueryUse.ROWS if first in _WHOLE else QueryUse.OTHER, start
    return (QueryUse.OTHER, start) if body is None else (use, body)


def _begins_query(keys: Sequence[str], at: int) -> bool:
    """Whether a query can begin at index `at`."""
    while at < len(keys) and keys[at] == "(":
        at += 1
    return at < len(keys) and keys[at] in _QUERY


def _query_of_create(tokens: Sequence[Token], keys: Sequence[str], start: int) -> tuple[QueryUse, int | None]:
    begin = set(keys[start : start + 6])
    is_view = "VIEW" in begin and begin & {"TEMPORARY", "TEMP"} and "TABLE" not in begin
    is_table = "TABLE" in begin and "VIEW" not in begin and "FUNCTION" not in begin
    if not (is_view or is_table):
        return QueryUse.OTHER, None
    outside = outside_brackets(tokens, start)
    body = next((i + 1 for i in outside if keys[i] == "AS" and _begins_query(keys, i + 1)), None)
    return QueryUse.VIEW if is_view else QueryUse.ROWS, body


def _query_after_name(tokens: Sequence[Token], keys: Sequence[str], at: int) -> int | None:
    """The index where a query begins behind the name at index `at`, which may be a keyword; None when none does."""
    at += 1
    while keys[at : at + 1] == ["."]:
        at += 2
    return next((i for i in outside_brackets(tokens, at) if _begins_query(keys, i)), None)
