"""The lineage tables: columns, rows, conditions, and the settings in one of them.

They are ordinary primary-key tables of the database `paimon`, so that any engine can join them. Rows are upserted:
writing one twice changes nothing. Every read and write asks for the settings, so each process caches them for a minute.

Source: PIP-5.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import InvalidOptionError, PaimonError
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.lineage.index.provenance import Provenance, TableRef
from paimon_spark.lineage.index.warehouse import Warehouse
from paimon_spark.options.descriptor import Option
from paimon_spark.options.lineage import DATA_LINEAGE, FLUSH_INTERVAL, JOB, TABLE_LINEAGE
from paimon_spark.predicate.ast import literal_text
from paimon_spark.redaction import get_logger

_LOG = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Definition:
    """A lineage table: name, columns (not null) with their Arrow types, and primary key."""

    name: str
    columns: Mapping[str, pa.DataType]
    keys: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(n, t, nullable=False) for n, t in self.columns.items()])

    def to_arrow(self, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
        """Rows, of which there is at least one, as an Arrow table."""
        columns = zip(*rows, strict=True)
        arrays = [pa.array(c, t) for c, t in zip(columns, self.columns.values(), strict=True)]
        return pa.Table.from_arrays(arrays, schema=self.schema)


_TEXT: Final = pa.string()
_LONG: Final = pa.int64()
_OF_JOB: Final = {"job": _TEXT, "database": _TEXT, "table": _TEXT}
_OF_BATCH: Final = {"job": _TEXT, "barrier_id": _LONG, "database": _TEXT, "table": _TEXT}
_SNAPSHOT: Final = {"snapshot_id": _LONG}

CATALOG_OPTIONS: Final = Definition("catalog_options", {"key": _TEXT, "value": _TEXT}, ("key",))
SOURCE_JOB: Final = Definition("source_job_lineage", _OF_JOB, tuple(_OF_JOB))
SINK_JOB: Final = Definition("sink_job_lineage", _OF_JOB, tuple(_OF_JOB))
SOURCE_SNAPSHOT: Final = Definition("source_snapshot_lineage", {**_OF_BATCH, **_SNAPSHOT}, tuple(_OF_BATCH))
SINK_SNAPSHOT: Final = Definition("sink_snapshot_lineage", {**_OF_BATCH, **_SNAPSHOT}, tuple(_OF_BATCH))
JOB_STARTUP: Final = Definition("job_startup", {**_OF_JOB, **_SNAPSHOT}, tuple(_OF_JOB))
TABLES: Final = {
    d.name: d for d in (CATALOG_OPTIONS, SOURCE_JOB, SINK_JOB, SOURCE_SNAPSHOT, SINK_SNAPSHOT, JOB_STARTUP)
}
JOB_TABLES: Final = (SOURCE_JOB.name, SINK_JOB.name)
"""The tables of which job reads and writes which table, without snapshots."""

Rows: TypeAlias = Mapping[str, Sequence[tuple[Any, ...]]]
"""Rows by the name of their table, values in the order of its columns."""
RowLists: TypeAlias = dict[str, list[tuple[Any, ...]]]
"""The same, to be changed by its owner."""


class Index(Protocol):
    """The lineage tables of a warehouse, and the tables and snapshots in it; see `table_index.TableIndex`.

    Every method raises StorageError when the store fails, CommitError when rows could not be committed.
    """

    @property
    def warehouse(self) -> Warehouse: ...
    def exists(self) -> bool: ...
    def create(self) -> None: ...
    def options(self) -> dict[str, str]: ...
    def read(self, table: Definition, where: str | None = None) -> pa.Table: ...
    def upsert(self, rows: Rows) -> None: ...
    def delete(self, table: Definition, where: str) -> int: ...
    def refs(self) -> Iterator[TableRef]: ...
    def table_names(self) -> Iterator[tuple[str, str]]: ...
    def branches(self, database: str, table: str) -> Iterator[TableRef]: ...
    def snapshots(self, ref: TableRef, after: int = 0) -> Iterator[Snapshot]: ...
    def tagged(self, ref: TableRef) -> Mapping[str, Snapshot]: ...


def rows_of(provenance: Provenance, sink: TableRef | None, snapshot_id: int | None) -> RowLists:
    """The rows of one commit for the sink's warehouse; sources of other warehouses are left out.

    `sink` is None where only reads are recorded, `snapshot_id` for a batch that made no snapshot.
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

    Adds the number of rows written to `counts`, by lineage table.
    """
    kept = {name: some for name, some in rows.items() if some}
    last = {SINK_SNAPSHOT.name: kept.pop(SINK_SNAPSHOT.name)} if SINK_SNAPSHOT.name in kept else {}
    for part in (kept, last):
        if part:
            index.upsert(part)
        if counts is not None:
            counts.update({name: counts.get(name, 0) + len(some) for name, some in part.items()})


def recorded_rows(index: Index, rows: Rows) -> Rows:
    """The rows that are recorded by the settings: without those of snapshots where only tables are."""
    return rows if records_data(index) else only_jobs(rows)


def only_jobs(rows: Rows) -> RowLists:
    """The rows of `JOB_TABLES`, without those of snapshots."""
    return {name: list(some) for name, some in rows.items() if name in JOB_TABLES}


def merge_rows(parts: Iterable[Rows]) -> RowLists:
    """The rows of all parts in order; of those with the same key the last."""
    out: dict[str, dict[tuple[Any, ...], tuple[Any, ...]]] = {}
    for part in parts:
        for name, some in part.items():
            key_count = len(TABLES[name].keys)  # keys are the first columns
            out.setdefault(name, {}).update((tuple(row[:key_count]), tuple(row)) for row in some)
    return {name: list(rows.values()) for name, rows in out.items()}


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
    """The newest barrier of the rows for which `where` is true; -1 without rows."""
    found = pc.max(index.read(table, where).column("barrier_id")).as_py()
    return -1 if found is None else int(found)


_DECLARED: Final = "lineage.source."
"""Start of the key of a declared source in `catalog_options`, before the table's name."""
LINEAGE_IS_OFF: Final = (
    f"option {JOB.key} has no effect, as lineage is off in the warehouse; catalog.lineage.enable() switches it on"
)
_CACHED_S: Final = 60.0
_MOST_CACHED: Final = 1000


