"""Roll a branch back to a version, by deleting what is later or by a new snapshot with its state.

Source: Java `table/RollbackHelper`, `table/AbstractFileStoreTable.rollbackTo`, `RollbackToAsLatestProcedure`,
`operation/FileStoreCommitImpl.rollbackToAsLatest`.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from paimon_spark.display import ShownAsFacts
from paimon_spark.engine.commit.committer import Committer
from paimon_spark.errors import CommitOutcomeUnknownError, InvalidInputError, SnapshotNotFoundError
from paimon_spark.format.metadata_files.snapshot import Snapshot, Tag
from paimon_spark.maintenance.change import change_branch, preview, reopened
from paimon_spark.maintenance.removal import Removed
from paimon_spark.metadata import branches as forks
from paimon_spark.metadata.branches import list_branch_names, same_snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.change import Delete, Put, Root, RootKind, Step, TableChange, relative_path
from paimon_spark.metadata.layout import EARLIEST, LATEST
from paimon_spark.metadata.resolve import resolve
from paimon_spark.metadata.snapshots import find_snapshot, latest_snapshot, list_snapshot_ids, snapshot_missing
from paimon_spark.metadata.tags import find_tag, tag_of_snapshot
from paimon_spark.metadata.version import snapshot_number, text_version
from paimon_spark.versioning.branch_state import BranchState, read_branch_state, snapshot_of_tag
from paimon_spark.versioning.tag_steps import (
    check_not_expired,
    delete_steps,
    delete_tags_change,
    existing_guarded_branch,
    find_known_snapshot,
    guard_put,
    plan_guards,
    put_tag,
)

_LOG = logging.getLogger(__name__)
KIND: Final = "rollback"
"""Commits that land meanwhile know it by this name (`commit.still_there`)."""
_ROUNDS: Final = 5


@dataclass(frozen=True, slots=True)
class RolledBack(ShownAsFacts):
    """What a roll-back did.

    Attributes:
        snapshot: the head now.
        snapshots: ids of the later snapshots that went.
        changelogs: ids of the later long-lived changelogs that went.
        tags: names of the later tags that went, savepoints among them.
        branches: branches that had left this one later; they now leave it at `snapshot`.
        removed: the files that nothing else needed.
    """

    snapshot: Snapshot
    snapshots: tuple[int, ...] = ()
    changelogs: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()
    removed: Removed = field(default_factory=Removed)


def rollback_to(handle: TableHandle, version: str | int, *, dry_run: bool = False) -> RolledBack:
    """Make a version of the branch its head again; later snapshots, changelogs and tags of the branch go at once.

    Files that nothing else needs go too. Schemas and consumers stay as they are, as in Paimon: a consumer that was
    further on waits for the snapshots that it wants. Branches that left this one later stay whole. A commit that lands
    meanwhile goes too, or fails.

    Args:
        handle: the branch.
        version: a snapshot id, or any version text that means a snapshot of this branch. An expired snapshot is taken
            from a tag of it.
        dry_run: only tell what would go.

    Raises:
        InvalidInputError: the version is on another branch, later than the head, or of another history.
        NotFoundError: there is no such version.
        UnsafeDeletionError: it cannot be told what else needs the later files; nothing was changed.
        OperationInProgressError: another process changes the table's refs all the time.
    """
    plans: list[_Plan] = []

    def plan(branch: TableHandle) -> TableChange | None:
        target = find_rollback_target(branch, version)
        state = read_branch_state(branch)
        _check_is_before(branch, state, target)
        plans.append(_plan(branch, state, target, [i for i in state.snapshots if i > target.id]))
        return plans[-1].change

    if dry_run:
        change = plan(reopened(handle))
        return replace(plans[-1].done, removed=preview(handle, change))
    removed = change_branch(handle, KIND, plan)
    done = replace(plans[-1].done, removed=removed)
    return done if plans[-1].change is None else _without_late(plans[-1].branch, done)


def find_rollback_target(branch: TableHandle, version: str | int) -> Snapshot:
    """The snapshot of the branch that a version means; an expired one from a tag of it.

    Raises:
        InvalidInputError: it is no version, or on another branch.
        NotFoundError: there is no such version.
    """
    if isinstance(version, bool) or not isinstance(version, (int, str)):
        raise InvalidInputError(
            f"{version!r} is no version of {branch.describe()}: give a snapshot id or text such as a tag's name",
            argument="version",
        )
    number = version if isinstance(version, int) else snapshot_number(version.strip())
    if number is not None and (isinstance(version, int) or find_tag(branch, version.strip()) is None):
        return _of_id(branch, number)
    found = resolve(branch, text_version(str(version)))
    if found.handle.layout.directory_branch != branch.layout.directory_branch:
        raise InvalidInputError(
            f"version {version!r} is on {found.handle.describe()}, and {branch.describe()} only goes back to its own "
            "versions; open that branch to roll it back",
            table=branch.name,
            branch=branch.branch,
            version=version,
        )
    if found.snapshot is None:
        raise nothing_there(branch)
    return found.snapshot


def nothing_there(branch: TableHandle) -> SnapshotNotFoundError:
    """The error for a branch without snapshots."""
    return SnapshotNotFoundError(
        f"{branch.describe()} has no snapshot yet, so there is nothing to go back to",
        table=branch.name,
        branch=branch.branch,
    )


def _of_id(branch: TableHandle, snapshot_id: int) -> Snapshot:
    found = find_snapshot(branch, snapshot_id) if snapshot_id > 0 else None
    if found is not None:
        return found
    tag = tag_of_snapshot(branch, snapshot_id)
    if tag is None:
        raise snapshot_missing(branch, snapshot_id)
    return tag.snapshot


def _check_is_before(branch: TableHandle, state: BranchState, target: Snapshot) -> None:
    """Check that the branch's history goes through the target."""
    alive = state.snapshots.get(target.id)
    if alive is not None and not same_snapshot(alive.snapshot, target):
        found = f"its snapshot {target.id} is another: another engine gave the branch another history since"
    elif alive is None and target.id > state.head > 0:
        found = f"its head is snapshot {state.head}: another engine rolled it back before that"
    else:
        return
    raise InvalidInputError(
        f"{branch.describe()} cannot go back to that snapshot {target.id}, as {found}; rollback_to_as_latest makes its "
        "state the newest",
        table=branch.name,
        branch=branch.branch,
        snapshot_id=target.id,
    )


