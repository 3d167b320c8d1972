"""Upstream, downstream and impact: of small pictures, and what must hold of any pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from paimon_spark.errors import JobNotFoundError, LineageError
from paimon_spark.lineage.asking.graph import NOWHERE, Node
from paimon_spark.lineage.asking.reach import downstream, impact, upstream
from paimon_spark.lineage.asking.results import Batch, Met, Refs, Relations
from paimon_spark.lineage.index.provenance import Provenance, SourceRange
from tests.harness.lineage_pipelines import TWO, Pipeline, graph_of, node, pipelines

A, B, C, D, E = (node(n) for n in "abcde")

# --- what must hold


def distances(start: Node, steps: Mapping[Node, set[Node]]) -> dict[Node, int]:
    """Table → the least number of jobs to it, found by going round until nothing changes."""
    found: dict[Node, int] = dict.fromkeys(steps.get(start, ()), 1)
    changed = True
    while changed:
        changed = False
        for near, far in [(n, f) for n in list(found) for f in steps.get(n, ())]:
            if found[near] + 1 < found.get(far, 99):
                found[far] = found[near] + 1
                changed = True
    return found


def steps_of(pipeline: Pipeline, *, down: bool) -> dict[Node, set[Node]]:
    found: dict[Node, set[Node]] = {}
    for job in pipeline.reads:
        for source in pipeline.reads[job]:
            for sink in pipeline.writes[job]:
                one, other = (source, sink) if down else (sink, source)
                found.setdefault(one, set()).add(other)
    return found


@given(pipelines(), st.data(), st.booleans())
def test_every_table_is_reached_by_a_shortest_way(pipeline: Pipeline, data: st.DataObject, down: bool) -> None:
    graph = pipeline.graph()
    asked = data.draw(st.sampled_from(graph.tables))
    found = (downstream if down else upstream)(graph, asked)
    assert {t.node: t.depth for t in found.tables} == distances(asked, steps_of(pipeline, down=down))
    assert [t.depth for t in found.tables] == sorted(t.depth for t in found.tables)
    near, far = (pipeline.reads, pipeline.writes) if down else (pipeline.writes, pipeline.reads)
    for table in found.tables:
        assert len(table.path) == 2 * table.depth + 1
        assert (table.path[0], table.path[-1]) == (asked.name, table.node.name)
        for one, job, other in zip(table.path[::2], table.path[1::2], table.path[2::2], strict=False):
            assert one in {n.name for n in near[job]}
            assert other in {n.name for n in far[job]}
    reached = {asked, *(t.node for t in found.tables)}
    assert {j.job for j in found.jobs} == {j for j in near if reached & set(near[j])}


@given(pipelines(), st.data())
def test_a_snapshot_stems_from_what_its_job_had_read(pipeline: Pipeline, data: st.DataObject) -> None:
    """The nearest tables: by the rows, the newest row of each source up to the batch that made it."""
    graph = pipeline.graph()
    asked = data.draw(st.sampled_from(graph.tables))
    snapshot = data.draw(st.integers(1, max(1, pipeline.heads[asked])))
    found = upstream(graph, asked, snapshot)
    for job in pipeline.writers(asked):
        barrier = max((b for j, b, n, s in pipeline.made if (j, n) == (job, asked) and s <= snapshot), default=-1)
        for source in pipeline.reads[job] if barrier >= 0 else ():
            last = max((s for j, b, n, s in pipeline.read if (j, n) == (job, source) and b <= barrier), default=0)
            after = max((s for j, b, n, s in pipeline.read if (j, n) == (job, source) and b < barrier), default=0)
            met = next(t for t in found.tables if t.node == source).met
            assert Met(job, barrier, asked, after, last) in met
    assert bool(found.made_by) == any((n, s) == (asked, snapshot) for _, _, n, s in pipeline.made)
    assert (found.note is None) == bool(found.made_by)


@given(pipelines(rings=False), st.data())
def test_what_is_upstream_of_a_snapshot_has_it_downstream(pipeline: Pipeline, data: st.DataObject) -> None:
    graph = pipeline.graph()
    asked = data.draw(st.sampled_from(graph.tables))
    found = upstream(graph, asked, data.draw(st.integers(1, max(1, pipeline.heads[asked]))))
    for table in found.tables:
        if table.snapshot:
            first = next(t.snapshot for t in downstream(graph, table.node, table.snapshot).tables if t.node == asked)
            assert first is not None
            assert first <= (found.snapshot or 0)


@given(pipelines(parts=True), st.data(), st.booleans())
def test_impact_misses_no_snapshot_that_holds_a_row(pipeline: Pipeline, data: st.DataObject, told: bool) -> None:
    """Rows of data: wherever a row of the snapshot arrived, that snapshot is named."""
    graph = pipeline.graph()
    asked = data.draw(st.sampled_from(graph.tables))
    snapshot = data.draw(st.integers(1, max(1, pipeline.heads[asked])))
    found = impact(graph, asked, snapshot, pipeline.provenance_of if told else None)
    rows = {row for s, row in pipeline.data.get(asked, ()) if s == snapshot}
    arrived: dict[Node, set[int]] = {}
    for table in pipeline.nodes:
        for s, row in pipeline.data.get(table, ()):
            if any(ancestor in rows for ancestor in histories(row)):
                arrived.setdefault(table, set()).add(s)
    event("arrived" if arrived else "nowhere")
    for table, snapshots in arrived.items():
        affected = next(t for t in (found.origin, *found.tables) if t.node == table)
        assert snapshots <= set(affected.snapshots)
        assert affected.first is not None
        assert affected.first <= min(snapshots)


def histories(row: Any) -> list[Any]:
    """What a row was before each of its jobs."""
    found = []
    while row[0] != "in":
        row = row[2]
        found.append(row)
    return found


@given(pipelines(parts=True), st.data())
def test_impact_is_exact_where_snapshots_tell_what_they_read(pipeline: Pipeline, data: st.DataObject) -> None:
    graph = pipeline.graph()
    asked = data.draw(st.sampled_from(graph.tables))
    snapshot = data.draw(st.integers(1, max(1, pipeline.heads[asked])))
    found = impact(graph, asked, snapshot, pipeline.provenance_of)
    expected: set[tuple[Node, int]] = set()
    todo = [(asked, snapshot)]
    while todo:
        table, at = todo.pop()
        for (sink, made), said in pipeline.provenance.items():
            for s in said.sources:
                if (s.warehouse or sink.warehouse, s.ref) == table and (
                    s.within == at or (s.after or 0) < at <= (s.last or 0)
                ):
                    if (sink, made) not in expected:
                        todo.append((sink, made))
                    expected.add((sink, made))
    holding = {(t.node, s) for t in (found.origin, *found.tables) for s in t.snapshots}
    assert holding == {(asked, snapshot), *expected}
    assert all(b.certain for t in found.tables for b in t.batches)


# --- a picture: a -j→ b -k→ c, with b in another warehouse; d is written by hand

HERE = graph_of(
    [("j", 0, A, 3), ("j", 1, A, 5), ("j", 2, A, 5), ("k", 0, node("b", TWO), 1), ("k", 7, node("b", TWO), 2)],
    [("j", 0, node("b", TWO), 1), ("j", 1, node("b", TWO), 2), ("k", 0, C, 4), ("k", 7, C, 6)],
)
THERE = node("b", TWO)


def test_upstream_of_a_table_and_of_a_job() -> None:
    found = upstream(HERE, C)
    assert [(t.node, t.depth, t.path, t.snapshot, t.met) for t in found.tables] == [
        (THERE, 1, ("db.c", "k", "db.b"), None, ()),
        (A, 2, ("db.c", "k", "db.b", "j", "db.a"), None, ()),
    ]
    assert [(j.job, j.depth, j.path) for j in found.jobs] == [
        ("k", 1, ("db.c", "k")),
        ("j", 2, ("db.c", "k", "db.b", "j")),
    ]
    of_job = upstream(HERE, "k")
    assert [(t.node, t.depth, t.path) for t in of_job.tables] == [
        (THERE, 1, ("k", "db.b")),
        (A, 2, ("k", "db.b", "j", "db.a")),
    ]
    assert [(j.job, j.depth) for j in of_job.jobs] == [("j", 2)]
    assert upstream(HERE, A).tables == ()


def test_downstream_of_a_table_and_of_a_job() -> None:
    assert [(t.node, t.depth) for t in downstream(HERE, A).tables] == [(THERE, 1), (C, 2)]
    assert [(t.node, t.depth) for t in downstream(HERE, "j").tables] == [(THERE, 1), (C, 2)]
    assert [j.job for j in downstream(HERE, "j").jobs] == ["k"]
    assert downstream(HERE, C).jobs == ()


def test_upstream_of_a_snapshot_tells_the_snapshots_it_stems_from_and_what_its_batch_read() -> None:
    found = upstream(HERE, C, 6)
    assert [(t.node, t.snapshot, t.met) for t in found.tables] == [
        (THERE, 2, (Met("k", 7, C, 1, 2),)),
        (A, 5, (Met("j", 1, THERE, 3, 5),)),
    ]
    assert (found.made_by, found.note) == ((Batch("k", 7, 6),), None)


def test_the_properties_of_a_snapshot_tell_more_than_rows_do() -> None:
    sources = (
        SourceRange(THERE.ref, TWO, after=1, last=1, within=2),
        SourceRange(None, location="file:///alone", after=0, last=9),
    )
    said = {(C, 6): Provenance("k", 7, sources, "q")}
    found = upstream(HERE, C, 6, lambda *key: said.get(key))
    by_node = {t.node: t for t in found.tables}
    assert by_node[THERE].met == (Met("k", 7, C, 1, 1, 2),)
    alone = by_node[Node("file:///alone", NOWHERE)]
    assert (alone.node.name, alone.snapshot, alone.path) == ("file:///alone", 9, ("db.c", "k", "file:///alone"))
    assert by_node[A].snapshot == 3


def test_a_snapshot_stems_from_what_it_says_itself_where_rows_tell_of_another_history() -> None:
    """Main was merged: 2 and 3 of b are of job `fix` now; 4 is a copy of 2."""
    graph = graph_of(
        [("j", b, A, b + 1) for b in range(3)] + [("fix", 0, A, 7), ("fix", 1, A, 8)],
        [("j", b, B, b + 1) for b in range(3)] + [("fix", 0, B, 2), ("fix", 1, B, 3)],
    )
    second = Provenance("fix", 0, (SourceRange(A.ref, last=7),))
    told = {1: Provenance("j", 0, (SourceRange(A.ref, last=1),)), 2: second, 4: second}
    told[3] = Provenance("fix", 1, (SourceRange(A.ref, after=7, last=8),))

    def met(snapshot: int) -> set[tuple[str, int]]:
        found = upstream(graph, B, snapshot, lambda n, s: told.get(s) if n == B else None)
        return {(m.job, m.last) for m in found.tables[0].met}

    assert met(3) == {("j", 1), ("fix", 8)}
    assert met(4) == {("j", 1), ("fix", 7)}


def test_a_snapshot_stems_from_what_its_job_read_and_not_from_the_former_main_that_this_was_copied_from() -> None:
    """Main of a and b was replaced; `copy` had written the branch of a from what main had, up to 6."""
    a_fix, b_fix = node("a$branch_fix"), node("b$branch_fix")
    graph = graph_of(
        [("j", b, A, b + 1) for b in range(6)] + [("copy", 0, A, 6), ("jfix", 0, a_fix, 3), ("jfix", 1, A, 4)],
        [("j", b, B, b + 1) for b in range(6)]
        + [("copy", 0, a_fix, 3), ("copy", 0, A, 3), ("jfix", 0, b_fix, 3), ("jfix", 0, B, 3), ("jfix", 1, B, 4)],
        batch=["copy"],
    )
    in_b = {b + 1: Provenance("j", b, (SourceRange(A.ref, after=b, last=b + 1),), "q") for b in range(2)}
    in_b[3] = Provenance("jfix", 0, (SourceRange(a_fix.ref, after=2, last=3),), "p")
    in_b[4] = Provenance("jfix", 1, (SourceRange(A.ref, after=3, last=4),), "p")
    in_a = {3: Provenance("copy", 0, (SourceRange(A.ref, last=6),))}
    told = {A: in_a, a_fix: in_a, B: in_b, b_fix: in_b}

    def is_replaced(source: Node, read: int, sink: Node, made: int) -> bool:
        return source in (A, B) and read > 4

    def asked(table: Node, snapshot: int) -> Relations:
        return upstream(graph, table, snapshot, lambda n, s: told.get(n, {}).get(s), is_replaced)

    found = {t.node: t for t in asked(B, 4).tables}
    assert (found[A].snapshot, found[A].is_replaced) == (4, False)
    assert found[A].path == ("db.b", "jfix", "db.a"), "the job that read it, not the first by name"
    itself = asked(A, 4)
    assert itself.snapshots["db.a"] == 6
    assert "6 (replaced since)" in str(itself)


def test_a_snapshot_that_a_branch_shares_stems_from_what_its_job_read() -> None:
    """`fix` writes a branch of b that was made from snapshot 1, which job j made."""
    branch = node("b$branch_fix")
    graph = graph_of([("j", 0, A, 7), ("fix", 0, A, 9)], [("j", 0, B, 1), ("fix", 0, branch, 2)])
    told = Provenance("j", 0, (SourceRange(A.ref, last=7),))
    found = upstream(graph, branch, 1, lambda n, s: told if s == 1 else None)
    assert {t.node: t.snapshot for t in found.tables} == {A: 7}


def test_a_snapshot_that_no_job_recorded_is_said_to_be_such() -> None:
    found = upstream(HERE, C, 5)
    assert found.made_by == ()
    assert found.note is not None
    assert found.note.startswith("no job recorded snapshot 5 of db.c")
    assert found.note.endswith("the last one recorded before it: snapshot 4, by job 'k'")
    assert {t.node: t.snapshot for t in found.tables} == {THERE: 1, A: 3}
    assert impact(HERE, A, 2).note == "no recorded job writes db.a"
    before = upstream(HERE, C, 1)
    assert before.note is not None
    assert before.note.endswith("before it: none")
    assert {t.node: t.snapshot for t in before.tables} == {THERE: 0, A: 0}


def test_what_is_not_there_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(LineageError, match=r"no job reads or writes table 'db\.cc'.*did you mean 'db\.c'"):
        upstream(HERE, node("cc"))
    with pytest.raises(JobNotFoundError, match=r"no job 'q'.*jobs: j, k"):
        downstream(HERE, "q")
    with pytest.raises(LineageError, match="job 'k' has no snapshots"):
        upstream(HERE, "k", 3)
    for ask in (upstream, downstream, impact):
        with pytest.raises(LineageError, match="has no snapshot 0: ids begin at 1"):
            ask(HERE, C, 0)


def test_a_table_in_a_ring_comes_from_itself() -> None:
    graph = graph_of([("j", 0, A, 1), ("k", 0, B, 1), ("j", 1, A, 2)], [("j", 0, B, 1), ("k", 0, A, 2), ("j", 1, B, 2)])
    assert [(t.node, t.depth) for t in upstream(graph, A).tables] == [(B, 1), (A, 2)]
    found = upstream(graph, B, 2)
    assert {t.node: t.snapshot for t in found.tables} == {A: 2, B: 1}
    made = impact(graph, A, 1)
    assert {t.node: t.snapshots for t in (made.origin, *made.tables)} == {B: (1, 2), A: (1, 2)}
    assert [t.node for t in made.tables] == [B]


def test_a_state_torn_in_two_is_told() -> None:
    """d takes a through b, and through c, which is behind."""
    read = [("jb", 0, A, 2), ("jc", 0, A, 1), ("jd", 0, B, 1), ("jd", 0, C, 1)]
    graph = graph_of(read, [("jb", 0, B, 1), ("jc", 0, C, 1), ("jd", 0, D, 1)])
    found = next(t for t in upstream(graph, D, 1).tables if t.node == A)
    assert (found.snapshot, [m.last for m in found.met]) == (2, [2, 1])


# --- impact

STREAM = [Provenance("j", b, (SourceRange(A.ref, after=b, last=b + 1),), "q") for b in range(4)]


def stream(table: Node, snapshot: int) -> Provenance | None:
    return STREAM[snapshot - 1] if table == B else None


def chain_of_four() -> tuple[list[tuple[str, int, Node, int]], list[tuple[str, int, Node, int]]]:
    return [("j", b, A, b + 1) for b in range(4)], [("j", b, B, b + 1) for b in range(4)]


def test_impact_tells_snapshots_tags_and_branches_and_what_is_alive() -> None:
    graph = graph_of(*chain_of_four())
    refs = {
        A: Refs((2, 4), {"old": 1, "bad": 2, "later": 4}, {"fix": 2}),
        B: Refs((3, 4), {"kept": 2, "clean": 1}, {"early": 1}),
    }
    found = impact(graph, A, 2, stream, refs.__getitem__)
    assert (found.origin.first, found.origin.depth) == (2, 0)
    assert found.origin.tags == (("bad", 2), ("later", 4))
    assert found.origin.branches == (("fix", 2),)
    (b,) = found.tables
    assert (b.first, b.snapshots, b.alive, b.tags, b.branches) == (2, (2,), (), (("kept", 2),), ())
    assert b.batches == (Batch("j", 1, 2),)
    assert [j.job for j in found.jobs] == ["j"]


def test_a_job_that_may_read_its_source_whole_each_time_has_it_in_all_later_snapshots() -> None:
    graph = graph_of(*chain_of_four())
    (b,) = impact(graph, A, 2).tables
    assert [(x.snapshot, x.certain) for x in b.batches] == [(1, False), (2, True), (3, False), (4, False)]

    def batch_job(table: Node, snapshot: int) -> Provenance | None:
        sources = (SourceRange(A.ref, after=None, last=snapshot),)
        return Provenance("j", snapshot - 1, sources) if table == B else None

    (b,) = impact(graph, A, 2, batch_job).tables
    assert [(x.snapshot, x.certain) for x in b.batches] == [(2, True), (3, True), (4, True)]


def test_a_snapshot_that_nobody_read_yet_has_gone_nowhere() -> None:
    (b,) = impact(graph_of(*chain_of_four()), A, 9, stream).tables
    assert (b.first, b.snapshots, b.batches) == (None, (), ())


def test_a_batch_that_read_it_and_had_nothing_to_write_is_named() -> None:
    read, made = chain_of_four()
    graph = graph_of(read, [m for m in made if m[1] != 1])
    (b,) = impact(graph, A, 2, stream).tables
    assert (b.snapshots, b.first, b.batches) == ((), 3, (Batch("j", 1),))


def test_a_part_read_counts() -> None:
    """Rows say 1, 1, 2; the second batch read a part of 2."""
    read = [("j", 0, A, 1), ("j", 1, A, 1), ("j", 2, A, 2)]
    graph = graph_of(read, [("j", b, B, b + 1) for b in range(3)])
    (b,) = impact(graph, A, 2).tables
    assert b.snapshots == (1, 2, 3)
    said = [
        SourceRange(A.ref, after=0, last=1),
        SourceRange(A.ref, after=1, last=1, within=2),
        SourceRange(A.ref, after=1, last=2),
    ]
    (b,) = impact(graph, A, 2, lambda n, s: Provenance("j", s - 1, (said[s - 1],), "q") if n == B else None).tables
    assert b.batches == (Batch("j", 1, 2), Batch("j", 2, 3))


def test_a_quiet_source_of_a_busy_job_is_looked_for_in_few_snapshots() -> None:
    """j reads snapshot after snapshot of a, and long ago one of e; a new one of e was read by nobody."""
    count = 5_000
    read = [("j", b, A, b + 1) for b in range(count)] + [("j", b, E, 1) for b in range(count)]
    graph = graph_of(read, [("j", b, B, b + 1) for b in range(count)])
    looked: list[int] = []

    def provenance_of(table: Node, snapshot: int) -> Provenance | None:
        looked.append(snapshot)
        sources = (SourceRange(A.ref, after=snapshot - 1, last=snapshot), SourceRange(E.ref, after=1, last=1))
        return Provenance("j", snapshot - 1, sources, "q") if table == B else None

    (b,) = impact(graph, E, 2, provenance_of).tables
    assert b.snapshots == ()
    assert len(looked) < 5
