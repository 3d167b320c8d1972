"""What an OVERWRITE of a primary-key table changed: rows of the files it removed go, rows of those it added come.

Deletion vectors count here, of the snapshot before for the files removed; Java passes over them in streams and
gives rows as deleted that were gone already.

Source: Java `table/source/snapshot/SnapshotReaderImpl.readChanges`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from paimon_spark.engine.scan.changes import column
from paimon_spark.engine.scan.deletions import Deletions, deletions_of
from paimon_spark.engine.scan.manifest_prune import manifests_wanted
from paimon_spark.engine.scan.prune import Filters, Selection, files_that_may_match, select
from paimon_spark.engine.scan.report import PlanReport, Reason, Tally
from paimon_spark.engine.scan.units import REPLACED, Units, groups_of, key_bounds, overlapping
from paimon_spark.errors import SnapshotExpiredError
from paimon_spark.format.arrays.arrow_numpy import Bool, boolean_array, values
from paimon_spark.format.metadata_files.manifest import FileKind
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.live_files import delta_entries, file_ids
from paimon_spark.metadata.manifests import delta_manifests
from paimon_spark.metadata.snapshots import alive_range, find_snapshot
from paimon_spark.options.core import MergeEngine


def replaced_files(handle: TableHandle, snapshot: Snapshot, filters: Filters) -> tuple[pa.Table, PlanReport]:
    """Entries of the files that the commit removed, kind DELETE, and added; not of those it did both to.

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
    table = delta_entries(handle, opened)
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
    """For each entry, whether it is of a file that came."""
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
