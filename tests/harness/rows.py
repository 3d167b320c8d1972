"""Rows in one canonical form, whoever read them, and a comparer that says what differs.

The form is that of `tests/fixtures/README.md`, "Row form": one object a row, columns in schema order, every
value as JSON knows it. The golden tables' `expected.json` and the other engines' readers give it too.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

Row: TypeAlias = dict[str, Any]

_NANOS_PER = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_TIMESTAMP_TEXT = re.compile(r"(-?\d{4,}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6})\d{3}(Z?)")


def rows_of(table: pa.Table, types: Mapping[str, str] | None = None) -> list[Row]:
    """The rows of `table` in canonical form, in its order.

    Args:
        table: what a reader gave.
        types: Paimon's types of the columns as text, where known. They say what Arrow's cannot: that an
            integer column is a TIME (Spark may have them as milliseconds of the day).
    """
    types = types or {}
    columns = []
    for field, column in zip(table.schema, table.columns, strict=True):
        values = _values(column.combine_chunks() if column.num_chunks else pa.array([], column.type))
        if types.get(field.name, "").startswith("TIME(") and pt.is_integer(field.type):
            values = [None if v is None else _time_text(v, "ms") for v in values]
        columns.append(values)
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def row_line(row: object) -> str:
    """The JSON line of a row or value by which rows are sorted and compared."""
    return json.dumps(row, ensure_ascii=False, separators=(",", ":"))


def canonical(rows: Iterable[Row]) -> list[Row]:
    """`rows` sorted by their JSON line."""
    return sorted(rows, key=row_line)


def to_microseconds(value: Any) -> Any:
    """Canonical rows, or one value, with timestamps cut to whole microseconds: all that Spark holds."""
    if isinstance(value, str):
        return _TIMESTAMP_TEXT.sub(r"\g<1>000\2", value) if _TIMESTAMP_TEXT.fullmatch(value) else value
    if isinstance(value, list):
        return [to_microseconds(v) for v in value]
    if isinstance(value, dict):
        return {k: to_microseconds(v) for k, v in value.items()}
    return value


def without_kind(rows: Iterable[Row], kinds: Collection[str] = ("+I", "+U")) -> list[Row]:
    """The rows whose `_KIND` is in `kinds`, without that column: what a batch reader shows of a changelog."""
    return [{k: v for k, v in row.items() if k != "_KIND"} for row in rows if row["_KIND"] in kinds]


def difference(want: Iterable[Row], got: Iterable[Row], unordered: Collection[str] = ()) -> str | None:
    """None when both hold the same rows, each as often, in any order; else a text with the first differences.

    Args:
        want: the rows expected, canonical.
        got: the rows read, canonical.
        unordered: array columns whose element order means nothing.
    """
    wanted = Counter(_comparable(row, unordered) for row in want)
    found = Counter(_comparable(row, unordered) for row in got)
    missing = sorted((wanted - found).elements())
    surplus = sorted((found - wanted).elements())
    if not missing and not surplus:
        return None
    lines = [f"want {wanted.total()} rows, got {found.total()}: {len(missing)} missing, {len(surplus)} surplus"]
    if missing and surplus:
        lines.append(_nearest(missing[0], surplus))
    lines += [f"missing: {line}" for line in missing[:3]] + [f"surplus: {line}" for line in surplus[:3]]
    return "\n".join(lines)


def assert_same_rows(want: Iterable[Row], got: Iterable[Row], unordered: Collection[str] = (), about: str = "") -> None:
    """Fail with `about` and the first differences unless both hold the same rows (see `difference`)."""
    found = difference(want, got, unordered)
    assert found is None, f"{about}\n{found}"


def _comparable(row: Row, unordered: Collection[str]) -> str:
    loose = {k: sorted(v, key=row_line) if k in unordered and isinstance(v, list) else v for k, v in row.items()}
    return row_line(_plain_numbers(loose))


def _plain_numbers(value: Any) -> Any:
    """1 and 1.0 are one number in JSON; 0.0 and -0.0 are two."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return -0.0 if value == 0 and math.copysign(1, value) < 0 else int(value)
    if isinstance(value, dict):
        return {k: _plain_numbers(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain_numbers(v) for v in value]
    return value


def _nearest(line: str, others: Sequence[str]) -> str:
    """The columns in which the row of `line` differs from the most similar of `others`."""
    want = json.loads(line)

    def distance(other: Row) -> int:
        return sum(want.get(k, ...) != other.get(k, ...) for k in want.keys() | other.keys())

    other = min((json.loads(o) for o in others), key=distance)
    names = [k for k in {**want, **other} if want.get(k, ...) != other.get(k, ...)]
    shown = "; ".join(f"{k}: want {want.get(k, '(none)')!r}, got {other.get(k, '(none)')!r}" for k in names[:4])
    return f"nearest pair differs in {shown}"


def _values(array: Any) -> list[Any]:
    """The values of one Arrow array, of whatever class, in canonical form."""
    if isinstance(array, pa.ExtensionArray):
        return _values(array.storage)
    kind = array.type
    if pt.is_dictionary(kind):
        return _values(array.dictionary_decode())
    if pt.is_null(kind):
        return [None] * len(array)
    if pt.is_nested(kind):
        return _nested(array)
    if pt.is_timestamp(kind):
        suffix = "Z" if kind.tz is not None else ""
        return [v if v is None else _timestamp_text(v, kind.unit) + suffix for v in _integers(array)]
    if pt.is_time(kind):
        return [v if v is None else _time_text(v, kind.unit) for v in _integers(array)]
    return [v if v is None else _scalar(v, kind) for v in array.to_pylist()]


def _integers(array: Any) -> list[int | None]:
    """The stored numbers of a time or timestamp array."""
    width = pa.int32() if pt.is_time32(array.type) else pa.int64()
    numbers: list[int | None] = array.cast(width).to_pylist()
    return numbers


def _scalar(value: Any, kind: pa.DataType) -> Any:
    if pt.is_floating(kind):
        if math.isnan(value):
            return "NaN"
        return ("Infinity" if value > 0 else "-Infinity") if math.isinf(value) else value
    if pt.is_decimal(kind):
        return format(value, "f")
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    if pt.is_date(kind):
        return value.isoformat()
    return value


def _nested(array: Any) -> list[Any]:
    kind = array.type
    valid = array.is_valid().to_pylist()
    if pt.is_struct(kind):
        children = [(kind.field(i).name, _values(array.field(i))) for i in range(kind.num_fields)]
        return [{n: v[i] for n, v in children} if ok else None for i, ok in enumerate(valid)]
    if pt.is_fixed_size_list(kind):
        flat = _values(array.values)
        first = array.offset
        spans = [((first + i) * kind.list_size, (first + i + 1) * kind.list_size) for i in range(len(array))]
        return [flat[a:b] if ok else None for (a, b), ok in zip(spans, valid, strict=True)]
    offsets = array.offsets.to_pylist()
    if pt.is_map(kind):
        pairs = [[k, v] for k, v in zip(_values(array.keys), _values(array.items), strict=True)]
        return [sorted(pairs[offsets[i] : offsets[i + 1]], key=row_line) if ok else None for i, ok in enumerate(valid)]
    flat = _values(array.values)
    return [flat[offsets[i] : offsets[i + 1]] if ok else None for i, ok in enumerate(valid)]


def _timestamp_text(value: int, unit: str) -> str:
    seconds, nanos = divmod(value * _NANOS_PER[unit], 10**9)
    # numpy, because datetime ends at the years 1 and 9999.
    return f"{np.datetime64(seconds, 's')}.{nanos:09d}"


def _time_text(value: int, unit: str) -> str:
    seconds, millis = divmod(value * _NANOS_PER[unit] // 10**6, 1000)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{millis:03d}"
