"""Table: a branch of a table, at a version. Only forwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from paimon_spark.api.branch_verbs import BranchVerbs
from paimon_spark.api.compaction_verbs import CompactionVerbs
from paimon_spark.api.expiry_verbs import ExpiryVerbs
from paimon_spark.api.inspection_verbs import InspectionVerbs
from paimon_spark.api.merge_verbs import MergeVerbs
from paimon_spark.api.scan import Scan
from paimon_spark.api.tag_verbs import TagVerbs
from paimon_spark.display.values import ShownList
from paimon_spark.errors import InvalidOptionError
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.branches import Branch, list_branches, list_tag_infos
from paimon_spark.metadata.handle import TableHandle, current, open_branch, open_table
from paimon_spark.metadata.snapshots import list_snapshots
from paimon_spark.metadata.tags import Savepoint, TagInfo, list_savepoints
from paimon_spark.options.scan import (
    BRANCH,
    COLUMNS,
    INCREMENTAL_KEYS,
    LOCATION_KEYS,
    VERSION_KEYS,
    ScanOptions,
    canonical,
    parse_scan_options,
    with_stored_start,
)
from paimon_spark.options.table import TableOptions
from paimon_spark.types import RowType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from paimon_spark.jobs.batch_write import WriteResult

_VERSION = "versionAsOf"
_SNAPSHOT_COLUMNS = (
    "id", "commit_kind", "time_ms", "schema_id", "total_record_count", "delta_record_count", "commit_user", "operation",
)  # fmt: skip
_TAG_COLUMNS = ("name", "snapshot", "create_time", "time_retained_s", "is_savepoint", "guards", "branches")
"""What notebooks show of them."""


@dataclass(frozen=True, slots=True)
class Table(TagVerbs, BranchVerbs, MergeVerbs, ExpiryVerbs, CompactionVerbs, InspectionVerbs):
    """A branch of a table, at a version when one was named. Picklable; every call sees the newest commits.

    Attributes:
        handle: the opened branch.
        read_options: what every scan starts from.
        option_text: the same as the user gave it.
    """

    handle: TableHandle
    read_options: ScanOptions = field(default_factory=ScanOptions)
    option_text: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """How messages call the table: `db.t`, or its location."""
        return self.handle.name

    @property
    def branch_name(self) -> str:
        """The branch in force."""
        return self.handle.branch

    @property
    def location(self) -> str:
        """URL of the table's directory."""
        return self.handle.location

    @property
    def is_system(self) -> bool:
        """Whether it is a system table, such as `t$files`."""
        return False

    @property
    def schema(self) -> TableSchema:
        """The schema that a scan reads with: of the version when one was named, else the branch's latest.

        A version that the table's own options name (`scan.snapshot-id` and the like) is one of scans only.
        """
        if self.is_system:
            return self.scan().schema
        return self._reading(self.read_options, self.option_text).schema

    @property
    def row_type(self) -> RowType:
        """Columns with their field ids and types."""
        return self.schema.row_type

    @property
    def options(self) -> TableOptions:
        """Table options in force."""
        return self.handle.options

    def _repr_html_(self) -> str:
        from paimon_spark.api.showing import table_html

        return table_html(self)

    def branch(self, name: str) -> Table:
        """The same table on another branch, at its head.

        Raises:
            BranchNotFoundError: there is no such branch.
        """
        text = _without(self.option_text, (BRANCH.key, *BRANCH.fallbacks, *VERSION_KEYS, *INCREMENTAL_KEYS))
        options = replace(self.read_options.at(None), branch=name)
        return Table(open_branch(self.handle, name), options, {**text, BRANCH.key: name})

    def at(self, version: str | int) -> Table:
        """The same table at a version, as after `VERSION AS OF`; it is looked up when it is read.

        Args:
            version: a tag, `snapshot.<id>`, `<branch>.<version>`, a snapshot id or a branch, in that order.
        """
        text = {**_without(self.option_text, (*VERSION_KEYS, *INCREMENTAL_KEYS)), _VERSION: str(version)}
        return Table(self.handle, self.read_options.at((_VERSION, str(version))), text)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        version: str | int | None = None,
        **options: str | float | bool,
    ) -> Scan:
        """One read, with the schema as it is now. Data and manifests are read when its rows are.

        Args:
            columns: names in output order; None means all. Metadata columns may be among them.
            where: SQL predicate over the table's columns.
            version: as in `at`.
            options: options of reads and of the table; those with dots as `**{"scan.tag-name": "v1"}`.

        Raises:
            InvalidOptionError: an option is unknown or wrong.
        """
        start = self if version is None else self.at(version)
        given, text = start.read_options, dict(start.option_text)
        if options:
            given, text = _with_options(start, {k: _text(v) for k, v in options.items()})
        if columns is not None:
            given = replace(given, columns=_column_names(columns))
        if where is not None:
            given = replace(given, where=where)
        scan = self._reading(given, text)
        asked = given if self.is_system else with_stored_start(given, text, scan.handle.schema.options)
        return replace(scan, options=asked)

    def _reading(self, given: ScanOptions, text: Mapping[str, str]) -> Scan:
        branch = self.handle.branch if given.branch is None else given.branch
        return Scan(_reopened(self.handle, branch, given.table_options), given, text)

    def create_temp_view(self, name: str, session: SparkSession | None = None) -> None:
        """Make the table, branch or version a temporary view, for plain `spark.sql`: as `Scan.create_temp_view`."""
        self.scan().create_temp_view(name, session)

    def write(self, data: Any, mode: str = "append", **options: str | float | bool) -> WriteResult:
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
            SchemaMismatchError: the rows' columns are none of the table.
            DataError: a value does not fit its column.
            InvalidInputError: a wrong mode or option, or the table was opened at a version.
            CommitError: others changed what the write stands on, or it is unknown whether it landed.
        """
        from paimon_spark.jobs.batch_write import write_data

        return write_data(self, data, mode, {k: _text(v) for k, v in options.items()})

    def delete(self, where: str) -> WriteResult:
        """Delete the rows of the branch for which `where` is true, in one commit.

        Runs as a Spark job when this process has a session; else here, where `where` may be what `scan` takes.

        Args:
            where: SQL predicate over the table's columns.

        Raises:
            UnsupportedFeatureError: rows of such a table cannot be deleted; says what to do.
            PredicateSyntaxError: `where` is no predicate.
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
        from paimon_spark.jobs.row_level import update_rows

        return update_rows(self, where, set)

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
        """Bring the rows of a Spark DataFrame into the branch, in one commit: SQL's MERGE. Runs as a Spark job.

        Expressions are Spark SQL, in which `t` is this table and `s` the source: `on="t.id = s.id"`.

        Args:
            source: Spark DataFrame.
            on: which rows match.
            when_matched_update: what matching rows become: expressions by column, or `*` for all columns of the source.
            when_matched_condition: only matching rows for which this is true are updated.
            when_matched_delete: matching rows for which this is true are deleted; looked at before updates.
            when_not_matched_insert: what comes of rows of the source that match none, as in `when_matched_update`.
            when_not_matched_condition: only rows of the source for which this is true are inserted.
            when_not_matched_by_source_delete: rows that match no row of the source are deleted where this is true.

        Raises:
            DataError: a row would be changed by several rows of the source; nothing was changed.
            Others as `update`.
        """
        from paimon_spark.jobs.row_level import merge_rows

        clauses = {
            "when_matched_update": when_matched_update,
            "when_matched_condition": when_matched_condition,
            "when_matched_delete": when_matched_delete,
            "when_not_matched_insert": when_not_matched_insert,
            "when_not_matched_condition": when_not_matched_condition,
            "when_not_matched_by_source_delete": when_not_matched_by_source_delete,
        }
        return merge_rows(self, source, on, clauses)

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
        """Change the definition of this branch, all or nothing, and no other branch's. Returns the table as it is then.

        Columns inside others are written `a.b`; what an ARRAY holds is `a.element`, values of a MAP are `a.value`.

        Args:
            add: type by new column: DDL text, as in `INT COMMENT 'count' DEFAULT 0`, or an Arrow or Spark type.
            drop: columns that go.
            rename: new name by column; keys and options that name the column follow.
            retype: new type by column; files are cast as they are read.
            set_options: table options by key.
            unset_options: keys that go back to their defaults.
            nullable: whether a column may hold nulls, by column.
            comments: comment by column, None for none.
            defaults: the value, as text, that later writes without the column put there, by column; None for null.
            move: `first`, `last`, `after <column>` or `before <column>`, by column.
            comment: of the table; empty for none.

        Raises:
            InvalidInputError: a change is not possible; nothing was changed.
            ColumnNotFoundError, AlreadyExistsError: a column is not there, or already is.
            InvalidOptionError: an option may not have that value, or may not change any more.
            UnsupportedFeatureError: a change needs a feature that this package lacks.
        """
        from paimon_spark.api.altering import altered, schema_changes

        handle = altered(
            self.handle,
            lambda columns: schema_changes(
                columns,
                add=add or {},
                drop=drop,
                rename=rename or {},
                retype=retype or {},
                set_options=set_options or {},
                unset_options=unset_options,
                nullable=nullable or {},
                comments=comments or {},
                defaults=defaults or {},
                move=move or {},
                comment=comment,
            ),
        )
        return replace(self, handle=handle)

    def snapshots(self) -> list[Snapshot]:
        """Snapshots alive on the branch, oldest first."""
        found = list_snapshots(current(self.handle))
        return ShownList(found, f"Snapshots of {self.handle.describe()}", _SNAPSHOT_COLUMNS)

    def tags(self) -> list[TagInfo]:
        """Tags of the branch, by snapshot and then name; savepoints and the guards of branches are among them."""
        found = list_tag_infos(current(self.handle))
        return ShownList(found, f"Tags of {self.handle.describe()}", _TAG_COLUMNS)

    def branches(self) -> list[Branch]:
        """Branches of the table, by name; main is not among them."""
        return ShownList(list_branches(current(self.handle)), f"Branches of table {self.name}")

    def savepoints(self) -> list[Savepoint]:
        """Savepoints of the branch, by id."""
        return ShownList(list_savepoints(current(self.handle)), f"Savepoints of {self.handle.describe()}")


