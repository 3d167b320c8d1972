"""Rows of snapshots by job and table."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.lineage.asking.batch_sequence import RowsByJobAndTable
from paimon_spark.lineage.asking.graph import Graph
from paimon_spark.lineage.index.tables import SINK_SNAPSHOT
from tests.harness.lineage_pipelines import arrow, graph_of, node

NAMES = st.sampled_from(["a", "b", "a.b", "", "é"])
ROWS = st.lists(st.tuples(NAMES, st.integers(0, 5), NAMES, NAMES, st.integers(0, 2**62)), max_size=20)


@given(st.lists(ROWS, max_size=4), NAMES, NAMES, NAMES)
def test_rows_of_a_pair_are_those_with_its_names_in_their_order(
    chunks: list[list[tuple[str, int, str, str, int]]], job: str, database: str, table: str
) -> None:
    rows = pa.concat_tables([SINK_SNAPSHOT.schema.empty_table(), *(arrow(SINK_SNAPSHOT, some) for some in chunks)])
    expected = [(r[1], r[4]) for some in chunks for r in some if (r[0], r[2], r[3]) == (job, database, table)]
    found = RowsByJobAndTable.of(rows).of_pair(job, database, table)
    assert found.column_names == ["barrier_id", "snapshot_id"]
    assert [tuple(row.values()) for row in found.to_pylist()] == expected


def test_rows_are_gone_through_once_however_many_jobs_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[int] = []
    of = RowsByJobAndTable.of

    def counted(rows: pa.Table) -> RowsByJobAndTable:
        passed.append(rows.num_rows)
        return of(rows)

    monkeypatch.setattr(RowsByJobAndTable, "of", counted)
    a, b = node("a"), node("b")
    jobs = [f"run-{i}" for i in range(50)]
    graph: Graph = graph_of([(job, 0, a, 1) for job in jobs], [(job, 0, b, i + 1) for i, job in enumerate(jobs)])
    assert [graph.sinks(job, b).snapshots[0] for job in jobs] == list(range(1, 51))
    assert all(list(graph.sources(job, a).snapshots) == [1] for job in jobs)
    assert passed == [50, 50]
