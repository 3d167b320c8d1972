"""Commits of other engines that landed on main's own directory while main was given another history.

Our own writers look after each commit whether main still is what they built on (`commit.still_there`); others do not.
What they added to the history that went is moved to the branch that keeps it, so that main's head is the published one.
Those whose ids the published snapshots took were moved to that branch's directory as the steps ran.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from paimon_spark.maintenance.changes import Put, Step, TableChange
from paimon_spark.maintenance.intents import change_table
from paimon_spark.metadata.snapshots import list_snapshot_ids
from paimon_spark.versioning.line import Line, Ref, read_line
from paimon_spark.versioning.publication import Publication, late_branch_steps
from paimon_spark.versioning.splices import follows
from paimon_spark.versioning.staging import latest_path, snapshot_gone, snapshot_path

_LOG = logging.getLogger(__name__)
KIND = "keep-late-commits"


def keep_late_commits(plan: Publication, *, wait_ms: int = 60_000) -> tuple[int, ...]:
    """Make snapshots that follow on main's former head part of the backup; their ids. Two listings for none.

    When main lost nothing else, there is a backup then all the same. What follows on the published head stays, of
    course; and so does, for the doctor to show, what cannot be told.

    Raises:
        OperationInProgressError, StorageError: as `intents.change_table`; the published head is in place all the same.
    """
    if plan.late is None or not (_aside_ids(plan, plan.late) or _beyond(plan)):
        return ()
    kept: list[int] = []

    def change() -> TableChange | None:
        assert plan.late is not None
        place, now = plan.late, read_line(plan.handle)
        there = read_line(plan.handle.on_branch_directory(place)).snapshots
        aside = {i: there[i] for i in _aside_ids(plan, place) if i in there}
        late = _late(plan, now, aside)
        ids = {ref.id for ref in late}
        kept.extend(sorted({*aside, *ids}))
        if not kept:
            return None
        steps: tuple[Step, ...] = (
            *(Put(snapshot_path(place, ref.id), ref.text) for ref in late),
            *(late_branch_steps(plan, place, plan.main.directory) if plan.backup is None and not aside else ()),
            Put(latest_path(place), str(kept[-1])),
            # Other engines believe a hint that names a snapshot which is not there.
            Put(latest_path(plan.main.directory), str(max(now.snapshots.keys() - ids))),
            *(snapshot_gone(now, ref.id) for ref in reversed(late)),
        )
        return TableChange(KIND, "keeping commits that came while main was replaced", steps)

    change_table(plan.handle, KIND, change, wait_ms=wait_ms)
    if kept:
        _LOG.warning(
            "snapshots %s were committed to the former main of table %s while it was replaced; they are on branch %r",
            kept,
            plan.handle.name,
            plan.late,
        )
    return tuple(kept)


def _aside_ids(plan: Publication, place: str) -> list[int]:
    """Ids of snapshots in the backup's directory that the plan did not put there."""
    planned = {plan.main.head} if plan.backup is None else plan.backup.snapshots.keys()
    return [i for i in list_snapshot_ids(plan.handle.on_branch_directory(place)) if i not in planned]


def _beyond(plan: Publication) -> bool:
    return plan.main.head > 0 and max(list_snapshot_ids(plan.handle), default=0) > plan.source.head


def _late(plan: Publication, now: Line, aside: Mapping[int, Ref]) -> list[Ref]:
    """The snapshots at the end of main that were made on its former head, or on one put aside, ascending.

    Before them there may be some that were made on the published head, while the former one was still there.
    """
    former = aside[max(aside)] if aside else plan.main.snapshots.get(plan.main.head)
    found = None if former is None else now.snapshots.get(former.id + 1)
    if former is None or found is None or found.id <= plan.source.head:
        return []
    if follows(plan.handle, former.snapshot, found.snapshot) is not True:
        return []
    published = now.snapshots.get(former.id)
    if published is not None and follows(plan.handle, published.snapshot, found.snapshot) is not False:
        return []
    return [ref for i, ref in sorted(now.snapshots.items()) if i >= found.id]
