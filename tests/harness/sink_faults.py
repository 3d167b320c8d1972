"""A batch whose commit fails at a given call of the store, and is then written again by another process."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Final

import paimon_spark
from paimon_spark.errors import PaimonError
from paimon_spark.maintenance.orphan_files import remove_orphan_files
from tests.harness.fault_store import Call, Fault, FaultStore
from tests.harness.sinks import KINDS, batch, batches_of, ids, left_over, plan, rows_of, through, write

HOW: Final = {
    "fails": Fault(0, retryable=False),
    "fails-for-now": Fault(0),
    "says-no-and-does": Fault(0, after=True, retryable=False),
    "answer-is-lost": Fault(0, after=True),
    "store-goes-away": Fault(0, forever=True, retryable=False),
    "store-goes-away-with-the-answer": Fault(0, after=True, forever=True, retryable=False),
}
QUICK: Final = {"commit.max-retries": "2", "commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "1 ms"}
TASKS: Final = rows_of(1, 2), rows_of(3)


class FailingSink:
    """A table with one batch, and a second one that is tried on copies of it."""

    def __init__(self, directory: Path, kind: str, complete: bool) -> None:
        self._directory, self._complete, self._copies = directory, complete, 0
        batch(directory / "first", 0, rows_of(0), complete=complete, **KINDS[kind], **QUICK)

    def calls(self) -> int:
        """How many calls the second batch's commit makes."""
        path, failed, calls = self._try(None)
        assert failed is None
        shutil.rmtree(path)
        return len(calls)

    def check(self, how: str, at: int) -> None:
        """Let the commit fail at a call; written again, the batch is there once, and no file is left over."""
        given = HOW[how]
        fault = Fault(at, given.after, given.forever, given.retryable)
        path, failed, calls = self._try(fault)
        sink = plan(path, complete=self._complete, **QUICK)
        result = sink.commit(write(sink, 1, *TASKS), 1)
        assert result.was_committed or failed is not None, fault
        assert ids(path) == ([1, 2, 3] if self._complete else [0, 1, 2, 3]), fault
        assert batches_of(path) == [0, 1], fault
        # What a process could not delete any more, before it died or as the store refused, orphan removal finds.
        if fault.forever or any(call.verb.startswith("delete") for call in calls):
            remove_orphan_files(paimon_spark.load_table(str(path)).handle, 2**60, clock_ms=lambda: 2**61)
        assert left_over(path) == [], (fault, calls, failed)
        shutil.rmtree(path)

    def _try(self, fault: Fault | None) -> tuple[Path, PaimonError | None, list[Call]]:
        """A copy of the table, what its commit raised, and the calls that failed; without a fault all calls."""
        self._copies += 1
        path = self._directory / str(self._copies)
        shutil.copytree(self._directory / "first", path)
        sink = plan(path, complete=self._complete, **QUICK)
        rows = write(sink, 1, *TASKS)
        store = FaultStore(sink.handle.store)
        failed: PaimonError | None = None
        with store.failing(fault) if fault is not None else nullcontext() as calls:
            try:
                through(sink, store).commit(rows, 1)
            except PaimonError as e:
                failed = e
        return path, failed, store.calls if calls is None else calls
