"""Resolve names of tables, databases and columns, or leave them to Spark.

A name of one part is a temporary view when there is one, else a table of the current database. In a name of two parts
the first is a database of the warehouse; when the warehouse has none of that name, the name is Spark's. A name of three
parts is the catalog's when it begins with `paimon`, else Spark's. In a session with attached catalogs, names mean what
they mean to Spark: they begin with the name of a catalog, or belong to the current one; when Spark does not know the
current one itself, it is not asked for a table that is missing there. Arguments of procedures and functions name tables
of the catalog only (`CallContext`), which works without Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from paimon_spark.api.catalog import Catalog
from paimon_spark.errors import ColumnNotFoundError, InvalidInputError, TableNotFoundError
from paimon_spark.foreign.statements import instead_of_table
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.options.location import BRANCH_PREFIX, CATALOG, TableName, split_suffix
from paimon_spark.options.scan import INCREMENTAL_KEYS, TIME_ZONE, VERSION_KEYS, chooses_state
from paimon_spark.sql.cursor import Cursor
from paimon_spark.system_tables.registry import NAMES as SYSTEM_TABLES
from paimon_spark.types import in_any_case

if TYPE_CHECKING:
    from paimon_spark.api.table import Table
    from paimon_spark.sql.session import Session

DEFAULT_DATABASE: Final = "default"
SPARK_CATALOG: Final = "spark_catalog"
"""Spark's name of its own catalog."""
_OF_SPARK: Final = "system"
"""Spark's catalog of its functions and temporary views."""
_GLOBAL_VIEWS: Final = "global_temp"
"""Spark's database of global temporary views, in every catalog."""
_SYSTEM_DATABASE: Final = "sys"
"""The database of Paimon's procedures and functions."""
_QUALIFIED: Final = 3
_VERSION_OPTIONS: Final = frozenset((*VERSION_KEYS, *INCREMENTAL_KEYS))
"""Options of a session for the versions that queries read; other calls ignore them."""


def resolve_name(session: Session, parts: Sequence[str]) -> TableName | None:
    """The table that a name means, whether it exists or not; None when it is Spark's.

    Raises InvalidOptionError: what follows `$` is neither a branch nor a system table.
    """
    if len(parts) > 1 and parts[0].lower() == session.catalog_name.lower():
        refuse_path(parts)
        return name_of(parts[1:])
    if not session.is_current or _is_outside(session, parts):
        return None
    check_database(session, parts)
    return name_of(parts, session.database)


def refuse_path(parts: Sequence[str]) -> None:
    """Refuse paimon.`/path/of/table`, as Delta Lake names tables. Raises InvalidInputError."""
    if "/" in parts[-1] and len(parts) == 2:
        raise InvalidInputError(
            f"{parts[0]}.`{parts[1]}` is a path, and statements take tables by their names, {parts[0]}.database.table; "
            f"read the table by spark.read.format('paimon').load('{parts[1]}')",
            name=parts[1],
        )


def check_database(session: Session, parts: Sequence[str]) -> None:
    """Check that a name of three parts or more begins with a database of the catalog. Raises TableNotFoundError."""
    if len(parts) > 2 and not session.has_database(parts[0]):
        raise TableNotFoundError(unknown_catalog(session, parts), table=".".join(parts))


def knows_catalog(session: Session, name: str) -> bool:
    """Whether the Spark session has a catalog of this name, or Spark itself may mean something by it."""
    known = (*session.catalog_names, *(s.catalog_name for s in session.each()), _OF_SPARK)
    return name.lower() in (n.lower() for n in known)


def unknown_catalog(session: Session, parts: Sequence[str]) -> str:
    """The message about a name that begins with a catalog that the Spark session does not have."""
    name, known = parts[0], sorted({*session.catalog_names, *(s.catalog_name for s in session.each())})
    near = did_you_mean(name, known)
    listed = f" The catalogs are {', '.join(known)}" if near else f"; the catalogs are {', '.join(known)}"
    return f"there is no catalog {name!r} for {'.'.join(parts)}{near}{listed}"


def is_system_table(name: str) -> bool:
    """Whether a part of a name is that of a branch, system table or version, here or in Iceberg."""
    lower = name.lower()
    return lower in SYSTEM_TABLES or lower.startswith(BRANCH_PREFIX) or instead_of_table(name, "") is not None


def refuse_metadata_table(session: Session, parts: Sequence[str]) -> None:
    """Refuse `t.snapshots`, as Iceberg names a table of the current database. Raises TableNotFoundError."""
    if len(parts) != 2 or not is_system_table(parts[1]) or not session.is_current:
        return
    table, system = parts
    if not session.has_database(table) and session.has_table(session.database, table):
        in_database = f"{session.database}.{table}"
        here, there = (instead_of_table(system, t) or f"{t}${system}" for t in (table, in_database))
        raise TableNotFoundError(
            f"there is no database {table!r} for {'.'.join(parts)}; write {here}, or the database before it: {there}",
            table=".".join(parts),
        )


def _is_outside(session: Session, parts: Sequence[str]) -> bool:
    """Whether a name is not of the current catalog: of another one, a global view, or files, as parquet.`/path`."""
    if len(parts) == 1:
        return parts[0] in session.given
    return session.is_other_catalog(parts[0]) or parts[0].lower() == _GLOBAL_VIEWS or "/" in parts[-1]


def name_of(parts: Sequence[str], database: str = DEFAULT_DATABASE) -> TableName:
    """The table of a name without catalog: `t`, `db.t`, `db.t$branch_b`, or `db.t.branch_b` as Iceberg writes it.

    Raises InvalidOptionError: what follows `$` is neither a branch nor a system table.
    """
    if len(parts) > 1:
        database, parts = parts[0], parts[1:]
    table, branch, system = split_suffix("$".join(parts))
    return TableName(database, table, branch, system)


