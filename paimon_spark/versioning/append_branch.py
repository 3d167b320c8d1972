"""append_branch: commit the files that one branch has and another lacks, in one snapshot.

Since the branches parted, neither may have deleted, rewritten or compacted files: a file that the target had dropped
would come back, and one that the source rewrote would add its rows twice. Paimon requires this from snapshot 1 on, as
it does not know where branches parted; here it is required from the newest shared snapshot on.

Source: Java `utils/FileSystemBranchManager.mergeBranch`, `utils/BranchMergeHandler`.

Tests: tests/unit/versioning/test_append_branch.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_spark.display import ShownAsFacts
from paimon_spark.engine.commit.committer import Committer, new_commit_user
from paimon_spark.engine.commit.entries import I64, Changes, live_at, no_entries, numbers, together, where, with_numbers
from paimon_spark.engine.commit.requests import AppendBranch
from paimon_spark.errors import InvalidInputError, PaimonError, SnapshotExpiredError, UnsupportedFeatureError
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.maintenance.change import change_branch
from paimon_spark.metadata.branches import newest_shared
from paimon_spark.metadata.handle import TableHandle, open_branch
from paimon_spark.metadata.live_files import file_ids
from paimon_spark.metadata.retry import Clock
from paimon_spark.metadata.schemas import list_schema_ids, read_schema
from paimon_spark.metadata.snapshots import latest_snapshot, list_snapshots
from paimon_spark.text import counted, safe
from paimon_spark.versioning.branches import check_branch_exists

_HARMLESS: Final = (CommitKind.APPEND, CommitKind.ANALYZE)
_IDENTIFIER: Final = 0
"""Java's commit identifier for it."""


@dataclass(frozen=True, slots=True, repr=False)
class Appended(ShownAsFacts):
    """Result of `append_branch`.

    Attributes:
        snapshot_id: the snapshot made on the target; None when the target had everything already.
        data_files, record_count, bytes: of the files added; rows as they are stored.
    """

    source: str
    target: str
    snapshot_id: int | None
    data_files: int = 0
    record_count: int = 0
    bytes: int = 0

    def text_lines(self) -> list[str]:
        source, target = safe(self.source), safe(self.target)
        if self.snapshot_id is None:
            return [f"{target} has all of {source} already"]
        found = f"{counted(self.record_count, 'row')} in {counted(self.data_files, 'file')}"
        return [f"{found} of {source} are in snapshot {self.snapshot_id} of {target}"]


def append_branch(
    handle: TableHandle,
    source: str,
    target: str = "main",
    *,
    clock: Clock = Clock(),  # noqa: B008 - a frozen value
) -> Appended:
    """Add the source branch's new files to the target. Nothing is copied: both then share them.

    Other processes that want to change refs of the table wait meanwhile, so what the source has is not deleted.
    """
    done: list[Appended] = []
    change_branch(handle, "append-branch", lambda on: done.append(_append(on, source, target, clock)))
    return done[0]


def _append(handle: TableHandle, source: str, target: str, clock: Clock) -> Appended:
    for name in (source, target):
        check_branch_exists(handle, name)
    on_source, on_target = open_branch(handle, source), open_branch(handle, target)
    if on_source.layout.directory_branch == on_target.layout.directory_branch:
        raise InvalidInputError(
            f"branch {source!r} of table {handle.name} cannot be appended to itself; name two branches",
            table=handle.name,
            branch=source,
        )
    heads = [_head(on_source, "there is nothing to append"), _head(on_target, "use fast_forward, or write to it first")]
    _check_definitions(on_source, on_target)
    _check_histories(on_source, on_target)
    new = missing_files(*map(live_at, (on_source, on_target), heads))
    if len(new) == 0:
        return Appended(source, target, None)
    _check_schemas(on_source, on_target, new)
    if on_target.options.row_tracking:
        # Their ids are of the source's rows; the target's commit gives them its own.
        new = with_numbers(new, "first_row_id", np.zeros(len(new), np.int64), np.zeros(len(new), np.bool_))
    committer = Committer(on_target, new_commit_user(on_target.options), clock=clock)
    made = committer.make(AppendBranch(changes=Changes(new, no_entries()), identifier=_IDENTIFIER)).snapshots[0]
    return Appended(
        source,
        target,
        made.id,
        len(new),
        int(numbers(new, "row_count").sum()),
        int(numbers(new, "file_size").sum()),
    )


