"""Run SHOW, USE, SET CATALOG and REFRESH TABLE.

Source: Spark's `ShowCreateTableExec`, `ShowPartitionsExec`, `ShowTablePropertiesExec`, `ShowTablesExec`,
`ShowNamespacesExec`, `StringUtils.filterPattern`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.engine.scan.file_stats import decode_partitions
from paimon_spark.engine.scan.splits import totals_of
from paimon_spark.errors import InvalidInputError, UnsupportedFeatureError
from paimon_spark.options.location import TableName
from paimon_spark.predicate.ast import literal_text
from paimon_spark.redaction import shown_options
from paimon_spark.sql.commands.column_text import ddl_column
from paimon_spark.sql.commands.target import on_table
from paimon_spark.sql.grammar.show import (
    PartitionFilter,
    Refresh,
    ShowCatalogs,
    ShowColumns,
    ShowCreateTable,
    ShowCurrent,
    ShowDatabases,
    ShowPartitions,
    ShowProperties,
    ShowTables,
    Use,
    UseKind,
)
from paimon_spark.sql.names import DEFAULT_DATABASE, resolve_column, resolve_database
from paimon_spark.sql.session import Session
from paimon_spark.sql.statement import Outcome, Result
from paimon_spark.system_tables.java_text import sql_text
from paimon_spark.types import (
    DataType,
    TimestampType,
    quoted,
    quoted_if_needed,
)

if TYPE_CHECKING:
    from paimon_spark.api.table import Table
    from paimon_spark.engine.tasks import DataSplit

OWNER: Final = "owner"
_PRIMARY_KEY: Final = "primary-key"
_PATH: Final = "path"
_RESERVED: Final = frozenset(("comment", "collation", "location", "provider", OWNER, "external", "is_managed_location"))
"""What Spark's catalogs keep among the properties of a table and show on lines of their own."""
_ESCAPED: Final = str.maketrans(
    {c: f"%{ord(c):02X}" for c in [*map(chr, range(1, 0x20)), "\x7f", *"\"#%'*/:=?\\{}[]^"]}
)
"""What Spark's `ExternalCatalogUtils.escapePathName` escapes."""


@on_table
def show_create_table(session: Session, name: TableName, _: ShowCreateTable) -> Result:
    """The statement that creates an equal table; of a branch, with the definition of the branch.

    Raises UnsupportedFeatureError: it is a system table.
    """
    if name.system is not None:
        raise UnsupportedFeatureError(
            f"{name} is a system table, which always exists and is not created; DESCRIBE {name} shows its columns",
            feature="SHOW CREATE TABLE of a system table",
        )
    return session.rows("createtab_stmt STRING NOT NULL", [(_create_statement(session, name),)])


def _create_statement(session: Session, name: TableName) -> str:
    """CREATE TABLE of a table, without LOCATION, which follows from its name."""
    table = session.table(name)
    schema = table.schema
    columns = ",\n  ".join(ddl_column(field) for field in schema.fields)
    parts = map(quoted_if_needed, (session.catalog_name, name.database, name.table))
    out = [f"CREATE TABLE {'.'.join(parts)} (\n  {columns})", "USING paimon"]
    if schema.partition_keys:
        out.append(f"PARTITIONED BY ({', '.join(map(quoted_if_needed, schema.partition_keys))})")
    if schema.comment:
        out.append(f"COMMENT {literal_text(schema.comment)}")
    properties = table_properties(table, with_path=False)
    if properties:
        pairs = ",\n  ".join(f"{literal_text(key)} = {literal_text(value)}" for key, value in properties.items())
        out.append(f"TBLPROPERTIES (\n  {pairs})")
    return "\n".join(out) + "\n"


@on_table
def show_columns(session: Session, name: TableName, _: ShowColumns) -> Result:
    """Names of the columns, in order."""
    return session.rows("col_name STRING NOT NULL", [(column,) for column in session.table(name).row_type.names])


