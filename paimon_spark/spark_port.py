"""Port to Spark: the jobs and SQL that packages below `spark` and `sql` ask for.

`paimon_spark/__init__.py` names the modules that do it. They are imported when something first asks for Spark, so that
everything else works without pyspark.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from paimon_spark.errors import UnsupportedFeatureError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType as SparkType
    from pyspark.sql.types import StructType

    from paimon_spark.api.catalog import Catalog
    from paimon_spark.api.table import Table
    from paimon_spark.api.views import View
    from paimon_spark.engine.compaction.sorting import RowOrder
    from paimon_spark.engine.compaction.task import BucketTask
    from paimon_spark.engine.row_diff.compare import Differences
    from paimon_spark.engine.tasks import CommitMessage
    from paimon_spark.format.metadata_files.snapshot import Snapshot
    from paimon_spark.jobs.opened_table import OpenedTable
    from paimon_spark.jobs.read.scan import Scan
    from paimon_spark.jobs.row_diff.comparison import RowComparison
    from paimon_spark.jobs.row_level.write import MergeClauses
    from paimon_spark.jobs.write.commit import WriteResult
    from paimon_spark.lineage.index.provenance import StatementRecord
    from paimon_spark.metadata.handle import TableHandle
    from paimon_spark.options.write_request import WriteMode
    from paimon_spark.sql.session import Session
    from paimon_spark.types import DataField, RowType
    from paimon_spark.versioning.checks import CheckResult, Checks

T = TypeVar("T")
R = TypeVar("R")


class SparkJobs(Protocol):
    """DataFrames of tables, and jobs that change tables. Sessions may be classic or Connect."""

    def has_session(self) -> bool:
        """Whether this process or thread has an active session."""

    def time_zone(self) -> str | None:
        """Time zone of the active session; None without one."""

    def row_type(self, schema: StructType) -> RowType:
        """The columns of a Spark schema; field ids only count. Raises UnsupportedFeatureError."""

    def column(self, name: str, data_type: SparkType) -> DataField:
        """A nullable column of a Spark type. Raises UnsupportedFeatureError."""

    def dataframe(self, scan: Scan, session: SparkSession | None) -> DataFrame:
        """The DataFrame that reads what `scan` asks for."""

    def arrow_dataframe(self, rows: pa.Table, session: SparkSession | None) -> DataFrame:
        """The DataFrame of rows that are in memory."""

    def write(self, table: OpenedTable, rows: DataFrame, mode: WriteMode, options: Mapping[str, str]) -> WriteResult:
        """Write the rows of a DataFrame, as `Table.write`."""

    def delete(self, table: OpenedTable, where: str) -> WriteResult:
        """Delete rows, as `Table.delete`."""

    def update(self, table: OpenedTable, where: str | None, values: Mapping[str, str]) -> WriteResult:
        """Change rows, as `Table.update`."""

    def merge(self, table: OpenedTable, data: Any, on: str, given: MergeClauses) -> WriteResult:
        """Merge the rows of a Spark DataFrame, or of Arrow or pandas data, into the table, as `Table.merge`."""

    def watch_queries(
        self,
        session: SparkSession | None,
        what_for: str,
        began: Callable[[str], None],
        ended: Callable[[str], None],
    ) -> None:
        """Report the ids of streaming queries of a session that begin and end; once for each `what_for`."""

    def run_checks(
        self, checks: Checks, tables: Mapping[str, Table], session: SparkSession | None
    ) -> list[CheckResult]:
        """Run checks on tables opened at versions, as `Table.check`."""

    def row_diff(self, planned: RowComparison, session: SparkSession | None) -> DataFrame:
        """The rows that differ, as `RowDiff.to_spark`."""

    def row_diff_counts(self, planned: RowComparison) -> Iterator[Differences]:
        """The differences, each with a few of its rows, compared by a job of the active session."""

    def run_each(
        self, work: Callable[[T], R], items: Sequence[T], sweep: Callable[[], int] | None = None
    ) -> Iterator[R]:
        """Yield `work(item)` for each item, in order, computed by executors. After an error calls `sweep`."""

    def run_sort(
        self,
        handle: TableHandle,
        snapshot: Snapshot,
        tasks: Sequence[BucketTask],
        commit_user: str,
        order: RowOrder,
    ) -> Sequence[CommitMessage | None]:
        """The commit message of each task of a sort compaction, in order."""


class SparkSql(Protocol):
    """SQL statements on the tables of a warehouse."""

    def execute(
        self,
        catalog: Catalog,
        statement: str,
        args: Mapping[str, Any] | Sequence[Any] | None,
        session: SparkSession | None,
        database: str | None = None,
    ) -> DataFrame:
        """Run a statement, as `Catalog.sql`; `database` is the current one."""

    def query_rows(self, catalog: Catalog, query: str, database: str) -> DataFrame:
        """The rows of the query of a permanent view that is to be in a database."""

    def view_rows(self, view: View, catalog: Catalog, session: SparkSession | None) -> DataFrame:
        """The rows of a permanent view, as `View.to_spark`."""

    def check_again(
        self, catalog: Catalog, statements: Sequence[tuple[StatementRecord, str]], session: SparkSession | None
    ) -> None:
        """Check that recorded statements, each with the table that it wrote, may run again."""

    def execute_again(
        self, catalog: Catalog, statement: StatementRecord, branch: str, session: SparkSession | None
    ) -> DataFrame:
        """Run a statement that lineage recorded on a branch of the tables that have it."""

    def register_functions(self, catalog: Catalog, session: SparkSession | None, prefix: str) -> list[str]:
        """Register the table functions, as `Catalog.register_functions`."""


class PlannedReads(Protocol):
    """Reads that Spark plans as it plans tables of catalogs."""

    def dataframe(self, scan: Scan, spark: SparkSession, *, keeps_filters: bool) -> DataFrame | None:
        """The DataFrame of a scan in a classic session; None where the session's JVM cannot be used."""


