"""Statistics that ANALYZE stored with a snapshot."""

from __future__ import annotations

from paimon_spark.format.metadata_files.statistics import Statistics
from paimon_spark.jobs.read.scan import Scan
from paimon_spark.metadata.snapshots import read_statistics


def statistics_of(scan: Scan) -> Statistics | None:
    """Statistics of ANALYZE for the snapshot of a scan, or for one before it; None without any.

    Raises: as `Scan.plan`; CorruptFileError or FileMissingError for the statistics file.
    """
    snapshot = scan.plan().snapshot
    if snapshot is None or scan.options.incremental is not None:
        return None
    return read_statistics(scan.handle, snapshot)  # branches share the folder of statistics
