"""Pack units of files into splits of a target size, with their deletion vectors.

Source: Java `utils/BinPacking.packForOrdered`, `table/source/snapshot/SnapshotReaderImpl`, `index/IndexFileHandler`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, pairwise, repeat
from typing import Any, Final, NamedTuple, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.engine.scan.prune import Selection
from paimon_spark.engine.scan.units import CHANGES, MODES, Longs, Units, reordered
from paimon_spark.engine.tasks import DataSplit, DeletionFile, SplitMode
from paimon_spark.format import binary_row
from paimon_spark.format.arrays.arrow_numpy import Bool, objects, take_indices, values
from paimon_spark.format.metadata_files.data_file import DataFileMeta, SimpleStats
from paimon_spark.format.metadata_files.index_manifest import DELETION_VECTORS, IndexManifestEntry
from paimon_spark.format.metadata_files.manifest import built, collector_paused
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.manifests import read_index_manifest
from paimon_spark.metadata.partition_path import PartitionDirectories, index_file_place

_NO_STATS: Final = SimpleStats(binary_row.EMPTY, binary_row.EMPTY, None)
_FIELDS: Final = {
    # What readers need; everything else of a file stays in the manifest. Value where it is null everywhere:
    "file_name": None,
    "file_size": None,
    "row_count": None,
    "min_key": binary_row.EMPTY,
    "max_key": binary_row.EMPTY,
    "min_sequence_number": None,
    "max_sequence_number": None,
    "schema_id": None,
    "level": None,
    "creation_time_ms": None,
    "delete_row_count": None,
    "file_source": None,
    "external_path": None,
    "extra_files": (),
    "embedded_index": None,
    "first_row_id": None,
    "write_cols": None,
    "write_cols_sequences": None,
}
_TOGETHER: Final = 50_000
"""Files that are made together: each column of them is a list for a moment. Plans of more are `ManySplits`."""
_FOR_KEYS: Final = ("min_key", "max_key", "file_source")


@dataclass(frozen=True, slots=True)
class EarlierState:
    """The earlier of two states whose files are compared.

    Attributes:
        files: for each entry, whether it belongs to this state.
        deletions: its deletion vectors.
    """

    files: Bool
    deletions: Deletions


@dataclass(frozen=True, slots=True)
class SplitTotals:
    """Totals of the splits of a plan.

    Attributes:
        files: files to read, those of the older state included.
        size_bytes: their bytes.
        row_count: their physical rows.
        largest_bytes: bytes of the largest split.
        schema_ids: the schemas of the files.
        modes: number of splits by mode.
        partitions: BinaryRow bytes of the partitions.
    """

    files: int
    size_bytes: int
    row_count: int
    largest_bytes: int
    schema_ids: frozenset[int]
    modes: Mapping[SplitMode, int]
    partitions: frozenset[bytes]


def totals_of(splits: Sequence[DataSplit]) -> SplitTotals:
    """Add up splits, without making those of `ManySplits`."""
    if isinstance(splits, ManySplits):
        return splits.totals
    files = [f for s in splits for f in (*s.files, *s.before_files)]
    sizes = [s.size_bytes for s in splits]
    return SplitTotals(
        len(files),
        sum(sizes),
        sum(f.row_count for f in files),
        max(sizes, default=0),
        frozenset(f.schema_id for f in files),
        Counter(s.mode for s in splits),
        frozenset(s.partition for s in splits),
    )


class _Place(NamedTuple):
    """A bucket: its partition as BinaryRow bytes, its number and its directory."""

    partition: bytes
    bucket: int
    path: str


@dataclass(frozen=True, slots=True, eq=False)
class ManySplits(Sequence[DataSplit]):
    """The splits of a large plan: columns of manifest entries, from which each split is made when it is asked for.

    Splits are not kept, so memory is that of the columns (about 100 bytes a file instead of 700). Iterate, and take
    slices: a split by its index costs more. Pickled, it is a tuple of its splits.

    Attributes:
        branch, snapshot_id: of every split.
        entries: manifest entries.
        files: entry numbers, split after split.
        starts: for each split, where it begins in `files`.
        modes: for each split, an index into `MODES`.
        places, place_numbers: the buckets, and for each split the number of its own.
        keys: whether the files come with what only tables with primary keys need.
        deletions, directories: see `DataSplit.deletions`, `DataSplit.elsewhere`.
        before: for splits that compare two states.
    """

    branch: str
    snapshot_id: int
    entries: pa.RecordBatch
    files: Longs
    starts: Longs
    modes: npt.NDArray[np.int8]
    places: Sequence[_Place]
    place_numbers: Longs
    keys: bool
    deletions: Deletions
    directories: PartitionDirectories
    before: EarlierState | None

    def __len__(self) -> int:
        return len(self.starts)

    def __iter__(self) -> Iterator[DataSplit]:
        # As many splits at a time as have about so many files.
        cuts = np.searchsorted(self.starts, np.arange(0, len(self.files), _TOGETHER)).tolist()
        for start, end in pairwise([*cuts, len(self)]):
            yield from self._made(start, end)

    @overload
    def __getitem__(self, index: int) -> DataSplit: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[DataSplit]: ...

    def __getitem__(self, index: int | slice) -> DataSplit | Sequence[DataSplit]:
        numbers = range(len(self))[index]
        if isinstance(numbers, int):
            return self._made(numbers, numbers + 1)[0]
        if numbers.step == 1:
            return tuple(self._made(numbers.start, numbers.stop)) if numbers else ()
        return tuple(self)[index]

    def __reduce__(self) -> tuple[type[tuple[DataSplit, ...]], tuple[tuple[DataSplit, ...]]]:
        return tuple, (tuple(self),)

    @property
    def totals(self) -> SplitTotals:
        """See `totals_of`."""
        sizes, rows, schemas = (
            values(self.entries.column(name))[self.files] for name in ("file_size", "row_count", "schema_id")
        )
        modes, counts = np.unique(self.modes, return_counts=True)
        return SplitTotals(
            len(self.files),
            int(sizes.sum()),
            int(rows.sum()),
            int(np.add.reduceat(sizes, self.starts).max()),
            frozenset(np.unique(schemas).tolist()),
            {MODES[mode]: count for mode, count in zip(modes.tolist(), counts.tolist(), strict=True)},
            frozenset(place.partition for place in self.places),
        )

    @property
    def nbytes(self) -> int:
        """Bytes of the columns."""
        arrays = (self.files, self.starts, self.modes, self.place_numbers)
        return int(self.entries.nbytes) + sum(a.nbytes for a in arrays)

    @collector_paused()
    def _made(self, start: int, end: int) -> list[DataSplit]:
        """The splits from number `start` up to `end`, of which there is at least one."""
        bounds = np.append(self.starts, len(self.files))[start : end + 1]
        numbers = self.files[bounds[0] : bounds[-1]]
        metas = file_metas(self.entries, numbers, keys=self.keys)
        totals = values(self.entries.column("total_buckets"))[self.files[bounds[:-1]]].tolist()
        earlier = [] if self.before is None else self.before.files[numbers].tolist()
        out = []
        for (first, last), mode, place, total in zip(
            pairwise((bounds - bounds[0]).tolist()),
            self.modes[start:end].tolist(),
            self.place_numbers[start:end].tolist(),
            totals,
            strict=True,
        ):
            partition, bucket, path = self.places[place]
            chosen = tuple(metas[first:last])
            old: tuple[DataFileMeta, ...] = ()
            old_vectors: tuple[DeletionFile | None, ...] = ()
            if self.before is not None:
                old = tuple(compress(chosen, earlier[first:last]))
                old_vectors = self.before.deletions.of(partition, bucket, old)
                chosen = tuple(f for f, is_old in zip(chosen, earlier[first:last], strict=True) if not is_old)
            vectors = () if mode == CHANGES else self.deletions.of(partition, bucket, chosen)
            out.append(
                DataSplit(
                    self.branch, self.snapshot_id, partition, bucket, path, MODES[mode], chosen, vectors, old,
                    old_vectors, total,
                    self.directories.elsewhere(partition, bucket, (f.file_name for f in (*old, *chosen))),
                )
            )  # fmt: skip
        return out


def make_splits(
    handle: TableHandle,
    selection: Selection,
    units: Units,
    deletions: Deletions,
    snapshot_id: int,
    before: EarlierState | None = None,
) -> Sequence[DataSplit]:
    """Splits of all units: no split crosses a bucket or mixes modes, units keep their order.

    With `before` the entries are those of two states, and each unit becomes a split. A tuple, or `ManySplits`.
    """
    if not len(units):
        return ()
    units = reordered(units)
    keys = bool(handle.schema.primary_keys)
    bins = np.arange(len(units)) if before is not None else _bins(handle, selection, units)
    starts = units.starts[bins]
    _, firsts, place_numbers = np.unique(units.groups[bins], return_index=True, return_inverse=True)
    at = units.files[starts[firsts]]
    partitions = [selection.partitions.row_bytes[c] for c in selection.partitions.codes[at].tolist()]
    buckets = values(selection.entries.column("bucket"))[at].tolist()
    directories = selection.partitions.directories
    splits = ManySplits(
        handle.branch,
        snapshot_id,
        selection.entries.select([*_file_columns(keys), "total_buckets"]),
        units.files,
        starts,
        units.modes[bins],
        [_Place(p, b, directories.bucket_path(p, b)) for p, b in zip(partitions, buckets, strict=True)],
        place_numbers.reshape(-1),
        keys,
        deletions,
        directories,
        before,
    )
    return splits if len(units.files) > _TOGETHER else tuple(splits)


def _bins(handle: TableHandle, selection: Selection, units: Units) -> Longs:
    """The first unit of each split: a split is closed before the unit that would make it too heavy."""
    target, cost = handle.options.split_target_bytes, handle.options.split_open_cost_bytes
    sizes = values(selection.entries.column("file_size"))[units.files]
    weights = np.maximum(np.add.reduceat(sizes, units.starts), cost)
    changes = np.flatnonzero((np.diff(units.groups) != 0) | (np.diff(units.modes) != 0)) + 1
    numbers = np.arange(len(units))
    ends = np.append(changes, len(units))[np.searchsorted(changes, numbers, side="right")]
    reached = np.cumsum(weights)
    heavy = np.searchsorted(reached, reached - weights + min(target, int(reached[-1])), side="right")
    following_units = np.minimum(np.maximum(heavy, numbers + 1), ends)
    if bool((following_units == numbers + 1).all()):  # each is a split: large files
        return numbers
    following = following_units.tolist()
    out, at = [], 0
    while at < len(following):
        out.append(at)
        at = following[at]
    return np.array(out, np.int64)


def _file_columns(keys: bool) -> list[str]:
    return [name for name in _FIELDS if keys or name not in _FOR_KEYS]


def file_metas(entries: pa.RecordBatch, numbers: Any, *, keys: bool) -> list[DataFileMeta]:
    """The files of the entries `numbers`, without the statistics that only planning uses.

    With `keys` also what only tables with keys need: smallest and largest keys, and the source.
    """
    parts = (numbers[start : start + _TOGETHER] for start in range(0, len(numbers), _TOGETHER))
    return [file for part in parts for file in _file_metas(entries, part, keys)]


def _file_metas(entries: pa.RecordBatch, numbers: Any, keys: bool) -> Iterable[DataFileMeta]:
    first = int(numbers[0])
    if bool((numbers == np.arange(first, first + len(numbers))).all()):
        entries, taken = entries.slice(first, len(numbers)), None
    else:
        taken = take_indices(numbers)
    columns: dict[str, Iterable[Any]] = {
        "key_stats": repeat(_NO_STATS),
        "value_stats": repeat(_NO_STATS),
        "value_stats_cols": repeat(None),
    }
    for name, absent in _FIELDS.items():
        array = entries.column(name) if keys or name not in _FOR_KEYS else None
        if array is None or array.null_count == len(array) or _is_of_empty_lists(array):
            columns[name] = repeat(absent)
        else:
            columns[name] = objects(array if taken is None else array.take(taken))
    if entries.column("extra_files").null_count:  # old writers recorded none
        columns["extra_files"] = (names or () for names in columns["extra_files"])
    return built(DataFileMeta, [columns[name] for name in DataFileMeta._fields])


def _is_of_empty_lists(array: pa.Array) -> bool:
    return bool(pa.types.is_list(array.type)) and not len(array.values)


@dataclass(frozen=True, slots=True)
class Deletions:
    """Deletion vectors of one snapshot, by bucket and data file name."""

    by_bucket: Mapping[tuple[bytes, int], Mapping[str, DeletionFile]] = field(default_factory=dict)

    def of(self, partition: bytes, bucket: int, files: Sequence[DataFileMeta]) -> tuple[DeletionFile | None, ...]:
        """The vector of each file; empty when none has one."""
        known = self.by_bucket.get((partition, bucket))
        if not known:
            return ()
        found = tuple(known.get(f.file_name) for f in files)
        return found if any(d is not None for d in found) else ()


def deletions_of(handle: TableHandle, snapshot: Snapshot | None) -> Deletions:
    """The deletion vectors of a snapshot. Reads its index manifest.

    They apply whether or not the table still has `deletion-vectors.enabled`: a vector stays in force until its
    file is rewritten. Raises CorruptFileError.
    """
    if snapshot is None or snapshot.index_manifest is None:
        return Deletions()
    return deletions_among(handle, read_index_manifest(handle, snapshot.index_manifest))


def deletions_among(handle: TableHandle, entries: Iterable[IndexManifestEntry]) -> Deletions:
    """The deletion vectors that index files of `entries` hold. Reads none of the files."""
    directories = PartitionDirectories(handle)
    by_bucket: dict[tuple[bytes, int], dict[str, DeletionFile]] = {}
    for entry in entries:
        if entry.index_type != DELETION_VECTORS or not entry.deletion_vectors:
            continue
        store, path = index_file_place(handle, entry, directories)
        if store is not handle.store:
            path = store.url(path)
        bucket = by_bucket.setdefault((entry.partition, entry.bucket), {})
        for vector in entry.deletion_vectors:
            bucket[vector.data_file_name] = DeletionFile(path, vector.offset, vector.length, vector.cardinality)
    return Deletions(by_bucket)
