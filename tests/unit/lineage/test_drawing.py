from __future__ import annotations

from paimon_spark.lineage.drawing import newest_of, picture_of
from paimon_spark.lineage.graph import Node, Walk, load
from paimon_spark.lineage.model import Provenance, SourceRange, TableRef
from paimon_spark.lineage.tables import rows_of
from tests.harness.lineage_index import MemoryIndex


def record(
    index: MemoryIndex, job: str, barrier: int, sources: dict[str, int], sink: str, snapshot: int | None
) -> None:
    ranges = tuple(SourceRange(TableRef.parse(name), last=last) for name, last in sources.items())
    index.upsert(rows_of(Provenance(job, barrier, ranges), TableRef.parse(sink), snapshot))


def names(index: MemoryIndex, *around: str) -> set[str]:
    url = index.warehouse.url
    nodes = [Node(url, TableRef.parse(name)) for name in around]
    return {n.name for n in picture_of(load([index], nodes, walk=Walk.BOTH), around=nodes).nodes}


def test_the_newest_is_of_the_newest_batch_even_when_its_id_is_lower() -> None:
    index = MemoryIndex()
    record(index, "j", 7, {"db.a": 20}, "db.b", 9)
    record(index, "j", 8, {"db.a": 21}, "db.b", 3)  # the sink was rolled back
    record(index, "j", 9, {"db.a": 22}, "db.b", None)
    newest = newest_of(load([index]))
    url = index.warehouse.url
    assert newest.made == {("j", Node(url, TableRef("db", "b"))): 3}
    assert newest.read == {("j", Node(url, TableRef("db", "a"))): 22}
    assert newest.barriers == {"j": 9}


def test_a_job_of_which_no_batch_is_known_is_drawn_without_snapshots() -> None:
    index = MemoryIndex()
    index.upsert({"source_job_lineage": [("j", "db", "a")], "sink_job_lineage": [("j", "db", "b")]})
    picture = picture_of(load([index]))
    assert [(n.name, n.detail) for n in picture.nodes] == [("db.a", ""), ("db.b", ""), ("j", "")]
    assert [e.label for e in picture.edges] == ["", ""]


def test_what_is_near_is_what_a_table_comes_from_and_goes_into() -> None:
    index = MemoryIndex()
    record(index, "up", 0, {"db.a": 1, "db.b": 1}, "db.c", 1)
    record(index, "up", 1, {}, "db.other", 1)
    record(index, "down", 0, {"db.c": 1, "db.sibling": 1}, "db.d", 1)
    record(index, "aside", 0, {"db.a": 1}, "db.e", 1)
    assert names(index, "db.c") == {"db.a", "db.b", "db.c", "db.d", "up", "down"}
    assert names(index, "db.a") == {"db.a", "up", "db.c", "db.other", "down", "db.d", "aside", "db.e"}
    assert names(index, "db.b", "db.e") >= {"db.a", "db.b", "db.e", "aside", "up"}


def test_what_is_near_in_a_cycle_is_the_cycle() -> None:
    index = MemoryIndex()
    record(index, "there", 0, {"db.a": 1}, "db.b", 1)
    record(index, "back", 0, {"db.b": 1}, "db.a", 2)
    assert names(index, "db.a") == {"db.a", "db.b", "there", "back"}


def test_a_job_stands_where_it_writes_to() -> None:
    one, two = MemoryIndex(), MemoryIndex()
    one.upsert({"source_job_lineage": [("j", "db", "a"), ("reads", "db", "a")]})
    two.upsert({"sink_job_lineage": [("j", "db", "a")]})
    picture = picture_of(load([one, two]))
    assert {n.name: n.group for n in picture.nodes if n.kind == "job"} == {
        "j": two.warehouse.url,
        "reads": one.warehouse.url,
    }
    assert len([n for n in picture.nodes if n.kind == "table"]) == 2
