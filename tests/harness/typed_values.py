"""Hypothesis strategies: Paimon types, and canonical Arrow arrays of them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from paimon_spark.format.arrays.arrow_types import arrow_type, timestamp_unit
from paimon_spark.format.binary_row import decimal_of
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
    RowType,
    TimestampType,
    TimeType,
)

_YEARS_1_TO_9999_MS = (-62_135_596_800_000, 253_402_300_799_999)
_PER_MILLI = {"ms": 1, "us": 1_000, "ns": 1_000_000}
_INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}


_FLAT = (*_INTEGERS, "BOOLEAN", "FLOAT", "DOUBLE", "DATE", "CHAR", "VARCHAR", "STRING", "BYTES", "DECIMAL", "TIME",
         "TIMESTAMP")  # fmt: skip
_NESTED = ("ARRAY", "MAP", "MULTISET", "ROW")


@st.composite
def flat_types(draw: st.DrawFn, digits: int = 9) -> DataType:
    """Types without children; timestamps of at most `digits`."""
    return _flat(draw, draw(st.sampled_from(_FLAT)), digits)


def _flat(draw: st.DrawFn, name: str, digits: int) -> DataType:
    nullable = draw(st.booleans())
    match name:
        case "CHAR" | "VARCHAR":
            return CharType(nullable, draw(st.integers(1, 20)), name == "VARCHAR")
        case "STRING":
            return CharType(nullable)
        case "BYTES":
            return BinaryType(nullable)
        case "DECIMAL":
            precision = draw(st.integers(1, 38))
            return DecimalType(nullable, precision, draw(st.integers(0, precision)))
        case "TIME":
            return TimeType(nullable, draw(st.integers(0, 3)))
        case "TIMESTAMP":
            return TimestampType(nullable, draw(st.integers(0, digits)), draw(st.booleans()))
    return AtomicType(nullable, name)


@st.composite
def types(draw: st.DrawFn, digits: int = 9, variants: bool = True, depth: int = 2) -> DataType:
    """Types, nested ones too."""
    names = (*_FLAT, "VARIANT") if variants else _FLAT
    name = draw(st.sampled_from((*names, *_NESTED) if depth else names))
    if name not in _NESTED:
        return _flat(draw, name, digits)
    nullable = draw(st.booleans())
    if name == "ROW":
        inner = types(digits, variants, depth - 1)
        return RowType(nullable, _fields(draw(st.lists(inner, min_size=1, max_size=3))))
    key = draw(flat_types(digits)).with_nullable(False)
    if name == "MULTISET":
        return MultisetType(nullable, key)
    value = draw(types(digits, variants, depth - 1))
    return ArrayType(nullable, value) if name == "ARRAY" else MapType(nullable, key, value)


def _fields(kinds: list[DataType]) -> tuple[DataField, ...]:
    return tuple(DataField(100 + i, f"f{i}", t) for i, t in enumerate(kinds))


def values(t: DataType, all_times: bool = True) -> st.SearchStrategy[Any]:
    """Python values from which `pa.array` makes canonical arrays; timestamps, dates and times are numbers.

    Args:
        t: of which type.
        all_times: whether timestamps may be those that ORC files do not take: outside 64-bit nanoseconds, or before
            1970 with a fraction of a second.
    """
    present = _present(t, all_times)
    return st.one_of(st.none(), present) if t.nullable else present


def _present(t: DataType, all_times: bool) -> st.SearchStrategy[Any]:
    match t:
        case AtomicType(name="BOOLEAN"):
            return st.booleans()
        case AtomicType(name="FLOAT" | "DOUBLE"):
            return st.floats(allow_nan=False, width=32 if t.name == "FLOAT" else 64)
        case AtomicType(name="DATE"):
            return st.integers(-719_162, 2_932_896)
        case AtomicType(name="VARIANT"):
            return st.fixed_dictionaries({"value": st.binary(max_size=9), "metadata": st.binary(max_size=9)})
        case AtomicType():
            bits = _INTEGERS[t.name]
            return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        case CharType():
            text = st.text(max_size=min(t.length, 20))
            return text if t.varying else text.map(lambda s: s.rstrip(" "))
        case BinaryType():
            return st.binary(max_size=20)
        case DecimalType():
            most = 10**t.precision - 1
            return st.integers(-most, most).map(lambda n: decimal_of(n, t.scale))
        case TimeType():
            return st.integers(0, 86_399_999)
        case TimestampType():
            unit = timestamp_unit(t.precision)
            low, high = (n * _PER_MILLI[unit] for n in _YEARS_1_TO_9999_MS)
            low, high = max(low, -(2**63) + 1), min(high, 2**63 - 1)
            second = 1000 * _PER_MILLI[unit]
            if not all_times:
                low, high = max(low, -9_223_372_035 * second), min(high, 9_223_372_035 * second)
            moments = st.one_of(st.integers(low, high), st.sampled_from([low, -1001, -1, 0, 1, high]))
            return moments if all_times else moments.map(lambda n: n if n >= 0 else -(-n // second) * second)
        case ArrayType():
            return st.lists(values(t.element, all_times), max_size=3)
        case MapType():
            return _pairs(t.key, values(t.value, all_times), all_times)
        case MultisetType():
            return _pairs(t.element, st.integers(1, 9), all_times)
        case RowType():
            return st.fixed_dictionaries({f.name: values(f.type, all_times) for f in t.fields})
    raise AssertionError(t)


def _pairs(key: DataType, inner: st.SearchStrategy[Any], all_times: bool) -> st.SearchStrategy[list[tuple[Any, Any]]]:
    return st.lists(
        st.tuples(values(key.with_nullable(False), all_times), inner), max_size=3, unique_by=lambda kv: repr(kv[0])
    )


def array_of(rows: list[Any], t: DataType) -> pa.Array:
    """The rows as a canonical array."""
    return pa.array(rows, type=arrow_type(t))
