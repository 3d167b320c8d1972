"""DataFileMeta, the description of a data file in a manifest, and its column statistics.

The values are NamedTuples, because plans hold them by the hundred thousand: building one costs a third of a dataclass
and pickles to a plain tuple.

Statistics are kept as `metadata.stats-mode` says. They are exact or unknown: a column with NaN has no minimum and
maximum, as readers do not agree on where NaN belongs; zeros count as -0.0 in minima and 0.0 in maxima, so that either
sign is found.

Source: Paimon spec, chapter Manifest; Java `io/DataFileMeta`, `stats/SimpleStats`,
`statistics/*SimpleColStatsCollector`, `stats/SimpleStatsConverter`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_types import arrow_type, timestamp_unit
from paimon_spark.format.binary_row import Value, encode
from paimon_spark.options.data_files import StatsKind, StatsMode
from paimon_spark.types import DataField, DataType, TimestampType

DEDICATED: Final = (".blob", ".vector.")
"""In the names of files that hold the values of one large column for part of a range of row ids (data evolution)."""


class FileSource(IntEnum):
    """Which kind of commit wrote the file."""

    APPEND = 0
    COMPACT = 1


INDEX_SUFFIX: Final = ".index"
"""What the name of the file with the indexes of a data file has behind that of the data file."""


class DataFileMeta(NamedTuple):
    """One data file of a bucket.

    Attributes:
        file_name: name inside the bucket directory.
        file_size: bytes.
        row_count: physical rows, retracts and rows deleted by vectors included.
        min_key, max_key: BinaryRow bytes (with arity prefix) of the trimmed primary key; arity 0 for append tables.
        key_stats: statistics of the trimmed primary key, in key order.
        value_stats: statistics of the columns in `value_stats_cols`.
        min_sequence_number, max_sequence_number: range of `_SEQUENCE_NUMBER` in the file; see `has_exact_sequences`.
        schema_id: schema the file was written with.
        level: LSM level; 0 for append tables.
        extra_files: names of files that live and die with this one (file indexes).
        creation_time_ms: local wall clock of the writer, read as if UTC; None when not recorded.
        delete_row_count: rows of kind -U or -D; None in files of old writers, where it is unknown. A hint: see
            `has_no_retracts`.
        embedded_index: file index bytes kept in the manifest.
        file_source: `FileSource`; None when the writer was older than 0.9.
        value_stats_cols: columns that `value_stats` covers; None means all columns of the file.
        external_path: full path of the file when it lies outside the table directory.
        first_row_id: row id of row 0 when the table tracks rows.
        write_cols: columns physically in the file; None means all of its schema.
        write_cols_sequences: per column maximum sequence after a data-evolution compaction.
    """

    file_name: str
    file_size: int
    row_count: int
    min_key: bytes
    max_key: bytes
    key_stats: SimpleStats
    value_stats: SimpleStats
    min_sequence_number: int
    max_sequence_number: int
    schema_id: int
    level: int
    extra_files: tuple[str, ...] = ()
    creation_time_ms: int | None = None
    delete_row_count: int | None = None
    embedded_index: bytes | None = None
    file_source: int | None = None
    value_stats_cols: tuple[str, ...] | None = None
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: tuple[str, ...] | None = None
    write_cols_sequences: tuple[int, ...] | None = None

    @property
    def index_file(self) -> str | None:
        """The name of the file beside this one that contains its indexes."""
        return next((name for name in self.extra_files if name.endswith(INDEX_SUFFIX)), None)

    @property
    def has_no_retracts(self) -> bool:
        """Whether it is certain that no row is of kind -U or -D, so that `_VALUE_KIND` need not be read.

        A count of 0 alone is a hint: pypaimon 2.1 writes 0 for every file, also where `rowkind.field` gave rows the
        kind -D. It is certain for what a compaction wrote (`FileSource.COMPACT`): merging reads the kind of every row,
        drops retracts where no older row can lie below (Java `MergeTreeCompactManager`: into the deepest level with
        files, or with deletion vectors), keeps none of first-row tables, and counts those it keeps. The level proves
        nothing: a compaction that only moves a file down leaves its source and its count as the first writer set them.
        """
        return self.delete_row_count == 0 and self.file_source == FileSource.COMPACT

    @property
    def has_exact_sequences(self) -> bool:
        """Whether the range of sequence numbers can be that of the rows.

        Rows of one writer have numbers of their own, so a range narrower than the rows is not theirs: pypaimon 2.0
        gives the second and further files of a flush the last number of the whole flush as both ends. What a
        compaction wrote may hold rows of several writers that used the same numbers.
        """
        width = self.max_sequence_number - self.min_sequence_number + 1
        return self.file_source == FileSource.COMPACT or width >= self.row_count


_EPOCH: Final = datetime(1970, 1, 1)


def wall_clock_of(moment_ms: int) -> int:
    """Epoch milliseconds as the machine's local wall clock read as if UTC, as `creation_time_ms` counts."""
    try:
        return moment_ms + time.localtime(moment_ms // 1000).tm_gmtoff * 1000
    except (OverflowError, OSError, ValueError):  # beyond what the system's clock knows; no zone matters there
        return moment_ms


def moment_of(wall_clock_ms: int) -> int:
    """The inverse of `wall_clock_of`: epoch milliseconds, the earlier ones where clocks were put back."""
    seconds, rest = divmod(wall_clock_ms, 1000)
    try:
        return int((_EPOCH + timedelta(seconds=seconds)).timestamp()) * 1000 + rest
    except (OverflowError, OSError, ValueError):
        return wall_clock_ms


class SimpleStats(NamedTuple):
    """Statistics of some columns, still encoded.

    Attributes:
        min_values, max_values: BinaryRow bytes with the 4-byte big-endian arity prefix. A null in them means unknown.
        null_counts: nulls per column, in the same order; None where not counted.
    """

    min_values: bytes
    max_values: bytes
    null_counts: tuple[int | None, ...] | None


_BATCH_ROWS: Final = 128 << 10
_BATCH_BYTES: Final = 64 << 20
_PER_MILLI: Final = {"ms": 1, "us": 1_000, "ns": 1_000_000}
_SURROGATES: Final = range(0xD800, 0xE000)


class ColumnStats(NamedTuple):
    """Statistics of a column, as `binary_row` encodes values. None is unknown; all None: nothing is kept."""

    min: Value = None
    max: Value = None
    null_count: int | None = None


class StatsCollector:
    """Collects statistics of columns while batches go by: whole values, for `kept` to cut."""

    def __init__(self, fields: Sequence[DataField], kinds: Sequence[StatsKind]) -> None:
        self._columns = [_Column(f.type, kind) for f, kind in zip(fields, kinds, strict=True)]
        self._batches: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows whose columns are the fields, in order and canonical types."""
        self._batches.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= _BATCH_ROWS or self._bytes >= _BATCH_BYTES:
            self.flush()

    def result(self) -> list[ColumnStats]:
        """The statistics so far, per column."""
        self.flush()
        return [c.result() for c in self._columns]

    def flush(self) -> None:
        """Add the buffered rows to the statistics and release them."""
        if self._rows:
            table = pa.Table.from_batches(self._batches)
            for column, values in zip(self._columns, table.columns, strict=True):
                column.add(values)
        self._batches, self._rows, self._bytes = [], 0, 0


class _Column:
    def __init__(self, kind: DataType, wanted: StatsKind) -> None:
        arrow = arrow_type(kind)
        self._is_counted = wanted is not StatsKind.NONE
        self._is_ordered = wanted is StatsKind.VALUES and not pa.types.is_nested(arrow)
        self._is_floating = pa.types.is_floating(arrow)
        self._value = _value_of(kind)
        self._min: Any = None
        self._max: Any = None
        self._nulls = 0

    def add(self, values: pa.ChunkedArray) -> None:
        if not self._is_counted:
            return
        self._nulls += values.null_count
        if not self._is_ordered or values.null_count == len(values):
            return
        if self._is_floating:
            # Of numpy, NaN is the smallest and the largest when there is one.
            parts = [arrow_numpy.values(chunk) for chunk in values.drop_null().chunks if len(chunk)]
            low, high = float(np.min([p.min() for p in parts])), float(np.max([p.max() for p in parts]))
        else:
            ends = pc.min_max(values)
            low, high = raw_value(ends["min"]), raw_value(ends["max"])
        if low != low:  # NaN
            self._is_ordered, self._min, self._max = False, None, None
            return
        self._min = low if self._min is None or low < self._min else self._min
        self._max = high if self._max is None or high > self._max else self._max

    def result(self) -> ColumnStats:
        if not self._is_counted:
            return ColumnStats()
        if self._min is None:
            return ColumnStats(None, None, self._nulls)
        low, high = self._min, self._max
        if self._is_floating:
            low, high = low or -0.0, high or 0.0
        return ColumnStats(self._value(low), self._value(high), self._nulls)


def kept(stats: ColumnStats, mode: StatsMode) -> ColumnStats:
    """The part of a column's statistics that its mode keeps."""
    if mode.kind is StatsKind.NONE:
        return ColumnStats()
    if mode.kind is StatsKind.COUNTS:
        return ColumnStats(None, None, stats.null_count)
    if mode.length is None or not isinstance(stats.max, (str, bytes)):
        return stats
    highest = above(stats.max, mode.length)
    if highest is None or not isinstance(stats.min, (str, bytes)):
        return ColumnStats(None, None, stats.null_count)
    return ColumnStats(stats.min[: mode.length], highest, stats.null_count)


def row_values(fields: Sequence[DataField], columns: Sequence[pa.Array], row: int) -> list[Value]:
    """One row of columns, as `binary_row` encodes values."""
    scalars = (column[row] for column in columns)
    return [
        _value_of(f.type)(raw_value(scalar)) if scalar.is_valid else None
        for f, scalar in zip(fields, scalars, strict=True)
    ]


def above(value: str | bytes, length: int) -> str | bytes | None:
    """An upper bound of `value` with at most `length` characters or bytes, or None."""
    if len(value) <= length:
        return value
    if isinstance(value, bytes):
        kept = value[:length].rstrip(b"\xff")
        return kept[:-1] + bytes((kept[-1] + 1,)) if kept else None
    text = value[:length].rstrip("\U0010ffff")
    if not text:
        return None
    following = ord(text[-1]) + 1
    return text[:-1] + chr(_SURROGATES.stop if following in _SURROGATES else following)


def encode_all(fields: Sequence[DataField], stats: Sequence[ColumnStats]) -> SimpleStats:
    """Statistics with a place for every field, known or not."""
    types = [f.type.with_nullable(True) for f in fields]
    return SimpleStats(
        encode([s.min for s in stats], types),
        encode([s.max for s in stats], types),
        tuple(s.null_count for s in stats),
    )


def encode_dense(
    fields: Sequence[DataField], stats: Sequence[ColumnStats]
) -> tuple[SimpleStats, tuple[str, ...] | None]:
    """Statistics of the fields of which anything is kept, and their names; None stands for all fields."""
    kept = [(f, s) for f, s in zip(fields, stats, strict=True) if s != ColumnStats()]
    encoded = encode_all([f for f, _ in kept], [s for _, s in kept])
    return encoded, None if len(kept) == len(fields) else tuple(f.name for f, _ in kept)


def raw_value(scalar: pa.Scalar) -> Any:
    """A value to compare: a count for dates and times, else the Python value."""
    return scalar.value if pa.types.is_temporal(scalar.type) else scalar.as_py()


def _value_of(kind: DataType) -> Callable[[Any], Value]:
    """The conversion of a raw value into one that `binary_row` encodes."""
    if not isinstance(kind, TimestampType):
        return lambda raw: raw
    per_milli = _PER_MILLI[timestamp_unit(kind.precision)]
    nanos = 1_000_000 // per_milli

    def moment(raw: int) -> Value:
        millis, rest = divmod(raw, per_milli)
        return millis, rest * nanos

    return moment
