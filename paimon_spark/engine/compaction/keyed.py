"""Compaction of one bucket with keys: its task (driver), and running it (executor).

Where level 0 is hidden until it is merged, rows of the same keys are looked up in levels below the result; tables with
deletion vectors mark them as deleted there.

Source: Java `mergetree/compact/MergeTreeCompactManager`, `MergeTreeCompactTask`, `MergeTreeCompactRewriter`,
`ChangelogMergeTreeRewriter`, `LookupMergeTreeCompactRewriter`, `FullChangelogMergeTreeCompactRewriter`,
`deletionvectors/BucketedDvMaintainer`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from paimon_spark.engine.compaction.bucket_merge import BucketMerge, Output, RecordExpiry
from paimon_spark.engine.compaction.pick import (
    MergeMode,
    Moment,
    Rewrite,
    Unit,
    Upgrade,
    last_level,
    output_level,
    pick_full,
    pick_level0,
    pick_merge,
    pick_universal,
)
from paimon_spark.engine.compaction.task import Bucket, BucketTask, read_request
from paimon_spark.engine.merge.runs import Section
from paimon_spark.engine.tasks import CommitMessage, Increment, SplitMode
from paimon_spark.engine.write.data_files import DataFiles, RollingWriter, wall_clock_ms
from paimon_spark.engine.write.request import WriteRequest, new_file_id
from paimon_spark.format.metadata_files.data_file import DataFileMeta, FileSource
from paimon_spark.format.metadata_files.deletion_vector import Positions
from paimon_spark.format.metadata_files.index_manifest import IndexManifestEntry
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.schemas import schemas_by_id
from paimon_spark.metadata.vector_files import read_vectors, united, write_vectors
from paimon_spark.options.compaction import CompactionOptions
from paimon_spark.options.core import MergeEngine

Vectors = Mapping[tuple[bytes, int], Sequence[IndexManifestEntry]]
"""Index files of deletion vectors by partition and bucket, as of `vector_files.vector_files`."""


def hides_level0(handle: TableHandle) -> bool:
    """Whether only a compaction makes written rows, or their changelog, readable."""
    options = handle.options
    return bool(handle.schema.primary_keys) and (options.need_lookup or options.merge_engine is MergeEngine.FIRST_ROW)


def keyed_tasks(handle: TableHandle, buckets: Iterable[Bucket], vectors: Vectors, *, full: bool) -> list[BucketTask]:
    """The tasks that compact buckets of a table with keys, one for each that needs it.

    Args:
        handle: the branch, with its latest schema.
        buckets: with all live files of their snapshot.
        vectors: of the same snapshot.
        full: all into the last level; else what is worth it now, and level 0 where it is hidden.
    """
    options = handle.options.compaction
    moment = Moment(time.localtime().tm_hour, wall_clock_ms())
    out = []
    for bucket in buckets:
        entries = tuple(vectors.get((bucket.partition, bucket.bucket), ()))
        unit = _unit(handle, options, bucket.files, entries, moment, full=full)
        if bucket.bucket >= 0 and unit is not None:
            out.append(BucketTask(*bucket[:3], tuple(bucket.files), entries, unit))
    return out


def _unit(
    handle: TableHandle,
    options: CompactionOptions,
    files: Sequence[DataFileMeta],
    vectors: Sequence[IndexManifestEntry],
    moment: Moment,
    *,
    full: bool,
) -> Unit | None:
    last = last_level(files, handle.options.num_levels)
    if full:
        marked, expires = _marked(vectors), _expiry_check(handle, files)
        return pick_full(files, last, options, lambda f: f.file_name in marked or expires(f))
    unit = pick_universal(files, last, options, moment)
    if unit is None and hides_level0(handle) and any(f.level == 0 for f in files):
        level = output_level(files, last, _small_bytes(handle, options))
        return Unit(tuple(n for n, f in enumerate(files) if f.level <= level), level, MergeMode.LEVEL_0)
    return unit


def _marked(vectors: Iterable[IndexManifestEntry]) -> frozenset[str]:
    """Names of the data files that have rows deleted."""
    return frozenset(r.data_file_name for e in vectors for r in e.deletion_vectors or ())


def _expiry_check(handle: TableHandle, files: Sequence[DataFileMeta]) -> Callable[[DataFileMeta], bool]:
    """Whether a file of a bucket has expired rows."""
    expiry = RecordExpiry.of(handle)
    if expiry is None:
        return lambda _: False
    schemas = schemas_by_id(handle, {f.schema_id for f in files})
    return lambda file: expiry.touches(file, schemas)


def _small_bytes(handle: TableHandle, options: CompactionOptions) -> int:
    return int(handle.options.data_files.target_bytes(keyed=True) * options.small_file_ratio)


def compact_bucket(
    handle: TableHandle, snapshot: Snapshot, task: BucketTask, commit_user: str, job: str | None = None
) -> CommitMessage:
    """Write the new files and the changelog of one bucket. Commits nothing. As `run.run_task`."""
    compaction = _BucketCompaction(WriteRequest(handle, commit_user, snapshot, job=job), snapshot, task)
    try:
        return compaction.run()
    except BaseException:
        compaction.abort()
        raise


@dataclass(slots=True)
class _BucketCompaction:
    request: WriteRequest
    snapshot: Snapshot
    task: BucketTask
    _open: list[RollingWriter] = field(default_factory=list)

    @property
    def handle(self) -> TableHandle:
        return self.request.handle

    @property
    def unit(self) -> Unit:
        assert self.task.unit is not None
        return self.task.unit

    def run(self) -> CommitMessage:
        task, level = self.task, self.unit.level
        files = task.files
        last = last_level(files, self.handle.options.num_levels)
        read = read_request(self.handle, self.snapshot, task, SplitMode.MERGE, task.vectors)
        merge = BucketMerge(self.handle, *read, level, last)
        outputs = DataFiles(self.request, task.partition, task.bucket)
        gone: list[DataFileMeta] = []
        new: list[DataFileMeta] = []
        changelog: list[DataFileMeta] = []
        for step in self._steps(last, merge):
            numbers = step.files if isinstance(step, Rewrite) else (step.file,)
            log = self._opened(outputs.changelog(level)) if merge.makes_changelog(numbers) else None
            match step:
                case Upgrade(number):
                    gone.append(files[number])
                    new.append(files[number]._replace(level=level))
                    if log is not None or merge.needs_lookup(numbers):
                        merge.write((Section(((number,),)),), Output(None, log))
                case Rewrite(sections):
                    data = self._opened(outputs.data(level, FileSource.COMPACT))
                    merge.write(sections, Output(data, log))
                    gone += [files[n] for n in numbers]
                    new += data.close()
            if log is not None:
                changelog += log.close()
        kept = {f.file_name for f in files} - {f.file_name for f in gone} | {f.file_name for f in new}
        file_id = new_file_id(self.request.job)
        index = changed_bucket_vectors(self.handle, task, kept, merge.deleted_rows(), file_id)
        increment = Increment(tuple(new), tuple(gone), tuple(changelog), *index)
        return CommitMessage(task.partition, task.bucket, task.total_buckets, compact=increment)

    def _steps(self, last: int, merge: BucketMerge) -> list[Rewrite | Upgrade]:
        unit, files = self.unit, self.task.files
        if unit.mode is MergeMode.EACH_ALONE:
            return [Rewrite((Section(((n,),)),)) for n in unit.files]
        options = self.handle.options.compaction
        expires = _expiry_check(self.handle, files)
        types = [f.type for f in self.handle.schema.key_type]
        small_bytes = _small_bytes(self.handle, options)
        if unit.mode is MergeMode.LEVEL_0:
            return pick_level0(
                files,
                types,
                level=unit.level,
                small_bytes=small_bytes,
                trigger=options.trigger,
                may_upgrade=lambda f: self._may_leave_level0(f, merge) and not expires(f),
            )
        whole = len(unit.files) == len(files)
        marked = _marked(self.task.vectors) if whole and unit.level == last else frozenset()

        def must_rewrite(file: DataFileMeta) -> bool:
            if unit.level == last and merge.may_hold_retracts(file):
                return True
            if file.file_name in marked or (whole and options.force_rewrite) or expires(file):
                return True
            return file.level == 0 and hides_level0(self.handle) and not self._may_leave_level0(file, merge)

        return pick_merge(files, types, unit, small_bytes=small_bytes, must_rewrite=must_rewrite)

    def _may_leave_level0(self, file: DataFileMeta, merge: BucketMerge) -> bool:
        """Whether a file that shares no key with other files may leave a hidden level 0 unchanged."""
        table, level = self.handle.options, self.unit.level
        options = table.data_files
        extension = options.data(level).extension(options.suffix_with_codec)
        # Rows of deeper levels may change the result of all engines but this.
        as_they_are = table.merge_engine is MergeEngine.DEDUPLICATE and not table.sequence_fields
        final = as_they_are or all(f.level <= level for f in self.task.files)
        return final and file.file_name.endswith(extension) and not merge.may_hold_retracts(file)

    def _opened(self, writer: RollingWriter) -> RollingWriter:
        self._open.append(writer)
        return writer

    def abort(self) -> None:
        """Remove the data files made; without them no index file was written. Raises nothing."""
        for writer in self._open:
            writer.abort()


def changed_bucket_vectors(
    handle: TableHandle,
    task: BucketTask,
    kept: Collection[str],
    deleted: Mapping[str, Positions],
    file_id: str,
) -> tuple[tuple[IndexManifestEntry, ...], tuple[IndexManifestEntry, ...]]:
    """The index files to add and to replace, as a bucket has all of its deletion vectors in one file.

    Args:
        handle: the branch.
        task: has the bucket's index files.
        kept: data files whose vectors stay; those of others are removed.
        deleted: newly deleted rows, ascending positions by data file name.
        file_id: for the name of the new file.

    Raises:
        CorruptFileError, StorageError: vectors cannot be read or written.
    """
    if not deleted and _marked(task.vectors) <= set(kept):
        return (), ()
    vectors: dict[str, Positions] = {}
    for entry in task.vectors:
        vectors.update(read_vectors(handle, entry, kept))
    for name, positions in deleted.items():
        vectors[name] = united(vectors[name], positions) if name in vectors else positions
    new = write_vectors(handle, task.partition, task.bucket, vectors, in_one_file=True, file_id=file_id)
    return tuple(new), task.vectors
