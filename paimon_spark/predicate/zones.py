"""Time zones: instants to wall clocks and back, for arrays.

Wall clocks that a zone skips move on by the gap, and of two instants with the same wall clock the earlier is meant, as
in Java. Counts are microseconds since 1970, of wall clocks as if they were UTC.

Source: Java `java.time.ZonedDateTime.ofLocal`, `LocalDate.atStartOfDay`.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]

SECOND: Final = 1_000_000
DAY: Final = 86_400 * SECOND
_MONTHS: Final = {"YEAR": 12, "YYYY": 12, "YY": 12, "QUARTER": 3, "MONTH": 1, "MM": 1, "MON": 1}
_SPANS: Final = {"DAY": DAY, "DD": DAY, "HOUR": 3600 * SECOND, "MINUTE": 60 * SECOND}
_FRACTIONS: Final = {"SECOND": SECOND, "MILLISECOND": 1000, "MICROSECOND": 1}
UNITS: Final = frozenset((*_MONTHS, *_SPANS, *_FRACTIONS, "WEEK"))
"""The units of DATE_TRUNC, in upper case."""
_MONDAY: Final = 4
"""The first Monday is 4 days after 1970-01-01."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_SECONDS: Final = 86_400
_FIRST_YEAR: Final = 1800
"""No zone changed its offset before."""
_LAST_YEAR: Final = 2500
"""Later years are as those a multiple of 400 years before, from 2101 on: calendar and rules repeat."""
_CYCLE_YEARS: Final = 400
_CYCLE_SECONDS: Final = 146_097 * _DAY_SECONDS
_STEP_DAYS: Final = 2
"""Changes of offset are further apart: 4 days or more in every zone there is."""


class _Changes(NamedTuple):
    """When the offset from UTC changes; seconds."""

    times: I64
    before: I64
    after: I64


def machine_zone() -> tzinfo | None:
    """The time zone of this machine by its name; None if the name is not known."""
    name = os.environ.get("TZ")
    if name is None:
        path = os.path.realpath("/etc/localtime")
        name = path.partition("zoneinfo/")[2] or ("" if os.path.exists(path) else "UTC")
    name = name.removeprefix(":")
    try:
        return UTC if name in ("UTC", "Etc/UTC") else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def wall_clocks(instants: I64, zone: tzinfo) -> I64:
    """Wall clocks of `zone` at `instants`."""
    return instants + _offsets(instants, zone) * SECOND


def to_instants(clocks: I64, zone: tzinfo) -> I64:
    """The instants at which clocks of `zone` show `clocks`."""
    if len(clocks) == 0:
        return clocks
    seconds = clocks // SECOND
    changes = _changes_near(seconds, zone)
    switches = changes.times + np.maximum(changes.before, changes.after)
    offsets = changes.after[np.searchsorted(switches, seconds, side="right") - 1]
    return clocks - offsets * SECOND


def day_starts(days: I64, zone: tzinfo) -> I64:
    """The first instant of each day since 1970; past midnight where clocks skip it."""
    if len(days) == 0:
        return days
    seconds = days * _DAY_SECONDS
    changes = _changes_near(seconds, zone)
    place = np.searchsorted(changes.times + np.maximum(changes.before, changes.after), seconds, side="right")
    found = (seconds - changes.after[place - 1]) * SECOND
    # The next change, when midnight lies in its gap.
    following = np.minimum(place, len(changes.times) - 1)
    in_gap = (place < len(changes.times)) & (changes.times[following] + changes.before[following] <= seconds)
    in_gap &= changes.after[following] > changes.before[following]
    return np.where(in_gap, changes.times[following] * SECOND, found)


def truncated(instants: I64, unit: str, zone: tzinfo) -> I64:
    """The beginnings of the units, one of `UNITS`, that the instants are in.

    Where a wall clock happens twice, the beginning of a day or less has the offset of its instant.
    """
    if unit in _FRACTIONS:
        return instants // _FRACTIONS[unit] * _FRACTIONS[unit]
    if unit in _SPANS:
        offsets = _offsets(instants, zone) * SECOND
        clocks = (instants + offsets) // _SPANS[unit] * _SPANS[unit]
        same = clocks - offsets
        return np.where(_offsets(same, zone) * SECOND == offsets, same, to_instants(clocks, zone))
    days = wall_clocks(instants, zone) // DAY
    if unit == "WEEK":
        return day_starts((days - _MONDAY) // 7 * 7 + _MONDAY, zone)
    months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) // _MONTHS[unit] * _MONTHS[unit]
    return day_starts(months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64), zone)


def is_steady(instant: int, zone: tzinfo) -> bool:
    """Whether the offset of `zone` is the same for two days before and after `instant`."""
    around = np.array([instant + days * DAY for days in (-2, 0, 2)], np.int64)
    return len(np.unique(_offsets(around, zone))) == 1


def _offsets(instants: I64, zone: tzinfo) -> I64:
    if len(instants) == 0:
        return instants
    seconds = instants // SECOND
    changes = _changes_near(seconds, zone)
    return changes.after[np.searchsorted(changes.times, seconds, side="right") - 1]


def _changes_near(seconds: I64, zone: tzinfo) -> _Changes:
    """The changes in the years of `seconds` and the years around them.

    Where the year before is not among them, the first entry of a year changes nothing and holds its offset.
    """
    years = np.unique(seconds.astype("datetime64[s]").astype("datetime64[Y]").astype(np.int64) + 1970)
    wanted = np.unique(np.concatenate([years - 1, years, years + 1])).tolist()
    rows: list[tuple[int, int, int]] = []
    for i, year in enumerate(wanted):
        begin, offset, changes = _changes_of_year(year, zone)
        if i == 0 or wanted[i - 1] != year - 1:
            rows.append((begin, offset, offset))
        rows += changes
    return _Changes(*(np.array(column, np.int64) for column in zip(*rows, strict=True)))


@lru_cache(maxsize=20_000)
def _changes_of_year(year: int, zone: tzinfo) -> tuple[int, int, list[tuple[int, int, int]]]:
    """When a year begins (UTC), with which offset, and its changes."""
    begin = _year_start(year)
    if year < _FIRST_YEAR:
        return begin, _offset(_year_start(_FIRST_YEAR), zone), []
    cycles = max(0, (year - _LAST_YEAR + _CYCLE_YEARS - 1) // _CYCLE_YEARS)
    shift = cycles * _CYCLE_SECONDS
    start, end = begin - shift, _year_start(year + 1) - shift
    changes: list[tuple[int, int, int]] = []
    low = start - _STEP_DAYS * _DAY_SECONDS
    offset = _offset(low, zone)
    for high in range(start, end + _STEP_DAYS * _DAY_SECONDS, _STEP_DAYS * _DAY_SECONDS):
        following = _offset(high, zone)
        if following != offset:
            time = _change_between(low, high, zone)
            if start <= time < end:
                changes.append((time + shift, offset, following))
        low, offset = high, following
    return begin, _offset(start, zone), changes


def _year_start(year: int) -> int:
    return int(np.array([year - 1970], "datetime64[Y]").astype("datetime64[s]").astype(np.int64)[0])


def _change_between(low: int, high: int, zone: tzinfo) -> int:
    """The first second of the offset at `high`, which differs from that at `low`."""
    old = _offset(low, zone)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _offset(middle, zone) == old else (low, middle)
    return high


def _offset(seconds: int, zone: tzinfo) -> int:
    found: Any = (_EPOCH + timedelta(seconds=seconds)).astimezone(zone).utcoffset()
    return int(found.total_seconds())
