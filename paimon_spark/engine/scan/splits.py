"""Packing units of files into DataSplits of a good size.

Source: Java `utils/BinPacking.packForOrdered`, `table/source/snapshot/SnapshotReaderImpl.generateSplits`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from paimon_spark.engine.scan.deletions import Deletions
from paimon_spark.engine.scan.prune import Selection
from paimon_spark.engine.scan.units import CHANGES, MODES, Units, reordered
from paimon_spark.engine.tasks.split import DataSplit
from paimon_spark.format.arrays.arrow_numpy import take_indices, validity, values
from paimon_spark.format.metadata_files.data_file import DataFileMeta, SimpleStats
from paimon_spark.metadata.handle import TableHandle

_EMPTY_ROW: Final = bytes(12)
_NO_STATS: Final = SimpleStats(_EMPTY_ROW, _EMPTY_ROW, None)
_FIELDS: Final = {
    # What readers need; everything else of a file stays in the manifest. Value where it is null everywhere:
    "file_name": None,
    "file_size": None,
    "row_count": None,
    "min_key": _EMPTY_ROW,
    "max_key": _EMPTY_ROW,
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
_FOR_KEYS: Final = ("min_key", "max_key", "file_source")


class _Bin(NamedTuple):
    """Neighbouring units that make a split: files from `start` to `end` of the units' files."""

    start: int
    end: int
    mode: int


def make_splits(
    handle: TableHandle, selection: Selection, units: Units, deletions: Deletions, snapshot_id: int
) -> list[DataSplit]:
    """Splits of all units: no split crosses a bucket or mixes modes, units keep their order."""
    if not len(units):
        return []
    units = reordered(units)
    files = file_metas(selection.entries, units.files, keys=bool(handle.schema.primary_keys))
    codes = selection.partitions.codes[units.files].tolist()
    buckets, totals = (
        values(selection.entries.column(name))[units.files].tolist() for name in ("bucket", "total_buckets")
    )
    paths: dict[tuple[int, int], tuple[bytes, str]] = {}
    directories = selection.partitions.directories
    out = []
    for start, end, mode in _bins(handle, selection, units):
        place = codes[start], buckets[start]
        if place not in paths:
            row = selection.partitions.row_bytes[place[0]]
            paths[place] = row, directories.bucket_path(row, place[1])
        partition, bucket_path = paths[place]
        chosen = tuple(files[start:end])
        vectors = () if mode == CHANGES else deletions.of(partition, place[1], chosen)
        out.append(
            DataSplit(
                handle.branch, snapshot_id, partition, place[1], bucket_path, MODES[mode], chosen, vectors,
                total_buckets=totals[start],
                elsewhere=directories.elsewhere(partition, place[1], (f.file_name for f in chosen)),
            )
        )  # fmt: skip
    return out


def _bins(handle: TableHandle, selection: Selection, units: Units) -> Iterator[_Bin]:
    """Ordered bin packing: a bin is closed before the unit that would make it too heavy."""
    target, cost = handle.options.split_target_bytes, handle.options.split_open_cost_bytes
    sizes = values(selection.entries.column("file_size"))[units.files]
    weights = np.maximum(np.add.reduceat(sizes, units.starts), cost).tolist()
    starts, modes = units.starts.tolist(), units.modes.tolist()
    groups = units.groups.tolist()
    begin, weight = 0, 0
    for i, unit_weight in enumerate(weights):
        if i > begin and (weight + unit_weight > target or groups[i] != groups[begin] or modes[i] != modes[begin]):
            yield _Bin(starts[begin], starts[i], modes[begin])
            begin, weight = i, 0
        weight += unit_weight
    yield _Bin(starts[begin], len(units.files), modes[begin])


def file_metas(entries: pa.RecordBatch, numbers: Any, *, keys: bool) -> list[DataFileMeta]:
    """The files of some entries, without the statistics and index bytes that only planning uses.

    Args:
        entries: manifest entries.
        numbers: which of them, in which order.
        keys: whether what only files of tables with keys need is wanted: smallest and largest keys, and the source.
    """
    if not len(numbers):
        return []
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
            columns[name] = _objects(array if taken is None else array.take(taken))
    return list(map(DataFileMeta, *(columns[name] for name in DataFileMeta._fields)))


def _objects(array: pa.Array) -> list[Any]:
    if pa.types.is_integer(array.type):
        numbers: list[Any] = values(array).tolist()
        if array.null_count:
            return [n if ok else None for n, ok in zip(numbers, validity(array).tolist(), strict=True)]
        return numbers
    objects: list[Any] = array.to_pylist()
    if pa.types.is_list(array.type):
        return [None if v is None else tuple(v) for v in objects]
    return objects
