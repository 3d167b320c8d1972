"""Files that commits added, for one snapshot or a thousand at a time.

With data evolution, a commit can add columns to existing rows. Streams skip such files, like overwrites; read alone
they would give rows with nulls in all other columns, as in Java.

Source: Java `table/source/snapshot/DeltaFollowUpScanner`, `ChangelogFollowUpScanner`,
`IncrementalDeltaStartingScanner`; Paimon spec, chapter Data Evolution.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import compress
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_spark.engine.scan.prune import Filters, Selection, manifests_wanted, report_of, select, skip_by_statistics
from paimon_spark.engine.scan.query import PlanReport, Reason, Tally
from paimon_spark.engine.scan.units import CHANGES, RAW, Longs, Units, groups_of, row_id_units, single_files
from paimon_spark.errors import FileMissingError, InvalidInputError, SnapshotExpiredError
from paimon_spark.format.arrays.arrow_numpy import boolean_array, fixed_array, one_chunk, validity, values
from paimon_spark.format.metadata_files.manifest import FileKind, ManifestFileMeta
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.live_files import file_ids
from paimon_spark.metadata.manifests import find_manifest_lists, read_manifests
from paimon_spark.metadata.snapshots import alive_range, find_snapshot

COMMIT: Final = "commit"
"""Column of the entries: the number of the commit among those asked for."""


class Content(StrEnum):
    """The part of a snapshot that is read.

    STATE: the rows alive in it.
    DELTA: the data files that its commit added; of an OVERWRITE too, whose removed files count for nothing.
    CHANGELOG: its changelog files.
    OVERWRITE: rows of the files that its commit removed, as -D, then rows of those it added, both merged by key.
    """

    STATE = "state"
    DELTA = "delta"
    CHANGELOG = "changelog"
    OVERWRITE = "overwrite"


def added_files(
    handle: TableHandle, wanted: Sequence[tuple[Snapshot, Content]], filters: Filters
) -> tuple[pa.Table, PlanReport]:
    """The entries of DELTA and CHANGELOG contents, in the order given, and the column `COMMIT`.

    All manifest lists are fetched together, then all manifests.

    Raises:
        InvalidInputError: an APPEND commit removed files.
        FileMissingError: metadata is gone; the snapshot may have expired meanwhile.
        CorruptFileError: metadata cannot be decoded.
    """
    metas, commits = _manifests(handle, wanted)
    keep = manifests_wanted(handle, metas, filters)
    opened, skipped = list(compress(metas, keep)), list(compress(metas, ~keep))
    table = read_manifests(handle, opened)
    counts = [m.num_added_files + m.num_deleted_files for m in opened]
    commit = np.repeat(commits[keep], counts)
    table = table.append_column(COMMIT, fixed_array(commit, pa.int64()))
    table = _only_adds(handle, wanted, table, commit)
    return table, report_of(metas, skipped, sum(m.num_added_files for m in skipped), table)


def _manifests(handle: TableHandle, wanted: Sequence[tuple[Snapshot, Content]]) -> tuple[list[ManifestFileMeta], Longs]:
    """The manifests of all lists, and the commit number of each."""
    names = [s.changelog_manifest_list if c is Content.CHANGELOG else s.delta_manifest_list for s, c in wanted]
    lists = find_manifest_lists(handle, list(dict.fromkeys(n for n in names if n is not None)))
    metas: list[ManifestFileMeta] = []
    sizes = []
    for (snapshot, _), name in zip(wanted, names, strict=True):
        rows = () if name is None else lists[name]
        if rows is None:
            path = handle.layout.manifest_path(name or "")
            raise FileMissingError(
                f"manifest list {handle.store.url(path)} of snapshot {snapshot.id} of {handle.describe()} is gone; has "
                f"the snapshot expired meanwhile? Here {alive_range(handle)}",
                path=path,
                snapshot_id=snapshot.id,
            )
        metas += rows
        sizes.append(len(rows))
    return metas, np.repeat(np.arange(len(wanted)), sizes)


def _only_adds(
    handle: TableHandle, wanted: Sequence[tuple[Snapshot, Content]], table: pa.Table, commit: Longs
) -> pa.Table:
    """ADD entries, without those that the same OVERWRITE also deletes."""
    deleted = column(table, "kind") == FileKind.DELETE
    if not deleted.any():
        return table
    may_delete = np.array([s.commit_kind is CommitKind.OVERWRITE and c is Content.DELTA for s, c in wanted], np.bool_)
    wrong = deleted & ~may_delete[commit]
    if wrong.any():
        snapshot = wanted[int(commit[wrong][0])][0]
        raise InvalidInputError(
            f"snapshot {snapshot.id} of {handle.describe()} removed files, so what it added is not all that changed; "
            "compare the two states with incremental-between-scan-mode = diff, and begin streams after it",
            table=handle.name,
            snapshot_id=snapshot.id,
        )
    ids = np.unique(np.stack([commit, file_ids(table)]), axis=1, return_inverse=True)[1].reshape(-1)
    taken_back = np.bincount(ids[deleted], minlength=int(ids.max()) + 1) > 0
    return table.filter(boolean_array(~deleted & ~taken_back[ids]))


def change_units(
    handle: TableHandle,
    table: pa.Table,
    filters: Filters,
    schemas: Mapping[int, TableSchema],
    tally: Tally,
    *,
    of_stream: Sequence[Snapshot] | None = None,
) -> tuple[Selection, Units]:
    """One unit for each entry of `added_files` that may contain a wanted row, in commit order within a bucket.

    A stream, which names its commits, has only the new rows of tables with data evolution, commit by commit. Raises
    SnapshotExpiredError if it can no longer be decided which rows are new.
    """
    selection = select(handle, table, filters, schemas, tally).in_byte_order()
    if handle.options.data_evolution:
        if of_stream is None:
            return selection, row_id_units(selection)
        selection = _only_new_rows(handle, selection, of_stream, tally)
        return selection, row_id_units(selection, column(selection.entries, COMMIT))
    # No row is merged with another, so each file is tested alone.
    selection = skip_by_statistics(handle, selection, filters.rest, schemas, tally)
    commit, sequence = (column(selection.entries, n) for n in (COMMIT, "min_sequence_number"))
    mode = CHANGES if handle.schema.primary_keys else RAW
    groups = _groups(selection, commit) if handle.schema.primary_keys else groups_of(selection)
    return selection, single_files(groups, mode, commit, sequence)


def _groups(selection: Selection, commit: Longs) -> Longs:
    """Partition and bucket of each entry. A changed number of buckets makes new groups.

    A key lies in one of the former buckets, and later in one of the new: all of the former come first.
    """
    groups, codes = groups_of(selection), selection.partitions.codes.astype(np.int64)
    order = np.lexsort((commit, codes))
    totals = column(selection.entries, "total_buckets")[order]
    rescaled = (np.diff(totals) != 0) & (np.diff(codes[order]) == 0)
    if not rescaled.any():
        return groups
    since = np.empty(len(order), np.int64)
    since[order] = np.concatenate([[0], np.cumsum(rescaled)])
    return np.unique(np.stack([codes, since, groups]), axis=1, return_inverse=True)[1].reshape(-1)


def column(entries: pa.Table | pa.RecordBatch, name: str) -> Longs:
    """A column of whole numbers as one array."""
    return values(one_chunk(entries.column(name)))


_UNKNOWN: Final = -1


def _first_new_rows(handle: TableHandle, snapshots: Sequence[Snapshot]) -> Longs:
    """The first new row id of each commit; -1 if the previous snapshot has expired.

    Reads that snapshot, where it is not among those given.
    """
    out = []
    before: Snapshot | None = None
    for snapshot in snapshots:
        if before is None or before.id != snapshot.id - 1:
            before = find_snapshot(handle, snapshot.id - 1) if snapshot.id > 1 else None
        out.append((before.next_row_id or 0) if before is not None else 0 if snapshot.id == 1 else _UNKNOWN)
        before = snapshot
    return np.array(out, np.int64)


def _only_new_rows(handle: TableHandle, selection: Selection, snapshots: Sequence[Snapshot], tally: Tally) -> Selection:
    """The files whose rows were added by their commit, one of `snapshots`."""
    first = selection.entries.column("first_row_id")
    commit = column(selection.entries, COMMIT)
    floor = _first_new_rows(handle, snapshots)[commit]
    unsure = (floor == _UNKNOWN) & validity(first) & validity(selection.entries.column("write_cols"))
    if unsure.any():
        snapshot = snapshots[int(commit[unsure][0])]
        raise SnapshotExpiredError(
            f"snapshot {snapshot.id} of {handle.describe()} added files with some columns; whether their rows "
            f"are new cannot be decided, as snapshot {snapshot.id - 1} has expired: {alive_range(handle)}; begin a "
            "new query at a snapshot alive",
            table=handle.name,
            branch=handle.branch,
            snapshot_id=snapshot.id - 1,
        )
    kept = ~validity(first) | (values(first) >= floor)
    tally.skip(Reason.UPDATED, ~kept, values(selection.entries.column("file_size")))
    return selection.keep(kept)
