"""Statements and syntax that Spark lacks for tables of attached catalogs.

In a session with attached catalogs `spark.sql` parses these statements by `route`, and executes them by `run_routed`;
all others are Spark's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.errors import PySparkException

from paimon_spark.errors import PaimonError, SqlSyntaxError, TableNotFoundError, UnsupportedFeatureError
from paimon_spark.predicate.ast import literal_text
from paimon_spark.predicate.tokens import Token
from paimon_spark.sql.commands import insert, row_level, tags_and_branches
from paimon_spark.sql.commands.create import PROVIDERS
from paimon_spark.sql.execute import parse, reworded, run_statement
from paimon_spark.sql.grammar import alter_table as alter_grammar
from paimon_spark.sql.grammar import create as create_grammar
from paimon_spark.sql.grammar import show as show_grammar
from paimon_spark.sql.grammar import tags_and_branches as ref_grammar
from paimon_spark.sql.grammar import write as write_grammar
from paimon_spark.sql.names import (
    SPARK_CATALOG,
    database_of_warehouse,
    knows_catalog,
    resolve_name,
    resolve_table,
    unknown_catalog,
)
from paimon_spark.sql.procedures import Call, columns_of_call, is_of_catalog, lacks_catalog
from paimon_spark.sql.queries.clauses import option_clauses, version_clauses
from paimon_spark.sql.queries.errors import without_log
from paimon_spark.sql.queries.parse import find_query, table_queries
from paimon_spark.sql.session import Session
from paimon_spark.sql.statement import InvalidStatement, Name, Outcome, Statement, TableStatement, UnsupportedStatement
from paimon_spark.sql.substitutions import flink_hints, savepoint_names, substituted, with_quoted_setting
from paimon_spark.sql.tokens import Edit, abbreviated, edited, statements_of_block, tokenize
from paimon_spark.types import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FIRST: Final = re.compile(
    r"(?:\s|--[^\n]*\n|/\*(?!\+).*?\*/|\()*(ALTER|ANALYZE|CALL|COMMENT|COPY|CREATE|DELETE|DESC|DESCRIBE|DROP|FROM|"
    r"INSERT|LOAD|MERGE|MSCK|OPTIMIZE|REPAIR|RESTORE|SHOW|TRUNCATE|UPDATE|VACUUM|WITH)\b",
    re.IGNORECASE | re.DOTALL,
)
"""The first word of the statements that may be routed."""
_OF_HISTORY: Final = re.compile(r"\s*DESC(?:RIBE)?\s+(HISTORY|DETAIL)\s+[\w`]", re.IGNORECASE)
_SCRIPT: Final = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*BEGIN\b", re.IGNORECASE | re.DOTALL)
_OF_REFS: Final = re.compile(r"(?:ALTER\s+TABLE|SHOW)\b.*\b(?:TAGS?|BRANCH|BRANCHES)\b", re.IGNORECASE | re.DOTALL)
"""What is in statements of which Spark knows nothing."""
_IDENTIFIER: Final = re.compile(r"\bIDENTIFIER\s*\(", re.IGNORECASE)
_REWRITTEN: Final = re.compile(r"[$#]|/\*\+|\bVERSION\b", re.IGNORECASE)
"""What is in every statement that has something to rewrite."""
_LONG_NAME: Final = re.compile(r"(?<![\w.`$])(?:`((?:[^`]|``)+)`|(\w+))\s*\.\s*(?:`(?:[^`]|``)+`|\w+)\s*\.\s*[`\w]")
_LITERAL: Final = re.compile(r"[\d'\"]")
"""How a version begins that Spark's parser takes."""
ROUTED: Final[tuple[type[Statement], ...]] = (
    write_grammar.Insert,
    write_grammar.Delete,
    write_grammar.Update,
    write_grammar.Merge,
    write_grammar.Truncate,
    Call,
    ref_grammar.CreateTag,
    ref_grammar.DropTags,
    ref_grammar.CreateBranch,
    ref_grammar.DropBranch,
    ref_grammar.RenameRef,
    ref_grammar.PublishBranch,
    ref_grammar.ShowRefs,
    alter_grammar.AddPartitions,
    alter_grammar.DropPartitions,
    create_grammar.CreateTableLike,
    create_grammar.CreateView,
    create_grammar.DropView,
    show_grammar.Analyze,
    show_grammar.Describe,
    show_grammar.DescribeHistory,
    show_grammar.ShowCreateTable,
    show_grammar.ShowPartitions,
    show_grammar.ShowTablePartition,
    show_grammar.ShowViews,
)
"""Statements that Spark's parser or planner lacks, or that return numbers of rows, which Spark's do not."""
_AT_ONCE: Final = (
    InvalidStatement,
    UnsupportedStatement,
    ref_grammar.ShowRefs,
    show_grammar.Describe,
    show_grammar.DescribeDatabase,
    show_grammar.DescribeHistory,
    show_grammar.ShowCatalogs,
    show_grammar.ShowColumns,
    show_grammar.ShowCreateTable,
    show_grammar.ShowCurrent,
    show_grammar.ShowDatabases,
    show_grammar.ShowPartitions,
    show_grammar.ShowProcedures,
    show_grammar.ShowProperties,
    show_grammar.ShowTablePartition,
    show_grammar.ShowTables,
    show_grammar.ShowViews,
)
"""Statements that only read, or are refused."""
_OF_TABLES: Final[tuple[type[TableStatement], ...]] = (
    write_grammar.Insert,
    write_grammar.Delete,
    write_grammar.Update,
    write_grammar.Merge,
    write_grammar.Truncate,
    alter_grammar.AddPartitions,
    alter_grammar.DropPartitions,
    show_grammar.Analyze,
)
"""Statements of Spark's grammar on a table that exists, which may be one of Spark's."""
_COLUMNS: Final[Mapping[type[Statement], str]] = {
    write_grammar.Insert: insert.COLUMNS,
    write_grammar.Delete: row_level.DELETE_COLUMNS,
    write_grammar.Update: row_level.UPDATE_COLUMNS,
    write_grammar.Merge: row_level.MERGE_COLUMNS,
    write_grammar.Truncate: row_level.DELETE_COLUMNS,
    ref_grammar.PublishBranch: tags_and_branches.PUBLISHED,
}
"""Columns of the rows of statements, as DDL; other statements that change something return none."""


