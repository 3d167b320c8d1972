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
from paimon_spark.spark_catalog.connect.attached import AttachedCatalogs
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
from paimon_spark.sql.commands.target import refuse_exact_case
from paimon_spark.sql.queries.errors import QueryError, in_one_line, without_log
from paimon_spark.sql.requests import CreateMode, InsertRequest, TableRequest

if TYPE_CHECKING:
    from pyspark.sql import Column

    from paimon_spark.options.location import TableName
    from paimon_spark.sql.session import Session

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

    def __init__(self, frame: DataFrame, session: Session, name: TableName, text: str) -> None:
        super().__init__(frame._plan, frame._session, text)
        self._frame = frame
        self._catalog_session = session
        self._name = name

    def append(self) -> None:
        """Add the rows, whose columns match by name."""
        self._insert("append")

    def overwrite(self, condition: Column | str) -> None:
        """Replace the partition that constants of partition columns name, or all rows."""
        where = None if isinstance(condition, str) else partition_condition(self._spark, condition)
        if where is None:
            raise UnsupportedFeatureError(
                f"overwrite({condition}) is not supported for {self._name}: name constants of partition columns, "
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
        check_location(self._catalog_session.catalog, self._name, location)
        found = _write_options(self._write.options)
        if getattr(self._write, "with_schema_evolution", False):
            found[MERGE_SCHEMA.key] = "true"
        return found

    def _insert(self, mode: str, more: Mapping[str, str] | None = None, replace_where: str | None = None) -> None:
        options = {**self._options(), **(more or {})}
        _insert(self._catalog_session, self._name, self._frame, mode, options, replace_where=replace_where)

    def _create(self, mode: CreateMode) -> None:
        if self._write.clustering_columns:
            raise _no_clustering(self._name)
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
                    f"{self._name} cannot be partitioned by {column}: partitions are by columns; add a column "
                    "with that value",
                    feature="partitionedBy an expression",
                )
        _create(
            self._catalog_session,
            self._name,
            self._frame,
            mode,
            self._write.provider,
            keys,
            properties,
            self._options(),
        )


def write_to(
    attached: AttachedCatalogs, spark_call: Callable[..., DataFrameWriterV2], frame: Any, table: str
) -> DataFrameWriterV2:
    """The writer of a table."""
    found = attached.find(frame._session, table)
    return spark_call(table) if found is None else AttachedTableWriter(frame, *found, table)


