"""Plan changes between two snapshots: added rows as written, or a difference of states.

Files that commits added are listed for one snapshot or a thousand at a time. With data evolution, a commit can add
columns to existing rows. Streams skip such files, like overwrites; read alone they would give rows with nulls in all
other columns, as in Java.

Source: Java `table/source/snapshot/IncrementalDeltaStartingScanner`, `IncrementalDiffStartingScanner`,
`DeltaFollowUpScanner`, `ChangelogFollowUpScanner`, `AbstractDataTableScan.createIncrementalStartingScanner`; Paimon
spec, chapter Data Evolution.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import compress
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_spark.engine.scan.one_branch import (
    BranchPlan,
    branch_plan,
    check_query,
    read_entries,
    schemas_of,
)
from paimon_spark.engine.scan.plan import Plan, assembled
from paimon_spark.engine.scan.prune import (
    Filters,
    Selection,
    filters_of,
    manifests_wanted,
    report_of,
    select,
    skip_by_statistics,
)
from paimon_spark.engine.scan.query import PlanReport, Reason, ScanQuery, Tally
from paimon_spark.engine.scan.splits import Deletions, EarlierState, deletions_of, make_splits
from paimon_spark.engine.scan.units import (
    CHANGES,
    DIFF,
    RAW,
    Longs,
    Units,
    append_units,
    groups_of,
    key_bounds,
    overlapping,
    row_id_units,
    single_files,
)
from paimon_spark.engine.tasks import DataSplit, DeletionFile
from paimon_spark.errors import (
    FileMissingError,
    InvalidInputError,
    SnapshotExpiredError,
    SnapshotNotFoundError,
    UnsupportedFeatureError,
)
from paimon_spark.format.arrays.arrow_numpy import Bool, boolean_array, fixed_array, one_chunk, validity, values
from paimon_spark.format.arrays.arrow_types import no_rows
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.format.metadata_files.manifest import ENTRY_SCHEMA, FileKind, ManifestFileMeta
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.live_files import file_ids
from paimon_spark.metadata.manifests import data_manifests, find_manifest_lists, read_manifests
from paimon_spark.metadata.resolve import ResolvedRange
from paimon_spark.metadata.snapshots import alive_range, earliest_snapshot, find_snapshot, get_snapshots
from paimon_spark.options.core import ChangelogProducer
from paimon_spark.options.scan import Incremental, IncrementalMode


def plan_incremental(between: ResolvedRange, query: ScanQuery, asked: Incremental) -> Plan:
    """The plan of an incremental read. Driver only; safe to retry.

    Raises:
        SnapshotExpiredError: a snapshot between the two is gone.
        InvalidInputError: a commit between the two removed files, or rescaled buckets.
        UnsupportedFeatureError, CorruptFileError, ColumnNotFoundError: as `plan.plan_batch`.
    """
    handle = between.handle
    check_query(handle, query, changes=True)
    if between.is_empty or between.end is None:
        part = branch_plan(handle, query, (), {}, PlanReport())
    elif (mode := mode_of(handle, between, asked)) is IncrementalMode.DIFF:
        part = plan_diff(handle, _older_state(between), between.end, query)
    else:
        part = plan_changes(handle, between.start_id, between.end.id, query, mode is IncrementalMode.CHANGELOG)
    return assembled(handle, between.end, query, [part])


def mode_of(handle: TableHandle, between: ResolvedRange, asked: Incremental) -> IncrementalMode:
    """Which files to read: between tags the difference, with `auto` the changelog if there is one."""
    if between.tags and not asked.tags_are_snapshots:
        return IncrementalMode.DIFF
    if asked.mode is IncrementalMode.DIFF and between.tags:
        raise UnsupportedFeatureError(
            "incremental-between-tag-to-snapshot reads the changes between two tags, "
            "incremental-between-scan-mode = diff their difference; give one of the two",
            feature="incremental-between-tag-to-snapshot",
        )
    if asked.mode is not IncrementalMode.AUTO:
        return asked.mode
    if handle.options.changelog_producer is ChangelogProducer.NONE:
        return IncrementalMode.DELTA
    return IncrementalMode.CHANGELOG


def plan_changes(handle: TableHandle, start_id: int, end_id: int, query: ScanQuery, changelog: bool) -> BranchPlan:
    """Files that the commits after `start_id` up to `end_id` added, rows unmerged and with their kinds.

    Without `changelog` the data files of APPEND commits; with it the changelog files of all but OVERWRITE commits.
    """
    filters = filters_of(handle, query, hide_new_levels=False)
    content = Content.CHANGELOG if changelog else Content.DELTA
    snapshots = get_snapshots(handle, range(start_id + 1, end_id + 1))
    wanted = [
        (s, content)
        for s in snapshots
        if s.commit_kind is CommitKind.APPEND or (changelog and s.commit_kind is not CommitKind.OVERWRITE)
    ]
    table, report = added_files(handle, wanted, filters)
    schemas, tally = schemas_of(handle, table), Tally()
    selection, units = change_units(handle, table, filters, schemas, tally)
    splits = make_splits(handle, selection, units, Deletions(), end_id)
    return branch_plan(handle, query, splits, schemas, tally.added_to(report))


def _older_state(between: ResolvedRange) -> Snapshot | None:
    """The state to compare with; None (an empty table) if the range starts before the first snapshot."""
    if between.start is not None or between.start_id == 0:
        return between.start
    return earliest_snapshot(between.handle)


def plan_diff(handle: TableHandle, before: Snapshot | None, after: Snapshot, query: ScanQuery) -> BranchPlan:
    """Primary-key tables: rows that differ between two states. Append tables: files that only the later one has."""
    filters = filters_of(handle, query, hide_new_levels=False)
    old, old_report = _state(handle, before, filters)
    new, new_report = _state(handle, after, filters)
    table = pa.concat_tables([old, new])
    schemas, tally = schemas_of(handle, table), Tally()
    is_new = fixed_array((np.arange(len(table)) >= len(old)).astype(np.int8), pa.int8())
    table = table.set_column(0, ENTRY_SCHEMA.field("kind"), is_new)  # takes the place of the kind
    selection = select(handle, table, filters, schemas, tally)
    report = old_report + new_report
    if handle.schema.primary_keys:
        splits = _diff_splits(handle, selection, before, after, tally)
    else:
        _check_same_buckets(handle, selection, before, after)
        selection = _only_new(selection, tally)
        selection = skip_by_statistics(handle, selection, filters.rest, schemas, tally)
        units = row_id_units(selection) if handle.options.data_evolution else append_units(selection)
        splits = make_splits(handle, selection, units, deletions_of(handle, after), after.id)
    return branch_plan(handle, query, splits, schemas, tally.added_to(report))


def _state(handle: TableHandle, snapshot: Snapshot | None, filters: Filters) -> tuple[pa.Table, PlanReport]:
    if snapshot is None:
        return no_rows(ENTRY_SCHEMA), PlanReport()
    return read_entries(handle, data_manifests(handle, snapshot), filters)


def _rescaled(selection: Selection) -> Longs:
    """The codes of the partitions that have another number of buckets in the one state than in the other."""
    totals = values(selection.entries.column("total_buckets"))
    real = totals > 0
    codes = selection.partitions.codes[real].astype(np.int64)
    span = int(totals.max(initial=1)) + 1
    partition, counts = np.unique(np.unique(codes * span + totals[real]) // span, return_counts=True)
    found: Longs = partition[counts > 1]
    return found


def _check_same_buckets(handle: TableHandle, selection: Selection, before: Snapshot | None, after: Snapshot) -> None:
    """Check that an append table wrote no rows anew into another number of buckets. Raises InvalidInputError."""
    if handle.options.bucket == -1 or before is None:
        return
    rescaled = _rescaled(selection)
    if len(rescaled):
        raise InvalidInputError(
            f"{handle.describe()}: partition {selection.partitions.path(int(rescaled[0])) or '(the only one)'} has "
            f"another number of buckets in snapshot {before.id} than in snapshot {after.id}, so that new files have "
            "rows of old ones, and rows without keys cannot be compared",
            table=handle.name,
        )


def _moving(handle: TableHandle, selection: Selection, before: Snapshot | None, after: Snapshot) -> Longs:
    """The codes of the partitions where a key may be in different buckets of the two states.

    With dynamic buckets an overwrite assigns keys to buckets anew.
    """
    if before is None or handle.options.bucket != -1:
        return _rescaled(selection)
    try:
        between = get_snapshots(handle, range(before.id + 1, after.id + 1))
        is_overwritten = any(s.commit_kind is CommitKind.OVERWRITE for s in between)
    except SnapshotNotFoundError:
        is_overwritten = True  # nobody knows what the snapshots that expired were
    everything: Longs = np.unique(selection.partitions.codes).astype(np.int64)
    return everything if is_overwritten else everything[:0]


def _only_new(selection: Selection, tally: Tally) -> Selection:
    """Files of the newer state that the older one lacks."""
    new = values(selection.entries.column("kind")) == 1
    names = values(selection.entries.column("file_name").dictionary_encode().indices)
    ids = np.unique(np.stack([groups_of(selection), names]), axis=1, return_inverse=True)[1].reshape(-1)
    in_old = np.bincount(ids[~new], minlength=int(ids.max(initial=-1)) + 1) > 0
    wanted = new & ~in_old[ids]
    tally.skip(Reason.UNCHANGED, ~wanted, values(selection.entries.column("file_size")))
    return selection.keep(wanted)


def _diff_splits(
    handle: TableHandle, selection: Selection, before: Snapshot | None, after: Snapshot, tally: Tally
) -> Sequence[DataSplit]:
    """A split for each section of overlapping keys whose files, or their deletion vectors, differ."""
    if not len(selection):
        return ()
    codes, groups = selection.partitions.codes.astype(np.int64), groups_of(selection)
    moving = _moving(handle, selection, before, after)
    is_moving = np.isin(codes, moving)
    if len(moving):
        first = np.full(int(codes.max()) + 1, groups.max())
        np.minimum.at(first, codes, groups)
        groups = np.where(is_moving, first[codes], groups)
    units = overlapping(groups, *key_bounds(handle, selection), DIFF)
    older = EarlierState(values(selection.entries.column("kind")) == 0, deletions_of(handle, before))
    newer = deletions_of(handle, after)
    buckets = _buckets(selection, is_moving)
    out = []
    for made in make_splits(handle, selection, units, newer, after.id, older):
        split = _across_buckets(selection, made, buckets, older.deletions, newer) if buckets else made
        if _identity(split.before_files, split.before_deletions) == _identity(split.files, split.deletions):
            tally.skip_counts(Reason.UNCHANGED, len(split.before_files) + len(split.files), split.size_bytes)
        else:
            out.append(split)
    return tuple(out)


def _buckets(selection: Selection, wanted: Bool) -> dict[str, int]:
    """The bucket of each of some files, by its name."""
    entries = selection.entries.filter(boolean_array(wanted))
    names, numbers = (entries.column(name).to_pylist() for name in ("file_name", "bucket"))
    return dict(zip(names, numbers, strict=True))


def _across_buckets(
    selection: Selection, split: DataSplit, buckets: Mapping[str, int], older: Deletions, newer: Deletions
) -> DataSplit:
    """A split whose files are in several buckets of its partition, with the directory and deletions of each file."""
    directories = selection.partitions.directories

    def deletions(files: Sequence[DataFileMeta], among: Deletions) -> tuple[DeletionFile | None, ...]:
        found = tuple((among.of(split.partition, buckets[f.file_name], (f,)) or (None,))[0] for f in files)
        return found if any(found) else ()

    files = (*split.before_files, *split.files)
    if any(f.file_name not in buckets for f in files):
        return split
    elsewhere: dict[str, str] = {}
    for bucket in sorted({buckets[f.file_name] for f in files}):
        names = [f.file_name for f in files if buckets[f.file_name] == bucket]
        if bucket != split.bucket:
            elsewhere |= dict.fromkeys(names, directories.bucket_path(split.partition, bucket))
        elsewhere |= dict(directories.elsewhere(split.partition, bucket, names))
    return replace(
        split,
        deletions=deletions(split.files, newer),
        before_deletions=deletions(split.before_files, older),
        elsewhere=tuple(elsewhere.items()),
    )


def _identity(
    files: tuple[DataFileMeta, ...], deletions: tuple[DeletionFile | None, ...]
) -> frozenset[tuple[str, int, DeletionFile | None]]:
    vectors = deletions or (None,) * len(files)
    return frozenset((f.file_name, f.level, v) for f, v in zip(files, vectors, strict=True))


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
