"""Rows that streams read from each start: a state if any, then the changes of every snapshot after it, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_spark.api.table import Table
from paimon_spark.engine.read.split_reader import read_split
from paimon_spark.jobs.read.stream import open_stream
from paimon_spark.streaming.offset import decode, encode
from paimon_spark.streaming.source import StreamSource
from tests.harness.clock import StandingClock
from tests.harness.real_tables import a_catalog, put


def make(path: Path, name: str = "t", keys: tuple[str, ...] = (), **options: str) -> Table:
    """An empty table of one column `id`; options are written with `_` for `-`, and `__` for `.`."""
    catalog = a_catalog(path)
    given = {k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}
    return catalog.create_table(f"db.{name}", "id BIGINT NOT NULL", primary_keys=list(keys), options=given)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Snapshot n, from 1 to 5, added row n."""
    made = make(tmp_path)
    for i in range(1, 6):
        put(made, i)
    return made


class Stream:
    """A query: each `batch` reads what is there since the last one."""

    def __init__(self, table: Table, **options: str) -> None:
        self.table, self.options = table, {k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}
        self.source = self._open()
        self.at = self.source.first()

    def _open(self) -> StreamSource:
        return open_stream(self.table.location, self.options)

    def restart(self) -> Stream:
        """The same checkpoint, read by a new process."""
        self.source, self.at = self._open(), decode(encode(self.at))
        return self

    def batch(self) -> list[int]:
        end = self.source.next(self.at)
        plan = self.source.plan(self.at, end)
        self.at = end
        batches = [b for s in plan.splits for b in read_split(plan.requests[s.branch], s)]
        return sorted(i for b in batches for i in b.column("id").to_pylist())

    def all(self) -> list[list[int]]:
        """The batches until nothing more comes."""
        out = []
        while found := self.restart().batch():
            out.append(found)
        return out


@pytest.mark.parametrize(
    ("options", "batches"),
    [
        ({}, [[1, 2, 3, 4, 5]]),
        ({"scan__mode": "latest"}, []),
        ({"scan__mode": "compacted-full"}, [[1, 2, 3, 4, 5]]),
        ({"scan__snapshot_id": "1"}, [[1, 2, 3, 4, 5]]),
        ({"scan__snapshot_id": "4"}, [[4, 5]]),
        ({"scan__snapshot_id": "6"}, []),
        ({"scan__snapshot_id": "3", "scan__mode": "from-snapshot-full"}, [[1, 2, 3], [4, 5]]),
        ({"scan__snapshot_id": "5", "scan__mode": "from-snapshot-full"}, [[1, 2, 3, 4, 5]]),
        ({"scan__timestamp_millis": "0"}, [[1, 2, 3, 4, 5]]),
        ({"scan__file_creation_time_millis": "0"}, [[1, 2, 3, 4, 5]]),
        ({"scan__file_creation_time_millis": "9999999999999"}, []),
    ],
)
def test_each_start_reads_every_row_since_once(table: Table, options: dict[str, str], batches: list[list[int]]) -> None:
    stream = Stream(table, **options)
    assert stream.all() == batches
    put(table, 6)
    put(table, 7)
    assert stream.all() == [[6, 7]]


@pytest.mark.parametrize(
    "options", [{}, {"scan__mode": "latest"}, {"scan__snapshot_id": "1"}, {"scan__timestamp_millis": "0"}]
)
def test_a_stream_of_an_empty_table_reads_what_comes(tmp_path: Path, options: dict[str, str]) -> None:
    table = make(tmp_path)
    stream = Stream(table, **options)
    assert stream.all() == []
    put(table, 1)
    put(table, 2)
    assert stream.all() == [[1, 2]]
    put(table, 3)
    assert stream.all() == [[3]]


