"""Merge of the files of a bucket, with lower-level rows and record-level expiry.

A lower-level row is one of a file below the output level, which stays. Lower-level rows of written keys take part in
the merge as the rows that were visible before; with deletion vectors they are marked as deleted.

Source: Java `mergetree/compact/ChangelogMergeTreeRewriter`, `LookupChangelogMergeFunctionWrapper`,
`FirstRowMergeFunctionWrapper`, `io/RecordLevelExpire`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.engine.compaction.pick import drops_deletes
from paimon_spark.engine.merge import sorted_merge
from paimon_spark.engine.merge.changelog import IN_LAST_LEVEL, ChangelogRule, changelog_of
from paimon_spark.engine.merge.functions import create_merge_function
from paimon_spark.engine.merge.key_value import LEVEL, Groups, Kinds, constant_int32, is_retract, kinds_array
from paimon_spark.engine.merge.runs import Section, key_ranks
from paimon_spark.engine.merge.sorted_merge import (
    MergedColumns,
    MergePlan,
    SequenceField,
    Window,
    batches_of,
    merge_columns,
    windows,
)
from paimon_spark.engine.merge.spill import SpillFile
from paimon_spark.engine.read.file_reader import KIND_FIELD, fields_of, iter_file, iter_rows, system_columns
from paimon_spark.engine.read.file_reader import SYSTEM_FIELDS as _READ_FIELDS
from paimon_spark.engine.tasks import DataSplit, ReadRequest
from paimon_spark.engine.write.data_files import RollingWriter
from paimon_spark.engine.write.merge_tree import SYSTEM_FIELDS
from paimon_spark.errors import DataError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_numpy import Bool, array_of
from paimon_spark.format.arrays.arrow_types import arrow_schema
from paimon_spark.format.binary_row import decode_column
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.format.metadata_files.deletion_vector import Positions
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.options.core import ChangelogProducer, MergeEngine
from paimon_spark.options.table import TableOptions
from paimon_spark.types import (
    SEQUENCE_NUMBER,
    VALUE_KIND,
    DataField,
    RowKind,
)

_FILE: Final = "_FILE"
_POSITION: Final = "_POSITION"
"""The place of a lower-level row: number of its file, and row in the file."""
_BATCH_ROWS: Final = 65536


class _RowWriter(Protocol):
    """Takes rows as `RollingWriter` does."""

    def write(self, batch: pa.RecordBatch) -> None: ...


class Output(NamedTuple):
    """Writers of a merge: of data files (None: the file stays as it is), and of changelog files."""

    data: _RowWriter | None
    changelog: RollingWriter | None


class BucketMerge:
    """Merges files of one bucket into `level`; all files that are not merged are of lower levels, down to `last`."""

    def __init__(self, handle: TableHandle, request: ReadRequest, split: DataSplit, level: int, last: int) -> None:
        schema, options = handle.schema, handle.options
        self._handle = handle
        self._request, self._split = request, split
        self._files = split.files
        self._level = level
        self._last = last
        self._first_row = options.merge_engine is MergeEngine.FIRST_ROW
        self._levels_count = options.need_lookup or self._first_row
        self._marks = options.deletion_vectors and not self._first_row
        self._lower = [n for n, f in enumerate(split.files) if self._levels_count and f.level > level]
        self._ranks = key_ranks(split.files, [f.type for f in schema.key_type]) if self._lower else None
        self._keeps_deletes = not self._marks and not drops_deletes(split.files, level)
        self._deleted: dict[int, list[Positions]] = {}
        self._plan = MergePlan(
            function=create_merge_function(schema, options),
            key=schema.trimmed_primary_keys,
            sequence=tuple(SequenceField(n, options.sequence_descending) for n in options.sequence_fields),
            output=tuple(schema.row_type.names),
            keep_deletes=True,
            batch_rows=_BATCH_ROWS,
            sequence_numbers=True,
            every_key=options.need_lookup and not self._first_row,
        )
        self._schema = pa.schema([*SYSTEM_FIELDS, *arrow_schema(schema.fields)])
        self._expiry = RecordExpiry.of(handle)
        self._rule = _changelog_rule(options, self._plan.output, into_last=level == last)

    def makes_changelog(self, numbers: Iterable[int]) -> bool:
        """Whether a merge of these files makes a changelog."""
        if self._rule is None:
            return False
        if self._rule.since_last_level:
            return any(self._files[n].level != self._last for n in numbers)
        return any(self._files[n].level == 0 for n in numbers)

    def needs_lookup(self, numbers: Iterable[int]) -> bool:
        """Whether rows of these files must be looked up in lower levels even when the files only move."""
        return self._marks and bool(self._lower) and any(self._files[n].level == 0 for n in numbers)

    def may_hold_retracts(self, file: DataFileMeta) -> bool:
        """Whether a file may have retracts, which must not stay in the last level. Reads their column if needed.

        Other engines may read a file of the last level without checking kinds, as its metadata counts no retracts.
        """
        if file.has_no_retracts:
            return False
        return file.delete_row_count != 0 or any(is_retract(kinds).any() for kinds in self._kinds_of(file))

    def _kinds_of(self, file: DataFileMeta) -> Iterator[Kinds]:
        number = next(n for n, f in enumerate(self._files) if f.file_name == file.file_name)
        deletion = self._split.deletion_of(number)
        for batch in iter_file(
            self._request, self._split, file, deletion, (), batch_rows=_BATCH_ROWS, system=(KIND_FIELD,)
        ):
            yield arrow_numpy.values(batch.column(0))

    def deleted_rows(self) -> Mapping[str, Positions]:
        """Lower-level rows that were replaced: ascending positions by name of the data file."""
        return {self._files[n].file_name: np.unique(np.concatenate(p)) for n, p in sorted(self._deleted.items())}

    def write(self, sections: Sequence[Section], output: Output) -> None:
        """Merge sections, one after the other, into `output`.

        Raises:
            DataError: rows cannot be merged as the table demands; names table and bucket.
        """
        try:
            for section in sections:
                runs = [*section.runs, *self._lower_runs(section)]
                with closing(SpillFile()) as aside:
                    for window in windows(self._streams(runs, aside), self._plan, self._run_rows(runs)):
                        self._write_window(window, output)
        except DataError as e:
            raise DataError(
                f"compaction of {self._handle.describe()}, bucket {self._split.bucket_path}: {e.message}", **e.context
            ) from e

    def _write_window(self, window: Window, output: Output) -> None:
        lower: Bool | None = None
        if self._lower:
            written = self._written_keys(window)
            if written is None:
                return
            window, lower = written
        merged = self._expired(merge_columns(window, self._plan))
        if output.changelog is not None:
            assert self._rule is not None
            names, arrays = changelog_of(window, merged, self._rule)
            for batch in batches_of(arrays, names, len(arrays[0]), _BATCH_ROWS):
                output.changelog.write(self._typed(batch))
        if output.data is not None:
            for batch in self._kept(merged, lower):
                output.data.write(self._typed(batch))

    def _expired(self, merged: MergedColumns) -> MergedColumns:
        """The merged rows with those as deletes that have expired, where deletes are not written.

        The newest version of a key hides the older ones, however old it is. Where deeper levels may have some, the row
        stays until a compaction reaches them. Java drops rows before it merges, and so brings older ones back.
        """
        if self._expiry is None or self._keeps_deletes:
            return merged
        kept = self._expiry.kept(merged.arrays[merged.names.index(self._expiry.field.name)])
        if kept.all():
            return merged
        kinds = np.where(kept, arrow_numpy.values(merged.arrays[1]), np.int8(RowKind.DELETE))
        return merged._replace(arrays=[merged.arrays[0], kinds_array(kinds), *merged.arrays[2:]])

    def _written_keys(self, window: Window) -> tuple[Window, Bool] | None:
        """The keys of a window that are written, and which have a lower-level row. Marks those rows."""
        is_lower = arrow_numpy.values(window.columns[LEVEL])[window.order] > self._level
        groups = Groups(window.order, window.starts)
        written = groups.any(~is_lower)
        if not written.any():
            return None
        places = np.repeat(written, groups.sizes)
        chosen = groups.subset(written)
        is_lower = is_lower[places]
        if self._marks:
            self._mark(window, chosen.rows[is_lower])
        return Window(window.columns, chosen.rows, chosen.starts), chosen.any(is_lower)

    def _mark(self, window: Window, rows: npt.NDArray[np.int64]) -> None:
        files = arrow_numpy.values(window.columns[_FILE])[rows]
        positions = arrow_numpy.values(window.columns[_POSITION])[rows]
        for number in np.unique(files).tolist():
            self._deleted.setdefault(number, []).append(positions[files == number])

    def _kept(self, merged: MergedColumns, lower: Bool | None) -> Iterator[pa.RecordBatch]:
        """The merged rows to write: deletes only where they still hide a row of a lower level."""
        keep = np.ones(merged.row_count, np.bool_)
        if not self._keeps_deletes:
            keep = ~is_retract(arrow_numpy.values(merged.arrays[1]))
        elif self._first_row and lower is not None:
            keep = ~(lower if merged.alive is None else lower[merged.alive])
        arrays = merged.arrays
        if not keep.all():
            rows = arrow_numpy.take_indices(np.flatnonzero(keep))
            arrays = [array.take(rows) for array in arrays]
        return batches_of(arrays, merged.names, int(np.count_nonzero(keep)), _BATCH_ROWS)

    def _typed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(batch.columns, schema=self._schema)

    def _lower_runs(self, section: Section) -> list[tuple[int, ...]]:
        """Files of lower levels that may have keys of a section: a sorted run for each level.

        Rows that are not of level 0 were looked up when they left it.
        """
        if self._ranks is None or all(self._files[n].level > 0 for n in section.files):
            return []
        members = list(section.files)
        low, high = self._ranks[members, 0].min(), self._ranks[members, 1].max()
        runs: dict[int, list[int]] = {}
        for number in sorted(self._lower, key=lambda n: int(self._ranks[n, 0])):  # type: ignore[index]
            if self._ranks[number, 0] <= high and self._ranks[number, 1] >= low:
                runs.setdefault(self._files[number].level, []).append(number)
        return [tuple(run) for _, run in sorted(runs.items())]

    def _streams(self, runs: Sequence[tuple[int, ...]], aside: SpillFile) -> list[Iterator[pa.RecordBatch]]:
        """The rows of runs. The smallest are spilled to disk first where there are too many."""
        rows = self._run_rows(runs)
        sizes = [sum(self._files[n].row_count for n in run) for run in runs]
        small = sorted_merge.runs_to_spill(sizes)
        out = []
        for number, run in enumerate(runs):
            batches = self._stream(run, rows, min(len(sizes), sorted_merge.MOST_OPEN))
            if number in small:
                spilled = aside.put(batches, sorted_merge.WINDOW_BYTES // len(runs))
                batches = iter(()) if spilled is None else aside.read(spilled)
            out.append(batches)
        return out

    def _stream(self, numbers: Sequence[int], batch_rows: int, open_files: int) -> Iterator[pa.RecordBatch]:
        fields = fields_of(self._request.schema, self._plan.output)
        names = [SEQUENCE_NUMBER, VALUE_KIND, *self._plan.output]
        since_last = self._rule is not None and self._rule.since_last_level
        if self._levels_count:
            names.append(LEVEL)
        if since_last:
            names.append(IN_LAST_LEVEL)
        if self._marks:
            names += [_FILE, _POSITION]
        for number in numbers:
            file = self._files[number]
            for rows in iter_rows(
                self._request,
                self._split,
                file,
                self._split.deletion_of(number),
                fields,
                batch_rows=batch_rows,
                extra=_READ_FIELDS,
                open_files=open_files,
            ):
                checked = system_columns(self._request.store, self._split, file, _READ_FIELDS, rows.extra)
                rows = rows._replace(extra=checked)
                arrays = [*rows.extra, *rows.columns]
                if self._levels_count:
                    arrays.append(constant_int32(file.level, rows.row_count))
                if since_last:
                    arrays.append(constant_int32(int(file.level == self._last), rows.row_count))
                if self._marks:
                    arrays.append(constant_int32(number, rows.row_count))
                    arrays.append(arrow_numpy.fixed_array(rows.positions, pa.int64()))
                yield pa.RecordBatch.from_arrays(arrays, names=names)

    def _run_rows(self, runs: Sequence[tuple[int, ...]]) -> int:
        """Rows of a run in a window, so that all runs together are within the budget."""
        files = [self._files[n] for run in runs for n in run]
        return sorted_merge.window_rows(sorted_merge.decoded_row_bytes(files), len(runs))


def _changelog_rule(options: TableOptions, names: Sequence[str], *, into_last: bool) -> ChangelogRule | None:
    """The changelog to write; None when this compaction writes none."""
    producer = options.changelog_producer
    if producer is ChangelogProducer.FULL_COMPACTION and not into_last:
        return None
    if producer not in (ChangelogProducer.LOOKUP, ChangelogProducer.FULL_COMPACTION):
        return None
    compaction = options.compaction
    compared = None
    if compaction.row_deduplicate:
        compared = tuple(n for n in names if n not in compaction.row_deduplicate_ignored)
    full = producer is ChangelogProducer.FULL_COMPACTION
    return ChangelogRule(not full and options.merge_engine is MergeEngine.FIRST_ROW, compared, since_last_level=full)


_SMALLEST_MILLIS = 1_000_000_000_000
"""A BIGINT from here on counts milliseconds, below it seconds."""


@dataclass(frozen=True, slots=True)
class RecordExpiry:
    """Record-level expiry: rows that have `field` before `oldest_s`, seconds since the epoch, once they are merged."""

    field: DataField
    oldest_s: int

    @classmethod
    def of(cls, handle: TableHandle) -> RecordExpiry | None:
        """As of now; None for tables whose rows do not expire.

        Raises:
            InvalidOptionError: the options do not name the column.
            ColumnNotFoundError: there is no such column.
        """
        options = handle.options.record_expiry
        if options is None:
            return None
        return cls(fields_of(handle.schema, (options.column,))[0], int(time.time()) - options.kept_s)

    def kept(self, column: pa.Array) -> Bool:
        """Whether each row stays, by its value of the column. Rows without a time stay."""
        return (_seconds(column) >= self.oldest_s) | ~arrow_numpy.validity(column)

    def touches(self, file: DataFileMeta, schemas: Mapping[int, TableSchema]) -> bool:
        """Whether the smallest value in the file is too old; False when it is unknown."""
        fields = schemas[file.schema_id].fields
        if file.value_stats_cols is not None:
            by_name = {f.name: f for f in fields}
            fields = tuple(by_name[n] for n in file.value_stats_cols)
        at = next((i for i, f in enumerate(fields) if f.id == self.field.id), None)
        if at is None or not file.value_stats.min_values:
            return False
        smallest = decode_column(array_of([file.value_stats.min_values], pa.binary()), at, fields[at].type, exact=False)
        return smallest.null_count == 0 and not self.kept(smallest).all()


def _seconds(column: pa.Array) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Times as seconds since the epoch; anything for nulls."""
    filled = column.fill_null(pa.scalar(0).cast(column.type)) if column.null_count else column
    if pa.types.is_timestamp(column.type):
        per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[column.type.unit]
        return np.asarray(arrow_numpy.values(pc.cast(filled, pa.int64())) // per_second, np.int64)
    numbers = arrow_numpy.values(filled).astype(np.int64)
    return np.where(numbers >= _SMALLEST_MILLIS, numbers // 1000, numbers)
