"""Parse a statement, and run it here or as a query by Spark.

With `register_functions` this module implements the port `SparkSql`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from paimon_spark.errors import InvalidInputError, PaimonError, SqlSyntaxError, UnsupportedFeatureError
from paimon_spark.lineage.index.provenance import StatementRecord, encode_statement
from paimon_spark.options.lineage import JOB, STATEMENT, STATEMENT_VALUES
from paimon_spark.options.location import MAIN, SESSION_BRANCH
from paimon_spark.spark.session import is_classic
from paimon_spark.sql.commands import (
    alter_table,
    analyze,
    create,
    describe,
    insert,
    row_level,
    show,
    tags_and_branches,
    views,
)
from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.functions import register_functions as register_functions
from paimon_spark.sql.grammar import alter_table as alter_grammar
from paimon_spark.sql.grammar import create as create_grammar
from paimon_spark.sql.grammar import foreign as foreign_grammar
from paimon_spark.sql.grammar import show as show_grammar
from paimon_spark.sql.grammar import tags_and_branches as ref_grammar
from paimon_spark.sql.grammar import write as write_grammar
from paimon_spark.sql.grammar.clauses import DATABASE
from paimon_spark.sql.grammar.immediate import ExecuteImmediate, read_execute_immediate
from paimon_spark.sql.lineage_job import is_of_run
from paimon_spark.sql.messages import reword
from paimon_spark.sql.names import resolve_name, resolve_table
from paimon_spark.sql.procedures import Call, read_call, run_call, show_procedures
from paimon_spark.sql.queries.errors import QueryError, in_one_line, without_log
from paimon_spark.sql.queries.parse import EXPLAIN_MODES, parse_query
from paimon_spark.sql.queries.references import references
from paimon_spark.sql.recorded import builtin_functions, check_recorded
from paimon_spark.sql.requests import CreateMode
from paimon_spark.sql.run import query_rows as rows_of_query
from paimon_spark.sql.run import run_query
from paimon_spark.sql.run import view_rows as rows_of_view
from paimon_spark.sql.session import SETTING, Session
from paimon_spark.sql.statement import InvalidStatement, Outcome, Query, Result, Statement, UnsupportedStatement
from paimon_spark.sql.substitutions import substituted
from paimon_spark.sql.tokens import split_statements

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from paimon_spark.api.catalog import Catalog
    from paimon_spark.api.views import View


def execute(
    catalog: Catalog,
    sql: str,
    args: Mapping[str, Any] | Sequence[Any] | None = None,
    session: SparkSession | None = None,
    database: str | None = None,
) -> DataFrame:
    """Run a statement. Arguments, result and errors as of `Catalog.sql`; names of one part are of `database`."""
    with without_log():
        own = Session.of(catalog, session, args)
        own = own if database is None else own.in_database(database)
        found, text = substituted(own, sql)
        statement = parse(text)
        result = run_statement(found, statement)
        if not isinstance(result, Outcome):
            return result
        try:
            return run_query(found, statement.sql)
        except AnalysisException as e:
            raise (e if isinstance(e, QueryError) or not is_classic(own.spark) else in_one_line(e, text)) from None


def view_rows(view: View, catalog: Catalog, session: SparkSession | None = None) -> DataFrame:
    """The rows of a permanent view of a catalog. Raises as `View.to_spark`."""
    with without_log():
        return rows_of_view(Session.of(catalog, session), view)


def query_rows(catalog: Catalog, query: str, database: str) -> DataFrame:
    """The rows of the query of a permanent view of a database. Raises as `Catalog.create_view`."""
    with without_log():
        return rows_of_query(Session.of(catalog).for_view(database), query)


def check_again(
    catalog: Catalog, statements: Sequence[tuple[StatementRecord, str]], session: SparkSession | None = None
) -> None:
    """Check that recorded statements may run again, each with the table that it wrote. Raises as `check_recorded`."""
    with without_log():
        functions: frozenset[str] | None = None
        for statement, table in statements:
            if statement.lacks_values:
                raise InvalidInputError(
                    f"the statement cannot be run again, as it was recorded with {STATEMENT_VALUES.key} = false, "
                    f"without the values of its parameters; nothing was run, run it with its values: {statement.sql}"
                )
            found = _to_run_again(catalog, statement, MAIN, session)
            functions = functions or builtin_functions(found)
            check_recorded(found, parse(statement.sql), table, functions)


def execute_again(
    catalog: Catalog, statement: StatementRecord, branch: str, session: SparkSession | None = None
) -> DataFrame:
    """Run a recorded statement, which was checked, on a branch of the tables that have it. Raises as `Catalog.sql`."""
    with without_log():
        found = _to_run_again(catalog, statement, branch, session)
        result = run_statement(found, parse(statement.sql))
        if isinstance(result, Outcome):
            raise InvalidInputError(f"the statement writes no table of this catalog: {statement.sql}")
        return result


def _to_run_again(catalog: Catalog, statement: StatementRecord, branch: str, session: SparkSession | None) -> Session:
    """The session in which the names of a recorded statement mean what they meant, and its job is the same."""
    found = Session.of(catalog, session)
    encoded = encode_statement(statement)
    of_run = {} if encoded is None else {STATEMENT.key: encoded}
    if statement.job is not None:
        of_run[JOB.key] = statement.job
        found = replace(found, conf={k: v for k, v in found.conf.items() if not is_of_run(k)})
    with_statement = replace(catalog, options={**catalog.options, **of_run})
    found = replace(found, catalog=with_statement, catalog_name=statement.catalog)
    found = found.in_database(statement.database)
    return replace(found, conf={**found.conf, SETTING + SESSION_BRANCH: branch})


def execute_beside(session: Session, sql: str) -> DataFrame:
    """Run a statement in a Spark session that does not know its attached catalogs; whatever is not theirs is Spark's.

    Errors as of `Catalog.sql`.
    """
    with without_log():
        try:
            found, text = substituted(session, sql)
            statement = parse(text)
        except SqlSyntaxError:
            if _may_be_about(session, sql):
                raise
            return session.run(sql)  # Spark says what is wrong
        result = run_statement(found, statement)
        return run_query(found, statement.sql) if isinstance(result, Outcome) else result


def _may_be_about(session: Session, sql: str) -> bool:
    """Whether a statement that cannot be parsed may be about tables of an attached catalog."""
    return session.is_current or any(f"{s.catalog_name.lower()}." in sql.lower() for s in session.each())


def run_statement(session: Session, statement: Statement) -> DataFrame | Outcome:
    """Run a statement on tables of the catalog, or of others attached beside it; its rows, or that Spark is to run it.

    Raises as `Catalog.sql`.
    """
    with reworded(session, statement):
        return _run_by_any(session, statement)


@contextmanager
def reworded(session: Session, statement: Statement) -> Iterator[None]:
    """Raise errors about a statement in the words of SQL, with the name of an attached catalog."""
    try:
        yield
    except PaimonError as e:
        reword(e, is_call=isinstance(statement, Call), catalog_name=session.called)
        raise


def parse(sql: str) -> Statement:
    """Parse a statement; what no reader takes is a Query.

    Raises SqlSyntaxError: blank, several statements, or a statement on Paimon's tables with wrong syntax.
    """
    cursor = Cursor(sql)
    if cursor.at_end:
        raise SqlSyntaxError("the statement is blank", sql=sql)
    if any(t.keyword == ";" for t in cursor.tokens) and len(split_statements(sql)) > 1:
        raise SqlSyntaxError("give one statement at a time, without ; between several", sql=sql)
    keywords = max((k for k in _READERS if cursor.at(*k)), key=len, default=None)
    if keywords is None:
        return Query(sql)
    cursor.take(*keywords)
    statement = _READERS[keywords](cursor)
    if statement is not None and not isinstance(statement, InvalidStatement | UnsupportedStatement):
        cursor.end()
    return Query(sql) if statement is None else statement


def _run_by_any(session: Session, statement: Statement) -> DataFrame | Outcome:
    """Run a statement by the first of the attached catalogs that it is about."""
    for each in session.each():
        result = _run(each, statement)
        if not isinstance(result, Outcome):
            return result
    return Outcome.RUN_BY_SPARK


def _run(session: Session, statement: Statement) -> DataFrame | Outcome:
    command = _COMMANDS.get(type(statement))
    try:
        result = Outcome.RUN_BY_SPARK if command is None else command(session, statement)
    except AnalysisException as e:
        raise (e if isinstance(e, QueryError) else in_one_line(e, statement.sql)) from None
    return session.nothing() if result is None else result


def _execute_immediate(session: Session, statement: ExecuteImmediate) -> Result:
    """Run the statement of a text, with the values of USING as its parameters.

    Raises UnsupportedFeatureError: INTO variables, of a statement on tables of the catalog.
    """
    values = (statement.text, *(value for _, value in statement.arguments))
    text, *found = session.run("SELECT " + ", ".join(f"{v} AS v{n}" for n, v in enumerate(values))).collect()[0]
    if not isinstance(text, str):
        found_text = "NULL" if text is None else repr(text)
        raise SqlSyntaxError(f"EXECUTE IMMEDIATE needs a statement as text, found {found_text}", sql=statement.sql)
    given = [
        (name, F.expr(sql) if _has_no_literal(value) else value)
        for (name, sql), value in zip(statement.arguments, found, strict=True)
    ]
    named = {name: value for name, value in given if name is not None}
    args: Mapping[str, Any] | Sequence[Any] = named or [value for _, value in given]
    inner_session, inner_text = substituted(replace(session, args=args or None), text)
    inner = parse(inner_text)
    if not statement.variables:
        result = _run_by_any(inner_session, inner)
        return run_query(inner_session, inner.sql) if isinstance(result, Outcome) else result
    if isinstance(inner, Query) and not references(session.caching(), parse_query(inner_text)):
        return Outcome.RUN_BY_SPARK
    raise UnsupportedFeatureError(
        f"EXECUTE IMMEDIATE … INTO is not supported for Paimon tables; use SET VAR {statement.variables[0]} = "
        "(SELECT …) instead",
        feature="EXECUTE IMMEDIATE INTO",
    )


def _has_no_literal(value: object) -> bool:
    """Whether Spark takes a value as a parameter only as an expression: maps, structs and arrays of them."""
    return any(map(_has_no_literal, value)) if isinstance(value, list) else isinstance(value, dict | Row)


def _invalid(session: Session, statement: InvalidStatement) -> Result:
    """Raise the error of a statement if its table is the catalog's."""
    if statement.creates:
        name = create.resolve_new_table(session, statement.table, statement.provider)
    else:
        name = resolve_table(session, statement.table)
    if name is None:
        return Outcome.RUN_BY_SPARK
    raise statement.error


