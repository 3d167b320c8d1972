"""Every store call of a batch's commit fails, in every way: written again, the batch is there once, nothing is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.fault_points import selected_points
from tests.harness.sink_faults import HOW, FailingSink

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800), pytest.mark.faults]

KINDS = ["unaware", "keys", "dynamic", "first_row", "deletion_vectors", "changelog"]


@pytest.mark.parametrize("complete", [False, True], ids=["append", "complete"])
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_whose_commit_failed_anywhere_is_there_once(
    kind: str, how: str, complete: bool, tmp_path: Path
) -> None:
    sink = FailingSink(tmp_path, kind, complete)
    turn = KINDS.index(kind) + 2 * list(HOW).index(how) + 4 * complete
    for at in selected_points(range(1, sink.calls() + 1), 9, turn):
        sink.check(how, at)
