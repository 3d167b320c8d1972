"""Compaction that makes level 0 visible: tables whose readers see only what was merged into higher levels.

Level 0 of a bucket is merged with all files it shares keys with, into the last level. What is written is complete:
nothing below has to be looked up later.

Source: Java `mergetree/compact/MergeTreeCompactTask`, `ChangelogMergeTreeRewriter`, `LookupMergeTreeCompactRewriter`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import DataError
from paimon_spark.handoff.commit_message import CommitMessage, Increment
from paimon_spark.handoff.read_request import ReadRequest
from paimon_spark.handoff.split import DataSplit, DeletionFile, SplitMode
from paimon_spark.maintenance.bucket_vectors import BucketVectors
from paimon_spark.maintenance.pick import Rewrite, Upgrade, pick_level0
from paimon_spark.merge.functions import create_merge_function
from paimon_spark.merge.key_value import LEVEL, constant_int32, is_retract
from paimon_spark.merge.lookup import ChangelogRule, EveryKey, changelog_of
from paimon_spark.merge.runs import Section
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
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests
from paimon_spark.metadata.partition_path import bucket_path_of
from paimon_spark.metadata.schemas import schemas_by_id
from paimon_spark.options.commit import WRITE_ONLY
from paimon_spark.options.compaction import parse_compaction_options
from paimon_spark.options.data_files import parse_data_file_options
from paimon_spark.options.table import ChangelogProducer, MergeEngine, TableOptions
from paimon_spark.read.file_reader import iter_file
from paimon_spark.scan.deletions import Deletions, deletions_of
from paimon_spark.spec import arrow_numpy
from paimon_spark.spec.arrow import arrow_schema
from paimon_spark.spec.arrow_values import array_of
from paimon_spark.spec.data_file import DataFileMeta, FileSource
from paimon_spark.spec.manifest import files_of
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.write.merge_tree import SYSTEM_FIELDS
from paimon_spark.write.request import WriteRequest
from paimon_spark.write.rolling import DataFiles, RollingWriter

_SMALL_RATIO: Final = 0.7
"""Files below this part of the target size are small (Java `compaction.small-file-ratio`)."""
_WINDOW_BYTES: Final = 96 << 20
_EXPANSION: Final = 4
_MOST_OPEN: Final = 16
"""Runs whose files stay open during a merge; each costs pages and dictionaries of all its columns."""
_BATCH_ROWS: Final = 65536


def hides_level0(handle: TableHandle) -> bool:
    """Whether rows of a write can be read only after `compact_level0`, or their changelog comes with it."""
    options = handle.options
    return bool(handle.schema.primary_keys) and (options.need_lookup or options.merge_engine is MergeEngine.FIRST_ROW)


def compact_level0(
    handle: TableHandle, snapshot: Snapshot, buckets: Collection[tuple[bytes, int]], commit_user: str
) -> list[CommitMessage]:
    """Merge level 0 of some buckets into the last level, with the changelog of producer `lookup`. Commits nothing.

    Nothing is done for tables where level 0 is visible, and for those of `write-only`, where another job compacts.

    Args:
        handle: the branch, with its latest schema.
        snapshot: its head.
        buckets: partition (BinaryRow bytes) and bucket of each.
        commit_user: who will commit.

    Returns:
        A message for each bucket that had files of level 0, to be committed as it is. When the commit fails for
        certain, `Committer.abort` removes their files; level 0 then waits for the next compaction.

    Raises:
        DataError: rows cannot be merged as the table demands.
        CorruptFileError, StorageError: a file cannot be read or written; no file is left.
        UnsupportedFeatureError: a file cannot be read.
    """
    if not hides_level0(handle) or WRITE_ONLY.get(handle.options.raw):
        return []
    request = WriteRequest(handle, commit_user, snapshot)
    deletions = deletions_of(handle, snapshot)
    out: list[CommitMessage] = []
    made: list[_BucketCompaction] = []
    try:
        for bucket in _live_buckets(handle, snapshot, buckets):
            if bucket.bucket < 0 or not any(f.level == 0 for f in bucket.files):
                continue
            made.append(_BucketCompaction(request, snapshot, bucket, deletions))
            out.append(made[-1].run())
    except BaseException:
        for compaction in made:
            compaction.abort()
        raise
    return out


class _Bucket(NamedTuple):
    partition: bytes
    bucket: int
    total_buckets: int
    files: list[DataFileMeta]


def _live_buckets(handle: TableHandle, snapshot: Snapshot, wanted: Collection[tuple[bytes, int]]) -> Iterator[_Bucket]:
    """The live files of the wanted buckets."""
    if not wanted:
        return
    entries = live_entries(handle, data_manifests(handle, snapshot))
    partitions = array_of(sorted({p for p, _ in wanted}), pa.binary())
    entries = entries.filter(pc.is_in(entries.column("partition"), value_set=partitions)).combine_chunks()
    places = list(zip(entries.column("partition").to_pylist(), entries.column("bucket").to_pylist(), strict=True))
    totals = entries.column("total_buckets").to_pylist()
    files = files_of(entries)
    rows: dict[tuple[bytes, int], list[int]] = {}
    for row, place in enumerate(places):
        rows.setdefault(place, []).append(row)
    for place in sorted(set(wanted) & rows.keys()):
        numbers = rows[place]
        yield _Bucket(*place, totals[numbers[0]], [files[n] for n in numbers])


class _Output(NamedTuple):
    """Where a merge goes: files of the last level (None: the file stays as it is), and changelog files."""

    data: RollingWriter | None
    changelog: RollingWriter | None


@dataclass(slots=True)
class _BucketCompaction:
    """The compaction of one bucket."""

    request: WriteRequest
    snapshot: Snapshot
    bucket: _Bucket
    deletions: Deletions
    vectors: BucketVectors = field(init=False)
    _open: list[RollingWriter] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.vectors = BucketVectors(self.handle, self.snapshot, self.bucket.partition, self.bucket.bucket)

    @property
    def handle(self) -> TableHandle:
        return self.request.handle

    def run(self) -> CommitMessage:
        """Write the new files and say what replaces what."""
        files = self.bucket.files
        level = max(self.handle.options.num_levels - 1, *(f.level for f in files))
        outputs = DataFiles(self.request, self.bucket.partition, self.bucket.bucket)
        merge = _Merge(self)
        gone: list[DataFileMeta] = []
        new: list[DataFileMeta] = []
        changelog: list[DataFileMeta] = []
        for step in self._steps(level):
            log = self._opened(outputs.changelog(level)) if merge.rule is not None else None
            match step:
                case Upgrade(number):
                    gone.append(files[number])
                    new.append(files[number]._replace(level=level))
                    if log is not None:
                        merge.write((Section(((number,),)),), _Output(None, log))
                case Rewrite(sections):
                    data = self._opened(outputs.data(level, FileSource.COMPACT))
                    merge.write(sections, _Output(data, log))
                    gone += [files[n] for n in step.files]
                    new += data.close()
            if log is not None:
                changelog += log.close()
        kept_names = {f.file_name for f in files} - {f.file_name for f in gone} | {f.file_name for f in new}
        new_index, old_index = self.vectors.keep_only(kept_names)
        increment = Increment(tuple(new), tuple(gone), tuple(changelog), new_index, old_index)
        return CommitMessage(self.bucket.partition, self.bucket.bucket, self.bucket.total_buckets, compact=increment)

    def _steps(self, level: int) -> list[Rewrite | Upgrade]:
        raw = self.handle.options.raw
        options = parse_data_file_options(raw, True)
        extension = options.data(level).extension(options.suffix_with_codec)

        def may_upgrade(file: DataFileMeta) -> bool:
            return file.delete_row_count == 0 and file.file_name.endswith(extension)

        return pick_level0(
            self.bucket.files,
            [f.type for f in self.handle.schema.key_type],
            small_bytes=int(options.target_file_size * _SMALL_RATIO),
            trigger=parse_compaction_options(raw).trigger,
            may_upgrade=may_upgrade,
        )

    def _opened(self, writer: RollingWriter) -> RollingWriter:
        self._open.append(writer)
        return writer

    def abort(self) -> None:
        """Remove every file made. Raises nothing."""
        for writer in self._open:
            writer.abort()
        self.vectors.abort()


class _Merge:
    """Merging files of one bucket."""

    def __init__(self, compaction: _BucketCompaction) -> None:
        handle, bucket = compaction.handle, compaction.bucket
        schema, options = handle.schema, handle.options
        self._handle = handle
        self._files = bucket.files
        self._vectors = compaction.deletions.of(bucket.partition, bucket.bucket, bucket.files)
        self._path = bucket_path_of(handle, bucket.partition, bucket.bucket)
        names = tuple(schema.row_type.names)
        function = create_merge_function(schema, options)
        self._plan = MergePlan(
            function=EveryKey(function) if options.need_lookup and not _is_first_row(options) else function,
            key=schema.trimmed_primary_keys,
            sequence=tuple(SequenceField(n, options.sequence_descending) for n in options.sequence_fields),
            output=names,
            keep_deletes=True,
            batch_rows=_BATCH_ROWS,
            sequence_numbers=True,
        )
        self._schema = pa.schema([*SYSTEM_FIELDS, *arrow_schema(schema.fields)])
        self.rule = _changelog_rule(options, names)
        self._request = ReadRequest(
            store=handle.store,
            table_name=handle.name,
            branch=handle.branch,
            schema=schema,
            file_schemas=schemas_by_id(handle, {f.schema_id for f in bucket.files}),
            options=options,
            columns=names,
        )
        self._split = DataSplit(
            handle.branch,
            compaction.snapshot.id,
            bucket.partition,
            bucket.bucket,
            self._path,
            SplitMode.MERGE,
            tuple(bucket.files),
            self._vectors,
        )

    def write(self, sections: Sequence[Section], output: _Output) -> None:
        """Merge sections, one after the other, into `output`."""
        try:
            for section in sections:
                with closing(SpillFile()) as aside:
                    for window in windows(self._runs(section, aside), self._plan, self._run_rows(section)):
                        self._write_window(window, output)
        except DataError as e:
            raise DataError(
                f"compaction of {self._handle.describe()}, bucket {self._path}: {e.message}", **e.context
            ) from e

    def _write_window(self, window: Window, output: _Output) -> None:
        merged = merge_columns(window, self._plan)
        if output.changelog is not None:
            assert self.rule is not None
            names, arrays = changelog_of(window, merged, self.rule)
            for batch in batches_of(arrays, names, len(arrays[0]), _BATCH_ROWS):
                output.changelog.write(self._typed(batch))
        if output.data is not None:
            for batch in _without_deletes(merged):
                output.data.write(self._typed(batch))

    def _typed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(batch.columns, schema=self._schema)

    def _runs(self, section: Section, aside: SpillFile) -> list[Iterator[pa.RecordBatch]]:
        """The sorted runs of a section. When they are many, the smallest are put aside first, one after the other."""
        rows = self._run_rows(section)
        sizes = [sum(self._files[n].row_count for n in run) for run in section.runs]
        by_size = sorted(range(len(sizes)), key=sizes.__getitem__)
        many = set(by_size[: max(0, len(sizes) - _MOST_OPEN)])
        out = []
        for number, run in enumerate(section.runs):
            batches = self._run(run, rows, min(len(sizes), _MOST_OPEN))
            if number in many:
                spilled = aside.put(batches)
                batches = iter(()) if spilled is None else aside.read(spilled)
            out.append(batches)
        return out

    def _run(self, numbers: Sequence[int], batch_rows: int, open_files: int) -> Iterator[pa.RecordBatch]:
        for number in numbers:
            file = self._files[number]
            vector: DeletionFile | None = self._split.deletion_of(number)
            for batch in iter_file(
                self._request,
                self._split,
                file,
                vector,
                self._plan.output,
                batch_rows=batch_rows,
                system_columns=True,
                open_files=open_files,
            ):
                level = constant_int32(file.level, batch.num_rows)
                names = [*batch.schema.names, LEVEL]
                yield pa.RecordBatch.from_arrays([*batch.columns, level], names=names)

    def _run_rows(self, section: Section) -> int:
        """Rows of a run in a window, so that all runs together keep to the budget of bytes."""
        files = [self._files[n] for n in section.files]
        row_bytes = max(16, _EXPANSION * sum(f.file_size for f in files) // max(1, sum(f.row_count for f in files)))
        return max(512, min(_WINDOW_BYTES // row_bytes // len(section.runs), 32768))


def _is_first_row(options: TableOptions) -> bool:
    return options.merge_engine is MergeEngine.FIRST_ROW


def _changelog_rule(options: TableOptions, names: Sequence[str]) -> ChangelogRule | None:
    """What the changelog holds; None when this compaction makes none."""
    if options.changelog_producer is not ChangelogProducer.LOOKUP:
        return None
    compaction = parse_compaction_options(options.raw)
    compared = None
    if compaction.row_deduplicate:
        compared = tuple(n for n in names if n not in compaction.row_deduplicate_ignored)
    return ChangelogRule(_is_first_row(options), compared)


def _without_deletes(merged: MergedColumns) -> Iterator[pa.RecordBatch]:
    adds = ~is_retract(arrow_numpy.values(merged.arrays[1]))
    arrays = merged.arrays
    if not adds.all():
        rows = arrow_numpy.take_indices(np.flatnonzero(adds))
        arrays = [array.take(rows) for array in arrays]
    return batches_of(arrays, merged.names, int(np.count_nonzero(adds)), _BATCH_ROWS)
