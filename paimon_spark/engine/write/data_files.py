"""Data files of a bucket: names, target size, statistics and DataFileMeta.

Source: Java `io/RollingFileWriterImpl`, `io/DataFilePathFactory`, `io/RowDataFileWriter`, `io/KeyValueDataFileWriter`,
`utils/StatsCollectorFactories`, `postpone/PostponeBucketFileStoreWrite`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.engine.tasks import Increment
from paimon_spark.engine.write.request import WriteRequest, new_file_id
from paimon_spark.errors import StorageError
from paimon_spark.format import binary_row
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_types import arrow_schema
from paimon_spark.format.arrays.pieces import cut
from paimon_spark.format.data_files.registry import open_writer
from paimon_spark.format.data_files.requests import FileWrite
from paimon_spark.format.metadata_files.data_file import (
    INDEX_SUFFIX,
    ColumnStats,
    DataFileMeta,
    FileSource,
    SimpleStats,
    StatsCollector,
    encode_all,
    encode_dense,
    kept,
    row_values,
    wall_clock_of,
)
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.layout import POSTPONE_BUCKET
from paimon_spark.metadata.retry import now_ms
from paimon_spark.options.data_files import DataFileOptions, FileIndexOptions, FileKindOptions, StatsKind, StatsMode
from paimon_spark.storage.store import Store
from paimon_spark.types import (
    BIGINT,
    KEY_PREFIX,
    SEQUENCE_NUMBER,
    SEQUENCE_NUMBER_ID,
    TINYINT,
    TRACKING_FIELDS,
    VALUE_KIND,
    VALUE_KIND_ID,
    DataField,
)

KEY_ID_START: Final = 1_073_741_823
_KEY_STATS: Final = StatsMode(StatsKind.VALUES, 128)
_ROW_GROUP_BYTES: Final = 64 << 20
_ROW_GROUP_ROWS: Final = 1 << 20
_KEYED_ROW_GROUP_ROWS: Final = 256 << 10
"""A merge reads several files side by side, so a row group of a file with keys is smaller."""
_NO_KEY: Final = SimpleStats(binary_row.EMPTY, binary_row.EMPTY, ())
_CHECK_ROWS: Final = 100_000


class DataFiles:
    """Makes writers of the data files of one bucket; all of their names share one id and one counter."""

    def __init__(
        self,
        request: WriteRequest,
        partition: bytes,
        bucket: int,
        *,
        keeps_row_ids: bool = False,
        columns: Sequence[str] | None = None,
        in_one_file: bool = False,
    ) -> None:
        """Prepare writers.

        Args:
            request: what is written.
            partition: BinaryRow bytes.
            bucket: bucket number.
            keeps_row_ids: batches end with `_ROW_ID` and `_SEQUENCE_NUMBER` of existing rows, null if changed.
            columns: the files hold only these columns, in the order of the table (data evolution).
            in_one_file: a writer makes one file however large, as for one range of row ids (data evolution).

        Raises:
            UnsupportedFeatureError, InvalidOptionError: such files cannot be written.
        """
        handle = request.handle
        schema = handle.schema
        self.store = handle.store
        self.options = _file_options(request, bucket)
        self.target_bytes = self.options.target_bytes(bool(schema.primary_keys))
        self.layout = FileLayout.of(schema, self.options, keeps_row_ids=keeps_row_ids, columns=columns)
        self.in_one_file = in_one_file
        self.indexes = handle.options.file_indexes if handle.options.file_indexes.indexes else None
        self._layout_of_table = handle.layout
        self.directory = request.directories.bucket_path(partition, bucket)
        self.tracks_rows = handle.options.row_tracking
        """Commits number the rows: they look for files that begin at 0 (Java `RowTrackingCommitUtils`)."""
        self._id = new_file_id(request.job)
        self._numbers = count()

    def data(
        self, level: int = 0, source: FileSource = FileSource.APPEND, first_sequence_number: int = 0
    ) -> RollingWriter:
        """A writer of data files. `first_sequence_number` is that of the first row, in tables without keys only."""
        rolls = source is FileSource.APPEND and not self.in_one_file
        most_rows = self.options.target_file_rows if rolls else None
        kind = self.options.data(level)
        return RollingWriter(self, kind, level, source, first_sequence_number, most_rows, has_indexes=True)

    def changelog(self, level: int = 0) -> RollingWriter:
        """A writer of changelog files."""
        return RollingWriter(self, self.options.changelog(level), level, FileSource.APPEND)

    def new_name(self, kind: FileKindOptions) -> str:
        """A name that no file has."""
        return f"{kind.prefix}{self._id}-{next(self._numbers)}{kind.extension(self.options.suffix_with_codec)}"

    def path(self, name: str) -> str:
        """The path of the file `name`."""
        return self._layout_of_table.data_path(self.directory, name)


def _file_options(request: WriteRequest, bucket: int) -> DataFileOptions:
    """The table's options; files of the postponed bucket are Avro if possible, and have their writer in their names."""
    schema = request.handle.schema
    options = request.handle.options.data_files
    if bucket != POSTPONE_BUCKET:
        return options
    from paimon_spark.format.data_files.avro import fits_avro  # only postponed buckets need it

    options = replace(options, prefix=f"{options.prefix}-u-{request.commit_user}-s-{request.writer_number}-w-")
    if not all(fits_avro(f.type) for f in schema.fields):
        return options
    return replace(options, format="avro", stats=StatsMode(StatsKind.NONE))


