"""Read and check what publishing a branch as main needs, for merge and replace_main.

Sink logs of streaming queries are copied too. A query trusts its log only as far as the history confirms it: an extra
log does no harm, while a missing one makes batches without rows look lost.

Tests: tests/unit/versioning/test_merge.py, test_only_if_main_is.py, test_diverged.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from paimon_spark.errors import InvalidInputError
from paimon_spark.format.json_files import find_object
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.maintenance.removal import Removed, released_names
from paimon_spark.metadata.branches import Fork, ancestry, encode_fork, fork_of, snapshot_identity
from paimon_spark.metadata.handle import TableHandle, branch_names, open_branch, open_table
from paimon_spark.metadata.journal.change import DeleteFile, IfSnapshots, Put, Root, RootKind, Step
from paimon_spark.metadata.layout import MAIN, Layout
from paimon_spark.metadata.manifests import follows
from paimon_spark.metadata.resolve import resolve
from paimon_spark.metadata.small_files import checked_number
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.metadata.tags import guard_name, is_release_tag
from paimon_spark.metadata.version import VersionKind, VersionSpec
from paimon_spark.text import named, safe
from paimon_spark.versioning.branch_state import (
    BranchState,
    Ref,
    create_state,
    directory_path,
    fork_path,
    layout_of,
    read_branch_state,
    relative,
    snapshot_of_tag,
    tag_path,
    undo_put,
)
from paimon_spark.versioning.checks import with_properties
from paimon_spark.versioning.names import backup_name
from paimon_spark.versioning.new_main import (
    NewMain,
    Other,
    PublishSource,
    backup_state,
    plan_new_main,
    without_expiration,
)

_EVER: Final = 2**62
"""Newer than any snapshot."""


@dataclass(frozen=True, slots=True)
class Publication:
    """A branch to be published, and main before and after.

    Attributes:
        handle: main, reopened under the lock.
        main: main's state before.
        backup: what main loses, to be kept as a branch; None when it loses nothing, or without a backup.
        late: name of the branch for concurrent commits of other engines to main: that of the backup, if any; None
            when nothing that main loses is kept.
        breaks_off: main has the snapshot that becomes its head, but main's later snapshots do not follow it.
        takes_back: a fast-forward: main becomes the branch even if it has every commit of it and more.
        main_logs, branch_logs: sink logs of main and the branch, text by file name, of `with_sink_logs`.
    """

    handle: TableHandle
    on_branch: TableHandle
    fork: Fork | None
    main: BranchState
    source: PublishSource
    others: tuple[Other, ...]
    new_main: NewMain
    backup: BranchState | None
    late: str | None
    now_ms: int
    breaks_off: bool = False
    takes_back: bool = False
    main_logs: Mapping[str, str] = field(default_factory=dict)
    branch_logs: Mapping[str, str] = field(default_factory=dict)

    @property
    def head(self) -> Ref:
        """The snapshot that becomes main's head."""
        return self.new_main.state.snapshots[self.source.head]

    @property
    def commits_of_main(self) -> tuple[int, ...]:
        """Ids of main's commits after the fork, without compactions.

        Where these have expired, the first id after the fork stands for them: it may have been any commit.
        """
        later = {i: ref.snapshot for i, ref in self.main.snapshots.items() if i > self.new_main.fork_id}
        found = sorted(i for i, s in later.items() if s.commit_kind is not CommitKind.COMPACT)
        first = self.new_main.fork_id + 1
        return tuple(found or ([first] if later and first not in later else []))

    @property
    def tags_of_main(self) -> tuple[str, ...]:
        """Tags and savepoints that users gave main after the fork, or gave another snapshot than the branch did."""
        return tuple(name for name in self.new_main.discarded_tags if not is_release_tag(name))

    @property
    def schemas_of_main(self) -> tuple[int, ...]:
        """Ids of the schemas that main got after the fork."""
        return self.new_main.discarded_schemas

    @property
    def main_has_moved(self) -> bool:
        """Whether main has a new commit since the fork (compactions aside), schema, or tag of a user."""
        return bool(self.commits_of_main or self.tags_of_main or self.schemas_of_main)

    @property
    def changes_nothing(self) -> bool:
        """Whether main already has every commit and schema of the branch, and with `takes_back` nothing beyond it."""
        done = self.new_main
        if self.takes_back and (self.main.head != self.source.head or done.discards or done.moved_tags):
            return False
        return (
            done.fork_id == self.source.head
            and not self.breaks_off
            and all(self.main.schemas.get(i) == text for i, text in done.state.schemas.items())
        )