def _unsupported(session: Session, statement: UnsupportedStatement) -> Result:
    """Refuse a statement unless it is about tables of Spark's only. Raises UnsupportedFeatureError."""
    resolve = resolve_name if statement.may_be_missing else resolve_table
    found = [n for n in (resolve(session, name) for name in statement.names) if n is not None]
    if not found and (statement.names or not session.is_current):
        return Outcome.RUN_BY_SPARK
    where = f" for table {found[0]}" if found else ""
    raise UnsupportedFeatureError(
        f"{statement.feature} is not supported{where}. {statement.instead}", feature=statement.feature
    )


def _read_explain(cursor: Cursor) -> Statement | None:
    """Read EXPLAIN of a statement that writes a table, which only a Spark that knows the table can explain."""
    cursor.take_one(*EXPLAIN_MODES)
    try:
        statement = parse(cursor.sql[cursor.start :])
    except SqlSyntaxError:
        return None  # Spark says what is wrong
    if not isinstance(statement, _WRITES):
        return None
    instead = "It is planned when it runs; use EXPLAIN SELECT … for its query"
    return UnsupportedStatement(cursor.sql, (statement.table,), f"EXPLAIN {type(statement).__name__.upper()}", instead)


_WRITES: Final = (write_grammar.Insert, write_grammar.Delete, write_grammar.Update, write_grammar.Merge)
_READERS: Final[Mapping[tuple[str, ...], Callable[[Cursor], Statement | None]]] = {
    ("CREATE", "TABLE"): partial(create_grammar.read_create, CreateMode.CREATE),
    ("CREATE", "OR", "REPLACE", "TABLE"): partial(create_grammar.read_create, CreateMode.CREATE_OR_REPLACE),
    ("REPLACE", "TABLE"): partial(create_grammar.read_create, CreateMode.REPLACE),
    ("ALTER", "TABLE"): alter_grammar.read_alter,
    ("DROP", "TABLE"): alter_grammar.read_drop_table,
    ("REPAIR", "TABLE"): alter_grammar.read_repair,
    ("MSCK", "REPAIR", "TABLE"): alter_grammar.read_repair,
    ("CREATE", "VIEW"): create_grammar.read_create_view,
    ("CREATE", "OR", "REPLACE", "VIEW"): partial(create_grammar.read_create_view, replaces=True),
    ("DROP", "VIEW"): create_grammar.read_drop_view,
    ("SHOW", "VIEWS"): show_grammar.read_show_views,
    **{("CREATE", word): create_grammar.read_create_database for word in DATABASE},
    **{("DROP", word): create_grammar.read_drop_database for word in DATABASE},
    **{("ALTER", word): create_grammar.read_alter_database for word in DATABASE},
    **{("SHOW", what.name): partial(ref_grammar.read_show_refs, what) for what in ref_grammar.Refs},
    ("COMMENT", "ON"): alter_grammar.read_comment,
    **{("COMMENT", "ON", word): create_grammar.read_alter_database for word in DATABASE},
    ("DESCRIBE",): show_grammar.read_describe,
    ("DESC",): show_grammar.read_describe,
    ("SHOW", "CREATE", "TABLE"): show_grammar.read_show_create,
    ("SHOW", "COLUMNS"): show_grammar.read_show_columns,
    ("SHOW", "PARTITIONS"): show_grammar.read_show_partitions,
    ("SHOW", "TBLPROPERTIES"): show_grammar.read_show_properties,
    ("SHOW", "TABLES"): show_grammar.read_show_tables,
    ("SHOW", "TABLE", "EXTENDED"): show_grammar.read_show_table_extended,
    **{("SHOW", f"{word}S"): show_grammar.read_show_databases for word in DATABASE},
    ("SHOW", "CATALOGS"): show_grammar.read_show_catalogs,
    ("SHOW", "CURRENT"): show_grammar.read_show_current,
    ("SHOW", "PROCEDURES"): show_grammar.read_show_procedures,
    ("OPTIMIZE",): foreign_grammar.read_optimize,
    ("VACUUM",): foreign_grammar.read_vacuum,
    ("RESTORE",): foreign_grammar.read_restore,
    ("CONVERT", "TO", "DELTA"): foreign_grammar.read_convert,
    ("UNDROP", "TABLE"): foreign_grammar.read_undrop,
    ("GENERATE",): foreign_grammar.read_generate,
    ("REORG", "TABLE"): foreign_grammar.read_reorg,
    ("FSCK", "REPAIR", "TABLE"): foreign_grammar.read_fsck,
    ("USE",): show_grammar.read_use,
    ("SET", "CATALOG"): show_grammar.read_set_catalog,
    ("REFRESH", "TABLE"): show_grammar.read_refresh,
    ("ANALYZE", "TABLE"): show_grammar.read_analyze,
    ("INSERT",): write_grammar.read_insert,
    ("WITH",): write_grammar.read_with,
    ("FROM",): write_grammar.read_from,
    ("DELETE",): write_grammar.read_delete,
    ("UPDATE",): write_grammar.read_update,
    ("MERGE",): write_grammar.read_merge,
    ("TRUNCATE", "TABLE"): write_grammar.read_truncate,
    ("COPY", "INTO"): write_grammar.read_copy,
    ("LOAD", "DATA"): write_grammar.read_load,
    ("CALL",): read_call,
    ("EXECUTE", "IMMEDIATE"): read_execute_immediate,
    ("EXPLAIN",): _read_explain,
}
"""What reads a statement behind the keywords it begins with; the longest match wins. None: the statement is Spark's."""

