"""Compute main's history after a branch is published as main. Pure.

Main keeps its snapshots up to where the branch left it, if they join the branch's without a gap, and its tags up to
there. Later snapshots, tags, changelogs and schemas of main become the backup branch. Guard tags of other branches
move to where those branches leave the new main.

Source: PIP-14, Merge Branch To Main; Java `FileSystemBranchManager.fastForward`.

Tests: tests/unit/versioning/test_merge_steps.py, test_merge.py, test_model.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from paimon_spark.format.metadata_files import snapshot as snapshot_file
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.branches import Fork, same_snapshot
from paimon_spark.metadata.layout import MAIN
from paimon_spark.metadata.snapshots import contiguous_ids
from paimon_spark.metadata.tags import guard_name, guarded_branch, guards_rebase
from paimon_spark.versioning.branch_state import BranchState, Ref, snapshot_of_tag


@dataclass(frozen=True, slots=True)
class PublishSource:
    """The branch to publish.

    Attributes:
        head: id of the snapshot that becomes main's head.
        trail: `ancestry` of that snapshot: up to which id its history was on itself, its parents and main.
        between: states of the parents on the trail, by name, without main.
        exact: a snapshot was requested, so that later schemas of the branch are left out.
        is_recorded: whether its fork was recorded.
    """

    name: str
    state: BranchState
    head: int
    trail: Sequence[tuple[str, int]]
    between: Mapping[str, BranchState] = field(default_factory=dict)
    exact: bool = False
    is_recorded: bool = False


@dataclass(frozen=True, slots=True)
class Other:
    """A branch that keeps its state; only its fork may move. `trail` is the `ancestry` of its head."""

    name: str
    fork: Fork | None
    trail: Sequence[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class NewMain:
    """State of main after an operation.

    Attributes:
        state: main's new state, in its old directory.
        fork: the newest snapshot that main and the branch share; None when they share none.
        fork_is_known: False when what they share is unknown, as everything comparable has expired.
        moved_snapshots, moved_tags: from the branch and its parents.
        discarded_snapshots, discarded_tags, discarded_changelogs, discarded_schemas: removed from main.
        leaves: by other branch, the id at which its history leaves the new main; None where nothing is shared.
    """

    state: BranchState
    fork: Ref | None
    fork_id: int
    fork_is_known: bool
    moved_snapshots: tuple[int, ...]
    moved_tags: tuple[str, ...]
    discarded_snapshots: tuple[int, ...]
    discarded_tags: tuple[str, ...]
    discarded_changelogs: tuple[int, ...]
    discarded_schemas: tuple[int, ...]
    leaves: Mapping[str, int | None]

    @property
    def discards(self) -> bool:
        """Whether main loses anything."""
        return bool(
            self.discarded_snapshots or self.discarded_tags or self.discarded_changelogs or self.discarded_schemas
        )


def plan_new_main(
    main: BranchState, source: PublishSource, others: Sequence[Other] = (), *, with_older_tags: bool = False
) -> NewMain:
    """Compute main's state with the source's head as its head.

    `with_older_tags`: main also gets the source's tags up to the fork, as far as their names are free there.
    """
    fork_id, fork_is_known = _fork(main, source)
    history = _history(main, source, fork_id)
    ids = contiguous_ids(history.keys(), source.head)
    snapshots = {i: history[i] for i in ids}
    known = {**_up_to(main.known, fork_id), **source.state.known, **history}
    fork = known.get(fork_id) if fork_id else None

    kept_tags = {
        name: ref
        for name, ref in main.tags.items()
        if guarded_branch(name) is None and (ref.id <= fork_id or _shares(ref.snapshot, known, source.head))
    }
    moved_tags = {
        name: ref
        for name, ref in source.state.tags.items()
        if guarded_branch(name) is None and fork_id < ref.id <= source.head
    }
    # A tag that the branch gave another snapshot is the branch's, as in Paimon; main's is discarded.
    kept_tags = {n: ref for n, ref in kept_tags.items() if n not in moved_tags or moved_tags[n] == ref}
    if with_older_tags:
        moved_tags |= {
            name: ref
            for name, ref in source.state.tags.items()
            if guarded_branch(name) is None and ref.id <= fork_id and name not in kept_tags
        }
    new_tags = sorted(moved_tags.keys() - kept_tags.keys())
    own_tags = {n for n in main.tags if guarded_branch(n) is None}
    leaves = {other.name: leaves_at(other, source, fork_id) for other in others}
    # Long-lived changelogs after the fork tell of commits that main gives up; they go to the backup, and the branch's
    # come.
    changelogs = {i: ref for i, ref in main.changelogs.items() if i <= fork_id}
    changelogs |= {i: ref for i, ref in source.state.changelogs.items() if fork_id < i <= source.head}
    schemas = _schemas(main, source, snapshots[source.head].snapshot, fork)
    state = replace(
        main,
        snapshots=snapshots,
        tags={**kept_tags, **moved_tags, **_guards(main, source, leaves, known)},
        changelogs=changelogs,
        schemas=schemas,
    )
    kept = [
        i for i in main.snapshots if i in snapshots and same_snapshot(main.snapshots[i].snapshot, snapshots[i].snapshot)
    ]
    return NewMain(
        state,
        fork,
        fork_id,
        fork_is_known,
        moved_snapshots=tuple(sorted(snapshots.keys() - set(kept))),
        moved_tags=tuple(new_tags),
        discarded_snapshots=tuple(sorted(main.snapshots.keys() - set(kept))),
        discarded_tags=tuple(sorted(own_tags - kept_tags.keys())),
        discarded_changelogs=tuple(sorted(main.changelogs.keys() - changelogs.keys())),
        discarded_schemas=tuple(sorted(i for i, text in main.schemas.items() if schemas.get(i) != text)),
        leaves=leaves,
    )


def backup_state(name: str, main: BranchState, done: NewMain, children: Iterable[str] = ()) -> BranchState:
    """State of a branch `name` that keeps main's losses, with the fork snapshot.

    `children`: branches that left main after that snapshot; their guards are put here.
    """
    snapshots = {i: main.snapshots[i] for i in done.discarded_snapshots}
    # With the fork snapshot before its first one the backup shares a snapshot with main; elsewhere a gap would follow.
    if done.fork is not None and (not snapshots or done.fork_id + 1 in snapshots):
        alive = main.snapshots.get(done.fork_id)
        snapshots.setdefault(done.fork_id, alive or snapshot_of_tag(done.fork.snapshot))
    tags = {n: main.tags[n] for n in done.discarded_tags}
    if done.fork is not None:
        tags[guard_name(name)] = without_expiration(done.fork)
    for child in children:
        guard = main.tags.get(guard_name(child))
        if guard is not None and guard.id > done.fork_id:
            tags[guard_name(child)] = guard
    changelogs = {i: main.changelogs[i] for i in done.discarded_changelogs}
    return BranchState(name, snapshots, tags, changelogs, main.schemas)


def leaves_at(other: Other, source: PublishSource, fork_id: int) -> int | None:
    """The id at which the history of another branch leaves that of the source; None when they share nothing."""
    trail = {name: newest for name, newest in source.trail if name != MAIN}
    trail[MAIN] = fork_id
    shared = [min(newest, trail[name]) for name, newest in other.trail if name in trail]
    return max(shared, default=0) or None


def without_expiration(ref: Ref) -> Ref:
    """The file of a tag without its retention."""
    return Ref(snapshot_file.encode(ref.snapshot).decode(), ref.snapshot) if "tagTimeRetained" in ref.text else ref


def _up_to(refs: Mapping[int, Ref], newest: int) -> dict[int, Ref]:
    """The refs with ids up to `newest`."""
    return {i: ref for i, ref in refs.items() if i <= newest}


def _fork(main: BranchState, source: PublishSource) -> tuple[int, bool]:
    """The newest id that both share, and whether that is certain.

    Existing snapshots outweigh the recorded fork: other engines change histories without recording it.
    """
    recorded = dict(source.trail).get(MAIN)
    ours, theirs = main.known, source.state.known
    both = sorted(ours.keys() & theirs.keys())
    shared = [i for i in both if same_snapshot(ours[i].snapshot, theirs[i].snapshot)]
    fork_id = min(max([recorded or 0, *shared]), source.head)
    contradicting = [i for i in both if i not in shared and i <= fork_id]
    # One id with other contents: the histories parted before it, whatever was recorded.
    if contradicting:
        fork_id = max((i for i in shared if i < contradicting[0]), default=0)
    # A branch with snapshot 1 was created empty; otherwise it has a base that is no longer known.
    is_known = fork_id > 0 or source.is_recorded or bool(contradicting) or 1 in source.state.snapshots
    return fork_id, is_known


def _history(main: BranchState, source: PublishSource, fork_id: int) -> dict[int, Ref]:
    """The snapshots of the source's history, from all branches that have them."""
    found = _up_to(main.snapshots, fork_id)
    # A branch of a branch brings the snapshots of the parents between it and main, else main would begin with a gap.
    trail = [(name, newest) for name, newest in source.trail if name in source.between]
    below = source.state
    for name, newest in trail:
        state = source.between[name]
        seam, other = below.known.get(newest), state.known.get(newest)
        if seam is not None and other is not None and not same_snapshot(seam.snapshot, other.snapshot):
            break  # that parent's history was changed since
        found |= {i: ref for i, ref in state.snapshots.items() if fork_id < i <= newest and i not in found}
        below = state
    return found | _up_to(source.state.snapshots, source.head)


