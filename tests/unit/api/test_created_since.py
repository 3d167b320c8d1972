"""Batch reads of rows since a moment, told by the time of their files or of their commits."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.engine.scan.query import Reason
from paimon_spark.errors import InvalidOptionError
from tests.harness.clock import StandingClock
from tests.harness.real_tables import a_table

FILES, COMMITS = "scan.file-creation-time-millis", "scan.creation-time-millis"


@dataclass(frozen=True)
class History:
    """A table of three rows, each of its own commit.

    Attributes:
        begun: a moment before the first commit, between the first and the second, and so on.
    """

    table: Table
    begun: tuple[int, ...]

    def since(self, key: str, number: int, **more: str) -> list[int]:
        scan = self.table.scan(**{key: str(self.begun[number]), **more})
        rows: list[int] = pickle.loads(pickle.dumps(scan)).to_arrow().column("id").to_pylist()
        return sorted(rows)


@pytest.fixture
def history(tmp_path: Path, clock: StandingClock) -> History:
    table = a_table(pa.schema([("id", pa.int64())]), where=tmp_path)
    begun = []
    for i in range(3):
        begun.append(moment(clock))
        table.write(pa.table({"id": [i]}))
    return History(paimon_spark.load_table(table.location), (*begun, moment(clock)))


def moment(clock: StandingClock) -> int:
    """A moment of its own millisecond."""
    clock.advance(1)
    now = clock.now_ms
    clock.advance(1)
    return now


@pytest.mark.parametrize("mode", [{}, {"scan.mode": "from-file-creation-time"}])
def test_files_made_since_are_read_of_the_newest_snapshot(history: History, mode: dict[str, str]) -> None:
    assert [history.since(FILES, i, **mode) for i in range(4)] == [[0, 1, 2], [1, 2], [2], []]
    plan = history.table.scan(**{FILES: str(history.begun[2])}).plan()
    assert [(s.reason, s.files) for s in plan.report.skipped] == [(Reason.CREATED, 2)]


@pytest.mark.parametrize("mode", [{}, {"scan.mode": "from-creation-timestamp"}])
def test_the_first_commit_since_is_read_where_an_earlier_one_tells_that_it_is_the_first(
    history: History, mode: dict[str, str]
) -> None:
    assert history.since(COMMITS, 1, **mode) == [0, 1]
    assert history.since(COMMITS, 2, **mode) == [0, 1, 2]
    assert history.since(COMMITS, 0, **mode) == [0, 1, 2], "no snapshot is earlier: files since then"
    assert history.since(COMMITS, 3, **mode) == [], "no snapshot is later: files since then"
    history.table.expire_snapshots(retain_max=2, retain_min=1)
    assert history.since(COMMITS, 1, **mode) == [1, 2]


def test_a_moment_is_a_version_among_others(history: History) -> None:
    with pytest.raises(InvalidOptionError, match="only one option may name a version"):
        history.table.scan(**{FILES: "5", "scan.snapshot-id": "1"})
    assert history.table.scan(**{FILES: str(history.begun[3])}).to_arrow().num_rows == 0
    since = paimon_spark.load_table(history.table.location, **{FILES: str(history.begun[3])})
    assert since.scan().to_arrow().num_rows == 0
    assert since.at(1).scan().to_arrow().num_rows == 1


@pytest.mark.parametrize("name", ["files", "audit_log"])
def test_system_tables_know_no_moment(history: History, name: str) -> None:
    table = paimon_spark.load_table(f"{history.table.location}${name}", **{FILES: "5"})
    with pytest.raises(InvalidOptionError, match=FILES):
        table.scan().to_arrow()
