"""Store, the interface of file systems in this package; Arrow files; what stores share.

Paths are absolute inside the store (`/wh/db.db/t` locally, `bucket/wh/db.db/t` on S3), `/`-separated,
without scheme. A store is picklable and cheap to make; connections are opened on first use in each process.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple, Protocol, TypeVar
from uuid import uuid4

import pyarrow as pa

from paimon_spark.errors import FileAlreadyThereError, FileMissingError, StorageError

T = TypeVar("T")
P = TypeVar("P")
_CONCURRENT: Final = 32
ATTEMPTS: Final = 10
"""Attempts to make or remove a directory that others remove or fill meanwhile."""


class FileInfo(NamedTuple):
    """An entry of a directory: last path segment, bytes, epoch milliseconds of change (None if unknown).

    Symbolic links are not followed. `links_directory`: it is a link to a directory; `is_directory` is False then.
    `digest` is the MD5 of the content, in hexadecimal, where the store lists it.
    """

    name: str
    size: int
    is_directory: bool
    modified_ms: int | None
    links_directory: bool = False
    digest: str | None = None


class AtomicCreate(StrEnum):
    """Whether `Store.create_exclusive` lets exactly one of several racing callers win.

    NATIVE: the file system guarantees it. NONE: it does not, and the method only checks before it writes.
    """

    NATIVE = "native"
    NONE = "none"


class ReadableStore(Protocol):
    """Reading operations. Every failure is a StorageError that names the path."""

    @property
    def identity(self) -> str:
        """Text that two stores share exactly when they reach the same files; keys caches."""
        ...

    def url(self, path: str) -> str:
        """The full URL of `path`, for messages and metadata columns."""
        ...

    def read(self, path: str) -> bytes:
        """The whole file. Raises FileMissingError, StorageError."""
        ...

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`, fewer at the end. Raises FileMissingError, StorageError."""
        ...

    def read_many(self, paths: list[str]) -> list[bytes]:
        """Whole files, in the order asked, fetched concurrently where that pays. Raises FileMissingError."""
        ...

    def open(self, path: str, size: int | None = None) -> pa.NativeFile:
        """A seekable Arrow input file; the caller closes it.

        Args:
            path: the file.
            size: its bytes as metadata has them, which saves looking them up: a claim, which the file may not meet.

        Raises:
            FileMissingError: there is none; with a size perhaps only when it is read.
        """
        ...

    def exists(self, path: str) -> bool:
        """Whether a file or directory exists."""
        ...

    def list(self, directory: str) -> list[FileInfo]:
        """The entries of a directory sorted by name; empty when it does not exist. Not recursive, follows no links."""
        ...


class Store(ReadableStore, Protocol):
    """Reading and writing operations. Every failure is a StorageError that names the path."""

    @property
    def atomic_create(self) -> AtomicCreate:
        """Guarantee of `create_exclusive` on this store."""
        ...

    @property
    def renames_directories(self) -> bool:
        """Whether `rename_tree` is one step that readers see done or not."""
        ...

    def create_exclusive(self, path: str, data: bytes) -> None:
        """Create a whole file where none exists, and its parent directories. No wrapper repeats the call.

        Data should be what no other caller would write: the client of a remote store may repeat a request whose
        answer was lost, so there a file that holds exactly `data` counts as made by this call.

        Raises:
            FileAlreadyThereError: the file exists; it stays as it is.
            StorageError: anything else; the file may still exist then, with all of `data`.
        """
        ...

    def write(self, path: str, data: bytes) -> None:
        """Create or replace a file and its parents: readers see the old bytes or the new ones, never a part."""
        ...

    def open_output(self, path: str) -> pa.NativeFile:
        """An Arrow output file at a path where nothing is yet; the caller closes it, and deletes it after a failure.

        Readers may see the file before it is closed, or not. Parents are made.
        """
        ...

    def delete(self, path: str) -> None:
        """Delete a file if it exists."""
        ...

    def delete_many(self, paths: Sequence[str]) -> None:
        """Delete the files that exist, concurrently or in bulk where that pays."""
        ...

    def delete_tree(self, directory: str) -> None:
        """Delete a directory with everything in it, if it exists. Not atomic."""
        ...

    def make_directory(self, directory: str) -> None:
        """Create a directory and its parents unless they exist, where the store has directories."""
        ...

    def rename_tree(self, old: str, new: str, last: Sequence[str] = ()) -> None:
        """Move a directory to where nothing is. Atomic where the file system can; elsewhere a copy, then a removal.

        Args:
            old: the directory.
            new: its new path.
            last: names right below it that are copied after everything else, in this order, and removed before it.

        Raises:
            FileMissingError: nothing at `old`.
            FileAlreadyThereError: something at `new`.
        """
        ...


