"""Reads of a plan's files by Spark's own vectorised readers of Parquet and ORC.

Spark skips row groups and pages by the statistics and dictionaries of the files, whoever wrote them. Conditions by
which that loses rows are not pushed down to the files:

- on FLOAT and DOUBLE: bounds that leave out NaN (pyarrow, pypaimon), dictionaries with only one of the two zeros;
- on timestamps in milliseconds, to which Spark cuts the condition;
- with dates and times before 1582-10-15, which Spark takes from one calendar to another and back.

Source: Spark `datasources/v2/parquet/ParquetScan.scala`, `datasources/v2/orc/OrcScan.scala`, `ParquetFilters.scala`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from paimon_spark.format.binary_row import decode_column
from paimon_spark.predicate.ast import (
    And,
    Compare,
    In,
    Literal,
    Not,
    NullSafeEqual,
    Or,
    Predicate,
    columns_of,
    show,
)
from paimon_spark.spark.schema import arrow_schema, spark_schema
from paimon_spark.spark_catalog.jvm.gateway import SQL, Gateway
from paimon_spark.spark_catalog.reads.hadoop import hadoop_conf, hadoop_url
from paimon_spark.spark_catalog.reads.predicates import Conditions
from paimon_spark.spark_catalog.reads.readable_files import ORC, PARQUET, ReadableFiles
from paimon_spark.spark_catalog.reads.results import internal_rows
from paimon_spark.storage.local import check_path
from paimon_spark.types import ArrayType, AtomicType, DataField, DataType, MapType, RowType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from paimon_spark.engine.tasks import DataSplit
    from paimon_spark.jobs.read.scan import Scan

_SOURCES: Final = SQL + "execution.datasources."
_FIELD_IDS: Final = "spark.sql.parquet.fieldId.read.enabled"
_ID: Final = "parquet.field.id"
_FLOATS: Final = ("FLOAT", "DOUBLE")
_NAMES: Final = {"parquet": "Parquet", "orc": "ORC"}
_NO_URL: Final = "file:///"
_GREGORIAN: Final = date(1582, 10, 16)
"""One day behind the switch of calendars, for the sake of time zones."""
_OPTIONS: Final = {
    # A session may let Spark pass over files that are damaged or gone, or take dates for those of its old releases.
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "mergeSchema": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}


def file_scan(
    gateway: Gateway, spark: SparkSession, scan: Scan, files: ReadableFiles, conditions: Conditions
) -> FileScan | None:
    """The read of files by Spark's own reader; None if the session cannot reach them."""
    stores = {id(r.store): r.store for r in scan.plan().requests.values()} or {0: scan.handle.store}
    url = next((u for split in files.splits for _, u in _urls(scan, split)), _NO_URL)
    store = next(iter(stores.values()))
    # Keys that a server hands out for some time are asked for again by Python's readers only.
    if len(stores) > 1 or url is None or getattr(store, "has_tokens", False):
        return None
    conf = hadoop_conf(gateway, spark, getattr(store, "options", {}), url)
    return None if conf is None else FileScan(gateway, spark, scan, files, conf, _pushed(conditions, files))


def _urls(scan: Scan, split: DataSplit) -> Iterator[tuple[int, str | None]]:
    """Bytes and URL of each file, as Hadoop spells it."""
    store = scan.plan().requests[split.branch].store
    directory = hadoop_url(store.url(split.bucket_path))
    for file in split.files:
        check_path(store, split.path_of(file))  # Spark's readers follow links
        if split.elsewhere:
            yield file.file_size, hadoop_url(store.url(split.path_of(file)))
        else:
            yield file.file_size, None if directory is None else f"{directory}/{file.file_name}"


def _pushed(conditions: Conditions, files: ReadableFiles) -> Conditions:
    """The conditions of Spark that may skip row groups and pages."""
    types = {f.name: f.type for f in files.fields}

    def may_skip(predicate: Predicate) -> bool:
        names = {c.name for c in columns_of(predicate)}
        literals = list(_literals(predicate))
        return (
            bool(names)
            and names <= files.skippable
            and not any(_has_floats(types[name]) for name in names)
            and not any(_is_old(literal) for literal in literals)
            and not (files.reader.format == ORC and None in literals)  # Spark 4.1's ORC reader fails by NULL in a list
        )

    return conditions.where(may_skip)


def _has_floats(t: DataType) -> bool:
    match t:
        case AtomicType(name=name):
            return name in _FLOATS
        case ArrayType() | MapType() | RowType():
            return True
    return False


