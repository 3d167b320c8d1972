"""Several splits at once in one process, rows in the order of the splits, a bounded number of batches ahead."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeAlias

import pyarrow as pa

from paimon_spark.engine.tasks.split import DataSplit

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
    # Splits start in order, so the one that is consumed always has a thread: the others wait, it never does.
    outputs: list[queue.Queue[_Item]] = [queue.Queue(ahead) for _ in splits]
    pool = ThreadPoolExecutor(min(threads, len(splits)), thread_name_prefix="paimon-read")
    try:
        for split, output in zip(splits, outputs, strict=True):
            pool.submit(_fill, read, split, output, stop)
        for index, output in enumerate(outputs):
            yield from _drain(output)
            outputs[index] = queue.Queue()  # let go of what was read
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
    """Hand over `item`; False when nobody wants it any more."""
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
