"""Options of a table for tags and savepoints: retention and automatic creation.

Source: Java `CoreOptions`; PIP-4 for savepoints.
"""

from __future__ import annotations

import re
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
    trimmed,
)

DAY_MS: Final = 86_400_000
_CREATE_TIME: Final = re.compile(r"(\d{1,2}):(\d{2})", re.ASCII)


class TagCreation(str, Enum):
    """What triggers automatic tags: the clock, the watermark, or each batch."""

    NONE = "none"
    PROCESS_TIME = "process-time"
    WATERMARK = "watermark"
    BATCH = "batch"


class TagPeriod(str, Enum):
    """How often a tag is made."""

    DAILY = "daily"
    HOURLY = "hourly"
    TWO_HOURS = "two-hours"


class TagPeriodFormatter(str, Enum):
    """Format of the names of automatic tags."""

    WITH_DASHES = "with_dashes"
    WITHOUT_DASHES = "without_dashes"
    WITHOUT_DASHES_AND_SPACES = "without_dashes_and_spaces"


def _formatter(text: str) -> TagPeriodFormatter:
    try:
        return TagPeriodFormatter(text.strip().lower().replace("-", "_"))
    except ValueError:
        raise ValueError("expected one of " + ", ".join(m.value for m in TagPeriodFormatter)) from None


def _period_ms(text: str) -> int:
    length = duration_ms(text)
    if length == 0:
        raise ValueError("expected more than nothing")
    return length


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
    "tag.default-time-retained", duration_ms, None, "How long new tags live; unset is for ever."
)
PROCESS_ZONE: Option[str | None] = Option(
    "sink.process-time-zone", string, None, "Zone of the clock that makes tags; unset is the machine's."
)
SAVEPOINT_TIME: Option[int | None] = Option(
    "savepoint.create-time", time_of_day_ms, None, "Time of the day (hh:mm) at which a savepoint is due."
)
SAVEPOINT_INTERVAL: Option[int | None] = Option(
    "savepoint.create-interval", whole_days, None, "Whole days between two savepoints."
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
        "What makes tags by itself; `batch`: each batch that wrote rows, those of streams too.",
    )
    period: TagPeriod = option(
        "tag.creation-period", enum_of(TagPeriod), TagPeriod.DAILY, "How often tags are made by time."
    )
    period_ms: int | None = option(
        "tag.creation-period-duration", _period_ms, None, "The same as a duration; it goes before the period."
    )
    formatter: TagPeriodFormatter = option(
        "tag.period-formatter", _formatter, TagPeriodFormatter.WITH_DASHES, "How such tags are named."
    )
    delay_ms: int = option("tag.creation-delay", duration_ms, 0, "How long after the end of a period its tag is made.")
    num_retained_max: int | None = option(
        "tag.num-retained-max", integer, None, "Tags made by themselves that are kept; the oldest go."
    )
    default_time_retained_s: float | None
    time_expire: bool = option(
        "tag.time-expire-enabled", boolean, True, "Commits delete tags whose time to live is over."
    )
    completion: bool = option(
        "tag.automatic-completion", boolean, False, "Tags are made for periods that had no commit too."
    )
    success_file: bool = option(
        "tag.create-success-file", boolean, False, "A new tag gets a file that says it is there."
    )
    batch_name: str | None = option("tag.batch.customized-name", string, None, "Name of the tag that each batch moves.")
    process_zone: str | None = field_of(PROCESS_ZONE)
    watermark_zone: str = option("sink.watermark-time-zone", string, "UTC", "Zone of the watermark that makes tags.")
    callbacks: str = option("tag.callbacks", trimmed, "", "Java classes told of new tags; not called here.")


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
    """The group of `raw`; None when neither option is set. One alone: daily, or at midnight.

    Raises:
        InvalidOptionError: a time that is not hh:mm, or an interval that is not of whole days.
    """
    time_ms, days = SAVEPOINT_TIME.get(raw), SAVEPOINT_INTERVAL.get(raw)
    if time_ms is None and days is None:
        return None
    return SavepointOptions(time_ms or 0, days or 1, PROCESS_ZONE.get(raw))
