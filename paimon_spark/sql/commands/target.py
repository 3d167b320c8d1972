"""The table that a command works on, and constants of PARTITION (…)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any, Final, TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from paimon_spark.api.table import Table
from paimon_spark.errors import InvalidInputError, SqlSyntaxError, UnsupportedFeatureError
from paimon_spark.format.arrays.arrow_numpy import array_of
from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.jobs.partition_specs import partition_values
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.options.lineage import JOB
from paimon_spark.options.location import TableName
from paimon_spark.options.write_request import BatchWriteOptions, canonical_write
from paimon_spark.predicate.literals import zone_of
from paimon_spark.spark.schema import spark_type
from paimon_spark.sql.commands.expressions import bind_parameters
from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.grammar.write import Insert, read_write
from paimon_spark.sql.lineage_job import with_lineage_job
from paimon_spark.sql.literals import evaluate
from paimon_spark.sql.names import resolve_column, resolve_table
from paimon_spark.sql.requests import InsertRequest
from paimon_spark.sql.run import run_query
from paimon_spark.sql.session import Session, reads_of_run
from paimon_spark.sql.statement import Name, Outcome, Result, TableStatement
from paimon_spark.text import sql_quoted
from paimon_spark.types import DataField, RowType, TimestampType, in_any_case

CASE_SENSITIVE: Final = "spark.sql.caseSensitive"
Written = TypeVar("Written", bound=TableStatement)


def on_table(command: Callable[[Session, TableName, Any], Result]) -> Callable[[Session, Any], Result]:
    """Decorate a command on an existing table of the catalog; other tables are left to Spark."""

    def run(session: Session, statement: TableStatement) -> Result:
        name = resolve_table(session, statement.table)
        return Outcome.RUN_BY_SPARK if name is None else command(session, name, statement)

    run.__doc__ = command.__doc__
    return run


def on_target(command: Callable[[Target, Any], Result]) -> Callable[[Session, Any], Result]:
    """Decorate a command that writes a table of the catalog; other tables are left to Spark."""

    def run(session: Session, statement: TableStatement) -> Result:
        opened = open_target(session, statement)
        if opened is None:
            return Outcome.RUN_BY_SPARK
        with reads_of_run(opened[0].session):
            return command(*opened)

    run.__doc__ = command.__doc__
    return run


def affected_rows(session: Session, affected: int | None, **more: int | None) -> DataFrame:
    """The numbers of rows that a statement changed, as Delta Lake returns them; null where one is unknown."""
    return session.rows(affected_columns(*more), [(affected, *more.values())])


def affected_columns(*verbs: str) -> str:
    """The columns of the numbers of rows that a statement changed, as DDL: of all rows, and of those by each verb."""
    return ", ".join(f"{name} BIGINT" for name in ("num_affected_rows", *(f"num_{verb}_rows" for verb in verbs)))


@dataclass(frozen=True)
class Target:
    """A table that a statement writes, at the head of its branch.

    The session runs the statement's queries; their reads name the lineage job of the write.

    Attributes:
        changed: the columns where the statement adds some; None: those of the table.
    """

    session: Session
    name: TableName
    table: Table
    changed: RowType | None = None

    @cached_property
    def row_type(self) -> RowType:
        """The table's columns, with those that the statement adds."""
        return self.table.row_type if self.changed is None else self.changed

    @property
    def columns(self) -> Sequence[DataField]:
        """The fields of `row_type`."""
        return self.row_type.fields

    @cached_property
    def partition_keys(self) -> Sequence[str]:
        return self.table.schema.partition_keys

    @cached_property
    def options(self) -> dict[str, str]:
        """Options of the session for writes to the table."""
        return self.session.write_options(self.name)

    @property
    def job(self) -> str | None:
        """The lineage job of the statement; None when lineage is not recorded."""
        return self.session.catalog.options.get(JOB.key)

    def column(self, name: str) -> DataField:
        """The column of a name in any case. Raises ColumnNotFoundError."""
        return self.row_type.field(resolve_column(self.table, name, self.row_type.names))

    def query(self, text: str) -> DataFrame:
        """The rows of a query of the statement."""
        return run_query(self.session, text, self.job)

    @property
    def full_names(self) -> tuple[tuple[str, ...], ...]:
        """The names of the table that may precede a column, with its database."""
        return (self.session.catalog_name, self.name.database, self.name.table), (self.name.database, self.name.table)


def refuse_exact_case(session: Session) -> None:
    """Refuse to write rows where Spark tells names of columns apart by their case. Raises UnsupportedFeatureError."""
    if session.conf.get(CASE_SENSITIVE, "false").lower() == "true":
        raise UnsupportedFeatureError(
            f"rows of Paimon tables are not written while {CASE_SENSITIVE} = true: columns match in any case here, as "
            f"no two of a table differ in case alone; write them after SET {CASE_SENSITIVE} = false",
            feature=CASE_SENSITIVE,
        )


