"""Fixtures that isolate tests from one another."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from paimon_spark.metadata.manifests import CACHE


@pytest.fixture(autouse=True)
def _files_in_memory_end_with_their_test() -> Iterator[None]:
    """Delete what the test left in the memory file system, and forget the manifests that it forged."""
    before = set(MemoryFileSystem.store)
    CACHE.clear()
    yield
    CACHE.clear()
    for path in MemoryFileSystem.store.keys() - before:
        MemoryFileSystem.store.pop(path, None)
