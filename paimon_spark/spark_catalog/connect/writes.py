"""Writes to attached catalogs: `writeTo`, `saveAsTable`, `insertInto`, `toTable`.

Batch writes make the same requests as the statements INSERT and CREATE TABLE … AS SELECT.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.readwriter import DataFrameWriterV2

from paimon_spark.errors import InvalidInputError, SchemaMismatchError, UnsupportedFeatureError
from paimon_spark.jobs.write.batch import options_of
from paimon_spark.options.known import is_table_option
from paimon_spark.options.scan import TIME_ZONE
from paimon_spark.options.write import MERGE_SCHEMA
from paimon_spark.options.write_request import (
    OF_OVERWRITES,
    OVERWRITE_MODE,
    PartitionOverwriteMode,
    WriteMode,
    canonical_stream_write,
    canonical_write,
    parse_batch_write_options,
)
from paimon_spark.spark.schema import row_type
from paimon_spark.spark.session import our_errors, with_sources, without_attached
from paimon_spark.spark.source import PaimonPyDataSource
from paimon_spark.spark_catalog.connect.attached import AttachedCatalogs, AttachedTable
from paimon_spark.spark_catalog.connect.expressions import bucket, column_name, partition_condition
from paimon_spark.sql.commands.create import (
    OF_FRAME,
    PROVIDERS,
    check_location,
    create_defined,
    create_of_frame,
    resolve_new_table,
    table_definition,
)
from paimon_spark.sql.commands.insert import insert_rows, overwrite_of_save, without_options_of_saves
from paimon_spark.sql.queries.errors import QueryError, in_one_line, without_log
from paimon_spark.sql.requests import CreateMode, InsertRequest, TableRequest

if TYPE_CHECKING:
    from pyspark.sql import Column

_PATH: Final = "path"
_MERGE_SCHEMA: Final = "mergeschema"
"""Spark's name of the option, in lower case."""
_MODES: Final = {
    "append": CreateMode.CREATE,
    "overwrite": CreateMode.CREATE_OR_REPLACE,
    "ignore": CreateMode.IF_NOT_EXISTS,
    "error": CreateMode.CREATE,
    "errorifexists": CreateMode.CREATE,
}
"""What `saveAsTable` does in a mode; append when there is no table."""


class AttachedTableWriter(DataFrameWriterV2):
    """`df.writeTo` of a table in an attached catalog."""

    def __init__(self, frame: DataFrame, table: AttachedTable, text: str) -> None:
        super().__init__(frame._plan, frame._session, text)
        self._frame = frame
        self._table = table

    def append(self) -> None:
        """Add the rows, whose columns match by name."""
        self._insert("append")

    def overwrite(self, condition: Column | str) -> None:
        """Replace the partition that constants of partition columns name, or all rows."""
        where = None if isinstance(condition, str) else partition_condition(self._spark, condition)
        if where is None:
            raise UnsupportedFeatureError(
                f"overwrite({condition}) is not supported for {self._table.name}: name constants of partition columns, "
                "as in overwrite(col('dt') == '2024-01-01'), or delete the rows first, with DELETE FROM",
                feature="overwrite by a condition",
            )
        self._insert("overwrite", replace_where=where)

    def overwritePartitions(self) -> None:
        """Replace the partitions that the rows are in."""
        self._insert("overwrite", {OVERWRITE_MODE.key: PartitionOverwriteMode.DYNAMIC.value})

    def create(self) -> None:
        """Create the table, with the rows."""
        self._create(CreateMode.CREATE)

    def replace(self) -> None:
        """Replace the table, definition and rows."""
        self._create(CreateMode.REPLACE)

    def createOrReplace(self) -> None:
        """Create the table, or replace its definition and rows."""
        self._create(CreateMode.CREATE_OR_REPLACE)

    def _options(self) -> dict[str, str]:
        location = next((v for k, v in self._write.options.items() if k.lower() == _PATH), None)
        check_location(self._table.session.catalog, self._table.name, location)
        found = _write_options(self._write.options)
        if getattr(self._write, "with_schema_evolution", False):
            found[MERGE_SCHEMA.key] = "true"
        return found

    def _insert(self, mode: str, more: Mapping[str, str] | None = None, replace_where: str | None = None) -> None:
        options = {**self._options(), **(more or {})}
        _insert(self._table, self._frame, mode, options, replace_where=replace_where)

    def _create(self, mode: CreateMode) -> None:
        if self._write.clustering_columns:
            raise _no_clustering(self._table)
        properties = {k: v for k, v in self._write.table_properties.items() if v is not None}
        keys: list[str] = []
        for column in self._write.partitioning_columns:
            name, buckets = column_name(self._spark, column), bucket(self._spark, column)
            if name is not None:
                keys.append(name)
            elif buckets is not None:
                properties.update({"bucket": str(buckets[0]), "bucket-key": buckets[1]})
            else:
                raise UnsupportedFeatureError(
                    f"{self._table.name} cannot be partitioned by {column}: partitions are by columns; add a column "
                    "with that value",
                    feature="partitionedBy an expression",
                )
        _create(self._table, self._frame, mode, self._write.provider, keys, properties, self._options())


