"""One change of refs at a time on a table; written down first, finished by whoever comes next.

`intent/intent` under the table is created exclusively by who changes refs of any branch: tags, branches, merges,
roll-backs, expiry. It says who works (`lock.py`). The plan is made while it is held, then written to
`intent/plan-<operation>`: from that moment the change happens, if need be by the next process that wants to change
something. An intent without a plan is just taken away. Commits, reads and foreign engines do not ask for it.

An operation is over when the intent is gone; its other files are removed after that, and mean nothing then.

A change of one branch, planned on the branch as it is once nobody else changes the table's refs.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from paimon_spark import progress
from paimon_spark.engine.commit.publish import check_store
from paimon_spark.errors import FileAlreadyThereError, StorageError, TableNotFoundError, UnsafeDeletionError
from paimon_spark.maintenance.removal import Removal, Removed, delete, find_removal, plan_removal
from paimon_spark.maintenance.roots import all_roots, without
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.journal.change import Root, TableChange, roots_put
from paimon_spark.metadata.journal.change import decode as decode_change
from paimon_spark.metadata.journal.change import encode as encode_change
from paimon_spark.metadata.journal.execution import run_step
from paimon_spark.metadata.journal.lock import (
    INTENT,
    Held,
    Intent,
    Owner,
    Waiting,
    Watch,
    at_work,
    busy,
    clocks,
    directory_of,
    find_intent,
    local_time,
    plan_path,
)
from paimon_spark.metadata.small_files import find_decoded

_LOG = logging.getLogger(__name__)

_LONGEST_WAIT_S: Final = 1.0
_MOST_FAILURES: Final = 3
_NOW: Final = Waiting()


def change_table(
    handle: TableHandle,
    kind: str,
    plan: Callable[[], TableChange | None],
    *,
    wait_ms: int = 60_000,
    waiting: Waiting = _NOW,
) -> Removed:
    """Plan and carry out one change of the table's refs, alone. Recovers first what others left unfinished.

    Args:
        handle: any branch of the table.
        kind: the verb, for messages of those who wait.
        plan: called while nobody else changes refs: reads the table, checks everything that may be refused, and says
            what to do. Errors of it leave the table as it was; None: nothing to do.
        wait_ms: how long to wait for another process at it.
        waiting: clock and sleep.

    Returns:
        What was deleted beyond the steps themselves.

    Raises:
        OperationInProgressError: another process is at it all the time; says who, what and since when.
        UnsafeDeletionError: it cannot be told what the roots that stay need; nothing was changed.
        UnsupportedFeatureError: the store cannot create files exclusively (`publish.check_store`).
        TableNotFoundError: the table was dropped.
        CorruptFileError: what another operation left cannot be read; says what to do.
        StorageError: a step failed. When the plan was written down, the next access finishes it.
    """
    check_store(handle)
    check_there(handle)
    owner = Owner.new()
    with at_work(owner):
        finished, held = _acquire(handle, owner, kind, waiting, wait_ms)
        with held:
            try:
                change = plan()
                data = b"" if change is None else _encoded(change)
                removal, roots = _prepared(handle, change)
            except BaseException:
                held.give_up()
                raise
            if change is None:
                held.give_up()
                return Removed(finished=finished)
            held.write_plan(data)
            return replace(_carry_out(held, change, removal, roots), finished=finished)


def change_branch(
    handle: TableHandle,
    kind: str,
    plan: Callable[[TableHandle], TableChange | None],
    *,
    wait_ms: int = 60_000,
) -> Removed:
    """As `change_table`; `plan` gets the branch opened anew: `main` may have come to mean another directory."""
    return change_table(handle, kind, lambda: plan(reopened(handle)), wait_ms=wait_ms)


def preview(handle: TableHandle, change: TableChange | None) -> Removed:
    """What a change would delete beyond its steps. Raises UnsafeDeletionError."""
    if change is None:
        return Removed()
    return plan_removal(handle, change.released, [*without(all_roots(handle), change.released), *roots_put(change)])


def reopened(handle: TableHandle) -> TableHandle:
    """The branch as it is now: while others changed refs, main may have become another one."""
    return open_table(handle.store, handle.layout.root, handle.branch, handle.name, handle.overrides)


def check_there(handle: TableHandle) -> None:
    """Check that there is a table still: an intent would put a directory where there was one.

    Raises TableNotFoundError.
    """
    layout = handle.layout
    if not any(handle.store.list(directory) for directory in (f"{layout.root}/schema", layout.branches_dir)):
        raise TableNotFoundError(
            f"table {handle.name} is not there any more: {handle.store.url(layout.root)} has neither schemas nor "
            "branches; it was dropped, renamed or moved",
            table=handle.name,
        )


def recover(handle: TableHandle, *, wait_ms: int = 60_000, waiting: Waiting = _NOW) -> str | None:
    """Finish, or take away, what a process left that died; the label of what was finished. One look if nothing is.

    Raises:
        OperationInProgressError: a living process is at it, longer than `wait_ms`.
        Others as `change_table`.
    """
    if find_intent(handle) is None:
        return None
    check_store(handle)
    owner = Owner.new()
    with at_work(owner):
        return _until_free(handle, owner, waiting, wait_ms)


def unfinished(handle: TableHandle) -> str | None:
    """The operation that is going on or was left unfinished, in words; None if none is. Changes nothing.

    Raises:
        CorruptFileError: the intent cannot be read.
    """
    intent = find_intent(handle)
    if intent is None:
        return None
    change = _find_plan(handle, intent.owner)
    what = intent.kind if change is None else change.label
    return f"{what}, begun by {intent.owner.describe()} at {local_time(intent.since_ms)}"


def _prepared(handle: TableHandle, change: TableChange | None) -> tuple[Removal, list[Root]]:
    """The removal that the change will bring if nothing happens meanwhile, and the roots it was found with.

    Found before anything is changed, so that doubt leaves everything as it was.
    """
    if change is None or not change.released:
        return Removal(), []
    kept = [*without(all_roots(handle), change.released), *roots_put(change)]
    return find_removal(handle, change.released, kept), kept


def _carry_out(held: Held, change: TableChange, removal: Removal, roots: Sequence[Root]) -> Removed:
    """Run the steps, delete what then nobody needs, and end the operation."""
    for step in progress.counted(change.steps, change.kind, "steps", len(change.steps)):
        held.check()
        run_step(held.handle, step)
    left: str | None = None
    if change.released:
        try:
            removal = _as_of_now(held, change, removal, roots)
        except UnsafeDeletionError as e:
            # The change itself is done. Files that nobody needs hurt nobody.
            left, removal = str(e), Removal(change.released)
            _LOG.warning("after the %s, files were left for remove_orphan_files: %s", change.label, e)
        delete(held.handle, removal, held.check)
    held.finish()
    return replace(removal.removed(), left=left)


def _as_of_now(held: Held, change: TableChange, removal: Removal, roots: Sequence[Root]) -> Removal:
    """The removal, with the roots that are there after the steps."""
    kept = all_roots(held.handle)
    if removal.released and {r.key: r.snapshot for r in roots} == {r.key: r.snapshot for r in kept}:
        return removal
    return find_removal(held.handle, change.released, kept)


def _encoded(change: TableChange) -> bytes:
    return json.dumps(encode_change(change), ensure_ascii=False).encode()


def _acquire(handle: TableHandle, owner: Owner, kind: str, waiting: Waiting, wait_ms: int) -> tuple[str | None, Held]:
    """The lock, after finishing what others left; with the label of that."""
    intent = Intent(owner, kind, waiting.clock_ms())
    data = json.dumps({"version": 1, "owner": owner.encode(), "kind": kind, "sinceMillis": intent.since_ms}).encode()
    started, finished = waiting.clock_ms(), None
    failures = 0
    while True:
        rest = max(0, wait_ms - (waiting.clock_ms() - started))
        held = Held(handle, owner, owner, waiting, clocks())
        try:
            handle.store.create_exclusive(f"{directory_of(handle)}/{INTENT}", data)
        except FileAlreadyThereError:
            pass
        except StorageError as e:
            failures += 1
            if not e.retryable or failures > _MOST_FAILURES:
                raise
            waiting.sleep(0.1 * failures)
        else:
            return finished, held
        found = find_intent(handle)
        if found is not None and found.owner == owner:  # the answer was lost on the way
            return finished, held
        if found is not None:
            finished = _until_free(handle, owner, waiting, rest) or finished


def _until_free(handle: TableHandle, owner: Owner, waiting: Waiting, wait_ms: int) -> str | None:
    """Wait until there is no intent, finishing it when its owner died; the label of what was finished."""
    started, wait_s = waiting.clock_ms(), 0.01
    watch = Watch(handle, waiting)
    while True:
        intent = find_intent(handle)
        if intent is None:
            return None
        held = watch.taken_over(intent, owner)
        if held is not None:
            with held:
                return _finish_other(held, intent)
        left_ms = wait_ms - (waiting.clock_ms() - started)
        if left_ms <= 0 or intent.owner.is_of_this_thread():
            raise busy(handle, intent, waiting.clock_ms() - started)
        waiting.sleep(min(wait_s * (1 + 0.2 * random.random()), left_ms / 1000))  # noqa: S311 - spreads callers out
        wait_s = min(2 * wait_s, _LONGEST_WAIT_S)


def _finish_other(held: Held, intent: Intent) -> str | None:
    change = _find_plan(held.handle, intent.owner)
    if change is None:
        held.finish()
        return None
    _LOG.warning("finishing the %s of table %s, which %s left", change.label, held.handle.name, intent.owner.describe())
    _carry_out(held, change, Removal(), ())
    return change.label


def _find_plan(handle: TableHandle, owner: Owner) -> TableChange | None:
    def decode(data: bytes, path: str) -> TableChange:
        try:
            raw = json.loads(data)
        except ValueError:
            raw = None
        return decode_change(raw, handle.store.url(path))

    return find_decoded(handle.store, plan_path(handle, owner), decode)
