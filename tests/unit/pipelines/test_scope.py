"""Tables and jobs of a pipeline, in the order of their flow."""

from __future__ import annotations

import pyarrow as pa

from paimon_spark.lineage.asking.graph import Graph, GraphPart, Node
from paimon_spark.lineage.index.provenance import TableRef
from paimon_spark.lineage.index.tables import SINK_JOB, SOURCE_JOB
from paimon_spark.pipelines.scope import part_of, scope_of, scope_of_jobs


def graph(*jobs: tuple[str, str, str], warehouse: str = "w", sinks_in: str = "w", batch: str = "") -> Graph:
    """Each job with its sources and its sinks, and the batch jobs, as names separated by blanks."""
    reads = [(job, *TableRef.parse(f"db.{n}")) for job, sources, _ in jobs for n in sources.split()]
    writes = [(job, *TableRef.parse(f"db.{n}")) for job, _, sinks in jobs for n in sinks.split()]
    empty: list[pa.Table] = [SOURCE_JOB.schema.empty_table(), SINK_JOB.schema.empty_table()]
    sources = SOURCE_JOB.to_arrow(reads) if reads else empty[0]
    sinks = SINK_JOB.to_arrow(writes) if writes else empty[1]
    if sinks_in == warehouse:
        return Graph.of([GraphPart(warehouse, sources, sinks)], batch.split().__contains__)
    return Graph.of([GraphPart(warehouse, sources, empty[1]), GraphPart(sinks_in, empty[0], sinks)])


def node(name: str) -> Node:
    return Node("w", TableRef.parse(f"db.{name}"))


def names(nodes: tuple[Node, ...]) -> list[str]:
    return [n.ref.table for n in nodes]


def test_jobs_come_after_those_that_they_read_from() -> None:
    found = scope_of(graph(("z", "a", "b"), ("y", "b", "c"), ("x", "a c", "d")), [node("a")])
    assert names(found.tables) == ["a", "b", "c", "d"]
    assert found.jobs == ("z", "y", "x")
    assert dict(found.order) == {"z": 1, "y": 2, "x": 3}
    assert names(found.derived) == ["b", "c", "d"]
    assert names(found.sources["x"]) == ["a", "c"]


def test_a_ring_is_broken() -> None:
    found = scope_of(graph(("j", "a c", "b"), ("k", "b", "c")), [node("a")])
    assert names(found.tables) == ["a", "b", "c"] or names(found.tables) == ["a", "c", "b"]
    assert sorted(found.order.values()) == [1, 2]
    own = scope_of(graph(("j", "a", "a")), [node("a")])
    assert (names(own.tables), own.jobs) == (["a"], ("j",))


def test_a_batch_job_that_reads_and_writes_one_table_is_no_step() -> None:
    """Somebody copied rows of main to a branch, which became main since; and a named job, which reads its own sink too.

    On main alone a table is no source of itself: the same job is no step before that either.
    """
    every = graph(
        ("db.a:insert:8f521a83", "a", "a a$branch_fix"),
        ("dedup", "b", "b"),
        ("j", "a b", "b"),
        batch="j dedup db.a:insert:8f521a83",
    )
    found = scope_of(every, [node("a")])
    assert (found.jobs, dict(found.order), names(found.derived)) == (("j",), {"j": 1}, ["b"])
    assert names(found.sources["j"]) == ["a"], "it looked at its own sink"
    assert scope_of(every, [node("b")]).jobs == ()
    up = scope_of(every, [node("b")], downstream=False, upstream=True)
    assert (names(up.tables), up.jobs) == (["a", "b"], ("j",))
    before = scope_of_jobs(every, [node("a"), node("b")], ["db.a:insert:8f521a83", "j"])
    assert before.jobs == ("j",), "a branch that was created with it has no such step"


def test_what_only_branches_have_is_left_out() -> None:
    found = scope_of(
        graph(("j", "a a$branch_fix", "b b$branch_fix"), ("k", "a$branch_fix", "c$branch_fix")), [node("a")]
    )
    assert names(found.tables) == ["a", "b"]
    assert found.jobs == ("j",)
    assert names(found.sources["j"]) == ["a"]


def test_a_table_without_jobs_is_a_pipeline() -> None:
    found = scope_of(graph(("j", "a", "b")), [node("alone")])
    assert (names(found.tables), found.jobs) == (["alone"], ())


def test_it_stops_at_tables_but_still_has_them() -> None:
    every = graph(("j", "a", "b"), ("k", "b", "c"))
    found = scope_of(every, [node("a")], stop_at=[node("b")])
    assert (names(found.tables), found.jobs) == (["a", "b"], ("j",))
    up = scope_of(every, [node("c")], downstream=False, upstream=True, stop_at=[node("b")])
    assert (names(up.tables), up.jobs) == (["b", "c"], ("k",))


def test_tables_of_other_warehouses_are_named_and_left_out() -> None:
    found = scope_of(graph(("j", "a", "b"), sinks_in="other"), [node("a")])
    assert (names(found.tables), found.jobs) == (["a"], ())
    assert [(n.warehouse, n.ref.table) for n in found.outside] == [("other", "b")]


def test_two_jobs_that_write_one_table_both_belong() -> None:
    found = scope_of(graph(("j", "a", "c"), ("k", "b", "c")), [node("a")])
    assert (names(found.tables), found.jobs) == (["a", "c"], ("j",))
    both = scope_of(graph(("j", "a", "c"), ("k", "b", "c")), [node("c")], upstream=True)
    assert (names(both.tables), both.jobs) == (["a", "b", "c"], ("j", "k"))


def test_the_graph_of_a_part_has_no_other_tables() -> None:
    every = graph(("j", "a", "b"), ("k", "b", "c"))
    found = scope_of(every, [node("a")], stop_at=[node("b")])
    part = part_of(every, found)
    assert names(part.tables) == ["a", "b"]
    assert part.jobs == ("j",)
