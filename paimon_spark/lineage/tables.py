"""The lineage tables: their columns and keys, access to them, rows for them and conditions on them.

They are ordinary primary-key tables of the database `paimon`, so that any engine can join them. Rows are upserted:
writing one twice changes nothing.

Source: PIP-5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

import pyarrow as pa

from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.lineage.provenance import Provenance, TableRef
from paimon_spark.lineage.warehouse import Warehouse
from paimon_spark.predicate.ast import literal_text


@dataclass(frozen=True, slots=True)
class Definition:
    """A lineage table: name, columns (not null) with their Arrow types, and primary key."""

    name: str
    columns: Mapping[str, pa.DataType]
    keys: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(n, t, nullable=False) for n, t in self.columns.items()])


_TEXT: Final = pa.string()
_LONG: Final = pa.int64()
_TABLE: Final = {"database": _TEXT, "table": _TEXT}
_OF_JOB: Final = ("job", "database", "table")
_OF_BARRIER: Final = ("job", "barrier_id", "database", "table")

CATALOG_OPTIONS: Final = Definition("catalog_options", {"key": _TEXT, "value": _TEXT}, ("key",))
SOURCE_JOB: Final = Definition("source_job_lineage", {"job": _TEXT, **_TABLE}, _OF_JOB)
SINK_JOB: Final = Definition("sink_job_lineage", {"job": _TEXT, **_TABLE}, _OF_JOB)
SOURCE_SNAPSHOT: Final = Definition(
    "source_snapshot_lineage", {"job": _TEXT, "barrier_id": _LONG, **_TABLE, "snapshot_id": _LONG}, _OF_BARRIER
)
SINK_SNAPSHOT: Final = Definition(
    "sink_snapshot_lineage", {"job": _TEXT, "barrier_id": _LONG, **_TABLE, "snapshot_id": _LONG}, _OF_BARRIER
)
JOB_STARTUP: Final = Definition("job_startup", {"job": _TEXT, **_TABLE, "snapshot_id": _LONG}, _OF_JOB)
TABLES: Final = {
    d.name: d for d in (CATALOG_OPTIONS, SOURCE_JOB, SINK_JOB, SOURCE_SNAPSHOT, SINK_SNAPSHOT, JOB_STARTUP)
}
JOB_TABLES: Final = (SOURCE_JOB.name, SINK_JOB.name)
"""The tables of which job reads and writes which table, without snapshots."""

Rows: TypeAlias = Mapping[str, Sequence[tuple[Any, ...]]]
"""Rows by the name of their table, values in the order of its columns."""
RowLists: TypeAlias = dict[str, list[tuple[Any, ...]]]
"""The same, to be changed by whoever made it."""


class Index(Protocol):
    """The lineage tables of a warehouse, and the tables and snapshots in it; `table_index` implements it.

    Every method raises StorageError when the store fails, CommitError when rows could not be committed.
    """

    @property
    def warehouse(self) -> Warehouse: ...

    def exists(self) -> bool:
        """Whether there are lineage tables."""
        ...

    def create(self) -> None:
        """Create the database and the missing tables. Safe to race."""
        ...

    def options(self) -> dict[str, str]:
        """The rows of `catalog_options`; empty when there are no lineage tables."""
        ...

    def read(self, table: Definition, where: str | None = None) -> pa.Table:
        """Read rows, columns in the order of the definition; empty when there are no lineage tables."""
        ...

    def upsert(self, rows: Rows) -> None:
        """Write rows, one commit for each table that has some. Safe to repeat and to race."""
        ...

    def delete(self, table: Definition, where: str) -> int:
        """Delete the rows for which `where` is true and return how many there were."""
        ...

    def refs(self) -> Iterator[TableRef]:
        """Every branch of every table of the warehouse, without lineage's own. Each history once."""
        ...

    def table_names(self) -> Iterator[tuple[str, str]]:
        """Database and name of every table of the warehouse, without lineage's own."""
        ...

    def branches(self, database: str, table: str) -> Iterator[TableRef]:
        """Every branch of a table, each history once; nothing when the table is gone."""
        ...

    def snapshots(self, ref: TableRef, after: int = 0) -> Iterator[Snapshot]:
        """Snapshots alive of a branch with an id above `after`, newest first; nothing when the branch is gone."""
        ...

    def tagged(self, ref: TableRef) -> Mapping[str, Snapshot]:
        """Tags of a branch by name, savepoints among them; empty when the branch is gone."""
        ...


