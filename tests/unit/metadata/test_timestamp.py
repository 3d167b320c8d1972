from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import InvalidOptionError, VersionSyntaxError
from paimon_spark.metadata.timestamp import epoch_ms

NEW_YEAR_2024 = 1704067200000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-01-01", NEW_YEAR_2024),
        ("2024-1-1", NEW_YEAR_2024),
        (" 2024-01-01 00:00 ", NEW_YEAR_2024),
        ("2024-01-01 00:00:01", NEW_YEAR_2024 + 1000),
        ("2024-01-01T00:00:01.5", NEW_YEAR_2024 + 1500),
        ("2024-01-01 00:00:00.123456789", NEW_YEAR_2024 + 123),
        ("2024-01-01 00:00:00.0009", NEW_YEAR_2024),
        ("2024-01-01T00:00:00Z", NEW_YEAR_2024),
        ("2024-01-01 00:00:00 UTC", NEW_YEAR_2024),
        ("2024-01-01T02:00:00+02:00", NEW_YEAR_2024),
        ("2023-12-31 19:00:00-0500", NEW_YEAR_2024),
        ("2024-01-01 01:00:00 Europe/Berlin", NEW_YEAR_2024),
        ("1969-12-31 23:59:59.999", -1),
        ("0", 0),
        ("1704067200", NEW_YEAR_2024),
        ("1704067200.123456", NEW_YEAR_2024 + 123),
        ("-0.0001", -1),
    ],
)
def test_forms(text: str, expected: int) -> None:
    assert epoch_ms(text, "UTC") == expected


def test_a_zone_is_for_texts_that_name_none() -> None:
    assert epoch_ms("2024-01-01 01:00:00", "Europe/Berlin") == NEW_YEAR_2024
    assert epoch_ms("2024-01-01 02:00:00", "+02:00") == NEW_YEAR_2024
    assert epoch_ms("2024-01-01 00:00:00Z", "Europe/Berlin") == NEW_YEAR_2024
    assert epoch_ms("1704067200", "Europe/Berlin") == NEW_YEAR_2024


def test_hours_that_come_twice_or_never_are_as_in_java() -> None:
    # 2024-10-27 02:30 comes twice in Berlin: the earlier one. 2024-03-31 02:30 never: an hour later.
    assert epoch_ms("2024-10-27 02:30:00", "Europe/Berlin") == epoch_ms("2024-10-27 00:30:00Z")
    assert epoch_ms("2024-03-31 02:30:00", "Europe/Berlin") == epoch_ms("2024-03-31 01:30:00Z")


@pytest.fixture
def in_new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_new_york")
def test_without_any_zone_the_machine_says() -> None:
    assert epoch_ms("2023-12-31 19:00:00") == NEW_YEAR_2024
    assert epoch_ms("2024-07-01 00:00:00") == epoch_ms("2024-07-01 04:00:00Z")


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2024-13-01", "2024-02-30", "2024-01-01 25:00", "2024-01-01x", "1e3", "0000-01-01",
             "2024-01-01 00:00:00.", "12:00:00", "９０", "NaN", "infinity"]
)  # fmt: skip
def test_other_texts_are_refused_by_name(text: str) -> None:
    with pytest.raises(VersionSyntaxError, match="timestampAsOf = "):
        epoch_ms(text, "UTC", "timestampAsOf")


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../etc/passwd", "+99:00"])
def test_unknown_zones_are_refused(zone: str) -> None:
    with pytest.raises(InvalidOptionError, match="time zone"):
        epoch_ms("2024-01-01", zone)


@given(st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1)))
def test_written_times_come_back(moment: datetime) -> None:
    expected = (moment.replace(tzinfo=timezone.utc) - datetime(1970, 1, 1, tzinfo=timezone.utc)) // (
        datetime.resolution * 1000
    )
    assert epoch_ms(moment.isoformat(" "), "UTC") == expected
