"""Paimon types as Avro schemas, as Java writes them.

Source: Paimon spec, chapter Data file; Java `format/avro/AvroSchemaConverter`.
"""

from __future__ import annotations

from typing import Final

from paimon_spark.types import (
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    OpaqueType,
    RowType,
    TimestampType,
    TimeType,
    VectorType,
)

_TIME_DIGITS: Final = 3
_TIMESTAMP_DIGITS: Final = 6


def fits_avro(t: DataType) -> bool:
    """Whether Avro files can hold values of the type."""
    match t:
        case AtomicType(name="VARIANT") | OpaqueType() | VectorType():
            return False
        case TimeType():
            return t.precision <= _TIME_DIGITS
        case TimestampType():
            return t.precision <= _TIMESTAMP_DIGITS
        case ArrayType() | MultisetType():
            return fits_avro(t.element)
        case MapType():
            return fits_avro(t.key) and fits_avro(t.value)
        case RowType():
            return all(fits_avro(f.type) for f in t.fields)
    return True
