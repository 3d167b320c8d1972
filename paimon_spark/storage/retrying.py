"""RetryingStore: a store that repeats those calls that may succeed the next time and do no harm twice."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import pyarrow as pa

from paimon_spark.errors import StorageError
from paimon_spark.storage.range_file import open_ranges
from paimon_spark.storage.store import AtomicCreate, FileInfo, Store

T = TypeVar("T")


class RangedStore(Store, Protocol):
    """A store whose open files are ranges of its own `read_range`."""

    @property
    def options(self) -> Mapping[str, str]: ...

    def size(self, path: str) -> int: ...


@dataclass(frozen=True, slots=True)
class RetryingStore:
    """Store over `inner` that repeats a call after a retryable StorageError, later and later.

    Reads inside a file that `open` gave are repeated too. Never repeated: `create_exclusive`, whose caller must
    look what became of it; `rename_tree`; and writes to a file that `open_output` gave.

    Attributes:
        attempts: calls at most, the first included.
        first_delay_s: least wait before the second call; waits double, and up to as much again is added.
    """

    inner: RangedStore
    attempts: int = 4
    first_delay_s: float = 0.2
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False, compare=False)

    @property
    def identity(self) -> str:
        return self.inner.identity

    @property
    def options(self) -> Mapping[str, str]:
        return self.inner.options

    def url(self, path: str) -> str:
        return self.inner.url(path)

    def read(self, path: str) -> bytes:
        return self._repeat(lambda: self.inner.read(path))

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self._repeat(lambda: self.inner.read_range(path, offset, length))

    def read_many(self, paths: list[str]) -> list[bytes]:
        return self._repeat(lambda: self.inner.read_many(paths))

    def open(self, path: str) -> pa.NativeFile:
        size = self._repeat(lambda: self.inner.size(path))
        return open_ranges(path, size, self.read_range)

    def exists(self, path: str) -> bool:
        return self._repeat(lambda: self.inner.exists(path))

    def list(self, directory: str) -> list[FileInfo]:
        return self._repeat(lambda: self.inner.list(directory))

    @property
    def atomic_create(self) -> AtomicCreate:
        return self.inner.atomic_create

    @property
    def renames_directories(self) -> bool:
        return self.inner.renames_directories

    def create_exclusive(self, path: str, data: bytes) -> None:
        self.inner.create_exclusive(path, data)

    def write(self, path: str, data: bytes) -> None:
        self._repeat(lambda: self.inner.write(path, data))

    def open_output(self, path: str) -> pa.NativeFile:
        return self.inner.open_output(path)

    def delete(self, path: str) -> None:
        self._repeat(lambda: self.inner.delete(path))

    def delete_many(self, paths: Sequence[str]) -> None:
        self._repeat(lambda: self.inner.delete_many(paths))

    def delete_tree(self, directory: str) -> None:
        self._repeat(lambda: self.inner.delete_tree(directory))

    def make_directory(self, directory: str) -> None:
        self._repeat(lambda: self.inner.make_directory(directory))

    def rename_tree(self, old: str, new: str, last: Sequence[str] = ()) -> None:
        self.inner.rename_tree(old, new, last)

    def _repeat(self, call: Callable[[], T]) -> T:
        delay = self.first_delay_s
        for _ in range(self.attempts - 1):
            try:
                return call()
            except StorageError as e:
                if not e.retryable:
                    raise
            self.sleep(delay * (1 + random.random()))  # noqa: S311 - spreads callers out, guards nothing
            delay *= 2
        return call()
