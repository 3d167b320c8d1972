"""Names of tags made by time: which tag names they are, and of which time.

Source: Java `tag/TagPeriodHandler`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Final

from paimon_spark.options.descriptor import Option, duration_ms, enum_of


class TagPeriod(str, Enum):
    """How often a tag is made."""

    DAILY = "daily"
    HOURLY = "hourly"
    TWO_HOURS = "two-hours"


class TagPeriodFormatter(str, Enum):
    """How the name of a tag is written."""

    WITH_DASHES = "with_dashes"
    WITHOUT_DASHES = "without_dashes"
    WITHOUT_DASHES_AND_SPACES = "without_dashes_and_spaces"


def _formatter(text: str) -> TagPeriodFormatter:
    wanted = text.strip().lower().replace("-", "_")
    for member in TagPeriodFormatter:
        if member.value == wanted:
            return member
    raise ValueError("expected one of " + ", ".join(m.value for m in TagPeriodFormatter))


TAG_PERIOD = Option("tag.creation-period", enum_of(TagPeriod), TagPeriod.DAILY, "How often tags are made by time.")
TAG_PERIOD_DURATION: Option[int | None] = Option(
    "tag.creation-period-duration", duration_ms, None, "The same as a duration; it goes before the period."
)
TAG_PERIOD_FORMATTER = Option(
    "tag.period-formatter", _formatter, TagPeriodFormatter.WITH_DASHES, "How such tags are named."
)
_DAY: Final = r"(\d{4})-(\d{2})-(\d{2})"
_DAY_PLAIN: Final = r"(\d{4})(\d{2})(\d{2})"
_PATTERNS: Final = {
    (TagPeriod.DAILY, TagPeriodFormatter.WITH_DASHES): _DAY,
    (TagPeriod.DAILY, TagPeriodFormatter.WITHOUT_DASHES): _DAY_PLAIN,
    (TagPeriod.DAILY, TagPeriodFormatter.WITHOUT_DASHES_AND_SPACES): _DAY_PLAIN,
    (TagPeriod.HOURLY, TagPeriodFormatter.WITH_DASHES): _DAY + r" (\d{2})",
    (TagPeriod.HOURLY, TagPeriodFormatter.WITHOUT_DASHES): _DAY_PLAIN + r" (\d{2})",
    (TagPeriod.HOURLY, TagPeriodFormatter.WITHOUT_DASHES_AND_SPACES): _DAY_PLAIN + r"(\d{2})",
}


def auto_tag_time(name: str, options: Mapping[str, str]) -> datetime | None:
    """The local time that the name of an automatic tag says; None for a tag that was not made by time.

    Raises:
        InvalidOptionError: an option about the names has a bad value.
    """
    period = TAG_PERIOD.get(options)
    if TAG_PERIOD_DURATION.get(options) is not None:
        pattern = _DAY_PLAIN + r"(\d{2})(\d{2})"
    elif period is TagPeriod.TWO_HOURS:  # whatever the formatter says
        pattern = _PATTERNS[TagPeriod.HOURLY, TagPeriodFormatter.WITH_DASHES]
    else:
        pattern = _PATTERNS[period, TAG_PERIOD_FORMATTER.get(options)]
        if period is TagPeriod.DAILY:
            name = name.split(" ")[0]
    match = re.fullmatch(pattern, name, re.ASCII)
    try:
        return datetime(*map(int, match.groups())) if match else None  # type: ignore[arg-type]
    except ValueError:
        return None
