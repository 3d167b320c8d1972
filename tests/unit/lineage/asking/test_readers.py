"""Readers: the same as following one snapshot after another, at the cost of a few columns."""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from paimon_spark.lineage.asking.graph import Graph, Node
from paimon_spark.lineage.asking.reach import downstream, impact, upstream
from paimon_spark.lineage.asking.results import Batch, ProvenanceOf
from paimon_spark.lineage.asking.unified_version import unified_version
from paimon_spark.lineage.index.provenance import Provenance, SourceRange
from tests.harness.lineage_pipelines import Pipeline, graph_of, node, pipelines

A, B, C, D, E = (node(n) for n in "abcde")

# --- one snapshot after another


def one_after_another(
    graph: Graph, asked: Node, snapshot: int, provenance_of: ProvenanceOf
) -> dict[Node, dict[tuple[str, int], Batch]]:
    """Table → (job, barrier) → batch, snapshot by snapshot."""
    found: dict[Node, dict[tuple[str, int], Batch]] = {}
    todo = [(asked, snapshot, True)]
    done: set[tuple[Node, int, bool]] = set()
    while todo:
        table, at, sure = todo.pop()
        if (table, at, sure) in done:
            continue
        done.add((table, at, sure))
        for job, sink in [(j, s) for j in graph.read_by.get(table, ()) for s in graph.writes.get(j, ())]:
            for batch in batches_of(graph, job, table, at, sink, provenance_of):
                known = replace(batch, certain=batch.certain and sure)
                before = found.setdefault(sink, {}).get((job, batch.barrier))
                if before is None or not before.certain:
                    gone = known.snapshot is not None and is_replaced(graph, job, sink, batch.barrier, provenance_of)
                    found[sink][job, batch.barrier] = replace(known, snapshot=None) if gone else known
                    if known.snapshot is not None:
                        todo.append((sink, known.snapshot, known.certain))
    return found


def batches_of(
    graph: Graph, job: str, table: Node, at: int, sink: Node, provenance_of: ProvenanceOf
) -> Iterator[Batch]:
    """The batches of a job that read a snapshot, and what they made of a sink."""
    series, sinks = graph.sources(job, table), graph.sinks(job, sink)
    row = bisect_left(series.snapshots, at)
    reached = series.barriers[row] if row < len(series) else None
    begun = series.barriers[bisect_left(series.snapshots, series.snapshots[row - 1])] if row else -1

    def reads(i: int) -> bool | None:
        """Whether a sink's row says that it read the snapshot; None: it does not say."""
        said = says(graph, job, sink, i, provenance_of)
        read = (
            None if said is None else next((s for s in said.sources if of_table(s, sink) == table), SourceRange(None))
        )
        return None if read is None else read.within == at or (read.after or 0) < at <= (read.last or 0)

    newest = len(sinks) if reached is None else bisect_left(sinks.barriers, reached)
    for i in range(newest - 1, bisect_left(sinks.barriers, begun) - 1, -1):
        if reads(i) is not False:
            if not is_replaced(graph, job, sink, sinks.barriers[i], provenance_of):
                yield Batch(job, sinks.barriers[i], sinks.snapshots[i], reads(i) is not None)
        elif is_stream(graph, job, provenance_of):
            break
    if reached is None:
        return
    if newest == len(sinks) or sinks.barriers[newest] != reached:
        yield Batch(job, reached)
        newest -= 1
    elif reads(newest) is not False:
        yield Batch(job, reached, sinks.snapshots[newest])
    for i in range(newest + 1, len(sinks)) if not is_stream(graph, job, provenance_of) else ():
        if reads(i) is not False:
            yield Batch(job, sinks.barriers[i], sinks.snapshots[i], reads(i) is not None)


def of_table(source: SourceRange, sink: Node) -> Node | None:
    return None if source.ref is None else Node(source.warehouse or sink.warehouse, source.ref)


def says(graph: Graph, job: str, sink: Node, row: int, provenance_of: ProvenanceOf) -> Provenance | None:
    sinks = graph.sinks(job, sink)
    said = provenance_of(sink, sinks.snapshots[row])
    return said if said is not None and (said.job, said.barrier) == (job, sinks.barriers[row]) else None


def is_replaced(graph: Graph, job: str, sink: Node, barrier: int, provenance_of: ProvenanceOf) -> bool:
    """Whether the snapshot that has the id by now is another batch's."""
    sinks = graph.sinks(job, sink)
    said = provenance_of(sink, sinks.snapshots[bisect_left(sinks.barriers, barrier)])
    return said is not None and (said.job, said.barrier) != (job, barrier)


def is_stream(graph: Graph, job: str, provenance_of: ProvenanceOf) -> bool:
    newest = [(s, len(graph.sinks(job, s)) - 1) for s in graph.writes[job] if len(graph.sinks(job, s))]
    told = [said for s, row in newest if (said := says(graph, job, s, row, provenance_of)) is not None]
    return bool(told) and told[0].query_id is not None


