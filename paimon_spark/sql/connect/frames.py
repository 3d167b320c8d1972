"""Run a query with DataFrames in place of its Paimon tables.

Temporary views and cached tables of such queries are created from the DataFrame: Spark would store their text, in which
the DataFrames have no meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias, Union

from pyspark.errors import AnalysisException
from pyspark.sql.functions import col

from paimon_spark.engine.tasks import FILE_PATH
from paimon_spark.errors import TableNotFoundError, UnsupportedFeatureError
from paimon_spark.jobs.read.scan import Scan
from paimon_spark.jobs.row_diff.comparison import RowComparison
from paimon_spark.spark.dataframe import dataframe
from paimon_spark.spark.session import without_attached
from paimon_spark.sql.connect.rewrite import replaced, stars_without_list, with_scalars
from paimon_spark.sql.connect.scans import metadata_columns, read_of
from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.functions import refuse_foreign
from paimon_spark.sql.grammar.create import view_column
from paimon_spark.sql.queries.errors import (
    check_names,
    helpful_error,
    in_one_line,
    is_one_of,
    lacks_a_column,
    version_of_view,
)
from paimon_spark.sql.queries.parse import ParsedQuery, QueryUse, parse_query
from paimon_spark.sql.queries.references import Reference, references
from paimon_spark.sql.session import Session
from paimon_spark.types import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.api.views import View

_Read: TypeAlias = Union[Scan, RowComparison, "DataFrame"]
"""What a query reads: a table, a comparison of versions, or the rows of a permanent view."""
_RowsOfView: TypeAlias = Callable[[Session, "View", str | None], "DataFrame"]


def read_and_run(session: Session, sql: str, job: str | None, rows_of_view: _RowsOfView) -> DataFrame:
    """Run a statement that may read tables of the catalog; `job` is the lineage job of the reads.

    `rows_of_view` runs the query of a permanent view. Raises as `Catalog.sql`; Spark's errors are as Spark has them.
    """
    refuse_foreign(lambda: tuple(session.each()), sql)
    parsed = parse_query(with_scalars(session, sql))
    found = references(session.caching(), parsed)
    if not found:
        return session.run(parsed.sql)
    _refuse_file_name(parsed, found[0])
    query = _Query(session, parsed, found, job, rows_of_view)
    if parsed.use is QueryUse.ROWS:
        return query.rows()
    frame = query.rows(parsed.tokens[parsed.body].start)
    if parsed.use is QueryUse.VIEW:
        _create_view(parsed, frame)
    else:
        _cache_table(session, parsed, frame)
    return session.nothing()


def _refuse_file_name(parsed: ParsedQuery, reference: Reference) -> None:
    """Refuse `input_file_name()`, which is empty where Spark does not read the files itself."""
    if any(a.keyword == "INPUT_FILE_NAME" and b.keyword == "(" for a, b in pairwise(parsed.tokens)):
        raise UnsupportedFeatureError(
            f"input_file_name() is not known of the rows of {reference.name}: use the column {FILE_PATH}",
            feature="input_file_name",
            table=str(reference.name),
        )


@dataclass(frozen=True, slots=True)
class _Query:
    """A query with the tables that it reads.

    Attributes:
        found: the tables, in the order of the text.
        job: the lineage job of the reads.
    """

    session: Session
    parsed: ParsedQuery
    found: Sequence[Reference]
    job: str | None
    rows_of_view: _RowsOfView

    def rows(self, begin: int = 0, *, has_all: bool = False) -> DataFrame:
        """The result of the statement, from position `begin` on; with `has_all`, all columns of its tables are read."""
        try:
            return self._with_scans(begin, has_all)
        except AnalysisException as e:
            error = helpful_error(self.session, e, self.parsed.sql)
            columns = self._columns() if lacks_a_column(e) else []
            if has_all or not is_one_of(e, columns):
                raise error or in_one_line(e, self.parsed.sql, columns) from None
        # The query names a column in a way that is not understood, so that it was not read.
        return self.rows(begin, has_all=True)

    def _with_scans(self, begin: int, has_all: bool) -> DataFrame:
        reads = [self._read(reference, self.job, has_all=has_all) for reference in self.found]
        hidden = {
            r: metadata_columns(self.parsed, r, s) if isinstance(s, Scan) and r.function is None else ()
            for r, s in zip(self.found, reads, strict=True)
        }
        for reference, columns in hidden.items():
            _check_hidden(self.parsed, reference, columns)
        frames = {
            f"p{n}": (reference.name.as_named.text, _frame(self.session, read))
            for n, (reference, read) in enumerate(zip(self.found, reads, strict=True))
        }
        left = _without_version_args(self.session, self.parsed, self.found)
        return left.run(replaced(self.parsed, self.found, hidden, begin), frames)

    def _read(self, reference: Reference, job: str | None, *, has_all: bool) -> _Read:
        """The read of a table or permanent view, as `read_of`."""
        try:
            return read_of(self.parsed, reference, job, has_all=has_all)
        except TableNotFoundError:
            view = None if reference.function is not None else reference.session.permanent_view(reference.name)
            if view is None:
                raise
        if reference.version is not None or reference.options is not None:
            raise version_of_view(view.name)
        return self.rows_of_view(reference.session, view, job)

    def _columns(self) -> list[tuple[str, ...]]:
        """All columns of the tables, for messages: Spark knows only those that the query needs."""
        out: list[tuple[str, ...]] = []
        for reference in self.found:
            qualifier = _qualifier(reference, self.found) if len(self.found) > 1 else ()
            read = self._read(reference, None, has_all=True)
            names = read.row_type.names if isinstance(read, Scan | RowComparison) else read.columns
            out += [(*qualifier, name) for name in names]
        return out


def _qualifier(reference: Reference, found: Sequence[Reference]) -> tuple[str, ...]:
    """Qualifier of a table's columns among others: its name or alias, if necessary the full name."""
    others = [r for r in found if r.visible == reference.visible and r.full_name != reference.full_name]
    if reference.alias or not others:
        return (reference.visible,)
    return reference.full_name if any(r.name == reference.name for r in others) else reference.full_name[1:]


