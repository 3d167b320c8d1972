"""Expiry and cleaning as methods of Table. Only forwards."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, cast

from paimon_spark.metadata.handle import TableHandle

if TYPE_CHECKING:
    from paimon_spark.api.moments import Moment
    from paimon_spark.api.table import Table
    from paimon_spark.jobs.drop_partitions import DroppedPartitions
    from paimon_spark.jobs.partition_specs import Asked
    from paimon_spark.maintenance.consumers import Consumer
    from paimon_spark.maintenance.orphan_files import RemovedOrphans
    from paimon_spark.maintenance.partitions import ExpiredPartitions
    from paimon_spark.maintenance.removal import Removed


class ExpiryVerbs:
    """What `Table` inherits."""

    __slots__ = ()

    handle: TableHandle

    def expire_snapshots(
        self,
        retain_max: int | None = None,
        *,
        retain_min: int | None = None,
        older_than: Moment | None = None,
        max_deletes: int | None = None,
        dry_run: bool = False,
    ) -> Removed:
        """Let old snapshots of the branch expire, and delete the files that nothing else of the table needs.

        What is not given is as the table's options say (`snapshot.num-retained.max`, `snapshot.num-retained.min`,
        `snapshot.time-retained`). The head always stays, and what consumers have yet to read.

        Args:
            retain_max: snapshots beyond so many expire, however young.
            retain_min: so many of the newest stay, however old; at least 1. Not more than `retain_max` if only that
                is given.
            older_than: snapshots that were the newest one then, or later, stay: a datetime, epoch milliseconds, or
                text such as `2024-01-31 12:30:00`.
            max_deletes: how many may expire at most; default is any number (option `snapshot.expire.limit` is for
                what expires after commits).
            dry_run: only tell what would go.

        Raises:
            InvalidInputError: the arguments contradict each other, or the table was opened at a version.
            UnsafeDeletionError: it cannot be told what is still needed; nothing was deleted.
            OperationInProgressError: another process changes tags or branches all the time.
        """
        from paimon_spark.api.expiry import expire_snapshots, limits_of

        table = cast("Table", self)
        return expire_snapshots(table, limits_of(table, retain_max, retain_min, older_than, max_deletes), dry_run)

    def expire_changelogs(
        self,
        retain_max: int | None = None,
        *,
        retain_min: int | None = None,
        older_than: Moment | None = None,
        max_deletes: int | None = None,
        delete_all: bool = False,
        dry_run: bool = False,
    ) -> Removed:
        """Let old changelogs of expired snapshots expire, and delete the files that nothing else of the table needs.

        Tables have such where changelogs are to outlive their snapshots (options `changelog.num-retained.max`,
        `changelog.num-retained.min`, `changelog.time-retained`). The newest one stays, and what consumers have yet to
        read.

        Args:
            retain_max: changelogs expire where they and the snapshots are more than so many, however young.
            retain_min: so many of the newest of both stay, however old; at least 1.
            older_than: changelogs made then, or later, stay; as in `expire_snapshots`.
            max_deletes: how many may expire at most; default is any number.
            delete_all: all of them go, whatever consumers, options and arguments say.
            dry_run: only tell what would go.

        Raises:
            As `expire_snapshots`.
        """
        from paimon_spark.api.expiry import expire_changelogs, limits_of

        table = cast("Table", self)
        limits = limits_of(table, retain_max, retain_min, older_than, max_deletes)
        return expire_changelogs(table, limits, delete_all, dry_run)

    def drop_partitions(self, partitions: Asked, *, dry_run: bool = False) -> DroppedPartitions:
        """Remove the rows of whole partitions, by one commit. Their files stay while older snapshots need them.

        Args:
            partitions: values by partition column, all columns or some (then all partitions that have them), or text
                such as `dt=2024-01-01,hr=5;dt=2024-01-02`, or several of both. None is null. One that is not there is
                passed over.
            dry_run: only tell what would go.

        Raises:
            InvalidInputError: the table has no partitions, or one is named wrongly.
            CommitError: others were faster every time, or it is unknown whether the commit landed.
        """
        from paimon_spark.jobs.drop_partitions import drop_partitions

        return drop_partitions(cast("Table", self), partitions, dry_run=dry_run)

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
        """Drop the branch's old partitions, by a commit: earlier snapshots, tags and other branches still have them.

        What is not given is as the table's options say (`partition.expiration-time` and others).

        Args:
            expiration_time: age at which a partition goes, as in `30 d`.
            timestamp_formatter: how times are written in partitions: a pattern of Java's DateTimeFormatter.
            timestamp_pattern: how columns make a time, as in `$year-$month-$day`; default is the first column.
            expire_strategy: `values-time`, the time that the values name, or `update-time`, that of the newest file.
            max_expires: how many may go at most.
            dry_run: only tell what would go.

        Raises:
            InvalidInputError: the table has no partitions, no age is known, or the table was opened at a version.
            InvalidOptionError: an argument cannot be understood.
            CommitError: others were faster every time, or it is unknown whether the commit landed.
        """
        from paimon_spark.api.expiry import expire_partitions

        return expire_partitions(
            cast("Table", self),
            expiration_time,
            timestamp_formatter,
            timestamp_pattern,
            expire_strategy,
            max_expires,
            dry_run,
        )

    def consumers(self) -> list[Consumer]:
        """Who reads the branch as a stream, by name, and which snapshot each reads next.

        Raises:
            CorruptFileError: a consumer's file cannot be read; says what to do.
        """
        from paimon_spark.api.expiry import consumers

        return consumers(cast("Table", self))

    def reset_consumer(self, name: str, next_snapshot: int | None = None) -> Consumer | None:
        """Let a consumer of the branch go on with a snapshot, or remove it. Expiry keeps what it has yet to read.

        Args:
            name: of the consumer; a new one is made when there is none.
            next_snapshot: id of the snapshot to read next; None removes the consumer.

        Raises:
            InvalidInputError: no consumer can be called so, or the snapshot is not alive.
            NotFoundError: there is no such consumer to remove.
        """
        from paimon_spark.api.expiry import reset_consumer

        return reset_consumer(cast("Table", self), name, next_snapshot)

    def clear_consumers(self, including: str = ".*", excluding: str | None = None) -> tuple[str, ...]:
        """Remove the branch's consumers whose whole name matches a regular expression, and not another; their names.

        Raises:
            InvalidInputError: a text is no regular expression.
        """
        from paimon_spark.api.expiry import clear_consumers

        return clear_consumers(cast("Table", self), including, excluding)

    def remove_orphan_files(self, older_than: Moment | None = None, *, dry_run: bool = False) -> RemovedOrphans:
        """Delete files of the table that no version of any branch names: what broken-off jobs left behind.

        Args:
            older_than: only files last changed before this moment; one day ago if none is given. Younger files may
                belong to writes that go on.
            dry_run: only tell what would go.

        Raises:
            InvalidInputError: the moment is not in the past.
            UnsafeDeletionError, CorruptFileError: it cannot be told what is still needed; nothing was deleted.
            OperationInProgressError: another process changes tags or branches all the time.
        """
        from paimon_spark.api.cleaning import remove_orphan_files

        return remove_orphan_files(cast("Table", self), older_than, dry_run)

    def purge(self, *, dry_run: bool = False) -> Removed:
        """Delete everything but the definition: rows, history, changelogs, tags, consumers and branches.

        One empty snapshot stays. Orphans stay too: see `remove_orphan_files`.

        Args:
            dry_run: only tell what would go.

        Raises:
            InvalidInputError: this is a branch, or main falls back on a branch.
            UnsafeDeletionError: it cannot be told what is there; nothing was deleted.
            OperationInProgressError: another process changes tags or branches all the time.
        """
        from paimon_spark.api.cleaning import purge

        return purge(cast("Table", self), dry_run)
