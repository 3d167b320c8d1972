"""How much one micro-batch reads.

Limits are soft, as in Paimon: what is read whole (a unit) is taken as long as no limit was reached before it, so that
a batch holds at least one and may hold more than a limit by one.

Source: Java `PaimonReadLimits`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from paimon_spark.engine.scan.stream_units import SnapshotUnits
from paimon_spark.options.stream_read import ReadLimits


@dataclass(slots=True)
class Admission:
    """What one micro-batch has taken so far.

    Attributes:
        files, size_bytes, rows: of the units taken; rows are physical ones.
    """

    limits: ReadLimits
    files: int = 0
    size_bytes: int = 0
    rows: int = 0

    @property
    def is_full(self) -> bool:
        """Whether a limit was reached."""
        limits = self.limits
        return (
            (limits.max_files is not None and self.files >= limits.max_files)
            or (limits.max_bytes is not None and self.size_bytes >= limits.max_bytes)
            or (limits.max_rows is not None and self.rows >= limits.max_rows)
        )

    @property
    def has_enough(self) -> bool:
        """Whether nothing is to wait for: there are the rows wanted, or more would not be taken."""
        return self.is_full or self.limits.min_rows is None or self.rows >= self.limits.min_rows

    @property
    def takes_all(self) -> bool:
        """Whether nothing limits what is taken."""
        limits = self.limits
        return limits.max_files is None and limits.max_bytes is None and limits.max_rows is None

    def take(self, units: SnapshotUnits, start: int) -> int:
        """Take units from `start` on; the number of the first one that is not taken."""
        columns = (units.files[start:], units.size_bytes[start:], units.row_counts[start:])
        limits = (self.limits.max_files, self.limits.max_bytes, self.limits.max_rows)
        taken = (self.files, self.size_bytes, self.rows)
        count = len(columns[0])
        totals = [had + np.cumsum(column) for column, had in zip(columns, taken, strict=True)]
        for total, had, limit in zip(totals, taken, limits, strict=True):
            if limit is not None:
                before = np.concatenate([[had], total[:-1]])[: len(total)]
                count = min(count, int((before < limit).sum()))
        if count:
            self.files, self.size_bytes, self.rows = (int(total[count - 1]) for total in totals)
        return start + count
