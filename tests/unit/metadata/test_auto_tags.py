from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import InvalidOptionError
from paimon_spark.metadata.tag_names import tag_periods

PERIOD, DURATION, FORMATTER = "tag.creation-period", "tag.creation-period-duration", "tag.period-formatter"
MOMENT = datetime(2024, 3, 5, 7, 45, 59, 999000)
OPTIONS = [
    ({}, "2024-03-04"),
    ({FORMATTER: "without_dashes"}, "20240304"),
    ({FORMATTER: "WITHOUT_DASHES_AND_SPACES"}, "20240304"),
    ({PERIOD: "hourly"}, "2024-03-05 06"),
    ({PERIOD: "hourly", FORMATTER: "without_dashes"}, "20240305 06"),
    ({PERIOD: "hourly", FORMATTER: "without_dashes_and_spaces"}, "2024030506"),
    ({PERIOD: "two-hours"}, "2024-03-05 04"),
    ({PERIOD: "two-hours", FORMATTER: "without_dashes"}, "2024-03-05 04"),
    ({DURATION: "30 min"}, "202403050700"),
    ({DURATION: "30 min", PERIOD: "hourly", FORMATTER: "with_dashes"}, "202403050700"),
    ({DURATION: "7 d"}, "202402220000"),  # weeks are counted from a Thursday, 1 January 1970
]


@pytest.mark.parametrize(("options", "name"), OPTIONS)
def test_a_time_is_named_by_the_period_that_was_over(options: dict[str, str], name: str) -> None:
    periods = tag_periods(options)
    assert periods.name_of(periods.last_whole(MOMENT)) == name


@pytest.mark.parametrize("options", [options for options, _ in OPTIONS])
@given(moment=st.datetimes(datetime(1971, 1, 1), datetime(9999, 1, 1)))
def test_names_say_their_time(options: dict[str, str], moment: datetime) -> None:
    periods = tag_periods(options)
    begin = periods.last_whole(moment)
    assert periods.time_of(periods.name_of(begin)) == begin
    assert begin + periods.length <= moment < begin + 2 * periods.length


def test_a_year_has_four_digits() -> None:
    assert tag_periods({}).name_of(datetime(33, 4, 3)) == "0033-04-03"


def test_before_1970_periods_are_cut_as_java_cuts_them() -> None:
    assert tag_periods({}).last_whole(datetime(1969, 12, 31, 12)) == datetime(1969, 12, 31)
    assert tag_periods({}).last_whole(datetime(1969, 12, 30, 12)) == datetime(1969, 12, 30)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "2024-3-5"),
        ({}, "2024-02-30"),
        ({}, "20240305"),
        ({}, "v2024-03-05"),
        ({PERIOD: "hourly"}, "2024-03-05"),
        ({PERIOD: "hourly"}, "2024-03-05 24"),
        ({FORMATTER: "without_dashes"}, "2024-03-05"),
        ({DURATION: "30 min"}, "2024-03-05 04"),
    ],
)
def test_other_names_say_no_time(options: dict[str, str], name: str) -> None:
    assert tag_periods(options).time_of(name) is None


def test_days_end_at_the_first_blank() -> None:
    assert tag_periods({}).time_of("2024-03-05 anything") == datetime(2024, 3, 5)


def test_a_period_is_longer_than_nothing() -> None:
    with pytest.raises(InvalidOptionError, match=r"tag\.creation-period-duration = '0 s': expected more than nothing"):
        tag_periods({DURATION: "0 s"})
    assert tag_periods({DURATION: "1 ms"}).length == timedelta(milliseconds=1)
