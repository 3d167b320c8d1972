"""One lineage question: the warehouses, tables and versions it names, and its graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias, Union, runtime_checkable

from paimon_spark.catalogs.open import open_catalog
from paimon_spark.errors import (
    CommitError,
    InvalidInputError,
    InvalidOptionError,
    LineageError,
    PaimonError,
    StorageError,
    VersionNotFoundError,
)
from paimon_spark.jobs.branch_access import refuse_version
from paimon_spark.lineage.asking.graph import NOWHERE, Direction, Graph, Node, load
from paimon_spark.lineage.asking.snapshot_facts import SnapshotFacts
from paimon_spark.lineage.asking.table_history import TableHistory, open_branch
from paimon_spark.lineage.asking.unrecorded_writes import Unrecorded, find_unrecorded
from paimon_spark.lineage.index.job_registry import Registration, registrations
from paimon_spark.lineage.index.provenance import TableRef
from paimon_spark.lineage.index.table_index import TableIndex, open_index
from paimon_spark.lineage.index.tables import JOB_STARTUP, column_equals, table_is
from paimon_spark.lineage.index.warehouse import DATABASE, Warehouse, find_warehouse_table, is_lineage_table
from paimon_spark.lineage.recording.maintenance import sync
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import MAIN
from paimon_spark.metadata.resolve import resolve
from paimon_spark.metadata.version import from_option
from paimon_spark.options.location import in_catalog, is_name, split_name, split_suffix
from paimon_spark.options.scan import VERSION_AS_OF, ScanOptions
from paimon_spark.redaction import get_logger
from paimon_spark.text import id_of

if TYPE_CHECKING:
    from paimon_spark.api.catalog import Catalog
    from paimon_spark.api.table import Table

TableLike: TypeAlias = Union[str, "Table"]
"""A table by its name, `db.t` or `db.t$branch_fix`, or opened; opened at a version it stands for that snapshot."""
Version: TypeAlias = int | str
"""A snapshot id, or a version as in `VERSION AS OF`."""

_LOG = get_logger(__name__)
_MOST_TABLES: Final = 200
"""Tables that are looked at when lineage is switched on."""


@runtime_checkable
class WarehouseCatalog(Protocol):
    """The part of a catalog that a question uses."""

    @property
    def warehouse(self) -> str: ...

    @property
    def options(self) -> Mapping[str, str]: ...

    @property
    def name(self) -> str: ...

    def table(self, name: str) -> Table:
        """Open a table."""
        ...


@dataclass(frozen=True, slots=True)
class Question:
    """One lineage question: its warehouses, and the history of their tables."""

    places: Warehouses
    history: TableHistory

    @staticmethod
    def of(own: WarehouseCatalog, others: Sequence[WarehouseCatalog], tables: Iterable[TableLike] = ()) -> Question:
        """A question about the warehouses of catalogs and of opened tables; their missing rows are written first.

        Raises:
            LineageError: lineage was never switched on in one of them.
            InvalidInputError: `others` holds something else than catalogs.
            StorageError: a store failed.
        """
        places = Warehouses.of(own, others, tables)
        for index in places.indexes:
            check_ever_enabled(index)
        for index in places.indexes:
            _write_missing(index)
        return Question(places, TableHistory(places.warehouses))

    def load(
        self,
        tables: Sequence[Node] = (),
        jobs: Sequence[str] = (),
        direction: Direction = Direction.UP,
        *,
        snapshots: bool = True,
        startup: bool = False,
    ) -> Graph:
        """The part of the graph around some tables and jobs. Raises StorageError."""
        return load(self.places.indexes, tables, jobs, direction=direction, snapshots=snapshots, startup=startup)

    def about(
        self, table: TableLike, version: Version | None, direction: Direction
    ) -> tuple[AskedTable, int | None, Graph]:
        """A table, the snapshot of it that is asked about, and the graph.

        Upstream, a snapshot that a branch shares with its origin belongs to the origin.

        Raises:
            VersionNotFoundError: the snapshot is newer than all known ones. Others as `Warehouses.asked` and
                `Warehouses.at`.
        """
        asked, snapshot_id = self.places.at(self.places.asked(table, self.load(snapshots=False)), version)
        graph = self.load([asked.node], direction=direction)
        while (
            direction is Direction.UP
            and snapshot_id is not None
            and (parent := self._maker(graph, asked.node, snapshot_id))
        ):
            asked = asked._replace(node=parent, handle=None)
            graph = self.load([asked.node], direction=direction)
        if snapshot_id is not None:
            self._check_snapshot(graph, asked, snapshot_id)
        return asked, snapshot_id, graph

    def _maker(self, graph: Graph, node: Node, snapshot_id: int) -> Node | None:
        """The branch that a shared snapshot comes from; None when jobs wrote the branch up to the snapshot."""
        written = (graph.sinks(job, node).row_of(snapshot_id) for job in graph.written_by.get(node, ()))
        return None if any(row >= 0 for row in written) else self.history.parent(node, snapshot_id)

    def _check_snapshot(self, graph: Graph, asked: AskedTable, snapshot_id: int) -> None:
        """Check that the snapshot can exist; of a dropped table any may have."""
        graph.check_table(asked.node)
        newest, head = graph.newest(asked.node), self.history.newest_between(asked.node, 1, None)
        if head is not None and snapshot_id > max(newest, head) and not self.history.is_there(asked.node, snapshot_id):
            later = f", the newest that a job recorded is {newest}" if newest > head else ""
            raise VersionNotFoundError(
                f"table {asked.given} has no snapshot {snapshot_id}: its newest is {head}{later}; give an id up to "
                "that, or a tag",
                table=asked.given,
                snapshot=snapshot_id,
            )

    def align(self, tables: Sequence[TableLike]) -> dict[str, AskedTable]:
        """Tables by the names as given.

        Raises:
            InvalidInputError: one twice, or one opened at a version. Others as `Warehouses.asked`.
        """
        known = self.load(snapshots=False)
        found: dict[str, AskedTable] = {}
        for table in tables:
            if not isinstance(table, str):
                refuse_version(table)
            asked = self.places.asked(table, known)
            if asked.node in {a.node for a in found.values()}:
                raise InvalidInputError(f"table {asked.given} is given twice", table=asked.given)
            # Two warehouses may have a table of the same name.
            found[asked.given if asked.given not in found else f"{asked.node.warehouse}/{asked.given}"] = asked
        return found

    def unrecorded_after(self, asked: Node | None, snapshot_id: int | None) -> Unrecorded:
        """Writes without lineage to any table except the one asked about, since one of its snapshots."""
        since_ms = 0 if asked is None or snapshot_id is None else self.history.time_ms(asked, snapshot_id)
        return find_unrecorded(self.places.indexes, since_ms=since_ms, besides=asked)

    def unrecorded_in(self, nodes: Mapping[Node, int | None]) -> Unrecorded:
        """Writes without lineage to some tables, up to a snapshot of each; None: up to its head."""
        here = {n: newest for n, newest in nodes.items() if n.warehouse in self.places.warehouses and n.ref != NOWHERE}
        return find_unrecorded(self.places.indexes, here)

    @property
    def callbacks(self) -> SnapshotFacts:
        """Callbacks into the history of tables."""
        queries = self.queries()
        streams = {job: known.ended_ms is not None for job, (_, known) in queries.items()}
        replays = {job: known.replays for job, (_, known) in queries.items() if known.replays is not None}
        known = self.history
        return SnapshotFacts(known.is_compaction, known.newest_between, known.provenance, streams, replays)

    def queries(self) -> dict[str, tuple[str, Registration]]:
        """Job → the id of the streaming query that is recorded as it, and its registration. Raises StorageError."""
        found: dict[str, tuple[str, Registration]] = {}
        for warehouse in self.places.warehouses.values():
            for query_id, known in registrations(warehouse).items():
                found[known.job] = query_id, known
        return found

    def write_startup(self, job: str, starts: Sequence[tuple[AskedTable, int]]) -> None:
        """Write the start of a job to the warehouse of each source, and delete former ones.

        Raises:
            StorageError, CommitError: it cannot be written.
        """
        for index in self.places.indexes:
            here = [(a.node.ref, i) for a, i in starts if a.node.warehouse == index.warehouse.url]
            if here:
                index.upsert({JOB_STARTUP.name: [(job, *ref, snapshot_id) for ref, snapshot_id in here]})
            others = "".join(f" AND NOT ({table_is(ref)})" for ref, _ in here)
            index.delete(JOB_STARTUP, column_equals("job", job) + others)


def check_ever_enabled(index: TableIndex) -> None:
    """Raise LineageError when there are no lineage tables."""
    if not index.exists():
        url = index.warehouse.url
        raise LineageError(
            f"nothing is recorded in warehouse {url}: lineage was never switched on there. Switch it on with "
            f"paimon_spark.load_catalog({url!r}).lineage.enable(), in a shell: "
            "paimon-spark lineage enable; jobs record from then on",
            warehouse=url,
        )


def startup_snapshots(graph: Graph) -> dict[str, dict[str, int]]:
    """Job → name of a table → the snapshot that it was to start from."""
    found: dict[str, dict[str, int]] = {}
    for part in graph.parts:
        for row in [] if part.startup is None else part.startup.to_pylist():
            found.setdefault(row["job"], {})[f"{row['database']}.{row['table']}"] = row["snapshot_id"]
    return found


def check_tables(tables: Sequence[TableLike]) -> Sequence[TableLike]:
    """Raise InvalidInputError for no tables, and for one instead of a list."""
    given: object = tables
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        raise InvalidInputError(f"tables={tables!r}: expected a list of tables, by name or opened")
    return tables


def check_job_name(job: str) -> str:
    """Raise InvalidInputError unless the name of a job is text that is not blank."""
    given: object = job
    if not isinstance(given, str) or not given.strip():
        raise InvalidInputError(f"job={job!r} is not the name of a job; expected text that is not blank", job=job)
    return job


def check_job_names(names: Sequence[str]) -> Sequence[str]:
    """Raise InvalidInputError for one text instead of a list of jobs."""
    if isinstance(names, str):
        raise InvalidInputError(f"ignoring={names!r}: expected a list of jobs")
    return names


def _write_missing(index: TableIndex) -> None:
    try:
        found = sync(index)
    except (StorageError, CommitError) as e:
        _LOG.warning(
            "lineage of %s is answered from the rows that are there; what is missing could not be written: %s",
            index.warehouse.url,
            e,
        )
        return
    if found.unreadable:
        _LOG.warning(
            "lineage of %s is answered without what could not be read: %s",
            index.warehouse.url,
            "; ".join(found.unreadable[:5]),
        )


class AskedTable(NamedTuple):
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
class Warehouses:
    """The warehouses of a question, the catalog's own first.

    Attributes:
        catalogs: whose names are understood; the first one's go first.
        warehouses: URL → warehouse.
    """

    catalogs: tuple[WarehouseCatalog, ...]
    warehouses: dict[str, Warehouse]

    @staticmethod
    def of(
        own: WarehouseCatalog, others: Sequence[WarehouseCatalog] | WarehouseCatalog, tables: Iterable[TableLike] = ()
    ) -> Warehouses:
        """The warehouses of catalogs and of opened tables.

        Raises:
            InvalidInputError: `others` holds something else than catalogs.
            LineageError: an opened table is outside any warehouse.
        """
        given = (others,) if isinstance(others, WarehouseCatalog) else tuple(others)
        for other in given:
            if not isinstance(other, WarehouseCatalog):
                raise InvalidInputError(
                    f"others={other!r}: expected catalogs, as paimon_spark.load_catalog makes them", others=str(other)
                )
        catalogs = (own, *given)
        found = [warehouse_of(catalog) for catalog in catalogs]
        found += [_warehouse_and_branch(table)[0] for table in tables if not isinstance(table, str)]
        warehouses: dict[str, Warehouse] = {}
        for warehouse in found:
            warehouses.setdefault(warehouse.url, warehouse)
        return Warehouses(catalogs, warehouses)

    @property
    def indexes(self) -> tuple[TableIndex, ...]:
        """The lineage tables of each warehouse."""
        return tuple(open_index(w) for w in self.warehouses.values())

    def asked(self, table: TableLike, graph: Graph | None = None) -> AskedTable:
        """Find a table; a name is looked up in the catalog's own warehouse first, then in the others.

        Args:
            table: its name, or the table opened.
            graph: whose tables are known even when they have been dropped.

        Raises:
            TableNotFoundError, DatabaseNotFoundError, BranchNotFoundError: no warehouse has it, and no job knows it.
            InvalidOptionError: not the name of a table.
            LineageError: an opened table is outside any warehouse, or of the database of lineage.
        """
        if not isinstance(table, str):
            warehouse, ref = _warehouse_and_branch(table)
            return AskedTable(ref.name, Node(warehouse.url, ref), warehouse, table.handle, table.read_options)
        catalogs = self._catalogs_of(table)
        ref = parse_table_name(in_catalog(table, catalogs[0].name))
        known = set() if graph is None else set(graph.tables)
        is_any = len(catalogs) == len(self.catalogs)
        for warehouse in self.warehouses.values() if is_any else map(warehouse_of, catalogs):
            if Node(warehouse.url, ref) in known:
                return AskedTable(table, Node(warehouse.url, ref), warehouse)
        failure: PaimonError | None = None
        for catalog in catalogs:
            warehouse = warehouse_of(catalog)
            try:
                opened = catalog.table(table)
            except PaimonError as e:
                failure = failure or e
                continue
            return AskedTable(table, Node(warehouse.url, ref), warehouse, opened.handle)
        assert failure is not None
        raise failure

    def _catalogs_of(self, table: str) -> Sequence[WarehouseCatalog]:
        """Catalogs in which a name is looked up: all, or those of the name in front. Raises InvalidOptionError."""
        found: list[WarehouseCatalog] = []
        failures = []
        for catalog in self.catalogs:
            try:
                in_catalog(table, catalog.name)
                found.append(catalog)
            except InvalidOptionError as e:
                failures.append(e)
        if not found:
            raise failures[0]
        return found

    def at(self, asked: AskedTable, version: Version | None) -> tuple[AskedTable, int | None]:
        """A table, and the snapshot of a version. The version may be of another branch, which is returned then.

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
                f"{version!r} is not a snapshot; give its id, or a version such as a tag", version=version
            )
        text = str(version).strip()
        snapshot_id = None if version is None else id_of(text)
        if snapshot_id:
            return asked, snapshot_id
        if isinstance(version, int):
            raise InvalidInputError(
                f"snapshot {version} of table {asked.given} cannot exist: ids begin at 1", snapshot=version
            )
        return self._resolved(asked, opened_at or (VERSION_AS_OF, text))

    def _resolved(self, asked: AskedTable, version: tuple[str, str]) -> tuple[AskedTable, int]:
        handle = asked.handle or open_branch(self.warehouses, asked.node)
        if handle is None:
            raise LineageError(
                f"version {version[1]!r} of table {asked.given} cannot be looked up, as the table is gone; give the "
                "snapshot id",
                table=asked.given,
            )
        found = resolve(handle, from_option(*version, None if asked.options is None else asked.options.time_zone))
        if found.snapshot is None:
            raise LineageError(
                f"{found.label} of table {asked.given} has no snapshot yet, so nothing came from it or went into it",
                table=asked.given,
            )
        node = Node(asked.node.warehouse, asked.node.ref.on_branch(found.handle.branch))
        return asked._replace(node=node, handle=found.handle), found.snapshot.id


