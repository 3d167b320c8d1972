"""merge_branch and fast_forward: replace main's history by a branch's, with a backup.

They differ where main already has every commit of the branch: a merge does nothing, so that it can be repeated while
main continues; a fast-forward takes main back to the branch. And where main has commits of its own: a merge is refused
unless it is told to replace them; a fast-forward replaces them.

Readers see main before or after, never a mix: the new main is first written to a directory below `branch/` whose name
starts with `.merge-`; then MAIN-BRANCH, which every open of the table reads, names that directory; then main's own
directory is replaced, in an order that is safe for engines that do not know MAIN-BRANCH; then MAIN-BRANCH is restored
and the directory is deleted. Our own commits to main after the plan fail (`engine.commit.verify`), so `refuse` holds
for those before it. Commits of other engines to the replaced history are moved to the backup branch.

Source: PIP-14, Merge Branch To Main; Java `utils/FileSystemBranchManager.fastForward`.

Tests: tests/unit/versioning/test_merge.py, test_fast_forward.py, test_merge_crashes.py, test_diverged.py.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from paimon_spark.advice import REBASE_BRANCH, REPLACE_BY_BRANCH, REPLACE_TABLE
from paimon_spark.display import ShownAsFacts
from paimon_spark.errors import BranchDivergedError, InvalidInputError
from paimon_spark.maintenance.change import change_table
from paimon_spark.maintenance.removal import Removed
from paimon_spark.metadata.branches import Fork
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.change import DeleteFile, DeleteTree, MoveLate, Put, Step, TableChange
from paimon_spark.metadata.layout import MAIN
from paimon_spark.metadata.retry import now_ms
from paimon_spark.metadata.snapshots import latest_snapshot_id
from paimon_spark.metadata.tags import guard_name
from paimon_spark.options.descriptor import check_choice
from paimon_spark.text import counted, named, safe
from paimon_spark.versioning.branch_state import (
    STAGING_PREFIX,
    create_state,
    directory_path,
    late_commits,
    layout_of,
    main_branch_path,
    relative,
    replace_state,
)
from paimon_spark.versioning.main_change import MainChange, main_change
from paimon_spark.versioning.new_main import without_expiration
from paimon_spark.versioning.publish import (
    Publication,
    backup_steps,
    fork_put,
    fork_steps,
    guard_put,
    late_commits_branch,
    lost_lines,
    lost_text,
    newer_sink_logs,
    put_sink_logs,
    read_publication,
    released,
    with_guard_of_backup,
    with_head_properties,
    with_sink_logs,
)

KIND = "merge-branch"
REFUSE, REPLACE, REBASE = "refuse", "replace", "rebase"
WAYS = (REFUSE, REPLACE, REBASE)
"""What publishing one table can do when main has moved."""
REBASE_PROPERTY = "paimon-spark.rebase"
"""Property of the commit of a rebase: a JSON object with `branch`, `snapshot`, the identity of the newest snapshot of
the branch that it holds, and `schema`, the id of the branch's newest schema."""
FAIL, OURS, THEIRS, NEWEST = "fail", "ours", "theirs", "newest"
CONFLICTS = (FAIL, OURS, THEIRS, NEWEST)
"""What a rebase can do with keys that both sides changed."""
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True, repr=False)
class MergeResult(ShownAsFacts):
    """Result of publishing a branch, or of its dry run.

    Attributes:
        branch: the published branch, which stays.
        fork_snapshot_id: the newest snapshot that main and the branch shared; None when they shared none.
        published_snapshot_id: main's new head.
        moved_snapshots, moved_tags: added to main.
        discarded_snapshots, discarded_tags: removed from main, or replaced by others of the same id or name.
        discarded_schemas: ids of schemas removed from main, or replaced.
        backup_branch: the branch that keeps what was discarded; None when nothing was, or with `backup=False`.
        removed: deleted files that nothing else needed.
        already_merged: main already had every commit of the branch, so nothing was done; of `fast_forward`: main
            already equalled the branch.
        rebased_rows: rows that a rebase wrote or deleted on main; of append tables those of the files added and
            removed. None where main was not rebased upon.
        kept_conflicts: rows of main that a rebase left as they were, though the branch changed them, or added equal
            ones, too.
        repeated_rows: of `rebased_rows`, those that main of an append table has already, and now has once more.
        schema_changes: what a rebase changed in main's columns, options and comments, as the branch had, in words.
        target: the branch that the changes went to, which is main unless another one was named.
        change: the rows that main loses and gains, by partition; None where nothing was done, and of a rebase.
    """

    branch: str
    fork_snapshot_id: int | None
    published_snapshot_id: int
    moved_snapshots: tuple[int, ...] = ()
    moved_tags: tuple[str, ...] = ()
    discarded_snapshots: tuple[int, ...] = ()
    discarded_tags: tuple[str, ...] = ()
    discarded_schemas: tuple[int, ...] = ()
    backup_branch: str | None = None
    removed: Removed = field(default_factory=Removed)
    already_merged: bool = False
    rebased_rows: int | None = None
    kept_conflicts: int = 0
    repeated_rows: int = 0
    schema_changes: tuple[str, ...] = ()
    target: str = MAIN
    change: MainChange | None = None

    @property
    def dry_run(self) -> bool:
        """Whether nothing was changed."""
        return self.removed.dry_run

    def text_lines(self) -> list[str]:
        branch, target = safe(self.branch), safe(self.target)
        if self.already_merged:
            stays = f"and stays at snapshot {self.published_snapshot_id}"
            return [f"branch {branch} is already merged: {target} has every commit of it, {stays}"]
        if self.rebased_rows is not None:
            would = "would get" if self.dry_run else "has"
            kept = (
                f"; {counted(self.kept_conflicts, 'conflicting row')} of {target} stayed" if self.kept_conflicts else ""
            )
            twice = f"; {self.repeated_rows:,} of them were on {target} already" if self.repeated_rows else ""
            out = [f"{target} {would} the changes of branch {branch}, {counted(self.rebased_rows, 'row')}{twice}{kept}"]
            return [*out, *(f"definition: {safe(text)}" for text in self.schema_changes)]
        out = [
            f"main {'would become' if self.dry_run else 'is'} branch {branch} at snapshot {self.published_snapshot_id}"
        ]
        if self.moved_snapshots:
            out.append(f"new on main: {named(self.moved_snapshots, 'snapshot')}")
        lost = lost_text(self.discarded_snapshots, self.discarded_tags, self.discarded_schemas)
        rows = [] if self.change is None else self.change.rows_lines(would=self.dry_run)
        return [*out, *lost_lines(lost, self.backup_branch, self.removed), *rows]


