"""Streaming reads in PySpark 4.2 and later, with the read limits of Spark.

Spark passes back what `getDefaultReadLimit` returned, or asks for everything available (`Trigger.Once`). Each of its
limits is one number; where options hold several, the one returned represents all of them.

Source: PySpark `sql/streaming/datasource.py`; `PaimonMicroBatchStream` for the options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from paimon_spark.options.stream_read import ReadLimits, StreamReadOptions
from paimon_spark.spark.stream_read import PaimonStreamReader, reached
from paimon_spark.spark.worker_errors import errors_in_one_line
from paimon_spark.streaming.offset import StreamOffset, decode, encode

if TYPE_CHECKING:
    from paimon_spark.lineage.asking.following import Follower


@errors_in_one_line
class LimitedStreamReader(PaimonStreamReader, SupportsTriggerAvailableNow):
    """A reader whose batches end where Spark's limits say."""

    _ends_here = False
    """Whether the query stops once there is nothing more."""
    _follower: Follower | None = None

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Read limit of the options. Driver."""
        return default_limit(self.stream.options)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The end of the batch that begins at `start`; `start` itself when there is nothing to read yet. Driver."""
        self._ended(start)
        end = reached(start, self._next(decode(start), limit))
        if self._ends_here and end == start and self._recording is not None:
            self._recording.flush()
        return end

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """The newest offset there is, for the progress of the query. Driver."""
        newest = self.stream.source.newest()
        return None if newest is None else encode(newest)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Stop at the newest offset of now. Driver."""
        self._ends_here = True
        follower = self._followed()
        if follower is None:
            self.stream.source.stop_at_newest()
        else:
            follower.stop_at_newest()

    def _next(self, start: StreamOffset, limit: ReadLimit) -> StreamOffset:
        """The end of the batch: where the followed job's batch ended, or what the limits allow."""
        source, follower = self.stream.source, self._followed()
        if follower is None:
            return source.next(start, None if limit == default_limit(self.stream.options) else _limits(limit))
        batch = follower.next_batch(start)
        return start if batch is None else source.next_up_to(start, batch.barrier, batch.snapshot_id)

    def _followed(self) -> Follower | None:
        """The job that the stream keeps in step with; None where it goes alone."""
        job = self.stream.options.follow
        if self._follower is None and job is not None:
            from paimon_spark.lineage.asking.following import follower  # most streams go alone

            self._follower = follower(self.stream.handle, job, self._made_ns)
        return self._follower


def default_limit(asked: StreamReadOptions) -> ReadLimit:
    """Spark's limit that represents those of the options."""
    limits = asked.limits
    if limits.max_rows is not None:
        return ReadMaxRows(limits.max_rows)
    if limits.max_files is not None:
        return ReadMaxFiles(limits.max_files)
    if limits.max_bytes is not None:
        return ReadMaxBytes(limits.max_bytes)
    if limits.min_rows is not None:
        return ReadMinRows(limits.min_rows)
    return ReadAllAvailable() if asked.aligned is None else ReadMinRows(1)


def _limits(limit: ReadLimit) -> ReadLimits:
    """The limits of a limit of Spark's own: today only `ReadAllAvailable`."""
    match limit:
        case ReadMaxRows():
            return ReadLimits(max_rows=limit.max_rows)
        case ReadMaxFiles():
            return ReadLimits(max_files=limit.max_files)
        case ReadMaxBytes():
            return ReadLimits(max_bytes=limit.max_bytes)
    return ReadLimits()
