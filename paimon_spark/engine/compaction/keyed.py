"""Compaction of one bucket of a table with keys: which files (driver), and doing it (executor).

Where level 0 is hidden until it is merged, what lies deeper than the result takes part in the merge: rows of the same
keys are looked up there, and tables with deletion vectors have them marked as deleted.

Source: Java `mergetree/compact/MergeTreeCompactManager`, `MergeTreeCompactTask`, `MergeTreeCompactRewriter`,
`ChangelogMergeTreeRewriter`, `LookupMergeTreeCompactRewriter`, `FullChangelogMergeTreeCompactRewriter`.

The deletion vectors of one bucket of a table with keys: one index file, rewritten as a whole.

Source: Java `deletionvectors/BucketedDvMaintainer`, `deletionvectors/DeletionVectorsIndexFile`.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
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
from paimon_spark.engine.compaction.task import Bucket, BucketTask
from paimon_spark.engine.merge.runs import Section
from paimon_spark.engine.tasks.commit_message import CommitMessage, Increment
from paimon_spark.engine.write.data_files import DataFiles, RollingWriter, wall_clock_ms
from paimon_spark.engine.write.request import WriteRequest, new_file_id
from paimon_spark.format.metadata_files.data_file import DataFileMeta, FileSource
from paimon_spark.format.metadata_files.deletion_vector import Positions
from paimon_spark.format.metadata_files.index_manifest import IndexManifestEntry
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.schemas import schemas_by_id
from paimon_spark.metadata.vector_files import read_vectors, remove_index_files, united, write_vectors
from paimon_spark.options.compaction import CompactionOptions
from paimon_spark.options.core import MergeEngine

Vectors = Mapping[tuple[bytes, int], Sequence[IndexManifestEntry]]
"""Index files of deletion vectors by partition and bucket, as of `vector_files.vector_files`."""


def hides_level0(handle: TableHandle) -> bool:
    """Whether rows of a write can be read only after a compaction, or their changelog comes with it."""
    options = handle.options
    return bool(handle.schema.primary_keys) and (options.need_lookup or options.merge_engine is MergeEngine.FIRST_ROW)


def keyed_tasks(handle: TableHandle, buckets: Iterable[Bucket], vectors: Vectors, *, full: bool) -> list[BucketTask]:
    """The tasks that compact buckets of a table with keys, one for each that needs it.

    Args:
        handle: the branch, with its latest schema.
        buckets: with all their live files, as manifests describe them.
        vectors: of the same snapshot.
        full: all into the last level; else what is worth it by now, and level 0 where it is hidden.
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
        marked, expired = _marked(vectors), _Expired(handle, files)
        return pick_full(files, last, options, lambda f: f.file_name in marked or expired.touches(f))
    unit = pick_universal(files, last, options, moment)
    if unit is None and hides_level0(handle) and any(f.level == 0 for f in files):
        level = output_level(files, last, _small_bytes(handle, options))
        return Unit(tuple(n for n, f in enumerate(files) if f.level <= level), level, MergeMode.LEVEL_0)
    return unit


def _marked(vectors: Iterable[IndexManifestEntry]) -> frozenset[str]:
    """Names of the data files that have rows deleted."""
    return frozenset(r.data_file_name for e in vectors for r in e.deletion_vectors or ())


class _Expired:
    """Which files of a bucket hold rows that are too old."""

    def __init__(self, handle: TableHandle, files: Sequence[DataFileMeta]) -> None:
        self._expiry = RecordExpiry.of(handle)
        self._schemas = {} if self._expiry is None else schemas_by_id(handle, {f.schema_id for f in files})

    def touches(self, file: DataFileMeta) -> bool:
        return self._expiry is not None and self._expiry.touches(file, self._schemas)


def _small_bytes(handle: TableHandle, options: CompactionOptions) -> int:
    return int(handle.options.data_files.target_bytes(keyed=True) * options.small_file_ratio)


