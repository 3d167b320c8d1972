"""Comparison of the rows of two versions, planned from metadata."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa

from paimon_spark.engine.row_diff.compare import CHANGE, Differences
from paimon_spark.engine.row_diff.versions import UNIT_SPLITS, Comparison, Version, differing, grouped, with_ids_of
from paimon_spark.engine.scan.fallback import other_branch
from paimon_spark.engine.scan.one_branch import merges_postponed
from paimon_spark.engine.scan.prune import lowest_level
from paimon_spark.engine.scan.query import OnlyFiles
from paimon_spark.engine.tasks import DataSplit
from paimon_spark.errors import FileMissingError, InvalidInputError
from paimon_spark.format.arrays.arrow_types import arrow_schema
from paimon_spark.format.arrays.arrow_types import no_rows as no_rows_of
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.jobs.branch_access import refuse_system_table, reopen_to_read
from paimon_spark.jobs.opened_table import OpenedTable
from paimon_spark.jobs.read.scan import Scan, scan_at
from paimon_spark.jobs.read.table_scan import scan_of
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.resolve import Resolved, resolve
from paimon_spark.metadata.version import text_version
from paimon_spark.spark_port import spark_jobs
from paimon_spark.types import STRING, DataField, RowType
from paimon_spark.versioning.compare import changed_columns, changed_files, shared_field_id
from paimon_spark.versioning.diff import ColumnChange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SplitGroup: TypeAlias = tuple[list[DataSplit], list[DataSplit]]
"""Splits of the old and of the new version whose rows are compared with each other, and with no others."""

_MERGE_OPTIONS: Final = (
    "merge-engine", "sequence.", "fields.", "ignore-", "deduplicate.", "first-row.", "partial-update.", "aggregation.",
    "rowkind.",
)  # fmt: skip
"""Prefixes of the table options that decide how rows are merged."""


class Grouping(IntEnum):
    """How splits are grouped so that equal rows, or rows of one key, are always in one group."""

    TABLE = 0
    PARTITION = 1
    BUCKET = 2

    def group_of(self, split: DataSplit) -> Hashable:
        """Key of the group that a split belongs to."""
        return (split.partition, split.bucket)[: self.value]


@dataclass(frozen=True, slots=True)
class RowComparison:
    """Two versions whose rows are compared; planned, not yet read.

    Attributes:
        table_name: how messages call the table.
        old_label, new_label: the versions, in words.
        schema_changes: columns that differ.
        comparison: how rows are compared.
        scans: the read of each version.
        old, new: the splits of each version that the other lacks; rows of all other splits are the same.
        groups: the splits of `old` and `new`, by `grouping`.
        grouping: how they are grouped.
    """

    table_name: str
    old_label: str
    new_label: str
    schema_changes: tuple[ColumnChange, ...]
    comparison: Comparison
    scans: tuple[Scan, Scan]
    old: tuple[DataSplit, ...]
    new: tuple[DataSplit, ...]
    groups: Sequence[SplitGroup]
    grouping: Grouping

    @property
    def size_bytes(self) -> int:
        """Size of the files to read."""
        return sum(s.size_bytes for s in (*self.old, *self.new))

    @property
    def row_type(self) -> RowType:
        """The columns of the rows that differ."""
        change = DataField(-1, CHANGE, STRING.with_nullable(False))
        return RowType(fields=(change, *self.comparison.new.columns))

    def no_rows(self) -> pa.Table:
        """An empty table of the rows that differ."""
        return no_rows_of(arrow_schema(self.row_type))

    def run(self, groups: Sequence[SplitGroup] | None = None) -> Iterator[Differences]:
        """The differences, of all or some of the groups, compared in this process. Raises as `Scan.to_batches`."""
        with self.scans[0].refusing_expired(), self.scans[1].refusing_expired():
            for old, new in self.groups if groups is None else groups:
                yield from self.comparison.run(old, new)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows that differ, compared in this process. Raises as `Scan.to_batches`."""
        for part in self.run():
            yield from part.rows.to_batches()

    def to_spark(self, session: SparkSession | None = None) -> DataFrame:
        """As `RowDiff.to_spark`."""
        return spark_jobs().row_diff(self, session)


def plan_row_diff(table: OpenedTable, old: str | int, new: str | int | OpenedTable | None) -> RowComparison:
    """Plan the comparison of a version with another one, or with another table. Raises as `Table.diff`."""
    handle = reopen_to_read(table, UNIT_SPLITS)
    before = resolve(handle, text_version(str(old)))
    if not isinstance(new, OpenedTable):
        return plan_comparison(before, resolve(handle, None if new is None else text_version(str(new))))
    refuse_system_table(new)
    after = scan_of(new, options=UNIT_SPLITS).pinned()
    label = new.name if after.snapshot_id is None else f"snapshot {after.snapshot_id} of {new.name}"
    return _planned(before.label, scan_at(before), label, after, same_table=after.handle.location == handle.location)


def plan_comparison(old: Resolved, new: Resolved) -> RowComparison:
    """Plan the comparison of two versions of one table, both resolved with `UNIT_SPLITS`."""
    only = _files_that_may_differ(old, new)
    return _planned(old.label, scan_at(old, only), new.label, scan_at(new, only), same_table=True)


