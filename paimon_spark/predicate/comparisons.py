"""Comparisons of columns with Python values as SQL, where other engines compare alike."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Final

from paimon_spark.predicate.ast import literal_text
from paimon_spark.types import MICROSECONDS, AtomicType, CharType, DataType, DecimalType, RowType, TimestampType, quoted

_NUMBERS: Final = frozenset(("TINYINT", "SMALLINT", "INT", "BIGINT", "DOUBLE"))
_KINDS: Final[Mapping[type, frozenset[str]]] = {
    bool: frozenset(("BOOLEAN",)),
    int: _NUMBERS,
    float: _NUMBERS,
    str: frozenset(("VARCHAR",)),
    date: frozenset(("DATE",)),
    Decimal: frozenset(("DECIMAL",)),
    datetime: frozenset(("TIMESTAMP_NTZ", "TIMESTAMP")),
}
"""Types of values, with those of the columns that they are compared with."""
_AS_SQL: Final = {"FLOAT": "DOUBLE", "CHAR": "VARCHAR"}
"""Types that SQL compares as others."""
TURNED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""Signs of comparisons, with those of the same comparison with its sides exchanged."""
OF_NAN: Final = frozenset(("DOUBLE", "FLOAT"))
"""Types with NaN, which SQL takes for larger than any number and equal to itself, other engines for neither."""


def comparison(name: str, sign: str, value: object, columns: RowType, *, as_sql: bool = False) -> str | None:
    """`column sign literal`, such as `a >= 5`; None where the engine may compare otherwise than SQL.

    Every row for which the engine's comparison is true satisfies it; SQL may keep rows with NaN besides. With `as_sql`
    the result is what SQL makes of it, of FLOAT and CHAR columns too.
    """
    if name not in columns.names:
        return None
    of_column = type_name(columns.field(name).type)
    if as_sql:
        of_column = _AS_SQL.get(of_column, of_column)
    literal = literal_of(value)
    if literal is None or of_column not in _KINDS.get(type(value), ()):
        return None
    if isinstance(value, datetime) and (of_column == "TIMESTAMP") != (value.tzinfo is not None):
        return None
    return f"{quoted(name)} {sign} {literal}"


def literal_of(value: object) -> str | None:
    """A value as SQL; None for one that SQL has no literal for."""
    match value:
        case bool():
            return literal_text(value)
        case int():
            return literal_text(value) if abs(value) < 2**63 else None
        case float():
            return f"CAST('{value!r}' AS DOUBLE)" if math.isfinite(value) else None
        case str():
            return None if "\\" in value else literal_text(value)
        case datetime():
            kind = "TIMESTAMP_NTZ" if value.tzinfo is None else "TIMESTAMP"
            return f"{kind} '{value.isoformat(' ')}'"
        case Decimal():
            return f"CAST('{value:f}' AS DECIMAL(38, {max(0, _scale(value))}))" if value.is_finite() else None
        case date():
            return literal_text(value)
    return None


def _scale(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    return -exponent if isinstance(exponent, int) else 0


def type_name(column: DataType) -> str:
    """Spark's name of a column's type without its length; empty for types that are not compared."""
    match column:
        case CharType():
            return "VARCHAR" if column.varying else "CHAR"
        case DecimalType():
            return "DECIMAL"
        case TimestampType():
            name = "TIMESTAMP" if column.local_zone else "TIMESTAMP_NTZ"
            return name if column.precision <= MICROSECONDS else ""
        case AtomicType():
            return column.name
    return ""