@dataclass(frozen=True, slots=True)
class _Plan:
    """A roll-back as a change; None when there is nothing to do. `done` is what it does."""

    branch: TableHandle
    change: TableChange | None
    done: RolledBack


def _plan(branch: TableHandle, state: BranchState, target: Snapshot, later: Sequence[int]) -> _Plan:
    """The change that takes snapshots `later` away, and everything else that is later than the target.

    A reader that takes no lock sees the old head until the last snapshot goes, or the hint points at the target: a hint
    is believed while the next snapshot is missing.
    """
    directory = state.directory
    released = [Root(RootKind.SNAPSHOT, directory, str(i), state.snapshots[i].snapshot) for i in later]
    steps = _snapshot_steps(branch, state, target, sorted(later))
    changelogs = sorted(i for i in state.changelogs if i > target.id)
    steps += _changelog_steps(branch, state, target, changelogs)
    released += [Root(RootKind.CHANGELOG, directory, str(i), state.changelogs[i].snapshot) for i in changelogs]
    options, tags = branch.options.tags, []
    for name in sorted(n for n, ref in state.tags.items() if ref.id > target.id):
        guarded = existing_guarded_branch(branch, name)
        if guarded is not None:
            # The history that it guarded is the branch's own now. What is left to guard is shared up to the target.
            steps.append(guard_put(branch, guarded, target))
        else:
            tags.append(name)
            steps += delete_steps(branch, options, name)
        released.append(Root(RootKind.TAG, directory, name, state.tags[name].snapshot))
    moved = _left_later(branch, target)
    steps += [_fork_put(branch, name, fork, target) for name, fork in moved]
    own_steps, own_guards = _own_fork(branch, target)
    steps += own_steps
    released += own_guards
    done = RolledBack(target, tuple(sorted(later)), tuple(changelogs), tuple(tags), tuple(name for name, _ in moved))
    label = f"roll-back of branch {branch.branch!r} to snapshot {target.id}"
    return _Plan(branch, TableChange(KIND, label, tuple(steps), tuple(released)) if steps else None, done)


