"""`TableWriter`: buckets, file sizes, sequence numbers, abort and errors."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.engine.write import router
from paimon_spark.engine.write.request import WriteRequest
from paimon_spark.engine.write.router import RowPool
from paimon_spark.engine.write.table_writer import SHARED_STRIDE, TableWriter
from paimon_spark.errors import CommitConflictError, DataError
from paimon_spark.format import bucket_hash
from paimon_spark.metadata.handle import TableHandle
from tests.harness.search import examples
from tests.harness.table_builder import File, TableBuilder
from tests.harness.tables import a_schema
from tests.harness.writing import empty_table, files_below, partition_of, rows_of, written

COLUMNS = {"id": "BIGINT", "p": "STRING", "q": "INT", "v": "STRING"}


def batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) if rows else [()] * 4
    types = [pa.int64(), pa.string(), pa.int32(), pa.string()]
    return pa.record_batch([pa.array(c, t) for c, t in zip(columns, types, strict=True)], names=list(COLUMNS))


def contents(handle: TableHandle, messages: Any) -> dict[Any, list[tuple[Any, ...]]]:
    out: dict[Any, list[tuple[Any, ...]]] = {}
    for message in messages:
        key = (*partition_of(handle, message), message.bucket)
        assert key not in out
        out[key] = [tuple(r.values()) for r in rows_of(handle, message).to_pylist()]
    return out


ROW = st.tuples(
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.sampled_from(["", " ", "a", "a/b", "longer than seven bytes", "ü"]),
    st.none() | st.integers(-3, 3),
    st.text(max_size=3),
)


@given(
    batches=st.lists(st.lists(ROW, max_size=30), min_size=1, max_size=6),
    partition_keys=st.sampled_from([(), ("p",), ("q",), ("q", "p")]),
    buckets=st.sampled_from([-1, 1, 3, 7]),
    small=st.booleans(),
)
@settings(max_examples=examples(120), deadline=None)
def test_every_row_is_in_its_bucket_once_and_in_order(
    batches: list[list[tuple[Any, ...]]], partition_keys: tuple[str, ...], buckets: int, small: bool
) -> None:
    options = {"bucket": str(buckets)} | ({"bucket-key": "id"} if buckets > 0 else {})
    if small:  # everything waits on disk
        options["write-buffer-size"] = "0 b"
    handle = empty_table(COLUMNS, partition_keys=partition_keys, options=options)
    wanted: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    for rows in batches:
        given_batch = batch(rows)
        found = bucket_hash.buckets(given_batch.select(["id"]), max(buckets, 1), handle.options.bucket_function)
        for row, bucket in zip(rows, found.tolist(), strict=True):
            values = dict(zip(COLUMNS, row, strict=True))
            wanted[(*(values[k] for k in partition_keys), bucket)].append(row)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(router, "_GATHERED_ROWS", 16 if small else 1 << 17)
        messages = written(handle, [batch(rows) for rows in batches])
    assert contents(handle, messages) == wanted
    assert all(m.total_buckets == buckets for m in messages)
    assert all(not m.compact for m in messages)


def test_no_rows_make_no_file() -> None:
    handle = empty_table(COLUMNS)
    assert written(handle, [batch([])]) == []
    assert files_below(handle) == []


def test_a_bucket_gets_one_file_however_small_the_batches() -> None:
    handle = empty_table(COLUMNS, partition_keys=("q",))
    messages = written(handle, [batch([(i, "a", q, "x") for q in range(3)]) for i in range(50)])
    assert [len(m.data.new_files) for m in messages] == [1, 1, 1]
    assert [m.data.new_files[0].row_count for m in messages] == [50, 50, 50]


def test_sequence_numbers_count_from_zero_without_buckets() -> None:
    builder = TableBuilder(a_schema())
    base = builder.commit(File("old", sequence=(0, 41)))
    rows = pa.record_batch({"k": [1, 2, 3], "v": ["a", "b", "c"]})
    (message,) = written(builder.open(), [rows, rows], base=base)
    (file,) = message.data.new_files
    assert (file.min_sequence_number, file.max_sequence_number) == (0, 5)


def test_files_of_tables_that_track_rows_all_begin_at_zero() -> None:
    handle = empty_table(COLUMNS, options={"row-tracking.enabled": "true", "target-file-row-num": "10"})
    (message,) = written(handle, [batch([(i, "a", 1, "x") for i in range(25)])])
    files = [(f.row_count, f.min_sequence_number) for f in message.data.new_files]
    assert files == [(10, 0), (10, 0), (5, 0)]


def fixed(**options: str) -> TableBuilder:
    given_options = {"bucket": "2", "bucket-key": "k", **options}
    return TableBuilder(a_schema(options=given_options))


def by_bucket(messages: Any) -> dict[int, tuple[int, int]]:
    return {
        m.bucket: (m.data.new_files[0].min_sequence_number, m.data.new_files[-1].max_sequence_number) for m in messages
    }


ROWS = pa.record_batch({"k": list(range(20)), "v": ["x"] * 20})


def test_sequence_numbers_of_buckets_go_on() -> None:
    builder = fixed()
    builder.commit(File("a", total_buckets=2, bucket=1, sequence=(0, 41)))
    base = builder.commit(File("b", total_buckets=2, bucket=1, sequence=(42, 99)))
    messages = written(builder.open(), [ROWS], base=base)
    sizes = {m.bucket: m.data.new_files[0].row_count for m in messages}
    assert by_bucket(messages) == {0: (0, sizes[0] - 1), 1: (100, 99 + sizes[1])}
    assert all(m.total_buckets == 2 for m in messages)


def test_writers_that_share_buckets_never_give_a_number_twice() -> None:
    builder = fixed()
    base = builder.commit(File("a", total_buckets=2, bucket=1, sequence=(0, 9)))
    handle = builder.open()
    first = by_bucket(written(handle, [ROWS], base=base, shares_buckets=True, writer_number=0))
    other = by_bucket(written(handle, [ROWS], base=base, shares_buckets=True, writer_number=3))
    assert first[1][0] == 10
    assert other[1][0] == 10 + 3 * SHARED_STRIDE


def test_another_bucket_count_of_a_partition_is_refused_unless_it_is_replaced() -> None:
    builder = fixed()
    base = builder.commit(File("a", total_buckets=5, bucket=4))
    handle = builder.open()
    with pytest.raises(CommitConflictError, match=r"bucket = 2, .*5 buckets.*Overwrite"):
        written(handle, [ROWS], base=base)
    assert files_below_data(handle) == []
    assert by_bucket(written(handle, [ROWS], ignores_existing=True))[0][0] == 0


def files_below_data(handle: TableHandle) -> list[str]:
    return [p for p in files_below(handle) if "/bucket-" in p]


def test_abort_leaves_no_file_of_any_bucket() -> None:
    handle = empty_table(COLUMNS, partition_keys=("q",))
    rows = batch([(i, "a", i % 7, "x") for i in range(700)])
    writer = TableWriter(WriteRequest(handle, "u"), rows.schema)
    writer.write(rows)
    assert writer.close()
    assert files_below_data(handle)
    writer.abort()
    assert files_below_data(handle) == []


def test_a_value_that_does_not_fit_leaves_no_file() -> None:
    handle = empty_table({"id": "TINYINT"})
    fits, not_ = (pa.record_batch({"id": pa.array([n], pa.int64())}) for n in (1, 300))
    with pytest.raises(DataError, match=r"column id of table .* is TINYINT, which cannot hold 300"):
        written(handle, [fits, not_])
    assert files_below_data(handle) == []


def test_partitions_of_every_type_have_their_row_bytes() -> None:
    from datetime import date, datetime
    from decimal import Decimal

    values: dict[str, tuple[Any, pa.DataType, Any]] = {
        "BOOLEAN": (True, pa.bool_(), True),
        "TINYINT": (-5, pa.int8(), -5),
        "BIGINT": (2**40, pa.int64(), 2**40),
        "DATE": (date(2024, 1, 2), pa.date32(), date(2024, 1, 2)),
        "DECIMAL(10, 2)": (Decimal("1.50"), pa.decimal128(10, 2), Decimal("1.50")),
        "DECIMAL(30, 2)": (Decimal("-1.50"), pa.decimal128(30, 2), Decimal("-1.50")),
        "TIMESTAMP(3)": (datetime(2024, 1, 2, 3), pa.timestamp("ms"), datetime(2024, 1, 2, 3)),
        "TIMESTAMP(6)": (datetime(1969, 1, 2, 3, 4, 5, 6), pa.timestamp("us"), datetime(1969, 1, 2, 3, 4, 5, 6)),
        "DOUBLE": (-0.0, pa.float64(), -0.0),
        "BYTES": (b"\0\1", pa.binary(), b"\0\1"),
    }
    for text, (value, kind, wanted) in values.items():
        if text == "BYTES":
            continue  # such partitions have no known directory in the default naming
        handle = empty_table({"p": text, "v": "INT"}, partition_keys=("p",))
        rows = pa.record_batch([pa.array([value, None, value], kind), pa.array([1, 2, 3], pa.int32())], ["p", "v"])
        messages = written(handle, [rows])
        assert [partition_of(handle, m) for m in messages] == [(wanted,), (None,)], text


def test_negative_zero_and_zero_are_two_partitions_as_their_bytes_are() -> None:
    handle = empty_table({"p": "DOUBLE", "v": "INT"}, partition_keys=("p",))
    rows = pa.record_batch([pa.array([0.0, -0.0, 0.0]), pa.array([1, 2, 3], pa.int32())], ["p", "v"])
    assert len({m.partition for m in written(handle, [rows])}) == 2


def test_memory_stays_bounded_over_many_partitions() -> None:
    handle = empty_table({"p": "INT", "v": "BYTES"}, partition_keys=("p",), options={"write-buffer-size": "8 mb"})
    partitions, each = 500, 64
    base = pa.total_allocated_bytes()
    peak = 0
    writer = TableWriter(WriteRequest(handle, "u"), pa.schema([("p", pa.int32()), ("v", pa.binary())]))
    payload = np.random.default_rng(1).integers(0, 255, 1000, np.uint8).tobytes()
    for _ in range(each):
        rows = pa.record_batch([pa.array(range(partitions), pa.int32()), pa.array([payload] * partitions)], ["p", "v"])
        writer.write(rows)
        peak = max(peak, pa.total_allocated_bytes() - base)
    messages = writer.close()
    assert sum(m.data.new_files[0].row_count for m in messages) == partitions * each
    assert len(messages) == partitions
    assert peak < 64 << 20, f"{peak >> 20} MiB for 32 MB of rows and a budget of 8"


def test_local_disk_is_not_used_where_it_is_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def used(pool: RowPool) -> None:
        raise AssertionError("rows were spilled")

    monkeypatch.setattr(RowPool, "spill", used)
    monkeypatch.setattr(router, "_GATHERED_ROWS", 16)
    options = {"write-buffer-size": "0 b", "write-buffer-spillable": "false"}
    handle = empty_table(COLUMNS, partition_keys=("q",), options=options)
    messages = written(handle, [batch([(i, "a", i % 5, "x") for i in range(100)])])
    assert {m.data.new_files[0].row_count for m in messages} == {20}
    assert [r[0] for rows in contents(handle, messages).values() for r in rows] == [
        i for q in range(5) for i in range(q, 100, 5)
    ]


@pytest.mark.ci
def test_writing_does_not_import_pandas() -> None:
    code = """
