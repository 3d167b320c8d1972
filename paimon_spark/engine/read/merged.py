"""Merge on read: merge the files of a bucket by key, and compare two merged states.

Sections of files with overlapping keys follow each other in key order. A section with one sorted run needs no merge. If
the merge engine keeps whole rows and the keys fit a budget, a key mask is computed and the files stream through it;
otherwise windows of keys are merged.

Waiting rows of a postponed bucket are neither sorted nor numbered: those of the bucket are sorted in chunks, spilled,
and merged in the order in which they were written. What comes out is merged with the merged rows of the bucket's files,
as newer rows; columns of `sequence.field` decide first.

Source: Java `operation/MergeFileSplitRead`, `table/source/splitread/IncrementalDiffSplitRead`,
`table/source/splitread/IncrementalChangelogReadProvider`, `operation/MergeFileSplitRead.createPostponeMergeReader`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.engine.merge import sorted_merge
from paimon_spark.engine.merge.changelog import AFTER, BEFORE, Difference
from paimon_spark.engine.merge.functions import create_merge_function
from paimon_spark.engine.merge.key_value import AGE, LEVEL, constant_int32, is_retract, take
from paimon_spark.engine.merge.ordering import column_words, pack, sort_unsorted_rows
from paimon_spark.engine.merge.runs import Section, competing_levels, key_ranks, oldest_first, sections
from paimon_spark.engine.merge.sorted_merge import MergePlan, SequenceField, batches_of, merge_runs, surviving_rows
from paimon_spark.engine.merge.spill import SpillFile, spilled
from paimon_spark.engine.read.file_reader import KIND_FIELD, SYSTEM_FIELDS, iter_file
from paimon_spark.engine.read.metadata_columns import output_schema, with_kind
from paimon_spark.engine.read.raw import kind_symbols, read_changes
from paimon_spark.engine.tasks import DataSplit, ReadRequest, SplitMode
from paimon_spark.errors import DataError, UnsupportedFeatureError
from paimon_spark.format import bucket_hash
from paimon_spark.format.arrays import arrow_numpy, pieces
from paimon_spark.format.arrays.arrow_types import record_batch
from paimon_spark.format.arrays.pieces import joined
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.options.core import MergeEngine
from paimon_spark.predicate.ast import Predicate, conjunction, conjuncts, names_of
from paimon_spark.types import VALUE_KIND, BinaryType, CharType, DataField, RowKind

_MASK_ROWS: Final = 4 << 20
_MASK_ROWS_TEXT: Final = 3 << 19
"""Rows of a section up to which its keys are held at once; fewer when keys have no fixed width."""


def read_merged(request: ReadRequest, split: DataSplit) -> Iterator[pa.RecordBatch]:
    """The merged rows of a split whose mode is MERGE; each of its files may hold any key.

    Batches have `output_schema(request)`: with `request.with_row_kind` kinds are in front and merged rows of kind
    -U and -D stay. The predicate skips row groups where that cannot change the result; rows that do not match
    it still come out.

    Raises:
        CorruptFileError: names the file that cannot be read.
        DataError: rows cannot be merged as the table demands (overflow, a retract that is refused).
        InvalidOptionError: options of the merge engine contradict each other.
        UnsupportedFeatureError: the engine needs something this package does not know.
    """
    merge = _SplitMerge(request, split, request.columns, request.with_row_kind, False)
    return finished(request, split, merge.batches())


def read_diff(request: ReadRequest, split: DataSplit) -> Iterator[pa.RecordBatch]:
    """The difference of `split.before_files` and `split.files`, both merged; sorted by key.

    Rows that came or changed are the rows after. With `request.with_row_kind` rows that went come too, as -D.
    Rows are compared in all columns. Batches and errors are those of `read_merged`.
    """
    return finished(request, split, _diff(request, split))


def finished(request: ReadRequest, split: DataSplit, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches in the output schema; data errors name the table and bucket."""
    schema = output_schema(request)
    try:
        for batch in batches:
            arrays = batch.columns
            if request.with_row_kind:
                arrays = [kind_symbols(arrays[0]), *arrays[1:]]
            yield record_batch(arrays, schema, batch.num_rows)
    except DataError as e:
        raise DataError(
            f"table {request.table_name} (branch {split.branch}), snapshot {split.snapshot_id}, "
            f"bucket {split.bucket_path}: {e}",
            **e.context,
            table=request.table_name,
        ) from e


