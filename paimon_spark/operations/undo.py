"""The operation that undoes the newest publish or rollback."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.operations.answer import Answer, change
from paimon_spark.operations.operation import Argument, Effect, Operation, Request
from paimon_spark.text import safe

if TYPE_CHECKING:
    from paimon_spark.versioning.undo import Undone


def _undo(a: Request) -> Undone:
    return a.table().undo(if_main_moved=a["if_main_moved"], dry_run=a.dry_run)


def _question(a: Request) -> str:
    return f"undo the {safe(_undo(a.planned()).operation)} of {safe(a.table().name)}"


def _show(a: Request, done: Undone) -> Answer:
    return change(a, done.text_lines(), done)


OPERATIONS = (
    Operation(
        "undo the newest merge, fast-forward, replacement or rollback of main that kept a backup",
        _undo,
        (
            Argument(
                "if_main_moved",
                "what to do when main has commits since: refuse, or replace, which keeps them in a new backup branch",
                default="refuse",
                choices=("refuse", "replace"),
                is_own=True,
            ),
        ),
        Effect.DELETE,
        details="What the operation brought is kept as a new backup branch, so that an undo can be undone.",
        procedure="undo",
        result="operation STRING, snapshot_id BIGINT, backup_branch STRING",
        rows=lambda a, done: [(done.operation, done.snapshot_id, done.backup_branch)],
        is_own=True,
        command="undo",
        show=_show,
        question=_question,
    ),
)
