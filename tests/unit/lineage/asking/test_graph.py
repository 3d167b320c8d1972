"""Rows of warehouses as a graph; which rows a question reads; rows that deny one another."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import JobNotFoundError, LineageError
from paimon_spark.lineage.asking.batch_sequence import FAR, sink_sequence, source_sequence
from paimon_spark.lineage.asking.graph import Direction, Graph, Node, load
from paimon_spark.lineage.asking.picture import picture_of
from paimon_spark.lineage.asking.reach import downstream, impact, upstream
from paimon_spark.lineage.asking.unified_version import unified_version
from paimon_spark.lineage.index.job_registry import claim_name
from paimon_spark.lineage.index.provenance import TableRef
from paimon_spark.lineage.index.tables import (
    JOB_STARTUP,
    SINK_JOB,
    SINK_SNAPSHOT,
    SOURCE_JOB,
    SOURCE_SNAPSHOT,
    job_is_in,
)
from tests.harness.lineage_index import MemoryIndex, row_type
from tests.harness.lineage_pipelines import ONE, TWO, arrow, graph_of, node

A, B, C, D, Z = (node(n) for n in "abcdz")


def test_a_job_joins_the_tables_of_two_warehouses() -> None:
    there = node("a", TWO)
    graph = graph_of([("j", 0, there, 1), ("j", 0, A, 4)], [("j", 0, B, 2)])
    assert graph.reads == {"j": (A, there)}
    assert graph.writes == {"j": (B,)}
    assert graph.read_by == {A: ("j",), there: ("j",)}
    assert (graph.jobs, graph.tables) == (("j",), (A, B, there))
    assert graph.sources("j", there).snapshot(0) == 1
    assert graph.sources("j", A).snapshot(0) == 4
    assert graph.newest(A) == 4
    assert graph.newest(A, 3) == 0


def test_a_table_is_found_by_its_name_and_an_unknown_one_offers_the_nearest() -> None:
    orders, branch = node("sales.orders"), node("sales.orders$branch_fix")
    graph = graph_of([("j", 0, orders, 1), ("k", 0, node("sales.orders", TWO), 1)], [("j", 0, branch, 1)])
    assert graph.node("sales.orders$branch_fix") == branch
    assert graph.node("sales.orders", ONE) == orders
    assert branch.name == "sales.orders$branch_fix"
    with pytest.raises(LineageError, match="of 2 warehouses; give one of them: file:///one, file:///two"):
        graph.node("sales.orders")
    with pytest.raises(LineageError, match=r"no job reads or writes table 'sales\.order'.*did you mean 'sales\.orders"):
        graph.node("sales.order")


def test_an_unknown_job_offers_the_nearest_or_all() -> None:
    graph = graph_of([("orders_etl", 0, A, 1)], [])
    with pytest.raises(JobNotFoundError, match="did you mean 'orders_etl'"):
        graph.check_job("order_etl")
    with pytest.raises(JobNotFoundError, match="jobs: orders_etl"):
        graph.check_job("x")
    with pytest.raises(JobNotFoundError, match="no job 'x' in the lineage of no warehouse"):
        Graph.of([]).check_job("x")


# --- which tables a job joins


def app() -> Graph:
    """One application whose statements are one job: VALUES → a, a → b, VALUES → z, c and a → d."""
    return graph_of(
        [("app", 1, A, 1), ("app", 3, C, 4), ("app", 3, A, 1)],
        [("app", 0, A, 1), ("app", 1, B, 1), ("app", 2, Z, 1), ("app", 3, D, 1), ("app", 4, B, 2)],
        batch=["app"],
    )


def test_a_batch_job_joins_only_what_one_run_of_it_read_and_wrote() -> None:
    graph = app()
    assert graph.sinks_of("app", A) == (B, D) and graph.sinks_of("app", C) == (D,)
    assert [graph.sources_of("app", n) for n in (A, B, D, Z)] == [(), (A,), (A, C), ()]
    assert graph.groups("app") == [((), (A, Z)), ((A,), (B,)), ((A, C), (D,))]
    for found in (downstream(graph, A), impact(graph, A, 1)):
        assert {t.node for t in found.tables} == {B, D}
    assert {t.node for t in upstream(graph, B).tables} == {A}
    assert upstream(graph, Z).tables == upstream(graph, A).tables == ()
    assert upstream(graph, B, 1).snapshot == 1 and {t.node for t in upstream(graph, B, 2).tables} == {A}
    assert {t.node: t.depth for t in downstream(graph, "app").tables} == dict.fromkeys((A, B, D, Z), 1)
    assert unified_version(graph, [D, Z]).snapshots == {D: 1, Z: 1}
    arrows = [(e.source, e.target) for e in picture_of(graph).edges]
    boxes = {box: {end for start, end in arrows if start == box} for box in {end for start, end in arrows}}
    assert len([b for b in picture_of(graph).nodes if b.kind == "job"]) == 3
    into_z = [start for start, end in arrows if end.endswith("db.z")]
    assert all(end not in into_z for start, end in arrows if start.endswith("db.a")) and boxes


def test_a_stream_and_a_job_of_another_engine_join_all_that_they_read_and_write() -> None:
    graph = graph_of([("s", 0, A, 1), ("s", 0, C, 1)], [("s", 0, B, 1), ("s", 3, D, 1)])
    assert graph.sinks_of("s", A) == (B, D) and graph.sources_of("s", D) == (A, C)
    assert graph.groups("s") == [((A, C), (B, D))]


def test_where_no_snapshots_were_recorded_a_batch_job_joins_the_tables_of_which_there_are_none() -> None:
    graph = graph_of(
        [("j", 0, C, 1)], [("j", 0, D, 1)], reads=[("j", A)], writes=[("j", B)], batch=["j"]
    )  # fmt: skip
    assert graph.sinks_of("j", A) == (B,) and graph.sinks_of("j", C) == (D,)
    across = graph_of([("j", 5, node("a", TWO), 1)], [("j", 0, B, 1)], batch=["j"])
    assert across.sinks_of("j", node("a", TWO)) == (B,)  # barriers of two warehouses tell nothing of one another


def test_whether_a_job_is_a_batch_job_is_known_by_who_owns_its_name() -> None:
    for query_id, expected in ((None, ("db.b",)), ("q1", ("db.b", "db.z"))):
        index = index_of([("j", 0, "a", 1)], [("j", 0, "b", 1), ("j", 1, "z", 1)])
        claim_name(index.warehouse, "j", query_id)
        graph = load([index])
        assert tuple(n.name for n in graph.sinks_of("j", graph.node("db.a"))) == expected


# --- load


def index_of(read: list[tuple[str, int, str, int]], made: list[tuple[str, int, str, int]]) -> MemoryIndex:
    index = MemoryIndex()
    index.upsert(
        {
            SOURCE_JOB.name: [(j, "db", t) for j, _, t, _ in read],
            SINK_JOB.name: [(j, "db", t) for j, _, t, _ in made],
            SOURCE_SNAPSHOT.name: [(j, b, "db", t, s) for j, b, t, s in read],
            SINK_SNAPSHOT.name: [(j, b, "db", t, s) for j, b, t, s in made],
        }
    )
    return index


def chain() -> MemoryIndex:
    """a -j→ b -k→ c, a -l→ d."""
    return index_of(
        [("j", 0, "a", 1), ("k", 0, "b", 1), ("l", 0, "a", 1)], [(j, 0, t, 1) for j, t in ("jb", "kc", "ld")]
    )


@pytest.mark.parametrize(
    ("tables", "jobs", "walk", "expected"),
    [
        (["db.c"], [], Direction.UP, {"j", "k"}),
        (["db.b"], [], Direction.UP, {"j"}),
        (["db.a"], [], Direction.UP, set()),
        (["db.a"], [], Direction.DOWN, {"j", "k", "l"}),
        (["db.b"], [], Direction.DOWN, {"j", "k"}),  # j made the snapshot asked about
        (["db.b"], [], Direction.BOTH, {"j", "k"}),
        ([], ["k"], Direction.UP, {"j", "k"}),
        ([], ["l"], Direction.DOWN, {"l"}),
        ([], [], Direction.UP, {"j", "k", "l"}),
        (["db.nobody"], ["nobody"], Direction.BOTH, {"nobody"}),
    ],
)
def test_rows_of_snapshots_are_read_of_the_jobs_that_a_question_reaches(
    tables: list[str], jobs: list[str], walk: Direction, expected: set[str]
) -> None:
    index = chain()
    graph = load([index], tables, jobs, direction=walk)
    found = [p.sink_snapshots for p in graph.parts if p.sink_snapshots is not None]
    assert {j for t in found for j in t["job"].to_pylist()} == expected - {"nobody"}
    assert all(where or len(expected) == 3 for name, where in index.reads if name == SINK_SNAPSHOT.name)
    assert graph.jobs == ("j", "k", "l")


def test_nothing_but_jobs_and_tables_is_read_where_snapshots_are_not_asked_about() -> None:
    index = chain()
    graph = load([index], ["db.c"], snapshots=False, startup=True)
    assert {name for name, _ in index.reads} == {SOURCE_JOB.name, SINK_JOB.name, JOB_STARTUP.name}
    assert graph.sinks("j", Node(index.warehouse.url, TableRef("db", "b"))).newest == -1


def test_a_question_goes_through_the_warehouses_of_all_indexes() -> None:
    """`j` reads a of the first and writes b of the second, `k` reads that."""
    one = index_of([("j", 0, "a", 7), ("l", 0, "a", 8)], [])
    two = index_of([("k", 0, "b", 1)], [("j", 0, "b", 1), ("k", 0, "c", 3), ("other", 0, "x", 1)])
    graph = load([one, two], ["db.c"])
    found = unified_version(graph, [graph.node("db.c")])
    assert {n.name: s for n, s in found.sources.items()} == {"db.a": 7, "db.b": 1}
    assert ("source_snapshot_lineage", "job = 'j'") in one.reads


def test_a_warehouse_without_lineage_tables_adds_nothing() -> None:
    assert load([MemoryIndex(is_there=False), chain()]).jobs == ("j", "k", "l")
    assert load([]).jobs == ()


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1, max_size=3, unique=True))
def test_a_name_with_any_characters_finds_its_rows(jobs: list[str]) -> None:
    index = index_of([(j, 0, "a", 1) for j in [*jobs, "another"]], [])
    found = index.read(SOURCE_SNAPSHOT, job_is_in(jobs))
    assert set(found["job"].to_pylist()) == set(jobs)


def test_what_a_job_was_given_to_start_from() -> None:
    index = chain()
    index.upsert({JOB_STARTUP.name: [("j", "db", "a", 5), ("k", "db", "b", 6)]})
    graph = load([index], startup=True)
    assert graph.startup("j") == {Node(index.warehouse.url, TableRef("db", "a")): 5}
    assert graph.startup("nobody") == {}
    assert row_type(JOB_STARTUP).fields[0].name == "job"


# --- series


def rows(*pairs: tuple[int, int]) -> pa.Table:
    return arrow(SINK_SNAPSHOT, [("j", b, "db", "t", s) for b, s in pairs])


def test_a_series_is_ordered_by_barrier_whatever_the_order_of_rows() -> None:
    series = sink_sequence(rows((5, 9), (1, 3), (3, 4)))
    assert [(list(series.barriers), list(series.snapshots))] == [([1, 3, 5], [3, 4, 9])]
    assert [series.row(b) for b in (0, 1, 2, 3, 4, 5, 99)] == [-1, 0, 0, 1, 1, 2, 2]
    assert [series.row_of(s) for s in (2, 3, 8, 9)] == [-1, 0, 1, 2]
    assert [series.end(r) for r in (-1, 0, 1, 2)] == [0, 2, 4, FAR]
    assert series.newest == 5


def test_no_rows_are_a_series_without_end() -> None:
    series = source_sequence(rows())
    assert (len(series), series.row(7), series.snapshot(-1), series.end(-1), series.newest) == (0, -1, 0, FAR, -1)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12))
def test_a_sink_row_holds_unless_a_later_batch_made_its_snapshot_or_an_earlier_one(snapshots: list[int]) -> None:
    series = sink_sequence(rows(*enumerate(snapshots)))
    expected = [b for b, s in enumerate(snapshots) if all(s < later for later in snapshots[b + 1 :])]
    assert list(series.barriers) == expected
    assert [series.end(r) for r in range(len(series))] == [b if b + 1 < len(snapshots) else FAR for b in expected]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12))
def test_a_source_row_holds_unless_its_snapshot_was_made_anew_after_it(snapshots: list[int]) -> None:
    falls = [(i, snapshots[i + 1]) for i in range(len(snapshots) - 1) if snapshots[i + 1] < snapshots[i]]
    expected = [b for b, s in enumerate(snapshots) if not any(b <= i and s >= to for i, to in falls)]
    series = source_sequence(rows(*enumerate(snapshots)))
    assert list(series.barriers) == expected
    assert list(series.snapshots) == sorted(series.snapshots)
