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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress, groupby
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_spark.engine.scan.incremental import Content as Content
from paimon_spark.engine.scan.incremental import added_files, change_units, column
from paimon_spark.engine.scan.one_branch import (
    BranchPlan,
    check_metadata_columns,
    check_query,
    keep_units,
    named_in_errors,
    read_entries,
    read_request,
    schemas_of,
    state_units,
)
from paimon_spark.engine.scan.prune import (
    Filters,
    Selection,
    files_that_may_match,
    filters_of,
    manifests_wanted,
    report_of,
    select,
)
from paimon_spark.engine.scan.query import PlanReport, Reason, ScanQuery, Tally
from paimon_spark.engine.scan.splits import Deletions, EarlierState, deletions_of, make_splits
from paimon_spark.engine.scan.units import REPLACED, Longs, Units, groups_of, key_bounds, overlapping, reordered
from paimon_spark.engine.tasks import DataSplit, ReadRequest, SplitMode
from paimon_spark.errors import FormatError, SnapshotExpiredError
from paimon_spark.format.arrays.arrow_numpy import boolean_array, byte_slices, take_indices, values
from paimon_spark.format.metadata_files.manifest import FileKind
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import POSTPONE_BUCKET
from paimon_spark.metadata.live_files import file_ids
from paimon_spark.metadata.manifests import data_manifests, delta_manifests, read_manifests
from paimon_spark.metadata.snapshots import alive_range, find_snapshot
from paimon_spark.options.core import ChangelogProducer, MergeEngine

_DIGEST_BYTES: Final = 8
_WHOLE_PARTITION: Final = -1
"""In the place of a bucket: all of them."""


@dataclass(frozen=True, slots=True, eq=False)
class SnapshotUnits:
    """The units that a stream reads of one snapshot.

    Attributes:
        files, size_bytes, row_counts: of each unit, in order; rows are physical ones.
        digest: short, of the units' order and files.
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
    _deletions: Deletions
    _before: EarlierState | None

    def __len__(self) -> int:
        return len(self.files)

    def splits(self, start: int, end: int) -> tuple[DataSplit, ...]:
        """Splits that hold exactly the units from `start` up to `end`, in their order.

        Raises UnsupportedFeatureError: a column of the query that these rows do not have; CorruptFileError.
        """
        units = self._units.slice(start, end)
        with named_in_errors(self._handle, self.snapshot):
            splits = make_splits(self._handle, self._selection, units, self._deletions, self.snapshot.id, self._before)
        check_metadata_columns(self._handle, self._query, splits)
        return tuple(splits)


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


def plan_units(handle: TableHandle, snapshot: Snapshot, content: Content, query: ScanQuery) -> SnapshotUnits:
    """The units of one snapshot. Driver only; safe to repeat. `query.limit` is ignored.

    OVERWRITE is only for tables with primary keys.

    Raises:
        ColumnNotFoundError: a column of the query does not exist.
        UnsupportedFeatureError: the table or a column would be misread.
        InvalidInputError: DELTA of an APPEND that removed files.
        FileMissingError: metadata is gone; the snapshot may have expired meanwhile.
        SnapshotExpiredError: the snapshot before is needed, and has expired.
        CorruptFileError: metadata cannot be decoded.
    """
    check_query(handle, query, changes=True)
    filters = stream_filters(handle, query, content)
    with named_in_errors(handle, snapshot):
        return _units(handle, [(snapshot, content)], query, filters)


def plan_whole(handle: TableHandle, wanted: Sequence[tuple[Snapshot, Content]], query: ScanQuery) -> BranchPlan:
    """All units of many snapshots, in the order given. Raises as `plan_units`.

    Neighbouring DELTA and CHANGELOG contents are planned together, with as many calls to the store for a thousand
    snapshots as for one, where it fetches many files at a time.
    """
    check_query(handle, query, changes=True)
    splits: list[DataSplit] = []
    schemas: dict[int, TableSchema] = {}
    report = PlanReport()
    for together, run in groupby(wanted, lambda w: w[1] in (Content.DELTA, Content.CHANGELOG)):
        for some in [list(run)] if together else [[w] for w in run]:
            units, more = _whole(handle, some, query)
            splits += more
            schemas |= units.request.file_schemas
            report += units.report
    request = read_request(handle, query, schemas)
    begins = bool(wanted) and all(content is Content.STATE for _, content in wanted)
    return BranchPlan(tuple(splits), replace(request, as_inserts=begins), report)


def _whole(
    handle: TableHandle, wanted: Sequence[tuple[Snapshot, Content]], query: ScanQuery
) -> tuple[SnapshotUnits, tuple[DataSplit, ...]]:
    if len(wanted) == 1:
        units = plan_units(handle, *wanted[0], query)
        return units, units.splits(0, len(units))
    try:
        units = _units(handle, wanted, query, stream_filters(handle, query, wanted[0][1]))
        return units, units.splits(0, len(units))
    except FormatError:
        for one in wanted:
            _whole(handle, [one], query)  # names the one whose metadata is damaged
        raise


def stream_filters(handle: TableHandle, query: ScanQuery, content: Content) -> Filters:
    """Filters of a stream. Unlike those of a batch read they keep level 0, unless a changelog covers it later.

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


