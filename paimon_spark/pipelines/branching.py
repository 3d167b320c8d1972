"""Make and delete the branches of all tables of a pipeline; the snapshots they start from.

All tables get their branch, or none does. Before a faulty snapshot: a branch starts from the table's newest snapshot
that holds no row of it, by lineage. Tables that jobs of the pipeline write are then narrowed to a unified version,
where lineage knows one: snapshots that stem from the same snapshots of what they share. Tables that no job of the
pipeline writes are not narrowed, as no replay would bring their rows back. Those of them that hold no row of the faulty
snapshot get no branch: jobs read main, from any snapshot on, while a branch would begin with its newest one.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Final

from paimon_spark.errors import (
    BranchAlreadyExistsError,
    InvalidInputError,
    LineageError,
    NotFoundError,
    SnapshotExpiredError,
)
from paimon_spark.format.metadata_files.snapshot import CommitKind
from paimon_spark.lineage.asking.graph import Graph, Node
from paimon_spark.lineage.asking.results import ImpactOfSnapshot
from paimon_spark.lineage.asking.snapshot_facts import SharedSnapshots, SnapshotFacts
from paimon_spark.lineage.asking.table_history import TableHistory
from paimon_spark.lineage.asking.unified_version import unified_version
from paimon_spark.lineage.index.warehouse import Warehouse
from paimon_spark.maintenance.change import PlannedTable, change_tables, reopened
from paimon_spark.maintenance.removal import Removed
from paimon_spark.metadata.branches import branch_exists
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.change import TableChange
from paimon_spark.metadata.resolve import resolve
from paimon_spark.metadata.retry import now_ms
from paimon_spark.metadata.snapshots import find_snapshot, latest_snapshot_id
from paimon_spark.metadata.tags import find_tag, tag_of_snapshot
from paimon_spark.metadata.version import VersionKind, VersionSpec
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
from paimon_spark.pipelines.scope import Scope
from paimon_spark.text import named
from paimon_spark.versioning.branches import plan_create, plan_delete
from paimon_spark.versioning.undo import both

CREATE: Final = "create-pipeline-branch"
DELETE: Final = "delete-pipeline-branch"


@dataclass(frozen=True, slots=True)
class Start:
    """Where the branch of one table starts.

    Attributes:
        snapshot_id: of main; None: the branch starts empty.
        reason: why, as a phrase.
    """

    snapshot_id: int | None
    reason: str


def from_heads(handles: Mapping[Node, TableHandle]) -> dict[Node, Start]:
    """Start from the head of each table; a table without snapshots starts empty."""
    found = {node: latest_snapshot_id(handle) for node, handle in handles.items()}
    return {n: Start(i, "its newest snapshot" if i else "it has no snapshot") for n, i in found.items()}


def from_tag(handles: Mapping[Node, TableHandle], tag: str) -> dict[Node, Start]:
    """Start from the tag of that name of each table. Raises NotFoundError: names every table that lacks it."""
    found = {node: find_tag(handle, tag) for node, handle in handles.items()}
    missing = [node.name for node, its in found.items() if its is None]
    if missing:
        raise NotFoundError(
            f"tag {tag!r} is missing on {named(missing, 'table')} of the pipeline; create it there, or end the "
            "pipeline before these tables with stop_at",
            tag=tag,
            tables=missing,
        )
    return {node: Start(its.snapshot.id, f"tag {tag}") for node, its in found.items() if its is not None}


def from_time(handles: Mapping[Node, TableHandle], time_ms: int, asked: str) -> dict[Node, Start]:
    """Start from the newest snapshot of each table at or before a time, in epoch milliseconds.

    Raises NotFoundError: names every table that has none.
    """
    found: dict[Node, Start] = {}
    missing: list[str] = []
    for node, handle in handles.items():
        try:
            at = resolve(handle, VersionSpec(VersionKind.TIMESTAMP, time_ms, asked)).snapshot
        except NotFoundError as e:
            missing.append(f"{node.name}: {e}")
            continue
        assert at is not None
        found[node] = Start(at.id, f"its newest snapshot at {asked}")
    if missing:
        raise NotFoundError(f"{len(missing)} tables of the pipeline have no version at {asked}: {'; '.join(missing)}")
    return found


def before_snapshot(
    handles: Mapping[Node, TableHandle], found: ImpactOfSnapshot, history: TableHistory
) -> dict[Node, Start]:
    """Start each table from its newest snapshot without rows of the snapshot whose impact was found.

    A table whose first snapshot has such rows starts empty, if that snapshot is there to tell.

    Raises NotFoundError: names every table of which no such snapshot is left, alive or tagged. InvalidInputError: it is
    a compaction, which adds no rows.
    """
    _refuse_compaction(handles, found)
    firsts = _firsts(found)
    starts: dict[Node, Start] = {}
    lost: list[str] = []
    for node, handle in handles.items():
        first = firsts.get(node)
        if first is None:
            starts.update(from_heads({node: handle}))
            continue
        newest = history.newest_between(node, 1, first - 1) if first > 1 else None
        tags = {i: name for name, i in (history.refs(node).tags or {}).items() if i < first}
        tagged = max(tags, default=0)
        if newest is not None and newest >= tagged:
            starts[node] = Start(newest, f"the newest before snapshot {first}, the first with the rows")
        elif tagged:
            starts[node] = Start(tagged, f"tag {tags[tagged]}, the newest before snapshot {first}")
        elif first == 1 and history.is_there(node, 1):  # of an expired one it is not certain
            starts[node] = Start(None, "its first snapshot has the rows already")
        else:
            lost.append(f"{node.name} (before snapshot {first})" if first > 1 else node.name)
    if lost:
        raise NotFoundError(
            f"{named(lost, 'table')} of the pipeline: no snapshot without rows of {found.origin.node.name}, snapshot "
            f"{found.origin.first}, is left, as older ones have expired; branch from a tag or "
            "timestamp, or end the pipeline before the table with stop_at",
            tables=lost,
        )
    return starts


def read_on_main(scope: Scope, found: ImpactOfSnapshot) -> list[Node]:
    """The tables of a pipeline that its jobs only read, and that hold no row of the snapshot.

    None where no table of the pipeline holds one: then all get a branch.
    """
    firsts = _firsts(found)
    if firsts.keys().isdisjoint(scope.tables):
        return []
    read = {node for nodes in scope.sources.values() for node in nodes}.difference(scope.derived)
    return [node for node in scope.tables if node in read and node not in firsts]


def _firsts(found: ImpactOfSnapshot) -> dict[Node, int]:
    """Table → its first snapshot with rows of the one whose impact was found."""
    firsts: dict[Node, int] = {}
    for affected in (found.origin, *found.tables):
        if affected.first is not None:
            firsts[affected.node] = min(affected.first, firsts.get(affected.node, affected.first))
    return firsts


def _refuse_compaction(handles: Mapping[Node, TableHandle], found: ImpactOfSnapshot) -> None:
    node, snapshot_id = found.origin.node, found.origin.first
    if node not in handles or snapshot_id is None:
        return
    asked = find_snapshot(handles[node], snapshot_id)
    if asked is not None and asked.commit_kind is CommitKind.COMPACT:
        raise InvalidInputError(
            f"snapshot {snapshot_id} of {node.name} is a compaction, which adds no rows; name the snapshot before it "
            "that wrote the wrong rows",
            table=node.name,
            snapshot_id=snapshot_id,
        )


def narrowed(
    scope: Scope, starts: Mapping[Node, Start], load: Callable[[Iterable[Node]], Graph], history: SnapshotFacts
) -> tuple[dict[Node, Start], str]:
    """Starts, with those of derived tables narrowed to a unified version; and the reason where that fails.

    `load` loads the graph upstream of tables.
    """
    tables = [n for n in scope.derived if starts[n].snapshot_id is not None]
    if len(tables) < 2:
        return dict(starts), ""
    older_than = {n: s.snapshot_id + 1 for n, s in starts.items() if s.snapshot_id is not None}
    try:
        graph = load(tables).verified_by(history.provenance_of)
        found = unified_version(graph, tables, history, older_than=older_than).snapshots
    except LineageError as e:
        return dict(starts), f"tables are not narrowed to snapshots of the same sources: {e}"
    out = dict(starts)
    shared = SharedSnapshots(graph)
    for node, snapshot_id in found.items():
        ids = range(snapshot_id + 1, (starts[node].snapshot_id or 0) + 1)
        if other := next((i for i in ids if not _is_written_again(scope, shared, history, node, i)), None):
            return dict(starts), (
                f"tables are not narrowed to snapshots of the same sources: no job of the pipeline made {node.name}, "
                f"snapshot {other}"
            )
        if snapshot_id < (starts[node].snapshot_id or 0):
            out[node] = replace(
                starts[node],
                snapshot_id=snapshot_id,
                reason=f"the newest that stems from the same snapshots as the others; {starts[node].reason} is "
                f"{starts[node].snapshot_id}",
            )
    return out, ""


def _is_written_again(
    scope: Scope, shared: SharedSnapshots, history: SnapshotFacts, node: Node, snapshot_id: int
) -> bool:
    """Whether a job of the pipeline made a snapshot, and not a rebase or a user's own correction."""
    if history.is_compaction is not None and history.is_compaction(node, snapshot_id):
        return True
    return any(node in scope.sinks.get(job, ()) for job, _ in shared.makers(node, snapshot_id))


def opened(history: TableHistory, scope: Scope) -> dict[Node, TableHandle]:
    """The tables of a pipeline, opened. Raises NotFoundError: names those that are gone."""
    found = {node: history.handle(node) for node in scope.tables}
    gone = [node.name for node, handle in found.items() if handle is None]
    if gone:
        raise NotFoundError(
            f"{named(gone, 'table')} of the pipeline cannot be opened: dropped, or not readable; end the pipeline "
            "before them with stop_at",
            tables=gone,
        )
    return {node: handle for node, handle in found.items() if handle is not None}


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
