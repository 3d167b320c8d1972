"""Writes that Spark plans: of DataFrames and of streams, to tables that exist.

Spark hands the rows over as a DataFrame (`V1Write`), which is written as by INSERT of `catalog.sql`: columns are
checked and converted by the same rules, and rows are clustered by partition and bucket, so that there are few files,
in one commit. Spark leaves the columns alone (`ACCEPT_ANY_SCHEMA`): its own conversions lose values silently, as in
1.5 for INT.

Source: Spark `connector/write`, `datasources/v2/V1FallbackWriters.scala`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame

from paimon_spark.errors import InvalidOptionError, UnsupportedFeatureError
from paimon_spark.jobs.opened_table import not_in_session_catalog
from paimon_spark.jobs.write.batch import options_of
from paimon_spark.options.lineage import JOB, NO_SOURCES, OF_ONE_USE, UNKNOWN_SOURCES
from paimon_spark.options.location import TableName
from paimon_spark.options.scan import TIME_ZONE
from paimon_spark.options.write import MERGE_SCHEMA
from paimon_spark.options.write_request import (
    OF_OVERWRITES,
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
from paimon_spark.spark.source import PaimonPyDataSource
from paimon_spark.spark_catalog.jvm.gateway import SQL, Gateway
from paimon_spark.spark_catalog.jvm.java_objects import python_object
from paimon_spark.spark_catalog.jvm.proxies import Proxy
from paimon_spark.spark_catalog.reads.predicates import conditions_of
from paimon_spark.sql.commands.insert import ALL_ROWS, insert_rows
from paimon_spark.sql.requests import InsertRequest
from paimon_spark.sql.session import Session
from paimon_spark.types import RowType, quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_WRITE: Final = SQL + "connector.write."
_PYTHON: Final = SQL + "execution.datasources.v2.python."
_MERGE_SCHEMA: Final = "mergeschema"
"""Spark's name of the option, in lower case."""
_PATH: Final = "path"
MATCHING: Final = "paimon-spark.column-matching"
"""The option in which `java/TableWrites.java` says how columns match, and what is overwritten."""
_BY_NAME: Final = "name"
_DYNAMIC: Final = "dynamic "
_RELATION: Final = "DataSourceV2Relation"
_CONSTANTS: Final = ("LocalRelation", "OneRowRelation", "Range")


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
            **options_of(table, with_settings(self._session, self._name, self._options)),
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


def with_settings(session: Session, name: TableName, options: Mapping[str, str]) -> dict[str, str]:
    """The options of a write with those of the session; all rows are replaced, or none."""
    found = {**session.write_options(name), **options}
    return {k: v for k, v in found.items() if k not in OF_OVERWRITES} | {TIME_ZONE.key: session.time_zone}


def new_table_properties(options: Mapping[str, str]) -> dict[str, str]:
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


def lineage_options(
    gateway: Gateway, session: Session, name: TableName, options: Mapping[str, str], rows: DataFrame
) -> dict[str, str]:
    """Options of a write to a table which say that `rows` read no tables, or others than those of attached catalogs.

    None where lineage is not recorded, or where the user names the job, whose reads are known by that name.
    """
    if not session.catalog.lineage.is_enabled:
        return {}
    if JOB.key in {**session.catalog.options, **session.settings_of(name), **options}:
        return {}
    # Rows that are cached have been read by another job.
    leaves = rows._jdf.queryExecution().withCachedData().collectLeaves()
    found = [leaves.apply(i) for i in range(leaves.size())]
    kinds = {leaf.getClass().getSimpleName() for leaf in found}
    if kinds <= {*_CONSTANTS}:
        return {NO_SOURCES.key: "true"}
    tables = (leaf.table() for leaf in found if leaf.getClass().getSimpleName() == _RELATION)
    is_known = kinds <= {*_CONSTANTS, _RELATION} and all(
        isinstance(python_object(gateway, table), Proxy) for table in tables
    )
    return {} if is_known else {UNKNOWN_SOURCES.key: "true"}


def install_write_rule(gateway: Gateway, spark: SparkSession) -> None:
    """Let the tables of a session know how Spark matches the columns of a write. Spark has made its analyzer, or does.

    Sessions to come get `write_rule` when Spark makes their analyzer.
    """
    gateway.java_code("TableWrites").installRule(spark._jsparkSession, not_in_session_catalog().message)


def write_rule(gateway: Gateway) -> Any:
    """The rule of `install_write_rule`, for Spark's hook."""
    return gateway.java_code("TableWrites").rule(not_in_session_catalog().message)
