"""Fixtures that isolate tests from one another."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from datetime import datetime

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tests.harness.clock import StandingClock
from tests.harness.left_threads import end_recorders, no_thread_left


@pytest.fixture
def noon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of commits begins at this day's noon: what counts days sees one, whenever it runs."""
    begun, real = time.time_ns(), time.time_ns
    at = int(datetime.now().replace(hour=12, minute=0).timestamp()) * 10**9  # noqa: DTZ005 - days are of the machine
    monkeypatch.setattr(time, "time_ns", lambda: at + real() - begun)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> StandingClock:
    """The clock of this process, which stands still until the test lets time pass."""
    return StandingClock(monkeypatch)


@pytest.fixture(scope="session")
def spark() -> None:
    """A session would stay in the process, and verbs of later tests would run as its jobs."""
    pytest.fail("tests that need Spark are in tests/spark")


@pytest.fixture(autouse=True)
def _files_in_memory_end_with_their_test() -> Iterator[None]:
    """Delete what the test left in the memory file system, each listing of which looks at all files of the process."""
    store, directories = MemoryFileSystem.store, MemoryFileSystem.pseudo_dirs
    files_before, directories_before = set(store), set(directories)
    yield
    for path in store.keys() - files_before:
        store.pop(path, None)
    directories[:] = [path for path in directories if path in directories_before]


@pytest.fixture(autouse=True)
def _no_session_is_left() -> Iterator[None]:
    """Fail the test that leaves a Spark session: verbs of later tests would run as its jobs."""
    yield
    module = sys.modules.get("pyspark.sql.session")
    left = module and module.SparkSession._instantiatedSession
    if left:
        left.stop()
        pytest.fail("the test left a Spark session")


@pytest.fixture(autouse=True)
def _threads_end_with_their_test() -> Iterator[None]:
    """Fail the test that leaves a thread running, which could change what later tests see."""
    with no_thread_left():
        yield


@pytest.fixture(autouse=True)
def _recorders_end_with_their_test(_threads_end_with_their_test: None) -> Iterator[None]:
    """Rows of lineage are written by a thread, seconds after they came: by then another test has patched what it uses.

    What a test left unwritten is dropped, and a write that is under way is waited for.
    """
    yield
    end_recorders()
