"""Options of a table for retention, automatic tags and savepoints.

Source: Java `CoreOptions`, `options/ExpireConfig`; PIP-4 for savepoints.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from paimon_spark.options.descriptor import (
    Option,
    at_least_one,
    boolean,
    duration_ms,
    enum_of,
    field_of,
    integer,
    option,
    parse_group,
    string,
    trimmed,
)


class _PartitionStrategy(StrEnum):
    """Source of a partition's age."""

    VALUES_TIME = "values-time"
    UPDATE_TIME = "update-time"


def _limit(text: str) -> int | None:
    """A whole number; 0 and less are no limit."""
    number = integer(text)
    return number if number > 0 else None


SNAPSHOT_RETAIN_MIN: Final = Option("snapshot.num-retained.min", integer, 10, "Minimum number of snapshots to retain.")
SNAPSHOT_RETAIN_MAX: Final = Option(
    "snapshot.num-retained.max", integer, 2**31 - 1, "Maximum number of snapshots to retain."
)
SNAPSHOT_TIME_RETAINED: Final = Option(
    "snapshot.time-retained", duration_ms, 3_600_000, "Maximum age of snapshots to retain."
)
SNAPSHOT_EXPIRE_LIMIT: Final = Option(
    "snapshot.expire.limit", integer, 50, "Maximum number of snapshots that expire at a time."
)
CHANGELOG_RETAIN_MIN: Final[Option[int | None]] = Option(
    "changelog.num-retained.min",
    integer,
    None,
    "Minimum number of changelogs to retain; the default is that of snapshots.",
)
CHANGELOG_RETAIN_MAX: Final[Option[int | None]] = Option(
    "changelog.num-retained.max",
    integer,
    None,
    "Maximum number of changelogs to retain; the default is that of snapshots.",
)
CHANGELOG_TIME_RETAINED: Final[Option[int | None]] = Option(
    "changelog.time-retained",
    duration_ms,
    None,
    "Maximum age of changelogs to retain; the default is that of snapshots.",
)
PARTITION_EXPIRATION_TIME: Final[Option[int | None]] = Option(
    "partition.expiration-time", duration_ms, None, "Age at which partitions expire; never if unset."
)
PARTITION_STRATEGY: Final = Option(
    "partition.expiration-strategy",
    enum_of(_PartitionStrategy),
    _PartitionStrategy.VALUES_TIME,
    "What the age of a partition is computed from: its values, or its newest file.",
)
PARTITION_MAX_NUM: Final = Option(
    "partition.expiration-max-num", integer, 100, "Maximum number of partitions that expire at a time."
)
PARTITION_TIMESTAMP_PATTERN: Final[Option[str | None]] = Option(
    "partition.timestamp-pattern",
    string,
    None,
    "How partition columns form a time, such as $year-$month-$day; the default is the first column.",
)
PARTITION_TIMESTAMP_FORMATTER: Final[Option[str | None]] = Option(
    "partition.timestamp-formatter", string, None, "Format of the time in partition values, such as yyyyMMdd."
)
CLEAN_EMPTY_DIRECTORIES: Final = Option(
    "snapshot.clean-empty-directories",
    boolean,
    False,
    "Delete directories of partitions and buckets that expiry leaves empty.",
    ("snapshot.expire.clean-empty-directories",),
)


