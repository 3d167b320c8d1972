"""Comparisons of a column with a value, which becomes a literal of the column's type.

Spark casts the two sides of a comparison to a common type. Here the column always stays as it is stored and
the value moves onto the column's grid instead (`i < 1.5` becomes `i <= 1`), which means the same to every row
and lets statistics, buckets and file readers compare stored values. What has no such form is refused.

Source: Spark `AnsiTypeCoercion`, `Cast`, `SparkDateTimeUtils.parseTimestampString`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import ROUND_FLOOR, Context, Decimal, InvalidOperation
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from paimon_spark.errors import InvalidOptionError, PredicateSyntaxError
from paimon_spark.format.casts.text import FALSE_WORDS, TRUE_WORDS, float_of_text
from paimon_spark.predicate.ast import (
    Column,
    Compare,
    Constant,
    In,
    Literal,
    Not,
    NullSafeEqual,
    Op,
    Predicate,
)
from paimon_spark.text import sql_quoted
from paimon_spark.types import (
    BIGINT,
    DATE,
    INTEGER_BITS,
    INTEGER_NAMES,
    AtomicType,
    BinaryType,
    CharType,
    DataType,
    DecimalType,
    TimestampType,
    TimeType,
)

_EXACT: Final = Context(prec=400)
_DOUBLE_INTEGERS: Final = 2**53
_FLOAT_DIGITS: Final = 9
"""With so many digits, and not with fewer, every FLOAT has a text of its own."""
_DOUBLE_DIGITS: Final = 15
_DAY: Final = timedelta(days=1)
BLANKS: Final = "".join(map(chr, range(0x21)))
"""What Spark takes off text before it reads a value from it, but for control characters that nobody writes."""
_WHOLE: Final = re.compile(r"[+-]?\d+", re.ASCII)
_REAL: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|nan|[+-]?inf(?:inity)?", re.ASCII | re.IGNORECASE)
_MOST_DIGITS: Final = 1000
"""Of a number as text; Python itself converts no more than 4,300."""
_DATE: Final = re.compile(r"^\s*(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[T ].*)?)?)?\s*$", re.DOTALL | re.ASCII)
_TIMESTAMP: Final = re.compile(
    r"^\s*(?P<y>\d{4})(?:-(?P<mo>\d{1,2})(?:-(?P<d>\d{1,2}))?)?"
    r"(?:[T ]\s*(?P<h>\d{1,2}):(?P<mi>\d{1,2})(?::(?P<s>\d{1,2})(?:\.(?P<f>\d{0,9}))?)?\s*(?P<z>\S+)?)?\s*$",
    re.ASCII,
)
_OFFSET: Final = re.compile(r"^(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2})(?::?(\d{2}))?)?$")


def never(column: Column) -> Predicate:
    """False for every value, null for null."""
    return In(column, ())


def always(column: Column) -> Predicate:
    """True for every value, null for null."""
    return Not(never(column))


def compare(op: Op, column: Column, value: Literal | None, zone: tzinfo | None = None) -> Predicate:
    """`column op value` as Spark means it; a null value makes it null.

    Args:
        op: the comparison, column on the left.
        column: a column of a type that has an order.
        value: of any literal type; a float is a DOUBLE, a Decimal is exact, a naive datetime is a TIMESTAMP_NTZ,
            an aware one an instant.
        zone: session time zone, for text and for values of the other timestamp kind; None is the machine's.

    Raises:
        PredicateSyntaxError: the two cannot be compared, or not without changing what Spark would say.
    """
    if value is None:
        return Constant(None)
    match column.type:
        case AtomicType(name=name) if name in INTEGER_NAMES:
            return _integer(op, column, value, INTEGER_BITS[name])
        case TimeType():
            return _integer(op, column, value, 32)
        case AtomicType(name="FLOAT" | "DOUBLE"):
            return _floating(op, column, value)
        case AtomicType(name="BOOLEAN"):
            return Compare(op, column, _boolean(column, value))
        case AtomicType(name="DATE"):
            return _date(op, column, value, zone)
        case DecimalType():
            return _decimal(op, column, value)
        case TimestampType():
            return Compare(op, column, _instant(column, column.type, value, zone))
        case CharType() if isinstance(value, str):
            return Compare(op, column, value)
        case BinaryType() if isinstance(value, bytes):
            return Compare(op, column, value)
    raise _cannot(column, value)


def null_safe_equal(column: Column, value: Literal | None, zone: tzinfo | None = None) -> Predicate:
    """`column <=> value`. Raises as `compare` does."""
    if value is None:
        return NullSafeEqual(column, None)
    match compare(Op.EQ, column, value, zone):
        case Compare(_, _, literal):
            return NullSafeEqual(column, literal)
    return Constant(False)


def partition_equal(column: Column, value: Literal | None, zone: tzinfo | None = None) -> Predicate:
    """`column <=> value`, where partitions are named: of a FLOAT the number that text or a number stands for.

    In a condition `0.1` is a DOUBLE, which no FLOAT equals. Raises as `compare` does.

    Source: Java `utils/TypeUtils.castFromString`.
    """
    if column.type.with_nullable(True) == AtomicType(name="FLOAT") and isinstance(value, str | float | Decimal):
        nearest = float_of_text(str(value), single=True)
        if nearest is not None and np.isfinite(nearest) and _digits(str(value)) <= _FLOAT_DIGITS:
            value = float(nearest)
    return null_safe_equal(column, value, zone)


def _digits(text: str) -> int:
    """How many digits a number is written with, but for zeros around them."""
    digits = text.strip().lower().partition("e")[0].lstrip("+-").replace(".", "")
    return len(digits.strip("0"))


def one_of(column: Column, values: Iterable[Literal | None], zone: tzinfo | None = None) -> Predicate:
    """`column IN (values…)`. Raises as `compare` does."""
    literals: list[Literal] = []
    has_null = False
    values = list(values)
    _check_alike(column, values)
    for value in values:
        match compare(Op.EQ, column, value, zone):
            case Compare(_, _, literal):
                literals.append(literal)
            case Constant():
                has_null = True
    if has_null and not literals:
        return Constant(None)
    return In(column, tuple(literals), has_null)


def _check_alike(column: Column, values: Iterable[Literal | None]) -> None:
    """Refuse lists for which Spark casts the column: to DOUBLE, or to timestamps."""
    kinds = {type(v) for v in values if v is not None}
    is_inexact = isinstance(column.type, DecimalType) or column.type.with_nullable(True) == BIGINT
    zoned = {v.tzinfo is not None for v in values if isinstance(v, datetime)}
    is_day = column.type.with_nullable(True) == DATE and {str, datetime} <= kinds
    if (float in kinds and len(kinds) > 1 and is_inexact) or len(zoned) > 1 or is_day:
        raise PredicateSyntaxError(
            f"column {column} is {_plain(column.type)}, and the list of IN mixes types; write literals of that type"
        )


def zone_of(name: str | None) -> tzinfo | None:
    """The zone called `name` (`Europe/Berlin`, `UTC`, `+02:00`); None is the machine's. Raises InvalidOptionError."""
    if name is None:
        return None
    try:
        return _zone(name)
    except PredicateSyntaxError as e:
        raise InvalidOptionError(
            f"unknown time zone {name!r}; use a name such as Europe/Berlin or an offset such as +02:00"
        ) from e


