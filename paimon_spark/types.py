"""Paimon data types, fields and row kinds.

Source: Paimon spec, chapter Schema; Java `types/DataTypes`, `DataTypeJsonParser`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Final, Self

from paimon_spark.errors import FormatError

MAX_LENGTH: Final = 2147483647
"""Length of VARCHAR and VARBINARY that is written STRING and BYTES."""

SEQUENCE_NUMBER: Final = "_SEQUENCE_NUMBER"
VALUE_KIND: Final = "_VALUE_KIND"
ROW_ID: Final = "_ROW_ID"
KEY_PREFIX: Final = "_KEY_"
ROW_KIND_COLUMN: Final = "rowkind"
SEQUENCE_NUMBER_ID: Final = 2147483646
VALUE_KIND_ID: Final = 2147483645
ROW_ID_FIELD_ID: Final = 2147483642


class RowKind(IntEnum):
    """Change that a row makes to the table; the value is the byte stored in `_VALUE_KIND`."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    @property
    def symbol(self) -> str:
        return ("+I", "-U", "+U", "-D")[self]


@dataclass(frozen=True, slots=True)
class DataType:
    """Base of all types. Equality includes nullability; `nullable` is the last thing written."""

    nullable: bool = True

    def with_nullable(self, nullable: bool) -> Self:
        """The same type, nullable or not."""
        return self if self.nullable == nullable else replace(self, nullable=nullable)


@dataclass(frozen=True, slots=True)
class AtomicType(DataType):
    """A type written as one word, such as INT, DATE or VARIANT. `name` is upper case."""

    name: str = ""

    def __str__(self) -> str:
        return self.name + _suffix(self)


@dataclass(frozen=True, slots=True)
class CharType(DataType):
    """CHAR(length) or, when `varying`, VARCHAR(length). STRING is VARCHAR(MAX_LENGTH). Length in characters."""

    length: int = MAX_LENGTH
    varying: bool = True

    def __str__(self) -> str:
        if self.varying and self.length == MAX_LENGTH:
            return "STRING" + _suffix(self)
        return f"{'VARCHAR' if self.varying else 'CHAR'}({self.length})" + _suffix(self)


@dataclass(frozen=True, slots=True)
class BinaryType(DataType):
    """BINARY(length) or, when `varying`, VARBINARY(length). BYTES is VARBINARY(MAX_LENGTH). Length in bytes."""

    length: int = MAX_LENGTH
    varying: bool = True

    def __str__(self) -> str:
        if self.varying and self.length == MAX_LENGTH:
            return "BYTES" + _suffix(self)
        return f"{'VARBINARY' if self.varying else 'BINARY'}({self.length})" + _suffix(self)


@dataclass(frozen=True, slots=True)
class DecimalType(DataType):
    precision: int = 10
    scale: int = 0

    def __str__(self) -> str:
        return f"DECIMAL({self.precision}, {self.scale})" + _suffix(self)


@dataclass(frozen=True, slots=True)
class TimeType(DataType):
    """Time of day. Stored as milliseconds of the day whatever the precision."""

    precision: int = 0

    def __str__(self) -> str:
        return f"TIME({self.precision})" + _suffix(self)


@dataclass(frozen=True, slots=True)
class TimestampType(DataType):
    """TIMESTAMP(p), or with `local_zone` TIMESTAMP(p) WITH LOCAL TIME ZONE (an instant). p is 0 to 9 digits."""

    precision: int = 6
    local_zone: bool = False

    def __str__(self) -> str:
        zone = " WITH LOCAL TIME ZONE" if self.local_zone else ""
        return f"TIMESTAMP({self.precision}){zone}" + _suffix(self)


MICROSECONDS: Final = 6
"""Fractional digits of a second that Spark's timestamps have."""


def is_finer_than_spark(data_type: DataType) -> bool:
    """Whether the type is TIMESTAMP(7) to (9), whose values Spark cuts to microseconds. Nested ones do not count."""
    return isinstance(data_type, TimestampType) and data_type.precision > MICROSECONDS


