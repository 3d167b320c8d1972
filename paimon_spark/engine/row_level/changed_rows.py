"""Write the new rows of an UPDATE or MERGE; changed rows keep their row ids."""

from __future__ import annotations

import pyarrow as pa

from paimon_spark.engine.tasks.commit_message import CommitMessage
from paimon_spark.engine.write.request import WriteRequest
from paimon_spark.engine.write.table_writer import TableWriter


class ChangedRows:
    """Writes the new rows of one task. Executor; not safe for threads.

    Inserted rows get new ids; changed rows of tables that track rows keep theirs, so they go to files of their own.
    """

    def __init__(self, request: WriteRequest) -> None:
        self._request = request
        self._writers: dict[bool, TableWriter] = {}

    def write(self, rows: pa.RecordBatch, *, keeps_row_ids: bool = False) -> None:
        """Write rows as `TableWriter` takes them. Raises as `TableWriter.write`; then call `abort`."""
        if not rows.num_rows:
            return
        writer = self._writers.get(keeps_row_ids)
        if writer is None:
            writer = TableWriter(self._request, rows.schema, keeps_row_ids=keeps_row_ids)
            self._writers[keeps_row_ids] = writer
        writer.write(rows)

    def close(self) -> list[CommitMessage]:
        """Finish all files. Raises as `write`."""
        return [m for writer in self._writers.values() for m in writer.close()]

    def abort(self) -> None:
        """Remove every file made, including those of messages already returned. Raises nothing."""
        for writer in self._writers.values():
            writer.abort()