def compact_bucket(
    handle: TableHandle, snapshot: Snapshot, task: BucketTask, commit_user: str, job: str | None = None
) -> CommitMessage:
    """Write the new files of one bucket, and its changelog, and say what replaces what. Commits nothing.

    Args:
        handle: the branch, with its latest schema.
        snapshot: the one the task was planned on.
        task: of `keyed_tasks`.
        commit_user: who will commit.
        job: of `job_files.new_job`, when files of killed tasks are to be found again by their names.

    Raises:
        DataError: rows cannot be merged as the table demands.
        CorruptFileError, StorageError: a file cannot be read or written; no file is left.
        UnsupportedFeatureError: a file cannot be read.
    """
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
    _vectors: BucketVectors = field(init=False)
    _open: list[RollingWriter] = field(default_factory=list)

    def __post_init__(self) -> None:
        task = self.task
        file_id = new_file_id(self.request.job)
        self._vectors = BucketVectors(self.handle, task.partition, task.bucket, task.vectors, file_id)

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
        merge = BucketMerge(self.handle, self.snapshot, task, level, last)
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
                    if log is not None or merge.looks_deeper(numbers):
                        merge.write((Section(((number,),)),), Output(None, log))
                case Rewrite(sections):
                    data = self._opened(outputs.data(level, FileSource.COMPACT))
                    merge.write(sections, Output(data, log))
                    gone += [files[n] for n in numbers]
                    new += data.close()
            if log is not None:
                changelog += log.close()
        kept = {f.file_name for f in files} - {f.file_name for f in gone} | {f.file_name for f in new}
        new_index, old_index = self._vectors.changed(kept, merge.deleted_rows())
        increment = Increment(tuple(new), tuple(gone), tuple(changelog), new_index, old_index)
        return CommitMessage(task.partition, task.bucket, task.total_buckets, compact=increment)

    def _steps(self, last: int, merge: BucketMerge) -> list[Rewrite | Upgrade]:
        unit, files = self.unit, self.task.files
        if unit.mode is MergeMode.EACH_ALONE:
            return [Rewrite((Section(((n,),)),)) for n in unit.files]
        options = self.handle.options.compaction
        expired = _Expired(self.handle, files)
        types = [f.type for f in self.handle.schema.key_type]
        small_bytes = _small_bytes(self.handle, options)
        if unit.mode is MergeMode.LEVEL_0:
            return pick_level0(
                files,
                types,
                level=unit.level,
                small_bytes=small_bytes,
                trigger=options.trigger,
                may_upgrade=lambda f: self._may_leave_level0(f, merge) and not expired.touches(f),
            )
        whole = len(unit.files) == len(files)
        marked = _marked(self.task.vectors) if whole and unit.level == last else frozenset()

        def must_rewrite(file: DataFileMeta) -> bool:
            if unit.level == last and merge.may_hold_retracts(file):
                return True
            if file.file_name in marked or (whole and options.force_rewrite) or expired.touches(file):
                return True
            return file.level == 0 and hides_level0(self.handle) and not self._may_leave_level0(file, merge)

        return pick_merge(files, types, unit, small_bytes=small_bytes, must_rewrite=must_rewrite)

    def _may_leave_level0(self, file: DataFileMeta, merge: BucketMerge) -> bool:
        """Whether a file that shares no key with what is merged may leave a hidden level 0 as it is."""
        table, level = self.handle.options, self.unit.level
        options = table.data_files
        extension = options.data(level).extension(options.suffix_with_codec)
        # What lies deeper may change the rows of all engines but this.
        as_they_are = table.merge_engine is MergeEngine.DEDUPLICATE and not table.sequence_fields
        final = as_they_are or all(f.level <= level for f in self.task.files)
        return final and file.file_name.endswith(extension) and not merge.may_hold_retracts(file)

    def _opened(self, writer: RollingWriter) -> RollingWriter:
        self._open.append(writer)
        return writer

    def abort(self) -> None:
        """Remove every file made. Raises nothing."""
        for writer in self._open:
            writer.abort()
        self._vectors.abort()


Changes = tuple[tuple[IndexManifestEntry, ...], tuple[IndexManifestEntry, ...]]


class BucketVectors:
    """The vectors of a bucket, and what becomes of them.

    Args:
        handle: the branch.
        partition: BinaryRow bytes.
        bucket: its number.
        entries: of its index files in the snapshot.
        file_id: for the names of new ones.
    """

    def __init__(
        self,
        handle: TableHandle,
        partition: bytes,
        bucket: int,
        entries: Sequence[IndexManifestEntry],
        file_id: str | None = None,
    ) -> None:
        self._handle = handle
        self._file_id = file_id
        self._place = (partition, bucket)
        self._entries = entries
        self._made: list[IndexManifestEntry] = []

    def changed(self, names: Collection[str], deleted: Mapping[str, Positions]) -> Changes:
        """Index files added and replaced.

        Args:
            names: data files whose vectors stay; those of others go.
            deleted: rows deleted in addition, ascending positions by data file name.

        Raises:
            CorruptFileError, StorageError: vectors that stay cannot be read, or not be written.
        """
        having = [r.data_file_name for e in self._entries for r in e.deletion_vectors or ()]
        if not deleted and all(name in names for name in having):
            return (), ()
        vectors: dict[str, Positions] = {}
        for entry in self._entries:
            vectors.update(read_vectors(self._handle, entry, names))
        for name, positions in deleted.items():
            known = vectors.get(name)
            vectors[name] = positions if known is None else united(known, positions)
        self._made = write_vectors(self._handle, *self._place, vectors, in_one_file=True, file_id=self._file_id)
        return tuple(self._made), tuple(self._entries)

    def abort(self) -> None:
        """Remove the index file written. Raises nothing."""
        remove_index_files(self._handle, self._made)
