"""A branch compacted: what waits for its buckets first, then the buckets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paimon_spark.engine.commit.committer import new_commit_user
from paimon_spark.engine.compaction.postponed import settle_postponed
from paimon_spark.engine.compaction.run import CompactResult, Runner, compact_table, run_here
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.predicate.ast import Predicate


def compact_branch(
    handle: TableHandle,
    *,
    full: bool,
    partitions: Sequence[Mapping[str, object]] | None = None,
    where: Predicate | None = None,
    runner: Runner = run_here,
) -> CompactResult:
    """As `compact_table`, after the rows of the postponed bucket were put into others.

    Those are in a snapshot of their own, which stays when what follows fails.
    """
    user = new_commit_user(handle.options)
    settled = settle_postponed(handle, user, partitions=partitions, where=where)
    compacted = compact_table(handle, full=full, partitions=partitions, where=where, runner=runner)
    return _together(settled, compacted) if settled.snapshot_ids else compacted


def _together(first: CompactResult, second: CompactResult) -> CompactResult:
    """What two compactions did, one after the other; files that went through both are counted in each."""
    return CompactResult(
        second.snapshot,
        (*first.snapshot_ids, *second.snapshot_ids),
        max(first.buckets, second.buckets),
        first.files_before + second.files_before,
        first.files_after + second.files_after,
        first.bytes_before + second.bytes_before,
        first.bytes_after + second.bytes_after,
    )