def open_target(session: Session, statement: Written) -> tuple[Target, Written] | None:
    """The table that a statement writes, and the statement with its parameters bound; None when it is Spark's.

    Raises:
        TableNotFoundError, DatabaseNotFoundError, BranchNotFoundError: there is no such table.
        InvalidInputError: it is a system table.
        SqlSyntaxError: more parameters than values.
        UnsupportedFeatureError: `spark.sql.caseSensitive` is true.
    """
    given = statement.sql
    session, sql = bind_parameters(session, given)
    if sql != given:
        again = read_write(Cursor(sql))
        assert isinstance(again, type(statement))
        statement = again
    name = resolve_table(session, statement.table)
    if name is None:
        return None
    options = statement.request.options if isinstance(statement, Insert) else {}
    return _opened(session, name, options, given, sql), statement


def open_to_insert(session: Session, parts: Name, request: InsertRequest) -> Target:
    """The table of an attached catalog to which the rows of a DataFrame go. Raises as `open_target`."""
    name = resolve_table(session, parts)
    assert name is not None, "the table is the catalog's"
    return _opened(session, name, request.options, request.of_frame, request.of_frame)


def _opened(session: Session, name: TableName, options: Mapping[str, str], given: str, bound: str) -> Target:
    """The table of this name with options of a write, by a statement as it was given, and with values of parameters."""
    if name.system is not None:
        raise InvalidInputError(
            f"{name} is a system table, which is read-only; name the table or branch", table=str(name)
        )
    refuse_exact_case(session)
    name = session.to_write(name)
    table = session.table_to_change(name)
    with_job = with_lineage_job(session, name, given, table.branch_name, canonical_write(options), bound=bound)
    if with_job is not session:
        table = with_job.table_to_change(name)
    return Target(with_job, name, table)


@dataclass(frozen=True, slots=True)
class StaticPartition:
    """Values by partition column: as option `overwrite.partition` and as `NamedPartitions` take them."""

    texts: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def option(self) -> str:
        """As option `overwrite.partition`."""
        pairs = ((k.replace("`", "``"), v.replace("'", "''")) for k, v in self.texts.items())
        return ",".join(f"`{k}`='{v}'" for k, v in pairs)


def static_partition(target: Target, constants: Mapping[str, str | None]) -> StaticPartition:
    """The partition that constants name; columns without a constant are left out.

    Raises:
        InvalidInputError: not a partition column, or its constant is not of its type.
        SqlSyntaxError: a value is not a constant.
    """
    handle, keys = target.table.handle, target.partition_keys
    default = handle.options.partition_default_name
    by_column: dict[str, str] = {}
    for name, text in constants.items():
        column = in_any_case(name, keys)
        if column is None:
            raise InvalidInputError(
                f"PARTITION names {name!r}, which is not a partition column of {handle.describe()}"
                f"{did_you_mean(name, keys)}; its partition columns are {', '.join(keys) or 'none'}",
                column=name,
            )
        if text is not None:
            by_column[column] = text
    found = evaluate(target.session, list(by_column.values()))
    texts = {
        column: _partition_text(_in_column(target, column, value), default)
        for column, value in zip(by_column, found, strict=True)
    }
    options = BatchWriteOptions(time_zone=target.session.time_zone, overwrite_partition=texts)
    return StaticPartition(texts, partition_values(handle, options))


def constant_column(target: Target, name: str, value: Any) -> Column:
    """A value of a partition column, as a column of a DataFrame."""
    data_type = target.column(name).type
    kind = spark_type(data_type, name)
    python_value = array_of([value], arrow_type(data_type))[0].as_py()
    if python_value is None or isinstance(python_value, bytes):
        return F.lit(python_value).cast(kind)
    text = python_value.isoformat(sep=" ") if isinstance(python_value, datetime) else str(python_value)
    return F.lit(text).cast(kind)


def _in_column(target: Target, name: str, value: object) -> object:
    """An instant as the session's wall clock, where the column is not of instants."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return value
    match target.column(name).type:
        case TimestampType(local_zone=True):
            return value
    return value.astimezone(zone_of(target.session.time_zone)).replace(tzinfo=None)


def _partition_text(value: object, default: str) -> str:
    match value:
        case None:
            return default
        case bool():
            return str(value).lower()
        case datetime():
            return value.isoformat(sep=" ")
        case str() | int() | float() | Decimal() | date():
            return str(value)
    raise SqlSyntaxError(
        f"{sql_quoted(value)} cannot name a partition; give text, a number, a date or NULL", value=value
    )
