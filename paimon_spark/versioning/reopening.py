"""A change of one branch, planned on the branch as it is once nobody else changes the table's refs."""

from __future__ import annotations

from collections.abc import Callable

from paimon_spark.maintenance.changes import TableChange
from paimon_spark.maintenance.expire_snapshots import reopened
from paimon_spark.maintenance.intents import change_table
from paimon_spark.maintenance.removal import Removed
from paimon_spark.metadata.handle import TableHandle

__all__ = ["change_branch", "reopened"]


def change_branch(
    handle: TableHandle,
    kind: str,
    plan: Callable[[TableHandle], TableChange | None],
    *,
    wait_ms: int = 60_000,
) -> Removed:
    """As `change_table`; `plan` gets the branch opened anew: `main` may have come to mean another directory."""
    return change_table(handle, kind, lambda: plan(reopened(handle)), wait_ms=wait_ms)
