"""What is noted of batch reads that name their job: nothing is recorded of others.

A plan is noted when its rows are read: in this process right here, in Spark by the task that reads its first partition.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from paimon_spark.options.lineage import JOB, parse_lineage_options

if TYPE_CHECKING:
    from paimon_spark.engine.scan.plan import Plan
    from paimon_spark.lineage.note import NoteTicket
    from paimon_spark.metadata.handle import TableHandle


def tickets_of(handle: TableHandle, plan: Plan, after: int | None = None) -> tuple[NoteTicket, ...]:
    """What tasks that read a plan note of it, one ticket for each branch; none where it is not recorded. Never raises.

    Args:
        handle: of the read.
        plan: what is read.
        after: of an incremental read the snapshot that it begins after.
    """
    if JOB.key not in handle.overrides:
        return ()
    try:
        return _tickets(handle, plan, after)
    except Exception as e:  # noqa: BLE001 - no read fails for its lineage
        from paimon_spark.jobs.recording import warn_once

        warn_once(handle.describe(), "what batch jobs read of it is not recorded", e)
        return ()


def note_here(tickets: tuple[NoteTicket, ...]) -> None:
    """The rows are read in this process, for whom it runs. Never raises."""
    from paimon_spark.lineage.notes import this_process, write_note

    for ticket in tickets:
        write_note(ticket, this_process())


def _tickets(handle: TableHandle, plan: Plan, after: int | None) -> tuple[NoteTicket, ...]:
    from paimon_spark.jobs.lineage_index import open_index
    from paimon_spark.jobs.recording import LINEAGE_IS_OFF, warn_once
    from paimon_spark.lineage.model import TableRef
    from paimon_spark.lineage.note import NoteTicket
    from paimon_spark.lineage.notes import now_ms
    from paimon_spark.lineage.place import home_of, is_of_lineage
    from paimon_spark.lineage.switch import switch_of

    asked = parse_lineage_options(handle.overrides)
    job = asked.job
    home = home_of(handle)
    if job is None or home is None or is_of_lineage(home.ref):
        return ()
    if not switch_of(open_index(home.warehouse)).table:
        warn_once(home.warehouse.url, LINEAGE_IS_OFF)
        return ()
    read = {plan.branch: None if plan.snapshot is None else plan.snapshot.id}
    for split in plan.splits:  # of two branches read as one table
        if split.branch != plan.branch:
            read[split.branch] = max(split.snapshot_id, read.get(split.branch) or 0)
    token, time_ms = uuid.uuid4().hex, now_ms()
    return tuple(
        NoteTicket(
            home.warehouse,
            TableRef.of(home.ref.database, home.ref.bare, branch),
            is_stream=False,
            after=after,
            last=last,
            within=None,
            time_ms=time_ms,
            token=token,
            job=job,
            barrier=asked.barrier,
        )
        for branch, last in read.items()
    )
