"""Checks of recorded SQL statements before they run again.

A statement stands in a property of a snapshot, so that whoever may write one table may put any text there. Only a write
of the table that has the snapshot runs again, and only where its text fixes what it does: it calls built-in functions
of Spark that give the same result each time, and reads tables of attached catalogs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NoReturn

from sqlglot import exp

from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.predicate.tokens import Token
from paimon_spark.sql.functions import TABLE_FUNCTIONS
from paimon_spark.sql.grammar.write import Delete, Insert, Merge, Update
from paimon_spark.sql.names import resolve_table
from paimon_spark.sql.queries.parse import ParsedQuery, parse_query
from paimon_spark.sql.queries.references import Reference, is_cte, references
from paimon_spark.sql.session import Session
from paimon_spark.sql.statement import Statement
from paimon_spark.sql.tokens import abbreviated
from paimon_spark.text import safe

_NAMES_OF_FUNCTIONS: Final = "SHOW SYSTEM FUNCTIONS"
_REFUSED: Final = frozenset(
    (
        # Code or files of the user who runs the statement.
        "java_method", "reflect", "try_reflect", "from_protobuf", "to_protobuf", "identifier",
        "input_file_name", "input_file_block_start", "input_file_block_length",
        # Other results each time.
        "rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id",
        "spark_partition_id", "now", "curdate", "current_date", "current_time", "current_timestamp", "current_timezone",
        "localtimestamp", "user", "current_user", "session_user", "current_catalog", "current_database",
        "current_schema", "version",
    )
)  # fmt: skip
_ONLY_WITH_ARGUMENTS: Final = frozenset(("unix_timestamp", "to_unix_timestamp"))
"""Functions that take the current time where they have no argument."""
_WITHOUT_BRACKETS: Final = frozenset(
    ("CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIMESTAMP", "CURRENT_USER", "SESSION_USER")
)
_BEFORE_BRACKETS: Final = frozenset(
    (
        "ALL", "AND", "ANY", "AS", "BETWEEN", "BY", "CASE", "CHAR", "CHARACTER", "CUBE", "DEC", "DECIMAL", "DISTINCT",
        "ELSE", "EXCEPT", "EXISTS", "FILTER", "FOR", "FROM", "GROUP", "HAVING", "IN", "INTERSECT", "JOIN", "LATERAL",
        "LIKE", "MINUS", "NOT", "NUMERIC", "ON", "OR", "OVER", "PIVOT", "ROLLUP", "SELECT", "SETS", "SOME", "THEN",
        "UNION", "UNPIVOT", "USING", "VALUES", "VARCHAR", "WHEN", "WHERE", "WITHIN", "ILIKE", "RLIKE", "IS", "LIMIT",
        "OFFSET", "VIEW", "EXCLUDE", "INCLUDE", "RECURSIVE",
    )
)  # fmt: skip
"""Words that may precede a bracket and are no functions."""
_DEEPEST: Final = 20
"""Views that read each other."""


def builtin_functions(session: Session) -> frozenset[str]:
    """Names of Spark's built-in functions, in lower case."""
    return frozenset(str(row[0]).lower() for row in session.run(_NAMES_OF_FUNCTIONS).collect())


def check_recorded(session: Session, statement: Statement, table: str, functions: frozenset[str]) -> None:
    """Check that a recorded statement may run again.

    Args:
        session: that is to run it.
        statement: parsed.
        table: `db.t`, whose snapshot has the statement.
        functions: as of `builtin_functions`.

    Raises:
        UnsupportedFeatureError: it does something else than to write that table, or its text does not fix what.
        TableNotFoundError, DatabaseNotFoundError: as `resolve_table`.
        SqlSyntaxError: a part of it cannot be read.
    """
    check = _Check(session, statement.sql, table, functions)
    if "${" in statement.sql:
        check.refuse("it has a variable ${…}, whose value is not recorded")
    if not isinstance(statement, Insert | Delete | Update | Merge):
        check.refuse("it is not an INSERT, UPDATE, DELETE or MERGE")
    name = resolve_table(session, statement.table)
    if name is None or name.as_named.suffix or f"{name.database}.{name.table}".lower() != table.lower():
        check.refuse(f"it writes {name or '.'.join(statement.table)}, not {table}")
    if isinstance(statement, Insert) and any("branch" in key.lower() for key in statement.options):
        check.refuse("its options name a branch")
    for text in _parts(statement):
        check.text(session, text, 0)


