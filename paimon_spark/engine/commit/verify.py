"""Verify after publishing a snapshot that its branch still has the same history.

Commits take no lock. An operation that replaces the history of a branch (a merge, replacing main, rolling back,
deleting or renaming a branch) reads the branch, writes its plan to the journal, and carries it out. A commit made after
that read would be lost silently, so the committer checks afterwards, in this order:

1. the journal in `intent/`: when its plan names this snapshot, the commit counts, and goes where the plan says; when
   the plan changes the branch without it, the commit is taken back;
2. the branch: MAIN-BRANCH, the snapshot itself, and the one that it was made on.

An operation journalled after 1 has read the snapshot; one that ended before 1 shows in 2. It may have moved the
snapshot to a backup branch as that of an engine that does not verify; there it is taken back too.

Until it is taken back, an operation may read the snapshot and create a tag or a branch from it. So the committer waits
for the operation that runs then, and keeps the files of the commit where something was created.

A publication of several tables writes the journals of all, reads their heads again, and is then decided. No commit
waits for that: one that the publication was not planned with decides that it does not run (`ended_by_commits`), and the
publication is planned again; or, when main may lose commits to the backup branch, goes there. Once it is decided, 1
holds.

Tests: tests/unit/engine/commit/test_verify.py, tests/unit/versioning/test_late_commits.py, test_commits_meanwhile.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from paimon_spark.engine.commit.publish import is_unreachable
from paimon_spark.errors import (
    CommitConflictError,
    CommitError,
    CommitOutcomeUnknownError,
    CorruptFileError,
)
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.branches import is_backup_name, read_undo_note, same_snapshot
from paimon_spark.metadata.handle import TableHandle, branch_names, read_main_branch
from paimon_spark.metadata.journal.change import (
    CreateOnServer,
    DeleteFile,
    DeleteFiles,
    DeleteTree,
    IfSnapshots,
    MoveLate,
    Put,
    PutNew,
    RenameTree,
    SetAside,
    Step,
    TableChange,
    find_change,
    is_to_run,
    relative_path,
    written_texts,
)
from paimon_spark.metadata.journal.lock import LockFile, Owner, find_lock
from paimon_spark.metadata.layout import EARLIEST, LATEST, MAIN, SNAPSHOT_PREFIX, Layout
from paimon_spark.metadata.retry import Clock
from paimon_spark.metadata.schemas import list_schema_ids
from paimon_spark.metadata.snapshots import find_snapshot, list_snapshot_ids, read_hint
from paimon_spark.metadata.tags import list_tags
from paimon_spark.redaction import get_logger
from paimon_spark.storage.ahead import ahead
from paimon_spark.text import id_of

_LOG = get_logger(__name__)

REPLACING: Final = frozenset(
    (
        "merge-branch",
        "replace-main",
        "keep-late-commits",
        "rollback",
        "delete-branch",
        "undo-create-branch",
        "rename-branch",
        "publish-pipeline",
        "undo-release",
    )
)
"""Kinds of operations that give a branch another history."""
_DECIDED: Final = frozenset(("publish-pipeline", "undo-release"))
"""Those that read the heads again after their journals are written, before they are decided."""
_NEVER_OF_MAIN: Final = frozenset(("delete-branch", "undo-create-branch"))
"""Those that are refused for main."""
_LONGEST_MS: Final = 60_000
"""How long to wait for the journal of an operation."""
_FIRST_WAIT_S: Final = 0.01
_LAST_WAIT_S: Final = 0.5


def verify_committed(handle: TableHandle, made: Snapshot, base: Snapshot | None, clock: Clock) -> bool:
    """Verify that the branch still has a snapshot just made; remove it where it does not.

    Args:
        handle: the branch committed to.
        made: the new snapshot.
        base: the head it was made on.
        clock: clock and sleep.

    Returns:
        True as a rule. False when the snapshot counts, but the branch has another history now: its place is on the
        branch that keeps the former one, or it was taken away on purpose.

    Raises:
        CommitConflictError: the branch was given another history meanwhile; the snapshot is gone again.
        CommitOutcomeUnknownError: it cannot be told, or not be taken back.
    """
    wait_s = _FIRST_WAIT_S
    while True:
        try:
            return _look(handle, made, base, clock)
        except CommitError:
            raise
        except Exception as e:  # the snapshot is there, and no file of it may go
            if wait_s > _LAST_WAIT_S:
                raise _unknown(handle, made, f"the branch cannot be read ({e})") from e
        clock.sleep(wait_s)
        wait_s *= 3


def _look(handle: TableHandle, made: Snapshot, base: Snapshot | None, clock: Clock) -> bool:
    """As `verify_committed`. Safe to repeat."""
    # Commits take no lock. An operation takes its lock before it plans, and writes its journal before the first step:
    # it has read this snapshot and planned with it, or its lock is there now.
    plan = _announced(handle, made, clock)
    if plan is None:
        return _is_in_place(handle, made, base) or _take_back(handle, made, clock, is_replaced=False)
    is_planned = _includes(plan, made)
    if not _runs(handle, plan, ends=plan.ended_by_commits and not is_planned) and _is_in_place(handle, made, base):
        return True
    return not is_planned and _take_back(handle, made, clock, is_replaced=_replaces(plan, handle, made))


def _runs(handle: TableHandle, plan: TableChange, *, ends: bool) -> bool:
    """As `is_to_run`, but False for a change whose decision cannot be read."""
    try:
        return is_to_run(handle, plan, ends=ends)
    except CorruptFileError:
        return False


def _announced(handle: TableHandle, made: Snapshot, clock: Clock) -> TableChange | None:
    """Find the journal of an operation that changes the history of the handle's branch; None without one."""
    for _ in _waiting(clock):
        lock = _find_lock(handle)
        if lock is None or lock.kind not in REPLACING:
            return None
        try:
            change = find_change(handle, lock.owner)
        except CorruptFileError:
            return None
        if change is not None:
            return change if _touches(change, handle, made) else None
        # A publication of several tables compares the heads once more after its journals, so it sees this snapshot
        # before it is decided. Main is never deleted.
        if lock.kind in _DECIDED or (handle.branch == MAIN and lock.kind in _NEVER_OF_MAIN):
            return None
        if lock.owner.is_of_this_thread():  # it goes on after this commit, perhaps with a plan made before it
            return TableChange(lock.kind, lock.kind, ())
    raise _unknown(handle, made, "another process is changing the branch's history, and wrote no journal")


