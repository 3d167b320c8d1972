"""Pipelines and their branches: `catalog.pipeline` and `catalog.pipeline_branch`.

Source: PIP-14 for what is branched and published, PIP-5 for what is downstream of what.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, overload

from paimon_spark.api.checks import checked_versions
from paimon_spark.api.lineage_question import Question, TableLike, Version, Warehouses, check_ever_enabled, warehouse_of
from paimon_spark.api.release import Release
from paimon_spark.display import ShownAsText, grid, paragraph, section
from paimon_spark.errors import InvalidInputError, NotFoundError, SnapshotExpiredError, SnapshotNotFoundError
from paimon_spark.lineage.graph import Direction, Graph, Node
from paimon_spark.lineage.picture import Picture, picture_of
from paimon_spark.lineage.provenance import TableRef
from paimon_spark.lineage.reach import impact
from paimon_spark.lineage.table_history import TableHistory
from paimon_spark.lineage.table_index import open_index
from paimon_spark.lineage.unrecorded_writes import NOTHING, Unrecorded
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import MAIN
from paimon_spark.metadata.snapshots import latest_snapshot_id
from paimon_spark.metadata.version import Moment, moment_ms
from paimon_spark.pipelines.branching import create_pipeline_branch, delete_pipeline_branch
from paimon_spark.pipelines.publishing import publish
from paimon_spark.pipelines.records import (
    BranchRecord,
    get_branch_record,
    list_branch_records,
)
from paimon_spark.pipelines.replay import ReplayStep, replay_plan
from paimon_spark.pipelines.scope import Scope, part_of, scope_of, scope_of_jobs
from paimon_spark.pipelines.starts import Start, before_snapshot, from_heads, from_tag, from_time, narrowed, opened
from paimon_spark.text import counted, named, safe
from paimon_spark.versioning.checks import refuse_failed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from paimon_spark.api.catalog import Catalog
    from paimon_spark.api.table import Table
    from paimon_spark.jobs.row_diff import RowDiff
    from paimon_spark.maintenance.removal import Removed
    from paimon_spark.versioning.checks import CheckResult, Checks
    from paimon_spark.versioning.diff import Diff


_TRIES = 5
"""Times that a branch from the heads is tried, which commits of others may take away meanwhile."""


@dataclass(frozen=True, slots=True, repr=False)
class Pipeline(ShownAsText):
    """Tables and the jobs between them, from lineage, in the order of the data flow.

    Attributes:
        catalog: whose tables they are.
        scope: what belongs to the pipeline.
        unrecorded: writes to the tables of the warehouse that lineage did not record: tables and jobs behind them are
            missing here, although they may belong to the pipeline.
    """

    catalog: Catalog
    scope: Scope = field(repr=False)
    unrecorded: Unrecorded = field(default=NOTHING, repr=False)

    @property
    def tables(self) -> list[str]:
        """Names of the tables, `db.t`, sources first."""
        return [node.name for node in self.scope.tables]

    @property
    def jobs(self) -> list[str]:
        """Names of the jobs, those of the first tables first."""
        return list(self.scope.jobs)

    def graph(self) -> Picture:
        """The pipeline as a picture, with the newest snapshot on each arrow. Raises StorageError."""
        graph = _question(self.catalog).load(list(self.scope.tables), direction=Direction.BOTH)
        return picture_of(part_of(graph, self.scope), "Pipeline", unrecorded=self._unrecorded_inside)

    def branch(
        self,
        name: str,
        *,
        before: tuple[TableLike, Version] | None = None,
        tag: str | None = None,
        timestamp: Moment | None = None,
        dry_run: bool = False,
    ) -> PipelineBranch:
        """Make a branch of this name on each table of the pipeline: on all of them, or on none.

        No data is read or copied. Without `before`, `tag` and `timestamp` each branch starts from the table's head.

        Args:
            name: of the branch of each table.
            before: a table and one of its snapshots, such as `("shop.sales", 2)`: each branch starts from the newest
                snapshot of its table that holds no row of that one, by lineage, which expired snapshots count for only
                if a tag keeps them. Tables that jobs of the pipeline write are taken at snapshots that stem from the
                same snapshots, where lineage knows such.
            tag: a tag that every table has.
            timestamp: each branch starts from the newest snapshot at or before it; a datetime, text, or epoch seconds.
            dry_run: only return what each table would start from, and why.

        Raises:
            BranchAlreadyExistsError: there is a pipeline branch of the name, or a table has a branch of it.
            NotFoundError: a table, the tag or a version is missing; names every table that lacks it.
            InvalidInputError: the name is refused, or more than one start is given.
            OperationInProgressError: another process is changing tags or branches of a table.
        """
        from_heads = before is None and tag is None and timestamp is None
        for tries_left in reversed(range(_TRIES if from_heads else 1)):
            try:
                return self._branch(name, before, tag, timestamp, dry_run=dry_run)
            except (SnapshotNotFoundError, SnapshotExpiredError):  # noqa: PERF203 - a handful of times
                # The head that was found belonged to a commit that another publication refused, or expired.
                if not tries_left:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _branch(
        self,
        name: str,
        before: tuple[TableLike, Version] | None,
        tag: str | None,
        timestamp: Moment | None,
        *,
        dry_run: bool,
    ) -> PipelineBranch:
        question = _question(self.catalog)
        handles = opened(question.history, self.scope)
        starts, text, note = self._starts(question, handles, before, tag, timestamp)
        tables = {node.name: starts[node].snapshot_id for node in self.scope.tables}
        reasons = {node.name: starts[node].reason for node in self.scope.tables}
        record = create_pipeline_branch(
            warehouse_of(self.catalog),
            name,
            {node.name: handle for node, handle in handles.items()},
            tables,
            jobs=self.scope.jobs,
            start=text,
            dry_run=dry_run,
        )
        return PipelineBranch(self.catalog, record, reasons, note, dry_run)

    def _starts(
        self,
        question: Question,
        handles: Mapping[Node, TableHandle],
        before: tuple[TableLike, Version] | None,
        tag: str | None,
        timestamp: Moment | None,
    ) -> tuple[dict[Node, Start], str, str]:
        """Where each branch starts, the request as text, and a note."""
        given = [k for k, v in (("before", before), ("tag", tag), ("timestamp", timestamp)) if v is not None]
        if len(given) > 1:
            raise InvalidInputError(f"a pipeline branch is given {' and '.join(given)} to start from; give one of them")
        if tag is not None:
            return from_tag(handles, tag), f"tag {tag}", ""
        if timestamp is not None:
            return from_time(handles, moment_ms(timestamp, "timestamp"), str(timestamp)), f"timestamp {timestamp}", ""
        if before is None:
            return from_heads(handles), "the heads", ""
        pair: object = before
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InvalidInputError(
                f"before={before!r}: expected a table and one of its snapshots, such as ('shop.sales', 2)"
            )
        asked, snapshot_id, graph = question.about(before[0], before[1], Direction.DOWN)
        assert snapshot_id is not None
        found = impact(graph, asked.node, snapshot_id, question.history.provenance)
        starts = before_snapshot(handles, found, question.history)
        load = lambda nodes: question.load(list(nodes))  # noqa: E731 - one argument of one call
        starts, note = narrowed(self.scope, starts, load, question.callbacks)
        return starts, f"before {asked.node.name}, snapshot {snapshot_id}", note

    @property
    def _unrecorded_inside(self) -> Unrecorded:
        inside = set(self.scope.tables)
        return Unrecorded(tuple(t for t in self.unrecorded if t.node in inside), self.unrecorded.is_whole)

    def text_lines(self) -> Iterator[str]:
        yield f"{counted(len(self.scope.tables), 'table')}, {counted(len(self.scope.jobs), 'job')}"
        for row in self._rows():
            yield safe(f"{row[0] or '-'}  {row[1]}" + (f"  written by {row[2]}" if row[2] else ""))
        yield from map(safe, self._notes())

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values that JSON can hold."""
        jobs = [
            {
                "name": job,
                "order": self.scope.order[job],
                "sources": [n.name for n in self.scope.sources[job]],
                "sinks": [n.name for n in self.scope.sinks[job]],
            }
            for job in self.scope.jobs
        ]
        return {"tables": self.tables, "jobs": jobs, "unrecorded": [t.to_dict() for t in self.unrecorded]}

    def _rows(self) -> list[tuple[int | str, str, str]]:
        writers: dict[Node, list[str]] = {}
        for job in self.scope.jobs:
            for node in self.scope.sinks[job]:
                writers.setdefault(node, []).append(job)
        order = self.scope.order
        return [
            (max((order[j] for j in writers.get(n, ())), default=""), n.name, ", ".join(writers.get(n, ())))
            for n in self.scope.tables
        ]

    def _notes(self) -> list[str]:
        other = [node.name for node in self.scope.outside]
        notes = [f"not part of it, as they are in other warehouses: {named(other, 'table')}"] if other else []
        return [*notes, *self.unrecorded.lines()]

    def _repr_html_(self) -> str:
        picture = self.graph()
        return section(
            "Pipeline",
            f"{counted(len(self.scope.tables), 'table')}, {counted(len(self.scope.jobs), 'job')}",
            grid(("order", "table", "written by"), self._rows()),
            *map(paragraph, self._notes()),
            picture._repr_html_(),
        )


