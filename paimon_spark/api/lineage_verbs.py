"""Lineage of a warehouse: the methods of `catalog.lineage`.

Source: PIP-5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from paimon_spark.api.lineage_question import (
    Question,
    TableLike,
    Version,
    Warehouses,
    check_ever_enabled,
    check_job_name,
    check_job_names,
    check_tables,
    some_handles,
    startup_snapshots,
    warehouse_of,
)
from paimon_spark.catalogs.open import open_catalog
from paimon_spark.errors import InvalidInputError, InvalidOptionError, StorageError
from paimon_spark.lineage.asking.graph import Direction, Node, load
from paimon_spark.lineage.asking.open_lineage import changes, check_installed, forget_gone, send
from paimon_spark.lineage.asking.picture import Picture, picture_of
from paimon_spark.lineage.asking.reach import downstream, impact, upstream
from paimon_spark.lineage.asking.recorded_jobs import Jobs
from paimon_spark.lineage.asking.results import ImpactOfSnapshot, LineageStatus, Relations, UnifiedVersion
from paimon_spark.lineage.asking.unified_version import start_snapshots, unified_version
from paimon_spark.lineage.index.job_registry import find_owner, note_query
from paimon_spark.lineage.index.table_index import TableIndex, open_index
from paimon_spark.lineage.index.tables import declare_source, enable, read_settings, retract_source, write_settings
from paimon_spark.lineage.index.warehouse import DATABASE
from paimon_spark.lineage.recording.maintenance import Rebuilt, Synced, forget_job, nothing_to_rebuild, rebuild, sync
from paimon_spark.metadata.layout import MAIN
from paimon_spark.metadata.version import Moment, moment_ms
from paimon_spark.options.lineage import DATA_LINEAGE, JOB, TABLE_LINEAGE
from paimon_spark.options.scan import TIME_ZONE
from paimon_spark.pipelines.preparation import warning_of_tables
from paimon_spark.spark_port import spark_jobs

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient
    from openlineage.client.event_v2 import RunEvent
    from pyspark.sql import SparkSession

    from paimon_spark.api.catalog import Catalog
    from paimon_spark.options.lineage import CatalogLineage

_FROM_SNAPSHOT_FULL: Final = {"scan.mode": "from-snapshot-full"}
_SNAPSHOT_ID: Final = "scan.snapshot-id"


@dataclass(frozen=True, slots=True, repr=False)
class Lineage:
    """Which snapshot of which table of a warehouse was made from which. Picklable; every call sees the present state.

    Every question first writes the rows that are missing, so that it covers all commits. A warehouse that is read-only
    answers from the rows that exist, with a warning. After lineage is switched off, the recorded rows still answer.

    Tables are named `db.t` or `db.t$branch_fix`, or are opened tables, of other warehouses too. `others` are catalogs
    of more warehouses to include; a table name that several have means the table of this catalog. Questions raise
    LineageError where lineage was never switched on, and StorageError when a store fails.
    """

    catalog: Catalog

    def __str__(self) -> str:
        return f"lineage of the {self.catalog}"

    def __repr__(self) -> str:
        return f"<{self}>"

    def enable(self, *, table: bool = True, data: bool = True) -> LineageStatus:
        """Switch lineage on for all jobs of the warehouse. Running jobs start to record within a minute.

        Args:
            table: record which jobs read and write which tables.
            data: record which snapshots they read and make; needs `table`.

        Raises:
            InvalidInputError: `data` without `table`, or neither; `disable()` switches off.
            StorageError, CommitError: the lineage tables cannot be made or written.
        """
        if not table:
            raise InvalidInputError(
                f"lineage cannot be enabled with table=False{' and data=True' if data else ''}: which snapshots a job "
                "reads says which tables it does; give table=True, or switch lineage off with disable()"
            )
        index = self._index
        try:
            enable(index, data=data)
        except StorageError as e:
            raise StorageError(
                f"lineage of warehouse {index.warehouse.url} cannot be switched on, as its tables in database 'paimon' "
                f"cannot be made or written: {e}; correct the path, or let this process write there",
                warehouse=index.warehouse.url,
                retryable=e.retryable,
            ) from e
        open_catalog(self.catalog.warehouse, self.catalog.options).register_all(DATABASE)
        return replace(self.status(), warning=warning_of_tables(some_handles(self.catalog)))

    def disable(self) -> LineageStatus:
        """Switch lineage off. Recorded rows stay, and still answer questions.

        Raises:
            StorageError, CommitError: the lineage tables cannot be written.
        """
        if self._index.exists():
            write_settings(self._index, table=False, data=False)
        return self.status()

    def declare_source(self, table: TableLike) -> list[str]:
        """Declare that rows which outside jobs write to a table come from no table, so that no sources are unknown.

        Answers then list none of its snapshots as unrecorded, on any branch, until `retract_source`; also when the
        table is dropped and made again. What jobs record about it stays. Returns all declared sources.

        Args:
            table: name, or opened; not a branch of it.

        Raises:
            InvalidInputError: a branch, or a table of another warehouse.
            CommitError: the lineage tables cannot be written. Others as `upstream`.
        """
        index = self._index
        check_ever_enabled(index)
        asked = Warehouses.of(self.catalog, (), (table,)).asked(table)
        if asked.node.ref.branch != MAIN or asked.warehouse.identity != index.warehouse.identity:
            raise InvalidInputError(
                f"{asked.given} cannot be declared a source here; give a table of warehouse {index.warehouse.url}, "
                "without a branch: the declaration holds for all its branches",
                table=asked.given,
            )
        declare_source(index, asked.node.name)
        return self.declared_sources()

    def retract_source(self, table: str) -> list[str]:
        """Take back `declare_source`, also of a table that is dropped already; the declared sources that are left.

        Raises:
            InvalidInputError: the table is not declared. Others as `declare_source`.
        """
        check_ever_enabled(self._index)
        if not retract_source(self._index, table):
            found = ", ".join(self.declared_sources()) or "none"
            raise InvalidInputError(f"{table!r} is not a declared source; declared are: {found}", table=table)
        return self.declared_sources()

    def declared_sources(self) -> list[str]:
        """Names of the declared sources, sorted; empty where lineage was never on. Raises StorageError."""
        return sorted(read_settings(self._index).declared)

    @property
    def is_enabled(self) -> bool:
        """Whether the warehouse records which snapshots came from which. Raises StorageError."""
        has_directory = open_catalog(self.catalog.warehouse, self.catalog.options).has_directory
        return has_directory and read_settings(self._index).table

    def status(self) -> LineageStatus:
        """Whether lineage is on. Raises StorageError."""
        index = self._index
        found = read_settings(index)
        exists = index.exists()
        jobs = len(load([index], snapshots=False).jobs) if exists else 0
        return LineageStatus(index.warehouse.url, found.table, found.data, found.flush_interval_ms, exists, jobs)

    def jobs(self, *, others: Sequence[Catalog] = (), include_internal: bool = False) -> Jobs:
        """The jobs that are recorded, with what they read and wrote last.

        Args:
            others: catalogs of other warehouses.
            include_internal: list deleted branches too, and jobs that wrote only these.
        """
        question = Question.of(self.catalog, others)
        graph = question.load(startup=True)
        queries = {job: (query_id, known.ended_ms) for job, (query_id, known) in question.queries().items()}
        found = Jobs.of(graph, startup_snapshots(graph), queries, question.history.is_deleted)
        return found if include_internal else found.without_deleted()

    def upstream(
        self,
        table: TableLike | None = None,
        *,
        snapshot: Version | None = None,
        job: str | None = None,
        others: Sequence[Catalog] = (),
    ) -> Relations:
        """The tables and jobs that a table, one of its snapshots, or a job comes from, nearest first.

        Args:
            table: name, or opened; opened at a version it stands for that snapshot.
            snapshot: id, or a version such as a tag; None: the table, whatever its snapshot.
            job: asked about instead of a table.
            others: catalogs of other warehouses.

        Raises:
            LineageError: no job reads or writes the table.
            JobNotFoundError: there is no such job.
            TableNotFoundError, VersionNotFoundError, NotFoundError: there is no such table or version.
            InvalidInputError: not one of `table` and `job`, or a snapshot of a job.
        """
        return self._relations(Direction.UP, table, snapshot, job, others)

    def downstream(
        self,
        table: TableLike | None = None,
        *,
        snapshot: Version | None = None,
        job: str | None = None,
        others: Sequence[Catalog] = (),
    ) -> Relations:
        """The tables and jobs that come from a table, one of its snapshots, or a job; arguments as of `upstream`."""
        return self._relations(Direction.DOWN, table, snapshot, job, others)

    def impact(
        self,
        table: TableLike,
        snapshot: Version | None = None,
        *,
        others: Sequence[Catalog] = (),
        include_internal: bool = False,
    ) -> ImpactOfSnapshot:
        """Everything that holds what a snapshot brought: tables, the snapshots and batches, the tags that keep it.

        Args:
            table: name, or opened.
            snapshot: id, or a version such as a tag; may be left out for a table opened at a version.
            others: catalogs of other warehouses.
            include_internal: list guard tags, backup branches and deleted branches too.

        Raises:
            InvalidInputError: no snapshot was given.
            Others as `upstream`.
        """
        question = Question.of(self.catalog, others, (table,))
        asked, snapshot_id, graph = question.about(table, snapshot, Direction.DOWN)
        if snapshot_id is None:
            raise InvalidInputError(
                f"impact of which snapshot of {asked.given}? Give its id, or a version such as a tag; downstream() "
                "answers for the whole table",
                table=asked.given,
            )
        history = question.history
        found = impact(graph, asked.node, snapshot_id, history.provenance, history.refs, history.shared_until)
        found = replace(found, unrecorded=question.unrecorded_after(asked.node, snapshot_id))
        return found if include_internal else found.without_internal()

    def unified_version(
        self, tables: Sequence[TableLike], *, others: Sequence[Catalog] = (), ignoring: Sequence[str] = ()
    ) -> UnifiedVersion:
        """The newest snapshots of some tables that stem from the same snapshots of all that they have in common.

        Args:
            tables: names, or opened.
            others: catalogs of other warehouses.
            ignoring: jobs that do not count, such as one that has ended and whose table another goes on writing.
                Snapshots that they made after the other jobs of a table are left out.

        Returns:
            Snapshot ids by the names as given; an opened table goes by `db.t` or `db.t$branch_fix`.
            The attribute `unrecorded` of this dict names what was written to the tables without recorded lineage.

        Raises:
            LineageError: there are no such snapshots: the message says which tables meet which source at which
                snapshot. Or no job reads or writes a table.
            InvalidInputError: no tables, one twice, or one opened at a version.
            Others as `upstream`.
        """
        question = Question.of(self.catalog, others, check_tables(tables))
        asked = question.align(tables)
        nodes = [a.node for a in asked.values()]
        found = unified_version(question.load(nodes), nodes, question.callbacks, check_job_names(ignoring))
        snapshots = {name: found.snapshots[a.node] for name, a in asked.items()}
        return UnifiedVersion(snapshots, question.unrecorded_in({**found.sources, **found.snapshots}))

    def start_options(
        self,
        tables: Sequence[TableLike],
        job: str,
        *,
        streaming: bool = True,
        others: Sequence[Catalog] = (),
        ignoring: Sequence[str] = (),
    ) -> dict[str, dict[str, str]]:
        """Options that start each source of a new job, for its reads. They are kept in `job_startup`.

        They start from the unified version; a table that no job reads or writes starts from its head.

        Args:
            tables: the sources: names, or opened.
            job: name of the new job; give its write `lineage.job` too, or the query this name.
            streaming: a stream reads the snapshot whole, then what comes after it; False: a batch reads the snapshot.
            others: catalogs of other warehouses.
            ignoring: jobs that do not count.

        Returns:
            Options by the names as given, for `spark.readStream` or `spark.read`.

        Raises:
            InvalidInputError: no name of a job.
            StorageError, CommitError: `job_startup` cannot be written.
            Others as `unified_version`.
        """
        check_job_name(job)
        question = Question.of(self.catalog, others, check_tables(tables))
        asked = question.align(tables)
        nodes = [a.node for a in asked.values()]
        found = start_snapshots(question.load(nodes), nodes, question.callbacks, check_job_names(ignoring))
        starts = {name: found[a.node] for name, a in asked.items()}
        question.write_startup(job, [(a, starts[name]) for name, a in asked.items()])
        mode = _FROM_SNAPSHOT_FULL if streaming else {}
        return {name: {**mode, _SNAPSHOT_ID: str(i), JOB.key: job} for name, i in starts.items()}

    def watch(self, session: SparkSession | None = None) -> None:
        """Notice when streaming queries of a Spark session end that write tables of this warehouse.

        `jobs()` shows the end. `unified_version` and `start_options` leave an ended job out of a table that another
        streaming query began to write after it. A job that runs again, and writes, counts again.

        Call it once in each session that runs queries, classic or Connect; again does nothing. A driver that is killed
        is not noticed.

        `session`: default is the active session, else one is made.
        """
        warehouse = warehouse_of(self.catalog)
        began, ended = partial(note_query, warehouse, ended=False), partial(note_query, warehouse, ended=True)
        spark_jobs().watch_queries(session, warehouse.url, began, ended)

    def forget_job(self, job: str) -> int:
        """Remove the rows of a job that has ended, and free its name; the number of rows. Stop the job first.

        Raises:
            InvalidInputError: not the name of a job.
            JobNotFoundError: there is no such job.
            StorageError, CommitError: something could not be written; call again.
        """
        check_job_name(job)
        question = Question.of(self.catalog, ())
        graph = question.load(snapshots=False, startup=True)
        if job not in startup_snapshots(graph) and find_owner(self._index.warehouse, job) is None:
            graph.check_job(job)
        return forget_job(self._index, job)

    def rebuild(self, checkpoints: Mapping[str, str] | None = None) -> Rebuilt:
        """Rebuild the lineage tables from all live snapshots and tags, and from checkpoints. Safe to repeat.

        Args:
            checkpoints: job → URL of its query's checkpoint, in addition to those that are known.

        Raises:
            InvalidInputError: `checkpoints` is not a mapping.
            LineageError: there are no lineage tables, and no snapshot, tag or checkpoint that names a job.
            StorageError, CommitError: the lineage tables cannot be read or written.
        """
        given: object = checkpoints
        if given is not None and not isinstance(given, Mapping):
            raise InvalidInputError(f"checkpoints={given!r}: expected a mapping of a job to the URL of its checkpoint")
        if not checkpoints and nothing_to_rebuild(self._index):
            check_ever_enabled(self._index)
        return rebuild(self._index, checkpoints)

    def sync(self) -> Synced:
        """Write the rows that are missing, as every question does first.

        Raises:
            StorageError, CommitError: the lineage tables cannot be read or written.
        """
        check_ever_enabled(self._index)
        return sync(self._index)

    def graph(self, *tables: TableLike, others: Sequence[Catalog] = ()) -> Picture:
        """The tables and jobs as a picture: all of them, or what the tables given come from and go into.

        A table shows the number of its snapshots that were written without recorded lineage.

        Raises:
            Errors as `upstream`.
        """
        question = Question.of(self.catalog, others, tables)
        if not tables:
            return picture_of(
                question.load(),
                f"Lineage of {self.catalog.warehouse}",
                unrecorded=question.unrecorded_after(None, None),
            )
        known = question.load(snapshots=False)
        asked = [question.places.asked(t, known) for t in tables]
        for one in asked:
            known.check_table(one.node)
        nodes = [a.node for a in asked]
        title = f"Lineage of {', '.join(a.given for a in asked)}"
        graph = question.load(nodes, direction=Direction.BOTH)
        return picture_of(graph, title, nodes, question.unrecorded_in(dict.fromkeys(graph.tables)))

    def open_lineage(
        self,
        client: OpenLineageClient | None = None,
        *,
        since: Moment | None = None,
        namespace: str | None = None,
        others: Sequence[Catalog] = (),
    ) -> list[RunEvent]:
        """OpenLineage events of the jobs of this warehouse that changed since they were sent: they, or their tables.

        Args:
            client: takes the events, and what it took is not sent again; None: the events are only returned.
            since: what was sent at or after this moment is sent again; a datetime, epoch milliseconds or text.
            namespace: of the jobs; default is the warehouse's URL.
            others: catalogs of other warehouses.

        Raises:
            InvalidInputError: the package openlineage-python is not installed.
            StorageError: what was sent cannot be written down. Whatever the client raises; call again then.
        """
        check_installed()
        since_ms = None if since is None else moment_ms(since, "since", self.catalog.options.get(TIME_ZONE.key))
        question = Question.of(self.catalog, others)
        graph, warehouse = question.load(), self._index.warehouse
        found = changes(graph, warehouse, question.history.columns, namespace, since_ms)
        if client is not None:
            send(client, warehouse, found)
            forget_gone(graph, warehouse)
        return [change.event for change in found]

    @property
    def _index(self) -> TableIndex:
        return open_index(warehouse_of(self.catalog))

    def _relations(
        self,
        direction: Direction,
        table: TableLike | None,
        snapshot: Version | None,
        job: str | None,
        others: Sequence[Catalog],
    ) -> Relations:
        verb = "upstream" if direction is Direction.UP else "downstream"
        if (table is None) == (job is None) or (job is not None and snapshot is not None):
            raise InvalidInputError(
                f"{verb} of what? Give a table, with or without one of its snapshots, or job=…; given "
                f"are table={table!r}, snapshot={snapshot!r}, job={job!r}"
            )
        question = Question.of(self.catalog, others, () if table is None else (table,))
        history, snapshot_id = question.history, None
        asked: Node | str = check_job_name(job or "") if table is None else ""
        if table is None:
            graph = question.load(jobs=[str(asked)], direction=direction)
        else:
            about, snapshot_id, graph = question.about(table, snapshot, direction)
            asked = about.node
        if direction is Direction.UP:
            found = upstream(graph, asked, snapshot_id, history.provenance, history.is_replaced)
        else:
            found = downstream(graph, asked, snapshot_id, history.provenance, history.shared_until)
        found = replace(found, deleted=frozenset(t.node for t in found.tables if history.is_deleted(t.node)))
        nodes = {} if isinstance(asked, str) else {asked: found.snapshot}
        if direction is Direction.DOWN:
            return replace(found, unrecorded=question.unrecorded_after(next(iter(nodes), None), found.snapshot))
        return replace(found, unrecorded=question.unrecorded_in({t.node: t.snapshot for t in found.tables} | nodes))


def apply_catalog_options(lineage: Lineage, asked: CatalogLineage) -> None:
    """Switch on what the options of a catalog ask for. Costs one small read where it is on already.

    What is not asked for stays as it is. Nothing is made where there is no warehouse yet.

    Raises:
        InvalidOptionError: an option is false, and lineage is on in the warehouse: only `disable` ends it, for all.
        Others as `Lineage.enable`.
    """
    index = open_index(warehouse_of(lineage.catalog))
    now = read_settings(index)
    for option, wanted, is_on in ((TABLE_LINEAGE, asked.table, now.table), (DATA_LINEAGE, asked.data, now.data)):
        if wanted is False and is_on:
            raise InvalidOptionError(
                f"catalog option {option.key} = false, but it is true in warehouse {index.warehouse.url} (table "
                "paimon.catalog_options); leave the option out, or switch lineage off for all jobs with "
                "catalog.lineage.disable()",
                option=option.key,
                warehouse=index.warehouse.url,
            )
    is_missing = (asked.is_on and not now.table) or (asked.data and not now.data)
    if is_missing and index.warehouse.exists():
        lineage.enable(data=bool(asked.data or now.data))
