"""Guard tags that keep the last rebase of a branch, so that the next can begin there.

One is on the branch that got the changes, at the commit of the rebase; the other on the branch itself, at the snapshot
that the commit holds. The next rebase moves both; they go with the branch.
"""

from __future__ import annotations

from paimon_spark.errors import PaimonError
from paimon_spark.format.metadata_files.snapshot import Snapshot, Tag
from paimon_spark.maintenance.change import change_branch, reopened
from paimon_spark.metadata.branches import branch_exists, same_snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.change import Root, RootKind, Step, TableChange
from paimon_spark.metadata.snapshots import find_snapshot
from paimon_spark.metadata.tags import find_tag, rebase_guard_name
from paimon_spark.redaction import get_logger
from paimon_spark.versioning.tag_steps import put_tag

_LOG = get_logger(__name__)


def keep_rebase(target: TableHandle, made: int, on_branch: TableHandle, held: Snapshot) -> None:
    """Keep the commit `made` of a rebase, and the snapshot `held` of the branch that it holds.

    Raises no error of this package: the rebase is done, and the branch records that it was begun.
    """
    name = rebase_guard_name(on_branch.branch)

    def plan(now: TableHandle) -> TableChange | None:
        commit = find_snapshot(now, made)
        own = find_snapshot(on_branch, held.id)
        if commit is None or not same_snapshot(own, held) or not branch_exists(now, on_branch.branch):
            return None
        steps: list[Step] = []
        released: list[Root] = []
        for place, snapshot in ((now, commit), (reopened(on_branch), held)):
            old = find_tag(place, name)
            if old is not None and same_snapshot(old.snapshot, snapshot):
                continue
            steps.append(put_tag(place, Tag(name, snapshot)))
            if old is not None:
                released.append(Root(RootKind.TAG, place.layout.directory_branch, name, old.snapshot))
        return TableChange(
            "keep-rebase", f"guards of the rebase of branch {on_branch.branch!r}", tuple(steps), tuple(released)
        )

    try:
        change_branch(target, "keep-rebase", plan)
    except PaimonError as e:
        _LOG.warning("the snapshots of the rebase of %s are not kept: %s", on_branch.describe(), e)
