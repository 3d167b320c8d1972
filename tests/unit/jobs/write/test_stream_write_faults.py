"""A batch whose commit fails at a call of the store, and is written again; tests/chaos has every way and table."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.sink_faults import FailingSink


@pytest.mark.ci
@pytest.mark.parametrize("how", ["fails", "answer-is-lost"])
def test_a_batch_whose_commit_failed_anywhere_is_there_once(how: str, tmp_path: Path) -> None:
    sink = FailingSink(tmp_path, "unaware", complete=False)
    calls = sink.calls()
    assert calls <= 30
    for at in range(1, calls + 1):
        sink.check(how, at)