@dataclass(frozen=True, slots=True)
class OpaqueType(DataType):
    """A type kept only as text (BLOB, GEOMETRY, GEOGRAPHY, types of the future): its columns cannot be read."""

    text: str = ""

    def __str__(self) -> str:
        return self.text + _suffix(self)


@dataclass(frozen=True, slots=True)
class ArrayType(DataType):
    element: DataType = DataType()

    def __str__(self) -> str:
        return f"ARRAY<{self.element}>" + _suffix(self)


@dataclass(frozen=True, slots=True)
class VectorType(DataType):
    element: DataType = DataType()
    length: int = 0

    def __str__(self) -> str:
        return f"VECTOR<{self.element}, {self.length}>" + _suffix(self)


@dataclass(frozen=True, slots=True)
class MultisetType(DataType):
    element: DataType = DataType()

    def __str__(self) -> str:
        return f"MULTISET<{self.element}>" + _suffix(self)


@dataclass(frozen=True, slots=True)
class MapType(DataType):
    key: DataType = DataType()
    value: DataType = DataType()

    def __str__(self) -> str:
        return f"MAP<{self.key}, {self.value}>" + _suffix(self)


@dataclass(frozen=True, slots=True)
class DataField:
    """A column or a field of a nested row. `id` never changes and is never used again."""

    id: int
    name: str
    type: DataType
    description: str | None = None
    default_value: str | None = None


@dataclass(frozen=True, slots=True)
class RowType(DataType):
    """A row: fields in order. Iterating gives the fields."""

    fields: tuple[DataField, ...] = ()
    _by_name: dict[str, DataField] | None = field(default=None, init=False, repr=False, compare=False)
    _by_id: dict[int, DataField] | None = field(default=None, init=False, repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return RowType, (self.nullable, self.fields)

    def __str__(self) -> str:
        inner = ", ".join(f"{f.name} {f.type}" for f in self.fields)
        return f"ROW<{inner}>" + _suffix(self)

    def __iter__(self) -> Iterator[DataField]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields)

    def field(self, name: str) -> DataField:
        """The field called `name`. Raises KeyError."""
        found = self._by_name
        if found is None:  # made once: rows of many columns are asked for each of them
            found = {f.name: f for f in reversed(self.fields)}
            object.__setattr__(self, "_by_name", found)
        return found[name]

    def find_by_id(self, field_id: int) -> DataField | None:
        """The field with this id; None without one."""
        found = self._by_id
        if found is None:
            found = {f.id: f for f in reversed(self.fields)}
            object.__setattr__(self, "_by_id", found)
        return found.get(field_id)

    def project(self, names: Sequence[str]) -> RowType:
        """The fields called `names`, in that order. Raises KeyError for an unknown name."""
        return replace(self, fields=tuple(self.field(n) for n in names))


def types_in(t: DataType) -> Iterator[DataType]:
    """The type itself, then the types of its elements, keys, values and fields, at any depth."""
    yield t
    match t:
        case ArrayType() | MultisetType():
            yield from types_in(t.element)
        case MapType():
            yield from types_in(t.key)
            yield from types_in(t.value)
        case RowType():
            for f in t.fields:
                yield from types_in(f.type)


def in_any_case(name: str, names: Iterable[str]) -> str | None:
    """The one of `names` that is `name`: written just so, or the only one that differs in case alone; else None."""
    near = [n for n in names if n.lower() == name.lower()]
    if name in near:
        return name
    return near[0] if len(near) == 1 else None


def quoted(name: str) -> str:
    """`name` as an identifier of Spark's SQL: in backquotes."""
    return "`" + name.replace("`", "``") + "`"


def quoted_if_needed(name: str) -> str:
    """A name as Spark prints it: in backquotes only when it must be."""
    return name if _PLAIN.fullmatch(name) else quoted(name)