def _touches(change: TableChange, handle: TableHandle, made: Snapshot) -> bool:
    """Whether a step changes this snapshot or the one before in the branch, or makes main another branch than here."""
    layout = handle.layout
    directory = layout.branch_root.removeprefix(layout.root).lstrip("/")
    snapshots = relative_path(handle, layout.snapshot_dir)
    for step in change.steps:
        for path in _changed_paths(step):
            number = path.removeprefix(f"{snapshots}/{SNAPSHOT_PREFIX}")
            snapshot_id = id_of(number) if number != path else None
            if path in (directory, snapshots) or (snapshot_id is not None and snapshot_id >= made.id - 1):
                return True
        if layout.branch == MAIN and _sets_main(step, layout):
            return True
    return False


def _sets_main(step: Step, layout: Layout) -> bool:
    """Whether a step makes main another branch than in `layout`, which may have been read after the step."""
    match step:
        case Put(path, text):
            branch: str | None = text
        case DeleteFile(path):
            branch = None
        case _:
            return False
    return f"{layout.root}/{path}" == layout.main_branch_file and branch != layout.main_branch


def _changed_paths(step: Step) -> Sequence[str]:
    match step:
        case Put(path) | PutNew(path) | DeleteFile(path):
            return (path,)
        case DeleteFiles(paths):
            return paths
        case DeleteTree(directory) | IfSnapshots(directory):
            return (directory,)
        case SetAside(old, new) | MoveLate(old, new) | RenameTree(old, new):
            return old, new
        case CreateOnServer():
            return ()


def _replaces(change: TableChange, handle: TableHandle, made: Snapshot) -> bool:
    """Whether the change puts another snapshot in the place of this one."""
    path = relative_path(handle, handle.layout.snapshot_path(made.id))
    return any(isinstance(step, (Put, PutNew)) and step.path == path for step in change.steps)


def _includes(change: TableChange, made: Snapshot) -> bool:
    """Whether the change was planned with the snapshot. Names of manifest lists are never used twice."""
    name = made.delta_manifest_list
    return any(name in text for text in written_texts(change.steps)) or any(
        root.snapshot.delta_manifest_list == name for root in change.released
    )


def _find_lock(handle: TableHandle) -> LockFile | None:
    """Read the lock; None also if it is unreadable, which operations on refs report."""
    try:
        return find_lock(handle)
    except CorruptFileError:
        return None


def _is_in_place(handle: TableHandle, made: Snapshot, base: Snapshot | None) -> bool:
    layout = handle.layout
    files = [layout.snapshot_path(snapshot.id) for snapshot in (made, base) if snapshot is not None]
    with ahead(handle.store, [layout.main_branch_file, *files] if layout.branch == MAIN else files):
        return _has_history(handle, made, base)


