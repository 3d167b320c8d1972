"""Conditions that Spark pushes down → predicates of a scan.

A condition that has no exact counterpart is left out: Spark evaluates all conditions again on the rows.

Source: Spark `connector/expressions/filter/Predicate.java`, `util/V2ExpressionBuilder.scala`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import numpy as np

from paimon_spark.predicate.ast import (
    And,
    Column,
    Compare,
    Constant,
    In,
    IsNotNull,
    IsNull,
    Literal,
    Not,
    NullSafeEqual,
    Op,
    Or,
    Predicate,
    Text,
    TextOp,
)
from paimon_spark.spark_catalog.jvm.gateway import SQL, Gateway
from paimon_spark.types import AtomicType, BinaryType, CharType, DataType, DecimalType, RowType, TimestampType

_OPS: Final = {"=": Op.EQ, "<>": Op.NE, "<": Op.LT, "<=": Op.LE, ">": Op.GT, ">=": Op.GE}
_FLIPPED: Final = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}
_TEXT: Final = {"STARTS_WITH": TextOp.STARTS_WITH, "ENDS_WITH": TextOp.ENDS_WITH, "CONTAINS": TextOp.CONTAINS}
_WHOLE: Final = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_WHOLE_OF_SPARK: Final = ("byte", "short", "integer", "long")
_EPOCH: Final = date(1970, 1, 1)
_INSTANT: Final = datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditions of Spark, and the predicates that mean exactly the same.

    Attributes:
        of_spark: all that Spark has given, as `Predicate[]`.
        predicates: by place in `of_spark`; those without an exact counterpart are left out.
    """

    gateway: Gateway
    of_spark: Any = None
    predicates: Mapping[int, Predicate] = field(default_factory=dict)

    def where(self, holds: Callable[[Predicate], bool]) -> Conditions:
        """Conditions whose predicates satisfy `holds`."""
        return replace(self, predicates={n: p for n, p in self.predicates.items() if holds(p)})

    def all_but(self, others: Conditions) -> Any:
        """Predicates of Spark without `others`, as its `Predicate[]`."""
        return self._some(n for n in range(len(self.of_spark)) if n not in others.predicates)

    def java_predicates(self) -> Any:
        """As Spark's `Predicate[]`."""
        return self._some(self.predicates)

    def java_filters(self) -> Any:
        """As `Filter[]`, which Spark's readers take."""
        if not self.predicates:
            return self.gateway.array(SQL + "sources.Filter")
        return self.gateway.java_code("Conditions").filters(self.of_spark, _listed(self.predicates))

    def _some(self, numbers: Iterable[int]) -> Any:
        text = _listed(numbers)
        if not text:
            return self.gateway.array(SQL + "connector.expressions.filter.Predicate")
        return self.gateway.java_code("Conditions").some(self.of_spark, text)


def conditions_of(gateway: Gateway, of_spark: Any, columns: RowType) -> Conditions:
    """The conditions that Spark gives as `Predicate[]`, for a table with these columns."""
    if not len(of_spark):
        return Conditions(gateway, of_spark)
    # One text takes one call; each part of an expression would take several.
    try:
        given = json.loads(gateway.java_code("Conditions").json(of_spark))
    except RecursionError:  # conditions that are nested too deep are left to Spark
        return Conditions(gateway, of_spark)
    found = {n: p for n, c in enumerate(given) if (p := _or_none(c, columns)) is not None}
    return Conditions(gateway, of_spark, found)


def _listed(numbers: Iterable[int]) -> str:
    return " ".join(map(str, numbers))


class _UnknownError(Exception):
    """A condition without an exact counterpart."""


def _or_none(condition: Any, columns: RowType) -> Predicate | None:
    try:
        return _predicate(condition, columns)
    except (_UnknownError, OverflowError, RecursionError):  # Spark's dates and timestamps reach further than Python's
        return None