def _reopened(handle: TableHandle, branch: str, overrides: Mapping[str, str]) -> TableHandle:
    """The table with the definition it has now: columns and options may have changed since it was opened."""
    return open_table(handle.store, handle.layout.root, branch, handle.name, overrides)


def _with_options(table: Table, options: Mapping[str, str]) -> tuple[ScanOptions, dict[str, str]]:
    """What is asked with `options` on top of what the table was opened with, parsed and as text."""
    given = canonical(options)
    for key in given:
        if key in LOCATION_KEYS:
            raise InvalidOptionError(
                f"option {key} says where a table lies; give it to load_table or load_catalog", option=key
            )
    text = dict(table.option_text)
    for group in ((*VERSION_KEYS, *INCREMENTAL_KEYS), (BRANCH.key, *BRANCH.fallbacks)):
        if any(key in given for key in group):
            text = _without(text, group)
    text.update(given)
    return parse_scan_options(text), text


def _column_names(columns: Sequence[str]) -> tuple[str, ...]:
    if isinstance(columns, str):
        raise InvalidOptionError(f"columns = {columns!r}: expected a list of names", option=COLUMNS.key)
    return tuple(columns)


def _text(value: str | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _without(options: Mapping[str, str], keys: Sequence[str]) -> dict[str, str]:
    return {k: v for k, v in options.items() if k not in keys}
