"""Store: what this package asks of a file system.

Paths are absolute inside the store (`/wh/db.db/t` locally, `bucket/wh/db.db/t` on S3), `/`-separated,
without scheme. A store is picklable and cheap to make; connections are opened on first use in each process.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import pyarrow as pa


class FileInfo(NamedTuple):
    """An entry of a directory: last path segment, bytes, epoch milliseconds of change (None if unknown)."""

    name: str
    size: int
    is_directory: bool
    modified_ms: int | None


class Store(Protocol):
    """Reading verbs. Every failure is a StorageError that names the path."""

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
