"""Columns, types and defaults as the SQL that makes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from paimon_spark.format.casts.defaults import Default, default_parts
from paimon_spark.metadata.definition.ddl import default_text
from paimon_spark.predicate.ast import literal_text
from paimon_spark.spark.schema import spark_type
from paimon_spark.types import (
    BYTES,
    INTEGER_NAMES,
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
    VectorType,
    quoted_if_needed,
)

_DEFAULT_DIGITS: Final = 6
"""Of TIMESTAMP and TIMESTAMP_NTZ, when none are written."""


def ddl_column(field: DataField) -> str:
    """A column as CREATE TABLE takes it."""
    out = f"{quoted_if_needed(field.name)} {ddl_type(field.type)}"
    if not field.type.nullable:
        out += " NOT NULL"
    if field.default_value is not None:
        out += f" DEFAULT {_plain(field.type, default_parts(field.type, field.default_value))}"
    return out + _comment(field.description)


def ddl_type(t: DataType) -> str:
    """A type as CREATE TABLE takes it, without NOT NULL: Spark's word, or Paimon's where Spark has none."""
    match t:
        case CharType() if t.with_nullable(True) == STRING:
            return "STRING"
        case BinaryType() if t.with_nullable(True) == BYTES:
            return "BINARY"
        case DecimalType():
            return f"DECIMAL({t.precision},{t.scale})"
        case TimestampType():
            word = "TIMESTAMP_LTZ" if t.local_zone else "TIMESTAMP_NTZ"
            if t.precision != _DEFAULT_DIGITS:
                return f"{word}({t.precision})"
            return "TIMESTAMP" if t.local_zone else word
        case ArrayType():
            return f"ARRAY<{_element(t.element)}>"
        case MultisetType():
            return f"MULTISET<{_element(t.element)}>"
        case MapType():
            return f"MAP<{ddl_type(t.key)}, {_element(t.value)}>"
        case VectorType():
            return f"VECTOR<{_element(t.element)}, {t.length}>"
        case RowType():
            fields = (f"{quoted_if_needed(f.name)}: {_element(f.type)}{_comment(f.description)}" for f in t.fields)
            return f"STRUCT<{', '.join(fields)}>"
    return str(t.with_nullable(True))


def _element(t: DataType) -> str:
    return ddl_type(t) + ("" if t.nullable else " NOT NULL")


def _comment(text: str | None) -> str:
    return f" COMMENT {literal_text(text)}" if text else ""


def default_expression(field: DataField) -> str:
    """The default of a column as an expression of its type."""
    given = None if field.default_value is None else default_parts(field.type, field.default_value)
    return _typed(field.type, given, field.name)


def _plain(t: DataType, given: Default) -> str:
    """A default as a clause: whole numbers and booleans bare, anything else in quotes."""
    if given is None:
        return "NULL"
    match t:
        case ArrayType() if isinstance(given, tuple):
            return f"array({', '.join(_plain(t.element, part) for part in given)})"
        case MapType() if isinstance(given, tuple):
            return f"map({', '.join(_plain(u, part) for u, part in _of_entries(t, given))})"
        case RowType() if isinstance(given, tuple):
            return f"struct({', '.join(_plain(f.type, part) for f, part in zip(t.fields, given, strict=True))})"
    text = str(given)
    bare = isinstance(t, AtomicType) and (
        (t.name in INTEGER_NAMES and re.fullmatch(r"-?\d+", text))
        or (t.name == "BOOLEAN" and text in ("true", "false"))
    )
    return text if bare and default_text(text, "") == text else literal_text(text)


def _typed(t: DataType, given: Default, column: str) -> str:
    """A default as an expression."""
    match t:
        case ArrayType() if isinstance(given, tuple):
            inner = ", ".join(_typed(t.element, part, column) for part in given)
            return f"array({inner})" if given else f"CAST(array() AS {_spark_name(t, column)})"
        case MapType() if isinstance(given, tuple):
            if given:
                return f"map({', '.join(_typed(u, part, column) for u, part in _of_entries(t, given))})"
            # Without ANSI mode Spark casts no map() to a map with keys of another type.
            parts = (_typed(ArrayType(True, u), (), column) for u in (t.key, t.value))
            return f"map_from_arrays({', '.join(parts)})"
        case RowType() if isinstance(given, tuple):
            fields = zip(t.fields, given, strict=True)
            inner = ", ".join(f"{literal_text(f.name)}, {_typed(f.type, part, column)}" for f, part in fields)
            return f"named_struct({inner})"
    return f"CAST({'NULL' if given is None else literal_text(str(given))} AS {_spark_name(t, column)})"


def _spark_name(t: DataType, column: str) -> str:
    """A type as CAST takes it, without NOT NULL."""
    match t:
        case ArrayType():
            return f"array<{_spark_name(t.element, column)}>"
        case MapType():
            return f"map<{_spark_name(t.key, column)},{_spark_name(t.value, column)}>"
        case RowType():
            return f"struct<{','.join(f'{quoted_if_needed(f.name)}:{_spark_name(f.type, column)}' for f in t.fields)}>"
    return spark_type(t, column).simpleString()


def _of_entries(t: MapType, given: Sequence[Default]) -> list[tuple[DataType, Default]]:
    """Keys and values by turns, each with its type."""
    return [(t.value if i % 2 else t.key, part) for i, part in enumerate(given)]
