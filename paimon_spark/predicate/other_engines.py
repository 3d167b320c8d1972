"""Conditions of other engines as SQL: Arrow expressions, comparisons with Python values.

PyArrow gives no access to the parts of an expression, as in `pyarrow.compute.field("a") > 5`, so they are read from its
serialized form: a record batch with the literals, and the tree as metadata of its schema. The form may change between
releases: what is not known is refused, or is not pushed down.

Source: Arrow C++, `compute/expression.cc`, `Serialize`; the metadata is read as the Arrow C data interface has it.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import InvalidInputError, PaimonError
from paimon_spark.predicate.ast import Predicate, conjunction, literal_text
from paimon_spark.predicate.parse import parse_predicate
from paimon_spark.text import sql_quoted
from paimon_spark.types import MICROSECONDS, AtomicType, CharType, DataType, DecimalType, RowType, TimestampType, quoted

_SIGNS: Final = {
    "equal": "=", "not_equal": "<>", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=",
}  # fmt: skip
_WORDS: Final = {"and_kleene": "AND", "or_kleene": "OR"}


@dataclass(frozen=True, slots=True)
class _Call:
    function: str
    arguments: tuple[_Node, ...]
    options: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Field:
    """A column; fields inside row columns have several names."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Literal:
    value: Any


_Node: TypeAlias = _Call | _Field | _Literal


class _UnknownError(Exception):
    """A part of an expression that is not known; the message names it."""


def sql_of(expression: pc.Expression, columns: RowType) -> str:
    """The condition as SQL, with the meaning that SQL gives it: NaN is larger than any number and equal to itself.

    Raises InvalidInputError: a part that SQL does not have, or a name that is no column.
    """
    try:
        return _Converter(columns, as_sql=True).sql(_tree(expression))
    except _UnknownError as e:
        asked = " ".join(str(expression).split())
        raise InvalidInputError(
            f"where={asked}: {e} cannot be a condition of a read; write the condition as SQL, or filter the rows: "
            "scan().to_dataset().to_table(filter=…)"
        ) from None


def pushed_down(expression: pc.Expression, columns: RowType) -> Predicate | None:
    """Part of a condition that can skip files, which every matching row satisfies; None for nothing."""
    try:
        node = _tree(expression)
    except _UnknownError:
        return None
    found = [_at_least(part, columns) for part in _conjuncts(node)]
    return conjunction([part for part in found if part is not None])


def _at_least(node: _Node, columns: RowType) -> Predicate | None:
    """A condition that every row with a true part satisfies; None for nothing."""
    try:
        return parse_predicate(_Converter(columns, as_sql=False).sql(node), columns)
    except (_UnknownError, PaimonError):
        return None


def names_of(expression: pc.Expression) -> frozenset[str] | None:
    """The columns that an expression reads; None when that is not known."""
    try:
        return frozenset(_names(_tree(expression)))
    except _UnknownError:
        return None


def _names(node: _Node) -> Iterator[str]:
    match node:
        case _Field():
            yield node.path[0]
        case _Call():
            for argument in node.arguments:
                yield from _names(argument)


def _conjuncts(node: _Node) -> Iterator[_Node]:
    """The parts of which all must hold."""
    if isinstance(node, _Call) and node.function == "and_kleene":
        for argument in node.arguments:
            yield from _conjuncts(argument)
    else:
        yield node


