"""Editing of Parquet footers where Arrow reads or writes them differently from Java.

Java writes TIMESTAMP(7-9) as INT96, with a negative time of day before 1970. Arrow turns INT96 into
64-bit nanoseconds and silently goes around where they end; in coarser units it takes the time of day as
unsigned. As FIXED_LEN_BYTE_ARRAY(12), whose bytes lie in the file in just the same way, nothing is lost,
so INT96 columns become that when reading, and the other way when writing.

Arrow leaves NaN out of minimum and maximum; `without_bounds` removes these from column chunks.

Footers are the Thrift bytes of a FileMetaData; the functions raise FormatError for other bytes.

Source: Thrift compact protocol; parquet.thrift (FileMetaData, SchemaElement, ColumnMetaData, Statistics).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, TypeAlias

from paimon_spark.errors import FormatError

MAGIC: Final = b"PAR1"
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)
_MAX_DEPTH: Final = 32

# Numbers of fields: of FileMetaData, RowGroup, ColumnChunk, SchemaElement and ColumnMetaData.
_SCHEMA, _ROW_GROUPS, _COLUMNS, _METADATA = 2, 4, 1, 3
_TYPE, _LENGTH, _CONVERTED_TYPE, _LOGICAL_TYPE, _STATISTICS = 1, 2, 6, 10, 12
_BOUNDS: Final = frozenset((1, 2, 5, 6, 7, 8))
"""Fields of Statistics: minimum and maximum in their old and new places, and whether they are exact."""

_INT96: Final = b"\x06"
_FIXED: Final = b"\x0e"
_INT96_LENGTH: Final = b"\x18"
"""The types and the length 12, as zigzag varints."""

_Struct: TypeAlias = dict[int, tuple[int, Any]]
"""Type and value of each field: a struct or a list of them where `_SHAPE` has the field, else the value's bytes."""
_Shape: TypeAlias = "Mapping[int, _Shape]"
_SHAPE: Final[_Shape] = {_SCHEMA: {}, _ROW_GROUPS: {_COLUMNS: {_METADATA: {_STATISTICS: {}}}}}
"""The fields of a FileMetaData that are decoded, and inside them."""


def int96_as_bytes(footer: bytes) -> bytes:
    """The bytes of a FileMetaData with every INT96 column as FIXED_LEN_BYTE_ARRAY(12)."""
    root = _decoded(footer)
    for element in _structs(root, _SCHEMA):
        if _is(element, _TYPE, _INT96):
            if _LENGTH in element:
                raise FormatError("its footer gives INT96 a length")
            element[_TYPE] = _I32, _FIXED
            element[_LENGTH] = _I32, _INT96_LENGTH
    for chunks in _column_chunks(root):
        for chunk in chunks:
            if _is(chunk, _TYPE, _INT96):
                chunk[_TYPE] = _I32, _FIXED
    return _encoded(root)


def bytes_as_int96(footer: bytes) -> bytes:
    """The bytes of a FileMetaData with every FIXED_LEN_BYTE_ARRAY(12) column as INT96.

    Such columns must have no logical type; decimals, the only others of fixed length here, have one.
    """
    root = _decoded(footer)
    leaves = [element for element in _structs(root, _SCHEMA) if _TYPE in element]
    is_int96 = [
        _is(leaf, _TYPE, _FIXED)
        and _is(leaf, _LENGTH, _INT96_LENGTH)
        and _CONVERTED_TYPE not in leaf
        and _LOGICAL_TYPE not in leaf
        for leaf in leaves
    ]
    for leaf, is_wanted in zip(leaves, is_int96, strict=True):
        if is_wanted:
            leaf[_TYPE] = _I32, _INT96
            del leaf[_LENGTH]
    for chunks in _column_chunks(root):
        for chunk, is_wanted in zip(chunks, is_int96, strict=False):
            if is_wanted:
                chunk[_TYPE] = _I32, _INT96
    return _encoded(root)


def without_bounds(footer: bytes, chunks: Collection[tuple[int, int]]) -> bytes:
    """The bytes of a FileMetaData without minimum and maximum of some column chunks, (row group, column) from 0."""
    root = _decoded(footer)
    groups = _column_chunks(root)
    missing = [(g, c) for g, c in chunks if g >= len(groups) or c >= len(groups[g])]
    if missing:
        raise FormatError(f"its footer lacks the column chunks {sorted(missing)}")
    for group, column in chunks:
        statistics = groups[group][column].get(_STATISTICS)
        if statistics is not None and statistics[0] == _STRUCT:
            for number in _BOUNDS & statistics[1].keys():
                del statistics[1][number]
    return _encoded(root)


def as_file(footer: bytes) -> bytes:
    """A Parquet file of nothing but a footer."""
    return MAGIC + footer + len(footer).to_bytes(4, "little") + MAGIC


