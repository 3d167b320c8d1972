"""Batch writes to tables with a postponed bucket: rows go to buckets at once, and wait only where others wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paimon_spark
from paimon_spark.engine.commit.committer import Committer
from paimon_spark.engine.commit.requests import PlannedOn
from paimon_spark.engine.write.request import WriteRequest
from paimon_spark.engine.write.table_writer import TableWriter
from paimon_spark.errors import CommitConflictError
from paimon_spark.jobs.upkeep import compaction
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.types import VALUE_KIND
from tests.harness.real_tables import a_table
from tests.harness.search import examples

SCHEMA = pa.schema(
    [pa.field("p", pa.int32(), nullable=False), pa.field("k", pa.int64(), nullable=False), ("v", pa.string())]
)
WAITS: dict[str, Any] = {"postpone.batch-write-fixed-bucket": "false"}
Row = tuple[int, int, str | None]


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "active_spark_jobs", lambda: None)


def rows(*values: Row, kind: int = 0) -> pa.Table:
    data = [dict(zip([*SCHEMA.names, VALUE_KIND], (*v, kind), strict=True)) for v in values]
    return pa.Table.from_pylist(data, schema=pa.schema([*SCHEMA, pa.field(VALUE_KIND, pa.int8())]))


def rows_of(table: paimon_spark.Table) -> dict[tuple[int, int], str | None]:
    found = table.scan().to_arrow().to_pylist()
    out = {(r["p"], r["k"]): r["v"] for r in found}
    assert len(out) == len(found)
    return out


def places(table: paimon_spark.Table) -> dict[str, set[tuple[int, int]]]:
    """Bucket and number of buckets of the live files, by partition."""
    head = latest_snapshot(table.handle)
    assert head is not None
    out: dict[str, set[tuple[int, int]]] = {}
    names = ["partition", "bucket", "total_buckets"]
    for row in live_entries(table.handle, data_manifests(table.handle, head)).select(names).to_pylist():
        out.setdefault(row["partition"], set()).add((row["bucket"], row["total_buckets"]))
    return out


def test_rows_are_seen_at_once_and_partitions_keep_their_number_of_buckets(tmp_path: Path) -> None:
    table = a_table(
        SCHEMA, keys="p k", by="p", options={"bucket": "-2", "postpone.default-bucket-num": "3"}, where=tmp_path / "t"
    )
    table.write(rows(*((1, k, "a") for k in range(30))))
    assert len(rows_of(table)) == 30
    table = paimon_spark.load_table(table.location, **{"postpone.default-bucket-num": "2"})
    table.write(rows(*((p, k, "b") for p in (1, 2) for k in range(10))))
    assert sorted(map(sorted, places(table).values())) == [[(0, 2), (1, 2)], [(0, 3), (1, 3), (2, 3)]]
    assert rows_of(table) == {(p, k): "a" if k >= 10 else "b" for p in (1, 2) for k in range(30 if p == 1 else 10)}


def test_rows_wait_where_others_wait(tmp_path: Path) -> None:
    table = a_table(SCHEMA, keys="p k", by="p", options={"bucket": "-2"}, where=tmp_path / "t")
    table.write(rows((1, 1, "settled"), (2, 1, "settled")))
    table.write(rows((1, 1, "waits")), **WAITS)
    table.write(rows((1, 1, "last"), (2, 1, "last")))
    assert rows_of(table) == {(1, 1): "settled", (2, 1): "last"}
    table.compact()
    assert rows_of(table) == {(1, 1): "last", (2, 1): "last"}
    table.write(rows((1, 1, "newest")))
    assert rows_of(table)[1, 1] == "newest"


def test_rows_wait_to_be_counted(tmp_path: Path) -> None:
    table = a_table(
        SCHEMA,
        keys="p k",
        by="p",
        options={"bucket": "-2", "postpone.target-row-num-per-bucket": "10"},
        where=tmp_path / "t",
    )
    table.write(rows(*((1, k, "a") for k in range(25))))
    assert rows_of(table) == {}
    table.compact()
    assert [total for (_, total) in next(iter(places(table).values()))] == [3, 3, 3]
    table.write(rows((1, 7, "b")))
    assert rows_of(table)[1, 7] == "b"


def test_overwrites_deletes_and_tables_without_partitions(tmp_path: Path) -> None:
    table = a_table(
        SCHEMA,
        keys="p k",
        options={"bucket": "-2", "postpone.default-bucket-num": "2", "deletion-vectors.enabled": "true"},
        where=tmp_path / "t",
    )
    table.write(rows((1, 1, "a"), (1, 2, "a"), (2, 3, "a")))
    table.delete("k = 2")
    assert rows_of(table) == {(1, 1): "a", (2, 3): "a"}
    table.write(rows((1, 1, "waits")), **WAITS)
    table.write(rows((5, 5, "b")), mode="overwrite")
    assert rows_of(table) == {(5, 5): "b"}
    assert {b for found in places(table).values() for b, _ in found} <= {0, 1}


def test_two_first_writes_of_a_partition_must_agree_on_its_buckets(tmp_path: Path) -> None:
    table = a_table(SCHEMA, keys="p k", by="p", options={"bucket": "-2"}, where=tmp_path / "t")
    table.write(rows((9, 9, "a")))
    base = latest_snapshot(table.handle)
    other = paimon_spark.load_table(table.location, **{"postpone.default-bucket-num": "4"})
    with TableWriter(WriteRequest(other.handle, "x", base, settles=True), rows().schema) as writer:
        writer.write(rows((1, 1, "b")).to_batches()[0])
        messages = writer.close()
    table.write(rows((1, 2, "a")))
    with pytest.raises(CommitConflictError, match="has 1 buckets and the commit brings files for 4"):
        Committer(other.handle, "x").commit(messages, planned_on=PlannedOn.of(base, must_remain=True))
    Committer(other.handle, "x").abort(messages)


STEPS = st.one_of(
    st.tuples(
        st.lists(
            st.tuples(st.integers(1, 2), st.integers(0, 6), st.none() | st.sampled_from("ab")), min_size=1, max_size=8
        ),
        st.sampled_from([0, 3]),
        st.booleans(),
    ),
    st.just("compact"),
)


@settings(max_examples=examples(25))
@given(steps=st.lists(STEPS, min_size=2, max_size=8))
def test_the_last_write_wins(steps: Sequence[Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    options = {"postpone.default-bucket-num": "2", "postpone.merge-on-read": "true"}
    table = a_table(
        SCHEMA, keys="p k", by="p", options={"bucket": "-2", **options}, where=tmp_path_factory.mktemp("m") / "t"
    )
    expected: dict[tuple[int, int], str | None] = {}
    for step in steps:
        if step == "compact":
            table.compact()
        else:
            values, kind, waits = step
            table.write(rows(*values, kind=kind), **(WAITS if waits else {}))
            for p, k, v in values:
                expected.pop((p, k), None)
                if kind == 0:
                    expected[p, k] = v
        assert rows_of(table) == expected
    table.compact(full=True)
    assert rows_of(table) == expected


def test_several_tasks_share_buckets(tmp_path: Path) -> None:
    table = a_table(
        SCHEMA, keys="p k", by="p", options={"bucket": "-2", "postpone.default-bucket-num": "2"}, where=tmp_path / "t"
    )
    request = WriteRequest(table.handle, "x", None, shares_buckets=True, settles=True)
    messages = []
    for number in range(3):
        with TableWriter(replace(request, writer_number=number), rows().schema) as writer:
            writer.write(rows(*((1, k, f"{number}") for k in range(10 * number, 10 * number + 15))).to_batches()[0])
            messages += writer.close()
    Committer(table.handle, "x").commit(messages)
    assert set(rows_of(table)) == {(1, k) for k in range(35)}
