"""StreamWrite: the sink of a streaming query, one snapshot a batch, exactly once.

plan_stream_write (driver) → StreamTask → write (tasks of each batch) → StreamRows → commit (driver, of each batch).

A batch is one snapshot, whose commit user is the query and whose identifier is the batch, so that a batch that Spark
asks for again is recognised (`streaming/batches.py`). Append adds rows; an empty batch makes no snapshot. Complete
replaces the whole table, also by nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa

from paimon_spark.catalogs.file_system import TablePlace
from paimon_spark.engine.write.request import remove_job_files
from paimon_spark.errors import BranchNotFoundError, CommitError, PaimonError
from paimon_spark.jobs.branch_access import reopen_to_change
from paimon_spark.jobs.lineage_port import QueryRun
from paimon_spark.jobs.opened_table import find_place, required_path
from paimon_spark.jobs.write.stream_batch import StreamBatch, StreamResult, check_schemas, remove_rows
from paimon_spark.jobs.write.target import open_existing, open_target, with_changes
from paimon_spark.jobs.write.tasks import StreamRows, StreamTask, user_of
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import MAIN
from paimon_spark.options.write_request import StreamWriteOptions, canonical_stream_write, parse_stream_write_options
from paimon_spark.streaming.batches import AlreadyCommitted, Sink, find_batch, read_sink_log
from paimon_spark.types import RowType


@dataclass(frozen=True, slots=True)
class StreamWrite:
    """The sink of one query. Picklable; its tasks need only `task()`.

    Attributes:
        handle: the branch as it was planned, with the options in force for the query.
        options: what is asked.
        complete: each batch replaces all rows of the table.
        token: random text of this plan.
    """

    handle: TableHandle
    options: StreamWriteOptions
    complete: bool
    token: str

    def task(self) -> StreamTask:
        """Function that the tasks of its batches run."""
        write = self.options.write
        return StreamTask(
            self.handle, self.complete, self.token, write.commit_user, not write.clustered, write.assigners
        )

    def commit(self, rows: Sequence[StreamRows], batch_id: int) -> StreamResult:
        """Make the rows of a batch visible at once, unless they are. Driver; safe to repeat.

        After an error no file of the rows is left, but for CommitOutcomeUnknownError and where the rows are in. The
        batch can then be written again, by tasks that start anew.

        Raises:
            BatchesLostError: earlier batches of the query are no longer in the branch, or that is unknown.
            SchemaChangedError: a column that the tasks wrote was dropped or has another type.
            TableNotFoundError, BranchNotFoundError: the branch is gone.
            CommitError: as `commit_batch`; or `rows` is empty or of several queries.
        """
        query_id = _query_of(self.handle, rows)
        try:
            handle = reopen_to_change(self.handle)  # main may mean another directory, and columns may be new
            check_schemas(handle, rows)
            user = user_of(handle, self.options.write.commit_user, query_id)
            sink = Sink(query_id, user, is_named=self.options.write.commit_user is not None)
            status = find_batch(handle, sink, batch_id, complete=self.complete)
        except PaimonError:
            if not _may_be_in(self.handle, rows, batch_id):
                remove_rows(self.handle, rows)
            raise
        batch = StreamBatch(
            handle, sink, batch_id, tuple(rows), self.complete, self.options.lost_batches, self._run(query_id, rows)
        )
        if isinstance(status.outcome, AlreadyCommitted):
            return batch.again(status.outcome, lambda: _may_be_in(handle, rows, batch_id))
        return batch.first_time(status)

    def _run(self, query_id: str, rows: Sequence[StreamRows]) -> QueryRun:
        configured = next((r.checkpoint_conf for r in rows if r.checkpoint_conf), None)
        return QueryRun(query_id, self.options.query_name, self.options.checkpoint, configured)

    def abort(self, rows: Sequence[StreamRows]) -> None:
        """Remove what tasks that ended well have written. Driver. Only for batches of which no commit was tried."""
        remove_rows(self.handle, rows)

    def sweep(self, rows: Sequence[StreamRows]) -> int:
        """Remove what killed tasks of the batch left, found by the names of their files; how many there were.

        Driver; only before a commit is tried. Files of other batches, and of other runs of this one, have other names.
        """
        return sum(remove_job_files(self.handle, job) for job in sorted({r.job for r in rows}))


def plan_stream_write(
    options: Mapping[str, str], complete: bool, source: pa.Schema, columns: Callable[[], RowType] | None = None
) -> StreamWrite:
    """The sink that option text asks for, with the table in `path`, for rows of `source`. Driver.

    With `complete`, each batch replaces all rows. `columns` and errors are those of `open_target`.
    """
    place, asked = _place_and_options(options, complete)
    # Each batch is committed by another process, which plans none of its tasks.
    opened, _, changes = open_target(place, asked.write, source, columns)
    handle, _ = with_changes(opened, changes)
    return StreamWrite(handle, asked, complete, uuid4().hex)


def plan_stream_commit(options: Mapping[str, str], complete: bool) -> StreamWrite:
    """The same sink in a process that only commits or aborts; it neither creates nor alters the table.

    Raises as `open_target`; but a missing branch is an error of `commit`.
    """
    place, asked = _place_and_options(options, complete)
    try:
        handle = open_existing(place, asked.write)
    except BranchNotFoundError:
        # The files of the tasks lie in the table's directory: commit and abort can still remove them.
        handle = open_existing(place._replace(branch=MAIN), asked.write).on_branch_directory(place.branch)
    return StreamWrite(handle, asked, complete, uuid4().hex)


def _place_and_options(options: Mapping[str, str], complete: bool) -> tuple[TablePlace, StreamWriteOptions]:
    given = canonical_stream_write(options)
    path = required_path(given, "start")
    asked = parse_stream_write_options(given, complete=complete)
    return find_place(path, given, asked.write.branch, asked.write.storage_options), asked


def _may_be_in(handle: TableHandle, rows: Sequence[StreamRows], batch_id: int) -> bool:
    """Whether a commit of exactly these rows may have been tried before."""
    try:
        log = read_sink_log(handle, rows[0].query_id)
    except PaimonError:
        return True
    return log is not None and (log.batch_id > batch_id or any(r.job in log.jobs for r in rows))


def _query_of(handle: TableHandle, rows: Sequence[StreamRows]) -> str:
    found = sorted({r.query_id for r in rows})
    if len(found) != 1:
        raise CommitError(
            f"a batch of a query was to be committed to {handle.describe()}, but "
            + (f"its tasks name the queries {', '.join(found)}" if found else "no task reported what it wrote")
            + "; nothing was committed",
            table=handle.name,
            branch=handle.branch,
        )
    return found[0]
