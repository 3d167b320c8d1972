"""The cost of a commit does not grow with the history of the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_spark.storage.local import LocalStore
from tests.harness.commits import a_file, committer, make_table, message
from tests.harness.fault_store import FaultStore


@pytest.mark.ci
def test_an_append_makes_the_same_calls_after_any_number_of_snapshots(tmp_path: Path) -> None:
    store = FaultStore(LocalStore())
    table = make_table(store, f"{tmp_path}/t")
    ours = committer(table)
    calls: list[list[str]] = []
    for i in range(80):
        store.arm(None)
        ours.commit([message(table, a_file(f"f{i}"))])
        calls.append(sorted(c.verb for c in store.calls))
    assert calls[10] == calls[75] and len(calls[10]) <= 14
    assert max(map(len, calls)) <= 17, "merging thirty manifests reads them in one call"
    assert [c.path for c in store.calls if c.verb == "list"] == [table.layout.schema_dir]
