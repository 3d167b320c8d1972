"""What a writer of one bucket is, to the router."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from paimon_spark.engine.tasks.commit_message import Increment


class BucketWriter(Protocol):
    """Writes rows of one bucket. Not safe for threads."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows: all columns of the table in schema order and canonical types.

        With keys a last column `_VALUE_KIND` (int8) follows when any row of the write may not be +I.
        """
        ...

    @property
    def buffered_bytes(self) -> int:
        """Memory that `release` would give back."""
        ...

    def release(self) -> None:
        """Put buffered rows into files, of the table or aside."""
        ...

    def close(self) -> Increment:
        """Write what is left; afterwards only `abort` may be called."""
        ...

    def abort(self) -> None:
        """Remove every file made, open or finished. Raises nothing."""
        ...
