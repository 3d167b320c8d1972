"""Table.expire_snapshots and its kin: what callers may give, as what `maintenance` takes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from paimon_spark.api.moments import Moment, moment_ms
from paimon_spark.display.values import ShownList
from paimon_spark.errors import InvalidInputError
from paimon_spark.jobs.branch_access import refuse_version
from paimon_spark.maintenance import consumers as consumer_files
from paimon_spark.maintenance import expire_changelogs as changelogs
from paimon_spark.maintenance import expire_snapshots as snapshots
from paimon_spark.maintenance import partitions
from paimon_spark.maintenance.consumers import Consumer
from paimon_spark.maintenance.expire_snapshots import Limits
from paimon_spark.maintenance.partitions import ExpiredPartitions
from paimon_spark.maintenance.removal import Removed
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.options.expiry import (
    PARTITION_EXPIRATION_TIME,
    PARTITION_MAX_NUM,
    PARTITION_STRATEGY,
    PARTITION_TIMESTAMP_FORMATTER,
    PARTITION_TIMESTAMP_PATTERN,
)

if TYPE_CHECKING:
    from paimon_spark.api.table import Table


def expire_snapshots(table: Table, limits: Limits, dry_run: bool) -> Removed:
    """As `Table.expire_snapshots`."""
    return snapshots.expire_snapshots(_current(table), limits, dry_run=dry_run)


def expire_changelogs(table: Table, limits: Limits, delete_all: bool, dry_run: bool) -> Removed:
    """As `Table.expire_changelogs`."""
    return changelogs.expire_changelogs(_current(table), limits, delete_all=delete_all, dry_run=dry_run)


def limits_of(
    table: Table,
    retain_max: int | None,
    retain_min: int | None,
    older_than: Moment | None,
    max_deletes: int | None,
) -> Limits:
    """What a caller says of how much is kept. Raises InvalidInputError: an argument is no number, or no moment."""
    for name, value in (("retain_max", retain_max), ("retain_min", retain_min), ("max_deletes", max_deletes)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise InvalidInputError(f"{name} = {value!r}: expected a whole number", argument=name)
    older_than_ms = None if older_than is None else moment_ms(older_than, "older_than", table.read_options.time_zone)
    return Limits(retain_max, retain_min, older_than_ms, snapshots.ANY_NUMBER if max_deletes is None else max_deletes)


def expire_partitions(
    table: Table,
    expiration_time: str | timedelta | None,
    timestamp_formatter: str | None,
    timestamp_pattern: str | None,
    expire_strategy: str | None,
    max_expires: int | None,
    dry_run: bool,
) -> ExpiredPartitions:
    """As `Table.expire_partitions`."""
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
    options = {key: str(value) for key, value in given.items() if value is not None}
    return partitions.expire_partitions(_current(table, options), dry_run=dry_run)


def consumers(table: Table) -> list[Consumer]:
    """As `Table.consumers`."""
    handle = _current(table)
    return ShownList(consumer_files.list_consumers(handle), f"Consumers of {handle.describe()}")


def reset_consumer(table: Table, name: str, next_snapshot: int | None) -> Consumer | None:
    """As `Table.reset_consumer`."""
    return consumer_files.reset_consumer(_current(table), name, next_snapshot)


def clear_consumers(table: Table, including: str, excluding: str | None) -> tuple[str, ...]:
    """As `Table.clear_consumers`."""
    return consumer_files.clear_consumers(_current(table), including, excluding)


def _current(table: Table, options: Mapping[str, str] | None = None) -> TableHandle:
    refuse_version(table)
    handle = table.handle
    overrides = {**handle.overrides, **(options or {})}
    return open_table(handle.store, handle.layout.root, handle.branch, handle.name, overrides)
