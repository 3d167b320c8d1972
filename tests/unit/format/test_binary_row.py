"""BinaryRow against Java's bytes, by row and by column."""

from __future__ import annotations

import math
import struct
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import FormatError
from paimon_spark.format import binary_row
from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.types import BIGINT, BYTES, INT, STRING, DataType, parse_type
from tests.harness.java_vectors import JavaVectors, java_vectors, keeps_room_for_null

VECTORS = java_vectors()
by_types = pytest.mark.parametrize("vectors", VECTORS, ids=lambda v: v.name)


def same(a: Any, b: Any) -> bool:
    return a == b or (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b))


@by_types
def test_a_row_decodes_to_what_java_wrote(vectors: JavaVectors) -> None:
    for row, values in zip(vectors.rows, vectors.values, strict=True):
        decoded = binary_row.decode(row, vectors.types, raw_timestamps=True)
        assert len(decoded) == len(values)
        assert all(map(same, decoded, values)), (decoded, values)


@by_types
def test_values_encode_to_the_bytes_java_wrote(vectors: JavaVectors) -> None:
    for row, values in zip(vectors.rows, vectors.values, strict=True):
        if not keeps_room_for_null(values, vectors.types):
            assert binary_row.encode(values, vectors.types).hex() == row.hex()


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        ("DECIMAL(38, 2)", "0001000000000000000000001000000000000000000000000000000000000000"),
        ("TIMESTAMP(6)", "000100000000000000000000100000000000000000000000"),
        ("TIMESTAMP(3)", "00010000000000000000000000000000"),
    ],
)
def test_room_is_kept_for_nulls_that_java_might_set_later(type_: str, expected: str) -> None:
    assert binary_row.encode([None], [parse_type(type_)])[4:].hex() == expected


@by_types
def test_a_column_decodes_as_its_rows_do(vectors: JavaVectors) -> None:
    rows = pa.array([None, *vectors.rows, None], pa.binary())[1:]
    for i, t in enumerate(vectors.types):
        column = binary_row.decode_column(rows, i, t)
        column.validate(full=True)
        assert column.type == arrow_type(t)
        expected = [binary_row.decode(r, vectors.types)[i] for r in vectors.rows]
        assert all(map(same, plain(column), [*expected, None]))


