"""Plan one snapshot of one branch.

A read can merge the rows of postponed buckets: each bucket of a partition with waiting rows then becomes one split with
all waiting files. Their rows have no bucket yet, so each of these splits reads all of them and keeps those of its
bucket. Splits of other partitions stay as they are.

Source: Java `table/source/snapshot/SnapshotReaderImpl`, `operation/ManifestsReader`,
`table/source/PostponeMergeReadBuilder`, `table/PostponeUtils`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, compress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.engine.scan.prune import (
    BucketFilter,
    Filters,
    Selection,
    files_that_may_match,
    files_that_may_match_by_index,
    filters_of,
    manifests_wanted,
    report_of,
    select,
    skip_by_statistics,
)
from paimon_spark.engine.scan.query import PlanReport, Reason, ScanQuery, Tally
from paimon_spark.engine.scan.splits import deletions_of, make_splits, totals_of
from paimon_spark.engine.scan.units import EVOLVED, RAW, Units, append_units, key_units, row_id_units
from paimon_spark.engine.tasks import (
    FILE_PATH,
    ROW_INDEX,
    DataSplit,
    DeletionFile,
    ReadRequest,
    SplitMode,
    output_type,
)
from paimon_spark.errors import CorruptFileError, DataError, FormatError, UnsupportedFeatureError
from paimon_spark.format.arrays.arrow_numpy import Bool, values
from paimon_spark.format.metadata_files.manifest import ManifestFileMeta
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import POSTPONE_BUCKET
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests
from paimon_spark.metadata.partition_path import PartitionDirectories
from paimon_spark.metadata.schemas import schemas_by_id
from paimon_spark.options.core import MergeEngine
from paimon_spark.predicate.ast import names_of
from paimon_spark.types import RowType


@dataclass(frozen=True, slots=True)
class BranchPlan:
    """The part of a plan that comes from one branch.

    Attributes:
        partitions: BinaryRow bytes of the partitions that exist, whatever of them is wanted.
    """

    splits: Sequence[DataSplit]
    request: ReadRequest
    report: PlanReport
    partitions: frozenset[bytes] = frozenset()


def plan_branch(
    handle: TableHandle,
    snapshot: Snapshot | None,
    query: ScanQuery,
    *,
    partitions_of_other: frozenset[bytes] = frozenset(),
) -> BranchPlan:
    """The splits that answer `query` from one snapshot. Raises as `plan.plan_batch`."""
    check_query(handle, query)
    merges = merges_postponed(handle) and not query.max_level_only
    if merges and query.created_since_ms is not None:
        raise unmerged(handle, "a read of files by their creation time")
    if snapshot is None:
        return BranchPlan((), read_request(handle, query, {}), PlanReport())
    with named_in_errors(handle, snapshot):
        filters = filters_of(handle, query)
        if merges:
            filters = replace(filters, real_buckets_only=False, lowest_level=0)
        skips = filters.keys is not None or filters.rest is not None
        table, report = read_entries(handle, data_manifests(handle, snapshot), filters, statistics=skips)
        schemas, tally = schemas_of(handle, table), Tally()
        selection = select(handle, table, filters, schemas, tally, partitions_of_other=partitions_of_other)
        del table
        if merges and (values(selection.entries.column("bucket")) < 0).any():
            filters = replace(filters, rest=None)  # a row that does not match may hide one that does
        codes = np.unique(selection.partitions.codes).tolist()
        partitions = frozenset(selection.partitions.row_bytes[c] for c in codes)
        selection, units = state_units(handle, selection, filters, schemas, tally)
        splits = make_splits(handle, selection, units, deletions_of(handle, snapshot), snapshot.id)
        if merges:
            splits = with_postponed_rows(handle, splits, filters.bucket)
        splits = _within_limit(splits, query, tally, keys=bool(handle.schema.primary_keys))
        return branch_plan(handle, query, splits, schemas, tally.added_to(report), partitions)


def branch_plan(
    handle: TableHandle,
    query: ScanQuery,
    splits: Sequence[DataSplit],
    schemas: Mapping[int, TableSchema],
    report: PlanReport,
    partitions: frozenset[bytes] = frozenset(),
) -> BranchPlan:
    """The plan of these splits. Raises as `check_metadata_columns`."""
    check_metadata_columns(handle, query, splits)
    request = read_request(handle, query, {i: schemas[i] for i in totals_of(splits).schema_ids})
    return BranchPlan(splits, request, report, partitions)


@contextmanager
def named_in_errors(handle: TableHandle, snapshot: Snapshot) -> Iterator[None]:
    """Name the table in errors about manifest entries that cannot be decoded."""
    try:
        yield
    except CorruptFileError:
        raise
    except FormatError as e:
        path = handle.layout.manifest_path(snapshot.delta_manifest_list)
        raise CorruptFileError(
            f"a manifest of snapshot {snapshot.id} of {handle.describe()} holds a damaged row: {e.message}; "
            f"its manifests are named by {handle.store.url(path)} and by its base manifest list",
            path=path,
            snapshot_id=snapshot.id,
        ) from e


def output_of(handle: TableHandle, query: ScanQuery) -> RowType:
    """The columns that a read returns. Raises ColumnNotFoundError."""
    return output_type(
        handle.schema,
        query.columns,
        table=handle.describe(),
        tracks_rows=handle.options.row_tracking,
        row_kind=query.with_row_kind,
    )


def check_query(handle: TableHandle, query: ScanQuery, *, changes: bool = False) -> None:
    """Refuse what this table, or its changes, cannot be asked for.

    Raises:
        UnsupportedFeatureError, ColumnNotFoundError
    """
    if changes and merges_postponed(handle):
        raise unmerged(handle, "a stream or an incremental read")
    known = frozenset(handle.schema.row_type.names)
    named = {f.name for f in output_of(handle, query)} | names_of(query.predicate)
    handle.check_readable(sorted(named & known))


def read_entries(
    handle: TableHandle, metas: Sequence[ManifestFileMeta], filters: Filters, *, statistics: bool = True
) -> tuple[pa.Table, PlanReport]:
    """Live entries of the manifests that may hold wanted files, and the first half of the report.

    `statistics` as in `live_entries`.
    """
    wanted = manifests_wanted(handle, metas, filters)
    table = live_entries(handle, list(compress(metas, wanted)), statistics=statistics)
    skipped = list(compress(metas, ~wanted))
    alive = sum(m.num_added_files - m.num_deleted_files for m in skipped)
    return table, report_of(metas, skipped, alive, table)


def schemas_of(handle: TableHandle, table: pa.Table) -> dict[int, TableSchema]:
    """The schemas of all entries' files. Raises CorruptFileError: one does not exist."""
    return schemas_by_id(handle, pc.unique(table.column("schema_id")).to_pylist())


