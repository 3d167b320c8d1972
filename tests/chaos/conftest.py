"""Fixtures that isolate tests from one another."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.left_threads import end_recorders, no_thread_left


@pytest.fixture(autouse=True)
def _threads_end_with_their_test() -> Iterator[None]:
    """Fail the test that leaves a thread running, which could change what later tests see."""
    with no_thread_left():
        yield
        end_recorders()
