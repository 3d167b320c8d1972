"""The partition columns of a split as canonical Arrow scalars."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from paimon_spark.format import binary_row
from paimon_spark.format.metadata_files.table_schema import TableSchema


def partition_scalars(schema: TableSchema, partition: bytes) -> Mapping[str, pa.Scalar]:
    """The value of each partition column, by name.

    Raises:
        FormatError: the bytes are not a row of the partition columns.
    """
    fields = schema.partition_type.fields
    offsets = pa.py_buffer(b"\0\0\0\0" + len(partition).to_bytes(4, "little"))
    row = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(partition)], null_count=0)
    return {f.name: binary_row.decode_column(row, i, f.type)[0] for i, f in enumerate(fields)}
