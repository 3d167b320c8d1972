"""Reading no finer than microseconds: years that nanoseconds lack come right, digits count where a merge looks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest

from paimon_spark.engine.read.metadata_columns import output_schema
from paimon_spark.engine.read.split_reader import read_split
from paimon_spark.engine.tasks import NANOSECONDS, PARTITION, DataSplit, ReadRequest, SplitMode
from paimon_spark.errors import DataError, UnsupportedFeatureError
from paimon_spark.format import binary_row
from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.format.metadata_files.data_file import DataFileMeta, SimpleStats
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.options.table import parse_table_options
from paimon_spark.storage.local import LocalStore
from paimon_spark.types import BIGINT, DataField, RowType, parse_type

NO_STATS = SimpleStats(b"", b"", None)
TS9 = "TIMESTAMP(9)"
FAR = [datetime(1, 1, 1), datetime(1582, 10, 15, 1, 2, 3, 4), None, datetime(9999, 12, 31, 23, 59, 59, 999999)]


def schema(columns: dict[str, str], schema_id: int = 0, **more: Any) -> TableSchema:
    fields = tuple(DataField(i, n, parse_type(t)) for i, (n, t) in enumerate(columns.items()))
    return TableSchema(schema_id, RowType(False, fields), len(fields), **more)


def write(path: Path, table: pa.Table, **more: Any) -> DataFileMeta:
    if path.suffix == ".orc":
        po.write_table(table, path)
    else:
        pq.write_table(table, path, **more)
    return meta(path, len(table))


def meta(path: Path, count: int, key: int = 0, **more: Any) -> DataFileMeta:
    bound = binary_row.encode([key], [BIGINT])
    return DataFileMeta(path.name, path.stat().st_size, count, bound, bound, NO_STATS, NO_STATS, 0, 9, 0, 0, **more)


def read(
    folder: Path,
    files: Sequence[DataFileMeta],
    table: TableSchema,
    columns: Sequence[str],
    digits: int = 6,
    **more: Any,
) -> pa.Table:
    mode = more.pop("mode", SplitMode.RAW)
    request = ReadRequest(
        LocalStore(), "db.t", "main", table, more.pop("file_schemas", {}), parse_table_options(table.options),
        tuple(columns), timestamp_precision=digits,
    )  # fmt: skip
    split = DataSplit(
        "main", 1, more.pop("partition", binary_row.encode([], [])), 0, str(folder), mode, tuple(files), **more
    )
    batches = list(read_split(request, split))
    for b in batches:
        b.validate(full=True)
        assert b.schema.equals(output_schema(request))
    return pa.Table.from_batches(batches, output_schema(request))


@pytest.mark.parametrize("options", [{"use_deprecated_int96_timestamps": True}, {}], ids=["int96", "int64"])
def test_years_beyond_nanoseconds_come_right(tmp_path: Path, options: dict[str, Any]) -> None:
    file = write(tmp_path / "f.parquet", pa.table({"t": pa.array(FAR, pa.timestamp("us"))}), **options)
    found = read(tmp_path, [file], schema({"t": TS9}), ["t"])
    assert found.schema.field("t").type == pa.timestamp("us")
    assert found["t"].to_pylist() == FAR
    with pytest.raises(DataError, match=r"f\.parquet.*column t.*1677"):
        read(tmp_path, [file], schema({"t": TS9}), ["t"], 9)


def test_years_beyond_nanoseconds_are_refused_in_orc(tmp_path: Path) -> None:
    file = write(tmp_path / "f.orc", pa.table({"t": pa.array(FAR, pa.timestamp("us"))}))
    for digits in (6, 9):
        with pytest.raises(UnsupportedFeatureError, match=r"f\.orc.*column t.*1677"):
            read(tmp_path, [file], schema({"t": TS9}), ["t"], digits)


@pytest.mark.parametrize(
    ("name", "options"),
    [("f.parquet", {"use_deprecated_int96_timestamps": True}), ("f.parquet", {}), ("f.orc", {})],
    ids=["int96", "int64", "orc"],
)
def test_digits_are_cut_downwards(tmp_path: Path, name: str, options: dict[str, Any]) -> None:
    if name == "f.orc":  # the last second before 1970 is a second late in ORC files
        ticks = [1999, -1_000_000_001, None]
        want = [1, -1_000_001, None]
    else:
        ticks, want = [1999, -1, None], [1, -1, None]
    file = write(tmp_path / name, pa.table({"t": pa.array(ticks, pa.timestamp("ns"))}), **options)
    assert read(tmp_path, [file], schema({"t": TS9}), ["t"])["t"].cast("int64").to_pylist() == want
    assert read(tmp_path, [file], schema({"t": TS9}), ["t"], 9)["t"].cast("int64").to_pylist() == ticks


def test_nested_timestamps_are_cut_too(tmp_path: Path) -> None:
    instant = f"{TS9} WITH LOCAL TIME ZONE"
    fields = [
        {"id": 1, "name": "a", "type": {"type": "ARRAY", "element": TS9}},
        {"id": 2, "name": "m", "type": {"type": "MAP", "key": TS9, "value": instant}},
    ]
    table = TableSchema(0, RowType(False, (DataField(0, "r", parse_type({"type": "ROW", "fields": fields})),)), 2)
    raw = pa.struct({"a": pa.list_(pa.int64()), "m": pa.map_(pa.int64(), pa.int64())})
    ticks = pa.array([{"a": [1999, None], "m": [(2999, 3999)]}, None], raw)
    file = write(tmp_path / "f.parquet", pa.table({"r": ticks.cast(arrow_type(table.fields[0].type))}))
    cut = read(tmp_path, [file], table, ["r"])["r"].combine_chunks()
    assert cut.cast(raw).to_pylist() == [{"a": [1, None], "m": [(2, 3)]}, None]


def test_an_old_file_with_far_years_is_read_as_fewer_digits_in_arrow_too(tmp_path: Path) -> None:
    file = write(tmp_path / "f.parquet", pa.table({"t": pa.array(FAR, pa.timestamp("us"))}))
    new = schema({"t": "TIMESTAMP(3)"}, 1)
    found = read(tmp_path, [file], new, ["t"], 9, file_schemas={0: schema({"t": TS9}), 1: new})
    assert found["t"].to_pylist() == [v and v.replace(microsecond=v.microsecond // 1000 * 1000) for v in FAR]


def test_text_of_timestamps_keeps_all_digits(tmp_path: Path) -> None:
    file = write(tmp_path / "f.parquet", pa.table({"t": pa.array([123456789], pa.timestamp("ns"))}))
    new = schema({"t": "STRING"}, 1)
    found = read(tmp_path, [file], new, ["t"], file_schemas={0: schema({"t": TS9}), 1: new})
    assert found["t"].to_pylist() == ["1970-01-01 00:00:00.123456789"]


def test_the_partition_column_is_cut(tmp_path: Path) -> None:
    table = schema({"id": "INT", "t": TS9}, partition_keys=("t",))
    file = write(tmp_path / "f.parquet", pa.table({"id": pa.array([1], pa.int32())}))
    partition = binary_row.encode([(5_000, 1_999)], [parse_type(TS9)])
    found = read(tmp_path, [file], table, ["t", PARTITION], partition=partition)
    assert found["t"].cast("int64").to_pylist() == [5_000_001]
    assert found[PARTITION].combine_chunks().field("t").cast("int64").to_pylist() == [5_000_001]


def changes(folder: Path, name: str, key: list[Any], key_type: str, **columns: pa.Array) -> DataFileMeta:
    """A level-0 file of a primary key table; rows sorted by the key, which is the column k."""
    kind = pa.int64() if key_type == "BIGINT" else pa.timestamp("ns")
    system = {
        "_SEQUENCE_NUMBER": pa.array(range(len(key)), pa.int64()),
        "_VALUE_KIND": pa.array([0] * len(key), pa.int8()),
    }
    file = write(folder / name, pa.table({**system, "k": pa.array(key, kind), **columns}))
    ends = [k if key_type == "BIGINT" else divmod(k, 1_000_000) for k in (key[0], key[-1])]
    low, high = (binary_row.encode([k], [parse_type(key_type)]) for k in ends)
    return file._replace(min_key=low, max_key=high, delete_row_count=0)


def ns(*ticks: int | None) -> pa.Array:
    return pa.array(ticks, pa.timestamp("ns"))


def test_keys_are_merged_by_all_their_digits(tmp_path: Path) -> None:
    table = schema({"k": TS9, "v": "INT"}, primary_keys=("k",))
    files = [
        changes(tmp_path, "a.parquet", [1001, 1003], TS9, v=pa.array([1, 3], pa.int32())),
        changes(tmp_path, "b.parquet", [1002, 1003], TS9, v=pa.array([2, 4], pa.int32())),
    ]
    found = read(tmp_path, files, table, ["k", "v"], mode=SplitMode.MERGE)
    assert found["k"].cast("int64").to_pylist() == [1, 1, 1]
    assert sorted(found["v"].to_pylist()) == [1, 2, 4]


@pytest.mark.parametrize(
    "options",
    [
        {"sequence.field": "s"},
        {"merge-engine": "partial-update", "fields.s.sequence-group": "v"},
        {"merge-engine": "aggregation", "sequence.field": "s"},
    ],
    ids=["deduplicate", "sequence-group", "aggregation"],
)
def test_rows_are_ordered_by_all_digits(tmp_path: Path, options: dict[str, str]) -> None:
    table = schema({"k": "BIGINT", "s": TS9, "v": "INT", "far": TS9}, primary_keys=("k",), options=options)
    far = pa.array([datetime(9999, 1, 1)], pa.timestamp("us"))
    files = [
        changes(tmp_path, "a.parquet", [7], "BIGINT", s=ns(1002), v=pa.array([2], pa.int32()), far=far),
        changes(tmp_path, "b.parquet", [7], "BIGINT", s=ns(1001), v=pa.array([1], pa.int32()), far=far),
    ]
    (row,) = read(tmp_path, files, table, ["v", "far", "s"], mode=SplitMode.MERGE).to_pylist()
    assert row == {"v": 2, "far": datetime(9999, 1, 1), "s": datetime(1970, 1, 1, microsecond=1)}


def test_differences_see_all_digits(tmp_path: Path) -> None:
    table = schema({"k": "BIGINT", "t": TS9}, primary_keys=("k",))
    before = changes(tmp_path, "a.parquet", [7, 8], "BIGINT", t=ns(1001, 1001))
    after = changes(tmp_path, "b.parquet", [7, 8], "BIGINT", t=ns(1001, 1002))
    found = read(
        tmp_path, [after], table, ["k", "t"], mode=SplitMode.DIFF, before_files=(before,), before_deletions=(None,)
    )
    assert found["k"].to_pylist() == [8]
    assert found["t"].cast("int64").to_pylist() == [1]


@pytest.mark.parametrize("mode", [SplitMode.RAW, SplitMode.EVOLVED])
def test_nanoseconds_beside_microseconds(tmp_path: Path, mode: SplitMode) -> None:
    ticks = [1999, -1, None]
    columns = {"t": pa.array(ticks, pa.timestamp("ns")), "u": pa.array(ticks, pa.timestamp("ns"))}
    file = write(tmp_path / "f.parquet", pa.table(columns))._replace(first_row_id=0)
    table = schema({"t": TS9, "u": TS9})
    found = read(tmp_path, [file], table, ["u", NANOSECONDS + "t", "t"], mode=mode)
    assert found[NANOSECONDS + "t"].to_pylist() == ticks
    for name in ("t", "u"):
        assert found.schema.field(name).type == pa.timestamp("us")
        assert found[name].cast("int64").to_pylist() == [1, -1, None]
    alone = read(tmp_path, [file], table, [NANOSECONDS + "u"], mode=mode)
    assert alone.to_pydict() == {NANOSECONDS + "u": ticks}
