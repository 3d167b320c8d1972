"""Aggregate functions of lists, maps and nested tables, value by value.

An accumulator keeps what it needs between two values, so that a key with many rows takes time for each value once.

Source: Java `mergetree/compact/aggregate/Field{Listagg,Collect,MergeMap,MergeMapWithKeyTime,NestedUpdate,
NestedPartialUpdate}Agg`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Final, NamedTuple

import pyarrow as pa

from paimon_spark.engine.merge.exact_values import ExactAggregate, Value, frozen, order_key
from paimon_spark.errors import DataError
from paimon_spark.options.core import FieldOptions, NestedKeyNullStrategy

JAVA_SPACES: Final = (
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2008\u2009\u200a"
    "\u2028\u2029\u205f\u3000"
)
"""What Java's `Character.isWhitespace` calls blank."""


class _Texts(NamedTuple):
    """The pieces of a list of texts, and the tokens in them."""

    pieces: list[str]
    known: set[str]


class _Listagg(ExactAggregate):
    def agg(self, acc: Value, new: Value) -> Value:
        added = self.finish(new)
        if added is None or not added.strip(JAVA_SPACES):
            return acc
        if acc is None or (isinstance(acc, str) and not acc.strip(JAVA_SPACES)):
            return added
        if not self.options.delimiter:  # pieces become other tokens where they meet
            return self.finish(acc) + "".join(self._unknown(set(self._tokens(self.finish(acc))), added))
        distinct = self.options.distinct
        texts = acc if isinstance(acc, _Texts) else _Texts([acc], set(self._tokens(acc)) if distinct else set())
        texts.pieces.extend(self._unknown(texts.known, added))
        return texts

    def _unknown(self, known: set[str], text: str) -> list[str]:
        """Parts of a text that are added to the result."""
        if not self.options.distinct:
            return [text]
        out = []
        for token in self._tokens(text):
            if token.strip(JAVA_SPACES) and token not in known:
                known.add(token)
                out.append(token)
        return out

    def _tokens(self, text: str) -> list[str]:
        return text.split(self.options.delimiter) if self.options.delimiter else text.split()

    def finish(self, acc: Value) -> Value:
        return self.options.delimiter.join(acc.pieces) if isinstance(acc, _Texts) else acc


class _Collected:
    """The values of an array in order, from which the first ones equal to given values are taken."""

    def __init__(self, values: Iterable[Value]) -> None:
        self.values = list(values)
        self._present: Counter[Hashable] | None = None
        self._gone: Counter[Hashable] = Counter()

    def add(self, values: Iterable[Value]) -> None:
        values = list(values)
        self.values.extend(values)
        if self._present is not None:
            self._present.update(map(frozen, values))

    def remove(self, values: Iterable[Value]) -> None:
        if self._present is None:
            self._present = Counter(map(frozen, self.values))
        for key in map(frozen, values):
            if self._present[key] > 0:
                self._present[key] -= 1
                self._gone[key] += 1

    def kept(self) -> list[Value]:
        if not self._gone:
            return self.values
        left, kept = self._gone.copy(), []
        for value in self.values:
            key = frozen(value)
            if left[key] > 0:
                left[key] -= 1
            else:
                kept.append(value)
        return kept


class _Collect(ExactAggregate):
    def agg(self, acc: Value, new: Value) -> Value:
        if acc is None and new is None:
            return None
        added = self.finish(new) or ()
        if not self.options.distinct:
            values = acc if isinstance(acc, _Collected) else _Collected(acc or ())
            values.add(added)
            return values
        once = acc if isinstance(acc, dict) else {}
        for value in (*(() if once is acc else self.finish(acc) or ()), *added):
            once.setdefault(frozen(value), value)
        return once

    def agg_reversed(self, acc: Value, new: Value) -> Value:
        return self.agg(acc, new)

    def retract(self, acc: Value, old: Value) -> Value:
        if acc is None or not old:
            return acc
        if isinstance(acc, dict):
            for value in old:
                acc.pop(frozen(value), None)
            return acc
        values = acc if isinstance(acc, _Collected) else _Collected(acc)
        values.remove(old)
        return values

    def finish(self, acc: Value) -> Value:
        if isinstance(acc, dict):
            return list(acc.values())
        return acc.kept() if isinstance(acc, _Collected) else acc


class _ByKey(ExactAggregate):
    """Functions whose state is a dictionary by frozen key, which `finish` makes a list of."""

    def entries(self, value: Value) -> Iterable[tuple[Hashable, Value]]:
        """Entries of a value, or of a state, with their keys."""
        return value.items() if isinstance(value, dict) else ((frozen(entry[0]), entry) for entry in value)

    def state(self, acc: Value) -> dict[Hashable, Value]:
        return acc if isinstance(acc, dict) else dict(self.entries(acc))

    def finish(self, acc: Value) -> Value:
        return list(acc.values()) if isinstance(acc, dict) else acc


