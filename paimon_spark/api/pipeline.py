"""Pipelines: `catalog.pipeline`.

Source: PIP-14 for what is branched and published, PIP-5 for what is downstream of what.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from paimon_spark.api.lineage_question import Question, TableLike, Version, check_ever_enabled, warehouse_of
from paimon_spark.api.pipeline_branch import PipelineBranch, question_of
from paimon_spark.display import ShownAsText, grid, paragraph, section
from paimon_spark.errors import InvalidInputError, SnapshotExpiredError, SnapshotNotFoundError
from paimon_spark.lineage.asking.graph import Direction, Graph, Node
from paimon_spark.lineage.asking.picture import Picture, picture_of
from paimon_spark.lineage.asking.reach import impact
from paimon_spark.lineage.asking.unrecorded_writes import NOTHING, Unrecorded
from paimon_spark.lineage.index.table_index import open_index
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import MAIN
from paimon_spark.metadata.retry import retry
from paimon_spark.metadata.version import Moment, moment_ms
from paimon_spark.options.scan import TIME_ZONE
from paimon_spark.pipelines.branching import (
    Start,
    before_snapshot,
    create_pipeline_branch,
    from_heads,
    from_tag,
    from_time,
    narrowed,
    opened,
    read_on_main,
)
from paimon_spark.pipelines.preparation import Preparation, TablePreparation, Wanted, prepare
from paimon_spark.pipelines.scope import Scope, part_of, scope_of
from paimon_spark.text import counted, moment, named, safe

if TYPE_CHECKING:
    from paimon_spark.api.catalog import Catalog


_ATTEMPTS = 5
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
        graph = question_of(self.catalog).load(list(self.scope.tables), direction=Direction.BOTH)
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
                same snapshots, where lineage knows such. Tables that they only read, and that hold no such row, get no
                branch: the jobs read main of them.
            tag: a tag that every table has.
            timestamp: each branch starts from the newest snapshot at or before it; a datetime, text, or epoch
                milliseconds.
            dry_run: only return what each table would start from, and why.

        Raises:
            BranchAlreadyExistsError: there is a pipeline branch of the name, or a table has a branch of it.
            NotFoundError: a table, the tag or a version is missing; names every table that lacks it.
            InvalidInputError: the name is refused, or more than one start is given.
            OperationInProgressError: another process is changing tags or branches of a table.
        """
        from_heads = before is None and tag is None and timestamp is None
        # The head that was found may belong to a commit that another publication refuses, or expire.
        return retry(
            lambda: self._branch(name, before, tag, timestamp, dry_run=dry_run),
            _ATTEMPTS if from_heads else 1,
            on=(SnapshotNotFoundError, SnapshotExpiredError),
        )

    def _branch(
        self,
        name: str,
        before: tuple[TableLike, Version] | None,
        tag: str | None,
        timestamp: Moment | None,
        *,
        dry_run: bool,
    ) -> PipelineBranch:
        question = question_of(self.catalog)
        handles = opened(question.history, self.scope)
        starts, text, note = self._starts(question, handles, before, tag, timestamp)
        handles = {node: handle for node, handle in handles.items() if node in starts}
        tables = {node.name: starts[node].snapshot_id for node in handles}
        reasons = {node.name: starts[node].reason for node in handles}
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
            time_ms = moment_ms(timestamp, "timestamp", self.catalog.options.get(TIME_ZONE.key))
            shown = moment(time_ms)
            return from_time(handles, time_ms, shown), f"timestamp {shown}", ""
        if before is None:
            return from_heads(handles), "the heads", ""
        pair: object = before
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InvalidInputError(
                f"before={before!r}: expected a table and one of its snapshots, such as ('shop.sales', 2)"
            )
        asked, snapshot_id, graph = question.about(before[0], before[1], Direction.DOWN)
        assert snapshot_id is not None
        history = question.history
        found = impact(graph, asked.node, snapshot_id, history.provenance, shared_until=history.shared_until)
        on_main = read_on_main(self.scope, found)
        starts = before_snapshot({n: h for n, h in handles.items() if n not in on_main}, found, history)
        load = lambda nodes: question.load(list(nodes))  # noqa: E731 - one argument of one call
        starts, note = narrowed(self.scope, starts, load, question.callbacks)
        notes = [f"no branch of {n.name}, which has none of these rows: jobs on the branch read main" for n in on_main]
        return (
            starts,
            f"before {asked.node.name}, snapshot {snapshot_id}",
            "; ".join([*notes, *([note] if note else [])]),
        )

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
    question = question_of(catalog)
    if downstream or upstream:
        check_ever_enabled(open_index(warehouse_of(catalog)))
    graph = question.load(direction=Direction.BOTH, snapshots=False)
    first = [_on_main(question, table, graph) for table in tables]
    stops = {_on_main(question, table, graph) for table in stop_at}
    scope = scope_of(graph, first, downstream=downstream, upstream=upstream, stop_at=stops)
    unrecorded = question.unrecorded_after(None, None) if downstream or upstream else NOTHING
    return Pipeline(catalog, scope, unrecorded)


def prepare_pipeline(
    catalog: Catalog,
    tables: Sequence[TableLike],
    wanted: tuple[str | None, str | None, int | None],
    *,
    downstream: bool,
    dry_run: bool,
) -> Preparation:
    """Set options of the tables of a pipeline; as `Catalog.prepare`."""
    if not tables:
        raise InvalidInputError("no table is given to prepare; give the names of the tables of the pipeline")
    asked = Wanted.of(*wanted)
    follows = downstream and open_index(warehouse_of(catalog)).exists()
    scope = find_pipeline(catalog, tables, downstream=follows, upstream=False, stop_at=()).scope
    opened = {node.name: catalog.table(f"{node.ref.database}.{node.ref.bare}") for node in scope.tables}
    enables = not catalog.lineage.is_enabled
    if enables and not dry_run:
        catalog.lineage.enable()

    def alter(table: TablePreparation) -> None:
        opened[table.table].alter(set_options=table.set_options, unset_options=table.unset_options)

    handles = [table.handle for table in opened.values()]
    return prepare(handles, asked, enables_lineage=enables, alter=None if dry_run else alter)


def _on_main(question: Question, table: TableLike, graph: Graph) -> Node:
    node = question.places.asked(table, graph).node
    if node.ref.branch != MAIN:
        raise InvalidInputError(
            f"table {node.name} is a branch; a pipeline is of main of its tables, so give {node.ref.database}."
            f"{node.ref.bare}",
            table=node.name,
        )
    return node
