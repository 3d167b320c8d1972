"""Table: a branch of a table, at its head or at a version. Only forwards."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from paimon_spark.api.table_maintenance import TableMaintenance
from paimon_spark.api.table_refs import TableRefs
from paimon_spark.api.table_tags import TableTags
from paimon_spark.display import ShownList, named_after
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.jobs.opened_table import OptionValue, as_text, at_version, on_branch, open_path
from paimon_spark.jobs.table_scan import check_version, scan_of, schema_scan
from paimon_spark.metadata.branches import Branch, is_internal_branch, list_branches, list_tag_infos
from paimon_spark.metadata.handle import current
from paimon_spark.metadata.snapshots import list_snapshots
from paimon_spark.metadata.tags import Savepoint, TagInfo, list_savepoints
from paimon_spark.options.table import TableOptions
from paimon_spark.spark_port import spark_jobs
from paimon_spark.text import safe
from paimon_spark.types import RowType

if TYPE_CHECKING:
    import pyarrow.compute as pc
    from pyspark.sql import SparkSession

    from paimon_spark.jobs.commit import WriteResult
    from paimon_spark.jobs.scan import Scan
    from paimon_spark.versioning.checks import CheckResult, Checks
    from paimon_spark.versioning.status import RefSize

_SNAPSHOT_COLUMNS = (
    "id", "commit_kind", "time_ms", "schema_id", "total_record_count", "delta_record_count", "commit_user", "operation",
)  # fmt: skip
_TAG_COLUMNS = ("name", "snapshot", "create_time", "time_retained_s", "is_savepoint", "guards", "branches")
"""Columns that notebooks show."""


@named_after
class Table(TableTags, TableRefs, TableMaintenance):
    """A branch of a table, at its head or at a version. Picklable; every call sees the newest commits.

    Methods that change tags or branches raise OperationInProgressError while another process keeps changing them. Those
    that delete files raise UnsafeDeletionError, and change nothing, when it is not certain which are still needed.

    Attributes:
        handle: the opened branch.
        read_options: what every scan starts from.
        option_text: the same as the user gave it.
    """

    __slots__ = ()

    @property
    def branch_name(self) -> str:
        """The branch in force."""
        return self.handle.branch

    @property
    def location(self) -> str:
        """URL of the table's directory."""
        return self.handle.location

    @property
    def schema(self) -> TableSchema:
        """The schema that a scan reads with: of the version if the table was opened at one, else the latest.

        A version in the table's own options (`scan.snapshot-id` and the like) applies to scans only.
        """
        return schema_scan(self).schema

    @property
    def row_type(self) -> RowType:
        """Columns with their field ids and types."""
        return self.schema.row_type

    @property
    def options(self) -> TableOptions:
        """Table options in force."""
        return self.handle.options

    def __str__(self) -> str:
        at = "" if self.read_options.version_text is None else f" at version {self.read_options.version_text!r}"
        return f"{safe(self.name)} on branch {safe(self.branch_name)}{at}"

    def __repr__(self) -> str:
        return f"<table {self}: {safe(self.location)}>"

    def _repr_html_(self) -> str:
        from paimon_spark.api.notebook import table_html

        return table_html(self)

    def branch(self, name: str) -> Table:
        """The same table on another branch, at its head.

        Raises:
            BranchNotFoundError: there is no such branch.
        """
        return on_branch(self, name)

    def at(self, version: str | int) -> Table:
        """The same table at a version, as after `VERSION AS OF`. It is looked up here, and again by each read.

        Args:
            version: a tag, `snapshot.<id>`, `<branch>.<version>`, a snapshot id or a branch, in that order.

        Raises:
            VersionNotFoundError, SnapshotNotFoundError, SnapshotExpiredError: there is no such version.
            InvalidInputError: it is neither text nor a number.
        """
        found = at_version(self, version)
        check_version(found)
        return found

    def scan(
        self,
        columns: Sequence[str] | None = None,
        *,
        where: str | pc.Expression | None = None,
        version: str | int | None = None,
        **options: str | float | bool,
    ) -> Scan:
        """One read, with the current schema. Manifests and data files are read when the rows are.

        Args:
            columns: names in output order; None means all. Metadata columns may be among them.
            where: SQL predicate over the table's columns, or an Arrow expression, `pyarrow.compute.field("a") > 5`,
                which means what it means in SQL.
            version: as in `at`.
            options: options of reads and of the table; those with dots as `**{"scan.tag-name": "v1"}`.

        Raises:
            InvalidOptionError: an option is unknown or wrong.
            InvalidInputError: SQL has no word for a part of the expression, or the expression names no column.
        """
        return scan_of(self if version is None else at_version(self, version), columns, where, options)

    def check(self, checks: Checks, *, session: SparkSession | None = None) -> list[CheckResult]:
        """Run checks on the rows of this table, branch or version, by Spark. A failed check is a result, not an error.

        Args:
            checks: name → SQL that must return no row, in which `{table}` stands for the rows, or a function from the
                DataFrame of the rows to one of the offending rows.
            session: default is the active session, else one is made.

        Raises:
            InvalidInputError: a check is not a query or a function, or names another table; nothing was run.
            pyspark.errors.AnalysisException: Spark's error about the SQL of a check.
        """
        from paimon_spark.api.checks import checked_versions

        return checked_versions(checks, {self.name: self}, session)

    def create_temp_view(self, name: str, *, session: SparkSession | None = None) -> None:
        """Make the table, branch or version a temporary view, for plain `spark.sql`: as `Scan.create_temp_view`."""
        self.scan().create_temp_view(name, session=session)

    def write(
        self, data: Any, *, mode: Literal["append", "overwrite"] = "append", **options: str | float | bool
    ) -> WriteResult:
        """Write rows to the branch, all in one snapshot or none.

        A Spark DataFrame, classic or Connect, is first clustered by partition and bucket and then written as a job;
        anything else is written by this process.

        Args:
            data: Spark DataFrame, pyarrow Table, RecordBatch or RecordBatchReader, pandas DataFrame, or anything that
                gives an Arrow stream. Columns match by name.
            mode: `append`, which upserts where there is a primary key, or `overwrite`.
            options: `partitionOverwriteMode`, `**{"overwrite.partition": "dt=2024-01-01"}`, and table options for this
                write, such as `**{"write.merge-schema": True}`.

        Raises:
            SchemaMismatchError: the rows' columns are not those of the table.
            DataError: a value does not fit its column.
            InvalidInputError: a wrong mode or option, or the table was opened at a version.
            CommitError: a conflict with other commits, or it is unknown whether the commit succeeded.
        """
        from paimon_spark.jobs.batch_write import write_data

        return write_data(self, data, mode, as_text(options))

    def delete(self, where: str) -> WriteResult:
        """Delete the rows of the branch for which `where` is true, in one commit.

        Runs as a Spark job when this process has a session; else here, where `where` may be what `scan` takes.

        Args:
            where: SQL predicate over the table's columns.

        Raises:
            UnsupportedFeatureError: rows of such a table cannot be deleted; says what to do.
            PredicateSyntaxError: `where` is not a predicate.
            CommitConflictError: others changed the same rows; nothing was deleted.
        """
        from paimon_spark.jobs.row_level import delete_rows

        return delete_rows(self, where)

    def update(self, where: str | None, set: Mapping[str, str]) -> WriteResult:
        """Change the rows of the branch for which `where` is true, in one commit. Runs as a Spark job.

        Args:
            where: SQL predicate over the table's columns; None means all rows.
            set: Spark SQL expressions of the old row, by column: `{"v": "v + 1"}`.

        Raises:
            UnsupportedFeatureError: rows of such a table cannot be updated; says what to do.
            InvalidInputError: a column of the primary key is set.
            ColumnNotFoundError: there is no such column.
            CommitConflictError: others changed the same rows; nothing was updated.
        """
        return spark_jobs().update(self, where, set)

    def merge(
        self,
        source: Any,
        on: str,
        *,
        when_matched_update: Mapping[str, str] | str | None = None,
        when_matched_condition: str | None = None,
        when_matched_delete: str | None = None,
        when_not_matched_insert: Mapping[str, str] | str | None = None,
        when_not_matched_condition: str | None = None,
        when_not_matched_by_source_delete: str | None = None,
    ) -> WriteResult:
        """Merge rows into the branch, in one commit, as SQL's MERGE. Runs as a Spark job.

        Expressions are Spark SQL, in which `t` is this table and `s` the source: `on="t.id = s.id"`.

        Args:
            source: Spark DataFrame, pyarrow Table, RecordBatch or RecordBatchReader, pandas DataFrame, or anything that
                gives an Arrow stream.
            on: which rows match.
            when_matched_update: what matching rows become: expressions by column, or `*` for all columns of the source.
            when_matched_condition: only matching rows for which this is true are updated.
            when_matched_delete: matching rows for which this is true are deleted; evaluated before updates.
            when_not_matched_insert: what rows of the source without a match become, as in `when_matched_update`.
            when_not_matched_condition: only rows of the source for which this is true are inserted.
            when_not_matched_by_source_delete: rows that match no row of the source are deleted where this is true.

        Raises:
            DataError: a row would be changed by several rows of the source; nothing was changed.
            InvalidInputError: the source is none of these, or a value does not fit Spark's types.
            Others as `update`.
        """
        from paimon_spark.jobs.row_level import MergeClauses

        clauses = MergeClauses(
            when_matched_update,
            when_matched_condition,
            when_matched_delete,
            when_not_matched_insert,
            when_not_matched_condition,
            when_not_matched_by_source_delete,
        )
        return spark_jobs().merge(self, source, on, clauses)

    def alter(
        self,
        *,
        add: Mapping[str, Any] | None = None,
        drop: Sequence[str] = (),
        rename: Mapping[str, str] | None = None,
        retype: Mapping[str, Any] | None = None,
        set_options: Mapping[str, str | float | bool] | None = None,
        unset_options: Sequence[str] = (),
        nullable: Mapping[str, bool] | None = None,
        comments: Mapping[str, str | None] | None = None,
        defaults: Mapping[str, str | None] | None = None,
        move: Mapping[str, str] | None = None,
        comment: str | None = None,
    ) -> Table:
        """Change the definition of this branch only, all or nothing. Returns the changed table.

        Columns inside others are written `a.b`; what an ARRAY holds is `a.element`, values of a MAP are `a.value`.

        Args:
            add: type by new column: DDL text, as in `INT COMMENT 'count' DEFAULT 0`, or an Arrow or Spark type.
            drop: columns to drop.
            rename: new name by column; keys and options that name the column follow.
            retype: new type by column; files are cast as they are read.
            set_options: table options by key.
            unset_options: keys to reset to their defaults.
            nullable: whether a column may hold nulls, by column.
            comments: comment by column, None for none.
            defaults: default value of later writes, as text, by column; None for null.
            move: `first`, `last`, `after <column>` or `before <column>`, by column.
            comment: of the table; empty text removes it.

        Raises:
            InvalidInputError: a change is not possible; nothing was changed.
            ColumnNotFoundError, AlreadyExistsError: a column does not exist, or already does.
            InvalidOptionError: an option cannot have that value, or can no longer change.
            UnsupportedFeatureError: a change needs a feature that this package lacks.
        """
        from paimon_spark.jobs.alter import Alteration, alter

        asked = Alteration(
            add or {},
            drop,
            rename or {},
            retype or {},
            set_options or {},
            unset_options,
            nullable or {},
            comments or {},
            defaults or {},
            move or {},
            comment,
        )
        return replace(self, handle=alter(self, asked))

    def snapshots(self) -> list[Snapshot]:
        """Live snapshots of the branch, oldest first: `[-1]` is the head. `history()` lists commits newest first."""
        found = list_snapshots(current(self.handle))
        return ShownList(found, f"Snapshots of {self.handle.describe()}, oldest first", _SNAPSHOT_COLUMNS)

    def tags(self, *, include_internal: bool = False) -> list[TagInfo]:
        """Tags of the branch, sorted by snapshot and name, with savepoints.

        Args:
            include_internal: list guard tags too, which keep the bases of branches; `guards` names the branch.
        """
        found = [t for t in list_tag_infos(current(self.handle)) if include_internal or t.guards is None]
        return ShownList(found, f"Tags of {self.handle.describe()}", _TAG_COLUMNS)

    def sizes(self, kinds: Collection[str] = ("branch", "tag", "savepoint")) -> list[RefSize]:
        """Bytes that each branch, tag and savepoint of the table alone keeps, which deleting it would free.

        Two that share files free them only when both are deleted. From metadata alone.

        Args:
            kinds: only of these: `branch`, `tag`, `savepoint`.
        """
        from paimon_spark.versioning.status import ref_sizes

        return ShownList(ref_sizes(current(self.handle), kinds), f"Sizes of the branches and tags of {self.name}")

    def branches(self, *, include_internal: bool = False) -> list[Branch]:
        """Branches of the table except main, sorted by name.

        Args:
            include_internal: list backup branches too, which keep what main lost, and those of a rebase at work.
        """
        found = list_branches(current(self.handle))
        shown = [b for b in found if include_internal or b.is_main or not is_internal_branch(b.name)]
        return ShownList(shown, f"Branches of table {self.name}")

    def savepoints(self) -> list[Savepoint]:
        """Savepoints of the branch, sorted by id."""
        return ShownList(list_savepoints(current(self.handle)), f"Savepoints of {self.handle.describe()}")


def load_table(path: str, **options: OptionValue) -> Table:
    """The table at `path`, or called `path` in the option `warehouse`.

    Args:
        path: a path or URL, or `db.t`; `$branch_<name>` may follow, and `$<system table>`, such as `$files`.
        options: options of reads, of the table and of the file system; those with dots as `**{"scan.tag-name": "v1"}`.

    Raises:
        TableNotFoundError, BranchNotFoundError: it does not exist.
        InvalidOptionError: an option is unknown or wrong, or there is no such system table.
    """
    return load(path, as_text(options))


def load(path: str, options: Mapping[str, str]) -> Table:
    """As `load_table`, from option text."""
    found = open_path(path, options)
    return Table(found.handle, found.read_options, found.option_text, found.system)
