"""Small inputs that ask for much memory or time: refused before anything is allocated, or handled in linear time."""

from __future__ import annotations

import json
import struct
import sys
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from paimon_spark import Table
from paimon_spark.errors import ColumnNotFoundError, CorruptFileError, FormatError, InvalidInputError
from paimon_spark.format.data_files.registry import read_rows
from paimon_spark.format.data_files.requests import Bounds, FileRead
from paimon_spark.format.file_index.bitmap import BitmapIndex
from paimon_spark.format.file_index.indexes import MOST_ROWS, FileIndexes
from paimon_spark.format.file_index.keys import key_type
from paimon_spark.format.metadata_files import deletion_vector
from paimon_spark.predicate.arrow import compare, one_of
from paimon_spark.predicate.ast import Column, In, Op
from paimon_spark.predicate.parse import parse_predicate
from paimon_spark.predicate.stats import row_group_may_match
from paimon_spark.storage.local import LocalStore
from paimon_spark.types import BIGINT, DOUBLE, INT, STRING, DataField, RowType
from tests.harness.real_tables import a_catalog, a_table, put


def calls_of(act: Callable[[], object]) -> int:
    """Calls of functions, of Python and C, that `act` makes."""
    count = 0

    def counted(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


def written_and_read(place: Path, columns: int) -> pa.Table:
    catalog = a_catalog(place / f"wh{columns}")
    schema = pa.schema([(f"c{i}", pa.int64()) for i in range(columns)])
    table = catalog.create_table("db.t", schema)
    table.write(pa.table([pa.array([1, 2])] * columns, schema=schema))
    return catalog.table("db.t").scan().to_arrow()


def test_work_grows_with_the_columns_and_not_with_their_square(tmp_path: Path) -> None:
    written_and_read(tmp_path, 2)  # imports
    few, many = (calls_of(partial(written_and_read, tmp_path, n)) for n in (200, 1600))
    assert many < 12 * few


@pytest.mark.ci
def test_thousands_of_columns_are_written_and_read_in_linear_time(tmp_path: Path) -> None:
    # Searches in tuples are no calls, so this one is measured, in the time of this process.
    written_and_read(tmp_path, 2)
    times = []
    for columns in (1000, 8000):
        begun = time.process_time()
        assert written_and_read(tmp_path, columns).num_columns == columns
        times.append(time.process_time() - begun)
    assert times[1] < 24 * times[0]


def test_fields_of_a_row_are_found_without_a_search() -> None:
    class Counted(str):
        __slots__ = ()
        compared = 0

        def __eq__(self, other: object) -> bool:
            Counted.compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    count = 2000
    rows = RowType(True, tuple(DataField(i, Counted(f"c{i}"), BIGINT) for i in range(count)))
    assert [rows.field(f"c{i}").id for i in range(count)] == list(range(count))
    assert [rows.find_by_id(i) for i in range(count)] == list(rows.fields)
    assert rows.project([f"c{i}" for i in range(count)]) == rows
    assert Counted.compared < 10 * count
    with pytest.raises(KeyError):
        rows.field("none")
    assert rows.find_by_id(count) is None


def vector_of_all_rows(containers: int) -> bytes:
    """A deletion vector of `containers` runs of 65,536 rows each."""
    described = np.stack([np.arange(containers), np.full(containers, 65_535)], axis=1).astype("<u2").tobytes()
    head = struct.pack("<I", 12347 | containers - 1 << 16) + b"\xff" * ((containers + 7) // 8) + described
    body = struct.pack(">i", deletion_vector.MAGIC_32) + head + bytes(4 * containers)
    body += struct.pack("<HHH", 1, 0, 65_535) * containers
    return struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def test_a_deletion_vector_of_one_megabyte_does_not_ask_for_gigabytes() -> None:
    assert len(deletion_vector.decode(vector_of_all_rows(4), "v", row_count=4 << 16)) == 4 << 16
    data = vector_of_all_rows(1 << 16)
    assert len(data) < 1_000_000
    tracemalloc.start()
    try:
        for rows in (None, 1 << 32, 1 << 60):
            with pytest.raises(CorruptFileError, match="at most 134217728 can be"):
                deletion_vector.decode(data, "v", row_count=rows)
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


def bitmap_of_blocks(places: list[int], values: int, announced: int) -> bytes:
    """A bitmap index with one block of `values` numbers, which `places` point to."""
    entries = b"".join(struct.pack(">qii", i, -1 - i, -1) for i in range(values))
    block = struct.pack(">i", values) + entries
    table = b"".join(struct.pack(">qi", i, place) for i, place in enumerate(places))
    head = struct.pack(">bii?", 2, values, announced, False) + struct.pack(">i", len(places))
    return head + table + struct.pack(">i", len(block)) + block


def test_blocks_of_a_bitmap_index_that_lie_over_each_other_are_refused() -> None:
    kind = key_type(BIGINT)
    assert kind is not None
    good = BitmapIndex(bitmap_of_blocks([0], 1000, 1000), kind, 1000)
    assert good.equal(pa.array([5, 7])).nonzero()[0].tolist() == [5, 7]
    many = BitmapIndex(bitmap_of_blocks([0] * 500, 1000, 1000), kind, 1000)
    with pytest.raises(FormatError, match="more values in blocks than it announces"):
        many.equal(pa.array(range(400)))
    with pytest.raises(FormatError, match="announces 2000000000 values"):
        BitmapIndex(bitmap_of_blocks([0] * 500, 1000, 2_000_000_000), kind, 1000)


def test_indexes_of_a_file_with_more_rows_than_memory_are_not_used() -> None:
    def read(_place: object) -> bytes:
        raise AssertionError

    for rows in (MOST_ROWS + 1, 1 << 60, -1):
        assert FileIndexes({"a": {"bitmap": None}}, read, rows).column("a", BIGINT) is None  # type: ignore[dict-item]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = a_table("id BIGINT", rows=[1], where=tmp_path / "wh")
    put(made, 2)
    return made


@pytest.mark.parametrize("forged", [-1, 0, 1, 7, 2**63 - 1, -(2**63), 2**63])
def test_a_snapshot_of_another_id_than_its_name_fails_at_once(
    table: Table, tmp_path: Path, forged: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    path = tmp_path / "wh/db.db/t/snapshot/snapshot-2"
    path.write_text(json.dumps({**json.loads(path.read_text()), "id": forged}))
    for verb in (
        lambda: table.write(pa.table({"id": pa.array([3], pa.int64())})),
        lambda: table.compact(),
        lambda: table.create_tag("new"),
        lambda: table.rollback_to(1),
        lambda: table.scan().to_arrow(),
    ):
        with pytest.raises(CorruptFileError, match="snapshot-2 is not a readable snapshot"):
            verb()
    assert sum(waits) < 5


@pytest.mark.parametrize("hint", [b"-1", b"0", b"99999999999999999999", b"9223372036854775808", b"\xff" * 1000, b""])
def test_a_forged_hint_changes_nothing(table: Table, tmp_path: Path, hint: bytes) -> None:
    for name in ("LATEST", "EARLIEST"):
        (tmp_path / "wh/db.db/t/snapshot" / name).write_bytes(hint)
    assert table.scan().to_arrow().num_rows == 2
    table.write(pa.table({"id": pa.array([3], pa.int64())}))
    assert [s.id for s in table.snapshots()] == [1, 2, 3]


@pytest.mark.parametrize("joined", ["id IN ({})", "{}"])
def test_conditions_are_parsed_in_linear_time(joined: str) -> None:
    rows = RowType(True, (DataField(0, "id", BIGINT),))

    def parse(count: int) -> Callable[[], object]:
        numbers = range(count)
        text = ", ".join(map(str, numbers)) if "IN" in joined else " OR ".join(f"id = {i}" for i in numbers)
        return lambda: parse_predicate(joined.format(text), rows)

    parse(5)()
    few, many = calls_of(parse(100)), calls_of(parse(800))
    assert many < 12 * few


_POOLS: list[pa.MemoryPool] = []
"""Arrays do not keep the pool that they are in."""


@contextmanager
def peak_memory() -> Iterator[Callable[[], int]]:
    """The most bytes that Arrow had allocated at a time since the begin."""
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    _POOLS.append(pool)
    pa.set_memory_pool(pool)
    try:
        yield lambda: int(pool.max_memory() or 0)
    finally:
        pa.set_memory_pool(before)


def forged(place: Path, columns: str, honest: pa.Table, values: pa.Table, **options: Any) -> Table:
    """A table whose one data file was replaced by other values of the same number of rows, in one row group."""
    made = a_table(columns, where=place / "wh")
    made.write(honest)
    (path,) = (place / "wh/db.db/t").glob("bucket-*/*.parquet")
    pq.write_table(values, path, row_group_size=values.num_rows, **options)
    assert path.stat().st_size < 100_000
    return made


def indexed(values: list[str], indexes: Any) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(indexes, pa.int32()), values)


@pytest.mark.parametrize("with_arrow_schema", [False, True])
@pytest.mark.parametrize("nested", [False, True])
def test_ten_kilobytes_of_parquet_do_not_ask_for_gigabytes_of_text(
    tmp_path: Path, *, nested: bool, with_arrow_schema: bool
) -> None:
    count, size = 20_000, 200_000  # 4 GB
    texts = indexed(["x" * size], np.zeros(count))
    honest = pa.array(["a"] * count)
    if nested:
        ends = pa.array(range(count + 1), pa.int32())
        texts, honest = (pa.ListArray.from_arrays(ends, values) for values in (texts, honest))
    table = forged(
        tmp_path,
        f"s {'ARRAY<STRING>' if nested else 'STRING'}",
        pa.table({"s": honest}),
        pa.table({"s": texts}),
        store_schema=with_arrow_schema,
    )
    rows = 0
    with peak_memory() as peak:
        for batch in table.scan().to_batches():
            assert batch.nbytes < 100_000_000
            rows += batch.num_rows
            if rows > 1000:
                break
        assert peak() < 300_000_000
    last = batch.column(0)[-1].as_py()
    assert last == (["x" * size] if nested else "x" * size)


def test_one_long_text_among_short_ones_leaves_batches_large(tmp_path: Path) -> None:
    count = 50_000
    texts = indexed([f"v{i}" for i in range(100)] + ["x" * 1_000_000], np.where(np.arange(count) == 7, 100, 0))
    table = forged(tmp_path, "s STRING", pa.table({"s": ["a"] * count}), pa.table({"s": texts}), store_schema=False)
    with peak_memory() as peak:
        batches = list(table.scan().to_batches())
        assert peak() < 300_000_000
    assert len(batches) < 5
    assert batches[0].column(0)[7].as_py() == "x" * 1_000_000


@pytest.mark.parametrize("limit", [1 << 20, 16 << 20])
def test_a_long_text_in_a_large_dictionary_is_found(tmp_path: Path, limit: int) -> None:
    # The chunk is too large to be decoded to dictionaries at once.
    count = 60_000
    chance = np.random.default_rng(1)
    noise = [chance.bytes(50).hex() for _ in range(5000)]
    indexes = np.where(np.arange(count) < 5000, np.arange(count) % 5000, 5000)
    texts = indexed([*noise, "x" * 400_000], indexes)  # 22 GB
    table = a_table("s STRING", where=tmp_path / "wh")
    table.write(pa.table({"s": ["a"] * count}))
    (path,) = (tmp_path / "wh/db.db/t").glob("bucket-*/*.parquet")
    pq.write_table(
        pa.table({"s": texts}), path, row_group_size=count, store_schema=False, dictionary_pagesize_limit=limit
    )
    assert pq.read_metadata(path).row_group(0).column(0).total_compressed_size > 200_000
    rows = 0
    with peak_memory() as peak:
        for batch in table.scan().to_batches():
            rows += batch.num_rows
            if rows > 6000:
                break
        assert peak() < 400_000_000


def test_many_columns_of_runs_are_decoded_in_small_batches(tmp_path: Path) -> None:
    count, columns = 65_536, 600  # 315 MB
    schema = pa.schema([(f"c{i}", pa.int64()) for i in range(columns)])
    table = a_table(schema, where=tmp_path / "wh")
    table.write(pa.table([pa.array(np.zeros(count, np.int64))] * columns, schema=schema))
    with peak_memory() as peak:
        assert sum(batch.num_rows for batch in table.scan().to_batches()) == count
        assert peak() < 200_000_000


def test_long_lists_of_one_value_are_decoded_in_small_batches(tmp_path: Path) -> None:
    count, length = 20_000, 4000  # 640 MB
    values = pa.array(np.zeros(count * length, np.int64))
    lists = pa.ListArray.from_arrays(pa.array(np.arange(0, count * length + 1, length), pa.int32()), values)
    honest = pa.array([[1]] * count, lists.type)
    table = forged(tmp_path, "a ARRAY<BIGINT>", pa.table({"a": honest}), pa.table({"a": lists}), store_schema=False)
    del values, lists
    with peak_memory() as peak:
        assert sum(batch.num_rows for batch in table.scan().to_batches()) == count
        assert peak() < 300_000_000


def test_a_stripe_of_runs_in_orc_is_decoded_in_parts(tmp_path: Path) -> None:
    count, columns = 8_000_000, 5  # 320 MB
    names = [f"c{i}" for i in range(columns)]
    path = tmp_path / "f.orc"
    orc.write_table(pa.table([pa.array(np.zeros(count, np.int64))] * columns, names), path, stripe_size=1 << 30)
    assert path.stat().st_size < 1_000_000
    fields = tuple(DataField(i, name, BIGINT) for i, name in enumerate(names))
    with peak_memory() as peak:
        found = read_rows(FileRead(LocalStore(), str(path), fields, count))
        assert sum(rows.row_count for rows in found) == count
        assert peak() < 100_000_000


@pytest.mark.parametrize("nested", [False, True])
def test_a_long_text_for_many_rows_of_orc_is_decoded_in_parts(tmp_path: Path, *, nested: bool) -> None:
    count, size = 20_000, 100_000  # 2 GB
    path = tmp_path / "f.orc"
    with orc.ORCWriter(str(path), compression="zstd", stripe_size=1 << 30, dictionary_key_size_threshold=1.0) as out:
        for _ in range(20):  # the texts of one stripe; all at once would take their memory here
            texts = indexed(["x" * size], np.zeros(count // 20)).cast(pa.string())
            values = pa.StructArray.from_arrays([texts], ["s"]) if nested else texts
            out.write(pa.table({"a": values}))
    assert path.stat().st_size < 100_000
    fields = (DataField(0, "a", RowType(fields=(DataField(1, "s", STRING),)) if nested else STRING),)
    rows = 0
    with peak_memory() as peak:
        for batch in read_rows(FileRead(LocalStore(), str(path), fields, count)):
            rows += batch.row_count
        assert peak() < 500_000_000
    assert rows == count


def test_a_footer_with_other_row_counts_than_the_manifest_is_refused(tmp_path: Path) -> None:
    values = pa.table({"id": pa.array(np.zeros(5_000_000, np.int64))})
    table = forged(tmp_path, "id BIGINT", pa.table({"id": pa.array([1], pa.int64())}), values)
    with pytest.raises(CorruptFileError, match="holds 5000000 rows, its manifest says 1"):
        table.scan().to_arrow()


@pytest.mark.parametrize("name", ["id", "ID", "i", "d", "nope"])
def test_long_lists_of_numbers_mean_what_short_ones_mean(name: str) -> None:
    row_type = RowType(True, (DataField(0, "id", BIGINT), DataField(1, "i", INT), DataField(2, "d", DOUBLE)))
    numbers = [*range(-700, 700), 2**40, -(2**40), 7, 10**17]
    listed = ", ".join(map(str, numbers))

    def outcome(text: str) -> object:
        try:
            return parse_predicate(text, row_type)
        except ColumnNotFoundError:
            return None

    assert outcome(f" {name}\tin ({listed}) ") == outcome(f"({name} IN ({listed}))")


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_lists_of_moments_find_what_single_moments_find(unit: str) -> None:
    begin = datetime(1969, 12, 31, 23, 59, 59)
    moments = [begin + timedelta(microseconds=n * 250_001) for n in range(12)]
    array = pa.array([*moments, None], pa.timestamp("us")).cast(pa.timestamp(unit), safe=False)
    array = pa.concat_arrays([array, pa.array([1_999, -1], pa.int64()).view(array.type)])
    for wanted in (moments[:1], moments[1:4], moments, [datetime(1, 1, 1), datetime(9999, 12, 31)]):
        single = boolean_or(compare(Op.EQ, array, moment) for moment in wanted)
        assert one_of(array, wanted).equals(single)
    with pytest.raises(InvalidInputError):
        one_of(array, [7])


def boolean_or(masks: Iterable[pa.BooleanArray]) -> pa.BooleanArray:
    return reduce(pc.or_kleene, masks)


@pytest.mark.parametrize(
    ("low", "high"),
    [(-5, -1), (-5, 0), (1, 9), (1, 10), (2990, 4000), (2991, 4000), (None, -1), (1, None), (3, 3)],
)
def test_long_lists_are_compared_with_bounds_as_short_ones(low: int | None, high: int | None) -> None:
    column, bounds = Column(("id",), BIGINT), Bounds(low, high, 0, 5)
    numbers = tuple(range(0, 3000, 10))
    expected = any(row_group_may_match(In(column, (n,)), lambda _: bounds) for n in numbers)
    assert row_group_may_match(In(column, numbers), lambda _: bounds) == expected