TAG_TO_PARTITION: Final = "metastore.tag-to-partition"
"""Paimon's option that makes tags partitions of a Hive metastore, which is never written here."""
BACKUP_TIME_RETAINED: Final[Option[int | None]] = Option(
    "branch.backup.time-retained",
    duration_ms,
    None,
    "Age at which the expiry of snapshots deletes unneeded backup branches; never if unset.",
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
class _ExpiryOptions:
    """Retention of snapshots, changelogs and consumers."""

    snapshots: Retention
    changelogs: Retention
    consumer_expiration_ms: int | None = option(
        "consumer.expiration-time",
        duration_ms,
        None,
        "Retention of a consumer without progress; unlimited if unset.",
    )
    consumers_hold_changelogs_only: bool = option(
        "consumer.changelog-only", boolean, False, "Consumers prevent the expiry of changelogs, but not of snapshots."
    )
    clean_empty_directories: bool = field_of(CLEAN_EMPTY_DIRECTORIES)
    backup_time_retained_ms: int | None = field_of(BACKUP_TIME_RETAINED)
    mark_done_action: str = option(
        "partition.mark-done-action",
        string,
        "success-file",
        "Action that marks a partition as done; only success-file is supported.",
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
    """When partitions are dropped, and by which age; all at once with a `batch_size` of None."""

    age_ms: int
    check_interval_ms: int = option(
        "partition.expiration-check-interval", duration_ms, 3_600_000, "How often commits check for expired partitions."
    )
    strategy: _PartitionStrategy = field_of(PARTITION_STRATEGY)
    max_num: int = field_of(PARTITION_MAX_NUM)
    batch_size: int | None = option(
        "partition.expiration-batch-size",
        _limit,
        None,
        "Maximum number of partitions that one commit drops; unlimited if unset.",
    )
    pattern: str | None = field_of(PARTITION_TIMESTAMP_PATTERN)
    formatter: str | None = field_of(PARTITION_TIMESTAMP_FORMATTER)
    checks_batches: bool = option(
        "end-input.check-partition-expire", boolean, False, "Every batch write checks for expired partitions."
    )

    @property
    def ages_by_values(self) -> bool:
        """Whether the age of a partition is the time in its values, else that of its newest file."""
        return self.strategy is _PartitionStrategy.VALUES_TIME


def parse_expiry_options(raw: Mapping[str, str]) -> _ExpiryOptions:
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
    return parse_group(_ExpiryOptions, raw, snapshots=snapshots, changelogs=changelogs)


def parse_partition_expiry(raw: Mapping[str, str]) -> PartitionExpiryOptions | None:
    """The group of `raw`; None when partitions never expire. Raises as `parse_expiry_options`."""
    age_ms = PARTITION_EXPIRATION_TIME.get(raw)
    return None if age_ms is None else parse_group(PartitionExpiryOptions, raw, age_ms=age_ms)


DAY_MS: Final = 86_400_000
_CREATE_TIME: Final = re.compile(r"(\d{1,2}):(\d{2})", re.ASCII)


class TagCreation(StrEnum):
    """Trigger of automatic tags: the clock, the watermark, or each batch."""

    NONE = "none"
    PROCESS_TIME = "process-time"
    WATERMARK = "watermark"
    BATCH = "batch"


class TagPeriod(StrEnum):
    """How often a tag is made."""

    DAILY = "daily"
    HOURLY = "hourly"
    TWO_HOURS = "two-hours"


class TagPeriodFormatter(StrEnum):
    """Format of the names of automatic tags."""

    WITH_DASHES = "with_dashes"
    WITHOUT_DASHES = "without_dashes"
    WITHOUT_DASHES_AND_SPACES = "without_dashes_and_spaces"


def time_of_day_ms(text: str) -> int:
    """Milliseconds after midnight of `hh:mm`."""
    match = _CREATE_TIME.fullmatch(text.strip())
    if match is None or int(match[1]) > 23 or int(match[2]) > 59:
        raise ValueError("expected a time of the day as hh:mm, such as 02:30")
    return (int(match[1]) * 60 + int(match[2])) * 60_000


def whole_days(text: str) -> int:
    """Days of a duration that is some number of whole days."""
    length = duration_ms(text)
    if length < DAY_MS or length % DAY_MS:
        raise ValueError("expected whole days, at least one, such as 1 d")
    return length // DAY_MS


DEFAULT_TIME_RETAINED: Option[int | None] = Option(
    "tag.default-time-retained", duration_ms, None, "Retention of new tags; unlimited if unset."
)
PROCESS_ZONE: Option[str | None] = Option(
    "sink.process-time-zone", string, None, "Time zone of the clock for automatic tags; the machine's if unset."
)
SAVEPOINT_TIME: Option[int | None] = Option(
    "savepoint.create-time", time_of_day_ms, None, "Time of day at which a savepoint is due."
)
SAVEPOINT_INTERVAL: Option[int | None] = Option(
    "savepoint.create-interval", whole_days, None, "Interval between two savepoints, in whole days."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TagOptions:
    """When tags are made automatically, and how long tags live. `metadata.tags.tag_periods` has the periods.

    Attributes:
        default_time_retained_s: seconds; None is for ever.
    """

    creation: TagCreation = option(
        "tag.automatic-creation",
        enum_of(TagCreation),
        TagCreation.NONE,
        "When tags are created automatically; `batch`: after each batch that wrote rows, including those of streams.",
    )
    period: TagPeriod = option("tag.creation-period", enum_of(TagPeriod), TagPeriod.DAILY, "Period of automatic tags.")
    period_ms: int | None = option(
        "tag.creation-period-duration",
        at_least_one(duration_ms),
        None,
        "Period of automatic tags, as a duration; takes precedence over tag.creation-period.",
    )
    formatter: TagPeriodFormatter = option(
        "tag.period-formatter",
        enum_of(TagPeriodFormatter),
        TagPeriodFormatter.WITH_DASHES,
        "Format of the names of automatic tags.",
    )
    delay_ms: int = option(
        "tag.creation-delay", duration_ms, 0, "Delay between the end of a period and the creation of its tag."
    )
    num_retained_max: int | None = option(
        "tag.num-retained-max", integer, None, "Maximum number of automatic tags to retain; the oldest are deleted."
    )
    default_time_retained_s: float | None
    time_expire: bool = option("tag.time-expire-enabled", boolean, True, "Commits delete expired tags.")
    completion: bool = option(
        "tag.automatic-completion", boolean, False, "Create tags also for periods without a commit."
    )
    success_file: bool = option("tag.create-success-file", boolean, False, "Create a success file for each new tag.")
    batch_name: str | None = option(
        "tag.batch.customized-name", string, None, "Name of the tag that each batch replaces."
    )
    process_zone: str | None = field_of(PROCESS_ZONE)
    watermark_zone: str = option(
        "sink.watermark-time-zone", string, "UTC", "Time zone of the watermark for automatic tags."
    )
    callbacks: str = option(
        "tag.callbacks", trimmed, "", "Java classes to call for new tags; this package does not call them."
    )


def parse_tag_options(raw: Mapping[str, str]) -> TagOptions:
    """The group of `raw`. Raises InvalidOptionError for a value of the wrong type."""
    retained_ms = DEFAULT_TIME_RETAINED.get(raw)
    return parse_group(TagOptions, raw, default_time_retained_s=None if retained_ms is None else retained_ms / 1000)


@dataclass(frozen=True, slots=True)
class SavepointOptions:
    """When savepoints are created automatically.

    Attributes:
        time_ms: of the day, in milliseconds after midnight.
        days: between two of them.
        zone: None is the machine's.
    """

    time_ms: int
    days: int
    zone: str | None


def parse_savepoint_options(raw: Mapping[str, str]) -> SavepointOptions | None:
    """The group of `raw`; None when neither option is set. One alone: daily, or at midnight."""
    time_ms, days = SAVEPOINT_TIME.get(raw), SAVEPOINT_INTERVAL.get(raw)
    if time_ms is None and days is None:
        return None
    return SavepointOptions(time_ms or 0, days or 1, PROCESS_ZONE.get(raw))
