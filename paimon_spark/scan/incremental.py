"""What changed between two snapshots: new rows as they were written, or the difference of two states.

Source: Java `table/source/snapshot/IncrementalDeltaStartingScanner`, `IncrementalDiffStartingScanner`,
`AbstractDataTableScan.createIncrementalStartingScanner`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_spark.errors import InvalidInputError, UnsupportedFeatureError
from paimon_spark.handoff.split import DataSplit, DeletionFile, SplitMode
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.live_files import changelog_entries, delta_entries
from paimon_spark.metadata.manifests import changelog_manifests, data_manifests, delta_manifests
from paimon_spark.metadata.snapshots import earliest_snapshot, get_snapshot
from paimon_spark.options.scan import Incremental, IncrementalMode
from paimon_spark.options.table import ChangelogProducer
from paimon_spark.refs.ranges import ResolvedRange
from paimon_spark.scan.deletions import Deletions, deletions_of
from paimon_spark.scan.manifest_prune import manifests_wanted
from paimon_spark.scan.one_branch import (
    BranchPlan,
    check_metadata_columns,
    check_query,
    read_entries,
    read_request,
    schemas_of,
    schemas_used,
    with_tally,
)
from paimon_spark.scan.plan import Plan, assembled
from paimon_spark.scan.prune import Filters, Selection, filters_of, one_batch, select, skip_by_statistics
from paimon_spark.scan.query import ScanQuery
from paimon_spark.scan.report import PlanReport, Reason, Tally
from paimon_spark.scan.splits import file_metas, make_splits
from paimon_spark.scan.units import CHANGES, DIFF, RAW, append_units, groups_of, key_bounds, overlapping, row_id_units
from paimon_spark.spec.arrow_numpy import values
from paimon_spark.spec.data_file import DataFileMeta
from paimon_spark.spec.manifest import ENTRY_SCHEMA, FileKind
from paimon_spark.spec.snapshot import CommitKind, Snapshot

_NO_DELETIONS: Final = Deletions({})


def plan_incremental(between: ResolvedRange, query: ScanQuery, asked: Incremental) -> Plan:
    """The plan of an incremental read. Driver only; safe to retry.

    Raises:
        SnapshotExpiredError: a snapshot between the two is gone.
        InvalidInputError: a commit between the two removed files, or rescaled buckets.
        UnsupportedFeatureError, CorruptFileError, ColumnNotFoundError: as `plan.plan_batch`.
    """
    handle = between.handle
    check_query(handle, query)
    if between.is_empty or between.end is None:
        part = BranchPlan((), read_request(handle, query, {}), PlanReport())
    elif mode_of(handle, between, asked) is IncrementalMode.DIFF:
        part = plan_diff(handle, _older_state(between), between.end, query)
    else:
        changelog = mode_of(handle, between, asked) is IncrementalMode.CHANGELOG
        part = plan_changes(handle, between.start_id, between.end.id, query, changelog=changelog)
    check_metadata_columns(handle, query, part.splits)
    return assembled(handle, between.end, query, [part])


def mode_of(handle: TableHandle, between: ResolvedRange, asked: Incremental) -> IncrementalMode:
    """Which files are read: two tags are compared, `auto` takes the changelog where there is one."""
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


def plan_changes(handle: TableHandle, start_id: int, end_id: int, query: ScanQuery, *, changelog: bool) -> BranchPlan:
    """Files that the commits after `start_id` up to `end_id` added, rows unmerged and with their kinds.

    Without `changelog` the data files of APPEND commits; with it the changelog files of all but OVERWRITE commits.
    """
    filters = filters_of(handle, query, hide_new_levels=False)
    table, report = _added(handle, start_id, end_id, filters, changelog=changelog)
    schemas, tally = schemas_of(handle, table), Tally()
    selection = select(handle, table, filters, schemas, tally)
    if handle.options.data_evolution:
        units = row_id_units(selection)
    else:
        # No row is merged with another, so each file is judged alone.
        selection = skip_by_statistics(handle, selection, filters.rest, schemas, tally)
        units = append_units(selection, CHANGES if handle.schema.primary_keys else RAW)
    splits = make_splits(handle, selection, units, _NO_DELETIONS, end_id)
    request = read_request(handle, query, schemas_used(schemas, splits))
    return BranchPlan(tuple(splits), request, with_tally(report, tally))


def _added(
    handle: TableHandle, start_id: int, end_id: int, filters: Filters, *, changelog: bool
) -> tuple[pa.Table, PlanReport]:
    tables, report = [], PlanReport()
    for snapshot_id in range(start_id + 1, end_id + 1):
        snapshot = get_snapshot(handle, snapshot_id)
        if not _counts(snapshot, changelog):
            continue
        metas = changelog_manifests(handle, snapshot) if changelog else delta_manifests(handle, snapshot)
        wanted = manifests_wanted(
            metas,
            handle.schema.partition_type,
            filters.partition,
            real_buckets_only=filters.real_buckets_only,
            lowest_level=0,
        ).tolist()
        read = changelog_entries if changelog else delta_entries
        table = read(handle, [m for m, ok in zip(metas, wanted, strict=True) if ok])
        _check_only_added(handle, snapshot, table)
        tables.append(table)
        report += PlanReport(len(metas), wanted.count(False), files=len(table), size_bytes=_total(table, "file_size"))
    return (pa.concat_tables(tables) if tables else ENTRY_SCHEMA.empty_table()), report


def _counts(snapshot: Snapshot, changelog: bool) -> bool:
    if changelog:
        return snapshot.commit_kind is not CommitKind.OVERWRITE
    return snapshot.commit_kind is CommitKind.APPEND


def _check_only_added(handle: TableHandle, snapshot: Snapshot, table: pa.Table) -> None:
    if any((values(chunk) == FileKind.DELETE).any() for chunk in table.column("kind").chunks):
        raise InvalidInputError(
            f"snapshot {snapshot.id} of {handle.describe()} removed files, so what it added is not all that changed; "
            "compare the two states with incremental-between-scan-mode = diff",
            table=handle.name,
            snapshot_id=snapshot.id,
        )


def _older_state(between: ResolvedRange) -> Snapshot | None:
    """The state to compare with; None is an empty table, when the range begins before the first snapshot."""
    if between.start is not None or between.start_id == 0:
        return between.start
    return earliest_snapshot(between.handle)


def plan_diff(handle: TableHandle, before: Snapshot | None, after: Snapshot, query: ScanQuery) -> BranchPlan:
    """Primary-key tables: rows that differ between two states. Append tables: files that only the later one has.

    Raises:
        InvalidInputError: the number of buckets of a partition differs.
    """
    filters = filters_of(handle, query, hide_new_levels=False)
    old, old_report = _state(handle, before, filters)
    new, new_report = _state(handle, after, filters)
    schemas, tally = schemas_of(handle, pa.concat_tables([old, new])), Tally()
    table = pa.concat_tables([old, new])
    is_new = np.arange(len(table)) >= len(old)
    table = table.set_column(0, ENTRY_SCHEMA.field("kind"), _marks(is_new))
    selection = select(handle, table, filters, schemas, tally)
    _check_same_buckets(handle, selection, before, after)
    report = old_report + new_report
    if handle.schema.primary_keys:
        splits = list(_diff_splits(handle, selection, before, after, tally))
    else:
        selection = _only_new(selection, tally)
        selection = skip_by_statistics(handle, selection, filters.rest, schemas, tally)
        units = row_id_units(selection) if handle.options.data_evolution else append_units(selection)
        splits = make_splits(handle, selection, units, deletions_of(handle, after), after.id)
    request = read_request(handle, query, schemas_used(schemas, splits))
    return BranchPlan(tuple(splits), request, with_tally(report, tally))


def _state(handle: TableHandle, snapshot: Snapshot | None, filters: Filters) -> tuple[pa.Table, PlanReport]:
    if snapshot is None:
        return ENTRY_SCHEMA.empty_table(), PlanReport()
    return read_entries(handle, data_manifests(handle, snapshot), filters)


def _marks(is_new: np.ndarray) -> pa.Array:
    """1 for entries of the newer state, in the place of their kind."""
    return pa.Array.from_buffers(pa.int8(), len(is_new), [None, pa.py_buffer(is_new.astype(np.int8).tobytes())])


def _check_same_buckets(handle: TableHandle, selection: Selection, before: Snapshot | None, after: Snapshot) -> None:
    """Rows of one key would lie in different buckets of the two states."""
    if handle.options.bucket == -1 or before is None:
        return
    totals = values(selection.entries.column("total_buckets"))
    real = totals > 0
    codes = selection.partitions.codes[real].astype(np.int64)
    span = int(totals.max(initial=1)) + 1
    pairs = np.unique(codes * span + totals[real])
    partition, counts = np.unique(pairs // span, return_counts=True)
    if (counts > 1).any():
        code = int(partition[counts > 1][0])
        raise InvalidInputError(
            f"{handle.describe()}: partition {selection.partitions.path(code) or '(the only one)'} has another number "
            f"of buckets in snapshot {before.id} than in snapshot {after.id}, so they cannot be compared",
            table=handle.name,
        )


def _only_new(selection: Selection, tally: Tally) -> Selection:
    """Files of the newer state that the older one lacks."""
    new = values(selection.entries.column("kind")) == 1
    names = one_batch(pa.table([selection.entries.column("file_name")], ["n"])).column(0).dictionary_encode()
    groups = groups_of(selection)
    ids = np.unique(np.stack([groups, values(names.indices)]), axis=1, return_inverse=True)[1].reshape(-1)
    in_old = np.bincount(ids[~new], minlength=int(ids.max(initial=-1)) + 1) > 0
    wanted = new & ~in_old[ids]
    tally.skip(Reason.UNCHANGED, ~wanted, values(selection.entries.column("file_size")))
    return selection.keep(wanted)


def _diff_splits(
    handle: TableHandle, selection: Selection, before: Snapshot | None, after: Snapshot, tally: Tally
) -> Iterator[DataSplit]:
    """A split for each section of overlapping keys whose files, or their deletion vectors, differ."""
    if not len(selection):
        return
    units = overlapping(groups_of(selection), *key_bounds(handle, selection), DIFF)
    files = file_metas(selection.entries, units.files, keys=True)
    is_new = (values(selection.entries.column("kind"))[units.files] == 1).tolist()
    codes = selection.partitions.codes[units.files].tolist()
    buckets = values(selection.entries.column("bucket"))[units.files].tolist()
    vectors = deletions_of(handle, before), deletions_of(handle, after)
    ends = [*units.starts.tolist()[1:], len(files)]
    for start, end in zip(units.starts.tolist(), ends, strict=True):
        partition, bucket = selection.partitions.row_bytes[codes[start]], buckets[start]
        sides = [tuple(files[i] for i in range(start, end) if is_new[i] == side) for side in (False, True)]
        deletions = [vectors[i].of(partition, bucket, sides[i]) for i in (0, 1)]
        if _identity(sides[0], deletions[0]) == _identity(sides[1], deletions[1]):
            tally.skip_counts(Reason.UNCHANGED, end - start, sum(f.file_size for f in files[start:end]))
            continue
        yield DataSplit(
            handle.branch,
            after.id,
            partition,
            bucket,
            handle.layout.bucket_path(selection.partitions.path(codes[start]), bucket),
            SplitMode.DIFF,
            sides[1],
            deletions[1],
            sides[0],
            deletions[0],
        )


def _identity(
    files: tuple[DataFileMeta, ...], deletions: tuple[DeletionFile | None, ...]
) -> frozenset[tuple[str, int, DeletionFile | None]]:
    vectors = deletions or (None,) * len(files)
    return frozenset((f.file_name, f.level, v) for f, v in zip(files, vectors, strict=True))


def _total(table: pa.Table, name: str) -> int:
    return sum(int(values(chunk).sum()) for chunk in table.column(name).chunks)
