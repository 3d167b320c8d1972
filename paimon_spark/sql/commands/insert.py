"""Run INSERT: convert the rows of its query to the table's columns, and write them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from paimon_spark.errors import (
    InvalidInputError,
    InvalidOptionError,
    SchemaMismatchError,
    SqlSyntaxError,
    UnsupportedFeatureError,
)
from paimon_spark.options.descriptor import boolean
from paimon_spark.options.lineage import NO_SOURCES
from paimon_spark.options.scan import TIME_ZONE
from paimon_spark.options.write import HIVE_PARTITIONS, MERGE_SCHEMA
from paimon_spark.options.write_request import (
    DYNAMIC_OVERWRITE,
    OVERWRITE_MODE,
    OVERWRITE_PARTITION,
    PartitionOverwriteMode,
    canonical_write,
    overwrite_mode,
)
from paimon_spark.spark.schema import fitted
from paimon_spark.spark.session import our_errors
from paimon_spark.sql.commands.expressions import partition_condition, with_defaults
from paimon_spark.sql.commands.target import (
    StaticPartition,
    Target,
    affected_columns,
    affected_rows,
    constant_column,
    on_target,
    open_to_insert,
    static_partition,
)
from paimon_spark.sql.grammar.write import Insert
from paimon_spark.sql.lineage_job import names_no_table
from paimon_spark.sql.names import name_of
from paimon_spark.sql.requests import InsertRequest
from paimon_spark.sql.session import reads_of_run
from paimon_spark.types import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField

    from paimon_spark.jobs.write.commit import WriteResult
    from paimon_spark.sql.session import Session
    from paimon_spark.sql.statement import Name
    from paimon_spark.types import DataField, DataType

OVERWRITE_SETTING: Final = "spark.sql.sources.partitionOverwriteMode"
_OF_SAVES: Final = ("overwriteschema", "replacewhere")
COLUMNS: Final = affected_columns("inserted")
"""Columns of the numbers of rows of an INSERT, as DDL."""
ALL_ROWS: Final = "TRUE"
"""The condition of REPLACE WHERE for all rows."""


@on_target
def insert(target: Target, statement: Insert) -> DataFrame:
    """Run an INSERT; the numbers of rows. Raises as `Table.write`; Spark's own errors for the query."""
    insertion = _insertion(target, statement.request)
    columns = insertion.columns
    query = statement.query if columns is None else with_defaults(statement.query, columns)
    has_no_sources = target.job is not None and names_no_table(query)
    more = {NO_SOURCES.key: "true"} if has_no_sources else {}
    made = _write(insertion, lambda: target.query(query), more)
    is_known = insertion.overwrites or made.deleted_rows is not None  # else rows of kind -D were written too
    return affected_rows(target.session, made.inserted_rows if is_known else None, inserted=made.inserted_rows)


def insert_rows(
    session: Session,
    table: Name,
    request: InsertRequest,
    rows: DataFrame,
    lineage_options: Mapping[str, str] | None = None,
) -> None:
    """Write a DataFrame as an INSERT into a table of the catalog writes the rows of its query. Raises as `insert`."""
    target = open_to_insert(session, table, request)
    with reads_of_run(target.session):
        _write(_insertion(target, request), lambda: rows, lineage_options or {})


def overwrite_of_save(
    session: Session, parts: tuple[str, ...], options: Mapping[str, str], partition: Sequence[str]
) -> InsertRequest | None:
    """The overwrite that `saveAsTable` in mode overwrite is for a table that exists, which keeps its definition.

    Option `replaceWhere` names the rows to replace. None where option `overwriteSchema` is true: then the table is
    replaced with its definition, as by CREATE OR REPLACE TABLE.

    Args:
        session: which has the table.
        parts: its name, with the catalog.
        options: of the write.
        partition: columns of `partitionBy`; none where it was left out.

    Raises:
        InvalidInputError: the table is partitioned by other columns.
        InvalidOptionError: both options are given, or `overwriteSchema` is neither true nor false.
    """
    rest, given = dict(options), dict[str, str]()
    for key in options:
        if key.lower() in _OF_SAVES:
            given[key.lower()] = rest.pop(key)
    where = given.get("replacewhere")
    if _is_true(given.get("overwriteschema", "false"), "overwriteSchema"):
        if where is not None:
            raise InvalidOptionError(
                f"options overwriteSchema and replaceWhere exclude each other for {'.'.join(parts)}",
                option="replaceWhere",
            )
        return None
    name = name_of(parts[1:])
    keys = session.table(name).schema.partition_keys
    if partition and tuple(partition) != tuple(keys):
        raise InvalidInputError(
            f"{name} is partitioned by {', '.join(keys) or 'nothing'} and not by {', '.join(partition)}; leave "
            "partitionBy out, or set overwriteSchema = true, which replaces the definition of the table",
            table=str(name),
        )
    # Options of the write or the session, such as partitionOverwriteMode = dynamic, may ask for fewer rows than all.
    return InsertRequest(True, by_name=True, replace_where=where, options=rest)


