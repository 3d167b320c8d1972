"""Results of lineage questions for users, with Arrow, pandas and Spark tables. Showing one reads nothing."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa

from paimon_spark.display import MOST_ROWS, ShownAsFacts, grid, paragraph, section
from paimon_spark.errors import InvalidInputError, JobNotFoundError
from paimon_spark.lineage.unrecorded_writes import NOTHING, Unrecorded
from paimon_spark.spark_port import spark_jobs

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    from paimon_spark.lineage.answers import Affected, Batch, Impact, Reach, ReachedJob, ReachedTable

_SHOWN_VALUES: Final = 20
"""Of a list in one cell."""
_TEXT: Final = pa.string()
_LONG: Final = pa.int64()
_FLAG: Final = pa.bool_()
_TEXTS: Final = pa.list_(_TEXT)
_LONGS: Final = pa.list_(_LONG)


class Result:
    """A result that becomes a table."""

    __slots__ = ()

    def to_arrow(self) -> pa.Table:
        """The answer as an Arrow table."""
        raise NotImplementedError

    def to_pandas(self) -> pd.DataFrame:
        """The answer as a pandas DataFrame.

        Raises:
            InvalidInputError: pandas is not installed.
        """
        try:
            importlib.import_module("pandas")
        except ImportError as e:
            raise InvalidInputError(
                "to_pandas() needs pandas: pip install 'paimon-spark[pandas]', or use to_arrow()"
            ) from e
        return self.to_arrow().to_pandas()

    def to_spark(self, session: SparkSession | None = None) -> DataFrame:
        """The answer as a Spark DataFrame, classic or Connect.

        Args:
            session: default is the active session, else one is made.
        """
        return spark_jobs().arrow_dataframe(self.to_arrow(), session)

    def _heading(self) -> tuple[str, str]:
        """The title above the rows, and a remark beside it."""
        return "", ""

    def _remarks(self) -> list[str]:
        """Lines below the rows."""
        return []

    def _cells(self, row: Mapping[str, Any]) -> list[Any]:
        """A row of `to_arrow` as it is shown."""
        return [_words(name, value) for name, value in row.items()]

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

    def _repr_html_(self) -> str:
        names, rows, left = self._shown()
        title, note = self._heading()
        more = paragraph(f"… and {left:,} more") if left else ""
        return section(title or type(self).__name__, note, grid(names, rows), more, *map(paragraph, self._remarks()))


@dataclass(frozen=True, slots=True)
class LineageStatus(Result):
    """Whether lineage is on in a warehouse.

    Attributes:
        warehouse: its URL.
        table: whether it is recorded which jobs read and write which tables.
        data: whether it is recorded which snapshots they read and make.
        flush_interval_ms: least time between two commits of a process to the lineage tables; None: the default.
        has_tables: whether there are lineage tables: lineage is on, or once was.
        jobs: how many jobs are recorded.
    """

    warehouse: str
    table: bool
    data: bool
    flush_interval_ms: int | None
    has_tables: bool
    jobs: int

    def to_arrow(self) -> pa.Table:
        """One row, a column for each attribute."""
        types = {"warehouse": _TEXT, "table": _FLAG, "data": _FLAG, "flush_interval_ms": _LONG, "has_tables": _FLAG}
        return _table({**types, "jobs": _LONG}, [tuple(getattr(self, name) for name in (*types, "jobs"))])


@dataclass(frozen=True, slots=True)
class Job(ShownAsFacts):
    """A job that is recorded.

    Attributes:
        sources: the tables it reads: name → the newest snapshot read whole; None where none is recorded.
        sinks: the tables it writes: name → the newest snapshot it made; None where none is recorded.
        barrier: its newest batch; None when none is recorded.
        query_id: of a streaming query; None for a batch job, and where it is not known.
        start: what it was to start from, as `start_options` gave it: name → snapshot.
    """

    name: str
    sources: Mapping[str, int | None]
    sinks: Mapping[str, int | None]
    barrier: int | None = None
    query_id: str | None = None
    start: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Jobs(Result):
    """The jobs that are recorded, by name."""

    jobs: tuple[Job, ...]

    def __iter__(self) -> Iterator[Job]:
        return iter(self.jobs)

    def __len__(self) -> int:
        return len(self.jobs)

    def __contains__(self, name: object) -> bool:
        return any(job.name == name for job in self.jobs)

    def __getitem__(self, name: str) -> Job:
        """The job of a name. Raises JobNotFoundError."""
        for job in self.jobs:
            if job.name == name:
                return job
        names = ", ".join(repr(j.name) for j in self.jobs[:20]) or "none"
        raise JobNotFoundError(f"there is no job {name!r} in lineage; jobs are {names}", job=name)

    def to_arrow(self) -> pa.Table:
        """Columns job, kind (`source` or `sink`), table, snapshot, barrier, query_id; a row for each table of a job."""
        rows = [
            (job.name, kind, table, snapshot, job.barrier, job.query_id)
            for job in self.jobs
            for kind, tables in (("source", job.sources), ("sink", job.sinks))
            for table, snapshot in tables.items()
        ]
        types = {"job": _TEXT, "kind": _TEXT, "table": _TEXT, "snapshot": _LONG, "barrier": _LONG, "query_id": _TEXT}
        return _table(types, rows)


@dataclass(frozen=True, slots=True)
class Relations(Result):
    """The tables and jobs that are upstream or downstream of a table, a snapshot or a job, nearest first.

    Attributes:
        reach: all that was found.
        unrecorded: what was written without recorded lineage, so that it is not in `reach` although it may belong
            there: upstream to the tables found, downstream to any table of the warehouses, from the snapshot asked
            about on.
    """

    reach: Reach
    direction: Literal["upstream", "downstream"]
    unrecorded: Unrecorded = NOTHING

    @property
    def asked(self) -> str:
        """The table or job that was asked about."""
        return self.reach.asked if isinstance(self.reach.asked, str) else self.reach.asked.name

    @property
    def snapshot(self) -> int | None:
        """The snapshot that was asked about; None when the whole table was."""
        return self.reach.snapshot

    @property
    def tables(self) -> tuple[ReachedTable, ...]:
        """Tables, nearest first."""
        return self.reach.tables

    @property
    def jobs(self) -> tuple[ReachedJob, ...]:
        """Jobs, nearest first."""
        return self.reach.jobs

    @property
    def made_by(self) -> tuple[Batch, ...]:
        """The batches that made the snapshot asked about."""
        return self.reach.made_by

    @property
    def note(self) -> str | None:
        """A sentence where the answer needs one."""
        return self.reach.note

    @property
    def snapshots(self) -> dict[str, int | None]:
        """Name of each table → its snapshot; None in questions about a whole table.

        Upstream it is the newest that the snapshot asked about stems from (0: nothing read yet, or a part of the first
        one only, as `tables` tells by `met`), downstream the first that
        contains it.
        """
        return {t.node.name: t.snapshot for t in self.tables}

    def to_arrow(self) -> pa.Table:
        """Columns kind (`table` or `job`), name, warehouse, depth, snapshot (as in `snapshots`), path."""
        rows: list[tuple[Any, ...]] = [
            ("table", t.node.name, t.node.warehouse, t.depth, t.snapshot, list(t.path)) for t in self.tables
        ]
        rows += [("job", j.job, None, j.depth, None, list(j.path)) for j in self.jobs]
        types = {"kind": _TEXT, "name": _TEXT, "warehouse": _TEXT, "depth": _LONG, "snapshot": _LONG, "path": _TEXTS}
        return _table(types, sorted(rows, key=lambda r: (r[3], r[0])))

    def _heading(self) -> tuple[str, str]:
        return f"{self.direction.capitalize()} of {_state(self.asked, self.snapshot)}", self.note or ""

    def _remarks(self) -> list[str]:
        return self.unrecorded.lines()

    def _cells(self, row: Mapping[str, Any]) -> list[Any]:
        return [self._read_of(row) if n == "snapshot" and v == 0 else _words(n, v) for n, v in row.items()]

    def _read_of(self, row: Mapping[str, Any]) -> str:
        """What was read of a table where that is not a whole snapshot."""
        found = (t for t in self.tables if (t.node.name, t.node.warehouse) == (row["name"], row["warehouse"]))
        parts = sorted({m.within for table in found for m in table.met if m.within is not None})
        return f"part of {', '.join(map(str, parts))}" if parts else "nothing read yet"


@dataclass(frozen=True, slots=True)
class ImpactOfSnapshot(Result):
    """Where a snapshot went: every table that holds its rows, and the tags that keep them.

    Attributes:
        impact: all that was found.
        unrecorded: what was written to any table of the warehouses since, without recorded lineage: it is not in
            `impact`, although it may hold what the snapshot brought.
    """

    impact: Impact
    unrecorded: Unrecorded = NOTHING

    @property
    def origin(self) -> Affected:
        """The table and snapshot asked about."""
        return self.impact.origin

    @property
    def tables(self) -> tuple[Affected, ...]:
        """Tables downstream, nearest first."""
        return self.impact.tables

    @property
    def jobs(self) -> tuple[ReachedJob, ...]:
        """Jobs that read it, or something that came from it."""
        return self.impact.jobs

    @property
    def made_by(self) -> tuple[Batch, ...]:
        """The batches that made the snapshot asked about."""
        return self.impact.made_by

    @property
    def note(self) -> str | None:
        """A sentence where the answer needs one."""
        return self.impact.note

    def to_arrow(self) -> pa.Table:
        """Columns name, warehouse, depth (0: what was asked about), first, snapshots, alive, tags, branches, path."""
        rows = [
            (
                a.node.name,
                a.node.warehouse,
                a.depth,
                a.first,
                list(a.snapshots),
                None if a.alive is None else list(a.alive),
                [name for name, _ in a.tags],
                [name for name, _ in a.branches],
                list(a.path),
            )
            for a in (self.origin, *self.tables)
        ]
        types = {
            "name": _TEXT,
            "warehouse": _TEXT,
            "depth": _LONG,
            "first": _LONG,
            "snapshots": _LONGS,
            "alive": _LONGS,
        }
        return _table({**types, "tags": _TEXTS, "branches": _TEXTS, "path": _TEXTS}, rows)

    def _heading(self) -> tuple[str, str]:
        return f"Impact of {_state(self.origin.node.name, self.origin.first)}", self.note or ""

    def _remarks(self) -> list[str]:
        return self.unrecorded.lines()


class UnifiedVersion(dict[str, int]):
    """Snapshot ids by the names of the tables, as asked.

    Attributes:
        unrecorded: snapshots that were written without recorded lineage, up to those found, of the tables and of what
            they come from: whether these stem from the same snapshots is not known.
    """

    def __init__(self, snapshots: Mapping[str, int], unrecorded: Unrecorded = NOTHING) -> None:
        super().__init__(snapshots)
        self.unrecorded = unrecorded


def _table(types: Mapping[str, pa.DataType], rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(types)
    arrays = [pa.array(values, kind) for values, kind in zip(columns, types.values(), strict=True)]
    return pa.table(arrays, schema=pa.schema(list(types.items())))


def _state(name: str, snapshot: int | None) -> str:
    return name if snapshot is None else f"{name}, snapshot {snapshot}"


def _words(column: str, value: Any) -> Any:
    """A value as it is shown: lists in brief."""
    if not isinstance(value, list):
        return value
    left = len(value) - _SHOWN_VALUES
    shown = (" → " if column == "path" else ", ").join(str(v) for v in value[:_SHOWN_VALUES])
    return f"{shown} and {left} more" if left > 0 else shown
