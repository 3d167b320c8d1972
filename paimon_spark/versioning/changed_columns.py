"""Columns of two schemas compared by their field ids. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.types import DataField, RowType
from paimon_spark.versioning.diff import ColumnChange


@dataclass(frozen=True, slots=True)
class _Pairing:
    """Which fields are the same.

    Attributes:
        shared: the highest id that both sides gave out together; beyond it one id may mean two columns.
    """

    shared: int | None

    def key(self, f: DataField) -> tuple[int, str]:
        return (f.id, "") if self.shared is None or f.id <= self.shared else (f.id, f.name)


def changed_columns(old: TableSchema, new: TableSchema, shared_field_id: int | None = None) -> tuple[ColumnChange, ...]:
    """What differs, in the order of the new schema's columns, dropped ones last.

    Args:
        old: one schema.
        new: the other.
        shared_field_id: the highest field id that both branches gave out before they parted; above it only fields of
            one id and name are the same. None where one schema came of the other.
    """
    return tuple(_changes(old.row_type, new.row_type, _Pairing(shared_field_id), ""))


def _changes(old: RowType, new: RowType, pairing: _Pairing, prefix: str) -> Iterator[ColumnChange]:
    before = {pairing.key(f): f for f in old.fields}
    after = {pairing.key(f): f for f in new.fields}
    both = [key for key in after if key in before]
    moved = set(both) - set(_staying([list(before).index(key) for key in both], both))
    for place, (key, f) in enumerate(after.items()):
        name = prefix + f.name
        was = before.get(key)
        if was is None:
            yield ColumnChange("added", name, f.id, None, str(f.type))
            continue
        if was.name != f.name:
            yield ColumnChange("renamed", name, f.id, prefix + was.name, name)
        yield from _within(was, f, pairing, name)
        if was.description != f.description:
            yield ColumnChange("commented", name, f.id, was.description, f.description)
        if was.default_value != f.default_value:
            yield ColumnChange("defaulted", name, f.id, was.default_value, f.default_value)
        if key in moved:
            yield ColumnChange("moved", name, f.id, str(list(before).index(key) + 1), str(place + 1))
    for key, f in before.items():
        if key not in after:
            yield ColumnChange("dropped", prefix + f.name, f.id, str(f.type), None)


def _within(was: DataField, f: DataField, pairing: _Pairing, name: str) -> Iterator[ColumnChange]:
    if was.type == f.type:
        return
    if isinstance(was.type, RowType) and isinstance(f.type, RowType) and was.type.nullable == f.type.nullable:
        yield from _changes(was.type, f.type, pairing, name + ".")
        return
    yield ColumnChange("retyped", name, f.id, str(was.type), str(f.type))


def _staying(places: Sequence[int], keys: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """The longest run of fields that kept their order; the others were moved."""
    best: list[list[int]] = []
    for i, place in enumerate(places):
        longest = max((chain for chain in best if places[chain[-1]] < place), key=len, default=[])
        best.append([*longest, i])
    return [keys[i] for i in max(best, key=len, default=[])]
