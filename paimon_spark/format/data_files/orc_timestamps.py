"""ORC timestamps beyond 64-bit nanoseconds, years before 1678 and after 2261.

Arrow refuses or wraps them. A file with such values, known from its statistics, is given to Arrow with a footer
that calls the columns longs: their seconds. The fractions are decoded here and added.

Source: ORC specification v1, chapter Timestamp Columns; `TimestampColumnReader` of ORC C++ for the last second
before 1970, which files hold a second late, with every reader.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.errors import FormatError, UnsupportedFeatureError
from paimon_spark.format import orc_rle
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_types import timestamp_unit
from paimon_spark.format.arrays.nested import keys_and_values, with_children, with_elements, with_entries
from paimon_spark.format.casts.conformance import finer_timestamps
from paimon_spark.format.data_files.orc_file import (
    DIRECT_V2,
    SECONDARY,
    TIMESTAMP,
    TIMESTAMP_INSTANT,
    Tail,
    read_stream,
    read_stripe_footer,
    tail_with_longs,
)
from paimon_spark.types import ArrayType, DataField, DataType, MapType, MultisetType, RowType, TimestampType

_SAFE_MS: Final = (-9_223_372_036_000, 9_223_372_036_000)
_EPOCH_2015: Final = 1_420_070_400
_UTC: Final = frozenset(("", "UTC", "GMT", "Etc/UTC", "Etc/GMT", "Z", "UCT", "Zulu", "Etc/UCT", "Universal"))
_FRACTION: Final = {"ms": 1_000_000, "us": 1_000, "ns": 1}

I64 = npt.NDArray[np.int64]


def far_columns(tail: Tail, names: Sequence[str]) -> frozenset[int]:
    """Ids of timestamp columns, at or under the named ones, with values that may not fit 64-bit nanoseconds."""
    out: set[int] = set()
    root = tail.types[0] if tail.types else None
    if root is None:
        raise FormatError("it has no types")
    pending = [c for n, c in zip(root.names, root.children, strict=False) if n in names]
    seen = 0
    while pending:
        column = pending.pop()
        seen += 1
        if column >= len(tail.types) or seen > len(tail.types):
            raise FormatError("its types are not a tree")
        node = tail.types[column]
        pending += node.children
        if node.kind in (TIMESTAMP, TIMESTAMP_INSTANT) and not _is_near(tail, column):
            out.add(column)
    return frozenset(out)


def _is_near(tail: Tail, column: int) -> bool:
    if column >= len(tail.timestamp_ranges):
        return False
    found = tail.timestamp_ranges[column]
    return found is not None and _SAFE_MS[0] < found[0] <= found[1] < _SAFE_MS[1]


def with_longs(source: pa.NativeFile, tail: Tail, columns: frozenset[int]) -> pa.PythonFile:
    """The file as if the columns were longs. Closing it leaves `source` open."""
    return pa.PythonFile(_Overlay(source, tail.footer_start, tail_with_longs(tail, sorted(columns))), "r")


class _Overlay(io.RawIOBase):
    """A file whose end is replaced."""

    def __init__(self, source: pa.NativeFile, cut: int, end: bytes) -> None:
        self._source = source
        self._cut = cut
        self._end = end
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._cut + len(self._end))[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        total = self._cut + len(self._end)
        stop = total if size is None or size < 0 else min(total, self._at + size)
        data = b""
        if self._at < self._cut and stop > self._at:
            self._source.seek(self._at)
            data = self._source.read(min(stop, self._cut) - self._at)
        if stop > self._cut:
            data += self._end[max(0, self._at - self._cut) : stop - self._cut]
        self._at += len(data)
        return data


class Restorer:
    """Puts timestamps together again in one stripe of a file read `with_longs`."""

    def __init__(self, source: pa.NativeFile, tail: Tail, columns: frozenset[int], stripe: int) -> None:
        self._source = source
        self._tail = tail
        self._columns = columns
        self._footer = read_stripe_footer(source, tail, tail.stripes[stripe])

    def column(self, array: pa.Array, f: DataField) -> pa.Array:
        """The column with its far timestamps as such, in the unit of their type.

        Raises:
            DataError: nanosecond precision is wanted and cannot be had.
        """
        root = self._tail.types[0]
        return self._restored(array, root.children[root.names.index(f.name)], f.type)

    def _restored(self, array: pa.Array, column: int, wanted: DataType) -> pa.Array:
        if column in self._columns:
            return self._timestamps(array, column, wanted)
        node = self._tail.types[column]
        match wanted:
            case RowType() if pa.types.is_struct(array.type):
                children = []
                for i, field in enumerate(array.type):
                    inner = next((f.type for f in wanted.fields if f.name == field.name), None)
                    child = array.field(i)
                    place = node.children[node.names.index(field.name)]
                    children.append(child if inner is None else self._restored(child, place, inner))
                kind = pa.struct([pa.field(f.name, c.type) for f, c in zip(array.type, children, strict=True)])
                return with_children(array, kind, children)
            case ArrayType() if pa.types.is_list(array.type):
                values = self._restored(array.values, node.children[0], wanted.element)
                return with_elements(array, pa.list_(values.type), lambda _: values)
            case MapType() if pa.types.is_map(array.type):
                old_keys, old_items = keys_and_values(array)
                keys = self._restored(old_keys, node.children[0], wanted.key)
                items = self._restored(old_items, node.children[1], wanted.value)
                return with_entries(array, pa.map_(keys.type, items.type), lambda _: keys, lambda _: items)
            case MultisetType() if pa.types.is_map(array.type):
                old_keys, old_items = keys_and_values(array)
                keys = self._restored(old_keys, node.children[0], wanted.element)
                return with_entries(array, pa.map_(keys.type, old_items.type), lambda _: keys, None)
        return array

    def _timestamps(self, array: pa.Array, column: int, wanted: DataType) -> pa.Array:
        if not isinstance(wanted, TimestampType):
            raise FormatError(f"a timestamp of it is {wanted} in its schema")
        if self._tail.types[column].kind == TIMESTAMP and self._footer.time_zone not in _UTC:
            raise UnsupportedFeatureError(
                f"it holds timestamps outside 1677 to 2262 written in the time zone {self._footer.time_zone}; "
                "such files can be read when written in UTC",
                feature="far ORC timestamps in a local time zone",
            )
        valid = arrow_numpy.validity(array)
        nanos = np.zeros(len(array), np.int64)
        nanos[valid] = self._nanos(column, int(np.count_nonzero(valid)))
        seconds = np.where(valid, arrow_numpy.values(array), 0) + _EPOCH_2015
        seconds = seconds - ((seconds < 0) & (nanos > 999_999))
        kind = pa.timestamp(timestamp_unit(wanted.precision), "UTC" if wanted.local_zone else None)
        per_unit = _FRACTION[kind.unit]
        return finer_timestamps(seconds, 1_000_000_000 // per_unit, nanos // per_unit, valid, kind)

    def _nanos(self, column: int, count: int) -> I64:
        streams = [s for s in self._footer.streams if s.column == column and s.kind == SECONDARY]
        if count == 0:
            return np.zeros(0, np.int64)
        if not streams or column >= len(self._footer.encodings):
            raise FormatError(f"column {column} has no fractions of seconds")
        data = read_stream(self._source, self._tail, streams[0])
        decode = orc_rle.decode_v2 if self._footer.encodings[column] == DIRECT_V2 else orc_rle.decode_v1
        packed = decode(data, count)
        zeros = packed & 7
        return (packed >> 3) * np.where(zeros == 0, 1, 10 ** (zeros + 1))
