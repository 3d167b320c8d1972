"""Commits of our stream sink: Java and pypaimon read and stream them, and Java keeps or loses its notes."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.errors import BatchesLostError
from paimon_spark.jobs.write.stream import plan_stream_write
from paimon_spark.jobs.write.stream_batch import StreamResult
from paimon_spark.streaming.batches import AlreadyCommitted, BatchesMissing, NotCommitted, Sink, find_batch
from tests.harness.keywords import keywords
from tests.harness.rows import difference, rows_of
from tests.harness.table_files import missing_files
from tests.interop.java_paimon import JavaPaimon
from tests.interop.pypaimon_peer import PyPaimon
from tests.interop.streams import JavaStream, OurStream, disagreement

pytestmark = pytest.mark.interop

FIELDS = [["k", "INT NOT NULL"], ["p", "STRING NOT NULL"], ["v", "STRING"]]
TYPES = {"k": "INT NOT NULL", "p": "STRING NOT NULL", "v": "STRING"}
KEYS = ["k", "p"]
APPEND: dict[str, Any] = {"pk": [], "partition": ["p"], "tableOptions": {}}
QUERY = "5f1e7b0c-6d5f-4b8e-9c55-000000000001"
FIRST = {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}


def keyed(**options: str) -> dict[str, Any]:
    """A table with a primary key; `_` stands for `-`."""
    given = {name.replace("_", "-"): value for name, value in options.items()}
    return {"pk": KEYS, "partition": ["p"], "tableOptions": {"bucket": "1", **given}}


TABLES = {
    "append": APPEND,
    "buckets": {**APPEND, "tableOptions": {"bucket": "2", "bucket-key": "k"}},
    "keyed": keyed(),
    "input": keyed(changelog_producer="input"),
    "lookup": keyed(changelog_producer="lookup"),
    "full_compaction": keyed(changelog_producer="full-compaction", **{"full-compaction.delta-commits": "2"}),
    "vectors": keyed(**{"deletion-vectors.enabled": "true"}),
    "first_row": keyed(merge_engine="first-row"),
    "dynamic": keyed(bucket="-1"),
    "postponed": keyed(bucket="-2"),
}


class Query:
    """A streaming query that writes, one batch after the other."""

    def __init__(self, path: str, *, query_id: str = QUERY, complete: bool = False, **options: str) -> None:
        self.path, self.query_id, self.complete = path, query_id, complete
        self.options = {"path": path, **options}

    def write(self, batch_id: int, rows: list[list[Any]], *, again: bool = False) -> StreamResult:
        """The batch, by two tasks where rows have no keys; `again` as after a crash that Spark did not notice."""
        sink = plan_stream_write(self.options, self.complete, data([]).schema)
        tasks = 1 if paimon_spark.load_table(self.path).schema.primary_keys else 2
        parts = [sink.task().write(data(rows[n::tasks]).to_batches(), n, self.query_id, batch_id) for n in range(tasks)]
        result = sink.commit(parts, batch_id)
        if again:
            assert sink.commit(parts, batch_id).was_committed
        return result


def data(rows: list[list[Any]]) -> pa.Table:
    schema = pa.schema([pa.field("k", pa.int32(), False), pa.field("p", pa.string(), False), ("v", pa.string())])
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)


def batch(dice: random.Random) -> list[list[Any]]:
    return [[k, "xy"[k % 2], dice.choice([None, "a", "b"])] for k in dice.sample(range(9), dice.randint(1, 5))]


def state(path: str, **options: str) -> list[dict[str, Any]]:
    return rows_of(paimon_spark.load_table(path, **options).scan().to_arrow(), TYPES)


@pytest.fixture
def make(java: JavaPaimon, tmp_path: Path) -> Callable[[dict[str, Any]], str]:
    """Makes a table of `FIELDS` by Java's hand, in a warehouse that pypaimon can open."""

    def made(kind: dict[str, Any]) -> str:
        path = str(tmp_path / "wh" / "db.db" / "t")
        java.call("createTable", path=path, fields=FIELDS, comment=None, **kind)
        return path

    return made


