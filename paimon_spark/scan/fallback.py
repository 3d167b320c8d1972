"""Two branches read as one table: partitions that the first branch has come from it, all others from the second.

Source: Java `table/FallbackReadFileStoreTable`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from paimon_spark.errors import BranchNotFoundError, SchemaMismatchError
from paimon_spark.metadata.handle import TableHandle, open_branch
from paimon_spark.metadata.schemas import schemas_by_id
from paimon_spark.metadata.snapshots import find_snapshot, latest_snapshot, snapshot_at_or_before_ms
from paimon_spark.scan.one_branch import BranchPlan, plan_branch
from paimon_spark.scan.query import ScanQuery
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.types import DataType, RowType

FALLBACK_BRANCH: Final = "scan.fallback-branch"
PRIMARY_BRANCH: Final = "scan.primary-branch"


@dataclass(frozen=True, slots=True)
class OtherBranch:
    """The second branch of a table that reads two.

    Attributes:
        handle: the branch, at its latest schema.
        first: whether its partitions win (`scan.primary-branch`).
    """

    handle: TableHandle
    first: bool


def other_branch(handle: TableHandle) -> OtherBranch | None:
    """The second branch that the table's options name; None when they name none, or one that does not exist.

    As in Paimon a branch that was dropped is read past.
    """
    options = handle.options.raw
    for key in (FALLBACK_BRANCH, PRIMARY_BRANCH):
        name = options.get(key, "").strip()
        if name:
            if name == handle.branch:
                return None
            try:
                return OtherBranch(open_branch(handle, name), key == PRIMARY_BRANCH)
            except BranchNotFoundError:
                return None
    return None


def plan_two_branches(
    handle: TableHandle, snapshot: Snapshot | None, other: OtherBranch, query: ScanQuery, *, travelled: bool
) -> list[BranchPlan]:
    """What the handle's branch and the other one contribute, in this order.

    Args:
        handle: the branch asked for.
        snapshot: what to read of it.
        other: the second branch.
        query: what is asked.
        travelled: the second branch is read as of the time of `snapshot`, not at its head.

    Raises:
        SchemaMismatchError: the branches have different columns.
    """
    first, second = in_order(handle, snapshot, other, travelled=travelled)
    plan = plan_branch(*first, query)
    taken = partitions_of(*first, query, plan)
    rest = plan_branch(*second, query, partitions_of_other=taken)
    return [rest, plan] if other.first else [plan, rest]


def in_order(
    handle: TableHandle, snapshot: Snapshot | None, other: OtherBranch, *, travelled: bool
) -> tuple[tuple[TableHandle, Snapshot | None], tuple[TableHandle, Snapshot | None]]:
    """Both branches with what is read of each, the one whose partitions win first. Arguments as `plan_two_branches`.

    Raises:
        SchemaMismatchError: the branches have different columns.
    """
    if travelled and snapshot is not None:
        theirs = _at_time_of(snapshot, other.handle)
    else:
        theirs = other.handle, latest_snapshot(other.handle)
    check_same_columns(handle, theirs[0])
    mine = handle, snapshot
    return (theirs, mine) if other.first else (mine, theirs)


def partitions_of(
    handle: TableHandle, snapshot: Snapshot | None, query: ScanQuery, plan: BranchPlan
) -> frozenset[bytes]:
    """Partitions that the branch has, whatever of their rows is asked for."""
    if query.predicate is None and query.created_since_ms is None:
        return plan.partitions
    return plan_branch(handle, snapshot, ScanQuery(columns=())).partitions


def _at_time_of(snapshot: Snapshot, other: TableHandle) -> tuple[TableHandle, Snapshot | None]:
    """The other branch as it was when `snapshot` was committed; before its first commit, that one, as in Paimon."""
    found = snapshot_at_or_before_ms(other, snapshot.time_ms) or find_snapshot(other, 1)
    if found is None:
        return other, None
    return other.with_schema(schemas_by_id(other, [found.schema_id])[found.schema_id]), found


def check_same_columns(a: TableHandle, b: TableHandle) -> None:
    """Check that rows of both branches may stand in one result.

    Raises:
        SchemaMismatchError: names or types of columns, or partition columns, differ.
    """
    same = (
        a.schema.row_type.names == b.schema.row_type.names
        and a.schema.partition_keys == b.schema.partition_keys
        and all(_plain(x.type) == _plain(y.type) for x, y in zip(a.schema.row_type, b.schema.row_type, strict=True))
    )
    if not same:
        raise SchemaMismatchError(
            f"table {a.name} reads branch {b.branch!r} beside {a.branch!r}, but their columns differ: "
            f"{_columns(a.schema.row_type)} and {_columns(b.schema.row_type)}; give both branches the same columns, "
            f"or unset {FALLBACK_BRANCH} and {PRIMARY_BRANCH}",
            table=a.name,
            branch=b.branch,
        )


def _plain(t: DataType) -> str:
    return str(t).replace(" NOT NULL", "")


def _columns(row_type: RowType) -> str:
    return ", ".join(f"{f.name} {f.type}" for f in row_type)
