"""Casts from and to text and bytes, as Java makes them.

Source: Java `utils/BinaryStringUtils`, `utils/DateTimeUtils`, `data/Decimal`; `Float.toString` and `Double.toString` as
JDK 19 and later define them (JDK-4511638).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import DataError
from paimon_spark.format.arrays.arrow_numpy import array_of, boolean_array, scalar_of, validity, values
from paimon_spark.format.arrays.arrow_types import arrow_type, timestamp_unit
from paimon_spark.format.arrays.nested import Convert
from paimon_spark.text import sql_quoted
from paimon_spark.types import (
    INTEGER_BITS,
    MAX_LENGTH,
    AtomicType,
    BinaryType,
    CharType,
    DataType,
    DecimalType,
    TimestampType,
)

_WIDE: Final = Context(prec=1000, Emax=10**9, Emin=-(10**9))
_INTEGER: Final = re.compile(r"([+-]?)([0-9]*)(?:\.[0-9]*)?", re.ASCII)
_FLOAT: Final = re.compile(
    r"[\x00-\x20]*([+-]?)(NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)[\x00-\x20]*", re.ASCII
)
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_TIMESTAMP: Final = re.compile(
    r"(?P<y>[0-9]{4,9})-(?P<m>[0-9]{1,2})-(?P<d>[0-9]{1,2})"
    r"(?: (?P<h>[0-9]{1,2}):(?P<i>[0-9]{1,2}):(?P<s>[0-9]{1,2})(?P<f>\.[0-9]{0,9})?"
    r"|T(?P<h2>[0-9]{1,2}):(?P<i2>[0-9]{1,2})(?::(?P<s2>[0-9]{1,2})(?P<f2>\.[0-9]{0,9})?)?)?",
    re.ASCII,
)
_ARROW_PLAIN_SCALE: Final = 6
"""Decimals of a greater scale may be printed with an exponent by Arrow."""
TRUE_WORDS: Final = frozenset(("t", "true", "y", "yes", "1"))
FALSE_WORDS: Final = frozenset(("f", "false", "n", "no", "0"))


def by_distinct(array: pa.Array, convert: Callable[[Any], Any], kind: pa.DataType) -> pa.Array:
    """`convert` of every distinct value, nulls kept; a None of it is null, a ValueError becomes a DataError."""
    encoded = array.dictionary_encode()
    out = [_converted(value, convert, kind) for value in encoded.dictionary.to_pylist()]
    return array_of(out, kind).take(encoded.indices)


def _converted(value: Any, convert: Callable[[Any], Any], kind: pa.DataType) -> Any:
    try:
        return convert(value)
    except (ValueError, InvalidOperation, OverflowError) as e:
        raise DataError(f"{sql_quoted(value)} cannot become {kind}: {e}") from e


def fitted_text(array: pa.Array, target: CharType) -> pa.Array:
    """Text cut to the type's length; CHAR is filled up with spaces. Lengths count characters."""
    if target.length == MAX_LENGTH:
        return array
    cut = pc.utf8_slice_codeunits(array, start=0, stop=target.length)
    return cut if target.varying else pc.utf8_rpad(cut, width=target.length, padding=" ")


def fitted_bytes(array: pa.Array, target: BinaryType) -> pa.Array:
    """Bytes cut to the type's length; BINARY is filled up with zeros."""
    if target.varying:
        if target.length == MAX_LENGTH or (pc.max(pc.binary_length(array)).as_py() or 0) <= target.length:
            return array
        return pc.binary_slice(array, start=0, stop=target.length)
    return by_distinct(array, lambda v: v[: target.length].ljust(target.length, b"\0"), pa.binary())


def number_parser(target: DataType) -> Convert:
    """Text as numbers of `target`."""
    assert isinstance(target, AtomicType)
    kind = arrow_type(target)
    if target.name in INTEGER_BITS:
        bits = INTEGER_BITS[target.name]
        return lambda a: by_distinct(a, lambda v: _integer(v, bits), kind)
    single = target.name == "FLOAT"
    return lambda a: by_distinct(a, lambda v: _float(v, single), kind)


