"""Editing of Parquet footers where Arrow reads or writes them differently from Java.

Java writes TIMESTAMP(7-9) as INT96, with a negative time of day before 1970. Arrow turns INT96 into
64-bit nanoseconds and silently goes around where they end; in coarser units it takes the time of day as
unsigned. As FIXED_LEN_BYTE_ARRAY(12), whose bytes lie in the file in just the same way, nothing is lost,
so INT96 columns become that when reading, and the other way when writing.

Arrow leaves NaN out of minimum and maximum; `without_bounds` removes these from column chunks.

Source: Thrift compact protocol; parquet.thrift (FileMetaData, SchemaElement, ColumnMetaData, Statistics).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from paimon_spark.errors import FormatError

MAGIC: Final = b"PAR1"
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)
_INT96_BYTES: Final = 12
_INT96_ZIGZAG: Final = 6
_FIXED_ZIGZAG: Final = 14
_CONVERTED_TYPE: Final = 6
_LOGICAL_TYPE: Final = 10
_STATISTICS: Final = 12
_BOUNDS: Final = frozenset((1, 2, 5, 6, 7, 8))
"""Minimum and maximum in their old and new fields, and whether they are exact."""
_LENGTH_FIELD: Final = bytes((0x10 | _I32, 24))
_MAX_DEPTH: Final = 32


class _Edit(NamedTuple):
    at: int
    removed: int
    inserted: bytes


def int96_as_bytes(footer: bytes) -> bytes:
    """The Thrift bytes of a FileMetaData in which every INT96 column is FIXED_LEN_BYTE_ARRAY(12).

    Raises:
        FormatError: not a FileMetaData.
    """
    return _edited(_Walk(footer))


def bytes_as_int96(footer: bytes) -> bytes:
    """The Thrift bytes of a FileMetaData in which every FIXED_LEN_BYTE_ARRAY(12) column is INT96.

    Such columns must have no logical type; decimals, the only others of fixed length here, have one.

    Raises:
        FormatError: not a FileMetaData.
    """
    return _edited(_Int96Walk(footer))


def without_bounds(footer: bytes, chunks: Collection[tuple[int, int]]) -> bytes:
    """The Thrift bytes of a FileMetaData in which some column chunks have no minimum and maximum.

    Args:
        footer: the FileMetaData; no column is INT96.
        chunks: numbers of row group and column, both from 0.

    Raises:
        FormatError: not a FileMetaData, or one of fewer row groups or columns.
    """
    walk = _BoundsWalk(footer, chunks)
    edited = _edited(walk)
    if walk.missing:
        raise FormatError(f"its footer lacks the column chunks {sorted(walk.missing)}")
    return edited


def _edited(walk: _Walk) -> bytes:
    footer = walk.data
    try:
        walk.file_metadata()
    except (IndexError, RecursionError) as e:
        raise FormatError("its footer is cut short") from e
    out, last = bytearray(), 0
    for edit in walk.edits:
        out += footer[last : edit.at] + edit.inserted
        last = edit.at + edit.removed
    return bytes(out + footer[last:])


def as_file(footer: bytes) -> bytes:
    """A Parquet file of nothing but a footer."""
    return MAGIC + footer + len(footer).to_bytes(4, "little") + MAGIC


class _Walk:
    """Goes through a FileMetaData and notes what to change."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.edits: list[_Edit] = []

    def file_metadata(self) -> None:
        for number, kind in self.fields():
            if number == 2 and kind == _LIST:
                for _ in range(self.list_of(_STRUCT)):
                    self.schema_element()
            elif number == 4 and kind == _LIST:
                for _ in range(self.list_of(_STRUCT)):
                    self.row_group()
            else:
                self.skip(kind)

    def schema_element(self) -> None:
        is_int96 = False
        for number, kind in self.fields():
            start = self.at
            if number == 1 and kind == _I32:
                is_int96 = self.varint() == _INT96_ZIGZAG
                if is_int96:
                    self.edits.append(_Edit(start, self.at - start, bytes((_FIXED_ZIGZAG,)) + _LENGTH_FIELD))
                    self.lengthen()
                continue
            if number == 2 and is_int96:
                raise FormatError("its footer gives INT96 a length")
            self.skip(kind)

    def lengthen(self) -> None:
        """Make the next field's header count from the length field put before it."""
        header = self.data[self.at]
        if header >> 4:
            self.edits.append(_Edit(self.at, 1, bytes((header - 0x10,))))

    def row_group(self) -> None:
        for number, kind in self.fields():
            if number == 1 and kind == _LIST:
                for _ in range(self.list_of(_STRUCT)):
                    self.column_chunk()
            else:
                self.skip(kind)

    def column_chunk(self) -> None:
        for number, kind in self.fields():
            if number == 3 and kind == _STRUCT:
                self.column_metadata()
            else:
                self.skip(kind)

    def column_metadata(self) -> None:
        for number, kind in self.fields():
            start = self.at
            if number == 1 and kind == _I32:
                if self.varint() == _INT96_ZIGZAG:
                    self.edits.append(_Edit(start, self.at - start, bytes((_FIXED_ZIGZAG,))))
            else:
                self.skip(kind)

    def fields(self) -> Iterator[tuple[int, int]]:
        """Number and type of each field of a struct; the caller goes past its value."""
        number = 0
        while True:
            header = self.data[self.at]
            self.at += 1
            if header == _STOP:
                return
            delta = header >> 4
            if delta:
                number += delta
            else:
                raw = self.varint()
                number = (raw >> 1) ^ -(raw & 1)
            yield number, header & 15

    def list_of(self, kind: int) -> int:
        size, found = self.list_header()
        if found != kind:
            raise FormatError("its footer has a list of an unexpected type")
        return size

    def list_header(self) -> tuple[int, int]:
        header = self.data[self.at]
        self.at += 1
        size = header >> 4
        if size == 15:
            size = self.varint()
        if size > len(self.data):
            raise FormatError("its footer has a list longer than itself")
        return size, header & 15

    def varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
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
            case 1 | 2:
                pass
            case 3:
                self.at += 1
            case 4 | 5 | 6:
                self.varint()
            case 7:
                self.at += 8
            case 8:
                size = self.varint()
                self.at += size
            case 9 | 10:
                size, inner = self.list_header()
                for _ in range(size):
                    self.skip(3 if inner in (_TRUE, _FALSE) else inner, depth + 1)
            case 11:
                size = self.varint()
                kinds = self.data[self.at] if size else 0
                self.at += 1 if size else 0
                if size > len(self.data):
                    raise FormatError("its footer has a map longer than itself")
                for _ in range(size):
                    self.skip(kinds >> 4, depth + 1)
                    self.skip(kinds & 15, depth + 1)
            case 12:
                for _, inner in self.fields():
                    self.skip(inner, depth + 1)
            case _:
                raise FormatError("its footer is not Thrift")
        if self.at > len(self.data):
            raise FormatError("its footer is cut short")


