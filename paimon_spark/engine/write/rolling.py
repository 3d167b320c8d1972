"""Data files of a bucket: names, target size → DataFileMeta.

Source: Java `io/RollingFileWriterImpl`, `io/DataFilePathFactory`, `postpone/PostponeBucketFileStoreWrite`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Final

import pyarrow as pa

from paimon_spark.engine.write.data_file import DataFileWriter, FileLayout
from paimon_spark.engine.write.job_files import new_file_id
from paimon_spark.engine.write.request import WriteRequest
from paimon_spark.errors import StorageError
from paimon_spark.format.data_files.avro import fits_avro
from paimon_spark.format.metadata_files.data_file import DataFileMeta, FileSource
from paimon_spark.metadata.layout import POSTPONE_BUCKET
from paimon_spark.options.data_files import (
    DataFileOptions,
    FileKindOptions,
    StatsKind,
    StatsMode,
)

_CHECK_ROWS: Final = 100_000


class DataFiles:
    """Makes writers of the data files of one bucket; all of their names share one id and one counter."""

    def __init__(self, request: WriteRequest, partition: bytes, bucket: int, *, keeps_row_ids: bool = False) -> None:
        """With `keeps_row_ids` batches end with `_ROW_ID` and `_SEQUENCE_NUMBER` of rows that were there before.

        Raises UnsupportedFeatureError and InvalidOptionError for what the options ask of files.
        """
        handle = request.handle
        schema = handle.schema
        self.store = handle.store
        self.options = _file_options(request, bucket)
        self.target_bytes = self.options.target_bytes(bool(schema.primary_keys))
        self.layout = FileLayout.of(schema, self.options, keeps_row_ids=keeps_row_ids)
        self._layout_of_table = handle.layout
        self.directory = request.directories.bucket_path(partition, bucket)
        self.tracks_rows = handle.options.row_tracking
        """Commits number the rows: they look for files that begin at 0 (Java `RowTrackingCommitUtils`)."""
        self._id = new_file_id(request.job)
        self._numbers = count()

    def data(
        self, level: int = 0, source: FileSource = FileSource.APPEND, first_sequence_number: int = 0
    ) -> RollingWriter:
        """A writer of data files.

        Args:
            level: LSM level of the files.
            source: which kind of commit they are for.
            first_sequence_number: tables without keys only: number of the first row.
        """
        most_rows = self.options.target_file_rows if source is FileSource.APPEND else None
        return RollingWriter(self, self.options.data(level), level, source, first_sequence_number, most_rows)

    def changelog(self, level: int = 0) -> RollingWriter:
        """A writer of changelog files."""
        return RollingWriter(self, self.options.changelog(level), level, FileSource.APPEND)

    def new_name(self, kind: FileKindOptions) -> str:
        """A name that no file has."""
        return f"{kind.prefix}{self._id}-{next(self._numbers)}{kind.extension(self.options.suffix_with_codec)}"

    def path(self, name: str) -> str:
        """Where the file called `name` lies."""
        return self._layout_of_table.data_path(self.directory, name)


def _file_options(request: WriteRequest, bucket: int) -> DataFileOptions:
    """The table's options; files of the postponed bucket are Avro where it can be, and tell who wrote them."""
    schema = request.handle.schema
    options = request.handle.options.data_files
    if bucket != POSTPONE_BUCKET:
        return options
    options = replace(options, prefix=f"{options.prefix}-u-{request.commit_user}-s-{request.writer_number}-w-")
    if not all(fits_avro(f.type) for f in schema.fields):
        return options
    return replace(options, format="avro", stats=StatsMode(StatsKind.NONE))


class RollingWriter:
    """Writes rows into data files of one kind, and begins a new file when one is large enough.

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
    ) -> None:
        self._files = files
        self._kind = kind
        self._level = level
        self._source = source
        self._next_sequence_number = first_sequence_number
        self._most_rows = most_rows
        self._current: DataFileWriter | None = None
        self._done: list[DataFileMeta] = []
        self._paths: list[str] = []

    @property
    def buffered_bytes(self) -> int:
        """Memory that `flush` would give back."""
        return 0 if self._current is None else self._current.buffered_bytes

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows. Raises StorageError, DataError, UnsupportedFeatureError; then `abort` is to be called."""
        start = 0
        while start < batch.num_rows:
            file = self._current or self._open()
            rows = min(batch.num_rows - start, _CHECK_ROWS)
            if self._most_rows is not None:
                rows = min(rows, self._most_rows - file.row_count)
            file.write(batch.slice(start, rows))
            start += rows
            if file.row_count == self._most_rows or file.estimated_bytes >= self._files.target_bytes:
                self._finish(file)

    def flush(self) -> None:
        """Write what is buffered into the open file."""
        if self._current is not None:
            self._current.flush()

    def close(self) -> tuple[DataFileMeta, ...]:
        """Finish the last file and describe all of them, in the order written; without rows there is none."""
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

    def _open(self) -> DataFileWriter:
        name = self._files.new_name(self._kind)
        path = self._files.path(name)
        self._paths.append(path)
        self._current = DataFileWriter(self._files.store, path, name, self._files.layout, self._kind)
        return self._current

    def _finish(self, file: DataFileWriter) -> None:
        meta = file.close(self._level, self._source, self._next_sequence_number)
        if not self._files.tracks_rows:
            self._next_sequence_number += meta.row_count
        self._done.append(meta)
        self._current = None
