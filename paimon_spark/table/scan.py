"""Scan: one read of a table, planned when first needed."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from paimon_spark.errors import InvalidInputError
from paimon_spark.handoff.output import output_type
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.options.scan import ScanOptions
from paimon_spark.predicate.ast import Predicate, conjunction
from paimon_spark.refs.ranges import ResolvedRange, resolve_range
from paimon_spark.refs.resolve import Resolved, resolve
from paimon_spark.refs.version import from_options
from paimon_spark.spec.table_schema import TableSchema
from paimon_spark.types import ROW_KIND_COLUMN, RowType

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from paimon_spark.handoff.split import DataSplit
    from paimon_spark.scan.plan import Plan
    from paimon_spark.scan.query import ScanQuery


@dataclass(slots=True, eq=False)
class Scan:
    """One read of a table. Picklable. Planned once: reading it again gives the same rows.

    Attributes:
        handle: the branch as it was when the scan was made.
        options: what is asked.
        option_text: the same as text, for other processes.
        filters: more that must be true of every row.
    """

    handle: TableHandle
    options: ScanOptions = field(default_factory=ScanOptions)
    option_text: Mapping[str, str] = field(default_factory=dict)
    filters: tuple[Predicate, ...] = ()
    _travelled: Resolved | ResolvedRange | None = field(default=None, repr=False)
    _plan: Plan | None = field(default=None, repr=False)

    @property
    def table_name(self) -> str:
        """How messages call the table."""
        return self.handle.name

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
        """The columns that come out, with field ids and types. Raises ColumnNotFoundError."""
        return self.columns_named(self.options.columns)

    @property
    def arrow_schema(self) -> pa.Schema:
        """The Arrow schema that comes out."""
        from paimon_spark.spec.arrow import arrow_schema

        return arrow_schema(self.row_type)

    def columns_named(self, names: Sequence[str] | None) -> RowType:
        """Columns of the table and metadata columns by name; None means all of the table's.

        Raises:
            ColumnNotFoundError: there is no such column; the nearest names are offered.
        """
        row_kind = self.options.row_kind
        if names is not None and row_kind:
            names = [n for n in names if n != ROW_KIND_COLUMN]
        tracks_rows = self.handle.options.row_tracking
        table = self.handle.describe()
        return output_type(self.schema, names, table=table, tracks_rows=tracks_rows, row_kind=row_kind)

    def project(self, names: Sequence[str]) -> Scan:
        """The same read of other columns."""
        return replace(self, options=replace(self.options, columns=tuple(names)), _plan=None)

    def filtered(self, filters: Sequence[Predicate]) -> Scan:
        """The same read with more that must be true of every row."""
        return replace(self, filters=(*self.filters, *filters), _plan=None)

    def plan(self) -> Plan:
        """What will be read; `print` it to see what is skipped, and why.

        Raises:
            NotFoundError: the version or a column does not exist.
            PredicateSyntaxError: `where` is no predicate.
            UnsupportedFeatureError: the table has something that would be misread.
            CorruptFileError: metadata cannot be read.
        """
        if self._plan is None:
            self._plan = self._make_plan()
        return self._plan

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow batches of `arrow_schema`, some splits at a time; memory stays bounded."""
        from paimon_spark.read.parallel import AHEAD

        return self._batches(AHEAD)

    def _batches(self, ahead: int) -> Iterator[pa.RecordBatch]:
        from paimon_spark.read.parallel import read_splits
        from paimon_spark.read.split_reader import read_split

        plan = self.plan()

        def read(split: DataSplit) -> Iterator[pa.RecordBatch]:
            return read_split(plan.requests[split.branch], split)

        return read_splits(read, plan.splits, os.cpu_count() or 1, ahead)

    def to_arrow(self) -> pa.Table:
        """All rows as an Arrow table."""
        import pyarrow as pa

        from paimon_spark.read.parallel import UNBOUNDED

        schema = self.arrow_schema
        return pa.Table.from_batches(list(self._batches(UNBOUNDED)), schema=schema)

    def to_pandas(self) -> pd.DataFrame:
        """All rows as a pandas DataFrame.

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
        """The read as a Spark DataFrame, classic or Connect; each action reads anew.

        Args:
            session: default is the active session, else one is made.
        """
        # pyspark belongs to paimon_spark.spark, above this package: importing it by name keeps the layers apart,
        # and lets everything else here work without pyspark.
        module = importlib.import_module("paimon_spark.spark.dataframe")
        frame: DataFrame = module.dataframe(self, session)
        return frame

    def _find_version(self) -> Resolved | ResolvedRange | None:
        """The version named, looked up once; None for the head, which moves until the read is planned."""
        if self._travelled is None:
            asked, zone = self.options, self.options.time_zone
            if asked.incremental is not None:
                key, text = asked.incremental.key, asked.incremental.text
                self._travelled = resolve_range(self.handle, key, text, zone)
            elif asked.version is not None:
                self._travelled = resolve(self.handle, from_options([asked.version], zone))
        return self._travelled

    def _make_plan(self) -> Plan:
        from paimon_spark.scan.incremental import plan_incremental
        from paimon_spark.scan.plan import plan_batch

        found, query = self._find_version(), self._query()
        match found:
            case None:
                return plan_batch(self.handle, latest_snapshot(self.handle), query)
            case ResolvedRange():
                assert self.options.incremental is not None
                return plan_incremental(found, query, self.options.incremental)
        return plan_batch(found.handle, found.snapshot, query, travelled=found.travelled)

    def _query(self) -> ScanQuery:
        from paimon_spark.scan.query import ScanQuery

        asked = self.options
        names = self.row_type.names
        return ScanQuery(
            columns=names[1:] if asked.row_kind else names,
            predicate=self._predicate(),
            with_row_kind=asked.row_kind,
            batch_rows=asked.batch_rows,
        )

    def _predicate(self) -> Predicate | None:
        parts = list(self.filters)
        if self.options.where is not None:
            from paimon_spark.predicate.parse import parse_predicate  # only reads with SQL text pay for the parser

            parts.append(parse_predicate(self.options.where, self.schema.row_type, self.options.time_zone))
        return conjunction(parts)

    def __getstate__(self) -> tuple[Any, ...]:
        """Everything but the plan, which may be large and is quickly made again."""
        return (self.handle, self.options, self.option_text, self.filters, self._travelled)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.handle, self.options, self.option_text, self.filters, self._travelled = state
        self._plan = None
