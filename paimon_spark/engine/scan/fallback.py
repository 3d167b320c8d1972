"""Read two branches as one table: the second adds partitions that the first lacks.

Writes go to the branch of the handle only. A change that would leave rows of the other branch visible, or make them
visible, is refused; Java carries it out.

Source: Java `table/FallbackReadFileStoreTable`.
"""

from __future__ import annotations

from dataclasses import dataclass

from paimon_spark.engine.scan.one_branch import BranchPlan, plan_branch
from paimon_spark.engine.scan.query import ScanQuery
from paimon_spark.errors import BranchNotFoundError, SchemaMismatchError, UnsupportedFeatureError
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle, open_branch
from paimon_spark.metadata.partition_path import partition_path_of
from paimon_spark.metadata.schemas import schemas_by_id
from paimon_spark.metadata.snapshots import find_snapshot, latest_snapshot, snapshot_at_or_before_ms
from paimon_spark.options.core import FALLBACK_BRANCH, PRIMARY_BRANCH
from paimon_spark.types import DataType, RowType


@dataclass(frozen=True, slots=True)
class _OtherBranch:
    """The second branch of a table that reads two.

    Attributes:
        handle: the branch, at its latest schema.
        first: whether its partitions win (`scan.primary-branch`).
    """

    handle: TableHandle
    first: bool


@dataclass(frozen=True, slots=True)
class OtherPartitions:
    """The partitions of the second branch of a table that reads two, as BinaryRow bytes.

    Attributes:
        handle: the branch that is written to.
        other: the second branch.
        snapshot: its head.
        read: partitions whose rows come from the second branch.
        behind: partitions whose rows would come from it if the first branch had none of them.
        covered: partitions of the handle's branch that are not read.
    """

    handle: TableHandle
    other: _OtherBranch
    snapshot: Snapshot | None
    read: frozenset[bytes]
    behind: frozenset[bytes]
    covered: frozenset[bytes]

    def not_reached(self, partition: bytes) -> UnsupportedFeatureError:
        """Build the error for a change of rows that are read from the second branch."""
        name = self.other.handle.branch
        return UnsupportedFeatureError(
            f"rows of {self._named(partition)} are to be changed, and they are read from branch {name!r} "
            f"({self._option}); nothing was changed. Change them in Table.branch({name!r}), or restrict the condition "
            f"to partitions that are read from branch {self.handle.branch!r}",
            feature=f"changing rows that are read by {self._option}",
            table=self.handle.name,
            branch=name,
        )

    def would_appear(self, partition: bytes) -> UnsupportedFeatureError:
        """Build the error for a change that would make rows of the second branch visible."""
        name = self.other.handle.branch
        return UnsupportedFeatureError(
            f"{self._named(partition)} is to be emptied, and the rows that branch {name!r} has of it would be read "
            f"then ({self._option}); nothing was changed. Drop them from Table.branch({name!r}) first, or unset "
            f"{self._option}",
            feature=f"emptying partitions that {self._option} fills",
            table=self.handle.name,
            branch=name,
        )

    @property
    def _option(self) -> str:
        return (PRIMARY_BRANCH if self.other.first else FALLBACK_BRANCH).key

    def _named(self, partition: bytes) -> str:
        path = partition_path_of(self.handle, partition)
        return f"partition {path} of {self.handle.describe()}" if path else self.handle.describe()


def other_partitions(handle: TableHandle, snapshot: Snapshot | None) -> OtherPartitions | None:
    """The partitions of the second branch that `snapshot` lacks; None for a table with one branch."""
    other = other_branch(handle)
    if other is None:
        return None
    head = latest_snapshot(other.handle)
    everything = ScanQuery(columns=())
    mine = plan_branch(handle, snapshot, everything).partitions
    theirs = plan_branch(other.handle, head, everything).partitions
    if other.first:
        return OtherPartitions(handle, other, head, theirs, frozenset(), mine & theirs)
    return OtherPartitions(handle, other, head, theirs - mine, mine & theirs, frozenset())


def other_branch(handle: TableHandle) -> _OtherBranch | None:
    """The second branch of the table by its options; None without one. A dropped branch is ignored, as in Paimon."""
    fallback = handle.options.fallback_branch
    name = fallback or handle.options.primary_branch
    if not name or name == handle.branch:
        return None
    try:
        return _OtherBranch(open_branch(handle, name), first=not fallback)
    except BranchNotFoundError:
        return None


def plan_two_branches(
    handle: TableHandle, snapshot: Snapshot | None, other: _OtherBranch, query: ScanQuery, *, travelled: bool
) -> list[BranchPlan]:
    """Plan the handle's branch and the other one, in this order. Arguments as `in_order`."""
    first, second = in_order(handle, snapshot, other, travelled=travelled)
    plan = plan_branch(*first, query)
    taken = plan.partitions
    if query.predicate is not None or query.created_since_ms is not None:
        taken = plan_branch(*first, ScanQuery(columns=())).partitions  # regardless of the query
    rest = plan_branch(*second, query, partitions_of_other=taken)
    return [rest, plan] if other.first else [plan, rest]


def in_order(
    handle: TableHandle, snapshot: Snapshot | None, other: _OtherBranch, *, travelled: bool
) -> tuple[tuple[TableHandle, Snapshot | None], tuple[TableHandle, Snapshot | None]]:
    """Both branches with the snapshot of each, the preferred one first.

    If `travelled`, the second branch is read as of the time of `snapshot`, not at its head. Raises SchemaMismatchError:
    the branches have different columns.
    """
    if travelled and snapshot is not None:
        theirs = _at_time_of(snapshot, other.handle)
    else:
        theirs = other.handle, latest_snapshot(other.handle)
    _check_same_columns(handle, theirs[0])
    mine = handle, snapshot
    return (theirs, mine) if other.first else (mine, theirs)


def _at_time_of(snapshot: Snapshot, other: TableHandle) -> tuple[TableHandle, Snapshot | None]:
    """The other branch as it was when `snapshot` was committed; before its first commit, that one, as in Paimon."""
    found = snapshot_at_or_before_ms(other, snapshot.time_ms) or find_snapshot(other, 1)
    if found is None:
        return other, None
    return other.with_schema(schemas_by_id(other, [found.schema_id])[found.schema_id]), found


def _check_same_columns(a: TableHandle, b: TableHandle) -> None:
    """Refuse branches whose rows do not fit into one result."""
    same = (
        a.schema.row_type.names == b.schema.row_type.names
        and a.schema.partition_keys == b.schema.partition_keys
        and all(_plain(x.type) == _plain(y.type) for x, y in zip(a.schema.row_type, b.schema.row_type, strict=True))
    )
    if not same:
        raise SchemaMismatchError(
            f"table {a.name} reads branch {b.branch!r} beside {a.branch!r}, but their columns differ: "
            f"{_columns(a.schema.row_type)} and {_columns(b.schema.row_type)}; give both branches the same columns, "
            f"or unset {FALLBACK_BRANCH.key} and {PRIMARY_BRANCH.key}",
            table=a.name,
            branch=b.branch,
        )


def _plain(t: DataType) -> str:
    return str(t).replace(" NOT NULL", "")


def _columns(row_type: RowType) -> str:
    return ", ".join(f"{f.name} {f.type}" for f in row_type)