def refuse_merge(
    attached: AttachedCatalogs, spark_call: Callable[..., Any], frame: Any, table: str, condition: Column
) -> Any:
    """Refuse `mergeInto`, whose conditions and assignments have no text."""
    found = attached.find(frame._session, table)
    if found is None:
        return spark_call(table, condition)
    _, name = found
    raise UnsupportedFeatureError(
        f"mergeInto of {name} is not supported in Spark Connect; use spark.sql('MERGE INTO {table} AS t USING "
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
    session, name = found
    if writer._write.partitioning_cols:
        raise InvalidInputError(
            f"insertInto({tableName!r}) takes no partitionBy: the table has its partitions; leave it out",
            table=str(name),
        )
    mode = (writer._write.mode or "append").lower() if overwrite is None else "overwrite" if overwrite else "append"
    frame = DataFrame(writer._df, writer._spark)
    with _errors(f"insertInto {tableName}"):
        _check_count(session, name, frame.columns, tableName)
    is_overwrite = mode == WriteMode.OVERWRITE.value
    _insert(session, name, frame, "overwrite" if is_overwrite else "append", _options_of(writer), by_name=False)


def _check_count(session: Session, name: TableName, columns: Sequence[str], text: str) -> None:
    """Check that as many columns are written by position as a table has."""
    name = _to_write(session, name)
    names = session.table_to_change(name).row_type.names
    if len(names) != len(columns):
        raise SchemaMismatchError(
            f"insertInto matches columns by position: the DataFrame has {len(columns)}, {', '.join(columns)}, and "
            f"{name} has {len(names)}, {', '.join(names)}; use writeTo({text!r}).append(), which matches them by "
            "name",
            table=str(name),
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
    _save(*found, writer)


def _save(session: Session, name: TableName, writer: Any) -> None:
    plan = writer._write
    if plan.sort_cols or plan.clustering_cols:
        raise _no_clustering(name)
    asked = (plan.mode or "error").lower()
    given, frame = _options_of(writer), DataFrame(writer._df, writer._spark)
    exists = session.has_table(name.database, name.table)
    if asked == "append" and exists:
        _check_provider(session, name, plan.source)
        _check_partition(session, name, tuple(plan.partitioning_cols))
        _insert(session, name, frame, "append", given)
        return
    chosen = _MODES.get(asked)
    if chosen is None:
        raise InvalidInputError(f"mode {plan.mode!r} is unknown; use {', '.join(_MODES)}", mode=plan.mode)
    if chosen is CreateMode.CREATE_OR_REPLACE and exists:
        _check_provider(session, name, plan.source)
        with _errors("overwrite DataFrame"):
            parts = _parts(session, _to_write(session, name))
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
    _create(session, name, frame, chosen, plan.source, list(plan.partitioning_cols), properties, rest, location)


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
    session, name = found
    if partitionBy is not None:
        writer.partitionBy(partitionBy)
    writer.options(**options)
    provider = format or writer._write_proto.format or None
    given = canonical_stream_write(dict(writer._write_proto.options))
    keys = tuple(writer._write_proto.partitioning_column_names)
    if session.has_table(name.database, name.table):
        _check_provider(session, name, provider)
        _check_partition(session, name, keys)
    else:
        _create_for_stream(session, name, writer, provider, keys, given)
    name = _to_write(session, name)
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
    session: Session,
    name: TableName,
    writer: Any,
    provider: str | None,
    keys: tuple[str, ...],
    given: Mapping[str, str],
) -> None:
    """Create the table of a stream with the columns of its rows, its partitions, and options of tables."""
    new = resolve_new_table(session, _parts(session, name), provider)
    assert new is not None
    frame = DataFrame(writer._write_stream._child, writer._session)
    properties = {k: v for k, v in given.items() if is_table_option(k)}
    with _errors(OF_FRAME):
        columns = row_type(frame.schema, all_nullable=True)
    create_defined(session, new, table_definition(columns, keys, properties, None), True)


def _insert(
    session: Session,
    name: TableName,
    frame: DataFrame,
    mode: str,
    options: Mapping[str, str],
    *,
    by_name: bool = True,
    replace_where: str | None = None,
) -> None:
    name = _to_write(session, name)
    request = InsertRequest(
        mode == WriteMode.OVERWRITE.value,
        by_name=by_name,
        replace_where=replace_where,
        options=options,
    )
    with _errors(request.of_frame):
        insert_rows(session, _parts(session, name), request, frame)


def _create(
    session: Session,
    name: TableName,
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
        create_of_frame(session, _parts(session, name), request, frame, write_options)


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


def _to_write(session: Session, name: TableName) -> TableName:
    """The table, or its branch, to write to: as `Session.to_write`. Raises as `refuse_exact_case` too."""
    refuse_exact_case(session)
    return session.to_write(name)


def _parts(session: Session, name: TableName) -> tuple[str, str, str]:
    """The full name of a table."""
    return session.catalog_name, name.database, name.last_part


def _options_of(writer: Any) -> dict[str, str]:
    return _write_options(writer._write.options)


def _write_options(options: Mapping[str, str | None]) -> dict[str, str]:
    """Options of a write, with Spark's name for merging schemas understood."""
    given = {k: v for k, v in options.items() if v is not None and k.lower() != _PATH}
    return canonical_write({MERGE_SCHEMA.key if k.lower() == _MERGE_SCHEMA else k: v for k, v in given.items()})


def _check_provider(session: Session, name: TableName, provider: str | None) -> None:
    if provider is not None and provider.lower() not in PROVIDERS:
        raise UnsupportedFeatureError(
            f"{name} is not a {provider} table: catalog {session.catalog_name} holds Paimon tables; leave "
            "the format out",
            feature=f"format {provider}",
        )


def _check_partition(session: Session, name: TableName, keys: tuple[str, ...]) -> None:
    """Check that a table has the partition columns that a write to it names."""
    own = session.table(name).schema.partition_keys
    if keys and tuple(keys) != tuple(own):
        raise InvalidInputError(
            f"partitionBy({', '.join(keys)}): {name} is partitioned by {', '.join(own) or 'nothing'}; leave it out",
            table=str(name),
        )


def _no_clustering(name: TableName) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"sortBy and clusterBy are not supported for {name}: rows are sorted by primary key only; leave them out",
        feature="sortBy and clusterBy",
    )
