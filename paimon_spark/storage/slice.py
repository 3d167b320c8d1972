"""A part of a file as a file of its own."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from paimon_spark.errors import CorruptFileError
from paimon_spark.storage.range_file import open_ranges
from paimon_spark.storage.store import FileInfo, ReadableStore


@dataclass(frozen=True, slots=True)
class SliceStore:
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

    def open(self, path: str) -> pa.NativeFile:
        return open_ranges(path, self.length, self.read_range)

    def exists(self, path: str) -> bool:
        return self.inner.exists(self.path)

    def list(self, directory: str) -> list[FileInfo]:
        return []
