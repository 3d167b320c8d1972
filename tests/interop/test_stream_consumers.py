"""Consumers of ours, of Java and of pypaimon keep the same snapshots alive; and where our streams are not as Java's."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import paimon_spark
from paimon_spark.errors import HistoryChangedError, SchemaChangedError, SnapshotExpiredError
from tests.interop.java_paimon import JavaPaimon
from tests.interop.pypaimon_peer import PyPaimon
from tests.interop.streams import JavaStream, OurStream, Span, disagreement

pytestmark = pytest.mark.interop

KEYED: dict[str, Any] = {"pk": ["k"], "partition": [], "tableOptions": {"bucket": "1", "write-only": "true"}}
APPEND: dict[str, Any] = {"pk": [], "partition": [], "tableOptions": {"write-only": "true"}}
KINDS = pytest.mark.parametrize("kind", [KEYED, APPEND], ids=["keyed", "append"])
FIRST = {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}
OURS = {**FIRST, "consumer-id": "ours"}


@pytest.fixture
def make(java: JavaPaimon, tmp_path: Path) -> Callable[[dict[str, Any]], str]:
    """Makes a table `k INT, v STRING` of five snapshots by Java's hand."""

    def made(kind: dict[str, Any]) -> str:
        path = str(tmp_path / "wh" / "db.db" / "t")
        java.call("createTable", path=path, fields=[["k", "INT NOT NULL"], ["v", "STRING"]], comment=None, **kind)
        write(java, path, *range(1, 6))
        return path

    return made


def write(java: JavaPaimon, path: str, *numbers: int, **more: Any) -> None:
    """A commit of two rows for each number."""
    for n in numbers:
        java.call("write", path=path, rows=[[n, f"v{n}"], [0, f"of {n}"]], **more)


def ours(path: str, **options: str) -> OurStream:
    return OurStream(path, options, random.Random(0), cuts=[None])


def alive(java: JavaPaimon, path: str) -> list[int]:
    return [s["id"] for s in java.call("listing", path=path)["snapshots"]]


def ids(spans: list[Span]) -> list[int]:
    return [span.last for span in spans]


@KINDS
def test_java_expires_nothing_that_our_stream_has_yet_to_read(
    kind: dict[str, Any], make: Callable[[dict[str, Any]], str], java: JavaPaimon
) -> None:
    path = make(kind)
    stream = ours(path, **OURS, **{"read.stream.aligned": "true"})
    assert java.call("listing", path=path)["consumers"] == {"ours": 1}
    java.call("expireSnapshots", path=path, retain=1)
    assert alive(java, path) == [1, 2, 3, 4, 5]
    stream.step()
    stream.step()
    assert java.call("listing", path=path)["consumers"] == {"ours": 3}
    java.call("expireSnapshots", path=path, retain=1)
    assert alive(java, path) == [3, 4, 5]
    theirs = JavaStream(path, {"consumer-id": "ours"}).follow(java)
    assert [plan["snapshot"] for plan in theirs] == [3, 4, 5]
    assert disagreement(stream.follow(), theirs, kind["pk"]) is None
    java.call("expireSnapshots", path=path, retain=1)
    assert alive(java, path) == [5]
    write(java, path, 6)
    assert ids(stream.follow()) == [6]


@KINDS
def test_our_stream_goes_on_where_javas_consumer_stands_and_our_expiry_spares_it(
    kind: dict[str, Any], make: Callable[[dict[str, Any]], str], java: JavaPaimon
) -> None:
    path = make(kind)
    theirs = JavaStream(path, {**FIRST, "consumer-id": "theirs"})
    assert [p["snapshot"] for p in theirs.follow(java, plans=2, notify=True)] == [1, 2]
    table = paimon_spark.load_table(path)
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=datetime.now(UTC))
    assert [s.id for s in table.snapshots()] == [3, 4, 5]
    rest = theirs.follow(java)
    stream = ours(path, **FIRST, **{"consumer-id": "theirs"})
    assert disagreement(stream.follow(), rest, kind["pk"]) is None
    assert java.call("listing", path=path)["consumers"] == {"theirs": 6}
    again = ours(path, **{"consumer-id": "theirs", "consumer.ignore-progress": "true", "scan.mode": "latest-full"})
    state = JavaStream(path, {"consumer-id": "theirs", "consumer.ignore-progress": "true"}).follow(java)
    assert [plan["first"] for plan in state] == [True]
    assert disagreement(again.follow(), state, kind["pk"]) is None


def test_consumers_of_a_branch_are_its_own(make: Callable[[dict[str, Any]], str], java: JavaPaimon) -> None:
    path = make(KEYED)
    java.call("createTag", path=path, name="base")
    java.call("createBranch", path=path, name="b", tag="base")
    write(java, path, 10, 11, branch="b")
    stream = ours(path, branch="b", **{"scan.mode": "from-snapshot", "scan.snapshot-id": "6", "consumer-id": "ours"})
    assert java.call("listing", path=path, branch="b")["consumers"] == {"ours": 6}
    assert java.call("listing", path=path)["consumers"] == {}
    theirs = JavaStream(path, {"consumer-id": "ours"}, branch="b").follow(java)
    assert [plan["snapshot"] for plan in theirs] == [6, 7]
    assert disagreement(stream.follow(), theirs, ["k"]) is None
    assert java.call("listing", path=path, branch="b")["consumers"] == {"ours": 8}