_IN_SCRIPTS: Final = (
    *_OF_TABLES,
    Call,
    create_grammar.CreateTableLike,
    create_grammar.CreateView,
    create_grammar.DropView,
)
"""Routed statements that scripts can hold: Spark's grammar has them, and their columns are known before they run."""


def routed(sql: str) -> bool:
    """Whether a statement may be one that is routed, by its first word."""
    return _FIRST.match(sql) is not None


class Routed(NamedTuple):
    """A statement that is run here and not planned by Spark.

    `columns`: those of its rows, as DDL, where Spark is to execute it; empty for none. None: it changes nothing, so it
    can be run at once.
    """

    statement: Statement
    columns: str | None


def route(
    sessions: Iterable[Session], sql: str, *, is_unknown: bool = False, is_in_script: bool = False
) -> Routed | None:
    """Find out whether a statement is run here, without running it; None where Spark is to run it.

    Statements that `is_unknown` says Spark's parser has refused are run here whatever their class. The table of one
    that `is_in_script` may be created by another statement of the script.

    Raises:
        TableNotFoundError, DatabaseNotFoundError: there is no such table, and Spark's parser knows the statement.
        PaimonError: as `Catalog.sql`, for a call whose procedure or literals are wrong.
    """
    found = _find(list(sessions), sql, is_unknown=is_unknown)
    if found is None:
        return None
    session, statement = found
    if isinstance(statement, _AT_ONCE):
        return None if is_in_script else Routed(statement, None)
    with reworded(session, statement):
        if isinstance(statement, Call):
            return Routed(statement, columns_of_call(session, statement))
        if isinstance(statement, _OF_TABLES) and not (is_unknown or is_in_script or _exists(session, statement)):
            return None
    return Routed(statement, _COLUMNS.get(type(statement), ""))


def run_routed(sessions: Iterable[Session], sql: str, *, is_unknown: bool = False) -> DataFrame | None:
    """Run a statement on a table of one of the catalogs; None where Spark is to run it.

    Arguments as of `route`. Raises as `Catalog.sql`.
    """
    found = _find(list(sessions), sql, is_unknown=is_unknown)
    result = Outcome.RUN_BY_SPARK if found is None else run_statement(*found)
    return None if isinstance(result, Outcome) else result