_COMMANDS: Final[Mapping[type[Statement], Callable[[Session, Any], Result]]] = {
    create_grammar.CreateTable: create.create_table,
    create_grammar.CreateTableLike: create.create_table_like,
    alter_grammar.AlterTable: alter_table.alter_table,
    alter_grammar.CommentOnColumn: alter_table.comment_on_column,
    alter_grammar.RenameTable: alter_table.rename_table,
    alter_grammar.AddPartitions: alter_table.add_partitions,
    alter_grammar.DropPartitions: alter_table.drop_partitions,
    alter_grammar.DropTable: alter_table.drop_table,
    create_grammar.CreateDatabase: create.create_database,
    create_grammar.DropDatabase: create.drop_database,
    create_grammar.AlterDatabase: create.alter_database,
    create_grammar.CreateView: views.create_view,
    create_grammar.DropView: views.drop_view,
    show_grammar.ShowViews: views.show_views,
    ref_grammar.CreateTag: tags_and_branches.create_tag,
    ref_grammar.DropTags: tags_and_branches.drop_tags,
    ref_grammar.CreateBranch: tags_and_branches.create_branch,
    ref_grammar.DropBranch: tags_and_branches.drop_branch,
    ref_grammar.RenameRef: tags_and_branches.rename_ref,
    ref_grammar.PublishBranch: tags_and_branches.publish_branch,
    ref_grammar.ShowRefs: tags_and_branches.show_refs,
    show_grammar.Describe: describe.describe,
    show_grammar.DescribeDatabase: describe.describe_database,
    show_grammar.DescribeHistory: describe.describe_history,
    show_grammar.ShowProcedures: show_procedures,
    show_grammar.ShowCreateTable: show.show_create_table,
    show_grammar.ShowColumns: show.show_columns,
    show_grammar.ShowPartitions: show.show_partitions,
    show_grammar.ShowProperties: show.show_properties,
    show_grammar.ShowTables: show.show_tables,
    show_grammar.ShowTablePartition: describe.show_table_partition,
    show_grammar.ShowDatabases: show.show_databases,
    show_grammar.ShowCatalogs: show.show_catalogs,
    show_grammar.ShowCurrent: show.show_current,
    show_grammar.Use: show.use,
    show_grammar.Refresh: show.refresh,
    show_grammar.Analyze: analyze.analyze,
    write_grammar.Insert: insert.insert,
    write_grammar.Delete: row_level.delete,
    write_grammar.Update: row_level.update,
    write_grammar.Truncate: row_level.truncate,
    write_grammar.Merge: row_level.merge_into,
    InvalidStatement: _invalid,
    UnsupportedStatement: _unsupported,
    Call: run_call,
    ExecuteImmediate: _execute_immediate,
}
"""What runs a statement, by its class."""
