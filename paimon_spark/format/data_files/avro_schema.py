"""Paimon types as Avro schemas, as Java writes them.

Source: Paimon spec, chapter Data file; Java `format/avro/AvroSchemaConverter`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.format.arrays.arrow_types import timestamp_unit
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
)

_RECORD: Final = "org.apache.paimon.avro.generated.record"
_ATOMIC: Final = {
    "BOOLEAN": "boolean", "TINYINT": "int", "SMALLINT": "int", "INT": "int", "BIGINT": "long",
    "FLOAT": "float", "DOUBLE": "double",
}  # fmt: skip
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


def file_schema(fields: Sequence[DataField], row_is_nullable: bool) -> Any:
    """The schema of a file of such rows, as the JSON value it is written as.

    Raises:
        UnsupportedFeatureError: Avro files cannot hold a column's type.
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
            return _map(t.element, AtomicType(name="INT"), record)
        case MapType():
            return _map(t.key, t.value, record)
        case RowType():
            return {"type": "record", "name": record, "fields": [_field(f, record) for f in t.fields]}
    raise UnsupportedFeatureError(f"Avro files cannot hold {t}", feature=f"{t} in Avro")


def _field(f: DataField, record: str) -> dict[str, Any]:
    out = {"name": f.name, "type": _schema(f.type, f"{record}_{f.name}")}
    return out | {"default": None} if f.type.nullable else out


def _map(key: DataType, value: DataType, record: str) -> dict[str, Any]:
    """Avro's map when keys are text, else an array of entries."""
    if isinstance(key, CharType):
        return {"type": "map", "values": _schema(value, record)}
    fields = [
        {"name": "key", "type": _schema(key, f"{record}_key")},
        {"name": "value", "type": _schema(value, f"{record}_value")} | ({"default": None} if value.nullable else {}),
    ]
    entry = {"type": "record", "name": record, "fields": fields}
    return {"type": "array", "items": entry, "logicalType": "map"}
