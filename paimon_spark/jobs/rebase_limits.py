"""What a rebase of a table cannot do, told before anybody writes to a branch."""

from __future__ import annotations

from typing import Final

from paimon_spark.engine.row_level.replacement import Replacement
from paimon_spark.errors import PaimonError
from paimon_spark.format.metadata_files.snapshot import CommitKind
from paimon_spark.jobs.rebase_sides import check_alike, find_sides
from paimon_spark.metadata.branches import list_branch_names
from paimon_spark.metadata.handle import TableHandle, open_branch
from paimon_spark.metadata.snapshots import latest_snapshot_id, list_snapshots

_OVERWRITTEN: Final = (
    "main was overwritten, or lost rows: where the branch removes files that main no longer has, a rebase is refused, "
    "and the branch can replace main"
)
_MOST_BRANCHES: Final = 10
"""Branches that are looked at for each table."""


def rebase_limits(main: TableHandle, branch: str | None = None) -> tuple[str, ...]:
    """What a rebase onto main cannot do, as sentences; of one branch, or of all as far as they are few.

    Reads metadata: a few small files for each branch. Raises nothing.
    """
    try:
        names = [branch] if branch is not None else list_branch_names(main)
        if not names:
            return ()
        found = list(_of_table(main))
        for name in names[:_MOST_BRANCHES]:
            found += [text for text in _of_branch(main, name) if text not in found]
    except PaimonError as e:
        return (f"whether a branch can be rebased is unknown: {e.message}",)
    return tuple(found)


def _of_table(main: TableHandle) -> tuple[str, ...]:
    options = main.options
    if options.fallback_branch:
        return ("rows that come from two branches (scan.fallback-branch) cannot be rebased",)
    if main.schema.primary_keys:
        return Replacement.of(main).limits()
    if options.data_evolution:
        return ("with data-evolution.enabled a rebase only adds rows",)
    if any(s.commit_kind is CommitKind.OVERWRITE for s in list_snapshots(main)):
        return (_OVERWRITTEN,)
    return ()


def _of_branch(main: TableHandle, name: str) -> tuple[str, ...]:
    head = latest_snapshot_id(open_branch(main, name))
    if head is None:
        return ()
    try:
        check_alike(find_sides(main, name, head))
    except PaimonError as e:
        return (e.message,)
    return ()
