"""Roll a branch back to a version, by deleting later snapshots or by a new snapshot.

Source: Java `table/RollbackHelper`, `table/AbstractFileStoreTable.rollbackTo`, `RollbackToAsLatestProcedure`,
`operation/FileStoreCommitImpl.rollbackToAsLatest`.

Tests: tests/unit/versioning/test_rollback.py, test_restoring.py, test_every_moment.py.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from paimon_spark.display import ShownAsFacts
from paimon_spark.engine.commit.committer import Committer
from paimon_spark.errors import CommitOutcomeUnknownError, InvalidInputError, SnapshotNotFoundError
from paimon_spark.format.metadata_files.snapshot import Snapshot, Tag
from paimon_spark.maintenance.change import change_branch
from paimon_spark.maintenance.removal import Removed, released_names, shown_tags
from paimon_spark.metadata.branches import (
    Fork,
    is_internal_branch,
    is_main,
    logical_name,
    read_fork,
    recorded_forks,
    same_snapshot,
)
from paimon_spark.metadata.handle import TableHandle, branch_names
from paimon_spark.metadata.journal.change import (
    DeleteFile,
    MoveLate,
    Put,
    Root,
    RootKind,
    Step,
    TableChange,
    relative_path,
)
from paimon_spark.metadata.layout import EARLIEST, LATEST, MAIN
from paimon_spark.metadata.resolve import resolve
from paimon_spark.metadata.retry import now_ms
from paimon_spark.metadata.snapshots import latest_snapshot, list_snapshot_ids
from paimon_spark.metadata.tags import find_tag, guard_name, guards_rebase
from paimon_spark.metadata.version import text_version
from paimon_spark.redaction import get_logger
from paimon_spark.text import id_of, named
from paimon_spark.versioning.branch_state import (
    BranchState,
    create_state,
    delete_snapshot,
    late_commits,
    read_branch_state,
    snapshot_of_tag,
    undo_put,
)
from paimon_spark.versioning.names import backup_name
from paimon_spark.versioning.tag_steps import (
    check_not_expired,
    delete_steps,
    existing_guarded_branch,
    find_known_snapshot,
    guard_put,
    known_snapshot,
    plan_guards,
    put_fork,
    put_tag,
    remove_tag,
)

_LOG = get_logger(__name__)
KIND: Final = "rollback"
"""Concurrent commits look for this name in the lock (`engine.commit.verify`)."""
_ROUNDS: Final = 5


@dataclass(frozen=True, slots=True, repr=False)
class RolledBack(ShownAsFacts):
    """Result of a rollback, or of its dry run.

    Attributes:
        snapshot: the new head.
        snapshots: ids of the later snapshots that were deleted.
        changelogs: ids of the later long-lived changelogs that were deleted.
        tags: names of the later tags that were deleted, including savepoints.
        branches: branches created from later snapshots; they now start at `snapshot`.
        removed: deleted files that nothing else needed.
        backup_branch: the branch that keeps the later snapshots, changelogs and tags; None without a backup.
    """

    snapshot: Snapshot
    snapshots: tuple[int, ...] = ()
    changelogs: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()
    removed: Removed = field(default_factory=Removed)
    backup_branch: str | None = None

    @property
    def dry_run(self) -> bool:
        """Whether nothing was changed."""
        return self.removed.dry_run

    def text_lines(self) -> list[str]:
        names = released_names(self.snapshots, self.tags, self.changelogs)
        out = [f"the head {'would be' if self.dry_run else 'is'} snapshot {self.snapshot.id}"]
        if self.backup_branch is None:
            verb = "would delete" if self.dry_run else "deleted"
            out.append(f"{verb}: {', '.join([*names, self.removed.files_summary])}")
        else:
            kept = "would be kept" if self.dry_run else "kept"
            out.append(f"{', '.join(names)} {kept} as branch {self.backup_branch}")
        branches = [b for b in self.branches if not is_internal_branch(b)]
        return [*out, f"branches that left it later: {named(branches, 'branch')}"] if branches else out

    def _repr_html_(self) -> str:
        branches = tuple(b for b in self.branches if not is_internal_branch(b))
        return ShownAsFacts._repr_html_(replace(self, tags=shown_tags(self.tags), branches=branches))


def rollback_to(
    handle: TableHandle,
    version: str | int,
    *,
    backup: bool = False,
    dry_run: bool = False,
    clock_ms: Callable[[], int] = now_ms,
) -> RolledBack:
    """Make a version of the branch its head again, and delete later snapshots, changelogs and tags of the branch.

    Files that nothing else needs are deleted. Schemas and consumers stay, as in Paimon: a consumer that was further on
    waits for its next snapshot. Branches created from later snapshots stay complete. Concurrent commits are deleted
    too, or fail. With `backup`, main's later snapshots, changelogs and tags, and concurrent commits of other engines,
    are kept as a branch `main_backup_<time>`.
    """
    plans: list[_Plan] = []
    if backup and not is_main(handle):
        raise InvalidInputError(
            f"rollback of {handle.describe()} with a backup is refused: backups are of main; create a branch of its "
            "head first, which keeps its later snapshots",
            **handle.context,
            argument="backup",
        )

    def plan(branch: TableHandle) -> TableChange | None:
        target = find_rollback_target(branch, version)
        state = read_branch_state(branch)
        _check_is_before(branch, state, target)
        found = _plan(branch, state, target)
        plans.append(_with_backup(found, state, clock_ms()) if backup else found)
        return plans[-1].change

    removed = change_branch(handle, KIND, plan, dry_run=dry_run)
    last = plans[-1]
    done = replace(last.done, removed=removed)
    if dry_run or last.change is None:
        return done
    return _delete_late_commits(last.branch, done) if last.move is None else _move_late_commits(last, last.move, done)


def find_rollback_target(branch: TableHandle, version: str | int) -> Snapshot:
    """Resolve a version to a snapshot of the branch; an expired one from a tag of it.

    Raises:
        InvalidInputError: it is not a version, or is on another branch.
        NotFoundError: there is no such version.
    """
    if isinstance(version, bool) or not isinstance(version, (int, str)):
        raise InvalidInputError(
            f"{version!r} is not a version of {branch.describe()}: give a snapshot id or text such as a tag's name",
            argument="version",
        )
    number = version if isinstance(version, int) else id_of(version.strip())
    if number is not None and (isinstance(version, int) or find_tag(branch, version.strip()) is None):
        return known_snapshot(branch, number)
    found = resolve(branch, text_version(str(version)))
    if found.handle.layout.directory_branch != branch.layout.directory_branch:
        raise InvalidInputError(
            f"version {version!r} is on {found.handle.describe()}, and {branch.describe()} can only be rolled back to "
            "its own versions; open that branch to roll it back",
            **branch.context,
            version=version,
        )
    if found.snapshot is None:
        raise _no_snapshots(branch)
    return found.snapshot


def _no_snapshots(branch: TableHandle) -> SnapshotNotFoundError:
    return SnapshotNotFoundError(
        f"{branch.describe()} has no snapshot yet, so there is nothing to go back to",
        **branch.context,
    )


def _check_is_before(branch: TableHandle, state: BranchState, target: Snapshot) -> None:
    """Check that the target is in the branch's history."""
    alive = state.snapshots.get(target.id)
    if alive is not None and not same_snapshot(alive.snapshot, target):
        found = f"its snapshot {target.id} is a different one: another engine changed the branch's history"
    elif alive is None and target.id > state.head > 0:
        found = f"its head is snapshot {state.head}: another engine rolled it back further"
    else:
        return
    raise InvalidInputError(
        f"{branch.describe()} cannot be rolled back to that snapshot {target.id}, as {found}; rollback_to_as_latest "
        "restores its state in a new snapshot",
        **branch.context,
        snapshot_id=target.id,
    )


