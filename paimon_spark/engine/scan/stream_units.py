"""Plan what a stream reads of a snapshot, in units that always have the same order.

Checkpoints count units. Their order depends on partition bytes, bucket and kind of read only, never on split sizes,
threads or caches. A digest of the order and the files detects a snapshot whose units can no longer be counted the same
way.

Changes of one bucket of a primary-key table are in commit order; `order_of` tells which splits one task must read in
order. If the primary key lacks a partition column, a key that moves to another partition is in no particular order, as
in Java.

An OVERWRITE of a primary-key table removes the rows of the deleted files and adds those of the new ones. Deletion
vectors of the previous snapshot apply to the deleted files; Java ignores them in streams and deletes rows twice.

Source: Java `table/source/DataTableStreamScan`, `table/source/snapshot/SnapshotReaderImpl`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_spark.engine.scan.changes import Content as Content
from paimon_spark.engine.scan.changes import added_files, change_units, column
from paimon_spark.engine.scan.one_branch import (
    BranchPlan,
    check_metadata_columns,
    check_query,
    named_in_errors,
    read_entries,
    read_request,
    schemas_of,
    state_units,
    with_tally,
)
from paimon_spark.engine.scan.prune import (
    Filters,
    Selection,
    files_that_may_match,
    filters_of,
    manifests_wanted,
    select,
)
from paimon_spark.engine.scan.query import PlanReport, Reason, ScanQuery, Tally
from paimon_spark.engine.scan.splits import Deletions, deletions_of, make_splits, two_sided_splits
from paimon_spark.engine.scan.units import REPLACED, Longs, Units, groups_of, key_bounds, overlapping, reordered
from paimon_spark.engine.tasks.split import DataSplit, ReadRequest, SplitMode
from paimon_spark.errors import FormatError, SnapshotExpiredError
from paimon_spark.format.arrays.arrow_numpy import Bool, boolean_array, byte_slices, take_indices, values
from paimon_spark.format.metadata_files.manifest import FileKind
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import POSTPONE_BUCKET
from paimon_spark.metadata.live_files import file_ids
from paimon_spark.metadata.manifests import data_manifests, delta_manifests, read_manifests
from paimon_spark.metadata.snapshots import alive_range, find_snapshot
from paimon_spark.options.core import ChangelogProducer, MergeEngine

_NO_DELETIONS: Final = Deletions({})
_DIGEST_BYTES: Final = 8
_WHOLE_PARTITION: Final = -1
"""In the place of a bucket: all of them."""


@dataclass(frozen=True, slots=True, eq=False)
class SnapshotUnits:
    """The units that a stream reads of one snapshot.

    Attributes:
        snapshot: the snapshot.
        content: what is read of it.
        files, size_bytes, row_counts: of each unit, in order; rows are physical ones.
        digest: short, of the units' order and files.
        request: what readers of the splits need to know.
        report: what was kept and skipped.
    """

    snapshot: Snapshot
    content: Content
    files: Longs
    size_bytes: Longs
    row_counts: Longs
    digest: str
    request: ReadRequest
    report: PlanReport
    _handle: TableHandle
    _query: ScanQuery
    _selection: Selection
    _units: Units
    _deletions: tuple[Deletions, Deletions]

    def __len__(self) -> int:
        return len(self.files)

    def splits(self, start: int, end: int) -> tuple[DataSplit, ...]:
        """Splits that hold exactly the units from `start` up to `end`, in their order.

        Raises:
            UnsupportedFeatureError: a column of the query that these rows do not have.
            CorruptFileError: a manifest holds a damaged row.
        """
        units = self._units.slice(start, end)
        place = self._handle, self._selection, units
        with named_in_errors(self._handle, self.snapshot):
            if self.content is Content.OVERWRITE:
                splits = list(two_sided_splits(*place, added(self._selection), self._deletions, self.snapshot.id))
            else:
                splits = make_splits(*place, self._deletions[1], self.snapshot.id)
        check_metadata_columns(self._handle, self._query, splits)
        return tuple(splits)


def bucket_of(split: DataSplit) -> tuple[bytes, int]:
    """The partition bytes and bucket of a split."""
    return split.partition, split.bucket


def order_of(splits: Sequence[DataSplit]) -> Callable[[DataSplit], tuple[bytes, int]] | None:
    """The ordering key of a split: splits with the same key must be read by one task, in order.

    None when no order is needed: rows of append tables have none, and in a state each key has one row. Changes keep
    the order of their bucket; a whole partition keeps together where its keys moved between buckets: when it got
    another number of them, or where rows wait in a postponed bucket.
    """
    if all(s.mode in (SplitMode.RAW, SplitMode.MERGE, SplitMode.EVOLVED) for s in splits):
        return None
    totals: dict[bytes, set[int]] = {}
    for split in splits:
        totals.setdefault(split.partition, set()).add(split.total_buckets)
    whole = {partition for partition, found in totals.items() if len(found) > 1}
    return lambda s: (s.partition, _WHOLE_PARTITION if s.partition in whole else s.bucket)


def plan_units(
    handle: TableHandle, snapshot: Snapshot, content: Content, query: ScanQuery, *, created_since_ms: int | None = None
) -> SnapshotUnits:
    """The units of one snapshot. Driver only; safe to repeat. `query.limit` is ignored.

    Args:
        handle: the branch, with the schema to read with.
        snapshot: what to read.
        content: what of it; OVERWRITE only of tables with primary keys.
        query: what is asked.
        created_since_ms: only files made then or later; else that of `query`.

    Raises:
        ColumnNotFoundError: a column of the query does not exist.
        UnsupportedFeatureError: the table or a column would be misread.
        InvalidInputError: DELTA of an APPEND that removed files.
        FileMissingError: metadata is gone; the snapshot may have expired meanwhile.
        SnapshotExpiredError: the snapshot before is needed, and has expired.
        CorruptFileError: metadata cannot be decoded.
    """
    if created_since_ms is not None:
        query = replace(query, created_since_ms=created_since_ms)
    check_query(handle, query)
    filters = stream_filters(handle, query, content)
    with named_in_errors(handle, snapshot):
        if content is Content.STATE:
            return _state(handle, snapshot, query, filters)
        if content is Content.OVERWRITE:
            return _overwrite(handle, snapshot, query, filters)
        return _changes(handle, [(snapshot, content)], query, filters)


def plan_whole(handle: TableHandle, wanted: Sequence[tuple[Snapshot, Content]], query: ScanQuery) -> BranchPlan:
    """All units of many snapshots, in the order given. Raises as `plan_units`.

    Neighbouring DELTA and CHANGELOG contents are planned together, with as many calls to the store for a thousand
    snapshots as for one, where it fetches many files at a time.
    """
    check_query(handle, query)
    splits: list[DataSplit] = []
    schemas: dict[int, TableSchema] = {}
    report = PlanReport()
    for run in _runs(wanted):
        units, more = _whole(handle, run, query)
        splits += more
        schemas |= units.request.file_schemas
        report += units.report
    request = read_request(handle, query, schemas)
    begins = bool(wanted) and all(content is Content.STATE for _, content in wanted)
    return BranchPlan(tuple(splits), replace(request, as_inserts=begins), report)


def _runs(wanted: Sequence[tuple[Snapshot, Content]]) -> Iterator[list[tuple[Snapshot, Content]]]:
    """Runs of neighbouring snapshots that are planned together."""
    for together, run in groupby(wanted, lambda w: w[1] in (Content.DELTA, Content.CHANGELOG)):
        some = list(run)
        yield from [some] if together else ([w] for w in some)


def _whole(
    handle: TableHandle, wanted: Sequence[tuple[Snapshot, Content]], query: ScanQuery
) -> tuple[SnapshotUnits, tuple[DataSplit, ...]]:
    if len(wanted) == 1:
        units = plan_units(handle, *wanted[0], query)
        return units, units.splits(0, len(units))
    try:
        units = _changes(handle, wanted, query, stream_filters(handle, query, wanted[0][1]))
        return units, units.splits(0, len(units))
    except FormatError:
        for one in wanted:
            _whole(handle, [one], query)  # names the one whose metadata is damaged
        raise


def stream_filters(handle: TableHandle, query: ScanQuery, content: Content) -> Filters:
    """What a stream may skip. Unlike a batch read it includes level 0, unless a changelog covers it later.

    Source: Java `DataTableStreamScan.tryFirstPlan`.
    """
    options = handle.options
    producer = options.changelog_producer
    lowest = 0
    if content is Content.STATE and handle.schema.primary_keys:
        if producer is ChangelogProducer.LOOKUP:
            lowest = 1
        elif producer is ChangelogProducer.FULL_COMPACTION:
            lowest = options.num_levels - 1
    return replace(
        filters_of(handle, query, hide_new_levels=False),
        lowest_level=lowest,
        real_buckets_only=options.bucket == POSTPONE_BUCKET and producer is not ChangelogProducer.NONE,
    )


def _state(handle: TableHandle, snapshot: Snapshot, query: ScanQuery, filters: Filters) -> SnapshotUnits:
    table, report = read_entries(handle, data_manifests(handle, snapshot), filters)
    schemas, tally = schemas_of(handle, table), Tally()
    selection = select(handle, table, filters, schemas, tally).in_byte_order()
    selection, units = state_units(handle, selection, filters, schemas, tally)
    found = _Found(
        selection, units, schemas, with_tally(report, tally), (_NO_DELETIONS, deletions_of(handle, snapshot))
    )
    return _snapshot_units(handle, snapshot, Content.STATE, query, found)


def _changes(
    handle: TableHandle, wanted: Sequence[tuple[Snapshot, Content]], query: ScanQuery, filters: Filters
) -> SnapshotUnits:
    """The changes of neighbouring snapshots, reported for the last one."""
    table, report = added_files(handle, wanted, filters)
    schemas, tally = schemas_of(handle, table), Tally()
    selection, units = change_units(handle, table, filters, schemas, tally, of_stream=[s for s, _ in wanted])
    return _snapshot_units(handle, *wanted[-1], query, _Found(selection, units, schemas, with_tally(report, tally)))


def _overwrite(handle: TableHandle, snapshot: Snapshot, query: ScanQuery, filters: Filters) -> SnapshotUnits:
    table, report = replaced_files(handle, snapshot, filters)
    schemas, tally = schemas_of(handle, table), Tally()
    selection, units = replacing_units(handle, table, filters, schemas, tally)
    deletions = vectors_around(handle, snapshot) if len(units) else (_NO_DELETIONS, _NO_DELETIONS)
    found = _Found(selection, units, schemas, with_tally(report, tally), deletions)
    return _snapshot_units(handle, snapshot, Content.OVERWRITE, query, found)


@dataclass(frozen=True, slots=True)
class _Found:
    """The planned entries of a snapshot.

    Attributes:
        schemas: schema by id, for every file.
        deletions: deletion vectors before the commit, and after it.
    """

    selection: Selection
    units: Units
    schemas: Mapping[int, TableSchema]
    report: PlanReport
    deletions: tuple[Deletions, Deletions] = (_NO_DELETIONS, _NO_DELETIONS)


def _snapshot_units(
    handle: TableHandle, snapshot: Snapshot, content: Content, query: ScanQuery, found: _Found
) -> SnapshotUnits:
    selection, units = found.selection, reordered(found.units)
    used = np.unique(column(selection.entries, "schema_id")[units.files]).tolist()
    request = read_request(handle, query, {i: found.schemas[i] for i in used})
    return SnapshotUnits(
        snapshot=snapshot,
        content=content,
        files=units.sizes,
        size_bytes=units.totals(column(selection.entries, "file_size")),
        row_counts=units.totals(column(selection.entries, "row_count")),
        digest=_digest(selection, units),
        request=replace(request, as_inserts=content is Content.STATE),
        report=found.report,
        _handle=handle,
        _query=query,
        _selection=selection,
        _units=units,
        _deletions=found.deletions,
    )


def _digest(selection: Selection, units: Units) -> str:
    """Of partitions, buckets, file names, whether they came or went, and the units' sizes, in order."""
    entries = selection.entries.select(["kind", "partition", "bucket", "file_name"]).take(take_indices(units.files))
    found = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    found.update(units.sizes.astype("<i8").tobytes())
    found.update(column(entries, "kind").astype("<i1").tobytes())
    found.update(column(entries, "bucket").astype("<i4").tobytes())
    for name in ("partition", "file_name"):
        offsets, data = byte_slices(entries.column(name))
        found.update(np.diff(offsets).astype("<i8").tobytes())
        found.update(data[offsets[0] : offsets[-1]].tobytes())
    return found.hexdigest()


