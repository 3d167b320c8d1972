"""Classic PySpark in some threads of a process that uses Spark Connect.

`pyspark.sql.functions` and its kin make objects of Connect or classic ones by asking `is_remote()`, for the process
as a whole. Where the server of Connect runs in a JVM of this process, calls from that JVM need classic ones, while
the process's own threads go on with Connect.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pyspark.sql.utils
from pyspark.sql.utils import is_remote


class _Thread(threading.local):
    """Mode of a thread."""

    is_classic = False


_THREAD: Final = _Thread()
_NAME: Final = "is_remote"


def _is_remote_here() -> bool:
    """Whether PySpark is to make objects of Spark Connect in this thread."""
    return not _THREAD.is_classic and is_remote()


def allow_classic() -> None:
    """Replace `is_remote()` wherever PySpark has it, so that `classic_pyspark` works in a process of Spark Connect."""
    replacement: Any = _is_remote_here
    for name, module in list(sys.modules.items()):
        if name.startswith("pyspark.") and vars(module).get(_NAME) is is_remote:
            setattr(module, _NAME, replacement)
    assert pyspark.sql.utils.is_remote is replacement


@contextmanager
def classic_pyspark() -> Iterator[None]:
    """Let PySpark make classic objects in this thread."""
    before = _THREAD.is_classic
    _THREAD.is_classic = True
    try:
        yield
    finally:
        _THREAD.is_classic = before
