"""Values as text, in the forms that Java's system tables show.

Source: Java `casting/RowToStringCastRule` for partitions; `toString` of `data/Timestamp`, `data/Decimal` and Java's
own classes for keys and statistics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.format.arrays.arrow_numpy import scalar
from paimon_spark.format.casts.evolution import caster
from paimon_spark.format.casts.text import by_distinct, float_text, plain_decimals
from paimon_spark.types import (
    STRING,
    ArrayType,
    AtomicType,
    BinaryType,
    CharType,
    DataField,
    DataType,
    DecimalType,
    MapType,
    MultisetType,
    RowType,
    TimestampType,
    TimeType,
    VectorType,
)

_NULL: Final = "null"


def sql_text(array: pa.Array, dtype: DataType) -> pa.Array:
    """Values as a SQL cast to STRING gives them; null stays null. Raises UnsupportedFeatureError."""
    return caster(dtype, STRING)(array)


def object_text(array: pa.Array, dtype: DataType) -> pa.Array:
    """Values as Java's objects print; null stays null.

    Dates are days since 1970 and times milliseconds, as they are inside Java. Bytes, of which Java prints an address in
    memory, are hex digits. Values of nested types are null: the format keeps none of them.
    """
    match dtype:
        case CharType():
            return array
        case DecimalType():
            return plain_decimals(array)
        case TimestampType():
            return _local_date_time(array)
        case BinaryType():
            return by_distinct(array, lambda v: v.hex(), pa.string())
        case AtomicType(name="FLOAT" | "DOUBLE"):
            return float_text(array)
        case TimeType() | AtomicType(name="DATE"):
            return array.cast(pa.int32()).cast(pa.string())
        case AtomicType(name="BOOLEAN" | "TINYINT" | "SMALLINT" | "INT" | "BIGINT"):
            return array.cast(pa.string())
    return pa.nulls(len(array), pa.string())


def joined(parts: Sequence[pa.Array], before: str, after: str, count: int) -> pa.Array:
    """`{v1, v2}`: the texts of each row between `before` and `after`; null is written null."""
    if not parts:
        return pa.repeat(text(before + after), count)
    row = pc.binary_join_element_wise(*parts, text(", "), null_handling="replace", null_replacement=_NULL)
    return concatenated(text(before), row, text(after))


def map_text(names: Sequence[str], values: Sequence[pa.Array], count: int) -> pa.Array:
    """`{a=1, b=null}`: a Java TreeMap, whose keys are sorted by UTF-16 units."""
    order = sorted(range(len(names)), key=lambda i: names[i].encode("utf-16-be"))
    parts = [concatenated(text(f"{names[i]}="), values[i]) for i in order]
    return joined(parts, "{", "}", count)


def concatenated(*parts: pa.Array | pa.Scalar) -> pa.Array:
    """The parts of each row one after another; null is written null. At least one is an array."""
    return pc.binary_join_element_wise(*parts, text(""), null_handling="replace", null_replacement=_NULL)


def text(value: str) -> pa.Scalar:
    """A text for all rows."""
    return scalar(value, pa.string())


def type_text(t: DataType) -> str:
    """A type as Java states it in SQL: fields of rows stand in backquotes, with their comments."""
    suffix = "" if t.nullable else " NOT NULL"
    match t:
        case RowType():
            return f"ROW<{', '.join(map(_field_text, t.fields))}>" + suffix
        case ArrayType():
            return f"ARRAY<{type_text(t.element)}>" + suffix
        case MultisetType():
            return f"MULTISET<{type_text(t.element)}>" + suffix
        case MapType():
            return f"MAP<{type_text(t.key)}, {type_text(t.value)}>" + suffix
        case VectorType():
            return f"VECTOR<{type_text(t.element)}, {t.length}>" + suffix
    return str(t)


def _field_text(f: DataField) -> str:
    name, comment = f.name.replace("`", "``"), (f.description or "").replace("'", "''")
    out = f"`{name}` {type_text(f.type)}" + (f" COMMENT '{comment}'" if comment else "")
    return out if f.default_value is None else f"{out} DEFAULT {f.default_value}"


def _local_date_time(array: pa.Array) -> pa.Array:
    """As `java.time.LocalDateTime` prints: seconds only if not 0, the fraction in groups of three digits."""
    naive = array.view(pa.int64()).view(pa.timestamp(array.type.unit))
    out = pc.replace_substring(naive.cast(pa.string()), " ", "T")
    out = pc.replace_substring_regex(out, r"(\.(?:\d{3})*?)(?:000)+$", r"\1")
    out = pc.replace_substring_regex(out, r"\.$", "")
    return pc.replace_substring_regex(out, r"(T\d\d:\d\d):00$", r"\1")