def _has_history(handle: TableHandle, made: Snapshot, base: Snapshot | None) -> bool:
    layout = handle.layout
    if layout.branch == MAIN and read_main_branch(handle.store, layout.root) != layout.main_branch:
        return False
    own = find_snapshot(handle, made.id)
    if own is None:
        # It expired after later commits, or was removed.
        return made.id < min(list_snapshot_ids(handle), default=0)
    if not same_snapshot(own, made):
        return False
    before = None if base is None else find_snapshot(handle, base.id)
    if base is not None and before is not None:
        return same_snapshot(before, base)
    # The first snapshot, or one whose base has expired by now, which older ones do before. A base that was replaced is
    # gone too: then no later snapshot follows this one.
    if not list_schema_ids(handle.store, layout):
        return False
    return base is None or not (any(i < base.id for i in list_snapshot_ids(handle)) or is_unreachable(handle, made))


def _take_back(handle: TableHandle, made: Snapshot, clock: Clock, is_replaced: bool) -> bool:
    """Remove the snapshot again; False when another branch keeps it, as the operation was planned.

    When it `is_replaced`, the running operation writes another file there, which must not be deleted.
    """
    removed = False
    for _ in _waiting(clock):
        if not _is_ours(handle, made):
            break
        # Snapshots that others made on it are removed first: by them, or with the branch.
        if not is_replaced and find_snapshot(handle, made.id + 1) is None:
            _remove(handle, made)
            removed = True
            break
        if is_replaced and _is_changed_by_this_thread(handle):
            raise _unknown(handle, made, "this thread is changing the branch's history")
    else:
        raise _unknown(
            handle,
            made,
            "another process is changing the branch's history, and does not finish"
            if is_replaced
            else "others have committed after it; look at the table with doctor()",
        )
    if not is_replaced:
        _mend_hints(handle, made)
    if removed:
        check_unused(handle, made, clock)
    if _is_kept(handle, made):
        return False
    # Check again once the operation has ended: a commit reported as failed is written again.
    _until_over(handle, clock)
    if _is_kept(handle, made):
        return False
    if _take_back_late(handle, made, clock):
        return False
    raise CommitConflictError(
        f"{handle.describe()} was given another history (a merge, a roll-back, another main) while snapshot {made.id} "
        "was committed to it. Nothing was committed; open the table again and write again",
        table=handle.name,
        branch=handle.branch,
        snapshot_id=made.id,
    )


def _take_back_late(handle: TableHandle, made: Snapshot, clock: Clock) -> bool:
    """Remove the snapshot from the backup branch that it was moved to; whether it is kept after all."""
    late = [branch for branch in _branches_with(handle, made) if _is_late(branch, made)]
    removed = False
    for branch in late:
        for _ in _waiting(clock):
            if not _is_ours(branch, made):
                break
            if find_snapshot(branch, made.id + 1) is None:
                _remove(branch, made)
                _mend_hints(branch, made)
                removed = True
                break
        else:
            raise _unknown(handle, made, f"others have committed after it on {branch.describe()}")
    if removed:
        check_unused(handle, made, clock)
    if late:
        _until_over(handle, clock)  # an operation begun since may have read it there
    return bool(late) and bool(_branches_with(handle, made))


def _is_late(branch: TableHandle, made: Snapshot) -> bool:
    """Whether a branch is a backup that was planned without the snapshot, which was moved there all the same."""
    name = branch.layout.directory_branch
    if not is_backup_name(name):
        return False
    note = read_undo_note(branch, name)
    return note is None or made.id > note.kept[0]


def _remove(branch: TableHandle, made: Snapshot) -> None:
    branch.store.delete(branch.layout.snapshot_path(made.id))


def check_unused(handle: TableHandle, made: Snapshot, clock: Clock) -> None:
    """Check that no tag or branch was created from a snapshot that has just been removed, and that none will be.

    Waits for the operation that runs, which may have read the snapshot before.

    Raises CommitOutcomeUnknownError: there is one, or it cannot be told, so that no file of the commit may be deleted.
    """
    try:
        _until_unused(handle, made, clock)
        users = list(_users(handle, made))
    except CommitError:
        raise
    except Exception as e:  # another look would not know that the snapshot was removed here
        raise _unknown(handle, made, f"what was created from it cannot be read ({e})") from e
    if users:
        raise CommitOutcomeUnknownError(
            f"snapshot {made.id} was taken back from {handle.describe()}, whose history had changed meanwhile, but "
            f"{', '.join(users)} was created from it before it was removed. Write again, and delete what was created "
            "if it is not needed",
            **handle.context,
            snapshot_id=made.id,
            uuid=made.uuid,
        )


