"""The compaction that follows a write to a table whose new rows are not seen, or not told of, before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.commit.committer import Committer
from paimon_spark.commit.entries import column, numbers, where
from paimon_spark.commit.partitions import Touched
from paimon_spark.commit.retry import Retries, Surroundings
from paimon_spark.errors import CommitConflictError, CommitError, CommitOutcomeUnknownError, PaimonError
from paimon_spark.handoff.commit_message import CommitMessage
from paimon_spark.maintenance.compact import compact_level0, hides_level0
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.options.commit import parse_commit_options
from paimon_spark.spec.arrow_values import array_of
from paimon_spark.spec.snapshot import Snapshot

Written: TypeAlias = Mapping[tuple[bytes, int], frozenset[str]]
"""Names of new files by partition and bucket."""


def compact_written(
    handle: TableHandle, commit_user: str, messages: Sequence[CommitMessage], snapshot_ids: Sequence[int]
) -> tuple[int, ...]:
    """Merge level 0 of the buckets that `messages` wrote, where the table needs it; ids of the snapshots made.

    Others may compact the same buckets meanwhile; then what they left of the new files is looked at again.

    Raises:
        CommitError: the rows are in, as `snapshot_ids`, but they were not compacted.
    """
    if not snapshot_ids or not hides_level0(handle):
        return ()
    try:
        return _compact(handle, commit_user, _written(messages))
    except PaimonError as e:
        raise CommitError(
            f"the rows are in {handle.describe()}, as snapshot {snapshot_ids[-1]}: do not write them again. But they "
            f"are seen only after a compaction, which failed: {e}. Write any row to their buckets to try it again",
            table=handle.name,
            branch=handle.branch,
            snapshot_id=snapshot_ids[-1],
        ) from e


def _written(messages: Sequence[CommitMessage]) -> Written:
    names: dict[tuple[bytes, int], set[str]] = {}
    for m in messages:
        if m.data.new_files:
            names.setdefault((m.partition, m.bucket), set()).update(f.file_name for f in m.data.new_files)
    return {place: frozenset(found) for place, found in names.items()}


def _compact(handle: TableHandle, commit_user: str, written: Written) -> tuple[int, ...]:
    retries = Retries(parse_commit_options(handle.options.raw), Surroundings())
    while True:
        head = latest_snapshot(handle)
        # Others may have added columns and filled them since the write was planned: their files are written anew too.
        newest = open_table(handle.store, handle.layout.root, handle.branch, handle.name, handle.overrides)
        buckets = set(written) if retries.count == 0 or head is None else _waiting(newest, head, written)
        messages = [] if head is None or not buckets else compact_level0(newest, head, buckets, commit_user)
        if not messages:
            return ()
        committer = Committer(newest, commit_user)
        try:
            return committer.commit(messages).snapshot_ids
        except CommitOutcomeUnknownError:
            raise
        except CommitConflictError:
            committer.abort(messages)
            if not retries.again():
                raise
        except PaimonError:
            committer.abort(messages)
            raise


def _waiting(handle: TableHandle, head: Snapshot, written: Written) -> set[tuple[bytes, int]]:
    """The buckets where a file of `written` is still at level 0. What others wrote since is theirs to compact."""
    entries = Touched(handle, array_of(sorted({p for p, _ in written}), pa.binary())).live(head)
    entries = where(entries, numbers(entries, "level") == 0)
    names = array_of(sorted(set().union(*written.values())), pa.string())
    entries = entries.filter(pc.is_in(column(entries, "file_name"), value_set=names))
    places = zip(*(column(entries, name).to_pylist() for name in ("partition", "bucket", "file_name")), strict=True)
    return {(partition, bucket) for partition, bucket, name in places if name in written.get((partition, bucket), ())}
