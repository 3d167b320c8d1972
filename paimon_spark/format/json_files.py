"""Decoder and encoder of the small JSON files, which anybody may have written.

Every small file is decoded here, so that whatever stands in it is either the value that the file's format describes or
one error of ours: text that is no JSON, nested too deep, of other types, with numbers out of range, or with text that
has no UTF-8 form.

Source: own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, TypeVar

from paimon_spark.errors import FormatError, InvalidInputError, PaimonError, UnknownFormatVersionError
from paimon_spark.text import safe

T = TypeVar("T")
_MOST_LEVELS: Final = 250
"""Levels of arrays and objects; more would exceed Python's stack where the value is written again. Types have 100."""
_MOST_REASON: Final = 300
_MOST_DIGITS: Final = 30
_WRONG: Final = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, FormatError)
"""Errors of code that takes a JSON value for what it is not."""


def decode_object(data: bytes | str, build: Callable[[dict[str, Any]], T], corrupt: Callable[[str], PaimonError]) -> T:
    """The value that `build` makes of the JSON object in `data`.

    Args:
        data: the bytes of a file in UTF-8, or text.
        build: may raise what wrong keys, types and values raise, and FormatError with the reason.
        corrupt: the error for a reason, in one line.

    Raises:
        UnknownFormatVersionError: from `build`.
        PaimonError: the error that `corrupt` makes, for everything else that is wrong with the file.
    """
    try:
        return build(_object(data))
    except UnknownFormatVersionError:
        raise
    except _WRONG as e:
        raise corrupt(_reason(e)) from e


def find_object(data: bytes | str, build: Callable[[dict[str, Any]], T]) -> T | None:
    """As `decode_object`; None where that raises, for files that are only hints."""
    try:
        return build(_object(data))
    except _WRONG:
        return None


def json_value(data: bytes | str) -> Any:
    """Decode a JSON value. Raises FormatError if invalid, nested too deep, or with text without a UTF-8 form."""
    try:
        text = data if isinstance(data, str) else data.decode("utf-8-sig")
        value = json.loads(text, parse_int=_integer, parse_constant=_no_constant)
    except (ValueError, RecursionError) as e:
        raise FormatError(_reason(e)) from e
    level, levels = [value], 0
    while level:
        levels += 1
        if levels > _MOST_LEVELS:
            raise FormatError(f"it is nested more than {_MOST_LEVELS} levels deep")
        level = [
            member
            for outer in level
            for member in (outer.values() if isinstance(outer, dict) else outer if isinstance(outer, list) else ())
            if isinstance(member, (dict, list))
        ]
    if "\\u" in text:  # escapes alone can make such text
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as e:
            raise FormatError("it has half of a surrogate pair, which is no text") from e
    return value


def encode_value(value: Any, *, indent: int | None = None) -> bytes:
    """The bytes of a file with a JSON value. Raises InvalidInputError: it has text without a UTF-8 form."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    try:
        return text.encode()
    except UnicodeEncodeError as e:
        raise InvalidInputError(
            f"{text[max(e.start - 40, 0) : e.end + 40]!r} has half of a surrogate pair, which has no form in UTF-8 and "
            "cannot be stored; leave it out"
        ) from e


def _integer(text: str) -> int:
    value = int(text) if len(text) <= _MOST_DIGITS else 2**63
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"{text[:_MOST_DIGITS]} has more than 64 bits")
    return value


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no number in JSON")


def _object(data: bytes | str) -> dict[str, Any]:
    value = json_value(data)
    if not isinstance(value, dict):
        raise FormatError("the top level is not an object")
    return value


def _reason(error: BaseException) -> str:
    """Cause of an error, in one line. Values of files appear in such texts, so these are cut."""
    text = str(error) if isinstance(error, FormatError) else f"{type(error).__name__}: {error}"
    shown = safe(text)
    return shown if len(shown) <= _MOST_REASON else shown[:_MOST_REASON] + "…"
