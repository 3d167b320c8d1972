"""Waits whose deadline follows the speed of the machine, and threads that tests leave."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.harness.left_threads import no_thread_left
from tests.harness.until import until


class Clock:
    """A clock that only waits advance."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize("times", [1.0, 10.0])
def test_a_slower_machine_has_longer(times: float) -> None:
    clock = Clock()
    with pytest.raises(AssertionError, match=r"not true within 5 s .* last seen: 'three of four'"):
        until(lambda: False, lambda: "three of four", seconds=5, clock=clock, sleep=clock.sleep, slowness=lambda: times)
    assert clock.now == pytest.approx(5 * times, rel=0.02)


def test_a_machine_that_becomes_slow_is_waited_for() -> None:
    clock = Clock()
    assert until(
        lambda: clock.now > 30, seconds=5, clock=clock, sleep=clock.sleep, slowness=lambda: 1 + 9 * (clock.now > 2)
    )


def test_the_value_is_returned_and_measured_speed_is_used() -> None:
    values = iter([0, None, "done"])
    assert until(lambda: next(values), poll_s=0) == "done"


def test_a_thread_or_pool_that_is_left_is_named() -> None:
    end = threading.Event()
    with ThreadPoolExecutor(1, thread_name_prefix="paimon-left") as pool:
        with pytest.raises(AssertionError, match="paimon-left_0"), no_thread_left(seconds=0):
            pool.submit(end.wait)
        end.set()
    with no_thread_left():
        thread = threading.Thread(target=end.wait)
        thread.start()
        thread.join()
