"""Versions and moments as values, parsed from text and options.

`resolve` finds what versions mean.

Source: Java `table/source/snapshot/TimeTravelUtil`, `DateTimeUtils.parseTimestampData`; PIP-4 and PIP-14 for savepoints
and branches.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import StrEnum
from typing import Final, TypeAlias
from zoneinfo import ZoneInfo

from paimon_spark.errors import InvalidInputError, InvalidOptionError, VersionSyntaxError
from paimon_spark.options.descriptor import duration_ms
from paimon_spark.spark_port import session_time_zone


class VersionKind(StrEnum):
    """Kind of object that a version names.

    TEXT is the grammar of `VERSION AS OF`, whose meaning depends on what exists; COMPACTED is the newest snapshot made
    by compaction.
    """

    TEXT = "version"
    SNAPSHOT = "snapshot"
    TAG = "tag"
    TAG_ID = "tag-id"
    SAVEPOINT = "savepoint"
    WATERMARK = "watermark"
    TIMESTAMP = "timestamp"
    COMPACTED = "compacted"


@dataclass(frozen=True, slots=True)
class VersionSpec:
    """A version asked for.

    Attributes:
        value: text for TEXT and TAG, and that of the mode for COMPACTED; a snapshot id for SNAPSHOT, TAG_ID and
            SAVEPOINT; epoch milliseconds for WATERMARK and TIMESTAMP.
        asked: what the user wrote, for messages; empty means the value itself.
    """

    kind: VersionKind
    value: str | int
    asked: str = ""

    def __str__(self) -> str:
        if self.kind is VersionKind.TEXT:
            return f"version {self.value!r}"
        return f"{self.kind.value} {self.asked or self.value!r}"


_TYPED: Final = (
    (re.compile(r"snapshot\.(\d{1,19})", re.ASCII), VersionKind.SNAPSHOT),
    (re.compile(r"savepoint\.(\d{1,19})", re.ASCII), VersionKind.SAVEPOINT),
    (re.compile(r"tag-id\.(\d{1,19})", re.ASCII), VersionKind.TAG_ID),
    (re.compile(r"watermark-(-?\d{1,19})", re.ASCII), VersionKind.WATERMARK),
)
_OPTION_KINDS: Final = {
    "versionasof": VersionKind.TEXT,
    "scan.version": VersionKind.TEXT,
    "scan.snapshot-id": VersionKind.SNAPSHOT,
    "scan.tag-name": VersionKind.TAG,
    "scan.tag-id": VersionKind.TAG_ID,
    "scan.savepoint-id": VersionKind.SAVEPOINT,
    "scan.watermark": VersionKind.WATERMARK,
    "timestampasof": VersionKind.TIMESTAMP,
    "scan.timestamp": VersionKind.TIMESTAMP,
    "scan.timestamp-millis": VersionKind.TIMESTAMP,
    "scan.mode": VersionKind.COMPACTED,
}


def text_version(text: str) -> VersionSpec:
    """The version of a text after `VERSION AS OF`. Raises VersionSyntaxError when it is blank."""
    if not text.strip():
        raise VersionSyntaxError(
            "the version is blank; give a snapshot id, a tag, a branch, <branch>.<tag> or a typed version "
            "such as snapshot.3, savepoint.3, tag-name.t, tag-id.3 or watermark-<ms>"
        )
    return VersionSpec(VersionKind.TEXT, text.strip())


def typed_version(text: str) -> VersionSpec | None:
    """The version that `text` names by its type (`snapshot.3`, `tag-name.t` …); None when it is not so written."""
    for pattern, kind in _TYPED:
        match = pattern.fullmatch(text)
        if match is not None:
            return VersionSpec(kind, int(match[1]), match[1])
    name = text.removeprefix("tag-name.")
    return VersionSpec(VersionKind.TAG, name) if name and name != text else None


def branch_version(text: str) -> tuple[str, str] | None:
    """Branch and rest of `<branch>.<rest>`; None without a dot, or with an empty side."""
    branch, _, rest = text.partition(".")
    return (branch, rest) if branch and rest else None


def from_option(key: str, text: str, time_zone: str | None = None) -> VersionSpec:
    """The version that a read option names.

    Args:
        key: in any case.
        text: its value.
        time_zone: zone of timestamps written without one; None as in `epoch_ms`.

    Raises:
        InvalidOptionError: an id is not a number.
        VersionSyntaxError: a timestamp or version cannot be read.
    """
    kind = _OPTION_KINDS[key.lower()]
    if kind is VersionKind.TEXT:
        return text_version(text)
    if kind in (VersionKind.TAG, VersionKind.COMPACTED):
        return VersionSpec(kind, text)
    if kind is VersionKind.TIMESTAMP and key.lower() != "scan.timestamp-millis":
        return VersionSpec(kind, epoch_ms(text, time_zone, key), repr(text))
    try:
        return VersionSpec(kind, int(text.strip()), text.strip())
    except ValueError:
        raise InvalidOptionError(f"option {key} = {text!r}: expected a whole number", option=key, value=text) from None


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS: Final = re.compile(r"[+-]?\d+(\.\d+)?", re.ASCII)
_TEXT: Final = re.compile(
    r"(?P<date>\d{4}-\d{1,2}-\d{1,2})"
    r"(?:[T ](?P<hour>\d{1,2}):(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?:\.(?P<fraction>\d{1,9}))?)?)?"
    r"\s*(?P<zone>Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?|[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)+)?",
    re.ASCII,
)


def epoch_ms(text: str, time_zone: str | None = None, option: str = "timestamp") -> int:
    """Epoch milliseconds of `yyyy-MM-dd[ HH:mm[:ss[.fraction]]][zone]`, or of a number of seconds.

    Args:
        text: what the user wrote; digits after the millisecond are cut off.
        time_zone: zone of a text that names none; None means that of the active Spark session, else the machine's.
        option: what the text was given for, for messages.

    Raises:
        VersionSyntaxError: the text is no timestamp.
        InvalidOptionError: no such time zone.
    """
    stripped = text.strip()
    if _SECONDS.fullmatch(stripped) and len(stripped) < 40:
        return int((Decimal(stripped) * 1000).to_integral_value(rounding="ROUND_FLOOR"))
    match = _TEXT.fullmatch(stripped)
    try:
        if match is None:
            raise ValueError("it has another form")
        return _epoch_ms(match, time_zone)
    except InvalidOptionError:
        raise
    except (ValueError, OverflowError) as e:
        raise VersionSyntaxError(
            f"{option} = {text!r} is no timestamp ({e}); write 2024-01-31 12:30:00, with a zone if need be "
            "(2024-01-31T12:30:00+02:00), or seconds since 1970",
            value=text,
        ) from e


def _epoch_ms(match: re.Match[str], time_zone: str | None) -> int:
    year, month, day = map(int, match["date"].split("-"))
    hour, minute, second = (int(match[part] or 0) for part in ("hour", "minute", "second"))
    moment = datetime(year, month, day, hour, minute, second)
    millis = int((match["fraction"] or "").ljust(3, "0")[:3])
    zone = zone_of(match["zone"] or (session_time_zone() if time_zone is None else time_zone))
    # Without a zone datetime asks the machine for its own.
    aware = moment.replace(tzinfo=zone) if zone else moment.astimezone()
    return (aware - _EPOCH) // timedelta(milliseconds=1) + millis


def zone_of(name: str | None) -> tzinfo | None:
    """The zone called `name` (`Z`, `+02:00`, `Europe/Berlin`); None for None. Raises InvalidOptionError."""
    if name is None:
        return None
    offset = re.fullmatch(r"(?:UTC|GMT)?([+-])(\d{1,2}):?(\d{2})?", name.strip())
    try:
        if offset is not None:
            delta = timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0))
            return timezone(-delta if offset[1] == "-" else delta)
        return UTC if name.strip() in ("Z", "UTC", "GMT") else ZoneInfo(name.strip())
    except (ValueError, OSError, LookupError) as e:
        raise InvalidOptionError(
            f"no time zone is called {name!r}; write UTC, +02:00 or a name such as Europe/Berlin",
            option="time-zone",
            value=name,
        ) from e


Moment: TypeAlias = datetime | int | str
"""A datetime (without a zone: the machine's), epoch milliseconds, or text such as `2024-01-31 12:30:00`."""

Cutoff: TypeAlias = Moment | timedelta
"""A moment, or an age before now: a timedelta, or text such as `7 d`."""

_LAST_MS: Final = 253_402_214_400_000
"""The last day of the year 9999, which no clock of Python goes beyond."""


def moment_ms(value: Moment, name: str, time_zone: str | None = None) -> int:
    """Epoch milliseconds of a moment.

    Args:
        value: the moment.
        name: of the argument, for messages.
        time_zone: zone of a text that names none; None as in `epoch_ms`.

    Raises InvalidInputError: it is no moment.
    """
    match value:
        case datetime():
            return (value.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)
        case bool():
            pass
        case int() if abs(value) <= _LAST_MS:
            return value
        case str():
            try:
                return epoch_ms(value, time_zone, name)
            except VersionSyntaxError as e:
                raise InvalidInputError(str(e), argument=name, value=value) from e
    raise InvalidInputError(
        f"{name} = {value!r} is no moment; give a datetime, epoch milliseconds or text such as 2024-01-31 12:30:00",
        argument=name,
    )


def cutoff_ms(value: Cutoff, name: str, time_zone: str | None = None) -> int:
    """Epoch milliseconds of a moment or an age; arguments as of `moment_ms`. Raises InvalidInputError."""
    age_ms = _age_ms(value)
    if age_ms is not None:
        return max(time.time_ns() // 1_000_000 - age_ms, 0)
    try:
        return moment_ms(value, name, time_zone)  # type: ignore[arg-type]
    except InvalidInputError as e:
        raise InvalidInputError(f"{e.message}; or an age such as 7 d", argument=name, value=value) from e


def _age_ms(value: Cutoff) -> int | None:
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    if not isinstance(value, str) or value.strip().isdigit():
        return None
    try:
        return duration_ms(value)
    except ValueError:
        return None


def one_version(version: str | int | None, other: str | int | None, name: str) -> str | int | None:
    """The version that one of two arguments gives. Raises InvalidInputError: both do."""
    if version is not None and other is not None:
        raise InvalidInputError(f"version = {version!r} and {name} = {other!r} are the same argument; give one of them")
    return other if version is None else version
