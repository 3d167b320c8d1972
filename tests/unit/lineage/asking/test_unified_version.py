"""The unified version: PIP-5's picture, and what must hold of any pipeline."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from paimon_spark.errors import LineageError
from paimon_spark.lineage.asking import unified_version as unified
from paimon_spark.lineage.asking.graph import Graph, Node
from paimon_spark.lineage.asking.snapshot_facts import NewestBetween, SnapshotFacts
from paimon_spark.lineage.index.provenance import Provenance, SourceRange
from tests.harness.lineage_pipelines import TWO, Pipeline, graph_of, node, pipelines


def unified_version(
    graph: Graph, tables: Sequence[Node], *, ignoring: Sequence[str] = (), **history: Any
) -> unified.Unified:
    return unified.unified_version(graph, tables, SnapshotFacts(**history), ignoring)


def start_snapshots(graph: Graph, tables: Sequence[Node], **history: Any) -> Mapping[Node, int]:
    return unified.start_snapshots(graph, tables, SnapshotFacts(**history))


# --- what must hold


@given(pipelines(), st.data())
def test_the_answer_is_what_trying_every_state_finds(pipeline: Pipeline, data: st.DataObject) -> None:
    """Rows only: every table above, and every one asked about, is met at one snapshot, and none is newer."""
    asked = data.draw(st.lists(st.sampled_from(pipeline.nodes), min_size=1, max_size=3, unique=True))
    lost = data.draw(st.sampled_from([0, 0, 0, 1, 2]))
    rows = pipeline.read[: len(pipeline.read) - lost]
    graph = graph_of(
        rows,
        pipeline.made,
        [(j, n) for j, some in pipeline.reads.items() for n in some],
        [(j, n) for j, some in pipeline.writes.items() for n in some],
    )
    asked = [n for n in asked if n in graph.tables]
    if not asked:
        return
    every = list(brute_force(pipeline, rows, asked))
    event("consistent" if every else "no version")
    if not every:
        with pytest.raises(LineageError, match="no unified version"):
            unified_version(graph, asked, is_compaction=pipeline.is_compaction)
        return
    newest = {n: max(state[n] for state in every) for n in every[0]}
    assert newest in every
    found = unified_version(graph, asked, is_compaction=pipeline.is_compaction)
    assert found.snapshots == {n: newest[n] for n in asked}
    assert found.sources == {n: s for n, s in newest.items() if n not in asked}


@given(pipelines(rings=False), st.data())
def test_the_tables_hold_what_the_same_sources_give(pipeline: Pipeline, data: st.DataObject) -> None:
    """Rows of data: each table at its snapshot is what its jobs make of the tables above at theirs."""
    asked = data.draw(st.lists(st.sampled_from(pipeline.graph().tables), min_size=1, max_size=3, unique=True))
    try:
        found = unified_version(pipeline.graph(), asked, is_compaction=pipeline.is_compaction)
    except LineageError:
        return
    at = {**found.sources, **found.snapshots}
    for table in at:
        assert pipeline.content(table, at[table]) == pipeline.worked_out(table, at)


@given(pipelines(rings=False, parts=True), st.data())
def test_snapshots_that_say_where_a_batch_ended_hold_what_the_same_sources_give(
    pipeline: Pipeline, data: st.DataObject
) -> None:
    """Rows of data: no table holds a part of a snapshot."""
    asked = data.draw(st.lists(st.sampled_from(pipeline.graph().tables), min_size=1, max_size=3, unique=True))
    try:
        found = unified_version(
            pipeline.graph(),
            asked,
            is_compaction=pipeline.is_compaction,
            newest_between=pipeline.newest_between,
            provenance_of=pipeline.provenance_of,
        )
    except LineageError:
        return
    at = {**found.sources, **found.snapshots}
    for table in at:
        assert pipeline.content(table, at[table]) == pipeline.worked_out(table, at)


@given(pipelines(rings=False, filters=False, by_hand=False, steps=16), st.data())
def test_no_newer_snapshots_hold_what_the_same_sources_give(pipeline: Pipeline, data: st.DataObject) -> None:
    """Where every row shows in every table below, whatever reads alike is found."""
    graph = pipeline.graph()
    asked = data.draw(st.lists(st.sampled_from(graph.tables), min_size=1, max_size=2, unique=True))
    try:
        found = unified_version(
            graph, asked, is_compaction=pipeline.is_compaction, newest_between=pipeline.newest_between
        )
    except LineageError:
        event("no version")
        at = dict.fromkeys(pipeline.nodes, 0)
    else:
        at = {**dict.fromkeys(pipeline.nodes, 0), **found.sources, **found.snapshots}
    for state in alike(pipeline, asked):
        for table in asked:
            newer = pipeline.content(table, state[table]) - pipeline.content(table, at[table])
            assert not newer, f"{table.name} could be at {state[table]}"


@given(pipelines(), st.data())
def test_a_unified_version_asked_again_with_the_tables_above_is_the_same(
    pipeline: Pipeline, data: st.DataObject
) -> None:
    graph = pipeline.graph()
    asked = data.draw(st.lists(st.sampled_from(graph.tables), min_size=1, max_size=2, unique=True))
    try:
        found = unified_version(graph, asked, is_compaction=pipeline.is_compaction)
    except LineageError:
        return
    above = [n for n, s in found.sources.items() if s]
    again = unified_version(graph, [*asked, *above], is_compaction=pipeline.is_compaction)
    assert {**again.sources, **again.snapshots} == {**found.sources, **found.snapshots}


# --- the brute force


def brute_force(
    pipeline: Pipeline, rows: list[tuple[str, int, Node, int]], asked: list[Node]
) -> Iterator[dict[Node, int]]:
    """Every consistent state of the asked tables and all above them, by the words of the definition."""
    closure: list[Node] = []
    todo = list(asked)
    while todo:
        if (table := todo.pop()) not in closure:
            closure.append(table)
            todo += [s for j in pipeline.writers(table) for s in pipeline.reads[j]]
    above = {n: reach(pipeline, n) for n in closure}

    def canon(table: Node, snapshot: int) -> int:
        while pipeline.is_compaction(table, snapshot):
            snapshot -= 1
        return snapshot

    allowed: dict[Node, list[tuple[int, list[list[dict[Node, int]]]]]] = {}
    for table in closure:
        ids = {s for _, _, n, s in (*rows, *pipeline.made) if n == table}
        if table not in asked:
            ids.add(0)
        allowed[table] = []
        for at in sorted(ids):
            of_jobs = []
            for job in pipeline.writers(table):
                made = [(b, s) for j, b, n, s in pipeline.made if (j, n) == (job, table)]
                read = [(b, n, s) for j, b, n, s in rows if j == job]
                sources = pipeline.reads[job]
                finished = min(
                    max((b for b, n, _ in read if n.warehouse == w), default=-1) for w in {n.warehouse for n in sources}
                )
                states = []
                for barrier in range(-1, finished + 1):
                    if sum(s <= at for _, s in made) != sum(b <= barrier for b, _ in made):
                        continue
                    states.append(
                        {
                            n: canon(n, max((s for b, m, s in read if m == n and b <= barrier), default=0))
                            for n in sources
                            if not (n in above[table] and table in above[n]) and n != table
                        }
                    )
                of_jobs.append([dict(t) for t in {tuple(s.items()) for s in states}])
            allowed[table].append((at, of_jobs))

    def choose(i: int, state: dict[Node, int]) -> Iterator[dict[Node, int]]:
        if i == len(closure):
            yield dict(state)
            return
        for at, _ in allowed[closure[i]]:
            state[closure[i]] = at
            seen = {n: canon(n, s) for n, s in state.items()}
            for table in closure[: i + 1]:
                options = next(o for a, o in allowed[table] if a == state[table])
                if not all(any(all(seen.get(n, s) == s for n, s in o.items()) for o in job) for job in options):
                    break
            else:
                yield from choose(i + 1, state)
            del state[closure[i]]

    yield from choose(0, {})


def reach(pipeline: Pipeline, table: Node) -> set[Node]:
    """Everything above a table."""
    found: set[Node] = set()
    todo = [table]
    while todo:
        for job in pipeline.writers(todo.pop()):
            todo += [s for s in pipeline.reads[job] if s not in found]
            found.update(pipeline.reads[job])
    return found


def alike(pipeline: Pipeline, asked: list[Node]) -> Iterator[dict[Node, int]]:
    """Snapshots of all tables such that the asked ones, and those above, hold what the roots at theirs give."""
    tables = sorted(set(asked).union(*(reach(pipeline, n) for n in asked)), key=pipeline.nodes.index)
    order = sorted(tables, key=lambda n: len(reach(pipeline, n)))

    def choose(i: int, state: dict[Node, int]) -> Iterator[dict[Node, int]]:
        if i == len(order):
            yield dict(state)
            return
        table = order[i]
        for at in range(1 if table in asked else 0, pipeline.heads[table] + 1):
            state[table] = at
            if pipeline.is_compaction(table, at):
                continue
            if pipeline.content(table, at) == pipeline.worked_out(table, state):
                yield from choose(i + 1, state)
        state.pop(table, None)

    yield from choose(0, {})


# --- PIP-5's picture

TWO_, THREE, FOUR, FIVE, SIX = (node(f"table{i}") for i in range(2, 7))


def picture() -> Graph:
    """ETL1 makes snapshot 9 of table 5 from 13 of table 2 and 12 of table 3; ETL2 15 of table 6 from the same."""
    read = [("etl1", b, TWO_, 9 + b) for b in range(1, 6)] + [("etl1", b, THREE, 8 + b) for b in range(1, 6)]
    read += [("etl2", b, TWO_, 12 + b) for b in (0, 1)] + [("etl2", b, THREE, 11 + b) for b in (0, 1)]
    read += [("etl2", b, FOUR, 40 + b) for b in (0, 1)]
    made = [("etl1", b, FIVE, 5 + b) for b in range(1, 6)] + [("etl2", b, SIX, 14 + b) for b in (0, 1)]
    return graph_of(read, made)


def test_snapshots_9_and_15_are_consistent_as_in_the_proposal() -> None:
    found = unified_version(picture(), [FIVE, SIX])
    assert found.snapshots == {FIVE: 9, SIX: 15}
    assert found.sources == {TWO_: 13, THREE: 12, FOUR: 41}
    assert found.barriers == {(FIVE, "etl1"): 4, (SIX, "etl2"): 1}


def test_one_table_alone_is_at_its_newest_snapshot() -> None:
    assert unified_version(picture(), [FIVE]).snapshots == {FIVE: 10}


def test_a_table_asked_about_together_with_one_that_it_feeds_is_at_the_snapshot_read() -> None:
    assert unified_version(picture(), [FIVE, THREE]).snapshots == {FIVE: 10, THREE: 13}
    assert unified_version(picture(), [FIVE, THREE, SIX]).snapshots == {FIVE: 9, THREE: 12, SIX: 15}


def test_a_new_job_starts_from_the_unified_version() -> None:
    assert start_snapshots(picture(), [FIVE, SIX]) == {FIVE: 9, SIX: 15}


def test_a_new_job_starts_from_the_head_of_a_table_that_no_job_knows() -> None:
    new = node("new")
    heads = {new: 3, FIVE: 10, SIX: 15}
    found = start_snapshots(picture(), [new, FIVE, SIX], newest_between=between({n: (1, h) for n, h in heads.items()}))
    assert found == {new: 3, FIVE: 9, SIX: 15}
    with pytest.raises(LineageError, match=r"'db\.new' has no snapshot yet"):
        start_snapshots(picture(), [new, FIVE], newest_between=between({FIVE: (1, 10)}))
    with pytest.raises(LineageError, match=r"no job reads or writes table 'db\.new'"):
        start_snapshots(picture(), [new])


# --- what rows leave open

A, B, C, D = (node(n) for n in "abcd")


def between(alive: dict[Node, tuple[int, int]]) -> NewestBetween:
    def newest_between(table: Node, first: int, last: int | None) -> int | None:
        low, high = alive.get(table, (1, 0))
        newest = high if last is None else min(last, high)
        return newest if newest >= max(first, low) else None

    return newest_between


def test_a_batch_without_rows_extends_the_life_of_the_snapshot_before() -> None:
    read = [("j", 0, A, 1), ("j", 1, A, 2), ("j", 2, A, 3), ("k", 0, A, 2)]
    graph = graph_of(read, [("j", 0, B, 1), ("j", 2, B, 2), ("k", 0, C, 1)])
    found = unified_version(graph, [B, C])
    assert (found.snapshots, found.sources, found.barriers[B, "j"]) == ({B: 1, C: 1}, {A: 2}, 1)


def test_a_compaction_counts_as_the_snapshot_before_it() -> None:
    graph = graph_of([("j", 0, A, 5), ("k", 0, A, 6)], [("j", 0, B, 1), ("k", 0, C, 1)])
    with pytest.raises(LineageError):
        unified_version(graph, [B, C])
    found = unified_version(graph, [B, C], is_compaction=lambda n, s: (n, s) == (A, 6))
    assert (found.snapshots, found.sources) == ({B: 1, C: 1}, {A: 6})


def test_a_snapshot_whose_rows_are_not_all_there_is_not_taken() -> None:
    """The sink's warehouse has the newest batch, the source's has not yet."""
    there = node("a", TWO)
    read, made = [("j", 0, there, 1), ("j", 1, A, 2)], [("j", 0, B, 1), ("j", 1, B, 2)]
    assert unified_version(graph_of(read, made), [B]).snapshots == {B: 1}


def test_a_snapshot_whose_rows_are_not_all_there_is_taken_when_it_says_itself_what_it_stems_from() -> None:
    there = node("a", TWO)
    read = [("j", 0, there, 1), ("k", 0, there, 2)]
    graph = graph_of(read, [("j", 0, B, 1), ("j", 1, B, 2), ("j", 2, B, 3), ("k", 0, C, 1)])

    def provenance_of(table: Node, snapshot: int) -> Provenance | None:
        if table != B:
            return None
        return Provenance("j", snapshot - 1, (SourceRange(there.ref, TWO, None, snapshot - 1, snapshot),), "q")

    found = unified_version(graph, [B, C], provenance_of=provenance_of)
    assert (found.snapshots, found.sources) == ({B: 2, C: 1}, {there: 2})
    unknown = Provenance("j", 2, (), "q", knows_sources=False)
    only = unified_version(graph, [B], provenance_of=lambda n, s: unknown if s == 3 else provenance_of(n, s))
    assert only.snapshots == {B: 2}


def test_a_batch_that_ended_within_a_snapshot_is_not_taken() -> None:
    read = [("j", 0, A, 1), ("j", 1, A, 1), ("j", 2, A, 2)]
    made = [("j", 0, B, 1), ("j", 1, B, 2)]
    said = {1: SourceRange(A.ref, after=0, last=1), 2: SourceRange(A.ref, after=1, last=1, within=2)}

    def provenance_of(table: Node, snapshot: int) -> Provenance | None:
        return Provenance("j", snapshot - 1, (said[snapshot],), "q") if table == B else None

    assert unified_version(graph_of(read[:2], made), [B], provenance_of=provenance_of).snapshots == {B: 1}
    # the batch after it read the rest, and had no rows for the sink: now all of snapshot 2 is in it
    found = unified_version(graph_of(read, made), [B], provenance_of=provenance_of)
    assert (found.snapshots, found.sources) == ({B: 2}, {A: 2})


def test_snapshots_that_were_rolled_back_are_not_taken() -> None:
    """B went back to 1 after batch 2; what batch 1 and 2 had brought is lost, and batch 3 made snapshot 2 anew."""
    read = [("j", b, A, b + 1) for b in range(4)] + [("k", b, A, b + 1) for b in range(4)]
    made = [("j", 0, B, 1), ("j", 1, B, 2), ("j", 2, B, 3), ("j", 3, B, 2)] + [("k", b, C, b + 1) for b in range(4)]
    assert unified_version(graph_of(read, made), [B, C]).snapshots == {B: 2, C: 4}
    older = unified_version(graph_of([r for r in read if r[:2] != ("k", 3)], made), [B, C])
    assert older.snapshots == {B: 1, C: 1}  # not B at 1 as of batch 1 or 2, whose rows it has not


def test_of_two_jobs_with_rows_of_one_snapshot_that_one_made_it_which_it_names() -> None:
    """j made 2 of B, which went back to 1; then k made 2."""
    read = [("j", 0, A, 1), ("j", 1, A, 2), ("k", 0, A, 1), ("l", 0, A, 1)]
    graph = graph_of(read, [("j", 0, B, 1), ("j", 1, B, 2), ("k", 0, B, 2), ("l", 0, C, 1)])
    said = {(B, 2): Provenance("k", 0, (SourceRange(A.ref, after=0, last=1),), "q")}
    found = unified_version(graph, [B, C], provenance_of=lambda *key: said.get(key))
    assert (found.snapshots, found.sources) == ({B: 2, C: 1}, {A: 1})
    assert found.barriers == {(B, "j"): 0, (B, "k"): 0, (C, "l"): 0}


def test_a_correction_that_was_merged_takes_over_from_the_query_of_its_name() -> None:
    """`etl` made 1 to 3 of c; the branch of its correction, from 1 on, became main."""
    read = [("etl", b, A, b + 1) for b in range(3)] + [("etl@1a2b3c4d", b, A, b + 2) for b in range(2)]
    made = [("etl", b, C, b + 1) for b in range(3)] + [("etl@1a2b3c4d", b, C, b + 2) for b in range(2)]
    maker = {1: Provenance("etl", 0), 2: Provenance("etl@1a2b3c4d", 0), 3: Provenance("etl@1a2b3c4d", 1)}
    found = unified_version(graph_of(read, made), [C], provenance_of=lambda n, s: maker.get(s) if n == C else None)
    assert (found.snapshots, found.sources) == ({C: 3}, {A: 3})
    read, made, maker[4] = [*read, ("etl", 3, A, 4)], [*made, ("etl", 3, C, 4)], Provenance("etl", 3)
    found = unified_version(graph_of(read, made), [C], provenance_of=lambda n, s: maker.get(s) if n == C else None)
    assert (found.snapshots, found.sources) == ({C: 4}, {A: 4}), "which then went on on main"


def test_snapshots_written_by_hand_after_a_roll_back_are_not_those_of_the_batches_that_had_their_ids() -> None:
    """The job made 1 to 3; main was rolled back to 1, and somebody wrote 2 and 3."""
    read = [("j", b, A, b + 1) for b in range(3)] + [("k", b, A, b + 1) for b in range(3)]
    graph = graph_of(read, [("j", b, C, b + 1) for b in range(3)] + [("k", b, D, b + 1) for b in range(3)])

    def said(of: Node, snapshot: int) -> Provenance | None:
        if of == D:
            return Provenance("k", snapshot - 1, (SourceRange(A.ref, last=snapshot),))
        return Provenance("j", 0, (SourceRange(A.ref, last=1),)) if snapshot == 1 else None

    found = unified_version(graph, [C, D], provenance_of=said, newest_between=lambda n, low, high: min(high or 3, 3))
    assert (found.snapshots, found.sources) == ({C: 3, D: 1}, {A: 1})


def test_rows_of_snapshots_that_all_say_nothing_are_believed() -> None:
    """Another engine may write the lineage tables, and no properties."""
    graph = graph_of([("j", b, A, b + 1) for b in range(3)], [("j", b, C, b + 1) for b in range(3)])
    found = unified_version(
        graph, [C], provenance_of=lambda n, s: None, newest_between=lambda n, low, high: min(high or 3, 3)
    )
    assert (found.snapshots, found.sources) == ({C: 3}, {A: 3})


def test_a_source_that_was_rolled_back_is_met_in_its_new_history_only() -> None:
    read = [("j", 0, A, 7), ("j", 1, A, 10), ("j", 2, A, 8), ("k", 0, A, 10), ("k", 1, A, 8)]
    made = [("j", b, B, b + 1) for b in range(3)] + [("k", b, C, b + 1) for b in range(2)]
    assert unified_version(graph_of(read, made), [B, C]).snapshots == {B: 3, C: 2}
    with pytest.raises(LineageError):
        unified_version(graph_of(read[:4], made), [B, C])


def test_snapshots_that_have_expired_are_not_taken_but_newer_ones_of_the_same_rows_are() -> None:
    read = [("j", b, A, b + 1) for b in range(3)] + [("k", b, A, b + 1) for b in range(2)]
    graph = graph_of(read, [("j", 0, B, 1), ("j", 1, B, 2), ("j", 2, B, 5), ("k", 0, C, 1), ("k", 1, C, 2)])

    def compacted(table: Node, snapshot: int) -> bool:
        return (table, snapshot) in {(B, 3), (B, 4)}

    alive = between({B: (1, 5), C: (1, 2)})
    assert unified_version(graph, [B, C], is_compaction=compacted, newest_between=alive).snapshots == {B: 4, C: 2}
    alive = between({B: (3, 5), C: (1, 2)})
    assert unified_version(graph, [B, C], is_compaction=compacted, newest_between=alive).snapshots == {B: 4, C: 2}
    gone = between({B: (5, 5), C: (1, 2)})
    with pytest.raises(LineageError, match="have expired"):
        unified_version(graph, [B, C], is_compaction=compacted, newest_between=gone)


def test_a_table_that_is_gone_is_said_to_be_gone() -> None:
    graph = graph_of([("j", 0, A, 1)], [("j", 0, B, 1)])
    with pytest.raises(LineageError, match=r"db\.b has no snapshots any more, or is gone itself"):
        unified_version(graph, [A, B], newest_between=between({A: (1, 1)}))


def test_snapshots_that_a_merge_took_are_not_said_to_have_expired() -> None:
    """The head of b is 2 again, made by `fix`; j, which had made 3, has ended, and nobody says so."""
    graph = graph_of([("j", 2, A, 3), ("fix", 0, A, 2)], [("j", 2, B, 3), ("fix", 0, B, 2)])
    with pytest.raises(LineageError, match=r"leave out a job that has ended \(ignoring"):
        unified_version(graph, [A, B], newest_between=between({A: (1, 3), B: (1, 2)}))
    alone = unified_version(graph, [A, B], newest_between=between({A: (1, 3), B: (1, 2)}), ignoring=["j"])
    assert alone.snapshots == {A: 2, B: 2}


def test_a_history_without_its_newest_snapshots_is_looked_into_once_a_table() -> None:
    """B was rolled back to 5, and C lives from 900 on, when B was newer."""
    read = [(j, b, A, b + 1) for j in "jk" for b in range(1000)]
    graph = graph_of(read, [(j, b, n, b + 1) for j, n in (("j", B), ("k", C)) for b in range(1000)])
    asked: list[int | None] = []

    def counting(alive: NewestBetween) -> NewestBetween:
        def newest_between(table: Node, first: int, last: int | None) -> int | None:
            asked.append(last)
            return alive(table, first, last)

        return newest_between

    found = unified_version(graph, [B, C], newest_between=counting(between({B: (1, 5), C: (1, 1000)})))
    assert found.snapshots == {B: 5, C: 5}
    with pytest.raises(LineageError, match="have expired"):
        unified_version(graph, [B, C], newest_between=counting(between({B: (1, 5), C: (900, 1000)})))
    assert len(asked) < 20


def test_a_snapshot_of_a_batch_whose_rows_are_missing_is_not_taken_for_one_written_by_hand() -> None:
    graph = graph_of([("j", 0, A, 1)], [("j", 0, B, 1)])
    alive = between({B: (1, 3)})
    said = {2: None, 3: Provenance("j", 1, (SourceRange(A.ref, after=1, last=2),), "q")}
    assert unified_version(graph, [B], newest_between=alive).snapshots == {B: 1}
    found = unified_version(graph, [B], newest_between=alive, provenance_of=lambda _, s: said.get(s))
    assert found.snapshots == {B: 2}


def test_two_jobs_that_write_one_table_are_met_at_one_snapshot() -> None:
    read = [("j", b, A, b + 1) for b in range(3)] + [("k", b, A, b + 1) for b in range(2)]
    made = [("j", 0, B, 1), ("k", 0, B, 2), ("j", 1, B, 3), ("k", 1, B, 4), ("j", 2, B, 5)]
    found = unified_version(graph_of(read, made), [B])
    assert (found.snapshots, found.sources) == ({B: 4}, {A: 2})


def test_a_query_that_ended_is_left_out_of_what_another_query_began_to_write_after_it() -> None:
    read = [("etl", b, A, b + 1) for b in range(3)] + [("new", b, A, 3 + b) for b in range(3)]
    made = [("etl", b, B, b + 1) for b in range(3)] + [("new", b, B, 5 + b) for b in range(3)]
    graph = graph_of(read[:2] + read[4:], [made[0], *made[4:]])
    may_go_on, taken_over_by_a_batch_job = {"etl": False, "new": False}, {"etl": True}
    for streams in ({}, may_go_on, taken_over_by_a_batch_job):
        with pytest.raises(LineageError, match="ignoring"):
            unified_version(graph, [B], streams=streams)
    for ended in (False, True):
        found = unified_version(graph, [B], streams={"etl": True, "new": ended})
        assert (found.snapshots, found.sources) == ({B: 7}, {A: 5})
        assert start_snapshots(graph, [B], streams={"etl": True, "new": ended}) == {B: 7}


def test_a_query_that_ended_counts_where_no_other_took_over() -> None:
    """What it read is still what its table was made of; a query that ran beside it may have left its rows alone."""
    alone = graph_of([("etl", 0, A, 1), ("k", 1, A, 2)], [("etl", 0, B, 1), ("k", 1, C, 1)])
    with pytest.raises(LineageError):
        unified_version(alone, [B, C], streams={"etl": True, "k": False})
    read = [("j", b, A, b + 1) for b in range(2)] + [("k", b, A, b + 1) for b in range(3)]
    made = [("k", 0, B, 1), ("j", 0, B, 2), ("k", 1, B, 3), ("j", 1, B, 4), ("k", 2, B, 5)]
    found = unified_version(graph_of(read, made), [B], streams={"j": True, "k": False})
    assert (found.snapshots, found.sources) == ({B: 4}, {A: 2})


def test_the_job_that_took_over_from_one_that_ended_is_enough() -> None:
    """A query begun anew with another checkpoint has its barriers from 0 on."""
    read = [("etl", b, A, b + 1) for b in range(3)] + [("new", b, A, 3 + b) for b in range(3)]
    made = [("etl", b, B, b + 1) for b in range(3)] + [("new", b, B, 5 + b) for b in range(3)]
    with pytest.raises(LineageError, match=r"job 'etl'.*job 'new'.*ignoring"):
        unified_version(graph_of(read[:2] + read[4:], [made[0], *made[4:]]), [B])
    found = unified_version(graph_of(read, made), [B], ignoring=["etl"])
    assert (found.snapshots, found.sources) == ({B: 7}, {A: 5})


def test_without_the_job_that_made_the_head_the_newest_of_the_others_is_the_answer() -> None:
    """`old` wrote b once more after `new` had, and `down` read that; 5 was written by hand after it."""
    read = [("new", 0, A, 1), ("new", 1, A, 2), ("old", 7, A, 3), ("down", 0, B, 4)]
    made = [("old", 6, B, 1), ("new", 0, B, 2), ("new", 1, B, 3), ("old", 7, B, 4), ("down", 0, C, 1)]
    graph = graph_of(read, made)
    alive = between({A: (1, 3), B: (1, 5), C: (1, 1)})
    said = {
        1: Provenance("old", 6, (), "q"),
        2: Provenance("new", 0, (SourceRange(A.ref, after=None, last=1),), "r"),
        3: Provenance("new", 1, (SourceRange(A.ref, after=1, last=2),), "r"),
        4: Provenance("old", 7, (SourceRange(A.ref, after=2, last=3),), "q"),
    }
    for told in (
        {},
        {"newest_between": alive},
        {"newest_between": alive, "provenance_of": lambda n, s: said.get(s) if n == B else None},
    ):
        found = unified_version(graph, [B], ignoring=["old"], **told)
        assert (found.snapshots, found.sources) == ({B: 3}, {A: 2})
        assert unified_version(graph, [A, B], ignoring=["old"], **told).snapshots == {A: 2, B: 3}
        with pytest.raises(LineageError, match="no unified version"):
            unified_version(graph, [B, C], ignoring=["old"], **told)
    gone = between({A: (1, 3), B: (4, 5)})
    with pytest.raises(LineageError, match=r"have expired: db\.b at 3"):
        unified_version(graph, [B], ignoring=["old"], newest_between=gone)


def test_a_table_of_ignored_jobs_alone_is_like_one_that_no_job_writes() -> None:
    graph = graph_of([("j", 0, A, 1), ("k", 0, B, 1)], [("j", 0, B, 1), ("j", 1, B, 2), ("k", 0, C, 1)])
    alive = between({B: (1, 2), C: (1, 1)})
    assert unified_version(graph, [B], ignoring=["j"], newest_between=alive).snapshots == {B: 2}
    assert unified_version(graph, [B, C], ignoring=["j"], newest_between=alive).snapshots == {B: 1, C: 1}


def test_what_an_ignored_job_made_and_a_roll_back_took_limits_nothing() -> None:
    """b was rolled back to 2, and 3 was made by `new` since."""
    graph = graph_of([("new", 0, A, 1), ("new", 1, A, 2)], [("new", 0, B, 1), ("old", 3, B, 3), ("new", 1, B, 3)])
    said = {
        1: Provenance("new", 0, (SourceRange(A.ref, after=None, last=1),), "r"),
        3: Provenance("new", 1, (SourceRange(A.ref, after=1, last=2),), "r"),
    }
    alive = between({A: (1, 2), B: (1, 3)})
    found = unified_version(
        graph, [B], ignoring=["old"], newest_between=alive, provenance_of=lambda n, s: said.get(s) if n == B else None
    )
    assert found.snapshots == {B: 3}


@pytest.mark.parametrize("suffix", ["@1a2b3c4d", "@1a2b3c4d-0000-4000-8000-00000000000f"])
def test_a_query_begun_anew_takes_over_from_the_earlier_one_of_its_name(suffix: str) -> None:
    new = f"etl{suffix}"
    read = [("etl", b, A, b + 1) for b in range(3)] + [(new, b, A, 5 + b) for b in range(2)]
    made = [("etl", b, B, b + 1) for b in range(3)] + [(new, b, B, 5 + b) for b in range(2)]
    found = unified_version(graph_of(read, made), [B])
    assert (found.snapshots, found.sources) == ({B: 6}, {A: 6})
    # both at work at once: none has taken over
    with pytest.raises(LineageError):
        unified_version(graph_of([*read, ("etl", 3, A, 4)], [*made, ("etl", 3, B, 7)]), [B])
    # it has not written yet
    before = unified_version(graph_of([*read[:3], (new, 0, A, 5)], made[:3], writes=[(new, B)]), [B])
    assert before.snapshots == {B: 3}


def test_tables_in_a_ring_are_not_tied_to_one_another_but_to_what_is_above() -> None:
    read = [("j", 0, A, 1), ("j", 0, C, 1), ("k", 0, B, 1), ("k", 1, B, 2), ("j", 1, A, 2), ("j", 1, C, 1)]
    made = [("j", 0, B, 1), ("k", 0, C, 2), ("j", 1, B, 2), ("k", 1, C, 3), ("x", 0, D, 1)]
    found = unified_version(graph_of([*read, ("x", 0, A, 1)], made), [B, C, D])
    assert (found.snapshots, found.sources) == ({B: 1, C: 3, D: 1}, {A: 1})


def test_a_job_that_merges_a_table_into_itself_does_not_stand_in_its_own_way() -> None:
    read = [("j", b, B, b + 1) for b in range(3)] + [("j", b, A, b + 1) for b in range(3)] + [("k", 0, A, 2)]
    found = unified_version(graph_of(read, [("j", b, B, b + 2) for b in range(3)] + [("k", 0, C, 1)]), [B, C])
    assert (found.snapshots, found.sources) == ({B: 3, C: 1}, {A: 2})


def test_tables_that_share_nothing_are_each_at_their_newest() -> None:
    graph = graph_of([("j", 0, A, 4), ("k", 0, C, 9)], [("j", 0, B, 1), ("k", 0, D, 2)])
    assert unified_version(graph, [B, D]).snapshots == {B: 1, D: 2}


# --- errors


def test_an_error_says_which_tables_meet_at_which_snapshots_and_what_helps() -> None:
    graph = graph_of([("j", 0, A, 5), ("k", 0, A, 7)], [("j", 0, B, 1), ("k", 0, C, 2)])
    with pytest.raises(LineageError) as told:
        unified_version(graph, [B, C])
    message = str(told.value)
    assert "no unified version of db.b, db.c" in message
    assert "they hold db.a up to different snapshots: 5 (db.b, job 'j') and 7 (db.c, job 'k'); wait for" in message
    assert len(message) < 240


def test_an_unknown_table_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(LineageError, match=r"'db.table7'.*did you mean 'db.table"):
        unified_version(picture(), [FIVE, node("table7")])
    with pytest.raises(LineageError, match="at least one table"):
        unified_version(picture(), [])


def test_a_table_without_a_recorded_snapshot_is_said_to_have_none() -> None:
    graph = graph_of([("j", 0, A, 1)], [], writes=[("j", B)])
    with pytest.raises(LineageError, match=r"no snapshot of db\.b is recorded"):
        unified_version(graph, [B])


# --- work


def calls_of(act: Callable[[], Any]) -> int:
    """How many functions run when `act` is called."""
    count = 0

    def note(_: FrameType, event: str, __: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


def test_an_error_about_many_jobs_names_a_few_of_their_snapshots() -> None:
    jobs = [f"run{i}" for i in range(50)]
    graph = graph_of([(j, 0, A, i + 1) for i, j in enumerate(jobs)], [(j, 0, B, i + 1) for i, j in enumerate(jobs)])
    with pytest.raises(LineageError, match=r"2 \(db\.b, job 'run1'\) and 48 more; wait for"):
        unified_version(graph, [B])


@pytest.mark.ci
def test_six_tables_take_as_much_work_whether_they_have_a_thousand_batches_or_ten_thousand() -> None:
    """A chain with side branches, of which one is 50 batches behind and one has stopped half way."""

    def work(count: int) -> int:
        graph, t = six_tables(count)
        answers: list[unified.Unified] = []
        calls = calls_of(lambda: answers.append(unified_version(graph, t[3:])))
        assert set(answers[0].snapshots.values()) == {count // 2}
        return calls

    assert work(10_000) <= work(1_000) < 5_000


def six_tables(count: int) -> tuple[Graph, list[Node]]:
    t = [node(f"t{i}") for i in range(6)]
    jobs = [
        ("a", 0, 1, count),
        ("b", 1, 2, count),
        ("c", 2, 3, count),
        ("d", 1, 4, count - 50),
        ("e", 0, 5, count // 2),
    ]
    read = [(j, b, t[s], b + 1) for j, s, _, n in jobs for b in range(n)]
    made = [(j, b, t[d], b + 1) for j, _, d, n in jobs for b in range(n)]
    return graph_of(read, made), t


def test_jobs_that_never_meet_are_found_out_by_work_that_grows_with_the_rows() -> None:
    """The slowest there is: every batch of one has to be compared with the next of the other."""

    def work(count: int) -> int:
        read = [("j", b, A, 2 * b + 1) for b in range(count)] + [("k", b, A, 2 * b + 2) for b in range(count)]
        graph = graph_of(read, [(j, b, n, b + 1) for j, n in (("j", B), ("k", C)) for b in range(count)])

        def ask() -> None:
            with pytest.raises(LineageError):
                unified_version(graph, [B, C])

        return calls_of(ask)

    assert work(2_000) < 2.1 * work(1_000) < 400_000