def _is(struct: _Struct, number: int, value: bytes) -> bool:
    return struct.get(number) == (_I32, value)


def _structs(struct: _Struct, number: int) -> list[_Struct]:
    """The structs in a list field, which may be missing."""
    found = struct.get(number)
    return found[1] if found is not None and found[0] == _LIST else []


def _column_chunks(root: _Struct) -> list[list[_Struct]]:
    """The ColumnMetaData of every row group; an empty struct for a chunk without."""
    none: tuple[int, Any] = _STRUCT, {}
    chunks = [[c.get(_METADATA, none) for c in _structs(g, _COLUMNS)] for g in _structs(root, _ROW_GROUPS)]
    return [[value if kind == _STRUCT else {} for kind, value in group] for group in chunks]


def _decoded(footer: bytes) -> _Struct:
    reader = _Reader(footer)
    try:
        return reader.struct(_SHAPE)
    except (IndexError, RecursionError) as e:
        raise FormatError("its footer is cut short") from e


class _Reader:
    """Reads values of the Thrift compact protocol; IndexError where the bytes end."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def struct(self, shape: _Shape) -> _Struct:
        """A struct with the structs and lists that `shape` names decoded, everything else as bytes."""
        out: _Struct = {}
        data = self.data
        for number, kind in self.fields():
            start = self.at
            inner = shape.get(number)
            if inner is None or kind not in (_STRUCT, _LIST):
                self.skip(kind)
                out[number] = kind, data[start : self.at]
            elif kind == _STRUCT:
                out[number] = kind, self.struct(inner)
            else:
                size, item = self.list_header()
                if item != _STRUCT:
                    raise FormatError("its footer has a list of an unexpected type")
                out[number] = kind, [self.struct(inner) for _ in range(size)]
        return out

    def fields(self) -> Iterator[tuple[int, int]]:
        """Number and type of each field of a struct; the caller goes past its value."""
        number = 0
        while True:
            header = self.data[self.at]
            self.at += 1
            if header == _STOP:
                return
            if header >> 4:
                number += header >> 4
            else:
                raw = self.varint()
                number = (raw >> 1) ^ -(raw & 1)
            yield number, header & 15

    def list_header(self) -> tuple[int, int]:
        header = self.data[self.at]
        self.at += 1
        size = header >> 4 if header < 0xF0 else self.varint()
        if size > len(self.data):
            raise FormatError("its footer has a list longer than itself")
        return size, header & 15

    def varint(self) -> int:
        value = self.data[self.at]
        self.at += 1
        if value < 0x80:
            return value
        value &= 0x7F
        for shift in range(7, 70, 7):
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise FormatError("its footer has a number of more than ten bytes")

    def skip(self, kind: int, depth: int = 0) -> None:
        if depth > _MAX_DEPTH:
            raise FormatError("its footer nests too deep")
        match kind:
            case 1 | 2:  # _TRUE, _FALSE: in a field, the type is the value
                pass
            case 3:  # _BYTE
                self.at += 1
            case 4 | 5 | 6:  # _I16, _I32, _I64
                self.varint()
            case 7:  # _DOUBLE
                self.at += 8
            case 8:  # _BINARY
                size = self.varint()
                self.at += size
            case 9 | 10:  # _LIST, _SET
                size, inner = self.list_header()
                for _ in range(size):
                    self.skip(_BYTE if inner in (_TRUE, _FALSE) else inner, depth + 1)
            case 11:  # _MAP
                size = self.varint()
                kinds = self.data[self.at] if size else 0
                self.at += 1 if size else 0
                if size > len(self.data):
                    raise FormatError("its footer has a map longer than itself")
                for _ in range(size):
                    self.skip(kinds >> 4, depth + 1)
                    self.skip(kinds & 15, depth + 1)
            case 12:  # _STRUCT
                for _, inner in self.fields():
                    self.skip(inner, depth + 1)
            case _:
                raise FormatError("its footer is not Thrift")
        if self.at > len(self.data):
            raise FormatError("its footer is cut short")


def _encoded(struct: _Struct) -> bytes:
    out, last = bytearray(), 0
    for number in sorted(struct):
        kind, value = struct[number]
        step = number - last
        if 0 < step < 16:
            out.append(step << 4 | kind)
        else:
            out.append(kind)
            out += _varint(number << 1 ^ number >> 63)
        if isinstance(value, bytes):
            out += value
        elif isinstance(value, list):
            size = len(value)
            out += bytes((size << 4 | _STRUCT,)) if size < 15 else bytes((0xF0 | _STRUCT,)) + _varint(size)
            out += b"".join(map(_encoded, value))
        else:
            out += _encoded(value)
        last = number
    out.append(_STOP)
    return bytes(out)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))