def _diff(request: ReadRequest, split: DataSplit) -> Iterator[pa.RecordBatch]:
    keep_deletes = request.with_row_kind
    everything = request.schema.row_type.names
    key_only = replace(request, predicate=key_predicate(request))
    states = [
        _marked(_SplitMerge(key_only, state, everything, keep_deletes, True).batches(), AGE, age)
        for state, age in ((earlier(split), BEFORE), (split, AFTER))
    ]
    plan = MergePlan(
        function=Difference(everything),
        key=request.schema.trimmed_primary_keys,
        sequence=(),
        output=request.columns,
        keep_deletes=True,
        batch_rows=request.batch_rows,
        every_key=True,
    )
    for batch in merge_runs(states, plan):
        yield batch if keep_deletes else _adds_only(batch)


def earlier(split: DataSplit) -> DataSplit:
    """The split of the files before."""
    return replace(split, files=split.before_files, deletions=split.before_deletions)


def key_predicate(request: ReadRequest) -> Predicate | None:
    """The part of the predicate on key columns only."""
    keys = frozenset(request.schema.trimmed_primary_keys)
    return conjunction([p for p in conjuncts(request.predicate) if names_of(p) and names_of(p) <= keys])


def _marked(batches: Iterator[pa.RecordBatch], name: str, value: int) -> Iterator[pa.RecordBatch]:
    """Batches with a constant column added."""
    for batch in batches:
        column = constant_int32(value, batch.num_rows)
        yield pa.RecordBatch.from_arrays([*batch.columns, column], names=[*batch.schema.names, name])


def _ahead(batches: Iterator[pa.RecordBatch], most_bytes: int) -> Iterator[pa.RecordBatch]:
    """The batches, read at once up to so many bytes."""
    held, size = [], 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size > most_bytes:
            break
    yield from held
    yield from batches


