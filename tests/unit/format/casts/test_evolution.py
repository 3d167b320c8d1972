"""Values as Java's cast rules give them (casting/CastExecutors of 2.1)."""

from __future__ import annotations

import datetime as dt
import time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import DataError, UnsupportedFeatureError
from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.format.casts.evolution import caster
from paimon_spark.types import DataType, parse_type


def cast(source: str, target: str, values: list[Any]) -> list[Any]:
    have, want = parse_type(source), parse_type(target)
    array = pa.array(values, arrow_type(have))
    out = caster(have, want)(array)
    assert out.type == arrow_type(want)
    out.validate(full=True)
    # A slice must convert as its rows do in the whole.
    assert caster(have, want)(array.slice(1)).to_pylist()[-len(values) + 1 :] == out.to_pylist()[1:] or len(values) < 2
    if pa.types.is_timestamp(out.type):
        return list(out.cast(pa.int64()).to_pylist())
    return list(out.to_pylist())


NAN = float("nan")
INF = float("inf")


@pytest.mark.parametrize(
    ("source", "target", "pairs"),
    [
        ("BIGINT", "INT", [(2**32 + 5, 5), (2**31, -(2**31)), (None, None)]),
        ("INT", "TINYINT", [(383, 127), (-129, 127), (1, 1)]),
        ("BIGINT", "FLOAT", [(2**24 + 1, 16777216.0), (None, None)]),
        ("DOUBLE", "BIGINT", [(1e300, 2**63 - 1), (-1e300, -(2**63)), (NAN, 0), (-1.9, -1), (None, None)]),
        ("DOUBLE", "INT", [(3e9, 2**31 - 1), (-INF, -(2**31)), (NAN, 0), (1.9, 1)]),
        ("FLOAT", "TINYINT", [(300.0, 44), (INF, -1), (-INF, 0)]),
        ("DOUBLE", "FLOAT", [(1e300, INF), (0.1, 0.10000000149011612)]),
        ("INT", "DECIMAL(4, 2)", [(99, Decimal("99.00")), (100, None), (None, None)]),
        ("DOUBLE", "DECIMAL(10, 2)", [(1.005, Decimal("1.01")), (1.23456, Decimal("1.23")), (1e20, None)]),
        ("FLOAT", "DECIMAL(20, 10)", [(0.1, Decimal("0.1000000015"))]),
        ("DECIMAL(10, 4)", "DECIMAL(10, 2)", [(Decimal("1.2350"), Decimal("1.24")),
                                              (Decimal("-1.2350"), Decimal("-1.24"))]),
        ("DECIMAL(38, 0)", "DECIMAL(38, 2)", [(Decimal(10**37), None), (Decimal(10**35), Decimal(10**35))]),
        ("DECIMAL(38, 38)", "DECIMAL(1, 0)", [(Decimal("0.5"), Decimal(1)), (Decimal("0.49"), Decimal(0))]),
        ("DECIMAL(10, 2)", "INT", [(Decimal("-1.99"), -1), (Decimal("99999999.99"), 99999999)]),
        ("DECIMAL(38, 2)", "INT", [(Decimal("4294967301.50"), 5), (None, None)]),
        ("DECIMAL(10, 4)", "FLOAT", [(Decimal("1.2346"), 1.2345999479293823)]),
        ("DECIMAL(38, 18)", "DOUBLE", [(Decimal("0.1"), 0.1), (None, None)]),
        ("BOOLEAN", "INT", [(True, 1), (False, 0), (None, None)]),
        ("BOOLEAN", "DECIMAL(1, 0)", [(True, Decimal(1))]),
        ("INT", "BOOLEAN", [(0, False), (12, True), (None, None)]),
        ("INT", "VARCHAR(2)", [(1234, "12"), (None, None)]),
        ("BOOLEAN", "CHAR(5)", [(True, "true "), (False, "false")]),
        ("FLOAT", "STRING", [(1.23456, "1.23456"), (0.1, "0.1"), (NAN, "NaN"), (-INF, "-Infinity")]),
        ("FLOAT", "STRING", [(1e-45, "1.4E-45"), (3.4028234663852886e38, "3.4028235E38"), (1.1e-44, "1.1E-44")]),
        ("DOUBLE", "STRING", [(5e-324, "4.9E-324"), (-1e-323, "-9.9E-324"), (1e23, "1.0E23"), (None, None)]),
        ("DOUBLE", "STRING", [(1.0, "1.0"), (1e10, "1.0E10"), (1e-4, "1.0E-4"), (1e7, "1.0E7"),
                              (0.001, "0.001"), (-0.0, "-0.0"), (9999999.0, "9999999.0")]),
        ("DECIMAL(10, 5)", "STRING", [(Decimal("1.23456"), "1.23456"), (Decimal("0.00001"), "0.00001")]),
        ("DATE", "STRING", [(dt.date(2023, 6, 8), "2023-06-08"), (dt.date(1, 1, 1), "0001-01-01")]),
        ("TIME(2)", "STRING", [(dt.time(10, 1, 55, 615000), "10:01:55.61"), (dt.time(1), "01:00:00.0")]),
        ("TIME(0)", "STRING", [(dt.time(1, 2, 3, 4000), "01:02:03")]),
        ("VARCHAR(10)", "CHAR(12)", [("日本", "日本          "), ("1234567890", "1234567890  ")]),
        ("VARCHAR(10)", "VARCHAR(2)", [("日本語", "日本"), ("", ""), (None, None)]),
        ("STRING", "BOOLEAN", [("T", True), ("yes", True), ("0", False), ("No", False)]),
        ("STRING", "INT", [("+12.9", 12), ("-3", -3), (".", 0), (None, None)]),
        ("STRING", "DOUBLE", [(" 1e3 ", 1000.0), ("1.5f", 1.5), ("Infinity", INF)]),
        ("STRING", "DECIMAL(5, 2)", [("1.005", Decimal("1.01")), ("1e2", Decimal("100.00")), ("1000", None),
                                     ("1e900", None)]),
        ("STRING", "DATE", [("2023-06-08", dt.date(2023, 6, 8)), ("2023-6", dt.date(2023, 6, 1)),
                            ("2023-06-08 10:00", dt.date(2023, 6, 8)), ("19516", dt.date(2023, 6, 8))]),
        ("STRING", "TIME(3)", [("10:01:55.615", dt.time(10, 1, 55, 615000)), ("10:01", dt.time(10, 1)),
                               ("1", dt.time(0, 0, 0, 1000))]),
        ("STRING", "BINARY(4)", [("ab", b"ab\0\0"), ("abcdef", b"abcd")]),
        ("BYTES", "VARBINARY(2)", [(b"abc", b"ab"), (b"", b""), (None, None)]),
        ("BYTES", "STRING", [(b"abc", "abc"), (None, None)]),
        ("STRING", "TIMESTAMP(3)", [("2024-07-25 09:12:28.1239", 1721898748123), ("1970-01-01", 0),
                                    ("1970-1-2T3:04", 97440000), ("5", 5)]),
        ("STRING", "TIMESTAMP(9)", [("1969-12-31 23:59:59.999999999", -1)]),
        ("TIMESTAMP(6)", "TIMESTAMP(3)", [(-1, -1), (-1001, -2), (1999, 1)]),
        ("TIMESTAMP(3)", "TIMESTAMP(0)", [(-1500, -1000), (1999, 1000)]),
        ("TIMESTAMP(9)", "TIMESTAMP(8)", [(-1, -10), (19, 10)]),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", [(253402300799999, 253402300799999000)]),
        ("TIMESTAMP(6)", "DATE", [(-1, dt.date(1970, 1, 1)), (None, None)]),
        ("TIMESTAMP(3)", "DATE", [(-86400000, dt.date(1969, 12, 31)), (-86399999, dt.date(1970, 1, 1)),
                                  (-86400001, dt.date(1969, 12, 31)), (86399999, dt.date(1970, 1, 1))]),
        ("TIMESTAMP(6)", "TIME(3)", [(-1, dt.time(23, 59, 59, 999000))]),
        ("TIMESTAMP(3)", "BIGINT", [(-1500, -1), (1500, 1)]),
        ("TIMESTAMP(3)", "INT", [(2**31 * 1000, -(2**31))]),
        ("BIGINT", "TIMESTAMP(3)", [(1721898748, 1721898748000)]),
        ("DATE", "TIMESTAMP(6)", [(dt.date(1969, 12, 31), -86400000000)]),
        ("TIME(3)", "TIMESTAMP(3)", [(dt.time(0, 0, 1), 1000)]),
        ("TIMESTAMP(5)", "STRING", [(0, "1970-01-01 00:00:00.00000"), (1230000, "1970-01-01 00:00:01.23000")]),
        ("TIMESTAMP(0)", "STRING", [(1000, "1970-01-01 00:00:01")]),
        ("TIMESTAMP(3)", "STRING", [(-62135596799999, "0001-01-01 00:00:00.001")]),
    ],
)  # fmt: skip
def test_casts_as_java_does(source: str, target: str, pairs: list[tuple[Any, Any]]) -> None:
    got = cast(source, target, [before for before, _ in pairs])
    want = [after for _, after in pairs]
    assert got == want


