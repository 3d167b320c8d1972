"""Arguments of `Table.expire_snapshots`, `expire_changelogs` and `expire_partitions` → what `maintenance` takes."""

from __future__ import annotations

from datetime import timedelta

from paimon_spark.errors import InvalidInputError
from paimon_spark.jobs.opened_table import OpenedTable
from paimon_spark.maintenance.expiry import ANY_NUMBER, Limits
from paimon_spark.metadata.version import Moment, moment_ms
from paimon_spark.options.expiry import (
    PARTITION_EXPIRATION_TIME,
    PARTITION_MAX_NUM,
    PARTITION_STRATEGY,
    PARTITION_TIMESTAMP_FORMATTER,
    PARTITION_TIMESTAMP_PATTERN,
)


def limits_of(
    table: OpenedTable,
    retain_max: int | None,
    retain_min: int | None,
    older_than: Moment | None,
    max_deletes: int | None,
) -> Limits:
    """How much is kept. Raises InvalidInputError: an argument is not a whole number, or not a moment."""
    for name, value in (("retain_max", retain_max), ("retain_min", retain_min), ("max_deletes", max_deletes)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise InvalidInputError(f"{name} = {value!r}: expected a whole number", argument=name)
    older_than_ms = None if older_than is None else moment_ms(older_than, "older_than", table.read_options.time_zone)
    return Limits(retain_max, retain_min, older_than_ms, ANY_NUMBER if max_deletes is None else max_deletes)


def expiration_options(
    table: OpenedTable,
    expiration_time: str | timedelta | None,
    timestamp_formatter: str | None,
    timestamp_pattern: str | None,
    expire_strategy: str | None,
    max_expires: int | None,
) -> dict[str, str]:
    """The arguments as table options. Raises InvalidInputError: the time is a number without a unit."""
    if isinstance(expiration_time, timedelta):
        expiration_time = f"{expiration_time // timedelta(milliseconds=1)} ms"
    elif expiration_time is not None and not isinstance(expiration_time, str):
        raise InvalidInputError(
            f"expiration_time = {expiration_time!r} for partitions of {table.handle.describe()}: a number does not say "
            "of what; give text such as '30 d' or a timedelta",
            table=table.name,
            argument="expiration_time",
        )
    given = {
        PARTITION_EXPIRATION_TIME.key: expiration_time,
        PARTITION_TIMESTAMP_FORMATTER.key: timestamp_formatter,
        PARTITION_TIMESTAMP_PATTERN.key: timestamp_pattern,
        PARTITION_STRATEGY.key: expire_strategy,
        PARTITION_MAX_NUM.key: max_expires,
    }
    return {key: str(value) for key, value in given.items() if value is not None}