class _MergeMap(_ByKey):
    def agg(self, acc: Value, new: Value) -> Value:
        if acc is None or new is None:
            return new if acc is None else acc
        merged = self.state(acc)
        for key, entry in self.entries(new):
            merged[key] = entry
        return merged

    def retract(self, acc: Value, old: Value) -> Value:
        if acc is None or not old:
            return acc
        merged = self.state(acc)
        for key, _ in self.entries(old):
            merged.pop(key, None)
        return merged


class _MergeMapWithKeytime(_ByKey):
    def __init__(self, function: str, options: FieldOptions, type: pa.DataType) -> None:
        super().__init__(function, options, type)
        row = type.item_type
        self._time = options.ts_field or row.field(row.num_fields - 1).name

    def agg(self, acc: Value, new: Value) -> Value:
        if acc is None or new is None:
            return new if acc is None else acc
        merged = self.state(acc)
        for at, (key, row) in self.entries(new):
            if row is None:
                merged.pop(at, None)
            elif row[self._time] is not None and self._newer(row, merged.get(at, (None, None))[1]):
                merged[at] = (key, row)
        return merged

    def _newer(self, row: Value, existing: Value) -> bool:
        if existing is None or existing[self._time] is None:
            return True
        return _utf16(row[self._time]) > _utf16(existing[self._time])


def _utf16(text: str) -> bytes:
    """Bytes that compare as Java's `String.compareTo` compares."""
    return text.encode("utf-16-be", "surrogatepass")


class _Nested(_ByKey):
    """Functions on ARRAY<ROW> that treat the array as a table of its own."""

    def entries(self, value: Value) -> Iterable[tuple[Hashable, Value]]:
        return value.items() if isinstance(value, dict) else self._keyed(value)

    def _keyed(self, rows: Iterable[Value]) -> Iterable[tuple[Hashable, Value]]:
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


class _Rows(list[Value]):
    """Rows without nulls that a function may extend."""


class _NestedUpdate(_Nested):
    def agg(self, acc: Value, new: Value) -> Value:
        if new is None:
            return acc
        limit = self.options.count_limit
        if not self.options.nested_key:
            return self._appended(acc, new, limit)
        table = acc if isinstance(acc, dict) else self._put({}, acc or (), None)
        return self._put(table, new, limit)

    def _appended(self, acc: Value, new: Value, limit: int) -> Value:
        """The rows of both up to the limit; the first list is extended if it is of this function."""
        if acc is not None and len(acc) >= limit:
            return acc
        room = max(limit - len(acc or ()), 0)
        rows = acc if isinstance(acc, _Rows) else _Rows(r for r in acc or () if r is not None)
        rows.extend([r for r in new if r is not None][:room])
        return rows

    def _put(self, table: dict[Hashable, Value], rows: Value, limit: int | None) -> dict[Hashable, Value]:
        for key, row in self.entries(rows):
            if key in table:
                if self._not_older(row, table[key]):
                    table[key] = row
            elif limit is None or len(table) < limit:
                table[key] = row
        return table

    def _not_older(self, row: Value, existing: Value) -> bool:
        fields = self.options.nested_sequence
        return not fields or [order_key(row[f]) for f in fields] >= [order_key(existing[f]) for f in fields]

    def retract(self, acc: Value, old: Value) -> Value:
        if acc is None or old is None:
            return acc
        if not self.options.nested_key:
            gone = {frozen(r) for r in old if r is not None}
            return [r for r in acc if r is not None and frozen(r) not in gone]
        table = self.state(acc)
        for key, _ in self.entries(old):
            table.pop(key, None)
        return table


class _NestedPartialUpdate(_Nested):
    def agg(self, acc: Value, new: Value) -> Value:
        if new is None:
            return acc
        return self._put(acc if isinstance(acc, dict) else self._put({}, acc or ()), new)

    def _put(self, table: dict[Hashable, Value], rows: Value) -> dict[Hashable, Value]:
        for key, row in self.entries(rows):
            target = table.setdefault(key, dict.fromkeys(row))
            target.update((name, value) for name, value in row.items() if value is not None)
        return table


COLLECTIONS: Final[dict[str, type[ExactAggregate]]] = {
    "listagg": _Listagg,
    "collect": _Collect,
    "merge_map": _MergeMap,
    "merge_map_with_keytime": _MergeMapWithKeytime,
    "nested_update": _NestedUpdate,
    "nested_partial_update": _NestedPartialUpdate,
}
"""The functions by their names in options."""