def _integer(text: str, bits: int = 64) -> int:
    m = _INTEGER.fullmatch(text)
    if m is None or not text or text in ("+", "-"):
        raise ValueError("it is not a number")
    value = int(m[1] + (m[2] or "0"))
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise ValueError("it is out of range")
    return value


def _float(text: str, single: bool) -> float:
    m = _FLOAT.fullmatch(text)
    if m is None:
        raise ValueError("it is not a number")
    digits = m[1] + m[2].rstrip("fFdD") if m[2] not in ("NaN", "Infinity") else m[1] + m[2]
    return float(np.float32(digits)) if single else float(digits)


def parsed_booleans(array: pa.Array) -> pa.Array:
    """Booleans from the words Java knows, in any case."""

    def parse(text: str) -> bool:
        lower = text.lower()
        if lower in TRUE_WORDS:
            return True
        if lower in FALSE_WORDS:
            return False
        raise ValueError("expected t, true, y, yes, 1, f, false, n, no or 0")

    return by_distinct(array, parse, pa.bool_())


def parsed_decimals(array: pa.Array, target: DecimalType) -> pa.Array:
    """Decimals rounded to the scale, halves away from zero; null where the digits do not fit."""

    def parse(text: str) -> Decimal | None:
        if _DECIMAL.fullmatch(text) is None:
            raise ValueError("it is not a number")
        return _rounded(Decimal(text), target)

    return by_distinct(array, parse, arrow_type(target))


def decimals_of_floats(array: pa.Array, target: DecimalType) -> pa.Array:
    """Floats by their shortest decimal text as a double. NaN and infinities are refused."""

    def convert(value: float) -> Decimal | None:
        if value != value or value in (float("inf"), float("-inf")):
            raise ValueError("it is not finite")
        return _rounded(Decimal(repr(value)), target)

    return by_distinct(array.cast(pa.float64()), convert, arrow_type(target))


def _rounded(value: Decimal, target: DecimalType) -> Decimal | None:
    if value.adjusted() > target.precision + 1 and value:
        return None
    rounded = value.quantize(Decimal(1).scaleb(-target.scale), ROUND_HALF_UP, _WIDE)
    return rounded if abs(rounded) < Decimal(10) ** (target.precision - target.scale) else None


def plain_decimals(array: pa.Array) -> pa.Array:
    """Decimals with all digits of their scale and no exponent."""
    if array.type.scale <= _ARROW_PLAIN_SCALE:
        return array.cast(pa.string())
    return by_distinct(array, lambda v: format(v, "f"), pa.string())


def time_text(array: pa.Array, precision: int) -> pa.Array:
    """`HH:MM:SS`, and up to `precision` digits without trailing zeros, but always one if `precision` is not 0."""

    def convert(ms: int) -> str:
        text = f"{ms // 3600000:02}:{ms // 60000 % 60:02}:{ms // 1000 % 60:02}"
        fraction = f"{ms % 1000:03}"
        digits = ""
        for i in range(min(precision, 3)):
            digits += fraction[i]
            if not fraction[i + 1 :].strip("0"):
                break
        return text + ("." + digits if digits else "")

    return by_distinct(array.cast(pa.int32()), convert, pa.string())


def timestamp_text(array: pa.Array, precision: int) -> pa.Array:
    """`yyyy-MM-dd HH:mm:ss`, with `precision` digits, more where the value has more."""
    text = array.cast(pa.string())
    if array.type.unit == "s":
        return text
    if precision == 0:
        return pc.replace_substring_regex(pc.replace_substring_regex(text, r"(\..*?)0+$", r"\1"), r"\.$", "")
    return pc.replace_substring_regex(text, rf"(\.\d{{{precision}}}\d*?)0+$", r"\1")


def parsed_dates(array: pa.Array) -> pa.Array:
    """Dates from `y-m-d`, `y-m`, `y` with anything after a space, or from a number of days."""
    return by_distinct(array, _date, pa.int32()).cast(pa.date32())