def _find(found: Sequence[Session], sql: str, *, is_unknown: bool) -> tuple[Session, Statement] | None:
    """A statement that is not Spark's, and the session of the first catalog that it is about."""
    try:
        statement = parse(substituted(found[0], sql)[1])
    except SqlSyntaxError:
        if is_unknown and _OF_REFS.search(sql):
            raise
        return None  # Spark says what is wrong
    is_routed = is_unknown or isinstance(statement, (*ROUTED, InvalidStatement, UnsupportedStatement))
    if not is_routed and not _is_of_other_format(statement):
        return None
    for session in found:
        if _is_of(session, statement, is_unknown=is_unknown):
            return session, statement
    for name in _foreign_names(statement):  # Spark would not name the table
        refuse_unknown_catalog(found, name)
    return None


def is_description_of_history(sql: str) -> bool:
    """Whether a statement is DESCRIBE HISTORY or DESCRIBE DETAIL, which Spark takes as that of a column."""
    return _OF_HISTORY.match(sql) is not None


def _foreign_names(statement: Statement) -> Sequence[Name]:
    """Tables of a statement that Spark lacks."""
    match statement:
        case UnsupportedStatement():
            return statement.names
        case show_grammar.DescribeHistory():
            return (statement.table,)
    return ()


def is_script(sql: str) -> bool:
    """Whether a text is a script, BEGIN … END."""
    return _SCRIPT.match(sql) is not None


def refuse_in_script(sessions: Callable[[], Sequence[Session]], sql: str) -> None:
    """Refuse statements of a script, BEGIN … END, that Spark's grammar lacks, or whose rows are known once they ran.

    Raises UnsupportedFeatureError.
    """
    if not is_script(sql):
        return
    for statement in _parsed_parts(sql):
        is_refused = isinstance(statement, ROUTED) and not isinstance(statement, _IN_SCRIPTS)
        if is_refused and any(_is_of(session, statement, is_unknown=False) for session in sessions()):
            raise UnsupportedFeatureError(
                "a script, BEGIN … END, cannot hold this statement on a Paimon table: "
                f"{abbreviated(statement.sql)}; run it as a statement of its own. Scripts can hold queries, INSERT, "
                "UPDATE, DELETE, MERGE, CREATE, DROP and CALL",
                feature="routed statements in a script",
            )


def _parsed_parts(script: str) -> Iterator[Statement]:
    """The statements of a script as far as they can be parsed one by one."""
    with suppress(SqlSyntaxError):
        for text in statements_of_block(script):
            with suppress(SqlSyntaxError):
                yield parse(text)


def _is_of_other_format(statement: Statement) -> bool:
    """Whether USING names a format for a new table, which the catalog does not see: it may be Spark's default."""
    provider = statement.request.provider if isinstance(statement, create_grammar.CreateTable) else None
    return provider is not None and provider.lower() not in PROVIDERS


def _is_of(session: Session, statement: Statement, *, is_unknown: bool) -> bool:
    """Whether a statement is about the session's catalog."""
    match statement:
        case Call():
            return is_of_catalog(session, statement) or lacks_catalog(session, statement)
        case InvalidStatement():
            # Spark says what is wrong with a statement that creates a table, where it has a word for it.
            has_answer = statement.copies or (is_unknown and not isinstance(statement.error, SqlSyntaxError))
            is_of_spark = statement.creates and not has_answer
            return not is_of_spark and _has(session, statement.table)
        case UnsupportedStatement():
            is_of_none = is_unknown and not statement.names and session.is_current
            return is_of_none or any(_has(session, name) for name in statement.names)
        case alter_grammar.CommentOnColumn():
            return _has(session, statement.name[:-1])
        case create_grammar.CreateView() | create_grammar.DropView():
            return _has(session, statement.name)
        case show_grammar.ShowViews():
            return database_of_warehouse(session, statement.database) is not None
        case TableStatement():
            return _has(session, statement.table)
    return False


def _exists(session: Session, statement: TableStatement) -> bool:
    """Whether a table is of an attached catalog.

    Raises TableNotFoundError, DatabaseNotFoundError: no catalog has such a table.
    """
    return any(resolve_table(s, statement.table) is not None for s in session.each())


