"""Recorder: writes rows of commits to the lineage tables, in the background and together.

The first rows of a process are written at once, those of a busy time once an interval. The row of a sink's snapshot is
written last: where it is, all rows of its batch are. Rows that are not written when the process dies are caught up.
A process has one recorder for each warehouse, and flushes them when it ends.

Tests: tests/unit/lineage/recording/test_recorder.py
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from paimon_spark.errors import PaimonError, StorageError
from paimon_spark.lineage.index.provenance import TableRef, decode_provenance
from paimon_spark.lineage.index.tables import (
    Rows,
    merge_rows,
    recorded_rows,
    rows_of,
    write_rows,
)
from paimon_spark.lineage.index.warehouse import is_lineage_table, split_table_path
from paimon_spark.lineage.recording.catch_up import CaughtUp, catch_up, mark_searched, register_sink
from paimon_spark.lineage.recording.row_queue import ExpectedJob, QueuedRows, RowQueue
from paimon_spark.redaction import get_logger

if TYPE_CHECKING:
    from paimon_spark.engine.commit.listeners import CommitEvent
    from paimon_spark.lineage.index.tables import Index
    from paimon_spark.lineage.index.warehouse import Warehouse

_LOG = get_logger(__name__)
DEFAULT_INTERVAL_MS: Final = 10_000
_WARN_EVERY_S: Final = 600.0
_LONGEST_SLEEP_S: Final = 60.0
_MOST_RECORDERS: Final = 32
_EXIT_S: Final = 5.0
"""Longest wait of a process that ends for its last rows."""


class Recorder:
    """Writes rows of commits to the lineage tables of a warehouse. A CommitListener. Safe for threads and forks.

    Failures of the store are warnings, and the rows stay queued.

    Args:
        index: the lineage tables.
        interval_ms: least time between two commits to them.
        clock: monotonic seconds.
        background: whether a daemon thread writes; else callers of `tick` and `flush` do.
        catch_up: finds rows that earlier processes did not write.
    """

    def __init__(
        self,
        index: Index,
        interval_ms: int = DEFAULT_INTERVAL_MS,
        *,
        clock: Callable[[], float] = time.monotonic,
        background: bool = True,
        catch_up: Callable[[Index, ExpectedJob], CaughtUp] = catch_up,
    ) -> None:
        self.index = index
        self.interval_ms = interval_ms
        self._clock = clock
        self._background = background
        self._catch_up = catch_up
        self._warned: dict[str, float] = {}
        self._state = RowQueue()
        _all.add(self)

    def __reduce__(self) -> Any:
        raise TypeError("a Recorder belongs to its process; make one with recorder_for where it is needed")

    def expect(self, job: str, sink: TableRef, *, query_id: str | None = None, checkpoint: str | None = None) -> None:
        """A job is about to commit to a branch: the next flush first catches up rows of earlier processes.

        Called before each commit; all but the first call for a job and a branch are free.
        """
        state = self._state
        with state.lock:
            is_new = state.expect(ExpectedJob(job, sink, query_id, checkpoint), self._clock())
            if is_new:
                self._start()
        if is_new:
            try:
                register_sink(self.index, sink)
            except PaimonError as e:
                self._warn("sink", f"{sink.name} cannot be registered as a sink", e)

    def on_commit(self, event: CommitEvent) -> None:
        """Queue the rows of a commit whose properties hold provenance."""
        provenance = decode_provenance(event.properties)
        if provenance is not None and (ref := self._ref_of(event)) is not None:
            self.add(rows_of(provenance, ref, event.snapshot_id))

    def add(self, rows: Rows, written: Callable[[], None] | None = None) -> None:
        """Queue rows; `written` is called once they are written, by the thread that wrote them."""
        state = self._state
        with state.lock:
            self._warn_of_dropped(state.add(QueuedRows(rows, written)))
            self._start()

    def due_in_s(self) -> float | None:
        """Seconds until the next flush; None when nothing is queued."""
        state = self._state
        with state.lock:
            return state.due_in_s(self._clock(), self.interval_ms / 1000)

    def tick(self) -> bool:
        """Flush if it is due; whether a flush was tried."""
        due = self.due_in_s()
        if due is None or due > 0:
            return False
        self._flush()
        return True

    def flush(self, timeout_s: float | None = None) -> bool:
        """Write all queued rows now; whether they are written.

        Args:
            timeout_s: longest wait for the background thread, which goes on afterwards. None: this thread writes, for
                as long as it takes.
        """
        if timeout_s is None:
            return self._flush()
        state = self._state
        with state.lock:
            if not state.queue and not state.flushing.locked():
                return True
            number = state.ask()
            self._start(asked=True)
            return state.lock.wait_for(lambda: state.ended_flushes >= number, timeout_s) and state.failures == 0

    @property
    def waiting_rows(self) -> int:
        """Number of queued rows."""
        return self._state.queued

    def forget(self, job: str) -> None:
        """Drop the queued rows of a job, and write its rows again when it commits next."""
        state = self._state
        with state.flushing, state.lock:
            state.forget(job)

    def _flush(self) -> bool:
        """Write what is queued; whether it is written. What is not goes back to the queue."""
        state = self._state
        with state.flushing:
            with state.lock:
                entries, expected = state.take()
            written: list[QueuedRows] | None = None
            try:
                written = self._try_to_write(entries, expected)
            finally:
                with state.lock:
                    if written is None:
                        self._warn_of_dropped(state.put_back(entries))
                    state.ended(self._clock(), done=written is not None)
        # Without the locks, as a callback may add rows, or wait for a thread that does.
        for entry in written or ():
            self._call_back(entry)
        return written is not None

    def _try_to_write(self, entries: list[QueuedRows], expected: list[ExpectedJob]) -> list[QueuedRows] | None:
        """Write entries together, or else each alone; those that were written. None: the store failed, all stay."""
        try:
            return entries if self._write(entries, expected) else []
        except (PaimonError, OSError) as e:
            self._warn(type(e).__name__, "cannot write rows; they stay queued", e)
            return None
        except Exception as e:  # noqa: BLE001 - no commit fails for what is recorded of it
            # One entry that can never be written must not hold up the others, nor be tried for ever.
            self._warn(type(e).__name__, "cannot write rows together; trying each alone", e)
        written: list[QueuedRows] = []
        for entry in entries:
            if not self._write_alone(entry, written):
                return None
        return written

    def _write(self, entries: list[QueuedRows], expected: list[ExpectedJob]) -> bool:
        """Catch up and write; False where there are no lineage tables."""
        state = self._state
        if not entries and not expected:
            return True
        if not self.index.exists():
            # They were dropped or never made: rows are not kept for them, but found again once there are tables.
            with state.lock:
                state.catch_up_again()
            return False
        caught_up = [found for e in expected if (found := self._find(e)) is not None]
        rows = recorded_rows(self.index, merge_rows([*(found.rows for found in caught_up), *(e.rows for e in entries)]))
        with state.lock:
            rows = state.without_written_jobs(rows, self._clock())
        write_rows(self.index, rows)
        with state.lock:
            state.remember_written_jobs(rows, self._clock())
            state.caught(expected)
        # Only now: a process that dies before leaves the same search to the next one.
        for found in caught_up:
            mark_searched(self.index, found)
        return True

    def _write_alone(self, entry: QueuedRows, written: list[QueuedRows]) -> bool:
        """Write one entry, or drop it where it can never be written. False when the store fails."""
        try:
            if self._write([entry], []):
                written.append(entry)
        except (PaimonError, OSError) as e:
            self._warn(type(e).__name__, "cannot write rows; they stay queued", e)
            return False
        except Exception as e:  # noqa: BLE001 - it must not block the others
            what = f"dropping rows that cannot be written: {dict(entry.rows)!r:.500}"
            self._warn(f"lost {type(e).__name__}", what, e)
        return True

    def _find(self, expected: ExpectedJob) -> CaughtUp | None:
        try:
            return self._catch_up(self.index, expected)
        except (StorageError, OSError):
            raise
        except Exception as e:  # noqa: BLE001 - what is unreadable stays so, and must not block new rows
            what = f"cannot catch up rows of job {expected.job!r} that an earlier process did not write"
            self._warn(f"catch-up {type(e).__name__}", what, e)
            return None

    def _call_back(self, entry: QueuedRows) -> None:
        try:
            if entry.written is not None:
                entry.written()
        except Exception as e:  # noqa: BLE001 - the rows are there
            self._warn("written", "a callback after writing rows failed", e)

    def _warn_of_dropped(self, dropped: int) -> None:
        if dropped:
            self._warn("bound", f"too many queued rows; {dropped} are dropped, and found again in the snapshots", None)

    def _ref_of(self, event: CommitEvent) -> TableRef | None:
        root, database, table = split_table_path(event.location) or ("", "", "")
        ref = TableRef.of(database, table, event.branch)
        return None if root != self.index.warehouse.url.rstrip("/") or is_lineage_table(ref) else ref

    def _warn(self, kind: str, what: str, error: Exception | None) -> None:
        """Warn once for each kind in a while."""
        now = self._clock()
        last = self._warned.get(kind)
        if last is None or now - last >= max(_WARN_EVERY_S, self.interval_ms / 1000):
            self._warned[kind] = now
            tail = "" if error is None else f": {type(error).__name__}: {error}"
            _LOG.warning("lineage of %s: %s%s", self.index.warehouse.url, what, tail)

    def _start(self, *, asked: bool = False) -> None:
        """Start the background thread, if there is to be one or it is asked for. Lock held."""
        state = self._state
        if not (self._background or asked) or (state.thread is not None and state.thread.is_alive()):
            return
        thread = threading.Thread(target=_run, args=(weakref.ref(self), state), name="paimon-lineage", daemon=True)
        try:
            thread.start()
        except RuntimeError as e:  # the interpreter ends, or there are too many threads
            self._warn("thread", "cannot start the thread that writes rows", e)
        else:
            state.thread = thread

    def _after_fork(self) -> None:
        """In the child: the parent writes its rows, and threads that are not here may hold its locks."""
        self._state = RowQueue()


def _run(reference: weakref.ref[Recorder], state: RowQueue) -> None:
    """Body of the background thread; ends when its recorder is gone or idle.

    Holds no reference to the recorder while it waits, so that one that is used no more goes away.
    """
    while True:
        recorder = reference()
        if recorder is None or recorder._state is not state:  # noqa: SLF001 - of this module
            return
        if recorder.tick():
            continue
        del recorder
        with state.lock:
            again = reference()
            if again is None or again._state is not state:  # noqa: SLF001 - of this module
                return
            due = again.due_in_s()
            del again
            if due is not None and due > 0:
                state.lock.wait(min(due, _LONGEST_SLEEP_S))
            elif due is None and not state.lock.wait(_LONGEST_SLEEP_S):
                idle = reference()
                if idle is None or idle.due_in_s() is None:
                    state.thread = None  # the next row starts another
                    return
                del idle


def _after_fork() -> None:
    for recorder in list(_all):
        recorder._after_fork()  # noqa: SLF001 - of this module


_all: weakref.WeakSet[Recorder] = weakref.WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


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
