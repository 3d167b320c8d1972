"""The context of procedures and functions: a catalog, with or without a session. Needs no Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from paimon_spark.api.catalog import Catalog
from paimon_spark.api.table import Table
from paimon_spark.errors import InvalidInputError
from paimon_spark.options.location import split_suffix
from paimon_spark.options.scan import INCREMENTAL_KEYS, VERSION_KEYS
from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.names import CATALOG, DEFAULT_DATABASE, TableName

if TYPE_CHECKING:
    from paimon_spark.sql.session import Session

_QUALIFIED: Final = 3
_VERSION_OPTIONS: Final = frozenset((*VERSION_KEYS, *INCREMENTAL_KEYS))
"""Options of a session for the versions that queries read; other calls ignore them."""


@dataclass(frozen=True, slots=True)
class CallContext:
    """What names and timestamps of a call mean.

    Attributes:
        catalog: of the tables.
        database: of names without one.
        time_zone: of timestamps without one; None is the machine's.
        session: of `catalog.sql`; None outside it.
    """

    catalog: Catalog
    database: str = DEFAULT_DATABASE
    time_zone: str | None = None
    session: Session | None = field(default=None, compare=False)

    @classmethod
    def of(cls, where: Session | Catalog | CallContext) -> CallContext:
        """The context of a session, or of a catalog alone."""
        if isinstance(where, CallContext):
            return where
        if isinstance(where, Catalog):
            return cls(where)
        return cls(where.catalog, where.database, where.time_zone, where)

    def table_name(self, text: str, caller: str) -> TableName:
        """The table that a text argument names: `t`, `db.t` or `paimon.db.t`, also with `$branch_…` or `$tags`.

        Args:
            text: the argument; names in it may be in backquotes.
            caller: the procedure or function, for messages.

        Raises:
            InvalidInputError: it does not name a table of the catalog.
        """
        cursor = Cursor(text)
        parts = () if cursor.at_end else cursor.name()
        cursor.end()
        if len(parts) == _QUALIFIED and parts[0].lower() == CATALOG:
            parts = parts[1:]
        if not parts or len(parts) >= _QUALIFIED:
            raise InvalidInputError(
                f"{caller}: {text!r} is not the name of a table of warehouse {self.catalog.warehouse}; expected "
                "'t', 'database.t' or 'paimon.database.t'",
                name=text,
            )
        table, branch, system = split_suffix(parts[-1])
        return TableName(parts[0] if len(parts) > 1 else self.database, table, branch, system)

    def options(self, name: TableName) -> dict[str, str]:
        """The options of `SET spark.paimon.…` for a table, without those for versions."""
        found: Mapping[str, str] = {} if self.session is None else self.session.options(name)
        return {k: v for k, v in found.items() if k not in _VERSION_OPTIONS}

    def table(self, text: str, caller: str, options: Mapping[str, str] | None = None) -> Table:
        """The table or branch that a text argument names.

        Args:
            text: as `table_name` takes it.
            caller: the procedure or function, for messages.
            options: table options of this call; they override those of the session.

        Raises:
            InvalidInputError: it names a system table, or not a table of the catalog.
            NotFoundError: it does not exist.
        """
        name = self.table_name(text, caller)
        if name.system is not None:
            raise InvalidInputError(
                f"{caller}: {name} is a system table; name the table or one of its branches", name=text
            )
        given = {**self.options(name), **(options or {})}
        return self.catalog.table(name.text, **given)