@dataclass(frozen=True, slots=True)
class _Plan:
    """A rollback as a change, None when there is nothing to do, and its result.

    Attributes:
        move: the step of the change that moves concurrent commits to the backup branch; None without a backup.
    """

    branch: TableHandle
    change: TableChange | None
    done: RolledBack
    move: MoveLate | None = None


def _plan(branch: TableHandle, state: BranchState, target: Snapshot) -> _Plan:
    """The change that deletes everything that is later than the target.

    Readers see the old head until the last snapshot is deleted, or the hint names the target: readers trust a hint
    while the next snapshot is missing.
    """
    directory = state.directory
    later = sorted(i for i in state.snapshots if i > target.id)
    released = [Root(RootKind.SNAPSHOT, directory, str(i), state.snapshots[i].snapshot) for i in later]
    steps = _snapshot_steps(branch, state, target, later)
    changelogs = sorted(i for i in state.changelogs if i > target.id)
    steps += _changelog_steps(branch, state, target, changelogs)
    released += [Root(RootKind.CHANGELOG, directory, str(i), state.changelogs[i].snapshot) for i in changelogs]
    options, tags = branch.options.tags, []
    for name in sorted(n for n, ref in state.tags.items() if ref.id > target.id):
        guarded = existing_guarded_branch(branch, name)
        if guarded is not None and not guards_rebase(name):
            # The guarded history is now only the other branch's; what both share ends at the target.
            steps.append(guard_put(branch, guarded, target))
        else:
            tags += [] if guarded else [name]
            steps += delete_steps(branch, options, name)
        released.append(Root(RootKind.TAG, directory, name, state.tags[name].snapshot))
    children = _later_children(branch, target)
    steps += [put_fork(child, _forked_at(fork, target)) for child, fork in children]
    own_steps, own_guards = _own_fork(branch, target)
    steps += own_steps
    released += own_guards
    names = tuple(child.branch for child, _ in children)
    done = RolledBack(target, tuple(later), tuple(changelogs), tuple(tags), names)
    label = f"rollback of branch {branch.branch!r} to snapshot {target.id}"
    return _Plan(branch, TableChange(KIND, label, tuple(steps), tuple(released)) if steps else None, done)