def _files_that_may_differ(old: Resolved, new: Resolved) -> OnlyFiles | None:
    """The files that one version has and the other lacks, found from manifests alone; None: read all files.

    Where rows are merged by key, all files of a bucket with such files may give other rows.
    """
    handles = old.handle, new.handle
    rows_come_from_files_alone = all(
        other_branch(h) is None and not merges_postponed(h) and not h.options.data_evolution and lowest_level(h) == 0
        for h in handles
    )
    if not rows_come_from_files_alone or not _have_same_merge_rules(*handles):
        return None
    try:
        files = changed_files(old, new)
    except FileMissingError:  # a version has expired; planning raises an error that names it
        return None
    buckets = files.select(("partition", "bucket")).group_by(("partition", "bucket")).aggregate([]).to_pylist()
    names = None if old.handle.schema.primary_keys else files.column("file_name").combine_chunks()
    return OnlyFiles(frozenset((b["partition"], b["bucket"]) for b in buckets), names)


def _planned(old_label: str, old: Scan, new_label: str, new: Scan, *, same_table: bool) -> RowComparison:
    """Plan both scans, and pair what they read.

    Of two versions of a table all columns of the newer one are compared, and one that the older version lacks counts
    as null there. Of two tables the columns are compared that both have.
    """
    changes, columns = _matched_columns(
        old.handle.with_schema(old.schema), new.handle.with_schema(new.schema), same_table=same_table
    )
    plans = old.plan(), new.plan()
    old_ids = {f.id for f in old.schema.row_type}
    common = tuple(f.name for f in columns if f.id in old_ids)
    if not common:
        raise InvalidInputError(
            f"{old.handle.describe()} and {new.handle.describe()} have no column in common, so their rows cannot be "
            "compared"
        )
    keys = _common_primary_key(old.schema, new.schema, columns)
    comparison = Comparison(
        Version(plans[0].requests, old.schema.row_type, _nullable(columns)),
        Version(plans[1].requests, new.schema.row_type, _nullable(new.schema.row_type.fields)),
        keys,
        tuple(f.name for f in columns) if same_table else common,
    )
    reads_one_branch = all(len(plan.requests) == 1 for plan in plans)
    old_splits, new_splits = differing(
        *plans, merged_alike=reads_one_branch and _have_same_merge_rules(old.handle, new.handle)
    )
    grouping = _grouping(old, new, keys, (*old_splits, *new_splits))
    return RowComparison(
        table_name=old.handle.name,
        old_label=old_label,
        new_label=new_label,
        schema_changes=changes,
        comparison=comparison,
        scans=(old, new),
        old=old_splits,
        new=new_splits,
        groups=grouped(old_splits, new_splits, grouping.group_of),
        grouping=grouping,
    )


def _matched_columns(
    old: TableHandle, new: TableHandle, *, same_table: bool
) -> tuple[tuple[ColumnChange, ...], tuple[DataField, ...]]:
    """The changes of the columns, and the new columns with the field ids that the old version knows them by.

    Columns of two tables are matched by name. Those of one table are matched by id, as far as both branches gave out
    ids together; a later id means the same column only if the name is the same, too.
    """
    before, after = old.schema, new.schema
    if not same_table:
        columns = with_ids_of(before.row_type, after.row_type, lambda o, n: o.name == n.name)
        renumbered = replace(after, row_type=replace(after.row_type, fields=columns))
        return changed_columns(before, renumbered), columns
    shared_id = shared_field_id(old, new)
    changes = changed_columns(before, after, shared_id) if before != after else ()
    if shared_id is None:
        return changes, after.row_type.fields
    columns = with_ids_of(
        before.row_type, after.row_type, lambda o, n: o.id == n.id and (o.id <= shared_id or o.name == n.name)
    )
    return changes, columns


def _nullable(columns: Sequence[DataField]) -> tuple[DataField, ...]:
    return tuple(replace(f, type=f.type.with_nullable(True)) for f in columns)


def _common_primary_key(old: TableSchema, new: TableSchema, columns: Sequence[DataField]) -> tuple[str, ...]:
    """The primary key, where both versions have the same one; else none. `columns`: those of `_matched_columns`."""
    old_ids = {f.name: f.id for f in old.row_type}
    new_ids = {f.name: f.id for f in columns}
    is_same = {old_ids[k] for k in old.primary_keys} == {new_ids[k] for k in new.primary_keys}
    return tuple(new.primary_keys) if is_same else ()


def _have_same_merge_rules(old: TableHandle, new: TableHandle) -> bool:
    """Whether both versions merge the same files to the same rows."""

    def rules(handle: TableHandle) -> Mapping[str, str]:
        return {k: v for k, v in handle.options.raw.items() if k.startswith(_MERGE_OPTIONS)}

    return rules(old) == rules(new) and old.schema.primary_keys == new.schema.primary_keys


def _grouping(old: Scan, new: Scan, keys: Sequence[str], splits: Sequence[DataSplit]) -> Grouping:
    """The finest grouping in which equal rows, or rows of one key, cannot be in two groups."""
    partition_keys = new.schema.partition_keys
    partition_types = [[s.row_type.field(k).type for k in s.partition_keys] for s in (old.schema, new.schema)]
    has_same_partitions = (
        old.handle.location == new.handle.location
        and old.schema.partition_keys == partition_keys
        and partition_types[0] == partition_types[1]
    )
    may_cross_partitions = bool(keys) and not set(partition_keys) <= set(keys)
    if not has_same_partitions or may_cross_partitions:
        return Grouping.TABLE
    has_fixed_buckets = old.handle.options.bucket > 0 and new.handle.options.bucket > 0
    has_same_buckets = (
        has_fixed_buckets
        and old.schema.bucket_keys == new.schema.bucket_keys
        and len({s.total_buckets for s in splits}) <= 1
    )
    return Grouping.BUCKET if has_same_buckets else Grouping.PARTITION
