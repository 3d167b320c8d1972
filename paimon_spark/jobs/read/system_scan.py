"""SystemScan: one read of a system table, such as `t$files`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from paimon_spark.engine.tasks import output_type
from paimon_spark.errors import InvalidOptionError
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.jobs.read.scan import Scan, predicate_of
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.resolve import ResolvedRange
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.predicate.ast import Predicate, names_of
from paimon_spark.system_tables.listing import Asked, Listing
from paimon_spark.system_tables.registry import ListingReading, find
from paimon_spark.system_tables.views import SystemView, ViewReading, plan_view, view_type
from paimon_spark.types import RowType

if TYPE_CHECKING:
    import pyarrow as pa

    from paimon_spark.engine.scan.plan import Plan


@dataclass(slots=True, eq=False)
class SystemScan(Scan):
    """One read of a system table."""

    system: str = ""
    _reading: ListingReading | ViewReading | None = field(default=None, repr=False)

    @property
    def table_name(self) -> str:
        """How messages call the system table."""
        return f"{self.handle.name}${self.system}"

    @property
    def is_system(self) -> bool:
        """Whether a system table is read."""
        return True

    @property
    def load_path(self) -> str:
        """The path that a data source loads to make the same read."""
        return f"{self.handle.load_path}${self.system}"

    @property
    def schema(self) -> TableSchema:
        """The columns of the system table as a schema, which no file holds. Raises as `Scan.schema`."""
        kind = self._kind
        row_type = kind.row_type if isinstance(kind, Listing) else view_type(kind, self._base)
        key = kind.primary_key if isinstance(kind, Listing) else ()
        return TableSchema(0, row_type, len(row_type), primary_keys=key)

    def columns_named(self, names: Sequence[str] | None) -> RowType:
        """Columns of the system table by name, in any case; None means all. Raises ColumnNotFoundError."""
        return output_type(self.schema, names, table=self.table_name, metadata=False)

    @property
    def is_listing(self) -> bool:
        """Whether one task makes the rows from metadata; else they are rows of the table."""
        return isinstance(self._kind, Listing)

    def reading(self) -> ListingReading | ViewReading:
        """Data that tasks need to read. Picklable. Raises as `plan`."""
        self.plan()
        assert self._reading is not None
        return self._reading

    def _batches(self, ahead: int) -> Iterator[pa.RecordBatch]:
        from paimon_spark.engine.read.split_reader import read_splits
        from paimon_spark.format.arrays.arrow_types import record_batch

        reading, schema = self.reading(), self.arrow_schema
        if isinstance(reading, ListingReading):
            batches = reading.read()
        else:
            batches = read_splits(lambda s: reading.read((s,)), self.plan().splits, os.cpu_count() or 1, ahead)
        for batch in batches:
            yield record_batch(batch.columns, schema, batch.num_rows)

    @property
    def _kind(self) -> Listing | SystemView:
        return find(self.system, self.handle.name)

    @property
    def _base(self) -> TableHandle:
        """The branch, with the schema of the version when one was named."""
        found = self._find_version()
        return self.handle if found is None else found.handle

    def _make_plan(self) -> Plan:
        kind, predicate, names = self._kind, predicate_of(self), self.row_type.names
        if self.options.version is not None and self.options.created_since_ms is not None:
            raise self._no_such_option(self.options.version[0], "it selects rows, which only the table itself has")
        if isinstance(kind, Listing):
            return self._plan_listing(kind, predicate, names)
        found = self._find_version()
        if self.options.row_kind and not kind.shows_kinds:
            raise self._no_such_option("read.changelog", "read $audit_log, which shows the kind of each row")
        asked = self.options
        plan, self._reading = plan_view(
            kind, found, self._base, names, predicate, incremental=asked.incremental, batch_rows=asked.batch_rows
        )
        return plan

    def _plan_listing(self, kind: Listing, predicate: Predicate | None, names: tuple[str, ...]) -> Plan:
        from paimon_spark.engine.scan.plan import Plan
        from paimon_spark.engine.scan.query import PlanReport, ScanQuery

        options = self.options
        if options.row_kind:
            raise self._no_such_option("read.changelog", "its rows have no kind")
        if options.incremental is not None:
            raise self._no_such_option(options.incremental.key, "changes of rows are in $audit_log")
        if options.version is not None and not kind.travels:
            raise self._no_such_option(
                options.version[0],
                f"it describes the whole branch; for another branch name t$branch_<name>${kind.name}",
            )
        found = self._find_version()
        assert not isinstance(found, ResolvedRange)
        if found is not None:
            handle, snapshot, travelled = found.handle, found.snapshot, found.travelled
        else:
            handle, snapshot, travelled = self.handle, latest_snapshot(self.handle) if kind.travels else None, False
        asked = Asked(handle, snapshot, options.time_zone, frozenset(names) | names_of(predicate), travelled)
        self._reading = ListingReading(self.system, asked, names, predicate)
        query = ScanQuery(columns=names, predicate=predicate)
        return Plan(self.table_name, handle.branch, snapshot, self.row_type, (), {}, PlanReport(), query)

    def _no_such_option(self, key: str, why: str) -> InvalidOptionError:
        return InvalidOptionError(f"option {key} does not apply to {self.table_name}: {why}", option=key)

    def __getstate__(self) -> tuple[Any, ...]:
        """All but the plan."""
        return (*Scan.__getstate__(self), self.system)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        *scan, self.system = state
        Scan.__setstate__(self, tuple(scan))
        self._reading = None