def _with_backup(plan: _Plan, state: BranchState, at_ms: int) -> _Plan:
    """The rollback of main that first copies what it deletes to a backup branch."""
    branch, change, done = plan.branch, plan.change, plan.done
    if change is None or not (done.snapshots or done.changelogs or done.tags):
        return plan
    target = done.snapshot
    name = backup_name(branch_names(branch.store, branch.layout), at_ms)
    base, guard = snapshot_of_tag(target), guard_name(name)
    aside = BranchState(
        name,
        {target.id: state.snapshots.get(target.id, base), **{i: state.snapshots[i] for i in done.snapshots}},
        {guard: base, **{n: state.tags[n] for n in done.tags}},
        {i: state.changelogs[i] for i in done.changelogs},
        state.schemas,
    )
    fork = Fork(MAIN, target.id, None, target.time_ms, at_ms, {MAIN: guard})
    after = replace(state, tags={n: ref for n, ref in state.tags.items() if n not in done.tags})
    former = state.snapshots.get(state.head)
    move = MoveLate(
        relative_path(branch, branch.layout.snapshot_dir),
        relative_path(branch, branch.on_branch_directory(name).layout.snapshot_dir),
        "" if former is None else former.text,
        aside.snapshots[target.id].text,
    )
    steps = (
        put_fork(branch.on_branch_directory(name), fork),
        undo_put(aside, change.label, target, after),
        *create_state(aside),
        guard_put(branch, name, target),
        *change.steps,
        move,
    )
    held = {(RootKind.SNAPSHOT, str(i)) for i in aside.snapshots} | {(RootKind.TAG, n) for n in aside.tags}
    held |= {(RootKind.CHANGELOG, str(i)) for i in aside.changelogs}
    released = tuple(root for root in change.released if (root.kind, root.name) not in held)
    return _Plan(branch, replace(change, steps=steps, released=released), replace(done, backup_branch=name), move)