def lost_text(snapshots: Sequence[int], tags: Sequence[str], schemas: Sequence[int]) -> str:
    """Losses of main by a publication: `2 snapshots (3, 4), 1 tag (v1), 1 schema (2)`; empty for nothing."""
    return ", ".join([*released_names(snapshots, tags, ()), *([named(schemas, "schema")] if schemas else [])])


def lost_lines(lost: str, backup_branch: str | None, removed: Removed) -> list[str]:
    """The `lost_text`, where it is kept, and the files that are deleted, as text by line."""
    out = [f"main {'would lose' if removed.dry_run else 'lost'}: {lost}"] if lost else []
    if backup_branch is not None:
        out.append(f"{'to be ' if removed.dry_run else ''}kept as branch {safe(backup_branch)}")
    if removed.paths:
        out.append(f"{'would delete' if removed.dry_run else 'deleted'}: {removed.files_summary}")
    return out


def read_publication(
    handle: TableHandle,
    name: str,
    verb: str,
    *,
    snapshot: int | str | None,
    backup: bool,
    now_ms: int,
    takes_back: bool = False,
    always_keep: bool = False,
) -> Publication:
    """Read what publishing a branch needs, and refuse what cannot be published.

    `snapshot`: the version of the branch that becomes main's head; None for its own head. `backup`: whether what main
    loses is kept as a branch. `always_keep`: a main that loses nothing has a backup of its head too, if it has one.

    Raises InvalidInputError, BranchNotFoundError, NotFoundError: it cannot be published.
    """
    _check_call(handle, name, verb)
    main = open_table(handle.store, handle.layout.root, MAIN, handle.name)
    if name == main.layout.main_branch:
        raise _refused(main, name, verb, "it is already main", "there is nothing to do")
    on_branch = open_branch(main, name)
    head = head_to_publish(on_branch, name, snapshot, verb)
    state = read_branch_state(on_branch)
    state = replace(
        state, snapshots={**state.snapshots, head.id: state.snapshots.get(head.id) or snapshot_of_tag(head)}
    )
    trail = ancestry(on_branch, head.id)
    between = {n: read_branch_state(main.on_branch_directory(n)) for n, _ in trail if n not in (name, MAIN)}
    fork = fork_of(on_branch)
    is_recorded = fork is not None and fork.recorded
    source = PublishSource(name, state, head.id, trail, between, exact=snapshot is not None, is_recorded=is_recorded)
    others = tuple(_other(main, n) for n in _branches(main) if n != name)
    old = read_branch_state(main)
    done = plan_new_main(old, source, others, with_older_tags=takes_back)
    own = max(state.snapshots)
    if not takes_back and source.exact and head.id <= done.fork_id and own > head.id:
        found = f"snapshot {head.id} is not newer than {done.fork_id}, where the branch left main"
        remedy = (
            f"name a snapshot of the branch from {done.fork_id + 1} to {own}, or fast_forward, which takes main back"
        )
        raise _refused(main, name, verb, found, remedy)
    if not backup and not done.fork_is_known:
        found = "where it left main is unknown, so all of main's history would be deleted"
        raise _refused(main, name, verb, found, "keep it with backup=True")
    kept, late = None, backup_name(branch_names(main.store, main.layout), now_ms) if backup else None
    if late is not None and (done.discards or (always_keep and old.snapshots)):
        children = [o.name for o in others if _lost_base(main, o, done)]
        kept = backup_state(late, old, done, children)
    breaks_off = done.fork_id == source.head and _breaks_off(main, old, source.head)
    return Publication(main, on_branch, fork, old, source, others, done, kept, late, now_ms, breaks_off, takes_back)


def with_sink_logs(plan: Publication) -> Publication:
    """The plan with the sink logs of main and the branch."""
    main, branch = (_sink_logs(plan.handle, state.directory) for state in (plan.main, plan.source.state))
    return replace(plan, main_logs=main, branch_logs=branch)


def with_head_properties(plan: Publication, properties: Mapping[str, str]) -> Publication:
    """The plan with more properties of the snapshot that becomes main's head."""
    state = plan.new_main.state
    head = with_properties(plan.head, properties)
    state = replace(state, snapshots={**state.snapshots, head.id: head})
    return replace(plan, new_main=replace(plan.new_main, state=state))


def backup_steps(plan: Publication, operation: str) -> tuple[Step, ...]:
    """Create the backup branch; `operation` is what can be undone by it, as text."""
    if plan.backup is None:
        return ()
    note = [undo_put(plan.backup, operation, plan.head.snapshot, plan.new_main.state)] if plan.backup.snapshots else []
    return (backup_fork(plan, plan.backup.directory), *note, *create_state(plan.backup))


