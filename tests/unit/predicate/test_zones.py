"""Instants and local times in time zones, against `zoneinfo`."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from paimon_spark.predicate.zones import DAY, SECOND, day_starts, to_instants, truncated, wall_clocks

EPOCH = datetime(1970, 1, 1)
NAMES = [
    "Europe/Berlin",
    "America/Havana",
    "America/Sao_Paulo",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Africa/Freetown",
]


def seconds_of(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(seconds=1)


@pytest.mark.parametrize("name", NAMES)
def test_instants_and_wall_clocks_are_those_of_zoneinfo(name: str) -> None:
    zone, rnd = ZoneInfo(name), random.Random(name)
    seconds = [rnd.randrange(-5_000_000_000, 5_000_000_000) for _ in range(500)]
    seconds += [rnd.randrange(-60_000_000_000, 250_000_000_000) for _ in range(20)]
    counts = np.array(seconds, np.int64) * SECOND
    shown = [(EPOCH + timedelta(seconds=s)).replace(tzinfo=UTC).astimezone(zone) for s in seconds]
    assert wall_clocks(counts, zone).tolist() == [seconds_of(m.replace(tzinfo=None)) * SECOND for m in shown]
    meant = [(EPOCH + timedelta(seconds=s)).replace(tzinfo=zone).astimezone(UTC) for s in seconds]
    assert to_instants(counts, zone).tolist() == [seconds_of(m.replace(tzinfo=None)) * SECOND for m in meant]


def test_a_day_whose_midnight_is_skipped_starts_after_it() -> None:
    havana = ZoneInfo("America/Havana")
    day = (datetime(2024, 3, 10) - EPOCH).days
    start = int(day_starts(np.array([day], np.int64), havana)[0])
    assert EPOCH + timedelta(microseconds=start) == datetime(2024, 3, 10, 5)
    assert wall_clocks(np.array([start], np.int64), havana)[0] == day * DAY + 3600 * SECOND


def test_a_repeated_hour_is_truncated_to_its_own_beginning() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    second = seconds_of(datetime(2024, 10, 27, 1, 30)) * SECOND  # 02:30 for the second time
    first = second - 3600 * SECOND
    hours = truncated(np.array([first, second], np.int64), "HOUR", berlin)
    assert hours.tolist() == [first - 1800 * SECOND, second - 1800 * SECOND]
    days = truncated(np.array([first, second], np.int64), "DAY", berlin)
    assert days.tolist() == [seconds_of(datetime(2024, 10, 26, 22)) * SECOND] * 2