def plain(column: pa.Array) -> list[Any]:
    """Python values as `binary_row.decode` gives them."""
    if pa.types.is_time(column.type):
        return list(column.cast(pa.int32()).to_pylist())
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        micros = pa.array([None if v is None else v // 1000 for v in column.cast(pa.int64()).to_pylist()], pa.int64())
        return list(micros.cast(pa.timestamp("us", column.type.tz)).to_pylist())
    return list(column.to_pylist())


def test_a_column_beyond_a_rows_arity_is_null() -> None:
    rows = pa.array([binary_row.encode([1], [INT]), binary_row.encode([2, 3], [INT, INT]), binary_row.EMPTY])
    assert binary_row.decode_column(rows, 1, INT).to_pylist() == [None, 3, None]


def test_columns_of_no_rows_have_their_type() -> None:
    for name in ("INT", "STRING", "DECIMAL(38, 2)", "TIMESTAMP(6)", "BOOLEAN", "ARRAY"):
        t = parse_type({"type": "ARRAY", "element": "INT"} if name == "ARRAY" else name)
        assert binary_row.decode_column(pa.array([], pa.binary()), 0, t).type == arrow_type(t)


def test_nulls_may_lack_the_bytes_reserved_for_them() -> None:
    """Java 0.9 and pypaimon write null DECIMAL(38) and TIMESTAMP(6) without the variable part."""
    types = [parse_type("DECIMAL(38, 2)"), parse_type("TIMESTAMP(6)")]
    row = struct.pack(">i", 2) + bytes([0, 3]) + bytes(6) + bytes(16)
    assert binary_row.decode(row, types) == (None, None)
    for i, t in enumerate(types):
        assert binary_row.decode_column(pa.array([row]), i, t).to_pylist() == [None]


def test_partitions_of_tables_without_any_are_empty_rows() -> None:
    assert binary_row.encode([], []) == binary_row.EMPTY
    assert binary_row.decode(binary_row.EMPTY, []) == ()


def test_datetimes_carry_their_zone() -> None:
    types = [parse_type("TIMESTAMP(9)"), parse_type("TIMESTAMP(9) WITH LOCAL TIME ZONE")]
    row = binary_row.encode([(-1, 999_999), (0, 1_500)], types)
    assert binary_row.decode(row, types) == (
        datetime(1969, 12, 31, 23, 59, 59, 999999),
        datetime(1970, 1, 1, 0, 0, 0, 1, UTC),
    )
    assert binary_row.decode(row, types, raw_timestamps=True) == ((-1, 999_999), (0, 1_500))


@pytest.mark.parametrize(
    ("millis", "nanos", "expected"),
    [
        (9223372036854, 775807, 2**63 - 1),
        (9223372036854, 775808, None),
        (-9223372036854, 0, -9223372036854000000),
        (-9223372036855, 224192, -(2**63)),
        (-9223372036855, 224191, None),
        (-(2**63), 0, None),
        (2**63 - 1, 0, None),
    ],
)
def test_the_ends_of_what_arrow_holds_are_held(millis: int, nanos: int, expected: int | None) -> None:
    t = parse_type("TIMESTAMP(9)")
    row = binary_row.encode([(millis, nanos)], [t])
    found = binary_row.decode_column(pa.array([row], pa.binary()), 0, t, exact=False)
    assert found.cast(pa.int64()).to_pylist() == [expected]


def test_a_nanosecond_timestamp_that_arrow_cannot_hold_is_unknown_or_refused() -> None:
    t = parse_type("TIMESTAMP(9)")
    rows = pa.array([binary_row.encode([datetime(9999, 12, 31)], [t]), binary_row.encode([datetime(2000, 1, 1)], [t])])
    assert binary_row.decode_column(rows, 0, t, exact=False).is_null().to_pylist() == [True, False]
    with pytest.raises(FormatError, match="64-bit"):
        binary_row.decode_column(rows, 0, t)


@pytest.mark.parametrize(
    ("row", "types"),
    [
        (b"", [INT]),
        (b"\0\0\0\1", [INT]),
        (binary_row.encode([1], [INT])[:-1], [INT]),
        (b"\xff\xff\xff\xff" + bytes(16), [INT]),
        (b"\x7f\xff\xff\xff" + bytes(16), [INT]),
        (binary_row.encode(["a long enough text"], [STRING])[:-8], [STRING]),
        (struct.pack(">i8xII", 1, 0x7FFFFFFF, 0x7FFFFFFF), [BYTES]),
        (struct.pack(">i8x", 1) + b"1234567\xff", [BYTES]),
        (binary_row.encode([b"\xff\xfe"], [BYTES]), [STRING]),
        (struct.pack(">i8x", 1) + struct.pack("<II", 0, 16) + bytes(16), [parse_type("DECIMAL(38, 0)")]),
        (struct.pack(">i8x", 1) + struct.pack("<II", 17, 16) + bytes(24), [parse_type("DECIMAL(38, 0)")]),
        (struct.pack(">i8x", 1) + struct.pack("<II", 1_000_000, 16) + bytes(8), [parse_type("TIMESTAMP(6)")]),
        (struct.pack(">i8x", 1) + struct.pack("<II", 1, 1 << 31) + bytes(8), [parse_type("TIMESTAMP(6)")]),
    ],
)  # fmt: skip
def test_rows_that_cannot_be_are_refused(row: bytes, types: list[DataType]) -> None:
    with pytest.raises(FormatError):
        binary_row.decode(row, types)
    with pytest.raises(FormatError):
        binary_row.decode_column(pa.array([row]), 0, types[0])


ALL_TYPES = sorted({str(t): t for v in VECTORS for t in v.types}.items())


@given(st.binary(max_size=80), st.sampled_from([t for _, t in ALL_TYPES]), st.integers(0, 3))
def test_garbage_decodes_or_is_refused(row: bytes, t: DataType, index: int) -> None:
    for garbage in (row, struct.pack(">i", index + 1) + row):
        try:
            by_row: Any = binary_row.decode(garbage, [t] * (index + 1))[index]
        except FormatError:
            by_row = FormatError
        try:
            column = binary_row.decode_column(pa.array([garbage]), index, t)
        except FormatError:
            continue
        column.validate()
        if by_row is not FormatError and not pa.types.is_temporal(column.type) and column.null_count == 0:
            assert same(column[0].as_py(), by_row)


@given(st.lists(st.tuples(st.none() | st.integers(-(2**63), 2**63 - 1), st.none() | st.text(max_size=20))))
def test_any_values_come_back(values: list[tuple[int | None, str | None]]) -> None:
    encoded = [binary_row.encode(v, [BIGINT, STRING]) for v in values]
    assert [binary_row.decode(r, [BIGINT, STRING]) for r in encoded] == values
    rows = pa.array(encoded, pa.binary())
    assert binary_row.decode_column(rows, 0, BIGINT).to_pylist() == [v[0] for v in values]
    assert binary_row.decode_column(rows, 1, STRING).to_pylist() == [v[1] for v in values]


@given(st.integers(-(10**38) + 1, 10**38 - 1))
def test_wide_decimals_come_back(unscaled: int) -> None:
    t = parse_type("DECIMAL(38, 5)")
    value = binary_row.decimal_of(unscaled, 5)
    row = binary_row.encode([value], [t])
    assert binary_row.decode(row, [t]) == (value,)
    assert binary_row.decode_column(pa.array([row]), 0, t).to_pylist() == [value]


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (Decimal("1.234"), "DECIMAL(10, 2)"),
        (Decimal("1e9"), "DECIMAL(10, 2)"),
        (Decimal("NaN"), "DECIMAL(10, 2)"),
        (300, "TINYINT"),
        ("text", "INT"),
        (5, "STRING"),
        (date(2024, 1, 1), "BIGINT"),
    ],
)
def test_values_that_do_not_fit_are_not_encoded(value: Any, type_: str) -> None:
    with pytest.raises(FormatError):
        binary_row.encode([value], [parse_type(type_)])


def test_decoding_columns_does_not_import_pandas() -> None:
    code = """
import sys
import pyarrow as pa
from paimon_spark.format import binary_row, binary_row
from paimon_spark.types import parse_type
rows = binary_row.encode(["x" * 9], [parse_type("STRING")])
offsets = (0).to_bytes(4, "little") + len(rows).to_bytes(4, "little")
array = pa.Array.from_buffers(pa.binary(), 1, [None, pa.py_buffer(offsets), pa.py_buffer(rows)])
for name in ("STRING", "INT", "DECIMAL(38, 2)", "BOOLEAN"):
    try:
        binary_row.decode_column(array, 0, parse_type(name))
    except Exception as e:
        assert type(e).__name__ == "FormatError"
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
