"""Skip manifests, files and buckets that cannot contain a wanted row.

Manifests are tested by their statistics in the manifest list. Only conditions that give the same answer for an ADD
entry and a DELETE entry in another manifest are used there, so that no deletion is missed. Buckets are skipped by
equality conditions on all columns of the bucket key.

Source: Java `operation/AbstractFileStoreScan`, `operation/KeyValueFileStoreScan`, `operation/ManifestsReader`,
`table/source/AbstractBatchTableScan`, `operation/BucketSelector`, `operation/BucketSelectConverter`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.engine.scan.file_stats import FileStats, Partitions, is_padded
from paimon_spark.engine.scan.query import OnlyFiles, PlanReport, Reason, ScanQuery, Tally
from paimon_spark.errors import FormatError, UnsupportedFeatureError
from paimon_spark.format.arrays.arrow_numpy import Bool, array_of, boolean_array, validity, values
from paimon_spark.format.arrays.arrow_types import arrow_schema
from paimon_spark.format.binary_row import decode_column
from paimon_spark.format.bucket_hash import buckets as buckets_of
from paimon_spark.format.metadata_files.data_file import wall_clock_of
from paimon_spark.format.metadata_files.manifest import ManifestFileMeta
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import POSTPONE_BUCKET
from paimon_spark.options.core import BucketFunction, MergeEngine
from paimon_spark.predicate.ast import (
    Column,
    Compare,
    In,
    Literal,
    NullSafeEqual,
    Op,
    Or,
    Predicate,
    conjunction,
    conjuncts,
    names_of,
)
from paimon_spark.predicate.stats import ColumnStatsArrays, may_match
from paimon_spark.redaction import get_logger
from paimon_spark.types import DataField, RowType, TimestampType

_LOG = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Filters:
    """A query split into the parts that can skip partitions, buckets and files.

    Attributes:
        partition: conjuncts over partition columns only.
        keys: conjuncts over columns of the trimmed primary key only.
        rest: everything that partitions alone do not decide.
        bucket: buckets the query can be answered from.
        lowest_level: files of lower levels are not read.
        real_buckets_only: files waiting in a postponed bucket are not read.
        created_since: files made before are not read; as the wall clocks of writers count, which manifests hold.
        only: other files are not read.
    """

    partition: Predicate | None
    keys: Predicate | None = None
    rest: Predicate | None = None
    bucket: BucketFilter | None = None
    lowest_level: int = 0
    real_buckets_only: bool = False
    created_since: int | None = None
    only: OnlyFiles | None = None


def filters_of(handle: TableHandle, query: ScanQuery, *, hide_new_levels: bool = True) -> Filters:
    """The parts of `query` that allow skipping manifests and files.

    With `hide_new_levels`, tables that merge by lookup hide rows that no compaction has seen.
    """
    schema = handle.schema
    partition_keys, keys = frozenset(schema.partition_keys), frozenset(schema.trimmed_primary_keys)
    filled = handle.options.read_defaults.keys()  # what is stored of these columns is not what is read
    parts = [p for p in conjuncts(query.predicate) if not names_of(p) & filled]
    of_partition = [p for p in parts if (names := names_of(p)) and names <= partition_keys]
    rest = [p for p in parts if p not in of_partition]
    of_keys = [p for p in rest if (names := names_of(p)) and names <= keys]
    lowest = lowest_level(handle) if hide_new_levels else 0
    if query.max_level_only and schema.primary_keys:
        lowest = handle.options.num_levels - 1
    return Filters(
        conjunction(of_partition),
        conjunction(of_keys),
        conjunction(rest),
        bucket_filter(handle, conjunction(parts)),
        lowest,
        handle.options.bucket == POSTPONE_BUCKET,
        None if query.created_since_ms is None else wall_clock_of(query.created_since_ms),
        query.only,
    )


def lowest_level(handle: TableHandle) -> int:
    """The lowest level whose rows a batch read sees (Java `CoreOptions.batchScanSkipLevel0`)."""
    options = handle.options
    if not handle.schema.primary_keys:
        return 0
    if options.deletion_vectors:
        return 0 if options.deletion_vectors_merge_on_read else 1
    return 1 if options.merge_engine is MergeEngine.FIRST_ROW else 0


@dataclass(frozen=True, slots=True)
class Selection:
    """The remaining entries, with the columns of `ENTRY_SCHEMA`, and their partitions."""

    entries: pa.RecordBatch
    partitions: Partitions

    def keep(self, mask: Bool) -> Selection:
        """Only the entries where `mask` is True."""
        if bool(mask.all()):
            return self
        return Selection(self.entries.filter(boolean_array(mask)), self.partitions.keep(mask))

    def in_byte_order(self) -> Selection:
        """The same entries, their partitions numbered by their bytes."""
        return Selection(self.entries, self.partitions.in_byte_order())

    def __len__(self) -> int:
        return int(self.entries.num_rows)


def select(
    handle: TableHandle,
    table: pa.Table,
    filters: Filters,
    schemas: Mapping[int, TableSchema],
    tally: Tally,
    *,
    partitions_of_other: frozenset[bytes] = frozenset(),
) -> Selection:
    """Select entries by partition, bucket, level and key range; `tally` counts the others.

    `schemas` are those of all files; `partitions_of_other` are read from another branch.
    """
    entries = one_batch(table)
    partitions = Partitions(handle, entries.column("partition"))
    buckets = values(entries.column("bucket"))
    kept = np.ones(len(buckets), np.bool_)
    sizes = values(entries.column("file_size"))

    def skip(wanted: Bool, reason: Reason) -> None:
        nonlocal kept
        tally.skip(reason, kept & ~wanted, sizes)
        kept &= wanted

    if filters.real_buckets_only:
        skip(buckets >= 0, Reason.POSTPONED)
    if filters.lowest_level > 0:
        skip(values(entries.column("level")) >= filters.lowest_level, Reason.LEVEL)
    if filters.created_since is not None:
        made = entries.column("creation_time_ms")
        # A file of a writer that recorded no time may be of any.
        skip(~validity(made) | (values(made) >= filters.created_since), Reason.CREATED)
    if filters.only is not None:
        skip(filters.only.wanted(entries, partitions), Reason.UNCHANGED)
    if filters.partition is not None:
        skip(partitions.may_match(filters.partition)[partitions.codes], Reason.PARTITION)
    if partitions_of_other:
        mine = np.array([row not in partitions_of_other for row in partitions.row_bytes], np.bool_)
        skip(mine[partitions.codes], Reason.OTHER_BRANCH)
    if filters.bucket is not None:
        totals, schema_ids = values(entries.column("total_buckets")), values(entries.column("schema_id"))
        skip(filters.bucket.wanted(buckets, totals, schema_ids, schemas), Reason.BUCKET)
    selection = Selection(entries, partitions).keep(kept)
    if filters.keys is not None and len(selection):
        stats = FileStats(selection.entries, handle.schema, schemas, selection.partitions)
        # The first and last keys of a file of the postponed bucket, which is not sorted, are no bounds.
        unsorted = values(selection.entries.column("bucket")) < 0
        wanted = unsorted | stats.may_match(filters.keys, keys_only=True)
        selection = _skip(selection, wanted, Reason.KEY_RANGE, tally)
        by_index = files_that_may_match_by_index(handle, selection, filters.keys, schemas)
        if by_index is not None:
            selection = _skip(selection, by_index, Reason.INDEX, tally)
    return selection


def skip_by_statistics(
    handle: TableHandle,
    selection: Selection,
    predicate: Predicate | None,
    schemas: Mapping[int, TableSchema],
    tally: Tally,
) -> Selection:
    """Only the files in which some row may match; for tables whose rows need no merging."""
    if predicate is None or not len(selection):
        return selection
    selection = _skip(selection, files_that_may_match(handle, selection, predicate, schemas), Reason.STATISTICS, tally)
    wanted = files_that_may_match_by_index(handle, selection, predicate, schemas)
    return selection if wanted is None else _skip(selection, wanted, Reason.INDEX, tally)


def files_that_may_match(
    handle: TableHandle, selection: Selection, predicate: Predicate, schemas: Mapping[int, TableSchema]
) -> Bool:
    """For each file, whether some row may match by its statistics."""
    return FileStats(selection.entries, handle.schema, schemas, selection.partitions).may_match(predicate)


def files_that_may_match_by_index(
    handle: TableHandle, selection: Selection, predicate: Predicate, schemas: Mapping[int, TableSchema]
) -> Bool | None:
    """For each file, whether some row may match by the indexes in its manifest entry; None if no entry has any.

    Indexes in files beside the data files are read by the readers of these.
    """
    entries = selection.entries
    embedded = entries.column("embedded_index")
    if not handle.options.reads_file_indexes or embedded.null_count == len(embedded):
        return None
    from paimon_spark.format.file_index.indexes import FileIndexes  # most tables have no indexes
    from paimon_spark.predicate.stats import indexed_columns, rows_that_may_match

    tested = [f for f in handle.schema.fields if f.name in names_of(predicate)]
    columns = {i: indexed_columns(tested, schema.fields) for i, schema in schemas.items()}
    wanted = np.ones(len(embedded), np.bool_)
    schema_ids, row_counts = values(entries.column("schema_id")), values(entries.column("row_count"))
    for i in np.flatnonzero(validity(embedded)).tolist():
        try:
            indexes = FileIndexes.of_bytes(embedded[i].as_py(), int(row_counts[i]))
            rows = rows_that_may_match(predicate, indexes, columns[int(schema_ids[i])])
        except FormatError as e:
            _LOG.warning("the index of %s is not used: %s", entries.column("file_name")[i].as_py(), e.message)
            continue
        wanted[i] = rows is None or bool(rows.any())
    return wanted


def _skip(selection: Selection, wanted: Bool, reason: Reason, tally: Tally) -> Selection:
    tally.skip(reason, ~wanted, values(selection.entries.column("file_size")))
    return selection.keep(wanted)


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """The table as one batch; copies only when it is in several chunks."""
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def manifests_wanted(handle: TableHandle, metas: Sequence[ManifestFileMeta], filters: Filters) -> Bool:
    """For each manifest, False if `filters` exclude all of its files."""
    wanted = np.ones(len(metas), np.bool_)
    if filters.real_buckets_only:
        wanted &= np.array([m.max_bucket is None or m.max_bucket >= 0 for m in metas], np.bool_)
    if filters.lowest_level > 0:
        wanted &= np.array([m.max_level is None or m.max_level >= filters.lowest_level for m in metas], np.bool_)
    if filters.partition is not None and len(metas):
        entries = np.array([m.num_added_files + m.num_deleted_files for m in metas], np.int64)
        stats = _partition_stats(metas, handle.schema.partition_type)
        wanted &= may_match(filters.partition, entries, stats) | (entries <= 0)
    return wanted


def report_of(
    metas: Sequence[ManifestFileMeta], skipped: Sequence[ManifestFileMeta], files_in_skipped: int, table: pa.Table
) -> PlanReport:
    """The first half of a report: the manifests, and the files of those opened."""
    size_bytes = pc.sum(table.column("file_size")).as_py() or 0
    return PlanReport(len(metas), len(skipped), files_in_skipped, len(table), size_bytes)


def _partition_stats(
    metas: Sequence[ManifestFileMeta], partition_type: RowType
) -> Callable[[str], ColumnStatsArrays | None]:
    low = array_of([m.partition_stats.min_values for m in metas], pa.binary())
    high = array_of([m.partition_stats.max_values for m in metas], pa.binary())
    nulls = [m.partition_stats.null_counts for m in metas]
    names = partition_type.names

    def stats_of(name: str) -> ColumnStatsArrays | None:
        i = names.index(name)
        dtype = partition_type.fields[i].type
        return ColumnStatsArrays(
            decode_column(low, i, dtype, exact=False),
            decode_column(high, i, dtype, exact=False),
            np.array([c[i] if c is not None and i < len(c) and c[i] is not None else -1 for c in nulls], np.int64),
        )

    return stats_of


_MOST_KEYS: Final = 1000


@dataclass(frozen=True, slots=True, eq=False)
class BucketFilter:
    """The buckets that can contain rows with given values of the bucket key."""

    function: BucketFunction
    keys: pa.RecordBatch
    fields: tuple[DataField, ...]

    def wanted(
        self,
        buckets: npt.NDArray[np.int32],
        totals: npt.NDArray[np.int32],
        schema_ids: npt.NDArray[np.int64],
        schemas: Mapping[int, TableSchema],
    ) -> Bool:
        """For each entry, False when its bucket cannot hold such a row.

        Entries without a fixed number of buckets stay, and ones written when the bucket key had another type.
        """
        wanted = np.ones(len(buckets), np.bool_)
        for total in np.unique(totals).tolist():
            if total > 0:
                possible = buckets_of(self.keys, total, self.function)
                wanted &= (totals != total) | (buckets < 0) | np.isin(buckets, possible)
        for schema_id in np.unique(schema_ids).tolist():
            if not self._hashes_alike(schemas[schema_id]):
                wanted |= schema_ids == schema_id
        return wanted

    def _hashes_alike(self, schema: TableSchema) -> bool:
        stored = [schema.row_type.find_by_id(field.id) for field in self.fields]
        return all(
            old is not None and old.type.with_nullable(True) == field.type.with_nullable(True)
            for old, field in zip(stored, self.fields, strict=True)
        )


def bucket_filter(handle: TableHandle, predicate: Predicate | None) -> BucketFilter | None:
    """The filter that `predicate` implies; None unless it fixes every column of the bucket key."""
    schema = handle.schema
    if predicate is None or handle.options.bucket == -1 or not schema.bucket_keys:
        return None
    key_type = schema.row_type.project(schema.bucket_keys)
    choices = [values for field in key_type if (values := _choices(predicate, field)) is not None]
    if len(choices) < len(key_type.fields) or math.prod(map(len, choices)) > _MOST_KEYS:
        return None
    rows = list(itertools.product(*choices))
    key_schema = pa.schema([f.with_nullable(True) for f in arrow_schema(key_type)])
    columns = [array_of([row[i] for row in rows], f.type) for i, f in enumerate(key_schema)]
    keys = pa.RecordBatch.from_arrays(columns, schema=key_schema)
    try:
        buckets_of(keys, 1, handle.options.bucket_function)
    except UnsupportedFeatureError:
        return None  # only writers need to know where such a key goes
    return BucketFilter(handle.options.bucket_function, keys, key_type.fields)


def _choices(predicate: Predicate, field: DataField) -> list[Literal] | None:
    """Every value of the column with which `predicate` may be true; None when they cannot be listed."""
    if isinstance(field.type, TimestampType) and field.type.precision > 6:
        return None  # a literal stands for a thousand stored values
    if is_padded(field.type):
        return None  # whether the hashed value was padded is not known
    found: list[Literal] | None = None
    for part in conjuncts(predicate):
        values_of_part = _equal_values(part, field.name)
        if values_of_part is not None:
            known = set(values_of_part)
            found = values_of_part if found is None else [v for v in found if v in known]
    return None if found is None else _stored_forms(found)


def _equal_values(part: Predicate, name: str) -> list[Literal] | None:
    match part:
        case Compare(Op.EQ, Column(path=(column,)), literal) if column == name:
            return [literal]
        case NullSafeEqual(Column(path=(column,)), literal) if column == name and literal is not None:
            return [literal]
        case In(Column(path=(column,)), literals) if column == name:
            return list(literals)
        case Or(children):
            out: list[Literal] = []
            for child in children:
                inner = _equal_values(child, name)
                if inner is None:
                    return None
                out += inner
            return out
    return None


def _stored_forms(literals: list[Literal]) -> list[Literal] | None:
    """The values whose bytes may be stored for equal literals: both zeros; NaN has too many forms."""
    if any(isinstance(v, float) and math.isnan(v) for v in literals):
        return None
    if any(isinstance(v, float) and v == 0 for v in literals):
        return [v for v in literals if v != 0] + [0.0, -0.0]
    return literals
