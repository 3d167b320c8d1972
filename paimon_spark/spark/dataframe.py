"""Reads as DataFrames: by our data source, Spark's Parquet reader, or from memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import DoubleType, FloatType, StructType

from paimon_spark.engine.tasks.split import BUCKET, DataSplit, ReadRequest, SplitMode
from paimon_spark.errors import InvalidInputError
from paimon_spark.jobs.batch_write import arrow_stream
from paimon_spark.jobs.scan import Scan, predicate_of
from paimon_spark.metadata.definition.from_arrow import row_type
from paimon_spark.options.lineage import JOB
from paimon_spark.options.location import MAIN
from paimon_spark.options.scan import BRANCH, COLUMNS, WHERE
from paimon_spark.predicate.ast import sql_text
from paimon_spark.spark.schema import arrow_schema, spark_schema
from paimon_spark.spark.session import session_or_new, with_sources
from paimon_spark.spark.source import PaimonPyDataSource
from paimon_spark.types import AtomicType, BinaryType, CharType, DataField, DataType, DecimalType, RowType, quoted

SETTING: Final = "spark.paimon-spark.native-parquet"
"""Setting of a session; false lets every read go through Python."""
_LOCAL: Final = "file://"
_GLOB: Final = frozenset("*?[]{}\\")
"""What Spark takes for patterns in paths."""
_MOST_FILES: Final = 1000
"""Files that Spark looks up one by one when the DataFrame is made."""
_SPARK_FILE: Final = "part-"
"""Prefix of files that Spark itself wrote; a migration to Paimon keeps their names."""
_ATOMS: Final = frozenset(("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE"))
_OPTIONS: Final = {
    # A session may let Spark pass over files that are damaged or gone, or take dates for those of its old releases.
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "mergeSchema": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}


def dataframe(scan: Scan, session: SparkSession | None = None) -> DataFrame:
    """The DataFrame that reads what `scan` asks for. User's process; nothing of `scan` but its options travels."""
    spark = session_or_new(session)
    return with_sources(spark, lambda: _loaded(spark, scan))


def _loaded(spark: SparkSession, scan: Scan) -> DataFrame:
    # The second name is ours in every session; the first may be the JAR's.
    reader = spark.read.format(PaimonPyDataSource.name()).options(**as_options(scan))
    # With the schema known, Spark's Python process beside the driver does not open the table to ask for it.
    frame = reader.schema(spark_schema(scan.row_type)).load(scan.load_path)
    _ = frame.schema  # Connect finds out about a missing source only now
    return frame


def as_options(scan: Scan) -> dict[str, str]:
    """Option text that asks for the same read, location aside."""
    out = {k: v for k, v in scan.option_text.items() if k not in BRANCH.fallbacks}
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


def native_dataframe(scan: Scan, session: SparkSession) -> DataFrame | None:
    """The rows of `scan`, planned here and decoded in the JVM by Spark's Parquet reader; None when that is impossible.

    It is possible for append tables on local disk whose files need no conversion: Parquet, no deletion vectors, columns
    of plain types that no schema change has touched, no partition columns, whose values are not taken from files.
    Rows that the scan's filters exclude may be among them: they are conditions of the query, which Spark evaluates too.

    Spark skips row groups and pages by the statistics and dictionaries of the files, whoever wrote them. For FLOAT and
    DOUBLE columns that loses rows: bounds that leave out NaN (pyarrow, pypaimon), dictionaries with only one of the two
    zeros. So these columns are wrapped in an expression that keeps Spark from pushing conditions down to the files.

    Raises as `Scan.plan`.
    """
    if scan.is_system or str(session.conf.get(SETTING, "true")).lower() == "false":
        return None
    columns = _columns(scan)
    if columns is None:
        return None
    plan = scan.plan()
    if not plan.splits or sum(len(s.files) for s in plan.splits) > _MOST_FILES:
        return None
    paths = [_paths(plan.requests[s.branch], s, columns) for s in plan.splits]
    if any(p is None for p in paths):
        return None
    schema = spark_schema(RowType(fields=tuple(columns)))
    reader = session.read.schema(schema).options(**_OPTIONS)
    return _without_float_pushdown(reader.parquet(*sorted({path for found in paths for path in found or ()})), schema)


def _without_float_pushdown(frame: DataFrame, schema: StructType) -> DataFrame:
    """The same rows, with conditions on FLOAT and DOUBLE columns never pushed down to the files."""
    if not any(isinstance(f.dataType, FloatType | DoubleType) for f in schema):
        return frame
    nan = F.lit(float("nan"))
    return frame.select(
        *(
            F.nanvl(F.col(quoted(f.name)), nan.cast(f.dataType)).alias(f.name, metadata=f.metadata)
            if isinstance(f.dataType, FloatType | DoubleType)
            else F.col(quoted(f.name))
            for f in schema
        )
    )


def _columns(scan: Scan) -> Sequence[DataField] | None:
    """The columns to read; None where the table or one of them needs more than Spark's reader does."""
    handle = scan.handle
    if handle.schema.primary_keys or not handle.location.startswith(_LOCAL) or JOB.key in handle.overrides:
        return None
    if scan.options.row_kind or scan.options.where is not None or handle.options.read_defaults:
        return None
    table = scan.schema
    names = scan.options.columns or table.row_type.names
    if names == (BUCKET,):  # only the number of rows counts: Spark reads no column for that
        names = tuple(f.name for f in table.fields if _is_plain(f.type) and f.name not in table.partition_keys)[:1]
    by_name = {f.name: f for f in table.fields}
    lower = [n.lower() for n in by_name]
    found = [by_name[n] for n in names if n in by_name and n not in table.partition_keys and _is_plain(by_name[n].type)]
    is_whole = 0 < len(found) == len(names) and all(lower.count(f.name.lower()) == 1 for f in found)
    return found if is_whole else None


def _is_plain(t: DataType) -> bool:
    """Whether Spark reads the type from Paimon's Parquet files as this package does."""
    return t.name in _ATOMS if isinstance(t, AtomicType) else isinstance(t, CharType | BinaryType | DecimalType)


def _paths(request: ReadRequest, split: DataSplit, columns: Sequence[DataField]) -> list[str] | None:
    """The files of a split; None when one is not to be read as it lies."""
    if split.mode is not SplitMode.RAW or any(split.deletions):
        return None
    has_dates = any(isinstance(f.type, AtomicType) and f.type.name == "DATE" for f in columns)
    out = []
    for file in split.files:
        path = request.store.url(split.path_of(file))
        there = {f.id: f for f in request.file_schemas[file.schema_id].fields}
        names = [f.name.lower() for f in there.values()]
        is_as_it_lies = (
            file.external_path is None
            and file.file_name.endswith(".parquet")
            and file.file_name[0] not in "._"  # Spark passes over such names
            and _GLOB.isdisjoint(path)
            # Spark shifts dates before 1582 in files that its releases before 3.0 wrote; Paimon does not.
            and not (has_dates and file.file_name.startswith(_SPARK_FILE))
            # Spark matches names in any case, and the file may still hold a column that the table dropped.
            and all(names.count(f.name.lower()) == 1 for f in columns)
            and all(f.id in there and (there[f.id].name, there[f.id].type) == (f.name, f.type) for f in columns)
            and (file.write_cols is None or {f.name for f in columns} <= set(file.write_cols))
        )
        if not is_as_it_lies:
            return None
        out.append(path)
    return out
