"""Files of one bucket merged for a compaction, with a look at what lies deeper.

A row is *deep* when its file is below the output level and stays. Deep rows of keys that are written take part in the
merge as the rows that were visible before; with deletion vectors they are marked, so that nobody reads them again.

Source: Java `mergetree/compact/ChangelogMergeTreeRewriter`, `LookupChangelogMergeFunctionWrapper`,
`FirstRowMergeFunctionWrapper`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.errors import DataError
from paimon_spark.handoff.read_request import ReadRequest
from paimon_spark.handoff.split import DataSplit, SplitMode
from paimon_spark.merge.functions import create_merge_function
from paimon_spark.merge.key_value import LEVEL, Groups, constant_int32, is_retract
from paimon_spark.merge.lookup import ChangelogRule, EveryKey, changelog_of
from paimon_spark.merge.runs import Section, key_ranks
from paimon_spark.merge.sorted_merge import (
    MergedColumns,
    MergePlan,
    SequenceField,
    Window,
    batches_of,
    merge_columns,
    windows,
)
from paimon_spark.merge.spill import SpillFile
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.partition_path import bucket_path_of
from paimon_spark.metadata.schemas import schemas_by_id
from paimon_spark.options.compaction import parse_compaction_options
from paimon_spark.options.table import ChangelogProducer, MergeEngine, TableOptions
from paimon_spark.read.file_reader import fields_of, iter_rows
from paimon_spark.scan.deletions import Deletions
from paimon_spark.spec import arrow_numpy
from paimon_spark.spec.arrow import arrow_schema
from paimon_spark.spec.data_file import DataFileMeta
from paimon_spark.spec.deletion_vector import Positions
from paimon_spark.types import (
    BIGINT,
    SEQUENCE_NUMBER,
    SEQUENCE_NUMBER_ID,
    TINYINT,
    VALUE_KIND,
    VALUE_KIND_ID,
    DataField,
)
from paimon_spark.write.merge_tree import SYSTEM_FIELDS
from paimon_spark.write.rolling import RollingWriter

Bool = npt.NDArray[np.bool_]

_FILE: Final = "_FILE"
_POSITION: Final = "_POSITION"
"""Where a deep row lies: number of its file, and row in the file."""
_READ_FIELDS: Final = (
    DataField(SEQUENCE_NUMBER_ID, SEQUENCE_NUMBER, BIGINT.with_nullable(False)),
    DataField(VALUE_KIND_ID, VALUE_KIND, TINYINT.with_nullable(False)),
)
_WINDOW_BYTES: Final = 96 << 20
_EXPANSION: Final = 4
_MOST_OPEN: Final = 16
"""Runs whose files stay open during a merge; each costs pages and dictionaries of all its columns."""
_BATCH_ROWS: Final = 65536


class Bucket(NamedTuple):
    """A bucket and its live files."""

    partition: bytes
    bucket: int
    total_buckets: int
    files: list[DataFileMeta]


class Output(NamedTuple):
    """Where a merge goes: data files (None: the file stays as it is), and changelog files."""

    data: RollingWriter | None
    changelog: RollingWriter | None


class BucketMerge:
    """Merges files of one bucket into `level`."""

    def __init__(self, handle: TableHandle, snapshot_id: int, bucket: Bucket, deletions: Deletions, level: int) -> None:
        schema, options = handle.schema, handle.options
        self._handle = handle
        self._files = bucket.files
        self._level = level
        self._path = bucket_path_of(handle, bucket.partition, bucket.bucket)
        self._first_row = options.merge_engine is MergeEngine.FIRST_ROW
        self._marks = options.deletion_vectors and not self._first_row
        self._deep = [n for n, f in enumerate(bucket.files) if f.level > level]
        self._ranks = key_ranks(bucket.files, [f.type for f in schema.key_type]) if self._deep else None
        self._deleted: dict[int, list[Positions]] = {}
        function = create_merge_function(schema, options)
        self._plan = MergePlan(
            function=function if self._first_row or not options.need_lookup else EveryKey(function),
            key=schema.trimmed_primary_keys,
            sequence=tuple(SequenceField(n, options.sequence_descending) for n in options.sequence_fields),
            output=tuple(schema.row_type.names),
            keep_deletes=True,
            batch_rows=_BATCH_ROWS,
            sequence_numbers=True,
        )
        self._schema = pa.schema([*SYSTEM_FIELDS, *arrow_schema(schema.fields)])
        self._rule = _changelog_rule(options, self._plan.output)
        self._request = ReadRequest(
            store=handle.store,
            table_name=handle.name,
            branch=handle.branch,
            schema=schema,
            file_schemas=schemas_by_id(handle, {f.schema_id for f in bucket.files}),
            options=options,
            columns=self._plan.output,
        )
        self._split = DataSplit(
            handle.branch,
            snapshot_id,
            bucket.partition,
            bucket.bucket,
            self._path,
            SplitMode.MERGE,
            tuple(bucket.files),
            deletions.of(bucket.partition, bucket.bucket, bucket.files),
        )

    @property
    def makes_changelog(self) -> bool:
        return self._rule is not None

    @property
    def looks_deeper(self) -> bool:
        """Whether files that only move must be looked up in deeper levels nonetheless."""
        return self._marks and bool(self._deep)

    def deleted_rows(self) -> Mapping[str, Positions]:
        """Rows of deep files that what was written replaces: ascending positions by name of the data file."""
        return {self._files[n].file_name: np.unique(np.concatenate(p)) for n, p in sorted(self._deleted.items())}

    def write(self, sections: Sequence[Section], output: Output) -> None:
        """Merge sections, one after the other, into `output`.

        Raises:
            DataError: rows cannot be merged as the table demands; names table and bucket.
        """
        try:
            for section in sections:
                runs = [*section.runs, *self._deep_runs(section)]
                with closing(SpillFile()) as aside:
                    for window in windows(self._streams(runs, aside), self._plan, self._run_rows(runs)):
                        self._write_window(window, output)
        except DataError as e:
            raise DataError(
                f"compaction of {self._handle.describe()}, bucket {self._path}: {e.message}", **e.context
            ) from e

    def _write_window(self, window: Window, output: Output) -> None:
        deep: Bool | None = None
        if self._deep:
            written = self._written_keys(window)
            if written is None:
                return
            window, deep = written
        merged = merge_columns(window, self._plan)
        if output.changelog is not None:
            assert self._rule is not None
            names, arrays = changelog_of(window, merged, self._rule)
            for batch in batches_of(arrays, names, len(arrays[0]), _BATCH_ROWS):
                output.changelog.write(self._typed(batch))
        if output.data is not None:
            for batch in self._kept(merged, deep):
                output.data.write(self._typed(batch))

    def _written_keys(self, window: Window) -> tuple[Window, Bool] | None:
        """The keys of a window that are written, and which of them have a deep row; those rows are marked."""
        is_deep = arrow_numpy.values(window.columns[LEVEL])[window.order] > self._level
        groups = Groups(window.order, window.starts)
        written = groups.any(~is_deep)
        if not written.any():
            return None
        places = np.repeat(written, groups.sizes)
        chosen = groups.subset(written)
        is_deep = is_deep[places]
        if self._marks:
            self._mark(window, chosen.rows[is_deep])
        return Window(window.columns, chosen.rows, chosen.starts), chosen.any(is_deep)

    def _mark(self, window: Window, rows: npt.NDArray[np.int64]) -> None:
        files = arrow_numpy.values(window.columns[_FILE])[rows]
        positions = arrow_numpy.values(window.columns[_POSITION])[rows]
        for number in np.unique(files).tolist():
            self._deleted.setdefault(number, []).append(positions[files == number])

    def _kept(self, merged: MergedColumns, deep: Bool | None) -> Iterator[pa.RecordBatch]:
        """The merged rows that are written: deletes only where they still hide a row of a deeper level."""
        keep = np.ones(merged.row_count, np.bool_)
        if not (self._deep and not self._marks):
            keep = ~is_retract(arrow_numpy.values(merged.arrays[1]))
        elif self._first_row and deep is not None:
            keep = ~(deep if merged.alive is None else deep[merged.alive])
        arrays = merged.arrays
        if not keep.all():
            rows = arrow_numpy.take_indices(np.flatnonzero(keep))
            arrays = [array.take(rows) for array in arrays]
        return batches_of(arrays, merged.names, int(np.count_nonzero(keep)), _BATCH_ROWS)

    def _typed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(batch.columns, schema=self._schema)

    def _deep_runs(self, section: Section) -> list[tuple[int, ...]]:
        """Files of deeper levels that may hold keys of a section: a sorted run for each level."""
        if self._ranks is None:
            return []
        members = list(section.files)
        low, high = self._ranks[members, 0].min(), self._ranks[members, 1].max()
        runs: dict[int, list[int]] = {}
        for number in sorted(self._deep, key=lambda n: int(self._ranks[n, 0])):  # type: ignore[index]
            if self._ranks[number, 0] <= high and self._ranks[number, 1] >= low:
                runs.setdefault(self._files[number].level, []).append(number)
        return [tuple(run) for _, run in sorted(runs.items())]

    def _streams(self, runs: Sequence[tuple[int, ...]], aside: SpillFile) -> list[Iterator[pa.RecordBatch]]:
        """The rows of runs. When these are many, the smallest are put aside first, one after the other."""
        rows = self._run_rows(runs)
        sizes = [sum(self._files[n].row_count for n in run) for run in runs]
        by_size = sorted(range(len(sizes)), key=sizes.__getitem__)
        many = set(by_size[: max(0, len(sizes) - _MOST_OPEN)])
        out = []
        for number, run in enumerate(runs):
            batches = self._stream(run, rows, min(len(sizes), _MOST_OPEN))
            if number in many:
                spilled = aside.put(batches)
                batches = iter(()) if spilled is None else aside.read(spilled)
            out.append(batches)
        return out

    def _stream(self, numbers: Sequence[int], batch_rows: int, open_files: int) -> Iterator[pa.RecordBatch]:
        fields = fields_of(self._request.schema, self._plan.output)
        names = [SEQUENCE_NUMBER, VALUE_KIND, *self._plan.output, LEVEL]
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
                arrays = [*rows.extra, *rows.columns, constant_int32(file.level, rows.row_count)]
                if not self._marks:
                    yield pa.RecordBatch.from_arrays(arrays, names=names)
                    continue
                positions = arrow_numpy.fixed_array(rows.positions, pa.int64())
                arrays += [constant_int32(number, rows.row_count), positions]
                yield pa.RecordBatch.from_arrays(arrays, names=[*names, _FILE, _POSITION])

    def _run_rows(self, runs: Sequence[tuple[int, ...]]) -> int:
        """Rows of a run in a window, so that all runs together keep to the budget of bytes."""
        files = [self._files[n] for run in runs for n in run]
        row_bytes = max(16, _EXPANSION * sum(f.file_size for f in files) // max(1, sum(f.row_count for f in files)))
        return max(512, min(_WINDOW_BYTES // row_bytes // len(runs), 32768))


def _changelog_rule(options: TableOptions, names: Sequence[str]) -> ChangelogRule | None:
    """What the changelog holds; None when this compaction makes none."""
    if options.changelog_producer is not ChangelogProducer.LOOKUP:
        return None
    compaction = parse_compaction_options(options.raw)
    compared = None
    if compaction.row_deduplicate:
        compared = tuple(n for n in names if n not in compaction.row_deduplicate_ignored)
    return ChangelogRule(options.merge_engine is MergeEngine.FIRST_ROW, compared)