@on_table
def show_partitions(session: Session, name: TableName, statement: ShowPartitions) -> Result:
    """Partitions that have files, as `dt=2024-01-01/hh=1`, sorted.

    Raises:
        InvalidInputError: the table is not partitioned.
        ColumnNotFoundError: PARTITION names something else than a partition column.
        PredicateSyntaxError: a value is not of its column's type.
        UnsupportedFeatureError: it is a system table.
    """
    table = session.table(name, {"time-zone": session.time_zone})
    if table.is_system:
        raise UnsupportedFeatureError(
            f"{table.name} is a system table, which has no partitions; show those of {table.handle.name}",
            feature="SHOW PARTITIONS of a system table",
        )
    keys = table.schema.partition_keys
    if not keys:
        raise InvalidInputError(f"{table.handle.describe()} is not partitioned", table=table.name)
    splits = table.scan(where=partition_condition(table, statement.partition)).plan().splits
    paths = sorted(
        "/".join(
            f"{key.translate(_ESCAPED)}={value.translate(_ESCAPED)}" for key, value in zip(keys, values, strict=True)
        )
        for values in partition_texts(table, splits)
    )
    return session.rows("partition STRING NOT NULL", [(path,) for path in paths])


def partition_texts(table: Table, splits: Sequence[DataSplit]) -> Iterator[tuple[str, ...]]:
    """The values of the partitions of splits, as Spark casts them to text."""
    row_type = table.schema.partition_type
    rows = decode_partitions(row_type, pa.array(list(totals_of(splits).partitions), pa.binary()))
    zone = table.read_options.time_zone
    texts = [_cast_to_text(c, f.type, zone).to_pylist() for c, f in zip(rows.columns, row_type, strict=True)]
    return zip(*([("null" if v is None else v) for v in column] for column in texts), strict=True)


def partition_condition(table: Table, partition: PartitionFilter) -> str | None:
    """The condition of PARTITION (…) for `Table.scan`."""
    keys = table.schema.partition_keys
    terms = []
    for name, value in partition:
        column = quoted(resolve_column(table, name, keys, "partition column"))
        terms.append(f"{column} IS NULL" if value.upper() == "NULL" else f"{column} = ({value})")
    return " AND ".join(terms) or None


def _cast_to_text(values: pa.Array, t: DataType, zone: str | None) -> pa.Array:
    """Values as Spark casts them to text, instants in the session's time zone."""
    if isinstance(t, TimestampType) and t.local_zone:
        values = pc.local_timestamp(values.cast(pa.timestamp(values.type.unit, zone or "UTC")))
        t = TimestampType(precision=t.precision)
    texts = sql_text(values, t)
    if isinstance(t, TimestampType) and t.precision:  # Spark writes no zeros at the end of fractions
        texts = pc.replace_substring_regex(texts, r"\.?0*$", "")
    return texts


@on_table
def show_properties(session: Session, name: TableName, statement: ShowProperties) -> Result:
    """Table options, the primary key and the path, by key; of a key that the table lacks, a sentence that says so."""
    found = table_properties(session.table(name))
    if statement.key is not None:
        missing = f"Table {session.catalog_name}.{name} does not have property: {statement.key}"
        found = {statement.key: found.get(statement.key, missing)}
    return session.rows("key STRING NOT NULL, value STRING NOT NULL", found.items())


def table_properties(table: Table, *, with_path: bool = True) -> dict[str, str]:
    """The rows of SHOW TBLPROPERTIES: stored options, the primary key and the location, sorted by key.

    Values that may be secret are hidden, as in Spark.

    Source: Java's `PaimonSparkTableBase.properties`.
    """
    if table.is_system:
        return {}
    schema = table.schema
    found = {key: value for key, value in schema.options.items() if key not in _RESERVED}
    if schema.primary_keys:
        found[_PRIMARY_KEY] = ",".join(schema.primary_keys)
    if with_path:
        found[_PATH] = table.location
    return shown_options(dict(sorted(found.items())))


