"""Paimon's types as Hive names them.

Source: Java `hive/HiveTypeUtils`; Hive `HiveVarchar`, `HiveChar` for the lengths.
"""

from __future__ import annotations

from typing import Final

from paimon_spark.types import (
    ArrayType,
    AtomicType,
    CharType,
    DataType,
    DecimalType,
    MapType,
    MultisetType,
    RowType,
    TimestampType,
    TimeType,
    VectorType,
)

_ATOMIC: Final = {"VARIANT": "struct<value:binary,metadata:binary>"}
_LONGEST_VARCHAR: Final = 65535
_LONGEST_CHAR: Final = 255


def hive_type(data_type: DataType) -> str:
    """The name of the type in Hive that a column of the table has there."""
    match data_type:
        case AtomicType(name=name):
            return _ATOMIC.get(name, name.lower())
        case DecimalType(precision=precision, scale=scale):
            return f"decimal({precision},{scale})"
        case CharType(length=length, varying=True):
            return f"varchar({length})" if length <= _LONGEST_VARCHAR else "string"
        case CharType(length=length):
            return f"char({length})" if length <= _LONGEST_CHAR else "string"
        case TimestampType():
            # Hive 2 has no type for times with a zone, and Java gives the same name to both there.
            return "timestamp"
        case ArrayType(element=element) | VectorType(element=element):
            return f"array<{hive_type(element)}>"
        case MultisetType(element=element):
            return f"map<{hive_type(element)},int>"
        case MapType(key=key, value=value):
            return f"map<{hive_type(key)},{hive_type(value)}>"
        case RowType(fields=fields):
            return f"struct<{','.join(f'{field.name}:{hive_type(field.type)}' for field in fields)}>"
        case TimeType():
            return "string"
    return "binary"
