"""Impact where histories were replaced; of small pictures see test_asking.py."""

from __future__ import annotations

from paimon_spark.lineage.graph import Node
from paimon_spark.lineage.provenance import Provenance, SourceRange
from paimon_spark.lineage.reach import impact
from paimon_spark.lineage.results import Batch
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