class _Int96Walk(_Walk):
    """Goes through a FileMetaData and notes how its columns of 12 bytes become INT96."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.is_int96: list[bool] = []
        self.chunks = 0

    def schema_element(self) -> None:
        type_at, is_leaf, is_fixed, is_annotated = 0, False, False, False
        length, length_ends = 0, 0
        for number, kind in self.fields():
            start = self.at
            if number == 1 and kind == _I32:
                type_at, is_leaf = start, True
                is_fixed = self.varint() == _FIXED_ZIGZAG
            elif number == 2 and kind == _I32:
                length, length_ends = self.varint() >> 1, self.at
            else:
                is_annotated |= number in (_CONVERTED_TYPE, _LOGICAL_TYPE)
                self.skip(kind)
        if not is_leaf:
            return
        self.is_int96.append(is_fixed and length == _INT96_BYTES and not is_annotated)
        if self.is_int96[-1]:
            self.edits.append(_Edit(type_at, 1, bytes((_INT96_ZIGZAG,))))
            self.edits.append(_Edit(type_at + 1, length_ends - type_at - 1, b""))
            header = self.data[length_ends]
            if header >> 4:  # counted from the length field that went
                self.edits.append(_Edit(length_ends, 1, bytes((header + 0x10,))))

    def column_metadata(self) -> None:
        is_int96 = self.is_int96[self.chunks % len(self.is_int96)]
        self.chunks += 1
        for number, kind in self.fields():
            if number == 1 and kind == _I32 and is_int96:
                self.edits.append(_Edit(self.at, 1, bytes((_INT96_ZIGZAG,))))
            self.skip(kind)


class _BoundsWalk(_Walk):
    """Goes through a FileMetaData and notes how statistics lose minimum and maximum."""

    def __init__(self, data: bytes, chunks: Collection[tuple[int, int]]) -> None:
        super().__init__(data)
        self.missing = set(chunks)
        self.group = self.column = -1

    def row_group(self) -> None:
        self.group, self.column = self.group + 1, -1
        super().row_group()

    def column_chunk(self) -> None:
        self.column += 1
        super().column_chunk()

    def column_metadata(self) -> None:
        is_wanted = (self.group, self.column) in self.missing
        self.missing.discard((self.group, self.column))
        for number, kind in self.fields():
            start = self.at
            if number == _STATISTICS and kind == _STRUCT and is_wanted:
                kept = self.without_fields(_BOUNDS)
                self.edits.append(_Edit(start, self.at - start, kept))
            else:
                self.skip(kind)

    def without_fields(self, gone: Collection[int]) -> bytes:
        """Go past a struct; its bytes without some of its fields, which are numbered 1 to 15."""
        out, last = bytearray(), 0
        for number, kind in self.fields():
            start = self.at
            self.skip(kind)
            if number not in gone:
                out += bytes((number - last << 4 | kind,)) + self.data[start : self.at]
                last = number
        return bytes(out) + bytes((_STOP,))
