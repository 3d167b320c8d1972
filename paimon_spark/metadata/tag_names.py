"""Guard tags: ordinary tags that keep the base of a branch from engines that look at tags of main only. Names; pure.

Every Paimon engine keeps the files of a tag, but only of tags beside the snapshots that it expires: nobody but us asks
what branches need. So the base of a branch is tagged on main, and goes with its branch.

Names of tags made by time: of which period a name is, and which period a time is in. Pure.

Times are local wall clocks without a zone; periods are counted from 1970 in them, as Java does.

Source: Java `tag/TagPeriodHandler`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from paimon_spark.options.tags import (
    TAG_PERIOD,
    TAG_PERIOD_DURATION,
    TAG_PERIOD_FORMATTER,
    TagPeriod,
    TagPeriodFormatter,
)

GUARD_PREFIX: Final = "branch-guard-"
"""Users give no tag a name that begins so."""


def guard_name(branch: str) -> str:
    """The name of the tag that guards the base of a branch; the same on main, its parent and the branch itself."""
    return GUARD_PREFIX + branch


def guarded_branch(tag_name: str) -> str | None:
    """The branch that a tag of this name guards; None for every other tag."""
    return tag_name.removeprefix(GUARD_PREFIX) or None if tag_name.startswith(GUARD_PREFIX) else None


_EPOCH: Final = datetime(1970, 1, 1)
_MILLI: Final = timedelta(milliseconds=1)
_DAY: Final = r"(\d{4})-(\d{2})-(\d{2})"
_DAY_PLAIN: Final = r"(\d{4})(\d{2})(\d{2})"
_DASHES: Final = TagPeriodFormatter.WITH_DASHES
_PLAIN: Final = TagPeriodFormatter.WITHOUT_DASHES
_DENSE: Final = TagPeriodFormatter.WITHOUT_DASHES_AND_SPACES
_FORMS: Final = {
    # what a name looks like, and how it is written
    (TagPeriod.DAILY, _DASHES): (_DAY, "{0:%m-%d}"),
    (TagPeriod.DAILY, _PLAIN): (_DAY_PLAIN, "{0:%m%d}"),
    (TagPeriod.DAILY, _DENSE): (_DAY_PLAIN, "{0:%m%d}"),
    (TagPeriod.HOURLY, _DASHES): (_DAY + r" (\d{2})", "{0:%m-%d %H}"),
    (TagPeriod.HOURLY, _PLAIN): (_DAY_PLAIN + r" (\d{2})", "{0:%m%d %H}"),
    (TagPeriod.HOURLY, _DENSE): (_DAY_PLAIN + r"(\d{2})", "{0:%m%d%H}"),
}
_MINUTES: Final = (_DAY_PLAIN + r"(\d{2})(\d{2})", "{0:%m%d%H%M}")
_LENGTHS: Final = {
    TagPeriod.DAILY: timedelta(days=1),
    TagPeriod.HOURLY: timedelta(hours=1),
    TagPeriod.TWO_HOURS: timedelta(hours=2),
}


@dataclass(frozen=True, slots=True)
class TagPeriods:
    """The periods that tags are made for, and their names.

    Attributes:
        length: of one period.
        pattern: what names look like.
        form: how the part of a name after its year is written.
        daily: names are days, and what follows a blank in them does not count.
    """

    length: timedelta
    pattern: str
    form: str
    daily: bool = False

    def time_of(self, name: str) -> datetime | None:
        """The time that a name says; None for a tag that was not made by time."""
        match = re.fullmatch(self.pattern, name.split(" ")[0] if self.daily else name, re.ASCII)
        try:
            return datetime(*map(int, match.groups())) if match else None  # type: ignore[arg-type]
        except ValueError:
            return None

    def name_of(self, time: datetime) -> str:
        """The name of the tag of the period that begins at `time`."""
        return f"{time.year:04d}{'-' if '-' in self.pattern else ''}{self.form.format(time)}"

    def last_whole(self, time: datetime) -> datetime:
        """When the period began that ended where the one of `time` begins. Raises OverflowError at the first of all."""
        millis, length = (time - _EPOCH) // _MILLI, self.length // _MILLI
        begun = abs(millis) // length * length  # Java's division goes towards zero, before 1970 too
        return _EPOCH + (begun if millis >= 0 else -begun) * _MILLI - self.length


def tag_periods(options: Mapping[str, str]) -> TagPeriods:
    """The periods that a table's options say. Raises InvalidOptionError for a bad value."""
    duration_ms, period = TAG_PERIOD_DURATION.get(options), TAG_PERIOD.get(options)
    if duration_ms is not None:
        return TagPeriods(duration_ms * _MILLI, *_MINUTES)
    if period is TagPeriod.TWO_HOURS:  # whatever the formatter says
        return TagPeriods(_LENGTHS[period], *_FORMS[TagPeriod.HOURLY, _DASHES])
    form = _FORMS[period, TAG_PERIOD_FORMATTER.get(options)]
    return TagPeriods(_LENGTHS[period], *form, daily=period is TagPeriod.DAILY)


def auto_tag_time(name: str, options: Mapping[str, str]) -> datetime | None:
    """The local time that the name of an automatic tag says; None for a tag that was not made by time.

    Raises:
        InvalidOptionError: an option about the names has a bad value.
    """
    return tag_periods(options).time_of(name)
