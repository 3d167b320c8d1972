"""Names in statements → tables of the catalog, or Spark's.

A name of one part is a temporary view when there is one, else a table of the current database. In a name of two parts
the first is a database of the warehouse; where there is none of that name, the name is Spark's. A name of three
parts is the catalog's when it begins with `paimon`, else Spark's.

What a statement such as SHOW TAGS is about: a table or database of the catalog that exists, or Spark's.

Names of columns in statements → names as a table has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from paimon_spark.errors import InvalidOptionError
from paimon_spark.options.location import split_suffix
from collections.abc import Sequence
from typing import TYPE_CHECKING
from paimon_spark.sql.tokens import quoted
from collections.abc import Iterable
from typing import TYPE_CHECKING
from paimon_spark.errors import ColumnNotFoundError
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.types import in_any_case

if TYPE_CHECKING:
    from paimon_spark.sql.session import Session
    from paimon_spark.sql.session import Session
    from paimon_spark.api.table import Table

CATALOG: Final = "paimon"
"""What the catalog is called in names of three parts."""
_NO_DATABASE: Final = "sys"
"""Where Paimon's procedures and functions are."""


@dataclass(frozen=True, slots=True)
class TableName:
    """A table of the catalog, which need not exist.

    Attributes:
        database: its database.
        table: its name there.
        branch: the branch that `$branch_…` names; None where none is named.
        system: the system table that is meant, such as `tags`.
    """

    database: str
    table: str
    branch: str | None = None
    system: str | None = None

    @property
    def text(self) -> str:
        """As `Catalog.table` takes it."""
        suffix = "" if self.branch is None else f"$branch_{self.branch}"
        suffix += "" if self.system is None else f"${self.system}"
        return f"`{self.database}`.`{self.table}`{suffix}"

    @property
    def bare(self) -> str:
        """The whole table, as verbs of `Catalog` take it."""
        return f"`{self.database}`.`{self.table}`"

    def __str__(self) -> str:
        """As messages show it."""
        return self.text.replace("`", "")

    def refuse_suffix(self, verb: str) -> None:
        """Check that the whole table is named. Raises InvalidOptionError."""
        if self.branch is not None or self.system is not None:
            what = "a branch" if self.system is None else "a system table"
            raise InvalidOptionError(f"{self} is {what}, and only a whole table can be {verb}", name=str(self))


def target(session: Session, parts: Sequence[str]) -> TableName | None:
    """The table that a statement is about, whether it exists or not; None when it is Spark's.

    Raises:
        InvalidOptionError: what follows `$` is no branch and no system table.
    """
    *place, last = parts
    if len(place) == 2 and place[0].lower() == CATALOG:
        place = place[1:]
    elif place and (len(place) > 1 or not session.has_database(place[0])):
        return None
    table, branch, system = split_suffix(last)
    return TableName(place[-1] if place else session.database, table, branch, system)


def source(session: Session, parts: Sequence[str]) -> TableName | None:
    """The table that a query reads, or None when it is Spark's: a temporary view hides a table of its name.

    Raises as `target`.
    """
    if "$" not in parts[-1] and len(parts) == 1 and not session.has_table(session.database, parts[0]):
        # Not ours: Spark may know it, and says so when it does not.
        return None
    if len(parts) == 1 and session.has_view(parts[0]):
        return None
    if len(parts) == 2 and parts[0].lower() == _NO_DATABASE:
        return None
    return target(session, parts)


def subject(session: Session, parts: Sequence[str]) -> TableName | None:
    """The table of the catalog that a statement means; None when it is a table or view of Spark's.

    A name that nobody knows is the catalog's, so that the error is one that offers the nearest names.

    Raises:
        TableNotFoundError, DatabaseNotFoundError: neither the warehouse nor Spark has it.
        InvalidOptionError: what follows `$` is no branch and no system table.
    """
    found = source(session, parts)
    if found is None and not _is_of_spark(session, parts):
        found = target(session, parts)
        if found is None and len(parts) == 2:
            session.catalog.list_tables(parts[0])  # there is no such database, which says so
    if found is not None and not session.has_table(found.database, found.table):
        session.catalog.table(found.bare)  # says what tables there are
    return found


def subject_database(session: Session, parts: Sequence[str]) -> str | None:
    """The database of the warehouse that a statement means; None when it is Spark's. Without parts, the current one.

    Raises:
        DatabaseNotFoundError: neither the warehouse nor Spark has it.
    """
    if len(parts) == 2 and parts[0].lower() == CATALOG:
        session.catalog.list_tables(parts[1])
        return parts[1]
    if len(parts) > 1:
        return None
    name = parts[0] if parts else session.database
    if not session.has_database(name):
        if session.spark.catalog.databaseExists(quoted(name)):
            return None
        session.catalog.list_tables(name)  # says what databases there are
    return name


def _is_of_spark(session: Session, parts: Sequence[str]) -> bool:
    """Whether Spark knows a table or view, or at least the place where it would be."""
    if len(parts) == 1:
        return session.spark.catalog.tableExists(quoted(parts[0]))
    return len(parts) > 2 or session.spark.catalog.databaseExists(quoted(parts[0]))


def column_name(table: Table, name: str, columns: Iterable[str], what: str = "column") -> str:
    """The name of a column as the table writes it, given in any case.

    Args:
        table: for messages.
        name: as the statement has it.
        columns: those of the table that can be meant.
        what: they are, for messages.

    Raises:
        ColumnNotFoundError: there is none, or several differ in case alone and none is written so.
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
