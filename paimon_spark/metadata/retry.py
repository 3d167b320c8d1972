"""Clock; calls that are tried again after some errors, at once or after growing waits.

Source: Java `utils/RetryWaiter`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeVar

from paimon_spark.options.write import CommitOptions

T = TypeVar("T")
E = TypeVar("E", bound=Exception)

RACES: Final = 5
"""Looks at files that others change meanwhile, before what the last one found is taken."""


def now_ms() -> int:
    """Epoch milliseconds of this machine."""
    return time.time_ns() // 1_000_000


def local_now() -> datetime:
    """The local wall clock of this machine, in which times of tags are stored."""
    return datetime.fromtimestamp(now_ms() / 1000)  # noqa: DTZ006 - tags store it without a zone


def retry(
    act: Callable[[], T],
    attempts: int,
    on: type[E] | tuple[type[E], ...],
    *,
    again: Callable[[E], bool] = lambda _: True,
    exhausted: Callable[[E], Exception] | None = None,
) -> T:
    """Result of `act`, which is called again at once when it raises one of the errors `on`, `attempts` times in all.

    Args:
        act: has no effects when it raises one of these errors, or effects that it may have twice.
        attempts: at least one.
        on: other errors are raised as they are.
        again: whether the call may have another result next time, as something changed meanwhile.
        exhausted: the error that is raised after the last attempt; None: that of `act`.
    """
    for left in reversed(range(attempts)):
        try:
            return act()
        except on as e:
            if not again(e) or not (left or exhausted):
                raise
            if not left and exhausted is not None:
                raise exhausted(e) from e
    raise AssertionError("the last attempt returns or raises")


@dataclass(frozen=True, slots=True)
class Clock:
    """Time, waits and chance, as a committer takes them from outside; tests put their own here.

    Attributes:
        clock_ms: epoch milliseconds.
        sleep: waits for seconds.
        random: a number from 0 up to 1.
    """

    clock_ms: Callable[[], int] = now_ms
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = random.random


@dataclass(slots=True)
class Retries:
    """The attempts of one snapshot. `again` waits and says whether one more is allowed."""

    options: CommitOptions
    clock: Clock
    count: int = 0
    started_ms: int = field(init=False)

    def __post_init__(self) -> None:
        self.started_ms = self.clock.clock_ms()

    @property
    def elapsed_ms(self) -> int:
        return self.clock.clock_ms() - self.started_ms

    def again(self) -> bool:
        """Whether to try again; True only after the wait."""
        timeout = self.options.timeout_ms
        if self.count >= self.options.max_retries or (timeout is not None and self.elapsed_ms > timeout):
            return False
        wait_ms = min(self.options.min_retry_wait_ms * 2 ** min(self.count, 40), self.options.max_retry_wait_ms)
        self.clock.sleep(wait_ms * (1 + 0.2 * self.clock.random()) / 1000)
        self.count += 1
        return True
