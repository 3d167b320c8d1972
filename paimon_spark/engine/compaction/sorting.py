"""Sort compaction: rows of a partition in order, in all its files or some levels.

sample of the columns → Ranges → rows dealt to ranges → each range sorted → files of several ranges

Rows travel as Arrow bytes, so that they are written as they were. Values are compared as Arrow compares them, nulls
first. Z-order and Hilbert curves are positions of points whose coordinates are whole numbers.

Incremental clustering sorts some files anew: a file of level 0 is a run of its own, as are the files of each higher
level together. The runs that universal compaction picks by their sizes are sorted together into one level, so that a
row is sorted again only as often as its partition grows by a factor.

Source: Java `spark/sort/TableSorter`, `sort/zorder`, `sort/hilbert`; here curves run over ranks of values in a sample,
so that columns of any type and any distribution count alike. J. Skilling, "Programming the Hilbert curve", 2004. Java
`append/cluster/IncrementalClusterManager`, `IncrementalClusterStrategy`, `CoreOptions.clusteringStrategy`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.engine.commit.index_files import has_buckets
from paimon_spark.engine.compaction.append import Vectors, check_append
from paimon_spark.engine.compaction.pick import Moment, Unit, last_level, pick_universal, sorted_runs
from paimon_spark.engine.compaction.task import Bucket, BucketTask, read_request
from paimon_spark.engine.read.file_reader import fields_of, iter_rows
from paimon_spark.engine.read.metadata_columns import stored_rows
from paimon_spark.engine.tasks import CommitMessage, Increment, SplitMode
from paimon_spark.engine.write.data_files import DataFiles
from paimon_spark.engine.write.request import WriteRequest, check_file_schemas, new_file_id, new_job, remove_job_files
from paimon_spark.errors import ColumnNotFoundError, InvalidInputError, InvalidOptionError, UnsupportedFeatureError
from paimon_spark.format.arrays.arrow_types import arrow_schema, record_batch
from paimon_spark.format.arrays.pieces import ARRAY_BYTES, divided, taken
from paimon_spark.format.metadata_files.data_file import DataFileMeta, FileSource
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.schemas import schemas_by_id
from paimon_spark.metadata.vector_files import changed_vectors
from paimon_spark.options.compaction import CLUSTERING_COLUMNS, CLUSTERS, CompactionOptions, SortStrategy

RANGE_BYTES: Final = 16 << 20
"""Bytes of files whose rows are sorted together."""
SAMPLE_ROWS: Final = 100_000
"""Rows of a partition that are looked at, about."""
SAMPLE_BYTES: Final = 64 << 20
"""Bytes of the columns of the order, from which on fewer rows are looked at."""
_LEAST_SAMPLE: Final = 64
_MOST_BITS: Final = 16
"""Of a rank; more tell values apart that a sample does not."""
_DEALT_ROWS: Final = 1 << 20
_DEALT_BYTES: Final = 256 << 20
"""Rows and bytes of a task that are dealt together."""


@dataclass(frozen=True, slots=True)
class RowOrder:
    """The order of rows."""

    columns: tuple[str, ...]
    strategy: SortStrategy = SortStrategy.ORDER


def check_order(handle: TableHandle, order: RowOrder) -> None:
    """Check that the rows of a table can be put in an order.

    Raises:
        InvalidInputError, ColumnNotFoundError: the columns.
        UnsupportedFeatureError: the table has keys, buckets or data evolution, or a column has no order.
    """
    check_append(handle)
    for has, what in (
        (bool(handle.schema.primary_keys), "a primary key"),
        (has_buckets(handle), "a number of buckets"),
        (handle.options.data_evolution, "data evolution"),
    ):
        if has:
            raise UnsupportedFeatureError(
                f"{handle.describe()} cannot be sorted by a compaction: it has {what}, which says where its rows are",
                feature=f"sort compaction of tables with {what}",
                table=handle.name,
            )
    names = handle.schema.row_type.names
    if not order.columns or len(set(order.columns)) < len(order.columns):
        raise InvalidInputError(
            f"order_by = {', '.join(order.columns) or 'nothing'} for {handle.describe()}: expected columns, each once",
            argument="order_by",
        )
    for column in order.columns:
        if column not in names:
            raise ColumnNotFoundError(
                f"order_by names {column!r}, and {handle.describe()} has no such column; its columns are "
                f"{', '.join(names)}",
                table=handle.name,
                column=column,
            )
        if column in handle.schema.partition_keys:
            raise InvalidInputError(
                f"order_by names the partition column {column!r} of {handle.describe()}, which is the same in all rows "
                "of a partition; leave it out",
                argument="order_by",
            )
        kind = arrow_schema(fields_of(handle.schema, (column,))).field(0).type
        if pa.types.is_nested(kind):
            raise UnsupportedFeatureError(
                f"order_by names column {column} of {handle.describe()}, and values of type "
                f"{handle.schema.row_type.field(column).type} have no order",
                feature=f"order of {kind}",
                column=column,
            )


def sort_tasks(handle: TableHandle, buckets: Iterable[Bucket], vectors: Vectors) -> list[BucketTask]:
    """A task for each partition, with all its files."""
    out = []
    for bucket in buckets:
        check_file_schemas(handle, max(f.schema_id for f in bucket.files), "its compaction was planned")
        index = tuple(vectors.get((bucket.partition, bucket.bucket), ()))
        out.append(BucketTask(bucket.partition, bucket.bucket, bucket.total_buckets, tuple(bucket.files), index))
    return out


def read_sample(
    handle: TableHandle, snapshot: Snapshot, task: BucketTask, order: RowOrder, files: Sequence[int]
) -> pa.Table:
    """The columns of the order of some rows of files of a task, about `SAMPLE_ROWS` of the whole task. Executor."""
    request, split = read_request(handle, snapshot, task, SplitMode.RAW, task.vectors)
    fields = fields_of(handle.schema, order.columns)
    schema = arrow_schema(fields)
    fraction = SAMPLE_ROWS / max(1, sum(f.row_count for f in task.files))
    choose = np.random.default_rng(0)
    found: list[pa.RecordBatch] = []
    size = 0
    for number in files:
        for rows in iter_rows(
            request, split, split.files[number], split.deletion_of(number), fields, batch_rows=request.batch_rows
        ):
            batch = record_batch(rows.columns, schema, rows.row_count)
            found.append(batch if fraction >= 1 else batch.filter(pa.array(choose.random(len(batch)) < fraction)))
            size += found[-1].nbytes
            while size > SAMPLE_BYTES and sum(map(len, found)) > _LEAST_SAMPLE:
                fraction = min(fraction, 1) / 2
                found = [b.filter(pa.array(choose.random(len(b)) < 0.5)) for b in found]
                size = sum(b.nbytes for b in found)
    return pa.Table.from_batches(found, schema)


@dataclass(frozen=True, slots=True)
class Ranges:
    """Consecutive ranges of an order, about equally full. Picklable.

    Attributes:
        scales: for curves: sorted values of each column, which rank values.
        bounds: where the second and each later range begins: rows of the columns, or positions on the curve.
    """

    order: RowOrder
    scales: tuple[pa.ChunkedArray, ...]
    bounds: pa.Table | npt.NDArray[np.uint64]

    @classmethod
    def of(cls, sample: pa.Table, order: RowOrder, ranges: int) -> Ranges:
        """Ranges that divide a sample evenly; some are empty where values repeat."""
        places = np.unique(np.arange(1, ranges) * len(sample) // ranges) if len(sample) else np.arange(0)
        if order.strategy is SortStrategy.ORDER:
            return cls(order, (), taken(sample, _places(sample)[places]))
        bits = _bits(order)
        scales = tuple(_scale(sample.column(name), (1 << bits) - 1) for name in order.columns)
        positions = np.sort(_positions(order, scales, sample))
        return cls(order, scales, np.unique(positions[places]))

    def __len__(self) -> int:
        return len(self.bounds) + 1

    def numbers(self, rows: pa.Table) -> npt.NDArray[np.int64]:
        """The range of each row."""
        if isinstance(self.bounds, pa.Table):
            return _ranks(self.bounds, rows.select(list(self.order.columns)))
        return np.searchsorted(self.bounds, _positions(self.order, self.scales, rows), side="right")

    def sorted(self, rows: pa.Table) -> pa.Table:
        """Rows of one range, in order."""
        if isinstance(self.bounds, pa.Table):
            return taken(rows, _places(rows.select(list(self.order.columns))))
        return taken(rows, np.argsort(_positions(self.order, self.scales, rows), kind="stable"))


def _places(rows: pa.Table) -> npt.NDArray[np.int64]:
    """The places of rows in ascending order of all their columns, nulls first; equal rows stay in their order."""
    columns: list[pa.ChunkedArray] = []
    for column in rows.columns:  # before pyarrow 25 nulls have one place for all keys, since then one for each
        columns += [column.is_valid(), column] if column.null_count else [column]
    names = [str(n) for n in range(len(columns))]
    found = pc.sort_indices(pa.table(columns, names=names), [(name, "ascending") for name in names])
    return np.asarray(found).astype(np.int64)


def _bits(order: RowOrder) -> int:
    return max(1, min(_MOST_BITS, 64 // len(order.columns)))


def _scale(values: pa.ChunkedArray, most: int) -> pa.ChunkedArray:
    """At most `most` different values that divide a column evenly, sorted; without nulls, which come first."""
    known = pa.table([pc.drop_null(values)], names=["value"])
    places = _places(known)
    most = min(most, len(places) * ARRAY_BYTES // max(known.nbytes, 1))
    if len(places) > most:
        places = places[np.arange(1, most + 1) * len(places) // (most + 1)]
    return pa.chunked_array([pc.unique(taken(known, places).column(0))])


def _positions(order: RowOrder, scales: Sequence[pa.ChunkedArray], rows: pa.Table) -> npt.NDArray[np.uint64]:
    """The position of each row on the curve."""
    bits, ranks = _bits(order), []
    for name, scale in zip(order.columns, scales, strict=True):
        column = pa.table({name: rows.column(name)})
        known = pa.table({name: scale})
        # Spread over all bits, so that a column of few values counts as much as others.
        spread = _ranks(known, column) * ((1 << bits) - 1) // max(1, len(scale))
        ranks.append(spread.astype(np.uint64))
    return (z_order if order.strategy is SortStrategy.ZORDER else hilbert)(ranks, bits)


def _ranks(bounds: pa.Table, rows: pa.Table) -> npt.NDArray[np.int64]:
    """For each row, how many of the sorted bounds are not behind it."""
    both = pa.concat_tables([bounds, rows.cast(bounds.schema)])
    place = _places(both)
    is_bound = place < len(bounds)
    ranks = np.empty(len(rows), np.int64)
    ranks[place[~is_bound] - len(bounds)] = np.cumsum(is_bound)[~is_bound]
    return ranks


def deal(
    handle: TableHandle, snapshot: Snapshot, task: BucketTask, ranges: Ranges, files: Sequence[int]
) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows of files of a task, with the number of the range that they are in. Executor."""
    request, split = read_request(handle, snapshot, task, SplitMode.RAW, task.vectors)
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in (batch for number in files for _, batch in stored_rows(request, split, number)):
        waiting.append(batch)
        size += batch.nbytes
        if size >= _DEALT_BYTES or sum(map(len, waiting)) >= _DEALT_ROWS:
            rows, waiting, size = pa.Table.from_batches(waiting), [], 0
            yield from divided(rows, ranges.numbers(rows))
    if waiting:
        rows = pa.Table.from_batches(waiting)
        yield from divided(rows, ranges.numbers(rows))


