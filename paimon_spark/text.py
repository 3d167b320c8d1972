"""Format values and tables as text that is safe for a terminal and fits it."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final

_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}
_BIDI: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")
_UNSEEN: Final = ("Cc", "Cs", "Zl", "Zp")
_GAP: Final = "  "
_NAMED: Final = 10
_INTEGER_DIGITS: Final = 19
_AS_IT_IS: Final = re.compile(r"(?!(?i:null)$)[^\s,;='\"(){}\[\]]+(?: [^\s,;='\"(){}\[\]]+)*")
"""Text that needs no quotes among other values."""
_QUOTE: Final = "'"
_LEAST: Final = 8
"""The narrowest column of a wrapped table; where that does not fit, each value has its own line."""


def safe(text: str) -> str:
    """Escape the characters that act on a terminal."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(c) for c in text)


def is_storable(text: str) -> bool:
    """Whether a text has a form in UTF-8: halves of surrogate pairs, which Python's texts may have, have none."""
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)


def integer_of(text: str) -> int | None:
    """The number that ASCII digits are, perhaps after a minus; None for other text and over 64 bits."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > _INTEGER_DIGITS:
        return None
    found = int(text)
    return found if -(2**63) <= found < 2**63 else None


def id_of(text: str) -> int | None:
    """The id that a text of digits is; None for anything else, and from 2^63 on, which no writer reaches."""
    return None if text.startswith("-") else integer_of(text)


def _escaped(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    if character in _BIDI or unicodedata.category(character) in _UNSEEN:
        code = ord(character)
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    return character


def reason(error: BaseException, text: str | None = None) -> str:
    """Class and first line of an error of a library; `text` where the error itself does not say it well."""
    first_line = (str(error) if text is None else text).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first_line}"


def shown(value: Any) -> str:
    """Format a value for a cell or a sentence."""
    match value:
        case None:
            return "-"
        case bool():
            return "true" if value else "false"
        case str():
            return safe(value)
        case bytes():
            return value.hex()
        case datetime():
            return value.isoformat(" ")
        case list() | tuple():
            return ", ".join(shown(v) for v in value)
        case dict():
            return ", ".join(f"{shown(k)}={shown(v)}" for k, v in value.items())
        case _:
            return safe(str(value))


def sql_cell(value: Any) -> str:
    """A value of a row as SQL prints it, alone in a cell: text without quotes."""
    return safe(value) if isinstance(value, str) else sql_value(value)


def sql_value(value: Any) -> str:
    """A value of a row as SQL prints it, for a sentence: `2024-01-31`, `8004.00`, `NULL`.

    Text is quoted only where it could be misread. Lists are arrays, mappings maps, and tuples structs.
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case str():
            return safe(value) if _AS_IT_IS.fullmatch(value) else sql_quoted(value)
        case float():
            return str(finite(value))
        case Decimal():
            return f"{value:f}"
        case bytes() | bytearray():
            return f"X'{value.hex().upper()}'"
        case datetime():
            found = value.isoformat(" ")
            return found.removesuffix("+00:00") + "Z" if found.endswith("+00:00") else found
        case date() | time():
            return value.isoformat()
        case Mapping():
            return f"{{{', '.join(f'{sql_value(k)} -> {sql_value(v)}' for k, v in value.items())}}}"
        case tuple():
            return f"{{{', '.join(map(sql_value, value))}}}"
        case list():
            return f"[{', '.join(map(sql_value, value))}]"
    return safe(str(value))


def sql_quoted(value: Any) -> str:
    """The same for a value that stands alone in a sentence: text is always quoted."""
    return f"'{safe(value).replace(_QUOTE, _QUOTE * 2)}'" if isinstance(value, str) else sql_value(value)


def sql_row(row: Mapping[str, Any]) -> str:
    """The values of a row with their columns: `dt=2024-01-31, amount=8004.00`."""
    return ", ".join(f"{safe(name)}={sql_value(value)}" for name, value in row.items())