def late_commits_branch(plan: Publication, main_directory: str) -> tuple[Step, ...]:
    """Create a branch of the snapshots that the steps moved to the directory `plan.late`, if any.

    `main_directory`: the directory of main after the change; it gets the guard tag of the branch.
    """
    if plan.late is None or plan.backup is not None:
        return ()
    snapshots = directory_path(plan.late) + "/snapshot"
    return (IfSnapshots(snapshots, late_commits_branch_steps(plan, plan.late, main_directory)),)


def late_commits_branch_steps(plan: Publication, name: str, main_directory: str) -> tuple[Put | DeleteFile, ...]:
    """Create a branch with the snapshot that the late snapshots follow."""
    guards, fork = {}, plan.new_main.fork
    if fork is not None:
        guards[guard_name(name)] = without_expiration(fork)
    base = {plan.main.head: plan.main.snapshots[plan.main.head]} if plan.main.head else {}
    state = BranchState(name, base, guards, schemas=plan.main.schemas)
    on_main = [] if fork is None else [guard_put(main_directory, name, without_expiration(fork))]
    return (*on_main, backup_fork(plan, name), *create_state(state))


def backup_fork(plan: Publication, directory: str) -> Put:
    """Record that the backup branch left main where the published branch did."""
    fork = plan.new_main.fork
    record = Fork(
        MAIN,
        plan.new_main.fork_id or None,
        None,
        None if fork is None else fork.snapshot.time_ms,
        plan.now_ms,
        {} if fork is None else {MAIN: guard_name(directory)},
    )
    return fork_put(directory, record)


def fork_steps(plan: Publication, *, former_goes: bool = False) -> tuple[Step, ...]:
    """Move the forks of branches that left main after the fork, and of those that now leave it later.

    The latter are branches whose history main gets with that of a branch created from them. With `former_goes`, forks
    that name the deleted directory of the former main as parent name main.
    """
    steps: list[Step] = []
    for other in plan.others:
        if other.fork is None or not other.fork.recorded:
            continue
        left, leaves = _left_main(plan.handle, other), plan.new_main.leaves[other.name]
        if _lost_base(plan.handle, other, plan.new_main):
            steps.append(fork_put(other.name, _moved_fork(plan, other, other.fork)))
        elif left is not None and leaves is not None and leaves > left:
            at = plan.new_main.state.known.get(leaves)
            time_ms = None if at is None else at.snapshot.time_ms
            moved = replace(other.fork, parent=MAIN, snapshot_id=leaves, tag=None, time_ms=time_ms)
            steps.append(fork_put(other.name, moved))
        elif former_goes and other.fork.parent == plan.handle.layout.main_branch:
            steps.append(fork_put(other.name, replace(other.fork, parent=MAIN)))
    return tuple(steps)


def fork_put(directory: str, fork: Fork) -> Put:
    """Write the branch's `FORK` file."""
    return Put(fork_path(directory), encode_fork(fork).decode())


def guard_put(directory: str, branch: str, ref: Ref) -> Put:
    """Tag a snapshot as the base of `branch`."""
    return Put(tag_path(directory, guard_name(branch)), ref.text)


def with_guard_of_backup(state: BranchState, plan: Publication) -> BranchState:
    """The state with the backup's guard on it."""
    if plan.backup is None or plan.new_main.fork is None:
        return state
    name = guard_name(plan.backup.directory)
    return replace(state, tags={**state.tags, name: plan.backup.tags[name]})


def released(old: BranchState, new: BranchState | None, kept: Iterable[BranchState]) -> tuple[Root, ...]:
    """Roots of `old` that neither `new`, in the same directory, nor a kept state has with the same snapshot."""
    states = [*([] if new is None else [new]), *kept]
    alive = {snapshot_identity(ref.snapshot) for state in states for ref in state.snapshots.values()}
    kept_states = alive | {snapshot_identity(ref.snapshot) for state in states for ref in state.tags.values()}
    logs = alive | {snapshot_identity(ref.snapshot) for state in states for ref in state.changelogs.values()}
    roots: list[Root] = []
    for kind, refs, held in (
        (RootKind.SNAPSHOT, {str(i): ref for i, ref in old.snapshots.items()}, alive),
        (RootKind.TAG, old.tags, kept_states),
        (RootKind.CHANGELOG, {str(i): ref for i, ref in old.changelogs.items()}, logs),
    ):
        roots += [
            Root(kind, old.directory, key, ref.snapshot)
            for key, ref in refs.items()
            if snapshot_identity(ref.snapshot) not in held
        ]
    return tuple(roots)


