"""HTML for notebooks: pieces, dataclasses shown by their fields, lists shown as tables.

Text is escaped; colours are the notebook's own; no script, no style sheet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from html import escape
from types import FunctionType
from typing import Any, Final, TypeVar

from paimon_spark.errors import PaimonError
from paimon_spark.text import sql_value

_FRAME: Final = "font-size:13px;max-width:100%;overflow:auto"
_TITLE: Final = "font-weight:600;margin:2px 0"
_FAINT: Final = "opacity:.7;font-weight:normal"
_TABLE: Final = "border-collapse:collapse;margin:4px 0;text-align:left"
_HEAD: Final = "text-align:left;padding:2px 10px 2px 0;border-bottom:1px solid currentColor;vertical-align:bottom"
_CELL: Final = "text-align:left;padding:2px 10px 2px 0;vertical-align:top;white-space:pre-wrap"
_NUMBER: Final = "text-align:right;padding:2px 10px 2px 0;vertical-align:top;font-variant-numeric:tabular-nums"
MOST_ROWS: Final = 200
"""Maximum of rows that are shown; the rest is counted."""
_SHOWN: Final = 20
"""Maximum of members of a tuple that are shown; the rest is counted."""
V = TypeVar("V")
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def section(title: str, note: str, *parts: str) -> str:
    """A title with a note beside it, and pieces of HTML below."""
    faint = f' <span style="{_FAINT}">{text(note)}</span>' if note else ""
    return f'<div style="{_FRAME}"><div style="{_TITLE}">{text(title)}{faint}</div>{"".join(parts)}</div>'


def facts(values: Mapping[str, Any]) -> str:
    """Names and values as rows; None values are left out."""
    rows = "".join(
        f'<tr><th style="{_CELL};{_FAINT}">{text(name)}</th><td style="{_CELL}">{cell(value)}</td></tr>'
        for name, value in values.items()
        if value is not None
    )
    return f'<table style="{_TABLE}"><tbody>{rows}</tbody></table>'


def grid(columns: Sequence[str], rows: Iterable[Sequence[Any]], most: int = MOST_ROWS) -> str:
    """A table; rows beyond `most` are counted only."""
    every = list(rows)
    head = "".join(f'<th style="{_HEAD}">{text(name)}</th>' for name in columns)
    body = "".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in every[:most])
    more = "" if len(every) <= most else paragraph(f"… and {len(every) - most:,} more")
    return f'<table style="{_TABLE}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}'


def paragraph(words: str) -> str:
    """A line of text."""
    return f'<div style="white-space:pre-wrap">{text(words)}</div>'


def cell(value: Any) -> str:
    """The text of a table cell, escaped."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, Enum):
        return text(str(value.value))
    if isinstance(value, str):
        return text(value)
    return text(f"{value:,}" if isinstance(value, int) else sql_value(value))


def html_or_error(title: str, show: Callable[[], str]) -> str:
    """The HTML of `show`; where it cannot read what it needs, the title and the reason."""
    try:
        return show()
    except PaimonError as e:
        return section(title, "", paragraph(f"cannot be shown: {e}"))
    except OSError as e:
        return section(title, "", paragraph(f"cannot be shown: {type(e).__name__}: {e}"))


def amount(size_bytes: int) -> str:
    """Bytes in words: `1.5 MiB`."""
    size, unit = float(size_bytes), 0
    while abs(size) >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size_bytes} B" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def moment(time_ms: int | None) -> str | None:
    """Epoch milliseconds in UTC; as a number outside the calendar."""
    if time_ms is None:
        return None
    try:
        return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"


def text(words: str) -> str:
    """Text as HTML: escaped, and without characters that hide or reorder text."""
    return escape("".join("\N{REPLACEMENT CHARACTER}" if is_hidden(c) and c not in "\n\t" else c for c in words))


def is_hidden(char: str) -> bool:
    """Whether a character is invisible, or changes how text after it is shown."""
    code = ord(char)
    return (
        code < 0x20
        or 0x7F <= code < 0xA0
        or 0xD800 <= code <= 0xDFFF
        or 0x202A <= code <= 0x202E
        or 0x2066 <= code <= 0x2069
        or code in (0x2028, 0x2029, 0xFFFE, 0xFFFF)
    )


def _cell(value: Any) -> str:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    style = _NUMBER if is_number else _CELL
    return f'<td style="{style}">{cell(value)}</td>'


def named_after(cls: type[V]) -> type[V]:
    """The class, whose inherited methods Python names after it in messages, such as those of wrong arguments."""
    for base in cls.__mro__[1:]:
        for name, member in vars(base).items():
            if isinstance(member, FunctionType) and base.__module__.startswith("paimon_spark.api."):
                member.__qualname__ = f"{cls.__qualname__}.{name}"
    return cls


class ShownAsText:
    """A dataclass, declared with `repr=False`, that reads as the command line prints it."""

    __slots__ = ()

    def text_lines(self) -> Iterable[str]:
        """The text, by line; safe for a terminal."""
        raise NotImplementedError

    def __str__(self) -> str:
        return "\n".join(self.text_lines())

    def __repr__(self) -> str:
        shown = str(self)
        return shown if "\n" in shown else f"<{shown}>"


class ShownAsFacts(ShownAsText):
    """The same, which notebooks show by its fields, without empty ones."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        shown = {_title(name): words(name, value) for name, value in _members(self).items() if not _is_empty(value)}
        shown.pop("dry run", None)
        note = "dry run" if getattr(self, "dry_run", False) else ""
        return section(type(self).__name__, note, facts(shown) if shown else paragraph("nothing"))


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
    """An attribute's value as it is shown: times, sizes with units, nested values in brief."""
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
    if isinstance(value, ShownAsText):
        return str(value)
    if is_dataclass(value):
        return ", ".join(f"{_title(n)} {words(n, v)}" for n, v in _members(value).items() if not _is_empty(v))
    return value


def _members(value: Any) -> dict[str, Any]:
    return {f.name: getattr(value, f.name) for f in fields(value) if not f.name.startswith("_")}


def _is_empty(value: Any) -> bool:
    return value is None or value is False or (isinstance(value, (tuple, Mapping, str)) and not value)


def _title(name: str) -> str:
    return name.removesuffix("_ms").replace("_", " ")