def _snapshot_steps(branch: TableHandle, state: BranchState, target: Snapshot, later: Sequence[int]) -> list[Step]:
    steps: list[Step] = []
    directory = branch.layout.snapshot_dir
    is_expired = target.id not in state.snapshots
    if is_expired:
        steps.append(Put(relative_path(branch, branch.layout.snapshot_path(target.id)), snapshot_of_tag(target).text))
    deletes = [delete_snapshot(state, i) for i in later]
    steps += deletes[:-1]
    if deletes or is_expired:
        steps.append(Put(relative_path(branch, f"{directory}/{LATEST}"), str(target.id)))
    if is_expired:
        first = min((i for i in state.snapshots if i < target.id), default=target.id)
        steps.append(Put(relative_path(branch, f"{directory}/{EARLIEST}"), str(first)))
    return [*steps, *deletes[-1:]]


def _changelog_steps(branch: TableHandle, state: BranchState, target: Snapshot, later: Sequence[int]) -> list[Step]:
    if not later:
        return []
    # -1 as in Paimon, which then lists.
    hint = str(target.id) if len(later) < len(state.changelogs) else "-1"
    deletes = [
        DeleteFile(relative_path(branch, branch.layout.changelog_path(i)), state.changelogs[i].sha256) for i in later
    ]
    return [Put(relative_path(branch, f"{branch.layout.changelog_dir}/{LATEST}"), hint), *deletes]


def _later_children(branch: TableHandle, target: Snapshot) -> list[tuple[TableHandle, Fork]]:
    """Branches created from snapshots of this one after the target, with their `FORK` files."""
    names = {logical_name(branch), branch.layout.directory_branch}
    return [
        (child, fork)
        for child, fork in recorded_forks(branch)
        if fork.parent in names and (fork.snapshot_id or 0) > target.id
    ]


def _own_fork(branch: TableHandle, target: Snapshot) -> tuple[list[Step], tuple[Root, ...]]:
    """Move the branch's own fork to the target when it is later, as on a merged branch.

    The guard moves too, as the branch now needs an older snapshot of the parent.
    """
    fork = None if is_main(branch) else read_fork(branch)
    if fork is None or (fork.snapshot_id or 0) <= target.id:
        return [], ()
    parent = branch.on_branch_directory(fork.parent)
    theirs = find_known_snapshot(parent, target.id)
    if theirs is not None and not same_snapshot(theirs, target):
        return [put_fork(branch, _forked_at(fork, target))], ()
    guards = plan_guards(parent, branch.branch, target)
    fork = replace(fork, guards={**fork.guards, **guards.names})
    return [*guards.steps, put_fork(branch, _forked_at(fork, target))], guards.released


def _forked_at(fork: Fork, target: Snapshot) -> Fork:
    """The fork moved to the target: ids after it will be given to other snapshots."""
    return replace(fork, snapshot_id=target.id, tag=None, time_ms=target.time_ms)


def _delete_late_commits(branch: TableHandle, done: RolledBack) -> RolledBack:
    """Delete what other engines committed, without the lock, on the old head: such snapshots follow a gap."""
    target_id = done.snapshot.id

    def plan(current: TableHandle) -> TableChange | None:
        state = read_branch_state(current)
        late.extend(_after_gap(state.snapshots, target_id) if target_id in state.snapshots else ())
        if not late:
            return None
        hint = relative_path(current, f"{current.layout.snapshot_dir}/{LATEST}")
        deletes = [delete_snapshot(state, i) for i in late]
        roots = tuple(Root(RootKind.SNAPSHOT, state.directory, str(i), state.snapshots[i].snapshot) for i in late)
        label = f"rollback of branch {current.branch!r} to snapshot {target_id}"
        newest = max(i for i in state.snapshots if i not in late)
        return TableChange(KIND, label, (Put(hint, str(newest)), *deletes), roots)

    for _ in range(_ROUNDS):
        if not _after_gap(list_snapshot_ids(branch), target_id):
            break
        late: list[int] = []
        change_branch(branch, KIND, plan)
        _LOG.warning("deleted snapshots %s of %s, committed during the rollback", late, branch.describe())
        done = replace(done, snapshots=(*done.snapshots, *late))
    return done


