"""Limits of a rebase of a table, known before its branch is written to."""

from __future__ import annotations

from typing import Final

from paimon_spark.engine.commit.entries import live_at
from paimon_spark.engine.row_level.replacement import Replacement
from paimon_spark.errors import PaimonError
from paimon_spark.jobs.rebase.row_ids import have_ids
from paimon_spark.jobs.rebase.sides import check_alike, find_sides
from paimon_spark.metadata.branches import is_backup_name, list_branch_names
from paimon_spark.metadata.handle import TableHandle, open_branch
from paimon_spark.metadata.manifests import data_manifests
from paimon_spark.metadata.snapshots import latest_snapshot, latest_snapshot_id
from paimon_spark.text import counted
from paimon_spark.versioning.append_branch import missing_files
from paimon_spark.versioning.names import is_rebase_name

_MOST_FILES: Final = 50_000
"""Files of main that are compared with those of the fork."""
_MOST_BRANCHES: Final = 3
"""Branches that are looked at for each table."""


def rebase_limits(main: TableHandle, branch: str | None = None) -> tuple[str, ...]:
    """Limits of a rebase onto main, as sentences; of one branch, or of all if there are few.

    Reads metadata alone. Raises no error of this package.
    """
    try:
        names = [branch] if branch is not None else [n for n in list_branch_names(main) if not _is_of_ours(n)]
        if not names:
            return ()
        found = list(_of_table(main))
        for name in names[:_MOST_BRANCHES]:
            found += [text for text in _of_branch(main, name) if text not in found]
    except PaimonError as e:
        return (f"whether a branch can be rebased is unknown: {e.message}",)
    return tuple(found)


def _is_of_ours(name: str) -> bool:
    """Whether a branch is a backup, or one on which a rebase is made, and not a user's."""
    return is_backup_name(name) or is_rebase_name(name)


def _of_table(main: TableHandle) -> tuple[str, ...]:
    options = main.options
    if options.fallback_branch:
        return ("rows that come from two branches (scan.fallback-branch) cannot be rebased",)
    if main.schema.primary_keys:
        return Replacement.of(main).limits()
    return ()


def _has_few_files(main: TableHandle) -> bool:
    head = latest_snapshot(main)
    metas = [] if head is None else data_manifests(main, head)
    return sum(m.num_added_files + m.num_deleted_files for m in metas) <= _MOST_FILES


def _of_branch(main: TableHandle, name: str) -> tuple[str, ...]:
    head = latest_snapshot_id(open_branch(main, name))
    if head is None:
        return ()
    try:
        sides = find_sides(main, name, head)
        check_alike(sides)
    except PaimonError as e:
        return (e.message,)
    if main.schema.primary_keys or have_ids(sides) or not _has_few_files(main):
        return ()
    gone = missing_files(live_at(sides.base.handle, sides.base.snapshot), live_at(main, latest_snapshot(main)))
    if not len(gone):
        return ()
    files = counted(len(gone), "file")
    where = "it" if len(gone) == 1 else "them"
    text = (
        f"main has rewritten or removed {files} since branch {name!r} was created: where the branch removes rows of "
        f"{where}, a rebase is refused, and the branch can replace main"
    )
    return (text,)
