"""Results of lineage questions: shown as text or HTML, converted to Arrow and DataFrames."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import pyarrow as pa

from paimon_spark.display import MOST_ROWS, grid, paragraph, section
from paimon_spark.lineage.asking.graph import Node
from paimon_spark.lineage.asking.unrecorded_writes import NOTHING, Unrecorded
from paimon_spark.lineage.index.provenance import Provenance
from paimon_spark.metadata.branches import is_internal_branch
from paimon_spark.metadata.tags import guarded_branch
from paimon_spark.spark_port import spark_jobs

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

ProvenanceOf: TypeAlias = Callable[[Node, int], Provenance | None]
"""The provenance of a snapshot of a table; None when it has none, or has expired."""
SharedUntil: TypeAlias = Callable[[Node, Node], int | None]
"""(branch, other branch of the same table): the newest snapshot that both hold; 0 for none, None where unknown."""
NextTables: TypeAlias = Callable[[str, Node], Sequence[Node]]
"""(job, table it reads or writes) → the tables on the job's other side that it joins with the table."""

_SHOWN_VALUES: Final = 20
"""Values of a list shown in one cell."""
TEXT: Final = pa.string()
LONG: Final = pa.int64()
_FLAG: Final = pa.bool_()
_TEXTS: Final = pa.list_(TEXT)
_LONGS: Final = pa.list_(LONG)


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of a job that read or made a snapshot.

    Attributes:
        snapshot: made of the sink; None when there is none, or another batch has its id after a merge or rollback.
        certain: False when the rows leave open whether it read the snapshot asked about.
    """

    job: str
    barrier: int
    snapshot: int | None = None
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Met:
    """Range that the batch (`job`, `barrier`) read of a source of a snapshot of `sink`.

    Attributes:
        after: the last snapshot read whole before the batch; 0 when there was none.
        last: the last snapshot read whole at its end; 0 when there was none.
        within: the snapshot of which a part was read when it ended; None when none, or when only rows are known.
        is_replaced: whether `last` is of a former history of the source, which a merge or a rollback replaced: the
            source has no snapshot of that id now, or one that was committed later.
    """

    job: str
    barrier: int
    sink: Node
    after: int
    last: int
    within: int | None = None
    is_replaced: bool = False


@dataclass(frozen=True, slots=True)
class ReachedTable:
    """A table upstream or downstream of the table or job asked about.

    Attributes:
        depth: number of jobs in between; 1 for the nearest.
        path: names of jobs and tables on a shortest path from the start to this table, both included.
        snapshot: upstream of a snapshot: the newest it stems from (0: nothing was read of it), of a former history of
            the table only where all are (`is_replaced`); downstream of a snapshot: the first that contains it, None
            when none does yet. None in questions about a table.
        met: upstream of a snapshot: the batches that read this table, newest first. Two that differ in `last` mean
            that the snapshot holds the table in two states.
    """

    node: Node
    depth: int
    path: tuple[str, ...]
    snapshot: int | None = None
    met: tuple[Met, ...] = ()

    @property
    def is_replaced(self) -> bool:
        """Whether `snapshot` is of a former history of the table, which a merge or a rollback replaced."""
        return bool(self.met) and all(m.is_replaced for m in self.met)


@dataclass(frozen=True, slots=True)
class ReachedJob:
    """A job upstream or downstream; depth and path as in ReachedTable."""

    job: str
    depth: int
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refs:
    """Earliest and newest snapshot alive of a table, and the snapshots of its tags and of its branches' starts.

    Attributes:
        is_deleted: whether it is a branch that was deleted.
    """

    alive: tuple[int, int] | None = None
    tags: Mapping[str, int] | None = None
    branches: Mapping[str, int] | None = None
    is_deleted: bool = False


@dataclass(frozen=True, slots=True)
class Affected:
    """A table that holds rows of a snapshot.

    Attributes:
        depth, path: as in ReachedTable; depth 0 is the table asked about.
        first: the first snapshot that contains it; all later ones do, until rows are overwritten or deleted. None
            when a job reads the table above but has made no snapshot from it yet.
        snapshots: recorded ones, ascending, made by the batches that read it.
        batches: those batches, by job and barrier, also those that made no snapshot.
        alive: those of `snapshots` that have not expired; None when snapshots were not looked up.
        tags: that hold `first` or a later snapshot, (name, snapshot), sorted; they outlive expiry.
        branches: made from `first` or a later snapshot, (name, that snapshot), sorted.
        is_deleted: whether it is a branch that was deleted; False when that was not looked up.
    """

    node: Node
    depth: int
    path: tuple[str, ...]
    first: int | None
    snapshots: tuple[int, ...] = ()
    batches: tuple[Batch, ...] = ()
    alive: tuple[int, ...] | None = None
    tags: tuple[tuple[str, int], ...] = ()
    branches: tuple[tuple[str, int], ...] = ()
    is_deleted: bool = False


class Result:
    """A result that can be shown as a table."""

    __slots__ = ()

    def to_arrow(self) -> pa.Table:
        """The answer as an Arrow table."""
        raise NotImplementedError

    def to_pandas(self) -> pd.DataFrame:
        """The answer as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def to_spark(self, session: SparkSession | None = None) -> DataFrame:
        """The answer as a Spark DataFrame, classic or Connect, of the active session or a new one by default."""
        return spark_jobs().arrow_dataframe(self.to_arrow(), session)

    def _heading(self) -> tuple[str, str]:
        """The title above the rows, and a remark beside it."""
        return "", ""

    def _remarks(self) -> list[str]:
        """Lines below the rows."""
        return []

    def _cells(self, row: Mapping[str, Any]) -> list[Any]:
        """A row of `to_arrow` as it is shown."""
        return [cell(name, value) for name, value in row.items()]

    def _shown(self) -> tuple[list[str], list[list[Any]], int]:
        """Names of the columns, the first rows as they are shown, and how many more there are."""
        table = self.to_arrow()
        rows = [self._cells(row) for row in table.slice(0, MOST_ROWS).to_pylist()]
        return table.column_names, rows, table.num_rows - len(rows)

    def __str__(self) -> str:
        names, found, left = self._shown()
        rows = [names, *([" ".join(str("" if v is None else v).split()) for v in row] for row in found)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        shown = ["  ".join(v.ljust(w) for v, w in zip(row, widths, strict=True)) for row in rows]
        more = f"and {left} more" if left else ""
        lines = ["; ".join(filter(None, self._heading())), *shown, more, *self._remarks()]
        return "\n".join(line.rstrip() for line in lines if line)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        names, rows, left = self._shown()
        title, note = self._heading()
        more = paragraph(f"… and {left:,} more") if left else ""
        return section(title or type(self).__name__, note, grid(names, rows), more, *map(paragraph, self._remarks()))


@dataclass(frozen=True, slots=True, repr=False)
class LineageStatus(Result):
    """Whether lineage is on in a warehouse.

    Attributes:
        warehouse: its URL.
        table: whether it is recorded which jobs read and write which tables.
        data: whether it is recorded which snapshots they read and make.
        flush_interval_ms: least time between two commits of a process to the lineage tables; None: the default.
        has_tables: whether there are lineage tables: lineage is on, or once was.
        jobs: how many jobs are recorded.
        warning: of `enable`: that tables keep too little history for later corrections; None for none.
    """

    warehouse: str
    table: bool
    data: bool
    flush_interval_ms: int | None
    has_tables: bool
    jobs: int
    warning: str | None = None

    def to_arrow(self) -> pa.Table:
        """One row, a column for each attribute."""
        types = {"warehouse": TEXT, "table": _FLAG, "data": _FLAG, "flush_interval_ms": LONG, "has_tables": _FLAG}
        return arrow_table({**types, "jobs": LONG}, [tuple(getattr(self, name) for name in (*types, "jobs"))])

    def _remarks(self) -> list[str]:
        return [] if self.warning is None else [f"warning: {self.warning}"]


@dataclass(frozen=True, slots=True, repr=False)
class Relations(Result):
    """The tables and jobs upstream or downstream of a table, a snapshot or a job, nearest first.

    Attributes:
        start: the table, or the name of the job, that was asked about.
        snapshot: of the table; None when the whole table was asked about.
        made_by: the batches that made the snapshot; empty when no job recorded it.
        note: a sentence where the answer needs one, such as on a snapshot that no job recorded.
        unrecorded: what was written without recorded lineage, so that it is missing here although it may belong here:
            upstream to the tables found, downstream to any table of the warehouses, from the snapshot on.
        deleted: branches among `tables` that were deleted.
    """

    start: Node | str
    direction: Literal["upstream", "downstream"]
    tables: tuple[ReachedTable, ...]
    jobs: tuple[ReachedJob, ...]
    snapshot: int | None = None
    made_by: tuple[Batch, ...] = ()
    note: str | None = None
    unrecorded: Unrecorded = NOTHING
    deleted: frozenset[Node] = frozenset()

    @property
    def asked(self) -> str:
        """Name of the table or job that was asked about."""
        return self.start if isinstance(self.start, str) else self.start.name

    @property
    def snapshots(self) -> dict[str, int | None]:
        """Name of each table → its snapshot; None in questions about a whole table.

        Upstream it is the newest that the snapshot asked about stems from (0: nothing read yet, or only a part of the
        first one, see `within` in `tables`; one of a former history, see `is_replaced`, only where there is no other),
        downstream the first that contains it.
        """
        return {t.node.name: t.snapshot for t in self.tables}

    def to_arrow(self) -> pa.Table:
        """Columns kind (`table` or `job`), name, warehouse, depth, snapshot (as in `snapshots`), path."""
        rows: list[tuple[Any, ...]] = [
            ("table", t.node.name, t.node.warehouse, t.depth, t.snapshot, list(t.path)) for t in self.tables
        ]
        rows += [("job", j.job, None, j.depth, None, list(j.path)) for j in self.jobs]
        types = {"kind": TEXT, "name": TEXT, "warehouse": TEXT, "depth": LONG, "snapshot": LONG, "path": _TEXTS}
        return arrow_table(types, sorted(rows, key=lambda r: (r[3], r[0])))

    def _heading(self) -> tuple[str, str]:
        return f"{self.direction.capitalize()} of {with_snapshot(self.asked, self.snapshot)}", self.note or ""

    def _remarks(self) -> list[str]:
        return self.unrecorded.lines()

    def _cells(self, row: Mapping[str, Any]) -> list[Any]:
        shown = {n: cell(n, v) for n, v in row.items()}
        found = [t for t in self.tables if (t.node.name, t.node.warehouse) == (row["name"], row["warehouse"])]
        shown["name"] = marked(row["name"], is_deleted=any(t.node in self.deleted for t in found))
        return list({**shown, "snapshot": self._snapshot(row, found)}.values())

    def _snapshot(self, row: Mapping[str, Any], found: Sequence[ReachedTable]) -> Any:
        """The snapshot of a row; the range read of a table without a snapshot that was read whole."""
        if row["snapshot"] != 0:
            return f"{row['snapshot']} (replaced since)" if any(t.is_replaced for t in found) else row["snapshot"]
        parts = sorted({m.within for table in found for m in table.met if m.within is not None})
        return f"part of {', '.join(map(str, parts))}" if parts else "nothing read yet"


@dataclass(frozen=True, slots=True, repr=False)
class ImpactOfSnapshot(Result):
    """Every table that holds rows of a snapshot, and the tags that keep them.

    Attributes:
        origin: the table and snapshot asked about.
        tables: tables downstream, nearest first.
        jobs: jobs that read it, or something that came from it.
        made_by, note: as in Relations.
        unrecorded: what was written to any table of the warehouses since, without recorded lineage; it is missing
            here, although it may hold rows of the snapshot.
        backups: backup branches that hold rows of the snapshot too, and were left out of `branches`.
        deleted: deleted branches that held rows of the snapshot too, and were left out of `tables`.
    """

    origin: Affected
    tables: tuple[Affected, ...]
    jobs: tuple[ReachedJob, ...]
    made_by: tuple[Batch, ...] = ()
    note: str | None = None
    unrecorded: Unrecorded = NOTHING
    backups: int = 0
    deleted: int = 0

    def without_internal(self) -> ImpactOfSnapshot:
        """The same without guard tags, backup branches and deleted branches; branches with rows of it are counted."""
        found = [branch for a in (self.origin, *self.tables) for branch, _ in a.branches if is_internal_branch(branch)]
        origin, *tables = map(_without_internal, (self.origin, *(t for t in self.tables if not t.is_deleted)))
        deleted = sum(t.is_deleted and t.first is not None for t in self.tables)
        return replace(self, origin=origin, tables=tuple(tables), backups=len(found), deleted=deleted)

    def to_arrow(self) -> pa.Table:
        """Columns name, warehouse, depth (0: what was asked about), first, snapshots, alive, tags, branches, path."""
        rows = [
            (
                *(a.node.name, a.node.warehouse, a.depth, a.first, list(a.snapshots)),
                None if a.alive is None else list(a.alive),
                *([name for name, _ in a.tags], [name for name, _ in a.branches], list(a.path)),
            )
            for a in (self.origin, *self.tables)
        ]
        types = {"name": TEXT, "warehouse": TEXT, "depth": LONG, "first": LONG, "snapshots": _LONGS}
        return arrow_table({**types, "alive": _LONGS, "tags": _TEXTS, "branches": _TEXTS, "path": _TEXTS}, rows)

    def _heading(self) -> tuple[str, str]:
        return f"Impact of {with_snapshot(self.origin.node.name, self.origin.first)}", self.note or ""

    def _remarks(self) -> list[str]:
        backups = left_out(self.backups, "backup branch holds", "backup branches hold", "rows of it too")
        deleted = left_out(self.deleted, "deleted branch held", "deleted branches held", "rows of it too")
        return [*backups, *deleted, *self.unrecorded.lines()]

    def _cells(self, row: Mapping[str, Any]) -> list[Any]:
        name, *others = (cell(n, v) for n, v in row.items())
        is_deleted = any(t.is_deleted for t in self.tables if (t.node.name, t.node.warehouse) == (name, others[0]))
        return [marked(name, is_deleted=is_deleted), *others]


class UnifiedVersion(dict[str, int]):
    """Snapshot ids by the names of the tables, as given.

    Attributes:
        unrecorded: snapshots that were written without recorded lineage, up to those found, of the tables and of their
            sources: whether these stem from the same snapshots is not known.
    """

    def __init__(self, snapshots: Mapping[str, int], unrecorded: Unrecorded = NOTHING) -> None:
        super().__init__(snapshots)
        self.unrecorded = unrecorded


def _without_internal(found: Affected) -> Affected:
    return replace(
        found,
        tags=tuple(t for t in found.tags if guarded_branch(t[0]) is None),
        branches=tuple(b for b in found.branches if not is_internal_branch(b[0])),
    )


def arrow_table(types: Mapping[str, pa.DataType], rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Rows as a table of these columns."""
    return pa.Table.from_pylist([dict(zip(types, row, strict=True)) for row in rows], pa.schema(list(types.items())))


def with_snapshot(name: str, snapshot: int | None) -> str:
    """The name of a table with its snapshot, as it is shown."""
    return name if snapshot is None else f"{name}, snapshot {snapshot}"


def marked(name: str, *, is_deleted: bool) -> str:
    """The name of a table, as it is shown."""
    return f"{name} (deleted)" if is_deleted else name


def left_out(count: int, one: str, several: str, what: str) -> list[str]:
    """A remark on what is shown only when it is asked for."""
    said = f"{count} {one if count == 1 else several} {what}; ask for {'it' if count == 1 else 'them'}"
    return [f"{said} with --all, in Python include_internal=True"] if count else []


def cell(column: str, value: Any) -> Any:
    """A value as it is shown: lists in brief."""
    if not isinstance(value, list):
        return value
    left = len(value) - _SHOWN_VALUES
    shown = (" → " if column == "path" else ", ").join(str(v) for v in value[:_SHOWN_VALUES])
    return f"{shown} and {left} more" if left > 0 else shown
