"""Pack units of files into splits of a target size, with their deletion vectors.

Source: Java `utils/BinPacking.packForOrdered`, `table/source/snapshot/SnapshotReaderImpl`, `index/IndexFileHandler`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, repeat
from typing import Any, Final

import numpy as np
import pyarrow as pa

from paimon_spark.engine.scan.prune import Selection
from paimon_spark.engine.scan.units import CHANGES, MODES, Units, reordered
from paimon_spark.engine.tasks.split import DataSplit, DeletionFile
from paimon_spark.format import binary_row
from paimon_spark.format.arrays.arrow_numpy import Bool, objects, take_indices, values
from paimon_spark.format.metadata_files.data_file import DataFileMeta, SimpleStats
from paimon_spark.format.metadata_files.index_manifest import DELETION_VECTORS, IndexManifestEntry
from paimon_spark.format.metadata_files.manifest import built, collector_paused
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.manifests import read_index_manifest
from paimon_spark.metadata.partition_path import PartitionDirectories, index_file_path

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
    "first_row_id": None,
    "write_cols": None,
    "write_cols_sequences": None,
}
_TOGETHER: Final = 100_000
"""Files that are made together; each column of these is a list for a moment."""
_FOR_KEYS: Final = ("min_key", "max_key", "file_source")


@dataclass(frozen=True, slots=True)
class Before:
    """The earlier of two states whose files are compared.

    Attributes:
        files: for each entry, whether it belongs to this state.
        deletions: its deletion vectors.
    """

    files: Bool
    deletions: Deletions


@collector_paused()
def make_splits(
    handle: TableHandle,
    selection: Selection,
    units: Units,
    deletions: Deletions,
    snapshot_id: int,
    before: Before | None = None,
) -> list[DataSplit]:
    """Splits of all units: no split crosses a bucket or mixes modes, units keep their order.

    With `before` the entries are those of two states, and each unit becomes a split.
    """
    if not len(units):
        return []
    units = reordered(units)
    files = file_metas(selection.entries, units.files, keys=bool(handle.schema.primary_keys))
    codes = selection.partitions.codes[units.files].tolist()
    buckets, totals = (
        values(selection.entries.column(name))[units.files].tolist() for name in ("bucket", "total_buckets")
    )
    earlier = [] if before is None else before.files[units.files].tolist()
    paths: dict[tuple[int, int], tuple[bytes, str]] = {}
    directories = selection.partitions.directories
    out = []
    for start, end, mode in _bins(handle, selection, units, packed=before is None):
        place = codes[start], buckets[start]
        if place not in paths:
            row = selection.partitions.row_bytes[place[0]]
            paths[place] = row, directories.bucket_path(row, place[1])
        partition, bucket_path = paths[place]
        chosen = tuple(files[start:end])
        old: tuple[DataFileMeta, ...] = ()
        old_vectors: tuple[DeletionFile | None, ...] = ()
        if before is not None:
            old = tuple(compress(chosen, earlier[start:end]))
            old_vectors = before.deletions.of(partition, place[1], old)
            chosen = tuple(f for f, is_old in zip(chosen, earlier[start:end], strict=True) if not is_old)
        vectors = () if mode == CHANGES else deletions.of(partition, place[1], chosen)
        out.append(
            DataSplit(
                handle.branch, snapshot_id, partition, place[1], bucket_path, MODES[mode], chosen, vectors, old,
                old_vectors, totals[start],
                directories.elsewhere(partition, place[1], (f.file_name for f in (*old, *chosen))),
            )
        )  # fmt: skip
    return out


def _bins(handle: TableHandle, selection: Selection, units: Units, *, packed: bool) -> Iterator[tuple[int, int, int]]:
    """Neighbouring units that make a split: their first file, the one behind their last, and the mode.

    Unless `packed`, each unit is a bin. A bin is closed before the unit that would make it too heavy.
    """
    starts, modes = units.starts.tolist(), units.modes.tolist()
    if not packed:
        yield from zip(starts, [*starts[1:], len(units.files)], modes, strict=True)
        return
    target, cost = handle.options.split_target_bytes, handle.options.split_open_cost_bytes
    sizes = values(selection.entries.column("file_size"))[units.files]
    weights = np.maximum(np.add.reduceat(sizes, units.starts), cost).tolist()
    groups = units.groups.tolist()
    begin, weight = 0, 0
    for i, unit_weight in enumerate(weights):
        if i > begin and (weight + unit_weight > target or groups[i] != groups[begin] or modes[i] != modes[begin]):
            yield starts[begin], starts[i], modes[begin]
            begin, weight = i, 0
        weight += unit_weight
    yield starts[begin], len(units.files), modes[begin]


def file_metas(entries: pa.RecordBatch, numbers: Any, *, keys: bool) -> list[DataFileMeta]:
    """The files of the entries `numbers`, without the statistics and index bytes that only planning uses.

    With `keys` also what only tables with keys need: smallest and largest keys, and the source.
    """
    parts = (numbers[start : start + _TOGETHER] for start in range(0, len(numbers), _TOGETHER))
    return [file for part in parts for file in _file_metas(entries, part, keys)]


def _file_metas(entries: pa.RecordBatch, numbers: Any, keys: bool) -> Iterable[DataFileMeta]:
    in_order = len(numbers) == entries.num_rows and bool((numbers == np.arange(len(numbers))).all())
    taken = None if in_order else take_indices(numbers)
    columns: dict[str, Iterable[Any]] = {
        "key_stats": repeat(_NO_STATS),
        "value_stats": repeat(_NO_STATS),
        "extra_files": repeat(()),
        "embedded_index": repeat(None),
        "value_stats_cols": repeat(None),
    }
    for name, absent in _FIELDS.items():
        if name in _FOR_KEYS and not keys:
            columns[name] = repeat(absent)
            continue
        array = entries.column(name)
        if array.null_count == len(array):
            columns[name] = repeat(absent)
        else:
            columns[name] = objects(array if taken is None else array.take(taken))
    return built(DataFileMeta, [columns[name] for name in DataFileMeta._fields])


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
        path = index_file_path(handle, entry, directories)
        bucket = by_bucket.setdefault((entry.partition, entry.bucket), {})
        for vector in entry.deletion_vectors:
            bucket[vector.data_file_name] = DeletionFile(path, vector.offset, vector.length, vector.cardinality)
    return Deletions(by_bucket)
