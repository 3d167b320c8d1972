"""Parse the time that a partition's values stand for. Pure.

Without a formatter text is read as Paimon reads it: `yyyy-M-d[ H:m:s[.fraction]]`, and day 32 is the first of the next
month. A formatter is a pattern of Java's `DateTimeFormatter`, with numbers of dates and times only.

Times are local wall clocks, in milliseconds since 1970 as if in UTC: years may be beyond the range of Python's dates.

Source: Java `partition/PartitionTimeExtractor`; JDK `DateTimeFormatterBuilder.appendPattern`.
"""

from __future__ import annotations

import re
from calendar import isleap, monthrange
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from paimon_spark.errors import InvalidOptionError
from paimon_spark.options.retention import PARTITION_TIMESTAMP_FORMATTER

_DAY_MS: Final = 86_400_000
_DEFAULT: Final = re.compile(
    r"(-?\d{1,10})-(-?\d{1,2})-(-?\d{1,2})(?: (-?\d{1,2}):(-?\d{1,2}):(-?\d{1,2})(?:\.(\d{1,9}))?)?", re.ASCII
)
_TOKEN: Final = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|.", re.DOTALL)
_FIELDS: Final = {"y": "year", "u": "year", "M": "month", "L": "month", "d": "day", "D": "day of year",
                  "H": "hour", "m": "minute", "s": "second", "S": "fraction"}  # fmt: skip
_RESERVED: Final = "[]{}#"


def parser_of(formatter: str | None) -> Callable[[str], int | None]:
    """What reads a text as a time; it gives None for one that is none.

    Raises:
        InvalidOptionError: a pattern that is not known here, or that gives no whole date.
    """
    return _default if formatter is None else _Pattern(formatter).parse


def text_of(pattern: str | None, texts: Mapping[str, str | None]) -> str | None:
    """The text to read, of the texts of a partition's columns in their order; None when a column it needs is null.

    Args:
        pattern: with `$column` for the text of a column; None for the first column.
        texts: by column.
    """
    if pattern is None:
        return next(iter(texts.values()))
    out, rest = "", pattern
    longest_first = sorted(texts, key=len, reverse=True)
    while rest:
        column = next((c for c in longest_first if rest.startswith(f"${c}")), None)
        if column is None:
            out, rest = out + rest[0], rest[1:]
            continue
        text = texts[column]
        if text is None:
            return None
        out, rest = out + text, rest[1 + len(column) :]
    return out


def _default(text: str) -> int | None:
    match = _DEFAULT.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    time_ms = (hour * 3600 + minute * 60 + second) * 1000 + _millis(match[7])
    return _days_rolled(year, month, day) * _DAY_MS + time_ms


def _days_rolled(year: int, month: int, day: int) -> int:
    """Days since 1970, where month 13 is the first of the next year and day 0 the last of the month before."""
    years, months = divmod(month - 1, 12)
    return _days(year + years, months + 1, 1) + day - 1


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970 of a date of the Gregorian calendar, however far away."""
    # Years begin in March, so that a leap day is a year's last.
    shifted = year - (month <= 2)
    era, of_era = divmod(shifted, 400)
    of_year = (153 * ((month - 3) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def _millis(fraction: str | None) -> int:
    return int((fraction or "").ljust(3, "0")[:3])


class _Pattern:
    """A pattern of `DateTimeFormatter`, read as Java's SMART style does."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._fields: list[tuple[str, int]] = []
        parts = []
        follows_number = False
        for match in _TOKEN.finditer(text):
            part = match[0]
            if match[1]:
                parts.append(self._number(part, follows_number))
                follows_number = True
            else:
                parts.append(re.escape(self._literal(part)))
                follows_number = False
        names = [name for name, _ in self._fields]
        if len(set(names)) < len(names):
            raise self._refused("a field stands there twice")
        if "year" not in names or not ({"month", "day"} <= set(names) or "day of year" in names):
            raise self._refused("it gives no whole date")
        self._regex = re.compile("".join(parts), re.ASCII)

    def parse(self, text: str) -> int | None:
        match = self._regex.fullmatch(text)
        if match is None:
            return None
        found = {name: match[i] for i, (name, _) in enumerate(self._fields, 1)}
        year = int(found["year"]) + (2000 if dict(self._fields)["year"] == 2 else 0)
        days = _date(year, found)
        time_ms = _time_ms(found)
        return None if days is None or time_ms is None else days * _DAY_MS + time_ms

    def _number(self, part: str, follows_number: bool) -> str:
        name, count = _FIELDS.get(part[0]), len(part)
        if name is None:
            raise self._refused(f"the letter {part[0]!r} is not known here")
        self._fields.append((name, count))
        match name, count:
            case "fraction", 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9:
                return rf"(\d{{{count}}})"
            case "year", 2:
                return r"(\d{2})"
            case "year", 4 | 5 | 6 | 7 | 8 | 9:
                varies, regex = False, rf"(\d{{{count}}}|\+\d{{{count + 1},10}})"
            case "year", 1 | 3:
                varies, regex = True, rf"(\d{{{count},10}})"
            case "day of year", 3:
                return r"(\d{3})"
            case "day of year", 2:
                varies, regex = True, r"(\d{2,3})"
            case (("month" | "day" | "hour" | "minute" | "second"), 2):
                return r"(\d{2})"
            case (("month" | "day" | "day of year" | "hour" | "minute" | "second"), 1):
                varies, regex = True, r"(\d{1,10})"
            case _:
                raise self._refused(f"{part!r} is not known here")
        if varies and follows_number:
            raise self._refused(f"{part!r} stands right after another number, and it is not known where it begins")
        return regex

    def _literal(self, part: str) -> str:
        if part == "''":
            return "'"
        if part == "'":
            raise self._refused("a quote is not closed")
        if part.startswith("'"):
            return part[1:-1].replace("''", "'")
        if part in _RESERVED:
            raise self._refused(f"{part!r} is not known here")
        return part

    def _refused(self, why: str) -> InvalidOptionError:
        return InvalidOptionError(
            f"option {PARTITION_TIMESTAMP_FORMATTER.key} = {self._text!r}: {why}; write it with yyyy, MM, dd, HH, mm, "
            "ss, other characters and 'quoted text', such as yyyyMMdd",
            option=PARTITION_TIMESTAMP_FORMATTER.key,
            value=self._text,
        )


def _date(year: int, found: Mapping[str, str]) -> int | None:
    """Days since 1970; the 31st of a month of 30 days is its last, as in Java."""
    if "day of year" in found:
        of_year = int(found["day of year"])
        return _days(year, 1, 1) + of_year - 1 if 1 <= of_year <= 365 + isleap(year) else None
    month, day = int(found["month"]), int(found["day"])
    if not 1 <= month <= 12 or not 1 <= day <= 31:
        return None
    length = monthrange(2000 if isleap(year) else 2001, month)[1]
    return _days(year, month, min(day, length))


def _time_ms(found: Mapping[str, str]) -> int | None:
    """Milliseconds of the day; midnight when the pattern has no complete time."""
    given: Sequence[str] = [name for name in ("hour", "minute", "second", "fraction") if name in found]
    hour, minute, second = (int(found.get(name, 0)) for name in ("hour", "minute", "second"))
    if hour > 24 or minute > 59 or second > 59:
        return None
    millis = _millis(found.get("fraction"))
    if given != ["hour", "minute", "second", "fraction"][: len(given)]:
        return 0
    total = (hour * 3600 + minute * 60 + second) * 1000 + millis
    return total if total <= _DAY_MS else None