def write_to(
    attached: AttachedCatalogs, spark_call: Callable[..., DataFrameWriterV2], frame: Any, table: str
) -> DataFrameWriterV2:
    """The writer of a table."""
    found = attached.find(frame._session, table)
    return spark_call(table) if found is None else AttachedTableWriter(frame, found, table)


def refuse_merge(
    attached: AttachedCatalogs, spark_call: Callable[..., Any], frame: Any, table: str, condition: Column
) -> Any:
    """Refuse `mergeInto`, whose conditions and assignments have no text."""
    found = attached.find(frame._session, table)
    if found is None:
        return spark_call(table, condition)
    raise UnsupportedFeatureError(
        f"mergeInto of {found.name} is not supported in Spark Connect; use spark.sql('MERGE INTO {table} AS t USING "
        "{df} AS s ON …', df=df)",
        feature="mergeInto in Spark Connect",
    )


def insert_into(
    attached: AttachedCatalogs,
    spark_call: Callable[..., None],
    writer: Any,
    tableName: str,  # noqa: N803 - Spark's name
    overwrite: bool | None = None,
) -> None:
    """Add rows, or replace the table's, or with dynamic overwriting those of their partitions; columns by position."""
    found = attached.find(writer._spark, tableName)
    if found is None:
        spark_call(tableName, overwrite)
        return
    if writer._write.partitioning_cols:
        raise InvalidInputError(
            f"insertInto({tableName!r}) takes no partitionBy: the table has its partitions; leave it out",
            table=str(found.name),
        )
    mode = (writer._write.mode or "append").lower() if overwrite is None else "overwrite" if overwrite else "append"
    frame = DataFrame(writer._df, writer._spark)
    with _errors(f"insertInto {tableName}"):
        _check_count(found, frame.columns, tableName)
    is_overwrite = mode == WriteMode.OVERWRITE.value
    _insert(found, frame, "overwrite" if is_overwrite else "append", _options_of(writer), by_name=False)


def _check_count(found: AttachedTable, columns: Sequence[str], text: str) -> None:
    """Check that as many columns are written by position as a table has."""
    found = found.to_write()
    names = found.session.table_to_change(found.name).row_type.names
    if len(names) != len(columns):
        raise SchemaMismatchError(
            f"insertInto matches columns by position: the DataFrame has {len(columns)}, {', '.join(columns)}, and "
            f"{found.name} has {len(names)}, {', '.join(names)}; use writeTo({text!r}).append(), which matches them by "
            "name",
            table=str(found.name),
        )


