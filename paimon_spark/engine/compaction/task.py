"""The task of compacting one bucket, and the result of a compaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from paimon_spark.display import ShownAsFacts, amount
from paimon_spark.engine.commit.attempts import CommitResult
from paimon_spark.engine.compaction.pick import Unit
from paimon_spark.engine.scan.splits import deletions_among
from paimon_spark.engine.tasks import CommitMessage, DataSplit, ReadRequest, SplitMode
from paimon_spark.errors import CommitConflictError
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.format.metadata_files.index_manifest import IndexManifestEntry
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.partition_path import PartitionDirectories
from paimon_spark.metadata.schemas import schemas_by_id
from paimon_spark.text import counted


class Bucket(NamedTuple):
    """A bucket and its live files."""

    partition: bytes
    bucket: int
    total_buckets: int
    files: Sequence[DataFileMeta]


@dataclass(frozen=True, slots=True)
class BucketTask:
    """Files of one bucket to compact. Picklable; made by `plan.plan_compaction`.

    Tasks of two plans are equal exactly when the same work is to do, so that its result can be used again.

    Attributes:
        total_buckets: `_TOTAL_BUCKETS` of its entries.
        files: tables with keys: all live files of the bucket; append tables: those that are rewritten together.
        vectors: index entries with the deletion vectors of `files`. Tables with keys: all of the bucket.
        unit: tables with keys: which of the files go to which level.
        ranges: tables with data evolution: numbers of the files that become one, for each new file.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    files: tuple[DataFileMeta, ...]
    vectors: tuple[IndexManifestEntry, ...] = ()
    unit: Unit | None = None
    ranges: tuple[tuple[int, ...], ...] = ()

    @property
    def input_bytes(self) -> int:
        """About how many bytes are read; the weight of the task."""
        if self.unit is None:
            return sum(f.file_size for f in self.files)
        return sum(self.files[n].file_size for n in self.unit.files)


def read_request(
    handle: TableHandle,
    snapshot: Snapshot,
    bucket: Bucket | BucketTask,
    mode: SplitMode,
    vectors: Sequence[IndexManifestEntry] = (),
) -> tuple[ReadRequest, DataSplit]:
    """How to read all columns of all files of a bucket, without the rows that `vectors` delete."""
    partition, number, files = bucket.partition, bucket.bucket, tuple(bucket.files)
    request = ReadRequest(
        store=handle.store,
        table_name=handle.name,
        branch=handle.branch,
        schema=handle.schema,
        file_schemas=schemas_by_id(handle, {f.schema_id for f in files}),
        options=handle.options,
        columns=tuple(handle.schema.row_type.names),
    )
    directories = PartitionDirectories(handle)
    split = DataSplit(
        handle.branch,
        snapshot.id,
        partition,
        number,
        directories.bucket_path(partition, number),
        mode,
        files,
        deletions_among(handle, vectors).of(partition, number, files),
        elsewhere=directories.elsewhere(partition, number, (f.file_name for f in files)),
    )
    return request, split


@dataclass(frozen=True, slots=True, repr=False)
class CompactResult(ShownAsFacts):
    """Result of a compaction.

    Attributes:
        snapshot: the snapshot that holds the compacted state: the one made, or the head when there was nothing to do.
            None when the branch has no snapshot.
        snapshot_ids: the snapshots made; empty when there was nothing to do.
        buckets: buckets changed.
        files_before: data files replaced, including those that only moved to another level.
        files_after: data files that took their place.
        bytes_before, bytes_after: their bytes.
    """

    snapshot: Snapshot | None = None
    snapshot_ids: tuple[int, ...] = ()
    buckets: int = 0
    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0

    def text_lines(self) -> list[str]:
        if not self.snapshot_ids:
            return [
                "nothing to compact" if self.snapshot is not None else "nothing to compact: there is no snapshot yet"
            ]
        before = f"{counted(self.files_before, 'file')} ({amount(self.bytes_before)})"
        after = f"{counted(self.files_after, 'file')} ({amount(self.bytes_after)})"
        made = f"snapshot {', '.join(map(str, self.snapshot_ids))}"
        return [f"{before} became {after} in {counted(self.buckets, 'bucket')}, {made}"]


def compact_result(committed: CommitResult, messages: Sequence[CommitMessage]) -> CompactResult:
    """The result of a commit of these messages."""
    done = [increment for m in messages for increment in (m.data, m.compact)]
    before = [f for increment in done for f in increment.deleted_files]
    after = [f for increment in done for f in increment.new_files]
    return CompactResult(
        committed.snapshot,
        committed.snapshot_ids,
        len({(m.partition, m.bucket) for m in messages}),
        len(before),
        len(after),
        sum(f.file_size for f in before),
        sum(f.file_size for f in after),
    )


def expired_error(handle: TableHandle, snapshot: Snapshot) -> CommitConflictError:
    """The error when a snapshot and its files expired during its compaction."""
    return CommitConflictError(
        f"snapshot {snapshot.id} of {handle.describe()} expired during its compaction. Nothing was changed; compact "
        "again, or keep snapshots longer (snapshot.time-retained)",
        table=handle.name,
        branch=handle.branch,
        snapshot_id=snapshot.id,
    )
