"""REPLACE TABLE: another definition without rows; the history stays readable.

The rows are removed first, by a snapshot, then the new schema is written: rows are never read by another definition. A
column of the same name and type keeps its field id, so a restored old snapshot shows it; others get new ids.

Source: Java `catalog/AbstractCatalog.replaceTable`, which numbers all fields anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from paimon_spark.engine.commit.committer import Committer, new_commit_user
from paimon_spark.errors import (
    CommitRetriesExhaustedError,
    FileAlreadyThereError,
    InvalidOptionError,
    UnsupportedFeatureError,
)
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.jobs.after_commit import after_commit
from paimon_spark.jobs.branch_access import alter_exclusively, reopen_at_head
from paimon_spark.jobs.opened_table import OpenedTable
from paimon_spark.maintenance.change import reopened
from paimon_spark.metadata.definition.create import FieldIds, check_new, new_schema
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import MAIN
from paimon_spark.metadata.retry import now_ms, retry
from paimon_spark.metadata.schemas import create_schema, latest_schema
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.options.write import MANIFEST_FORMAT
from paimon_spark.types import DataField, RowType
from paimon_spark.versioning.rollback import rollback_to_as_latest

_ATTEMPTS = 20
T = TypeVar("T", bound=OpenedTable)


@dataclass(frozen=True, slots=True)
class Replaced(Generic[T]):
    """A table that was given another definition, and what undoing that needs.

    Attributes:
        table: as it is now.
        before: the schema it had.
        head: id of its newest snapshot then; None when it had none.
    """

    table: T
    before: TableSchema
    head: int | None


def replace_table(
    table: T,
    columns: RowType,
    primary_keys: Sequence[str] = (),
    partition_keys: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    comment: str | None = None,
) -> Replaced[T]:
    """Empty a table and give it another definition; arguments as those of `create_table`.

    Raises:
        InvalidInputError, InvalidOptionError: the definition is invalid, or `table` is opened at a version.
        UnsupportedFeatureError: a branch, or partitions by other columns than now; nothing was changed.
        CommitError: other commits won every attempt, or it is unknown whether the rows were removed.
    """
    handle = reopen_at_head(table)
    options = _as_manifests_are(handle, options or {})
    wanted = new_schema(columns, primary_keys, partition_keys, options, comment, now_ms())
    check_new(wanted, handle.describe())
    _check_replaceable(handle, wanted)
    head = latest_snapshot(handle)
    alter_exclusively(handle, lambda: _replace(handle, wanted))
    return Replaced(replace(table, handle=reopened(handle)), handle.schema, None if head is None else head.id)


def undo_replacement(replaced: Replaced[Any]) -> None:
    """Give the table its former definition and rows back, by a new schema and a new snapshot."""
    handle = replaced.table.handle
    alter_exclusively(handle, lambda: _commit_schema(handle, lambda newest: _next(newest, replaced.before)))
    if replaced.head is not None:
        rollback_to_as_latest(reopened(handle), replaced.head)


def _as_manifests_are(handle: TableHandle, options: Mapping[str, str]) -> Mapping[str, str]:
    """The options with the table's `manifest.format`: Java reads all manifests of a table in one format."""
    key = MANIFEST_FORMAT.key
    found = MANIFEST_FORMAT.get(handle.schema.options)
    if key not in options:
        return options if key not in handle.schema.options else {**options, key: found.value}
    if MANIFEST_FORMAT.get(options) is not found and latest_snapshot(handle) is not None:
        raise InvalidOptionError(
            f"{handle.describe()} has manifests in {found.value}, and cannot be replaced by one with {key} = "
            f"{options[key]!r}, as its history stays; leave the option out, or drop the table and create it again",
            option=key,
        )
    return options


def _check_replaceable(handle: TableHandle, wanted: TableSchema) -> None:
    if handle.branch != MAIN:
        raise UnsupportedFeatureError(
            f"{handle.describe()} cannot be replaced: only a whole table can; alter the branch, or overwrite its rows",
            feature="REPLACE TABLE of a branch",
        )
    before, after = handle.schema.partition_keys, wanted.partition_keys
    if before != after:
        raise UnsupportedFeatureError(
            f"{handle.describe()} is partitioned by {', '.join(before) or 'nothing'} and cannot be replaced by one "
            f"partitioned by {', '.join(after) or 'nothing'}; drop it and create it again",
            feature="REPLACE TABLE with other partitions",
        )


def _replace(handle: TableHandle, wanted: TableSchema) -> None:
    emptied = _truncated(handle)
    _commit_schema(handle, lambda newest: _continued(newest, wanted))
    fresh = reopened(handle)
    head = latest_snapshot(fresh)
    if head is not None and (emptied is None or head.id != emptied.id):
        _truncated(fresh)  # rows came between the two


def _truncated(handle: TableHandle) -> Snapshot | None:
    if latest_snapshot(handle) is None:
        return None
    result = Committer(handle, new_commit_user(handle.options)).truncate()
    after_commit(handle, result.snapshot_ids)
    return result.snapshots[-1]


def _commit_schema(handle: TableHandle, following: Callable[[TableSchema], TableSchema]) -> None:

    def create() -> None:
        newest = latest_schema(handle.store, handle.layout) or handle.schema
        create_schema(handle.store, handle.layout, following(newest))

    def exhausted(_: Exception) -> CommitRetriesExhaustedError:
        return CommitRetriesExhaustedError(
            f"the schema of {handle.describe()} could not be replaced: others changed it first, {_ATTEMPTS} times; try "
            "again",
            table=handle.name,
            branch=handle.branch,
        )

    retry(create, _ATTEMPTS, on=FileAlreadyThereError, exhausted=exhausted)


def _continued(newest: TableSchema, wanted: TableSchema) -> TableSchema:
    """`wanted` as the schema after `newest`, with field ids that older files do not use for other columns."""
    ids = FieldIds(newest.highest_field_id)
    old = {f.name: f for f in newest.fields}
    fields = tuple(_kept(old.get(f.name), f) or ids.column(f) for f in wanted.fields)
    row_type = replace(wanted.row_type, fields=fields)
    return replace(wanted, id=newest.id + 1, row_type=row_type, highest_field_id=ids.highest)


def _kept(old: DataField | None, new: DataField) -> DataField | None:
    """`new` with the ids of `old`, if they are of the same type; else None."""
    if old is None:
        return None
    before, after = (FieldIds().inside(f.type.with_nullable(True)) for f in (old, new))
    return replace(new, id=old.id, type=old.type.with_nullable(new.type.nullable)) if before == after else None


def _next(newest: TableSchema, before: TableSchema) -> TableSchema:
    highest = max(newest.highest_field_id, before.highest_field_id)
    return replace(before, id=newest.id + 1, highest_field_id=highest, time_ms=now_ms())
