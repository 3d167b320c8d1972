"""Sections and sorted runs: which files of a bucket must be merged with each other.

Source: Java `mergetree/compact/IntervalPartition`, `mergetree/SortedRun`.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from paimon_spark.engine.merge.exact_values import order_key
from paimon_spark.errors import CorruptFileError, FormatError
from paimon_spark.format import binary_row
from paimon_spark.format.binary_row import MICROSECOND_DIGITS, REST_OF_MICROSECOND
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.types import DataType, TimestampType

Ranks: TypeAlias = npt.NDArray[np.int64]

_ABOVE_ALL: Final = 2
"""First part of an order key that is greater than all of `order_key`."""


class Section(NamedTuple):
    """Files with overlapping key ranges; no key of one section occurs in another.

    Attributes:
        runs: sorted runs; each is numbers of files whose key ranges ascend without touching.
    """

    runs: tuple[tuple[int, ...], ...]

    @property
    def files(self) -> tuple[int, ...]:
        return tuple(f for run in self.runs for f in run)


def key_ranks(files: Sequence[DataFileMeta], key_types: Sequence[DataType]) -> Ranks:
    """Ranks of files' smallest and largest keys in one order, as rows (smallest, largest) per file.

    The format guarantees the ranges: a file is sorted, and its first and last key are in its manifest entry; Java
    too finds files of the same keys by them. Two ways are known in which writers keep less than the key, and both
    are read as the widest range they can stand for. Early versions of Paimon's Rust library write null for keys of
    types other than integers and text: a null is less than every key as the smallest one, greater as the largest.
    pypaimon cuts timestamps off at microseconds: see `decode_upper_bounds`.

    Raises:
        CorruptFileError: a file's key is not a row of `key_types`.
    """
    bounds = [(_order_keys(f, f.min_key, key_types), _order_keys(f, f.max_key, key_types, largest=True)) for f in files]
    rank = {key: n for n, key in enumerate(sorted({key for pair in bounds for key in pair}))}
    return np.array([(rank[low], rank[high]) for low, high in bounds], np.int64)


def _order_keys(
    file: DataFileMeta, row: bytes, key_types: Sequence[DataType], *, largest: bool = False
) -> tuple[object, ...]:
    try:
        values = binary_row.decode(row, key_types, raw_timestamps=True)
        if largest:
            return tuple(_largest(v, t) for v, t in zip(values, key_types, strict=True))
        return tuple(order_key(v) for v in values)
    except FormatError as e:
        raise CorruptFileError(
            f"the manifest entry of {file.file_name} has a smallest or largest key that cannot be read: {e}",
            path=file.file_name,
        ) from e


def _largest(value: binary_row.Value, dtype: DataType) -> tuple[int, object]:
    """The order key of the largest key that `value` can stand for."""
    if value is None:
        return _ABOVE_ALL, 0
    if isinstance(dtype, TimestampType) and dtype.precision > MICROSECOND_DIGITS:
        assert isinstance(value, tuple)
        millis, nanos = value
        value = (millis, nanos if nanos % 1000 else nanos + REST_OF_MICROSECOND)
    return order_key(value)


def sections(ranks: Ranks) -> list[Section]:
    """Files in sections, in key order. `ranks` are (smallest, largest) key ranks per file."""
    out: list[Section] = []
    members: list[int] = []
    bound = -1
    for number in np.lexsort((ranks[:, 1], ranks[:, 0])).tolist():
        low, high = int(ranks[number, 0]), int(ranks[number, 1])
        if members and low > bound:
            out.append(_runs(members, ranks))
            members, bound = [], -1
        members.append(number)
        bound = max(bound, high)
    if members:
        out.append(_runs(members, ranks))
    return out


def _runs(members: list[int], ranks: Ranks) -> Section:
    """Distribute the files of a section to as few sorted runs as possible."""
    heap: list[tuple[int, int, list[int]]] = []
    for number in members:
        low, high = int(ranks[number, 0]), int(ranks[number, 1])
        if heap and low > heap[0][0]:
            _, serial, run = heap[0]
            run.append(number)
            heapq.heapreplace(heap, (high, serial, run))
        else:
            heapq.heappush(heap, (high, len(heap), [number]))
    return Section(tuple(tuple(run) for _, _, run in sorted(heap, key=lambda entry: entry[1])))


def oldest_first(section: Section, files: Sequence[DataFileMeta]) -> tuple[Section, bool]:
    """The section with its runs sorted from old to new, and whether that alone orders the rows of a key.

    It does when the sequence numbers of the runs do not overlap and the manifest entries have exact ones.
    """
    spans = [
        (
            min(files[f].min_sequence_number for f in run),
            max(files[f].max_sequence_number for f in run),
            run,
        )
        for run in section.runs
    ]
    spans.sort(key=lambda span: span[:2])
    disjoint = all(older[1] < newer[0] for older, newer in itertools.pairwise(spans))
    disjoint = disjoint and all(files[f].has_exact_sequences for f in section.files)
    return Section(tuple(run for _, _, run in spans)), disjoint


def competing_levels(section: Section, files: Sequence[DataFileMeta]) -> bool:
    """Whether files of more than one level above 0 take part, so that only the smallest may count."""
    return len({files[f].level for f in section.files if files[f].level > 0}) > 1