def merge_branch(
    handle: TableHandle,
    name: str,
    *,
    snapshot: int | str | None = None,
    if_main_moved: str = REFUSE,
    only_if_main_is: int | None = None,
    backup: bool = True,
    dry_run: bool = False,
    takes_back: bool = False,
    properties: Mapping[str, str] | None = None,
    clock_ms: Callable[[], int] = now_ms,
    wait_ms: int = 60_000,
) -> MergeResult:
    """Make a branch's history main's: its snapshots, tags and schemas after the fork.

    When main has, after the fork, commits other than compactions, schema changes, or tags of users, `if_main_moved`
    decides: `refuse` raises BranchDivergedError, `replace` goes on. It is looked at under the lock, and has no effect
    on a fast-forward. So is `only_if_main_is`: with another snapshot as main's head, BranchDivergedError is raised.

    What main has after the fork is kept as a branch `main_backup_<time>`, unless `backup` is False. The branch stays,
    forked from main at its published snapshot. Nothing happens when main already has every commit of the branch, unless
    `takes_back` (a fast-forward): then main goes back to the branch, and also gets its tags up to the fork, where their
    names are free. `properties` are added to main's new head; it stays the same commit.

    Source: Java `utils/FileSystemBranchManager.fastForward`, which keeps no backup.
    """
    verb = "the fast-forward" if takes_back else "the merge"
    check_if_main_moved(if_main_moved)
    check_only_if(only_if_main_is)
    publication: Publication | None = None
    change: MainChange | None = None

    def plan() -> TableChange | None:
        nonlocal publication, change
        publication = read_publication(
            handle, name, verb, snapshot=snapshot, backup=backup, now_ms=clock_ms(), takes_back=takes_back
        )
        if only_if_main_is is not None:
            check_is_head(publication.handle, name, publication.main.head, only_if_main_is)
        if publication.changes_nothing:
            return None
        if not takes_back and if_main_moved == REFUSE:
            check_not_moved(publication)
        change = main_change(publication)
        publication = with_head_properties(publication, properties or {})
        return merge_change(with_sink_logs(publication), uuid.uuid4().hex[:12])

    removed = change_table(handle, KIND, plan, dry_run=dry_run, wait_ms=wait_ms)
    assert publication is not None
    if publication.changes_nothing:
        done = publication.new_main
        return MergeResult(name, done.fork_id, publication.main.head, removed=removed, already_merged=True)
    return merge_result(publication, removed, change)


