"""The commit of a batch job: lineage, snapshot, compaction and maintenance."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from paimon_spark.display import ShownAsFacts
from paimon_spark.engine.commit.attempts import CommitResult
from paimon_spark.engine.commit.committer import Committer
from paimon_spark.engine.tasks import CommitMessage, RowCounts
from paimon_spark.engine.write.dynamic_buckets import combine
from paimon_spark.errors import CommitOutcomeUnknownError, PaimonError
from paimon_spark.format.json_files import find_object
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.jobs.lineage_port import CommitLineage, batch_commit
from paimon_spark.jobs.upkeep.after_commit import after_commit
from paimon_spark.jobs.upkeep.compaction import compact_written
from paimon_spark.metadata.handle import TableHandle

if TYPE_CHECKING:
    from paimon_spark.jobs.lineage_port import TaskIdentity

T = TypeVar("T")

ROW_COUNTS: Final = "paimon-spark.row-counts"
"""Property of the snapshot of a Spark job: the numbers of its rows, which the session that runs it waits for."""


@dataclass(frozen=True, slots=True, repr=False)
class WriteResult(ShownAsFacts):
    """The snapshots that a write made, and the numbers of rows that it changed.

    Attributes:
        snapshot_ids: the snapshots it made, ascending: of its rows, then of the compaction that some tables need
            before rows are seen. Empty when there was nothing to write.
        inserted_rows: rows written by `write`, or inserted by `merge`.
        updated_rows: rows changed; None if unknown, as after a `write` to a table with a primary key.
        deleted_rows: rows deleted; None if unknown, as those that an overwrite replaces.
    """

    snapshot_ids: tuple[int, ...] = ()
    inserted_rows: int | None = 0
    updated_rows: int | None = 0
    deleted_rows: int | None = 0

    def text_lines(self) -> list[str]:
        made = ", ".join(map(str, self.snapshot_ids))
        if not made:
            return ["nothing to write"]
        counts = {"inserted": self.inserted_rows, "updated": self.updated_rows, "deleted": self.deleted_rows}
        rows = ", ".join(f"{n:,} row{'' if n == 1 else 's'} {what}" for what, n in counts.items() if n)
        return [f"wrote snapshot{'' if len(self.snapshot_ids) == 1 else 's'} {made}{': ' if rows else ''}{rows}"]

    @property
    def snapshot_id(self) -> int | None:
        """The newest snapshot it made; None when there was nothing to write."""
        return self.snapshot_ids[-1] if self.snapshot_ids else None


@dataclass(slots=True)
class BatchCommit:
    """One commit of a batch job, in the body of `commit_batch`.

    Attributes:
        committer: makes the snapshots.
        messages: what they are made of.
        identifier: number of the commit.
        provenance: properties of the snapshot of the rows.
        result: the snapshots made; set by the body.
        written: the result of the job; set after the body.
    """

    committer: Committer
    messages: Sequence[CommitMessage]
    identifier: int
    provenance: Mapping[str, str]
    result: CommitResult = CommitResult()  # noqa: RUF009 - a frozen value
    written: WriteResult = WriteResult()


@contextmanager
def commit_batch(
    handle: TableHandle,
    commit_user: str,
    messages: Sequence[CommitMessage],
    *,
    run: TaskIdentity | None = None,
    reads_nothing: bool = False,
    undo: Callable[[], None] = lambda: None,
    rows: RowCounts | None = None,
    lineage: CommitLineage | None = None,
    write_id: str | None = None,
) -> Iterator[BatchCommit]:
    """Commit what all tasks of a batch job wrote: the body makes the snapshots. Driver; never to be repeated.

    After an error the files of the messages are removed, except after CommitOutcomeUnknownError: the commit may have
    succeeded then. After the snapshots come the compaction and the maintenance that they make due.

    Args:
        handle: the branch.
        commit_user: the user of the commit.
        messages: of all tasks.
        run: what Spark ran the tasks for; None: they ran in this process.
        reads_nothing: whether the rows may come from no table, so that missing lineage of reads is no gap.
        undo: called when the commit certainly failed.
        rows: the numbers of rows changed; None: those that the messages count.
        lineage: of the commit; None: that of a batch write.
        write_id: stored in the snapshot with the numbers, for `counted_rows`.

    Raises:
        CommitConflictError: other commits changed what the job was planned on.
        CommitRetriesExhaustedError: other commits won every attempt.
        CommitOutcomeUnknownError: the store failed during the commit, which may have succeeded.
        CommitError: the rows are committed, but the compaction that makes them visible failed.
        StorageError: the store failed; the table is as before.
    """
    lineage = batch_commit(handle, run, reads_nothing=reads_nothing) if lineage is None else lineage
    rows = RowCounts.total(m.rows for m in messages) if rows is None else rows
    provenance = lineage.properties
    if write_id is not None:
        provenance = {**provenance, ROW_COUNTS: json.dumps({"write": write_id, **rows._asdict()})}
    committer = Committer(handle, commit_user, listeners=lineage.listeners, may_repeat=False)
    commit = BatchCommit(committer, messages, lineage.identifier, provenance)
    try:
        commit.messages = combine(handle, messages)
        yield commit
    except CommitOutcomeUnknownError:
        raise
    except PaimonError:
        committer.abort(commit.messages)
        undo()
        raise
    made = commit.result.snapshot_ids
    try:
        made = (*made, *compact_written(handle, commit_user, commit.messages, made))
    finally:
        lineage.finish(bool(made))
    after_commit(handle, made, wrote_rows=bool(messages))
    if made:
        commit.written = WriteResult(made, *rows)


def counted_rows(snapshot: Snapshot, write_id: str) -> RowCounts | None:
    """The numbers of rows that the write `write_id` stored in its snapshot; None if this is another one."""
    text = (snapshot.properties or {}).get(ROW_COUNTS)
    if text is None:
        return None

    def build(found: dict[str, Any]) -> RowCounts | None:
        if found.get("write") != write_id:
            return None
        return RowCounts(int(found["inserted"]), int(found["updated"]), int(found["deleted"]))

    return find_object(text, build)


def combined(handle: TableHandle, committer: Committer, messages: Sequence[CommitMessage]) -> Sequence[CommitMessage]:
    """The messages, combined where writers shared a bucket. After an error their files are removed."""
    return removing_on_failure(committer, messages, lambda: combine(handle, messages))


def removing_on_failure(committer: Committer, messages: Sequence[CommitMessage], act: Callable[[], T]) -> T:
    """The result of `act`. After an error the files of `messages` are removed, unless they may be committed."""
    try:
        return act()
    except CommitOutcomeUnknownError:
        raise
    except PaimonError:
        committer.abort(messages)
        raise
