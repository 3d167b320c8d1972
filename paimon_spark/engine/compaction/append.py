"""Compaction of tables without keys: files written again one after the other, without rows that vectors delete.

Rows and row ids stay as they are; in a bucket they keep their order too.

Source: Java `append/AppendCompactTask`, `operation/BaseAppendFileStoreWrite.compactRewrite`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from paimon_spark.engine.commit.index_files import has_buckets
from paimon_spark.engine.compaction.append_pick import Mark, pick
from paimon_spark.engine.compaction.task import Bucket, BucketTask
from paimon_spark.engine.read.file_reader import fields_of, iter_rows
from paimon_spark.engine.read.metadata_columns import tracking_column
from paimon_spark.engine.scan.splits import deletions_among
from paimon_spark.engine.tasks.commit_message import CommitMessage, Increment
from paimon_spark.engine.tasks.split import DataSplit, ReadRequest, SplitMode
from paimon_spark.engine.write.job_files import new_file_id
from paimon_spark.engine.write.request import WriteRequest
from paimon_spark.engine.write.rolling import DataFiles
from paimon_spark.errors import CommitConflictError, UnsupportedFeatureError
from paimon_spark.format.arrays.arrow_types import arrow_schema, record_batch
from paimon_spark.format.metadata_files.data_file import DataFileMeta, FileSource
from paimon_spark.format.metadata_files.index_manifest import IndexManifestEntry
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.partition_path import PartitionDirectories
from paimon_spark.metadata.schemas import schemas_by_id
from paimon_spark.metadata.vector_files import changed_vectors
from paimon_spark.options.compaction import CLUSTERS
from paimon_spark.types import TRACKING_FIELDS

Vectors = Mapping[tuple[bytes, int], Sequence[IndexManifestEntry]]
"""Index files of deletion vectors by partition and bucket, as of `vector_files.vector_files`."""


def check_append(handle: TableHandle) -> None:
    """Refuse tables without keys whose files must not be written again here.

    Raises:
        UnsupportedFeatureError: names the feature.
    """
    handle.check_writable()
    if handle.options.data_evolution:
        raise _refused(handle, "data-evolution.enabled", "a row of it lies in several files")
    if handle.options.append_compaction.clusters:
        raise _refused(handle, CLUSTERS.key, "its compaction sorts rows, which is not done here")


def append_tasks(handle: TableHandle, buckets: Iterable[Bucket], vectors: Vectors, *, full: bool) -> list[BucketTask]:
    """The tasks that compact buckets of a table without keys; no two of them change one index file.

    Args:
        handle: the branch, with its latest schema.
        buckets: with all their live files, as manifests describe them.
        vectors: of the same snapshot.
        full: take every small file and every one with deleted rows; else what is worth it by now.

    Raises:
        UnsupportedFeatureError: as `check_append`.
        CommitConflictError: files are of a newer schema than the handle's.
    """
    check_append(handle)
    options = handle.options.append_compaction
    ordered = has_buckets(handle)
    out: list[BucketTask] = []
    for bucket in buckets:
        index = vectors.get((bucket.partition, bucket.bucket), ())
        marks = {r.data_file_name: Mark(e.file_name, r.cardinality) for e in index for r in e.deletion_vectors or ()}
        for group in pick(bucket.files, marks, options, full=full, ordered=ordered):
            files = tuple(bucket.files[n] for n in group)
            _refuse_newer(handle, max(f.schema_id for f in files))
            concerned = {marks[f.file_name].index_file for f in files if f.file_name in marks}
            entries = tuple(e for e in index if e.file_name in concerned or (ordered and concerned))
            out.append(BucketTask(bucket.partition, bucket.bucket, bucket.total_buckets, files, entries))
    return out


def run_append_task(
    handle: TableHandle, snapshot: Snapshot, task: BucketTask, commit_user: str, job: str | None = None
) -> CommitMessage:
    """Write the files of a task again. Executor; after an error no file of it is left.

    Args:
        handle: the branch, with its latest schema.
        snapshot: that the task was planned on.
        task: of `append_tasks`.
        commit_user: who will commit.
        job: as `WriteRequest.job`.

    Raises:
        CorruptFileError: a file cannot be read.
        StorageError: a file cannot be written.
    """
    request = WriteRequest(handle, commit_user, snapshot, job=job)
    keeps_row_ids = handle.options.row_tracking
    files = DataFiles(request, task.partition, task.bucket, keeps_row_ids=keeps_row_ids)
    writer = files.data(source=FileSource.COMPACT, first_sequence_number=task.files[0].min_sequence_number)
    try:
        for batch in _rows(handle, snapshot, task):
            writer.write(batch)
        new_files = writer.close()
        if has_buckets(handle):
            new_files = _numbered(new_files, task.files)
        changes = dict.fromkeys(f.file_name for f in task.files)
        place = (task.partition, task.bucket)
        new, replaced = changed_vectors(
            handle, place, task.vectors, changes, in_one_file=has_buckets(handle), file_id=new_file_id(job)
        )
    except BaseException:
        writer.abort()
        raise
    done = Increment(new_files, task.files, new_index_files=tuple(new), deleted_index_files=tuple(replaced))
    return CommitMessage(*place, task.total_buckets, compact=done)


def _rows(handle: TableHandle, snapshot: Snapshot, task: BucketTask) -> Iterator[pa.RecordBatch]:
    schema = handle.schema
    request = ReadRequest(
        store=handle.store,
        table_name=handle.name,
        branch=handle.branch,
        schema=schema,
        file_schemas=schemas_by_id(handle, {f.schema_id for f in task.files}),
        options=handle.options,
        columns=tuple(schema.row_type.names),
    )
    directories = PartitionDirectories(handle)
    split = DataSplit(
        handle.branch,
        snapshot.id,
        task.partition,
        task.bucket,
        directories.bucket_path(task.partition, task.bucket),
        SplitMode.RAW,
        task.files,
        deletions_among(handle, task.vectors).of(task.partition, task.bucket, task.files),
        elsewhere=directories.elsewhere(task.partition, task.bucket, (f.file_name for f in task.files)),
    )
    fields = fields_of(schema, request.columns)
    extra = TRACKING_FIELDS if handle.options.row_tracking else ()
    written = arrow_schema((*schema.fields, *extra))
    for i, file in enumerate(task.files):
        deletion = split.deletion_of(i)
        for rows in iter_rows(request, split, file, deletion, fields, batch_rows=request.batch_rows, extra=extra):
            if rows.row_count:
                arrays = [*rows.columns, *(tracking_column(file, f.name, rows) for f in extra)]
                yield record_batch(arrays, written, rows.row_count)


def _numbered(new: tuple[DataFileMeta, ...], old: tuple[DataFileMeta, ...]) -> tuple[DataFileMeta, ...]:
    """The new files with sequence numbers not above those of the old, behind which other files of the bucket may lie.

    They are above it where writers beside each other gave the same numbers to rows of several files.
    """
    largest = max(f.max_sequence_number for f in old)
    if not new or new[-1].max_sequence_number <= largest:
        return new
    first = new[0].min_sequence_number
    return tuple(
        f._replace(min_sequence_number=min(first + i, largest), max_sequence_number=largest) for i, f in enumerate(new)
    )


def _refuse_newer(handle: TableHandle, schema_id: int) -> None:
    """Refuse files that may have columns unknown to the handle: written again, they would lose them."""
    if schema_id > handle.schema.id:
        raise CommitConflictError(
            f"the definition of {handle.describe()} changed while its compaction was planned, from schema "
            f"{handle.schema.id} to {schema_id}. Nothing was changed; do it again",
            table=handle.name,
            branch=handle.branch,
            schema_id=schema_id,
        )


def _refused(handle: TableHandle, feature: str, why: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"{handle.describe()} cannot be compacted here: it has {feature}, and {why}; compact it with Java Paimon",
        feature=feature,
        table=handle.name,
        branch=handle.branch,
    )