def write_ranges(
    handle: TableHandle,
    snapshot: Snapshot,
    task: BucketTask,
    commit_user: str,
    rows: Iterable[pa.Table],
    job: str | None = None,
) -> tuple[DataFileMeta, ...]:
    """Write sorted ranges of a task, in order, into files. Executor; after an error no file is left."""
    request = WriteRequest(handle, commit_user, snapshot, job=job)
    files = DataFiles(request, task.partition, task.bucket, keeps_row_ids=handle.options.row_tracking)
    level = 0 if task.unit is None else task.unit.level
    writer = files.data(level, FileSource.COMPACT, task.files[0].min_sequence_number)
    try:
        for table in rows:
            for batch in table.to_batches():
                writer.write(batch)
        return writer.close()
    except BaseException:
        writer.abort()
        raise


def sorted_message(handle: TableHandle, task: BucketTask, files: Sequence[DataFileMeta], job: str) -> CommitMessage:
    """The message that puts sorted files in the place of those of a task, whose deletion vectors are dropped."""
    changes = dict.fromkeys(f.file_name for f in task.files)
    place = (task.partition, task.bucket)
    new, replaced = changed_vectors(handle, place, task.vectors, changes, in_one_file=False, file_id=new_file_id(job))
    done = Increment(tuple(files), task.files, new_index_files=tuple(new), deleted_index_files=tuple(replaced))
    return CommitMessage(*place, task.total_buckets, compact=done)


