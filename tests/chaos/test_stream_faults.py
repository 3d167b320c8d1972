"""Every store call of a query, of its source and of its sink, fails once: after a restart each row is there once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import pytest

from paimon_spark.errors import PaimonError
from paimon_spark.jobs import opened_table as loading
from paimon_spark.maintenance.orphan_files import orphans
from paimon_spark.metadata.manifests import CACHE
from paimon_spark.storage.urls import open_store
from tests.harness.fault_points import FULL, selected_points
from tests.harness.fault_store import Call, Fault, FaultStore
from tests.harness.stream_tables import Pair, rows
from tests.harness.table_files import files_on_disk, missing_files, reachable_files

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800), pytest.mark.faults]

ALIGNED = {"read.stream.aligned": "true", "scan.snapshot-id": "1", "consumer-id": "c"}
TABLES: dict[str, Pair] = {
    "append": Pair(read=ALIGNED, warehouse=""),
    "keys": Pair(("k",), {"bucket": "1", "changelog-producer": "lookup"}, read=ALIGNED, warehouse=""),
}
FAULTS: dict[str, Any] = {
    "fails": lambda n: Fault(n, retryable=False),
    "answer-is-lost": lambda n: Fault(n, after=True),
    "says-no-and-does": lambda n: Fault(n, after=True, retryable=False),
    "store-goes-away": lambda n: Fault(n, forever=True),
    "store-goes-away-with-the-answer": lambda n: Fault(n, after=True, forever=True),
}
STORE = FaultStore(open_store("memory://")[0], key="streams")


@pytest.fixture(autouse=True)
def _store(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tables that are named by their location are seen through the store that fails."""

    def opened(url: str, *args: Any) -> Any:
        _, root = open_store(url, *args)
        return STORE, root

    monkeypatch.setattr(loading, "open_store", opened)
    STORE.arm(None)
    yield
    STORE.arm(None)


@cache
def _template(table: str) -> Pair:
    pair = replace(TABLES[table], warehouse=f"memory://{uuid4().hex}/wh").make()
    pair.table("src").write(rows((1, "a"), (2, "a")))
    pair.table("src").write(rows((2, "b"), (3, "b")))
    pair.table("src").write(rows((3, "c"), (4, "c")))
    pair.table("dst").write(rows((9, "others")))
    return pair


def a_pair(table: str) -> Pair:
    return replace(_template(table), warehouse=f"memory://{uuid4().hex}/wh").copy(_template(table))


def check(pair: Pair, where: str) -> None:
    """The sink has the rows, and both tables are whole."""
    found = pair.written_rows()
    expected = pair.read_rows()
    expected[9, "others"] += 1
    assert found == expected, f"{where}: too many {found - expected}, too few {expected - found}"
    for name in ("src", "dst"):
        handle = pair.table(name).handle
        assert missing_files(handle) == [], where
        unnamed = {f.path for f in files_on_disk(handle)} - reachable_files(handle)
        assert unnamed == {f.path for f in orphans(handle)}, where


@cache
def _calls(table: str) -> tuple[Call, ...]:
    """The calls of a run in which nothing fails."""
    pair = a_pair(table)
    with TemporaryDirectory() as folder:
        CACHE.clear()
        STORE.arm(None)
        pair.engine(Path(folder) / "checkpoint").run()
        made = tuple(STORE.calls)
        check(pair, "nothing failed")
        assert [f.path for f in orphans(pair.table("dst").handle)] == []
    return made


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("table", TABLES)
def test_any_call_of_a_query_may_fail(table: str, kind: str, tmp_path: Path) -> None:
    turn = 14 * list(FAULTS).index(kind) + 7 * list(TABLES).index(table)
    failed = 0
    for n in selected_points(range(1, len(_calls(table)) + 1), 71, turn - 1):
        pair, checkpoint = a_pair(table), tmp_path / str(n)
        CACHE.clear()
        error: PaimonError | None = None
        with STORE.failing(FAULTS[kind](n)):
            try:
                pair.engine(checkpoint).run()
            except PaimonError as e:
                error, failed = e, failed + 1
        where = f"{kind} {n} of {len(_calls(table))}: {_calls(table)[n - 1]} {error!r}"
        if error is not None:
            try:
                pair.engine(checkpoint).run()
            except PaimonError as e:
                raise AssertionError(f"no restart after {where}") from e
        check(pair, where)
    print(table, kind, f"{failed} runs failed")


@pytest.mark.parametrize("table", TABLES)
def test_a_query_may_fail_again_and_again(table: str, tmp_path: Path) -> None:
    """Each run comes a few calls further than the one before."""
    pair = a_pair(table)
    runs = 0
    for n in range(1, 10_000, 1 if FULL else 19):
        STORE.arm(Fault(n, after=bool(runs % 2), forever=bool(runs % 3), retryable=False))
        CACHE.clear()
        runs += 1
        try:
            pair.engine(tmp_path).run()
        except PaimonError:
            continue
        finally:
            failed = STORE.failed
            STORE.arm(None)
        if not failed:
            break
    assert runs > 1, "no run failed"
    check(pair, f"{runs} runs")
    print(table, f"{runs} runs")