def _moved_fork(plan: Publication, other: Other, fork: Fork) -> Fork:
    leaves = plan.new_main.leaves[other.name]
    guards = {k: v for k, v in fork.guards.items() if leaves is not None or k != MAIN}
    if plan.backup is None:
        return replace(fork, parent=MAIN, snapshot_id=leaves, tag=None, time_ms=None, guards=guards)
    name = plan.backup.directory
    if guard_name(other.name) in plan.backup.tags:
        guards[name] = guard_name(other.name)
    return replace(fork, parent=name, guards=guards)


def _left_main(main: TableHandle, other: Other) -> int | None:
    """The id at which the branch left main; None when it left another branch."""
    fork = other.fork
    return None if fork is None or fork.parent not in (MAIN, main.layout.main_branch) else fork.snapshot_id


def _lost_base(main: TableHandle, other: Other, done: NewMain) -> bool:
    """Whether the branch left main at a snapshot that main loses."""
    return (_left_main(main, other) or 0) > (done.leaves[other.name] or 0)


def _breaks_off(main: TableHandle, state: BranchState, head: int) -> bool:
    """Whether another engine spliced two histories at that snapshot, so that main's head lacks its rows."""
    if head not in state.snapshots or head == state.head:
        return False
    after = state.snapshots[min(i for i in state.snapshots if i > head)]
    return follows(main, state.snapshots[head].snapshot, after.snapshot) is False


def _branches(main: TableHandle) -> list[str]:
    hidden = main.layout.main_branch
    return [n for n in branch_names(main.store, main.layout) if not n.startswith(".") and n != hidden]


def _other(main: TableHandle, name: str) -> Other:
    branch = main.on_branch_directory(name)
    return Other(name, fork_of(branch), ancestry(branch, _EVER))


def _check_call(handle: TableHandle, name: str, verb: str) -> None:
    if handle.branch != MAIN:
        raise InvalidInputError(
            f"{verb} of {name!r} was called on {handle.describe()}, but only main can be given another branch's "
            "history; call it on the table opened without a branch",
            **handle.context,
        )
    if name == MAIN:
        raise _refused(handle, name, verb, "that is main itself", "name the branch to publish")
    if not isinstance(name, str):
        raise _refused(handle, name, verb, "the name of a branch is text", "name the branch to publish")


def head_to_publish(on_branch: TableHandle, name: str, snapshot: object, verb: str) -> Snapshot:
    """The version of a branch that is to be published; None for its head. Raises as `read_publication`."""
    if snapshot is None:
        head = latest_snapshot(on_branch)
        if head is None:
            raise _refused(on_branch, name, verb, "it has no snapshot", "write to it first")
        return head
    remedy = f"name a snapshot or tag of branch {name!r}"
    if isinstance(snapshot, bool) or not isinstance(snapshot, int | str) or snapshot == "":
        raise _refused(on_branch, name, verb, f"snapshot={snapshot!r} is not a version", remedy)
    found = resolve(on_branch, VersionSpec(VersionKind.TEXT, str(snapshot)))
    if found.handle.branch != on_branch.branch or found.snapshot is None:
        why = f"snapshot={snapshot!r} is a version of {found.handle.describe()}"
        raise _refused(on_branch, name, verb, why, remedy)
    return found.snapshot


def _refused(handle: TableHandle, name: str, verb: str, found: str, remedy: str) -> InvalidInputError:
    return InvalidInputError(
        f"{verb} of branch {name!r} of table {handle.name} is refused: {found}; {remedy}",
        table=handle.name,
        branch=name,
    )


def _sink_logs(handle: TableHandle, directory: str) -> dict[str, str]:
    """Read the sink logs in a branch's directory, as text by file name; skips files that are not text."""
    store = handle.store
    place = Layout(handle.layout.root, MAIN, None if directory == MAIN else directory).sink_dir
    names = [i.name for i in store.list(place) if not i.is_directory and not i.name.startswith(".")]
    logs: dict[str, str] = {}
    for name, data in zip(names, store.read_many([f"{place}/{n}" for n in names]), strict=True):
        with suppress(UnicodeDecodeError):
            logs[name] = data.decode()
    return logs


def newer_sink_logs(logs: Mapping[str, str], others: Mapping[str, str]) -> dict[str, str]:
    """Logs of `others` that `logs` lack, or that are of a later batch of the same query."""
    return {n: text for n, text in sorted(others.items()) if n not in logs or _batch(text) > _batch(logs[n])}


def put_sink_logs(directory: str, logs: Mapping[str, str]) -> tuple[Step, ...]:
    """Write sink logs into a branch's directory."""
    place = relative(layout_of(directory).sink_dir)
    return tuple(Put(f"{place}/{n}", text) for n, text in sorted(logs.items()))


def _batch(text: str) -> int:
    """The batch of a sink log; -1 when it cannot be decoded."""
    found = find_object(text, lambda raw: checked_number(raw["batch"]))
    return -1 if found is None else found
