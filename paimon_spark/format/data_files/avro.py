"""Reader and writer of Avro data files.

Values come raw from the decoder; logical types only tell units. That is why it does not matter that Java
writes TIMESTAMP and TIMESTAMP_LTZ under swapped names: both are counts since 1970, in UTC.

Source: Paimon spec, chapter Data file; Java `format/avro/AvroSchemaConverter`, `FieldReaderFactory`,
`AvroFileFormat`, `AvroRowDatumWriter`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from paimon_spark.errors import FormatError, UnsupportedFeatureError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_types import arrow_type, timestamp_unit
from paimon_spark.format.arrays.nested import (
    Convert,
    LeafReplacement,
    convert_table,
    converted,
    replaced_fields,
    with_children,
    with_elements,
    with_entries,
)
from paimon_spark.format.arrays.pieces import cut, together
from paimon_spark.format.avro_codec import decoder, encoder
from paimon_spark.format.avro_codec.container import AvroType, Block, Container, FileSchema, stream_container
from paimon_spark.format.avro_codec.encoder import ContainerWriter
from paimon_spark.format.casts.conformance import conformed, conformer
from paimon_spark.format.casts.timestamps import rescale
from paimon_spark.format.data_files.requests import FileRead, FileWrite, RowGroupWriter, Rows, WrittenFile
from paimon_spark.options.descriptor import Option, string
from paimon_spark.types import (
    ArrayType,
    AtomicType,
    BinaryType,
    CharType,
    DataField,
    DataType,
    DecimalType,
    MapType,
    MultisetType,
    OpaqueType,
    RowType,
    TimestampType,
    TimeType,
    VectorType,
    types_in,
)

_WINDOW_BYTES: Final = 16 << 20
_GROUP_BYTES: Final = 8 << 20
_GROUP_BLOCKS: Final = 1024
_DECIMAL_BYTES: Final = 16
_UNITS: Final = {"millis": "ms", "micros": "us", "nanos": "ns"}


def read_avro(read: FileRead) -> Iterator[Rows]:
    """The rows of an Avro file, in file order.

    Raises:
        FormatError, pa.ArrowException: the file is not what its schema and manifest say.
        UnsupportedFeatureError: its codec is not known.
    """
    store, path = read.store, read.path
    first = 0
    columns: list[tuple[int, Convert | None]] | None = None
    for part in stream_container(lambda at, length: store.read_range(path, at, length), store.url(path), _WINDOW_BYTES):
        if columns is None:
            columns = _columns(part, read.fields)
        if first + part.count > read.row_count:
            raise FormatError(f"it holds more than {first + part.count} rows, its manifest says {read.row_count}")
        for at, group in _block_groups(part, read, first):
            yield from _decoded(group, read, columns, at)
        first += part.count
    if first != read.row_count:
        raise FormatError(f"it holds {first} rows, its manifest says {read.row_count}")


def _columns(container: Container, fields: Sequence[DataField]) -> list[tuple[int, Convert | None]]:
    """Where the fields are in the records of a file, and how they become canonical. Raises FormatError."""
    record = _unwrapped(container.type)
    if record.kind != "record":
        raise FormatError(f"its schema is {record.kind}, not a record")
    places = _places(record)
    return [_column(places, record, f) for f in fields]


def _places(record: AvroType) -> dict[str, int]:
    """Where a record has its fields; the first one of a name."""
    return {name: i for i, name in reversed([*enumerate(record.names)])}


def _decoded(
    group: Container, read: FileRead, columns: Sequence[tuple[int, Convert | None]], first: int
) -> Iterator[Rows]:
    """The rows of consecutive blocks; `first` is the position of the first of them."""
    for rows in decoder.iter_arrays([group]):
        if rows.null_count:
            raise FormatError("a row of it is null")
        arrays = [
            pa.nulls(len(rows), arrow_type(f.type)) if i < 0 else conformed(rows.field(i), convert, f.name)
            for f, (i, convert) in zip(read.fields, columns, strict=True)
        ]
        for start in range(0, len(rows), read.batch_rows):
            n = min(read.batch_rows, len(rows) - start)
            yield Rows(first + start, n, [a.slice(start, n) for a in arrays])
        first += len(rows)


def _block_groups(container: Container, read: FileRead, first: int) -> Iterator[tuple[int, Container]]:
    """Blocks to decode together, with the position of their first row: enough to be quick, few enough to be small.

    Blocks without wanted rows are left out; `first` is the position of the first row of the container.
    """
    group: list[Block] = []
    size, start, at = 0, 0, first
    for number, block in enumerate(container.blocks, container.first_block):
        is_wanted = read.wants(at, block.rows)
        is_full = size + block.size > _GROUP_BYTES or len(group) == _GROUP_BLOCKS
        if group and (is_full or not is_wanted):
            yield start, replace(container, blocks=tuple(group), first_block=number - len(group))
            group, size = [], 0
        if is_wanted:
            start = start if group else at
            group.append(block)
            size += block.size
        at += block.rows
    if group:
        last = container.first_block + len(container.blocks)
        yield start, replace(container, blocks=tuple(group), first_block=last - len(group))


def _column(places: Mapping[str, int], record: AvroType, f: DataField, inside: str = "") -> tuple[int, Convert | None]:
    """Where the field is in a record of the file, -1 for nowhere, and how it becomes canonical."""
    number = places.get(f.name)
    if number is None:
        return -1, None
    return number, _conformer(record.inner[number], f.type, inside + f.name)


def _unwrapped(t: AvroType) -> AvroType:
    """The type itself of a nullable type."""
    return t if t.null_branch is None else t.inner[1 - t.null_branch]


def _conformer(found: AvroType, wanted: DataType, path: str) -> Convert | None:
    """How raw arrays of `found` become canonical arrays of `wanted`. Raises FormatError."""
    found = _unwrapped(found)
    target = arrow_type(wanted)
    match wanted:
        case RowType():
            return _row(found, wanted, target, path)
        case ArrayType() if found.kind == "array":
            element = _conformer(found.inner[0], wanted.element, path + ".element")
            return lambda a: with_elements(a, target, element)
        case MapType(_, key, value):
            return _map(found, key, value, target, path)
        case MultisetType(_, element_type):
            return _map(found, element_type, None, target, path)
        case DecimalType() if found.kind in ("bytes", "fixed"):
            scale = int((found.attributes or {}).get("scale", wanted.scale))
            return lambda a: decimals(a.cast(pa.binary()), wanted, scale)
        case TimestampType() if found.kind == "long":
            logical = (found.logical or "").rpartition("-")[2]
            unit = pa.timestamp(_UNITS.get(logical, timestamp_unit(wanted.precision)))
            return lambda a: rescale(a.cast(unit), target)
    return conformer(decoder.arrow_type(found), wanted, path)


def _row(found: AvroType, wanted: RowType, target: pa.DataType, path: str) -> Convert:
    if found.kind != "record":
        raise FormatError(f"column {path} is {found.kind} in the file, its schema says {wanted}")
    steps: list[tuple[int, Convert | None]] = []
    places = _places(found)
    for f in wanted.fields:
        step = _column(places, found, f, path + ".")
        if step[0] < 0:
            raise FormatError(f"column {path}.{f.name} is not in the file, which has {', '.join(found.names)}")
        steps.append(step)

    def convert(array: pa.Array) -> pa.Array:
        fields = array.flatten()
        return with_children(array, target, [converted(fields[i], c) for i, c in steps])

    return convert


def _map(found: AvroType, key: DataType, value: DataType | None, target: pa.DataType, path: str) -> Convert:
    """A map, from Avro's own or from an array of entries. `value` None stands for the counts of a multiset."""
    if found.kind == "map":
        inner = None if value is None else _conformer(found.inner[0], value, path + ".value")
        return lambda a: with_entries(a, target, None, inner)
    entry = _unwrapped(found.inner[0]) if found.kind == "array" else None
    if entry is None or entry.kind != "record" or set(entry.names) != {"key", "value"}:
        raise FormatError(f"column {path} is {found.kind} in the file, its schema says it is a map")
    at_key, at_value = entry.names.index("key"), entry.names.index("value")
    keys = _conformer(entry.inner[at_key], key, path + ".key")
    values = None if value is None else _conformer(entry.inner[at_value], value, path + ".value")

    def convert(array: pa.ListArray) -> pa.MapArray:
        entries = array.values
        children = [converted(entries.field(at_key), keys), converted(entries.field(at_value), values)]
        if children[0].null_count:
            raise FormatError(f"column {path} has a null map key")
        kind = pa.struct([target.key_field, target.item_field])
        pairs = pa.Array.from_buffers(kind, len(entries), [None], null_count=0, children=children)
        return pa.Array.from_buffers(
            target, len(array), array.buffers()[:2], array.null_count, array.offset, children=[pairs]
        )

    return convert


