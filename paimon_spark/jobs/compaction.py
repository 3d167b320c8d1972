"""Table.compact and Table.compact_manifest: here when little is to do, else as a job of the active Spark session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from paimon_spark.engine.commit import compact_manifest as manifests
from paimon_spark.engine.compaction.branch import compact_branch
from paimon_spark.engine.compaction.run import CompactResult, run_here
from paimon_spark.engine.compaction.task import BucketTask
from paimon_spark.engine.tasks.commit_message import CommitMessage
from paimon_spark.errors import InvalidInputError
from paimon_spark.format.snapshot import Snapshot
from paimon_spark.jobs.after_commit import after_commit
from paimon_spark.jobs.chosen_partitions import Asked, chosen_partitions
from paimon_spark.jobs.opened_table import refuse_version
from paimon_spark.jobs.to_change import open_to_change
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.options.commit import WRITE_ONLY
from paimon_spark.spark_port import active_spark_jobs

if TYPE_CHECKING:
    from paimon_spark.jobs.opened_table import OpenedTable

HERE_BYTES: Final = 256 << 20
"""Data files of fewer bytes are compacted before a Spark job of many tasks would have begun to work well."""


def compact(table: OpenedTable, full: bool, partitions: Asked | None, where: str | None) -> CompactResult:
    """As `Table.compact`."""
    if not isinstance(full, bool):
        raise InvalidInputError(f"full = {full!r}: expected True or False", argument="full")
    handle = _current(table)
    specs, predicate = chosen_partitions(handle, partitions, where, table.read_options.time_zone)
    result = compact_branch(handle, full=full, partitions=specs, where=predicate, runner=run_anywhere)
    after_commit(handle, result.snapshot_ids)
    return result


def compact_fully(handle: TableHandle) -> CompactResult:
    """Compact a branch fully, in Spark where that is worth it. Raises as `Table.compact`."""
    return compact_branch(handle, full=True, runner=run_anywhere)


def compact_manifest(table: OpenedTable) -> Snapshot | None:
    """As `Table.compact_manifest`."""
    return manifests.compact_manifest(_current(table))


def _current(table: OpenedTable) -> TableHandle:
    refuse_version(table)
    handle = table.handle
    # Where writes leave maintenance to others, this is one of the others.
    overrides = {**handle.overrides, WRITE_ONLY.key: "false"}
    return open_to_change(handle.store, handle.layout.root, handle.branch, handle.name, overrides)


def run_anywhere(
    handle: TableHandle, snapshot: Snapshot, tasks: Sequence[BucketTask], commit_user: str
) -> Sequence[CommitMessage | None]:
    """Run tasks here when there are few bytes or no session, else as a Spark job. A `Runner`."""
    spark = active_spark_jobs() if len(tasks) > 1 and sum(t.input_bytes for t in tasks) >= HERE_BYTES else None
    if spark is None:
        return run_here(handle, snapshot, tasks, commit_user)
    return spark.run_tasks(handle, snapshot, tasks, commit_user)