def _shares(snapshot: Snapshot, known: Mapping[int, Ref], head: int) -> bool:
    ref = known.get(snapshot.id)
    return snapshot.id <= head and ref is not None and same_snapshot(ref.snapshot, snapshot)


def _schemas(main: BranchState, source: PublishSource, head: Snapshot, fork: Ref | None) -> dict[int, str]:
    """The branch's schemas; older ones that it lacks come from main, as branches of Paimon 0.9 have only one."""
    own = {i: text for i, text in source.state.schemas.items() if not source.exact or i <= head.schema_id}
    shared = fork.snapshot.schema_id if fork is not None else min(own, default=0) - 1
    return {**{i: text for i, text in main.schemas.items() if i <= shared}, **own}


def _guards(
    main: BranchState, source: PublishSource, leaves: Mapping[str, int | None], known: Mapping[int, Ref]
) -> dict[str, Ref]:
    """The guard tags on the new main: of the source at its head, of others where they leave it."""
    found = (
        {guard_name(source.name): without_expiration(known[source.head])}
        if source.state.directory != main.directory
        else {}
    )
    for name, ref in main.tags.items():
        branch = guarded_branch(name)
        if branch is None or branch == source.name:
            continue
        # It serves the next rebase only while main still has the commit of the last one.
        if guards_rebase(name):
            if ref.id in known and same_snapshot(known[ref.id].snapshot, ref.snapshot):
                found[name] = ref
            continue
        at = leaves.get(branch)
        if at is None and branch in leaves:
            continue  # it no longer shares anything with main
        if at is None:  # the branch is gone; the doctor deletes the guard
            at = ref.id
        base = _nearest(known, at)
        if base is not None:
            found[name] = without_expiration(base)
    return found


def _nearest(known: Mapping[int, Ref], newest: int) -> Ref | None:
    """The newest snapshot known up to that id."""
    return known.get(max((i for i in known if i <= newest), default=0))
