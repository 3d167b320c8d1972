"""Compaction as methods of Table. Only forwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from paimon_spark.metadata.handle import TableHandle

if TYPE_CHECKING:
    from paimon_spark.api.table import Table
    from paimon_spark.engine.compaction.run import CompactResult
    from paimon_spark.format.metadata_files.snapshot import Snapshot
    from paimon_spark.jobs.partition_specs import Asked


class CompactionVerbs:
    """What `Table` inherits."""

    __slots__ = ()

    handle: TableHandle

    def compact(
        self, full: bool = False, *, partitions: Asked | None = None, where: str | None = None
    ) -> CompactResult:
        """Make files of the branch fewer without changing its rows: one snapshot of kind COMPACT, or none.

        Small jobs run in this process, others as a job of the active Spark session, classic or Connect. Option
        `write-only` keeps writes from compacting, not this call. Other branches and their files stay as they are.

        Args:
            full: tables with keys: merge everything into one sorted run; others: rewrite every small file, and every
                file with deleted rows. Otherwise only what Paimon finds worth it by now.
            partitions: only these, by values of all or some partition columns: a mapping, text such as
                `dt=2024-01-01,hr=5;dt=2024-01-02`, or a list of them.
            where: only partitions for which this SQL condition, over partition columns, is true.

        Returns:
            What went, what came, and the snapshot that holds the compacted state.

        Raises:
            InvalidInputError: the choice of partitions is wrong, or the table was opened at a version.
            UnsupportedFeatureError: the table has something that would be compacted wrongly.
            CommitConflictError, CommitRetriesExhaustedError: others changed the same files every time. Nothing changed.
            CommitOutcomeUnknownError: the store stopped answering at the decisive moment.
        """
        from paimon_spark.jobs.compaction import compact

        return compact(cast("Table", self), full, partitions, where)

    def compact_manifest(self) -> Snapshot | None:
        """Put the branch's list of files into as few manifests as can be, by a snapshot that changes nothing else.

        Returns:
            That snapshot; None when there was nothing to do.

        Raises:
            InvalidInputError: the table was opened at a version.
            CommitRetriesExhaustedError: others were faster every time. Nothing changed.
            CommitOutcomeUnknownError: the store stopped answering at the decisive moment.
        """
        from paimon_spark.jobs.compaction import compact_manifest

        return compact_manifest(cast("Table", self))