def read_request(handle: TableHandle, query: ScanQuery, schemas: Mapping[int, TableSchema]) -> ReadRequest:
    """Settings that readers of the branch's splits need."""
    names = output_of(handle, query).names
    return ReadRequest(
        store=handle.store,
        table_name=handle.name,
        branch=handle.branch,
        schema=handle.schema,
        file_schemas=schemas,
        options=handle.options,
        columns=names[1:] if query.with_row_kind else names,
        predicate=query.predicate,
        with_row_kind=query.with_row_kind,
        batch_rows=query.batch_rows,
        threads=query.threads,
    )


def check_metadata_columns(handle: TableHandle, query: ScanQuery, splits: Sequence[DataSplit]) -> None:
    """Refuse the columns on a row's place if rows are merged from several files. Raises UnsupportedFeatureError."""
    asked = [c for c in query.columns or () if c in (FILE_PATH, ROW_INDEX)]
    if asked and totals_of(splits).modes.keys() - {SplitMode.RAW, SplitMode.EVOLVED}:
        raise UnsupportedFeatureError(
            f"{asked[0]} of {handle.describe()}: rows that are merged from several files have no single file and "
            "position; compact the table fully, or leave the column out",
            feature=asked[0],
            table=handle.name,
        )


def state_units(
    handle: TableHandle,
    selection: Selection,
    filters: Filters,
    schemas: Mapping[int, TableSchema],
    tally: Tally,
) -> tuple[Selection, Units]:
    """Units of a snapshot's state that may hold a wanted row."""
    if not handle.schema.primary_keys and not handle.options.data_evolution:
        selection = skip_by_statistics(handle, selection, filters.rest, schemas, tally)
        return selection, append_units(selection)
    units = key_units(handle, selection) if handle.schema.primary_keys else row_id_units(selection)
    if filters.rest is None or not len(selection):
        return selection, units
    for reason, may_match in (
        (Reason.STATISTICS, files_that_may_match(handle, selection, filters.rest, schemas)),
        (Reason.INDEX, files_that_may_match_by_index(handle, selection, filters.rest, schemas)),
    ):
        if may_match is None:
            continue
        wanted = units.any_of(may_match)
        if handle.options.data_evolution:
            # Files of one range each hold some columns: a row may match where the statistics of one file do not.
            wanted |= (units.modes == EVOLVED) & (units.sizes > 1)
        elif handle.options.merge_engine in (MergeEngine.PARTIAL_UPDATE, MergeEngine.AGGREGATION):
            # A merged row may match where none of the rows it is made of does.
            wanted |= units.modes != RAW
        units = keep_units(selection, units, wanted, reason, tally)
    return selection, units


def keep_units(selection: Selection, units: Units, wanted: Bool, reason: Reason, tally: Tally) -> Units:
    """Only the units where `wanted` is True; `tally` counts the others."""
    sizes = units.totals(values(selection.entries.column("file_size")))
    tally.skip_counts(reason, int(units.sizes[~wanted].sum()), int(sizes[~wanted].sum()))
    return units.keep(wanted)


def _within_limit(splits: Sequence[DataSplit], query: ScanQuery, tally: Tally, *, keys: bool) -> Sequence[DataSplit]:
    """The first splits that contain at least `query.limit` rows; all if that is unknown."""
    if query.limit is None or query.predicate is not None:
        return splits
    rows = 0
    for i, split in enumerate(splits):
        rows += certain_rows(split, keys=keys) or 0
        if rows >= query.limit:
            kept = splits[: i + 1]
            every, some = totals_of(splits), totals_of(kept)
            tally.skip_counts(Reason.LIMIT, every.files - some.files, every.size_bytes - some.size_bytes)
            return kept
    return splits


