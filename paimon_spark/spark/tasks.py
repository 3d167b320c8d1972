"""Work on many items as a Spark job: a row for each item, its result back."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from paimon_spark.format.arrays.arrow_numpy import array_of
from paimon_spark.spark.running_tasks import swept_after_failure
from paimon_spark.spark.session import our_errors

T = TypeVar("T")
R = TypeVar("R")

_ROUND: Final = 4096
"""Maximum of items in one Spark job: the driver's plan holds them all."""
_RESULT: Final = pa.schema([("number", pa.int32()), ("result", pa.binary())])


@dataclass(frozen=True, slots=True)
class _Tasks:
    """Data that all tasks share. Picklable."""

    work: Callable[[Any], Any]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Work on the items of a partition. Executor."""
        for batch in batches:
            numbers, items = (column.to_pylist() for column in batch.columns)
            for number, pickled in zip(numbers, items, strict=True):
                result = self.work(pickle.loads(pickled))  # noqa: S301 - bytes that Spark carried for us from the planning process
                columns = [array_of([number], pa.int32()), array_of([pickle.dumps(result)], pa.binary())]
                yield pa.RecordBatch.from_arrays(columns, schema=_RESULT)


def run_each(work: Callable[[T], R], items: Sequence[T], sweep: Callable[[], int] | None = None) -> Iterator[R]:
    """Yield `work(item)` for each item, in order, computed by the executors of the active session.

    Args:
        work: picklable, as items and results are. Tasks may be run again.
        items: each is a task.
        sweep: after an error, removes the files that tasks made, and returns how many there were.

    Raises what `work` raises, and PySparkException where Spark itself fails.
    """
    session = SparkSession.getActiveSession()
    assert session is not None
    for start in range(0, len(items), _ROUND):
        with nullcontext() if sweep is None else swept_after_failure(session, sweep), our_errors():
            results = _run(session, work, items[start : start + _ROUND])
        yield from results


def _run(session: SparkSession, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    rows = [(number, bytearray(pickle.dumps(item))) for number, item in enumerate(items)]
    frame = session.createDataFrame(rows, "number INT, item BINARY").repartitionById(len(items), "number")
    found = frame.mapInArrow(_Tasks(work), "number INT, result BINARY").collect()
    by_number = {row.number: row.result for row in found}
    return [pickle.loads(bytes(by_number[n])) for n in range(len(items))]  # noqa: S301 - made by our own tasks
