"""Streaming writes: each micro-batch written on executors, committed exactly once.

Spark asks for a writer for the tasks of every micro-batch, and in another process for its end. Only the messages of
tasks go from the one to the other, and only tasks know the query: so each message names it, and the end of a batch
plans again. docs/design/spark.md has what Spark does.

Source: PySpark `sql/worker/write_into_data_source.py`, `sql/worker/python_streaming_sink_runner.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from paimon_spark.errors import StreamError
from paimon_spark.spark.batch_write import check_complete, sweep_until_quiet
from paimon_spark.spark.task_read import BATCH_ID, QUERY_ID, freeze_gc_once
from paimon_spark.spark.worker_errors import errors_in_one_line

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from paimon_spark.jobs.write.stream import StreamWrite
    from paimon_spark.jobs.write.tasks import StreamRows, StreamTask

_CHECKPOINTS: Final = "spark.sql.streaming.checkpointLocation"
"""Where a session keeps the checkpoints of queries that name none; the session's confs go to tasks."""


@dataclass(frozen=True)
class StreamMessage(WriterCommitMessage):
    """Rows that one task has written."""

    rows: StreamRows


@errors_in_one_line
class PaimonStreamWriter(DataSourceStreamArrowWriter):
    """The sink of a streaming query, for one micro-batch; without `task` for its end only."""

    def __init__(self, options: Mapping[str, str], complete: bool, task: StreamTask | None = None) -> None:
        self._options = dict(options)
        self._complete = complete
        self._task = task

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StreamMessage:
        """Write the rows of a partition. Executor; after an error none of its files is left."""
        if self._task is None:
            raise StreamError("rows came to a writer that was made to end a micro-batch; nothing was written")
        number, query_id, batch_id = _whose_task()
        rows = self._task.write(iterator, number, query_id, batch_id)
        context = TaskContext.get()
        if context is not None and not any(key.lower() == "checkpointlocation" for key in self._options):
            rows = replace(rows, checkpoint_conf=context.getLocalProperty(_CHECKPOINTS) or None)
        freeze_gc_once()
        return StreamMessage(rows)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Make the rows of a micro-batch visible: once, however often Spark asks for it. Beside the driver."""
        check_complete(messages)
        self._sink().commit(_rows(messages), batchId)
        freeze_gc_once()

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Remove what tasks have written when one failed. Beside the driver.

        Spark also calls this after a commit that failed, with the message of every task: then `commit` has removed what
        may be removed. Without any message the names of their files are unknown: what killed tasks left stays until
        `remove_orphan_files`.
        """
        rows = _rows(messages)
        if None in messages and rows:
            sink = self._sink()
            sweep_until_quiet(partial(sink.sweep, rows))
            sink.abort(rows)

    def _sink(self) -> StreamWrite:
        return _planned_end(tuple(sorted(self._options.items())), self._complete)


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> PaimonStreamWriter:
    """The writer that tasks of a micro-batch get, as `df.writeStream.options(…).start(path)` asks for.

    Beside the driver. To the user's options Spark adds the path, the checkpoint and the query's name. With `overwrite`
    the output mode is complete: each micro-batch is the whole table.

    Raises as `jobs.write.stream.plan_stream_write`.
    """
    from paimon_spark.jobs.write.stream import plan_stream_write
    from paimon_spark.spark.schema import arrow_schema, row_type

    sink = plan_stream_write(options, overwrite, arrow_schema(schema), lambda: row_type(schema, all_nullable=True))
    writer = PaimonStreamWriter(options, overwrite, sink.task())
    freeze_gc_once()
    return writer


@lru_cache(maxsize=16)
def _planned_end(options: tuple[tuple[str, str], ...], complete: bool) -> StreamWrite:
    """The sink that ends the micro-batches of a query; kept, as Spark mostly ends them in one process."""
    from paimon_spark.jobs.write.stream import plan_stream_commit

    return plan_stream_commit(dict(options), complete)


def _whose_task() -> tuple[int, str, int]:
    """The number of this task, its query and its micro-batch. Raises StreamError: Spark does not tell them."""
    context = TaskContext.get()
    query_id = None if context is None else context.getLocalProperty(QUERY_ID)
    batch_id = None if context is None else context.getLocalProperty(BATCH_ID)
    if context is None or not query_id or batch_id is None:
        raise StreamError(
            "Spark does not tell a task of a streaming query its query and micro-batch (local properties "
            f"{QUERY_ID} = {query_id!r}, {BATCH_ID} = {batch_id!r}); nothing was written. Write with df.writeStream, "
            "or with df.write inside foreachBatch"
        )
    return context.partitionId(), query_id, int(batch_id)


def _rows(messages: Sequence[WriterCommitMessage | None]) -> list[StreamRows]:
    return [m.rows for m in messages if isinstance(m, StreamMessage)]