def test_a_time_divides_what_was_written_before_and_after(tmp_path: Path, clock: StandingClock) -> None:
    table = make(tmp_path)
    put(table, 1)
    put(table, 2)
    clock.advance(1)
    moment = str(clock.now_ms)
    clock.advance(1)
    put(table, 3)
    for key in ("scan__timestamp_millis", "scan__creation_time_millis", "scan__file_creation_time_millis"):
        assert Stream(table, **{key: moment}).all() == [[3]]
    table.expire_snapshots(retain_max=1)
    assert Stream(table, scan__creation_time_millis=moment).all() == [[3]], "no snapshot tells: files since then"


def test_a_tag_is_read_in_full_after_its_snapshot_expired(table: Table) -> None:
    table.create_tag("v2", snapshot_id=2)
    table.expire_snapshots(retain_max=3, retain_min=1)
    assert [s.id for s in table.snapshots()] == [3, 4, 5]
    stream = Stream(table, scan__tag_name="v2", scan__mode="from-snapshot-full")
    assert stream.all() == [[1, 2], [3, 4, 5]]
    put(table, 6)
    assert stream.all() == [[6]]


def test_long_lived_changelogs_are_read_where_snapshots_expired(tmp_path: Path) -> None:
    kept = {"changelog__num_retained__max": "100", "changelog__num_retained__min": "100"}
    table = make(tmp_path, keys=("id",), bucket="1", changelog_producer="input", **kept)
    for i in range(1, 6):
        put(table, i)
    table.expire_snapshots(retain_max=2, retain_min=1)
    assert [s.id for s in table.snapshots()] == [4, 5]
    assert Stream(table, scan__snapshot_id="2").all() == [[2, 3, 4, 5]]
    assert Stream(table, scan__timestamp_millis="0").all() == [[1, 2, 3, 4, 5]]


def test_the_compacted_state_comes_before_what_was_written_since(tmp_path: Path) -> None:
    table = make(tmp_path, keys=("id",), bucket="1", write_only="true")
    put(table, 1)
    put(table, 2)
    table.compact(full=True)
    put(table, 3)
    stream = Stream(table, scan__mode="compacted-full")
    assert stream.all() == [[1, 2], [3]]


def test_a_branch_reads_from_where_it_left(table: Table) -> None:
    table.create_tag("v3", snapshot_id=3)
    table.create_branch("fix", tag="v3")
    put(table.branch("fix"), 40)
    put(table, 6)
    table.expire_snapshots(retain_max=1, retain_min=1)  # of main; the branch keeps what it began with
    assert Stream(table, branch="fix").all() == [[1, 2, 3, 40]]
    for options in ({"scan__tag_name": "v3"}, {"scan__snapshot_id": "3"}, {"versionAsOf": "fix.v3"}):
        assert Stream(table, branch="fix", **options).all() == [[3, 40]]
    assert Stream(table, branch="fix", scan__tag_name="v3", scan__mode="from-snapshot-full").all() == [[1, 2, 3], [40]]


def test_a_consumer_goes_on_where_it_stands(table: Table) -> None:
    stream = Stream(table, consumer_id="etl", scan__snapshot_id="3")
    assert stream.batch() == [3, 4, 5]
    stream.source.committed(stream.at)
    put(table, 6)
    assert Stream(table, consumer_id="etl").all() == [[6]]
    assert Stream(table, consumer_id="etl", consumer__ignore_progress="true").all() == [[1, 2, 3, 4, 5, 6]]


def test_a_start_that_the_table_stores_is_that_of_its_streams_and_of_batch_reads_as_in_java(tmp_path: Path) -> None:
    table = make(tmp_path, scan__mode="from-snapshot", scan__snapshot_id="2")
    for i in range(1, 4):
        put(table, i)
    assert Stream(table).all() == [[2, 3]]
    assert Stream(table, scan__mode="latest-full").all() == [[1, 2, 3]]
    assert sorted(table.scan().to_arrow().column("id").to_pylist()) == [1, 2]
    assert sorted(table.scan(**{"scan.mode": "latest"}).to_arrow().column("id").to_pylist()) == [1, 2, 3]
