"""The recorders of this process, one for each warehouse, and the flush when it ends."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Final

from paimon_spark.lineage.recording.recorder import DEFAULT_INTERVAL_MS, Recorder
from paimon_spark.redaction import get_logger

if TYPE_CHECKING:
    from paimon_spark.lineage.index.tables import Index
    from paimon_spark.lineage.index.warehouse import Warehouse

_LOG = get_logger(__name__)
_MOST_RECORDERS: Final = 32
_EXIT_S: Final = 5.0
"""Longest wait of a process that ends for its last rows."""


def recorder_for(index: Index, interval_ms: int | None = None) -> Recorder:
    """The recorder of a warehouse in this process; the first `index` stays.

    `interval_ms` is the least time between two commits to it, of several callers the shortest; None: as others ask,
    else ten seconds.
    """
    key = index.warehouse.identity
    with _registry.lock:
        recorder = _registry.recorders.get(key)
        if recorder is None:
            _registry.make_room()
            recorder = Recorder(index, DEFAULT_INTERVAL_MS if interval_ms is None else interval_ms)
            _registry.recorders[key] = recorder
            _registry.flush_at_exit()
        elif interval_ms is not None:
            recorder.interval_ms = min(recorder.interval_ms, interval_ms)
        return recorder


def flush_all(timeout_s: float | None = None) -> bool:
    """Write all queued rows of this process; whether all were written."""
    with _registry.lock:
        recorders = [r for r in _registry.recorders.values() if r.waiting_rows]
    end = None if timeout_s is None else time.monotonic() + timeout_s
    done = True
    for recorder in recorders:
        done &= recorder.flush(None if end is None else max(0.0, end - time.monotonic()))
    return done


def flush_of(warehouse: Warehouse) -> bool:
    """Write the queued rows of this process for a warehouse; whether all were written."""
    recorder = _registry.recorders.get(warehouse.identity)
    return recorder is None or recorder.flush()


def forget_queued(warehouse: Warehouse, job: str) -> None:
    """Drop the queued rows of a job in this process."""
    recorder = _registry.recorders.get(warehouse.identity)
    if recorder is not None:
        recorder.forget(job)


class _Registry:
    """The recorders of this process by warehouse."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.recorders: dict[tuple[str, str], Recorder] = {}
        self._is_told = False

    def make_room(self) -> None:
        """Drop idle recorders, as other credentials make another warehouse. Lock held."""
        if len(self.recorders) >= _MOST_RECORDERS:
            self.recorders = {key: r for key, r in self.recorders.items() if r.due_in_s() is not None}

    def flush_at_exit(self) -> None:
        """Flush when the process ends, while the thread pools that writing needs are still open."""
        if self._is_told:
            return
        import atexit
        import concurrent.futures.thread  # noqa: F401 - must register its own exit handler first

        register = getattr(threading, "_register_atexit", atexit.register)
        try:
            register(flush_all, _EXIT_S)
        except RuntimeError as e:  # the process is ending
            _LOG.warning("lineage rows that are queued when this process ends will not be written by it: %s", e)
        self._is_told = True

    def after_fork(self) -> None:
        """In the child: start without the rows of the parent."""
        self.lock = threading.Lock()
        self.recorders = {}


_registry = _Registry()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_registry.after_fork)