def put_whole(
    path: str,
    write: Callable[[str], object],
    move: Callable[[str], object],
    delete: Callable[[str], object],
    make_directory: Callable[[str], object],
) -> None:
    """Put a file at `path` in one step: `write` makes a temporary file beside it, which `move` gives its name.

    Another process may remove the directory at any time, also with the temporary file in it.
    """

    def attempt() -> None:
        with _temporary_file(path, write, delete) as temporary:
            move(temporary)

    with_parents(path, attempt, make_directory)


def with_parents(path: str, make: Callable[[], T], make_directory: Callable[[str], object]) -> T:
    """Result of `make`, called again after making the directory of `path` where it is missing."""
    for _ in range(ATTEMPTS - 1):
        with suppress(FileNotFoundError):
            return make()
        make_directory(path.rpartition("/")[0] or "/")
    return make()


@contextmanager
def _temporary_file(path: str, write: Callable[[str], object], delete: Callable[[str], object]) -> Iterator[str]:
    """The path of a file beside `path` that `write` makes, to be renamed; it is deleted after a failure."""
    directory, _, name = path.rpartition("/")
    temporary = f"{directory}/.{name}.{uuid4()}.tmp"
    try:
        write(temporary)
        yield temporary
    except BaseException:
        with suppress(Exception):
            delete(temporary)
        raise


def check_own_file(store: ReadableStore, path: str, data: bytes) -> None:
    """Check that the file in the way of a new one is the same: a repeated request meets the file that it made itself.

    Raises:
        FileAlreadyThereError: it is another one.
        StorageError: it is gone again; worth a retry.
    """
    try:
        found = store.read(path)
    except FileMissingError as e:
        raise StorageError(
            f"cannot create {store.url(path)}: another file was there and went away", path=path, retryable=True
        ) from e
    if found != data:
        raise already_there(store, path)


READING: Final = ("read", "open", "look for", "list")
"""Verbs of messages about calls that change nothing, to which a file that does not exist is missing."""


def parent_of(path: str) -> str:
    """The directory of a path."""
    return path.rsplit("/", 1)[0]


def already_there(store: ReadableStore, path: str) -> FileAlreadyThereError:
    """The error for a path where nothing may be."""
    return FileAlreadyThereError(f"there is a file {store.url(path)} already", path=path)


def concurrently(act: Callable[[P], T], paths: Sequence[P], *, one_by_one: bool = False) -> Iterator[T]:
    """Results of `act` for each path, in order; several at a time unless `one_by_one`. Raises the first failure."""
    ends = not threading.main_thread().is_alive()  # no pool takes work in handlers of `atexit`
    if one_by_one or ends or len(paths) < 2:
        yield from map(act, paths)
        return
    from concurrent.futures import ThreadPoolExecutor  # imported only here: Spark's workers on local tables need none

    with ThreadPoolExecutor(min(_CONCURRENT, len(paths)), thread_name_prefix="paimon-store") as pool:
        yield from pool.map(act, paths)


