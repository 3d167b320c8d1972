"""Scan: one read of a table, planned when first needed.

When a file is missing, it finds out whether the snapshot expired during the read or the table is damaged.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from paimon_spark import progress
from paimon_spark.display import facts, html_or_error, section
from paimon_spark.engine.tasks import output_type
from paimon_spark.errors import FileMissingError, InvalidInputError, PaimonError, SnapshotExpiredError
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.jobs.lineage_port import listener, read_tickets
from paimon_spark.jobs.read.schema_display import columns_html
from paimon_spark.metadata.handle import TableHandle, current, is_replaced
from paimon_spark.metadata.resolve import Resolved, ResolvedRange, resolve, resolve_range
from paimon_spark.metadata.snapshots import (
    earliest_snapshot,
    is_alive,
    latest_snapshot,
    snapshot_at_or_after_ms,
)
from paimon_spark.metadata.tags import find_tag
from paimon_spark.metadata.version import VersionKind, VersionSpec, from_option
from paimon_spark.options.scan import CREATION_TIME_KEY, ScanOptions
from paimon_spark.predicate.ast import Predicate, conjunction
from paimon_spark.spark_port import spark_jobs
from paimon_spark.text import safe
from paimon_spark.types import ROW_KIND_COLUMN, RowType

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from paimon_spark.engine.scan.plan import Plan
    from paimon_spark.engine.scan.query import OnlyFiles, ScanQuery
    from paimon_spark.engine.tasks import DataSplit
    from paimon_spark.jobs.read.dataset import ScanDataset
    from paimon_spark.lineage.recording.read_notes import NoteTicket

_ATTEMPTS: Final = 5
"""Attempts to plan a head; each may expire meanwhile."""
_PICKLED: Final = ("handle", "options", "option_text", "filters", "enough_rows", "max_rows", "only", "_travelled")


@dataclass(slots=True, eq=False, repr=False)
class Scan:
    """One read of a table. Picklable. Planned once: reading it again gives the same rows.

    Attributes:
        handle: the branch as it was when the scan was made; opened again when main has another history at planning.
        options: of the read.
        option_text: the same as text, for other processes.
        filters: more predicates that every row must satisfy.
        enough_rows: rows after which the caller stops; None for all.
        max_rows: rows that are returned at most; None for all.
        only: the files to read; None for all.
    """

    handle: TableHandle
    options: ScanOptions = field(default_factory=ScanOptions)
    option_text: Mapping[str, str] = field(default_factory=dict, repr=False)
    filters: tuple[Predicate, ...] = ()
    enough_rows: int | None = None
    max_rows: int | None = None
    only: OnlyFiles | None = field(default=None, repr=False)
    _travelled: Resolved | ResolvedRange | None = field(default=None, repr=False)
    _plan: Plan | None = field(default=None, repr=False)

    @property
    def table_name(self) -> str:
        """How messages call the table."""
        return self.handle.name

    @property
    def is_system(self) -> bool:
        """Whether a system table is read."""
        return False

    @property
    def load_path(self) -> str:
        """The path that a data source loads to make the same read."""
        return self.handle.load_path

    @property
    def schema(self) -> TableSchema:
        """The schema to read with: of the version named, else the branch's latest.

        Raises:
            NotFoundError: the version does not exist.
        """
        found = self._find_version()
        return self.handle.schema if found is None else found.handle.schema

    @property
    def row_type(self) -> RowType:
        """The columns of the result, with field ids and types. Raises ColumnNotFoundError."""
        return self.columns_named(self.options.columns)

    @property
    def arrow_schema(self) -> pa.Schema:
        """The Arrow schema of the result."""
        from paimon_spark.format.arrays.arrow_types import arrow_schema

        return arrow_schema(self.row_type)

    def columns_named(self, names: Sequence[str] | None) -> RowType:
        """Columns of the table and metadata columns by name; None is all of the table's. Raises ColumnNotFoundError."""
        row_kind = self.options.row_kind
        if names is not None and row_kind:
            names = [n for n in names if n != ROW_KIND_COLUMN]
        tracks_rows = self.handle.options.row_tracking
        table = self.handle.describe()
        return output_type(self.schema, names, table=table, tracks_rows=tracks_rows, row_kind=row_kind)

    def project(self, names: Sequence[str]) -> Scan:
        """The same read of other columns; the plan stays if they are the same."""
        if tuple(names) == self.options.columns:
            return self
        return replace(self, options=replace(self.options, columns=tuple(names)), _plan=None)

    def filtered(self, filters: Sequence[Predicate]) -> Scan:
        """The same read with more predicates."""
        return replace(self, filters=(*self.filters, *filters), _plan=None)

    def limited(self, rows: int) -> Scan:
        """The same read, which may stop planning files once they surely hold so many rows of its conditions."""
        return replace(self, enough_rows=rows, _plan=None)

    def limit(self, rows: int) -> Scan:
        """The same read of at most so many rows, whichever these are. Raises InvalidInputError: a negative number."""
        if rows < 0:
            raise InvalidInputError(f"limit({rows}): expected 0 or more")
        rows = rows if self.max_rows is None else min(rows, self.max_rows)
        return replace(self.limited(rows), max_rows=rows)

    def with_options_of_use(self, options: Mapping[str, str]) -> Scan:
        """The same read of the same snapshot with options of this use, such as its lineage job."""

        def of_use(handle: TableHandle) -> TableHandle:
            return replace(handle, overrides={**handle.overrides, **options})

        found = self._travelled
        return replace(
            self,
            handle=of_use(self.handle),
            option_text={**self.option_text, **options},
            _travelled=None if found is None else replace(found, handle=of_use(found.handle)),
            _plan=None,
        )

    def with_splits(self, splits: Sequence[DataSplit]) -> Scan:
        """The same read of some of the splits of its plan. Raises as `plan`."""
        return replace(self, _plan=replace(self.plan(), splits=tuple(splits)))

    def pinned(self) -> Scan:
        """The same read of the snapshot that was planned, else of the newest now, where no version is named.

        Raises as `plan`.
        """
        if self.is_system or self._find_version() is not None:
            return self
        snapshot = self._head() if self._plan is None else self._plan.snapshot
        head = Resolved(self.handle, snapshot, "the head")
        return replace(self, _travelled=head, _plan=None)

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot of a version or a pinned head; None where it is not known before planning."""
        found = self._travelled
        return found.snapshot.id if isinstance(found, Resolved) and found.snapshot is not None else None

    def __str__(self) -> str:
        asked = self.options
        at = "" if asked.version_text is None else f" at version {asked.version_text!r}"
        columns = "" if asked.columns is None else f", columns {safe(', '.join(asked.columns))}"
        where = "" if asked.where is None else f", where {safe(asked.where)}"
        return f"scan of {safe(self.table_name)} on branch {safe(self.handle.branch)}{at}{columns}{where}"

    def __repr__(self) -> str:
        return f"<{self}>"

    def _repr_html_(self) -> str:
        def show() -> str:
            # A plan of its own: showing a read does not pin it to the head.
            if not self.is_system:
                return replace(self).plan()._repr_html_()
            where = facts({"where": self.options.where})
            return section(f"Read of {self.table_name}", "", where, columns_html(self.schema))

        return html_or_error(f"Read of {self.table_name}", show)

    @property
    def is_planned(self) -> bool:
        """Whether the read has a plan, which `plan` returns."""
        return self._plan is not None

    def plan(self) -> Plan:
        """The plan of the read; `print` it to see what is skipped, and why.

        Raises:
            NotFoundError: the version or a column does not exist.
            PredicateSyntaxError: `where` is not a predicate.
            UnsupportedFeatureError: the table has a feature that cannot be read here.
            SnapshotExpiredError: the snapshot expired while it was planned.
            CorruptFileError: metadata cannot be read.
        """
        if self._plan is None:
            self._plan = self._make_plan().allowed(self.handle)
        return self._plan

    def tickets(self) -> tuple[NoteTicket, ...]:
        """Lineage notes that a reader of the plan writes first; none unless the read names a job (`lineage.job`)."""
        plan, found = self.plan(), self._travelled
        return read_tickets(self.handle, plan, found.start_id if isinstance(found, ResolvedRange) else None)

    def to_batches(self) -> pa.RecordBatchReader:
        """The rows as a stream of Arrow batches of `arrow_schema`, read a few splits at a time, with bounded memory.

        Raises, here or while it is read:
            SnapshotExpiredError: the snapshot that was planned expired before it was read to the end.
            CorruptFileError: a file cannot be read.
        """
        from paimon_spark.engine.read.split_reader import AHEAD

        return self._reader(AHEAD)

    def _reader(self, ahead: int) -> pa.RecordBatchReader:
        import pyarrow as pa

        self.plan()  # the columns are those of the planned version
        return pa.RecordBatchReader.from_batches(self.arrow_schema, self._rows(ahead))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows for other libraries: Polars, DuckDB, pandas and whatever else takes an Arrow stream."""
        return self.to_batches().__arrow_c_stream__(requested_schema)

    def _rows(self, ahead: int) -> Iterator[pa.RecordBatch]:
        """The batches, up to `max_rows`."""
        left = self.max_rows
        if left is None:
            yield from self._batches(ahead)
            return
        for batch in self._batches(min(ahead, 1)) if left else ():
            yield batch.slice(0, left)
            left -= batch.num_rows
            if left <= 0:
                return

    def _batches(self, ahead: int) -> Iterator[pa.RecordBatch]:
        from paimon_spark.engine.read.split_reader import read_split, read_splits

        plan = self.plan()
        tickets = self.tickets()
        if tickets:
            listener().note_read(tickets)

        def read(split: DataSplit) -> Iterator[pa.RecordBatch]:
            return read_split(plan.requests[split.branch], split)

        with self.refusing_expired():
            batches = read_splits(read, plan.splits, os.cpu_count() or 1, ahead)
            yield from progress.counted(batches, "read", "rows", size=lambda batch: batch.num_rows)

    @contextmanager
    def refusing_expired(self) -> Iterator[None]:
        """Raise SnapshotExpiredError for an error that comes from reading the planned snapshot after it expired."""
        try:
            yield
        except PaimonError as e:
            self._refuse_expired(self.plan().snapshot, e)
            raise

    def to_arrow(self) -> pa.Table:
        """All rows as an Arrow table."""
        from paimon_spark.engine.read.split_reader import UNBOUNDED

        return self._reader(UNBOUNDED).read_all()

    def to_dataset(self) -> ScanDataset:
        """The read as a PyArrow Dataset, of the snapshot that is the newest now or of the version that is named.

        DuckDB, Polars (`scan_pyarrow_dataset`) and others pass it the columns and conditions of their queries. Raises
        as `pinned`.
        """
        from paimon_spark.jobs.read.dataset import ScanDataset

        return ScanDataset(self)

    def to_pandas(self) -> pd.DataFrame:
        """All rows as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def to_spark(self, session: SparkSession | None = None) -> DataFrame:
        """The read as a Spark DataFrame, classic or Connect.

        Spark plans a Python source once for each DataFrame: its first action decides what later ones read. Create it
        again to see later commits.

        Args:
            session: default is the active session, else one is made.
        """
        frame = spark_jobs().dataframe(self, session)
        return frame if self.max_rows is None else frame.limit(self.max_rows)

    def create_temp_view(self, name: str, *, session: SparkSession | None = None) -> None:
        """Make the read a temporary view of a session, for plain `spark.sql`; one of that name is replaced.

        The view keeps the version, columns and conditions of this read. Its queries read in parallel; their own
        conditions skip no files (`catalog.sql` does that). Without a version it stays at the snapshot that its first
        query reads: create it again to see later commits.

        Args:
            name: of the view.
            session: default is the active session, else one is made.
        """
        self.to_spark(session).createOrReplaceTempView(name)

    def _find_version(self) -> Resolved | ResolvedRange | None:
        """The version of the options, resolved once; None for the head, which moves until the read is planned."""
        if self._travelled is None:
            asked, zone = self.options, self.options.time_zone
            if asked.incremental is not None:
                key, text = asked.incremental.key, asked.incremental.text
                self._travelled = resolve_range(self.handle, key, text, zone)
            elif asked.created_since_ms is not None:
                self._travelled = self._first_since(asked.created_since_ms)
            elif asked.version is not None:
                self._travelled = resolve(self.handle, from_option(*asked.version, zone))
        return self._travelled

    def _first_since(self, moment_ms: int) -> Resolved | None:
        """The first snapshot since a moment, if the options name one and an older snapshot is live.

        Else the head is read, restricted to the files created since. Source: Java
        `AbstractDataTableScan.createCreationTimestampStartingScanner`.
        """
        if self.options.version is None or self.options.version[0] != CREATION_TIME_KEY:
            return None
        earliest = earliest_snapshot(self.handle)
        if earliest is None or earliest.time_ms >= moment_ms:
            return None
        first = snapshot_at_or_after_ms(self.handle, moment_ms)
        if first is None:
            return None
        return resolve(self.handle, VersionSpec(VersionKind.SNAPSHOT, first.id))

    def _make_plan(self) -> Plan:
        from paimon_spark.engine.scan.incremental import plan_incremental
        from paimon_spark.engine.scan.plan import plan_batch

        found = self._find_version()
        if found is None:
            return self._plan_head()
        if isinstance(found, ResolvedRange):
            assert self.options.incremental is not None
            return plan_incremental(found, self._query(), self.options.incremental)
        try:
            plan = plan_batch(found.handle, found.snapshot, self._query(), travelled=found.travelled)
        except PaimonError as e:
            self._refuse_expired(found.snapshot, e)
            if not found.travelled and current(found.handle) is not found.handle:
                raise _other_history(found) from e
            raise
        if not found.travelled and _has_other_history(found.handle, plan):
            raise _other_history(found)
        return plan

    def _plan_on(self, snapshot: Snapshot | None) -> Plan:
        """The plan of a head; planned again when main was replaced meanwhile, as schema ids mean other schemas then."""
        from paimon_spark.engine.scan.plan import plan_batch

        while True:
            plan = plan_batch(self.handle, snapshot, self._query())
            if not _has_other_history(self.handle, plan):
                return plan
            snapshot = self._head()

    def _plan_head(self) -> Plan:
        """The plan of the newest snapshot; of the next one when it expires, or main is replaced, meanwhile."""
        for left in reversed(range(_ATTEMPTS)):
            snapshot = self._head()
            try:
                return self._plan_on(snapshot)
            except PaimonError as e:
                is_gone = snapshot is not None and (is_replaced(self.handle) or _has_expired(self.handle, snapshot, e))
                if not left or not is_gone:
                    self._refuse_expired(snapshot, e)
                    raise
        raise AssertionError

    def _refuse_expired(self, snapshot: Snapshot | None, error: PaimonError) -> None:
        """Raise SnapshotExpiredError if an error comes from reading a snapshot that expired meanwhile."""
        found = self._travelled
        if snapshot is None or isinstance(found, ResolvedRange):
            return
        handle, tag = (self.handle, None) if found is None else (found.handle, found.tag)
        if _has_expired(handle, snapshot, error, tag):
            raise SnapshotExpiredError(
                f"snapshot {snapshot.id} of {handle.describe()} expired while it was read, and files of it are gone: "
                "read again. Where reads last long, let snapshots live longer (snapshot.time-retained), or read a tag",
                table=handle.name,
                branch=handle.branch,
                snapshot_id=snapshot.id,
            ) from error

    def _head(self) -> Snapshot | None:
        """The newest snapshot, and the definition it belongs to: read again when main was replaced meanwhile."""
        while True:
            snapshot = latest_snapshot(self.handle)
            handle = current(self.handle)
            if handle is self.handle:
                return snapshot
            self.handle = handle

    @property
    def _is_named(self) -> bool:
        """Whether the snapshot, or the range, is read for having been named, and not for being the head."""
        found = self._travelled
        return found.travelled if isinstance(found, Resolved) else found is not None

    def _query(self) -> ScanQuery:
        from paimon_spark.engine.scan.query import ScanQuery

        asked = self.options
        names = self.row_type.names
        return ScanQuery(
            columns=names[1:] if asked.row_kind else names,
            predicate=predicate_of(self),
            with_row_kind=asked.row_kind,
            limit=self.enough_rows,
            batch_rows=asked.batch_rows,
            created_since_ms=None if self._is_named else asked.created_since_ms,
            only=self.only,
        )

    def __getstate__(self) -> tuple[Any, ...]:
        """All but the plan, which may be large and is quickly made again."""
        return tuple(getattr(self, name) for name in _PICKLED)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        for name, value in zip(_PICKLED, state, strict=True):
            setattr(self, name, value)
        self._plan = None


def scan_at(found: Resolved, only: OnlyFiles | None = None) -> Scan:
    """The read of all columns of a version that was found; of some files of it."""
    return Scan(found.handle, only=only, _travelled=found)


def _has_other_history(handle: TableHandle, plan: Plan) -> bool:
    """Whether main was replaced since the handle was opened, so that schema ids of files may mean other schemas."""
    others = any(r.file_schemas.keys() - {handle.schema.id} for r in plan.requests.values())
    return others and current(handle) is not handle


def _other_history(found: Resolved) -> SnapshotExpiredError:
    handle, number = found.handle, None if found.snapshot is None else found.snapshot.id
    return SnapshotExpiredError(
        f"{handle.describe()} was given another history after snapshot {number} was chosen: read again",
        **handle.context,
    )


def _has_expired(handle: TableHandle, snapshot: Snapshot, error: PaimonError, tag: str | None = None) -> bool:
    """Whether an error comes from a file that was deleted because its snapshot, perhaps named by `tag`, expired."""
    if not isinstance(error, FileMissingError) and not isinstance(error.__cause__, FileMissingError):
        return False
    if tag is not None:
        found = find_tag(handle, tag)
        if found is not None and found.snapshot.base_manifest_list == snapshot.base_manifest_list:
            return False
    return not is_alive(handle, snapshot)


def predicate_of(scan: Scan) -> Predicate | None:
    """Predicate of the option `where` and the filters of a scan, or None.

    Raises:
        PredicateSyntaxError: `where` is not a predicate.
        ColumnNotFoundError: `where` names a column that does not exist.
    """
    parts = list(scan.filters)
    if scan.options.where is not None:
        from paimon_spark.predicate.parse import parse_predicate  # only reads with SQL text pay for the parser

        parts.append(parse_predicate(scan.options.where, scan.schema.row_type, scan.options.time_zone))
    return conjunction(parts)
