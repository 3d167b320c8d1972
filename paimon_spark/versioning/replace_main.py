"""Make `main` mean a branch, by the file MAIN-BRANCH, and delete the former main.

First the branch gets what it needs of the former main: snapshots and tags from before the fork, schemas, consumers and
sink logs. Later opens of main find the branch; readers that opened main before read its files until they are deleted,
then find no schema and open it again.

Source: PIP-14, Replace Main With Branch; Paimon between 2024-05-28 and 2024-06-27 (`FileSystemBranchManager`).

Tests: tests/unit/versioning/test_replace_main.py, test_commits_meanwhile.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from paimon_spark.display import ShownAsFacts
from paimon_spark.maintenance.change import change_table
from paimon_spark.maintenance.removal import Removed
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.change import (
    DeleteFile,
    DeleteTree,
    Put,
    Root,
    RootKind,
    SetAside,
    Step,
    TableChange,
)
from paimon_spark.metadata.layout import MAIN
from paimon_spark.metadata.retry import now_ms
from paimon_spark.metadata.tags import guard_name, guarded_branch
from paimon_spark.redaction import get_logger
from paimon_spark.text import safe
from paimon_spark.versioning.branch_state import (
    BranchState,
    consumer_path,
    delete_snapshot,
    fork_path,
    layout_of,
    main_branch_path,
    relative,
    replace_state,
    tag_path,
    withdraw_schemas,
)
from paimon_spark.versioning.main_change import MainChange, main_change
from paimon_spark.versioning.publish import (
    Publication,
    backup_steps,
    fork_steps,
    late_commits_branch,
    lost_lines,
    lost_text,
    newer_sink_logs,
    put_sink_logs,
    read_publication,
    released,
    with_guard_of_backup,
    with_sink_logs,
)

_LOG = get_logger(__name__)

KIND = "replace-main"
WARNING: Final = (
    "Java Paimon 0.9 and newer, and pypaimon, do not read the file MAIN-BRANCH: they no longer find main in this "
    "table, and can only read it as a branch by its own name"
)


@dataclass(frozen=True, slots=True, repr=False)
class ReplaceResult(ShownAsFacts):
    """Result of replacing main, or of its dry run.

    Attributes:
        branch: the branch that main means now.
        former_main: the branch that main meant before; `main` for the table's own directory.
        fork_snapshot_id: the newest snapshot that both shared; None when they shared none.
        copied_snapshots, copied_tags: copied from the former main to the branch.
        discarded_snapshots, discarded_tags, discarded_schemas: of the former main, which the branch lacks.
        backup_branch: the branch that keeps what was discarded; None when nothing was, or with `backup=False`.
        removed: deleted files that nothing else needed.
        warning: how other engines read such a table.
        change: the rows that main loses and gains, by partition.
    """

    branch: str
    former_main: str
    fork_snapshot_id: int | None
    copied_snapshots: tuple[int, ...] = ()
    copied_tags: tuple[str, ...] = ()
    discarded_snapshots: tuple[int, ...] = ()
    discarded_tags: tuple[str, ...] = ()
    discarded_schemas: tuple[int, ...] = ()
    backup_branch: str | None = None
    removed: Removed = field(default_factory=Removed)
    warning: str = WARNING
    change: MainChange | None = None

    @property
    def dry_run(self) -> bool:
        """Whether nothing was changed."""
        return self.removed.dry_run

    def text_lines(self) -> list[str]:
        verb = "would mean" if self.dry_run else "means"
        first = f"main {verb} branch {safe(self.branch)}; it was {safe(self.former_main)}"
        lost = lost_text(self.discarded_snapshots, self.discarded_tags, self.discarded_schemas)
        rows = [] if self.change is None else self.change.rows_lines(would=self.dry_run)
        return [first, *lost_lines(lost, self.backup_branch, self.removed), *rows, safe(self.warning)]


def replace_main(
    handle: TableHandle,
    name: str,
    *,
    backup: bool = True,
    dry_run: bool = False,
    clock_ms: Callable[[], int] = now_ms,
    wait_ms: int = 60_000,
) -> ReplaceResult:
    """Make `main` mean a branch, and delete the former main."""
    plans: list[tuple[Publication, BranchState]] = []
    changes: list[MainChange] = []

    def plan() -> TableChange:
        publication = read_publication(handle, name, "replacing main", snapshot=None, backup=backup, now_ms=clock_ms())
        plans.append((with_sink_logs(publication), promoted_branch(publication)))
        changes.append(main_change(publication))
        return replace_change(*plans[-1])

    removed = change_table(handle, KIND, plan, dry_run=dry_run, wait_ms=wait_ms)
    publication, new = plans[-1]
    if not dry_run:
        _LOG.warning("branch %r is now main of table %s: %s", name, handle.name, WARNING)
    before, done = publication.source.state, publication.new_main
    return ReplaceResult(
        name,
        publication.main.directory,
        done.fork_id or None,
        tuple(sorted(new.snapshots.keys() - before.snapshots.keys())),
        tuple(sorted(n for n in new.tags.keys() - before.tags.keys() if guarded_branch(n) is None)),
        done.discarded_snapshots,
        done.discarded_tags,
        done.discarded_schemas,
        None if publication.backup is None else publication.backup.directory,
        removed,
        change=changes[-1],
    )


def promoted_branch(plan: Publication) -> BranchState:
    """The branch's state as main: its own, and what it lacks of main's new state."""
    state, main = plan.source.state, with_guard_of_backup(plan.new_main.state, plan)
    own = guard_name(plan.source.name)
    guards = {n: ref for n, ref in main.tags.items() if guarded_branch(n) is not None}
    tags = {**main.tags, **state.tags, **guards}
    return replace(
        state,
        snapshots={**main.snapshots, **state.snapshots},
        tags={n: ref for n, ref in tags.items() if n != own},
        changelogs={**main.changelogs, **state.changelogs},
        schemas={**main.schemas, **state.schemas},
        consumers={**plan.main.consumers, **state.consumers},
    )


def replace_change(plan: Publication, new: BranchState) -> TableChange:
    """The whole operation as steps; pure."""
    name, old = plan.source.name, plan.source.state
    sinks = relative(layout_of(MAIN).sink_dir)
    parents = {p: state for p, state in plan.source.between.items() if guard_name(name) in state.tags}
    steps: tuple[Step, ...] = (
        *backup_steps(plan, f"replacement of main by branch {name!r}"),
        *replace_state(old, new),
        *(
            Put(consumer_path(old.directory, consumer), text)
            for consumer, text in sorted(new.consumers.items())
            if consumer not in old.consumers
        ),
        *put_sink_logs(old.directory, newer_sink_logs(plan.branch_logs, plan.main_logs)),
        Put(main_branch_path(), name),
        DeleteFile(fork_path(old.directory)),
        *(DeleteFile(tag_path(parent, guard_name(name))) for parent in sorted(parents)),
        *fork_steps(plan, former_goes=True),
        *_delete_main(plan.main, plan.late),
        *late_commits_branch(plan, old.directory),
        # The sink logs of a branch are deleted with its directory.
        *(DeleteFile(f"{sinks}/{n}") for n in sorted(plan.main_logs) if plan.main.directory == MAIN),
    )
    kept = [new, *([] if plan.backup is None else [plan.backup])]
    gone = (
        *released(plan.main, None, kept),
        *released(old, new, kept),
        *(
            Root(RootKind.TAG, parent, guard_name(name), state.tags[guard_name(name)].snapshot)
            for parent, state in sorted(parents.items())
        ),
    )
    return TableChange(KIND, f"replacement of main by branch {name!r}", steps, gone)


def _delete_main(main: BranchState, late: str | None) -> tuple[Step, ...]:
    """Delete a former main: its schemas first, which make it visible; its head last of the snapshots.

    Concurrent commits of other engines are moved to the directory of the branch `late`.
    """
    layout = layout_of(main.directory)
    rest = (
        [layout.snapshot_dir, layout.tag_dir, layout.changelog_dir, layout.consumer_dir]
        if main.directory == MAIN
        else [layout.branch_root]
    )
    return (
        # Readers who opened main before find its rows as long as the head is there, then no schema, and open main
        # again.
        *(
            [DeleteTree(relative(layout.schema_dir))]
            if main.directory == MAIN
            else withdraw_schemas(relative(layout.schema_dir), main.schemas)
        ),
        *(delete_snapshot(main, i) for i in sorted(main.snapshots)),
        *(() if late is None else [SetAside(relative(layout.snapshot_dir), relative(layout_of(late).snapshot_dir))]),
        *(DeleteTree(relative(path)) for path in rest),
    )
