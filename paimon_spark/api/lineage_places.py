"""What a question about lineage names: tables of one or more warehouses, and snapshots of theirs.

Source: own.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, Union

from paimon_spark.errors import InvalidInputError, InvalidOptionError, LineageError, PaimonError
from paimon_spark.jobs.lineage_index import TableIndex, open_index
from paimon_spark.lineage.graph import Graph, Node
from paimon_spark.lineage.model import TableRef
from paimon_spark.lineage.place import Warehouse, home_of, is_of_lineage
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.layout import MAIN
from paimon_spark.metadata.resolve import resolve
from paimon_spark.metadata.version import from_options
from paimon_spark.options.location import is_name, split_name, split_suffix
from paimon_spark.storage.urls import open_store

if TYPE_CHECKING:
    from paimon_spark.api.catalog import Catalog
    from paimon_spark.api.table import Table
    from paimon_spark.options.scan import ScanOptions

TableLike: TypeAlias = Union[str, "Table"]
"""A table by its name, `db.t` or `db.t$branch_fix`, or opened; opened at a version it stands for that snapshot."""
Version: TypeAlias = int | str
"""A snapshot id, or a version as in `VERSION AS OF`."""

_LOG = logging.getLogger(__name__)
_VERSION: Final = "versionAsOf"


class Asked(NamedTuple):
    """A table that was asked about.

    Attributes:
        given: how the caller calls it: the name, or that of the opened table.
        handle: where it was given opened.
        options: what it was opened with; None where a name was given.
    """

    given: str
    node: Node
    warehouse: Warehouse
    handle: TableHandle | None = None
    options: ScanOptions | None = None


@dataclass(frozen=True, slots=True)
class Places:
    """The warehouses that a question is about: the catalog's own first.

    Attributes:
        catalogs: whose names are understood; the first one's go first.
        warehouses: URL → warehouse.
    """

    catalogs: tuple[Catalog, ...]
    warehouses: dict[str, Warehouse] = field(default_factory=dict)

    @staticmethod
    def of(own: Catalog, others: Sequence[Catalog] | Catalog, tables: Iterable[TableLike] = ()) -> Places:
        """The warehouses of catalogs and of opened tables.

        Raises:
            InvalidInputError: `others` holds something else than catalogs.
            LineageError: an opened table is outside any warehouse.
        """
        from paimon_spark.api.catalog import Catalog

        given = (others,) if isinstance(others, Catalog) else tuple(others)
        for other in given:
            if not isinstance(other, Catalog):
                raise InvalidInputError(
                    f"others={other!r}: expected catalogs, as paimon_spark.load_catalog makes them", others=str(other)
                )
        places = Places((own, *given))
        for catalog in places.catalogs:
            places._add(warehouse_of(catalog))
        for table in tables:
            if not isinstance(table, str):
                places._add(_home(table)[0])
        return places

    def _add(self, warehouse: Warehouse) -> None:
        self.warehouses.setdefault(warehouse.url, warehouse)

    @property
    def indexes(self) -> tuple[TableIndex, ...]:
        """The lineage tables of each warehouse."""
        return tuple(open_index(w) for w in self.warehouses.values())

    def asked(self, table: TableLike, graph: Graph | None = None) -> Asked:
        """What a table means: a name is one of the catalog's own warehouse if that has it, else of the next.

        Args:
            table: its name, or the table opened.
            graph: whose tables are known even when they have been dropped.

        Raises:
            TableNotFoundError, DatabaseNotFoundError, BranchNotFoundError: no warehouse has it, and no job knows it.
            InvalidOptionError: not the name of a table.
            LineageError: an opened table is outside any warehouse, or of the database of lineage.
        """
        if not isinstance(table, str):
            warehouse, ref = _home(table)
            return Asked(ref.name, Node(warehouse.url, ref), warehouse, table.handle, table.read_options)
        ref = ref_of(table)
        known = set() if graph is None else set(graph.tables)
        for warehouse in self.warehouses.values():
            if Node(warehouse.url, ref) in known:
                return Asked(table, Node(warehouse.url, ref), warehouse)
        failure: PaimonError | None = None
        for catalog in self.catalogs:
            warehouse = warehouse_of(catalog)
            try:
                opened = catalog.table(table)
            except PaimonError as e:
                failure = failure or e
                continue
            return Asked(table, Node(warehouse.url, ref), warehouse, opened.handle)
        assert failure is not None
        raise failure

    def opened(self, node: Node) -> TableHandle | None:
        """The branch of a node; None when it is gone, or in no warehouse of these."""
        warehouse = self.warehouses.get(node.warehouse)
        if warehouse is None:
            return None
        root = warehouse.table_root(node.ref.database, node.ref.bare)
        try:
            return open_table(warehouse.store, root, node.ref.branch, f"{node.ref.database}.{node.ref.bare}")
        except PaimonError as e:
            _LOG.debug("lineage answers without %s: %s", node.name, e)
            return None

    def at(self, asked: Asked, version: Version | None) -> tuple[Asked, int | None]:
        """A table, and its snapshot that a version means. The version may be of another branch, which is meant then.

        Args:
            asked: the table.
            version: None: as the table was opened; a number is a snapshot id, alive or not.

        Raises:
            InvalidInputError: no snapshot id, or two versions.
            VersionNotFoundError, NotFoundError: there is no such version.
            LineageError: the version has no snapshot yet.
        """
        opened_at = None if asked.options is None else asked.options.version
        if version is None and opened_at is None:
            return asked, None
        if version is not None and opened_at is not None:
            raise InvalidInputError(
                f"table {asked.given} was opened at version {opened_at[1]!r}, and snapshot={version!r} is given too; "
                "give one of them",
                table=asked.given,
            )
        if isinstance(version, bool) or not isinstance(version, (int, str, type(None))):
            raise InvalidInputError(
                f"{version!r} is no snapshot; give its id, or a version such as a tag", version=version
            )
        text = str(version).strip()
        if version is not None and text.isascii() and text.isdigit() and int(text) > 0:
            return asked, int(text)
        if isinstance(version, int):
            raise InvalidInputError(
                f"snapshot {version} of table {asked.given} cannot be: ids begin at 1", snapshot=version
            )
        return self._resolved(asked, opened_at or (_VERSION, text))

    def _resolved(self, asked: Asked, version: tuple[str, str]) -> tuple[Asked, int]:
        handle = asked.handle or self.opened(asked.node)
        if handle is None:
            raise LineageError(
                f"version {version[1]!r} of table {asked.given} cannot be looked up, as the table is gone; give the "
                "snapshot id",
                table=asked.given,
            )
        found = resolve(handle, from_options([version], None if asked.options is None else asked.options.time_zone))
        if found.snapshot is None:
            raise LineageError(
                f"{found.label} of table {asked.given} has no snapshot yet, so nothing came from it or went into it",
                table=asked.given,
            )
        node = Node(
            asked.node.warehouse, TableRef.of(asked.node.ref.database, asked.node.ref.bare, found.handle.branch)
        )
        return asked._replace(node=node, handle=found.handle), found.snapshot.id


def warehouse_of(catalog: Catalog) -> Warehouse:
    """A catalog's warehouse."""
    return Warehouse(*open_store(catalog.warehouse, catalog.options))