def _snapshot_steps(branch: TableHandle, state: BranchState, target: Snapshot, later: Sequence[int]) -> list[Step]:
    steps: list[Step] = []
    directory = branch.layout.snapshot_dir
    alone = target.id not in state.snapshots
    if alone:
        steps.append(Put(relative_path(branch, branch.layout.snapshot_path(target.id)), snapshot_of_tag(target).text))
    goes = [Delete(relative_path(branch, branch.layout.snapshot_path(i)), state.snapshots[i].sha256) for i in later]
    steps += goes[:-1]
    if goes or alone:
        steps.append(Put(relative_path(branch, f"{directory}/{LATEST}"), str(target.id)))
    if alone:
        first = min((i for i in state.snapshots if i < target.id), default=target.id)
        steps.append(Put(relative_path(branch, f"{directory}/{EARLIEST}"), str(first)))
    return [*steps, *goes[-1:]]


def _changelog_steps(branch: TableHandle, state: BranchState, target: Snapshot, later: Sequence[int]) -> list[Step]:
    if not later:
        return []
    # -1 as in Paimon, which then looks for itself.
    hint = str(target.id) if len(later) < len(state.changelogs) else "-1"
    goes = [Delete(relative_path(branch, branch.layout.changelog_path(i)), state.changelogs[i].sha256) for i in later]
    return [Put(relative_path(branch, f"{branch.layout.changelog_dir}/{LATEST}"), hint), *goes]


def _left_later(branch: TableHandle, target: Snapshot) -> list[tuple[str, forks.Fork]]:
    """Branches that left this one after the target, as their `FORK` files say."""
    names = {forks.logical_name(branch), branch.layout.directory_branch}
    found = []
    for name in list_branch_names(branch):
        fork = forks.read_fork(branch.on_branch_directory(name))
        if fork is not None and fork.parent in names and (fork.snapshot_id or 0) > target.id:
            found.append((name, fork))
    return found


def _own_fork(branch: TableHandle, target: Snapshot) -> tuple[list[Step], tuple[Root, ...]]:
    """Where the branch itself leaves its parent, when that is later than the target: a branch that was merged once.

    The guard moves too, as what is needed of the parent now is older.
    """
    fork = None if forks.is_main(branch) else forks.read_fork(branch)
    if fork is None or (fork.snapshot_id or 0) <= target.id:
        return [], ()
    parent = branch.on_branch_directory(fork.parent)
    theirs = find_known_snapshot(parent, target.id)
    if theirs is not None and not same_snapshot(theirs, target):
        return [_fork_put(branch, branch.branch, fork, target)], ()
    guards = plan_guards(parent, branch.branch, target)
    fork = replace(fork, guards={**fork.guards, **guards.names})
    return [*guards.steps, _fork_put(branch, branch.branch, fork, target)], guards.released


def _fork_put(branch: TableHandle, name: str, fork: forks.Fork, target: Snapshot) -> Put:
    """What comes after the target has an id that another snapshot had, so the branch is to be told where it left."""
    moved = replace(fork, snapshot_id=target.id, tag=None, time_ms=target.time_ms)
    path = forks.fork_path(branch.on_branch_directory(name))
    return Put(relative_path(branch, path), forks.encode_fork(moved).decode())


def _without_late(branch: TableHandle, done: RolledBack) -> RolledBack:
    """Take away what other engines committed while the head was changed: they ask for no lock, and do not look again.

    It stands behind a hole, as it was made on a head that is gone.
    """
    target_id = done.snapshot.id

    def plan(current: TableHandle) -> TableChange | None:
        state = read_branch_state(current)
        late.extend(_behind_hole(state.snapshots, target_id) if target_id in state.snapshots else ())
        if not late:
            return None
        hint = relative_path(current, f"{current.layout.snapshot_dir}/{LATEST}")
        goes = [
            Delete(relative_path(current, current.layout.snapshot_path(i)), state.snapshots[i].sha256) for i in late
        ]
        roots = tuple(Root(RootKind.SNAPSHOT, state.directory, str(i), state.snapshots[i].snapshot) for i in late)
        label = f"roll-back of branch {current.branch!r} to snapshot {target_id}"
        newest = max(i for i in state.snapshots if i not in late)
        return TableChange(KIND, label, (Put(hint, str(newest)), *goes), roots)

    for _ in range(_ROUNDS):
        if not _behind_hole(list_snapshot_ids(branch), target_id):
            break
        late: list[int] = []
        change_branch(branch, KIND, plan)
        _LOG.warning("snapshots %s of %s came during the roll-back and went too", late, branch.describe())
        done = replace(done, snapshots=(*done.snapshots, *late))
    return done