def _suffix(t: DataType) -> str:
    return "" if t.nullable else " NOT NULL"


BOOLEAN: Final = AtomicType(name="BOOLEAN")
TINYINT: Final = AtomicType(name="TINYINT")
SMALLINT: Final = AtomicType(name="SMALLINT")
INT: Final = AtomicType(name="INT")
BIGINT: Final = AtomicType(name="BIGINT")
FLOAT: Final = AtomicType(name="FLOAT")
DOUBLE: Final = AtomicType(name="DOUBLE")
DATE: Final = AtomicType(name="DATE")
VARIANT: Final = AtomicType(name="VARIANT")
STRING: Final = CharType()
BYTES: Final = BinaryType()
INTEGER_BITS: Final = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
INTEGER_NAMES: Final = tuple(INTEGER_BITS)

_ATOMIC = {"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "VARIANT"}
_ALIASES = {"INTEGER": "INT", "DOUBLE PRECISION": "DOUBLE"}
_TYPE_TEXT = re.compile(r"^(?P<head>[A-Z_]+(?: PRECISION)?)\s*(?:\((?P<args>[^()]*)\))?\s*(?P<tail>.*)$", re.DOTALL)
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAX_DEPTH = 100


def parse_type(value: str | Mapping[str, Any], _depth: int = 0) -> DataType:
    """A type from its schema JSON: text for atomic types, an object for ARRAY, MAP, MULTISET, ROW, VECTOR.

    Unknown types become `OpaqueType`, so that a schema with such a column still opens.

    Raises:
        FormatError: the text or object is not a type.
    Source: Java `types/DataTypeJsonParser`.
    """
    if _depth > _MAX_DEPTH:
        raise FormatError(f"types are nested more than {_MAX_DEPTH} deep")
    if isinstance(value, str):
        return _parse_text(value)
    head_text: object = value.get("type") if isinstance(value, dict) else None
    if not isinstance(head_text, str):
        raise FormatError(f"not a type: {str(value)[:100]!r}")
    head = head_text.strip().upper()
    nullable = "NOT NULL" not in head
    try:
        if head.startswith("ARRAY"):
            return ArrayType(nullable, parse_type(value["element"], _depth + 1))
        if head.startswith("MULTISET"):
            return MultisetType(nullable, parse_type(value["element"], _depth + 1))
        if head.startswith("MAP"):
            return MapType(nullable, parse_type(value["key"], _depth + 1), parse_type(value["value"], _depth + 1))
        if head.startswith("VECTOR"):
            return VectorType(nullable, parse_type(value["element"], _depth + 1), int(value["length"]))
        if head.startswith("ROW"):
            return RowType(nullable, tuple(parse_field(f, _depth + 1) for f in value["fields"]))
    except (KeyError, TypeError, ValueError) as e:
        raise FormatError(f"type object {head} lacks or garbles {e}") from e
    return OpaqueType(nullable, head.split(" NOT NULL")[0])


def parse_field(value: Mapping[str, Any], _depth: int = 0) -> DataField:
    """A field from its schema JSON. Raises FormatError."""
    try:
        field_id, name = value["id"], value["name"]
        if type(field_id) is not int or not -(2**31) <= field_id < 2**31 or not isinstance(name, str):
            raise TypeError(f"id {field_id!r}, name {name!r}")
        return DataField(
            field_id,
            name,
            parse_type(value["type"], _depth),
            _optional_text(value, "description"),
            _optional_text(value, "defaultValue"),
        )
    except (KeyError, TypeError, AttributeError) as e:
        raise FormatError(f"not a field: {str(value)[:100]!r} ({e})") from e


def _optional_text(value: Mapping[str, Any], key: str) -> str | None:
    text = value.get(key)
    if not isinstance(text, str | None):
        raise TypeError(f"{key} {str(text)[:50]!r}")
    return text


def _parse_text(text: str) -> DataType:
    upper = " ".join(text.strip().upper().split())
    nullable = not upper.endswith("NOT NULL")
    body = upper.removesuffix("NOT NULL").strip().removesuffix(" NULL")
    for word, build in (("ARRAY", ArrayType), ("MULTISET", MultisetType)):
        if body.endswith(" " + word):
            return build(nullable, _parse_text(body.removesuffix(word).strip()))
    m = _TYPE_TEXT.match(body)
    if m is None:
        raise FormatError(f"not a type: {text!r}")
    head, tail = _ALIASES.get(m["head"], m["head"]), m["tail"].strip()
    try:
        args = [int(a) for a in m["args"].split(",")] if m["args"] else []
    except ValueError:
        return OpaqueType(nullable, body)
    return _atomic(head, args, tail, nullable) or OpaqueType(nullable, body)


def _atomic(head: str, args: list[int], tail: str, nullable: bool) -> DataType | None:
    """The type of a parsed head and arguments; None when it is not one we know."""
    if head in _ATOMIC and not args and not tail:
        return AtomicType(nullable, head)
    if head in ("STRING", "CHAR", "VARCHAR") and not tail:
        default = MAX_LENGTH if head == "STRING" else 1
        return CharType(nullable, args[0] if args else default, head != "CHAR")
    if head in ("BYTES", "BINARY", "VARBINARY") and not tail:
        default = MAX_LENGTH if head == "BYTES" else 1
        return BinaryType(nullable, args[0] if args else default, head != "BINARY")
    if head in ("DECIMAL", "NUMERIC", "DEC") and not tail:
        precision, scale = [*args, 0][:2] if args else (10, 0)
        if not (1 <= precision <= 38 and 0 <= scale <= precision):
            raise FormatError(f"DECIMAL({precision}, {scale}) is outside 1..38 digits")
        return DecimalType(nullable, precision, scale)
    if head == "TIME" and tail in ("", "WITHOUT TIME ZONE"):
        return TimeType(nullable, args[0] if args else 0)
    if head in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        return _timestamp(head, args, tail, nullable)
    return None


def _timestamp(head: str, args: list[int], tail: str, nullable: bool) -> TimestampType | None:
    precision = args[0] if args else 6
    if not 0 <= precision <= 9:
        raise FormatError(f"{head}({precision}): precision is 0 to 9")
    if tail in ("", "WITHOUT TIME ZONE"):
        return TimestampType(nullable, precision, head == "TIMESTAMP_LTZ")
    if tail == "WITH LOCAL TIME ZONE":
        return TimestampType(nullable, precision, True)
    return None


def type_to_json(t: DataType) -> str | dict[str, Any]:
    """The schema JSON of a type, as Java writes it; the inverse of `parse_type`."""
    null = _suffix(t)
    match t:
        case ArrayType():
            return {"type": "ARRAY" + null, "element": type_to_json(t.element)}
        case VectorType():
            return {"type": "VECTOR" + null, "element": type_to_json(t.element), "length": t.length}
        case MultisetType():
            return {"type": "MULTISET" + null, "element": type_to_json(t.element)}
        case MapType():
            return {"type": "MAP" + null, "key": type_to_json(t.key), "value": type_to_json(t.value)}
        case RowType():
            return {"type": "ROW" + null, "fields": [field_to_json(f) for f in t.fields]}
        case _:
            return str(t)


def field_to_json(f: DataField) -> dict[str, Any]:
    """The schema JSON of a field; absent texts are left out, as Java does."""
    out: dict[str, Any] = {"id": f.id, "name": f.name, "type": type_to_json(f.type)}
    if f.description is not None:
        out["description"] = f.description
    if f.default_value is not None:
        out["defaultValue"] = f.default_value
    return out


TRACKING_FIELDS: Final = (
    DataField(ROW_ID_FIELD_ID, ROW_ID, BIGINT),
    DataField(SEQUENCE_NUMBER_ID, SEQUENCE_NUMBER, BIGINT),
)
"""What files of tables that track rows may hold besides their columns; nulls where the manifest knows."""