def resolve_source(session: Session, parts: Sequence[str]) -> TableName | None:
    """The table that a query reads, or None when it is Spark's: a temporary view hides a table of its name."""
    refuse_metadata_table(session, parts)
    found = resolve_name(session, parts)
    if found is None or (len(parts) == 1 and session.has_view(parts[0])):
        return None
    if len(parts) == 2 and parts[0].lower() == _SYSTEM_DATABASE:
        return None
    return session.on_branch(found)


def resolve_table(session: Session, parts: Sequence[str]) -> TableName | None:
    """The existing table of the catalog that a statement is about; None when it is a table or view of Spark's.

    A name that neither knows is reported by the catalog, whose error offers the nearest names.

    Raises TableNotFoundError, DatabaseNotFoundError: neither has it; InvalidOptionError: as `resolve_name`.
    """
    found = resolve_source(session, parts)
    if found is not None and not session.has_table(found.database, found.table):
        if session.permanent_view(found) is not None:
            raise TableNotFoundError(f"{found} is a view and not a table; only queries read views", table=str(found))
        session.catalog.table(found.bare)  # raises, and lists the tables
    return found


def resolve_database(session: Session, parts: Sequence[str]) -> str | None:
    """The existing database of the warehouse that a statement is about; None when it is Spark's.

    Without parts it is the current database. Raises DatabaseNotFoundError: neither the warehouse nor Spark has it.
    """
    found = database_of_warehouse(session, parts)
    if found is not None and found != DEFAULT_DATABASE:
        session.catalog.list_tables(found)  # raises: there is no such database
    return found


def database_of_warehouse(session: Session, parts: Sequence[str]) -> str | None:
    """The database of the warehouse that a name means, existing or not; None when it is another catalog's.

    Without parts, it is the current one. The name of the catalog means its database `default`.
    """
    if len(parts) == 2 and parts[0].lower() == session.catalog_name.lower():
        return parts[1]
    if len(parts) > 1:
        return None
    if parts and parts[0].lower() == session.catalog_name.lower():
        return DEFAULT_DATABASE
    if not session.is_current or (parts and session.is_other_catalog(parts[0])):
        return None
    return parts[0] if parts else session.database


def resolve_column(table: Table, name: str, columns: Iterable[str], what: str = "column") -> str:
    """The one of `columns` that a name in any case means, as the table spells it; `what` they are is for messages.

    Raises:
        ColumnNotFoundError: there is none, or several that differ in case only and none is spelt exactly so.
    """
    names = list(columns)
    found = in_any_case(name, names)
    if found is None:
        raise ColumnNotFoundError(
            f"{table.handle.describe()} has no {what} {name!r}{did_you_mean(name, names)}; it has "
            f"{', '.join(names) or 'none'}",
            column=name,
            table=table.name,
        )
    return found


@dataclass(frozen=True, slots=True)
class CallContext:
    """Context of names and timestamps in a call: `database` is that of names without one.

    Without a time zone, timestamps are in the machine's. The session is that of `catalog.sql`; None outside it.
    """

    catalog: Catalog
    database: str = DEFAULT_DATABASE
    time_zone: str | None = None
    session: Session | None = field(default=None, compare=False)
    catalog_name: str = CATALOG

    @classmethod
    def of(cls, where: Session | Catalog | CallContext) -> CallContext:
        """The context of a session, or of a catalog alone."""
        if isinstance(where, CallContext):
            return where
        if isinstance(where, Catalog):
            return cls(where)
        return cls(where.catalog, where.database, where.time_zone, where, where.catalog_name)

    def table_name(self, text: str, caller: str) -> TableName:
        """The table that a text argument names: `t`, `db.t` or `paimon.db.t`, also with `$branch_…` or `$tags`.

        Raises InvalidInputError, which begins with the caller: it does not name a table of the catalog.
        """
        cursor = Cursor(text)
        parts = () if cursor.at_end else cursor.name()
        cursor.end()
        if len(parts) == _QUALIFIED and parts[0].lower() == self.catalog_name.lower():
            parts = parts[1:]
        if not parts or len(parts) >= _QUALIFIED:
            raise InvalidInputError(
                f"{caller}: {text!r} is not the name of a table of warehouse {self.catalog.warehouse}; expected "
                f"'t', 'database.t' or '{self.catalog_name}.database.t'",
                name=text,
            )
        table, branch, system = split_suffix(parts[-1])
        return TableName(parts[0] if len(parts) > 1 else self.database, table, branch, system)

    def options(self, name: TableName) -> dict[str, str]:
        """The options of `SET spark.paimon.…` for a table, without those for versions."""
        found: Mapping[str, str] = {} if self.session is None else self.session.options(name)
        return {k: v for k, v in found.items() if k not in _VERSION_OPTIONS}

    def table(self, text: str, caller: str, options: Mapping[str, str] | None = None) -> Table:
        """The table or branch that a text argument names, with `options` over those of the session.

        Raises:
            InvalidInputError: it names a system table, or not a table of the catalog.
            NotFoundError: it does not exist.
        """
        name = self.table_name(text, caller)
        if name.system is not None:
            raise InvalidInputError(
                f"{caller}: {name} is a system table; name the table or one of its branches", name=text
            )
        zone = {} if self.time_zone is None else {TIME_ZONE.key: self.time_zone}
        given = {**zone, **self.options(name), **(options or {})}
        if self.session is None:
            return self.catalog.table(name.text, **given)
        return self.session.table(name if chooses_state(given) else self.session.on_branch(name), given)
