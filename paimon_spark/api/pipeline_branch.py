"""Branches of pipelines: `catalog.pipeline_branch`.

Source: PIP-14.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, overload

from paimon_spark.api.checks import checked_versions
from paimon_spark.api.lineage_question import Question, Warehouses, warehouse_of
from paimon_spark.api.release import Release
from paimon_spark.display import ShownAsText, grid, paragraph, section
from paimon_spark.errors import CorruptFileError, InvalidInputError, NotFoundError
from paimon_spark.jobs.rebase.limits import rebase_limits
from paimon_spark.lineage.asking.graph import Direction, Node
from paimon_spark.lineage.asking.table_history import TableHistory
from paimon_spark.lineage.index.job_registry import find_owner
from paimon_spark.lineage.index.provenance import TableRef
from paimon_spark.lineage.index.table_index import open_index
from paimon_spark.metadata.handle import TableHandle, open_branch
from paimon_spark.metadata.layout import MAIN
from paimon_spark.metadata.snapshots import latest_snapshot_id
from paimon_spark.pipelines.branching import delete_pipeline_branch
from paimon_spark.pipelines.publishing import publish
from paimon_spark.pipelines.rebasing import publish_rebased
from paimon_spark.pipelines.records import BranchRecord, get_branch_record, list_branch_records
from paimon_spark.pipelines.replay import STREAM, RecordedStatement, ReplayStep, recorded_statements, replay_plan
from paimon_spark.pipelines.scope import Scope, scope_of_jobs
from paimon_spark.spark_port import spark_sql
from paimon_spark.text import named, safe
from paimon_spark.versioning.checks import refuse_failed
from paimon_spark.versioning.merge import REBASE, check_only_if, check_ways

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from paimon_spark.api.catalog import Catalog
    from paimon_spark.api.table import Table
    from paimon_spark.jobs.row_diff.row_diff import RowDiff
    from paimon_spark.maintenance.removal import Removed
    from paimon_spark.versioning.checks import CheckResult, Checks
    from paimon_spark.versioning.diff import Diff


@dataclass(frozen=True, slots=True, repr=False)
class PipelineBranch(ShownAsText):
    """A branch of the same name on each table of a pipeline. Picklable; every call sees the present state.

    Methods raise NotFoundError when the pipeline branch, a table or its branch is gone. Those that ask lineage raise
    LineageError where it was never switched on; those that publish or delete raise OperationInProgressError while
    another process is changing tags or branches of a table.

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
        checkpoint of their own; where Spark does not know the name of the query, they also need the settings, or the
        start options, of their step.

        Raises:
            StorageError: a store failed.
        """
        record, scope, steps = self._planned()
        count = Counter(s.job for s in recorded_statements(self._derived(scope), {}, record.tables, lambda _: True))
        limits = self._limits(steps)
        return [
            replace(step, statements=count[step.job], notes=(*step.notes, *found))
            for step, found in zip(steps, limits, strict=True)
        ]

    def start_options(self, job: str, source: str) -> Mapping[str, str]:
        """Start options of a source in the replay plan; empty for a job that is not a stream of the pipeline.

        Reads what they need of the plan alone. Raises as `replay_plan`, and InvalidInputError: the branch of the source
        begins after what the stream must read.
        """
        _, _, steps = self._planned()
        step = next((s for s in steps if s.kind == STREAM and s.job == job), None)
        if step is None:
            return {}
        if source in step.missing:
            raise InvalidInputError(step.missing[source], table=source, branch=self.name)
        return step.start_options.get(source, {})

    def _planned(self) -> tuple[BranchRecord, Scope, list[ReplayStep]]:
        """The record of now, the pipeline, and the replay plan by lineage, without statements and limits."""
        question = question_of(self.catalog)
        record = self._record
        nodes = self._nodes(record)
        graph, scope, queries = question.load(list(nodes)), self._scope(question, record), question.queries()
        streams = {job for node in set(nodes).difference(scope.derived) for job in graph.written_by.get(node, ())}
        jobs = {*record.jobs, *streams.intersection(queries)}  # of the first tables, whose fault may be in their stream
        whole = scope_of_jobs(graph, nodes, jobs)
        steps = replay_plan(whole, graph, self.name, nodes, queries, question.history.provenance)
        return record, scope, steps

    def _limits(self, steps: Sequence[ReplayStep]) -> list[list[str]]:
        """Limits of a rebase by step: of tables that it writes, and of others that it is first to read."""
        ends = f"$branch_{self.name}"
        found = {name: self._limits_of(name.removesuffix(ends)) for step in steps for name in step.sinks}
        out = []
        for step in steps:
            own = [n for n in step.sources if n.endswith(ends) and n not in found]
            found |= {name: self._limits_of(name.removesuffix(ends)) for name in own}
            out.append([note for name in (*own, *step.sinks) for note in found[name]])
        return out

    def _limits_of(self, table: str) -> list[str]:
        main = None if self.dry_run else self._main(table)
        return [] if main is None else [f"{table}, rebased: {text}" for text in rebase_limits(main, self.name)]

    @property
    def _record(self) -> BranchRecord:
        """As it is now. Raises NotFoundError."""
        return self.record if self.dry_run else get_branch_record(warehouse_of(self.catalog), self.name)

    def _nodes(self, record: BranchRecord) -> dict[Node, int | None]:
        url = warehouse_of(self.catalog).url
        return {Node(url, TableRef.parse(table)): start for table, start in record.tables.items()}

    def _scope(self, question: Question, record: BranchRecord) -> Scope:
        nodes = self._nodes(record)
        every = question.load(list(nodes), direction=Direction.BOTH, snapshots=False)
        return scope_of_jobs(every, nodes, record.jobs)

    def statements(self) -> list[RecordedStatement]:
        """The SQL statements that wrote tables of the pipeline since its branches start, oldest first.

        Of each table that jobs of the pipeline write, also statements that read nothing else, such as an UPDATE; not of
        the tables where the pipeline begins. The snapshots that they wrote keep them: those whose snapshots have
        expired, or that are longer than 16,384 characters, are missing.
        """
        record = self._record
        mains = self._derived(self._scope(question_of(self.catalog), record))
        branches = {} if self.dry_run else {table: open_branch(main, self.name) for table, main in mains.items()}
        return recorded_statements(mains, branches, record.tables, self._is_registered())

    def _is_registered(self) -> Callable[[str], bool]:
        """Whether the warehouse's registry of jobs has a name."""
        warehouse = warehouse_of(self.catalog)

        @cache
        def is_registered(job: str) -> bool:
            try:
                return find_owner(warehouse, job) is not None
            except CorruptFileError:
                return False

        return is_registered

    def _derived(self, scope: Scope) -> dict[str, TableHandle]:
        """Main of the tables that jobs of the pipeline write, without dropped ones."""
        found = {node.name: self._main(node.name) for node in scope.derived}
        return {table: main for table, main in found.items() if main is not None}

    def run_statements(
        self, *jobs: str, session: SparkSession | None = None, dry_run: bool = False
    ) -> list[RecordedStatement]:
        """Run the SQL statements of `statements` again on the branches, oldest first, with the values that they had.

        Statements that were run again before are skipped, so that this may be repeated after an error.

        Whoever may write a table may also write a statement into a property of its snapshots. All statements are
        checked before the first one runs: each must be an INSERT, UPDATE, DELETE or MERGE into the table that has it,
        call only built-in functions of Spark whose results its text fixes, and read only tables of attached catalogs.
        Look at them with `dry_run` first.

        Args:
            jobs: names in lineage; none for all.
            session: default is the active session, else one is made.
            dry_run: only check them.

        Returns:
            The statements that were run now, or would be.

        Raises:
            InvalidInputError: a job has no recorded statement; nothing was run.
            UnsupportedFeatureError: a statement does something else, or is not fixed by its text; nothing was run.
            Others as `Catalog.sql`; statements before the one that failed have been run.
        """
        found = self.statements()
        unknown = sorted(set(jobs) - {s.job for s in found})
        if unknown:
            raise InvalidInputError(
                f"pipeline branch {self.name!r} has no recorded statement of {named(unknown, 'job')}; those recorded "
                f"are of {', '.join(sorted({s.job for s in found})) or 'no job'}",
                jobs=unknown,
            )
        wanted = [s for s in found if not s.is_done and (not jobs or s.job in jobs)]
        sql = spark_sql()
        sql.check_again(self.catalog, [(s.to_run, s.table) for s in wanted], session)
        if dry_run:
            return wanted
        for statement in wanted:
            sql.execute_again(self.catalog, statement.to_run, self.name, session)
        return [replace(statement, is_done=True) for statement in wanted]

    @overload
    def diff(self, *, rows: Literal[True] = True) -> dict[str, RowDiff]: ...

    @overload
    def diff(self, *, rows: Literal[False]) -> dict[str, Diff]: ...

    def diff(self, *, rows: bool = True) -> dict[str, RowDiff] | dict[str, Diff]:
        """Compare the branch of each table with main, by table: `added` is what only the branch has.

        Args:
            rows: compare rows; False compares files, by metadata alone.

        Raises:
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
        """
        return checked_versions(checks, self._at({t: (self.name, self._head(t)) for t in self.record.tables}), session)

    def _at(self, versions: Mapping[str, tuple[str, int]]) -> dict[str, Table]:
        """Each table at a snapshot of a branch."""
        return {t: self.catalog.table(t).branch(on).at(f"snapshot.{i}") for t, (on, i) in versions.items()}

    def publish(
        self,
        *,
        if_main_moved: Literal["refuse", "replace", "rebase"] = "refuse",
        only_if_main_is: Mapping[str, int] | None = None,
        on_conflict: Literal["fail", "ours", "theirs", "newest"] = "fail",
        replace: Sequence[str] = (),
        checks: Checks | None = None,
        dry_run: bool = False,
    ) -> Release:
        """Make the branches main of their tables: of all of them, or of none.

        All tables are prepared and locked, then the publication is decided, then each is switched; a process that is
        killed before the decision leaves every table as it was, and one that is killed after it is finished by the
        next change of one of the tables, or access to releases. Readers see each table before or after its switch;
        `catalog.release(id)` reads all of them at the versions that belong together. What main had is kept as a backup
        branch of each table, so `undo()` of the release can go back.

        Writers of main can go on. A commit made before the decision stays on main with `refuse` and `rebase`, and the
        tables are prepared again; later ones fail with a conflict until their table is switched.

        Args:
            if_main_moved: when main of a table has commits, schemas or tags after the branch point: `refuse`,
                `replace` them by the branch, and keep them in the backup branch, or `rebase` the changes of the branch
                on top of them, as `Table.merge_branch`.
            only_if_main_is: table → snapshot id, of some or all tables: publish only while these are the heads of main.
            on_conflict: as of `Table.merge_branch`, for the rows of all tables.
            replace: tables whose main is replaced in any case, such as reports that each run overwrites.
            checks: as of `check`, run before on exactly the rows that are published. Names of those that passed are in
                the release, and in the property `paimon-spark.checks` of each snapshot they looked at.
            dry_run: only return what would be main, and what it would lose and gain; the release has the id 0.

        Returns:
            The release. Where main of all tables has every commit of the branches, none is made: it has the id 0, and
            `already_published` is True.

        Raises:
            BranchDivergedError: main of a table has moved, and `if_main_moved` is `refuse`; or has another head than
                `only_if_main_is` says; or a rebase found conflicts; nothing was changed.
            UnsupportedFeatureError: a table cannot be rebased; nothing was changed.
            CheckFailedError: a check found rows; nothing was changed.
            InvalidInputError: a branch has no snapshot, or `replace` or `only_if_main_is` has a table that the pipeline
                branch lacks.
        """
        check_ways(if_main_moved, on_conflict)
        warehouse = warehouse_of(self.catalog)
        record = get_branch_record(warehouse, self.name)
        if isinstance(replace, str):
            raise InvalidInputError(f"replace={replace!r}: expected a list of tables")
        replaced = [self._checked(table) for table in replace]
        demanded = self._checked_heads(only_if_main_is)
        mains = {table: self.catalog.table(table, branch=MAIN) for table in record.tables}
        snapshots = {table: self._head(table) for table in mains}

        def check(versions: Mapping[str, tuple[str, int]]) -> list[CheckResult]:
            results = [] if checks is None else checked_versions(checks, self._at(versions))
            refuse_failed(results, f"pipeline branch {self.name!r} was not published")
            return results

        if if_main_moved == REBASE:
            released, removed = publish_rebased(
                warehouse,
                mains,
                snapshots=snapshots,
                name=self.name,
                on_conflict=on_conflict,
                replaced=replaced,
                check=None if checks is None else check,
                only_if_main_is=demanded,
                dry_run=dry_run,
            )
            return Release(self.catalog, released, removed)
        released, removed = publish(
            warehouse,
            dict.fromkeys(mains, self.name),
            {table: main.handle for table, main in mains.items()},
            snapshots=snapshots,
            name=self.name,
            if_main_moved=if_main_moved,
            replaced=replaced,
            checks=check({table: (self.name, at) for table, at in snapshots.items()}),
            only_if_main_is=demanded,
            dry_run=dry_run,
        )
        return Release(self.catalog, released, removed)

    def delete(self, *, dry_run: bool = False) -> Removed:
        """Delete the branch of each table, and the files that only they need: all of them, or none.

        Raises:
            InvalidInputError: a branch is main, or is read beside another one.
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

    def _checked_heads(self, heads: Mapping[str, int] | None) -> dict[str, int]:
        if heads is None:
            return {}
        if not isinstance(heads, Mapping):
            raise InvalidInputError(
                f"only_if_main_is={heads!r}: expected a mapping of tables to snapshot ids, such as "
                f"{{{next(iter(self.record.tables))!r}: 7}}",
                argument="only_if_main_is",
            )
        for head in heads.values():
            check_only_if(head)
            if head is None:
                raise InvalidInputError("only_if_main_is has a table without a snapshot id", argument="only_if_main_is")
        return {self._checked(table): head for table, head in heads.items()}

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


def find_pipeline_branches(catalog: Catalog) -> list[PipelineBranch]:
    """The pipeline branches of a warehouse, by name."""
    return [PipelineBranch(catalog, record) for record in list_branch_records(warehouse_of(catalog))]


def get_pipeline_branch(catalog: Catalog, name: str) -> PipelineBranch:
    """The pipeline branch of a name. Raises NotFoundError."""
    return PipelineBranch(catalog, get_branch_record(warehouse_of(catalog), name))


def start_of_replay(
    catalog: Catalog, branch: str, job: str, database: str, table: str, *, on_branch: bool
) -> Mapping[str, str]:
    """Options by which a stream starts to read a source, by the replay plan of a pipeline branch.

    Args:
        catalog: of the warehouse.
        branch: name of a branch; where it is none of a pipeline, there are no options.
        job: as lineage has it; a job that is no stream of the pipeline has no options.
        database: of the source.
        table: the source.
        on_branch: whether it has the branch, which is read then.

    Raises as `PipelineBranch.replay_plan`.
    """
    try:
        found = get_pipeline_branch(catalog, branch)
    except NotFoundError:
        return {}
    name = Node(warehouse_of(catalog).url, TableRef.of(database, table, MAIN)).name
    source = f"{name}$branch_{branch}" if on_branch else name
    return found.start_options(job, source) if job else {}


def question_of(catalog: Catalog) -> Question:
    """A question about the warehouse. Where it records lineage, rows that are missing are written first."""
    if open_index(warehouse_of(catalog)).exists():
        return Question.of(catalog, ())
    places = Warehouses.of(catalog, ())
    return Question(places, TableHistory(places.warehouses))
