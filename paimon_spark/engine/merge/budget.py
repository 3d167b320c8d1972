"""Memory of a merge: rows in a window, and sorted runs whose files stay open."""

from __future__ import annotations

from collections.abc import Sequence

from paimon_spark.format.metadata_files.data_file import DataFileMeta

RUN_ROWS = 32768
"""Rows of a run that a window holds at most; more is not faster."""
WINDOW_BYTES = 96 << 20
"""Decoded bytes of a window: rows are estimated from file sizes, and no more are taken once they have so many."""
MOST_OPEN = 16
"""Runs whose files stay open during a merge; each costs pages and dictionaries of all its columns."""
_LEAST_ROWS = 512
_EXPANSION = 4
"""How much larger rows are decoded than in files; a cautious estimate."""


def decoded_row_bytes(files: Sequence[DataFileMeta]) -> int:
    """Bytes of a decoded row of the files, estimated."""
    return max(16, _EXPANSION * sum(f.file_size for f in files) // max(1, sum(f.row_count for f in files)))


def window_rows(row_bytes: int, run_count: int) -> int:
    """Rows per run and window so that all runs together stay within the memory budget."""
    return max(_LEAST_ROWS, min(WINDOW_BYTES // row_bytes // max(1, run_count), RUN_ROWS))


def runs_to_spill(row_counts: Sequence[int]) -> frozenset[int]:
    """Numbers of the smallest runs, which are spilled one after the other where there are too many to keep open."""
    by_size = sorted(range(len(row_counts)), key=row_counts.__getitem__)
    return frozenset(by_size[: max(0, len(by_size) - MOST_OPEN)])
