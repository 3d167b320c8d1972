"""Rows on their way into the lineage tables.

Source: own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from paimon_spark.lineage.tables import SINK_JOB, SINK_SNAPSHOT, SOURCE_JOB, TABLES, Rows

if TYPE_CHECKING:
    from paimon_spark.lineage.tables import Index

JOB_TABLES: Final = (SOURCE_JOB.name, SINK_JOB.name)
"""The tables that tell which job reads and writes which table, without snapshots."""


def write(index: Index, rows: Rows, counts: dict[str, int] | None = None) -> None:
    """Upsert rows so that the row of a sink's snapshot comes last: where it is, all of its batch is there.

    Args:
        index: the lineage tables.
        rows: to write.
        counts: what was written is added here, by lineage table.

    Raises:
        StorageError, CommitError: they could not be written, or some of them.
    """
    kept = {name: some for name, some in rows.items() if some}
    last = {SINK_SNAPSHOT.name: kept.pop(SINK_SNAPSHOT.name)} if SINK_SNAPSHOT.name in kept else {}
    for part in (kept, last):
        if part:
            index.upsert(part)
        if counts is not None:
            counts.update({name: counts.get(name, 0) + len(some) for name, some in part.items()})


def records_data(index: Index) -> bool:
    """Whether rows of snapshots are written, not only those of jobs. Raises StorageError."""
    from paimon_spark.lineage.switch import switch_of

    switch = switch_of(index)
    return switch.data or not switch.table


def only_jobs(rows: Rows) -> dict[str, list[tuple[Any, ...]]]:
    """The rows that tell which job reads and writes which table, without those of snapshots."""
    return {name: list(some) for name, some in rows.items() if name in JOB_TABLES}


def joined(parts: Iterable[Rows]) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of all parts in order; of those with the same key the last."""
    out: dict[str, dict[tuple[Any, ...], tuple[Any, ...]]] = {}
    for part in parts:
        for name, some in part.items():
            places = [list(TABLES[name].columns).index(k) for k in TABLES[name].keys]
            rows = out.setdefault(name, {})
            for row in some:
                rows[tuple(row[i] for i in places)] = tuple(row)
    return {name: list(rows.values()) for name, rows in out.items()}


def job_of(name: str, row: tuple[Any, ...]) -> str:
    """The job of a row of the table `name`."""
    return str(row[list(TABLES[name].columns).index("job")])


def nothing() -> None:
    """What follows the writing of rows where nothing does."""
