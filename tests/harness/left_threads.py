"""Threads that a test leaves running."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.harness.until import until

_OURS: Final = "paimon-"
"""Begins the names of all threads and pools of the package."""
_OF_LIBRARIES: Final = ("asyncio_",)
"""Begin the names of idle workers that asyncio keeps for each loop, among them that of fsspec."""


@contextmanager
def no_thread_left(seconds: float = 20.0) -> Iterator[None]:
    """Check that threads made inside end: those that are no daemons, and those of the package.

    Raises AssertionError: a thread goes on for longer.
    """
    before = set(threading.enumerate())
    yield
    if _left(before):
        until(lambda: not _left(before), lambda: sorted(t.name for t in _left(before)), seconds=seconds)


def _left(before: set[threading.Thread]) -> list[threading.Thread]:
    return [
        thread
        for thread in threading.enumerate()
        if thread not in before
        and (not thread.daemon or thread.name.startswith(_OURS))
        and not thread.name.startswith(_OF_LIBRARIES)
    ]