def _predicate(condition: Any, columns: RowType) -> Predicate:
    if not isinstance(condition, list):
        raise _UnknownError
    name, *children = condition
    match name:
        case "AND" | "OR":
            parts = (_predicate(children[0], columns), _predicate(children[1], columns))
            return And(parts) if name == "AND" else Or(parts)
        case "NOT":
            return Not(_predicate(children[0], columns))
        case "ALWAYS_TRUE":
            return Constant(True)
        case "ALWAYS_FALSE":
            return Constant(False)
        case "IS_NULL" | "IS_NOT_NULL":
            column = _column(children[0], columns)
            return IsNull(column) if name == "IS_NULL" else IsNotNull(column)
        case "IN":
            column = _column(children[0], columns)
            values = [_literal(c, column.type) for c in children[1:]]
            found = tuple(v for v in values if v is not None)
            if isinstance(column.type, BinaryType) and len(found) < len(values):
                raise _UnknownError  # Spark 4.1 fails to show NULL among bytes in a plan
            return In(column, found, len(found) < len(values))
        case "<=>":
            column, value, _ = _sides(children, columns)
            return NullSafeEqual(column, value)
    if name in _TEXT:
        column = _column(children[0], columns)
        pattern = _literal(children[1], column.type)
        if not isinstance(pattern, str) or not isinstance(column.type, CharType) or not column.type.varying:
            raise _UnknownError
        return Text(_TEXT[name], column, pattern)
    if name not in _OPS:
        raise _UnknownError
    column, value, is_flipped = _sides(children, columns)
    if value is None:
        raise _UnknownError
    op = _OPS[name]
    return Compare(_FLIPPED.get(op, op) if is_flipped else op, column, value)


def _sides(children: Sequence[Any], columns: RowType) -> tuple[Column, Literal | None, bool]:
    """A column and a literal, and whether the literal comes first."""
    left, right = children
    if _is_field(left):
        column = _column(left, columns)
        return column, _literal(right, column.type), False
    column = _column(right, columns)
    return column, _literal(left, column.type), True


def _is_field(expression: Any) -> bool:
    return isinstance(expression, dict) and "column" in expression


def _column(expression: Any, columns: RowType) -> Column:
    if not _is_field(expression):
        raise _UnknownError
    path = tuple(expression["column"])
    at: DataType = columns
    for part in path:
        if not isinstance(at, RowType) or part not in at.names:
            raise _UnknownError
        at = at.field(part).type
    return Column(path, at)


def _literal(expression: Any, of: DataType) -> Literal | None:
    """The value as a literal of the column's type; None is null."""
    if not isinstance(expression, dict) or "type" not in expression:
        raise _UnknownError
    value, kind = expression["value"], expression["type"]
    if value is None:
        return None
    match of:
        case AtomicType(name=name) if name in _WHOLE and kind in _WHOLE_OF_SPARK:
            return int(value)
        case AtomicType(name="BOOLEAN") if kind == "boolean":
            return bool(value == "true")
        case AtomicType(name="FLOAT") if kind == "float":
            return float(np.float32(value))  # the number of type FLOAT itself, not 0.1 next to it
        case AtomicType(name="DOUBLE") if kind == "double":
            return float(value)
        case AtomicType(name="DATE") if kind == "date":
            return _EPOCH + timedelta(days=int(value))
        case TimestampType(local_zone=True) if kind == "timestamp":
            return (_INSTANT + timedelta(microseconds=int(value))).replace(tzinfo=UTC)
        case TimestampType(local_zone=False) if kind == "timestamp_ntz":
            return _INSTANT + timedelta(microseconds=int(value))
        case CharType(varying=True) if kind == "string":
            return str(value)
        case BinaryType() if kind == "binary":
            return base64.b64decode(value)
        case DecimalType() if kind.startswith("decimal"):
            found = Decimal(value)
            if -found.as_tuple().exponent <= of.scale:  # type: ignore[operator]
                return found
    raise _UnknownError
