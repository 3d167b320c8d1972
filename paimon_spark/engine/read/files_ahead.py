"""Small data files of a split, fetched from a remote store before they are opened.

Each request to an object store takes tens of milliseconds, so the files that a split reads one after the other are
asked for side by side, up to a number of requests and of bytes. Files that are merged are opened twice, for their keys
and for their rows: their bytes are kept until the split is read. Tests: tests/unit/engine/read/test_files_ahead.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa

from paimon_spark.engine.tasks import DataSplit, ReadRequest, SplitMode
from paimon_spark.storage.ahead import remote_of
from paimon_spark.storage.store import WHOLE_BYTES

if TYPE_CHECKING:
    from concurrent.futures import Future

_AT_ONCE: Final = 32
_MOST_BYTES: Final = 32 << 20
"""Of files that are asked for or kept."""


@contextmanager
def small_files_ahead(request: ReadRequest, split: DataSplit) -> Iterator[ReadRequest]:
    """The request with a store that has asked for the small files of the split already.

    The request itself where the store is on this machine, or the split has no two small files.
    """
    files = {
        split.path_of(f): f.file_size
        for f in (*split.files, *split.before_files)
        if f.external_path is None and 0 < f.file_size <= WHOLE_BYTES
    }
    if len(files) < 2 or remote_of(request.store) is None:
        yield request
        return
    with _FilesAhead(request.store, files, keeps=split.mode is not SplitMode.RAW) as store:
        yield replace(request, store=store)


class _FilesAhead:
    """A store that does all that `inner` does, but for opening files that it has asked for.

    Args:
        inner: the store.
        files: paths and sizes, in the order in which they are opened.
        keeps: whether files may be opened several times.
    """

    def __init__(self, inner: Any, files: dict[str, int], *, keeps: bool) -> None:
        from concurrent.futures import ThreadPoolExecutor  # Spark's workers on local tables need none

        self.inner = inner
        self._keeps = keeps
        self._waiting = list(reversed(files.items()))
        self._sizes = files
        self._asked: dict[str, Future[tuple[bytes, int]]] = {}
        self._bytes = 0
        self._pool = ThreadPoolExecutor(min(len(files), _AT_ONCE), thread_name_prefix="paimon-read")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __enter__(self) -> Self:
        self._ask()
        return self

    def __exit__(self, *_: object) -> None:
        self._waiting = []
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _ask(self) -> None:
        while self._waiting and (self._keeps or len(self._asked) < _AT_ONCE):
            path, size = self._waiting[-1]
            if self._bytes + size > _MOST_BYTES:
                if self._keeps:
                    self._waiting = []
                return
            self._waiting.pop()
            self._bytes += size
            self._asked[path] = self._pool.submit(self.inner.read_end, path, size, size)

    def open(self, path: str, size: int | None = None) -> pa.NativeFile:
        asked = self._asked.get(path)
        if asked is None:
            return self.inner.open(path, size)
        if not self._keeps:
            del self._asked[path]
            self._bytes -= self._sizes[path]
            self._ask()
        data, actual = asked.result()
        # The size is what the manifest says: a file of another one is read as any other.
        return pa.BufferReader(data) if actual == len(data) else self.inner.open(path)