def moment(time_ms: int | None) -> str:
    """Format an epoch time in UTC; `-` for none."""
    if time_ms is None:
        return "-"
    try:
        found = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"
    return found.strftime("%Y-%m-%d %H:%M:%SZ")


def duration(seconds: float) -> str:
    """Format seconds as options write durations: `30 d`, `1 h 30 min`."""
    if seconds != int(seconds):
        return f"{seconds:,} s"
    left, parts = int(seconds), []
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, length)
        parts += [f"{count:,} {unit}"] if count else []
    return " ".join(parts) or "0 s"


def with_article(noun: str) -> str:
    """`an iceberg`, `a delta`."""
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """`1 file`, `2 files`."""
    several = plural or noun + ("es" if noun.endswith("ch") else "s")
    return f"{count:,} {noun if count == 1 else several}"


def named(found: Sequence[object], noun: str) -> str:
    """`2 tags (v1, v2)`; at most ten are named."""
    texts = [safe(str(n)) for n in found[:_NAMED]]
    more = [f"and {len(found) - _NAMED} more"] if len(found) > _NAMED else []
    return f"{counted(len(found), noun)} ({', '.join([*texts, *more])})"


def width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(_width(c) for c in text)


def _width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def grid(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], room: int | None, cell: Callable[[Any], str] = shown
) -> Iterator[str]:
    """Yield the lines of a table that is at most `room` columns wide; None: of any width."""
    heads = [safe(c) for c in columns]
    cells = [[cell(v) for v in row] for row in rows]
    widths = [max(map(width, column)) for column in zip(heads, *cells, strict=True)] if heads else []
    fitting = widths if room is None else _fitted(widths, room)
    if fitting is None:
        yield from _records(heads, cells)
        return
    right = [_is_number(rows, i) for i in range(len(heads))]
    for row in [heads, *cells]:
        parts = [_wrapped(cell, fitting[i]) for i, cell in enumerate(row)]
        for line in range(max(map(len, parts), default=0)):
            placed = (p[line] if line < len(p) else "" for p in parts)
            yield _GAP.join(_padded(t, fitting[i], right[i]) for i, t in enumerate(placed)).rstrip()


def _is_number(rows: Sequence[Sequence[Any]], column: int) -> bool:
    found = [r[column] for r in rows if r[column] is not None]
    return bool(found) and all(isinstance(v, int | float | Decimal) and not isinstance(v, bool) for v in found)


def _fitted(widths: Sequence[int], room: int) -> list[int] | None:
    """Narrow the widest columns so that all fit; None when they cannot."""
    gaps = len(_GAP) * (len(widths) - 1)
    if sum(widths) + gaps <= room:
        return list(widths)
    if sum(min(w, _LEAST) for w in widths) + gaps > room:
        return None
    left, fitted = room - gaps, dict[int, int]()
    waiting = sorted(range(len(widths)), key=lambda i: widths[i])
    while waiting:
        share = left // len(waiting)
        column = waiting.pop(0)
        fitted[column] = min(widths[column], max(share, min(widths[column], _LEAST)))
        left -= fitted[column]
    return [fitted[i] for i in range(len(widths))]


def _wrapped(text: str, room: int) -> list[str]:
    if width(text) <= room:
        return [text]
    lines, line, used = [], "", 0
    for character in text:
        wide = _width(character)
        if used + wide > room:
            space = line.rfind(" ")
            if space > room // 2 and character != " ":
                lines.append(line[:space])
                line = line[space + 1 :]
            else:
                lines.append(line)
                line = ""
            used = width(line)
        line, used = line + character, used + wide
    return [*lines, line]


def _padded(text: str, room: int, right: bool) -> str:
    space = " " * max(room - width(text), 0)
    return space + text if right else text + space


def _records(heads: Sequence[str], cells: Sequence[Sequence[str]]) -> Iterator[str]:
    room = max(map(width, heads), default=0)
    for number, row in enumerate(cells):
        if number:
            yield ""
        for head, cell in zip(heads, row, strict=True):
            yield f"{_padded(head, room, False)}  {cell}".rstrip()


def finite(value: float) -> Any:
    """The number, or text where JSON has no such number."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
