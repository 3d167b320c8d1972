"""The commit of one batch of a streaming query, unless it is committed already.

The order matters: the branch's history of the batch is read, then the sink log is written, then the snapshot is made.
So the next attempt can tell at which point an earlier one crashed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from paimon_spark.engine.commit.attempts import CommitResult
from paimon_spark.engine.commit.committer import Committer
from paimon_spark.engine.commit.entries import remove_files
from paimon_spark.engine.commit.index_files import head_index
from paimon_spark.engine.commit.requests import PlannedOn
from paimon_spark.engine.tasks import CommitMessage
from paimon_spark.errors import (
    BatchesLostError,
    CommitConflictError,
    FileMissingError,
    PaimonError,
    SchemaChangedError,
)
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.jobs.lineage_port import QueryRun, listener
from paimon_spark.jobs.upkeep.after_commit import after_commit
from paimon_spark.jobs.upkeep.compaction import compact_batch
from paimon_spark.jobs.write.commit import combined, removing_on_failure
from paimon_spark.jobs.write.tasks import StreamRows
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.manifests import changelog_manifests, delta_manifests, read_manifests
from paimon_spark.metadata.schemas import read_schema
from paimon_spark.metadata.snapshots import find_snapshot
from paimon_spark.options.write_request import LOST_BATCHES, LostBatches
from paimon_spark.redaction import get_logger
from paimon_spark.streaming.batches import (
    AlreadyCommitted,
    BatchesMissing,
    BatchStatus,
    OutcomeUnknown,
    Sink,
    SinkLog,
    SnapshotKey,
    write_sink_log,
)

_LOG = get_logger(__name__)

_KEEP_LONGER: Final = (
    "To avoid this, retain the table's snapshots longer than the query is ever down (snapshot.time-retained)"
)


@dataclass(frozen=True, slots=True)
class StreamResult:
    """The result of the commit of a batch.

    Attributes:
        snapshot_ids: as in `WriteResult`; empty also when the batch was committed before.
        was_committed: the batch was in the branch already, and was not written again.
    """

    snapshot_ids: tuple[int, ...] = ()
    was_committed: bool = False


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """A batch that all tasks have written, and the branch as it is now; `complete`: it replaces all rows."""

    handle: TableHandle
    sink: Sink
    batch_id: int
    rows: Sequence[StreamRows]
    complete: bool
    lost_batches: LostBatches
    run: QueryRun

    @property
    def messages(self) -> list[CommitMessage]:
        return [m for r in self.rows for m in r.messages]

    def first_time(self, status: BatchStatus) -> StreamResult:
        """Commit a batch that was not committed before."""
        head = status.head
        try:
            self._refuse_loss(status)
            self._check_bases(head)
            lineage = listener().stream_commit(self.handle, self.run, self.batch_id)
            write_sink_log(self.handle, self._log(status))
            committer = Committer(
                self.handle,
                self.sink.commit_user,
                listeners=lineage.listeners,
                filtered_up_to=0 if head is None else head.id,
            )
        except PaimonError:
            remove_rows(self.handle, self.rows)
            raise
        written = combined(self.handle, committer, self.messages)
        result = removing_on_failure(committer, written, lambda: self._publish(committer, written, lineage.properties))
        lineage.finish(bool(result.snapshots))
        if result.is_duplicate:
            self._remove_unused(result.snapshots[0], written)
            return self._finished(result.snapshots, None)
        return self._finished(result.snapshots, written)

    def again(self, outcome: AlreadyCommitted, may_be_these: Callable[[], bool]) -> StreamResult:
        """Complete what is still due after the commit of a batch that is in the branch.

        `may_be_these`: whether the committed rows may be exactly these.
        """
        _LOG.info("batch %d of query %s is in %s already", self.batch_id, self.sink.query_id, self.handle.describe())
        if outcome.snapshot is not None:
            listener().stream_committed_before(self.handle, self.run, outcome.snapshot)
            self._remove_unused(outcome.snapshot, self.messages)
            return self._finished((outcome.snapshot,), None)
        if not may_be_these():
            remove_rows(self.handle, self.rows)
        elif any(m.data for m in self.messages):
            _LOG.warning(
                "it is unknown whether batch %d of query %s in %s has these files, so they are kept: "
                "see remove_orphan_files()",
                self.batch_id,
                self.sink.query_id,
                self.handle.describe(),
            )
        return StreamResult(was_committed=True)

    def _finished(self, made: Sequence[Snapshot], written: Sequence[CommitMessage] | None) -> StreamResult:
        """Run what follows the snapshots of the rows: made of messages `written` just now, or before (None)."""
        if not made:
            return StreamResult()
        was_committed = written is None
        compacted = compact_batch(self.handle, made[0].commit_user, made[0], written, self.sink.properties)
        ids = (*(() if was_committed else (s.id for s in made)), *compacted)
        after_commit(self.handle, ids or (made[-1].id,), wrote_rows=bool(self.messages), batch=False)
        return StreamResult(ids, was_committed)

    def _publish(
        self, committer: Committer, messages: Sequence[CommitMessage], provenance: Mapping[str, str]
    ) -> CommitResult:
        properties = self.sink.properties
        if self.complete:
            return committer.overwrite(
                messages, self.batch_id, properties=properties, provenance=provenance, operation="WRITE"
            )
        has_keys = bool(self.handle.schema.primary_keys)
        with_rows = [r for r in self.rows if r.messages] or self.rows
        # Tasks begin at different heads. Rows without keys may come after any others; rows with keys are numbered
        # after those of their base.
        return committer.commit(
            messages,
            self.batch_id,
            planned_on=PlannedOn.of(*(r.base for r in with_rows), must_remain=has_keys),
            properties=properties,
            provenance=provenance,
            operation="WRITE",
        )

    def _log(self, status: BatchStatus) -> SinkLog:
        makes = self.complete or any(m.data or m.compact for m in self.messages)
        makes = makes or self.handle.options.commit.makes_empty_snapshots
        return SinkLog(
            self.sink.query_id,
            self.sink.commit_user,
            self.batch_id,
            makes,
            None if status.head is None else SnapshotKey.of(status.head),
            tuple(sorted({r.job for r in self.rows})),
            status.before,
        )

    def _refuse_loss(self, status: BatchStatus) -> None:
        outcome = status.outcome
        if not isinstance(outcome, BatchesMissing | OutcomeUnknown):
            return
        error = self._loss(outcome)
        if self.lost_batches is LostBatches.FAIL:
            raise error
        _LOG.warning("continuing, as %s = continue: %s", LOST_BATCHES.key, error)

    def _check_bases(self, head: Snapshot | None) -> None:
        """Check that the branch's history has the heads that rows with keys were numbered after.

        Raises CommitConflictError. The commit itself checks the newest again.
        """
        if self.complete or not self.handle.schema.primary_keys:
            return
        bases = {None if r.base is None else SnapshotKey.of(r.base) for r in self.rows if r.messages}
        for base in bases:
            if not self._is_in_history(base, head):
                raise CommitConflictError(
                    f"{self.handle.describe()} was given another history, or its first rows, while batch "
                    f"{self.batch_id} of query {self.sink.query_id} was written: its rows go on from "
                    + ("the empty branch" if base is None else f"snapshot {base.snapshot_id}")
                    + ", and would count as older than existing rows. Nothing was committed; restart the query to "
                    "write the batch again",
                    table=self.handle.name,
                    branch=self.handle.branch,
                    batch_id=self.batch_id,
                )

    def _is_in_history(self, base: SnapshotKey | None, head: Snapshot | None) -> bool:
        if base is None or head is None:
            return base is None and head is None
        if base.snapshot_id >= head.id:
            return base == SnapshotKey.of(head)
        found = find_snapshot(self.handle, base.snapshot_id)
        return found is None or SnapshotKey.of(found) == base

    def _remove_unused(self, snapshot: Snapshot, messages: Sequence[CommitMessage]) -> None:
        """Remove the files of `messages` that `snapshot`, which committed the same batch, does not have."""
        try:
            metas = [*delta_manifests(self.handle, snapshot), *changelog_manifests(self.handle, snapshot)]
            names = read_manifests(self.handle, metas).column("file_name").to_pylist()
            keep = {*names, *(e.file_name for e in head_index(self.handle, snapshot))}
        except FileMissingError:  # expired just now
            return
        remove_files(self.handle, messages, keep)

    def _loss(self, outcome: BatchesMissing | OutcomeUnknown) -> BatchesLostError:
        go_on = f"option {LOST_BATCHES.key} = continue"
        branch, query, batch = self.handle.describe(), self.sink.query_id, self.batch_id
        if outcome.elsewhere:
            text = (
                f"the checkpoint of query {query} is of branch {outcome.elsewhere!r} of table {self.handle.name}, "
                f"which has its batches before {batch}, and {branch} lacks some of them: give the query that writes "
                "there a new checkpoint of its own, in a replay that of its step (step.checkpoint); if those rows are "
                f"not wanted there, give {go_on}"
            )
        elif isinstance(outcome, BatchesMissing):
            which = f"batches {outcome.first} to {batch - 1}" if outcome.first < batch - 1 else f"batch {batch - 1}"
            are = "are" if outcome.first < batch - 1 else "is"
            where = f" (the file offsets/{outcome.first - 1} of this one says where)" if outcome.first else ""
            text = (
                f"{which} of query {query}, as far as there were rows, {are} not in {branch} any more: "
                f"{outcome.why}. The branch was rolled back, merged or recreated, or the query wrote elsewhere before. "
                f"To write those rows again, give the query a new checkpoint that begins where batch {outcome.first} "
                f"began{where}; to go on without them, give {go_on}"
            )
        elif outcome.is_doubtful:
            text = (
                f"it is unknown whether batch {batch} of query {query} is in {branch}: "
                f"{outcome.why}. Check whether its rows are there. If not, {go_on} writes them; if they are, that "
                f"would write them a second time: give the query a new checkpoint that begins where batch {batch} ends "
                f"(the file offsets/{batch} of this one says where). {_KEEP_LONGER}"
            )
        else:
            text = (
                f"it is unknown whether the batches before {batch} of query {query} are in {branch}: "
                f"{outcome.why}. Check whether their rows are there. If they are, {go_on} continues with batch "
                f"{batch}; if not, give the query a new checkpoint that begins where the first of those missing began "
                f"(the files offsets/ of this one say where). {_KEEP_LONGER}"
            )
        return BatchesLostError(
            f"{text}. Nothing was committed",
            table=self.handle.name,
            branch=self.handle.branch,
            query_id=query,
            batch_id=batch,
        )


def remove_rows(handle: TableHandle, rows: Sequence[StreamRows]) -> None:
    """Remove the files that tasks have written, which no snapshot has."""
    remove_files(handle, [m for r in rows for m in r.messages], ())


def check_schemas(handle: TableHandle, rows: Sequence[StreamRows]) -> None:
    """Check that the columns that tasks wrote still exist with the same types.

    Raises:
        SchemaChangedError: a column was dropped, or has another type.
        CommitConflictError: the table was dropped and created again, or main was given another history.
    """
    for written in {r.schema.id: r.schema for r in rows}.values():
        if written == handle.schema:
            continue
        found = read_schema(handle.store, handle.layout, written.id) if written.id < handle.schema.id else None
        if found != written:
            raise CommitConflictError(
                f"{handle.describe()} is another than the one that the query wrote to with schema {written.id}: it was "
                "dropped and created again, or main was given another history. Nothing was committed; restart the "
                "query to write the batch again",
                table=handle.name,
                branch=handle.branch,
                schema_id=written.id,
            )
        now = {f.id: f for f in handle.schema.fields}
        for f in written.fields:
            if f.id in now and now[f.id].type == f.type:
                continue
            what = f"has type {now[f.id].type} now, not {f.type}" if f.id in now else "was dropped"
            raise SchemaChangedError(
                f"column {f.name} of {handle.describe()} {what}, since tasks of the query wrote to it with schema "
                f"{written.id}. Nothing was committed; start the query again, with rows that fit",
                table=handle.name,
                branch=handle.branch,
                column=f.name,
            )