def rows_of(provenance: Provenance, sink: TableRef | None, snapshot_id: int | None) -> RowLists:
    """The rows of one commit for the sink's warehouse; sources of other warehouses are left out.

    Args:
        provenance: of the commit.
        sink: the branch committed to; None where only reads are recorded.
        snapshot_id: the snapshot made; None for a batch that made none.
    """
    job, barrier = provenance.job, provenance.barrier
    rows: RowLists = {}
    for source in provenance.sources:
        if source.ref is None or source.warehouse is not None:
            continue
        rows.setdefault(SOURCE_JOB.name, []).append((job, *source.ref))
        if source.last:
            rows.setdefault(SOURCE_SNAPSHOT.name, []).append((job, barrier, *source.ref, source.last))
    if sink is not None:
        rows[SINK_JOB.name] = [(job, *sink)]
        if snapshot_id is not None:
            rows[SINK_SNAPSHOT.name] = [(job, barrier, *sink, snapshot_id)]
    return rows


def write_rows(index: Index, rows: Rows, counts: dict[str, int] | None = None) -> None:
    """Upsert rows, the row of a sink's snapshot last: where it is, all rows of its batch are.

    Adds the number of rows written to `counts`, by lineage table. Raises StorageError, CommitError.
    """
    kept = {name: some for name, some in rows.items() if some}
    last = {SINK_SNAPSHOT.name: kept.pop(SINK_SNAPSHOT.name)} if SINK_SNAPSHOT.name in kept else {}
    for part in (kept, last):
        if part:
            index.upsert(part)
        if counts is not None:
            counts.update({name: counts.get(name, 0) + len(some) for name, some in part.items()})


def only_jobs(rows: Rows) -> RowLists:
    """The rows of `JOB_TABLES`, without those of snapshots."""
    return {name: list(some) for name, some in rows.items() if name in JOB_TABLES}


def merge_rows(parts: Iterable[Rows]) -> RowLists:
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


def column_equals(column: str, text: str) -> str:
    """Condition: the column equals the text."""
    return f"`{column}` = {literal_text(text)}"


def job_is_in(jobs: Iterable[str]) -> str:
    """Condition: the row is of one of some jobs."""
    quoted = [literal_text(job) for job in sorted(jobs)]
    return f"job = {quoted[0]}" if len(quoted) == 1 else f"job IN ({', '.join(quoted)})"


def table_is(ref: TableRef) -> str:
    """Condition: the row is of a branch."""
    return f"{column_equals('database', ref.database)} AND {column_equals('table', ref.table)}"


def job_barriers_between(batches: Iterable[tuple[str, int]]) -> Iterator[str]:
    """Conditions, one for each job: the row is of the job, and of a barrier between its least and greatest."""
    bounds: dict[str, tuple[int, int]] = {}
    for job, barrier in batches:
        low, high = bounds.get(job, (barrier, barrier))
        bounds[job] = min(low, barrier), max(high, barrier)
    for job, (low, high) in sorted(bounds.items()):
        yield f"({column_equals('job', job)} AND barrier_id BETWEEN {low} AND {high})"


def newest_barrier(index: Index, table: Definition, where: str) -> int:
    """The newest barrier of the rows for which `where` is true; -1 when there are none. Raises StorageError."""
    import pyarrow.compute as pc

    found = pc.max(index.read(table, where).column("barrier_id")).as_py()
    return -1 if found is None else int(found)