def save_as_table(
    attached: AttachedCatalogs,
    spark_call: Callable[..., None],
    writer: Any,
    name: str,
    format: str | None = None,
    mode: str | None = None,
    partitionBy: str | list[str] | None = None,  # noqa: N803 - Spark's name
    **options: Any,
) -> None:
    """Create a table with the rows; add them to one that exists, replace it, or leave it alone, by the mode."""
    found = attached.find(writer._spark, name)
    if found is None:
        spark_call(name, format, mode, partitionBy, **options)
        return
    writer.mode(mode).options(**options)
    if partitionBy is not None:
        writer.partitionBy(partitionBy)
    if format is not None:
        writer.format(format)
    _save(found, writer)


def _save(found: AttachedTable, writer: Any) -> None:
    plan, session = writer._write, found.session
    if plan.sort_cols or plan.clustering_cols:
        raise _no_clustering(found)
    asked = (plan.mode or "error").lower()
    given, frame = _options_of(writer), DataFrame(writer._df, writer._spark)
    exists = session.has_table(found.name.database, found.name.table)
    if asked == "append" and exists:
        _check_provider(found, plan.source)
        _check_partition(found, tuple(plan.partitioning_cols))
        _insert(found, frame, "append", given)
        return
    chosen = _MODES.get(asked)
    if chosen is None:
        raise InvalidInputError(f"mode {plan.mode!r} is unknown; use {', '.join(_MODES)}", mode=plan.mode)
    if chosen is CreateMode.CREATE_OR_REPLACE and exists:
        _check_provider(found, plan.source)
        with _errors("overwrite DataFrame"):
            parts = _parts(found.to_write())
            request = overwrite_of_save(session, parts, given, plan.partitioning_cols)
            if request is not None:
                insert_rows(session, parts, request, frame)
                return
        given = without_options_of_saves(given)
    parsed = parse_batch_write_options(given, WriteMode.APPEND)
    properties = {**parsed.table_options, **parsed.unknown_options}
    if plan.num_buckets > 0:
        properties.update({"bucket": str(plan.num_buckets), "bucket-key": ",".join(plan.bucket_cols)})
    rest = {k: v for k, v in given.items() if k not in properties}
    location = next((v for k, v in plan.options.items() if k.lower() == _PATH), None)
    _create(found, frame, chosen, plan.source, list(plan.partitioning_cols), properties, rest, location)


def to_table(
    attached: AttachedCatalogs,
    spark_call: Callable[..., Any],
    writer: Any,
    tableName: str,  # noqa: N803 - Spark's name
    format: str | None = None,
    outputMode: str | None = None,  # noqa: N803 - Spark's name
    partitionBy: str | list[str] | None = None,  # noqa: N803 - Spark's name
    queryName: str | None = None,  # noqa: N803 - Spark's name
    **options: Any,
) -> Any:
    """Start a query that writes its rows to a table, which is created if missing."""
    found = attached.find(writer._session, tableName)
    if found is None:
        return spark_call(tableName, format, outputMode, partitionBy, queryName, **options)
    if partitionBy is not None:
        writer.partitionBy(partitionBy)
    writer.options(**options)
    provider = format or writer._write_proto.format or None
    given = canonical_stream_write(dict(writer._write_proto.options))
    session, name = found.session, found.name
    keys = tuple(writer._write_proto.partitioning_column_names)
    if session.has_table(name.database, name.table):
        _check_provider(found, provider)
        _check_partition(found, keys)
    else:
        _create_for_stream(found, writer, provider, keys, given)
    name = AttachedTable(session, name).to_write().name
    table = session.table_to_change(name)
    of_session = {k: v for k, v in session.write_options(name).items() if k not in OF_OVERWRITES}
    of_table = options_of(table, {**of_session, TIME_ZONE.key: session.time_zone})
    sink = {k: v for k, v in of_table.items() if k not in given}
    with our_errors():
        return with_sources(
            writer._session,
            lambda: _start(writer, table.handle.load_path, outputMode, queryName, sink),
        )


