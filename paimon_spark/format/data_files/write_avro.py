"""Avro data files, encoded a table of rows at a time.

Source: Paimon spec, chapter Data file; Java `format/avro/AvroFileFormat`, `AvroRowDatumWriter`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_spark.errors import StorageError
from paimon_spark.format import avro_rows
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_types import arrow_schema
from paimon_spark.format.avro_codec import container as avro
from paimon_spark.format.avro_writer import ContainerWriter
from paimon_spark.format.data_files.avro_schema import file_schema
from paimon_spark.format.data_files.leaves import Replacement, convert_table, replaced_fields
from paimon_spark.format.data_files.row_groups import RowGroups
from paimon_spark.format.data_files.writing import FileWrite, WrittenFile
from paimon_spark.options.descriptor import Option, string

CODEC: Option[str | None] = Option("avro.codec", string, None, "Compression; wins over all others.")

_STEP_ROWS: Final = 32 << 10
_STEP_BYTES: Final = 8 << 20
_BLOCK_BYTES: Final = 64_000
_DECIMAL_BYTES: Final = 16


class AvroFileWriter:
    """Writes one Avro file; see `writing.FileWriter`."""

    def __init__(self, write: FileWrite) -> None:
        schema = file_schema(write.fields, write.row_is_nullable)
        self._type = avro.parse_type(schema)
        self._schema, self._converts = replaced_fields(arrow_schema(write.fields), _decimal_as_bytes)
        self._groups = RowGroups(arrow_schema(write.fields), _STEP_BYTES, _STEP_ROWS, self._encode)
        self._write = write
        codec = CODEC.get(write.settings) or _codec(write.compression or "zstd")
        self._container = ContainerWriter(schema, codec, write.zstd_level)
        self._out = write.store.open_output(write.path)
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._rows += batch.num_rows
        self._groups.add(batch)

    @property
    def estimated_bytes(self) -> int:
        return self._container.size + self._groups.bytes // 2

    @property
    def buffered_bytes(self) -> int:
        return self._groups.bytes

    def flush(self) -> None:
        self._groups.flush()

    def close(self) -> WrittenFile:
        self._groups.flush()
        self._out.write(self._container.drain())
        self._out.close()
        return WrittenFile(self._container.size, self._rows)

    def abort(self) -> None:
        self._groups.clear()
        with suppress(Exception):
            self._out.close()
        with suppress(StorageError):
            self._write.store.delete(self._write.path)

    def _encode(self, table: pa.Table, rows: int) -> None:
        for batch in convert_table(table, self._schema, self._converts).combine_chunks().to_batches(rows):
            records = avro_rows.encode(batch.to_struct_array(), self._type)
            size = max(records.nbytes // len(records), 1)
            for count, payload in avro_rows.slices(records, max(_BLOCK_BYTES // size, 1)):
                self._container.add(count, payload)
        self._out.write(self._container.drain())


def _codec(compression: str) -> str:
    return "null" if compression.lower() == "none" else compression


def _decimal_as_bytes(kind: pa.DataType) -> Replacement | None:
    return Replacement(pa.binary(), decimal_bytes) if pa.types.is_decimal128(kind) else None


def decimal_bytes(array: pa.Array) -> pa.Array:
    """Unscaled values as the fewest big-endian bytes of two's complement."""
    raw = np.frombuffer(array.buffers()[1], np.uint8, len(array) * _DECIMAL_BYTES, array.offset * _DECIMAL_BYTES)
    big = raw.reshape(-1, _DECIMAL_BYTES)[:, ::-1]
    sign = np.where(big[:, :1] >= 0x80, np.uint8(0xFF), np.uint8(0))
    # A byte can go when all before it can, it is but sign, and the next one tells the same sign.
    spare = (big[:, :-1] == sign) & ((big[:, 1:] ^ sign) < 0x80)
    needed = np.ones(big.shape, np.bool_)
    needed[:, :-1] = ~np.logical_and.accumulate(spare, axis=1)
    valid = None if array.null_count == 0 else arrow_numpy.validity(array)
    if valid is not None:
        needed &= valid[:, None]
    offsets = np.zeros(len(array) + 1, np.int32)
    np.cumsum(needed.sum(axis=1), out=offsets[1:])
    bitmap = None if valid is None else arrow_numpy.pack_bits(valid)
    return pa.Array.from_buffers(pa.binary(), len(array), [bitmap, pa.py_buffer(offsets), pa.py_buffer(big[needed])])