def _has(session: Session, name: Name) -> bool:
    if not name or (len(name) == 1 and session.has_view(name[0])):
        return False
    return resolve_name(session, name) is not None


def may_lack_catalog(sql: str, attached: Collection[str]) -> set[str]:
    """First parts of names with three parts or more in a statement, except attached catalogs."""
    known = {name.lower() for name in attached}
    found = ((m[1] or m[2]).replace("``", "`") for m in _LONG_NAME.finditer(sql))
    return {name for name in found if name.lower() not in known}


def refuse_unknown_catalog(sessions: Sequence[Session], parts: Sequence[str]) -> None:
    """Refuse a table whose name begins with a catalog that is not there, where Spark can mean nothing by it.

    That is so while an attached catalog or Spark's own is the current one: their databases have no others inside.

    Raises TableNotFoundError.
    """
    first = sessions[0]
    is_plain = first.is_current or first.current[0] == SPARK_CATALOG
    if len(parts) < 3 or not is_plain or knows_catalog(first, parts[0]):
        return
    if not (first.is_current and first.has_database(parts[0])):
        raise TableNotFoundError(unknown_catalog(first, parts), table=".".join(parts))


def with_spark_syntax(sql: str) -> str:
    """A statement with what Spark's parser lacks rewritten.

    That is `t$tags`, `t#savepoints`, Flink's hint OPTIONS, versions without quotes or behind options:
    `t WITH (…) VERSION AS OF fix.v1`, and hyphens in keys of SET.
    """
    setting = with_quoted_setting(sql)
    if setting != sql or not _REWRITTEN.search(sql):
        return setting
    try:
        tokens = tokenize(sql)
        named = edited(sql, [*flink_hints(sql, tokens), *savepoint_names(tokens)])
        if named != sql:
            tokens = tokenize(named)
        return edited(named, [*_quoted_suffixes(tokens), *_versions(named, tokens)])
    except SqlSyntaxError:
        return sql  # Spark says what is wrong


def computes_names(sql: str) -> bool:
    """Whether a statement may compute names, by IDENTIFIER(…)."""
    return _IDENTIFIER.search(sql) is not None


def with_computed_names(session: Session, sql: str) -> str:
    """A statement with the names that it computes: Spark's IDENTIFIER takes no `$` in them."""
    try:
        with without_log():
            return substituted(session, sql)[1]
    except (PaimonError, PySparkException):
        return sql  # Spark says what is wrong, or knows the variables of a script


def _versions(sql: str, tokens: Sequence[Token]) -> Iterable[Edit]:
    """Versions in quotes and before options, and `SELECT * FROM t` for `TABLE t` before a version."""
    tables = table_queries(tokens, find_query(tokens)[1])
    options = option_clauses(tokens)
    for clause in version_clauses(sql, tokens, options):
        for o in options:
            if sum(o.end <= t.start < clause.start for t in tokens) == 0 and o.end <= clause.start:
                yield from (Edit(o.start, o.end, ""), Edit(clause.end, clause.end, " " + sql[o.start : o.end]))
        before = _before_name(tokens, sum(t.end <= clause.start for t in tokens) - 1)
        if before is not None and before.start in tables:
            yield Edit(before.start, before.end, "SELECT * FROM")
        if not clause.is_timestamp and clause.value is not None and not _LITERAL.match(clause.expression):
            yield Edit(clause.end - len(clause.expression), clause.end, literal_text(clause.value))


def _before_name(tokens: Sequence[Token], last: int) -> Token | None:
    """The token before the name that ends with index `last`."""
    while last >= 2 and tokens[last - 1].keyword in (".", "$"):
        last -= 2
    return tokens[last - 1] if last > 0 else None


def _quoted_suffixes(tokens: Sequence[Token]) -> Iterable[Edit]:
    """Names with `$` in quotes."""
    i = 0
    while i < len(tokens):
        first = i
        name = tokens[i].text
        while (
            i + 2 < len(tokens)
            and tokens[first].is_name
            and tokens[i + 1].keyword == "$"
            and tokens[i + 2].is_name
            and tokens[i].end == tokens[i + 1].start
            and tokens[i + 1].end == tokens[i + 2].start
        ):
            name += "$" + tokens[i + 2].text
            i += 2
        if i > first:
            yield Edit(tokens[first].start, tokens[i].end, quoted(name))
        i += 1