import sys
from datetime import date, datetime, timezone
from decimal import Decimal
import pyarrow as pa
from paimon_spark.format.arrays.arrow_numpy import array_of
from tests.harness.writing import empty_table, written

COLUMNS = {
    "i": ("INT NOT NULL", pa.int64(), [1, 2, 3]), "s": ("STRING NOT NULL", pa.string(), ["a", "b", "c"]),
    "c": ("CHAR(3)", pa.string(), ["a", None, "b "]), "d": ("DATE", pa.date32(), [date(2024, 1, 1), None, None]),
    "t": ("TIMESTAMP(3)", pa.timestamp("us"), [datetime(2024, 1, 1), None, None]),
    "l": ("TIMESTAMP_LTZ(6)", pa.timestamp("us", "UTC"), [datetime(2024, 1, 1, tzinfo=timezone.utc), None, None]),
    "n": ("DECIMAL(10, 2)", pa.decimal128(12, 3), [Decimal("1.5"), None, Decimal(3)]),
    "f": ("STRING", pa.float64(), [1.0, None, 2.5]), "op": ("STRING", pa.string(), ["+I", "+U", "+I"]),
}
batch = pa.RecordBatch.from_arrays([array_of(v, t) for _, t, v in COLUMNS.values()], names=list(COLUMNS))
columns = {name: kind for name, (kind, _, _) in COLUMNS.items()} | {"x": "INT"}
for given in (
    {"options": {"rowkind.field": "op"}},
    {"options": {"bucket": "2", "bucket-key": "i,s"}},
    {"partition_keys": ("d", "t", "n", "s")},
    {"primary_keys": ("i", "s"), "options": {"bucket": "2", "rowkind.field": "op"}},
    {"primary_keys": ("i",), "options": {"bucket": "-1", "changelog-producer": "input"}},
):
    assert written(empty_table(columns, defaults={"x": "5", "c": "zz"}, **given), [batch, batch])
assert "pandas" not in sys.modules, "pandas was imported"
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
