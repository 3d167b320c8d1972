"""What a task notes before it reads: for which query or job it does."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paimon_spark.lineage.note import NoteTicket


def for_task(tickets: Sequence[NoteTicket]) -> bytes | None:
    """What the first partition of a plan carries; None where nothing is noted. Driver."""
    return pickle.dumps(tuple(tickets)) if tickets else None


def note(carried: bytes) -> None:
    """Write down what this task is about to read. Never raises. Executor."""
    from paimon_spark.lineage.notes import write_note
    from paimon_spark.spark.task_identity import task_identity

    who = task_identity()
    if who is not None:
        for ticket in pickle.loads(carried):  # noqa: S301 - bytes that Spark carried for us
            write_note(ticket, who)
