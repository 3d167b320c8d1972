"""Compaction, expiry, clean-up and inspection, as methods of Table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, overload

from paimon_spark.display import ShownList
from paimon_spark.errors import InvalidInputError
from paimon_spark.jobs.branch_access import at_head, head_to_read, older_than_ms, reopen_at_head, reopen_to_read
from paimon_spark.jobs.opened_table import OpenedTable, on_branch
from paimon_spark.metadata.handle import open_branch
from paimon_spark.metadata.layout import MAIN

if TYPE_CHECKING:
    from paimon_spark.engine.compaction.task import CompactResult
    from paimon_spark.format.metadata_files.snapshot import Snapshot
    from paimon_spark.jobs.maintain import DroppedPartitions
    from paimon_spark.jobs.partition_specs import Asked
    from paimon_spark.jobs.row_diff import RowDiff
    from paimon_spark.maintenance.consumers import Consumer
    from paimon_spark.maintenance.orphan_files import RemovedOrphans
    from paimon_spark.maintenance.partitions import ExpiredPartitions
    from paimon_spark.maintenance.removal import Removed
    from paimon_spark.metadata.version import Cutoff
    from paimon_spark.versioning.damage import Finding
    from paimon_spark.versioning.diff import Diff
    from paimon_spark.versioning.log import History
    from paimon_spark.versioning.status import TableStatus


class TableMaintenance(OpenedTable):
    """Methods of `Table` for compaction, expiry, clean-up and inspection."""

    __slots__ = ()

    def compact(
        self,
        full: bool = False,
        *,
        partitions: Asked | None = None,
        where: str | None = None,
        order_by: str | Sequence[str] | None = None,
        order_strategy: str | None = None,
    ) -> CompactResult:
        """Rewrite small files of the branch into fewer: one snapshot of kind COMPACT, or none. Rows stay the same.

        With `order_by` every file is rewritten, of tables without keys and buckets, and the rows of each partition are
        put in order, so that queries with conditions on these columns read fewer files.

        Small jobs run in this process, others as a job of the active Spark session, classic or Connect. Option
        `write-only` keeps writes from compacting, not this call. Other branches and their files stay as they are.

        Args:
            full: tables with keys: merge everything into one sorted run; others: rewrite every small file, and every
                file with deleted rows. Otherwise only the files that Paimon would pick.
            partitions: only these, by values of all or some partition columns: a mapping, text such as
                `dt=2024-01-01,hr=5;dt=2024-01-02`, or a list of them.
            where: only partitions for which this SQL condition, over partition columns, is true.
            order_by: columns; a list, or text with commas between.
            order_strategy: `order`, the default: by one column after the other; `zorder` or `hilbert`: along a curve on
                which conditions on each of the columns save about as much.

        Returns:
            The files removed and added, and the snapshot of the compacted state.

        Raises:
            InvalidInputError: the choice of partitions is wrong, or the table was opened at a version.
            UnsupportedFeatureError: the table has a feature that cannot be compacted here.
            CommitConflictError, CommitRetriesExhaustedError: other commits changed the same files. Nothing changed.
            CommitOutcomeUnknownError: the store failed during the commit, which may have succeeded.
        """
        from paimon_spark.jobs.maintain import compact

        return compact(self, full, partitions, where, order_by, order_strategy)

    def rescale(
        self, buckets: int | None = None, *, partitions: Asked | None = None, where: str | None = None
    ) -> CompactResult:
        """Put the rows of the branch, or of some partitions, into another number of buckets, by one snapshot.

        Rows stay the same, and tables with keys are compacted fully by it. Option `bucket` stays as it is: change it
        before with `ALTER TABLE … SET TBLPROPERTIES ('bucket' = '8')`, and leave `buckets` out, as a write fails where
        the partition has another number of buckets than the option says. Partitions that have the number already, and
        rows that wait in a postponed bucket, stay as they are.

        Writes of other jobs to these partitions fail while it runs, or make it begin again. Small jobs run in this
        process, others as a job of the active Spark session.

        Args:
            buckets: the new number; default is that of option `bucket`.
            partitions: only these, as for `compact`.
            where: only partitions for which this SQL condition, over partition columns, is true.

        Returns:
            The files removed and added, and the snapshot.

        Raises:
            InvalidInputError: the number or the choice of partitions is wrong, or the table was opened at a version.
            UnsupportedFeatureError: the table has no buckets of a fixed number.
            DataError: rows lie in other buckets than their hash says.
            CommitConflictError, CommitRetriesExhaustedError: other commits changed the partitions. Nothing changed.
            CommitOutcomeUnknownError: the store failed during the commit, which may have succeeded.
        """
        from paimon_spark.jobs.maintain import rescale

        return rescale(self, buckets, partitions, where)

    def compact_manifest(self) -> Snapshot | None:
        """Merge the branch's manifests into as few as possible, by a snapshot that changes nothing else.

        Returns:
            That snapshot; None when there was nothing to do.

        Raises:
            InvalidInputError: the table was opened at a version.
            CommitRetriesExhaustedError: other commits won every attempt. Nothing changed.
            CommitOutcomeUnknownError: the store failed during the commit, which may have succeeded.
        """
        from paimon_spark.jobs.maintain import compact_manifest

        return compact_manifest(self)

    def expire_snapshots(
        self,
        retain_max: int | None = None,
        *,
        retain_min: int | None = None,
        older_than: Cutoff | None = None,
        max_deletes: int | None = None,
        dry_run: bool = False,
    ) -> Removed:
        """Expire old snapshots of the branch, and delete the files that nothing else of the table needs.

        Defaults are the table's options (`snapshot.num-retained.max`, `snapshot.num-retained.min`,
        `snapshot.time-retained`). The head is always kept, and what consumers have yet to read. On main, backup
        branches older than option `branch.backup.time-retained` are deleted too, unless they have consumers, were
        written to, or other branches were created from them. A dry run counts the files of each backup alone.

        Args:
            retain_max: at most this many snapshots are kept, however young.
            retain_min: at least this many of the newest are kept, however old; 1 or more, and not more than
                `retain_max` if only that is given.
            older_than: only snapshots that were replaced before this moment expire: a datetime, epoch
                milliseconds, text such as `2024-01-31 12:30:00`, or an age such as `7 d`.
            max_deletes: at most this many expire; default is no limit (option `snapshot.expire.limit` is for
                expiry after commits).
            dry_run: only return what would be deleted.

        Raises:
            InvalidInputError: the arguments contradict each other, or the table was opened at a version.
        """
        from paimon_spark.jobs.maintain import limits_of
        from paimon_spark.maintenance.expiry import expire_snapshots
        from paimon_spark.versioning.undo import both, expire_backups

        limits = limits_of(self, retain_max, retain_min, older_than, max_deletes)
        handle = reopen_at_head(self)
        expired = expire_snapshots(handle, limits, dry_run=dry_run)
        found = both(expired, expire_backups(handle, dry_run=dry_run))
        return replace(found, older_than_ms=limits.older_than_ms)

    def expire_changelogs(
        self,
        retain_max: int | None = None,
        *,
        retain_min: int | None = None,
        older_than: Cutoff | None = None,
        max_deletes: int | None = None,
        delete_all: bool = False,
        dry_run: bool = False,
    ) -> Removed:
        """Expire old changelogs of expired snapshots, and delete the files that nothing else of the table needs.

        Only tables whose changelogs outlive their snapshots have them (options `changelog.num-retained.max`,
        `changelog.num-retained.min`, `changelog.time-retained`). The newest one is kept, and what consumers have yet
        to read.

        Args:
            retain_max: at most this many changelogs and snapshots together are kept, however young.
            retain_min: at least this many of the newest of both are kept, however old; 1 or more.
            older_than: only changelogs made before this moment expire; as in `expire_snapshots`.
            max_deletes: at most this many expire; default is no limit.
            delete_all: expire all of them, whatever consumers, options and other arguments say.
            dry_run: only return what would be deleted.

        Raises:
            As `expire_snapshots`.
        """
        from paimon_spark.jobs.maintain import limits_of
        from paimon_spark.maintenance.expiry import expire_changelogs

        limits = limits_of(self, retain_max, retain_min, older_than, max_deletes)
        found = expire_changelogs(reopen_at_head(self), limits, delete_all=delete_all, dry_run=dry_run)
        return replace(found, older_than_ms=limits.older_than_ms)

    def drop_partitions(self, partitions: Asked, *, dry_run: bool = False) -> DroppedPartitions:
        """Remove the rows of whole partitions, by one commit. Their files stay while older snapshots need them.

        Args:
            partitions: values by partition column, all columns or some (then all partitions that have them), or text
                such as `dt=2024-01-01,hr=5;dt=2024-01-02`, or several of both. None is null. A missing partition is
                ignored.
            dry_run: only return what would be deleted.

        Raises:
            InvalidInputError: the table has no partitions, or one is named wrongly.
            CommitError: other commits won every attempt, or it is unknown whether the commit succeeded.
        """
        from paimon_spark.jobs.maintain import drop_partitions

        return drop_partitions(self, partitions, dry_run=dry_run)

    def expire_partitions(
        self,
        expiration_time: str | timedelta | None = None,
        *,
        timestamp_formatter: str | None = None,
        timestamp_pattern: str | None = None,
        expire_strategy: str | None = None,
        max_expires: int | None = None,
        dry_run: bool = False,
    ) -> ExpiredPartitions:
        """Drop the branch's old partitions by a commit; earlier snapshots, tags and other branches keep them.

        Defaults are the table's options (`partition.expiration-time` and others).

        Args:
            expiration_time: age at which a partition goes, as in `30 d`.
            timestamp_formatter: how times are written in partitions: a pattern of Java's DateTimeFormatter.
            timestamp_pattern: how columns make a time, as in `$year-$month-$day`; default is the first column.
            expire_strategy: `values-time`, the time that the values name, or `update-time`, that of the newest file.
            max_expires: at most this many are dropped.
            dry_run: only return what would be deleted.

        Raises:
            InvalidInputError: the table has no partitions, no age is known, or the table was opened at a version.
            InvalidOptionError: an argument cannot be understood.
            CommitError: other commits won every attempt, or it is unknown whether the commit succeeded.
        """
        from paimon_spark.jobs.maintain import expiration_options
        from paimon_spark.maintenance.partitions import expire_partitions

        options = expiration_options(
            self, expiration_time, timestamp_formatter, timestamp_pattern, expire_strategy, max_expires
        )
        return expire_partitions(reopen_at_head(self, options), dry_run=dry_run)

    def consumers(self) -> list[Consumer]:
        """Consumers of the branch, sorted by name, with the snapshot that each reads next.

        Raises:
            CorruptFileError: a consumer's file cannot be read; says what to do.
        """
        from paimon_spark.maintenance.consumers import list_consumers

        handle = reopen_to_read(self)
        return ShownList(list_consumers(handle), f"Consumers of {handle.describe()}")

    def reset_consumer(self, name: str, *, next_snapshot: int | None = None) -> Consumer | None:
        """Set the next snapshot of a consumer of the branch, or remove it. Expiry keeps what it has yet to read.

        Args:
            name: of the consumer; a new one is made when there is none.
            next_snapshot: id of the snapshot to read next; None removes the consumer.

        Raises:
            InvalidInputError: the name is invalid, or the snapshot is not live.
            NotFoundError: there is no such consumer to remove.
        """
        from paimon_spark.maintenance.consumers import reset_consumer

        return reset_consumer(reopen_at_head(self), name, next_snapshot)

    def clear_consumers(self, including: str = ".*", *, excluding: str | None = None) -> tuple[str, ...]:
        """Remove consumers whose whole name matches `including` and not `excluding`; returns their names.

        Raises:
            InvalidInputError: a text is not a regular expression.
        """
        from paimon_spark.maintenance.consumers import clear_consumers

        return clear_consumers(reopen_at_head(self), including, excluding)

    def remove_orphan_files(
        self, older_than: Cutoff | None = None, *, dry_run: bool = False, use_spark: bool = True
    ) -> RemovedOrphans:
        """Delete orphan files: those that no version of any branch names, left behind by failed jobs.

        Where a Spark session is active, its executors list the directories, read the manifests and delete the files of
        large tables.

        Args:
            older_than: only files last changed before this moment, or of this age, such as `2 d`; one day ago if none
                is given. Younger files may belong to running writes.
            dry_run: only return what would be deleted.
            use_spark: whether executors may be used.

        Raises:
            InvalidInputError: the moment is not in the past.
            UnsafeDeletionError, CorruptFileError: what is still needed cannot be determined; nothing was deleted.
        """
        from paimon_spark.maintenance.orphan_files import remove_orphan_files

        before = older_than_ms(self, older_than)
        found = remove_orphan_files(at_head(self), before, dry_run=dry_run, here=not use_spark)
        return replace(found, older_than_ms=before)

    def purge(self, *, dry_run: bool = False) -> Removed:
        """Delete everything but the definition: rows, history, changelogs, tags, consumers and branches.

        One empty snapshot is kept. Orphan files are kept too: see `remove_orphan_files`.

        Args:
            dry_run: only return what would be deleted.

        Raises:
            InvalidInputError: this is a branch, or main falls back on a branch.
        """
        from paimon_spark.maintenance.purge import purge

        return purge(reopen_at_head(self), dry_run=dry_run)

    @overload
    def diff(self, old: str | int, new: str | int | None = None, *, rows: Literal[False] = False) -> Diff: ...

    @overload
    def diff(self, old: str | int, new: str | int | OpenedTable | None = None, *, rows: Literal[True]) -> RowDiff: ...

    def diff(self, old: str | int, new: str | int | OpenedTable | None = None, *, rows: bool = False) -> Diff | RowDiff:
        """Compare two versions: their files by metadata alone, or their rows.

        Rows are compared by primary key, or as multisets where there is none. Files that both versions have are not
        read. Where there is an active Spark session and much to read, a Spark job compares.

        Args:
            old: a version as `at` takes it: a tag, `snapshot.<id>`, `<branch>.<version>`, a snapshot id or a branch.
            new: another one; None is this branch as it is now. With `rows` also another table with columns of the same
                names, at the version that it is opened at.
            rows: compare rows, not files.

        Raises:
            NotFoundError: a version does not exist, or has expired.
            InvalidInputError: the table was opened at a version, or is a system table; the two have no common column.
            SnapshotExpiredError: a version expired while its rows were read.
            UnsupportedFeatureError: a column has a type that cannot be read, or changed to one that its values do not
                fit.
            CorruptFileError: metadata or a file cannot be read.
        """
        if rows:
            from paimon_spark.jobs.row_diff import row_diff

            return row_diff(self, old, new)
        if isinstance(new, OpenedTable):
            raise InvalidInputError("another table is compared by its rows only; pass rows=True")
        from paimon_spark.versioning.compare import compare

        return compare(reopen_to_read(self), str(old), None if new is None else str(new))

    def status(self, *, doctor: bool = False, sizes: bool = False) -> TableStatus:
        """Status of the branch: head, live snapshots, refs, consumers, and what is due.

        Args:
            doctor: also look for problems, as `doctor` does.
            sizes: also what each branch, tag and savepoint alone keeps, as `sizes` does.

        Raises:
            InvalidInputError: the table was opened at a version, or is a system table.
            TableNotFoundError: it no longer exists.
            CorruptFileError: metadata cannot be read.
        """
        from paimon_spark.jobs.rebase_limits import rebase_limits
        from paimon_spark.pipelines.preparation import warning_of
        from paimon_spark.versioning.status import read_status

        handle = reopen_to_read(self)
        status = read_status(handle, with_findings=doctor, with_sizes=sizes)
        is_main = handle.branch == MAIN
        main = handle if is_main else open_branch(handle, MAIN)
        warning = warning_of(main)
        return replace(
            status,
            rebase_limits=rebase_limits(main, None if is_main else handle.branch),
            warnings=() if warning is None else (warning,),
        )

    def history(
        self, limit: int | None = None, *, branch: str | None = None, include_internal: bool = False
    ) -> History:
        """The commits of all branches as a graph, newest first, with their tags and other refs.

        They are sorted by commit time, but a commit always comes before its parent.

        Args:
            limit: at most this many commits, the newest ones; None is all.
            branch: only the commits in the history of this branch; None: those of all branches.
            include_internal: show backup branches too, which keep what main lost.

        Raises:
            InvalidInputError: the table was opened at a version, or is a system table; the limit is not positive.
            BranchNotFoundError: there is no such branch.
            CorruptFileError: a snapshot or tag cannot be decoded.
        """
        from paimon_spark.lineage.index.provenance import JOB
        from paimon_spark.versioning.log import read_log

        if branch is not None:
            on_branch(self, branch)
        return read_log(reopen_to_read(self), limit, branch=branch, include_internal=include_internal, job_property=JOB)

    def doctor(self, *, repair: bool = False, quick: bool = False) -> list[Finding]:
        """Find problems of the table's refs: what other engines left or broke, and what nothing protects from them.

        Reads metadata only: the refs, all manifests that they name, and one listing of each directory. Every file that
        a snapshot, tag or changelog of a branch needs must be there, and have the size that the metadata states. Where
        a Spark session is active, its executors do it for large tables.

        Args:
            repair: repair what can be repaired without loss; the findings say what was.
            quick: do not look at data, changelog and index files, nor at the manifests of old snapshots.

        Raises:
            OperationInProgressError: with `repair`, another process keeps changing tags or branches.
        """
        from paimon_spark.versioning.doctor import Findings, run_doctor

        handle = at_head(self) if repair else head_to_read(self)
        note = "; data files were not looked at" if quick else ""
        return Findings(run_doctor(handle, repair=repair, quick=quick), f"Doctor on table {handle.name}{note}")
