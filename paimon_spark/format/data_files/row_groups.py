"""Rows kept until they fill a row group, whatever size the batches come in."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa


class RowGroups:
    """Gathers batches and hands them on, as a table and the rows that each of its row groups shall have."""

    def __init__(
        self, schema: pa.Schema, most_bytes: int, most_rows: int, emit: Callable[[pa.Table, int], None]
    ) -> None:
        self._schema = schema
        self._most_bytes = max(most_bytes, 1)
        self._most_rows = max(most_rows, 1)
        self._emit = emit
        self._batches: list[pa.RecordBatch] = []
        self.rows = 0
        self.bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows, and emit what is there once it fills a row group."""
        if not batch.num_rows:
            return
        self._batches.append(batch)
        self.rows += batch.num_rows
        self.bytes += batch.nbytes
        if self.bytes >= self._most_bytes or self.rows >= self._most_rows:
            self.flush()

    def flush(self) -> None:
        """Emit what is there, in as many row groups of equal size as come nearest to the limits."""
        if not self._batches:
            return
        table = pa.Table.from_batches(self._batches, self._schema)
        groups = max(1, round(self.bytes / self._most_bytes), round(self.rows / self._most_rows))
        each = -(-self.rows // groups)
        self._batches, self.rows, self.bytes = [], 0, 0
        self._emit(table, each)

    def clear(self) -> None:
        """Forget what is there."""
        self._batches, self.rows, self.bytes = [], 0, 0
