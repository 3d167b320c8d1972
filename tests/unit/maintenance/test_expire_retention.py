"""The rule beside Java's own: its tests' cases, and its loop over ids as a model."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.maintenance.expiry import Rule, expired_changelogs, expired_snapshots

NEVER = -(2**62)
MOST = 2**31 - 1


def kept(times: Mapping[int, int], rule: Rule) -> list[int]:
    ids = sorted(times)
    return ids[expired_snapshots(ids, rule, times.get) :]


@pytest.mark.parametrize(
    ("snapshots", "rule", "expected"),
    [
        # ExpireSnapshotsTest.testNotEnoughSnapshots, testNeverExpire
        ({1: 0, 2: 0}, Rule(3, 1, NEVER, MOST), [1, 2]),
        (dict.fromkeys(range(1, 6), 0), Rule(MOST, 1, NEVER, MOST), [1, 2, 3, 4, 5]),
        # testNumRetainedMin
        (dict.fromkeys(range(1, 10), 0), Rule(MOST, 4, 1, MOST), [6, 7, 8, 9]),
        # testExpireWithNumber
        (dict.fromkeys(range(3, 9), 100), Rule(3, 1, NEVER, MOST), [6, 7, 8]),
        # testExpireWithTime
        ({i: 0 if i <= 5 else 2000 for i in range(1, 11)}, Rule(MOST, 1, 1500, MOST), [5, 6, 7, 8, 9, 10]),
        # testExpireWithTimeProtectsEachSnapshot
        (dict.fromkeys(range(1, 6), 0), Rule(MOST, 1, -4900, MOST), [1, 2, 3, 4, 5]),
        ({1: 0, 2: 0, 3: 0, 4: 0, 5: 0, 6: 6000}, Rule(MOST, 1, 1500, MOST), [5, 6]),
        # testConsumerChangelogOnly
        (dict.fromkeys(range(1, 11), 0), Rule(1, 1, NEVER, MOST, first_needed=3), list(range(3, 11))),
        # the limit, the oldest moment that counts as young, a consumer of what is not there yet or gone
        (dict.fromkeys(range(1, 11), 0), Rule(1, 1, NEVER, 4), [5, 6, 7, 8, 9, 10]),
        (dict.fromkeys(range(1, 11), 0), Rule(1, 1, NEVER, 0), list(range(1, 11))),
        ({1: 0, 2: 10, 3: 20}, Rule(MOST, 1, 10, MOST), [1, 2, 3]),
        ({1: 0, 2: 10, 3: 20}, Rule(MOST, 1, 11, MOST), [2, 3]),
        ({4: 0, 5: 0}, Rule(1, 1, 1, MOST, first_needed=9), [5]),
        ({4: 0, 5: 0}, Rule(1, 1, 1, MOST, first_needed=1), [4, 5]),
        # the head never goes
        ({7: 0}, Rule(1, 1, MOST, MOST), [7]),
        ({}, Rule(1, 1, MOST, MOST), []),
        # holes: as many snapshots are kept as are said to be
        ({1: 0, 2: 0, 50: 0}, Rule(MOST, 2, 1, MOST), [2, 50]),
        ({1: 5, 2: 5, 50: 5}, Rule(3, 1, 1, MOST), [1, 2, 50]),
    ],
)
def test_snapshots_expire_as_java_has_them_expire(snapshots: dict[int, int], rule: Rule, expected: list[int]) -> None:
    assert kept(snapshots, rule) == expected


def test_what_is_beyond_the_first_young_one_is_not_read() -> None:
    asked = []

    def time_ms(snapshot_id: int) -> int:
        asked.append(snapshot_id)
        return {1: 0, 2: 0, 3: 0, 4: 2000}[snapshot_id]

    # ExpireSnapshotsTest.testExpireWithTimeDoesNotReadProtectedRange
    assert expired_snapshots([1, 2, 3, 4, 5, 6], Rule(MOST, 1, 1000, MOST), time_ms) == 2
    assert asked == [2, 3, 4]


def java_snapshots(times: Mapping[int, int], rule: Rule) -> list[int]:
    """`ExpireSnapshotsImpl.expire`, of ids without holes."""
    earliest, latest = min(times), max(times)
    start = max(latest - rule.retain_max + 1, earliest)
    end = latest - rule.retain_min + 1
    if rule.first_needed is not None:
        end = min(end, rule.first_needed)
    end = min(end, earliest + rule.limit)
    for i in range(start, end):
        if i + 1 in times and rule.older_than_ms <= times[i + 1]:
            end = i
            break
    return [i for i in times if i >= end]


def java_changelogs(times: Mapping[int, int], rule: Rule, latest_snapshot: int) -> list[int]:
    """`ExpireChangelogImpl.expire`, of ids without holes."""
    earliest, latest = min(times), max(times)
    start = max(latest_snapshot - rule.retain_max + 1, earliest)
    end = latest_snapshot - rule.retain_min + 1
    if rule.first_needed is not None:
        end = min(end, rule.first_needed)
    end = min(end, earliest + rule.limit, latest)
    if end <= earliest:
        return list(times)
    for i in range(start, end + 1):
        if i in times and rule.older_than_ms <= times[i]:
            end = i
            break
    return [i for i in times if i >= end]


@st.composite
def cases(draw: st.DrawFn) -> tuple[dict[int, int], Rule]:
    first, count = draw(st.integers(1, 5)), draw(st.integers(1, 12))
    times = draw(st.lists(st.integers(0, 20), min_size=count, max_size=count))
    retain_min = draw(st.integers(1, 6))
    needed = draw(st.none() | st.integers(1, 20))
    rule = Rule(
        retain_min + draw(st.integers(0, 8)), retain_min, draw(st.integers(0, 22)), draw(st.integers(0, 9)), needed
    )
    return {first + i: time for i, time in enumerate(times)}, rule


@given(cases())
def test_without_holes_the_rule_is_javas_loop_over_ids(case: tuple[dict[int, int], Rule]) -> None:
    times, rule = case
    assert kept(times, rule) == java_snapshots(times, rule)


@given(cases(), st.integers(1, 5))
def test_of_changelogs_too(case: tuple[dict[int, int], Rule], snapshots: int) -> None:
    times, rule = case
    ids = sorted(times)
    gone = expired_changelogs(ids, rule, times.get, snapshots)
    assert ids[gone:] == java_changelogs(times, rule, ids[-1] + snapshots)


@given(cases(), st.sets(st.integers(1, 16)))
def test_holes_keep_as_many_snapshots_as_the_options_say(case: tuple[dict[int, int], Rule], holes: set[int]) -> None:
    times, rule = case
    left = {i: t for i, t in times.items() if i not in holes}
    stay = kept(left, rule)
    assert len(stay) >= min(rule.retain_min, len(left))
    assert len(left) - len(stay) <= rule.limit