def replaced_files(handle: TableHandle, snapshot: Snapshot, filters: Filters) -> tuple[pa.Table, PlanReport]:
    """Entries of the files that the commit removed (DELETE) or added, but not both.

    Raises:
        FileMissingError: metadata is gone.
        CorruptFileError: metadata cannot be decoded.
    """
    metas = delta_manifests(handle, snapshot)
    wanted = manifests_wanted(
        metas,
        handle.schema.partition_type,
        filters.partition,
        real_buckets_only=filters.real_buckets_only,
        lowest_level=filters.lowest_level,
    ).tolist()
    opened = [m for m, ok in zip(metas, wanted, strict=True) if ok]
    table = read_manifests(handle, opened)
    if len(table):
        ids, removed = file_ids(table), column(table, "kind") == FileKind.DELETE
        sides = [np.bincount(ids[side], minlength=int(ids.max()) + 1) > 0 for side in (removed, ~removed)]
        table = table.filter(boolean_array(~(sides[0] & sides[1])[ids]))
    skipped = [m for m, ok in zip(metas, wanted, strict=True) if not ok]
    report = PlanReport(
        manifests=len(metas),
        manifests_skipped=len(skipped),
        files_in_skipped=sum(m.num_added_files + m.num_deleted_files for m in skipped),
        files=len(table),
        size_bytes=int(column(table, "file_size").sum()),
    )
    return table, report