def parse_timestamp(text: str, zone: tzinfo | None, local_zone: bool) -> datetime:
    """Spark's timestamp text: `2024-01-02 03:04:05.678`, trailing parts optional, with or without a zone.

    Args:
        text: what to parse; digits after microseconds are dropped.
        zone: session time zone, None for the machine's.
        local_zone: True gives an instant (aware, UTC), False a wall clock (naive; a zone in the text is an error).

    Raises PredicateSyntaxError when it is not a timestamp.
    """
    m = _TIMESTAMP.match(text)
    if m is None:
        raise PredicateSyntaxError(f"{text!r} is not a timestamp; write it as '2024-01-02 03:04:05.678'")
    fraction = ((m["f"] or "") + "000000")[:6]
    try:
        wall = datetime(
            int(m["y"]), int(m["mo"] or 1), int(m["d"] or 1),
            int(m["h"] or 0), int(m["mi"] or 0), int(m["s"] or 0), int(fraction),
        )  # fmt: skip
    except ValueError as e:
        raise PredicateSyntaxError(f"{text!r} is not a timestamp: {e}") from e
    if not local_zone:
        if m["z"]:
            raise PredicateSyntaxError(f"{text!r} names a time zone, but the column has none; leave it out")
        return wall
    return to_instant(wall, _zone(m["z"]) if m["z"] else zone)


def check_digits(text: str) -> None:
    """Check that a literal has no digits after the microsecond: conditions compare timestamps as Spark has them.

    Raises PredicateSyntaxError.
    """
    m = _TIMESTAMP.match(text)
    if m is not None and (m["f"] or "")[6:].strip("0"):
        raise PredicateSyntaxError(
            f"{text!r} has digits after the microsecond, which conditions do not compare; write six digits at most"
        )