def without_options_of_saves(options: Mapping[str, str]) -> dict[str, str]:
    """Options of a write without those that `overwrite_of_save` has followed."""
    return {k: v for k, v in options.items() if k.lower() not in _OF_SAVES}


def _is_true(text: str, option: str) -> bool:
    try:
        return boolean(text)
    except ValueError as e:
        raise InvalidOptionError(f"option {option} = {text!r}: {e}", option=option) from e


def _write(insertion: _Insertion, query: Callable[[], DataFrame], lineage_options: Mapping[str, str]) -> WriteResult:
    mode: Literal["append", "overwrite"] = "overwrite" if insertion.overwrites else "append"
    with our_errors():
        rows = insertion.rows(query())
        return insertion.target.table.write(rows, mode=mode, **{**insertion.options, **lineage_options})


@dataclass(frozen=True, slots=True)
class _Insertion:
    """Rows of an INSERT; `static` has values of partition columns that the query lacks.

    The columns are in the order of the query's; None when they match by name. Where it `evolves` the schema, the query
    may have more. `plain` are the columns where the query has the names of the table's in their order, else None: then
    no partition column is moved to the end.
    """

    target: Target
    overwrites: bool
    columns: Sequence[DataField] | None
    static: StaticPartition
    options: dict[str, str]
    evolves: bool = False
    plain: Sequence[DataField] | None = None

    def rows(self, found: DataFrame) -> DataFrame:
        """The rows of the query with the table's columns. Raises SchemaMismatchError: the columns do not match."""
        where = self.target.table.handle.describe()
        columns = self.columns
        if self.plain is not None and _named(found.columns) == _named(f.name for f in self.plain):
            columns = self.plain
        if columns is None:
            in_query = {c.lower() for c in found.columns}
            twice = [k for k in self.static.values if k.lower() in in_query]
            if twice:
                raise SchemaMismatchError(
                    f"PARTITION and the query for {where} both have column {twice[0]}; leave one of them out",
                    column=twice[0],
                )
        else:
            names = [f.name for f in columns]
            if self.evolves:
                names += found.columns[len(names) :]
                self._refuse_known(found.columns[len(columns) :])
            if len(names) != len(found.columns):
                raise SchemaMismatchError(
                    f"the query has {len(found.columns)} columns, {', '.join(found.columns)}, and {len(names)} of "
                    f"{where} are to be filled: {', '.join(names)}; columns match by position: name those that the "
                    "query fills, INSERT INTO t (…), or write BY NAME",
                    table=self.target.table.name,
                )
            found = found.toDF(*names)
        types = {f.name.lower(): f.type for f in self.target.columns}
        converted = [self._converted(f, types.get(f.name.lower())) for f in found.schema.fields]
        constants = [constant_column(self.target, k, v).alias(k) for k, v in self.static.values.items()]
        return found.select(*converted, *constants)

    def _refuse_known(self, more: Sequence[str]) -> None:
        """Check that columns behind those of the table are not among them."""
        known = next((c for c in more if c.lower() in {f.name.lower() for f in self.target.columns}), None)
        if known is not None:
            raise SchemaMismatchError(
                f"{self.target.table.handle.describe()} has column {known}, and the query has it behind the columns of "
                "the table; columns match by position: write BY NAME",
                column=known,
            )

    def _converted(self, given: StructField, wanted: DataType | None) -> Column:
        """A column of the query converted for the table; a column that the table lacks stays as it is."""
        column = F.col(quoted(given.name))
        if wanted is None:
            return column
        by_place = self.columns is not None
        return fitted(column, given.dataType, wanted, given.name, by_place=by_place).alias(given.name)