def added(selection: Selection) -> Bool:
    """For each entry, whether its file was added."""
    return np.asarray(values(selection.entries.column("kind")) != FileKind.DELETE, np.bool_)


def replacing_units(
    handle: TableHandle,
    table: pa.Table,
    filters: Filters,
    schemas: Mapping[int, TableSchema],
    tally: Tally,
) -> tuple[Selection, Units]:
    """Sections of overlapping keys that may hold a wanted row, with the files of both sides."""
    selection = select(handle, table, filters, schemas, tally).in_byte_order()
    if not len(selection):
        return selection, overlapping(groups_of(selection), groups_of(selection), groups_of(selection), REPLACED)
    low, high = key_bounds(handle, selection)
    # Files of a postponed bucket are not sorted by key: they stay together.
    waiting = values(selection.entries.column("bucket")) < 0
    low, high = np.where(waiting, 0, low), np.where(waiting, high.max(), high)
    units = overlapping(groups_of(selection), low, high, REPLACED)
    may_match = files_that_may_match(handle, selection, filters.rest, schemas)
    if may_match is None or handle.options.merge_engine in (MergeEngine.PARTIAL_UPDATE, MergeEngine.AGGREGATION):
        return selection, units
    wanted = units.any_of(may_match)
    sizes = units.totals(values(selection.entries.column("file_size")))
    tally.skip_counts(Reason.STATISTICS, int(units.sizes[~wanted].sum()), int(sizes[~wanted].sum()))
    return selection, units.keep(wanted)


def vectors_around(handle: TableHandle, snapshot: Snapshot) -> tuple[Deletions, Deletions]:
    """Deletion vectors before the commit, and after it.

    Raises:
        SnapshotExpiredError: the snapshot before has expired, and with it the vectors of the files removed.
    """
    after = deletions_of(handle, snapshot)
    if snapshot.id <= 1:
        return Deletions({}), after
    before = find_snapshot(handle, snapshot.id - 1)
    if before is None and handle.options.deletion_vectors:
        raise SnapshotExpiredError(
            f"snapshot {snapshot.id} of {handle.describe()} overwrote files; which of their rows were deleted before, "
            f"snapshot {snapshot.id - 1} knew, and it has expired: {alive_range(handle)}; "
            "begin a new query at a snapshot alive, or leave out streaming-read-overwrite",
            table=handle.name,
            branch=handle.branch,
            snapshot_id=snapshot.id - 1,
        )
    return deletions_of(handle, before), after