@KINDS
def test_pypaimon_and_our_stream_hand_one_consumer_on(
    kind: dict[str, Any], make: Callable[[dict[str, Any]], str], java: JavaPaimon, py: PyPaimon
) -> None:
    path = make(kind)
    stream = ours(path, **OURS, **{"read.stream.aligned": "true"})
    stream.step()
    assert py.call("consumers", path=path)["consumers"] == {"ours": 2}
    plans = py.call("stream", path=path, consumer="ours")["plans"]
    theirs = JavaStream(path, {}, next=2).follow(java)
    assert [len(rows) for rows in plans] == [len(plan["rows"]) for plan in theirs] == [2, 2, 2, 2]
    assert py.call("consumers", path=path)["consumers"] == {"ours": 6}
    write(java, path, 6)
    assert ids(ours(path, **OURS).follow()) == [6]


def test_a_start_that_expired_is_an_error_where_java_begins_later(
    make: Callable[[dict[str, Any]], str], java: JavaPaimon
) -> None:
    path = make(KEYED)
    java.call("expireSnapshots", path=path, retain=2)
    assert [p["snapshot"] for p in JavaStream(path, FIRST).follow(java)] == [4, 5]
    with pytest.raises(SnapshotExpiredError, match=r"scan\.snapshot-id = 4"):
        ours(path, **FIRST)
    full = {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "2"}
    assert [(p["snapshot"], p["first"]) for p in JavaStream(path, full).follow(java)] == [(4, True), (5, False)]
    with pytest.raises(SnapshotExpiredError):
        ours(path, **full)
    with pytest.raises(SnapshotExpiredError):
        ours(path, **{"scan.timestamp-millis": "0"})


def test_snapshots_that_expire_unread_are_an_error_where_java_waits_first(
    make: Callable[[dict[str, Any]], str], java: JavaPaimon
) -> None:
    path = make(KEYED)
    stream, theirs = ours(path, **FIRST, **{"read.stream.aligned": "true"}), JavaStream(path, FIRST)
    stream.step()
    theirs.follow(java, plans=1)
    java.call("expireSnapshots", path=path, retain=2)
    assert theirs.follow(java) == []  # Java looks what is there only at every sixteenth try
    with pytest.raises(SnapshotExpiredError, match="snapshot 2 "):
        stream.follow()


def test_another_history_is_an_error_where_java_reads_on(
    make: Callable[[dict[str, Any]], str], java: JavaPaimon
) -> None:
    path = make(KEYED)
    stream, theirs = ours(path, **FIRST), JavaStream(path, FIRST)
    assert ids(stream.follow())[-1] == theirs.follow(java)[-1]["snapshot"] == 5
    java.call("rollback", path=path, snapshot=3)
    write(java, path, 20, 21, 22)
    assert [p["snapshot"] for p in theirs.follow(java)] == [6]  # 4 and 5 of the new history are never read
    with pytest.raises(HistoryChangedError):
        stream.follow()


def test_a_dropped_column_ends_a_running_query_where_java_reads_nulls(
    make: Callable[[dict[str, Any]], str], java: JavaPaimon
) -> None:
    path = make(APPEND)
    stream, theirs = ours(path, **FIRST), JavaStream(path, FIRST)
    assert disagreement(stream.follow(), theirs.follow(java), []) is None
    java.call("alter", path=path, changes=[{"do": "drop", "name": "v"}])
    java.call("write", path=path, rows=[[7]])
    assert [p["rows"] for p in theirs.follow(java, schemaId=0)] == [[{"k": 7, "v": None, "_KIND": "+I"}]]
    with pytest.raises(SchemaChangedError, match="'v'"):
        stream.follow()
    stream.restart()
    assert [span.rows for span in stream.follow()] == [({"k": 7, "_KIND": "+I"},)]


def test_bounded_streams_end_before_the_same_snapshot(make: Callable[[dict[str, Any]], str], java: JavaPaimon) -> None:
    path = make(KEYED)
    for n in (6, 7, 8):
        write(java, path, n, watermark=n * 1000)
    bound = {**FIRST, "scan.bounded.watermark": "7500"}
    [reply] = java.run([JavaStream(path, bound).call()])
    assert reply["ended"] and reply["next"] == 8
    stream = ours(path, **bound)
    assert disagreement(stream.follow(), reply["plans"], ["k"]) is None
    assert stream.offset.snapshot_id == 7


def test_columns_written_again_are_no_new_rows_where_java_gives_rows_of_nulls(java: JavaPaimon, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    tracked = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    fields = [["k", "INT"], ["v", "STRING"]]
    java.call("createTable", path=path, fields=fields, pk=[], partition=[], tableOptions=tracked, comment=None)
    write(java, path, 1)
    java.call("write", path=path, rows=[["new"], ["newer"]], columns=["v"], firstRowId=0)
    write(java, path, 2)
    stream, theirs = ours(path, **FIRST), JavaStream(path, FIRST).follow(java)
    assert theirs[1]["rows"] == [{"k": None, "v": v, "_KIND": "+I"} for v in ("new", "newer")]
    assert disagreement(stream.follow(), [theirs[0], theirs[2]], []) is None
    assert disagreement(ours(path).follow(), JavaStream(path, {}).follow(java), []) is None


def test_main_is_followed_without_the_fallback_branch_as_by_java(
    make: Callable[[dict[str, Any]], str], java: JavaPaimon
) -> None:
    path = make(APPEND)
    java.call("createBranch", path=path, name="b")
    write(java, path, 100, branch="b")
    java.call("alter", path=path, changes=[{"do": "set", "name": "scan.fallback-branch", "value": "b"}])
    stream, theirs = ours(path, **FIRST), JavaStream(path, FIRST)
    assert disagreement(stream.follow(), theirs.follow(java), []) is None
    write(java, path, 6)
    write(java, path, 101, branch="b")
    assert disagreement(stream.follow(), theirs.follow(java), []) is None