def check_if_main_moved(choice: object) -> None:
    """Check that the choice is one of `REFUSE` and `REPLACE`. Raises InvalidInputError."""
    check_choice("if_main_moved", choice, (REFUSE, REPLACE))


def check_ways(if_main_moved: object, on_conflict: object, target: str = MAIN) -> None:
    """Check how a branch is published: the choices, and that the others are only given for a rebase.

    Raises InvalidInputError.
    """
    check_choice("if_main_moved", if_main_moved, WAYS)
    check_choice("on_conflict", on_conflict, CONFLICTS)
    if on_conflict != FAIL and if_main_moved != REBASE:
        raise InvalidInputError(
            f"on_conflict={on_conflict!r} is for a rebase; pass if_main_moved={REBASE!r}, or leave it out",
            argument="on_conflict",
        )
    if target != MAIN and if_main_moved != REBASE:
        raise InvalidInputError(
            f"target={target!r}: only main becomes a branch; pass if_main_moved={REBASE!r}, which puts what the branch "
            f"changed on top of {target!r}",
            argument="target",
        )


def check_not_moved(plan: Publication, *, in_pipeline: bool = False) -> None:
    """Check that main has, since the fork, only compactions of its own. Raises BranchDivergedError.

    `in_pipeline`: the branch is published with those of other tables, so that the error says what fits that.
    """
    # Compactions change no rows and do not count; commits that have expired do. It is checked under the lock, so that a
    # branch never replaces work that nobody looked at.
    if not plan.main_has_moved:
        return
    found = plan.commits_of_main
    kinds = (("snapshots", found), ("tags", plan.tags_of_main), ("schemas", plan.schemas_of_main))
    shown = "; ".join(
        f"{noun} {', '.join(map(str, names[:_MOST_NAMED]))}{', …' if len(names) > _MOST_NAMED else ''}"
        for noun, names in kinds
        if names
    )
    what = "commits" if found else "tags or schema changes"
    since = f", after snapshot {plan.new_main.fork_id}" if plan.new_main.fork_id else ""
    kept = "deletes them" if plan.late is None else "keeps them as a backup branch"
    advice = f"{REPLACE_BY_BRANCH}, which {kept}; or {REBASE_BRANCH}"
    if in_pipeline:
        advice = (
            f"Pass {REBASE_BRANCH}; or {REPLACE_TABLE.of(name=plan.handle.name)} to replace them by the branch, which "
            f"{kept}, in this table alone"
        )
    raise BranchDivergedError(
        f"branch {plan.source.name!r} of table {plan.handle.name} was not merged: main has {what} that it does not "
        f"have{since} ({shown}). {advice}",
        table=plan.handle.name,
        branch=plan.source.name,
        fork_snapshot_id=plan.new_main.fork_id or None,
        snapshot_ids=found,
        tags=plan.tags_of_main,
        schema_ids=plan.schemas_of_main,
    )


def check_only_if(only_if_main_is: object, target: str = MAIN) -> None:
    """Check that a condition on main's head is the id of a snapshot, or None. Raises InvalidInputError."""
    if only_if_main_is is None:
        return
    if target != MAIN:
        raise InvalidInputError(
            f"only_if_main_is={only_if_main_is!r} is about main, but target={target!r} is not main; leave one out",
            argument="only_if_main_is",
        )
    if isinstance(only_if_main_is, bool) or not isinstance(only_if_main_is, int) or only_if_main_is < 1:
        raise InvalidInputError(
            f"only_if_main_is={only_if_main_is!r} is not the id of a snapshot, such as 7; `history` of the table shows "
            "the ids",
            argument="only_if_main_is",
        )


