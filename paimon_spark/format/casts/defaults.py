"""Defaults of columns: from the text that a schema keeps to its value.

The default of an ARRAY is written `array(1, 2)` or `[1, 2]`, that of a MAP `map(1, x)` or `{1 -> x}`, that of a STRUCT
`struct(1, x)` or `{1, x}`; other values may stand in quotes.

Source: Java `utils/DefaultValueUtils`; `casting/StringToArrayCastRule`, `StringToMapCastRule`, `StringToRowCastRule`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from paimon_spark.errors import DataError, InvalidInputError, UnsupportedFeatureError
from paimon_spark.format.arrays.arrow_numpy import array_of
from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.format.casts.evolution import caster
from paimon_spark.types import STRING, ArrayType, DataType, MapType, RowType

Default = str | None | tuple["Default", ...]
"""The text of a value, None for null, or the parts: elements, fields, or keys and values by turns."""

_ARRAY: Final = re.compile(r"\s*(?:\[(?P<a>.*)\]|ARRAY\s*\((?P<b>.*)\))\s*", re.IGNORECASE)
_MAP: Final = re.compile(r"\s*(?:\{(?P<a>.*)\}|MAP\s*\((?P<b>.*)\))\s*", re.IGNORECASE)
_ROW: Final = re.compile(r"\s*(?:\{(?P<a>.*)\}|STRUCT\s*\((?P<b>.*)\))\s*", re.IGNORECASE)
_ENTRY: Final = re.compile(r"(.+?)\s*->\s*(.+)")
_UNSAFE: Final = re.compile(r"[\"\\,\[\](){}\r\n]|->|^\s|\s$|^$|^null$")
"""What a text within a collection cannot have: nothing escapes it."""


def default_parts(t: DataType, text: str) -> Default:
    """A default as text, or as parts where the type has some. Raises DataError: it is not written as one."""
    match t:
        case ArrayType():
            return tuple(_inner(t.element, p) for p in _split(_content(_ARRAY, text), keeps_quotes=True))
        case RowType():
            found = tuple(_split(_content(_ROW, text), keeps_quotes=True))
            if not found:
                return (None,) * len(t.fields)
            if len(found) != len(t.fields):
                raise DataError(f"{text!r} has {len(found)} fields, and {t} has {len(t.fields)}")
            return tuple(_inner(f.type, p) for f, p in zip(t.fields, found, strict=True))
        case MapType():
            return tuple(_inner(t.key if i % 2 == 0 else t.value, p) for i, p in enumerate(_entries(_unquoted(text))))
    return _unquoted(text)


def default_value(t: DataType, text: str) -> pa.Array:
    """Default as an array of one value. Raises DataError for a value of another type, UnsupportedFeatureError."""
    made = _built(t, default_parts(t, text))
    if made.null_count:
        raise DataError(f"{text!r} is null as {t}")
    return made


def check_default(column: str, t: DataType, text: str | None) -> None:
    """Check that the text of a default can be a value of the column. Raises InvalidInputError."""
    if text is None:
        return
    try:
        default_value(t, text)
    except (DataError, UnsupportedFeatureError) as e:
        raise InvalidInputError(f"column {column}: the default {text!r} is no value of type {t}", column=column) from e


def collection_text(word: str, items: Sequence[tuple[str, bool]], column: str) -> str:
    """The text of a default written in SQL as `array(…)`, `map(…)` or `struct(…)`.

    Args:
        word: the function, in small letters.
        items: the text of each argument, and whether it is a literal in quotes.
        column: for the message.

    Raises:
        UnsupportedFeatureError: a text in quotes that the format has no way to write.
    """
    wrong = next((text for text, is_quoted in items if is_quoted and _UNSAFE.search(text)), None)
    if wrong is not None:
        raise UnsupportedFeatureError(
            f"column {column}: the text {wrong!r} cannot stand in the default of a collection: a text there is not "
            "empty and not null, and has no commas, brackets, quotes, backslashes, arrows or spaces around it",
            feature="default expression",
            column=column,
        )
    if word == "map":  # of the three, only it removes quotes
        return f"map({', '.join(_in_quotes(text) if is_quoted else text for text, is_quoted in items)})"
    inner = ", ".join(text for text, _ in items)
    if not any(is_quoted for _, is_quoted in items):
        return f"{word}({inner})"
    return f"[{inner}]" if word == "array" else f"{{{inner}}}"


def _in_quotes(text: str) -> str:
    return f'"{text}"'


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == "'" else text


def _inner(t: DataType, text: str) -> Default:
    if text == "null":
        return None
    return default_parts(t, text) if isinstance(t, (ArrayType, MapType, RowType)) else text


def _content(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.fullmatch(_unquoted(text))
    if found is None:
        raise DataError(f"{text!r} is not written as a default of a collection")
    return (found["a"] if found["b"] is None else found["b"]).strip()


def _entries(text: str) -> Iterator[str]:
    """Keys and values by turns."""
    found = _MAP.fullmatch(text)
    if found is None:
        raise DataError(f"{text!r} is not written as the default of a map")
    parts = list(_split((found["a"] if found["b"] is None else found["b"]).strip(), keeps_quotes=False))
    if found["b"] is not None:
        if len(parts) % 2:
            raise DataError(f"{text!r} has a key without a value")
        yield from parts
        return
    for part in parts:
        entry = _ENTRY.fullmatch(part)
        if entry is None:
            raise DataError(f"{text!r} has {part!r}, where key -> value is expected")
        yield from (entry[1].strip(), entry[2].strip())


def _split(content: str, *, keeps_quotes: bool) -> Iterator[str]:
    """The parts between commas outside brackets and double quotes, which Java removes in maps only."""
    part, depth, in_quotes, escaped = "", 0, False, False
    for c in content:
        is_mark = True
        if escaped:
            escaped = False
        elif c == "\\":
            escaped = True
        elif c == '"':
            in_quotes = not in_quotes
        else:
            is_mark = False
            if not in_quotes:
                depth += (c in "[{(") - (c in "]})" and depth > 0)
                if c == "," and depth == 0:
                    if part:
                        yield part.strip()
                    part = ""
                    continue
        if keeps_quotes or not is_mark:
            part += c
    if part:
        yield part.strip()


def _built(t: DataType, given: Default) -> pa.Array:
    """An array of one value."""
    kind = arrow_type(t)
    if given is None:
        return pa.nulls(1, kind)
    match t:
        case ArrayType() if isinstance(given, tuple):
            return pa.ListArray.from_arrays([0, len(given)], _joined(t.element, given), type=kind)
        case MapType() if isinstance(given, tuple):
            keys, items = _joined(t.key, given[::2]), _joined(t.value, given[1::2])
            if keys.null_count or len(set(keys.to_pylist())) < len(keys):
                raise DataError("a map has a null key, or a key twice")
            return pa.MapArray.from_arrays([0, len(keys)], keys, items, type=kind)
        case RowType() if isinstance(given, tuple):
            children = [_checked(f.type, _built(f.type, part)) for f, part in zip(t.fields, given, strict=True)]
            return pa.StructArray.from_arrays(children, fields=list(kind))
    assert isinstance(given, str)
    return caster(STRING, t)(array_of([given], pa.string()))


def _joined(t: DataType, parts: Sequence[Default]) -> pa.Array:
    made = [_checked(t, _built(t, part)) for part in parts]
    return pa.concat_arrays(made) if made else pa.array([], arrow_type(t))


def _checked(t: DataType, made: pa.Array) -> pa.Array:
    if made.null_count and not t.nullable:
        raise DataError(f"null is no value of {t}")
    return made
