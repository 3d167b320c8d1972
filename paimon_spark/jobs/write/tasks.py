"""TaskWrite and StreamTask: the parts of a write job that its tasks run.

Every new Python worker of Spark imports the modules that the pickled writer names, so this one imports little.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from paimon_spark.engine.tasks import CommitMessage
from paimon_spark.engine.write.input import padded_keys
from paimon_spark.engine.write.request import WriteRequest, job_of
from paimon_spark.engine.write.table_writer import TableWriter
from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.format.arrays.arrow_numpy import array_of, take_indices
from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.format.arrays.pieces import cut
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.features import crosses_partitions
from paimon_spark.metadata.handle import TableHandle, current
from paimon_spark.metadata.snapshots import latest_snapshot

if TYPE_CHECKING:
    from paimon_spark.jobs.write.existing_keys import ExistingKeys

_MOST_ROWS: Final = 1 << 20
"""Rows that constants are added to at a time."""


@dataclass(frozen=True, slots=True)
class TaskWrite:
    """Writes the rows of one task of a job. Picklable.

    Attributes:
        request: of the job; `numbered` fills in what differs between tasks.
        assigners: number of tasks over which the keys of a partition with dynamic buckets are divided.
        constants: values of columns that the rows may lack.
    """

    request: WriteRequest
    assigners: int | None = None
    constants: Mapping[str, Any] = field(default_factory=dict)

    def numbered(self, number: int, shares_buckets: bool) -> WriteRequest:
        """The request of the task `number`.

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
            batches: rows, all of one schema; types may differ from the table's where the cast is safe.
            number: of the task among those of its job.
            shares_buckets: whether other tasks may write rows of the same bucket.

        Raises:
            DataError: a value does not fit its column.
            StorageError: a file cannot be written.
        """
        rest = (part for batch in batches for part in cut(batch, most_rows=_MOST_ROWS))
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
        """The batch with a column for each constant that it lacks."""
        for name in _missing(batch.schema, self.constants):
            one = array_of([self.constants[name]], _arrow_type(self.request.handle, name))
            batch = batch.append_column(name, one.take(take_indices(np.zeros(batch.num_rows, np.int64))))
        return batch


def with_columns(handle: TableHandle, source: pa.Schema, constants: Mapping[str, Any]) -> pa.Schema:
    """`source` with a field for each of `constants` that it lacks."""
    for name in _missing(source, constants):
        source = source.append(pa.field(name, _arrow_type(handle, name)))
    return source


def _missing(source: pa.Schema, constants: Mapping[str, Any]) -> list[str]:
    """Names of `constants` that `source` lacks in any case."""
    names = {name.lower() for name in source.names}
    return [name for name in constants if name.lower() not in names]


def _arrow_type(handle: TableHandle, name: str) -> pa.DataType:
    return arrow_type(handle.schema.row_type.field(name).type)


@dataclass(frozen=True, slots=True)
class StreamRows:
    """Rows that one task has written of a batch. Picklable.

    Attributes:
        query_id: of the streaming query, the same for as long as its checkpoint lives.
        job: in the names of all files of the batch, as this run of the query writes it.
        base: the branch's head when the task began, after which its rows are numbered; None also when they replace all
            others.
        schema: that the files were written with.
        checkpoint_conf: the session's directory of checkpoints, when the query names none.
    """

    messages: tuple[CommitMessage, ...]
    query_id: str
    job: str
    base: Snapshot | None
    schema: TableSchema
    checkpoint_conf: str | None = None


@dataclass(frozen=True, slots=True)
class StreamTask:
    """Writes the rows of one task of a batch. Picklable.

    The sink of a query is planned once, and its tasks run batch after batch: each opens the branch's head itself.

    Attributes:
        handle: the branch as it was when the sink was planned, with the options in force for the query.
        complete: the batch replaces all rows of the table.
        token: random text of this plan.
        commit_user: option `commit.user`; None: the query.
        shares_buckets: as in `TaskWrite.write`.
        assigners: as in `TaskWrite`.
    """

    handle: TableHandle
    complete: bool
    token: str
    commit_user: str | None
    shares_buckets: bool
    assigners: int | None

    def write(self, batches: Iterable[pa.RecordBatch], number: int, query_id: str, batch_id: int) -> StreamRows:
        """Write rows into files. Executor or in process; after an error no file of the task is left.

        Raises:
            TableNotFoundError, BranchNotFoundError: the branch is gone.
            Others as `TaskWrite.write`.
        """
        handle = current(self.handle)
        head = latest_snapshot(handle)
        base = None if self.complete else head
        # File names differ for each batch, and for each run of its query.
        job = job_of(sha256(f"{self.token}/{query_id}/{batch_id}".encode()).digest())
        request = WriteRequest(
            handle,
            user_of(handle, self.commit_user, query_id),
            base,
            ignores_existing=self.complete,
            job=job,
            existing_keys=existing_keys(handle, base),
            padded=padded_keys(handle, base),
        )
        messages = TaskWrite(request, self.assigners).write(batches, number, self.shares_buckets)
        return StreamRows(tuple(messages), query_id, job, base, handle.schema)


def existing_keys(
    handle: TableHandle, base: Snapshot | None, without: Mapping[str, Any] | None = None
) -> ExistingKeys | None:
    """The keys that may have to move, as `ExistingKeys`; None for tables whose keys never change partitions."""
    if not crosses_partitions(handle.schema, handle.options):
        return None
    from paimon_spark.jobs.write.existing_keys import ExistingKeys  # only such tables import the reader

    return ExistingKeys(handle, base, without or {})


def user_of(handle: TableHandle, given: str | None, query_id: str) -> str:
    """The commit user of a query: option `commit.user`, else the query's id after `commit.user-prefix`."""
    if given is not None:
        return given
    prefix = handle.options.commit.user_prefix
    return f"{prefix}_{query_id}" if prefix else query_id
