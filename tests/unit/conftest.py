"""What one test leaves behind, no other finds."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _recorders_end_with_their_test() -> Iterator[None]:
    """Rows of lineage are written by a thread, seconds after they came: by then another test has patched what it uses.

    What a test left unwritten is dropped, and a write that is under way is waited for.
    """
    yield
    module = sys.modules.get("paimon_spark.lineage.recorder")
    if module is None:
        return
    for recorder in list(module._all):
        state = recorder._state
        with state.flushing:
            recorder._after_fork()
        with state.lock:
            thread = state.thread
            state.lock.notify_all()
        if thread is not None:
            thread.join(60)
            assert not thread.is_alive(), "a thread that writes rows of lineage does not end"
    module._registry.recorders = {}