@dataclass(frozen=True, slots=True)
class _Converter:
    """Writes conditions as SQL: the same rows as SQL would keep, or at least those that Arrow keeps."""

    columns: RowType
    as_sql: bool

    def sql(self, node: _Node) -> str:
        """A condition as SQL. Raises _UnknownError."""
        match node:
            case _Field(path=(name,)) if self._type(name) == "BOOLEAN":
                return quoted(name)
            case _Literal(value=bool() as value):
                return "TRUE" if value else "FALSE"
            case _Call(function="and_kleene" | "or_kleene" as function, arguments=(left, right)):
                return f"({self.sql(left)} {_WORDS[function]} {self.sql(right)})"
            case _Call(function="invert", arguments=(inner,)):
                return self._inverted(inner)
            case _Call(function="is_valid", arguments=(_Field(path=(name,)),)) if self._type(name):
                return f"{quoted(name)} IS NOT NULL"
            case _Call(function="is_null", arguments=(_Field(path=(name,)),), options={"nan_is_null": False}):
                return f"{quoted(self._known(name))} IS NULL"
            case _Call(
                function="is_in",
                arguments=(_Field(path=(name,)),),
                options={"value_set": list() as values, "null_matching_behavior": 0},
            ):
                return self._in(name, values)
            case _Call(function=function, arguments=(_Field(path=(name,)), _Literal(value=value))):
                if function in _SIGNS:
                    return self._comparison(name, _SIGNS[function], value)
            case _Call(function=function, arguments=(_Literal(value=value), _Field(path=(name,)))):
                if function in _SIGNS:
                    return self._comparison(name, TURNED[_SIGNS[function]], value)
        raise _unknown(node)

    def _known(self, name: str) -> str:
        if name not in self.columns.names:
            raise _UnknownError(f"column {name!r}, which the table lacks,")
        return name

    def _type(self, name: str) -> str:
        return type_name(self.columns.field(self._known(name)).type)

    def _comparison(self, name: str, sign: str, value: object) -> str:
        text = comparison(self._known(name), sign, value, self.columns, as_sql=self.as_sql)
        if text is None:
            raise _UnknownError(f"comparing {name} ({self.columns.field(name).type}) with {sql_quoted(value)}")
        return text

    def _in(self, name: str, values: Sequence[object]) -> str:
        """Arrow's `isin`, which is false for null, not null."""
        texts = [self._comparison(name, "=", value) for value in values if value is not None]
        if len(texts) < len(values):
            texts.append(f"{quoted(name)} IS NULL")
        literals = [literal_of(value) for value in values]
        if texts and None not in literals:
            return f"({quoted(name)} IN ({', '.join(map(str, literals))}) AND {quoted(name)} IS NOT NULL)"
        return f"({' OR '.join(texts)})" if texts else "FALSE"

    def _inverted(self, inner: _Node) -> str:
        if not self.as_sql and any(self._type(name) in OF_NAN for name in _names(inner)):
            raise _UnknownError("NOT over a column with NaN")
        return f"(NOT {self.sql(inner)})"


def _unknown(node: _Node) -> _UnknownError:
    match node:
        case _Call():
            return _UnknownError(f"{node.function}() of these arguments")
        case _Field():
            return _UnknownError(f"the column {'.'.join(node.path)} alone")
    return _UnknownError(f"the value {sql_quoted(node.value)}")


def _tree(expression: pc.Expression) -> _Node:
    """The parts of an expression. Raises _UnknownError."""
    try:
        batch = pa.ipc.open_file(expression.__reduce__()[1][0]).get_batch(0)
        entries = iter(_entries(batch.schema))
        node = _node(*next(entries), entries, batch)
    except (pa.ArrowException, LookupError, StopIteration, TypeError, ValueError, NotImplementedError) as e:
        raise _UnknownError(f"a part that this PyArrow serializes in another way ({type(e).__name__})") from None
    return node


def _node(kind: str, value: str, entries: Iterator[tuple[str, str]], batch: pa.RecordBatch) -> _Node:
    match kind:
        case "literal":
            return _Literal(_python(batch.column(int(value))[0]))
        case "field_ref":
            return _Field((value,))
        case "nested_field_ref":
            return _Field(tuple(next(entries)[1] for _ in range(int(value))))
        case "call":
            return _call(value, entries, batch)
    raise ValueError(kind)


def _call(function: str, entries: Iterator[tuple[str, str]], batch: pa.RecordBatch) -> _Node:
    arguments: list[_Node] = []
    options: dict[str, Any] = {}
    for kind, value in entries:
        if kind == "end":
            return _Call(function, tuple(arguments), options)
        if kind == "options":
            options = batch.column(int(value))[0].as_py()
        else:
            arguments.append(_node(kind, value, entries, batch))
    raise ValueError("no end")


def _python(scalar: pa.Scalar[Any]) -> object:
    """A literal as a Python value; timestamps with nanoseconds stay what they are, and are not known."""
    if pa.types.is_timestamp(scalar.type) and scalar.type.unit == "ns":
        return scalar
    return scalar.as_py()


class _ArrowSchema(ctypes.Structure):
    """The first members of `struct ArrowSchema` of the C data interface."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


def _entries(schema: pa.Schema) -> list[tuple[str, str]]:
    """The metadata of a schema with repeated keys, which `pa.Schema.metadata` drops."""
    capsule = schema.__arrow_c_schema__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    at = _ArrowSchema.from_address(pointer(capsule, b"arrow_schema")).metadata

    def take(size: int) -> bytes:
        nonlocal at
        found = ctypes.string_at(at, size)
        at += size
        return found

    def number() -> int:
        return int(struct.unpack("=i", take(4))[0])

    if at is None:
        return []
    return [(take(number()).decode(), take(number()).decode()) for _ in range(number())]


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