def parse_date(text: str) -> date:
    """Spark's date text: `2024-01-02`, `2024-1`, `2024`; a time of day behind it is ignored.

    Raises PredicateSyntaxError when it is not a date.
    """
    m = _DATE.match(text)
    try:
        if m is not None:
            return date(int(m[1]), int(m[2] or 1), int(m[3] or 1))
    except ValueError as e:
        raise PredicateSyntaxError(f"{text!r} is not a date: {e}") from e
    raise PredicateSyntaxError(f"{text!r} is not a date; write it as '2024-01-02'")


def to_instant(wall: datetime, zone: tzinfo | None) -> datetime:
    """The instant (UTC) at which clocks of `zone` (None: the machine's) show `wall`."""
    try:
        return (wall if zone is None else wall.replace(tzinfo=zone)).astimezone(UTC)
    except (OverflowError, ValueError) as e:
        raise PredicateSyntaxError(f"{wall} is outside the years 1 to 9999 in UTC") from e


def to_wall_clock(instant: datetime, zone: tzinfo | None) -> datetime:
    """Wall clock of `zone` (None: the machine's) at `instant`, naive."""
    try:
        return instant.astimezone(zone).replace(tzinfo=None)
    except (OverflowError, ValueError) as e:
        raise PredicateSyntaxError(f"{instant} is outside the years 1 to 9999 in the session's time zone") from e


def _zone(name: str) -> tzinfo:
    if name.upper() in ("Z", "UTC", "GMT"):
        return UTC
    if m := _OFFSET.match(name):
        seconds = int(m[2]) * 3600 + int(m[3] or 0) * 60 + int(m[4] or 0)
        if seconds <= 18 * 3600:
            return timezone(timedelta(seconds=-seconds if m[1] == "-" else seconds))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as e:
        raise PredicateSyntaxError(f"unknown time zone {name!r}") from e


def _on_grid(op: Op, column: Column, floor: Literal, exact: bool) -> Predicate:
    """A comparison with a value that lies on the grid of the column's values at `floor`, or just above it."""
    if exact:
        return Compare(op, column, floor)
    match op:
        case Op.EQ:
            return never(column)
        case Op.NE:
            return always(column)
        case Op.LT | Op.LE:
            return Compare(Op.LE, column, floor)
        case _:
            return Compare(Op.GT, column, floor)


def _beyond(op: Op, column: Column, above: bool) -> Predicate:
    """A comparison with a value above (or below) everything the column can hold."""
    wins = op is Op.NE or op in ((Op.LT, Op.LE) if above else (Op.GT, Op.GE))
    return always(column) if wins else never(column)


def _number(column: Column, value: Literal) -> int | float | Decimal:
    """The value as a number. Text is read as Spark's cast would, and as a DOUBLE beside fractional columns."""
    if isinstance(value, bool):
        raise _cannot(column, value)
    if isinstance(value, int | float | Decimal):
        return value
    if isinstance(value, str):
        integral = isinstance(column.type, AtomicType) and column.type.name in INTEGER_NAMES
        text = value.strip(BLANKS)
        if (_WHOLE if integral else _REAL).fullmatch(text) is None or len(text) > _MOST_DIGITS:
            raise PredicateSyntaxError(
                f"column {column} is {_plain(column.type)}, and {value[:_MOST_DIGITS]!r} is not such a number"
            )
        return int(text) if integral else float(text)
    raise _cannot(column, value)


def _integer(op: Op, column: Column, value: Literal, bits: int) -> Predicate:
    number = _number(column, value)
    if isinstance(number, float):
        if math.isnan(number):
            return _beyond(op, column, above=True)
        if math.isinf(number):
            return _beyond(op, column, above=number > 0)
        if bits == 64 and abs(number) >= _DOUBLE_INTEGERS:
            # Spark would compare as DOUBLE, where neighbouring BIGINTs of this size are equal.
            raise PredicateSyntaxError(
                f"column {column} is BIGINT; compare it with a whole number, not with the DOUBLE {number}"
            )
    floor = math.floor(number)
    limit = 1 << (bits - 1)
    if not -limit <= floor < limit:
        return _beyond(op, column, above=floor >= limit)
    return _on_grid(op, column, floor, floor == number)


def _floating(op: Op, column: Column, value: Literal) -> Predicate:
    number = float(_number(column, value))
    if column.type.with_nullable(True) == AtomicType(name="DOUBLE") or math.isnan(number) or math.isinf(number):
        return Compare(op, column, number)
    with np.errstate(over="ignore"):
        nearest = np.float32(number)
    if float(nearest) > number:
        nearest = np.nextafter(nearest, np.float32(-np.inf))
    return _on_grid(op, column, float(nearest), float(nearest) == number)


