"""Choice of the reader of a data file by its name, and of the writer of a new one.

Table options do not matter to readers: one table may mix formats.

A compacted changelog holds changelog files of several buckets, each a slice found by its name:
`bucket-3/compacted-changelog-x$0-100-100-50.cc-orc` is 50 bytes at 100 of
`bucket-0/compacted-changelog-x$0-100.cc-orc`, and that name itself means the first 100 bytes of the file.

Source: Paimon spec, chapter Data file; Java `io/DataFilePathFactory.formatIdentifier`,
`utils/CompactedChangelogPathResolver`, Flink's `CompactedChangelogReadOnlyFormat`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from paimon_spark.errors import (
    CorruptFileError,
    DataError,
    FileMissingError,
    FormatError,
    PaimonError,
    StorageError,
    UnsupportedFeatureError,
)
from paimon_spark.format.data_files.requests import FileRead, FileWrite, FileWriter, Rows, WrittenFile
from paimon_spark.storage.store import FileInfo, KnownRanges, ReadableStore, open_ranges

_COMPRESSIONS: Final = frozenset(("gz", "gzip", "bz2", "deflate", "snappy", "lz4", "lzo", "zst", "zstd", "none"))
_SEVERAL_PARTS: Final = frozenset(("blob", "vector"))
READABLE: Final = ("parquet", "orc", "avro")
_FEWER: Final = 16


def format_of(file_name: str) -> str:
    """The format of a data file by its name: the last extension that is not a compression.

    `vector` for the column files of vector stores, whatever they are stored as.
    """
    parts = file_name.lower().split(".")
    if file_name.startswith(PREFIX):
        return parts[-1].removeprefix(FORMAT_PREFIX) if len(parts) > 1 else ""
    if len(parts) > 2 and parts[-2] in _SEVERAL_PARTS:
        return parts[-2]
    if len(parts) > 2 and parts[-1] in _COMPRESSIONS:
        return parts[-2]
    return parts[-1] if len(parts) > 1 else ""


def read_rows(read: FileRead) -> Iterator[Rows]:
    """The rows of a data file, in file order.

    Raises:
        UnsupportedFeatureError: no reader for the file's format, or the file uses a layout that is not understood.
        CorruptFileError: the file is missing, cut short, garbage, or not what its schema and manifest say.
        DataError: a value does not fit the column's type.
    """
    part = slice_of(read.store, read.path)
    if part is not None:
        read = replace(read, store=part)
    url = read.store.url(read.path)
    name = format_of(read.path.rpartition("/")[2])
    found = _format(name)
    if found is None:
        raise UnsupportedFeatureError(
            f"data file {url} has the format {name or 'none'!r}; data files in {', '.join(READABLE)} can be read",
            feature=f"file.format={name}",
            path=url,
        )
    reader, _ = found
    try:
        yield from _in_parts(reader, read)
    except FileMissingError as e:
        raise CorruptFileError(
            f"data file {url} is missing, though the snapshot being read refers to it; it may have been removed "
            "by expiry or clean-up while or before it was read",
            path=url,
        ) from e
    except CorruptFileError:
        raise
    except (UnsupportedFeatureError, DataError) as e:
        raise type(e)(f"data file {url}: {e.message}", **{"path": url, **e.context}) from e
    except FormatError as e:
        raise CorruptFileError(f"data file {url} is corrupt: {e.message}", path=url) from e
    except PaimonError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, IndexError, OverflowError) as e:
        raise CorruptFileError(f"data file {url} cannot be read: {type(e).__name__}: {e}", path=url) from e


def _in_parts(reader: Callable[[FileRead], Iterator[Rows]], read: FileRead) -> Iterator[Rows]:
    """The rows of a file, not too many bytes at a time. Where Arrow cannot decode as many rows, it gets fewer."""
    done = 0
    while True:
        try:
            for rows in reader(read):
                for piece in rows.cut_from(done):
                    done = piece.first + piece.row_count
                    yield piece
        except (pa.ArrowCapacityError, pa.ArrowNotImplementedError) as e:
            too_long = isinstance(e, pa.ArrowCapacityError) or "chunked array" in str(e)
            if not too_long or read.batch_rows == 1:
                raise
            read = replace(read, batch_rows=max(read.batch_rows // _FEWER, 1), in_parts=True)
        else:
            return


def _format(name: str) -> tuple[Callable[[FileRead], Iterator[Rows]], Callable[[FileWrite], FileWriter]] | None:
    """The reader and the writer of a format, imported when it is first used; None for an unknown one."""
    match name:
        case "parquet":
            from paimon_spark.format.data_files.parquet import ParquetFileWriter, read_parquet

            return read_parquet, ParquetFileWriter
        case "orc":
            from paimon_spark.format.data_files.orc import OrcFileWriter, read_orc

            return read_orc, OrcFileWriter
        case "avro":
            from paimon_spark.format.data_files.avro import AvroFileWriter, read_avro

            return read_avro, AvroFileWriter
    return None


def open_writer(write: FileWrite) -> FileWriter:
    """A new data file, open for rows. Every failure names the file.

    Raises:
        UnsupportedFeatureError: the format is not written, or cannot hold a column's type.
        StorageError: the file cannot be made.
    """
    with _writing(write):
        found = _format(write.format)
        if found is None:
            raise UnsupportedFeatureError(
                f"data files cannot be written as {write.format!r}", feature=f"file.format={write.format}"
            )
        _, writer = found
        return _NamedWriter(write, writer(write))


class _NamedWriter:
    """A writer whose failures name the file."""

    def __init__(self, write: FileWrite, writer: FileWriter) -> None:
        self._write = write
        self._writer = writer

    def write(self, batch: pa.RecordBatch) -> None:
        with _writing(self._write):
            self._writer.write(batch)

    @property
    def estimated_bytes(self) -> int:
        return self._writer.estimated_bytes

    @property
    def buffered_bytes(self) -> int:
        return self._writer.buffered_bytes

    def flush(self) -> None:
        with _writing(self._write):
            self._writer.flush()

    def close(self) -> WrittenFile:
        with _writing(self._write):
            return self._writer.close()

    def abort(self) -> None:
        self._writer.abort()
        with suppress(StorageError):
            self._write.store.delete(self._write.path)


@contextmanager
def _writing(write: FileWrite) -> Iterator[None]:
    url = write.store.url(write.path)
    try:
        yield
    except StorageError:
        raise
    except PaimonError as e:
        raise type(e)(f"data file {url}: {e.message}", **{"path": url, **e.context}) from e
    except OSError as e:
        raise StorageError(f"data file {url} cannot be written: {e}", path=url) from e
    except pa.ArrowException as e:
        raise DataError(f"rows cannot be encoded into data file {url}: {e}", path=url) from e


PREFIX: Final = "compacted-changelog-"
FORMAT_PREFIX: Final = "cc-"
_NAME: Final = re.compile(
    r"(?P<stem>[^.$]*)\$(?P<bucket>\d{1,10})-(?P<whole>\d{1,18})(-(?P<offset>\d{1,18})-(?P<length>\d{1,18}))?"
    r"\.(?P<extension>[^.]+)",
    re.ASCII,
)


def slice_of(store: ReadableStore, path: str) -> _SliceStore | None:
    """Where the bytes of the file called `path` are; None when it is a file like any other.

    Raises CorruptFileError when the name does not say where.
    """
    bucket_path, _, name = path.rpartition("/")
    if not name.startswith(PREFIX):
        return None
    m = _NAME.fullmatch(name)
    if m is None:
        url = store.url(path)
        raise CorruptFileError(
            f"invalid name of a compacted changelog: {url}; expected <name>$<bucket>-<length>[-<offset>-<length>].cc-…",
            path=url,
        )
    whole = int(m["whole"])
    if m["offset"] is None:
        return _SliceStore(store, path, 0, whole)
    home = f"{bucket_path.rpartition('/')[0]}/bucket-{int(m['bucket'])}"
    real = f"{home}/{m['stem']}${m['bucket']}-{m['whole']}.{m['extension']}"
    return _SliceStore(store, real, int(m["offset"]), int(m["length"]))


@dataclass(frozen=True, slots=True)
class _SliceStore:
    """A readable store with one file: `length` bytes at `offset` of `path` in `inner`, whatever path is asked for.

    The verbs raise CorruptFileError when the file ends before the slice does.
    """

    inner: ReadableStore
    path: str
    offset: int
    length: int

    @property
    def identity(self) -> str:
        return f"{self.inner.identity}|{self.path}[{self.offset}+{self.length}]"

    def url(self, path: str) -> str:
        return self.inner.url(self.path)

    def read(self, path: str) -> bytes:
        return self.read_range(path, 0, self.length)

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        wanted = max(0, min(length, self.length - offset))
        data = self.inner.read_range(self.path, self.offset + offset, wanted)
        if len(data) < wanted:
            url = self.url(path)
            raise CorruptFileError(
                f"data file {url} ends before byte {self.offset + self.length}, where the part of it called "
                f"{path.rpartition('/')[2]} ends",
                path=url,
            )
        return data

    def read_many(self, paths: list[str]) -> list[bytes]:
        return [self.read(p) for p in paths]

    def open(self, path: str, size: int | None = None) -> pa.NativeFile:
        return open_ranges(
            KnownRanges(self.length, lambda offset, length: self.read_range(path, offset, length)), path, size
        )

    def exists(self, path: str) -> bool:
        return self.inner.exists(self.path)

    def list(self, directory: str) -> list[FileInfo]:
        return []
