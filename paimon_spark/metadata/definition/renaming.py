"""Options that name columns, when a column gets another name.

Source: Java `SchemaManager.applyRenameColumnsToOptions`, which knows fewer of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

_FIELDS: Final = "fields."
_INDEX: Final = "file-index."
_GROUP: Final = ".sequence-group"
_VALUES: Final = frozenset(
    (
        "bucket-key", "sequence.field", "rowkind.field", "record-level.time-field", "upsert-key",
        "clustering.columns", "sink.clustering.by-columns", "changelog-producer.row-deduplicate-ignore-fields",
        "partial-update.remove-record-on-sequence-group",
    )
)  # fmt: skip
"""Options whose value is a list of columns."""


def renamed_options(options: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    """`options` of a table whose column `old` is now called `new`; their order stays."""

    def name(column: str) -> str:
        return new if column == old else column

    return {_key(key, name): _value(key, text, name) for key, text in options.items()}


def _key(key: str, name: Callable[[str], str]) -> str:
    if key.startswith(_FIELDS):
        columns, dot, rest = key.removeprefix(_FIELDS).partition(".")
        if dot:
            return _FIELDS + ",".join(map(name, columns.split(","))) + dot + rest
    if key.startswith(_INDEX) and key.count(".") > 2:
        kind, column, rest = key.removeprefix(_INDEX).split(".", 2)
        return f"{_INDEX}{kind}.{name(column)}.{rest}"
    return key


def _value(key: str, text: str, name: Callable[[str], str]) -> str:
    if key in _VALUES or (key.startswith(_FIELDS) and key.endswith(_GROUP)):
        return ",".join(name(column.strip()) for column in text.split(","))
    if key.startswith(_INDEX) and key.endswith(".columns"):
        return ",".join(_indexed(column.strip(), name) for column in text.split(","))
    return text


def _indexed(text: str, name: Callable[[str], str]) -> str:
    """`column`, or `column[key]` for one key of a map."""
    column, bracket, rest = text.partition("[")
    return name(column) + bracket + rest
