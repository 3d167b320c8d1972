"""What the threads of a Recorder share: rows that wait, jobs whose earlier rows are looked for, and when to write.

Source: own.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from paimon_spark.lineage.tables import JOB_TABLES, job_of

if TYPE_CHECKING:
    from paimon_spark.lineage.provenance import TableRef
    from paimon_spark.lineage.tables import Rows

MOST_ROWS: Final = 100_000
"""Rows that wait; beyond, the oldest go, and are found again by catch-up."""
_JOB_ROWS_HOLD_S: Final = 3600.0
"""How long a job's row is not written again by this process; somebody may have forgotten the job meanwhile."""
_LONGEST_WAIT_S: Final = 60.0
_MOST_JOBS: Final = 10_000
"""Jobs that a process remembers; of one that it forgot it looks for rows again."""


@dataclass(frozen=True, slots=True)
class ExpectedJob:
    """A job that commits to a branch, whose rows of earlier processes are looked for.

    Attributes:
        query_id: of a streaming query; None for a batch job.
        checkpoint: URL of the query's checkpoint; None when it is not known.
    """

    job: str
    sink: TableRef
    query_id: str | None = None
    checkpoint: str | None = None


@dataclass(slots=True)
class QueuedRows:
    """Rows that were added together.

    Attributes:
        written: called once they are written.
    """

    rows: Rows
    written: Callable[[], None] | None = None

    @property
    def size(self) -> int:
        return sum(map(len, self.rows.values()))


@dataclass(slots=True)
class RowQueue:
    """One for each recorder, and for each process: a forked child gets an empty one of its own.

    Whoever calls a method holds `lock`.

    Attributes:
        lock: told of everything that changes.
        flushing: held while rows are written.
        queued: rows in `queue`.
        expected: not looked for yet, by job and sink.
        caught_up: looked for.
        expected_at: seconds of the clock when the oldest of `expected` came, or was last looked for.
        job_rows: rows of jobs that were written, and when.
        last_flush: seconds of the clock when the last flush ended, successful or not.
        failures: flushes that failed since the last one that did not.
        begun: number of the newest flush.
        over: number of the newest flush that ended.
        asked: whether somebody waits for the next one.
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
    begun: int = 0
    over: int = 0
    asked: bool = False
    thread: threading.Thread | None = None

    def expect(self, expected: ExpectedJob, now: float) -> bool:
        """Look for the rows of a job and a sink in the next flush; False when it was asked for before."""
        key = (expected.job, expected.sink)
        if key in self.expected or key in self.caught_up:
            return False
        if not self.expected:
            self.expected_at = now
        self.expected[key] = expected
        self.lock.notify_all()
        return True

    def add(self, entry: QueuedRows) -> int:
        """Let rows wait; how many older ones were let go for it."""
        self.queue.append(entry)
        self.queued += entry.size
        self.lock.notify_all()
        return self._let_go()

    def ask(self) -> int:
        """Have everything written at once; the number of the flush that does it."""
        self.asked = True
        self.lock.notify_all()
        return self.begun + 1

    def take(self) -> tuple[list[QueuedRows], list[ExpectedJob]]:
        """All that waits, which then waits no more, and all that is expected, which still is."""
        entries = list(self.queue)
        self.queue.clear()
        self.queued = 0
        self.asked = False
        self.begun += 1
        return entries, list(self.expected.values())

    def put_back(self, entries: list[QueuedRows]) -> int:
        """Let what was taken wait again, before what came meanwhile; how many rows were let go for it."""
        self.queue.extendleft(reversed(entries))
        self.queued = sum(e.size for e in self.queue)
        return self._let_go()

    def look_again(self) -> None:
        """Rows were lost: look for all of them once more."""
        self.expected.update(self.caught_up)
        self.caught_up.clear()

    def found(self, expected: list[ExpectedJob]) -> None:
        """What was expected has been looked for, and written."""
        for one in expected:
            if self.expected.pop((one.job, one.sink), None) is not None:
                self.caught_up[(one.job, one.sink)] = one
        while len(self.caught_up) > _MOST_JOBS:
            self.caught_up.pop(next(iter(self.caught_up)))

    def ended(self, now: float, *, done: bool) -> None:
        """A flush is over; what it did not look for is looked for an interval later."""
        self.last_flush = self.expected_at = now
        self.failures = 0 if done else self.failures + 1
        self.over = self.begun
        self.lock.notify_all()

    def due_in_s(self, now: float, interval_s: float) -> float | None:
        """Seconds until something should be written; None when nothing waits."""
        if self.asked:
            return 0.0
        if not self.queue:
            return max(0.0, self.expected_at + interval_s - now) if self.expected and not self.failures else None
        if self.last_flush is None:
            return 0.0
        pause = min(_LONGEST_WAIT_S, 2.0 ** (self.failures - 1)) if self.failures else 0.0
        return max(0.0, self.last_flush + max(interval_s, pause) - now)

    def without_known(self, rows: dict[str, list[tuple[Any, ...]]], now: float) -> dict[str, list[tuple[Any, ...]]]:
        """Without the rows of jobs that were written not long ago."""
        oldest = now - _JOB_ROWS_HOLD_S
        out = {
            name: [r for r in some if self.job_rows.get((name, r), oldest) <= oldest] if name in JOB_TABLES else some
            for name, some in rows.items()
        }
        return {name: some for name, some in out.items() if some}

    def know(self, rows: dict[str, list[tuple[Any, ...]]], now: float) -> None:
        """Rows of jobs were written."""
        for name in JOB_TABLES:
            self.job_rows.update(((name, row), now) for row in rows.get(name, ()))
        if len(self.job_rows) > _MOST_JOBS:
            oldest = now - _JOB_ROWS_HOLD_S
            self.job_rows = {key: at for key, at in self.job_rows.items() if at > oldest}

    def forget(self, job: str) -> None:
        """Drop what waits of a job, and write its rows anew when it commits again."""
        for entry in self.queue:
            entry.rows = {n: [r for r in some if job_of(n, r) != job] for n, some in entry.rows.items()}
        self.queued = sum(e.size for e in self.queue)
        self.job_rows = {key: at for key, at in self.job_rows.items() if job_of(*key) != job}

    def _let_go(self) -> int:
        dropped = 0
        while self.queued > MOST_ROWS and len(self.queue) > 1:
            entry = self.queue.popleft()
            self.queued -= entry.size
            dropped += entry.size
        if dropped:
            self.look_again()
        return dropped
