"""Progress of long work, reported to a callback.

`with progress.reporting(show): table.compact()` calls `show(Progress(…))` now and then during the work. Reporting
costs nothing without a callback. An exception of the callback is logged once and ignored.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, TypeVar

from paimon_spark.text import logger

_LOG = logger(__name__)
_EVERY_S: Final = 0.1
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far some work has come.

    Attributes:
        what: the work, such as `delete files`.
        total: None when it is not known.
        unit: what is counted, such as `files`.
    """

    what: str
    done: int
    total: int | None
    unit: str


class _Listener:
    """A callback, called by one thread at a time and not too often."""

    def __init__(self, callback: Callable[[Progress], object], every_s: float, clock: Callable[[], float]) -> None:
        self._callback, self._every_s, self._clock = callback, every_s, clock
        self._lock = threading.Lock()
        self._last: tuple[str, float] | None = None
        self._failed = False

    def tell(self, progress: Progress) -> None:
        """Call back, unless the same work was reported a moment ago and is not finished."""
        with self._lock:
            now = self._clock()
            at_end = progress.total is not None and progress.done >= progress.total
            what, told_at = self._last or ("", now)
            if what == progress.what and not at_end and now - told_at < self._every_s:
                return
            self._last = progress.what, now
            # What the callback itself does is not reported to it.
            token = _LISTENER.set(None)
            try:
                self._callback(progress)
            except Exception:  # noqa: BLE001 - work never fails for who watches it
                if not self._failed:
                    self._failed = True
                    _LOG.warning("a progress callback failed; the work goes on", exc_info=True)
            finally:
                _LISTENER.reset(token)


_LISTENER: ContextVar[_Listener | None] = ContextVar("paimon_spark_progress", default=None)


@contextmanager
def reporting(
    callback: Callable[[Progress], object], *, every_s: float = _EVERY_S, clock: Callable[[], float] = time.monotonic
) -> Iterator[None]:
    """Call `callback` with the progress of what is done inside.

    Other threads that the caller starts report too when they run in a copy of its context (`contextvars`).

    Args:
        callback: gets a `Progress`; called by one thread at a time.
        every_s: the same work is reported at most that often, and at its end.
        clock: seconds that only go forward.
    """
    token = _LISTENER.set(_Listener(callback, every_s, clock))
    try:
        yield
    finally:
        _LISTENER.reset(token)


def report(what: str, done: int, total: int | None = None, unit: str = "files") -> None:
    """Report how far the work is. Never raises; costs nothing without a callback."""
    listener = _LISTENER.get()
    if listener is not None:
        listener.tell(Progress(what, done, total, unit))


def counted(
    values: Iterable[V],
    what: str,
    unit: str = "files",
    total: int | None = None,
    size: Callable[[V], int] = lambda _: 1,
) -> Iterator[V]:
    """Yield the values, and report progress after each and at the end.

    Args:
        values: passed on as they are.
        what: the work.
        unit: what is counted.
        total: how many there will be; None when it is not known.
        size: how many units a value is.
    """
    done = 0
    for value in values:
        count = size(value)
        yield value
        done += count
        report(what, done, total, unit)
    if total is None:
        report(what, done, done, unit)
