"""Options of a table for expiry: retention of snapshots, changelogs, consumers and partitions.

Source: Java `CoreOptions`, `options/ExpireConfig`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from paimon_spark.options.descriptor import (
    Option,
    boolean,
    duration_ms,
    enum_of,
    field_of,
    integer,
    option,
    parse_group,
    string,
)


class PartitionStrategy(str, Enum):
    """What the age of a partition is."""

    VALUES_TIME = "values-time"
    UPDATE_TIME = "update-time"


def _limit(text: str) -> int | None:
    """A whole number; 0 and less are no limit."""
    number = integer(text)
    return number if number > 0 else None


SNAPSHOT_RETAIN_MIN: Final = Option("snapshot.num-retained.min", integer, 10, "Newest snapshots that never expire.")
SNAPSHOT_RETAIN_MAX: Final = Option(
    "snapshot.num-retained.max", integer, 2**31 - 1, "Snapshots beyond so many expire, however young."
)
SNAPSHOT_TIME_RETAINED: Final = Option(
    "snapshot.time-retained", duration_ms, 3_600_000, "How long a snapshot lives after the next one was made."
)
SNAPSHOT_EXPIRE_LIMIT: Final = Option("snapshot.expire.limit", integer, 50, "Snapshots that expire at a time.")
CHANGELOG_RETAIN_MIN: Final[Option[int | None]] = Option(
    "changelog.num-retained.min", integer, None, "Newest changelogs that never expire; default as for snapshots."
)
CHANGELOG_RETAIN_MAX: Final[Option[int | None]] = Option(
    "changelog.num-retained.max", integer, None, "Changelogs beyond so many expire; default as for snapshots."
)
CHANGELOG_TIME_RETAINED: Final[Option[int | None]] = Option(
    "changelog.time-retained", duration_ms, None, "How long a changelog lives; default as for snapshots."
)
PARTITION_EXPIRATION_TIME: Final[Option[int | None]] = Option(
    "partition.expiration-time", duration_ms, None, "Age at which partitions are dropped; unset is never."
)
PARTITION_STRATEGY: Final = Option(
    "partition.expiration-strategy",
    enum_of(PartitionStrategy),
    PartitionStrategy.VALUES_TIME,
    "What the age of a partition is: the time its values name, or that of its newest file.",
)
PARTITION_MAX_NUM: Final = Option(
    "partition.expiration-max-num", integer, 100, "Partitions that are dropped at a time."
)
PARTITION_TIMESTAMP_PATTERN: Final[Option[str | None]] = Option(
    "partition.timestamp-pattern",
    string,
    None,
    "How the columns of a partition make a time, as in $year-$month-$day; default is the first column.",
)
PARTITION_TIMESTAMP_FORMATTER: Final[Option[str | None]] = Option(
    "partition.timestamp-formatter", string, None, "How that time is written, as in yyyyMMdd."
)
CLEAN_EMPTY_DIRECTORIES: Final = Option(
    "snapshot.clean-empty-directories",
    boolean,
    False,
    "Directories of partitions and buckets go when expiry empties them.",
    ("snapshot.expire.clean-empty-directories",),
)


@dataclass(frozen=True, slots=True)
class Retention:
    """How many snapshots or changelogs are kept, and how long.

    Attributes:
        retain_max: at most so many are kept, but for `limit`.
        retain_min: so many of the newest are kept, at least 1.
        limit: how many may expire at a time.
    """

    retain_max: int
    retain_min: int
    time_retained_ms: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryOptions:
    """Retention of snapshots, changelogs and consumers."""

    snapshots: Retention
    changelogs: Retention
    consumer_expiration_ms: int | None = option(
        "consumer.expiration-time",
        duration_ms,
        None,
        "How long a consumer without progress is kept; unset is for ever.",
    )
    consumers_hold_changelogs_only: bool = option(
        "consumer.changelog-only", boolean, False, "Consumers hold changelogs, but not snapshots."
    )
    clean_empty_directories: bool = field_of(CLEAN_EMPTY_DIRECTORIES)
    mark_done_action: str = option(
        "partition.mark-done-action",
        string,
        "success-file",
        "What marking a partition as done does; here success-file alone.",
    )

    @property
    def consumers_hold_snapshots(self) -> bool:
        """Whether snapshots that a consumer has yet to read stay."""
        return not self.consumers_hold_changelogs_only

    @property
    def changelogs_outlive(self) -> bool:
        """Whether changelogs live longer than snapshots, so that they are kept apart when their snapshot expires."""
        ours, theirs = self.changelogs, self.snapshots
        return (
            ours.retain_max > theirs.retain_max
            or ours.retain_min > theirs.retain_min
            or ours.time_retained_ms > theirs.time_retained_ms
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionExpiryOptions:
    """When partitions are dropped, and by which age; `batch_size` is None for all at once."""

    age_ms: int
    check_interval_ms: int = option(
        "partition.expiration-check-interval", duration_ms, 3_600_000, "How often commits look for expired partitions."
    )
    strategy: PartitionStrategy = field_of(PARTITION_STRATEGY)
    max_num: int = field_of(PARTITION_MAX_NUM)
    batch_size: int | None = option(
        "partition.expiration-batch-size", _limit, None, "Partitions that one commit drops; unset is all."
    )
    pattern: str | None = field_of(PARTITION_TIMESTAMP_PATTERN)
    formatter: str | None = field_of(PARTITION_TIMESTAMP_FORMATTER)
    checks_batches: bool = option(
        "end-input.check-partition-expire", boolean, False, "Every batch write looks for expired partitions."
    )


def parse_expiry_options(raw: Mapping[str, str]) -> ExpiryOptions:
    """The group of `raw`. Raises InvalidOptionError for a value of the wrong type."""
    snapshots = Retention(
        SNAPSHOT_RETAIN_MAX.get(raw),
        SNAPSHOT_RETAIN_MIN.get(raw),
        SNAPSHOT_TIME_RETAINED.get(raw),
        SNAPSHOT_EXPIRE_LIMIT.get(raw),
    )
    most, least, time = (o.get(raw) for o in (CHANGELOG_RETAIN_MAX, CHANGELOG_RETAIN_MIN, CHANGELOG_TIME_RETAINED))
    changelogs = Retention(
        snapshots.retain_max if most is None else most,
        snapshots.retain_min if least is None else least,
        snapshots.time_retained_ms if time is None else time,
        snapshots.limit,
    )
    return parse_group(ExpiryOptions, raw, snapshots=snapshots, changelogs=changelogs)


def parse_partition_expiry(raw: Mapping[str, str]) -> PartitionExpiryOptions | None:
    """The group of `raw`; None when partitions never expire. Raises as `parse_expiry_options`."""
    age_ms = PARTITION_EXPIRATION_TIME.get(raw)
    return None if age_ms is None else parse_group(PartitionExpiryOptions, raw, age_ms=age_ms)