def certain_rows(split: DataSplit, *, keys: bool) -> int | None:
    """The number of rows that a split returns; None if it is unknown, as the split may contain deletes."""
    if split.mode is not SplitMode.RAW or (keys and not all(f.has_no_retracts for f in split.files)):
        return None
    count = split.row_count
    for deletion in split.deletions:
        if deletion is not None:
            if deletion.cardinality is None:
                return None
            count -= deletion.cardinality
    return count


_OPTION = "postpone.merge-on-read"


def merges_postponed(handle: TableHandle) -> bool:
    """Whether batch reads of the table merge the rows of its postponed bucket."""
    options = handle.options
    return (
        bool(handle.schema.primary_keys)
        and options.bucket == POSTPONE_BUCKET
        and options.postponed_bucket.merge_on_read
    )


def unmerged(handle: TableHandle, what: str) -> UnsupportedFeatureError:
    """The error for a read that cannot merge waiting rows; Java refuses it too."""
    return UnsupportedFeatureError(
        f"{handle.describe()} has {_OPTION} = true, with which {what} is not possible: only batch reads of one version "
        f"merge the rows that wait in bucket-postpone; set the option {_OPTION} to false to read without them",
        feature=_OPTION,
        table=handle.name,
    )


def with_postponed_rows(
    handle: TableHandle, splits: Sequence[DataSplit], wanted: BucketFilter | None
) -> Sequence[DataSplit]:
    """The splits with those of postponed buckets divided among the buckets of their partitions.

    A partition without files in buckets is divided as a compaction would; where such files were skipped they hold no
    wanted key, and any division is right.

    Raises:
        DataError: the files of a partition were written for different numbers of buckets.
    """
    waiting: dict[bytes, list[DataSplit]] = {}
    for split in splits:
        if split.bucket == POSTPONE_BUCKET:
            waiting.setdefault(split.partition, []).append(split)
    if not waiting:
        return splits
    out = [s for s in splits if s.partition not in waiting]
    directories = PartitionDirectories(handle)
    for partition, late in waiting.items():
        placed: dict[int, list[DataSplit]] = {}
        for split in splits:
            if split.partition == partition and split.bucket != POSTPONE_BUCKET:
                placed.setdefault(split.bucket, []).append(split)
        total = _bucket_count(handle, late, placed)
        for bucket in _buckets(handle, total, wanted):
            path = directories.bucket_path(partition, bucket)
            out.append(_merged(late, placed.get(bucket, []), bucket, path, total))
    return tuple(out)


def _bucket_count(handle: TableHandle, late: Iterable[DataSplit], placed: dict[int, list[DataSplit]]) -> int:
    found = {s.total_buckets for s in chain.from_iterable(placed.values())}
    if not found:
        rows = sum(s.row_count for s in late)
        return handle.options.postponed_bucket.buckets_of_new_partition(rows)
    if len(found) > 1 or min(found) <= max(placed):
        example = next(chain.from_iterable(placed.values())).bucket_path
        raise DataError(
            f"{handle.describe()} has files for {' and for '.join(map(str, sorted(found)))} buckets in one partition "
            f"(see {example}), so the bucket of a waiting row is not known; compact the table, or set the option "
            f"{_OPTION} to false",
            table=handle.name,
        )
    return found.pop()


def _buckets(handle: TableHandle, total: int, wanted: BucketFilter | None) -> list[int]:
    """The buckets that may hold a wanted key."""
    numbers = np.arange(total, dtype=np.int32)
    if wanted is not None:
        schema = handle.schema
        totals, ids = np.full(total, total, np.int32), np.full(total, schema.id, np.int64)
        numbers = numbers[wanted.wanted(numbers, totals, ids, {schema.id: schema})]
    return numbers.tolist()


def _merged(late: Sequence[DataSplit], placed: Sequence[DataSplit], bucket: int, path: str, total: int) -> DataSplit:
    """One split of a bucket: its files, and the waiting ones in the order in which they were made."""
    files = sorted(chain.from_iterable(s.files for s in late), key=lambda f: f.creation_time_ms or 0)
    before = tuple(chain.from_iterable(s.files for s in placed))
    vectors: tuple[DeletionFile | None, ...] = tuple(s.deletion_of(i) for s in placed for i in range(len(s.files)))
    elsewhere = {f.file_name: s.path_of(f).rpartition("/")[0] for s in late for f in s.files}
    elsewhere.update(chain.from_iterable(s.elsewhere for s in placed))
    return replace(
        late[0],
        bucket=bucket,
        bucket_path=path,
        mode=SplitMode.POSTPONED,
        files=tuple(files),
        before_files=before,
        before_deletions=vectors if any(v is not None for v in vectors) else (),
        total_buckets=total,
        elsewhere=tuple(elsewhere.items()),
    )
