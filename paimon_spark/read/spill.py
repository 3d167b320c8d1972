"""Batches put aside on local disk: a stream that costs memory while it is open is drained and read back cheaply.

Source: Java `mergetree/MergeSorter`, which spills for the same reason.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from paimon_spark.errors import StorageError


def spilled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same batches, out of a temporary file that all of them are written to before the first is given out.

    The file is in the folder for temporary files (`TMPDIR`) and vanishes with the iterator.

    Raises:
        StorageError: there is no room for it.
    """
    first = next(batches, None)
    if first is None:
        return
    with tempfile.TemporaryFile(prefix="paimon-merge-") as file:
        with _room():
            writer = pa.ipc.new_stream(file, first.schema)
            writer.write_batch(first)
        del first
        for batch in batches:
            with _room():
                writer.write_batch(batch)
        with _room():
            writer.close()
            file.seek(0)
        with pa.ipc.open_stream(file) as reader:
            yield from reader


@contextmanager
def _room() -> Iterator[None]:
    try:
        yield
    except OSError as e:
        raise StorageError(
            f"a sorted run of a merge could not be put aside in {tempfile.gettempdir()}: {e}; set TMPDIR to a folder "
            "with room for the decoded columns, or have the table compacted"
        ) from e
