"""Writes that Spark plans: of DataFrames, of streams, and of tables with their rows.

Spark hands the rows over as a DataFrame (`V1Write`), which is written as by INSERT of `catalog.sql`: columns are
checked and converted by the same rules, and rows are clustered by partition and bucket, so that there are few files,
in one commit. Spark leaves the columns alone (`ACCEPT_ANY_SCHEMA`): its own conversions lose values silently, as in
1.5 for INT.

Source: Spark `connector/write`, `datasources/v2/V1FallbackWriters.scala`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame

from paimon_spark.errors import InvalidOptionError, UnsupportedFeatureError
from paimon_spark.jobs.write.batch import options_of
from paimon_spark.jobs.write.target import undo_creation
from paimon_spark.options.lineage import OF_ONE_USE
from paimon_spark.options.location import TableName
from paimon_spark.options.scan import TIME_ZONE
from paimon_spark.options.write import MERGE_SCHEMA
from paimon_spark.options.write_request import (
    OF_OVERWRITES,
    OPERATION,
    OVERWRITE_MODE,
    OVERWRITE_PARTITION,
    PartitionOverwriteMode,
    WriteMode,
    canonical_write,
    overwrite_mode,
    parse_batch_write_options,
)
from paimon_spark.predicate.ast import Compare, Constant, NullSafeEqual, Op, Predicate, conjuncts, literal_text
from paimon_spark.spark.schema import spark_schema
from paimon_spark.spark.session import our_errors
from paimon_spark.spark.source import PaimonPyDataSource
from paimon_spark.spark_catalog.columns import java_columns
from paimon_spark.spark_catalog.gateway import CATALOG, SQL, Gateway
from paimon_spark.spark_catalog.predicates import conditions_of
from paimon_spark.spark_catalog.proxies import Proxy
from paimon_spark.spark_catalog.write_sources import lineage_options
from paimon_spark.sql.commands.create import (
    OF_FRAME,
    TableDefinition,
    create_defined,
    replace_defined,
    table_definition,
    undone_without_rows,
)
from paimon_spark.sql.commands.insert import ALL_ROWS, insert_rows, overwrite_of_save, without_options_of_saves
from paimon_spark.sql.lineage_job import with_lineage_job
from paimon_spark.sql.requests import CreateMode, InsertRequest
from paimon_spark.sql.session import Session, reads_of_run
from paimon_spark.types import RowType, quoted

if TYPE_CHECKING:
    from paimon_spark.api.table import Table

_WRITE: Final = SQL + "connector.write."
_PYTHON: Final = SQL + "execution.datasources.v2.python."
_MERGE_SCHEMA: Final = "mergeschema"
"""Spark's name of the option, in lower case."""
_PATH: Final = "path"
MATCHING: Final = "paimon-spark.column-matching"
"""The option in which `java/TableWrites.java` says how columns match, and what is overwritten."""
_BY_NAME: Final = "name"
_DYNAMIC: Final = "dynamic "


