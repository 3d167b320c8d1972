"""The division of tests into tiers, shares and processes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.shards import TIERS, Part, divide, select_files, tier_of

WEIGHTS = st.dictionaries(st.text("abc", min_size=1, max_size=3), st.floats(0, 100), max_size=12)


@given(WEIGHTS, st.integers(1, 5))
def test_each_name_is_in_one_part_and_the_parts_are_balanced(weights: dict[str, float], count: int) -> None:
    parts = [divide(weights, Part(i, count)) for i in range(count)]
    assert sorted(name for part in parts for name in part) == sorted(weights)
    sums = [sum(weights[name] for name in part) for part in parts]
    assert max(sums) <= min(sums) + max(weights.values(), default=0) + 1e-6


@given(
    st.dictionaries(
        st.sampled_from("abcdef"), st.dictionaries(st.sampled_from(["quick", "ci", "slow"]), st.floats(0, 9))
    ),
    st.sampled_from(list(TIERS)),
    st.integers(1, 4),
    st.integers(1, 3),
)
def test_shares_and_their_processes_run_each_file_once(
    seconds: dict[str, dict[str, float]], tier: str, shares: int, workers: int
) -> None:
    found = [
        file
        for share in range(shares)
        for worker in range(workers)
        for file in select_files("abcdefgh", tier, seconds, Part(share, shares), Part(worker, workers))
    ]
    assert sorted(found) == list("abcdefgh")


def test_the_tier_of_a_test_is_that_of_its_marks() -> None:
    assert [tier_of(marks) for marks in ((), ("spark",), ("ci",), ("slow", "ci"), ("quick",))] == [
        "quick", "quick", "ci", "slow", "quick",
    ]  # fmt: skip


def test_parts_as_text() -> None:
    assert Part.parse("0/1") == Part(0, 1)
    assert Part.parse("29/30") == Part(29, 30)


@pytest.mark.parametrize("text", ["", "1", "1/1", "2/2", "0/0", "30/30", "-1/3", "1/3/5", "a/b"])
def test_a_text_that_is_no_part_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected i/n with 0 <= i < n"):
        Part.parse(text)
