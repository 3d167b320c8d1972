"""Store: the interface of file systems in this package.

Paths are absolute inside the store (`/wh/db.db/t` locally, `bucket/wh/db.db/t` on S3), `/`-separated,
without scheme. A store is picklable and cheap to make; connections are opened on first use in each process.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, Protocol

import pyarrow as pa


class FileInfo(NamedTuple):
    """An entry of a directory: last path segment, bytes, epoch milliseconds of change (None if unknown)."""

    name: str
    size: int
    is_directory: bool
    modified_ms: int | None


class AtomicCreate(str, Enum):
    """Whether `Store.create_exclusive` lets exactly one of several racing callers win.

    NATIVE: the file system itself sees to it. NONE: it offers nothing, and the verb only looks before it writes.
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

    def open(self, path: str) -> pa.NativeFile:
        """A seekable Arrow input file; the caller closes it. Raises FileMissingError."""
        ...

    def exists(self, path: str) -> bool:
        """Whether a file or directory is there."""
        ...

    def list(self, directory: str) -> list[FileInfo]:
        """The entries of a directory sorted by name; empty when it does not exist. Not recursive."""
        ...


class Store(ReadableStore, Protocol):
    """Reading and writing operations. Every failure is a StorageError that names the path."""

    @property
    def atomic_create(self) -> AtomicCreate:
        """What `create_exclusive` promises on this store."""
        ...

    @property
    def renames_directories(self) -> bool:
        """Whether `rename_tree` is one step that readers see done or not."""
        ...

    def create_exclusive(self, path: str, data: bytes) -> None:
        """Make a file that is not there, whole; parent directories are made. No wrapper repeats it.

        Data should be what no other caller would write: the client of a remote store may repeat a request whose
        answer was lost, so there a file that holds exactly `data` counts as made by this call.

        Raises:
            FileAlreadyThereError: there is one, which stays as it is.
            StorageError: anything else; then the file may be there nonetheless, with all of `data` or not at all.
        """
        ...

    def write(self, path: str, data: bytes) -> None:
        """Make or replace a file: readers see the old bytes or the new ones, never a part. Parents are made."""
        ...

    def open_output(self, path: str) -> pa.NativeFile:
        """An Arrow output file at a path where nothing is yet; the caller closes it, and deletes it after a failure.

        Readers may see the file before it is closed, or not. Parents are made.
        """
        ...

    def delete(self, path: str) -> None:
        """Remove a file; a missing one is no error."""
        ...

    def delete_many(self, paths: Sequence[str]) -> None:
        """Remove files, concurrently or in bulk where that pays; missing ones are no error."""
        ...

    def delete_tree(self, directory: str) -> None:
        """Remove a directory with everything in it; a missing one is no error. Not atomic."""
        ...

    def make_directory(self, directory: str) -> None:
        """Make a directory and its parents where the store has directories; an existing one is no error."""
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