@given(pipelines(parts=True, steps=40), st.data())
def test_the_same_batches_are_found_as_by_following_one_snapshot_after_another(
    pipeline: Pipeline, data: st.DataObject
) -> None:
    """Streams and batch jobs; snapshots that tell what they read, such as have expired, such as are others' by now."""
    graph = pipeline.graph()
    asked = data.draw(st.sampled_from(graph.tables))
    snapshot = data.draw(st.integers(1, max(1, pipeline.heads[asked])))
    made = sorted(pipeline.provenance)
    expired = data.draw(st.one_of(st.just(set(made)), st.sets(st.sampled_from(made)))) if made else set()
    batch_jobs = data.draw(st.sets(st.sampled_from(sorted(pipeline.reads))))
    replaced = data.draw(st.sets(st.sampled_from(made), max_size=3)) if made else set()
    whole = data.draw(st.booleans())

    def provenance_of(table: Node, at: int) -> Provenance | None:
        said = None if (table, at) in expired else pipeline.provenance_of(table, at)
        if (table, at) in replaced:
            return Provenance("of a merge", at)
        if said is None or said.job not in batch_jobs:
            return said
        sources = tuple(replace(s, after=None) if whole else s for s in said.sources)
        return replace(said, query_id=None, sources=sources)

    expected = one_after_another(graph, asked, snapshot, provenance_of)
    event(f"{min(10, sum(map(len, expected.values())))} batches")
    found = impact(graph, asked, snapshot, provenance_of)
    wanted = {
        sink: tuple(sorted(batches.values(), key=lambda b: (b.job, b.barrier))) for sink, batches in expected.items()
    }
    again = wanted.pop(asked, ())  # the table is downstream of itself
    assert {t.node: t.batches for t in found.tables if t.batches} == wanted
    assert found.origin.batches == tuple(dict.fromkeys((*found.made_by, *again)))
    for table in found.tables:
        assert table.snapshots == tuple(sorted({b.snapshot for b in table.batches if b.snapshot is not None}))
    below = downstream(graph, asked, snapshot, provenance_of).tables
    assert [t.snapshot for t in below if t.node != asked] == [t.first for t in found.tables]


# --- what answers cost


def ladder(barriers: int) -> Graph:
    """a → b, c → d → e, every batch from one snapshot to one."""
    read = [(job, n, table, n + 1) for job, table in EDGES for n in range(barriers)]
    made = [(job, n, table, n + 1) for job, table in SINKS for n in range(barriers)]
    return graph_of(read, made)


EDGES = (("jb", A), ("jc", A), ("jd", B), ("jd", C), ("je", D))
SINKS = (("jb", B), ("jc", C), ("jd", D), ("je", E))


def calls_of(act: Callable[[], Any]) -> int:
    """Calls of functions, of Python and of C, that something makes."""
    count = 0

    def profile(_frame: Any, what: str, _of: Any) -> None:
        nonlocal count
        count += what in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        act()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.ci
@pytest.mark.parametrize(
    "ask",
    [
        lambda graph, at: downstream(graph, A, at),
        lambda graph, at: upstream(graph, E, at),
        lambda graph, _: unified_version(graph, [E, B]),
    ],
    ids=["downstream", "upstream", "unified_version"],
)
def test_an_answer_takes_the_same_calls_however_many_batches_there_are(ask: Callable[[Graph, int], Any]) -> None:
    """The work is columns, so that it grows with the rows and no faster."""
    few, many = ladder(100), ladder(3000)
    ask(few, 50)  # what is made once in a process
    assert calls_of(lambda: ask(ladder_again(many), 1500)) <= calls_of(lambda: ask(ladder_again(few), 50)) + 50


def ladder_again(graph: Graph) -> Graph:
    """Of the same rows, with nothing looked into yet."""
    return Graph.of(graph.parts)


def test_impact_takes_a_few_calls_more_for_each_batch_that_it_names() -> None:
    few, many = ladder(100), ladder(3000)
    impact(few, A, 50)
    least = calls_of(lambda: impact(ladder_again(few), A, 100))
    named = sum(len(t.batches) for t in impact(many, A, 1500).tables)
    assert named > 5000
    assert calls_of(lambda: impact(ladder_again(many), A, 1500)) < least + 3 * named


def test_each_snapshot_is_looked_at_once_however_many_it_is_asked_about() -> None:
    count = 1000
    looked: list[tuple[Node, int]] = []

    def batch_jobs(table: Node, snapshot: int) -> Provenance | None:
        looked.append((table, snapshot))
        job = next(j for j, sink in SINKS if sink == table) if table != A else None
        sources = tuple(SourceRange(s.ref, last=snapshot) for j, s in EDGES if j == job)
        return Provenance(job, snapshot - 1, sources) if job else None

    found = impact(ladder(count), A, 500, batch_jobs)
    assert [t.snapshots for t in found.tables] == [tuple(range(500, count + 1))] * len(SINKS)
    assert len(looked) == len(set(looked))


def test_a_long_stream_is_followed_from_batch_to_batch_at_a_look_or_two_each() -> None:
    """jb may read a whole each time, so all its later snapshots count; jd and je are streams that read each of them."""
    count = 1000
    looked = 0

    def streams(table: Node, snapshot: int) -> Provenance | None:
        nonlocal looked
        looked += 1
        if table not in (D, E):
            return None
        job = "jd" if table == D else "je"
        sources = tuple(SourceRange(s.ref, None, None, snapshot - 1, snapshot) for j, s in EDGES if j == job)
        return Provenance(job, snapshot - 1, sources, "query")

    found = {t.node: t for t in impact(ladder(count), A, 500, streams).tables}
    assert found[E].snapshots == tuple(range(499, count + 1))  # 500 may have been begun with 499
    assert looked <= len(SINKS) * (count / 2 + 5)
