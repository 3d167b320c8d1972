"""The table that a statement changes: opened on its branch, with the options of the session, and its lineage.

`PARTITION (k = constant, …)`: constants → values of the table's partition columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from paimon_spark.api.table import Table
from paimon_spark.errors import InvalidInputError
from paimon_spark.options.batch_write import MERGE_SCHEMA
from paimon_spark.options.lineage import JOB
from paimon_spark.spark.dataframe_write import unwrapped
from paimon_spark.sql.names import column_name
from paimon_spark.sql.names import CATALOG, TableName
from paimon_spark.sql.queries.run import query_dataframe
from paimon_spark.sql.session import Session
from paimon_spark.sql.lineage_job import recorded
from paimon_spark.sql.names import subject
from paimon_spark.types import DataField
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from paimon_spark.errors import InvalidInputError, SqlSyntaxError
from paimon_spark.format.arrow import arrow_type
from paimon_spark.format.arrow_values import array_of
from paimon_spark.jobs.replaced_partition import partition_values
from paimon_spark.options.batch_write import BatchWriteOptions
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.spark.schema import spark_type
from paimon_spark.sql.literals import values_of
from paimon_spark.types import in_any_case

@dataclass(frozen=True)
class Target:
    """A table that a statement changes.

    Attributes:
        session: in which the statement's queries run; their reads name the lineage job of the write.
        name: as the statement says it.
        table: at the head of the branch.
    """

    session: Session
    name: TableName
    table: Table

    @cached_property
    def columns(self) -> Sequence[DataField]:
        """The table's columns."""
        return self.table.row_type.fields

    @cached_property
    def partition_keys(self) -> Sequence[str]:
        return self.table.schema.partition_keys

    @cached_property
    def options(self) -> dict[str, str]:
        """Options of the session for writes to the table."""
        return self.session.write_options(self.name)

    @property
    def is_recorded(self) -> bool:
        """Whether the lineage of the statement is recorded."""
        return JOB.key in self.session.catalog.options

    @property
    def merges_schema(self) -> bool:
        """Whether columns that the table lacks are to be added to it."""
        return MERGE_SCHEMA.get({**self.table.options.raw, **self.options})

    def column(self, name: str) -> DataField:
        """The column of a name in any case. Raises ColumnNotFoundError."""
        return self.table.row_type.field(column_name(self.table, name, self.table.row_type.names))

    def query(self, text: str) -> DataFrame:
        """The rows of a query of the statement."""
        return query_dataframe(self.session, text, self.session.catalog.options.get(JOB.key))

    @property
    def full_names(self) -> tuple[tuple[str, ...], ...]:
        """What the table can be called before a column, but for its last part alone."""
        return (CATALOG, self.name.database, self.name.table), (self.name.database, self.name.table)


def open_target(
    session: Session, parts: Sequence[str], sql: str, options: Mapping[str, str] | None = None
) -> Target | None:
    """The table of a name, to be changed; None when it is Spark's.

    Args:
        session: of the call.
        parts: the name.
        sql: the statement as it was given, which names its lineage job.
        options: of the statement.

    Raises:
        TableNotFoundError, DatabaseNotFoundError, BranchNotFoundError: there is no such table.
        InvalidInputError: it is a system table.
    """
    name = subject(session, parts)
    if name is None:
        return None
    if name.system is not None:
        raise InvalidInputError(
            f"{name} is a system table, which is only read; name the table or the branch itself", table=str(name)
        )
    table = session.table_to_change(name)
    session_of_run = recorded(session, name, sql, table.branch_name, options)
    if session_of_run is not session:
        table = session_of_run.table_to_change(name)
    return Target(session_of_run, name, table)


@contextmanager
def our_errors() -> Iterator[None]:
    """Errors of this package that Spark shows as text are raised as what they are."""
    try:
        yield
    except PySparkException as e:
        ours = unwrapped(e)
        if ours is None:
            raise
        raise ours from e


@dataclass(frozen=True, slots=True)
class StaticPartition:
    """Values that a statement states for partition columns.

    Attributes:
        texts: by column, as option `overwrite.partition` takes them.
        values: by column, as `commit.overwrite.NamedPartitions` takes them.
    """

    texts: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def option(self) -> str:
        """As option `overwrite.partition`."""
        pairs = ((k.replace("`", "``"), v.replace("'", "''")) for k, v in self.texts.items())
        return ",".join(f"`{k}`='{v}'" for k, v in pairs)


def static_partition(target: Target, constants: Mapping[str, str | None]) -> StaticPartition:
    """The partition that constants state; columns without one are left out.

    Raises:
        InvalidInputError: a column is none of the partition's, or its constant no value of it.
        SqlSyntaxError: a value is no constant.
    """
    handle, keys = target.table.handle, target.partition_keys
    default = handle.options.partition_default_name
    by_column: dict[str, str] = {}
    for name, text in constants.items():
        column = in_any_case(name, keys)
        if column is None:
            raise InvalidInputError(
                f"PARTITION names {name!r}, which is no partition column of {handle.describe()}"
                f"{did_you_mean(name, keys)}; its partition columns are {', '.join(keys) or 'none'}",
                column=name,
            )
        if text is not None:
            by_column[column] = text
    found = values_of(target.session, list(by_column.values()))
    texts = {column: _text(value, default) for column, value in zip(by_column, found, strict=True)}
    asked = BatchWriteOptions(time_zone=target.session.time_zone, overwrite_partition=texts)
    return StaticPartition(texts, partition_values(handle, asked))


def constant(target: Target, name: str, value: Any) -> Column:
    """A value of a partition column, as a column of a DataFrame."""
    data_type = target.column(name).type
    kind = spark_type(data_type, name)
    shown = array_of([value], arrow_type(data_type))[0].as_py()
    if shown is None or isinstance(shown, bytes):
        return F.lit(shown).cast(kind)
    text = shown.isoformat(sep=" ") if isinstance(shown, datetime) else str(shown)
    return F.lit(text).cast(kind)


def _text(value: object, default: str) -> str:
    match value:
        case None:
            return default
        case bool():
            return str(value).lower()
        case datetime():
            return value.isoformat(sep=" ")
        case str() | int() | float() | date():
            return str(value)
    if hasattr(value, "as_tuple"):
        return str(value)
    raise SqlSyntaxError(f"{value!r} is no constant that a partition can be named by", value=value)
