"""What a stream reads of a snapshot.

Source: Java `table/source/DataTableStreamScan.nextPlan`, `DeltaFollowUpScanner`, `ChangelogFollowUpScanner`.
"""

from __future__ import annotations

from paimon_spark.engine.scan.stream_units import Content
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.options.core import ChangelogProducer
from paimon_spark.options.stream_read import StreamReadOptions


def contents_of(handle: TableHandle, snapshot: Snapshot, asked: StreamReadOptions) -> Content | None:
    """What of a snapshot's changes is read; None when it changed nothing, or nothing that a stream is told.

    Without a changelog the files of APPEND commits are read, with one the changelog files of whatever commit has any.
    Overwrites are passed over unless the read asks for them.
    """
    keyed = bool(handle.schema.primary_keys)
    if snapshot.commit_kind is CommitKind.OVERWRITE:
        if keyed and asked.read_overwrite:
            return Content.OVERWRITE
        if not keyed and asked.read_append_overwrite:
            return Content.DELTA
    if not keyed or handle.options.changelog_producer is ChangelogProducer.NONE:
        return Content.DELTA if snapshot.commit_kind is CommitKind.APPEND else None
    return None if snapshot.changelog_manifest_list is None else Content.CHANGELOG
