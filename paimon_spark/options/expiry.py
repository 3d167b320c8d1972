"""Options of a table for expiry: retention of snapshots, changelogs, consumers and partitions.

Source: Java `CoreOptions`, `options/ExpireConfig`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from paimon_spark.options.descriptor import Option, boolean, duration_ms, enum_of, integer, string


class PartitionStrategy(str, Enum):
    """What the age of a partition is."""

    VALUES_TIME = "values-time"
    UPDATE_TIME = "update-time"


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
CONSUMER_EXPIRATION_TIME: Final[Option[int | None]] = Option(
    "consumer.expiration-time", duration_ms, None, "How long a consumer without progress is kept; unset is for ever."
)
CONSUMER_CHANGELOG_ONLY: Final = Option(
    "consumer.changelog-only", boolean, False, "Consumers hold changelogs, but not snapshots."
)
PARTITION_EXPIRATION_TIME: Final[Option[int | None]] = Option(
    "partition.expiration-time", duration_ms, None, "Age at which partitions are dropped; unset is never."
)
PARTITION_CHECK_INTERVAL: Final = Option(
    "partition.expiration-check-interval", duration_ms, 3_600_000, "How often commits look for expired partitions."
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
PARTITION_BATCH_SIZE: Final[Option[int | None]] = Option(
    "partition.expiration-batch-size", integer, None, "Partitions that one commit drops; unset is all."
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
MARK_DONE_ACTION: Final = Option(
    "partition.mark-done-action",
    string,
    "success-file",
    "What marking a partition as done does; here success-file alone.",
)
END_INPUT_CHECK: Final = Option(
    "end-input.check-partition-expire", boolean, False, "Every batch write looks for expired partitions."
)


@dataclass(frozen=True, slots=True)
class Retention:
    """How many snapshots or changelogs are kept, and how long.

    Attributes:
        retain_max: at most so many are kept, but for `limit`.
        retain_min: so many of the newest are kept, at least 1.
        time_retained_ms: how long one is kept.
        limit: how many may expire at a time.
    """

    retain_max: int
    retain_min: int
    time_retained_ms: int
    limit: int


@dataclass(frozen=True, slots=True)
class ExpiryOptions:
    """The options of a table that say what expires.

    Attributes:
        consumer_expiration_ms: None for never.
        consumers_hold_snapshots: whether snapshots that a consumer has yet to read stay.
        clean_empty_directories: directories that expiry empties are removed.
        mark_done_action: what marking a partition as done does, as written.
        changelogs_outlive: changelogs live longer than snapshots: they are kept apart when their snapshot expires.
    """

    snapshots: Retention
    changelogs: Retention
    consumer_expiration_ms: int | None
    consumers_hold_snapshots: bool
    clean_empty_directories: bool
    mark_done_action: str

    @property
    def changelogs_outlive(self) -> bool:
        ours, theirs = self.changelogs, self.snapshots
        return (
            ours.retain_max > theirs.retain_max
            or ours.retain_min > theirs.retain_min
            or ours.time_retained_ms > theirs.time_retained_ms
        )


@dataclass(frozen=True, slots=True)
class PartitionExpiryOptions:
    """When partitions are dropped.

    Attributes:
        age_ms: age at which they are.
        batch_size: partitions of one commit; None for all.
        checks_batches: every batch write looks, whenever the last look was.
    """

    age_ms: int
    check_interval_ms: int
    strategy: PartitionStrategy
    max_num: int
    batch_size: int | None
    pattern: str | None
    formatter: str | None
    checks_batches: bool


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
    return ExpiryOptions(
        snapshots,
        changelogs,
        CONSUMER_EXPIRATION_TIME.get(raw),
        not CONSUMER_CHANGELOG_ONLY.get(raw),
        CLEAN_EMPTY_DIRECTORIES.get(raw),
        MARK_DONE_ACTION.get(raw),
    )


def parse_partition_expiry(raw: Mapping[str, str]) -> PartitionExpiryOptions | None:
    """The group of `raw`; None when partitions never expire. Raises as `parse_expiry_options`."""
    age_ms = PARTITION_EXPIRATION_TIME.get(raw)
    if age_ms is None:
        return None
    batch = PARTITION_BATCH_SIZE.get(raw)
    return PartitionExpiryOptions(
        age_ms,
        PARTITION_CHECK_INTERVAL.get(raw),
        PARTITION_STRATEGY.get(raw),
        PARTITION_MAX_NUM.get(raw),
        batch if batch is not None and batch > 0 else None,
        PARTITION_TIMESTAMP_PATTERN.get(raw),
        PARTITION_TIMESTAMP_FORMATTER.get(raw),
        END_INPUT_CHECK.get(raw),
    )