def show_tables(session: Session, statement: ShowTables) -> Result:
    """Tables of a database. Raises DatabaseNotFoundError; UnsupportedFeatureError: EXTENDED."""
    database = resolve_database(session, statement.database)
    if database is None:
        return Outcome.RUN_BY_SPARK
    if statement.extended:
        raise UnsupportedFeatureError(
            f"SHOW TABLE EXTENDED is not supported for database {database}; use SHOW TABLES, DESCRIBE EXTENDED t, or "
            "the system table t$partitions",
            feature="SHOW TABLE EXTENDED",
        )
    shown = quoted_if_needed(database)
    is_missing = database == DEFAULT_DATABASE and not session.has_database(database)
    tables = [] if is_missing else session.catalog.list_tables(database)
    rows = [(shown, name, False) for name in matching(tables, statement.pattern)]
    return session.rows("namespace STRING NOT NULL, tableName STRING NOT NULL, isTemporary BOOLEAN NOT NULL", rows)


def show_databases(session: Session, statement: ShowDatabases) -> Result:
    """Databases of the warehouse; when another catalog is named, Spark lists those of it."""
    of = statement.catalog
    if not session.is_current if of is None else of.lower() != session.catalog_name.lower():
        return Outcome.RUN_BY_SPARK
    names = matching(session.databases(), statement.pattern)
    return session.rows("namespace STRING NOT NULL", [(quoted_if_needed(name),) for name in names])


def show_catalogs(session: Session, statement: ShowCatalogs) -> Result:
    """Spark's catalogs and those that are attached without its knowledge."""
    if session.used is None:
        return Outcome.RUN_BY_SPARK
    ours = matching((s.catalog_name for s in session.each()), statement.pattern)
    names = {*ours, *(row[0] for row in session.run(statement.sql).collect())}
    return session.rows("catalog STRING NOT NULL", [(name,) for name in sorted(names)])


def matching(names: Iterable[str], pattern: str | None) -> Iterator[str]:
    """The names that match a pattern of SHOW … LIKE in any case: `*` is anything, `|` separates alternatives."""
    if pattern is None:
        yield from names
        return
    alternatives = []
    for part in pattern.strip().split("|"):
        with suppress(re.error):  # it matches nothing, as in Spark
            alternatives.append(re.compile(part.replace("*", ".*"), re.IGNORECASE))
    yield from (name for name in names if any(a.fullmatch(name) for a in alternatives))


def use(session: Session, statement: Use) -> Result:
    """Set the current database or catalog; as in Spark, a name of one part is a catalog if there is one.

    Raises DatabaseNotFoundError: the catalog lacks the database.
    """
    first, *rest = statement.name
    is_catalog = rest or statement.kind is not UseKind.DATABASE
    if is_catalog and first.lower() == session.catalog_name.lower():
        if session.is_of_catalog and not rest:
            session.forget_database()
        else:
            session.use(".".join(rest) or DEFAULT_DATABASE)
        return None
    if is_catalog and any(first.lower() == o.catalog_name.lower() for o in session.others):
        return Outcome.RUN_BY_SPARK  # the other catalog takes it
    is_database = statement.kind is UseKind.DATABASE or (
        statement.kind is UseKind.ANY and not session.is_other_catalog(first)
    )
    if session.is_current and not rest and is_database:
        session.use(first)
        return None
    found = session.run(statement.sql)
    session.forget_database()
    return found


def show_current(session: Session, _: ShowCurrent) -> Result:
    """The database of names without one."""
    if not session.is_current:
        return Outcome.RUN_BY_SPARK
    return session.rows(
        "catalog STRING NOT NULL, namespace STRING NOT NULL",
        [(session.catalog_name, quoted_if_needed(session.database))],
    )


@on_table
def refresh(session: Session, name: TableName, _: Refresh) -> None:
    """Check that the table exists; nothing of tables is cached between statements."""
    session.table(name)
