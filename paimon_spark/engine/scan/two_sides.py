"""Splits of two sides: files of before, and files of after, of the same keys."""

from __future__ import annotations

from collections.abc import Iterator

from paimon_spark.engine.scan.deletions import Deletions
from paimon_spark.engine.scan.prune import Selection
from paimon_spark.engine.scan.splits import file_metas
from paimon_spark.engine.scan.units import MODES, Units
from paimon_spark.engine.tasks.split import DataSplit
from paimon_spark.format.arrays.arrow_numpy import Bool, values
from paimon_spark.metadata.handle import TableHandle


def two_sided_splits(
    handle: TableHandle,
    selection: Selection,
    units: Units,
    after: Bool,
    deletions: tuple[Deletions, Deletions],
    snapshot_id: int,
) -> Iterator[DataSplit]:
    """A split for each unit, in their order.

    Args:
        handle: the table.
        selection: files of both sides.
        units: which of them belong together.
        after: for each file of the selection, whether it is of the later side.
        deletions: deletion vectors of the earlier side, and of the later one.
        snapshot_id: what the splits are planned from.
    """
    if not len(units):
        return
    files = file_metas(selection.entries, units.files, keys=True)
    later = after[units.files].tolist()
    codes = selection.partitions.codes[units.files].tolist()
    buckets, totals = (
        values(selection.entries.column(name))[units.files].tolist() for name in ("bucket", "total_buckets")
    )
    starts = units.starts.tolist()
    directories = selection.partitions.directories
    for start, end, mode in zip(starts, [*starts[1:], len(files)], units.modes.tolist(), strict=True):
        partition, bucket = selection.partitions.row_bytes[codes[start]], buckets[start]
        sides = [tuple(files[i] for i in range(start, end) if later[i] == side) for side in (False, True)]
        vectors = [deletions[i].of(partition, bucket, sides[i]) for i in (0, 1)]
        yield DataSplit(
            handle.branch,
            snapshot_id,
            partition,
            bucket,
            directories.bucket_path(partition, bucket),
            MODES[mode],
            sides[1],
            vectors[1],
            sides[0],
            vectors[0],
            totals[start],
            directories.elsewhere(partition, bucket, (f.file_name for side in sides for f in side)),
        )
