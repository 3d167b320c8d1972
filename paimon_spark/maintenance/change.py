"""Change snapshots, tags and branches under the table's lock, and delete unreachable files.

The plan of a change is made while the lock is held, then written to the journal: from that moment the change happens,
if need be by the next process that takes the lock. A lock without a journal is only removed. An operation is over when
its lock is deleted; its other files are deleted after that.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any, Final, NamedTuple

from paimon_spark import progress
from paimon_spark.advice import REPAIR
from paimon_spark.engine.commit.publish import check_store
from paimon_spark.engine.commit.verify import REPLACING
from paimon_spark.errors import (
    FileAlreadyThereError,
    OperationInProgressError,
    PaimonError,
    StorageError,
    TableNotFoundError,
    UnsafeDeletionError,
)
from paimon_spark.maintenance.removal import Removal, Removed, delete, find_removal
from paimon_spark.maintenance.roots import all_roots, without
from paimon_spark.metadata.handle import TableHandle, open_table, refuse_on_server
from paimon_spark.metadata.journal.change import Root, TableChange, encode, find_change, is_to_run, roots_put
from paimon_spark.metadata.journal.decision import Decision, decide, decision_path, split_root
from paimon_spark.metadata.journal.execution import run_step
from paimon_spark.metadata.journal.lock import (
    LOCK_FILE,
    HeldLock,
    LockFile,
    Owner,
    OwnerWatch,
    Waiting,
    clocks,
    find_lock,
    local_time,
    lock_directory,
    lock_timeout,
    running,
)
from paimon_spark.redaction import get_logger

_LOG = get_logger(__name__)

_BY_FILES: Final = (REPLACING - {"delete-branch", "undo-create-branch"}) | {"repair"}
"""Kinds of operations that write snapshots or schemas themselves, which servers of catalogs do not let happen."""
_LONGEST_WAIT_S: Final = 1.0
_MOST_FAILURES: Final = 3
_NOW: Final = Waiting()


def change_table(
    handle: TableHandle,
    kind: str,
    plan: Callable[[], TableChange | None],
    *,
    dry_run: bool = False,
    wait_ms: int = 60_000,
    waiting: Waiting = _NOW,
) -> Removed:
    """Plan and run one change under the table's lock, after finishing what dead processes left.

    `plan` is called while the lock is held: it reads the table, checks everything that may be refused, and returns the
    change, or None when there is nothing to do. When it raises, the table is left as it was. Returns what was deleted
    beyond the steps themselves; with `dry_run` what would be, without the lock.

    Raises:
        OperationInProgressError: another process held the lock for `wait_ms`; says who, what and since when.
        UnsafeDeletionError: it is unknown what the remaining roots need; nothing was changed.
        UnsupportedFeatureError: the store cannot create files exclusively (`publish.check_store`).
        StorageError: a step failed. Once the journal is written, the next operation finishes the change.
        KeyboardInterrupt: says whether the change is not begun, done, or left to the next operation.
    """
    if dry_run:
        return replace(preview(handle, plan()), dry_run=True)
    _check_may_change(handle, kind)
    owner = Owner.new()
    with running(owner):
        finished, held = _acquire(handle, owner, kind, waiting, wait_ms)
        with held:
            try:
                change = plan()
                data = b"" if change is None else encode(change)
                removal, roots = _expected_removal(handle, change)
            except BaseException:
                held.abandon()
                raise
            if change is None:
                held.abandon()
                return Removed(finished=finished)
            try:
                held.write_journal(data)
                return replace(_run(held, change, removal, roots), finished=finished)
            except KeyboardInterrupt as e:
                raise _interrupted(held, change) from e


class PlannedTable(NamedTuple):
    """A table, and its part of a change of several tables: as `plan` of `change_table`."""

    handle: TableHandle
    plan: Callable[[], TableChange | None]


def change_tables(
    kind: str,
    parts: Sequence[PlannedTable],
    decision_id: str,
    record: Callable[[], dict[str, Any]],
    *,
    dry_run: bool = False,
    wait_ms: int = 60_000,
    waiting: Waiting = _NOW,
) -> list[Removed]:
    """Plan and run a change of several tables of one warehouse: all of it, or nothing.

    All tables are locked and planned, and their journals written, before the change is decided; whatever stops it
    until then leaves every table as it was. From the decision on it happens, if need be by the next process that
    changes such a table. Readers see each table before or after its part. Returns what was deleted in each table.

    The decision stays, so that the caller can first complete what belongs to it; see `decision.py`. Where no table has
    anything to do, there is none.

    Args:
        kind: of the operation, such as `publish-pipeline`.
        parts: at least one table, each once.
        decision_id: new, and unique.
        record: what to keep with the decision; called last before it, when all journals are written. It raises what
            must stop the change: such as commits since the plans, where no table may lose one. Commits that come later
            end a change with `ended_by_commits` themselves (`engine.commit.verify`).
        dry_run: only return what would be deleted.
        wait_ms: longest wait for the lock of one table.
        waiting: clock and sleep of that.

    Raises:
        OperationInProgressError: a table is locked. With `ended` in its context, another process ended this change, by
            a commit, or as it took too long.
        Others as `change_table`.
    """
    if dry_run:
        return [replace(preview(part.handle, part.plan()), dry_run=True) for part in parts]
    owner = Owner.new()
    # In one order everywhere, so that two such changes cannot wait for each other.
    order = sorted(range(len(parts)), key=lambda i: parts[i].handle.layout.root)
    with running(owner), ExitStack() as stack:
        locks: dict[int, HeldLock] = {}
        changes: dict[int, tuple[TableChange, Removal, list[Root]]] = {}
        try:
            for i in order:
                handle = parts[i].handle
                _check_may_change(handle, kind)
                locks[i] = stack.enter_context(_acquire(handle, owner, kind, waiting, wait_ms)[1])
            for i in order:
                change = parts[i].plan()
                if change is not None:
                    change = replace(change, decision=decision_id)
                    changes[i] = (change, *_expected_removal(locks[i].handle, change))
            for i, (change, _, _) in changes.items():
                locks[i].write_journal(encode(change))
            kept = record() if changes else {}
            for lock in locks.values():
                lock.check()
        except BaseException:
            for lock in locks.values():
                lock.abandon()
            raise
        if changes and not _decided(parts, decision_id, kept):
            for lock in locks.values():
                lock.abandon()
            raise OperationInProgressError(
                f"the {kind} of {len(parts)} tables was ended by another process, which needed one of them, before it "
                "was decided; nothing was changed, try again",
                operation=kind,
                ended=True,
            )
        return _run_all(kind, locks, changes)


def _decided(parts: Sequence[PlannedTable], decision_id: str, record: dict[str, Any]) -> bool:
    """Decide that a change of several tables runs; whether it does."""
    handle = parts[0].handle
    warehouse, _ = split_root(handle)
    tables = tuple(part.handle.layout.root.removeprefix(f"{warehouse}/") for part in parts)
    return decide(handle.store, decision_path(warehouse, decision_id), Decision(True, tables, record)).runs


def _run_all(
    kind: str, locks: Mapping[int, HeldLock], changes: Mapping[int, tuple[TableChange, Removal, list[Root]]]
) -> list[Removed]:
    """Run the decided changes; one that fails is left to the next operation on its table, and the others go on."""
    done = {i: Removed() for i in locks}
    failure: Exception | None = None
    try:
        for i, lock in locks.items():
            if i not in changes:
                lock.abandon()
                continue
            try:
                done[i] = _run(lock, *changes[i])
            except PaimonError as e:
                failure = failure or e
    except KeyboardInterrupt as e:
        raise KeyboardInterrupt(
            f"the {kind} is decided but not finished; the next change of its tables finishes it"
        ) from e
    if failure is not None:
        raise failure
    return [done[i] for i in sorted(done)]


def _interrupted(held: HeldLock, change: TableChange) -> KeyboardInterrupt:
    """The interrupt with what happens to the change; a change without a journal is undone."""
    what = f"the {change.label} of table {held.handle.name}"
    with suppress(PaimonError):
        lock = find_lock(held.handle)
        if lock is None or lock.owner != held.lock_owner:
            return KeyboardInterrupt(f"{what} is done")
        if find_change(held.handle, held.lock_owner) is None:
            held.abandon()
            return KeyboardInterrupt(f"{what} was not begun")
    return KeyboardInterrupt(
        f"{what} is not finished; the next write, change of tags or branches, or {REPAIR} finishes it"
    )


def change_branch(
    handle: TableHandle,
    kind: str,
    plan: Callable[[TableHandle], TableChange | None],
    *,
    dry_run: bool = False,
    wait_ms: int = 60_000,
) -> Removed:
    """As `change_table`; `plan` gets the branch reopened, as `main` may mean another directory by then."""
    return change_table(handle, kind, lambda: plan(reopened(handle)), dry_run=dry_run, wait_ms=wait_ms)


def preview(handle: TableHandle, change: TableChange | None) -> Removed:
    """Removals of a change beyond its steps, for a dry run. Raises UnsafeDeletionError."""
    if change is None:
        return Removed()
    return find_removal(handle, change.released, _roots_after(handle, change)).removed()


def reopened(handle: TableHandle) -> TableHandle:
    """Open the branch again: other operations may have made main mean another directory."""
    return open_table(handle.store, handle.layout.root, handle.branch, handle.name, handle.overrides)


def _check_may_change(handle: TableHandle, kind: str) -> None:
    """Check that the table is there, and that what it is in lets an operation of a kind be done."""
    check_store(handle)
    if kind in _BY_FILES:
        refuse_on_server(
            handle, kind.replace("-", " "), "rollback_to_as_latest brings an earlier state back by a new snapshot"
        )
    check_there(handle)


def check_there(handle: TableHandle) -> None:
    """Check that the table still exists: its lock would recreate the directory of a dropped table."""
    layout = handle.layout
    if not any(handle.store.list(directory) for directory in (f"{layout.root}/schema", layout.branches_dir)):
        raise TableNotFoundError(
            f"table {handle.name} no longer exists: {handle.store.url(layout.root)} has neither schemas nor "
            "branches; it was dropped, renamed or moved",
            table=handle.name,
        )


def recover(handle: TableHandle, *, wait_ms: int = 60_000, waiting: Waiting = _NOW) -> str | None:
    """Finish or undo the operation of a dead process; returns the label of what was finished. One read for none."""
    if find_lock(handle) is None:
        return None
    check_store(handle)
    owner = Owner.new()
    with running(owner):
        return _until_free(handle, owner, waiting, wait_ms)


def unfinished(handle: TableHandle) -> str | None:
    """Describe the running or unfinished operation; None without one."""
    lock = find_lock(handle)
    if lock is None:
        return None
    change = find_change(handle, lock.owner)
    what = lock.kind if change is None else change.label
    return f"{what}, begun by {lock.owner.describe()} at {local_time(lock.since_ms)}"


def _expected_removal(handle: TableHandle, change: TableChange | None) -> tuple[Removal, list[Root]]:
    """The removal after the change if no other engine interferes, and the roots it was computed with.

    Computed before anything is changed, so that errors leave everything as it was.
    """
    if change is None or not change.released:
        return Removal(), []
    kept = _roots_after(handle, change)
    return find_removal(handle, change.released, kept), kept


def _roots_after(handle: TableHandle, change: TableChange) -> list[Root]:
    """The roots that exist after the change: those that stay, and those that its steps write."""
    return [*without(all_roots(handle), change.released), *roots_put(change)]


def _run(held: HeldLock, change: TableChange, removal: Removal, roots: Sequence[Root]) -> Removed:
    """Run the steps, delete files that are unreachable afterwards, and release the lock."""
    for step in progress.counted(change.steps, change.kind, "steps", len(change.steps)):
        held.check()
        run_step(held.handle, step)
    left: str | None = None
    if change.released:
        try:
            removal = _recheck(held, change, removal, roots)
        except UnsafeDeletionError as e:
            # The change itself is done; leftover files are harmless.
            left, removal = str(e), Removal(change.released)
            _LOG.warning("after the %s, files were left for remove_orphan_files: %s", change.label, e)
        delete(held.handle, removal, held.check)
    held.release()
    removed = replace(removal.removed(), left=left)
    _LOG.info("%s: %s; deleted %s", held.handle.describe(), change.label, removed.summary)
    return removed


def _recheck(held: HeldLock, change: TableChange, removal: Removal, roots: Sequence[Root]) -> Removal:
    """The removal, computed again when the roots after the steps are not the expected ones."""
    kept = all_roots(held.handle)
    if removal.released and {r.key: r.snapshot for r in roots} == {r.key: r.snapshot for r in kept}:
        return removal
    return find_removal(held.handle, change.released, kept)


def _acquire(
    handle: TableHandle, owner: Owner, kind: str, waiting: Waiting, wait_ms: int
) -> tuple[str | None, HeldLock]:
    """Acquire the lock, after finishing the operations of dead processes; with the label of the last one."""
    data = LockFile(owner, kind, waiting.clock_ms()).encode()
    started, finished = waiting.clock_ms(), None
    failures = 0
    while True:
        rest = max(0, wait_ms - (waiting.clock_ms() - started))
        held = HeldLock(handle, owner, owner, waiting, clocks())
        try:
            handle.store.create_exclusive(f"{lock_directory(handle)}/{LOCK_FILE}", data)
        except FileAlreadyThereError:
            pass
        except StorageError as e:
            failures += 1
            if not e.retryable or failures > _MOST_FAILURES:
                raise
            waiting.sleep(0.1 * failures)
        else:
            return finished, held
        found = find_lock(handle)
        if found is not None and found.owner == owner:  # the store's reply was lost
            return finished, held
        if found is not None:
            finished = _until_free(handle, owner, waiting, rest) or finished


def _until_free(handle: TableHandle, owner: Owner, waiting: Waiting, wait_ms: int) -> str | None:
    """Wait until the lock is free, finishing the operation of a dead owner; returns its label."""
    started, wait_s = waiting.clock_ms(), 0.01
    watch = OwnerWatch(handle, waiting)
    while True:
        lock = find_lock(handle)
        if lock is None:
            return None
        held = watch.take_over(lock, owner)
        if held is not None:
            with held:
                return _finish_other(held, lock)
        left_ms = wait_ms - (waiting.clock_ms() - started)
        if left_ms <= 0 or lock.owner.is_of_this_thread():
            raise lock_timeout(handle, lock, waiting.clock_ms() - started)
        waiting.sleep(min(wait_s * (1 + 0.2 * random.random()), left_ms / 1000))  # noqa: S311 - spreads callers out
        wait_s = min(2 * wait_s, _LONGEST_WAIT_S)


def _finish_other(held: HeldLock, lock: LockFile) -> str | None:
    change = find_change(held.handle, lock.owner)
    if change is None or not is_to_run(held.handle, change, ends=True):
        held.release()
        return None
    _LOG.warning("finishing the %s of table %s, left by %s", change.label, held.handle.name, lock.owner.describe())
    _run(held, change, Removal(), ())
    return change.label
