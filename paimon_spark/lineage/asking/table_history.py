"""Snapshots, tags and branches of tables in a question; opens each table once."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from paimon_spark.errors import PaimonError
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.lineage.asking.graph import NOWHERE, Node
from paimon_spark.lineage.asking.results import Refs
from paimon_spark.lineage.asking.unrecorded_writes import CLOCK_SKEW_MS
from paimon_spark.lineage.index.provenance import Provenance, decode_provenance
from paimon_spark.lineage.index.warehouse import Warehouse
from paimon_spark.metadata.branches import branch_exists, fork_of, list_branches
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.layout import MAIN
from paimon_spark.metadata.snapshots import (
    earliest_snapshot_id,
    find_snapshot,
    latest_snapshot_id,
    list_snapshot_ids,
)
from paimon_spark.metadata.tags import list_tags
from paimon_spark.redaction import get_logger
from paimon_spark.types import RowType

_LOG = get_logger(__name__)
_MISSES: Final = 20
"""Snapshots looked for in vain, one by one, before those alive are listed."""


@dataclass(slots=True)
class TableHistory:
    """Snapshots, tags and branches of tables; None for what is gone or unreadable."""

    warehouses: Mapping[str, Warehouse]
    _handles: dict[Node, TableHandle | None] = field(default_factory=dict)
    _snapshots: dict[tuple[Node, int], Snapshot | None] = field(default_factory=dict)
    _tagged: dict[Node, dict[int, Snapshot]] = field(default_factory=dict)
    _missed: dict[Node, int] = field(default_factory=dict)
    _alive: dict[Node, tuple[frozenset[int], int]] = field(default_factory=dict)

    def provenance(self, node: Node, snapshot_id: int) -> Provenance | None:
        """The provenance in a snapshot, or in a tag of it."""
        snapshot = self._snapshot(node, snapshot_id)
        return None if snapshot is None else decode_provenance(snapshot.properties)

    def time_ms(self, node: Node, snapshot_id: int) -> int:
        """When a snapshot was committed, epoch milliseconds; 0 when it has expired and no tag keeps it."""
        snapshot = self._snapshot(node, snapshot_id)
        return 0 if snapshot is None else snapshot.time_ms

    def parent(self, node: Node, snapshot_id: int) -> Node | None:
        """The branch that a shared snapshot of a branch was made on; None where it is its own, or unknown."""
        handle = None if node.ref.branch == MAIN else self.handle(node)
        if handle is None:
            return None
        try:
            fork = fork_of(handle.on_branch_directory(node.ref.branch))
        except PaimonError:
            return None
        if fork is None or fork.snapshot_id is None or snapshot_id > fork.snapshot_id:
            return None
        return Node(node.warehouse, node.ref.on_branch(fork.parent))

    def shared_until(self, node: Node, other: Node) -> int | None:
        """The newest snapshot that two branches of a table both hold, which then share all before it.

        0 where they share none; None where that is unknown, as a branch is gone or what they shared has expired.
        """
        handle, its = self.handle(node), self.handle(other)
        if handle is None or its is None:
            return None
        try:
            ids, others = list_snapshot_ids(handle), list_snapshot_ids(its)
            both = sorted(set(ids) & set(others))
            count = bisect_left(both, True, key=lambda i: not _is_same(find_snapshot(handle, i), find_snapshot(its, i)))
            if count:
                return both[count - 1]
            if (fork := _fork_between(node, handle, other, its)) is not None:
                return fork
            return 0 if ids[:1] == [1] and others[:1] == [1] else None
        except PaimonError:
            return None

    def is_there(self, node: Node, snapshot_id: int) -> bool:
        """Whether a snapshot is alive, or a tag keeps it."""
        return self._snapshot(node, snapshot_id) is not None

    def is_replaced(self, source: Node, read: int, sink: Node, made: int) -> bool:
        """Whether a snapshot of a source is of another history by now than when a snapshot of a sink was made from it.

        The source has none of that id up to its head, or one that was committed after the sink's.
        """
        head = self.newest_between(source, 1, None)
        if head is None or read > head:
            return head is not None and not self.is_there(source, read)
        made_ms = self.time_ms(sink, made)
        return 0 < made_ms < self.time_ms(source, read) - CLOCK_SKEW_MS

    def is_deleted(self, node: Node) -> bool:
        """Whether a branch was deleted or renamed, while its table is there; False for main."""
        main = None if node.ref.branch == MAIN else self.handle(Node(node.warehouse, node.ref.on_branch(MAIN)))
        try:
            return main is not None and not branch_exists(main, node.ref.branch)
        except PaimonError:
            return False

    def is_compaction(self, node: Node, snapshot_id: int) -> bool:
        """Whether a snapshot only rewrote files; False when it is gone."""
        snapshot = self._snapshot(node, snapshot_id)
        return snapshot is not None and snapshot.commit_kind is CommitKind.COMPACT

    def newest_between(self, node: Node, first: int, last: int | None) -> int | None:
        """The newest snapshot alive from `first` to `last`, both included; None for `last`: to the head."""
        handle = self.handle(node)
        if handle is None:
            return None
        try:
            head, earliest = latest_snapshot_id(handle), earliest_snapshot_id(handle)
            if head is None or earliest is None:
                return None
            top, bottom = head if last is None else min(last, head), max(first, earliest)
            if top < bottom:
                return None
            if top == head or find_snapshot(handle, top) is not None:
                return top
            return max((i for i in list_snapshot_ids(handle) if bottom <= i <= top), default=None)
        except PaimonError:
            return None

    def columns(self, node: Node) -> RowType | None:
        """The columns of a table as they are now."""
        handle = self.handle(node)
        return None if handle is None else handle.schema.row_type

    def refs(self, node: Node) -> Refs:
        """Snapshots alive, tags and branches of a table."""
        handle = self.handle(node)
        if handle is None:
            return Refs(is_deleted=self.is_deleted(node))
        try:
            earliest, newest = earliest_snapshot_id(handle), latest_snapshot_id(handle)
            alive = None if earliest is None or newest is None else (earliest, newest)
            tags = {t.name: t.snapshot.id for t in list_tags(handle)}
            branches: dict[str, int] = {}
            for branch in list_branches(handle) if node.ref.branch == MAIN else []:
                made_from = branch.created_from_snapshot_id
                if made_from is not None and not branch.is_main:
                    branches[branch.name] = made_from
        except PaimonError:
            return Refs()
        return Refs(alive, tags, branches)

    def handle(self, node: Node) -> TableHandle | None:
        """The branch, opened once; None when it is gone or unreadable."""
        if node not in self._handles:
            self._handles[node] = None if node.ref == NOWHERE else open_branch(self.warehouses, node)
        return self._handles[node]

    def _snapshot(self, node: Node, snapshot_id: int) -> Snapshot | None:
        key = node, snapshot_id
        if key not in self._snapshots:
            self._snapshots[key] = self._find(node, snapshot_id)
        return self._snapshots[key]

    def _find(self, node: Node, snapshot_id: int) -> Snapshot | None:
        handle = self.handle(node)
        if handle is None:
            return None
        try:
            return self._living(node, handle, snapshot_id) or self._of_tag(node, handle, snapshot_id)
        except PaimonError:
            return None

    def _living(self, node: Node, handle: TableHandle, snapshot_id: int) -> Snapshot | None:
        """A snapshot that is alive. When many are asked for that are not, those that are get listed once."""
        listed = self._alive.get(node)
        if listed is not None and snapshot_id not in listed[0] and snapshot_id < listed[1]:
            return None
        found = find_snapshot(handle, snapshot_id)
        if found is None:
            self._missed[node] = self._missed.get(node, 0) + 1
            if self._missed[node] == _MISSES:
                ids = list_snapshot_ids(handle)
                self._alive[node] = frozenset(ids), max(ids, default=0)
        return found

    def _of_tag(self, node: Node, handle: TableHandle, snapshot_id: int) -> Snapshot | None:
        if node not in self._tagged:
            self._tagged[node] = {t.snapshot.id: t.snapshot for t in list_tags(handle)}
        return self._tagged[node].get(snapshot_id)


def _is_same(one: Snapshot | None, other: Snapshot | None) -> bool:
    """Whether two branches have a snapshot from one commit: its list of changes has a name of its own."""
    return one is not None and other is not None and one.delta_manifest_list == other.delta_manifest_list


def _fork_between(node: Node, handle: TableHandle, other: Node, its: TableHandle) -> int | None:
    """The snapshot where one of two branches left the other; None where neither did, or it is unknown."""
    for child, opened, parent in ((node, handle, other), (other, its, node)):
        if child.ref.branch == MAIN:
            continue
        fork = fork_of(opened.on_branch_directory(child.ref.branch))
        if fork is not None and fork.snapshot_id is not None and fork.parent == parent.ref.branch:
            return fork.snapshot_id
    return None


def open_branch(warehouses: Mapping[str, Warehouse], node: Node) -> TableHandle | None:
    """The branch of a node; None when it is gone, or in none of these warehouses."""
    warehouse = warehouses.get(node.warehouse)
    if warehouse is None:
        return None
    ref = node.ref
    try:
        root = warehouse.table_root(ref.database, ref.bare)
        return open_table(warehouse.store, root, ref.branch, f"{ref.database}.{ref.bare}")
    except PaimonError as e:
        _LOG.debug("lineage answers without %s: %s", node.name, e)
        return None
