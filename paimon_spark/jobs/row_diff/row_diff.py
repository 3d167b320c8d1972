"""RowDiff: the rows that differ between two versions, counted, shown and read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.display import ShownAsText, facts, grid, section
from paimon_spark.engine.row_diff.compare import ADDED, AFTER, BEFORE, CHANGE, REMOVED, Differences, sum_of
from paimon_spark.errors import InvalidInputError
from paimon_spark.format.arrays.nested import shown_rows
from paimon_spark.format.arrays.pieces import taken
from paimon_spark.jobs.opened_table import OpenedTable
from paimon_spark.jobs.row_diff.comparison import RowComparison, plan_row_diff
from paimon_spark.spark_port import active_spark_jobs
from paimon_spark.text import counted, safe, shown, sql_cell, sql_row
from paimon_spark.versioning.diff import ColumnChange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SIGNS: Final = {ADDED: "+", REMOVED: "-", BEFORE: "<", AFTER: ">"}
_SAMPLE: Final = 5
"""Rows of each kind that are shown."""
_SPARK_BYTES: Final = 64 << 20
"""Bytes of files from which on an active Spark session compares them."""


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
        found = [self._planned.no_rows()]
        count = 0
        for part in self._planned.run():
            rows = part.rows if limit is None else part.rows.slice(0, limit - count)
            found.append(rows)
            count += len(rows)
            if count == limit:
                break
        return pa.concat_tables(found)

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


def row_diff(table: OpenedTable, old: str | int, new: str | int | OpenedTable | None) -> RowDiff:
    """Compare the rows of two versions, as `Table.diff`."""
    planned = plan_row_diff(table, old, new)
    differences, samples = _counted(planned)
    added, removed, changed, changed_values = sum_of(differences)
    return RowDiff(
        planned.table_name,
        planned.old_label,
        planned.new_label,
        planned.schema_changes,
        added,
        removed,
        changed,
        {name: changed_values[name] for name in planned.comparison.compared if name in changed_values},
        planned.size_bytes,
        samples,
        planned,
    )


def _counted(planned: RowComparison) -> tuple[list[Differences], pa.Table]:
    """Counts without rows, and a few of the rows.

    Much data is compared by a Spark job, where this process has a session; else it is compared in this process.
    """
    jobs = active_spark_jobs() if planned.size_bytes >= _SPARK_BYTES else None
    found = planned.run() if jobs is None else jobs.row_diff_counts(planned)
    no_rows = planned.no_rows()
    counts, samples = [], Samples(no_rows)
    for part in found:
        samples.add(part.rows)
        counts.append(replace(part, rows=no_rows))  # a slice of the rows would keep all of them in memory
    return counts, samples.table()


class Samples:
    """The first rows of each kind of change.

    Args:
        empty: a table without rows, of the columns of the rows that differ.
    """

    def __init__(self, empty: pa.Table) -> None:
        self._tables = [empty]
        self._missing = dict.fromkeys((ADDED, REMOVED, BEFORE, AFTER), _SAMPLE)
        """Number of rows that each kind may still get."""

    def add(self, rows: pa.Table) -> None:
        """Take the first of these rows, of each kind as many as it may still get."""
        chosen = []
        for kind, missing in self._missing.items():
            if missing and len(rows):
                found = pc.indices_nonzero(pc.equal(rows.column(CHANGE), pa.scalar(kind)))[:missing].to_pylist()
                self._missing[kind] -= len(found)
                chosen += found
        if chosen:
            self._tables.append(taken(rows, np.array(sorted(chosen), np.int64)))

    def table(self) -> pa.Table:
        """The rows taken, by kind; the row before a change is followed by the one after it."""
        rows = pa.concat_tables(self._tables)
        kinds = rows.column(CHANGE).to_pylist()
        ranks = {ADDED: 0, REMOVED: 1, BEFORE: 2, AFTER: 2}
        return taken(rows, np.array(sorted(range(len(kinds)), key=lambda i: ranks[kinds[i]]), np.int64))
