"""Compaction that makes level 0 visible: tables whose readers see only what was merged into higher levels.

Level 0 of a bucket is merged with what it shares keys with in the next levels, as far as these are not much larger. In
levels below, which stay as they are, the same keys are looked up: their rows take part in the merge, and tables with
deletion vectors have them marked as deleted.

Source: Java `mergetree/compact/MergeTreeCompactTask`, `ChangelogMergeTreeRewriter`, `LookupMergeTreeCompactRewriter`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.handoff.commit_message import CommitMessage, Increment
from paimon_spark.maintenance.bucket_merge import Bucket, BucketMerge, Output
from paimon_spark.maintenance.bucket_vectors import BucketVectors
from paimon_spark.maintenance.pick import Rewrite, Upgrade, output_level, pick_level0
from paimon_spark.merge.runs import Section
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests
from paimon_spark.options.commit import WRITE_ONLY
from paimon_spark.options.compaction import parse_compaction_options
from paimon_spark.options.data_files import parse_data_file_options
from paimon_spark.options.table import MergeEngine
from paimon_spark.scan.deletions import Deletions, deletions_of
from paimon_spark.spec.arrow_values import array_of
from paimon_spark.spec.data_file import DataFileMeta, FileSource
from paimon_spark.spec.manifest import files_of
from paimon_spark.spec.snapshot import Snapshot
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
    """Merge level 0 of some buckets into a higher level, with the changelog of producer `lookup`. Commits nothing.

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


def _live_buckets(handle: TableHandle, snapshot: Snapshot, wanted: Collection[tuple[bytes, int]]) -> Iterator[Bucket]:
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
        yield Bucket(*place, totals[numbers[0]], [files[n] for n in numbers])


@dataclass(slots=True)
class _BucketCompaction:
    """The compaction of one bucket."""

    request: WriteRequest
    snapshot: Snapshot
    bucket: Bucket
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
        options = parse_data_file_options(self.handle.options.raw, True)
        small_bytes = int(options.target_file_size * _SMALL_RATIO)
        last_level = max(self.handle.options.num_levels - 1, *(f.level for f in files))
        level = output_level(files, last_level, small_bytes)
        outputs = DataFiles(self.request, self.bucket.partition, self.bucket.bucket)
        merge = BucketMerge(self.handle, self.snapshot.id, self.bucket, self.deletions, level)
        gone: list[DataFileMeta] = []
        new: list[DataFileMeta] = []
        changelog: list[DataFileMeta] = []
        for step in self._steps(level):
            log = self._opened(outputs.changelog(level)) if merge.makes_changelog else None
            match step:
                case Upgrade(number):
                    gone.append(files[number])
                    new.append(files[number]._replace(level=level))
                    if merge.looks_deeper or log is not None:
                        merge.write((Section(((number,),)),), Output(None, log))
                case Rewrite(sections):
                    data = self._opened(outputs.data(level, FileSource.COMPACT))
                    merge.write(sections, Output(data, log))
                    gone += [files[n] for n in step.files]
                    new += data.close()
            if log is not None:
                changelog += log.close()
        kept_names = {f.file_name for f in files} - {f.file_name for f in gone} | {f.file_name for f in new}
        new_index, old_index = self.vectors.changed(kept_names, merge.deleted_rows())
        increment = Increment(tuple(new), tuple(gone), tuple(changelog), new_index, old_index)
        return CommitMessage(self.bucket.partition, self.bucket.bucket, self.bucket.total_buckets, compact=increment)

    def _steps(self, level: int) -> list[Rewrite | Upgrade]:
        table, files = self.handle.options, self.bucket.files
        options = parse_data_file_options(table.raw, True)
        extension = options.data(level).extension(options.suffix_with_codec)
        # What lies deeper may change the rows of all engines but this.
        as_they_are = table.merge_engine is MergeEngine.DEDUPLICATE and not table.sequence_fields
        final = as_they_are or all(f.level <= level for f in files)

        def may_upgrade(file: DataFileMeta) -> bool:
            return final and file.delete_row_count == 0 and file.file_name.endswith(extension)

        return pick_level0(
            files,
            [f.type for f in self.handle.schema.key_type],
            level=level,
            small_bytes=int(options.target_file_size * _SMALL_RATIO),
            trigger=parse_compaction_options(table.raw).trigger,
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
