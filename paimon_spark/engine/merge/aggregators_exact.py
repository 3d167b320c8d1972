"""Aggregate functions value by value, for what has no form on whole columns.

Values are those of `exact_values`.

Source: Java `mergetree/compact/aggregate/**`.
"""

from __future__ import annotations

import decimal
from decimal import Decimal
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_spark.engine.merge.aggregators_collections import COLLECTIONS
from paimon_spark.engine.merge.exact_values import SKETCH_FUNCTIONS, ExactAggregate, Union, Value, order_key, union_of
from paimon_spark.errors import DataError, FormatError
from paimon_spark.options.core import FieldOptions

_DECIMALS: Final = decimal.Context(prec=100)


class _Last(ExactAggregate):
    def agg(self, acc: Value, new: Value) -> Value:
        return new

    def retract(self, acc: Value, old: Value) -> Value:
        return None


class _PrimaryKey(_Last):
    def retract(self, acc: Value, old: Value) -> Value:
        return old


class _LastNonNull(ExactAggregate):
    def agg(self, acc: Value, new: Value) -> Value:
        return acc if new is None else new

    def retract(self, acc: Value, old: Value) -> Value:
        return acc if old is None else None


class _First(ExactAggregate):
    _initialized = False

    def reset(self) -> None:
        self._initialized = False

    def agg(self, acc: Value, new: Value) -> Value:
        if self._initialized:
            return acc
        self._initialized = True
        return new


class _FirstNonNull(_First):
    def agg(self, acc: Value, new: Value) -> Value:
        if self._initialized or new is None:
            return acc
        self._initialized = True
        return new


class _Combine(ExactAggregate):
    """Functions where a null changes nothing."""

    def agg(self, acc: Value, new: Value) -> Value:
        if acc is None or new is None:
            return new if acc is None else acc
        return self.combine(acc, new)

    def combine(self, acc: Value, new: Value) -> Value:
        raise NotImplementedError


class _Max(_Combine):
    def combine(self, acc: Value, new: Value) -> Value:
        return new if order_key(acc) < order_key(new) else acc


class _Min(_Combine):
    def combine(self, acc: Value, new: Value) -> Value:
        return acc if order_key(acc) < order_key(new) else new


class _Sum(_Combine):
    def combine(self, acc: Value, new: Value) -> Value:
        return self._arithmetic("+", acc, new)

    def retract(self, acc: Value, old: Value) -> Value:
        if old is None:
            return acc
        if acc is None:
            return self._fitting(f"-({old})", -old)
        return self._arithmetic("-", acc, old)

    def _arithmetic(self, sign: str, a: Value, b: Value) -> Value:
        if isinstance(a, Decimal):
            exact = _DECIMALS.add(a, b) if sign == "+" else _DECIMALS.subtract(a, b)
            return exact if self._compact(exact) else self._fitting("", exact)
        if isinstance(a, float) and pa.types.is_float32(self.type):
            with np.errstate(over="ignore", invalid="ignore"):
                return float(np.float32(a) + np.float32(b if sign == "+" else -b))
        return self._fitting(f"{a} {sign} {b}", a + b if sign == "+" else a - b)

    def _compact(self, value: Decimal) -> bool:
        """Whether Java adds in a long, which may exceed the precision for a while."""
        return self.type.precision <= 18 and abs(value.scaleb(self.type.scale, _DECIMALS)) < 2**63

    def finish(self, acc: Value) -> Value:
        return self._fitting("", acc) if isinstance(acc, Decimal) else acc

    def _fitting(self, what: str, value: Value) -> Value:
        """The value when its type holds it; null for a decimal that does not fit, as Java's decimals do."""
        if isinstance(value, Decimal):
            digits = value.quantize(Decimal(1).scaleb(-self.type.scale), decimal.ROUND_HALF_UP, _DECIMALS)
            return digits if len(digits.as_tuple().digits) <= self.type.precision else None
        if isinstance(value, int):
            bound = 1 << (self.type.bit_width - 1)
            if not -bound <= value < bound:
                raise DataError(
                    f"column {self.column!r}: {self.function} overflows {self.type}: {what}", column=self.column
                )
        return value


class _Product(_Sum):
    def combine(self, acc: Value, new: Value) -> Value:
        if isinstance(acc, Decimal):
            return self._fitting("", _DECIMALS.multiply(acc, new))
        if isinstance(acc, float) and pa.types.is_float32(self.type):
            with np.errstate(over="ignore", invalid="ignore", under="ignore"):
                return float(np.float32(acc) * np.float32(new))
        return self._fitting(f"{acc} * {new}", acc * new)

    def retract(self, acc: Value, old: Value) -> Value:
        if acc is None or old is None:
            return acc
        if isinstance(acc, float):
            kind = np.float32 if pa.types.is_float32(self.type) else np.float64
            with np.errstate(all="ignore"):
                return float(kind(acc) / kind(old))
        if old == 0:
            raise DataError(
                f"column {self.column!r}: retracting a zero from product divides by zero", column=self.column
            )
        if isinstance(acc, Decimal):
            return self._fitting("", self._quotient(acc, old))
        quotient = abs(acc) // abs(old)
        return self._fitting(f"{acc} / {old}", quotient if (acc < 0) == (old < 0) else -quotient)

    def _quotient(self, acc: Decimal, old: Decimal) -> Decimal:
        """The exact quotient; Java refuses one without end."""
        context = decimal.Context(prec=100, traps=[decimal.Inexact])
        try:
            return context.divide(acc, old)
        except decimal.Inexact:
            raise DataError(
                f"column {self.column!r}: retracting {old} from product {acc} has no exact decimal result",
                column=self.column,
            ) from None


class _Union(_Combine):
    """Sketches and bitmaps; a lone value stays as it is."""

    _union: Union | None = None

    def combine(self, acc: Value, new: Value) -> Value:
        union = self._union = self._union or union_of(self.function, self.column)
        return union.unite(self._decoded(union, acc), self._decoded(union, new))

    def _decoded(self, union: Union, value: Value) -> Value:
        """The object of a value, which may be one already."""
        if not isinstance(value, bytes):
            return value
        try:
            return union.decode(value)
        except FormatError as e:
            raise DataError(
                f"column {self.column!r}: a value of {len(value)} bytes cannot be merged by aggregate function "
                f"{self.function!r}: {e}",
                column=self.column,
            ) from e

    def finish(self, acc: Value) -> Value:
        return acc if self._union is None or acc is None or isinstance(acc, bytes) else self._union.encode(acc)


_FUNCTIONS: Final[dict[str, type[ExactAggregate]]] = {
    "primary-key": _PrimaryKey,
    "last_value": _Last,
    "last_non_null_value": _LastNonNull,
    "first_value": _First,
    "first_non_null_value": _FirstNonNull,
    "first_not_null_value": _FirstNonNull,
    "max": _Max,
    "min": _Min,
    "bool_and": _Min,
    "bool_or": _Max,
    "sum": _Sum,
    "product": _Product,
    **COLLECTIONS,
    **dict.fromkeys(SKETCH_FUNCTIONS, _Union),
}


def exact_aggregate(function: str, options: FieldOptions, type: pa.DataType) -> ExactAggregate:
    """The function called `function` (one of `merge_rules.FUNCTIONS`) for a column of Arrow type `type`."""
    return _FUNCTIONS[function](function, options, type)
