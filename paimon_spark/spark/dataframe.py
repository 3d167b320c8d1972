"""Scans as DataFrames: planned as tables of catalogs, by our data source, or in memory."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from paimon_spark.errors import InvalidInputError
from paimon_spark.jobs.read.scan import Scan, predicate_of
from paimon_spark.jobs.write.batch import arrow_stream
from paimon_spark.metadata.definition.from_arrow import row_type
from paimon_spark.options.location import MAIN
from paimon_spark.options.scan import BRANCH, COLUMNS, WHERE
from paimon_spark.predicate.ast import sql_text
from paimon_spark.spark.schema import arrow_schema, spark_schema
from paimon_spark.spark.session import is_classic, session_or_new, with_sources, without_attached
from paimon_spark.spark.source import PaimonPyDataSource
from paimon_spark.spark_port import planned_reads


def dataframe(scan: Scan, session: SparkSession | None = None, *, keeps_filters: bool = False) -> DataFrame:
    """The DataFrame that reads what `scan` asks for. User's process.

    With `keeps_filters`, the user of the DataFrame evaluates the filters of the scan again, so that they need only skip
    files.
    """
    spark = session_or_new(session)
    found = planned_reads().dataframe(scan, spark, keeps_filters=keeps_filters) if is_classic(spark) else None
    return with_sources(spark, lambda: _loaded(spark, scan)) if found is None else found


def _loaded(spark: SparkSession, scan: Scan) -> DataFrame:
    # Nothing of the scan but its options travels.
    # The second name is ours in every session; the first may be the JAR's.
    reader = spark.read.format(PaimonPyDataSource.name()).options(**as_options(scan))
    # With the schema known, Spark's Python process beside the driver does not open the table to ask for it.
    with without_attached():  # the settings of the session are among the options
        frame = reader.schema(spark_schema(scan.row_type)).load(scan.load_path)
    _ = frame.schema  # Connect finds out about a missing source only now
    return frame


def as_options(scan: Scan) -> dict[str, str]:
    """Option text that asks for the same read of `load_path`."""
    out = {k: v for k, v in scan.option_text.items() if k not in BRANCH.fallbacks} | scan.handle.load_options
    if scan.handle.branch != MAIN:
        out[BRANCH.key] = scan.handle.branch
    if scan.options.columns is not None:
        out[COLUMNS.key] = ",".join(f"`{c.replace('`', '``')}`" for c in scan.options.columns)
    predicate = predicate_of(scan) if scan.filters else None
    where = scan.options.where if predicate is None else sql_text(predicate)
    if where is not None:
        out[WHERE.key] = where
    return out


def arrow_dataframe(rows: pa.Table, session: SparkSession | None = None) -> DataFrame:
    """The DataFrame of rows that are in memory. User's process."""
    return session_or_new(session).createDataFrame(rows)


def source_dataframe(data: Any) -> DataFrame:
    """The DataFrame of rows to merge: a DataFrame as it is, else Arrow or pandas data. User's process.

    Raises:
        InvalidInputError: `data` is neither, or a value does not fit Spark's type.
        UnsupportedFeatureError: names a column of a type that Spark lacks.
    """
    if hasattr(data, "sparkSession"):
        return cast("DataFrame", data)
    schema, batches = arrow_stream(data)
    declared = spark_schema(row_type(schema))
    try:
        rows = pa.Table.from_batches(batches, schema).cast(arrow_schema(declared))
    except pa.ArrowException as e:
        raise InvalidInputError(f"the rows to merge do not fit Spark's types: {e}") from e
    return session_or_new().createDataFrame(rows, declared)
