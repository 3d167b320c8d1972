"""Indexes of a new data file.

Source: Java `io/DataFileIndexWriter`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.format.arrays.arrow_numpy import scalar
from paimon_spark.format.file_index.bitmap import BitmapBuilder
from paimon_spark.format.file_index.bloom_filter import BloomFilterBuilder
from paimon_spark.format.file_index.container import write_container
from paimon_spark.format.file_index.indexes import IndexKind
from paimon_spark.format.file_index.keys import KeyType, key_type, keys_of
from paimon_spark.format.file_index.range_bitmap import RangeBitmapBuilder
from paimon_spark.options.file_index import IndexOption
from paimon_spark.types import AtomicType, BinaryType, DataField, DecimalType, MapType, TimestampType

_MICROS: Final = 6
_WRITTEN: Final = frozenset(kind.value for kind in IndexKind)


class _Builder(Protocol):
    def add(self, keys: pa.Array) -> None: ...

    def finish(self) -> bytes: ...


class FileIndexBuilder:
    """Builds the indexes of one data file from its rows."""

    def __init__(self, fields: Sequence[DataField], indexes: Sequence[IndexOption]) -> None:
        """Indexes of columns that the file does not store, and of kinds of other engines, are left out.

        Raises as `builder_of`.
        """
        names = [f.name for f in fields]
        self._parts = [
            (names.index(i.column), i, *builder_of(fields[names.index(i.column)], i))
            for i in indexes
            if i.column in names and i.kind in _WRITTEN
        ]

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, columns: Sequence[pa.Array]) -> None:
        """Add rows: their columns, of the fields."""
        for number, index, kind, builder in self._parts:
            array = columns[number]
            if index.key is not None:
                array = pc.map_lookup(array, query_key=scalar(index.key, pa.string()), occurrence="first")
            builder.add(keys_of(array, kind))

    def finish(self) -> bytes:
        """The bytes of the file with the indexes."""
        found: dict[str, dict[str, bytes | None]] = {}
        for _, index, _, builder in self._parts:
            name = index.column if index.key is None else f"{index.column}[{index.key}]"
            found.setdefault(name, {})[index.kind] = builder.finish()
        return write_container(found)


def builder_of(f: DataField, index: IndexOption) -> tuple[KeyType, _Builder]:
    """A builder of an index of a column.

    Raises:
        UnsupportedFeatureError: an index of another kind, or of a type that it does not take.
        InvalidOptionError: an option of the index.
    """
    t = f.type
    if index.key is not None and isinstance(t, MapType):
        t = t.value
    kind = key_type(t)
    if kind is None or not _takes(index.kind, kind):
        raise UnsupportedFeatureError(
            f"option file-index.{index.kind}.columns: a {index.kind} index of column {f.name} of type {f.type} cannot "
            f"be written; leave it out of the option",
            feature=f"file-index.{index.kind} of {f.type}",
            column=f.name,
        )
    match index.kind:
        case IndexKind.BLOOM_FILTER:
            return kind, BloomFilterBuilder(kind, index.items, index.false_positives)
        case IndexKind.BITMAP:
            return kind, BitmapBuilder(kind, index.version, index.block_bytes)
    return kind, RangeBitmapBuilder(kind, index.chunk_bytes)


def _takes(index: str, kind: KeyType) -> bool:
    """Whether an index takes values of a type, as in Java."""
    t = kind.type
    match index:
        case IndexKind.BLOOM_FILTER:
            return not (isinstance(t, DecimalType) or (isinstance(t, AtomicType) and t.name == "BOOLEAN"))
        case IndexKind.BITMAP:
            return not isinstance(t, DecimalType | BinaryType)
        case IndexKind.RANGE_BITMAP:
            return not isinstance(t, BinaryType) and not (isinstance(t, TimestampType) and t.precision > _MICROS)
    return False
