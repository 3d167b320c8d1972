"""Types of columns as text: as Spark's DESCRIBE shows them, and as CREATE TABLE takes them."""

from __future__ import annotations

import re
from typing import Final

from paimon_spark.errors import PaimonError
from paimon_spark.metadata.definition.ddl import default_text
from paimon_spark.predicate.ast import literal_text
from paimon_spark.spark.schema import spark_type
from paimon_spark.sql.tokens import quoted
from paimon_spark.types import (
    BYTES,
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
)

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBERS: Final = frozenset(("TINYINT", "SMALLINT", "INT", "BIGINT"))
_DEFAULT_DIGITS: Final = 6
"""Of TIMESTAMP and TIMESTAMP_NTZ, when none are written."""


def quoted_if_needed(name: str) -> str:
    """A name as Spark prints it: in backquotes only when it must be."""
    return name if _PLAIN.fullmatch(name) else quoted(name)


def spark_text(t: DataType) -> str:
    """A type as DESCRIBE shows it, as Paimon's Spark connector has it; of one that Spark has not, Paimon's own text."""
    match t:
        case CharType() if t.with_nullable(True) != STRING:
            return f"{'varchar' if t.varying else 'char'}({t.length})"
        case ArrayType():
            return f"array<{spark_text(t.element)}>"
        case MapType():
            return f"map<{spark_text(t.key)},{spark_text(t.value)}>"
        case MultisetType():
            return f"map<{spark_text(t.element)},int>"
        case RowType():
            return f"struct<{','.join(f'{f.name}:{spark_text(f.type)}' for f in t)}>"
    try:
        return spark_type(t).simpleString()
    except PaimonError:
        return str(t.with_nullable(True)).lower()


def ddl_column(field: DataField) -> str:
    """A column as CREATE TABLE takes it, so that the same column comes of it."""
    out = f"{quoted_if_needed(field.name)} {ddl_type(field.type)}"
    if not field.type.nullable:
        out += " NOT NULL"
    if field.default_value is not None:
        out += f" DEFAULT {_default(field.type, field.default_value)}"
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
            return f"STRUCT<{', '.join(map(_inner_field, t.fields))}>"
    return str(t.with_nullable(True))


def _element(t: DataType) -> str:
    return ddl_type(t) + ("" if t.nullable else " NOT NULL")


def _inner_field(field: DataField) -> str:
    return f"{quoted_if_needed(field.name)}: {_element(field.type)}{_comment(field.description)}"


def _comment(text: str | None) -> str:
    return f" COMMENT {literal_text(text)}" if text else ""


def _default(t: DataType, text: str) -> str:
    """A default as SQL: whole numbers and truth values bare, anything else in quotes."""
    bare = isinstance(t, AtomicType) and (
        (t.name in _NUMBERS and re.fullmatch(r"-?\d+", text)) or (t.name == "BOOLEAN" and text in ("true", "false"))
    )
    return text if bare and default_text(text, "") == text else literal_text(text)
