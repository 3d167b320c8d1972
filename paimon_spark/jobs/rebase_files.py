"""Rebase of append tables: write rows of added files, remove removed files.

Files are not shared: other engines expire main without looking at branches, and would delete what the branch needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from paimon_spark.engine.commit.attempts import CommitResult
from paimon_spark.engine.commit.changes import Changes, data_changes
from paimon_spark.engine.commit.committer import Committer
from paimon_spark.engine.commit.entries import live_at, numbers, of_kind, together
from paimon_spark.engine.commit.requests import Append, ChangeRows
from paimon_spark.engine.tasks.commit_message import CommitMessage
from paimon_spark.errors import BranchDivergedError
from paimon_spark.format.metadata_files.manifest import FileKind
from paimon_spark.jobs.commit import commit_batch
from paimon_spark.jobs.lineage_port import CommitLineage
from paimon_spark.jobs.opened_table import OpenedTable
from paimon_spark.jobs.rebase_sides import Sides, plan_rows, unsupported
from paimon_spark.jobs.row_diff import RowComparison, compare_versions
from paimon_spark.maintenance.removal import Removed
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.metadata.vector_files import vector_files
from paimon_spark.text import counted
from paimon_spark.versioning.append_branch import missing_files
from paimon_spark.versioning.merge import MergeResult


def rebase_files(table: OpenedTable, sides: Sides, *, dry_run: bool) -> MergeResult:
    """Write the rows of files that the branch added to main, and remove files that it removed, by one commit.

    Raises as `Table.merge_branch`.
    """
    main = sides.main
    if main.options.data_evolution:
        raise unsupported(sides, "it has data-evolution.enabled, where the columns of a row lie in several files")
    versions = (sides.base, sides.theirs)
    vectors = [{e.file_name for es in vector_files(v.handle, v.snapshot).values() for e in es} for v in versions]
    if vectors[0] != vectors[1]:
        raise unsupported(sides, "rows were deleted on the branch by deletion vectors")
    before, after = (live_at(v.handle, v.snapshot) for v in versions)
    head = latest_snapshot(main)
    assert head is not None
    now = live_at(main, head)
    added, gone = missing_files(missing_files(after, before), now), missing_files(before, after)
    lost = missing_files(gone, now)
    if len(lost):
        raise BranchDivergedError(
            f"{sides.what} was not rebased: main no longer has {counted(len(lost), 'file')} that the branch removed or "
            "rewrote, as they were compacted or rewritten there, too; pass if_main_moved='replace', or make the same "
            "change on main",
            table=main.name,
            branch=sides.branch,
        )
    rows = int(numbers(added, "row_count").sum()) + int(numbers(gone, "row_count").sum())
    if dry_run:
        return MergeResult(sides.branch, sides.fork.id, head.id, rebased_rows=rows, removed=Removed(dry_run=True))
    compared = compare_versions(*versions)
    job = plan_rows(table, compared.comparison.schema)
    messages = job.write(_rows(compared, set(added.column("file_name").to_pylist())))
    made = commit_batch(job.handle, job.commit_user, messages, _Publish(sides, gone), lineage=sides.lineage(job.handle))
    return MergeResult(sides.branch, sides.fork.id, made.snapshot_id or head.id, rebased_rows=rows)


def _rows(compared: RowComparison, names: set[str]) -> Iterator[pa.RecordBatch]:
    """The rows of the branch's files of these names."""
    with compared.scans[1].refusing_expired():
        for split in compared.new:
            if split.files[0].file_name in names:
                yield from compared.comparison.new.read(split)


@dataclass(frozen=True, slots=True)
class _Publish:
    """Commit the new files and the removal of `gone`, entries of main, together."""

    sides: Sides
    gone: pa.Table

    def __call__(self, committer: Committer, messages: Sequence[CommitMessage], lineage: CommitLineage) -> CommitResult:
        data = data_changes(messages)
        files = together(of_kind(self.gone, FileKind.DELETE), data.files)
        request = ChangeRows if len(self.gone) else Append
        return committer.make(
            request(
                identifier=lineage.identifier,
                changes=Changes(files, data.changelog, data.index),
                properties={**lineage.properties, **self.sides.properties},
                operation="WRITE",
            )
        )
