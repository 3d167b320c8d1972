"""Spark sessions: configuration, registration of the sources, errors shown as text."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from copy import copy
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeVar
from weakref import WeakSet

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from paimon_spark import errors
from paimon_spark.errors import InvalidInputError, PaimonError
from paimon_spark.redaction import get_logger
from paimon_spark.spark.schema import arrow_schema
from paimon_spark.spark.source import PaimonDataSource, PaimonPyDataSource
from paimon_spark.types import quoted

T = TypeVar("T")

_LOG: Final = get_logger(__name__)
SEPARATOR: Final = "\x1e"
"""Between the entries in `entries_of`."""
_NOT_FOUND: Final = "DATA_SOURCE_NOT_FOUND"
_NOT_IMPORTED: Final = re.compile("No module named '(paimon_spark|pyarrow)'")
"""Of workers without this package, or without what it needs: which of both they miss first differs."""
_VIEW_EXISTS: Final = "TEMP_TABLE_OR_VIEW_ALREADY_EXISTS"
_ALIASED_VIEW: Final = re.compile(
    r"SubqueryAlias (.+)\n[\s:]*[+:]- '?(?:SubqueryAlias|UnresolvedRelation) \[?(_pyspark_\w+)"
)
_STACK_TRACE: Final = "\n\nJVM stacktrace:"
"""Begins what a setting of PySpark adds to messages."""
_ERROR: Final = re.compile(
    r"paimon_spark\.errors\.(\w+): (.*?)(?=\n\s*(?:at |\n|JVM stacktrace|SQLSTATE)|\n?$)", re.DOTALL
)
SETTINGS: Final = {
    # With a lower limit the JVM adds up the Arrow buffers after every single row, which costs more than all the rest
    # of a write. Batches keep to 10,000 rows (spark.sql.execution.arrow.maxRecordsPerBatch).
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
}
CONNECT_SETTINGS: Final = {
    # A classic session leaves the stack trace of the JVM out of the text of an error by default.
    "spark.sql.connect.serverStacktrace.enabled": "false",
}

PYTHON_VARIABLES: Final = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
"""Environment variables by which users choose the Python of Spark's workers."""
_PYTHON_SETTINGS: Final = ("spark.pyspark.python", "spark.pyspark.driver.python")
_PYTHON: Final = "python3"
"""What Spark's workers run where nobody chose."""
_LOCAL_MASTER: Final = re.compile(r"local(\[.*\])?")
FILE_READER: Final = "spark.paimon-spark.file-reader"
"""Setting of a session: false lets every read go through Python, true (the default) through Spark's own readers."""
_NATIVE_PARQUET: Final = "spark.paimon-spark.native-parquet"
"""The former name of the setting."""


def reads_files(spark: SparkSession) -> bool:
    """Whether Spark's own readers may read data files in a session."""
    return str(spark.conf.get(FILE_READER, spark.conf.get(_NATIVE_PARQUET, "true"))).lower() != "false"


def configure_session(spark: SparkSession) -> dict[str, str]:
    """Set what makes `format("paimon")` fastest and its errors short in `spark`, classic or Connect.

    No answer changes by it. Returns what was set, by key:

    - `spark.sql.execution.arrow.maxBytesPerBatch = 2147483647`: writes take about half the time. Spark then bounds
      the batches it hands to Python by rows alone (10,000), so leave it at Spark's default, or lower
      `spark.sql.execution.arrow.maxRecordsPerBatch`, when single rows are very large (100 KB and more).
    - `spark.sql.connect.serverStacktrace.enabled = false`, in Spark Connect only: the text of an error ends with its
      message, as in a classic session, instead of some hundred lines of the server's stack trace. `getStackTrace()` of
      the error still has them.

    An error of this package that ends the process, such as that of a stream, is printed once more, as the last line,
    below what Spark prints of it.

    Filters of queries are not among it: with `spark.sql.python.filterPushdown.enabled` Spark gives a DataFrame that is
    used twice the rows of its first filter, so this source takes no filters from Spark. To skip partitions, buckets and
    files say `option("where", "dt = '2024-01-01'")`, or query by `catalog.sql`, which does so by itself.

    With a local master and no Python chosen for Spark's workers (`PYSPARK_PYTHON`, `spark.pyspark.python`), they run
    the Python of this process from then on, instead of `python3` of the `PATH`.

    Call it in every thread that writes or starts queries: elsewhere than in the thread that made a classic session,
    `df.write` and `df.writeStream` find no data source in Python (DATA_SOURCE_NOT_FOUND) without it.
    """
    if run_workers_here(spark):
        register(spark)
    find_sources_here(spark)
    if not _HOOKS:
        _HOOKS.append(sys.excepthook)
        sys.excepthook = _tell_last
    settings = SETTINGS if is_classic(spark) else {**SETTINGS, **CONNECT_SETTINGS}
    for key, value in settings.items():
        spark.conf.set(key, value)
    return dict(settings)