def decimals(array: pa.BinaryArray, wanted: DecimalType, scale: int) -> pa.Array:
    """Decimals from big-endian two's complement bytes of any length up to 16.

    Raises FormatError for empty or longer values, pa.ArrowInvalid for more digits than the type has.
    """
    offsets, raw = arrow_numpy.byte_slices(array)
    valid = arrow_numpy.validity(array)
    ends, sizes = offsets[1:], np.diff(offsets)
    if bool(((sizes < 1) | (sizes > _DECIMAL_BYTES))[valid].any()):
        raise FormatError(f"a {wanted} has no bytes or more than {_DECIMAL_BYTES}")
    ends, sizes = ends[valid], sizes[valid]
    fill = np.where(raw[ends - sizes] >= 0x80, np.uint8(0xFF), np.uint8(0)) if len(ends) else np.empty(0, np.uint8)
    little = np.zeros((len(array), _DECIMAL_BYTES), np.uint8)
    for k in range(_DECIMAL_BYTES):
        little[valid, k] = np.where(sizes > k, raw[np.maximum(ends - 1 - k, 0)], fill) if len(ends) else 0
    bitmap = arrow_numpy.validity_bitmap(valid)
    stored = pa.Array.from_buffers(pa.decimal128(38, scale), len(array), [bitmap, pa.py_buffer(little)])
    stored.validate(full=True)
    return stored.cast(arrow_type(wanted))