class WriteBuilderProxy(Proxy, implements=(_WRITE + "SupportsOverwriteV2", _WRITE + "SupportsDynamicOverwrite")):
    """One write of a table."""

    def __init__(
        self,
        gateway: Gateway,
        session: Session,
        name: TableName,
        row_type: RowType,
        info: Any,
        options: Mapping[str, str],
        write: Callable[[DataFrame, Mapping[str, str]], None] | None = None,
    ) -> None:
        """`write` writes a DataFrame with options; default is as INSERT."""
        self.gateway = gateway
        self._session = session
        self._name = name
        self._row_type = row_type
        self._info = info
        given = {**options, **self.gateway.text_map(info.options().asCaseSensitiveMap())}
        self._matching = given.pop(MATCHING, None)
        self._options = _write_options(given)
        self._write = write or self._insert
        self._replaced: str | None = None
        self._is_overwrite = False

    def canOverwrite(self, conditions: Any) -> bool:
        """Whether `overwrite` replaces just the rows that meet the conditions; it refuses others itself."""
        return True

    def overwrite(self, conditions: Any) -> Any:
        """Replace the partition that conditions name, or all rows."""
        self._is_overwrite = True
        found = conditions_of(self.gateway, conditions, self._row_type).predicates
        parts = [
            c for p in map(found.get, range(len(conditions))) for c in (conjuncts(p) if p is not None else (None,))
        ]
        named = [_equality(p) for p in parts if p != Constant(True)]
        if None in named:
            text = " AND ".join(c.toString() for c in conditions)
            raise UnsupportedFeatureError(
                f"overwrite where {text} is not supported for {self._name}: name constants of partition columns, as in "
                "overwrite(col('dt') == '2024-01-01'), or delete the rows first, with DELETE FROM",
                feature="overwrite by a condition",
            )
        pairs = [pair for pair in named if pair is not None]
        keys = self._session.table(self._name).schema.partition_keys
        wrong = [name for name, _ in pairs if name not in keys]
        if wrong:
            raise UnsupportedFeatureError(
                f"overwrite by column {wrong[0]} is not supported for {self._name}, whose partition columns are "
                f"{', '.join(keys) or 'none'}; delete the rows first, with DELETE FROM",
                feature="overwrite by a condition",
            )
        self._replaced = " AND ".join(f"{quoted(n)} = {_constant(v)}" for n, v in pairs) or ALL_ROWS
        return self

    def truncate(self) -> Any:
        """Replace all rows."""
        self._is_overwrite = True
        self._replaced = ALL_ROWS
        return self

    def overwriteDynamicPartitions(self) -> Any:
        """Refuse: the rule `TableWrites` has made another write of it."""
        raise self._no_rule()

    def build(self) -> Any:
        """The write."""
        return FrameWriteProxy(self)

    def buildForBatch(self) -> Any:
        """Of older releases of Spark."""
        raise self._no_rule()

    def buildForStreaming(self) -> Any:
        """Of older releases of Spark."""
        return self.python_write().toStreaming()

    @property
    def gateway_session(self) -> Session:
        """The session of the write."""
        return self._session

    def insert(self, rows: DataFrame) -> None:
        """Write the rows of a DataFrame."""
        self._write(rows, self._options)

    def _insert(self, rows: DataFrame, options: Mapping[str, str]) -> None:
        """Write as INSERT does, which checks and converts the columns."""
        if self._matching is None:
            raise self._no_rule()
        if OVERWRITE_PARTITION.key in options:
            raise InvalidOptionError(
                f"option {OVERWRITE_PARTITION.key} = {options[OVERWRITE_PARTITION.key]!r} is for format('paimon'): "
                f"{self._name} takes writeTo(…).overwrite(col('dt') == '2024-01-01'), which names the partition",
                option=OVERWRITE_PARTITION.key,
            )
        is_dynamic, is_by_name = self._matching.startswith(_DYNAMIC), self._matching.endswith(_BY_NAME)
        is_overwrite = self._is_overwrite or is_dynamic
        if is_dynamic and overwrite_mode(options) is PartitionOverwriteMode.STATIC:
            if is_by_name:  # writeTo(…).overwritePartitions(); insertInto has it of Spark's setting
                raise InvalidOptionError(
                    f"overwritePartitions() replaces the partitions of the rows of {self._name}, and option "
                    f"{OVERWRITE_MODE.key} = static asks for all rows: leave it out, or use overwrite(lit(True))",
                    option=OVERWRITE_MODE.key,
                )
            is_dynamic = False
        if is_dynamic:
            options = {**options, OVERWRITE_MODE.key: PartitionOverwriteMode.DYNAMIC.value}
        # Option partitionOverwriteMode = dynamic asks for less to be replaced.
        is_of_options = is_dynamic or (self._replaced == ALL_ROWS and not OF_OVERWRITES.isdisjoint(options))
        request = InsertRequest(
            is_overwrite,
            by_name=is_by_name,
            replace_where=None if is_of_options else self._replaced,
            options=options,
        )
        more = lineage_options(self.gateway, self._session, self._name, options, rows)
        parts = (self._session.catalog_name, self._name.database, self._name.last_part)
        insert_rows(self._session, parts, request, rows, more)

    def _no_rule(self) -> UnsupportedFeatureError:
        return UnsupportedFeatureError(
            f"this session of Spark cannot write to {self._name}, as its analyzer lacks a rule of this package; call "
            "paimon_spark.attach(spark, …) for the session again",
            feature="write in a session without the rule of writes",
        )

    def python_write(self) -> Any:
        """The write of a stream, by the Python data source."""
        table = self._session.table(self._name)
        options = {
            **options_of(table, _with_session(self._session, self._name, self._options)),
            "path": table.handle.load_path,
        }
        gateway = self.gateway
        source = gateway.cls(_PYTHON + "PythonDataSourceV2")()
        source.setShortName(PaimonPyDataSource.name())
        java_options = gateway.options(options)
        schema = gateway.struct(spark_schema(self._row_type).json())
        none = gateway.array(SQL + "connector.expressions.Transform")
        inner = source.getTable(schema, none, java_options)
        info = gateway.cls(_WRITE + "LogicalWriteInfoImpl")(
            self._info.queryId(),
            self._info.schema(),
            java_options,
            self._info.rowIdSchema(),
            self._info.metadataSchema(),
        )
        builder = inner.newWriteBuilder(info)
        return (builder.truncate() if self._is_overwrite else builder).build()

    def toString(self) -> str:
        return f"write to {self._name}"