def _units(
    handle: TableHandle, wanted: Sequence[tuple[Snapshot, Content]], query: ScanQuery, filters: Filters
) -> SnapshotUnits:
    """The units of one snapshot, or the changes of neighbouring ones, reported for the last."""
    (snapshot, content), tally = wanted[-1], Tally()
    deletions, before = Deletions(), None
    if content is Content.STATE:
        table, report = read_entries(handle, data_manifests(handle, snapshot), filters)
        schemas = schemas_of(handle, table)
        selection = select(handle, table, filters, schemas, tally).in_byte_order()
        selection, units = state_units(handle, selection, filters, schemas, tally)
        deletions = deletions_of(handle, snapshot)
    elif content is Content.OVERWRITE:
        table, report = _replaced_files(handle, snapshot, filters)
        schemas = schemas_of(handle, table)
        selection, units = _replacing_units(handle, table, filters, schemas, tally)
        if len(units):
            deletions = deletions_of(handle, snapshot)
            removed = values(selection.entries.column("kind")) == FileKind.DELETE
            before = EarlierState(removed, _vectors_before(handle, snapshot))
    else:
        table, report = added_files(handle, wanted, filters)
        schemas = schemas_of(handle, table)
        selection, units = change_units(handle, table, filters, schemas, tally, of_stream=[s for s, _ in wanted])
    units = reordered(units)
    used = np.unique(column(selection.entries, "schema_id")[units.files]).tolist()
    request = read_request(handle, query, {i: schemas[i] for i in used})
    return SnapshotUnits(
        snapshot=snapshot,
        content=content,
        files=units.sizes,
        size_bytes=units.totals(column(selection.entries, "file_size")),
        row_counts=units.totals(column(selection.entries, "row_count")),
        digest=_digest(selection, units),
        request=replace(request, as_inserts=content is Content.STATE),
        report=tally.added_to(report),
        _handle=handle,
        _query=query,
        _selection=selection,
        _units=units,
        _deletions=deletions,
        _before=before,
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


def _replaced_files(handle: TableHandle, snapshot: Snapshot, filters: Filters) -> tuple[pa.Table, PlanReport]:
    """Entries of the files that the commit removed (DELETE) or added, but not both."""
    metas = delta_manifests(handle, snapshot)
    wanted = manifests_wanted(handle, metas, filters)
    table = read_manifests(handle, list(compress(metas, wanted)))
    if len(table):
        ids, removed = file_ids(table), column(table, "kind") == FileKind.DELETE
        sides = [np.bincount(ids[side], minlength=int(ids.max()) + 1) > 0 for side in (removed, ~removed)]
        table = table.filter(boolean_array(~(sides[0] & sides[1])[ids]))
    skipped = list(compress(metas, ~wanted))
    files = sum(m.num_added_files + m.num_deleted_files for m in skipped)
    return table, report_of(metas, skipped, files, table)


def _replacing_units(
    handle: TableHandle, table: pa.Table, filters: Filters, schemas: Mapping[int, TableSchema], tally: Tally
) -> tuple[Selection, Units]:
    """Sections of overlapping keys that may hold a wanted row, with the files of both sides."""
    selection = select(handle, table, filters, schemas, tally).in_byte_order()
    groups = groups_of(selection)
    if not len(selection):
        return selection, overlapping(groups, groups, groups, REPLACED)
    low, high = key_bounds(handle, selection)
    # Files of a postponed bucket are not sorted by key: they stay together.
    waiting = values(selection.entries.column("bucket")) < 0
    low, high = np.where(waiting, 0, low), np.where(waiting, high.max(), high)
    units = overlapping(groups, low, high, REPLACED)
    merges_values = handle.options.merge_engine in (MergeEngine.PARTIAL_UPDATE, MergeEngine.AGGREGATION)
    if filters.rest is None or merges_values:
        return selection, units
    may_match = files_that_may_match(handle, selection, filters.rest, schemas)
    return selection, keep_units(selection, units, units.any_of(may_match), Reason.STATISTICS, tally)


def _vectors_before(handle: TableHandle, snapshot: Snapshot) -> Deletions:
    """Deletion vectors before the commit. Raises SnapshotExpiredError: they have expired."""
    if snapshot.id <= 1:
        return Deletions()
    before = find_snapshot(handle, snapshot.id - 1)
    if before is None and handle.options.deletion_vectors:
        raise SnapshotExpiredError(
            f"snapshot {snapshot.id} of {handle.describe()} overwrote files, but snapshot {snapshot.id - 1} with the "
            f"deletion vectors of those files has expired: {alive_range(handle)}; "
            "begin a new query at a snapshot alive, or leave out streaming-read-overwrite",
            table=handle.name,
            branch=handle.branch,
            snapshot_id=snapshot.id - 1,
        )
    return deletions_of(handle, before)