def _date(text: str) -> int:
    if text.isdecimal():
        return _integer(text, 32)
    space = text.find(" ")
    parts = (text[:space] if space > 0 else text).split("-", 2)
    numbers = [_digits(p) for p in parts] + [1, 1]
    return _days(*numbers[:3])


def _digits(text: str) -> int:
    stripped = text.strip()
    if not (stripped.isascii() and stripped.isdigit()):
        raise ValueError("it is not a date or time")
    return int(stripped)


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970 of a date of the years 0 to 9999, in the Gregorian calendar throughout."""
    if not 0 <= year <= 9999:
        raise ValueError("the year is not 0 to 9999")
    shift = 400 if year == 0 else 0
    return datetime(year + shift, month, day).toordinal() - 719163 - (146097 if shift else 0)


def parsed_times(array: pa.Array) -> pa.Array:
    """Times from `h:m:s.fff`, shorter forms, with an offset that is added, or from a number of milliseconds."""
    return by_distinct(array, _time, pa.int32()).cast(pa.time32("ms"))


def _time(text: str) -> int:
    if text.isdecimal():
        return _integer(text, 32)
    sign, at = -1, text.find("-")
    if at < 0:
        sign, at = 1, text.find("+")
    hours = minutes = 0
    body = text
    if at >= 0:
        offset = text[at + 1 :].split(":", 1)
        hours, minutes = _digits(offset[0]), _digits(offset[1]) if len(offset) > 1 else 0
        body = text[:at]
    parts = body.split(":", 2)
    second, dot, fraction = parts[2].partition(".") if len(parts) > 2 else ("0", "", "")
    h = _digits(parts[0]) + sign * hours
    m = (_digits(parts[1]) if len(parts) > 1 else 0) + sign * minutes
    ms = h * 3600000 + m * 60000 + _digits(second) * 1000 + (_milliseconds(fraction.strip()) if dot else 0)
    if not 0 <= ms < 86400000:
        raise ValueError("it is not within a day")
    return ms


def _milliseconds(fraction: str) -> int:
    digits = [int(c) if c in "0123456789" else 0 for c in fraction]
    value = sum(d * w for d, w in zip(digits, (100, 10, 1), strict=False))
    return value + (1 if len(fraction) > 3 and fraction[3] >= "5" else 0)


def parsed_timestamps(array: pa.Array, target: TimestampType) -> pa.Array:
    """Timestamps from `y-m-d[ h:m:s[.f]]`, from the ISO form with T, or from a count in the type's precision."""
    kind = arrow_type(target)
    per_second = {"ms": 10**3, "us": 10**6, "ns": 10**9}[timestamp_unit(target.precision)]
    return by_distinct(array, lambda v: _timestamp(v, target, per_second), pa.int64()).cast(kind)


