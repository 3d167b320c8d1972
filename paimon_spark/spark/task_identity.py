"""For whom a task runs: Spark tells its tasks the application, the streaming query and the micro-batch.

Source: Spark `MicroBatchExecution` and `StreamExecution` (`sql.streaming.queryId`, `streaming.sql.batchId`, the job's
description), `SQLExecution.withSQLConfPropagated`; the same in PySpark 4.1 to 4.3, classic and Connect.
"""

from __future__ import annotations

from typing import Final

from paimon_spark.lineage.note import TaskIdentity

_APP: Final = "spark.app.id"
_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"
_DESCRIPTION: Final = "spark.job.description"


def task_identity() -> TaskIdentity | None:
    """The application, query and batch of the task that this process runs. None outside of tasks. Executor."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return None
    app_id = context.getLocalProperty(_APP)
    if not app_id:
        return None
    query_id = context.getLocalProperty(_QUERY) or None
    batch = context.getLocalProperty(_BATCH)
    return TaskIdentity(
        app_id,
        query_id,
        int(batch) if query_id is not None and batch is not None and batch.isdecimal() else None,
        None if query_id is None else _name(context.getLocalProperty(_DESCRIPTION) or "", query_id),
    )


def _name(description: str, query_id: str) -> str | None:
    """The query's name: what stands before its id, where nobody has put another description there."""
    name, found, _ = description.partition(f"\nid = {query_id}")
    return name if found and name else None
