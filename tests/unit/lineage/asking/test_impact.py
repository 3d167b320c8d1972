"""Impact where histories were replaced; of small pictures see test_asking.py."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from paimon_spark.lineage.asking.graph import Node
from paimon_spark.lineage.asking.reach import downstream, impact, upstream
from paimon_spark.lineage.asking.results import Batch, Refs
from paimon_spark.lineage.index.provenance import Provenance, SourceRange
from tests.harness.lineage_pipelines import graph_of, node

A, B, C = (node(n) for n in "abc")


def test_a_snapshot_whose_id_another_batch_has_by_now_holds_nothing_but_who_read_it_does() -> None:
    """A branch was merged into b: 2 and 3 of it are of job `fix` now. The old 3 had been read by k into c."""
    graph = graph_of(
        [("j", b, A, b + 1) for b in range(3)] + [("fix", 1, A, 9), ("k", 0, B, 3)],
        [("j", b, B, b + 1) for b in range(3)] + [("fix", 0, B, 2), ("fix", 1, B, 3), ("k", 0, C, 1)],
    )
    said = {1: Provenance("j", 0, (SourceRange(A.ref, after=0, last=1),), "q")}
    for barrier in range(2):
        said[barrier + 2] = Provenance("fix", barrier, (SourceRange(A.ref, after=8, last=8 + barrier),), "p")

    def provenance_of(table: Node, snapshot: int) -> Provenance | None:
        return said.get(snapshot) if table == B else None

    b, c = impact(graph, A, 3, provenance_of).tables
    assert (b.node, b.snapshots, c.node, c.snapshots) == (B, (), C, (1,))
    assert b.batches == (Batch("j", 2),)
    b, c = impact(graph, A, 9, provenance_of).tables
    assert (b.node, b.snapshots, b.first) == (B, (3,), 3)


B_FIX, C_FIX = node("b$branch_fix"), node("c$branch_fix")
CORRECTED = graph_of(
    [("j", 0, A, 1), ("j@fix", 0, A, 3), ("j@fix", 1, A, 4), ("k", 0, B, 1), ("k", 1, B_FIX, 2), ("k", 2, B, 3)],
    [
        *(("j", 0, B, 1), ("j@fix", 0, B_FIX, 2), ("j@fix", 0, B, 2), ("j@fix", 1, B, 3)),
        *(("k", 0, C, 1), ("k", 1, C_FIX, 2), ("k", 1, C, 2), ("k", 2, C, 3)),
    ],
    batch=["k"],
)
"""A correction was published: j@fix read a again up to 3 on the branch of b, and went on on main from there."""
IN_B = {
    1: Provenance("j", 0, (SourceRange(A.ref, after=0, last=1),), "q"),
    2: Provenance("j@fix", 0, (SourceRange(A.ref, after=0, last=3),), "p"),
    3: Provenance("j@fix", 1, (SourceRange(A.ref, after=3, last=4),), "p"),
}
IN_C = {
    1: Provenance("k", 0, (SourceRange(B.ref, last=1),)),
    2: Provenance("k", 1, (SourceRange(B_FIX.ref, last=2),)),
    3: Provenance("k", 2, (SourceRange(B.ref, last=3),)),
}


def corrected(deleted: Collection[Node], table: Node, snapshot: int) -> Provenance | None:
    found = {B: IN_B, B_FIX: IN_B, C: IN_C, C_FIX: IN_C}
    return None if table in deleted else found.get(table, {}).get(snapshot)


@pytest.mark.parametrize("deleted", [(), (B_FIX, C_FIX)])
def test_the_snapshots_of_a_published_branch_that_was_deleted_are_told_by_those_of_main(deleted: list[Node]) -> None:
    """Rows of a alone leave open whether the batch of the branch read a part of 4. It is a batch of main too."""
    found = impact(CORRECTED, A, 4, lambda *key: corrected(deleted, *key))
    assert {t.node: t.snapshots for t in found.tables} == {B: (3,), B_FIX: (), C: (3,), C_FIX: ()}
    assert all(b.certain for t in found.tables for b in t.batches)
    assert {t.node: t.snapshot for t in downstream(CORRECTED, A, 4, lambda *key: corrected(deleted, *key)).tables} == {
        B: 3,
        B_FIX: None,
        C: 3,
        C_FIX: None,
    }
    up = upstream(CORRECTED, C, 2, lambda *key: corrected(deleted, *key))
    assert {t.node: t.snapshot for t in up.tables} == {B_FIX: 2, B: 0, A: 3}


def test_a_snapshot_that_two_jobs_have_rows_of_is_not_told_by_another_branch() -> None:
    """Snapshot 2 of b has expired: of which of its two histories it was the last is not known."""
    other = node("other")
    graph = graph_of(
        [("j", 0, A, 1), ("j", 1, A, 2), ("fix", 0, other, 5)],
        [("j", 0, B, 1), ("j", 1, B, 2), ("fix", 0, B, 2), ("fix", 0, B_FIX, 2)],
    )
    told = Provenance("fix", 0, (SourceRange(other.ref, after=0, last=5),), "p")
    (b,) = impact(graph, A, 2, lambda table, _: told if table == B_FIX else None).tables
    assert (b.node, b.snapshots) == (B, (1, 2))


def test_deleted_branches_are_left_out_and_counted() -> None:
    refs = {n: Refs((1, 4), is_deleted=n in (B_FIX, C_FIX)) for n in (A, B, C, B_FIX, C_FIX)}
    found = impact(CORRECTED, A, 3, lambda *key: corrected((B_FIX, C_FIX), *key), refs.__getitem__)
    assert "db.b$branch_fix (deleted)" in str(found)
    shown = found.without_internal()
    assert [t.node for t in shown.tables] == [B, C]
    assert shown.deleted == 2
    assert str(shown).endswith(
        "2 deleted branches held rows of it too; ask for them with --all, in Python include_internal=True"
    )
