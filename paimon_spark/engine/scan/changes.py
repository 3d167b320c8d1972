"""Files that commits added, of one snapshot or of a thousand at a time: what changed, as it was written.

Source: Java `table/source/snapshot/DeltaFollowUpScanner`, `ChangelogFollowUpScanner`,
`IncrementalDeltaStartingScanner`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_spark.engine.scan.manifest_prune import manifests_wanted
from paimon_spark.engine.scan.new_rows import first_new_rows, only_new_rows
from paimon_spark.engine.scan.prune import Filters, Selection, select, skip_by_statistics
from paimon_spark.engine.scan.report import PlanReport, Tally
from paimon_spark.engine.scan.units import CHANGES, RAW, Longs, Units, groups_of, row_id_units, single_files
from paimon_spark.errors import FileMissingError, InvalidInputError
from paimon_spark.format.arrays.arrow_numpy import Bool, boolean_array, fixed_array, values
from paimon_spark.format.metadata_files.manifest import FileKind, ManifestFileMeta
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.live_files import file_ids
from paimon_spark.metadata.manifests import find_manifest_lists, read_manifests
from paimon_spark.metadata.snapshots import alive_range

COMMIT: Final = "commit"
"""Column of the entries: the number of the commit among those asked for."""


class Content(str, Enum):
    """What is read of a snapshot.

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
    keep = manifests_wanted(
        metas,
        handle.schema.partition_type,
        filters.partition,
        real_buckets_only=filters.real_buckets_only,
        lowest_level=filters.lowest_level,
    )
    opened = [m for m, ok in zip(metas, keep.tolist(), strict=True) if ok]
    table = read_manifests(handle, opened)
    counts = [m.num_added_files + m.num_deleted_files for m in opened]
    commit = np.repeat(commits[keep], counts)
    table = table.append_column(COMMIT, fixed_array(commit, pa.int64()))
    table = _only_adds(handle, wanted, table, commit)
    report = PlanReport(
        manifests=len(metas),
        manifests_skipped=len(metas) - len(opened),
        files_in_skipped=sum(m.num_added_files for m, ok in zip(metas, keep.tolist(), strict=True) if not ok),
        files=len(table),
        size_bytes=int(column(table, "file_size").sum()),
    )
    return table, report


def _manifests(handle: TableHandle, wanted: Sequence[tuple[Snapshot, Content]]) -> tuple[list[ManifestFileMeta], Longs]:
    """The lines of all lists, and for each the number of its commit."""
    names = [s.changelog_manifest_list if c is Content.CHANGELOG else s.delta_manifest_list for s, c in wanted]
    lists = find_manifest_lists(handle, list(dict.fromkeys(n for n in names if n is not None)))
    metas: list[ManifestFileMeta] = []
    sizes = []
    for (snapshot, _), name in zip(wanted, names, strict=True):
        rows = () if name is None else lists[name]
        if rows is None:
            raise _gone(handle, snapshot, name or "")
        metas += rows
        sizes.append(len(rows))
    return metas, np.repeat(np.arange(len(wanted)), sizes)


def _gone(handle: TableHandle, snapshot: Snapshot, name: str) -> FileMissingError:
    path = handle.layout.manifest_path(name)
    return FileMissingError(
        f"manifest list {handle.store.url(path)} of snapshot {snapshot.id} of {handle.describe()} is gone; has the "
        f"snapshot expired meanwhile? Here {alive_range(handle)}",
        path=path,
        snapshot_id=snapshot.id,
    )


def _only_adds(
    handle: TableHandle, wanted: Sequence[tuple[Snapshot, Content]], table: pa.Table, commit: Longs
) -> pa.Table:
    """ADD entries; those that the same OVERWRITE takes away again go too."""
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
    return table.filter(boolean_array(~deleted & ~_taken_back(table, commit, deleted)))


def _taken_back(table: pa.Table, commit: Longs, deleted: Bool) -> Bool:
    """Entries of files that the same commit both adds and deletes."""
    ids = file_ids(table)
    ids = np.unique(np.stack([commit, ids]), axis=1, return_inverse=True)[1].reshape(-1)
    both: Bool = np.bincount(ids[deleted], minlength=int(ids.max()) + 1) > 0
    return both[ids]


def change_units(
    handle: TableHandle,
    table: pa.Table,
    filters: Filters,
    schemas: Mapping[int, TableSchema],
    tally: Tally,
    *,
    of_stream: Sequence[Snapshot] | None = None,
) -> tuple[Selection, Units]:
    """Entries of `added_files` that may hold a wanted row, a unit each; those of a bucket in the order of commits.

    Args:
        handle: the table.
        table: entries with the column `COMMIT`.
        filters: what may be skipped.
        schemas: schema by id, for every file.
        tally: counts what is skipped.
        of_stream: the commits, for a stream: of tables with data evolution it has only new rows, commit by commit.

    Raises:
        SnapshotExpiredError: which rows are new can no longer be told.
    """
    selection = select(handle, table, filters, schemas, tally).in_byte_order()
    if handle.options.data_evolution:
        if of_stream is None:
            return selection, row_id_units(selection)
        first_new = first_new_rows(handle, of_stream)
        commit = column(selection.entries, COMMIT)
        selection = only_new_rows(handle, selection, commit, of_stream, first_new, tally)
        return selection, row_id_units(selection, column(selection.entries, COMMIT))
    # No row is merged with another, so each file is judged alone.
    selection = skip_by_statistics(handle, selection, filters.rest, schemas, tally)
    commit, sequence = (column(selection.entries, n) for n in (COMMIT, "min_sequence_number"))
    mode = CHANGES if handle.schema.primary_keys else RAW
    groups = _groups(selection, commit) if handle.schema.primary_keys else groups_of(selection)
    return selection, single_files(groups, mode, commit, sequence)


def _groups(selection: Selection, commit: Longs) -> Longs:
    """Partition and bucket of each entry. Where a partition got another number of buckets, the former ones are others.

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
    found = entries.column(name)
    chunks = [values(c) for c in found.chunks] if isinstance(found, pa.ChunkedArray) else [values(found)]
    return np.concatenate(chunks) if chunks else np.zeros(0, np.int64)