def _write_options(given: Mapping[str, str]) -> dict[str, str]:
    """Options of a write, with Spark's name for merging schemas understood."""
    return canonical_write(
        {MERGE_SCHEMA.key if k.lower() == _MERGE_SCHEMA else k: v for k, v in given.items() if k.lower() != _PATH}
    )


def _with_session(session: Session, name: TableName, options: Mapping[str, str]) -> dict[str, str]:
    """The options of a write with those of the session; all rows are replaced, or none."""
    found = {**session.write_options(name), **options}
    return {k: v for k, v in found.items() if k not in OF_OVERWRITES} | {TIME_ZONE.key: session.time_zone}


def _properties(options: Mapping[str, str]) -> dict[str, str]:
    """Options of `saveAsTable` and similar methods that define the new table."""
    overwrite_mode(options)
    asked = parse_batch_write_options({k: v for k, v in options.items() if k not in OF_OVERWRITES}, WriteMode.APPEND)
    found = {**asked.table_options, **asked.unknown_options}
    return {k: v for k, v in found.items() if k not in OF_ONE_USE and not k.startswith(MERGE_SCHEMA.key)}


def _constant(value: Any) -> str:
    """A value of a partition column as SQL: as text, of which the column has the type."""
    return literal_text(value if isinstance(value, bool) else str(value))


def _equality(predicate: Predicate | None) -> tuple[str, Any] | None:
    """Column and value of `column = value`; None for other conditions."""
    match predicate:
        case Compare(Op.EQ, column, value) if len(column.path) == 1:
            return column.name, value
        case NullSafeEqual(column, value) if len(column.path) == 1 and value is not None:
            return column.name, value
    return None


class _WriteProxy(Proxy):
    """Common behaviour of all writes."""

    def __init__(self, builder: WriteBuilderProxy) -> None:
        self.gateway = builder.gateway
        self._builder = builder

    def description(self) -> str:
        """Text in the Spark UI."""
        return self._builder.toString()

    def toBatch(self) -> Any:
        """Not called: Spark hands over the rows."""
        return self._builder.buildForBatch()

    def toStreaming(self) -> Any:
        """The write of a stream."""
        return self._builder.python_write().toStreaming()

    def supportedCustomMetrics(self) -> Any:
        """No metrics."""
        return self.gateway.array(SQL + "connector.metric.CustomMetric")

    def reportDriverMetrics(self) -> Any:
        """No metrics."""
        return self.gateway.array(SQL + "connector.metric.CustomTaskMetric")


class FrameWriteProxy(_WriteProxy, implements=(_WRITE + "V1Write",)):
    """A write that gets its rows as a DataFrame."""

    def toInsertableRelation(self) -> Any:
        """Relation that takes the DataFrame."""
        return RelationProxy(self._builder)


class RelationProxy(Proxy, implements=(SQL + "sources.InsertableRelation",)):
    """Relation to which Spark hands the rows of a write."""

    def __init__(self, builder: WriteBuilderProxy) -> None:
        self.gateway = builder.gateway
        self._builder = builder

    def insert(self, rows: Any, overwrites: bool) -> None:
        """Write the rows; `overwrites` is False even for overwrites, which the builder knows."""
        self._builder.insert(DataFrame(rows, self._builder.gateway_session.spark))