def _insertion(target: Target, request: InsertRequest) -> _Insertion:
    if request.if_not_exists:
        raise UnsupportedFeatureError(
            f"INSERT … IF NOT EXISTS is not supported for {target.table.handle.describe()}; check SHOW PARTITIONS "
            "first, or use INSERT INTO",
            feature="INSERT IF NOT EXISTS",
        )
    static = static_partition(target, request.partition)
    columns = plain = _columns(target, request, static)
    at_end = _hive_columns(target, request)
    if columns is not None and at_end:
        columns = [*(f for f in columns if f.name not in at_end), *(target.column(name) for name in at_end)]
    evolves = request.evolves and request.columns is None and not static.values
    options = _options(target, request, static)
    return _Insertion(target, request.overwrites, columns, static, options, evolves, plain if at_end else None)


def _named(names: Iterable[str]) -> list[str]:
    return [name.lower() for name in names]


def _hive_columns(target: Target, request: InsertRequest) -> list[str]:
    """The partition columns that PARTITION names without a value, where the query has them behind its other columns.

    Source: Java `paimon-spark` `PaimonAnalysis.hiveStyleDynamicPartitionOutput`.
    """
    if request.columns is not None or not HIVE_PARTITIONS.get(target.options):
        return []
    wanted = _named(name for name, value in request.partition.items() if value is None)
    return [key for key in target.partition_keys if key.lower() in wanted]


def _columns(target: Target, request: InsertRequest, static: StaticPartition) -> Sequence[DataField] | None:
    if request.by_name:
        return None
    if request.columns is None:
        return [f for f in target.columns if f.name not in static.values]
    found = [target.column(name) for name in request.columns]
    for i, field in enumerate(found):
        if field.name in static.values or field in found[:i]:
            raise InvalidInputError(
                f"column {field.name} of {target.table.handle.describe()} is named twice, in the list of columns"
                + (" and in PARTITION" if field.name in static.values else ""),
                column=field.name,
            )
    return found


def _options(target: Target, request: InsertRequest, static: StaticPartition) -> dict[str, str]:
    """Options of the write."""
    options = {**target.options, **canonical_write(request.options)}
    if request.evolves:
        options[MERGE_SCHEMA.key] = "true"
    asked = overwrite_mode(options)
    if OVERWRITE_PARTITION.key in options:
        raise InvalidOptionError(
            f"option {OVERWRITE_PARTITION.key} = {options[OVERWRITE_PARTITION.key]!r} is for format('paimon'): in SQL "
            "use INSERT OVERWRITE … PARTITION (dt = '2024-01-01'), which names the partition",
            option=OVERWRITE_PARTITION.key,
        )
    options = {k: v for k, v in options.items() if k not in (OVERWRITE_MODE.key, DYNAMIC_OVERWRITE.key)}
    options.setdefault(TIME_ZONE.key, target.session.time_zone)
    if not request.overwrites:
        return options
    if request.replace_where is not None:
        replaced = _replaced_partition(target, request.replace_where)
        return {**options, OVERWRITE_PARTITION.key: replaced.option} if replaced.texts else options
    mode = asked or target.session.conf.get(OVERWRITE_SETTING, PartitionOverwriteMode.STATIC).lower()
    if mode == PartitionOverwriteMode.DYNAMIC and len(static.values) < len(target.partition_keys):
        return {**options, OVERWRITE_MODE.key: PartitionOverwriteMode.DYNAMIC.value}
    return {**options, OVERWRITE_PARTITION.key: static.option} if static.texts else options


def _replaced_partition(target: Target, where: str) -> StaticPartition:
    """The partition that REPLACE WHERE names. Raises UnsupportedFeatureError: it names other rows."""
    if where.upper() == "TRUE":
        return StaticPartition()
    try:
        found = partition_condition(where)
        columns = [c.lower() for c, _ in found]
        if len(set(columns)) < len(columns):
            raise SqlSyntaxError(f"a column is named twice in {where}", sql=where)
        return static_partition(target, dict(found))
    except (SqlSyntaxError, InvalidInputError) as e:
        raise UnsupportedFeatureError(
            f"REPLACE WHERE {where} is not supported for {target.table.handle.describe()}: it takes constants of the "
            f"partition columns ({', '.join(target.partition_keys) or 'none'}), as in dt = '2024-01-01' AND hr = 5, or "
            "TRUE; use MERGE INTO for other conditions",
            feature="REPLACE WHERE",
        ) from e
