"""Moments that callers name: a datetime, epoch milliseconds, or text."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Final, TypeAlias

from paimon_spark.errors import InvalidInputError, VersionSyntaxError
from paimon_spark.metadata.version import epoch_ms

Moment: TypeAlias = datetime | int | str
"""A datetime (without a zone: the machine's), epoch milliseconds, or text such as `2024-01-31 12:30:00`."""

_LAST_MS: Final = 253_402_214_400_000
"""The last day of the year 9999, which no clock of Python goes beyond."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


def moment_ms(value: Moment, name: str, time_zone: str | None = None) -> int:
    """Epoch milliseconds of a moment.

    Args:
        value: the moment.
        name: of the argument, for messages.
        time_zone: zone of a text that names none; None means the machine's.

    Raises:
        InvalidInputError: it is no moment.
    """
    match value:
        case datetime():
            return (value.astimezone(timezone.utc) - _EPOCH) // timedelta(milliseconds=1)
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
