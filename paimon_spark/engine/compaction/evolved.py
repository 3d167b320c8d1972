"""Compaction with data evolution: adjacent row id ranges become one file.

Row ids stay the same, so deleted rows stay in the files, and their deletion vectors move to the new file. Java removes
such rows, and gives new ids to the others, where `data-evolution.compaction.rewrite-row-ids` allows it.

Source: Java `append/dataevolution/DataEvolutionCompactCoordinator`, `DataEvolutionNormalCompactTask`,
`DataEvolutionCompactDeletionVectorRewriter`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from paimon_spark.engine.compaction.append import Vectors, check_append
from paimon_spark.engine.compaction.task import Bucket, BucketTask, read_request
from paimon_spark.engine.read.data_evolution import is_dedicated, read_evolved, split_by_range
from paimon_spark.engine.tasks.commit_message import CommitMessage, Increment
from paimon_spark.engine.tasks.split import DataSplit, ReadRequest, SplitMode
from paimon_spark.engine.write.data_files import DataFiles, RollingWriter
from paimon_spark.engine.write.request import WriteRequest, check_file_schemas, new_file_id
from paimon_spark.errors import CorruptFileError
from paimon_spark.format.metadata_files.data_file import DataFileMeta, FileSource
from paimon_spark.format.metadata_files.deletion_vector import Positions
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.vector_files import changed_vectors, read_vectors
from paimon_spark.options.compaction import AppendCompactionOptions


def evolved_tasks(handle: TableHandle, buckets: Iterable[Bucket], vectors: Vectors, *, full: bool) -> list[BucketTask]:
    """The tasks that compact partitions of a table with data evolution; no two of them change one index file.

    Args and errors as of `append.append_tasks`.
    """
    check_append(handle)
    out: list[BucketTask] = []
    for bucket in buckets:
        index = vectors.get((bucket.partition, bucket.bucket), ())
        marked = {r.data_file_name for e in index for r in e.deletion_vectors or ()}
        together: list[tuple[int, ...]] = []
        for group in pick_ranges(bucket.files, handle.options.append_compaction, full=full):
            check_file_schemas(handle, max(bucket.files[n].schema_id for n in group), "its compaction was planned")
            if any(bucket.files[n].file_name in marked for n in group):
                together.append(group)
            else:
                out.append(_task(bucket, [group]))
        if together:
            names = {bucket.files[n].file_name for group in together for n in group}
            entries = (e for e in index if any(r.data_file_name in names for r in e.deletion_vectors or ()))
            out.append(replace(_task(bucket, together), vectors=tuple(entries)))
    return out


def _task(bucket: Bucket, groups: Sequence[Sequence[int]]) -> BucketTask:
    files = tuple(bucket.files[n] for group in groups for n in group)
    ends = np.cumsum([len(group) for group in groups]).tolist()
    ranges = tuple(tuple(range(end - len(group), end)) for group, end in zip(groups, ends, strict=True))
    return BucketTask(bucket.partition, bucket.bucket, bucket.total_buckets, files, ranges=ranges)


def pick_ranges(
    files: Sequence[DataFileMeta], options: AppendCompactionOptions, *, full: bool
) -> Iterator[tuple[int, ...]]:
    """Numbers of the files that become one, in order of row ids.

    Args:
        files: all live files of a partition.
        options: of the table.
        full: everything that becomes fewer files; else only what has `compaction.min.file-num` files.
    """
    cost = 0 if full else options.open_bytes
    least = 2 if full else max(2, options.min_files)
    group: list[int] = []
    weight, end = 0, -1
    for numbers in _by_range(files):
        first = files[numbers[0]]
        assert first.first_row_id is not None
        size = sum(max(files[n].file_size, cost) for n in numbers)
        if first.first_row_id != end or weight > options.target_bytes or size > options.target_bytes:
            if len(group) >= least:
                yield tuple(group)
            group, weight = [], 0
        group += numbers
        weight += size
        end = first.first_row_id + first.row_count
    if len(group) >= least:
        yield tuple(group)


def _by_range(files: Sequence[DataFileMeta]) -> Iterator[list[int]]:
    """The numbers of the files of each range of row ids, ascending."""
    plain = [n for n, f in enumerate(files) if f.first_row_id is not None and not is_dedicated(f)]
    out: dict[tuple[int | None, int], list[int]] = {}
    for n in sorted(plain, key=lambda n: (files[n].first_row_id or 0, files[n].max_sequence_number)):
        out.setdefault((files[n].first_row_id, files[n].row_count), []).append(n)
    yield from out.values()


def run_evolved_task(
    handle: TableHandle, snapshot: Snapshot, task: BucketTask, commit_user: str, job: str | None = None
) -> CommitMessage:
    """Rewrite the files of a task of `evolved_tasks`. Executor. As `run.run_task`."""
    request = WriteRequest(handle, commit_user, snapshot, job=job)
    files = DataFiles(request, task.partition, task.bucket, in_one_file=True)
    names = {f.file_name for f in task.files}
    vectors = {n: p for entry in task.vectors for n, p in read_vectors(handle, entry, names).items()}
    changes: dict[str, Positions | None] = dict.fromkeys(names)
    writers: list[RollingWriter] = []
    new_files: list[DataFileMeta] = []
    place = (task.partition, task.bucket)
    try:
        read, split = read_request(handle, snapshot, task, SplitMode.EVOLVED)
        for numbers in task.ranges:
            part = replace(split, files=tuple(split.files[n] for n in numbers), deletions=())
            writers.append(files.data(source=FileSource.COMPACT))
            new_files.append(_rewritten(writers[-1], read, part))
            moved = _moved(read, part, new_files[-1], vectors)
            if len(moved):
                changes[new_files[-1].file_name] = moved
        new, replaced = changed_vectors(
            handle, place, task.vectors, changes, in_one_file=False, file_id=new_file_id(job)
        )
    except BaseException:
        for writer in writers:
            writer.abort()
        raise
    done = Increment(tuple(new_files), task.files, new_index_files=tuple(new), deleted_index_files=tuple(replaced))
    return CommitMessage(*place, task.total_buckets, compact=done)


def _rewritten(writer: RollingWriter, read: ReadRequest, part: DataSplit) -> DataFileMeta:
    """Write all rows of ranges that follow each other, deleted ones too, into one file."""
    for batch in read_evolved(read, part):
        writer.write(batch)
    (file,) = writer.close()
    first, end = _row_ids(part.files)
    if file.row_count != end - first:
        raise CorruptFileError(
            f"the files of row ids {first} to {end - 1} of {read.table_name} have {file.row_count} rows",
            path=part.bucket_path,
        )
    return file._replace(
        first_row_id=first,
        min_sequence_number=min(f.min_sequence_number for f in part.files),
        max_sequence_number=max(f.max_sequence_number for f in part.files),
    )


def _moved(read: ReadRequest, part: DataSplit, file: DataFileMeta, vectors: Mapping[str, Positions]) -> Positions:
    """The positions in the new file of rows that are deleted in the old ones."""
    first, _ = _row_ids((file,))
    found = [
        vectors[old.files[0].file_name] + (_row_ids(old.files)[0] - first)
        for old in split_by_range(read.store, part)
        if old.files[0].file_name in vectors
    ]
    return np.concatenate([np.empty(0, np.int64), *found])


def _row_ids(files: Sequence[DataFileMeta]) -> tuple[int, int]:
    """The first row id of files, and the one after the last."""
    first = [f.first_row_id or 0 for f in files]
    return min(first), max(start + f.row_count for start, f in zip(first, files, strict=True))