@pytest.mark.parametrize(
    ("source", "target", "value"),
    [
        ("STRING", "INT", "x"),
        ("STRING", "INT", ""),
        ("STRING", "TINYINT", "128"),
        ("STRING", "DOUBLE", "nan"),
        ("STRING", "DOUBLE", "1_0"),
        ("STRING", "DECIMAL(5, 2)", " 1"),
        ("STRING", "BOOLEAN", "on"),
        ("STRING", "DATE", "2023-02-29"),
        ("STRING", "TIMESTAMP(3)", "yesterday"),
        ("DOUBLE", "DECIMAL(5, 2)", NAN),
        ("BYTES", "STRING", b"\xff"),
        ("TIMESTAMP(3)", "TIMESTAMP(9)", 253402300799999),
    ],
)
def test_values_without_counterpart_are_errors(source: str, target: str, value: Any) -> None:
    with pytest.raises(DataError):
        cast(source, target, [value])


@pytest.mark.parametrize(
    ("source", "target"),
    [("DATE", "INT"), ("DATE", "VARCHAR(20)"), ("DOUBLE", "BOOLEAN"), ("TIMESTAMP(3)", "DOUBLE"),
     ("SMALLINT", "TIMESTAMP(3)"), ("INT", "BYTES")],
)  # fmt: skip
def test_casts_java_does_not_know_are_refused(source: str, target: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match="changed from"):
        caster(parse_type(source), parse_type(target))


