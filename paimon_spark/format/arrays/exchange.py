"""Rows on their way to other tasks: divided by number, and as bytes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.format.arrays.pieces import taken

_Rows = TypeVar("_Rows", pa.RecordBatch, pa.Table)


def divided(rows: _Rows, numbers: npt.NDArray[Any]) -> Iterator[tuple[int, _Rows]]:
    """Yield the rows of each number, ascending; rows of one number stay in their order.

    Args:
        rows: to divide.
        numbers: whole numbers, one for each row.
    """
    if not len(numbers):
        return
    order = numbers.argsort(kind="stable")
    there: npt.NDArray[Any] = numbers[order]
    ordered: _Rows = taken(rows, order) if isinstance(rows, pa.Table) else rows.take(pa.array(order))
    starts = [0, *(np.flatnonzero(there[1:] != there[:-1]) + 1).tolist(), len(there)]
    for start, end in pairwise(starts):
        yield int(there[start]), ordered.slice(start, end - start)


def to_bytes(rows: pa.RecordBatch | pa.Table) -> bytes:
    """Rows as an Arrow stream, which keeps every value as it is."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    return bytes(sink.getvalue().to_pybytes())


def from_bytes(data: bytes) -> pa.Table:
    """The rows of `to_bytes`."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()
