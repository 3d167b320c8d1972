"""Manifests that cannot hold a wanted file, told by their line in the manifest list.

Only what decides alike for an ADD entry and the DELETE entry that may follow it in another manifest is used, so
that no deletion gets lost.

Source: Java `operation/ManifestsReader.filterManifestFileMeta`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.format.arrays.arrow_numpy import Bool
from paimon_spark.format.arrays.python_values import array_of
from paimon_spark.format.binary_row import decode_column
from paimon_spark.format.metadata_files.manifest import ManifestFileMeta
from paimon_spark.predicate.ast import Predicate
from paimon_spark.predicate.stats import ColumnStats, may_match
from paimon_spark.types import RowType


def manifests_wanted(
    metas: Sequence[ManifestFileMeta],
    partition_type: RowType,
    partition_filter: Predicate | None,
    *,
    real_buckets_only: bool,
    lowest_level: int,
) -> Bool:
    """For each manifest, False when none of its files can be wanted.

    Args:
        metas: lines of manifest lists.
        partition_type: the partition columns.
        partition_filter: over partition columns only.
        real_buckets_only: whether files of negative buckets are passed over.
        lowest_level: files of lower levels are passed over.
    """
    wanted = np.ones(len(metas), np.bool_)
    if real_buckets_only:
        wanted &= np.array([m.max_bucket is None or m.max_bucket >= 0 for m in metas], np.bool_)
    if lowest_level > 0:
        wanted &= np.array([m.max_level is None or m.max_level >= lowest_level for m in metas], np.bool_)
    if partition_filter is not None and len(metas):
        entries = np.array([m.num_added_files + m.num_deleted_files for m in metas], np.int64)
        wanted &= may_match(partition_filter, entries, _partition_stats(metas, partition_type)) | (entries <= 0)
    return wanted


def _partition_stats(metas: Sequence[ManifestFileMeta], partition_type: RowType) -> Callable[[str], ColumnStats | None]:
    low = array_of([m.partition_stats.min_values for m in metas], pa.binary())
    high = array_of([m.partition_stats.max_values for m in metas], pa.binary())
    names = partition_type.names

    def stats_of(name: str) -> ColumnStats | None:
        i = names.index(name)
        dtype = partition_type.fields[i].type
        return ColumnStats(
            decode_column(low, i, dtype, exact=False),
            decode_column(high, i, dtype, exact=False),
            _null_counts([m.partition_stats.null_counts for m in metas], i),
        )

    return stats_of


def _null_counts(counts: Sequence[Any], i: int) -> npt.NDArray[np.int64]:
    known = [c[i] if c is not None and i < len(c) and c[i] is not None else -1 for c in counts]
    return np.array(known, np.int64)