@pytest.fixture
def new_york(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("new_york")
@pytest.mark.parametrize(
    ("source", "target", "value", "want"),
    [
        ("TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", 0, 5 * 3600_000),
        ("TIMESTAMP_LTZ(3)", "TIMESTAMP(3)", 0, -5 * 3600_000),
        ("TIMESTAMP_LTZ(6)", "TIMESTAMP(3)", 1721898748123456, 1721898748123 - 4 * 3600_000),
        ("TIMESTAMP_LTZ(3)", "BIGINT", 1500, 1),
        ("BIGINT", "TIMESTAMP_LTZ(3)", 0, -5 * 3600_000),
        ("DATE", "TIMESTAMP_LTZ(3)", dt.date(1970, 1, 1), 5 * 3600_000),
        ("TIME(3)", "TIMESTAMP_LTZ(3)", dt.time(0, 0, 1), 1000),
        ("STRING", "TIMESTAMP_LTZ(3)", "1970-01-01", 5 * 3600_000),
        ("TIMESTAMP_LTZ(3)", "STRING", 0, "1969-12-31 19:00:00.000"),
        ("TIMESTAMP_LTZ(3)", "DATE", 0, dt.date(1969, 12, 31)),
        ("TIMESTAMP_LTZ(3)", "TIME(3)", 0, dt.time(19)),
        # 02:30 does not exist on that day: Java moves it on by the gap.
        ("TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", 1710037800000, 1710055800000),
    ],
)
def test_zones_are_those_of_the_process(source: str, target: str, value: Any, want: Any) -> None:
    assert cast(source, target, [value]) == [want]


INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}


@given(st.sampled_from(sorted(INTEGERS)), st.sampled_from(sorted(INTEGERS)), st.data())
def test_integers_keep_their_low_bits(source: str, target: str, data: st.DataObject) -> None:
    bits, want_bits = INTEGERS[source], INTEGERS[target]
    values = data.draw(st.lists(st.none() | st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)))
    half = 2 ** (want_bits - 1)
    want = [None if v is None else (v + half) % (2 * half) - half for v in values]
    have: DataType = parse_type(source)
    out = caster(have, parse_type(target))(pa.array(values, arrow_type(have)))
    assert out.to_pylist() == want
