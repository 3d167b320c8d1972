"""A run of a query that was taken for dead goes on beside the one that was started in its place: no row comes twice."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from threading import Barrier
from uuid import uuid4

import pytest

from paimon_spark.errors import PaimonError
from paimon_spark.maintenance.orphan_files import orphans
from tests.harness.fault_points import FULL, selected_points
from tests.harness.mini_engine import Step
from tests.harness.stream_tables import Pair, rows
from tests.harness.table_files import missing_files

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(900), pytest.mark.faults]

READ = {"read.stream.aligned": "true", "scan.snapshot-id": "1"}
TABLES: dict[str, Pair] = {
    "append": Pair(read=READ, warehouse=""),
    "keys": Pair(("k",), {"bucket": "1"}, READ, warehouse=""),
    "lookup": Pair(("k",), {"bucket": "1", "changelog-producer": "lookup"}, READ, warehouse=""),
}


@cache
def _template(table: str) -> Pair:
    pair = replace(TABLES[table], warehouse=f"memory://{uuid4().hex}/wh").make()
    for n in range(3):
        pair.table("src").write(rows((n, "a"), (n + 1, f"{n}")))
    return pair


def a_pair(table: str) -> Pair:
    return replace(TABLES[table], warehouse=f"memory://{uuid4().hex}/wh").copy(_template(table))


def go_on(steps: Iterator[Step]) -> None:
    """Until it ends, or notices that it is not alone."""
    try:
        for _ in steps:
            pass
    except (PaimonError, FileExistsError):
        return


def check(pair: Pair, checkpoint: Path) -> None:
    pair.engine(checkpoint).run()
    assert pair.written_rows() == pair.read_rows()
    own = [s for s in pair.table("dst").snapshots() if s.commit_kind.value != "COMPACT"]
    assert [s.commit_identifier for s in own] == [0, 1, 2]
    handle = pair.table("dst").handle
    assert missing_files(handle) == []
    assert [f.path for f in orphans(handle) if "/manifest/" in f.path] == []


@pytest.mark.parametrize("table", TABLES)
def test_a_run_goes_on_after_the_one_in_its_place_is_done(table: str, tmp_path: Path) -> None:
    for at in selected_points(range(1, 24), 6, list(TABLES).index(table)):
        pair, checkpoint = a_pair(table), tmp_path / str(at)
        late = pair.engine(checkpoint).steps()
        for _ in zip(range(at), late, strict=False):
            pass
        pair.engine(checkpoint).run()
        go_on(late)
        check(pair, checkpoint)


@pytest.mark.parametrize("table", TABLES)
def test_two_runs_commit_a_batch_at_the_same_time(table: str, tmp_path: Path) -> None:
    for turn in range(40 if FULL else 4):
        pair, checkpoint = a_pair(table), tmp_path / str(turn)
        runs = []
        for _ in range(2):
            steps = pair.engine(checkpoint).steps()
            while next(steps) is not Step.WRITTEN:
                pass
            runs.append(steps)
        start = Barrier(2)

        def commit(steps: Iterator[Step], start: Barrier = start) -> None:
            start.wait()
            go_on(steps)

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(commit, runs))
        check(pair, checkpoint)
