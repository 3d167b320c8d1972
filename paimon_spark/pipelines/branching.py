"""Make and delete the branches of all tables of a pipeline, all or none."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from functools import partial, reduce
from typing import Final

from paimon_spark.errors import BranchAlreadyExistsError, SnapshotExpiredError
from paimon_spark.lineage.index.warehouse import Warehouse
from paimon_spark.maintenance.change import PlannedTable, change_tables, reopened
from paimon_spark.maintenance.removal import Removed
from paimon_spark.metadata.branches import branch_exists
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.change import TableChange
from paimon_spark.metadata.retry import now_ms
from paimon_spark.metadata.snapshots import find_snapshot
from paimon_spark.metadata.tags import tag_of_snapshot
from paimon_spark.pipelines.records import (
    BranchRecord,
    branch_json,
    branch_path,
    check_name,
    complete,
    get_branch_record,
    list_branch_records,
    to_complete,
)
from paimon_spark.versioning.branches import plan_create, plan_delete
from paimon_spark.versioning.undo import both

CREATE: Final = "create-pipeline-branch"
DELETE: Final = "delete-pipeline-branch"


def create_pipeline_branch(
    warehouse: Warehouse,
    name: str,
    handles: Mapping[str, TableHandle],
    starts: Mapping[str, int | None],
    *,
    jobs: tuple[str, ...] = (),
    start: str = "",
    dry_run: bool = False,
    clock_ms: Callable[[], int] = now_ms,
    wait_ms: int = 60_000,
) -> BranchRecord:
    """Make a branch of each table, all or none, and record them.

    Args:
        warehouse: of all tables.
        name: of the branch of each table, and of the pipeline branch.
        handles: main of each table, by its name.
        starts: the snapshot that each branch starts from; None: it starts empty.
        jobs: of the pipeline, kept in the record.
        start: what it is made from, as text for users, kept in the record.
        dry_run: only check and return what would be made.
        clock_ms: epoch milliseconds.
        wait_ms: longest wait for the lock of one table.

    Raises:
        BranchAlreadyExistsError: there is a pipeline branch of the name, or a table has a branch of it.
        SnapshotExpiredError: a snapshot expired meanwhile; no branch was made.
        InvalidInputError: the name is refused.
        OperationInProgressError: another process is changing tags or branches of a table.
    """
    check_name(name)
    _check_free(warehouse, name)
    record = BranchRecord(name, dict(starts), jobs, start, clock_ms())
    parts = [
        PlannedTable(handle, partial(_plan_create, handle, name, starts[table], record.created_ms))
        for table, handle in handles.items()
    ]
    change_id = uuid.uuid4().hex

    def decided() -> dict[str, object]:
        for table, handle in handles.items():
            _check_alive(handle, table, starts[table])
        _check_free(warehouse, name)
        return to_complete({branch_path(warehouse, name): branch_json(record)}, warehouse)

    change_tables(CREATE, parts, change_id, decided, dry_run=dry_run, wait_ms=wait_ms)
    complete(warehouse, change_id)
    return record


def delete_pipeline_branch(
    warehouse: Warehouse,
    record: BranchRecord,
    handles: Mapping[str, TableHandle],
    *,
    dry_run: bool = False,
    wait_ms: int = 60_000,
) -> Removed:
    """Delete the branch of each table, all or none, and the record. Branches that are gone already are no error.

    Raises:
        NotFoundError: the pipeline branch is gone.
        InvalidInputError: a branch is main, or is read beside another one.
        UnsafeDeletionError: what is still needed cannot be determined; nothing was changed.
        OperationInProgressError: another process is changing tags or branches of a table.
    """
    get_branch_record(warehouse, record.name)
    parts = [PlannedTable(handle, partial(_plan_delete, handle, record.name)) for handle in handles.values()]
    change_id = uuid.uuid4().hex
    files = {branch_path(warehouse, record.name): None}
    removed = change_tables(
        DELETE, parts, change_id, lambda: to_complete(files, warehouse), dry_run=dry_run, wait_ms=wait_ms
    )
    if not dry_run:
        complete(warehouse, change_id)
        warehouse.store.delete(branch_path(warehouse, record.name))  # where no table had the branch any more
    return reduce(both, removed, Removed())


def _plan_create(handle: TableHandle, name: str, start: int | None, created_ms: int) -> TableChange:
    main = reopened(handle)
    if start is None:
        return plan_create(main, name, empty=True, created_ms=created_ms).change
    tag = None if find_snapshot(main, start) is not None else tag_of_snapshot(main, start)
    named = None if tag is None else tag.name
    return plan_create(main, name, tag=named, snapshot_id=start, created_ms=created_ms).change


def _plan_delete(handle: TableHandle, name: str) -> TableChange | None:
    main = reopened(handle)
    return plan_delete(main, name) if branch_exists(main, name) else None


def _check_free(warehouse: Warehouse, name: str) -> None:
    if any(record.name == name for record in list_branch_records(warehouse)):
        raise BranchAlreadyExistsError(
            f"warehouse {warehouse.url} has a pipeline branch {name!r} already; use another name, or delete it first",
            branch=name,
        )


def _check_alive(handle: TableHandle, table: str, start: int | None) -> None:
    """Check that the start did not expire meanwhile: the journal is written, and the tags are not."""
    if start is None or find_snapshot(handle, start) is not None or tag_of_snapshot(handle, start) is not None:
        return
    raise SnapshotExpiredError(
        f"no branch was made: snapshot {start} of {table} expired at the same time; try again, or branch from a tag",
        table=table,
        snapshot_id=start,
    )