def _start(writer: Any, path: str, mode: str | None, name: str | None, options: Mapping[str, str]) -> Any:
    """Start a query whose options have the settings of the session already."""
    with without_attached():
        return writer.start(path, PaimonPyDataSource.name(), mode, None, name, **options)


def _create_for_stream(
    found: AttachedTable, writer: Any, provider: str | None, keys: tuple[str, ...], given: Mapping[str, str]
) -> None:
    """Create the table of a stream with the columns of its rows, its partitions, and options of tables."""
    name = resolve_new_table(found.session, _parts(found), provider)
    assert name is not None
    frame = DataFrame(writer._write_stream._child, writer._session)
    properties = {k: v for k, v in given.items() if is_table_option(k)}
    with _errors(OF_FRAME):
        columns = row_type(frame.schema, all_nullable=True)
    create_defined(found.session, name, table_definition(columns, keys, properties, None), True)


def _insert(
    found: AttachedTable,
    frame: DataFrame,
    mode: str,
    options: Mapping[str, str],
    *,
    by_name: bool = True,
    replace_where: str | None = None,
) -> None:
    found = found.to_write()
    request = InsertRequest(
        mode == WriteMode.OVERWRITE.value,
        by_name=by_name,
        replace_where=replace_where,
        options=options,
    )
    with _errors(request.of_frame):
        insert_rows(found.session, _parts(found), request, frame)


def _create(
    found: AttachedTable,
    frame: DataFrame,
    mode: CreateMode,
    provider: str | None,
    partition: list[str],
    properties: Mapping[str, str],
    write_options: Mapping[str, str],
    location: str | None = None,
) -> None:
    request = TableRequest(
        mode,
        partition=tuple(partition),
        properties=properties,
        location=location,
        provider=provider,
    )
    with _errors(OF_FRAME):
        create_of_frame(found.session, _parts(found), request, frame, write_options)


@contextmanager
def _errors(text: str) -> Iterator[None]:
    """Raise Spark's errors about a write in one line."""
    with without_log():
        try:
            with our_errors():
                yield
        except QueryError:
            raise
        except AnalysisException as e:
            raise in_one_line(e, text) from None


def _parts(found: AttachedTable) -> tuple[str, str, str]:
    """The full name of a table."""
    return found.session.catalog_name, found.name.database, found.name.last_part


def _options_of(writer: Any) -> dict[str, str]:
    return _write_options(writer._write.options)


def _write_options(options: Mapping[str, str | None]) -> dict[str, str]:
    """Options of a write, with Spark's name for merging schemas understood."""
    given = {k: v for k, v in options.items() if v is not None and k.lower() != _PATH}
    return canonical_write({MERGE_SCHEMA.key if k.lower() == _MERGE_SCHEMA else k: v for k, v in given.items()})


def _check_provider(found: AttachedTable, provider: str | None) -> None:
    if provider is not None and provider.lower() not in PROVIDERS:
        raise UnsupportedFeatureError(
            f"{found.name} is not a {provider} table: catalog {found.session.catalog_name} holds Paimon tables; leave "
            "the format out",
            feature=f"format {provider}",
        )


def _check_partition(found: AttachedTable, keys: tuple[str, ...]) -> None:
    """Check that a table has the partition columns that a write to it names."""
    own = found.session.table(found.name).schema.partition_keys
    if keys and tuple(keys) != tuple(own):
        raise InvalidInputError(
            f"partitionBy({', '.join(keys)}): {found.name} is partitioned by {', '.join(own) or 'nothing'}; leave it "
            "out",
            table=str(found.name),
        )


def _no_clustering(found: AttachedTable) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"sortBy and clusterBy are not supported for {found.name}: rows are sorted by primary key only; leave them out",
        feature="sortBy and clusterBy",
    )
