"""Aggregate functions value by value, for what has no form on whole columns.

Values are those of `exact_values`.

Source: Java `mergetree/compact/aggregate/**`.
"""

from __future__ import annotations

import decimal
from collections.abc import Hashable, Iterable
from decimal import Decimal
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_spark.engine.merge.exact_values import SKETCH_FUNCTIONS, Union, Value, frozen, order_key, union_of
from paimon_spark.errors import DataError, FormatError
from paimon_spark.options.core import FieldOptions, NestedKeyNullStrategy

JAVA_SPACES: Final = (
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2008\u2009\u200a"
    "\u2028\u2029\u205f\u3000"
)
"""What Java's `Character.isWhitespace` calls blank."""

_DECIMALS: Final = decimal.Context(prec=100)


class ExactAggregate:
    """One column's aggregate function with its state for the key at hand (Java `FieldAggregator`)."""

    def __init__(self, function: str, options: FieldOptions, type: pa.DataType) -> None:
        self.function = function
        self.options = options
        self.column = options.column
        self.type = type

    def reset(self) -> None:
        """Start a new key."""

    def agg(self, acc: Value, new: Value) -> Value:
        raise NotImplementedError

    def agg_reversed(self, acc: Value, new: Value) -> Value:
        """Take in a value older than what `acc` has seen."""
        return self.agg(new, acc)

    def retract(self, acc: Value, old: Value) -> Value:
        raise retract_refused(self.column, self.function)

    def finish(self, acc: Value) -> Value:
        """The result for the key."""
        return acc


def retract_refused(column: str, function: str) -> DataError:
    """Build the error for a delete that a function cannot retract."""
    return DataError(
        f"column {column!r}: aggregate function {function!r} cannot retract, but rows of kind -U or -D must be "
        f"merged; set 'fields.{column}.ignore-retract' = 'true' on the table to skip them",
        column=column,
    )


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


class _Listagg(ExactAggregate):
    def agg(self, acc: Value, new: Value) -> Value:
        if new is None or not new.strip(JAVA_SPACES):
            return acc
        if acc is None or not acc.strip(JAVA_SPACES):
            return new
        delimiter = self.options.delimiter
        if not self.options.distinct:
            return acc + delimiter + new
        known = set(self._tokens(acc))
        added = []
        for token in self._tokens(new):
            if token.strip(JAVA_SPACES) and token not in known:
                known.add(token)
                added.append(token)
        return delimiter.join([acc, *added])

    def _tokens(self, text: str) -> list[str]:
        return text.split(self.options.delimiter) if self.options.delimiter else text.split()


class _Collect(ExactAggregate):
    def agg(self, acc: Value, new: Value) -> Value:
        if acc is None and new is None:
            return None
        values = [*(acc or ()), *(new or ())]
        if not self.options.distinct:
            return values
        once: dict[Hashable, Value] = {}
        for value in values:
            once.setdefault(frozen(value), value)
        return list(once.values())

    def agg_reversed(self, acc: Value, new: Value) -> Value:
        return self.agg(acc, new)

    def retract(self, acc: Value, old: Value) -> Value:
        if acc is None or not old:
            return acc
        gone = [frozen(v) for v in old]
        kept = []
        for value in acc:
            if (key := frozen(value)) in gone:
                gone.remove(key)
            else:
                kept.append(value)
        return kept


class _MergeMap(_Combine):
    def combine(self, acc: Value, new: Value) -> Value:
        merged = {frozen(k): (k, v) for k, v in acc}
        merged.update((frozen(k), (k, v)) for k, v in new)
        return list(merged.values())

    def retract(self, acc: Value, old: Value) -> Value:
        if acc is None or not old:
            return acc
        gone = {frozen(k) for k, _ in old}
        return [(k, v) for k, v in acc if frozen(k) not in gone]


