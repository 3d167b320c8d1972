"""Calls are tried again after some errors, a number of times."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from paimon_spark.metadata.retry import retry


def failing(times: int, error: Exception) -> tuple[Callable[[], str], list[int]]:
    calls: list[int] = []

    def act() -> str:
        calls.append(len(calls))
        if len(calls) <= times:
            raise error
        return "done"

    return act, calls


def test_the_first_result_is_returned() -> None:
    act, calls = failing(2, KeyError("a"))
    assert retry(act, 3, on=KeyError) == "done"
    assert len(calls) == 3


def test_the_error_of_the_last_attempt_is_raised() -> None:
    act, calls = failing(9, KeyError("a"))
    with pytest.raises(KeyError, match="a"):
        retry(act, 3, on=(KeyError, OSError))
    assert len(calls) == 3


def test_or_another_in_its_place() -> None:
    act, calls = failing(9, KeyError("a"))
    with pytest.raises(ValueError, match=r"after KeyError\('a'\)") as raised:
        retry(act, 3, on=KeyError, exhausted=lambda e: ValueError(f"after {e!r}"))
    assert isinstance(raised.value.__cause__, KeyError)
    assert len(calls) == 3


def test_other_errors_are_raised_at_once() -> None:
    act, calls = failing(1, OSError("a"))
    with pytest.raises(OSError, match="a"):
        retry(act, 3, on=KeyError, exhausted=lambda e: ValueError(e))
    assert len(calls) == 1


def test_an_error_is_raised_at_once_where_nothing_changed() -> None:
    act, calls = failing(9, KeyError("a"))
    with pytest.raises(KeyError, match="a"):
        retry(act, 9, on=KeyError, again=lambda _: len(calls) < 3, exhausted=lambda e: ValueError(e))
    assert len(calls) == 3