def _parts(statement: Insert | Delete | Update | Merge) -> Iterator[str]:
    """The queries and expressions of a statement, each as a query."""
    expressions: list[str | None] = []
    match statement:
        case Insert():
            yield statement.query
            expressions = [*statement.partition.values(), statement.replace_where]
        case Delete():
            expressions = [statement.where]
        case Update():
            expressions = [*(a.value for a in statement.assignments), statement.where]
        case Merge():
            yield f"{statement.prefix} SELECT * FROM {statement.source}"  # noqa: S608 - parsed, not run
            expressions = [statement.condition]
            for clause in statement.clauses:
                expressions += [clause.condition, *(a.value for a in clause.assignments or ())]
    prefix = "" if isinstance(statement, Insert) else statement.prefix
    yield from (f"{prefix} SELECT ({text})" for text in expressions if text is not None and text.upper() != "DEFAULT")


class _Check:
    """One statement."""

    def __init__(self, session: Session, sql: str, table: str, functions: frozenset[str]) -> None:
        self._session = session
        self._sql = sql
        self._table = table
        self._functions = functions | frozenset(TABLE_FUNCTIONS)

    def refuse(self, why: str) -> NoReturn:
        raise UnsupportedFeatureError(
            f"the statement recorded with a snapshot of {self._table} is not run again: {safe(why)}: "
            f"{safe(abbreviated(self._sql))}; nothing was run. Look at it, and run it yourself if it is right",
            feature="rerun",
            table=self._table,
        )

    def text(self, session: Session, text: str, depth: int) -> None:
        """Check a query."""
        if depth > _DEEPEST:
            self.refuse("its views read each other")
        parsed = parse_query(text)
        if parsed.trees is None or len(parsed.trees) != 1:
            self.refuse("a part of it cannot be read")
        self._words(parsed)
        found = references(session.caching(), parsed)
        self._tables(parsed, {reference.start for reference in found})
        for reference in found:
            self._view(reference, depth)

    def _view(self, reference: Reference, depth: int) -> None:
        """Check the query of a permanent view, which others may have written."""
        if reference.function is not None:
            return
        view = reference.session.permanent_view(reference.name)
        if view is not None and not reference.session.has_table(reference.name.database, reference.name.table):
            self.text(reference.session.for_view(reference.name.database), view.spark_query, depth + 1)

    def _words(self, parsed: ParsedQuery) -> None:
        named = _own_names(parsed)
        before: Token | None = None
        for token, after in zip(parsed.tokens, (*parsed.tokens[1:], None), strict=True):
            is_qualified = before is not None and before.keyword == "."
            if token.keyword in _WITHOUT_BRACKETS and not is_qualified:
                self.refuse(f"{token.text} has another value each time")
            if token.keyword == "TABLESAMPLE":
                self.refuse("TABLESAMPLE gives other rows each time")
            if token.keyword == "USING" and after is not None and after.is_text:
                self.refuse("it runs a program")
            if after is not None and after.keyword == "(" and token.is_name and token.start not in named:
                self._function(token, is_qualified, _argument(parsed.tokens, after))
            before = token

    def _function(self, token: Token, is_qualified: bool, argument: Token | None) -> None:
        word = token.text.lower()
        if is_qualified:
            self.refuse(f"{token.text} is a function of a catalog, which may have changed")
        if word in _REFUSED or (word in _ONLY_WITH_ARGUMENTS and argument is None):
            self.refuse(f"the function {token.text} reads more than its arguments, or has another value each time")
        if word not in self._functions and token.keyword not in _BEFORE_BRACKETS:
            self.refuse(f"{token.text} is no built-in function of Spark")

    def _tables(self, parsed: ParsedQuery, starts: set[int]) -> None:
        assert parsed.trees is not None
        for tree in parsed.trees:
            if not isinstance(tree, exp.Query | exp.Values):
                self.refuse("a part of it is no query")
            for node in tree.find_all(exp.Table):
                if not isinstance(node.this, exp.Identifier | exp.Dot) or is_cte(node):
                    continue  # functions are checked by their names
                identifiers = list(node.find_all(exp.Identifier))
                if not any(i.meta.get("start") in starts for i in identifiers):
                    self.refuse(f"it reads {node.name}, which is no table of an attached catalog")


def _argument(tokens: Sequence[Token], bracket: Token) -> Token | None:
    """The first token inside of a bracket; None of ()."""
    found = next((t for t in tokens if t.start >= bracket.end), None)
    return None if found is None or found.keyword == ")" else found


def _own_names(parsed: ParsedQuery) -> set[int]:
    """Where names stand that the query itself gives: of common table expressions, and aliases with columns."""
    found: set[int] = set()
    for tree in parsed.trees or ():
        for alias in tree.find_all(exp.TableAlias):
            found |= _start(alias.this)
    return found


def _start(name: Any) -> set[int]:
    return {name.meta["start"]} if isinstance(name, exp.Identifier) and "start" in name.meta else set()
