"""Rewriting files of the newest snapshot: again after conflicts, and when it expires."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from paimon_spark.engine.commit.committer import Committer
from paimon_spark.engine.commit.requests import PlannedOn
from paimon_spark.engine.compaction.task import CompactResult, compact_result, expired_error
from paimon_spark.engine.tasks.commit_message import CommitMessage
from paimon_spark.errors import CommitConflictError, CommitOutcomeUnknownError
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.retry import Clock, Retries
from paimon_spark.metadata.snapshots import is_alive, latest_snapshot
from paimon_spark.options.commit import LAST_SAFE_SNAPSHOT


def rewrite_head(
    handle: TableHandle,
    commit_user: str,
    make: Callable[[TableHandle, Snapshot], Sequence[CommitMessage] | None],
    *,
    alone: bool = False,
    properties: Mapping[str, str] | None = None,
) -> CompactResult:
    """Commit what `make` wrote for the branch with its latest schema and its head; again after conflicts.

    Args:
        handle: the branch.
        commit_user: who commits.
        make: writes files; after an error none is left. No messages: there is nothing to do. None: it made a snapshot
            itself, and is to be called for that.
        alone: whether rows that others wrote to the same partitions meanwhile are a conflict.
        properties: of the snapshot.

    Raises:
        CommitConflictError, CommitRetriesExhaustedError: others were faster every time; no file is left.
        CommitOutcomeUnknownError: the store stopped answering at the decisive moment.
    """
    retries = Retries(handle.options.commit, Clock())
    while (head := latest_snapshot(handle)) is not None:
        current = open_table(handle.store, handle.layout.root, handle.branch, handle.name, handle.overrides)
        if current.layout != handle.layout:  # main has come to mean another branch
            handle = current
            continue
        current.check_writable()
        try:
            messages = make(current, head)
        except Exception as e:
            if is_alive(current, head):
                raise
            if not retries.again():
                raise expired_error(current, head) from e
            continue
        if messages is None:
            continue
        if not messages:
            break
        committer = Committer(_alone_since(current, head) if alone else current, commit_user)
        try:
            # Rows were numbered after those that the buckets had.
            planned_on = PlannedOn.of(head, must_remain=True)
            return compact_result(committer.commit(messages, planned_on=planned_on, properties=properties), messages)
        except CommitOutcomeUnknownError:
            raise
        except CommitConflictError:
            committer.abort(messages)
            if not retries.again():
                raise
        except BaseException:
            committer.abort(messages)
            raise
    return CompactResult()


def _alone_since(handle: TableHandle, head: Snapshot) -> TableHandle:
    return replace(handle, options=handle.options.changed({LAST_SAFE_SNAPSHOT.key: str(head.id)}))