class _MergeMapWithKeytime(_Combine):
    def __init__(self, function: str, options: FieldOptions, type: pa.DataType) -> None:
        super().__init__(function, options, type)
        row = type.item_type
        self._time = options.ts_field or row.field(row.num_fields - 1).name

    def combine(self, acc: Value, new: Value) -> Value:
        merged = {frozen(k): (k, v) for k, v in acc}
        for key, row in new:
            at = frozen(key)
            if row is None:
                merged.pop(at, None)
            elif row[self._time] is not None and self._newer(row, merged.get(at, (None, None))[1]):
                merged[at] = (key, row)
        return list(merged.values())

    def _newer(self, row: Value, existing: Value) -> bool:
        if existing is None or existing[self._time] is None:
            return True
        return _utf16(row[self._time]) > _utf16(existing[self._time])


def _utf16(text: str) -> bytes:
    """What Java's `String.compareTo` compares."""
    return text.encode("utf-16-be", "surrogatepass")


class _Nested(ExactAggregate):
    """Functions on ARRAY<ROW> that treat the array as a table of its own."""

    def keyed(self, rows: Iterable[Value]) -> Iterable[tuple[Hashable, Value]]:
        """Elements with their keys, without the null ones and those the null strategy drops."""
        for row in rows:
            if row is None:
                continue
            key = tuple(row[k] for k in self.options.nested_key)
            if None in key:
                if self.options.nested_key_nulls is NestedKeyNullStrategy.IGNORE:
                    continue
                if self.options.nested_key_nulls is NestedKeyNullStrategy.ERROR:
                    raise DataError(
                        f"column {self.column!r}: an element has a null in its nested key "
                        f"{list(self.options.nested_key)}",
                        column=self.column,
                    )
            yield frozen(key), row


class _NestedUpdate(_Nested):
    def agg(self, acc: Value, new: Value) -> Value:
        if new is None:
            return acc
        limit = self.options.count_limit
        if not self.options.nested_key:
            if acc is not None and len(acc) >= limit:
                return acc
            room = max(limit - len(acc or ()), 0)
            return [r for r in acc or () if r is not None] + [r for r in new if r is not None][:room]
        table: dict[Hashable, Value] = {}
        for rows, limited in ((acc or [], False), (new, True)):
            for key, row in self.keyed(rows):
                if key in table:
                    if self._not_older(row, table[key]):
                        table[key] = row
                elif not limited or len(table) < limit:
                    table[key] = row
        return list(table.values())

    def _not_older(self, row: Value, existing: Value) -> bool:
        fields = self.options.nested_sequence
        return not fields or [order_key(row[f]) for f in fields] >= [order_key(existing[f]) for f in fields]

    def retract(self, acc: Value, old: Value) -> Value:
        if acc is None or old is None:
            return acc
        if not self.options.nested_key:
            gone = {frozen(r) for r in old if r is not None}
            return [r for r in acc if r is not None and frozen(r) not in gone]
        table = dict(self.keyed(acc))
        for key, _ in self.keyed(old):
            table.pop(key, None)
        return list(table.values())


class _NestedPartialUpdate(_Nested):
    def agg(self, acc: Value, new: Value) -> Value:
        if new is None:
            return acc
        table: dict[Hashable, dict[str, Value]] = {}
        for key, row in self.keyed([*(acc or []), *new]):
            target = table.setdefault(key, dict.fromkeys(row))
            target.update((name, value) for name, value in row.items() if value is not None)
        return list(table.values())


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
    "listagg": _Listagg,
    "collect": _Collect,
    "merge_map": _MergeMap,
    "merge_map_with_keytime": _MergeMapWithKeytime,
    "nested_update": _NestedUpdate,
    "nested_partial_update": _NestedPartialUpdate,
    **dict.fromkeys(SKETCH_FUNCTIONS, _Union),
}


def exact_aggregate(function: str, options: FieldOptions, type: pa.DataType) -> ExactAggregate:
    """The function called `function` (one of `merge_rules.FUNCTIONS`) for a column of Arrow type `type`."""
    return _FUNCTIONS[function](function, options, type)