@dataclass(frozen=True, slots=True)
class LineageSettings:
    """Lineage that a warehouse records: values of the options of these names; `data` implies `table`.

    `declared` are names of the tables whose rows come from outside, as the user has declared.
    """

    table: bool = False
    data: bool = False
    flush_interval_ms: int | None = None
    declared: frozenset[str] = frozenset()

    def interval_ms(self, of_job: int | None) -> int | None:
        """The flush interval of a job, which may set its own."""
        return self.flush_interval_ms if of_job is None else of_job


OFF: Final = LineageSettings()


class _Cached(NamedTuple):
    settings: LineageSettings
    since_s: float
    failed: bool


_CACHE: Final[dict[tuple[str, str], _Cached]] = {}
_WARNED: Final[set[str]] = set()


def settings_of(index: Index, clock_s: Callable[[], float] = time.monotonic) -> LineageSettings:
    """The settings of a warehouse, at most a minute old. Never raises.

    Where they cannot be read, the last ones hold (off at first), with one warning.
    """
    key, now = index.warehouse.identity, clock_s()
    cached = _CACHE.get(key)
    if cached is not None and now - cached.since_s < _CACHED_S:
        return cached.settings
    try:
        found = _Cached(read_settings(index), now, failed=False)
    except PaimonError as e:
        found = _Cached(OFF if cached is None else cached.settings, now, failed=True)
        if cached is None or not cached.failed:
            text = "cannot read the lineage settings of warehouse %s, so lineage stays %s: %s"
            _LOG.warning(text, index.warehouse.url, "on" if found.settings.table else "off", e)
    if len(_CACHE) >= _MOST_CACHED:
        _CACHE.clear()
    _CACHE[key] = found
    return found.settings


def read_settings(index: Index) -> LineageSettings:
    """Read the settings; one request where there are no lineage tables."""
    rows = index.options()
    where = f"{CATALOG_OPTIONS.name} of warehouse {index.warehouse.url}"
    data = _value(DATA_LINEAGE, rows, where)
    interval = _value(FLUSH_INTERVAL, rows, where) if FLUSH_INTERVAL.is_set(rows) else None
    declared = frozenset(key.removeprefix(_DECLARED) for key in rows if key.startswith(_DECLARED))
    return LineageSettings(bool(data or _value(TABLE_LINEAGE, rows, where)), bool(data), interval, declared)


def write_settings(index: Index, *, table: bool, data: bool) -> None:
    """Write what is recorded from now on; the lineage tables must exist."""
    rows = ((TABLE_LINEAGE, table), (DATA_LINEAGE, data))
    index.upsert({CATALOG_OPTIONS.name: [(option.key, str(on).lower()) for option, on in rows]})
    forget_settings(index.warehouse)


def declare_source(index: Index, table: str) -> None:
    """Store that all rows of a table without recorded sources come from outside; the lineage tables must exist."""
    index.upsert({CATALOG_OPTIONS.name: [(_DECLARED + table, "true")]})
    forget_settings(index.warehouse)


def retract_source(index: Index, table: str) -> bool:
    """Remove a declaration of `declare_source`; False when it does not exist."""
    removed = index.delete(CATALOG_OPTIONS, column_equals("key", _DECLARED + table))
    forget_settings(index.warehouse)
    return removed > 0


def enable(index: Index, *, data: bool = True) -> None:
    """Create the lineage tables that are missing, and record from now on."""
    index.create()
    write_settings(index, table=True, data=data)


def forget_settings(warehouse: Warehouse) -> None:
    """Drop the cached settings, so that they are read again."""
    _CACHE.pop(warehouse.identity, None)


def records_data(index: Index) -> bool:
    """Whether rows of snapshots are written, not only those of jobs."""
    settings = settings_of(index)
    return settings.data or not settings.table


def _value(option: Option[bool | None] | Option[int], rows: Mapping[str, str], where: str) -> bool | int | None:
    """The value of a row; None, with a warning, when it is invalid."""
    try:
        return option.get(rows)
    except InvalidOptionError as e:
        text = f"{where}: {e}; the row is ignored"
        if text not in _WARNED:
            _WARNED.add(text)
            _LOG.warning(text)
        return None
