"""Merge replaced rows with their buckets before a rebase is committed.

A replaced row is a removal and a new row in a later file. A compaction of these files alone, without the older ones,
would leave out the removal, and the engine would then merge the new row into the old one. So they are merged with all
files of their bucket before anything is committed, and the commit replaces these files.

Source: Java `PartialUpdateMergeFunction.getResult`, `AggregateMergeFunction.getResult`, which keep one record of a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from paimon_spark.engine.commit.committer import Committer
from paimon_spark.engine.commit.entries import remove_files
from paimon_spark.engine.compaction.keyed import keyed_tasks
from paimon_spark.engine.compaction.plan import buckets_of, entries_of
from paimon_spark.engine.compaction.task import Bucket
from paimon_spark.engine.tasks.commit_message import NOTHING, CommitMessage, Increment
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.jobs.commit import removing_on_failure
from paimon_spark.jobs.compaction import run_anywhere
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.vector_files import vector_files


def with_whole_buckets(
    main: TableHandle, head: Snapshot, messages: Sequence[CommitMessage], commit_user: str
) -> list[CommitMessage]:
    """The messages, with the files of a bucket replaced by merged ones where rows of it are removed. Driver.

    Args:
        main: the branch that gets the rows.
        head: of it, which the commit must follow.
        messages: of the rows, of which a bucket has one at most.
        commit_user: of the commit.

    Raises as a compaction; then no file of the messages is left.
    """
    places = {(m.partition, m.bucket): m for m in messages if any(f.delete_row_count for f in m.data.new_files)}
    return removing_on_failure(
        Committer(main, commit_user), messages, lambda: _whole(main, head, messages, places, commit_user)
    )


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
