"""Tasks of a compaction as a Spark job: a row for each task, a message back.

Only tasks travel; their messages come back and are committed once, by the planner.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from paimon_spark.engine.compaction.run import run_task
from paimon_spark.engine.compaction.task import BucketTask
from paimon_spark.engine.tasks.commit_message import CommitMessage
from paimon_spark.engine.write.request import new_job, remove_job_files
from paimon_spark.format.arrays.arrow_numpy import array_of
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.spark.batch_write import sweep_until_quiet
from paimon_spark.spark.session import our_errors

_ROUND: Final = 4096
"""Maximum of tasks in one Spark job: the driver's plan holds them all."""
_RESULT: Final = pa.schema([("number", pa.int32()), ("message", pa.binary())])


@dataclass(frozen=True, slots=True)
class _Work:
    """What all tasks share. Picklable."""

    handle: TableHandle
    snapshot: Snapshot
    commit_user: str
    job: str

    def sweep(self) -> int:
        """Remove the files of all tasks; how many there were."""
        return remove_job_files(self.handle, self.job)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the tasks of a partition. Executor; a failed task removes its files, the driver those of the others."""
        for batch in batches:
            numbers, tasks = (column.to_pylist() for column in batch.columns)
            for number, pickled in zip(numbers, tasks, strict=True):
                task: BucketTask = pickle.loads(pickled)  # noqa: S301 - bytes that Spark carried for us from the planning process
                message = run_task(self.handle, self.snapshot, task, self.commit_user, self.job)
                columns = [array_of([number], pa.int32()), array_of([pickle.dumps(message)], pa.binary())]
                yield pa.RecordBatch.from_arrays(columns, schema=_RESULT)


def run_tasks(
    handle: TableHandle, snapshot: Snapshot, tasks: Sequence[BucketTask], commit_user: str
) -> list[CommitMessage | None]:
    """The result of `run_task` for each task, in order. After an error no file of them is left.

    Raises as `run_task`, and PySparkException where Spark itself fails.
    """
    session = SparkSession.getActiveSession()
    assert session is not None
    work = _Work(handle, snapshot, commit_user, new_job())
    done: list[CommitMessage | None] = []
    try:
        with our_errors():
            for start in range(0, len(tasks), _ROUND):
                done += _run(session, work, tasks[start : start + _ROUND])
    except BaseException:
        sweep_until_quiet(work)
        raise
    return done


def _run(session: SparkSession, work: _Work, tasks: Sequence[BucketTask]) -> list[CommitMessage | None]:
    rows = [(number, bytearray(pickle.dumps(task))) for number, task in enumerate(tasks)]
    # Repartitioned round-robin from one partition, each task gets its own.
    frame = session.createDataFrame(rows, "number INT, task BINARY").coalesce(1).repartition(len(tasks))
    found = frame.mapInArrow(work, "number INT, message BINARY").collect()
    by_number = {row.number: row.message for row in found}
    return [pickle.loads(bytes(by_number[n])) for n in range(len(tasks))]  # noqa: S301 - made by our own tasks
