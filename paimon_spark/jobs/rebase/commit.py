"""The write of a rebase to main, and its commit on a head that was compared.

Some merge engines replace a row by a removal and a new row in a later file. A compaction of these files alone, without
the older ones, would leave out the removal, and the engine would then merge the new row into the old one. So before the
commit they are merged with all files of their buckets, and the commit replaces these files.

Source: Java `PartialUpdateMergeFunction.getResult`, `AggregateMergeFunction.getResult`, which keep one record of a key.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from paimon_spark.engine.commit.attempts import CommitResult
from paimon_spark.engine.commit.committer import Committer
from paimon_spark.engine.commit.entries import remove_files
from paimon_spark.engine.commit.requests import PlannedOn
from paimon_spark.engine.compaction.keyed import keyed_tasks
from paimon_spark.engine.compaction.plan import buckets_of, entries_of
from paimon_spark.engine.compaction.task import Bucket
from paimon_spark.engine.tasks import NOTHING, CommitMessage, Increment
from paimon_spark.errors import CommitConflictError
from paimon_spark.format.arrays.arrow_types import arrow_schema
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.jobs.opened_table import OpenedTable
from paimon_spark.jobs.rebase.sides import Sides
from paimon_spark.jobs.upkeep.compaction import run_anywhere
from paimon_spark.jobs.write.batch import WriteJob, place_of, plan_write
from paimon_spark.jobs.write.commit import BatchCommit, combined, commit_batch, removing_on_failure
from paimon_spark.jobs.write.target import with_changes
from paimon_spark.maintenance.removal import Removed
from paimon_spark.metadata.branches import same_snapshot
from paimon_spark.metadata.definition.schema_changes import in_words
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.metadata.vector_files import vector_files
from paimon_spark.options.table import parse_table_options
from paimon_spark.options.write_request import WriteMode, parse_batch_write_options
from paimon_spark.versioning.merge import MergeResult

_LONGEST_S: Final = 60.0
"""How long commits of others to main may come first, as long as a rebase need not compare them."""


def plan_rows(table: OpenedTable, sides: Sides) -> WriteJob:
    """The write to main of rows in the columns of `sides.schema`."""
    options = parse_batch_write_options({}, WriteMode.APPEND)
    job = plan_write(place_of(table, options), options, WriteMode.APPEND, arrow_schema(sides.main.schema.fields))
    handle = job.handle
    if sides.merged.changes:
        changed = parse_table_options({**sides.schema.options, **handle.overrides})
        handle = replace(handle, schema=sides.schema, options=changed)
    fields = [replace(f, type=f.type.with_nullable(True)) for f in sides.schema.fields]
    return replace(job, handle=handle, source=arrow_schema(fields), changes=sides.merged.changes)


def unchanged(sides: Sides, *, dry_run: bool) -> MergeResult:
    """The result where the branch has no row that it did not have when the two parted, or main has all of it.

    What the branch changed in the definition is changed on main.
    """
    head = latest_snapshot(sides.main)
    assert head is not None
    changes = sides.merged.changes
    if changes and not dry_run:
        with_changes(sides.main.with_schema(sides.schema), changes)
    return MergeResult(
        sides.branch,
        sides.fork.id,
        head.id,
        already_merged=not changes,
        rebased_rows=0 if changes else None,
        schema_changes=changes_text(sides),
        removed=Removed(dry_run=dry_run),
        target=sides.target,
    )


def changes_text(sides: Sides) -> tuple[str, ...]:
    """Changes of a rebase to main's definition, as text."""
    return tuple(map(in_words, sides.merged.changes))


def commit_rebase(
    job: WriteJob,
    messages: Sequence[CommitMessage],
    sides: Sides,
    head: Snapshot,
    may_follow: Callable[[Snapshot, Snapshot], bool],
    removed: pa.Table | None = None,
) -> int:
    """Commit the rows of a rebase, by one snapshot, and return the id of main's newest snapshot of it.

    Args:
        job: the write to main.
        messages: of the job.
        sides: the versions that were compared.
        head: main's head that they were compared with.
        may_follow: whether the rows may follow a later head than the one given first, although they were not compared
            with the commits between the two. It may raise CommitConflictError with the reason.
        removed: live entries of main's files that are deleted, too.

    Raises as `commit_batch`; CommitConflictError: others changed main in a way that has to be compared.
    """
    job = job.with_changes(messages) if job.changes else job
    with sides.committed(head):
        lineage = sides.lineage(job.handle)
        with commit_batch(job.handle, job.commit_user, messages, undo=job.undo, lineage=lineage) as commit:
            commit.result = _on_compared_head(commit, sides, head, may_follow, removed)
    if sides.is_onto_target:
        sides.keep(commit.written.snapshot_ids)
    return commit.written.snapshot_id or head.id