class PlannedQueries(Protocol):
    """Queries of `catalog.sql` that Spark plans as those on attached catalogs."""

    def query(self, session: Session, sql: str) -> DataFrame:
        """The rows of a query in a classic session."""


_jobs: Callable[[], SparkJobs]
_sql: Callable[[], SparkSql]
_reads: Callable[[], PlannedReads]
_queries: Callable[[], PlannedQueries]


def implement(
    jobs: Callable[[], SparkJobs],
    sql: Callable[[], SparkSql],
    reads: Callable[[], PlannedReads],
    queries: Callable[[], PlannedQueries],
) -> None:
    """Set what imports the implementations."""
    global _jobs, _sql, _reads, _queries
    _jobs, _sql, _reads, _queries = jobs, sql, reads, queries


def check_installed() -> None:
    """Check that PySpark can be imported. Raises UnsupportedFeatureError, which says what to install."""
    try:
        found = find_spec("pyspark") is not None
    except ImportError:
        found = False
    if not found:
        raise UnsupportedFeatureError(
            "this runs on Spark, and PySpark is not installed here: pip install 'pyspark>=4.1,<4.4', and install Java "
            "17 or newer",
            feature="Spark",
        )


def spark_jobs() -> SparkJobs:
    """The implementation of Spark jobs. Imports pyspark. Raises as `check_installed`."""
    check_installed()
    return _jobs()


def active_spark_jobs() -> SparkJobs | None:
    """The same where this process has a session; None elsewhere, without importing pyspark."""
    if "pyspark.sql" not in sys.modules:
        return None
    jobs = spark_jobs()
    return jobs if jobs.has_session() else None


def session_time_zone() -> str | None:
    """The time zone of the active session (`spark.sql.session.timeZone`); None where this process has none."""
    jobs = active_spark_jobs()
    return None if jobs is None else jobs.time_zone()


def can_spread() -> bool:
    """Whether `spread` would run work on executors."""
    return active_spark_jobs() is not None


def spread(work: Callable[[T], R], items: Sequence[T], *, here: bool = False) -> Iterator[R]:
    """Yield `work(item)` for each item, in order: by executors of the active session if there is one, else here.

    Args:
        work: picklable, as items and results are. May be repeated for an item.
        items: each is a task.
        here: work in the calling thread in any case. That needs no pool of threads, so it works when Python ends, too.
    """
    spark = None if here or len(items) <= 1 else active_spark_jobs()
    yield from map(work, items) if spark is None else spark.run_each(work, items)


def spark_sql() -> SparkSql:
    """The implementation of SQL statements. Imports pyspark and the SQL parser. Raises as `check_installed`."""
    check_installed()
    return _sql()


def planned_reads() -> PlannedReads:
    """The implementation of reads in classic sessions. Imports py4j."""
    return _reads()


def planned_queries() -> PlannedQueries:
    """The implementation of queries in classic sessions. Imports py4j."""
    return _queries()
