"""Tables with keys through `TableWriter`: rows to buckets, kinds kept, one row a key."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.engine.write import router
from paimon_spark.errors import DataError
from paimon_spark.format import bucket_hash
from paimon_spark.metadata.handle import TableHandle
from tests.harness.search import examples
from tests.harness.table_builder import File, TableBuilder
from tests.harness.tables import a_schema
from tests.harness.writing import empty_table, partition_of, rows_of, written

COLUMNS = {"id": "INT NOT NULL", "p": "STRING NOT NULL", "v": "INT"}
ROW = st.tuples(st.integers(0, 15), st.sampled_from(["a", "b", "long partition"]), st.integers(), st.integers(0, 3))


def batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    ids, partitions, values, kinds = (list(c) for c in zip(*rows, strict=True)) if rows else ([], [], [], [])
    return pa.record_batch(
        [
            pa.array(ids, pa.int32()),
            pa.array(partitions, pa.string()),
            pa.array([v % 1000 for v in values], pa.int32()),
            pa.array(kinds, pa.int8()),
        ],
        ["id", "p", "v", "_VALUE_KIND"],
    )


def merged(handle: TableHandle, messages: Any) -> dict[Any, tuple[int, int]]:
    """Value and kind of the last row of each key, by partition, key and bucket."""
    out: dict[Any, tuple[int, int]] = {}
    for message in messages:
        rows = rows_of(handle, message)
        ids = rows.column("id").to_pylist()
        assert ids == sorted(set(ids))
        assert rows.column("_KEY_id").to_pylist() == ids
        for row in rows.to_pylist():
            assert (row["p"],) == partition_of(handle, message)
            out[row["p"], row["id"], message.bucket] = (row["v"], row["_VALUE_KIND"])
    return out


@given(
    batches=st.lists(st.lists(ROW, max_size=30), min_size=1, max_size=5),
    buckets=st.sampled_from([1, 3]),
    small=st.booleans(),
)
@settings(max_examples=examples(60), deadline=None)
def test_the_last_row_of_each_key_is_in_its_bucket(
    batches: list[list[tuple[Any, ...]]], buckets: int, small: bool
) -> None:
    handle = empty_table(
        COLUMNS, primary_keys=("p", "id"), partition_keys=("p",),
        options={"bucket": str(buckets)} | ({"write-buffer-size": "0 b"} if small else {}),
    )  # fmt: skip
    wanted = {}
    for rows in batches:
        made = batch(rows)
        found = bucket_hash.buckets(made.select(["id"]), buckets, handle.options.bucket_function).tolist()
        for (key, partition, value, kind), bucket in zip(rows, found, strict=True):
            wanted[partition, key, bucket] = (value % 1000, kind)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(router, "_GATHERED_ROWS", 16 if small else 1 << 17)
        messages = written(handle, [batch(rows) for rows in batches])
    assert merged(handle, messages) == wanted


@given(rows=st.lists(ROW, min_size=1, max_size=60))
@settings(max_examples=examples(30), deadline=None)
def test_dynamic_buckets_bring_their_index(rows: list[tuple[Any, ...]]) -> None:
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "4"}
    handle = empty_table(COLUMNS, primary_keys=("p", "id"), partition_keys=("p",), options=options)
    messages = written(handle, [batch(rows)])
    found = {(p, key): bucket for p, key, bucket in merged(handle, messages)}
    assert set(found) == {(p, key) for key, p, _, _ in rows}
    for message in messages:
        assert message.total_buckets == -1
        (index,) = message.data.new_index_files
        assert (index.partition, index.bucket, index.row_count) == (message.partition, message.bucket, len(
            [k for k, b in found.items() if b == message.bucket and (k[0],) == partition_of(handle, message)]
        ))  # fmt: skip


def test_sequence_numbers_go_on_in_the_bucket() -> None:
    builder = TableBuilder(a_schema(primary_keys=("k",), options={"bucket": "1"}))
    base = builder.commit(File("a", total_buckets=1, sequence=(0, 41)))
    rows = pa.record_batch({"k": [3, 1, 2], "v": ["a", "b", "c"]})
    (message,) = written(builder.open(), [rows, rows], base=base)
    (file,) = message.data.new_files
    # Of six rows numbered 42 to 47 the last three are left.
    assert (file.min_sequence_number, file.max_sequence_number, file.row_count) == (45, 47, 3)


def test_a_null_in_the_key_is_refused() -> None:
    handle = empty_table({"id": "INT NOT NULL", "v": "INT"}, primary_keys=("id",), options={"bucket": "1"})
    rows = pa.record_batch({"id": pa.array([None], pa.int32()), "v": pa.array([1], pa.int32())})
    with pytest.raises(DataError, match=r"column id .* primary key, .*have a null in it"):
        written(handle, [rows])


def test_rows_of_postponed_buckets_wait_beside_each_partition() -> None:
    handle = empty_table(COLUMNS, primary_keys=("p", "id"), partition_keys=("p",), options={"bucket": "-2"})
    messages = written(handle, [batch([(i, "abc"[i % 3], i, 0) for i in range(30)])])
    assert [(m.bucket, m.total_buckets) for m in messages] == [(-2, -2)] * 3
    assert [partition_of(handle, m) for m in messages] == [("a",), ("b",), ("c",)]
    assert [sum(f.row_count for f in m.data.new_files) for m in messages] == [10, 10, 10]
