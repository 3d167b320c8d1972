"""Compaction of tables without keys: tasks, and files rewritten without deleted rows.

Rows and row ids stay the same; in a bucket rows keep their order too. In Java a full compaction of buckets begins with
the first file worth it and takes all that follow; here large files with all their rows stay wherever they lie.

With data evolution, adjacent row id ranges become one file. Deleted rows stay in the files there, as row ids must stay,
and their deletion vectors move to the new file. Java removes such rows, and gives new ids to the others, where
`data-evolution.compaction.rewrite-row-ids` allows it.

Source: Java `append/AppendCompactTask`, `operation/BaseAppendFileStoreWrite.compactRewrite`,
`append/AppendCompactCoordinator` for tables without buckets, `append/BucketedAppendCompactManager`;
`append/dataevolution/DataEvolutionCompactCoordinator`, `DataEvolutionNormalCompactTask`,
`DataEvolutionCompactDeletionVectorRewriter`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

import numpy as np

from paimon_spark.engine.commit.index_files import has_buckets
from paimon_spark.engine.compaction.task import Bucket, BucketTask, read_request
from paimon_spark.engine.read.data_evolution import is_dedicated, read_evolved, split_by_range
from paimon_spark.engine.read.metadata_columns import stored_rows
from paimon_spark.engine.tasks import CommitMessage, DataSplit, Increment, ReadRequest, SplitMode
from paimon_spark.engine.write.data_files import DataFiles, RollingWriter
from paimon_spark.engine.write.request import WriteRequest, check_file_schemas, new_file_id
from paimon_spark.errors import CorruptFileError, UnsupportedFeatureError
from paimon_spark.format.metadata_files.data_file import DataFileMeta, FileSource
from paimon_spark.format.metadata_files.deletion_vector import Positions
from paimon_spark.format.metadata_files.index_manifest import IndexManifestEntry
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.vector_files import changed_vectors, read_vectors
from paimon_spark.options.compaction import CLUSTERS, AppendCompactionOptions

Vectors = Mapping[tuple[bytes, int], Sequence[IndexManifestEntry]]
"""Index files of deletion vectors by partition and bucket, as of `vector_files.vector_files`."""


def check_append(handle: TableHandle) -> None:
    """Refuse tables without keys whose files must not be rewritten here. Raises UnsupportedFeatureError."""
    handle.check_writable()


def append_tasks(handle: TableHandle, buckets: Iterable[Bucket], vectors: Vectors, *, full: bool) -> list[BucketTask]:
    """The tasks that compact buckets of a table without keys; no two of them change one index file.

    Args:
        handle: the branch, with its latest schema.
        buckets: with all live files of their snapshot.
        vectors: of the same snapshot.
        full: take every small file and every one with deleted rows; else what is worth it now.

    Raises:
        UnsupportedFeatureError: as `check_append`.
        CommitConflictError: files are of a newer schema than the handle's.
    """
    check_append(handle)
    options = handle.options.append_compaction
    if options.clusters:  # files of several levels must not become one
        raise _refused(handle, CLUSTERS.key, "only compact() of the table sorts its files")
    ordered = has_buckets(handle)
    out: list[BucketTask] = []
    for bucket in buckets:
        index = vectors.get((bucket.partition, bucket.bucket), ())
        marks = {r.data_file_name: Mark(e.file_name, r.cardinality) for e in index for r in e.deletion_vectors or ()}
        for group in pick(bucket.files, marks, options, full=full, ordered=ordered):
            files = tuple(bucket.files[n] for n in group)
            check_file_schemas(handle, max(f.schema_id for f in files), "its compaction was planned")
            concerned = {marks[f.file_name].index_file for f in files if f.file_name in marks}
            entries = tuple(e for e in index if e.file_name in concerned or (ordered and concerned))
            out.append(BucketTask(bucket.partition, bucket.bucket, bucket.total_buckets, files, entries))
    return out


def run_append_task(
    handle: TableHandle, snapshot: Snapshot, task: BucketTask, commit_user: str, job: str | None = None
) -> CommitMessage:
    """Rewrite the files of a task of `append_tasks`. Executor. As `run.run_task`."""
    request = WriteRequest(handle, commit_user, snapshot, job=job)
    keeps_row_ids = handle.options.row_tracking
    files = DataFiles(request, task.partition, task.bucket, keeps_row_ids=keeps_row_ids)
    writer = files.data(source=FileSource.COMPACT, first_sequence_number=task.files[0].min_sequence_number)
    try:
        read, split = read_request(handle, snapshot, task, SplitMode.RAW, task.vectors)
        for number in range(len(task.files)):
            for _, batch in stored_rows(read, split, number):
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


def _numbered(new: tuple[DataFileMeta, ...], old: tuple[DataFileMeta, ...]) -> tuple[DataFileMeta, ...]:
    """The new files, with sequence numbers no larger than those of the old: later files of the bucket may follow.

    They may be larger where concurrent writers gave the same numbers to rows of several files.
    """
    # New files that counted on would reach the numbers of later files, and rows would change places. Java lets them
    # overlap.
    largest = max(f.max_sequence_number for f in old)
    if not new or new[-1].max_sequence_number <= largest:
        return new
    first = new[0].min_sequence_number
    return tuple(
        f._replace(min_sequence_number=min(first + i, largest), max_sequence_number=largest) for i, f in enumerate(new)
    )


def _refused(handle: TableHandle, feature: str, why: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"{handle.describe()} cannot be compacted here: it has {feature}, and {why}",
        feature=feature,
        table=handle.name,
        branch=handle.branch,
    )


Group = tuple[int, ...]
"""Numbers of files that are rewritten together, in order."""


class Mark(NamedTuple):
    """The deletion vector of a data file: its index file, and its deleted rows, if the index manifest has them."""

    index_file: str
    rows: int | None


def pick(
    files: Sequence[DataFileMeta],
    marks: Mapping[str, Mark],
    options: AppendCompactionOptions,
    *,
    full: bool,
    ordered: bool,
) -> list[Group]:
    """Groups of files to rewrite; no two of them have vectors in one index file.

    Args:
        files: all live files of a bucket, or of a partition without buckets.
        marks: deletion vectors by name of the data file.
        options: of the table.
        full: take every small file and every one with deleted rows; else what is worth it in Paimon.
        ordered: files are in the order of their rows, and only neighbours may be joined.
    """
    rewrites_all = full and options.rewrites_all

    def wanted(file: DataFileMeta) -> bool:
        mark = marks.get(file.file_name)
        if rewrites_all or file.file_size < options.small_bytes:
            return True
        return mark is not None and (full or _is_worn(file, mark, options.delete_ratio))

    if ordered:
        groups = list(_neighbours(files, wanted, options))
        chosen = [g for g in groups if rewrites_all or _pays_ordered(files, g, marks, options, full)]
        return _one_with_vectors(files, chosen, marks, full)
    numbers = [n for n, f in enumerate(files) if wanted(f)]
    marked = _by_index_file(files, numbers, marks)
    plain = [[n] for n in sorted(numbers, key=lambda n: files[n].file_size) if files[n].file_name not in marks]
    if full:
        bins = _bins(files, [*marked, *plain], options, full)
        return [g for g, _ in bins if rewrites_all or len(g) > 1 or files[g[0]].file_name in marks]
    waiting = _bins(files, plain, options, full)
    return [
        *(g for g, _ in _bins(files, marked, options, full)),
        *(g for g, closed in waiting if closed or len(g) >= max(2, options.min_files)),
    ]


def _is_worn(file: DataFileMeta, mark: Mark, ratio: float) -> bool:
    return mark.rows is None or mark.rows > file.row_count * ratio


def _by_index_file(files: Sequence[DataFileMeta], numbers: Iterable[int], marks: Mapping[str, Mark]) -> list[list[int]]:
    """The numbers of files with vectors, by index file, smallest first: one task rewrites an index file."""
    found: dict[str, list[int]] = {}
    for n in numbers:
        mark = marks.get(files[n].file_name)
        if mark is not None:
            found.setdefault(mark.index_file, []).append(n)
    return sorted(found.values(), key=lambda group: sum(files[n].file_size for n in group))


def _bins(
    files: Sequence[DataFileMeta], parts: Iterable[Sequence[int]], options: AppendCompactionOptions, full: bool
) -> list[tuple[Group, bool]]:
    """Parts joined until they are as large as two files, and whether a bin became that large."""
    cost = 0 if full else options.open_bytes  # a full compaction joins many tiny files
    out: list[tuple[Group, bool]] = []
    group: list[int] = []
    weight = 0
    for part in parts:
        group += part
        weight += sum(files[n].file_size + cost for n in part)
        if len(group) > 1 and weight >= 2 * options.target_bytes:
            out.append((tuple(group), True))
            group, weight = [], 0
    if group:
        out.append((tuple(group), False))
    return out


def _neighbours(
    files: Sequence[DataFileMeta], wanted: Callable[[DataFileMeta], bool], options: AppendCompactionOptions
) -> Iterable[Group]:
    """Wanted files beside each other, in the order of their rows."""
    order = sorted(range(len(files)), key=lambda n: (files[n].min_sequence_number, files[n].max_sequence_number))
    for is_wanted, run in groupby(order, key=lambda n: wanted(files[n])):
        if is_wanted:
            yield from (group for group, _ in _bins(files, ([n] for n in run), options, full=True))


def _pays_ordered(
    files: Sequence[DataFileMeta],
    group: Group,
    marks: Mapping[str, Mark],
    options: AppendCompactionOptions,
    full: bool,
) -> bool:
    marked = [(files[n], marks[files[n].file_name]) for n in group if files[n].file_name in marks]
    if full:
        return len(group) > 1 or bool(marked)
    if any(_is_worn(f, m, options.delete_ratio) for f, m in marked):
        return True
    return len(group) > 1 and (
        len(group) >= options.min_files or sum(files[n].file_size for n in group) >= 2 * options.target_bytes
    )


def _one_with_vectors(
    files: Sequence[DataFileMeta], groups: list[Group], marks: Mapping[str, Mark], full: bool
) -> list[Group]:
    """At most one group that has vectors, as a bucket has all of them in one index file.

    A full compaction makes one group of all from the first such file to the last. Others leave some for the next time.
    """
    marked = [g for g in groups if any(files[n].file_name in marks for n in g)]
    if len(marked) < 2:
        return groups
    if not full:
        return [g for g in groups if g not in marked[1:]]
    order = sorted(range(len(files)), key=lambda n: (files[n].min_sequence_number, files[n].max_sequence_number))
    place = {n: i for i, n in enumerate(order)}
    between = order[place[marked[0][0]] : place[marked[-1][-1]] + 1]
    inside = set(between)
    return [tuple(between), *(g for g in groups if not inside.intersection(g))]


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