def _move_late_commits(plan: _Plan, move: MoveLate, done: RolledBack) -> RolledBack:
    """Move what other engines committed on the old head after the change to the backup branch too."""
    label = f"rollback of branch {plan.branch.branch!r} to snapshot {done.snapshot.id}"
    for _ in range(_ROUNDS):
        if not _after_gap(list_snapshot_ids(plan.branch), done.snapshot.id):
            break
        change_branch(plan.branch, KIND, lambda _: TableChange(KIND, label, (move,)))
    assert done.backup_branch is not None
    late = late_commits(plan.branch, done.backup_branch, {done.snapshot.id, *done.snapshots})
    return replace(done, snapshots=(*done.snapshots, *late))


def _after_gap(ids: Iterable[int], target_id: int) -> list[int]:
    """The ids after the target that a gap separates from it."""
    later = sorted(i for i in ids if i > target_id)
    return [i for n, i in enumerate(later) if i != target_id + 1 + n]


AS_LATEST: Final = "rollback-to-as-latest-"
"""Prefix of the tags and commit users that Paimon creates for `rollback_to_as_latest`."""


@dataclass(frozen=True, slots=True, repr=False)
class Restored(ShownAsFacts):
    """Result of restoring an earlier state in a new snapshot.

    Attributes:
        snapshot: the new head, with the state of `target`.
        target: the requested snapshot.
        previous: the head before.
        tag: the tag that keeps the files of `target`; None when none was created.
    """

    snapshot: Snapshot
    target: Snapshot
    previous: Snapshot
    tag: str | None = None

    def text_lines(self) -> list[str]:
        return [f"snapshot {self.snapshot.id} has the state of snapshot {self.target.id}"]


def rollback_to_as_latest(handle: TableHandle, version: str | int) -> Restored:
    """Restore the state of an earlier version in a new snapshot of kind OVERWRITE.

    The snapshots between stay readable. As in Paimon, a tag `rollback-to-as-latest-…` keeps the files of the version,
    unless a tag was given: Paimon's expiry deletes files that some snapshot deleted, even if a later one restored them.
    The tag may be deleted once the snapshots up to the new one have expired. When the version is the head, nothing is
    done.
    """
    kept = _tag_target(handle, version)
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
            remove_tag(handle, tag, "delete-tag", "not needed")
        raise


def _tag_target(handle: TableHandle, version: str | int) -> Restored | tuple[Tag, bool]:
    """Tag the target; returns the tag and whether it is new, or the result when the target is the head."""
    found: list[Restored | tuple[Tag, bool]] = []

    def plan(branch: TableHandle) -> TableChange | None:
        target = find_rollback_target(branch, version)
        head = latest_snapshot(branch)
        if head is None:
            raise _no_snapshots(branch)
        given = find_tag(branch, version.strip()) if isinstance(version, str) else None
        if same_snapshot(head, target):
            found.append(Restored(head, target, head))
            return None
        if given is not None:
            found.append((given, False))
            return None
        # Paimon's expiry takes a file that was deleted once for gone. Without a tag before the new snapshot it would
        # delete what the new snapshot brings back.
        tag = Tag(f"{AS_LATEST}{target.id}-{uuid.uuid4()}", target)
        found.append((tag, True))
        label = f"tagging of snapshot {target.id} on branch {branch.branch!r}"
        return TableChange("create-tag", label, (put_tag(branch, tag),))

    change_branch(handle, "create-tag", plan)
    return found[-1]


def _commit(handle: TableHandle, tag: Tag, is_new: bool) -> Restored:
    """Commit under the lock, so that the tag is not deleted before the new snapshot needs its files."""
    done: list[Restored] = []

    def plan(branch: TableHandle) -> None:
        head = latest_snapshot(branch)
        if head is None:
            raise _no_snapshots(branch)
        target = find_rollback_target(branch, f"tag-name.{tag.name}")
        made = Committer(branch, f"{AS_LATEST}{uuid.uuid4()}").restore(target).snapshots[0]
        done.append(Restored(made, target, head, tag.name if is_new else None))

    change_branch(handle, "rollback-to-as-latest", plan)
    return done[-1]
