"""Compaction of the postponed bucket: moves rows to the buckets of their keys.

Each partition keeps its number of buckets; a new one has as many as the options say. Files are read in the order in
which they were made, so that later writes of a key win; in Java there is no order between writers.

Source: Java `table/PostponeUtils`, `postpone/BucketFiles`, Spark's `SparkPostponeCompactProcedure`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from paimon_spark.engine.commit.committer import Committer
from paimon_spark.engine.compaction.on_head import rewrite_head
from paimon_spark.engine.compaction.plan import buckets_of, entries_of
from paimon_spark.engine.compaction.task import Bucket, CompactResult, read_request
from paimon_spark.engine.read.file_reader import SYSTEM_FIELDS, iter_file
from paimon_spark.engine.tasks.commit_message import CommitMessage, Increment
from paimon_spark.engine.tasks.split import SplitMode
from paimon_spark.engine.write.request import WriteRequest
from paimon_spark.engine.write.table_writer import TableWriter
from paimon_spark.format.arrays.arrow_types import arrow_schema, record_batch
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import POSTPONE_BUCKET
from paimon_spark.options.core import BUCKET
from paimon_spark.options.write import ROWKIND_FIELD
from paimon_spark.predicate.ast import Predicate
from paimon_spark.types import VALUE_KIND


def move_postponed_rows(
    handle: TableHandle,
    commit_user: str,
    *,
    partitions: Sequence[Mapping[str, object]] | None = None,
    where: Predicate | None = None,
) -> CompactResult:
    """Move the rows of the postponed bucket into the others, as files of level 0, by one snapshot of kind COMPACT.

    Memory stays bounded as in any write. Does nothing in tables without a postponed bucket. Arguments and errors as
    `run.compact_branch`.
    """
    if handle.options.bucket != POSTPONE_BUCKET:
        return CompactResult()
    return rewrite_head(
        handle, commit_user, lambda current, head: _messages(current, head, commit_user, partitions, where)
    )


def _messages(
    handle: TableHandle,
    head: Snapshot,
    commit_user: str,
    partitions: Sequence[Mapping[str, object]] | None,
    where: Predicate | None,
) -> list[CommitMessage]:
    """The messages that move the rows of each partition to buckets. After an error no file is left."""
    totals: dict[bytes, int] = {}
    waiting: list[Bucket] = []
    for bucket in buckets_of(entries_of(handle, head, partitions, where)):
        if bucket.bucket == POSTPONE_BUCKET:
            waiting.append(bucket)
        elif bucket.total_buckets > 0:
            totals[bucket.partition] = bucket.total_buckets
    out: list[CommitMessage] = []
    try:
        for bucket in waiting:
            rows = sum(f.row_count for f in bucket.files)
            total = totals.get(bucket.partition) or handle.options.postponed_bucket.buckets_of_new_partition(rows)
            out += _settled(handle, head, commit_user, bucket, total)
    except BaseException:
        Committer(handle, commit_user).abort(out)
        raise
    return out


def _settled(
    handle: TableHandle, head: Snapshot, commit_user: str, waiting: Bucket, total_buckets: int
) -> list[CommitMessage]:
    with TableWriter(WriteRequest(_with_buckets(handle, total_buckets), commit_user, head), _schema(handle)) as writer:
        for batch in _rows(handle, head, waiting):
            writer.write(batch)
        written = writer.close()
    gone = Increment(deleted_files=tuple(waiting.files))
    return [
        CommitMessage(waiting.partition, waiting.bucket, waiting.total_buckets, compact=gone),
        *(replace(m, data=Increment(), compact=m.data) for m in written),
    ]


def _rows(handle: TableHandle, head: Snapshot, waiting: Bucket) -> Iterator[pa.RecordBatch]:
    """The rows with their kinds, in the order they were written."""
    request, split = read_request(handle, head, waiting, SplitMode.CHANGES)
    schema = _schema(handle)
    for file in sorted(waiting.files, key=lambda f: f.creation_time_ms or 0):
        for batch in iter_file(
            request, split, file, None, request.columns, batch_rows=request.batch_rows, system=SYSTEM_FIELDS
        ):
            if batch.num_rows:
                yield record_batch([*batch.columns[2:], batch.column(1)], schema, batch.num_rows)


def _schema(handle: TableHandle) -> pa.Schema:
    return pa.schema([*arrow_schema(handle.schema.fields), pa.field(VALUE_KIND, pa.int8(), nullable=False)])


def _with_buckets(handle: TableHandle, total_buckets: int) -> TableHandle:
    """The table as one with buckets, and row kinds in a column of their own."""
    options = handle.options.changed({ROWKIND_FIELD.key: None, BUCKET.key: str(total_buckets)})
    return replace(handle, options=options)