def _frame(session: Session, read: _Read) -> DataFrame:
    """The DataFrame of a read, whose filters the query evaluates again."""
    match read:
        case RowComparison():
            return read.to_spark(session.spark)
        case Scan():
            return dataframe(read, session.spark, keeps_filters=True)
    return read


def _check_hidden(parsed: ParsedQuery, reference: Reference, columns: Sequence[str]) -> None:
    stars = parsed.scopes.stars(reference.node, reference.key)
    if columns and len(stars) != len(stars_without_list(parsed, reference)):
        raise UnsupportedFeatureError(
            f"* EXCEPT beside the metadata column {columns[0]} of {reference.name} is not available; name the columns",
            feature="* EXCEPT with metadata columns",
            table=str(reference.name),
        )


def _without_version_args(session: Session, parsed: ParsedQuery, found: Sequence[Reference]) -> Session:
    """The session without the parameters by position that are versions, which Spark does not see."""
    cut = [r.version for r in found if r.version is not None and r.version.parameter == "?"]
    if not cut or session.args is None or isinstance(session.args, dict):
        return session
    places = [w.start for w in parsed.tokens if w.keyword == "?"]
    gone = {n for n, place in enumerate(places) if any(v.start <= place < v.end for v in cut)}
    return replace(session, args=[a for n, a in enumerate(session.args) if n not in gone] or None)


def _create_view(parsed: ParsedQuery, frame: DataFrame) -> None:
    """`CREATE [OR REPLACE] [GLOBAL] TEMPORARY VIEW v [(columns)] [COMMENT …] AS …`, of a query's rows."""
    cursor = Cursor(parsed.sql)
    cursor.expect("CREATE")
    replaces = cursor.take("OR", "REPLACE")
    is_global = cursor.take("GLOBAL")
    if not cursor.take("TEMP"):
        cursor.expect("TEMPORARY")
    cursor.expect("VIEW")
    name = cursor.name("the name of the view")
    if is_global and len(name) == 2 and name[0].lower() == "global_temp":
        name = name[1:]
    if len(name) != 1:
        cursor.fail("the name of a temporary view, which is in no database")
    columns = cursor.parenthesised_list(lambda: view_column(cursor)) if cursor.at("(") else []
    if cursor.take("COMMENT"):
        cursor.text("a comment")  # of the view: Spark keeps none for views of DataFrames
    if not cursor.at("AS"):
        raise UnsupportedFeatureError(
            f"the temporary view {name[0]} over a Paimon table takes columns and a comment, and then AS and a query",
            feature="options of temporary views",
        )
    shown = _renamed(frame, name[0], columns) if columns else frame
    _register(shown, name[0], replaces, is_global)


def _cache_table(session: Session, parsed: ParsedQuery, frame: DataFrame) -> None:
    """`CACHE [LAZY] TABLE v [OPTIONS (…)] AS …`, of a query's rows. Raises SqlSyntaxError."""
    cursor = Cursor(parsed.sql)
    cursor.expect("CACHE")
    lazy = cursor.take("LAZY")
    cursor.expect("TABLE")
    name = cursor.name("the name of the view")
    if len(name) != 1:
        cursor.fail("the name of a temporary view, which is in no database")
    options = ""
    if cursor.take("OPTIONS"):
        options = f" OPTIONS ({cursor.parenthesised()})"
    _register(frame, name[0], False, False)
    with without_attached():
        session.spark.sql(f"CACHE {'LAZY ' if lazy else ''}TABLE {quoted(name[0])}{options}")


def _register(frame: DataFrame, name: str, replaces: bool, is_global: bool) -> None:
    if is_global:
        create = frame.createOrReplaceGlobalTempView if replaces else frame.createGlobalTempView
    else:
        create = frame.createOrReplaceTempView if replaces else frame.createTempView
    create(quoted(name))


def _renamed(frame: DataFrame, view: str, columns: list[tuple[str, str | None]]) -> DataFrame:
    check_names(view, columns, frame.columns)
    out = frame.toDF(*(name for name, _ in columns))
    if all(comment is None for _, comment in columns):
        return out
    metadata = {name: {} if comment is None else {"comment": comment} for name, comment in columns}
    return out.select(*(col(quoted(name)).alias(name, metadata=metadata[name]) for name, _ in columns))
