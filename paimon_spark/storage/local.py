"""LocalStore: the machine's own file system."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa

from paimon_spark.errors import FileMissingError, StorageError
from paimon_spark.storage.store import FileInfo


@dataclass(frozen=True, slots=True)
class LocalStore:
    """Store over local paths. Files are read whole with one call, or handed to Arrow as `OSFile`.

    Attributes:
        options: file system options the user gave; they matter only for files outside this store.
    """

    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def identity(self) -> str:
        return "file:"

    def url(self, path: str) -> str:
        return f"file://{path}"

    def read(self, path: str) -> bytes:
        with _failures("read", path), open(path, "rb") as f:
            return f.read()

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        with _failures("read", path), open(path, "rb") as f:
            f.seek(offset)
            return f.read(length)

    def read_many(self, paths: list[str]) -> list[bytes]:
        return [self.read(p) for p in paths]

    def open(self, path: str) -> pa.NativeFile:
        with _failures("open", path):
            return pa.OSFile(path, "rb")

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def list(self, directory: str) -> list[FileInfo]:
        try:
            with _failures("list", directory), os.scandir(directory) as entries:
                found = [info for info in map(_info, entries) if info is not None]
        except FileMissingError:
            return []
        return sorted(found)


def _info(entry: os.DirEntry[str]) -> FileInfo | None:
    """The entry; None when it went away meanwhile or is a link to nowhere."""
    try:
        stat = entry.stat()
        is_directory = entry.is_dir()
    except FileNotFoundError:
        return None
    size = 0 if is_directory else stat.st_size
    return FileInfo(entry.name, size, is_directory, stat.st_mtime_ns // 1_000_000)


@contextmanager
def _failures(verb: str, path: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as e:
        raise FileMissingError(f"there is no file {path}", path=path) from e
    except (OSError, ValueError) as e:  # ValueError: a NUL in the path
        raise StorageError(f"cannot {verb} {path}: {e}", path=path, retryable=False) from e
