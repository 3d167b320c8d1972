"""UPDATE of rows of append tables, without Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from paimon_spark import Table
from paimon_spark.engine.commit.committer import Committer
from paimon_spark.engine.commit.requests import PlannedOn
from paimon_spark.engine.row_level.job import in_process, plan_rows
from paimon_spark.predicate.parse import parse_predicate


def update(table: Table, where: str, column: str, value: Any) -> None:
    """`UPDATE … SET column = value WHERE …`, of the table as it was opened."""

    def change(batch: pa.RecordBatch) -> pa.RecordBatch:
        place = batch.schema.get_field_index(column)
        values = pa.array([value] * batch.num_rows, batch.schema.field(place).type)
        return batch.set_column(place, batch.schema.field(place), values)

    handle = table.handle
    job = plan_rows(handle, parse_predicate(where, handle.schema.row_type, None), updates=True)
    messages = in_process(job, change)
    Committer(handle, job.commit_user).commit(messages, planned_on=PlannedOn.of(job.base, must_remain=True))