def range_count(task: BucketTask) -> int:
    """How many ranges a task has."""
    return max(1, -(-task.input_bytes // RANGE_BYTES))


def ranges_in_file(handle: TableHandle) -> int:
    """How many consecutive ranges make a file, about."""
    return max(1, handle.options.append_compaction.target_bytes // RANGE_BYTES)


def sort_here(
    handle: TableHandle, snapshot: Snapshot, tasks: Sequence[BucketTask], commit_user: str, order: RowOrder
) -> list[CommitMessage | None]:
    """Sort tasks in this process, which holds a whole task in memory. After an error no file of them is left."""
    job = new_job()
    try:
        return [_sorted_here(handle, snapshot, task, commit_user, order, job) for task in tasks]
    except BaseException:
        remove_job_files(handle, job)
        raise


def _sorted_here(
    handle: TableHandle, snapshot: Snapshot, task: BucketTask, commit_user: str, order: RowOrder, job: str
) -> CommitMessage:
    every = range(len(task.files))
    ranges = Ranges.of(read_sample(handle, snapshot, task, order, every), order, range_count(task))
    dealt = sorted(deal(handle, snapshot, task, ranges, every), key=lambda found: found[0])
    groups = groupby(dealt, key=lambda found: found[0])
    rows = (ranges.sorted(pa.concat_tables(table for _, table in group)) for _, group in groups)
    return sorted_message(handle, task, write_ranges(handle, snapshot, task, commit_user, rows, job), job)


Integers = npt.NDArray[np.uint64]


def z_order(coordinates: Sequence[Integers], bits: int) -> Integers:
    """The positions on the Z-order curve: the bits of the coordinates interleaved, highest first.

    Args:
        coordinates: an array for each dimension, all of one length; at least one.
        bits: of each coordinate; times the dimensions at most 64.
    """
    position = np.zeros(len(coordinates[0]), np.uint64)
    one = np.uint64(1)
    for bit in range(bits - 1, -1, -1):
        for values in coordinates:
            position = (position << one) | ((values >> np.uint64(bit)) & one)
    return position


def hilbert(coordinates: Sequence[Integers], bits: int) -> Integers:
    """The positions on the Hilbert curve, on which neighbours differ by one in one coordinate. As `z_order`."""
    axes = [values.astype(np.uint64) for values in coordinates]
    nothing = np.zeros(len(axes[0]), np.uint64)
    for bit in range(bits - 1, 0, -1):
        high, low = np.uint64(1 << bit), np.uint64((1 << bit) - 1)
        for n in range(len(axes)):
            is_high = (axes[n] & high) != 0
            swapped = np.where(is_high, nothing, (axes[0] ^ axes[n]) & low)
            axes[0] = np.where(is_high, axes[0] ^ low, axes[0] ^ swapped)
            if n:
                axes[n] = axes[n] ^ swapped
    for n in range(1, len(axes)):
        axes[n] = axes[n] ^ axes[n - 1]
    turned = nothing
    for bit in range(bits - 1, 0, -1):
        turned = np.where((axes[-1] & np.uint64(1 << bit)) != 0, turned ^ np.uint64((1 << bit) - 1), turned)
    return z_order([values ^ turned for values in axes], bits)


_CURVE_COLUMNS: Final = 5
"""From so many columns on, the strategy `auto` is the Hilbert curve."""


def clustering_order(handle: TableHandle) -> RowOrder:
    """The order of the rows of a table with incremental clustering.

    Raises InvalidOptionError: no columns are named; others as `check_order`.
    """
    options = handle.options.append_compaction
    columns, strategy = options.clustering_columns, options.clustering
    if not columns:
        raise InvalidOptionError(
            f"{handle.describe()} has {CLUSTERS.key} without {CLUSTERING_COLUMNS.key}; name the columns to sort by",
            option=CLUSTERING_COLUMNS.key,
        )
    if strategy is None:
        curve = SortStrategy.ZORDER if len(columns) < _CURVE_COLUMNS else SortStrategy.HILBERT
        strategy = SortStrategy.ORDER if len(columns) == 1 else curve
    order = RowOrder(columns, strategy)
    check_order(handle, order)
    return order


def cluster_tasks(handle: TableHandle, buckets: Iterable[Bucket], vectors: Vectors, *, full: bool) -> list[BucketTask]:
    """A task for each partition with runs that are worth sorting together; with `full`, all of its files.

    Args:
        handle: the branch, with its latest schema.
        buckets: with all live files of their snapshot.
        vectors: of the same snapshot.
        full: also what is not worth it yet; not what is one sorted level already.

    Raises CommitConflictError: files are of a newer schema than the handle's.
    """
    out, options = [], _of_sizes(handle.options.compaction)
    for bucket in buckets:
        check_file_schemas(handle, max(f.schema_id for f in bucket.files), "its compaction was planned")
        last = last_level(bucket.files, handle.options.num_levels)
        unit = _pick_full(handle, bucket, last) if full else pick_universal(bucket.files, last, options, Moment(0, 0))
        if unit is None:
            continue
        files = tuple(bucket.files[n] for n in unit.files)
        names = {f.file_name for f in files}
        index = tuple(
            entry
            for entry in vectors.get((bucket.partition, bucket.bucket), ())
            if any(vector.data_file_name in names for vector in entry.deletion_vectors or ())
        )
        level = Unit(tuple(range(len(files))), unit.level)
        out.append(BucketTask(bucket.partition, bucket.bucket, bucket.total_buckets, files, index, level))
    return out


def _of_sizes(options: CompactionOptions) -> CompactionOptions:
    """The options without early and forced compactions, which are those of tables with keys."""
    return replace(
        options,
        optimization_interval_ms=None,
        total_size_threshold=None,
        incremental_size_threshold=None,
        offpeak_hours=None,
        force_up_level0=False,
    )


def _pick_full(handle: TableHandle, bucket: Bucket, last: int) -> Unit | None:
    """All files, into the level `last`; None for one run there that was sorted by the same columns."""
    if len(sorted_runs(bucket.files)) == 1 and bucket.files[0].level == last:
        schema_id = bucket.files[0].schema_id
        options = schemas_by_id(handle, {schema_id})[schema_id].options
        if CLUSTERING_COLUMNS.get(options) == handle.options.append_compaction.clustering_columns:
            return None
    return Unit(tuple(range(len(bucket.files))), last)