def _timestamp(text: str, target: TimestampType, per_second: int) -> int:
    if text.isdecimal() and not target.local_zone:
        return _timestamp_of_count(text, target.precision, per_second)
    m = _TIMESTAMP.fullmatch(text)
    if m is None:
        raise ValueError("expected yyyy-MM-dd or yyyy-MM-dd HH:mm:ss")
    h, i, s = (int(m[k] or m[k + "2"] or 0) for k in "his")
    if h > 23 or i > 59 or s > 59:
        raise ValueError("it is not a time of day")
    nanos = int(((m["f"] or m["f2"] or ".")[1:] + "0" * 9)[:9])
    nanos -= nanos % 10 ** (9 - target.precision)
    seconds = _days(int(m["y"]), int(m["m"]), int(m["d"])) * 86400 + h * 3600 + i * 60 + s
    if target.local_zone:
        wall = datetime(int(m["y"]), int(m["m"]), int(m["d"]), h, i, s)
        seconds = round(wall.timestamp())
    return _in_range(seconds * per_second + nanos * per_second // 10**9)


def _timestamp_of_count(text: str, precision: int, per_second: int) -> int:
    if precision not in (0, 3, 6, 9):
        raise ValueError(f"a number cannot become a timestamp of precision {precision}")
    return _in_range(_integer(text) * (per_second // 10**precision))


def _in_range(value: int) -> int:
    if not -(2**63) <= value < 2**63:
        raise ValueError("it does not fit 64 bits of the column's precision")
    return value


_TEXT: Final = pa.string()
_PARTS: Final = r"^(?P<sign>-?)(?P<whole>\d+)\.?(?P<zeros>0*)(?P<rest>\d*)e?\+?(?P<exponent>-?\d*)$"
_FEW: Final = 1000
"""Below so many times the smallest number, two digits may be nearer to a number than the one that tells it apart."""


def float_text(array: pa.Array) -> pa.Array:
    """FLOAT or DOUBLE values as Java prints them: 1.0, 1.0E10, 4.9E-324, NaN, Infinity."""
    size = np.abs(np.nan_to_num(values(array), nan=np.inf))
    odd = validity(array) & ~((size == 0) | ((size >= 1e-3) & (size < 1e7)))
    # Arrow's shortest digits are Java's where there is no exponent, but for whole numbers.
    out = pc.replace_substring_regex(array.cast(_TEXT), r"^-?\d+$", r"\0.0")
    if not odd.any():
        return out
    mask = boolean_array(odd)
    out = pc.replace_with_mask(out, mask, _odd_texts(out.filter(mask)))
    tiny = odd & (size < _FEW * np.finfo(size.dtype).smallest_subnormal)
    if not tiny.any():
        return out
    mask = boolean_array(tiny)
    return pc.replace_with_mask(out, mask, _tiny_texts(array.filter(mask), out.filter(mask)))


def float_of_text(text: str, *, single: bool) -> Any:
    """The number that any writer means by `text`, as numpy float32 or float64; None if it is not a number.

    Every spelling that rounds to the number will do: those of older JDKs and of Python, and the digits of the DOUBLE
    that a FLOAT equals.
    """
    try:
        with np.errstate(over="ignore"):
            return np.float32(text) if single else np.float64(text)
    except ValueError:
        return None


def _odd_texts(texts: pa.Array) -> pa.Array:
    """Texts of NaN, infinities and numbers with an exponent, from those of Arrow."""
    parts = pc.extract_regex(texts, _PARTS)
    sign, whole, zeros, rest, written = (parts.field(i) for i in range(5))
    empty, zero, one = scalar_of("", _TEXT), scalar_of("0", _TEXT), scalar_of(1, pa.int32())
    point = pc.if_else(pc.equal(whole, zero), pc.negate(pc.utf8_length(zeros)), pc.utf8_length(whole))
    exponent = pc.if_else(pc.equal(written, empty), pc.subtract(point, one).cast(_TEXT), written)
    digits = pc.utf8_trim(pc.binary_join_element_wise(whole, zeros, rest, empty), "0")
    fraction = pc.utf8_slice_codeunits(digits, start=1)
    fraction = pc.if_else(pc.equal(fraction, empty), zero, fraction)
    first = pc.binary_join_element_wise(sign, pc.utf8_slice_codeunits(digits, start=0, stop=1), empty)
    mantissa = pc.binary_join_element_wise(first, fraction, scalar_of(".", _TEXT))
    numbers = pc.binary_join_element_wise(mantissa, exponent, scalar_of("E", _TEXT))
    words = pc.replace_substring(pc.replace_substring(texts, "inf", "Infinity"), "nan", "NaN")
    return pc.if_else(parts.is_valid(), numbers, words)


def _tiny_texts(array: pa.Array, texts: pa.Array) -> pa.Array:
    """The texts, but where one digit would do, the nearest ones with two."""
    encoded = array.dictionary_encode()
    nearest = array_of([f"{Decimal(v):.1E}" for v in encoded.dictionary.to_pylist()], _TEXT)
    return pc.if_else(pc.match_substring_regex(texts, r"^-?\d\.0E"), nearest.take(encoded.indices), texts)
