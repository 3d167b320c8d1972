"""Arrow files over a store: input by range requests, and output."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any, Final

import pyarrow as pa

_LEAST_FETCH: Final = 64 << 10


def open_ranges(path: str, size: int, read_range: Callable[[str, int, int], bytes]) -> pa.NativeFile:
    """An Arrow file whose reads become `read_range` calls; Arrow asks for what it needs and no more."""
    return _ArrowFile(_RangeFile(path, size, read_range), mode="r")


def failure_of(file: pa.NativeFile) -> Exception | None:
    """What a read of an `open_ranges` file failed with; libraries may have turned it into an error of their own."""
    return file.ranges.failure if isinstance(file, _ArrowFile) else None


class _ArrowFile(pa.PythonFile):  # type: ignore[misc]
    def __init__(self, ranges: _RangeFile, mode: str) -> None:
        self.ranges = ranges


class _RangeFile(io.RawIOBase):
    """A file read by ranges. Small reads fetch `_LEAST_FETCH` bytes, so that footers cost one request."""

    def __init__(self, path: str, size: int, read_range: Callable[[str, int, int], bytes]) -> None:
        self._path, self._size, self._read_range = path, size, read_range
        self._position = 0
        self._kept_from, self._kept = 0, b""
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

    def _fetch(self, offset: int, length: int) -> bytes:
        start = offset - self._kept_from
        if start >= 0 and start + length <= len(self._kept):
            return self._kept[start : start + length]
        if length >= _LEAST_FETCH:
            return self._read_range(self._path, offset, length)
        first = max(0, min(offset, self._size - _LEAST_FETCH))
        self._kept = self._read_range(self._path, first, min(_LEAST_FETCH, self._size - first))
        self._kept_from = first
        return self._kept[offset - first : offset - first + length]


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
                self._give_up()
            return
        with self._failures():
            self._file.close()

    def _give_up(self) -> None:
        if hasattr(self._file, "discard"):
            self._file.discard()
            self._file.closed = True
        else:
            self._file.close()
