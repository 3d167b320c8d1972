"""The reading tasks of Spark jobs: splits of a plan → Arrow batches.

Spark starts a new Python worker after each query that stopped early (`LIMIT`), and each new worker imports the modules
that the pickled reader names, so this one imports little.
"""

from __future__ import annotations

import gc
import pickle
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import InputPartition

from paimon_spark.spark.worker_errors import errors_in_one_line

if TYPE_CHECKING:
    import pyarrow as pa

    from paimon_spark.engine.tasks import DataSplit, ReadRequest
    from paimon_spark.jobs.lineage_port import TaskIdentity
    from paimon_spark.lineage.recording.read_notes import NoteTicket
    from paimon_spark.system_tables.registry import ListingReading
    from paimon_spark.system_tables.views import ViewReading

TIMESTAMP_DIGITS: Final = 6
"""Fractional digits of the seconds of Spark's timestamps."""
QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"
"""Local properties that Spark sets for the tasks of a streaming query, those of foreachBatch too."""
_APP: Final = "spark.app.id"
_DESCRIPTION: Final = "spark.job.description"
_DAEMON: Final = "pyspark.daemon"


class SplitsPartition(InputPartition):
    """The splits that one task reads."""

    def __init__(self, splits: tuple[DataSplit, ...], note: bytes | None = None) -> None:
        """`note` is the lineage note that the task writes before it reads; the first task of a plan may have one."""
        super().__init__(None)
        self.splits = splits
        self.note = note

    def __repr__(self) -> str:
        files = sum(len(s.files) for s in self.splits)
        return f"SplitsPartition({len(self.splits)} splits, {files} files)"


@errors_in_one_line
@dataclass(frozen=True)
class TaskReader:
    """Reads partitions on executors. Picklable; reads no metadata files.

    Attributes:
        requests: by branch.
        names: columns in the order of `target`, as the table calls them.
        target: the Arrow schema that Spark demands.
        table_name: how messages call the table.
    """

    requests: Mapping[str, ReadRequest]
    names: tuple[str, ...]
    target: pa.Schema
    table_name: str

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a group of splits, as Spark's Arrow schema wants them."""
        if not isinstance(partition, SplitsPartition):  # Spark makes a partition of its own when there are none
            return
        if partition.note is not None:
            write_lineage_note(partition.note)
        if not partition.splits:
            return
        from paimon_spark.engine.read.split_reader import read_split
        from paimon_spark.format.casts.conformance import fit

        for split in partition.splits:
            batches = read_split(self.requests[split.branch], split)
            yield from fit(batches, self.names, self.target, self.table_name)


@errors_in_one_line
@dataclass(frozen=True)
class SystemTaskReader:
    """Reads a system table on executors. Picklable. Attributes as of `TaskReader`; `reading` is shared by all tasks."""

    reading: ListingReading | ViewReading
    names: tuple[str, ...]
    target: pa.Schema
    table_name: str

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task, as Spark's Arrow schema wants them."""
        from paimon_spark.format.casts.conformance import fit
        from paimon_spark.system_tables.registry import ListingReading

        # Spark makes a partition of its own when there are none.
        splits = partition.splits if isinstance(partition, SplitsPartition) else ()
        if isinstance(self.reading, ListingReading):
            batches = self.reading.read()
        else:
            batches = self.reading.read(splits, timestamp_precision=TIMESTAMP_DIGITS)
        yield from fit(batches, self.names, self.target, self.table_name)


class StreamPartition(SplitsPartition):
    """The splits of a micro-batch that one task reads, and how to read them, which may change between batches."""

    def __init__(self, splits: tuple[DataSplit, ...], shared: bytes, note: bytes | None = None) -> None:
        """`shared` is the pickled requests, names and table name of a `TaskReader`, the same for a whole batch."""
        super().__init__(splits, note)
        self.shared = shared


@errors_in_one_line
@dataclass(frozen=True)
class StreamTaskReader:
    """Reads the partitions of every micro-batch of a query on executors. Picklable. `target` as of `TaskReader`."""

    target: pa.Schema

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a group of splits, as Spark's Arrow schema wants them."""
        assert isinstance(partition, StreamPartition)
        requests, names, table_name = pickle.loads(partition.shared)  # noqa: S301 - bytes that Spark carried for us
        yield from TaskReader(requests, names, self.target, table_name).read(partition)
        freeze_gc_once()


def task_identity() -> TaskIdentity | None:
    """The application, query and batch of the task that this process runs; None outside of tasks. Executor.

    Source: Spark `MicroBatchExecution` and `StreamExecution` (`sql.streaming.queryId`, `streaming.sql.batchId`, the
    job's description), `SQLExecution.withSQLConfPropagated`; the same in PySpark 4.1 to 4.3, classic and Connect.
    """
    from pyspark import TaskContext

    from paimon_spark.jobs.lineage_port import TaskIdentity

    context = TaskContext.get()
    if context is None:
        return None
    app_id = context.getLocalProperty(_APP)
    if not app_id:
        return None
    query_id = context.getLocalProperty(QUERY_ID) or None
    batch = context.getLocalProperty(BATCH_ID)
    return TaskIdentity(
        app_id,
        query_id,
        int(batch) if query_id is not None and batch is not None and batch.isdecimal() else None,
        None if query_id is None else _name(context.getLocalProperty(_DESCRIPTION) or "", query_id),
    )


def _name(description: str, query_id: str) -> str | None:
    """The query's name: the text before its id, unless the job has another description."""
    name, found, _ = description.partition(f"\nid = {query_id}")
    return name if found and name else None


def lineage_note(tickets: Sequence[NoteTicket]) -> bytes | None:
    """The note that the first partition of a plan carries; None without tickets. Driver."""
    return pickle.dumps(tuple(tickets)) if tickets else None


def write_lineage_note(carried: bytes) -> None:
    """Record for lineage what this task is about to read. Never raises. Executor."""
    from paimon_spark.lineage.recording.read_notes import write_note

    who = task_identity()
    if who is not None:
        for ticket in pickle.loads(carried):  # noqa: S301 - bytes that Spark carried for us
            write_note(ticket, who)


@cache
def freeze_gc_once() -> bool:
    """Exclude all present objects from later garbage collections, once in a process; whether it was done.

    PySpark collects all garbage after every task of a process that it keeps (`pyspark/daemon.py`), which takes some
    tens of milliseconds a batch, mostly for objects that imports made. Call it at the end of a batch, when everything
    that batches need is imported. Only processes that PySpark's daemon forks are changed: others belong to the program.
    """
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is None or spec.name != _DAEMON:
        return False
    gc.collect()
    gc.freeze()
    return True
