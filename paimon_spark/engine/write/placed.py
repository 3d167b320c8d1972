"""Placed: the rows of a batch and where they go."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

I64 = npt.NDArray[np.int64]


class Placed(NamedTuple):
    """Rows to write, and where.

    Attributes:
        batch: the rows; others than came in where keys move between partitions.
        partitions: partition number of each; one number when all are alike.
        buckets: bucket of each; one number when all are alike.
    """

    batch: pa.RecordBatch
    partitions: I64 | int
    buckets: I64 | int