def ref_of(name: str) -> TableRef:
    """The branch that a name means: `db.t`, `db.t$branch_fix`.

    Raises:
        InvalidOptionError: not the name of a table, or of a system table.
        LineageError: one of lineage's own tables.
    """
    bare, branch, system_table = split_suffix(name)
    if not is_name(bare) or system_table is not None:
        raise InvalidOptionError(
            f"{name!r} is not the name of a table; expected database.table or database.table$branch_<name>", name=name
        )
    return _recorded(TableRef.of(*split_name(bare), branch or MAIN))


def _home(table: Table) -> tuple[Warehouse, TableRef]:
    from paimon_spark.api.table import Table

    given: object = table
    if not isinstance(given, Table):
        raise InvalidInputError(f"{given!r} is no table; give its name, such as 'db.t', or the opened table")
    if table.is_system:
        raise InvalidInputError(f"{table.name} is a system table; give the table itself", table=table.name)
    home = home_of(table.handle)
    if home is None:
        raise LineageError(
            f"table {table.location} is outside any warehouse (<warehouse>/<database>.db/<table>), so lineage has no "
            "rows about it; the snapshots made from it name it by its location",
            table=table.location,
        )
    return home.warehouse, _recorded(home.ref)


def _recorded(ref: TableRef) -> TableRef:
    if is_of_lineage(ref):
        raise LineageError(
            f"{ref.name} is one of lineage's own tables, which are not recorded themselves", table=ref.name
        )
    return ref
