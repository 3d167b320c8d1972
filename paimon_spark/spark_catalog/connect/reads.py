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
from paimon_spark.spark_catalog.connect.attached import AttachedCatalogs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.options.location import TableName
    from paimon_spark.sql.session import Session


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
    session, name = found
    _refuse_schema(name, reader)
    with our_errors():
        table = session.table(name, _options(session, name, reader._options))
        return table.scan().to_spark(session.spark).alias(name.as_named.last_part)


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
    session, name = found
    _refuse_schema(name, reader)
    scan = session.table(name).scan()
    options = {**as_options(scan), **session.options(name), **_given(reader._options)}
    options.setdefault(TIME_ZONE.key, session.time_zone)
    columns = spark_schema(stream_row_type(scan.load_path, options))

    def load() -> DataFrame:
        source = copy(reader)  # the caller may read another table by it
        source._options = options
        with without_attached():
            frame: DataFrame = source.format(PaimonPyDataSource.name()).schema(columns).load(scan.load_path)
        _ = frame.schema  # Spark finds out about a missing source only now
        return frame

    with our_errors():
        return with_sources(reader._client, load).alias(name.as_named.last_part)


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
    session, name = found
    raise UnsupportedFeatureError(
        f"changes({tableName!r}) is not supported; query "
        f"paimon_incremental_query('{session.catalog_name}.{name}', 'from', 'to')",
        feature="CHANGES",
    )


def _refuse_schema(name: TableName, reader: Any) -> None:
    if reader._schema:
        raise InvalidInputError(
            f"{name} has columns of its own; leave schema(…) out, and select or cast columns of the result",
            table=str(name),
        )


def _options(session: Session, name: TableName, given: Mapping[str, str | None]) -> dict[str, str]:
    """The options of a read: those of the reader override those of the session; of versions there is one."""
    asked = canonical(_given(given))
    of_session = session.options(name)
    if any(key in START_KEYS for key in asked):
        of_session = {k: v for k, v in of_session.items() if k not in START_KEYS}
    return {TIME_ZONE.key: session.time_zone, **of_session, **asked}


def _given(options: Mapping[str, str | None]) -> dict[str, str]:
    """The options that have a value."""
    return {k: v for k, v in options.items() if v is not None}
