"""Field ids of new columns.

Source: Java `schema/Schema.Builder`, `types/ReassignFieldId`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count

from paimon_spark.types import ArrayType, DataField, DataType, MapType, MultisetType, RowType, VectorType


class FieldIds:
    """Gives out field ids above `highest`; `highest` is the last one given."""

    __slots__ = ("_ids", "highest")

    def __init__(self, highest: int = -1) -> None:
        self.highest = highest
        self._ids: Iterator[int] = count(highest + 1)

    def next(self) -> int:
        """The next id."""
        self.highest = next(self._ids)
        return self.highest

    def column(self, field: DataField) -> DataField:
        """A new column: its own id first, then those of the rows inside it."""
        own = self.next()
        return replace(field, id=own, type=self.inside(field.type))

    def inside(self, t: DataType) -> DataType:
        """The type with new ids for the fields of all rows in it; a field's inner rows come before itself."""
        match t:
            case RowType():
                return replace(t, fields=tuple(self._nested(f) for f in t.fields))
            case ArrayType() | MultisetType() | VectorType():
                return replace(t, element=self.inside(t.element))
            case MapType():
                key = self.inside(t.key)
                return replace(t, key=key, value=self.inside(t.value))
        return t

    def _nested(self, field: DataField) -> DataField:
        inner = self.inside(field.type)
        return replace(field, id=self.next(), type=inner)


def renumbered(fields: Iterable[DataField]) -> tuple[RowType, int]:
    """Columns of a new table with their field ids, and the highest one."""
    ids = FieldIds()
    return RowType(False, tuple(ids.column(f) for f in fields)), ids.highest
