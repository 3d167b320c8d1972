"""Incremental clustering: levels of sorted files, of which a compaction sorts some anew.

A file of level 0 is a run of its own, as are the files of each higher level together. The runs that universal
compaction picks by their sizes are sorted together into one level, so that a row is sorted again only as often as its
partition grows by a factor.

Source: Java `append/cluster/IncrementalClusterManager`, `IncrementalClusterStrategy`, `CoreOptions.clusteringStrategy`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from paimon_spark.engine.compaction.append import Vectors
from paimon_spark.engine.compaction.pick import Moment, Unit, last_level, pick_universal, sorted_runs
from paimon_spark.engine.compaction.sorting import SortOrder, check_order
from paimon_spark.engine.compaction.task import Bucket, BucketTask
from paimon_spark.engine.write.request import check_file_schemas
from paimon_spark.errors import InvalidOptionError
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.schemas import schemas_by_id
from paimon_spark.options.compaction import CLUSTERING_COLUMNS, CLUSTERS, CompactionOptions, SortStrategy

_CURVE_COLUMNS: Final = 5
"""From so many columns on, the strategy `auto` is the Hilbert curve."""


def clustering_order(handle: TableHandle) -> SortOrder:
    """The order of the rows of a table with incremental clustering.

    Raises InvalidOptionError: no columns are named; others as `check_order`.
    """
    options = handle.options.append_compaction
    columns, strategy = options.clustering_columns, options.clustering
    if not columns:
        raise InvalidOptionError(
            f"{handle.describe()} has {CLUSTERS.key} without {CLUSTERING_COLUMNS.key}; name the columns to sort by",
            option=CLUSTERING_COLUMNS.key,
        )
    if strategy is None:
        curve = SortStrategy.ZORDER if len(columns) < _CURVE_COLUMNS else SortStrategy.HILBERT
        strategy = SortStrategy.ORDER if len(columns) == 1 else curve
    order = SortOrder(columns, strategy)
    check_order(handle, order)
    return order


def cluster_tasks(handle: TableHandle, buckets: Iterable[Bucket], vectors: Vectors, *, full: bool) -> list[BucketTask]:
    """A task for each partition with runs that are worth sorting together; with `full`, all of its files.

    Args:
        handle: the branch, with its latest schema.
        buckets: with all live files of their snapshot.
        vectors: of the same snapshot.
        full: also what is not worth it yet; not what is one sorted level already.

    Raises CommitConflictError: files are of a newer schema than the handle's.
    """
    out, options = [], _of_sizes(handle.options.compaction)
    for bucket in buckets:
        check_file_schemas(handle, max(f.schema_id for f in bucket.files), "its compaction was planned")
        last = last_level(bucket.files, handle.options.num_levels)
        unit = _pick_full(handle, bucket, last) if full else pick_universal(bucket.files, last, options, Moment(0, 0))
        if unit is None:
            continue
        files = tuple(bucket.files[n] for n in unit.files)
        names = {f.file_name for f in files}
        index = tuple(
            entry
            for entry in vectors.get((bucket.partition, bucket.bucket), ())
            if any(vector.data_file_name in names for vector in entry.deletion_vectors or ())
        )
        level = Unit(tuple(range(len(files))), unit.level)
        out.append(BucketTask(bucket.partition, bucket.bucket, bucket.total_buckets, files, index, level))
    return out


def _of_sizes(options: CompactionOptions) -> CompactionOptions:
    """The options without early and forced compactions, which are those of tables with keys."""
    return replace(
        options,
        optimization_interval_ms=None,
        total_size_threshold=None,
        incremental_size_threshold=None,
        offpeak_hours=None,
        force_up_level0=False,
    )


def _pick_full(handle: TableHandle, bucket: Bucket, last: int) -> Unit | None:
    """All files, into the level `last`; None for one run there that was sorted by the same columns."""
    if len(sorted_runs(bucket.files)) == 1 and bucket.files[0].level == last:
        schema_id = bucket.files[0].schema_id
        options = schemas_by_id(handle, {schema_id})[schema_id].options
        if CLUSTERING_COLUMNS.get(options) == handle.options.append_compaction.clustering_columns:
            return None
    return Unit(tuple(range(len(bucket.files))), last)