class StagedTableProxy(Proxy, implements=(CATALOG + "StagedTable", CATALOG + "SupportsWrite")):
    """A table that is created or replaced together with its rows, or not at all."""

    def __init__(
        self,
        gateway: Gateway,
        session: Session,
        name: TableName,
        definition: TableDefinition,
        mode: CreateMode,
        *,
        replaces: bool,
        overwrites: bool = False,
    ) -> None:
        """Prepare the table that the statement `mode` makes.

        With `replaces` the table exists; with `overwrites` its rows are replaced, and it keeps its definition.
        """
        self.gateway = gateway
        self._session = session
        self._name = name
        self._definition = definition
        self._mode = mode
        self._replaces = replaces
        self._overwrites = overwrites
        self._is_done = False

    def name(self) -> str:
        """The name in messages and plans."""
        return f"{self._session.catalog_name}.{self._name}"

    def id(self) -> None:
        """No id."""

    def version(self) -> None:
        """No version yet."""

    def schema(self) -> Any:
        """The columns."""
        return self.gateway.struct(spark_schema(self._definition.columns).json())

    def columns(self) -> Any:
        """The columns, as Spark's V2 has them."""
        return java_columns(self.gateway, self._definition.columns)

    def partitioning(self) -> Any:
        """No partitioning that Spark needs to know."""
        return self.gateway.array(SQL + "connector.expressions.Transform")

    def properties(self) -> Any:
        """The options of the table."""
        return self.gateway.java_map(self._definition.options)

    def constraints(self) -> Any:
        """Always None."""
        return self.gateway.array(CATALOG + "constraints.Constraint")

    def capabilities(self) -> Any:
        """It is written once."""
        kind = CATALOG + "TableCapability"
        names = ("BATCH_WRITE", "V1_BATCH_WRITE", "TRUNCATE")
        return self.gateway.java_set([self.gateway.constant(kind, n) for n in names])

    def newWriteBuilder(self, info: Any) -> Any:
        """The write of the query's rows."""
        columns = self._definition.columns
        write = self._overwrite_with if self._overwrites else self._make_with
        return WriteBuilderProxy(self.gateway, self._session, self._name, columns, info, {}, write)

    def commitStagedChanges(self) -> None:
        """Create or replace the table, if the rows have not done so already."""
        if not self._is_done:
            self._make()

    def abortStagedChanges(self) -> None:
        """Do nothing: the write has undone what it did."""

    def reportDriverMetrics(self) -> Any:
        """No metrics."""
        return self.gateway.array(SQL + "connector.metric.CustomTaskMetric")

    def _make(self) -> tuple[Table, Callable[[], None]]:
        """Create or replace the table; it, and what undoes that."""
        self._is_done = True
        if self._replaces:
            return replace_defined(self._session, self._name, self._definition)
        table_made = create_defined(self._session, self._name, self._definition, False)
        assert table_made is not None
        return table_made, lambda: undo_creation(table_made.handle)

    def _overwrite_with(self, rows: DataFrame, options: Mapping[str, str]) -> None:
        """Replace the rows of the table; with option `overwriteSchema` the table as well."""
        parts = (self._session.catalog_name, self._name.database, self._name.last_part)
        request = overwrite_of_save(self._session, parts, options, self._definition.partition)
        if request is None:
            self._session.refuse_whole(self._name, "replaced")
            self._make_with(rows, without_options_of_saves(options))
            return
        self._is_done = True
        with our_errors():
            more = lineage_options(self.gateway, self._session, self._name, request.options, rows)
            insert_rows(self._session, parts, request, rows, more)

    def _make_with(self, rows: DataFrame, options: Mapping[str, str]) -> None:
        """Create or replace the table with rows; when they are certainly not committed, undo it."""
        before, properties = self._definition, _properties(options)
        made = table_definition(before.columns, before.partition, {**before.options, **properties}, before.comment)
        self._definition = made._replace(primary_key=made.primary_key or before.primary_key)
        options = {k: v for k, v in options.items() if k not in properties}
        sources = lineage_options(self.gateway, self._session, self._name, options, rows)
        session = with_lineage_job(self._session, self._name, OF_FRAME, options=options)
        options = {**_with_session(self._session, self._name, options), **sources, OPERATION.key: self._mode.operation}
        with reads_of_run(session), our_errors():
            if self._replaces:
                rows = rows.localCheckpoint(eager=True)  # they are read before the table is emptied
            table, undo = self._make()
            table = replace(table, handle=session.table(self._name).handle)
            with undone_without_rows(undo):
                table.write(rows, mode="append", **options)

    def toString(self) -> str:
        return self.name()