@pytest.mark.parametrize("kind", TABLES)
def test_java_reads_streams_and_counts_what_we_stream_write(
    kind: str, make: Callable[[dict[str, Any]], str], java: JavaPaimon, py: PyPaimon
) -> None:
    path, dice = make(TABLES[kind]), random.Random(kind)
    ours, theirs = OurStream(path, FIRST, dice), JavaStream(path, FIRST)
    query, keys = Query(path), TABLES[kind]["pk"]
    for batch_id in range(5):
        rows = [] if batch_id == 2 else batch(dice)
        assert query.write(batch_id, rows, again=batch_id % 2 == 1).snapshot_ids or not rows
        # A committer of Java's that starts anew for this user would commit what comes next, and an empty batch, anew.
        asked = list(range(batch_id + 2))
        missing = java.call("uncommitted", path=path, user=QUERY, identifiers=asked)["uncommitted"]
        assert missing == ([2, 3] if batch_id == 2 else [batch_id + 1])
        assert disagreement(ours.follow(), theirs.follow(java), keys) is None
        found = difference(java.call("read", path=path)["rows"], state(path))
        assert found is None, found
    assert missing_files(paimon_spark.load_table(path).handle) == []
    plans = py.call("stream", path=path, restore=1)["plans"]
    if kind != "first_row":  # what pypaimon makes of new files of such tables is not what Java does
        wanted = [plan["rows"] for plan in JavaStream(path, {}, next=1).follow(java)]
        assert [difference(want, got) for want, got in zip(wanted, plans, strict=True)] == [None] * len(wanted)


@pytest.mark.parametrize("kind", ["append", "lookup"])
def test_a_branch_is_written_and_followed_beside_main(
    kind: str, make: Callable[[dict[str, Any]], str], java: JavaPaimon
) -> None:
    path, dice = make(TABLES[kind]), random.Random(kind)
    keys = TABLES[kind]["pk"]
    Query(path).write(0, batch(dice))
    java.call("createTag", path=path, name="base")
    java.call("createBranch", path=path, name="b", tag="base")
    begun = paimon_spark.load_table(path, branch="b").snapshots()[-1].id
    start = {"scan.mode": "from-snapshot-full", "scan.snapshot-id": str(begun)}
    ours, theirs = OurStream(path, {**start, "branch": "b"}, dice), JavaStream(path, start, branch="b")
    on_branch = Query(path, query_id=QUERY[:-1] + "2", branch="b")
    for batch_id in range(3):
        on_branch.write(batch_id, batch(dice), again=True)
        Query(path).write(batch_id + 1, batch(dice))
        assert disagreement(ours.follow(), theirs.follow(java), keys) is None
    assert difference(java.call("read", path=path, branch="b")["rows"], state(path, branch="b")) is None
    asked = {"path": path, "branch": "b", "identifiers": [2, 3]}
    assert java.call("uncommitted", user=on_branch.query_id, **asked)["uncommitted"] == [3]


def test_complete_batches_replace_the_table(make: Callable[[dict[str, Any]], str], java: JavaPaimon) -> None:
    path, dice = make(keyed(streaming_read_overwrite="true")), random.Random(0)
    query = Query(path, complete=True)
    ours, theirs = OurStream(path, FIRST, dice), JavaStream(path, FIRST)
    for batch_id, rows in enumerate([batch(dice), batch(dice), [], batch(dice)]):
        query.write(batch_id, rows, again=True)
        assert difference(java.call("read", path=path)["rows"], state(path)) is None
        assert len(state(path)) == len(rows)
        assert disagreement(ours.follow(), theirs.follow(java), KEYS) is None
    assert java.call("uncommitted", path=path, user=QUERY, identifiers=[3, 4])["uncommitted"] == [4]


def test_a_user_given_by_name_is_the_one_that_java_asks_for(
    make: Callable[[dict[str, Any]], str], java: JavaPaimon
) -> None:
    path = make(APPEND)
    query = Query(path, **keywords({"commit.user": "etl"}))
    query.write(0, [[1, "x", "a"]])
    query.write(1, [[2, "x", "b"]])
    assert java.call("uncommitted", path=path, user="etl", identifiers=[0, 1, 2])["uncommitted"] == [2]
    # Java goes on under the same name: what it commits is not ours, as it was made by another query.
    java.call("write", path=path, rows=[[3, "x", "java"]], user="etl", identifier=2)
    assert java.call("uncommitted", path=path, user="etl", identifiers=[2, 3])["uncommitted"] == [3]
    query.write(2, [[4, "x", "c"]], again=True)
    assert sorted(row["k"] for row in java.call("read", path=path)["rows"]) == [1, 2, 3, 4]