def _literals(predicate: Predicate) -> Iterator[Literal | None]:
    match predicate:
        case And(children) | Or(children):
            for child in children:
                yield from _literals(child)
        case Not(child):
            yield from _literals(child)
        case Compare(_, _, literal) | NullSafeEqual(_, literal):
            yield literal
        case In(_, literals, has_null):
            yield from (*literals, None) if has_null else literals


def _is_old(literal: Literal | None) -> bool:
    if isinstance(literal, datetime):
        literal = literal.date()
    return isinstance(literal, date) and literal <= _GREGORIAN


@dataclass(frozen=True)
class FileScan:
    """A read by Spark's own reader.

    Attributes:
        files: what is read; the columns of the partition follow those of the files.
        conf: Hadoop's configuration.
        pushed: conditions by which the reader skips row groups and pages.
    """

    gateway: Gateway
    spark: SparkSession
    scan: Scan
    files: ReadableFiles
    conf: Any
    pushed: Conditions

    @property
    def reader_name(self) -> str:
        """Who reads, and what it may skip inside files, for EXPLAIN."""
        skips = " AND ".join(map(show, self.pushed.predicates.values()))
        return f"Spark's {_NAMES[self.files.reader.format]} reader" + (f"; row groups where {skips}" if skips else "")

    @cached_property
    def _partition_fields(self) -> tuple[DataField, ...]:
        keys = self.scan.handle.schema.partition_keys
        return tuple(f for f in self.scan.row_type if f.name in keys)

    def partitions(self, splits: Sequence[DataSplit]) -> Any:
        """Spark's `InputPartition[]` of splits."""
        places: dict[bytes, int] = {}
        fields: list[str] = []
        for split in splits:
            number = str(places.setdefault(split.partition, len(places)))
            for size, url in _urls(self.scan, split):
                fields += (number, str(url), str(size))
        rows = self._partition_rows(list(places))
        return self.gateway.java_code("Partitions").partitions(self.spark._jsparkSession, rows, "\0".join(fields))

    def _partition_rows(self, partitions: Sequence[bytes]) -> Any:
        """Spark's row with the values of each partition."""
        fields = self._partition_fields
        if not fields or not partitions:
            empty = self.gateway.static(SQL + "catalyst.InternalRow", "empty")()
            return self.gateway.array(SQL + "catalyst.InternalRow", [empty] * max(1, len(partitions)))
        keys = self.scan.handle.schema.partition_keys
        rows = pa.array(partitions, pa.binary())
        struct = spark_schema(RowType(False, fields))
        target = arrow_schema(struct)
        arrays = [
            decode_column(rows, keys.index(f.name), f.type).cast(target.field(i).type) for i, f in enumerate(fields)
        ]
        frame = self.spark.createDataFrame(pa.Table.from_arrays(arrays, schema=target), struct)
        return internal_rows(frame)

    def reader_factory(self) -> Any:
        """Factory of the readers of partitions in tasks."""
        gateway, files = self.gateway, self.files
        data = self._java_struct(files.fields, with_ids=files.reader.by_id)
        partition = self._java_struct(self._partition_fields, with_ids=False)
        self.conf.set(_FIELD_IDS, str(files.reader.by_id).lower())
        options, none, no_filters = gateway.options(_OPTIONS), gateway.none, gateway.seq([])
        jsession = self.spark._jsparkSession
        filters = self.pushed.java_filters()
        if files.reader.format == PARQUET:
            kind = gateway.cls(_SOURCES + "v2.parquet.ParquetScan")
            no_variants = gateway.array(SQL + "connector.read.VariantExtraction")
            made = kind(
                jsession, self.conf, None, data, data, partition, filters, options, none, no_filters, no_filters,
                no_variants,
            )  # fmt: skip
        else:
            kind = gateway.cls(_SOURCES + "v2.orc.OrcScan")
            made = kind(
                jsession, self.conf, None, data, data, partition, options, none, filters, no_filters, no_filters
            )
        return made.createReaderFactory()

    def _java_struct(self, fields: Sequence[DataField], *, with_ids: bool) -> Any:
        struct = spark_schema(RowType(False, tuple(fields)))
        if with_ids:
            for spark_field, field in zip(struct.fields, fields, strict=True):
                spark_field.metadata = {**(spark_field.metadata or {}), _ID: field.id}
        return self.gateway.struct(struct.json())
