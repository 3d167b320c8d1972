"""Conditions on the rows of lineage tables, as `Index.read` takes them.

Source: own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from paimon_spark.predicate.ast import literal_text

if TYPE_CHECKING:
    from paimon_spark.lineage.model import TableRef
    from paimon_spark.lineage.tables import Definition, Index


def is_(column: str, text: str) -> str:
    """The column equals the text."""
    return f"`{column}` = {literal_text(text)}"


def of_jobs(jobs: Iterable[str]) -> str:
    """The row is of one of some jobs."""
    quoted = [literal_text(job) for job in sorted(jobs)]
    return f"job = {quoted[0]}" if len(quoted) == 1 else f"job IN ({', '.join(quoted)})"


def of_table(ref: TableRef) -> str:
    """The row is of a branch."""
    return f"{is_('database', ref.database)} AND {is_('table', ref.table)}"


def barriers_between(bounds: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    """The row is of a job, and of one of its barriers from the first to the last: one condition for each job."""
    for job, (low, high) in sorted(bounds.items()):
        yield f"({is_('job', job)} AND barrier_id BETWEEN {low} AND {high})"


def newest(index: Index, table: Definition, where: str) -> int:
    """The newest barrier of the rows for which `where` is true; -1 when there are none. Raises StorageError."""
    import pyarrow.compute as pc

    found = pc.max(index.read(table, where).column("barrier_id")).as_py()
    return -1 if found is None else int(found)