def test_what_java_committed_for_a_query_is_committed(make: Callable[[dict[str, Any]], str], java: JavaPaimon) -> None:
    path = make(keyed())
    for identifier in (0, 1):
        java.call("write", path=path, rows=[[identifier, "x", "java"]], user=QUERY, identifier=identifier)
    handle = paimon_spark.load_table(path).handle
    assert isinstance(find_batch(handle, Sink(QUERY, QUERY), 1).outcome, AlreadyCommitted)
    assert isinstance(find_batch(handle, Sink(QUERY, QUERY), 2).outcome, NotCommitted)
    assert Query(path).write(1, [[9, "y", "again"]]).was_committed
    Query(path).write(2, [[2, "y", "ours"]])
    assert sorted(row["k"] for row in java.call("read", path=path)["rows"]) == [0, 1, 2]
    assert java.call("uncommitted", path=path, user=QUERY, identifiers=[2, 3])["uncommitted"] == [3]


@pytest.mark.parametrize("kind", ["append", "lookup"])
def test_java_cleans_expires_and_moves_branches_with_the_notes_of_sinks(
    kind: str, make: Callable[[dict[str, Any]], str], java: JavaPaimon
) -> None:
    path = make(TABLES[kind])
    query = Query(path)
    for batch_id in range(3):
        query.write(batch_id, [[batch_id, "x", "a"]])
    java.call("createTag", path=path, name="base")
    java.call("createBranch", path=path, name="old", tag="base")
    # A copy of main made by Java has no notes, but the query's snapshot.
    moved = Query(path, branch="old")
    moved.write(3, [[30, "x", "branch"]])
    java.call("renameBranch", path=path, name="old", to="fresh")
    notes = {p.relative_to(path) for p in Path(path).glob("**/sink/sink-*")}
    assert notes == {Path(f"sink/sink-{QUERY}"), Path(f"branch/branch-fresh/sink/sink-{QUERY}")}
    java.call("removeOrphans", path=path)
    assert {p.relative_to(path) for p in Path(path).glob("**/sink/sink-*")} == notes
    moved = Query(path, branch="fresh")
    assert moved.write(3, [[30, "x", "branch"]]).was_committed
    moved.write(4, [[40, "x", "branch"]])
    java.call("expireSnapshots", path=path, retain=1)
    query.write(3, [[3, "x", "main"]], again=True)
    java.call("deleteBranch", path=path, name="fresh")
    assert not (Path(path) / "branch" / "branch-fresh").exists()
    assert sorted(row["k"] for row in java.call("read", path=path)["rows"]) == [0, 1, 2, 3]
    assert missing_files(paimon_spark.load_table(path).handle) == []


def test_java_rolling_back_or_fast_forwarding_main_loses_batches_and_the_query_says_so(
    make: Callable[[dict[str, Any]], str], java: JavaPaimon
) -> None:
    path = make(APPEND)
    query = Query(path)
    for batch_id in range(4):
        query.write(batch_id, [[batch_id, "x", "a"]])
    java.call("createTag", path=path, name="base", snapshot=2)
    java.call("createBranch", path=path, name="b", tag="base")
    java.call("write", path=path, branch="b", rows=[[50, "x", "java"]])
    java.call("rollback", path=path, snapshot=3)
    assert query.write(3, [[3, "x", "again"]]).snapshot_ids == (4,)  # the batch alone was lost: it is written again
    java.call("fastForward", path=path, name="b")
    found = find_batch(paimon_spark.load_table(path).handle, Sink(QUERY, QUERY), 4).outcome
    assert isinstance(found, BatchesMissing) and found.first == 2
    with pytest.raises(BatchesLostError, match="batches 2 to 3"):
        query.write(4, [[4, "x", "a"]])
    Query(path, **keywords({"write.stream.lost-batches": "continue"})).write(4, [[4, "x", "a"]])
    assert sorted(row["k"] for row in java.call("read", path=path)["rows"]) == [0, 1, 4, 50]
    assert java.call("uncommitted", path=path, user=QUERY, identifiers=[4, 5])["uncommitted"] == [5]