class RangedStore(Protocol):
    """The reads of a store that a file opened by ranges needs."""

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """As of `ReadableStore`."""
        ...

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Bytes from several offsets, each with its length, fetched together. Raises FileMissingError, StorageError."""
        ...

    def read_end(self, path: str, length: int, expected: int | None = None) -> tuple[bytes, int]:
        """The last `length` bytes, all of a smaller file, and the bytes of the file, which `expected` may guess.

        Raises FileMissingError, StorageError.
        """
        ...


_END_BYTES: Final = 64 << 10
"""Fetched from the end of a file at first: footers, and small files whole."""
WHOLE_BYTES: Final = 1 << 20
"""A file up to this size is fetched whole."""
_GAP_BYTES: Final = 64 << 10
"""Ranges with no more bytes between them are fetched as one."""


def open_ranges(store: RangedStore, path: str, size: int | None) -> pa.NativeFile:
    """An Arrow file whose reads become calls of `store`; Arrow asks for what it needs and no more.

    The end of the file is fetched at once, which also tells whether the file exists and its size; a small file is
    fetched whole. Where the size is known for sure, nothing is fetched yet.
    """
    if isinstance(store, KnownRanges):
        return _ArrowFile(_RangeFile(store, path, store.size, b""), mode="r")
    end, size = store.read_end(path, size if size is not None and 0 < size <= WHOLE_BYTES else _END_BYTES, size)
    return _ArrowFile(_RangeFile(store, path, size, end), mode="r")


@dataclass(frozen=True)
class KnownRanges:
    """Ranges of a file whose size is known, as `open_ranges` asks for them."""

    size: int
    read_part: Callable[[int, int], bytes]

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self.read_part(offset, length)

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return [self.read_part(offset, length) for offset, length in ranges]

    def read_end(self, path: str, length: int, expected: int | None = None) -> tuple[bytes, int]:
        start = max(self.size - length, 0)
        return self.read_part(start, self.size - start), self.size


def prefetch(file: pa.NativeFile, ranges: Sequence[tuple[int, int]]) -> None:
    """Fetch ranges of an `open_ranges` file together, before they are read; of other files nothing is needed."""
    if isinstance(file, _ArrowFile):
        file.ranges.prefetch(ranges)


def failure_of(file: pa.NativeFile) -> Exception | None:
    """Failure of a read of an `open_ranges` file, which libraries may have turned into another error."""
    return file.ranges.failure if isinstance(file, _ArrowFile) else None


class _ArrowFile(pa.PythonFile):  # type: ignore[misc]
    def __init__(self, ranges: _RangeFile, mode: str) -> None:
        self.ranges = ranges


class _RangeFile(io.RawIOBase):
    """A file read by ranges, of which the end is known. Small reads fetch more than asked, for what follows them."""

    def __init__(self, store: RangedStore, path: str, size: int, end: bytes) -> None:
        self._store, self._path, self._size = store, path, size
        self._position = 0
        self._end_start, self._end = size - len(end), end
        self._buffer_start, self._buffer = 0, b""
        self._fetched: list[tuple[int, bytes]] = []
        self.failure: Exception | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._size - self._position)
        length = left if size < 0 else min(size, left)
        try:
            data = self._fetch(self._position, length) if length else b""
        except Exception as e:
            self.failure = e
            raise
        self._position += len(data)
        return data

    def prefetch(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Fetch ranges together; they replace those fetched before."""
        missing = [(offset, length) for offset, length in _joined(ranges) if self._known(offset, length) is None]
        self._fetched = []
        if not missing:
            return
        try:
            found = self._store.read_ranges(self._path, missing)
        except Exception as e:
            self.failure = e
            raise
        self._fetched = [(offset, data) for (offset, _), data in zip(missing, found, strict=True)]

    def _known(self, offset: int, length: int) -> bytes | None:
        """Bytes that were fetched before; None if some were not."""
        pieces = ((self._end_start, self._end), (self._buffer_start, self._buffer), *self._fetched)
        for start, data in pieces:
            if start <= offset and offset + length <= start + len(data):
                return data[offset - start : offset - start + length]
        return None

    def _fetch(self, offset: int, length: int) -> bytes:
        known = self._known(offset, length)
        if known is not None:
            return known
        if length >= _END_BYTES:
            return self._store.read_range(self._path, offset, length)
        first = max(0, min(offset, self._size - _END_BYTES))
        self._buffer = self._store.read_range(self._path, first, min(_END_BYTES, self._size - first))
        self._buffer_start = first
        return self._buffer[offset - first : offset - first + length]


def _joined(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges in order, those that nearly touch made one."""
    out: list[tuple[int, int]] = []
    for offset, length in sorted((offset, length) for offset, length in ranges if length > 0):
        if out and offset <= sum(out[-1]) + _GAP_BYTES:
            start, before = out[-1]
            out[-1] = start, max(before, offset + length - start)
        else:
            out.append((offset, length))
    return out


def open_output_file(file: Any, failures: Callable[[], AbstractContextManager[Any]]) -> pa.NativeFile:
    """An Arrow output file over a binary file object; `failures` turns what that raises into our errors.

    After a failed write, closing keeps nothing that the file system can still throw away.
    """
    return pa.PythonFile(_OutputFile(file, failures), mode="w")


class _OutputFile(io.RawIOBase):
    def __init__(self, file: Any, failures: Callable[[], AbstractContextManager[Any]]) -> None:
        self._file = file
        self._failures = failures
        self._failed = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        try:
            self._file.write(data)
        except BaseException:
            self._failed = True
            with self._failures():
                raise
        return memoryview(data).nbytes

    def flush(self) -> None:
        """Nothing: parts are uploaded when they are full."""

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        if self._failed:
            with suppress(Exception):
                if hasattr(self._file, "discard"):
                    self._file.discard()
                    self._file.closed = True  # files of fsspec would be written when they are collected
                else:
                    self._file.close()
            return
        with self._failures():
            self._file.close()