def _decimal(op: Op, column: Column, value: Literal) -> Predicate:
    assert isinstance(column.type, DecimalType)
    number = _number(column, value)
    if isinstance(number, float):
        return _decimal_as_double(op, column, column.type, number)
    exact = Decimal(number)
    if exact.is_nan() or exact.is_infinite() or abs(exact.adjusted()) > 100:
        raise PredicateSyntaxError(f"{number} is out of range for column {column}, {_plain(column.type)}")
    return _decimal_on_grid(op, column, column.type, exact)


def _decimal_on_grid(op: Op, column: Column, dtype: DecimalType, number: Decimal) -> Predicate:
    floor = number.quantize(Decimal(1).scaleb(-dtype.scale), rounding=ROUND_FLOOR, context=_EXACT)
    limit = Decimal(10) ** (dtype.precision - dtype.scale)
    if not -limit < floor < limit:
        # floor == -limit is just below the least value, whether or not it is exact.
        return _beyond(op, column, above=floor >= limit)
    return _on_grid(op, column, floor, floor == number)


def _decimal_as_double(op: Op, column: Column, dtype: DecimalType, number: float) -> Predicate:
    """Spark compares DECIMAL with DOUBLE as doubles; up to 15 digits that keeps different decimals apart."""
    if dtype.precision > _DOUBLE_DIGITS:
        raise PredicateSyntaxError(
            f"column {column} is {_plain(dtype)}; compare it with a decimal literal such as 1.5BD or "
            f"1.50, not with the DOUBLE or text {number}"
        )
    if math.isnan(number) or math.isinf(number):
        return _beyond(op, column, above=not number < 0)
    exact = Decimal(number)
    try:
        near = exact.quantize(Decimal(1).scaleb(-dtype.scale), context=_EXACT)
    except InvalidOperation:
        return _beyond(op, column, above=number > 0)
    return _decimal_on_grid(op, column, dtype, near if float(near) == number else exact)


def _boolean(column: Column, value: Literal) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and (word := value.strip(BLANKS).lower()) in TRUE_WORDS | FALSE_WORDS:
        return word in TRUE_WORDS
    raise _cannot(column, value)


def _date(op: Op, column: Column, value: Literal, zone: tzinfo | None) -> Predicate:
    if isinstance(value, str):
        return Compare(op, column, parse_date(value))
    if isinstance(value, datetime):
        wall = value if value.tzinfo is None else _steady(column, to_wall_clock(value, zone), zone)
        floor = wall.date()
        return _on_grid(op, column, floor, wall == datetime(floor.year, floor.month, floor.day))
    if isinstance(value, date):
        return Compare(op, column, value)
    raise _cannot(column, value)


def _instant(column: Column, dtype: TimestampType, value: Literal, zone: tzinfo | None) -> datetime:
    if isinstance(value, str):
        check_digits(value)
        return parse_timestamp(value, zone, dtype.local_zone)
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
        value = _steady(column, value, zone) if dtype.local_zone else value
    if not isinstance(value, datetime):
        raise _cannot(column, value)
    if dtype.local_zone:
        return to_instant(value, zone) if value.tzinfo is None else value.astimezone(UTC)
    return value if value.tzinfo is None else _steady(column, to_wall_clock(value, zone), zone)


def _steady(column: Column, wall: datetime, zone: tzinfo | None) -> datetime:
    """Return `wall`, unless the zone changes its offset near it.

    Elsewhere wall clocks compare as instants do.
    """
    around = wall - _DAY, wall, wall + _DAY
    try:
        offsets = {(w if zone is None else w.replace(tzinfo=zone)).astimezone(UTC) - _utc(w) for w in around}
    except (OverflowError, ValueError):
        offsets = set()
    if len(offsets) != 1:
        raise PredicateSyntaxError(
            f"column {column} is {_plain(column.type)}, and the session's time zone changes its offset near {wall}; "
            "write a literal of the column's type"
        )
    return wall


def _utc(wall: datetime) -> datetime:
    return wall.replace(tzinfo=UTC)


def _plain(t: DataType) -> str:
    return str(t.with_nullable(True))


def _cannot(column: Column, value: Literal) -> PredicateSyntaxError:
    return PredicateSyntaxError(
        f"column {column} is {_plain(column.type)} and cannot be compared with {sql_quoted(value)}; "
        "write a literal of the column's type",
        column=str(column),
    )
