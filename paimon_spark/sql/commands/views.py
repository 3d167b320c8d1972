"""Run CREATE VIEW, DROP VIEW and SHOW VIEWS of permanent views.

Source: Spark's `CreateViewCommand`, `ShowViewsExec`; Java Spark connector, `CreatePaimonView`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from paimon_spark.errors import AlreadyExistsError, InvalidInputError, UnsupportedFeatureError
from paimon_spark.options.location import TableName
from paimon_spark.spark.schema import row_type
from paimon_spark.sql.commands.show import matching
from paimon_spark.sql.grammar.create import CreateView, DropView
from paimon_spark.sql.grammar.show import ShowViews
from paimon_spark.sql.names import resolve_database, resolve_name
from paimon_spark.sql.queries.errors import check_names
from paimon_spark.sql.queries.parse import ParsedQuery, parse_query
from paimon_spark.sql.queries.references import references
from paimon_spark.sql.queries.scopes import written
from paimon_spark.sql.run import parse_query_of_view, run_query
from paimon_spark.sql.session import Session
from paimon_spark.sql.statement import Outcome, Result
from paimon_spark.sql.tokens import Edit, edited
from paimon_spark.types import RowType, quoted, quoted_if_needed


def create_view(session: Session, statement: CreateView) -> Result:
    """Create a permanent view; its columns are found by planning its query.

    Raises:
        UnsupportedFeatureError: the catalog holds no views, a clause that only Spark's views have, or a view of Spark
            over tables of the catalog, whose text Spark could not run later.
        AlreadyExistsError: there is such a view, unless it is replaced or IF NOT EXISTS; or a table.
        InvalidInputError: it is no query, or one that reads a temporary view or the view itself; or the list of columns
            does not fit it.
    """
    name = resolve_name(session, statement.name)
    if name is None:
        return _leave_to_spark(session, statement)
    name.refuse_suffix("a view")
    if statement.other:
        raise UnsupportedFeatureError(
            f"view {name}: {statement.other} is not supported; leave it out", feature="clause of CREATE VIEW"
        )
    session.catalog.check_holds_views(str(name))
    if statement.if_not_exists and session.permanent_view(name) is not None:
        return None
    query = _portable(session, statement.query)
    if statement.replaces:
        _refuse_cycle(session, name, query)
    columns = _columns(session, name, statement, query)
    try:
        session.catalog.create_view(
            name.bare,
            query,
            columns=columns,
            comment=statement.comment,
            options=statement.properties,
            replace=statement.replaces,
        )
    except AlreadyExistsError:
        if not statement.if_not_exists or session.has_table(name.database, name.table):
            raise
    return None


def drop_view(session: Session, statement: DropView) -> Result:
    """Drop a permanent view. Raises NotFoundError when it is missing, InvalidInputError for a table."""
    name = resolve_name(session, statement.name)
    if name is None or (len(statement.name) == 1 and session.has_view(statement.name[0])):
        return Outcome.RUN_BY_SPARK
    name.refuse_suffix("dropped as a view")
    if session.has_table(name.database, name.table):
        raise InvalidInputError(f"{name} is a table, not a view; use DROP TABLE", table=str(name))
    session.catalog.drop_view(name.bare, ignore_if_not_exists=statement.if_exists)
    return None


def show_views(session: Session, statement: ShowViews) -> Result:
    """The permanent views of a database, and the temporary ones. Raises DatabaseNotFoundError."""
    database = resolve_database(session, statement.database)
    if database is None:
        return Outcome.RUN_BY_SPARK
    shown = quoted_if_needed(database)
    rows = [(shown, name, False) for name in matching(session.catalog.list_views(database), statement.pattern)]
    rows += [("", name, True) for name in matching(session.temporary_views(), statement.pattern)]
    return session.rows("namespace STRING NOT NULL, viewName STRING NOT NULL, isTemporary BOOLEAN NOT NULL", rows)


def _leave_to_spark(session: Session, statement: CreateView) -> Result:
    """Leave a view to Spark, unless it reads tables of the catalog."""
    tables = references(session.caching(), parse_query(statement.query)) if statement.query else ()
    if not tables:
        return Outcome.RUN_BY_SPARK
    table, view = tables[0].name, statement.name[-1]
    raise UnsupportedFeatureError(
        f"view {'.'.join(statement.name)} over {table} cannot be stored in Spark's own catalog, which does not know "
        f"the table. CREATE TEMPORARY VIEW {view} AS … creates one for this session; CREATE VIEW "
        f"{quoted_if_needed(session.catalog_name)}.{quoted_if_needed(table.database)}.{view} AS … creates one in the "
        "catalog of the table, where that is a JDBC metastore or a REST server",
        feature="CREATE VIEW",
    )


def _columns(session: Session, name: TableName, statement: CreateView, query: str) -> RowType:
    """The columns of a view: of the query, with the names and comments of the list."""
    found = row_type(run_query(replace(session, args=None), query).schema)
    if not statement.columns:
        return found
    check_names(str(name), statement.columns, found.names)
    named = zip(found, statement.columns, strict=True)
    return RowType(False, tuple(replace(f, name=new, description=comment) for f, (new, comment) in named))


def _portable(session: Session, query: str) -> str:
    """The query with a database before each table that has none: another session has another current one."""
    parsed = parse_query_of_view(query)
    for view in _temporary_views(session, parsed):
        raise InvalidInputError(
            f"the query of a permanent view reads the temporary view {view}, which other sessions do not have; put its "
            "query in place of it",
            view=view,
        )
    bare = [r for r in references(session.caching(), parsed) if r.function is None and len(r.node.parts) == 1]
    return edited(parsed.sql, [Edit(r.start, r.start, quoted(r.name.database) + ".") for r in bare])


def _refuse_cycle(session: Session, name: TableName, query: str) -> None:
    """Check that a query does not read the view that is to have it. Raises InvalidInputError."""
    seen, left = set(), [(name, query)]
    while left:
        view, text = left.pop()
        inner = session.for_view(view.database).caching()
        for read in references(inner, parse_query(text)):
            found = None if read.function is not None else read.session.permanent_view(read.name)
            if found is None or found.name in seen:
                continue
            if found.name == str(name):
                raise InvalidInputError(
                    f"view {name} would read itself, through {view}; change the query", view=str(name)
                )
            seen.add(found.name)
            left.append((read.name, found.spark_query))


def _temporary_views(session: Session, parsed: ParsedQuery) -> Iterator[str]:
    for tree in parsed.trees or ():
        for node in tree.find_all(exp.Table):
            if not isinstance(node.this, exp.Identifier) or len(node.parts) > 1 or parsed.scopes.is_cte(node):
                continue
            name = written(node.this)
            if session.has_view(name):
                yield name
