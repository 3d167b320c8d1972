"""A file that Arrow writes, of any store."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any

import pyarrow as pa


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
