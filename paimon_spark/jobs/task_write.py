"""TaskWrite: the part of a WriteJob that its tasks run. Nothing here knows of planning or committing.

Every new Python worker of Spark imports what the pickled writer names: this module keeps that short.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_spark.engine.tasks.commit_message import CommitMessage
from paimon_spark.engine.write.request import WriteRequest
from paimon_spark.engine.write.table_writer import TableWriter
from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.format.arrays.arrow_numpy import take_indices
from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.format.arrays.python_values import array_of
from paimon_spark.metadata.handle import TableHandle


@dataclass(frozen=True, slots=True)
class TaskWrite:
    """Writes the rows of one task of a job. Picklable.

    Attributes:
        request: of the job; what differs from task to task is filled in.
        assigners: over how many tasks the keys of a partition with dynamic buckets are divided.
        constants: values of columns that the rows may lack.
    """

    request: WriteRequest
    assigners: int | None = None
    constants: Mapping[str, Any] = field(default_factory=dict)

    def numbered(self, number: int, shares_buckets: bool) -> WriteRequest:
        """What the task `number` needs to know.

        Raises:
            UnsupportedFeatureError: one task has to see all rows, and this is not the first.
        """
        if number and self.request.existing_keys is not None:
            handle = self.request.handle
            raise UnsupportedFeatureError(
                f"the primary key of {handle.describe()} lacks a partition column, so one task has to see all rows, "
                f"and task {number} has some; write it with Table.write, or df.coalesce(1).write",
                feature="several writing tasks where keys move between partitions",
                table=handle.name,
            )
        return replace(
            self.request,
            writer_number=number,
            shares_buckets=shares_buckets,
            assigner=None if self.assigners is None or shares_buckets else (number, self.assigners),
        )

    def write(
        self, batches: Iterable[pa.RecordBatch], number: int = 0, shares_buckets: bool = False
    ) -> list[CommitMessage]:
        """Write rows into files, as one task. Executor or in process; after an error no file of the task is left.

        Args:
            batches: rows; types may differ from the table's where the cast is safe, but are alike in all.
            number: of the task among those of its job.
            shares_buckets: whether other tasks may write rows of the same bucket.

        Raises:
            DataError: a value does not fit its column; names the column and the value.
            StorageError: a file cannot be written.
        """
        rest = (b for b in batches if b.num_rows)
        first = next(rest, None)
        if first is None:
            return []
        first = self._complete(first)
        writer = TableWriter(self.numbered(number, shares_buckets), first.schema)
        try:
            writer.write(first)
            for batch in rest:
                writer.write(self._complete(batch))
            return writer.close()
        except BaseException:
            writer.abort()
            raise

    def _complete(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with a column for each constant that it lacks, the same value in every row."""
        for name in missing(batch.schema, self.constants):
            one = array_of([self.constants[name]], _arrow_type(self.request.handle, name))
            batch = batch.append_column(name, one.take(take_indices(np.zeros(batch.num_rows, np.int64))))
        return batch


def with_columns(handle: TableHandle, source: pa.Schema, constants: Mapping[str, Any]) -> pa.Schema:
    """`source` with a field for each of `constants` that it lacks."""
    for name in missing(source, constants):
        source = source.append(pa.field(name, _arrow_type(handle, name)))
    return source


def missing(source: pa.Schema, constants: Mapping[str, Any]) -> list[str]:
    """Names of `constants` that `source` has in no spelling."""
    there = {name.lower() for name in source.names}
    return [name for name in constants if name.lower() not in there]


def _arrow_type(handle: TableHandle, name: str) -> pa.DataType:
    return arrow_type(handle.schema.row_type.field(name).type)
