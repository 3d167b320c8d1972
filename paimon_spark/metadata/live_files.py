"""Live files of a table, folded from manifest entries; their totals; state of buckets.

Source: Paimon spec, chapter Manifest; Java `manifest/FileEntry`, `operation/AbstractFileStoreScan`,
`operation/FileSystemWriteRestore`, `operation/AbstractFileStoreWrite.scanExistingFileMetas`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import CorruptFileError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_numpy import array_of
from paimon_spark.format.binary_row import decode_column
from paimon_spark.format.metadata_files.manifest import FileKind, ManifestFileMeta
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import POSTPONE_BUCKET
from paimon_spark.metadata.manifests import CACHE, column_values, data_manifests, read_manifests

I64 = npt.NDArray[np.int64]

_MOST_CODES: Final = 1 << 62
_MANY_ENTRIES: Final = 200_000
"""So many entries may be read without their statistics, which are most of their bytes."""
_WHICH: Final = ("partition", "bucket", "level", "embedded_index", "external_path", "extra_files")
"""What, beside its name, tells a file from others."""


def live_entries(
    handle: TableHandle, metas: Sequence[ManifestFileMeta], *, passing: bool = False, statistics: bool = True
) -> pa.Table:
    """The ADD entries of the manifests that no entry deletes, in manifest order.

    A file is the same when partition, bucket, level, name, extra files, embedded index and external path are. As in
    Java's scan the order of manifests does not count: a file is added once and deleted once. A DELETE
    without its ADD (whose manifest was left out) has no effect.

    Args:
        handle: the branch.
        metas: the manifests.
        passing: remember the outcome only until the next such call for the table: writers meet a new head each time.
        statistics: whether the columns `STATISTICS` are needed. Those of few files come in any case.

    Raises:
        CorruptFileError: a file is added twice, or a manifest cannot be decoded.
        FileMissingError: a manifest is gone; the snapshot may have expired meanwhile.
    """
    names = tuple(m.file_name for m in metas)
    statistics = statistics or sum(m.num_added_files + m.num_deleted_files for m in metas) < _MANY_ENTRIES
    place = handle.store.identity, handle.layout.root
    found: pa.Table | None = CACHE.get(("live", *place, names))
    if found is not None:
        return found
    last: tuple[tuple[str, ...], pa.Table] | None = CACHE.get(("live for writers", *place)) if passing else None
    if last is not None and last[0] == names:
        return last[1]
    found = None if statistics else CACHE.get(("live without statistics", *place, names))
    if found is not None:
        return found
    found = _fold(handle, metas, read_manifests(handle, metas, statistics=statistics))
    if not statistics:
        CACHE.put(("live without statistics", *place, names), found, found.nbytes)
    elif passing:
        CACHE.put(("live for writers", *place), (names, found), found.nbytes)
    else:
        CACHE.put(("live", *place, names), found, found.nbytes)
    return found


def file_ids(entries: pa.Table, by: Sequence[str] = _WHICH) -> I64:
    """A number per entry, equal exactly for entries of one file, ADD or DELETE.

    Args:
        entries: of manifests.
        by: columns that, beside the name, tell files apart.
    """
    if len(entries) == 0:
        return np.empty(0, np.int64)
    return _file_ids(entries, _codes(entries.column("file_name")), by)


def _fold(handle: TableHandle, metas: Sequence[ManifestFileMeta], entries: pa.Table) -> pa.Table:
    deleted, file_names = column_values(entries, "kind") == FileKind.DELETE, entries.column("file_name")
    if not deleted.any() and len(file_names.unique()) == len(entries):  # less work than to number them
        return entries
    names = _codes(file_names)
    if int(names.max()) + 1 == len(entries):
        return _where(entries, ~deleted)
    file_ids = _file_ids(entries, names)
    deletes = np.bincount(file_ids[deleted], minlength=int(file_ids.max()) + 1)
    live = ~deleted & (deletes[file_ids] == 0)
    adds = np.bincount(file_ids[live])
    if len(adds) and adds.max() > 1:
        raise _added_twice(handle, metas, entries, np.flatnonzero(live & (file_ids == int(adds.argmax()))))
    return _where(entries, live)


def _where(entries: pa.Table, mask: npt.NDArray[np.bool_]) -> pa.Table:
    return entries.filter(arrow_numpy.boolean_array(mask))


def _file_ids(entries: pa.Table, names: I64, by: Sequence[str] = _WHICH) -> I64:
    """A number per entry, equal exactly for equal files."""
    ids, distinct = names, int(names.max()) + 1
    for name in by:
        column = entries.column(name)
        if column.null_count == len(column):
            continue
        if pa.types.is_list(column.type):  # of file names, which hold no NUL: the decoder checks it
            column = pc.binary_join(column, arrow_numpy.scalar("\0", pa.string()))
        codes = _codes(column)
        count = int(codes.max()) + 1
        if count == 1:
            continue
        if distinct * count > _MOST_CODES:
            ids = np.unique(ids, return_inverse=True)[1]
            distinct = int(ids.max()) + 1
        ids = ids * count + codes
        distinct *= count
    return np.unique(ids, return_inverse=True)[1]


def _codes(column: pa.ChunkedArray) -> I64:
    """A number per value, from 0 up without gaps, equal exactly for equal values; null is a value."""
    if len(column) == 0:
        return np.empty(0, np.int64)
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.chunk(0)
    return arrow_numpy.values(encoded.indices).astype(np.int64)


def _added_twice(
    handle: TableHandle, metas: Sequence[ManifestFileMeta], entries: pa.Table, rows: I64
) -> CorruptFileError:
    ends = np.cumsum([m.num_added_files + m.num_deleted_files for m in metas])
    places = np.searchsorted(ends, rows, side="right").tolist()
    paths = [handle.store.url(handle.layout.manifest_path(metas[i].file_name)) for i in places]
    name = entries.column("file_name")[int(rows[0])].as_py()
    return CorruptFileError(
        f"{handle.describe()}: file {name!r} is added twice, by {' and by '.join(dict.fromkeys(paths))}; "
        "reading it twice would give wrong rows",
        path=paths[-1],
        file_name=name,
    )


NEVER: Final = np.iinfo(np.int64).min
"""The time of a group whose files have none."""


class EntryTotals(NamedTuple):
    """Sums that manifest entries add to and remove from groups of files, an element for each group.

    Attributes:
        updated_ms: wall clock of the newest file ever added or removed; `NEVER` when no file has a time.
        total_buckets: of the last entry.
    """

    rows: I64
    sizes: I64
    files: I64
    updated_ms: I64
    total_buckets: I64


def entry_totals(entries: pa.Table, groups: I64, count: int) -> EntryTotals:
    """Add up the entries of each group; `groups` has the number of each entry's, below `count`.

    Source: Java `manifest/PartitionEntry`.
    """
    sign = np.where(column_values(entries, "kind") == FileKind.DELETE, -1, 1).astype(np.int64)
    times = _array(entries, "creation_time_ms")
    stamps = np.where(arrow_numpy.validity(times), arrow_numpy.values(times), NEVER)
    updated, totals = np.full(count, NEVER, np.int64), np.zeros(count, np.int64)
    np.maximum.at(updated, groups, stamps)
    totals[groups] = column_values(entries, "total_buckets")
    return EntryTotals(
        _added(groups, sign * column_values(entries, "row_count"), count),
        _added(groups, sign * column_values(entries, "file_size"), count),
        _added(groups, sign, count),
        updated,
        totals,
    )


def _added(groups: I64, amounts: I64, count: int) -> I64:
    out = np.zeros(count, np.int64)
    np.add.at(out, groups, amounts)
    return out


NO_SEQUENCE: Final = -1
"""The greatest sequence number of a bucket without files."""

_FEW_ENTRIES: Final = 20_000
"""So many entries are read at once, whatever partitions are asked for."""

_MANY_PARTITIONS: Final = 256
"""Above so many new partitions nothing is left out by ranges."""


@dataclass(frozen=True, slots=True)
class _PartitionState:
    """The buckets of one partition.

    Attributes:
        total_buckets: what its live files say, or None when it has none. -1 is said too, and -2 when all rows wait in
            the postponed bucket.
        max_sequences: greatest sequence number by bucket; buckets without files are left out.
    """

    total_buckets: int | None = None
    max_sequences: dict[int, int] = field(default_factory=dict)

    def max_sequence(self, bucket: int) -> int:
        """The greatest sequence number of a bucket; `NO_SEQUENCE` when it has no file."""
        return self.max_sequences.get(bucket, NO_SEQUENCE)


_EMPTY: Final = _PartitionState()


class BucketStates:
    """The buckets of a snapshot, read partition by partition as writers come to them.

    Manifests that hold none of the partitions asked for are not read. Where a table is small all is read at once.
    """

    def __init__(self, handle: TableHandle, base: Snapshot | None) -> None:
        self._handle = handle
        self._base = base
        self._metas: list[ManifestFileMeta] | None = None if base is not None else []
        self._complete = base is None
        self._known: dict[bytes, _PartitionState] = {}

    def of(self, partition: bytes) -> _PartitionState:
        """The state of one partition (BinaryRow bytes). Raises as `live_entries`."""
        self.load((partition,))
        return self._known.get(partition, _EMPTY)

    def load(self, partitions: Iterable[bytes]) -> None:
        """Read what is not yet known of these partitions, together. Raises as `live_entries`."""
        new = [] if self._complete else [p for p in dict.fromkeys(partitions) if p not in self._known]
        if not new:
            return
        if self._metas is None:
            assert self._base is not None
            self._metas = data_manifests(self._handle, self._base)
        entries = sum(m.num_added_files + m.num_deleted_files for m in self._metas)
        whole = entries <= _FEW_ENTRIES or len(new) > _MANY_PARTITIONS or not self._handle.schema.partition_keys
        metas = self._metas if whole else self._holding(new)
        self._known.update(_states(live_entries(self._handle, metas, passing=True), None if whole else set(new)))
        self._complete = whole
        for partition in new:
            self._known.setdefault(partition, _EMPTY)

    def _holding(self, partitions: Sequence[bytes]) -> list[ManifestFileMeta]:
        """The manifests whose partition ranges hold one of the partitions."""
        assert self._metas is not None
        if not self._metas:
            return []
        rows = array_of(partitions, pa.binary())
        low = array_of([m.partition_stats.min_values for m in self._metas], pa.binary())
        high = array_of([m.partition_stats.max_values for m in self._metas], pa.binary())
        wanted = np.ones((len(partitions), len(self._metas)), np.bool_)
        for i, column in enumerate(self._handle.schema.partition_type):
            values = decode_column(rows, i, column.type)
            bounds = (decode_column(low, i, column.type, exact=False), decode_column(high, i, column.type, exact=False))
            for at, value in enumerate(values):
                wanted[at] &= _may_hold(value, *bounds)
        return [self._metas[i] for i in np.flatnonzero(wanted.any(axis=0)).tolist()]


def _may_hold(value: pa.Scalar, low: pa.Array, high: pa.Array) -> arrow_numpy.Bool:
    """For every range, whether `value` may be in it. Nulls, and NaN, are in every range; unknown bounds hold all."""
    if not value.is_valid or pa.types.is_floating(value.type):
        return np.ones(len(low), np.bool_)
    out = np.ones(len(low), np.bool_)
    for compared in (pc.less_equal(low, value), pc.greater_equal(high, value)):
        out &= arrow_numpy.values(compared) | ~arrow_numpy.validity(compared)
    return out


def _states(entries: pa.Table, only: set[bytes] | None) -> dict[bytes, _PartitionState]:
    """States by partition from live entries; of the partitions in `only`, when it is given."""
    out: dict[bytes, _PartitionState] = {}
    if len(entries) == 0:
        return out
    encoded = _array(entries, "partition").dictionary_encode()
    partitions: list[bytes] = encoded.dictionary.to_pylist()
    codes = arrow_numpy.values(encoded.indices)
    buckets, totals, sequences = (
        arrow_numpy.values(_array(entries, name)) for name in ("bucket", "total_buckets", "max_sequence_number")
    )
    order = np.lexsort((buckets, codes))
    changes = (np.diff(codes[order]) != 0) | (np.diff(buckets[order]) != 0)
    starts = np.concatenate([[0], np.flatnonzero(changes) + 1])
    firsts = order[starts]
    greatest = np.maximum.reduceat(sequences[order], starts)
    rows = zip(codes[firsts], buckets[firsts].tolist(), totals[firsts].tolist(), greatest.tolist(), strict=True)
    for code, bucket, total, sequence in rows:
        partition = partitions[code]
        if only is None or partition in only:
            known = out.get(partition)
            if known is None or known.total_buckets == POSTPONE_BUCKET:  # which is the first of its buckets
                known = out[partition] = _PartitionState(total, {} if known is None else known.max_sequences)
            known.max_sequences[bucket] = sequence
    return out


def _array(entries: pa.Table, name: str) -> pa.Array:
    column = entries.column(name)
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
