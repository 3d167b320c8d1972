"""Rules for changes of column types: which type may become which, and which text can be a default.

Source: Paimon spec, chapter Schema; Java `types/DataTypeCasts`, `casting/CastExecutors`, `utils/DefaultValueUtils`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from paimon_spark.errors import DataError, InvalidInputError, UnsupportedFeatureError
from paimon_spark.format.arrays.python_values import array_of
from paimon_spark.format.casts.evolution import caster
from paimon_spark.types import (
    INTEGER_NAMES,
    STRING,
    AtomicType,
    BinaryType,
    CharType,
    DataType,
    DecimalType,
    TimestampType,
    TimeType,
)

_TEXTS: Final = ("CHAR", "VARCHAR")
_BYTES: Final = ("BINARY", "VARBINARY")
_NUMBERS: Final = (*INTEGER_NAMES, "FLOAT", "DOUBLE", "DECIMAL")
_TIMESTAMPS: Final = ("TIMESTAMP", "TIMESTAMP_LTZ")
_TIMES: Final = (*_TIMESTAMPS, "DATE", "TIME")
_EVERYTHING: Final = (*_TEXTS, *_BYTES, *_NUMBERS, *_TIMES, "BOOLEAN")
_IMPLICIT: Final[Mapping[str, tuple[str, ...]]] = {
    "CHAR": ("CHAR",),
    "VARCHAR": _TEXTS,
    "BOOLEAN": ("BOOLEAN",),
    "BINARY": ("BINARY",),
    "VARBINARY": _BYTES,
    "DECIMAL": _NUMBERS,
    "TINYINT": ("TINYINT",),
    "SMALLINT": ("TINYINT", "SMALLINT"),
    "INT": ("TINYINT", "SMALLINT", "INT"),
    "BIGINT": INTEGER_NAMES,
    "FLOAT": (*INTEGER_NAMES, "FLOAT", "DECIMAL"),
    "DOUBLE": _NUMBERS,
    "DATE": ("DATE", "TIMESTAMP"),
    "TIME": ("TIME", "TIMESTAMP"),
    "TIMESTAMP": _TIMESTAMPS,
    "TIMESTAMP_LTZ": _TIMESTAMPS,
}
"""By the target: what becomes it without being asked for. FLOAT from BIGINT loses digits, as in Java."""

_TO_NUMBER: Final = (*_NUMBERS, *_TEXTS, "BOOLEAN")
_TO_TIMESTAMP: Final = (*_TIMESTAMPS, "DATE", "TIME", *_TEXTS, "INT", "BIGINT")
_EXPLICIT: Final[Mapping[str, tuple[str, ...]]] = {
    "CHAR": _EVERYTHING,
    "VARCHAR": _EVERYTHING,
    "BOOLEAN": (*_TEXTS, *INTEGER_NAMES),
    "BINARY": (*_TEXTS, "VARBINARY"),
    "VARBINARY": (*_TEXTS, "BINARY"),
    "DECIMAL": _TO_NUMBER,
    **dict.fromkeys(("TINYINT", "SMALLINT", "FLOAT", "DOUBLE"), _TO_NUMBER),
    **dict.fromkeys(("INT", "BIGINT"), (*_TO_NUMBER, *_TIMESTAMPS)),
    "DATE": (*_TIMESTAMPS, *_TEXTS),
    "TIME": (*_TIMESTAMPS, *_TEXTS),
    "TIMESTAMP": _TO_TIMESTAMP,
    "TIMESTAMP_LTZ": _TO_TIMESTAMP,
}
"""By the target: what becomes it when asked for; values may be cut, rounded or null. Only what Java can carry out."""


def can_cast(source: DataType, target: DataType, explicit: bool) -> bool:
    """Whether a column of `source` may become one of `target`, nullability aside; rows and collections only stay.

    Args:
        source: the type of the values there are.
        target: the type they shall have.
        explicit: whether values may be changed by it, as `CAST` does.
    """
    if source.with_nullable(True) == target.with_nullable(True):
        return True
    old, new = root(source), root(target)
    if old in _TIMES and isinstance(target, CharType) and target.with_nullable(True) != STRING:
        return False
    return old in _IMPLICIT.get(new, ()) or (explicit and old in _EXPLICIT.get(new, ()))


def root(t: DataType) -> str:
    """The word of a type, without lengths and precision; empty for rows, collections and foreign types."""
    match t:
        case AtomicType():
            return t.name
        case CharType():
            return "VARCHAR" if t.varying else "CHAR"
        case BinaryType():
            return "VARBINARY" if t.varying else "BINARY"
        case DecimalType():
            return "DECIMAL"
        case TimeType():
            return "TIME"
        case TimestampType():
            return "TIMESTAMP_LTZ" if t.local_zone else "TIMESTAMP"
    return ""


def check_default(column: str, t: DataType, text: str | None) -> None:
    """Check that the text of a default can be a value of the column.

    Raises:
        InvalidInputError: it cannot.
    """
    if text is None:
        return
    bare = text[1:-1] if len(text) > 1 and text[0] == text[-1] == "'" else text
    if not _is_value(t, bare):
        raise InvalidInputError(f"column {column}: the default {text!r} is no value of type {t}", column=column)


def _is_value(t: DataType, text: str) -> bool:
    try:
        return int(caster(STRING, t)(array_of([text], pa.string())).null_count) == 0
    except (DataError, UnsupportedFeatureError):
        return False
