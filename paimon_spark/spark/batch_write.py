"""Batch writes: planned and committed beside the driver, written on executors."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from paimon_spark.errors import CommitError
from paimon_spark.options.lineage import JOB
from paimon_spark.spark.task_read import QUERY_ID, task_identity
from paimon_spark.spark.worker_errors import errors_in_one_line

if TYPE_CHECKING:
    import pyarrow as pa

    from paimon_spark.engine.tasks import CommitMessage
    from paimon_spark.jobs.lineage_port import TaskIdentity
    from paimon_spark.jobs.write.batch import WriteJob
    from paimon_spark.metadata.handle import TableHandle


TASKS_END_S: Final = 4.5
"""More than a stopped task can go on: Spark looks every two seconds whether a task is to be stopped, and kills its
worker after another `spark.python.task.killTimeout`, whose default is two seconds.

Source: Spark `api/python/PythonRunner.MonitorThread`.
"""
_SWEEPS: Final = 8


@dataclass(frozen=True)
class TaskMessage(WriterCommitMessage):
    """Rows that one task has written; the first task adds its run, where lineage is recorded."""

    messages: tuple[CommitMessage, ...]
    run: TaskIdentity | None = None


@errors_in_one_line
class BatchWriter(DataSourceArrowWriter):
    """A write of one DataFrame. Spark pickles it for every task and again for the end of the job.

    Tasks unpickle only what they run; the job itself stays bytes until the end.
    """

    def __init__(self, job: WriteJob) -> None:
        self._task = job.task
        self._shares_buckets = not job.options.clustered
        self._pickled_job = pickle.dumps(job)

    @property
    def _job(self) -> WriteJob:
        job: WriteJob = pickle.loads(self._pickled_job)  # noqa: S301 - bytes that Spark carried for us from the planning process
        return job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        """Write the rows of a partition. Executor; after an error none of its files is left."""
        context = TaskContext.get()
        number = 0 if context is None else context.partitionId()
        messages = tuple(self._task.write(iterator, number, self._shares_buckets))
        return TaskMessage(messages, whose_task(self._task.request.handle, context))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make the rows of all tasks visible. Beside the driver."""
        check_complete(messages)
        self._job.commit(_all(messages), run_of(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what tasks have written when a task failed. Beside the driver.

        Spark also calls this after a commit that failed, in a process that does not know why. Then the message of every
        task is there; `commit` has removed what may be removed, and nothing more must go.
        """
        if None in messages:
            # Spark stops the tasks beside the one that failed, and kills their workers after some seconds; until then
            # they make files, or end well without their messages arriving.
            job = self._job
            sweep_until_quiet(job.sweep)
            job.abort(_all(messages))


def whose_task(handle: TableHandle, context: TaskContext | None) -> TaskIdentity | None:
    """Run of this task, if it is the first of a write whose lineage may be recorded. Executor."""
    if context is None or context.partitionId():
        return None
    if JOB.key not in handle.overrides and not context.getLocalProperty(QUERY_ID):
        return None
    return task_identity()


def run_of(messages: Sequence[WriterCommitMessage | None]) -> TaskIdentity | None:
    """Run of the tasks of these messages, if a message has it."""
    return next((run for m in messages if (run := getattr(m, "run", None)) is not None), None)


def sweep_until_quiet(sweep: Callable[[], int], pause_s: float | None = None) -> None:
    """Call `sweep`, which removes files of a job whose tasks are being stopped, until it finds no new ones.

    The pause between two calls, `pause_s`, is by default as long as tasks can go on: for processes that cannot ask
    Spark which tasks run, such as the Python workers in which Spark calls `abort`. These have no SparkContext, and the
    driver gives them no address of its JVM. Elsewhere see `swept_after_failure`.
    """
    sweep()
    for _ in range(_SWEEPS):
        time.sleep(TASKS_END_S if pause_s is None else pause_s)
        if not sweep():
            return


def check_complete(messages: Sequence[WriterCommitMessage | None]) -> None:
    """Refuse to commit without the message of every task. Raises CommitError: nothing is committed."""
    missing = messages.count(None)
    if missing:
        raise CommitError(
            f"Spark asks to commit a write of {len(messages)} tasks, of which {missing} sent no message; "
            "nothing was committed. Write again"
        )


def _all(messages: list[WriterCommitMessage | None]) -> list[CommitMessage]:
    return [m for task in messages if isinstance(task, TaskMessage) for m in task.messages]
