"""Options of automatic tags and savepoints."""

from __future__ import annotations

import pytest

from paimon_spark.errors import InvalidOptionError
from paimon_spark.options.known import check_values
from paimon_spark.options.retention import (
    SavepointOptions,
    TagCreation,
    parse_savepoint_options,
    parse_tag_options,
)


def test_nothing_is_made_by_itself_unless_asked() -> None:
    options = parse_tag_options({})
    assert options.creation is TagCreation.NONE
    assert options.default_time_retained_s is None
    assert options.time_expire
    assert parse_savepoint_options({}) is None


def test_tag_options_are_read() -> None:
    options = parse_tag_options(
        {
            "tag.automatic-creation": "process-time",
            "tag.creation-delay": "10 min",
            "tag.num-retained-max": "3",
            "tag.default-time-retained": "1 d",
            "tag.automatic-completion": "true",
            "sink.watermark-time-zone": "Asia/Shanghai",
        }
    )
    assert options.creation is TagCreation.PROCESS_TIME
    assert (options.delay_ms, options.num_retained_max) == (600_000, 3)
    assert options.default_time_retained_s == 86_400
    assert options.completion
    assert options.watermark_zone == "Asia/Shanghai"


def test_one_option_is_enough_for_savepoints() -> None:
    assert parse_savepoint_options({"savepoint.create-time": "02:30"}) == SavepointOptions(9_000_000, 1, None)
    assert parse_savepoint_options({"savepoint.create-interval": "2 d"}) == SavepointOptions(0, 2, None)
    both = {"savepoint.create-time": "23:59", "savepoint.create-interval": "48 h", "sink.process-time-zone": "UTC"}
    assert parse_savepoint_options(both) == SavepointOptions(86_340_000, 2, "UTC")


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("savepoint.create-time", "25:00", "expected a time of the day as hh:mm, such as 02:30"),
        ("savepoint.create-time", "12:60", "expected a time of the day as hh:mm"),
        ("savepoint.create-time", "noon", "expected a time of the day as hh:mm"),
        ("savepoint.create-interval", "12 h", "expected whole days, at least one, such as 1 d"),
        ("savepoint.create-interval", "36 h", "expected whole days"),
        ("savepoint.create-interval", "0 d", "expected whole days"),
        ("savepoint.create-interval", "1", "expected whole days"),
        ("savepoint.create-interval", "daily", "expected a duration such as"),
    ],
)
def test_savepoints_are_daily_at_most(key: str, value: str, why: str) -> None:
    for check in (parse_savepoint_options, check_values):
        with pytest.raises(InvalidOptionError) as caught:
            check({key: value})
        assert f"option {key} = {value!r}: {why}" in str(caught.value)
