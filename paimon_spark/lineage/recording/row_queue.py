"""Queue of a Recorder, shared by its threads: rows, jobs to catch up, and when to write."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from paimon_spark.lineage.index.tables import JOB_TABLES

if TYPE_CHECKING:
    from paimon_spark.lineage.index.provenance import TableRef
    from paimon_spark.lineage.index.tables import Rows

MOST_ROWS: Final = 100_000
"""Most rows in the queue; beyond, the oldest are dropped, and found again by catch-up."""
_JOB_ROWS_HOLD_S: Final = 3600.0
"""How long this process does not write a row of a job again; then the job may have been forgotten meanwhile."""
_LONGEST_WAIT_S: Final = 60.0
_MOST_JOBS: Final = 10_000
"""Jobs that a process remembers; for one that it forgot it catches up again."""


@dataclass(frozen=True, slots=True)
class ExpectedJob:
    """A job that commits to a branch, whose rows of earlier processes are to be caught up.

    A streaming query has a query id, and the URL of its checkpoint unless that is unknown; a batch job has neither.
    """

    job: str
    sink: TableRef
    query_id: str | None = None
    checkpoint: str | None = None


@dataclass(slots=True)
class QueuedRows:
    """Rows that were added together; `written` is called once they are written."""

    rows: Rows
    written: Callable[[], None] | None = None

    @property
    def size(self) -> int:
        return sum(map(len, self.rows.values()))


@dataclass(slots=True)
class RowQueue:
    """The queue of one recorder in one process; a forked child gets an empty one. Callers of its methods hold `lock`.

    Attributes:
        lock: notified of every change.
        flushing: held while rows are written.
        queued: number of rows in `queue`.
        expected, caught_up: by job and sink.
        expected_at: when the oldest of `expected` came, or was last tried; seconds of the clock.
        job_rows: rows of jobs that were written, and when.
        last_flush: when the last flush ended, successful or not.
        failures: failed flushes in a row.
        begun_flushes, ended_flushes: numbers of the newest flush, and of the newest that ended.
        asked: whether a caller waits for the next flush.
    """

    lock: threading.Condition = field(default_factory=lambda: threading.Condition(threading.RLock()))
    flushing: Any = field(default_factory=threading.Lock)
    queue: deque[QueuedRows] = field(default_factory=deque)
    queued: int = 0
    expected: dict[tuple[str, TableRef], ExpectedJob] = field(default_factory=dict)
    caught_up: dict[tuple[str, TableRef], ExpectedJob] = field(default_factory=dict)
    expected_at: float = 0.0
    job_rows: dict[tuple[str, tuple[Any, ...]], float] = field(default_factory=dict)
    last_flush: float | None = None
    failures: int = 0
    begun_flushes: int = 0
    ended_flushes: int = 0
    asked: bool = False
    thread: threading.Thread | None = None

    def expect(self, expected: ExpectedJob, now: float) -> bool:
        """Catch up a job and a sink in the next flush; False when that was asked for before."""
        key = (expected.job, expected.sink)
        if key in self.expected or key in self.caught_up:
            return False
        if not self.expected:
            self.expected_at = now
        self.expected[key] = expected
        self.lock.notify_all()
        return True

    def add(self, entry: QueuedRows) -> int:
        """Add rows; returns how many older ones were dropped."""
        self.queue.append(entry)
        self.queued += entry.size
        self.lock.notify_all()
        return self._drop_oldest()

    def ask(self) -> int:
        """Request a flush at once; returns its number."""
        self.asked = True
        self.lock.notify_all()
        return self.begun_flushes + 1

    def take(self) -> tuple[list[QueuedRows], list[ExpectedJob]]:
        """Take all rows out of the queue; also returns what is expected, which stays."""
        entries = list(self.queue)
        self.queue.clear()
        self.queued = 0
        self.asked = False
        self.begun_flushes += 1
        return entries, list(self.expected.values())

    def put_back(self, entries: list[QueuedRows]) -> int:
        """Put rows back before those that came meanwhile; returns how many were dropped."""
        self.queue.extendleft(reversed(entries))
        self.queued = sum(e.size for e in self.queue)
        return self._drop_oldest()

    def catch_up_again(self) -> None:
        """Catch up everything again, as rows were lost."""
        self.expected.update(self.caught_up)
        self.caught_up.clear()

    def caught(self, expected: list[ExpectedJob]) -> None:
        """Mark jobs and sinks as caught up."""
        for one in expected:
            if self.expected.pop((one.job, one.sink), None) is not None:
                self.caught_up[(one.job, one.sink)] = one
        while len(self.caught_up) > _MOST_JOBS:
            self.caught_up.pop(next(iter(self.caught_up)))

    def ended(self, now: float, *, done: bool) -> None:
        """End a flush; what it did not catch up is tried an interval later."""
        self.last_flush = self.expected_at = now
        self.failures = 0 if done else self.failures + 1
        self.ended_flushes = self.begun_flushes
        self.lock.notify_all()

    def due_in_s(self, now: float, interval_s: float) -> float | None:
        """Seconds until the next flush; None when nothing is queued."""
        if self.asked:
            return 0.0
        if not self.queue:
            return max(0.0, self.expected_at + interval_s - now) if self.expected and not self.failures else None
        if self.last_flush is None:
            return 0.0
        pause = min(_LONGEST_WAIT_S, 2.0 ** (self.failures - 1)) if self.failures else 0.0
        return max(0.0, self.last_flush + max(interval_s, pause) - now)

    def without_written_jobs(self, rows: Rows, now: float) -> Rows:
        """Rows without those of jobs that were written recently."""
        oldest = now - _JOB_ROWS_HOLD_S
        out = {
            name: [r for r in some if self.job_rows.get((name, r), oldest) <= oldest] if name in JOB_TABLES else some
            for name, some in rows.items()
        }
        return {name: some for name, some in out.items() if some}

    def remember_written_jobs(self, rows: Rows, now: float) -> None:
        """Remember the rows of jobs that were written."""
        for name in JOB_TABLES:
            self.job_rows.update(((name, row), now) for row in rows.get(name, ()))
        if len(self.job_rows) > _MOST_JOBS:
            oldest = now - _JOB_ROWS_HOLD_S
            self.job_rows = {key: at for key, at in self.job_rows.items() if at > oldest}

    def forget(self, job: str) -> None:
        """Drop the queued rows of a job, and write its rows again when it commits next."""
        for entry in self.queue:
            entry.rows = {name: [row for row in some if row[0] != job] for name, some in entry.rows.items()}
        self.queued = sum(e.size for e in self.queue)
        self.job_rows = {(name, row): at for (name, row), at in self.job_rows.items() if row[0] != job}

    def _drop_oldest(self) -> int:
        dropped = 0
        while self.queued > MOST_ROWS and len(self.queue) > 1:
            entry = self.queue.popleft()
            self.queued -= entry.size
            dropped += entry.size
        if dropped:
            self.catch_up_again()
        return dropped