@dataclass(frozen=True, slots=True, repr=False)
class PipelineBranch(ShownAsText):
    """A branch of the same name on each table of a pipeline. Picklable; every call sees the present state.

    Attributes:
        record: as it is kept in the warehouse.
        reasons: table → why it starts there; known to whoever made it.
        note: on what is not exact; empty for nothing.
        dry_run: whether it was only planned.
    """

    catalog: Catalog
    record: BranchRecord
    reasons: Mapping[str, str] = field(default_factory=dict, repr=False)
    note: str = field(default="", repr=False)
    dry_run: bool = False

    @property
    def name(self) -> str:
        """Of the branch of each table."""
        return self.record.name

    @property
    def tables(self) -> dict[str, int | None]:
        """Table → the snapshot of main that its branch starts from; None: it starts empty."""
        return dict(self.record.tables)

    def table(self, name: str) -> Table:
        """The branch of a table, at its head. Raises InvalidInputError: the pipeline branch lacks the table."""
        return self.catalog.table(self._checked(name)).branch(self.name)

    def replay_plan(self) -> list[ReplayStep]:
        """How each job runs again on the branches: its sources, where it starts to read them, and its order.

        Jobs run unchanged in a session with `spark.paimon.branch` set to the name of the branch. Streams need a
        checkpoint of their own, and the start options of their step.

        Raises:
            LineageError: lineage was never switched on.
            NotFoundError: the pipeline branch is gone.
            StorageError: a store failed.
        """
        question = _question(self.catalog)
        warehouse = warehouse_of(self.catalog)
        record = self.record if self.dry_run else get_branch_record(warehouse, self.name)
        nodes = {Node(warehouse.url, TableRef.parse(table)): start for table, start in record.tables.items()}
        graph = question.load(list(nodes))
        every = question.load(list(nodes), direction=Direction.BOTH, snapshots=False)
        scope = scope_of_jobs(every, nodes, record.jobs)
        return replay_plan(scope, graph, self.name, nodes, question.queries(), question.history.provenance)

    @overload
    def diff(self, *, rows: Literal[True] = True) -> dict[str, RowDiff]: ...

    @overload
    def diff(self, *, rows: Literal[False]) -> dict[str, Diff]: ...

    def diff(self, *, rows: bool = True) -> dict[str, RowDiff] | dict[str, Diff]:
        """Compare the branch of each table with main, by table: `added` is what only the branch has.

        Args:
            rows: compare rows; False compares files, by metadata alone.

        Raises:
            NotFoundError: a table or its branch is gone.
            Others as `Table.diff`.
        """
        tables = {table: self.catalog.table(table) for table in self.record.tables}
        if rows:
            return {name: table.diff(MAIN, self.name, rows=True) for name, table in tables.items()}
        return {name: table.diff(MAIN, self.name) for name, table in tables.items()}

    def check(self, checks: Checks, *, session: SparkSession | None = None) -> list[CheckResult]:
        """Run checks on the branches of the tables, by Spark. A failed check is a result, not an error.

        Args:
            checks: name → SQL that must return no row, in which `{shop.sales}` stands for the branch of a table; or a
                function from a mapping of table names to DataFrames (of one table: from its DataFrame) to a DataFrame
                of the offending rows.
            session: default is the active session, else one is made.

        Raises:
            InvalidInputError: a check is not a query or a function, or names another table; nothing was run.
            NotFoundError: a table or its branch is gone.
        """
        return checked_versions(checks, self._pinned({t: self._head(t) for t in self.record.tables}), session)

    def _pinned(self, snapshots: Mapping[str, int]) -> dict[str, Table]:
        return {table: self.table(table).at(f"snapshot.{i}") for table, i in snapshots.items()}

    def publish(
        self,
        *,
        if_main_moved: Literal["refuse", "replace"] = "refuse",
        checks: Checks | None = None,
        dry_run: bool = False,
    ) -> Release:
        """Make the branches main of their tables: of all of them, or of none.

        All tables are prepared and locked, then the publication is decided, then each is switched; a process that is
        killed before the decision leaves every table as it was, and one that is killed after it is finished by the
        next change of one of the tables, or access to releases. Readers see each table before or after its switch;
        `catalog.release(id)` reads all of them at the versions that belong together. What main had is kept as a backup
        branch of each table, so `undo()` of the release can go back.

        Args:
            if_main_moved: when main of a table has commits after the branch point other than compactions: `refuse`,
                or `replace` them by the branch; they are kept in the backup branch.
            checks: as of `check`, run before on exactly the snapshots that are published. Names of those that passed
                are in the release, and in the property `paimon-spark.checks` of each snapshot they looked at.
            dry_run: only return what would be main; the release has the id 0.

        Raises:
            BranchDivergedError: main of a table has moved, and `if_main_moved` is `refuse`; nothing was changed.
            CheckFailedError: a check found rows; nothing was changed.
            NotFoundError: the pipeline branch, or the branch of a table, is gone.
            InvalidInputError: a branch has no snapshot.
            OperationInProgressError: another process is changing tags or branches of a table.
        """
        warehouse = warehouse_of(self.catalog)
        record = get_branch_record(warehouse, self.name)
        handles = {table: self.catalog.table(table, branch=MAIN).handle for table in record.tables}
        snapshots = {table: self._head(table) for table in handles}
        branches = dict.fromkeys(handles, self.name)
        results = [] if checks is None else checked_versions(checks, self._pinned(snapshots))
        refuse_failed(results, f"pipeline branch {self.name!r} was not published")
        released, removed = publish(
            warehouse,
            branches,
            handles,
            snapshots=snapshots,
            name=self.name,
            if_main_moved=if_main_moved,
            checks=results,
            dry_run=dry_run,
        )
        return Release(self.catalog, released, removed)

    def delete(self, *, dry_run: bool = False) -> Removed:
        """Delete the branch of each table, and the files that only they need: all of them, or none.

        Raises:
            NotFoundError: the pipeline branch is gone.
            InvalidInputError: a branch is main, or is read beside another one.
            OperationInProgressError: another process is changing tags or branches of a table.
        """
        handles = {table: handle for table in self.record.tables if (handle := self._main(table)) is not None}
        return delete_pipeline_branch(warehouse_of(self.catalog), self.record, handles, dry_run=dry_run)

    def _main(self, table: str) -> TableHandle | None:
        """Main of a table; None when the table was dropped, with its branches."""
        try:
            return self.catalog.table(table, branch=MAIN).handle
        except NotFoundError:
            return None

    def _head(self, table: str) -> int:
        head = latest_snapshot_id(self.table(table).handle)
        if head is None:
            raise InvalidInputError(
                f"branch {self.name!r} of {table} has no snapshot, so the pipeline branch cannot be published; replay "
                "the job that writes it first",
                table=table,
                branch=self.name,
            )
        return head

    def _checked(self, name: str) -> str:
        if name not in self.record.tables:
            raise InvalidInputError(
                f"pipeline branch {self.name!r} has no table {name!r}; it has {', '.join(self.record.tables)}",
                table=name,
            )
        return name

    def text_lines(self) -> Iterator[str]:
        would = "would start" if self.dry_run else "starts"
        yield f"pipeline branch {safe(self.name)} {would} from {safe(self.record.start)}"
        for table, start in self.record.tables.items():
            at = "empty" if start is None else f"snapshot {start}"
            why = f": {self.reasons[table]}" if table in self.reasons else ""
            yield safe(f"  {table}  {at}{why}")
        if self.note:
            yield f"note: {safe(self.note)}"

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values that JSON can hold."""
        return {
            "name": self.name,
            "start": self.record.start,
            "created_ms": self.record.created_ms,
            "tables": self.tables,
            "jobs": list(self.record.jobs),
            "reasons": dict(self.reasons),
            "note": self.note,
            "dry_run": self.dry_run,
        }

    def _repr_html_(self) -> str:
        rows = [(t, "empty" if s is None else s, self.reasons.get(t, "")) for t, s in self.record.tables.items()]
        return section(
            f"Pipeline branch {self.name}",
            f"from {self.record.start}",
            grid(("table", "starts from snapshot", "because"), rows),
            *([paragraph(self.note)] if self.note else []),
        )


def find_pipeline(
    catalog: Catalog,
    tables: Sequence[TableLike],
    *,
    downstream: bool,
    upstream: bool,
    stop_at: Iterable[TableLike],
) -> Pipeline:
    """The pipeline of some tables; as `Catalog.pipeline`."""
    if not tables:
        raise InvalidInputError("a pipeline needs at least one table; give the names of the tables where it begins")
    if isinstance(stop_at, str):
        raise InvalidInputError(f"stop_at={stop_at!r}: expected a list of tables")
    question = _question(catalog)
    if downstream or upstream:
        check_ever_enabled(open_index(warehouse_of(catalog)))
    graph = question.load(direction=Direction.BOTH, snapshots=False)
    first = [_on_main(question, table, graph) for table in tables]
    stops = {_on_main(question, table, graph) for table in stop_at}
    scope = scope_of(graph, first, downstream=downstream, upstream=upstream, stop_at=stops)
    unrecorded = question.unrecorded_after(None, None) if downstream or upstream else NOTHING
    return Pipeline(catalog, scope, unrecorded)


def find_pipeline_branches(catalog: Catalog) -> list[PipelineBranch]:
    """The pipeline branches of a warehouse, by name."""
    return [PipelineBranch(catalog, record) for record in list_branch_records(warehouse_of(catalog))]


def get_pipeline_branch(catalog: Catalog, name: str) -> PipelineBranch:
    """The pipeline branch of a name. Raises NotFoundError."""
    return PipelineBranch(catalog, get_branch_record(warehouse_of(catalog), name))


def _question(catalog: Catalog) -> Question:
    """A question about the warehouse. Where it records lineage, rows that are missing are written first."""
    if open_index(warehouse_of(catalog)).exists():
        return Question.of(catalog, ())
    places = Warehouses.of(catalog, ())
    return Question(places, TableHistory(places.warehouses))


def _on_main(question: Question, table: TableLike, graph: Graph) -> Node:
    node = question.places.asked(table, graph).node
    if node.ref.branch != MAIN:
        raise InvalidInputError(
            f"table {node.name} is a branch; a pipeline is of main of its tables, so give {node.ref.database}."
            f"{node.ref.bare}",
            table=node.name,
        )
    return node
