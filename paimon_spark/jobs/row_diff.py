"""RowDiff: the rows that differ between two versions.

They are compared in this process or in a Spark job.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.display import ShownAsText, facts, grid, section
from paimon_spark.engine.row_diff.compare import (
    ADDED,
    AFTER,
    BEFORE,
    CHANGE,
    REMOVED,
    Differences,
    sum_of,
)
from paimon_spark.engine.row_diff.versions import (
    UNIT_SPLITS,
    Comparison,
    Version,
    differing,
    grouped,
    with_ids_of,
)
from paimon_spark.engine.scan.fallback import other_branch
from paimon_spark.engine.scan.one_branch import merges_postponed
from paimon_spark.engine.scan.prune import lowest_level
from paimon_spark.engine.scan.query import OnlyFiles
from paimon_spark.engine.tasks.split import DataSplit
from paimon_spark.errors import FileMissingError, InvalidInputError
from paimon_spark.format.arrays.arrow_types import arrow_schema
from paimon_spark.format.arrays.arrow_types import no_rows as no_rows_of
from paimon_spark.format.arrays.nested import shown_rows
from paimon_spark.format.arrays.pieces import taken
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.jobs.branch_access import refuse_system_table, reopen_to_read
from paimon_spark.jobs.opened_table import OpenedTable
from paimon_spark.jobs.scan import Scan, scan_at
from paimon_spark.jobs.table_scan import scan_of
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.resolve import Resolved, resolve
from paimon_spark.metadata.version import text_version
from paimon_spark.spark_port import active_spark_jobs, spark_jobs
from paimon_spark.text import counted, safe, shown, sql_cell, sql_row
from paimon_spark.types import STRING, DataField, RowType
from paimon_spark.versioning.compare import changed_columns, changed_files, shared_field_id
from paimon_spark.versioning.diff import ColumnChange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SIGNS: Final = {ADDED: "+", REMOVED: "-", BEFORE: "<", AFTER: ">"}
_SAMPLE: Final = 5
"""Rows of each kind that are shown."""
_SPARK_BYTES: Final = 64 << 20
"""Bytes of files from which on an active Spark session compares them."""
_MERGING: Final = (
    "merge-engine", "sequence.", "fields.", "ignore-", "deduplicate.", "first-row.", "partial-update.", "aggregation.",
    "rowkind.",
)  # fmt: skip
"""Prefixes of the table options that decide how rows are merged."""


@dataclass(frozen=True, slots=True, repr=False)
class RowDiff(ShownAsText):
    """The rows that differ between two versions of a table, or of two tables of the same columns.

    Rows of tables with a primary key are compared by key; others as multisets: a row that one version has twice and the
    other once is one row more. Two nulls are equal, and so are two NaNs; -0.0 and 0.0 differ. Columns that only one
    version has are in `schema_changes`, and are not compared.

    Attributes:
        table: name of the table.
        old, new: the versions, in words.
        schema_changes: columns that differ.
        added: rows that only the new version has.
        removed: rows that only the old version has.
        changed: keys that both have, with different rows.
        columns: number of changed values by column, of columns that have any.
        bytes_read: size of the files that differ, which alone were read.
        samples: a few of the rows, as `to_arrow` returns them.
    """

    table: str
    old: str
    new: str
    schema_changes: tuple[ColumnChange, ...]
    added: int
    removed: int
    changed: int
    columns: Mapping[str, int]
    bytes_read: int
    samples: pa.Table = field(compare=False)
    _planned: RowComparison = field(compare=False)

    @property
    def is_same(self) -> bool:
        """Whether rows and columns are the same."""
        return not (self.added or self.removed or self.changed or self.schema_changes)

    def to_arrow(self, limit: int | None = None) -> pa.Table:
        """The rows that differ, or `limit` of them, as an Arrow table in no promised order.

        Column `_change` is `added`, `removed`, `before` or `after`; then come the columns of the new version. The row
        before a change is followed by the one after it.

        Raises:
            SnapshotExpiredError: a version expired meanwhile.
            CorruptFileError: a file cannot be read.
        """
        if limit is not None and limit < 0:
            raise InvalidInputError(f"limit={limit}: expected a number of rows, 0 or more")
        found = []
        left = limit
        for part in self._planned.run():
            rows = part.rows if left is None else part.rows.slice(0, left)
            found.append(rows)
            if left is not None:
                left -= len(rows)
                if not left:
                    break
        return pa.concat_tables([self._planned.no_rows(), *found])

    def to_spark(self, session: SparkSession | None = None) -> DataFrame:
        """The same rows as a Spark DataFrame, which compares in tasks of a Spark job.

        Args:
            session: default is the active session, else one is made.
        """
        return self._planned.to_spark(session)

    @property
    def row_count(self) -> int:
        """Number of rows that `to_arrow` returns: a changed row counts twice, before and after."""
        return self.added + self.removed + 2 * self.changed

    def text_lines(self) -> Iterator[str]:
        yield from self.count_lines()
        yield from self.row_lines(self.samples)
        if left := self.row_count - len(self.samples):
            yield f"… and {counted(left, 'more row')}; to_arrow() returns all"

    def count_lines(self) -> Iterator[str]:
        """The versions, what changed in the columns, and the counts, as text by line."""
        yield f"{safe(self.table)}: {safe(self.old)} -> {safe(self.new)}"
        for column in self.schema_changes:
            yield f"column {safe(column.name)} {column.kind}: {shown(column.old)} -> {shown(column.new)}"
        if not (self.added or self.removed or self.changed):
            yield "the same rows"
            return
        yield f"{counted(self.added, 'row')} added, {self.removed:,} removed, {self.changed:,} changed"
        if self.columns:
            each = (f"{safe(name)} {count:,}" for name, count in self.columns.items())
            yield f"changed values: {', '.join(each)}"

    @staticmethod
    def row_lines(rows: pa.Table) -> Iterator[str]:
        """Rows of `to_arrow` as text by line: `+` added, `-` removed, `<` before and `>` after a change."""
        for row in shown_rows(rows):
            yield f"{_SIGNS[row.pop(CHANGE)]} {sql_row(row)}"

    def to_dict(self) -> dict[str, Any]:
        """Counts, columns and schema changes as plain values that JSON can hold."""
        return {
            "table": self.table,
            "old": self.old,
            "new": self.new,
            "added": self.added,
            "removed": self.removed,
            "changed": self.changed,
            "columns": dict(self.columns),
            "schema_changes": [
                {"kind": c.kind, "name": c.name, "old": c.old, "new": c.new} for c in self.schema_changes
            ],
            "bytes_read": self.bytes_read,
            "is_same": self.is_same,
        }

    def _repr_html_(self) -> str:
        parts = []
        if self.schema_changes:
            rows = [(c.name, c.kind, c.old, c.new) for c in self.schema_changes]
            parts.append(grid(("column", "change", "old", "new"), rows))
        parts.append(facts({"rows added": self.added, "rows removed": self.removed, "rows changed": self.changed}))
        if self.columns:
            parts.append(grid(("column", "changed values"), list(self.columns.items())))
        if len(self.samples):
            samples = [list(map(sql_cell, row.values())) for row in shown_rows(self.samples)]
            parts.append(grid(self.samples.column_names, samples))
        return section(f"{self.table}: {self.old} → {self.new}", "the same" if self.is_same else "", *parts)


class Place(IntEnum):
    """Place that equal rows, or rows of one key, share in two versions: partition and bucket, or less."""

    TABLE = 0
    PARTITION = 1
    BUCKET = 2

    def of(self, split: DataSplit) -> Hashable:
        """The place of a split's rows."""
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
        old, new: the splits of each version that the other lacks.
        groups: the same splits; equal rows, or keys, are in one group.
        place: what the splits of a group have in common.
    """

    table_name: str
    old_label: str
    new_label: str
    schema_changes: tuple[ColumnChange, ...]
    comparison: Comparison
    scans: tuple[Scan, Scan]
    old: tuple[DataSplit, ...]
    new: tuple[DataSplit, ...]
    groups: Sequence[tuple[list[DataSplit], list[DataSplit]]]
    place: Place

    @property
    def size_bytes(self) -> int:
        """Of the files to read."""
        return sum(s.size_bytes for s in (*self.old, *self.new))

    @property
    def row_type(self) -> RowType:
        """The columns of the rows that differ."""
        change = DataField(-1, CHANGE, STRING.with_nullable(False))
        return RowType(fields=(change, *self.comparison.new.columns))

    def no_rows(self) -> pa.Table:
        """An empty table of the rows that differ."""
        return no_rows_of(arrow_schema(self.row_type))

    def run(self, groups: Sequence[tuple[list[DataSplit], list[DataSplit]]] | None = None) -> Iterator[Differences]:
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


def row_diff(table: OpenedTable, old: str | int, new: str | int | OpenedTable | None) -> RowDiff:
    """Compare the rows of two versions, as `Table.diff`."""
    planned = plan_row_diff(table, old, new)
    parts, samples = _compared(planned)
    added, removed, changed, columns = sum_of(parts)
    return RowDiff(
        planned.table_name,
        planned.old_label,
        planned.new_label,
        planned.schema_changes,
        added,
        removed,
        changed,
        {name: columns[name] for name in planned.comparison.compared if name in columns},
        planned.size_bytes,
        samples,
        planned,
    )


def plan_row_diff(table: OpenedTable, old: str | int, new: str | int | OpenedTable | None) -> RowComparison:
    """Plan what `row_diff` compares. Raises as `Table.diff`."""
    handle = reopen_to_read(table, UNIT_SPLITS)
    before = resolve(handle, text_version(str(old)))
    if not isinstance(new, OpenedTable):
        return compare_versions(before, resolve(handle, None if new is None else text_version(str(new))))
    refuse_system_table(new)
    after = scan_of(new, options=UNIT_SPLITS).pinned()
    label = new.name if after.snapshot_id is None else f"snapshot {after.snapshot_id} of {new.name}"
    same_table = after.handle.location == handle.location
    return _comparison(scan_at(before), after, (before.label, label), same_table=same_table)


def compare_versions(old: Resolved, new: Resolved) -> RowComparison:
    """Plan the comparison of two versions of one table, both found with `UNIT_SPLITS`."""
    only = _changed_only(old, new)
    return _comparison(scan_at(old, only), scan_at(new, only), (old.label, new.label), same_table=True)


def _changed_only(old: Resolved, new: Resolved) -> OnlyFiles | None:
    """The files whose rows may differ, as far as metadata alone tells; None for all.

    Of tables with a primary key all files of the buckets that have changed ones.
    """
    handles = old.handle, new.handle
    is_plain = all(
        other_branch(h) is None and not merges_postponed(h) and not h.options.data_evolution and lowest_level(h) == 0
        for h in handles
    )
    if not is_plain or not _merged_alike(*handles):
        return None
    try:
        files = changed_files(old, new)
    except FileMissingError:  # planning says which version has expired
        return None
    places = files.select(("partition", "bucket")).group_by(("partition", "bucket")).aggregate([]).to_pylist()
    names = None if old.handle.schema.primary_keys else files.column("file_name").combine_chunks()
    return OnlyFiles(frozenset((place["partition"], place["bucket"]) for place in places), names)


def _comparison(old: Scan, new: Scan, labels: tuple[str, str], *, same_table: bool) -> RowComparison:
    changes, fields = _columns(
        old.handle.with_schema(old.schema), new.handle.with_schema(new.schema), same_table=same_table
    )
    return _planned(old, new, labels, changes, fields, same_table=same_table)


def _columns(
    old: TableHandle, new: TableHandle, *, same_table: bool
) -> tuple[tuple[ColumnChange, ...], tuple[DataField, ...]]:
    """Changes of the columns, and the new columns with the field ids of the old version."""
    before, after = old.schema, new.schema
    if not same_table:
        fields = with_ids_of(before.row_type, after.row_type, lambda o, n: o.name == n.name)
        renumbered = replace(after, row_type=replace(after.row_type, fields=fields))
        return changed_columns(before, renumbered), fields
    shared = shared_field_id(old, new)
    changes = changed_columns(before, after, shared) if before != after else ()
    if shared is None:
        return changes, after.row_type.fields
    fields = with_ids_of(
        before.row_type, after.row_type, lambda o, n: o.id == n.id and (o.id <= shared or o.name == n.name)
    )
    return changes, fields


def _planned(
    old: Scan,
    new: Scan,
    labels: tuple[str, str],
    changes: tuple[ColumnChange, ...],
    fields: tuple[DataField, ...],
    *,
    same_table: bool,
) -> RowComparison:
    """`fields`: the new columns with the ids of the old version.

    Rows of a version are null in columns of the table that it lacks; of two tables the columns of both are compared.
    """
    plans = old.plan(), new.plan()
    before, after = old.schema, new.schema
    columns, own = ([replace(f, type=f.type.with_nullable(True)) for f in each] for each in (fields, after.row_type))
    ids = {f.id for f in before.row_type}
    common = tuple(f.name for f in columns if f.id in ids)
    if not common:
        raise InvalidInputError(
            f"{old.handle.describe()} and {new.handle.describe()} have no column in common, so their rows cannot be "
            "compared"
        )
    keys = _keys(before, after, columns)
    comparison = Comparison(
        Version(plans[0].requests, before.row_type, tuple(columns)),
        Version(plans[1].requests, after.row_type, tuple(own)),
        keys,
        tuple(f.name for f in columns) if same_table else common,
    )
    merged_alike = _merged_alike(old.handle, new.handle) and all(len(plan.requests) == 1 for plan in plans)
    splits = differing(*plans, merged_alike=merged_alike)
    place = _place(old.handle, new.handle, before, after, keys, splits)
    return RowComparison(
        old.handle.name, *labels, changes, comparison, (old, new), *splits, grouped(*splits, place.of), place
    )


def _keys(before: TableSchema, after: TableSchema, columns: Sequence[DataField]) -> tuple[str, ...]:
    """The primary key, where both versions have the same one; else none."""
    ids = {f.name: f.id for f in before.row_type}
    now = {f.name: f.id for f in columns}
    same = {ids[k] for k in before.primary_keys} == {now[k] for k in after.primary_keys}
    return tuple(after.primary_keys) if same else ()


def _merged_alike(old: TableHandle, new: TableHandle) -> bool:
    """Whether both versions merge the same files to the same rows."""
    rules = [{k: v for k, v in handle.options.raw.items() if k.startswith(_MERGING)} for handle in (old, new)]
    return rules[0] == rules[1] and old.schema.primary_keys == new.schema.primary_keys


def _place(
    old: TableHandle,
    new: TableHandle,
    before: TableSchema,
    after: TableSchema,
    keys: Sequence[str],
    splits: Sequence[Sequence[DataSplit]],
) -> Place:
    """Place that equal rows, or rows of one key, share."""
    partition_keys = after.partition_keys
    kinds = [[s.row_type.field(k).type for k in s.partition_keys] for s in (before, after)]
    same = old.location == new.location and before.partition_keys == partition_keys and kinds[0] == kinds[1]
    if not same or (keys and not set(partition_keys) <= set(keys)):
        return Place.TABLE
    fixed = old.options.bucket > 0 and new.options.bucket > 0 and before.bucket_keys == after.bucket_keys
    if fixed and len({s.total_buckets for side in splits for s in side}) <= 1:
        return Place.BUCKET
    return Place.PARTITION


def _compared(planned: RowComparison) -> tuple[list[Differences], pa.Table]:
    """Counts and samples: of a Spark job where there is a session and much to read, else compared in this process."""
    jobs = active_spark_jobs() if planned.size_bytes >= _SPARK_BYTES else None
    found = planned.run() if jobs is None else jobs.row_diff_counts(planned)
    no_rows = planned.no_rows()
    parts, samples = [], Samples(no_rows)
    for part in found:
        samples.add(part.rows)
        parts.append(replace(part, rows=no_rows))  # a slice of the rows would hold all of them
    return parts, samples.table()


class Samples:
    """The first rows of each kind."""

    def __init__(self, empty: pa.Table) -> None:
        self._tables = [empty]
        self._left = {ADDED: _SAMPLE, REMOVED: _SAMPLE, BEFORE: _SAMPLE, AFTER: _SAMPLE}

    def add(self, rows: pa.Table) -> None:
        """Take from these rows what is still wanted."""
        places = []
        for kind, left in self._left.items():
            if left and len(rows):
                found = pc.indices_nonzero(pc.equal(rows.column(CHANGE), pa.scalar(kind)))[:left].to_pylist()
                self._left[kind] -= len(found)
                places += found
        if places:
            self._tables.append(taken(rows, np.array(sorted(places), np.int64)))

    def table(self) -> pa.Table:
        """The rows taken, by kind; the row before a change is followed by the one after it."""
        found = pa.concat_tables(self._tables)
        kinds = found.column(CHANGE).to_pylist()
        ranks = {ADDED: 0, REMOVED: 1, BEFORE: 2, AFTER: 2}
        return taken(found, np.array(sorted(range(len(kinds)), key=lambda i: ranks[kinds[i]]), np.int64))
