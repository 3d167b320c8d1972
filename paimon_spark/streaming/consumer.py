"""Progress of a stream in its consumer file, which keeps unread snapshots (`consumer-id`).

A stream that starts with a full state marks that in its consumer: a query that dies before its first batch is in the
checkpoint starts again, and must read the state then. A stream that compares each snapshot with the one before keeps
that one too.

Source: Java `consumer/ConsumerManager`, `DataTableStreamScan.notifyCheckpointComplete`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from paimon_spark.maintenance.consumers import Consumer, LastRead, find_consumer, write_consumer
from paimon_spark.maintenance.expiry import CHANGELOG_EXPIRY, SNAPSHOT_EXPIRY
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.lock import find_lock
from paimon_spark.streaming.history import find_kept
from paimon_spark.streaming.offset import Phase, StreamOffset

_LONGEST_MS: Final = 3_600_000
"""An idle consumer is written again at least this often, as its age is that of its file."""
_EXPIRY: Final = (SNAPSHOT_EXPIRY, CHANGELOG_EXPIRY)
_LONGEST_WAIT_MS: Final = 60_000
_WAIT_S: Final = 0.05


def needed(name: str, offset: StreamOffset, *, compares: bool = False) -> Consumer:
    """The consumer of a stream that has read up to an offset; it keeps a snapshot that is partly unread.

    With `compares`, changes are computed from the previous snapshot, which is kept too.
    """
    read = offset.snapshot_id or 0
    last = LastRead(read, offset.made, offset.rows) if read and offset.made is not None else None
    if offset.part is not None and offset.part.phase is Phase.STATE:
        return Consumer(name, read, in_state=True, last=last)
    reads_next = read + 1 if offset.part is None else read
    if compares and reads_next > 1:
        return Consumer(name, reads_next - 1, has_read=True, last=last)
    return Consumer(name, reads_next, offset.snapshot_id is None and offset.begins_with is Phase.STATE, last=last)


@dataclass(slots=True)
class ConsumerProgress:
    """Writes the file of one consumer; `compares` as in `needed`."""

    name: str
    clock_ms: Callable[[], int]
    sleep: Callable[[float], None] = time.sleep
    compares: bool = False
    _written: tuple[str, Consumer] | None = None
    _at_ms: int = 0

    def write(self, handle: TableHandle, offset: StreamOffset) -> None:
        """Let everything up to the offset expire, and nothing after it. Skips the write when nothing changed."""
        consumer = self._needed(offset)
        if self._written != (handle.layout.consumer_dir, consumer) or self._is_old(handle):
            self._put(handle, consumer)

    def begin(self, handle: TableHandle, offset: StreamOffset) -> None:
        """Write the consumer before anything is read, and wait for a running expiry that may not have seen it.

        The caller checks afterwards that the needed snapshots still exist. A consumer with an earlier snapshot stays
        until batches are complete: Spark asks for the first offset again when the first batch runs, and after a
        restart, and that batch still reads from the first answer.
        """
        consumer, found = self._needed(offset), find_consumer(handle, self.name)
        is_earlier = found is not None and found.next_snapshot < consumer.next_snapshot
        if found is not None and is_earlier and find_kept(handle, found.next_snapshot) is not None:
            consumer = found
        self._put(handle, consumer)
        until_ms = self.clock_ms() + _LONGEST_WAIT_MS
        first = find_lock(handle)
        lock = first
        while lock is not None and lock == first and lock.kind in _EXPIRY and self.clock_ms() < until_ms:
            self.sleep(_WAIT_S)
            lock = find_lock(handle)

    def refresh(self, handle: TableHandle, start: StreamOffset) -> None:
        """Keep the consumer from expiring while there is nothing to read, and restore it after a pause.

        A consumer before `start`, up to which the query has read for certain, stays until its batches are complete.
        """
        if self._written is not None and self._written[0] == handle.layout.consumer_dir:
            if self._is_old(handle):
                self._put(handle, self._written[1])
            return
        consumer, found = self._needed(start), find_consumer(handle, self.name)
        is_behind = found is not None and found.next_snapshot < consumer.next_snapshot
        self._put(handle, found if is_behind and found is not None else consumer)

    def _needed(self, offset: StreamOffset) -> Consumer:
        return needed(self.name, offset, compares=self.compares)

    def _put(self, handle: TableHandle, consumer: Consumer) -> None:
        write_consumer(handle, consumer)
        self._written, self._at_ms = (handle.layout.consumer_dir, consumer), self.clock_ms()

    def _is_old(self, handle: TableHandle) -> bool:
        life = handle.options.expiry.consumer_expiration_ms
        interval = _LONGEST_MS if life is None else min(life // 4, _LONGEST_MS)
        # After the clock was set back, the age of the file is unknown.
        return not 0 <= self.clock_ms() - self._at_ms < interval
