"""From which snapshot of main the branch of each table of a pipeline starts.

Before a faulty snapshot: each table's newest snapshot that holds no row of it, by lineage. Tables that jobs of the
pipeline write are then narrowed to a unified version, where lineage knows one: snapshots that stem from the same
snapshots of what they share. Tables that no job of the pipeline writes are not narrowed, as no replay would bring
their rows back. Those of them that hold no row of the faulty snapshot get no branch: jobs read main, from any snapshot
on, while a branch would begin with its newest one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from paimon_spark.errors import InvalidInputError, LineageError, NotFoundError
from paimon_spark.format.metadata_files.snapshot import CommitKind
from paimon_spark.lineage.asking.graph import Graph, Node
from paimon_spark.lineage.asking.results import ImpactOfSnapshot
from paimon_spark.lineage.asking.snapshot_facts import SharedSnapshots, SnapshotFacts
from paimon_spark.lineage.asking.table_history import TableHistory
from paimon_spark.lineage.asking.unified_version import unified_version
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.resolve import resolve
from paimon_spark.metadata.snapshots import find_snapshot, latest_snapshot_id
from paimon_spark.metadata.tags import find_tag
from paimon_spark.metadata.version import VersionKind, VersionSpec
from paimon_spark.pipelines.scope import Scope
from paimon_spark.text import named


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