def _behind_hole(ids: Iterable[int], target_id: int) -> list[int]:
    """The ids after the target that do not join on to it."""
    later = sorted(i for i in ids if i > target_id)
    return [i for n, i in enumerate(later) if i != target_id + 1 + n]


AS_LATEST: Final = "rollback-to-as-latest-"
"""What the names of tags and commit users begin with that Paimon makes for it."""


@dataclass(frozen=True, slots=True)
class Restored(ShownAsFacts):
    """What making an earlier state the newest did.

    Attributes:
        snapshot: the head now, with the state of `target`.
        target: the snapshot that was asked for.
        previous: the head before.
        tag: the tag that keeps the files of `target`; None when none was made.
    """

    snapshot: Snapshot
    target: Snapshot
    previous: Snapshot
    tag: str | None = None


def rollback_to_as_latest(handle: TableHandle, version: str | int) -> Restored:
    """Make the state of an earlier version the branch's newest, by a new snapshot of kind OVERWRITE.

    The snapshots between stay and can be read. Files of the version are kept by a tag `rollback-to-as-latest-…`, as
    Paimon does it, unless it was asked for by a tag's name: its expiry takes a file that was deleted once for gone. The
    tag may go when the snapshots up to the new one have expired. The head itself is left as it is.

    Args:
        handle: the branch.
        version: a snapshot id, or any version text that means a snapshot of this branch. An expired snapshot is taken
            from a tag of it.

    Raises:
        InvalidInputError: it is no version, or on another branch.
        NotFoundError: there is no such version; SnapshotExpiredError: it expired meanwhile.
        CommitError: others were faster every time, or nobody knows whether the snapshot was made.
        OperationInProgressError: another process changes the table's refs all the time.
    """
    kept = _keep(handle, version)
    if isinstance(kept, Restored):
        return kept
    tag, is_new = kept
    try:
        if is_new:
            check_not_expired(handle, tag)
        return _commit(handle, tag, is_new)
    except CommitOutcomeUnknownError:
        raise
    except Exception:
        if is_new:
            _take_back(handle, tag)
        raise


def _keep(handle: TableHandle, version: str | int) -> Restored | tuple[Tag, bool]:
    """A tag of the target and whether it was made for this; what was done, when the target is the head."""
    found: list[Restored | tuple[Tag, bool]] = []

    def plan(branch: TableHandle) -> TableChange | None:
        target = find_rollback_target(branch, version)
        head = latest_snapshot(branch)
        if head is None:
            raise nothing_there(branch)
        asked = find_tag(branch, version.strip()) if isinstance(version, str) else None
        if same_snapshot(head, target):
            found.append(Restored(head, target, head))
            return None
        if asked is not None:
            found.append((asked, False))
            return None
        tag = Tag(f"{AS_LATEST}{target.id}-{uuid.uuid4()}", target)
        found.append((tag, True))
        label = f"tagging of snapshot {target.id} on branch {branch.branch!r}"
        return TableChange("create-tag", label, (put_tag(branch, tag),))

    change_branch(handle, "create-tag", plan)
    return found[-1]


def _commit(handle: TableHandle, tag: Tag, is_new: bool) -> Restored:
    """Commit under the lock, so that nobody deletes the tag before the new snapshot holds on to its files too."""
    done: list[Restored] = []

    def plan(branch: TableHandle) -> None:
        head = latest_snapshot(branch)
        if head is None:
            raise nothing_there(branch)
        target = find_rollback_target(branch, f"tag-name.{tag.name}")
        made = Committer(branch, f"{AS_LATEST}{uuid.uuid4()}").restore(target).snapshots[0]
        done.append(Restored(made, target, head, tag.name if is_new else None))

    change_branch(handle, "rollback-to-as-latest", plan)
    return done[-1]


def _take_back(handle: TableHandle, tag: Tag) -> None:
    def plan(branch: TableHandle) -> TableChange | None:
        found = find_tag(branch, tag.name)
        return (
            None
            if found is None
            else delete_tags_change(branch, [found], "delete-tag", f"removal of tag {tag.name!r}, not needed")
        )

    change_branch(handle, "delete-tag", plan)
