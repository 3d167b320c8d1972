"""The lineage tables: columns, keys and options; what a commit adds to them; Index, the door to them.

They are ordinary primary-key tables of the database `paimon`, so that any engine joins them. Rows are upserted: writing
one twice changes nothing.

Source: PIP-5.

Rows on their way into the lineage tables.

Source: own.

Conditions on the rows of lineage tables, as `Index.read` takes them.

Source: own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import pyarrow as pa

from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.lineage.provenance import Provenance, TableRef
from paimon_spark.lineage.warehouse import Warehouse
from paimon_spark.predicate.ast import literal_text

if TYPE_CHECKING:
    from paimon_spark.lineage.provenance import TableRef


@dataclass(frozen=True, slots=True)
class Definition:
    """A lineage table.

    Attributes:
        columns: name → Arrow type, in order; none may be null.
        keys: the primary key.
    """

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

Rows: TypeAlias = Mapping[str, Sequence[tuple[Any, ...]]]
"""Rows by the name of their table, values in the order of its columns."""


class Index(Protocol):
    """The lineage tables of a warehouse. `table/lineage_index.py` is the one that reads and writes them.

    Every method raises StorageError when the store fails, CommitError when rows could not be committed.
    """

    @property
    def warehouse(self) -> Warehouse: ...

    def exists(self) -> bool:
        """Whether there are lineage tables."""
        ...

    def create(self) -> None:
        """Make the database and those of the tables that are missing. Safe to race."""
        ...

    def options(self) -> dict[str, str]:
        """Rows of `catalog_options`; empty when there are no lineage tables."""
        ...

    def read(self, table: Definition, where: str | None = None) -> pa.Table:
        """Rows of a lineage table, in the order of its columns. Empty when there are no lineage tables."""
        ...

    def upsert(self, rows: Rows) -> None:
        """Write rows, one commit for each table that has some. Safe to repeat and to race."""
        ...

    def delete(self, table: Definition, where: str) -> int:
        """Remove the rows for which `where` is true; how many there were."""
        ...

    def refs(self) -> Iterator[TableRef]:
        """Every branch of every table of the warehouse, but those of the database of lineage. Each history once."""
        ...

    def table_names(self) -> Iterator[tuple[str, str]]:
        """Database and name of every table of the warehouse, but those of the database of lineage."""
        ...

    def branches(self, database: str, table: str) -> Iterator[TableRef]:
        """Every branch of a table. Each history once; none when it is gone."""
        ...

    def snapshots(self, ref: TableRef, after: int = 0) -> Iterator[Snapshot]:
        """Snapshots alive of a branch with an id greater than `after`, newest first. None when the branch is gone."""
        ...

    def tagged(self, ref: TableRef) -> Mapping[str, Snapshot]:
        """Tags of a branch, savepoints among them, by name. None when the branch is gone."""
        ...


def rows_of(provenance: Provenance, sink: TableRef | None, snapshot_id: int | None) -> dict[str, list[tuple[Any, ...]]]:
    """What one commit adds to the lineage tables of the sink's warehouse: sources of other warehouses are left out.

    Args:
        provenance: what the commit says.
        sink: the branch committed to; None where only what was read is recorded.
        snapshot_id: that was made; None for a batch that made none.
    """
    job, barrier = provenance.job, provenance.barrier
    rows: dict[str, list[tuple[Any, ...]]] = {}
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


JOB_TABLES: Final = (SOURCE_JOB.name, SINK_JOB.name)
"""The tables that tell which job reads and writes which table, without snapshots."""


def write_rows(index: Index, rows: Rows, counts: dict[str, int] | None = None) -> None:
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


def only_jobs(rows: Rows) -> dict[str, list[tuple[Any, ...]]]:
    """The rows that tell which job reads and writes which table, without those of snapshots."""
    return {name: list(some) for name, some in rows.items() if name in JOB_TABLES}


def merge_rows(parts: Iterable[Rows]) -> dict[str, list[tuple[Any, ...]]]:
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
    """The column equals the text."""
    return f"`{column}` = {literal_text(text)}"


def job_is_in(jobs: Iterable[str]) -> str:
    """The row is of one of some jobs."""
    quoted = [literal_text(job) for job in sorted(jobs)]
    return f"job = {quoted[0]}" if len(quoted) == 1 else f"job IN ({', '.join(quoted)})"


def table_is(ref: TableRef) -> str:
    """The row is of a branch."""
    return f"{column_equals('database', ref.database)} AND {column_equals('table', ref.table)}"


def job_barriers_between(bounds: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    """The row is of a job, and of one of its barriers from the first to the last: one condition for each job."""
    for job, (low, high) in sorted(bounds.items()):
        yield f"({column_equals('job', job)} AND barrier_id BETWEEN {low} AND {high})"


def newest_barrier(index: Index, table: Definition, where: str) -> int:
    """The newest barrier of the rows for which `where` is true; -1 when there are none. Raises StorageError."""
    import pyarrow.compute as pc

    found = pc.max(index.read(table, where).column("barrier_id")).as_py()
    return -1 if found is None else int(found)
