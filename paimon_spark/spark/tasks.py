"""Work on many items as Spark jobs, and the removal of files after a failed job.

Each item is a row of a DataFrame, and its result comes back as a row. Files are removed once no task of the job runs.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from uuid import uuid4

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from paimon_spark.format.arrays.arrow_numpy import array_of
from paimon_spark.spark.batch_write import sweep_until_quiet
from paimon_spark.spark.session import is_classic, our_errors

T = TypeVar("T")
R = TypeVar("R")

_ROUND: Final = 4096
"""Maximum of items in one Spark job: the driver's plan holds them all."""
_RESULT: Final = pa.schema([("number", pa.int32()), ("result", pa.binary())])
_LONGEST_WAIT_S: Final = 60.0
"""For a `spark.python.task.killTimeout` above the default of two seconds, too."""
_POLL_S: Final = 0.05
_KILLED_S: Final = 0.5
"""More than the Python worker of a task goes on after the task has ended: Spark does not wait until it is killed."""
_INTERRUPTS: Final = "spark.job.interruptOnCancel"
_NO_ANSWER: Final = (Py4JError, PySparkException, OSError)
"""Errors where the JVM does not answer, as when its end is what made the jobs fail."""


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


@contextmanager
def swept_after_failure(session: SparkSession, sweep: Callable[[], int]) -> Iterator[None]:
    """Run Spark jobs of this thread; after an error call `sweep`, which removes the files their tasks made.

    Spark stops the tasks beside the one that failed without waiting for them. In a classic session its status tracker
    is asked until the last of them has ended. Elsewhere the wait is as long as tasks can go on (`sweep_until_quiet`):

    - in a session of Spark Connect, whose client has no SparkContext;
    - where Spark interrupts the threads of tasks (`spark.job.interruptOnCancel`, as in `foreachBatch`): a task may then
      end before its Python worker does;
    - where this thread was interrupted: its connection to the JVM may still wait for an earlier answer.
    """
    is_tracked = is_classic(session) and session.sparkContext.getLocalProperty(_INTERRUPTS) != "true"
    tag = f"paimon-spark-{uuid4().hex}"
    if is_tracked:
        session.sparkContext.addJobTag(tag)
    try:
        yield
    except Exception:
        if is_tracked and _tasks_end(session.sparkContext, tag):
            sweep_until_quiet(sweep, _KILLED_S)
        else:
            sweep_until_quiet(sweep)
        if is_tracked:
            with suppress(*_NO_ANSWER):
                session.sparkContext.removeJobTag(tag)
        raise
    except BaseException:
        sweep_until_quiet(sweep)
        raise
    if is_tracked:
        session.sparkContext.removeJobTag(tag)


def _tasks_end(context: SparkContext, tag: str) -> bool:
    """Wait until no task of the jobs with a tag runs; False where that does not come, or is unknown."""
    spark = context._jsc.sc()  # noqa: SLF001 - the public tracker finds no jobs by tag
    until = time.monotonic() + _LONGEST_WAIT_S
    try:
        spark.listenerBus().waitUntilEmpty()  # the tracker learns of jobs and tasks from there
        jobs = list(spark.statusTracker().getJobIdsForTag(tag))
        while jobs and time.monotonic() < until:
            if not any(_runs(context, job) for job in jobs):
                return True
            time.sleep(_POLL_S)
    except _NO_ANSWER:
        return False
    return False


def _runs(context: SparkContext, job: int) -> bool:
    """Whether a job, or a task of it, runs. Spark counts the tasks of a failed stage until the last one has ended.

    Source: Spark `status/AppStatusListener.onStageCompleted`.
    """
    tracker = context.statusTracker()
    info = tracker.getJobInfo(job)
    if info is None:
        return False
    stages = map(tracker.getStageInfo, info.stageIds)
    return info.status == "RUNNING" or any(stage is not None and stage.numActiveTasks > 0 for stage in stages)
