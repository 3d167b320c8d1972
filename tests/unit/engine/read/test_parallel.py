"""Splits read in parallel: rows in order, a bounded look-ahead, errors and early close."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.engine.read import split_reader
from paimon_spark.engine.read.split_reader import AHEAD, read_splits
from paimon_spark.engine.tasks import DataSplit, SplitMode
from tests.harness.until import until


def split(i: int) -> DataSplit:
    return DataSplit("main", i, b"", 0, "", SplitMode.RAW, ())


def batch(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"a": pa.array(values, pa.int64())})


def numbers(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [v for b in batches for v in b.column(0).to_pylist()]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_rows_come_in_the_order_of_the_splits(threads: int) -> None:
    read_first = [threading.Event() for _ in range(8)]

    def read(s: DataSplit) -> Iterator[pa.RecordBatch]:
        if threads > 1 and s.snapshot_id % 2 == 0:  # rows of the next split are there before those of this one
            assert read_first[s.snapshot_id + 1].wait(60)
        for j in range(s.snapshot_id):
            yield batch(s.snapshot_id * 100 + j)
            read_first[s.snapshot_id].set()

    splits = [split(i) for i in range(8)]
    assert numbers(read_splits(read, splits, threads)) == [i * 100 + j for i in range(8) for j in range(i)]


def test_two_splits_are_read_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=60)

    def read(s: DataSplit) -> Iterator[pa.RecordBatch]:
        both.wait()
        yield batch(s.snapshot_id)

    assert numbers(read_splits(read, [split(0), split(1)], 2)) == [0, 1]


def test_readers_run_only_a_few_batches_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [0, 0]
    waiting = set()

    def put(output: queue.Queue[Any], item: Any, stop: threading.Event) -> bool:
        if output.full():
            waiting.add(id(output))
        return put_as_ever(output, item, stop)

    put_as_ever = split_reader._put
    monkeypatch.setattr(split_reader, "_put", put)

    def read(s: DataSplit) -> Iterator[pa.RecordBatch]:
        for _ in range(100):
            made[s.snapshot_id] += 1
            yield batch(1)

    batches = read_splits(read, [split(0), split(1)], 2)
    next(batches)
    until(lambda: len(waiting) == 2, lambda: made)
    assert max(made) <= AHEAD + 2
    assert len(numbers(batches)) == 199


def test_an_error_comes_after_the_rows_before_it_and_ends_the_read() -> None:
    def read(s: DataSplit) -> Iterator[pa.RecordBatch]:
        yield batch(s.snapshot_id)
        if s.snapshot_id == 1:
            raise ValueError("split 1")

    batches = read_splits(read, [split(i) for i in range(4)], 2)
    assert [next(batches).column(0)[0].as_py() for _ in range(2)] == [0, 1]
    with pytest.raises(ValueError, match="split 1"):
        next(batches)


def test_closing_early_stops_the_readers() -> None:
    before = set(threading.enumerate())

    def read(s: DataSplit) -> Iterator[pa.RecordBatch]:
        while True:
            yield batch(1)

    batches = read_splits(read, [split(i) for i in range(4)], 2)
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    assert set(threading.enumerate()) <= before  # one of an earlier test may have ended