def warehouse_of(catalog: WarehouseCatalog) -> Warehouse:
    """A catalog's warehouse."""
    return Warehouse(*open_catalog(catalog.warehouse, catalog.options).open_directory())


def parse_table_name(name: str) -> TableRef:
    """Parse the name of a branch: `db.t`, `db.t$branch_fix`.

    Raises:
        InvalidOptionError: not the name of a table, or of a system table.
        LineageError: one of lineage's own tables.
    """
    bare, branch, system_table = split_suffix(name)
    if not is_name(bare) or system_table is not None:
        raise InvalidOptionError(
            f"{name!r} is not the name of a table; expected database.table or database.table$branch_<name>", name=name
        )
    return _check_recorded(TableRef.of(*split_name(bare), branch or MAIN))


def _warehouse_and_branch(table: Table) -> tuple[Warehouse, TableRef]:
    from paimon_spark.api.table import Table

    given: object = table
    if not isinstance(given, Table):
        raise InvalidInputError(f"{given!r} is not a table; give its name, such as 'db.t', or the opened table")
    if table.is_system:
        raise InvalidInputError(f"{table.name} is a system table; give the table itself", table=table.name)
    home = find_warehouse_table(table.handle)
    if home is None:
        raise LineageError(
            f"table {table.location} is outside any warehouse (<warehouse>/<database>.db/<table>), so lineage has no "
            "rows about it; the snapshots made from it name it by its location",
            table=table.location,
        )
    return home.warehouse, _check_recorded(home.ref)


def _check_recorded(ref: TableRef) -> TableRef:
    if is_lineage_table(ref):
        raise LineageError(
            f"{ref.name} is one of lineage's own tables, which are not recorded themselves", table=ref.name
        )
    return ref


def some_handles(catalog: Catalog) -> list[TableHandle]:
    """Tables of the warehouse, without those of lineage; fewer where they cannot be listed or opened."""
    found: list[TableHandle] = []
    with suppress(PaimonError):
        names = (f"{d}.{t}" for d in catalog.list_databases() if d != DATABASE for t in catalog.list_tables(d))
        found += (catalog.table(name).handle for name in islice(names, _MOST_TABLES))
    return found
