"""Read splits as Arrow batches, on executors and in process.

Source: Java `table/source/TableRead`.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import pyarrow as pa

from paimon_spark.engine.read.data_evolution import read_evolved
from paimon_spark.engine.read.evolution import WHOLE, default_values, finishing_cuts, reading_schema
from paimon_spark.engine.read.files_ahead import small_files_ahead
from paimon_spark.engine.read.metadata_columns import (
    is_of_file,
    nanoseconds_of,
    output_schema,
    split_constant,
    with_kind,
)
from paimon_spark.engine.read.raw import read_changes, read_raw
from paimon_spark.engine.tasks import BUCKET, PARTITION, DataSplit, ReadRequest, SplitMode
from paimon_spark.errors import DataError
from paimon_spark.format.arrays.arrow_types import record_batch
from paimon_spark.format.arrays.nested import Convert
from paimon_spark.format.arrays.pieces import ARRAY_BYTES
from paimon_spark.predicate.arrow import matches
from paimon_spark.predicate.ast import conjunction, conjuncts, names_of
from paimon_spark.types import RowKind


def read_split(request: ReadRequest, split: DataSplit) -> Iterator[pa.RecordBatch]:
    """Read the requested rows of a split. Safe to repeat; batches are not empty.

    Batches have `output_schema(request)`: canonical types, `rowkind` in front if asked for. Only rows for which
    the predicate is true come out.

    Raises:
        CorruptFileError: names the file that is missing, damaged, or not what metadata says.
        UnsupportedFeatureError: a format, type or layout that cannot be read.
        DataError: rows cannot be merged or cast; a NOT NULL column holds a null.
    """
    with small_files_ahead(request, split) as asked:
        yield from _read_split(asked, split)


def _read_split(request: ReadRequest, split: DataSplit) -> Iterator[pa.RecordBatch]:
    if request.with_row_kind and _has_only_inserts(request, split):
        yield from with_kind(RowKind.INSERT, request, _read_split(replace(request, with_row_kind=False), split))
        return
    schema = output_schema(request)
    nanoseconds = {c: of for c in request.columns if (of := nanoseconds_of(request, c)) is not None}
    extra = sorted((names_of(request.predicate) | {*nanoseconds.values()}) - set(request.columns))
    constants = tuple(c for c in (PARTITION, BUCKET) if c in request.columns or c in extra)
    inner = replace(
        request,
        columns=tuple(c for c in (*request.columns, *extra) if c not in constants and c not in nanoseconds),
        schema=reading_schema(request, split.mode),
        timestamp_precision=WHOLE,
    )
    defaults = default_values(inner)
    if defaults:
        longest = max(len(str(d.as_py()).encode()) for d in defaults.values())
        inner = replace(inner, batch_rows=max(min(inner.batch_rows, ARRAY_BYTES // max(longest, 1)), 1))
    cuts = finishing_cuts(inner.schema, schema.names, request.timestamp_precision)
    for batch in _batches(_without_tests_of(inner, defaults), split):
        if batch.num_rows == 0:
            continue
        found = _with_constants(inner, split, batch, constants) if constants else batch
        found = _with_defaults(found, defaults) if defaults else found
        for name, of in nanoseconds.items():
            whole = found.column(of)
            assert whole.type.unit == "ns"
            found = found.append_column(name, whole.cast(pa.int64()))
        if request.predicate is not None:
            found = found.filter(matches(request.predicate, found))
        if found.num_rows:
            yield _finished(request, split, found, schema, cuts)


def _has_only_inserts(request: ReadRequest, split: DataSplit) -> bool:
    """Whether each row counts as `+I`: append tables, rows with their file, the state a stream begins with."""
    if not request.schema.primary_keys:
        return True
    if split.mode is SplitMode.RAW:
        names = {*request.columns, *names_of(request.predicate)}
        return request.as_inserts or any(is_of_file(request, n) for n in names)
    return request.as_inserts and split.mode not in (SplitMode.CHANGES, SplitMode.REPLACED)


def _batches(request: ReadRequest, split: DataSplit) -> Iterator[pa.RecordBatch]:
    match split.mode:
        case SplitMode.RAW:
            return read_raw(request, split)
        case SplitMode.CHANGES:
            return read_changes(request, split)
        case SplitMode.EVOLVED:
            return read_evolved(request, split)
    # Plain reads, the common case, do without the modules of merging.
    from paimon_spark.engine.read.merged import read_diff, read_merged, read_replaced

    if split.mode is SplitMode.POSTPONED:
        from paimon_spark.engine.read.merged import read_postponed

        return read_postponed(request, split)
    read = {SplitMode.MERGE: read_merged, SplitMode.DIFF: read_diff, SplitMode.REPLACED: read_replaced}[split.mode]
    return read(request, split)


def _without_tests_of(request: ReadRequest, defaults: Mapping[str, pa.Scalar]) -> ReadRequest:
    """The request without conditions on columns whose nulls get defaults later."""
    parts = [p for p in conjuncts(request.predicate) if not names_of(p) & defaults.keys()]
    return replace(request, predicate=conjunction(parts)) if defaults else request


def _with_defaults(batch: pa.RecordBatch, defaults: Mapping[str, pa.Scalar]) -> pa.RecordBatch:
    arrays = [
        a.fill_null(defaults[n]) if n in defaults and a.null_count else a
        for n, a in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return record_batch(arrays, batch.schema, batch.num_rows)


def _with_constants(
    request: ReadRequest, split: DataSplit, batch: pa.RecordBatch, names: tuple[str, ...]
) -> pa.RecordBatch:
    arrays = [split_constant(request, split, n, batch.num_rows) for n in names]
    fields = [pa.field(n, a.type) for n, a in zip(names, arrays, strict=True)]
    return record_batch([*batch.columns, *arrays], pa.schema([*batch.schema, *fields]), batch.num_rows)


def _finished(
    request: ReadRequest, split: DataSplit, batch: pa.RecordBatch, schema: pa.Schema, cuts: Mapping[str, Convert]
) -> pa.RecordBatch:
    """The batch with the columns of `schema`, in its order."""
    place = {name: i for i, name in enumerate(batch.schema.names)}
    arrays = [batch.column(place[name]) for name in schema.names]
    if cuts:
        arrays = [cuts[n](a) if n in cuts else a for n, a in zip(schema.names, arrays, strict=True)]
    for field, array in zip(schema, arrays, strict=True):
        if not field.nullable and array.null_count:
            raise DataError(
                f"column {field.name} of table {request.table_name} is NOT NULL but bucket {split.bucket_path} "
                "holds a null in it",
                column=field.name,
            )
    return record_batch(arrays, schema, batch.num_rows)


AHEAD: Final = 16
"""Batches a split may be ahead of the consumer; bounds memory to threads x this x a batch."""

UNBOUNDED: Final = 0
"""For a consumer that keeps all batches anyway."""

_WAIT_S: Final = 0.05
_Read: TypeAlias = Callable[[DataSplit], Iterator[pa.RecordBatch]]
_Item: TypeAlias = "pa.RecordBatch | BaseException | None"


def read_splits(read: _Read, splits: Sequence[DataSplit], threads: int, ahead: int = AHEAD) -> Iterator[pa.RecordBatch]:
    """Yield the batches of `read(split)` for each split, in order, reading up to `threads` splits at a time.

    A split waits once it is `ahead` batches before the consumer.

    Closing the iterator stops the readers. What `read` raises is raised here, after the rows before it.
    """
    if threads <= 1 or len(splits) <= 1:
        for split in splits:
            yield from read(split)
        return
    stop = threading.Event()
    from concurrent.futures import ThreadPoolExecutor  # only the driver reads in threads

    # Splits start in order, so the one that is consumed always has a thread: the others wait, it never does.
    outputs: list[queue.Queue[_Item]] = [queue.Queue(ahead) for _ in splits]
    pool = ThreadPoolExecutor(min(threads, len(splits)), thread_name_prefix="paimon-read")
    try:
        for split, output in zip(splits, outputs, strict=True):
            pool.submit(_fill, read, split, output, stop)
        for index, output in enumerate(outputs):
            yield from _drain(output)
            outputs[index] = queue.Queue()  # frees the batches that were read
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


def _fill(read: _Read, split: DataSplit, output: queue.Queue[_Item], stop: threading.Event) -> None:
    try:
        if stop.is_set():
            return
        for batch in read(split):
            if not _put(output, batch, stop):
                return
        _put(output, None, stop)
    except BaseException as e:  # noqa: BLE001 - carried to the consumer, which raises it
        _put(output, e, stop)


def _put(output: queue.Queue[_Item], item: _Item, stop: threading.Event) -> bool:
    """Put `item` into the queue; False if the reader has stopped."""
    while not stop.is_set():
        try:
            output.put(item, timeout=_WAIT_S)
        except queue.Full:
            continue
        return True
    return False


def _drain(output: queue.Queue[_Item]) -> Iterator[pa.RecordBatch]:
    while (item := output.get()) is not None:
        if isinstance(item, BaseException):
            raise item
        yield item