CODEC: Option[str | None] = Option("avro.codec", string, None, "Compression; wins over all others.")

_STEP_ROWS: Final = 32 << 10
_STEP_BYTES: Final = 8 << 20
_BLOCK_BYTES: Final = 64_000


class AvroFileWriter(RowGroupWriter):
    """Writes one Avro file; see `requests.FileWriter`."""

    def __init__(self, write: FileWrite) -> None:
        super().__init__(write.fields, _STEP_BYTES, _STEP_ROWS)
        schema = FileSchema(file_schema(write.fields, write.row_is_nullable))
        self._type = schema.type
        self._schema, self._converts = replaced_fields(
            self._canonical,
            lambda kind: LeafReplacement(pa.binary(), decimal_bytes) if pa.types.is_decimal128(kind) else None,
        )
        codec = CODEC.get(write.settings) or (write.compression or "zstd").lower().replace("none", "null")
        self._container = ContainerWriter(schema, codec, write.zstd_level)
        self._out = write.store.open_output(write.path)

    @property
    def estimated_bytes(self) -> int:
        return self._container.size + self.buffered_bytes // 2

    def close(self) -> WrittenFile:
        self.flush()
        self._out.write(self._container.drain())
        self._out.close()
        return WrittenFile(self._container.size, self.row_count)

    def abort(self) -> None:
        with suppress(Exception):
            self._out.close()

    def encode(self, table: pa.Table, rows: int) -> None:
        batches = together(convert_table(table, self._schema, self._converts).to_batches())
        for batch in (part for whole in batches for part in cut(whole, most_rows=rows)):
            records = encoder.encode(batch.to_struct_array(), self._type)
            size = max(records.nbytes // len(records), 1)
            for count, payload in encoder.slices(records, max(_BLOCK_BYTES // size, 1)):
                self._container.add(count, payload)
        self._out.write(self._container.drain())


def decimal_bytes(array: pa.Array) -> pa.Array:
    """Unscaled values as the fewest big-endian bytes of two's complement."""
    raw = np.frombuffer(array.buffers()[1], np.uint8, len(array) * _DECIMAL_BYTES, array.offset * _DECIMAL_BYTES)
    big = raw.reshape(-1, _DECIMAL_BYTES)[:, ::-1]
    sign = np.where(big[:, :1] >= 0x80, np.uint8(0xFF), np.uint8(0))
    # A byte can go when all before it can, it is but sign, and the next one tells the same sign.
    spare = (big[:, :-1] == sign) & ((big[:, 1:] ^ sign) < 0x80)
    needed = np.ones(big.shape, np.bool_)
    needed[:, :-1] = ~np.logical_and.accumulate(spare, axis=1)
    valid = arrow_numpy.valid_or_none(array)
    if valid is not None:
        needed &= valid[:, None]
    offsets = arrow_numpy.offsets_of(needed.sum(axis=1))
    bitmap = arrow_numpy.validity_bitmap(valid)
    return pa.Array.from_buffers(pa.binary(), len(array), [bitmap, pa.py_buffer(offsets), pa.py_buffer(big[needed])])


_RECORD: Final = "org.apache.paimon.avro.generated.record"
_ATOMIC: Final = {
    "BOOLEAN": "boolean", "TINYINT": "int", "SMALLINT": "int", "INT": "int", "BIGINT": "long",
    "FLOAT": "float", "DOUBLE": "double",
}  # fmt: skip
_TIME_DIGITS: Final = 3
_TIMESTAMP_DIGITS: Final = 6


def fits_avro(t: DataType) -> bool:
    """Whether Avro files can hold values of the type."""
    for part in types_in(t):
        match part:
            case AtomicType(name="VARIANT") | OpaqueType() | VectorType():
                return False
            case TimeType() if part.precision > _TIME_DIGITS:
                return False
            case TimestampType() if part.precision > _TIMESTAMP_DIGITS:
                return False
    return True


def file_schema(fields: Sequence[DataField], row_is_nullable: bool) -> Any:
    """The schema of a file of such rows, as JSON.

    Raises UnsupportedFeatureError for types that Avro files cannot hold.
    """
    for f in fields:
        if not fits_avro(f.type):
            raise UnsupportedFeatureError(
                f"column {f.name} is {f.type}, which Avro files cannot hold; use file.format = parquet",
                feature=f"{f.type} in Avro",
            )
    return _schema(RowType(row_is_nullable, tuple(fields)), _RECORD)


def _schema(t: DataType, record: str) -> Any:
    found = _not_null(t, record)
    return ["null", found] if t.nullable else found


def _not_null(t: DataType, record: str) -> Any:
    match t:
        case AtomicType():
            return {"type": "int", "logicalType": "date"} if t.name == "DATE" else _ATOMIC[t.name]
        case CharType():
            return "string"
        case BinaryType():
            return "bytes"
        case DecimalType():
            return {"type": "bytes", "logicalType": "decimal", "precision": t.precision, "scale": t.scale}
        case TimeType():
            return {"type": "int", "logicalType": "time-millis"}
        case TimestampType():
            # Java has the names of the two kinds the other way round than Avro means them.
            unit = "millis" if timestamp_unit(t.precision) == "ms" else "micros"
            return {"type": "long", "logicalType": f"{'local-' if t.local_zone else ''}timestamp-{unit}"}
        case ArrayType():
            return {"type": "array", "items": _schema(t.element, record)}
        case MultisetType():
            return _map_schema(t.element, AtomicType(name="INT"), record)
        case MapType():
            return _map_schema(t.key, t.value, record)
        case RowType():
            return {"type": "record", "name": record, "fields": [_field(f.name, f.type, record) for f in t.fields]}
    raise UnsupportedFeatureError(f"Avro files cannot hold {t}", feature=f"{t} in Avro")


def _map_schema(key: DataType, value: DataType, record: str) -> dict[str, Any]:
    """Avro's map when keys are text, else an array of entries."""
    if isinstance(key, CharType):
        return {"type": "map", "values": _schema(value, record)}
    fields = [{"name": "key", "type": _schema(key, f"{record}_key")}, _field("value", value, record)]
    entry = {"type": "record", "name": record, "fields": fields}
    return {"type": "array", "items": entry, "logicalType": "map"}


def _field(name: str, t: DataType, record: str) -> dict[str, Any]:
    out = {"name": name, "type": _schema(t, f"{record}_{name}")}
    return out | {"default": None} if t.nullable else out