def _until_unused(handle: TableHandle, made: Snapshot, clock: Clock) -> None:
    """Wait for the operation that runs, as long as it may create something from a snapshot that was removed."""
    first: Owner | None = None
    for _ in _waiting(clock):
        lock = _find_lock(handle)
        if lock is None or lock.owner.is_of_this_thread() or (first is not None and lock.owner != first):
            return
        first = lock.owner
        if not _may_use(handle, lock, made):
            return
    raise _unknown(handle, made, "another process may have created a tag or a branch from it, and does not finish")


def _users(handle: TableHandle, made: Snapshot) -> Iterator[str]:
    """The tags and branches that have the snapshot, in words; not a backup that it was moved to late."""
    for branch in _branches_with(handle, made):
        for tag in list_tags(branch):
            if same_snapshot(tag.snapshot, made):
                yield f"tag {tag.name!r} of branch {branch.branch!r}"
        if _is_ours(branch, made) and not _is_late(branch, made):
            yield f"branch {branch.branch!r}"


def _may_use(handle: TableHandle, lock: LockFile, made: Snapshot) -> bool:
    """Whether an operation under way may create something from a snapshot that it read before."""
    is_dead = lock.owner.is_alive() is False  # before the journal is read: it may die just after writing it
    try:
        change = find_change(handle, lock.owner)
    except CorruptFileError:  # nobody runs it
        return False
    return not is_dead if change is None else _includes(change, made)


def _until_over(handle: TableHandle, clock: Clock) -> None:
    for _ in _waiting(clock):
        lock = _find_lock(handle)
        if lock is None or lock.kind not in REPLACING or lock.owner.is_of_this_thread():
            return


def _is_changed_by_this_thread(handle: TableHandle) -> bool:
    lock = _find_lock(handle)
    return lock is not None and lock.owner.is_of_this_thread()


def _is_ours(handle: TableHandle, made: Snapshot) -> bool:
    found = find_snapshot(handle, made.id)
    return found is not None and same_snapshot(found, made)


def _is_kept(handle: TableHandle, made: Snapshot) -> bool:
    """Whether any branch has the snapshot, in a snapshot or tag file, other than as one that was moved there late."""
    found = _branches_with(handle, made)
    return any(not _is_late(branch, made) or not _is_ours(branch, made) for branch in found)


def _branches_with(handle: TableHandle, made: Snapshot) -> list[TableHandle]:
    """The branches that have the snapshot in a snapshot or tag file."""
    names = (MAIN, *branch_names(handle.store, Layout(handle.layout.root)))
    branches = [replace(handle, layout=Layout(handle.layout.root).with_branch(name)) for name in names]
    return [
        branch
        for branch in branches
        if _is_ours(branch, made) or any(same_snapshot(tag.snapshot, made) for tag in list_tags(branch))
    ]


def _mend_hints(handle: TableHandle, made: Snapshot) -> None:
    """Correct hints to the removed snapshot: other engines trust them. A branch that is gone has none."""
    is_gone = not list_schema_ids(handle.store, handle.layout)
    ids = [] if is_gone else list_snapshot_ids(handle)
    for name in (LATEST, EARLIEST):
        path = f"{handle.layout.snapshot_dir}/{name}"
        if made.id in ids or not (is_gone or read_hint(handle.store, path) == made.id):
            continue
        if ids:
            handle.store.write(path, str(ids[-1 if name == LATEST else 0]).encode())
        else:
            handle.store.delete(path)


def _waiting(clock: Clock) -> Iterator[None]:
    """Yield at once, then after growing waits, until the time is up."""
    started, wait_s = clock.clock_ms(), _FIRST_WAIT_S
    while True:
        yield
        if clock.clock_ms() - started > _LONGEST_MS:
            return
        clock.sleep(wait_s)
        wait_s = min(2 * wait_s, _LAST_WAIT_S)


def _unknown(handle: TableHandle, made: Snapshot, why: str) -> CommitOutcomeUnknownError:
    path = handle.store.url(handle.layout.snapshot_path(made.id))
    return CommitOutcomeUnknownError(
        f"cannot tell whether snapshot {made.id} of {handle.describe()} is committed: {why}. Before writing again, "
        f"look at {path}: if its uuid is {made.uuid}, and the snapshot before is there, the commit succeeded; until "
        "then no file of the commit may be deleted",
        table=handle.name,
        branch=handle.branch,
        snapshot_id=made.id,
        uuid=made.uuid,
        path=path,
    )