def check_is_head(main: TableHandle, branch: str, head: int, expected: int) -> None:
    """Check that main's head is the snapshot that the caller expects. Raises BranchDivergedError."""
    if head == expected:
        return
    found = f"at snapshot {head}" if head else "without a snapshot"
    raise BranchDivergedError(
        f"nothing was published: main of table {main.name} is {found}, not at {expected} as only_if_main_is demands; "
        f"compare snapshots {expected} and {head}, then give {head}, or leave only_if_main_is out",
        table=main.name,
        branch=branch,
        snapshot_ids=(head,),
    )


def check_head(plan: Publication, head: int) -> None:
    """Check that main's head is the snapshot `head`. Raises BranchDivergedError."""
    if plan.main.head != head:
        raise main_moved(plan.handle, plan.source.name, head)


def main_moved(main: TableHandle, branch: str, head: int) -> BranchDivergedError:
    """The error when main has commits after `head`, on which a publication of the branch was prepared."""
    now = latest_snapshot_id(main) or 0
    return BranchDivergedError(
        f"nothing was published: main of table {main.name} moved from snapshot {head} to {now} "
        "meanwhile; try again, or stop its writers for a moment",
        table=main.name,
        branch=branch,
        snapshot_ids=(now,),
    )


def merge_change(plan: Publication, staging_id: str, label: str | None = None) -> TableChange:
    """The merge as steps; `staging_id` is part of the staging directory's name."""
    new = with_guard_of_backup(plan.new_main.state, plan)
    staging = STAGING_PREFIX + staging_id
    before = plan.handle.layout.main_branch
    head = without_expiration(plan.head)
    branch = plan.source.name
    guard = guard_name(branch)
    verb = "fast-forward of main to branch" if plan.takes_back else "merge into main of branch"
    what = label or f"{verb} {branch!r}"
    old, later = plan.fork, newer_sink_logs(plan.main_logs, plan.branch_logs)
    record = Fork(
        MAIN,
        plan.source.head,
        None,
        head.snapshot.time_ms,
        None if old is None else old.created_ms,
        {**({} if old is None else old.guards), MAIN: guard},
    )
    steps: tuple[Step, ...] = (
        *(() if plan.backup is None else put_sink_logs(plan.backup.directory, plan.main_logs)),
        *backup_steps(plan, what),
        *put_sink_logs(staging, {**plan.main_logs, **later}),
        *create_state(replace(new, directory=staging)),
        Put(main_branch_path(), staging),
        *put_sink_logs(plan.main.directory, later),
        *replace_state(plan.main, new, plan.late),
        guard_put(plan.source.state.directory, branch, head),
        fork_put(plan.source.state.directory, record),
        *fork_steps(plan),
        DeleteFile(main_branch_path()) if before is None else Put(main_branch_path(), before),
        DeleteTree(directory_path(staging)),
        # Last, as others go on committing meanwhile; in this change, so that it is done whoever finishes the merge.
        *_move_late(plan),
        *late_commits_branch(plan, plan.main.directory),
    )
    source = plan.source.state
    now = replace(source, tags={**source.tags, guard: head})
    kept = [now, *([] if plan.backup is None else [plan.backup])]
    gone = (*released(plan.main, new, kept), *released(source, now, [new, *kept]))
    return TableChange(KIND, what, steps, gone)


def merge_result(plan: Publication, removed: Removed, change: MainChange | None = None) -> MergeResult:
    """The result of a merge, with the commits of other engines that it moved to the backup branch."""
    done, late = plan.new_main, tuple[int, ...]()
    if plan.late is not None and not removed.dry_run:
        planned = {plan.main.head} if plan.backup is None else plan.backup.snapshots.keys()
        late = late_commits(plan.handle, plan.late, planned)
    is_kept = plan.backup is not None or late
    return MergeResult(
        plan.source.name,
        done.fork_id or None,
        plan.source.head,
        done.moved_snapshots,
        done.moved_tags,
        (*done.discarded_snapshots, *late),
        done.discarded_tags,
        done.discarded_schemas,
        plan.late if is_kept else None,
        removed,
        change=change,
    )


def _move_late(plan: Publication) -> tuple[Step, ...]:
    """Move commits that other engines made on main's former head to the backup branch."""
    if plan.late is None:
        return ()
    former = plan.main.snapshots.get(plan.main.head)
    directory, aside = (relative(layout_of(name).snapshot_dir) for name in (plan.main.directory, plan.late))
    return (MoveLate(directory, aside, "" if former is None else former.text, plan.head.text),)
