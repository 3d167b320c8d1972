"""Sums over partitions and buckets: $partitions, $buckets.

Source: Java `table/system/PartitionsTable`, `BucketsTable` of Paimon 2.0, `manifest/PartitionEntry`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.engine.scan.fallback import in_order, other_branch
from paimon_spark.engine.scan.file_stats import Partitions
from paimon_spark.engine.scan.prune import one_batch
from paimon_spark.format.arrays.arrow_numpy import array_of, boolean_array, fixed_array, take_indices, values
from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.format.metadata_files.index_manifest import DELETION_VECTORS
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.live_files import NEVER, EntryTotals, entry_totals
from paimon_spark.metadata.manifests import data_manifests, read_index_manifest, read_manifests
from paimon_spark.system_tables.files import partition_texts, without_postponed
from paimon_spark.system_tables.java_text import concatenated, sql_text, text
from paimon_spark.system_tables.listing import TIMESTAMP, Asked, Listing, Thunk, batch_of, columns, required
from paimon_spark.types import BIGINT, BOOLEAN, INT, STRING

_I64 = npt.NDArray[np.int64]
_PARTITIONS: Final = columns(
    ("partition", STRING),
    ("record_count", required(BIGINT)),
    ("file_size_in_bytes", required(BIGINT)),
    ("file_count", required(BIGINT)),
    ("last_update_time", TIMESTAMP),
    ("created_at", TIMESTAMP),
    ("created_by", STRING),
    ("updated_by", STRING),
    ("options", STRING),
    ("total_buckets", required(INT)),
    ("done", required(BOOLEAN)),
    ("deleted_record_count", BIGINT),
)
_BUCKETS: Final = columns(
    ("partition", STRING),
    ("bucket", required(INT)),
    ("record_count", required(BIGINT)),
    ("file_size_in_bytes", required(BIGINT)),
    ("file_count", required(BIGINT)),
    ("last_update_time", TIMESTAMP),
)


def _read_partitions(asked: Asked) -> Iterator[pa.RecordBatch]:
    pieces = list(_pieces(asked))
    if not pieces:
        return
    entries = one_batch(pa.Table.from_batches([entries for _, _, entries in pieces]))
    partitions = Partitions(asked.handle, entries.column("partition"))
    sums = entry_totals(pa.Table.from_batches([entries]), partitions.codes.astype(np.int64), len(partitions.rows))
    names = _partition_names(asked.handle, partitions)
    order = _shown_order(sums, names)
    count, take = len(order), take_indices(order)
    made = _sum_columns(sums, order)
    made["partition"] = lambda: names.take(take)
    for name in ("created_at", "created_by", "updated_by", "options"):  # a catalog's, which no file holds
        made[name] = partial(pa.nulls, count, arrow_type(_PARTITIONS.field(name).type))
    made["total_buckets"] = lambda: fixed_array(sums.total_buckets[order], pa.int64()).cast(pa.int32())
    made["done"] = lambda: boolean_array(np.zeros(count, np.bool_))
    made["deleted_record_count"] = lambda: _deleted_counts(
        [(h, s) for h, s, _ in pieces], [partitions.row_bytes[i] for i in order.tolist()]
    )
    yield batch_of(_PARTITIONS, asked, count, made)


def _pieces(asked: Asked) -> Iterator[tuple[TableHandle, Snapshot, pa.RecordBatch]]:
    """The branch and its entries, and a fallback branch with the entries of partitions that are read from it."""
    sources: tuple[tuple[TableHandle, Snapshot | None], ...] = ((asked.handle, asked.snapshot),)
    other = other_branch(asked.handle)
    if other is not None:
        sources = in_order(asked.handle, asked.snapshot, other, travelled=asked.travelled)
    taken: Any = None
    for handle, snapshot in sources:
        if snapshot is None:
            continue
        # A partition with rows only in a postponed bucket has no readable rows yet.
        entries = without_postponed(handle, _entries(handle, snapshot))
        if taken is not None:
            entries = entries.filter(pc.invert(pc.is_in(entries.column("partition"), value_set=taken)))
        taken = entries.column("partition").unique()
        yield handle, snapshot, entries


def _read_buckets(asked: Asked) -> Iterator[pa.RecordBatch]:
    if asked.snapshot is None:
        return
    entries = _entries(asked.handle, asked.snapshot)
    partitions = Partitions(asked.handle, entries.column("partition"))
    buckets = values(entries.column("bucket")).astype(np.int64)
    places = np.stack([partitions.codes.astype(np.int64), buckets], axis=1)
    distinct, which = np.unique(places, axis=0, return_inverse=True)
    sums = entry_totals(pa.Table.from_batches([entries]), np.asarray(which).reshape(-1), len(distinct))
    names = partition_texts(partitions).take(take_indices(distinct[:, 0]))
    order = _shown_order(sums, names, distinct[:, 1])
    take = take_indices(order)
    made = _sum_columns(sums, order)
    made["partition"] = lambda: names.take(take)
    made["bucket"] = lambda: fixed_array(distinct[order, 1], pa.int64()).cast(pa.int32())
    yield batch_of(_BUCKETS, asked, len(order), made)


def _entries(handle: TableHandle, snapshot: Snapshot) -> pa.RecordBatch:
    """All entries of the snapshot's manifests, ADD and DELETE: a removal counts as an update."""
    return one_batch(read_manifests(handle, data_manifests(handle, snapshot)))


