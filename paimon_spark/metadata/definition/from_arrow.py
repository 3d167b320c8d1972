"""Conversion of an Arrow schema to columns of a table.

Field ids are those of `create.new_schema`; here they only count.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.types as is_arrow

from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TINYINT,
    VARIANT,
    ArrayType,
    BinaryType,
    DataField,
    DataType,
    DecimalType,
    MapType,
    RowType,
    TimestampType,
    TimeType,
)

_ATOMS: Final[dict[pa.DataType, DataType]] = {
    pa.bool_(): BOOLEAN,
    pa.int8(): TINYINT,
    pa.int16(): SMALLINT,
    pa.int32(): INT,
    pa.int64(): BIGINT,
    pa.uint8(): SMALLINT,
    pa.uint16(): INT,
    pa.uint32(): BIGINT,
    pa.uint64(): DecimalType(precision=20),
    pa.float16(): FLOAT,
    pa.float32(): FLOAT,
    pa.float64(): DOUBLE,
    pa.date32(): DATE,
    pa.date64(): DATE,
    pa.string(): STRING,
    pa.large_string(): STRING,
    pa.string_view(): STRING,
    pa.binary(): BYTES,
    pa.large_binary(): BYTES,
    pa.binary_view(): BYTES,
}
_UNIT_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_COMMENT_KEYS: Final = (b"description", b"comment")
_MAX_DECIMAL_DIGITS: Final = 38


def row_type(schema: pa.Schema) -> RowType:
    """The columns of a table that holds every value of `schema`; a comment is in metadata `description` or `comment`.

    Unsigned integers become the next wider type, timestamps keep their unit as precision.

    Raises:
        UnsupportedFeatureError: names the column whose type no Paimon type holds.
    """
    return RowType(False, tuple(_field(i, schema.field(i), "") for i in range(len(schema))))


def data_type(t: pa.DataType, where: str = "", nullable: bool = True) -> DataType:
    """The Paimon type of `t`; `where` is the column's path, for messages. Raises as `row_type`."""
    return _bare(t, where).with_nullable(nullable)


def _field(position: int, field: pa.Field, prefix: str) -> DataField:
    metadata = field.metadata or {}
    comment = next((metadata[k].decode("utf-8", "replace") for k in _COMMENT_KEYS if k in metadata), None)
    return DataField(position, field.name, data_type(field.type, prefix + field.name, field.nullable), comment)


def _bare(t: pa.DataType, where: str) -> DataType:
    found = _ATOMS.get(t)
    if found is not None:
        return found
    if isinstance(t, pa.BaseExtensionType):
        return VARIANT if t.extension_name == "arrow.parquet.variant" else _bare(t.storage_type, where)
    if is_arrow.is_dictionary(t) or is_arrow.is_run_end_encoded(t):
        return _bare(t.value_type, where)
    if is_arrow.is_fixed_size_binary(t):
        return BinaryType(length=t.byte_width, varying=False)
    if is_arrow.is_timestamp(t):
        return TimestampType(precision=_UNIT_DIGITS[t.unit], local_zone=t.tz is not None)
    if is_arrow.is_time(t):
        return TimeType(precision=_UNIT_DIGITS[t.unit])
    if is_arrow.is_decimal(t):
        return _decimal(t, where)
    return _nested(t, where)


def _decimal(t: pa.DataType, where: str) -> DataType:
    precision = t.precision - min(t.scale, 0)
    if precision > _MAX_DECIMAL_DIGITS or t.scale > precision:
        raise _refused(t, where, f"decimals have at most {_MAX_DECIMAL_DIGITS} digits, and no more after the point")
    return DecimalType(precision=precision, scale=max(t.scale, 0))


def _nested(t: pa.DataType, where: str) -> DataType:
    if is_arrow.is_struct(t):
        return RowType(fields=tuple(_field(i, t.field(i), f"{where}.") for i in range(t.num_fields)))
    if is_arrow.is_map(t):
        key = data_type(t.key_type, f"{where}.key", nullable=False)
        return MapType(key=key, value=data_type(t.item_type, f"{where}.value", t.item_field.nullable))
    if any(test(t) for test in _LISTS):
        return ArrayType(element=data_type(t.value_type, f"{where}.element", t.value_field.nullable))
    if is_arrow.is_null(t):
        raise _refused(t, where, "a column of nulls alone has no type; give it one with Table.cast or a schema")
    raise _refused(t, where, "cast it to a type that tables have")


_LISTS: Final = (
    is_arrow.is_list,
    is_arrow.is_large_list,
    is_arrow.is_fixed_size_list,
    is_arrow.is_list_view,
    is_arrow.is_large_list_view,
)


def _refused(t: pa.DataType, where: str, advice: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"column {where}: no type of a table holds the values of Arrow type {t}; {advice}",
        feature=f"Arrow type {t}",
        column=where,
    )
