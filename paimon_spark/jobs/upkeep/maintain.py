"""Table.compact, Table.drop_partitions, and the arguments of expiry.

Source: Java `operation/FileStoreCommitImpl.dropPartitions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from paimon_spark.display import ShownAsFacts
from paimon_spark.engine.commit.committer import Committer, new_commit_user
from paimon_spark.engine.commit.entries import column, data_changes
from paimon_spark.engine.commit.overwrite import NamedPartitions, check_nothing_appears, partitions_named
from paimon_spark.engine.compaction.rescale import rescale_branch
from paimon_spark.engine.compaction.sorting import RowOrder
from paimon_spark.engine.compaction.task import CompactResult
from paimon_spark.engine.scan.file_stats import Partitions
from paimon_spark.errors import InvalidInputError, NotFoundError
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.jobs.branch_access import at_head, older_than_ms, reopen_to_change
from paimon_spark.jobs.partition_specs import Asked, chosen_partitions, typed_partition
from paimon_spark.jobs.upkeep.after_commit import after_commit
from paimon_spark.jobs.upkeep.compaction import compact_in_place, rescale_anywhere, sort_branch, sorts_by_options
from paimon_spark.maintenance.expiry import ANY_NUMBER, Limits
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests
from paimon_spark.metadata.partition_path import partition_path_of
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.metadata.version import Cutoff
from paimon_spark.options.compaction import SortStrategy
from paimon_spark.options.descriptor import names
from paimon_spark.options.retention import (
    PARTITION_EXPIRATION_TIME,
    PARTITION_MAX_NUM,
    PARTITION_STRATEGY,
    PARTITION_TIMESTAMP_FORMATTER,
    PARTITION_TIMESTAMP_PATTERN,
)
from paimon_spark.options.write import WRITE_ONLY
from paimon_spark.text import named

if TYPE_CHECKING:
    from paimon_spark.jobs.opened_table import OpenedTable


def compact(
    table: OpenedTable,
    full: bool,
    partitions: Asked | None,
    where: str | None,
    order_by: str | Sequence[str] | None,
    order_strategy: str | None,
) -> CompactResult:
    """As `Table.compact`."""
    if not isinstance(full, bool):
        raise InvalidInputError(f"full = {full!r}: expected True or False", argument="full")
    order = _order(order_by, order_strategy)
    handle = _current(table)
    specs, predicate = chosen_partitions(handle, partitions, where, table.read_options.time_zone)
    if order is None:
        result = compact_in_place(handle, full, specs, predicate)
    elif sorts_by_options(handle):
        raise InvalidInputError(
            f"{handle.describe()} has clustering.incremental, so that its option clustering.columns says how it is "
            "sorted; leave order_by out, or change the option",
            argument="order_by",
        )
    else:
        result = sort_branch(handle, order, specs, predicate)
    after_commit(handle, result.snapshot_ids)
    return result


def rescale(table: OpenedTable, buckets: int | None, partitions: Asked | None, where: str | None) -> CompactResult:
    """As `Table.rescale`."""
    handle = _current(table)
    specs, predicate = chosen_partitions(handle, partitions, where, table.read_options.time_zone)
    result = rescale_branch(handle, buckets, rescale_anywhere, partitions=specs, where=predicate)
    after_commit(handle, result.snapshot_ids)
    return result


def _order(order_by: str | Sequence[str] | None, strategy: str | None) -> RowOrder | None:
    """The order that is asked for. Raises InvalidInputError."""
    named = (strategy or ("none" if order_by is None else SortStrategy.ORDER.value)).strip().lower()
    if named == "none":
        if order_by is not None:
            raise InvalidInputError('order_strategy "none" cannot work with order_by columns', argument="order_by")
        return None
    if named not in [s.value for s in SortStrategy]:
        raise InvalidInputError(
            f"order_strategy = {strategy!r}: expected order, zorder, hilbert or none", argument="order_strategy"
        )
    columns = names(order_by) if isinstance(order_by, str) else tuple(order_by or ())
    return RowOrder(tuple(columns), SortStrategy(named))


def compact_manifest(table: OpenedTable) -> Snapshot | None:
    """As `Table.compact_manifest`."""
    handle = _current(table)
    return Committer(handle, new_commit_user(handle.options)).compact_manifests().snapshot


def _current(table: OpenedTable) -> TableHandle:
    # With `write-only`, writes leave maintenance to other jobs; this is one of them.
    return reopen_to_change(at_head(table), {WRITE_ONLY.key: "false"})


@dataclass(frozen=True, slots=True, repr=False)
class DroppedPartitions(ShownAsFacts):
    """The partitions that were dropped, or with a dry run would be.

    Attributes:
        partitions: as in paths, `dt=2024-01-01/hour=7`; none when none of those asked for existed.
        snapshot_id: of the commit; None when there was nothing to drop, and with a dry run.
    """

    partitions: tuple[str, ...] = ()
    snapshot_id: int | None = None

    @property
    def dry_run(self) -> bool:
        """Whether nothing was dropped."""
        return bool(self.partitions) and self.snapshot_id is None

    def text_lines(self) -> list[str]:
        if not self.partitions:
            return ["there is no such partition"]
        made = "" if self.snapshot_id is None else f"; snapshot {self.snapshot_id}"
        return [f"{'would drop' if self.dry_run else 'dropped'} {named(self.partitions, 'partition')}{made}"]


def drop_partitions(
    table: OpenedTable, asked: Asked, *, time_zone: str | None = None, must_exist: bool = False, dry_run: bool = False
) -> DroppedPartitions:
    """As `Table.drop_partitions`; `time_zone` is that of timestamp text without a zone, None the machine's.

    Raises:
        NotFoundError: with `must_exist`, a partition named by all its columns does not exist; nothing was dropped.
    """
    handle = reopen_to_change(at_head(table))
    specs = tuple(typed_partition(handle, s, time_zone) for s in chosen_partitions(handle, asked, None).specs or ())
    if specs:
        check_nothing_appears(handle, NamedPartitions(specs), data_changes(()))
    live = _live_paths(handle, specs)
    for spec, found in zip(specs, live, strict=True):
        if must_exist and not found and len(spec) == len(handle.schema.partition_keys):
            shown = "/".join(f"{k}={v}" for k, v in spec.items())
            raise NotFoundError(
                f"{handle.describe()} has no partition {shown}; IF EXISTS ignores it, and the system table "
                "$partitions lists those there are",
                table=handle.name,
                partition=shown,
            )
    paths = tuple(sorted({path for found in live for path in found}))
    if dry_run or not paths:
        return DroppedPartitions(paths)
    made = Committer(handle, new_commit_user(handle.options)).drop_partitions(specs).snapshot_ids
    after_commit(handle, made)
    return DroppedPartitions(paths, made[-1] if made else None)


def _live_paths(handle: TableHandle, specs: Sequence[Mapping[str, object]]) -> list[list[str]]:
    """For each of `specs`, the paths of the live partitions that match it."""
    head = latest_snapshot(handle)
    if head is None:
        return [[] for _ in specs]
    found = Partitions(handle, column(live_entries(handle, data_manifests(handle, head)), "partition"))
    return [_matching_paths(handle, found, spec) for spec in specs]


def _matching_paths(handle: TableHandle, found: Partitions, spec: Mapping[str, object]) -> list[str]:
    predicate = partitions_named(handle, (spec,))
    assert predicate is not None
    hits = found.matching(predicate).tolist() if len(found.rows) else []
    return [partition_path_of(handle, row) for row, hit in zip(found.row_bytes, hits, strict=True) if hit]


def limits_of(
    table: OpenedTable,
    retain_max: int | None,
    retain_min: int | None,
    older_than: Cutoff | None,
    max_deletes: int | None,
) -> Limits:
    """How much is kept. Raises InvalidInputError: an argument is not a whole number, or not a moment."""
    for name, value in (("retain_max", retain_max), ("retain_min", retain_min), ("max_deletes", max_deletes)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise InvalidInputError(f"{name} = {value!r}: expected a whole number", argument=name)
    limit = ANY_NUMBER if max_deletes is None else max_deletes
    return Limits(retain_max, retain_min, older_than_ms(table, older_than), limit)


def expiration_options(
    table: OpenedTable,
    expiration_time: str | timedelta | None,
    timestamp_formatter: str | None,
    timestamp_pattern: str | None,
    expire_strategy: str | None,
    max_expires: int | None,
) -> dict[str, str]:
    """The arguments as table options. Raises InvalidInputError: the time is a number without a unit."""
    if isinstance(expiration_time, timedelta):
        expiration_time = f"{expiration_time // timedelta(milliseconds=1)} ms"
    elif expiration_time is not None and not isinstance(expiration_time, str):
        raise InvalidInputError(
            f"expiration_time = {expiration_time!r} for partitions of {table.handle.describe()}: a number does not say "
            "of what; give text such as '30 d' or a timedelta",
            table=table.name,
            argument="expiration_time",
        )
    given = {
        PARTITION_EXPIRATION_TIME.key: expiration_time,
        PARTITION_TIMESTAMP_FORMATTER.key: timestamp_formatter,
        PARTITION_TIMESTAMP_PATTERN.key: timestamp_pattern,
        PARTITION_STRATEGY.key: expire_strategy,
        PARTITION_MAX_NUM.key: max_expires,
    }
    return {key: str(value) for key, value in given.items() if value is not None}
