"""Threads that a test leaves running."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.harness.until import until

_OURS: Final = "paimon-"
"""Begins the names of all threads and pools of the package."""
_HARMLESS: Final = ("asyncio_", "paimon-lineage")
"""Begin the names of idle workers that asyncio keeps for each loop, and of threads whose recorder is gone.

These end when they next wake up, without doing anything; those of other recorders `end_recorders` ends.
"""


@contextmanager
def no_thread_left(seconds: float = 20.0) -> Iterator[None]:
    """Check that threads made inside end: those that are no daemons, and those of the package.

    Raises AssertionError: a thread goes on for longer.
    """
    before = set(threading.enumerate())
    yield
    if _left(before):
        until(lambda: not _left(before), lambda: sorted(t.name for t in _left(before)), seconds=seconds)


def end_recorders() -> None:
    """End the threads that write rows of lineage: drop unwritten rows, and wait for a write that is under way."""
    module = sys.modules.get("paimon_spark.lineage.recording.recorder")
    if module is None:
        return
    for recorder in list(module._all):
        state = recorder._state
        with state.flushing:
            recorder._after_fork()
        with state.lock:
            thread = state.thread
            state.lock.notify_all()
        if thread is not None:
            until(lambda: not thread.is_alive(), lambda: "a thread that writes rows of lineage does not end")  # noqa: B023
    module._registry.recorders = {}


def _left(before: set[threading.Thread]) -> list[threading.Thread]:
    return [
        thread
        for thread in threading.enumerate()
        if thread not in before
        and (not thread.daemon or thread.name.startswith(_OURS))
        and not thread.name.startswith(_HARMLESS)
    ]