def _head(handle: TableHandle, instead: str) -> Snapshot:
    head = latest_snapshot(handle)
    if head is None:
        raise InvalidInputError(
            f"append_branch needs two branches with rows, and {handle.describe()} has no snapshot; {instead}",
            **handle.context,
        )
    return head


def _check_definitions(source: TableHandle, target: TableHandle) -> None:
    for handle in (source, target):
        if handle.schema.primary_keys:
            raise UnsupportedFeatureError(
                f"{handle.describe()} has primary keys: a branch of it is published with merge_branch, and its files "
                "cannot be appended, as they may hold newer rows of keys that are there",
                feature="append_branch of tables with primary keys",
            )
        if handle.options.data_evolution:
            raise UnsupportedFeatureError(
                f"{handle.describe()} has data-evolution.enabled, and files of such tables share row ids; "
                "append_branch is not possible",
                feature="append_branch of data-evolution tables",
            )
    if source.options.row_tracking != target.options.row_tracking:
        first, second = (str(handle.options.row_tracking).lower() for handle in (source, target))
        why = f"row-tracking.enabled is {first} on the first and {second} on the second; it must be the same"
        raise _unlike(source, target, why)
    if tuple(source.schema.row_type) != tuple(target.schema.row_type):
        columns = f"the columns of the first are {source.schema.row_type}, those of the second {target.schema.row_type}"
        raise _unlike(source, target, f"{columns}; alter them alike, in the same order")


def _check_histories(source: TableHandle, target: TableHandle) -> None:
    shared = newest_shared(source, target)
    since = 0 if shared is None else shared.id
    for handle in (source, target):
        after = [s for s in list_snapshots(handle) if s.id > since]
        expected = since + 1
        for snapshot in after:
            if snapshot.id != expected:
                break
            if snapshot.commit_kind not in _HARMLESS:
                raise _unlike(
                    source,
                    target,
                    f"snapshot {snapshot.id} of {handle.describe()} is of kind {snapshot.commit_kind.value}. Only "
                    "appends may have happened since the branches parted, as files that were deleted or rewritten "
                    "would come back, or come twice; insert the rows instead",
                )
            expected += 1
        if after and expected <= after[-1].id:
            raise SnapshotExpiredError(
                f"{_asked(source, target)}: snapshot {expected} of {handle.describe()} has expired, so it is "
                "unknown whether only appends happened since the branches parted; insert the rows instead",
                **handle.context,
                snapshot_id=expected,
            )


def missing_files(source: pa.Table, target: pa.Table) -> pa.Table:
    """Entries of the source whose files the target lacks."""
    ids: I64 = file_ids(together(target, source))
    return where(together(source), ~np.isin(ids[len(target) :], ids[: len(target)]))


def _check_schemas(source: TableHandle, target: TableHandle, new: pa.Table) -> None:
    there = set(list_schema_ids(target.store, target.layout))
    for schema_id in np.unique(numbers(new, "schema_id")).tolist():
        if schema_id not in there:
            raise _unlike(source, target, f"files of the first have schema {schema_id}, which the second lacks")
        theirs, ours = (read_schema(h.store, h.layout, schema_id) for h in (source, target))
        if theirs != ours:
            why = f"schema {schema_id} is not the same on both, as they were altered apart; insert the rows instead"
            raise _unlike(source, target, why)


def _asked(source: TableHandle, target: TableHandle) -> str:
    return f"branch {source.branch!r} of table {source.name} cannot be appended to {target.branch!r}"


def _unlike(source: TableHandle, target: TableHandle, why: str) -> PaimonError:
    return InvalidInputError(f"{_asked(source, target)}: {why}", table=source.name, branch=source.branch)
