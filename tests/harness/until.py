"""Wait for a condition, with a deadline that follows the speed of the machine."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Final, TypeVar

T = TypeVar("T")

_QUIET_WORK_S: Final = 0.005
"""Seconds that `_work` takes on a quiet machine."""
_QUIET_START_S: Final = 0.03
"""Seconds that a process takes to start there."""
_MEASURED_EVERY_S: Final = 2.0


def until(
    condition: Callable[[], T],
    seen: Callable[[], object] | None = None,
    *,
    seconds: float = 60.0,
    poll_s: float = 0.02,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
    slowness: Callable[[], float] | None = None,
) -> T:
    """Return the first true value of `condition`, which is asked again and again.

    A second of waiting counts as less on a slow machine, whose speed is measured now and again: one that is ten times
    slower has ten times as long.

    Args:
        condition: may raise, to give up early.
        seen: what an error shows; default is the last value of `condition`.
        seconds: to wait at most, on a quiet machine.
        poll_s: pause between two questions.
        clock: see `time.monotonic`.
        sleep: see `time.sleep`.
        slowness: how many times slower the machine is than a quiet one; default is to measure it.

    Raises AssertionError: the condition did not become true in time.
    """
    measure = slowness or _measured
    spent, begun = 0.0, clock()
    last, measured, times = begun, begun, _at_start() if slowness is None else slowness()
    while True:
        found = condition()
        if found:
            return found
        now = clock()
        spent, last = spent + (now - last) / times, now
        if spent > seconds:
            shown = found if seen is None else seen()
            raise AssertionError(
                f"not true within {seconds:g} s of a quiet machine ({now - begun:.1f} s here, now {times:.1f} times "
                f"slower); last seen: {shown!r}"
            )
        if now - measured > _MEASURED_EVERY_S:
            times, measured = measure(), clock()
        sleep(poll_s)


def _measured() -> float:
    """How many times slower this machine is now than a quiet one, in computing or in starting processes; at least 1."""
    begun = time.perf_counter()
    _work()
    worked = time.perf_counter()
    subprocess.run([sys.executable, "-I", "-S", "-c", ""], check=True)
    started = time.perf_counter()
    return max(1.0, (worked - begun) / _QUIET_WORK_S, (started - worked) / _QUIET_START_S)


@cache
def _at_start() -> float:
    """The same when this process first waited."""
    return _measured()


def _work() -> int:
    return sum(i * i % 7 for i in range(50_000))