def _shown_order(sums: EntryTotals, names: pa.Array, buckets: _I64 | None = None) -> _I64:
    """The groups that have files, sorted by name and bucket."""
    keys = {"name": names, "bucket": fixed_array(sums.files * 0 if buckets is None else buckets, pa.int64())}
    by_name = pc.sort_indices(pa.table(keys), sort_keys=[("name", "ascending"), ("bucket", "ascending")])
    order: _I64 = values(by_name).astype(np.int64)
    return order[sums.files[order] > 0]


def _sum_columns(sums: EntryTotals, order: _I64) -> dict[str, Thunk]:
    updated = sums.updated_ms[order]
    return {
        "record_count": lambda: fixed_array(sums.rows[order], pa.int64()),
        "file_size_in_bytes": lambda: fixed_array(sums.sizes[order], pa.int64()),
        "file_count": lambda: fixed_array(sums.files[order], pa.int64()),
        "last_update_time": lambda: fixed_array(updated, arrow_type(TIMESTAMP), updated != NEVER),
    }


def _partition_names(handle: TableHandle, partitions: Partitions) -> pa.Array:
    """`k1=v1/k2=v2`, values unescaped; blank ones and nulls have the default name."""
    default = text(handle.options.partition_default_name)
    out: Any = None
    for column, f in zip(partitions.batch.columns, partitions.type, strict=True):
        shown = sql_text(column, f.type)
        blank = pc.fill_null(pc.match_substring_regex(shown, r"^\s*$"), True)
        part = concatenated(text(f"{f.name}="), pc.if_else(blank, default, shown))
        out = part if out is None else concatenated(out, text("/"), part)
    return pa.repeat(text(""), len(partitions.rows)) if out is None else out


def _deleted_counts(sources: Sequence[tuple[TableHandle, Snapshot]], partitions: Sequence[bytes]) -> pa.Array:
    """Rows that deletion vectors delete in each partition; null where a writer did not count them."""
    counts: dict[bytes, int | None] = {}
    for handle, snapshot in reversed(sources):  # the partitions of the first are read from there
        counts.update(_deleted_rows(handle, snapshot))
    return array_of([counts.get(p, 0) for p in partitions], pa.int64())


def _deleted_rows(handle: TableHandle, snapshot: Snapshot) -> dict[bytes, int | None]:
    """Rows that deletion vectors delete, by partition; None where a writer did not count them."""
    out: dict[bytes, int | None] = {}
    if not handle.options.deletion_vectors or snapshot.index_manifest is None:
        return out
    for entry in read_index_manifest(handle, snapshot.index_manifest):
        if entry.index_type != DELETION_VECTORS:
            continue
        counts = [v.cardinality for v in entry.deletion_vectors or ()]
        before = out.get(entry.partition, 0)
        known = [c for c in counts if c is not None]
        out[entry.partition] = None if before is None or len(known) < len(counts) else before + sum(known)
    return out


LISTINGS: Final = (
    Listing("partitions", _PARTITIONS, ("partition",), True, _read_partitions),
    Listing("buckets", _BUCKETS, ("partition", "bucket"), True, _read_buckets),
)
"""The system tables of this module."""