def _on_compared_head(
    commit: BatchCommit,
    sides: Sides,
    head: Snapshot,
    may_follow: Callable[[Snapshot, Snapshot], bool],
    removed: pa.Table | None,
) -> CommitResult:
    """Make the snapshot of a rebase directly on `head`, or on a later head that it may follow."""
    planned_on, end = PlannedOn.of(head, must_remain=True), time.monotonic() + _LONGEST_S
    while True:
        try:
            return commit.committer.commit(
                commit.messages,
                commit.identifier,
                planned_on=planned_on,
                provenance={**commit.provenance, **sides.properties},
                operation="WRITE",
                only_on=head,
                force_create=True,
                removed=removed,
            )
        except CommitConflictError:
            now = latest_snapshot(sides.main)
            if now is None or same_snapshot(now, head) or time.monotonic() > end:
                raise
            if not may_follow(head, now):
                raise
            head = now


def with_whole_buckets(
    main: TableHandle, head: Snapshot, messages: Sequence[CommitMessage], commit_user: str
) -> list[CommitMessage]:
    """The messages, with the files of a bucket replaced by merged ones where rows of it are removed. Driver.

    Args:
        main: the branch that gets the rows.
        head: its head, which the commit must follow.
        messages: of the rows.
        commit_user: the user of the commit.

    Raises as a compaction; then no file of the messages is left.
    """
    committer = Committer(main, commit_user)
    by_bucket = combined(main, committer, messages)
    places = {(m.partition, m.bucket): m for m in by_bucket if any(f.delete_row_count for f in m.data.new_files)}
    return removing_on_failure(committer, by_bucket, lambda: _whole(main, head, by_bucket, places, commit_user))


def _whole(
    main: TableHandle,
    head: Snapshot,
    messages: Sequence[CommitMessage],
    places: dict[tuple[bytes, int], CommitMessage],
    commit_user: str,
) -> list[CommitMessage]:
    there = {(b.partition, b.bucket): b for b in buckets_of(entries_of(main, head, None, None, places), places)}
    buckets = [
        Bucket(*place, m.total_buckets, (*(there[place].files if place in there else ()), *m.data.new_files))
        for place, m in places.items()
    ]
    tasks = keyed_tasks(main, buckets, vector_files(main, head), full=True)
    made = {(m.partition, m.bucket): m for m in run_anywhere(main, head, tasks, commit_user) if m is not None}
    out = []
    for message in messages:
        place = message.partition, message.bucket
        if place not in made:
            out.append(message)
            continue
        old = {f.file_name for f in there[place].files} if place in there else set()
        joined, merged = _joined(message, made[place].compact, old)
        out.append(joined)
        remove_files(main, [merged], ())
    return out


def _joined(message: CommitMessage, compacted: Increment, old: set[str]) -> tuple[CommitMessage, CommitMessage]:
    """The message of the merged bucket, and one of the files that it no longer needs; `old` are names of main's files.

    Files of main that only moved to another level stay as they are.
    """
    moved = {f.file_name for f in compacted.new_files}
    written = message.data.new_files
    gone = {f.file_name for f in compacted.deleted_files}
    new = [f for f in compacted.new_files if f.file_name not in old]
    kept = [f for f in written if f.file_name not in gone]
    data = replace(
        message.data,
        new_files=(*kept, *new),
        deleted_files=tuple(f for f in compacted.deleted_files if f.file_name in old and f.file_name not in moved),
        changelog_files=(),
        new_index_files=(*message.data.new_index_files, *compacted.new_index_files),
        deleted_index_files=(*message.data.deleted_index_files, *compacted.deleted_index_files),
    )
    merged = tuple(f for f in written if f.file_name in gone and f.file_name not in moved)
    unused = Increment(new_files=merged, changelog_files=(*message.data.changelog_files, *compacted.changelog_files))
    return replace(message, data=data), replace(message, data=unused, compact=NOTHING)
