"""`spark.table`, `read.table` and `readStream.table` of tables in attached catalogs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any

from paimon_spark.errors import InvalidInputError, UnsupportedFeatureError
from paimon_spark.jobs.read.stream import stream_row_type
from paimon_spark.options.scan import START_KEYS, TIME_ZONE, canonical
from paimon_spark.spark.dataframe import as_options
from paimon_spark.spark.schema import spark_schema
from paimon_spark.spark.session import our_errors, with_sources, without_attached
from paimon_spark.spark.source import PaimonPyDataSource
from paimon_spark.spark_catalog.connect.attached import AttachedCatalogs, AttachedTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def read_table(
    attached: AttachedCatalogs,
    spark_call: Callable[..., DataFrame],
    reader: Any,
    tableName: str,  # noqa: N803 - Spark's name
) -> DataFrame:
    """The rows of a table, branch or system table, by the options of the reader."""
    found = attached.find(reader._client, tableName, is_read=True)
    if found is None:
        return spark_call(tableName)
    _refuse_schema(found, reader)
    with our_errors():
        table = found.session.table(found.name, _options(found, reader._options))
        return table.scan().to_spark(found.session.spark).alias(found.name.as_named.last_part)


def read_stream_table(
    attached: AttachedCatalogs,
    spark_call: Callable[..., DataFrame],
    reader: Any,
    tableName: str,  # noqa: N803 - Spark's name
) -> DataFrame:
    """The rows of a table as a stream, by the options of the reader."""
    found = attached.find(reader._client, tableName, is_read=True)
    if found is None:
        return spark_call(tableName)
    _refuse_schema(found, reader)
    scan = found.session.table(found.name).scan()
    options = {**as_options(scan), **found.session.options(found.name), **_given(reader._options)}
    options.setdefault(TIME_ZONE.key, found.session.time_zone)
    columns = spark_schema(stream_row_type(scan.load_path, options))

    def load() -> DataFrame:
        source = copy(reader)  # the caller may read another table by it
        source._options = options
        with without_attached():
            frame: DataFrame = source.format(PaimonPyDataSource.name()).schema(columns).load(scan.load_path)
        _ = frame.schema  # Spark finds out about a missing source only now
        return frame

    with our_errors():
        return with_sources(reader._client, load).alias(found.name.as_named.last_part)


def refuse_changes(
    attached: AttachedCatalogs,
    spark_call: Callable[..., DataFrame],
    reader: Any,
    tableName: str,  # noqa: N803 - Spark's name
) -> DataFrame:
    """Refuse `changes`, as attached catalogs of classic sessions do."""
    found = attached.find(reader._client, tableName, is_read=True)
    if found is None:
        return spark_call(tableName)
    raise UnsupportedFeatureError(
        f"changes({tableName!r}) is not supported; query "
        f"paimon_incremental_query('{found.session.catalog_name}.{found.name}', 'from', 'to')",
        feature="CHANGES",
    )


def _refuse_schema(found: AttachedTable, reader: Any) -> None:
    if reader._schema:
        raise InvalidInputError(
            f"{found.name} has columns of its own; leave schema(…) out, and select or cast columns of the result",
            table=str(found.name),
        )


def _options(found: AttachedTable, given: Mapping[str, str | None]) -> dict[str, str]:
    """The options of a read: those of the reader override those of the session; of versions there is one."""
    asked = canonical(_given(given))
    of_session = found.session.options(found.name)
    if any(key in START_KEYS for key in asked):
        of_session = {k: v for k, v in of_session.items() if k not in START_KEYS}
    return {TIME_ZONE.key: found.session.time_zone, **of_session, **asked}


def _given(options: Mapping[str, str | None]) -> dict[str, str]:
    """The options that have a value."""
    return {k: v for k, v in options.items() if v is not None}