class RollingWriter:
    """Writes rows into data files of one kind; begins a new file at the target size.

    Batches of tables without keys have the table's columns. With keys they have `_SEQUENCE_NUMBER` (int64) and
    `_VALUE_KIND` (int8), then the table's columns, and come in key order. Not safe for threads.
    """

    def __init__(
        self,
        files: DataFiles,
        kind: FileKindOptions,
        level: int,
        source: FileSource,
        first_sequence_number: int = 0,
        most_rows: int | None = None,
        *,
        has_indexes: bool = False,
    ) -> None:
        self._files = files
        self._indexes = files.indexes if has_indexes else None
        self._kind = kind
        self._level = level
        self._source = source
        self._next_sequence_number = first_sequence_number
        self._most_rows = most_rows
        self._current: _DataFileWriter | None = None
        self._done: list[DataFileMeta] = []
        self._paths: list[str] = []

    @property
    def buffered_bytes(self) -> int:
        """Memory that `flush` frees."""
        return 0 if self._current is None else self._current.buffered_bytes

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows. Raises StorageError, DataError, UnsupportedFeatureError; then call `abort`."""
        for part in cut(batch, most_rows=_CHECK_ROWS):
            start = 0
            while start < part.num_rows:
                file = self._current or self._open()
                rows = part.num_rows - start
                if self._most_rows is not None:
                    rows = min(rows, self._most_rows - file.row_count)
                file.write(part.slice(start, rows))
                start += rows
                if file.row_count == self._most_rows or self._is_full(file):
                    self._finish(file)

    def flush(self) -> None:
        """Write what is buffered into the open file."""
        if self._current is not None:
            self._current.flush()

    def close(self) -> tuple[DataFileMeta, ...]:
        """Finish the last file; return the metadata of all, in the order written."""
        if self._current is not None:
            self._finish(self._current)
        return tuple(self._done)

    def abort(self) -> None:
        """Delete every file made, open or finished. Raises nothing."""
        if self._current is not None:
            self._current.abort()
        with suppress(StorageError):
            self._files.store.delete_many(self._paths)
        self._current, self._done, self._paths = None, [], []

    def _is_full(self, file: _DataFileWriter) -> bool:
        return not self._files.in_one_file and file.estimated_bytes >= self._files.target_bytes

    def _open(self) -> _DataFileWriter:
        name = self._files.new_name(self._kind)
        path = self._files.path(name)
        self._paths.append(path)
        if self._indexes is not None:
            self._paths.append(path + INDEX_SUFFIX)
        self._current = _DataFileWriter(
            self._files.store, path, name, self._files.layout, self._kind, indexes=self._indexes
        )
        return self._current

    def _finish(self, file: _DataFileWriter) -> None:
        meta = file.close(self._level, self._source, self._next_sequence_number)
        if not self._files.tracks_rows:
            self._next_sequence_number += meta.row_count
        self._done.append(meta)
        self._current = None


@dataclass(frozen=True, slots=True)
class FileLayout:
    """The columns of data files of a table.

    Attributes:
        key_numbers: columns of the key inside a bucket, in key order; empty without a primary key.
        fields: columns of a file: with keys first `_KEY_*` (not in thin mode), `_SEQUENCE_NUMBER`, `_VALUE_KIND`.
        write_columns: names of the columns of a file, where they are not the table's: a part of them, or followed by
            `_ROW_ID` and `_SEQUENCE_NUMBER`.
        keeps_row_ids: existing rows; the last columns of a file are `_ROW_ID` and `_SEQUENCE_NUMBER`.
    """

    schema_id: int
    table_fields: tuple[DataField, ...]
    key_numbers: tuple[int, ...]
    fields: tuple[DataField, ...]
    options: DataFileOptions
    write_columns: tuple[str, ...] | None = None
    keeps_row_ids: bool = False

    @staticmethod
    def of(
        schema: TableSchema,
        options: DataFileOptions,
        *,
        keeps_row_ids: bool = False,
        columns: Sequence[str] | None = None,
    ) -> FileLayout:
        """Raises UnsupportedFeatureError: a column of a type that cannot be written."""
        names = [f.name for f in schema.fields]
        keys = tuple(names.index(k) for k in schema.trimmed_primary_keys)
        table_fields = fields = tuple(f for f in schema.fields if columns is None or f.name in columns)
        if schema.primary_keys:
            key_fields = (schema.fields[i] for i in keys)
            repeated = tuple(replace(f, id=f.id + KEY_ID_START, name=KEY_PREFIX + f.name) for f in key_fields)
            fields = (
                *(() if options.thin_mode else repeated),
                DataField(SEQUENCE_NUMBER_ID, SEQUENCE_NUMBER, BIGINT.with_nullable(False)),
                DataField(VALUE_KIND_ID, VALUE_KIND, TINYINT.with_nullable(False)),
                *schema.fields,
            )
        if keeps_row_ids:
            fields = (*fields, *TRACKING_FIELDS)
        arrow_schema(fields)
        is_partial = keeps_row_ids or len(fields) < len(schema.fields)
        written = tuple(f.name for f in fields) if is_partial else None
        return FileLayout(schema.id, table_fields, keys, fields, options, written, keeps_row_ids)

    @property
    def has_keys(self) -> bool:
        return bool(self.key_numbers)

    @property
    def key_fields(self) -> tuple[DataField, ...]:
        return tuple(self.table_fields[i] for i in self.key_numbers)

    def stats_modes(self, mode: StatsMode) -> list[StatsMode]:
        """The mode of each column of the table, in files with `mode`."""
        options = self.options
        out = []
        counted = 0
        for i, f in enumerate(self.table_fields):
            own = options.column_stats.get(f.name)
            if own is None and options.thin_mode and i in self.key_numbers:
                out.append(_KEY_STATS)
                continue
            if own is None and 0 <= options.stats_first_columns <= counted:
                own = StatsMode(StatsKind.NONE)
            out.append(own or mode)
            counted += 1
        return out


class _DataFileWriter:
    """Writes one data file. Batches are those of `RollingWriter`."""

    def __init__(
        self,
        store: Store,
        path: str,
        name: str,
        layout: FileLayout,
        kind: FileKindOptions,
        *,
        indexes: FileIndexOptions | None = None,
    ) -> None:
        options = layout.options
        self._store = store
        self._path = path
        self._name = name
        self._indexes = None
        if indexes is not None:
            from paimon_spark.format.file_index.indexes import FileIndexBuilder  # only tables with indexes need it

            self._in_manifest_bytes = indexes.in_manifest_bytes
            self._indexes = FileIndexBuilder(layout.table_fields, indexes.indexes)
        self._layout = layout
        self._schema = arrow_schema(layout.fields)
        self._table_schema = arrow_schema(layout.table_fields)
        self._modes = layout.stats_modes(kind.stats)
        kinds = [StatsKind.VALUES if i in layout.key_numbers else m.kind for i, m in enumerate(self._modes)]
        self._stats = StatsCollector(layout.table_fields, kinds)
        self._writer = open_writer(
            FileWrite(
                store,
                path,
                kind.format,
                layout.fields,
                kind.compression,
                options.zstd_level,
                row_is_nullable=not layout.has_keys,
                settings=options.settings,
                row_group_bytes=min(options.block_size or _ROW_GROUP_BYTES, options.target_bytes(layout.has_keys)),
                row_group_rows=_KEYED_ROW_GROUP_ROWS if layout.has_keys else _ROW_GROUP_ROWS,
            )
        )
        self.row_count = 0
        self._first_key = self._last_key = binary_row.EMPTY
        self._min_sequence: int | None = None
        self._max_sequence = 0
        self._has_unnumbered = False
        self._delete_count = 0

    @property
    def estimated_bytes(self) -> int:
        """Approximate size of the file if closed now."""
        return self._writer.estimated_bytes

    @property
    def buffered_bytes(self) -> int:
        """Memory that `flush` frees."""
        return self._writer.buffered_bytes

    def flush(self) -> None:
        """Write buffered rows."""
        self._stats.flush()
        self._writer.flush()

    def abort(self) -> None:
        """Delete the file. Raises nothing."""
        self._writer.abort()

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows, at least one."""
        columns = batch.columns
        if self._layout.has_keys:
            sequences, kinds, *values = columns
            self._add_sequences(sequences)
            self._delete_count += int((arrow_numpy.values(kinds) & 1).sum())
            keys = [values[i] for i in self._layout.key_numbers]
            self._add_keys(keys, batch.num_rows)
            if not self._layout.options.thin_mode:
                columns = [*keys, *columns]
        else:
            values = columns[: len(self._layout.table_fields)]
            if self._layout.keeps_row_ids:
                self._add_sequences(columns[-1])
        self._stats.add(pa.RecordBatch.from_arrays(values, schema=self._table_schema))
        if self._indexes is not None:
            self._indexes.add(values)
        self._writer.write(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        self.row_count += batch.num_rows

    def close(self, level: int, source: FileSource, first_sequence_number: int) -> DataFileMeta:
        """Finish the file and describe it. Files without keys number their rows from `first_sequence_number`."""
        written = self._writer.close()
        embedded, extra_files = self._write_indexes()
        layout = self._layout
        stats = self._stats.result()
        value_stats, columns = self._value_stats(stats)
        if layout.write_columns is not None and columns is None:
            columns = tuple(f.name for f in layout.table_fields)
        if not layout.has_keys and not layout.keeps_row_ids:
            self._min_sequence = first_sequence_number
            self._max_sequence = first_sequence_number + self.row_count - 1
        return DataFileMeta(
            file_name=self._name,
            file_size=written.file_size,
            row_count=self.row_count,
            min_key=self._first_key,
            max_key=self._last_key,
            key_stats=self._key_stats(stats),
            value_stats=value_stats,
            min_sequence_number=self._min_sequence or 0,
            max_sequence_number=0 if self._has_unnumbered else self._max_sequence,
            schema_id=layout.schema_id,
            level=level,
            creation_time_ms=wall_clock_ms(),
            delete_row_count=self._delete_count,
            file_source=int(source),
            extra_files=extra_files,
            embedded_index=embedded,
            value_stats_cols=columns,
            write_cols=layout.write_columns,
        )

    def _write_indexes(self) -> tuple[bytes | None, tuple[str, ...]]:
        """Finish the indexes: their bytes for the manifest, or the name of the file beside this one."""
        if not self._indexes:
            return None, ()
        data = self._indexes.finish()
        if len(data) <= self._in_manifest_bytes:
            return data, ()
        self._store.write(self._path + INDEX_SUFFIX, data)
        return None, (self._name + INDEX_SUFFIX,)

    def _add_sequences(self, sequences: pa.Array) -> None:
        """Add the sequence numbers of rows; nulls become the snapshot's number, which the metadata stores as 0.

        Source: Java `io/RowDataFileSequenceNumberTracker`.
        """
        self._has_unnumbered |= bool(sequences.null_count)
        if sequences.null_count == len(sequences):
            return
        ends = pc.min_max(sequences)
        low, high = ends["min"].as_py(), ends["max"].as_py()
        is_first = self._min_sequence is None
        self._max_sequence = high if is_first else max(high, self._max_sequence)
        self._min_sequence = low if self._min_sequence is None else min(low, self._min_sequence)

    def _add_keys(self, keys: Sequence[pa.Array], rows: int) -> None:
        fields = self._layout.key_fields
        types = [f.type for f in fields]
        if not self.row_count:
            self._first_key = binary_row.encode(row_values(fields, keys, 0), types)
        self._last_key = binary_row.encode(row_values(fields, keys, rows - 1), types)

    def _key_stats(self, stats: Sequence[ColumnStats]) -> SimpleStats:
        if not self._layout.has_keys:
            return _NO_KEY
        return encode_all(self._layout.key_fields, [kept(stats[i], _KEY_STATS) for i in self._layout.key_numbers])

    def _value_stats(self, stats: Sequence[ColumnStats]) -> tuple[SimpleStats, tuple[str, ...] | None]:
        found = [kept(s, mode) for s, mode in zip(stats, self._modes, strict=True)]
        fields = self._layout.table_fields
        return encode_dense(fields, found) if self._layout.options.stats_dense else (encode_all(fields, found), None)


def wall_clock_ms() -> int:
    """The local wall clock as if it were UTC, in milliseconds: creation times as Java writes them."""
    return wall_clock_of(now_ms())


class DirectWriter:
    """A `BucketWriter` whose rows go to data files in order of arrival, unsorted."""

    def __init__(self, rolling: RollingWriter) -> None:
        self._rolling = rolling

    def write(self, batch: pa.RecordBatch) -> None:
        self._rolling.write(batch)

    @property
    def buffered_bytes(self) -> int:
        return self._rolling.buffered_bytes

    def release(self) -> None:
        self._rolling.flush()

    def end_files(self) -> None:
        """Nothing: rows are not merged."""

    def close(self) -> Increment:
        return Increment(new_files=self._rolling.close())

    def abort(self) -> None:
        self._rolling.abort()