_HOOKS: Final[list[Any]] = []
"""What printed errors that end the process before."""


def _tell_last(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an error that ends the process, and once more the message that it holds below pages of Spark's."""
    for hook in _HOOKS:
        hook(kind, error, trace)
    ours = unwrapped(error) if isinstance(error, PySparkException) else None
    if ours is not None:
        sys.stderr.write(f"\n{type(ours).__name__}: {ours}\n")


_SHORTENED: Final[WeakSet[SparkSession]] = WeakSet()


def shorten_errors(spark: SparkSession) -> None:
    """Leave the server's stack trace out of errors of a Connect session, once, unless its user has chosen.

    Not in a declarative pipeline, which forbids its code to change settings.
    """
    if is_classic(spark) or spark in _SHORTENED:
        return
    _SHORTENED.add(spark)
    chosen = settings(spark)
    for key, value in CONNECT_SETTINGS.items():
        if key not in chosen:
            with suppress(PySparkException):
                spark.conf.set(key, value)


def register(spark: SparkSession) -> None:
    """Make `format("paimon")` and `format("paimon_py")` known to `spark`, classic or Connect.

    After `pip install` this is not needed: Spark finds the package itself. Of a package that came with `--py-files` it
    finds nothing.
    """
    run_workers_here(spark)
    shorten_errors(spark)
    _send_wheel(spark)
    spark.dataSource.register(PaimonDataSource)
    spark.dataSource.register(PaimonPyDataSource)


def run_workers_here(spark: SparkSession) -> bool:
    """Let Spark's Python workers run this process's Python, unless one was chosen; returns whether that is new.

    Only with a local master: elsewhere another machine need not have it. PySpark reads it for each function and data
    source that it makes; those made before keep `python3` of the `PATH`.
    """
    if not is_classic(spark):
        return False
    context = spark.sparkContext
    if context.pythonExec != _PYTHON or not sys.executable or _LOCAL_MASTER.fullmatch(str(context.master)) is None:
        return False
    conf = context.getConf()
    if any(key in os.environ for key in PYTHON_VARIABLES) or any(map(conf.contains, _PYTHON_SETTINGS)):
        return False
    context.pythonExec = sys.executable
    return True


def _send_wheel(spark: SparkSession) -> None:
    """Give the package to Spark's workers where it was imported from a wheel: they take zip files, and no wheels."""
    archive = str(getattr(sys.modules[__name__].__loader__, "archive", ""))
    if not archive.endswith(".whl") or not is_classic(spark) or spark.sparkContext.applicationId in _SENT:
        return
    folder = tempfile.mkdtemp(prefix="paimon-spark-")  # executors fetch the file from there as long as the job runs
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    spark.sparkContext.addPyFile(shutil.copy(archive, f"{folder}/{Path(archive).stem}.zip"))
    _SENT.add(str(spark.sparkContext.applicationId))


_SENT: Final[set[str]] = set()
"""Applications whose workers have been given the wheel."""


def find_sources_here(spark: SparkSession) -> None:
    """Let writes of this thread find Python data sources.

    A classic session looks up the source of a write, though not of a read, in the active session of the thread, and
    only the thread that created the session has one.
    """
    if is_classic(spark):  # making a DataFrame is the public way to make its session active
        spark.createDataFrame([], "x INT")


def is_classic(spark: Any) -> bool:
    """Whether a session has a JVM in this process's reach, so that it is not one of Spark Connect."""
    return isinstance(spark, SparkSession)


def settings(spark: SparkSession) -> dict[str, str]:
    """All settings of a session.

    In a classic session, `conf.getAll` calls the JVM several times for each of them; one text takes one call.
    """
    if not is_classic(spark):
        return dict(spark.conf.getAll)
    return entries_of(spark._jsparkSession.conf().getAll().mkString(SEPARATOR))  # noqa: SLF001 - PySpark keeps it private


def entries_of(text: str) -> dict[str, str]:
    """The entries in the text of a Scala map of text, with `SEPARATOR` between them."""
    pairs = (entry.partition(" -> ") for entry in text.split(SEPARATOR))
    return {key: value for key, sign, value in pairs if sign}


_IS_SPARK_ALONE: Final = ContextVar("is_spark_alone", default=False)


@contextmanager
def without_attached() -> Iterator[None]:
    """Let calls of this thread go to Spark alone, in sessions of Spark Connect with attached catalogs.

    Only Spark may be called inside: code of users expects to find the catalogs.
    """
    token = _IS_SPARK_ALONE.set(True)
    try:
        yield
    finally:
        _IS_SPARK_ALONE.reset(token)


def is_spark_alone() -> bool:
    """Whether this call is inside `without_attached`."""
    return _IS_SPARK_ALONE.get()


def local_dataframe(spark: SparkSession, schema: str, rows: Sequence[tuple[Any, ...]]) -> DataFrame:
    """A few rows as a DataFrame; `schema` is DDL text.

    A classic session makes a DataFrame of Python rows by a job with Python workers, of Arrow data without a job.
    """
    if not is_classic(spark):
        return spark.createDataFrame(rows, schema)
    # Private to Spark, but Spark Connect makes its DataFrames by it.
    from pyspark.sql.conversion import LocalDataToArrowConversion

    parsed = StructType.fromDDL(schema)
    assert isinstance(parsed, StructType)
    if rows:
        table = LocalDataToArrowConversion.convert(rows, parsed, False)
    else:
        table = arrow_schema(parsed).empty_table()
    return spark.createDataFrame(table, parsed)


def session_or_new(session: SparkSession | None = None) -> SparkSession:
    """The session given, else the active one, else a new one; errors of a Connect session are short from then on."""
    found = session or SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    shorten_errors(found)
    return found


def with_sources(spark: SparkSession, act: Callable[[], T]) -> T:
    """Result of `act`, called again after registering the data sources where Spark does not find them.

    Raises InvalidInputError: Spark's Python workers cannot import the package.
    """
    shorten_errors(spark)
    if run_workers_here(spark):
        register(spark)
    try:
        try:
            return act()
        except Exception as e:  # classic sessions raise an error of py4j
            if _NOT_FOUND not in str(e):
                raise
        register(spark)
        _start_worker(spark)
        return act()
    except PySparkException as e:
        if _NOT_IMPORTED.search(str(e)) is None:
            raise
    where = (
        f"run {spark.sparkContext.pythonExec!r}; activate the virtual environment, or set the environment variable "
        f"PYSPARK_PYTHON to {sys.executable!r} before the session starts"
        if is_classic(spark)
        else "are those of the Spark Connect server; install paimon_spark there, for the Python of its PYSPARK_PYTHON"
    )
    raise InvalidInputError(f"Spark's Python workers cannot import paimon_spark: they {where}")


def _start_worker(spark: SparkSession) -> None:
    """Raise Spark's error if its Python workers cannot import the package; a read tells only once it runs."""
    try:
        with without_attached():
            _ = spark.read.format(PaimonPyDataSource.name()).load().schema
    except PySparkException as e:
        if _NOT_IMPORTED.search(str(e)) is not None:
            raise
        # They can: it is refused, as it names no table.


@contextmanager
def temporary_views(frames: Iterable[tuple[str, DataFrame]]) -> Iterator[list[str]]:
    """Give DataFrames names, as temporary views, which plans and messages show; dropped at the end.

    Where a name is taken, as by another thread or by an equal name in `frames`, ` (2)` follows, then ` (3)`.
    """
    made: dict[str, DataFrame] = {}
    try:
        for name, frame in frames:
            made[_new_view(frame, name.replace("`", ""), made)] = frame
        yield list(made)
    finally:
        for view, frame in made.items():
            frame.sparkSession.catalog.dropTempView(view)


def _new_view(frame: DataFrame, name: str, taken: Collection[str]) -> str:
    """Make a view of this name, or with the first number behind it that is not taken."""
    for number in count(1):
        view = name if number == 1 else f"{name} ({number})"
        if view in taken:
            continue
        try:
            frame.createTempView(quoted(view))
        except AnalysisException as e:
            if e.getCondition() != _VIEW_EXISTS:
                raise
        else:
            return view
    raise AssertionError("there is always another number")


def without_view_names(plan: str) -> str:
    """The text of a plan made through Connect, with aliases of tables in place of the names that its client makes."""
    for alias, view in _ALIASED_VIEW.findall(plan):
        plan = plan.replace(view, alias)
    return plan


@contextmanager
def our_errors() -> Iterator[None]:
    """Raise errors of this package that Spark shows as text as what they are, without Spark's."""
    try:
        yield
    except PySparkException as e:
        ours = unwrapped(e)
        if ours is None:
            raise
        _LOG.debug("error in a Python worker of Spark", exc_info=e)
        raise ours from None


_RAISED: Final[dict[str, PaimonError]] = {}
_MOST_RAISED: Final = 1000


def remember(error: PaimonError) -> None:
    """Let `unwrapped` find an error that reaches Spark as a Java exception with its message alone."""
    _RAISED[error.message] = error
    if len(_RAISED) > _MOST_RAISED:
        _RAISED.pop(next(iter(_RAISED)), None)


def unwrapped(error: BaseException) -> PaimonError | None:
    """The error of this package in the text of Spark's; None if it has none."""
    found = _RAISED.get(str(error).partition(_STACK_TRACE)[0])
    if found is not None:
        return copy(found)
    for name, message in reversed(_ERROR.findall(str(error))):
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, PaimonError):
            return kind(message.strip())
    return None
