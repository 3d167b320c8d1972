"""Results that show themselves in notebooks: a mixin for dataclasses, and a list that is shown as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final, TypeVar

from paimon_spark.display.html import amount, facts, grid, moment, paragraph, section

_SHOWN: Final = 20
"""Members of a tuple that are written out; the rest is counted."""
V = TypeVar("V")


class ShownAsFacts:
    """A dataclass that notebooks show by its fields, those left out that hold nothing."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        shown = {_title(name): words(name, value) for name, value in _members(self).items() if not _is_empty(value)}
        return section(type(self).__name__, "", facts(shown) if shown else paragraph("nothing"))


class ShownList(list[V]):
    """A list of dataclass values that notebooks show as a table; otherwise a list like any other.

    Args:
        values: what is in it.
        title: above the table.
        columns: attributes to show; default is every field.
    """

    __slots__ = ("columns", "title")

    def __init__(self, values: Iterable[V] = (), title: str = "", columns: Sequence[str] | None = None) -> None:
        super().__init__(values)
        self.title = title
        self.columns = columns

    def _repr_html_(self) -> str:
        if not self:
            return section(self.title, "none")
        columns = list(_members(self[0])) if self.columns is None else list(self.columns)
        rows = [[words(name, getattr(value, name)) for name in columns] for value in self]
        return section(self.title, f"{len(self):,}", grid([_title(name) for name in columns], rows))


def words(name: str, value: Any) -> Any:
    """The value of an attribute as it is shown: times as such, sizes in their units, values within values in brief."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        if name.endswith("_ms"):
            return moment(value)
        return amount(value) if name == "bytes" or name.startswith("bytes_") or name.endswith("_bytes") else value
    if isinstance(value, Mapping):
        return "\n".join(f"{k} = {words('', v)}" for k, v in value.items())
    if isinstance(value, (tuple, list)):
        more = f", … and {len(value) - _SHOWN:,} more" if len(value) > _SHOWN else ""
        return ", ".join(str(words("", v)) for v in value[:_SHOWN]) + more
    brief = getattr(value, "brief", None)
    if isinstance(brief, str):
        return brief
    if is_dataclass(value):
        return ", ".join(f"{_title(n)} {words(n, v)}" for n, v in _members(value).items() if not _is_empty(v))
    return value


def _members(value: Any) -> dict[str, Any]:
    return {f.name: getattr(value, f.name) for f in fields(value) if not f.name.startswith("_")}


def _is_empty(value: Any) -> bool:
    return value is None or value is False or (isinstance(value, (tuple, Mapping, str)) and not value)


def _title(name: str) -> str:
    return name.removesuffix("_ms").replace("_", " ")