def _adds_only(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Drop -U and -D rows and the column `_VALUE_KIND`."""
    kinds = arrow_numpy.values(batch.column(VALUE_KIND))
    return _kept(batch.select([n for n in batch.schema.names if n != VALUE_KIND]), ~is_retract(kinds))


def _kept(batch: pa.RecordBatch, mask: npt.NDArray[np.bool_]) -> pa.RecordBatch:
    """The rows of a batch (possibly without columns) where `mask` is True."""
    if mask.all():
        return batch
    if batch.num_columns == 0:
        return record_batch([], batch.schema, int(np.count_nonzero(mask)))
    return batch.filter(arrow_numpy.boolean_array(mask))


def merge_plan(request: ReadRequest, columns: Sequence[str], *, keep_deletes: bool) -> MergePlan:
    """How the table merges rows of one key into `columns`. Raises InvalidOptionError, UnsupportedFeatureError."""
    options = request.options
    return MergePlan(
        function=create_merge_function(request.schema, options),
        key=request.schema.trimmed_primary_keys,
        sequence=tuple(SequenceField(n, options.sequence_descending) for n in options.sequence_fields),
        output=tuple(columns),
        keep_deletes=keep_deletes,
        batch_rows=request.batch_rows,
    )


@dataclass(frozen=True, slots=True)
class _SplitMerge:
    """One merge of the files of a split; with `by_key` its batches are sorted by key."""

    request: ReadRequest
    split: DataSplit
    columns: Sequence[str]
    keep_deletes: bool
    by_key: bool

    def batches(self) -> Iterator[pa.RecordBatch]:
        if not self.split.files:
            return
        if self.request.options.commit.snapshot_sequence_ordering:
            raise UnsupportedFeatureError(
                f"table {self.request.table_name}: merging rows of a table with 'sequence.snapshot-ordering' is "
                "not supported",
                feature="sequence.snapshot-ordering",
            )
        files, found = self.split.files, [Section(((0,),))]
        if len(files) > 1:
            found = sections(key_ranks(files, [f.type for f in self.request.schema.key_type]))
        for section in found:
            if len(section.runs) == 1:
                yield from self._single_run(section)
            else:
                yield from self._merge(section)

    def _single_run(self, section: Section) -> Iterator[pa.RecordBatch]:
        """Read files that share no key with others: only deletes are removed."""
        for number in section.files:
            kinds = self.keep_deletes or not self.split.files[number].has_no_retracts
            system = (KIND_FIELD,) if kinds else ()
            for batch in self.read_file(number, self.columns, system, self.request.predicate, self.request.batch_rows):
                yield _adds_only(batch) if kinds and not self.keep_deletes else batch

    def read_file(
        self,
        number: int,
        columns: Sequence[str],
        system: Sequence[DataField],
        predicate: Predicate | None,
        batch_rows: int,
        open_files: int = 1,
    ) -> Iterator[pa.RecordBatch]:
        return iter_file(
            self.request,
            self.split,
            self.split.files[number],
            self.split.deletion_of(number),
            columns,
            predicate=predicate,
            batch_rows=batch_rows,
            system=system,
            open_files=open_files,
        )

    def _merge(self, section: Section) -> Iterator[pa.RecordBatch]:
        request, files = self.request, self.split.files
        options = request.options
        section, runs_in_order = oldest_first(section, files)
        plan = merge_plan(request, self.columns, keep_deletes=self.keep_deletes)
        levels = (
            options.need_lookup
            and options.merge_engine is not MergeEngine.FIRST_ROW
            and competing_levels(section, files)
        )
        picks_rows = options.merge_engine in (MergeEngine.DEDUPLICATE, MergeEngine.FIRST_ROW)
        rows = sum(files[f].row_count for f in section.files)
        work = _SectionMerge(self, section, plan, key_predicate(request), runs_in_order, levels)
        wide = any(isinstance(f.type, (CharType, BinaryType)) for f in request.schema.key_type)
        if picks_rows and not self.by_key and rows <= (_MASK_ROWS_TEXT if wide else _MASK_ROWS):
            return work.masked()
        return work.windowed()


@dataclass(frozen=True, slots=True)
class _SectionMerge:
    """The merge of one section of several runs.

    Attributes:
        key_predicate: for skipping; the same for all rows of a key.
        runs_in_order: the order of the runs is the order of the rows of a key.
        levels: of a key's rows above level 0 only that of the smallest level counts.
    """

    merge: _SplitMerge
    section: Section
    plan: MergePlan
    key_predicate: Predicate | None
    runs_in_order: bool
    levels: bool

    @property
    def _files(self) -> tuple[DataFileMeta, ...]:
        return self.merge.split.files

    def _system(self) -> tuple[DataField, ...]:
        """The system columns to read: sequence numbers and kinds, where order or deletes depend on them."""
        if not self.runs_in_order:
            return SYSTEM_FIELDS
        retracts = any(not self._files[f].has_no_retracts for f in self.section.files)
        return (KIND_FIELD,) if retracts or self.merge.keep_deletes else ()

    def _inputs(
        self, number: int, columns: Sequence[str], batch_rows: int, open_files: int = 1
    ) -> Iterator[pa.RecordBatch]:
        """The columns of a file that the merge needs, with those that order rows."""
        batches = self.merge.read_file(number, columns, self._system(), self.key_predicate, batch_rows, open_files)
        return _marked(batches, LEVEL, self._files[number].level) if self.levels else batches

    def windowed(self) -> Iterator[pa.RecordBatch]:
        """Merge window by window, sorted by key."""
        columns = tuple(
            dict.fromkeys(
                (*self.plan.key, *(s.name for s in self.plan.sequence), *self.plan.function.required(self.plan.output))
            )
        )
        row_bytes = sorted_merge.decoded_row_bytes([self._files[f] for f in self.section.files])
        run_rows = sorted_merge.window_rows(row_bytes, len(self.section.runs))
        open_files = min(len(self.section.runs), sorted_merge.MOST_OPEN)
        # Files read in one go are closed at once: there may be more of them than a process can hold open.
        whole = sum(self._files[f].row_count for f in self.section.files) * row_bytes <= sorted_merge.WINDOW_BYTES

        run_bytes = sorted_merge.WINDOW_BYTES // len(self.section.runs)
        few = len(self.section.runs) <= sorted_merge.MOST_OPEN

        def run(numbers: Sequence[int]) -> Iterator[pa.RecordBatch]:
            for number in numbers:
                batches = self._inputs(number, columns, run_rows, open_files)
                at_once = whole or self._files[number].row_count <= run_rows
                yield from (_ahead(batches, run_bytes) if few else list(batches)) if at_once else batches

        rows = [sum(self._files[f].row_count for f in r) for r in self.section.runs]
        small = frozenset[int]() if whole else sorted_merge.runs_to_spill(rows)
        runs = [spilled(run(r), run_bytes) if n in small else run(r) for n, r in enumerate(self.section.runs)]
        return merge_runs(runs, self.plan, run_rows)

    def masked(self) -> Iterator[pa.RecordBatch]:
        """Decide by keys which rows survive, then read each file's columns through its mask, in file order."""
        keys = tuple(dict.fromkeys((*self.plan.key, *(s.name for s in self.plan.sequence))))
        numbers = self.section.files
        held: list[pa.RecordBatch] = []
        counts, size = [], 0
        for number in numbers:
            counts.append(0)
            for batch in self._inputs(number, keys, self.merge.request.batch_rows):
                counts[-1] += batch.num_rows
                size += batch.nbytes
                held.append(batch)
                if size > pieces.ARRAY_BYTES // 2:  # long keys
                    del held
                    yield from self.windowed()
                    return
        if not held:
            return
        keyed = {n: pieces.joined([b.column(i) for b in held]) for i, n in enumerate(held[0].schema.names)}
        del held
        if VALUE_KIND in keyed and not self.merge.keep_deletes and not arrow_numpy.values(keyed[VALUE_KIND]).any():
            del keyed[VALUE_KIND]  # only inserts, as in most sections
        alive = surviving_rows(keyed, self.plan)
        known = {n: keyed[n] for n in (VALUE_KIND, *self.plan.output) if n in keyed}
        del keyed
        begin = 0
        for number, count in zip(numbers, counts, strict=True):
            mask = alive[begin : begin + count]
            if mask.any():
                part = {n: column.slice(begin, count) for n, column in known.items()}
                yield from self._through(number, mask, part)
            begin += count

    def _through(
        self, number: int, mask: npt.NDArray[np.bool_], known: Mapping[str, pa.Array]
    ) -> Iterator[pa.RecordBatch]:
        """A file's output columns where `mask` is True; columns in `known` are not read again."""
        names = list(self.plan.output)
        unread = [n for n in names if n not in known]
        if self.merge.keep_deletes:
            names.insert(0, VALUE_KIND)
        at = 0
        for batch in self._values(number, unread, len(mask)):
            here = slice(at, at + batch.num_rows)
            at += batch.num_rows
            if at > len(mask):
                break
            if not mask[here].any():
                continue
            found = {n: known[n].slice(here.start, batch.num_rows) for n in names if n in known}
            found.update((n, batch.column(i)) for i, n in enumerate(unread))
            schema = pa.schema([pa.field(n, found[n].type) for n in names])
            yield _kept(record_batch([found[n] for n in names], schema, batch.num_rows), mask[here])
        if at != len(mask):
            raise DataError(
                f"file {self._files[number].file_name} had {len(mask)} rows at the first read, {at} at the second",
                path=self._files[number].file_name,
            )

    def _values(self, number: int, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """The columns of a file whose keys were read; without columns, only the row count.

        The columns of the predicate must be read along, or the reader would not skip what it skipped before.
        """
        batch_rows = self.merge.request.batch_rows
        if not columns:
            return batches_of([], [], rows, batch_rows)
        tested = sorted(names_of(self.key_predicate) - set(columns))
        return self.merge.read_file(number, (*columns, *tested), (), self.key_predicate, batch_rows)


def read_replaced(request: ReadRequest, split: DataSplit) -> Iterator[pa.RecordBatch]:
    """The merged rows of `split.before_files`, each as -D, then those of `split.files`, each as +I.

    Without `request.with_row_kind` only the latter, as everywhere. Files of a postponed bucket are not merged: all
    rows that were added to it go, and those that come have the kinds they were written with. Batches and errors are
    those of `read_merged`.
    """
    plain = replace(request, with_row_kind=False)
    if request.with_row_kind:
        yield from with_kind(RowKind.DELETE, request, _rows(plain, earlier(split)))
    if split.bucket < 0 or not request.with_row_kind:
        yield from _rows(request, split)
    else:
        yield from with_kind(RowKind.INSERT, request, _rows(plain, split))


def _rows(request: ReadRequest, split: DataSplit) -> Iterator[pa.RecordBatch]:
    if not split.files:
        return iter(())
    if split.bucket < 0:
        return read_changes(request, replace(split, mode=SplitMode.CHANGES))
    return read_merged(request, replace(split, mode=SplitMode.MERGE))


_SPILLED_ROWS: Final = 4096
"""Rows of a spilled batch: one of each chunk is in memory while chunks are merged."""


def read_postponed(request: ReadRequest, split: DataSplit) -> Iterator[pa.RecordBatch]:
    """The merged rows of a split whose mode is POSTPONED; batches and errors are those of `read_merged`."""
    return finished(request, split, _batches(request, split))


def _batches(request: ReadRequest, split: DataSplit) -> Iterator[pa.RecordBatch]:
    # A waiting row may change whether its key matches: only conditions on keys skip anything before the merge.
    request = replace(request, predicate=key_predicate(request))
    plan = merge_plan(request, request.columns, keep_deletes=request.with_row_kind)
    needed = tuple(dict.fromkeys((*plan.key, *(s.name for s in plan.sequence), *plan.function.required(plan.output))))
    partial = replace(plan, output=needed, keep_deletes=True)
    settled = _SplitMerge(request, earlier(split), needed, keep_deletes=True, by_key=True).batches()
    waiting = _Waiting(request, split, partial).batches()
    run_rows = sorted_merge.window_rows(sorted_merge.decoded_row_bytes((*split.before_files, *split.files)), 2)
    yield from merge_runs([settled, waiting], plan, run_rows)


@dataclass(frozen=True, slots=True)
class _Waiting:
    """The waiting rows of one bucket, merged by key."""

    request: ReadRequest
    split: DataSplit
    plan: MergePlan

    def batches(self) -> Iterator[pa.RecordBatch]:
        with closing(SpillFile()) as spill:
            runs = [run for chunk in self._chunks() if (run := spill.put(self._sorted(chunk))) is not None]
            if runs:
                row_bytes = max(16, sum(r.size_bytes for r in runs) // sum(r.row_count for r in runs))
                run_rows = sorted_merge.window_rows(row_bytes, len(runs))
                yield from merge_runs([spill.read(r) for r in runs], self.plan, run_rows)

    def _chunks(self) -> Iterator[list[pa.RecordBatch]]:
        """The rows of the bucket in the order in which they were written, about half a window at a time."""
        chunk: list[pa.RecordBatch] = []
        for batch in self._rows():
            chunk.append(batch)
            if sum(b.nbytes for b in chunk) >= sorted_merge.WINDOW_BYTES // 2:
                yield chunk
                chunk = []
        if chunk:
            yield chunk

    def _rows(self) -> Iterator[pa.RecordBatch]:
        request, split = self.request, self.split
        keys, function = list(request.schema.bucket_keys), request.options.bucket_function
        for number, file in enumerate(split.files):
            for batch in iter_file(
                request,
                split,
                file,
                split.deletion_of(number),
                self.plan.output,
                batch_rows=request.batch_rows,
                system=(KIND_FIELD,),
            ):
                here = bucket_hash.buckets(batch.select(keys), split.total_buckets, function) == split.bucket
                if here.any():
                    yield batch if here.all() else batch.filter(arrow_numpy.boolean_array(here))

    def _sorted(self, chunk: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows by key, those of one key as they were written."""
        names = [VALUE_KIND, *self.plan.output]
        columns = {n: joined([b.column(i) for b in chunk]) for i, n in enumerate(names)}
        count = sum(b.num_rows for b in chunk)
        words = pack([word for key in self.plan.key for word in column_words(columns[key])])
        order, _ = sort_unsorted_rows(words, count)
        for begin in range(0, count, _SPILLED_ROWS):
            rows = order[begin : begin + _SPILLED_ROWS]
            yield from batches_of([take(columns[n], rows) for n in names], names, len(rows), _SPILLED_ROWS)
