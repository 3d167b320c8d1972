"""Histories that other engines put together, hints that they believe, and tags of another branch's snapshots."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.maintenance.changes import Put
from paimon_spark.maintenance.roots import Root, RootKind
from paimon_spark.metadata.branches import is_main, same_snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import LATEST, MAIN
from paimon_spark.metadata.snapshots import read_hint
from paimon_spark.metadata.tags import guarded_branch
from paimon_spark.versioning.doctor.findings import Case, Finding, Looked, Severity
from paimon_spark.versioning.guarding import relative
from paimon_spark.versioning.splices import contradicts, follows

_LOOKED_AT: Final = 200
"""Neighbours in a history, newest first, whose manifest lists are compared."""


def splices(table: Looked, branch: TableHandle) -> list[Case]:
    """Neighbours in the history that do not follow on one another."""
    snapshots = [r.snapshot for r in table.of(branch, RootKind.SNAPSHOT)]
    pairs = list(itertools.pairwise(snapshots))
    found, looked = [], 0
    for before, after in reversed(pairs):
        if after.id != before.id + 1:
            words = f"there is a hole: snapshot {before.id} is followed by {after.id}"
        elif contradicts(before, after):
            words = (
                f"snapshot {after.id} was not made on snapshot {before.id}: {after.total_record_count} rows in all, "
                f"{after.delta_record_count} of them new, do not go with {before.total_record_count} before"
            )
        elif not _continues(before, after) and looked < _LOOKED_AT:
            looked += 1
            if follows(branch, before, after) is not False:
                continue
            words = f"snapshot {after.id} was not made on snapshot {before.id}: it does not know its manifests"
        else:
            continue
        found.append(Case(_spliced(branch, words, after)))
    return found


def _spliced(branch: TableHandle, words: str, after: Snapshot) -> Finding:
    return Finding(
        "spliced-history",
        Severity.WARNING,
        branch.branch,
        f"{words}; another engine put two histories together (a fast-forward, or a commit while main was replaced). "
        f"The head is snapshot {after.id} or what follows on it",
        f"if the head is not the right one, roll back to snapshot.{after.id - 1}, after making a branch of the head, "
        "or merge the branch again",
    )


def _continues(before: Snapshot, after: Snapshot) -> bool:
    """Whether both are of one writer that numbers its commits."""
    return (
        before.commit_user == after.commit_user
        and before.commit_identifier <= after.commit_identifier <= before.commit_identifier + 1
        and after.commit_identifier < 2**62
    )


def stale_hints(table: Looked, branch: TableHandle) -> list[Case]:
    """A hint that engines believe though it is wrong: no snapshot follows the one it names."""
    places = (
        (RootKind.SNAPSHOT, branch.layout.snapshot_dir),
        (RootKind.CHANGELOG, branch.layout.changelog_dir),
    )
    found = []
    for kind, directory in places:
        ids = {r.snapshot.id for r in table.of(branch, kind)}
        hint = read_hint(branch.store, f"{directory}/{LATEST}")
        if hint is None or not ids or hint + 1 in ids or hint == max(ids):
            continue
        finding = Finding(
            "stale-hint",
            Severity.WARNING,
            branch.branch,
            f"{branch.store.url(f'{directory}/{LATEST}')} says {hint}, but the newest {kind.value} is {max(ids)}; Java "
            "Paimon believes it",
            "doctor(repair=True) corrects it",
        )
        found.append(Case(finding, (Put(relative(branch, f"{directory}/{LATEST}"), str(max(ids))),)))
    return found


def foreign_tags(table: Looked, branch: TableHandle) -> list[Case]:
    """Tags on main of snapshots that are not of main's own history, as far as main's snapshots show it."""
    alive = {r.snapshot.id: r.snapshot for r in table.of(branch, RootKind.SNAPSHOT)}
    if not is_main(branch) or not alive:
        return []
    found = []
    for root in table.of(branch, RootKind.TAG):
        snapshot, own = root.snapshot, alive.get(root.snapshot.id)
        if guarded_branch(root.name) is not None or same_snapshot(own, snapshot):
            continue
        homes = [b for b in table.branches if not is_main(b) and _is_of(table, b, snapshot)]
        if own is not None:
            why = f"main's own snapshot {snapshot.id} is another"
        elif homes and snapshot.id > max(alive):
            why = f"main's head is snapshot {max(alive)}"
        else:  # expired: nothing is left to compare it with
            continue
        found.append(Case(_foreign_tag(table, root, why, homes)))
    return found


def _is_of(table: Looked, branch: TableHandle, snapshot: Snapshot) -> bool:
    roots = [*table.of(branch, RootKind.SNAPSHOT), *table.of(branch, RootKind.TAG)]
    return any(same_snapshot(r.snapshot, snapshot) for r in roots)


def _foreign_tag(table: Looked, root: Root, why: str, homes: Sequence[TableHandle]) -> Finding:
    name, home = root.name, homes[0].branch if homes else None
    if home is None:
        remedy = (
            "if another engine gave main the snapshots of a branch, merge_branch of that branch puts main right and "
            f"keeps the tag in a backup branch; else read what is needed of it, and delete_tag({name!r})"
        )
    elif any(same_snapshot(r.snapshot, root.snapshot) for r in table.of(homes[0], RootKind.TAG)):
        remedy = f"delete_tag({name!r}) on main; branch {home!r} has a tag of the snapshot"
    else:
        remedy = (
            f"tag the snapshot where it belongs, branch({home!r}).create_tag({name!r}, "
            f"snapshot_id={root.snapshot.id}), then delete_tag({name!r}) on main"
        )
    whose = "another history" if home is None else f"branch {home!r}"
    return Finding(
        "foreign-lineage-tag",
        Severity.WARNING,
        MAIN,
        f"tag {name!r} on main is snapshot {root.snapshot.id} of {whose}, and {why}; Java Paimon compares what it "
        "expires with the tag before it only, and deletes too much beside such a one",
        remedy,
    )
