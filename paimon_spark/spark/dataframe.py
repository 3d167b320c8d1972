"""A Scan as a Spark DataFrame, in classic and in Connect sessions."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from paimon_spark.jobs.scan import Scan
from paimon_spark.options.location import MAIN
from paimon_spark.options.scan import BRANCH, COLUMNS, WHERE
from paimon_spark.spark.register import register
from paimon_spark.spark.source import PaimonPyDataSource

_NOT_FOUND = "DATA_SOURCE_NOT_FOUND"


def dataframe(scan: Scan, session: SparkSession | None = None) -> DataFrame:
    """The DataFrame that reads what `scan` asks for. User's process; nothing of `scan` but its options travels."""
    spark = session or SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    try:
        return _loaded(spark, scan)
    except PySparkException as e:
        if not is_missing_source(e):
            raise
    register(spark)
    return _loaded(spark, scan)


def is_missing_source(error: PySparkException) -> bool:
    """Whether Spark says that it knows no such data source: its Python workers do not see the package."""
    return _NOT_FOUND in (error.getCondition() or "") or _NOT_FOUND in str(error)


def _loaded(spark: SparkSession, scan: Scan) -> DataFrame:
    # The second name is ours in every session; the first may be the JAR's.
    reader = spark.read.format(PaimonPyDataSource.name()).options(**as_options(scan))
    frame = reader.load(scan.load_path)
    _ = frame.schema  # Connect finds out about a missing source only now
    return frame


def as_options(scan: Scan) -> dict[str, str]:
    """Option text that asks for the same read, location aside."""
    out = {k: v for k, v in scan.option_text.items() if k not in BRANCH.fallbacks}
    if scan.handle.branch != MAIN:
        out[BRANCH.key] = scan.handle.branch
    if scan.options.columns is not None:
        out[COLUMNS.key] = ",".join(f"`{c.replace('`', '``')}`" for c in scan.options.columns)
    if scan.options.where is not None:
        out[WHERE.key] = scan.options.where
    return out
