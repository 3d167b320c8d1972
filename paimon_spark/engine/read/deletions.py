"""Deletion vectors over the rows of a data file.

Source: Paimon spec, chapter Table Index (Deletion Vectors Index); Java `deletionvectors/ApplyDeletionVectorReader`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from paimon_spark.engine.tasks.split import DeletionFile
from paimon_spark.errors import CorruptFileError, FileMissingError
from paimon_spark.format.metadata_files import deletion_vector
from paimon_spark.storage.store import Store

Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def deleted_positions(store: Store, deletion: DeletionFile, row_count: int) -> Positions:
    """Positions of the deleted rows in a data file of `row_count` rows, ascending.

    Raises:
        CorruptFileError: the vector is missing, damaged, or not of as many rows as recorded.
    """
    url = store.url(deletion.path)
    try:
        data = store.read_range(deletion.path, deletion.offset, deletion.length + deletion_vector.FRAME_BYTES)
    except FileMissingError as e:
        raise CorruptFileError(
            f"deletion vector file {url} is missing, though the snapshot being read refers to it", path=url
        ) from e
    positions = deletion_vector.decode(data, url, length=deletion.length, row_count=row_count)
    if deletion.cardinality is not None and len(positions) != deletion.cardinality:
        raise CorruptFileError(
            f"the deletion vector at byte {deletion.offset} of {url} deletes {len(positions)} rows, "
            f"the index manifest says {deletion.cardinality}",
            path=url,
        )
    return positions


def kept_rows(deleted: Positions, first: int, count: int) -> Mask | None:
    """Which of the `count` rows from position `first` are kept; None when all are."""
    low, high = np.searchsorted(deleted, (first, first + count))
    if low == high:
        return None
    mask = np.ones(count, np.bool_)
    mask[deleted[low:high] - first] = False
    return mask
