"""Data files through the readers: positions, deletion vectors, pruning, corrupt files, data evolution."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest

from paimon_spark.engine.read import file_reader
from paimon_spark.engine.read import file_reader as deletions
from paimon_spark.engine.read.file_reader import SYSTEM_FIELDS, iter_file
from paimon_spark.engine.read.metadata_columns import output_schema
from paimon_spark.engine.read.split_reader import read_split
from paimon_spark.engine.tasks import (
    BUCKET,
    FILE_PATH,
    PARTITION,
    ROW_INDEX,
    DataSplit,
    DeletionFile,
    ReadRequest,
    SplitMode,
)
from paimon_spark.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    DataError,
    UnsupportedFeatureError,
)
from paimon_spark.format import binary_row
from paimon_spark.format.metadata_files.data_file import DataFileMeta, FileSource, SimpleStats
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.options.table import parse_table_options
from paimon_spark.predicate.ast import Column, Compare, Op, Predicate
from paimon_spark.storage.local import LocalStore
from paimon_spark.types import BIGINT, STRING, DataField, RowType
from tests.harness.avro_files import avro_file

FIELDS = (DataField(0, "id", BIGINT), DataField(1, "v", STRING), DataField(2, "p", STRING))
SCHEMA = TableSchema(0, RowType(False, FIELDS), 2, partition_keys=("p",))
NO_STATS = SimpleStats(b"", b"", None)
PARTITION_ROW = binary_row.encode(["north"], [STRING])
ROWS = 1000
FORMATS = ("parquet", "orc", "avro")


def rows(count: int = ROWS) -> pa.Table:
    ids = list(range(count))
    return pa.table({"id": ids, "v": [None if i % 7 == 0 else f"v{i}" for i in ids], "p": ["stale"] * count})


def write(path: Path, table: pa.Table) -> None:
    match path.suffix:
        case ".parquet":
            pq.write_table(table, path, row_group_size=100, write_page_checksum=True)
        case ".orc":
            po.write_table(table, path, stripe_size=1024, batch_size=100)
        case ".avro":
            fields = [{"name": n, "type": ["null", "long" if n == "id" else "string"]} for n in table.schema.names]
            schema = ["null", {"type": "record", "name": "record", "fields": fields}]
            path.write_bytes(avro_file(schema, table.to_pylist(), sync_interval=500))


def meta(path: Path, count: int = ROWS, **more: Any) -> DataFileMeta:
    size = path.stat().st_size if path.exists() else 0
    return DataFileMeta(path.name, size, count, b"", b"", NO_STATS, NO_STATS, 0, 9, 0, 0, **more)


def request(columns: tuple[str, ...] = ("id", "v", "p"), **more: Any) -> ReadRequest:
    options = parse_table_options(more.pop("options", {}))
    return ReadRequest(LocalStore(), "db.t", "main", SCHEMA, {}, options, columns, **{"batch_rows": 64, **more})


def split(path: Path, *files: DataFileMeta, mode: SplitMode = SplitMode.RAW, **more: Any) -> DataSplit:
    return DataSplit("main", 1, PARTITION_ROW, 3, str(path), mode, files, **more)


def read(r: ReadRequest, s: DataSplit) -> pa.Table:
    batches = list(read_split(r, s))
    for b in batches:
        b.validate(full=True)
        assert 0 < b.num_rows <= r.batch_rows
        assert b.schema.equals(output_schema(r))
    return pa.Table.from_batches(batches, output_schema(r))


def greater(value: int, column: str = "id") -> Predicate:
    return Compare(Op.GT, Column((column,), BIGINT), value)


@pytest.fixture
def deleted(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[int]], DeletionFile]:
    def delete(positions: list[int]) -> DeletionFile:
        monkeypatch.setattr(file_reader, "deleted_positions", lambda *_: np.array(positions, np.int64))
        return DeletionFile("index/index-0", 1, 2, len(positions))

    return delete


@pytest.mark.parametrize("format_name", FORMATS)
def test_rows_come_in_order_with_the_partition_of_the_split(tmp_path: Path, format_name: str) -> None:
    path = tmp_path / f"data-0.{format_name}"
    write(path, rows())
    out = read(request(), split(tmp_path, meta(path)))
    assert out["id"].to_pylist() == list(range(ROWS))
    assert out["v"].to_pylist() == rows()["v"].to_pylist()
    assert set(out["p"].to_pylist()) == {"north"}


@pytest.mark.parametrize("format_name", FORMATS)
def test_no_columns_still_count(tmp_path: Path, format_name: str) -> None:
    path = tmp_path / f"data-0.{format_name}"
    write(path, rows())
    assert sum(b.num_rows for b in read_split(request(()), split(tmp_path, meta(path)))) == ROWS


@pytest.mark.parametrize("format_name", FORMATS)
def test_deleted_rows_are_dropped_by_position_though_row_groups_are_skipped(
    tmp_path: Path, format_name: str, deleted: Callable[[list[int]], DeletionFile]
) -> None:
    path = tmp_path / f"data-0.{format_name}"
    write(path, rows())
    gone = [0, 5, 299, 300, 301, *range(640, 770), 999]
    s = split(tmp_path, meta(path), deletions=(deleted(gone),))
    out = read(request(("id", ROW_INDEX), predicate=greater(250)), s)
    want = [i for i in range(251, ROWS) if i not in gone]
    assert out["id"].to_pylist() == want
    assert out[ROW_INDEX].to_pylist() == want


def test_row_groups_that_cannot_match_are_not_decoded(tmp_path: Path) -> None:
    path = tmp_path / "data-0.parquet"
    write(path, rows())
    r = request(("id",))
    s = split(tmp_path, meta(path))
    got = [
        b.column(0).to_pylist()
        for b in iter_file(r, s, s.files[0], None, ["id"], predicate=greater(750), batch_rows=1000)
    ]
    assert [i for part in got for i in part] == list(range(700, ROWS))


def test_columns_of_the_predicate_need_not_be_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "data-0.parquet"
    write(path, rows())
    out = read(request(("v",), predicate=greater(995)), split(tmp_path, meta(path)))
    assert out.schema.names == ["v"]
    assert out["v"].to_pylist() == ["v996", "v997", "v998", "v999"]


def test_metadata_columns(tmp_path: Path) -> None:
    path = tmp_path / "data-0.parquet"
    write(path, rows(2))
    r = request((BUCKET, FILE_PATH, "id", PARTITION, ROW_INDEX), with_row_kind=True)
    assert read(r, split(tmp_path, meta(path, 2))).to_pylist() == [
        {
            "rowkind": "+I",
            BUCKET: 3,
            FILE_PATH: f"file://{path}",
            "id": i,
            PARTITION: {"p": "north"},
            ROW_INDEX: i,
        }
        for i in range(2)
    ]


def test_row_tracking_columns_come_from_the_file_or_the_manifest(tmp_path: Path) -> None:
    path = tmp_path / "data-0.parquet"
    tracked = rows(3).append_column("_ROW_ID", pa.array([50, None, 70])).append_column(
        "_SEQUENCE_NUMBER", pa.array([None, 4, None], pa.int64())
    )  # fmt: skip
    write(path, tracked)
    r = request(("_SEQUENCE_NUMBER", "_ROW_ID"), options={"row-tracking.enabled": "true"})
    out = read(r, split(tmp_path, meta(path, 3, first_row_id=100)))
    assert out.to_pydict() == {"_SEQUENCE_NUMBER": [9, 4, 9], "_ROW_ID": [50, 101, 70]}


def test_columns_of_a_row_id_range_come_from_the_newest_file_that_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, part = tmp_path / "data-0.parquet", tmp_path / "data-1.orc"
    write(whole, rows())
    updated = pa.table({"v": [f"new {i}" for i in range(ROWS)]})
    po.write_table(updated, part, stripe_size=1024, batch_size=30)
    old = meta(whole, first_row_id=500)
    new = meta(part, first_row_id=500, write_cols=("v",))._replace(max_sequence_number=20)
    monkeypatch.setattr(
        "paimon_spark.engine.read.data_evolution.deleted_positions", lambda *_: np.array([1, 998], np.int64)
    )
    r = request(("_ROW_ID", "v", "id", "p"), options={"row-tracking.enabled": "true"}, predicate=greater(1))
    deletion = DeletionFile("index/index-0", 1, 2, None)
    for files, vectors in (((old, new), (deletion, None)), ((new, old), (None, deletion))):
        out = read(r, split(tmp_path, *files, mode=SplitMode.EVOLVED, deletions=vectors))
        kept = [i for i in range(2, ROWS) if i != 998]
        assert out["id"].to_pylist() == kept
        assert out["_ROW_ID"].to_pylist() == [500 + i for i in kept]
        assert out["v"].to_pylist() == [f"new {i}" for i in kept]
        assert set(out["p"].to_pylist()) == {"north"}


def test_ranges_of_row_ids_that_overlap_partly_are_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "data-0.parquet"
    write(path, rows())
    files = (meta(path, first_row_id=0), meta(path, first_row_id=1))
    with pytest.raises(CorruptFileError, match="overlap"):
        list(read_split(request(), split(tmp_path, *files, mode=SplitMode.EVOLVED)))


DAMAGES = [(f, d) for f in FORMATS for d in ("missing", "empty", "cut", "garbage", "fewer", "more", "flipped")]
DAMAGES.remove(("orc", "flipped"))  # ORC has no checksums: wrong bytes that decode cannot be told from right ones


@pytest.mark.parametrize(("format_name", "damage"), DAMAGES)
def test_damaged_files_are_named_and_never_read_wrong(tmp_path: Path, format_name: str, damage: str) -> None:
    path = tmp_path / f"data-0.{format_name}"
    write(path, rows())
    whole, count = path.read_bytes(), ROWS
    match damage:
        case "missing":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
        case "cut":
            path.write_bytes(whole[: len(whole) * 2 // 3])
        case "garbage":
            path.write_bytes(bytes(range(256)) * 20)
        case "flipped":
            path.write_bytes(whole[:200] + bytes(b ^ 0xFF for b in whole[200:600]) + whole[600:])
        case "fewer":
            count += 1
        case "more":
            count -= 1
    with pytest.raises(CorruptFileError, match=r"data-0\.") as caught:
        list(read_split(request(), split(tmp_path, meta(path, count))))
    assert str(path) in caught.value.context["path"]


@pytest.mark.parametrize("name", ["data-0.lance", "data-0.csv.gz", "data-0.vector.parquet", "data-0.blob", "data"])
def test_other_formats_are_refused_by_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(UnsupportedFeatureError, match=r"parquet, orc, avro"):
        list(read_split(request(), split(tmp_path, meta(tmp_path / name))))


def test_the_format_is_that_of_the_name_and_compression_does_not_hide_it(tmp_path: Path) -> None:
    path = tmp_path / "data-0.zstd.parquet"
    write(path, rows(3))
    assert read(request(), split(tmp_path, meta(path, 3))).num_rows == 3


def test_a_file_of_another_type_than_its_schema_is_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "data-0.parquet"
    write(path, pa.table({"id": ["text"], "v": ["x"]}))
    with pytest.raises(CorruptFileError, match="column id is string in the file, its schema says BIGINT"):
        list(read_split(request(), split(tmp_path, meta(path, 1))))


def test_an_unknown_schema_id_is_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "data-0.parquet"
    write(path, rows(1))
    with pytest.raises(CorruptFileError, match="written with schema 5, which the table does not have"):
        list(read_split(request(), split(tmp_path, meta(path, 1)._replace(schema_id=5))))


def test_a_null_in_a_not_null_column_is_an_error_not_a_default(tmp_path: Path) -> None:
    path = tmp_path / "data-0.parquet"
    write(path, rows(8))
    strict = replace(SCHEMA, row_type=RowType(False, (FIELDS[0], replace(FIELDS[1], type=STRING.with_nullable(False)))))
    r = replace(request(("v",)), schema=replace(strict, partition_keys=()))
    with pytest.raises(DataError, match=r"column v of table db\.t is NOT NULL"):
        list(read_split(r, split(tmp_path, meta(path, 8))))


def test_unknown_columns_are_named(tmp_path: Path) -> None:
    path = tmp_path / "data-0.parquet"
    write(path, rows(1))
    s = split(tmp_path, meta(path, 1))
    with pytest.raises(ColumnNotFoundError, match=r"'w'.*id, v, p"):
        list(iter_file(request(), s, s.files[0], None, ["w"], batch_rows=10))


def test_system_columns_must_be_there(tmp_path: Path) -> None:
    path = tmp_path / "data-0.parquet"
    write(path, rows(1))
    s = split(tmp_path, meta(path, 1))
    with pytest.raises(CorruptFileError, match="_SEQUENCE_NUMBER"):
        list(iter_file(request(), s, s.files[0], None, ["id"], batch_rows=10, system=SYSTEM_FIELDS))


def test_changes_keep_their_kinds_or_lose_retracts(tmp_path: Path) -> None:
    path = tmp_path / "changelog-0.parquet"
    kinds = pa.array([0, 1, 2, 3], pa.int8())
    write(
        path, pa.table({"_SEQUENCE_NUMBER": [0, 1, 2, 3], "_VALUE_KIND": kinds, "id": [1, 2, 2, 3], "v": list("abcd")})
    )
    keyed = replace(SCHEMA, primary_keys=("id", "p"))
    s = split(tmp_path, meta(path, 4), mode=SplitMode.CHANGES)
    r = replace(request(("v",)), schema=keyed)
    assert read(r, s).to_pydict() == {"v": ["a", "c"]}
    out = read(replace(r, with_row_kind=True), s)
    assert out.to_pydict() == {"rowkind": ["+I", "-U", "+U", "-D"], "v": list("abcd")}


@pytest.mark.parametrize("count", [0, None])
@pytest.mark.parametrize("level", [0, 5])
def test_a_raw_file_gives_no_retracts_that_its_writer_did_not_count(
    tmp_path: Path, level: int, count: int | None
) -> None:
    path = tmp_path / "data-0.parquet"
    data = {"_SEQUENCE_NUMBER": [0, 1, 2, 3], "_VALUE_KIND": pa.array([0, 1, 2, 3], pa.int8())}
    write(path, pa.table({**data, "id": [1, 2, 3, 4], "v": list("abcd")}))
    file = meta(path, 4)._replace(level=level, delete_row_count=count, file_source=FileSource.APPEND)
    r = replace(request(("v", ROW_INDEX)), schema=replace(SCHEMA, primary_keys=("id", "p")))
    s = split(tmp_path, file)
    assert s.mode is SplitMode.RAW
    assert read(r, s).to_pydict() == {"v": ["a", "c"], ROW_INDEX: [0, 2]}
    nothing = replace(r, columns=())
    assert sum(b.num_rows for b in read_split(nothing, s)) == 2
    # After a compaction, which reads and counts kinds, the column is not even read.
    compacted = file._replace(delete_row_count=0, file_source=FileSource.COMPACT)
    assert read(r, split(tmp_path, compacted)).num_rows == 4


def test_a_file_without_kinds_holds_inserts(tmp_path: Path) -> None:
    """Early versions of Paimon's Rust library wrote only the sequence number before the columns."""
    path = tmp_path / "data-0.parquet"
    write(path, pa.table({"_SEQUENCE_NUMBER": [0, 1], "id": [1, 2], "v": ["a", "b"]}))
    file = meta(path, 2)._replace(delete_row_count=0, file_source=FileSource.APPEND)
    keyed = replace(SCHEMA, primary_keys=("id", "p"))
    for mode in (SplitMode.RAW, SplitMode.MERGE, SplitMode.CHANGES):
        r = replace(request(("v",)), schema=keyed)
        assert read(r, split(tmp_path, file, mode=mode)).to_pydict() == {"v": ["a", "b"]}


def test_a_file_that_lacks_some_kinds_is_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "data-0.parquet"
    kinds = pa.array([0, None], pa.int8())
    write(path, pa.table({"_SEQUENCE_NUMBER": [0, 1], "_VALUE_KIND": kinds, "id": [1, 2], "v": ["a", "b"]}))
    r = replace(request(("v",)), schema=replace(SCHEMA, primary_keys=("id", "p")))
    with pytest.raises(CorruptFileError, match="_VALUE_KIND"):
        read(r, split(tmp_path, meta(path, 2)))


def test_old_read_time_defaults_fill_nulls_before_the_predicate(tmp_path: Path) -> None:
    path = tmp_path / "data-0.parquet"
    write(path, pa.table({"id": pa.array([1, None], pa.int64()), "v": ["a", "b"]}))
    r = request(("id", "v"), options={"fields.id.default-value": "42"}, predicate=greater(40))
    assert read(r, split(tmp_path, meta(path, 2))).to_pylist() == [{"id": 42, "v": "b"}]


def test_a_missing_deletion_vector_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorruptFileError, match="index-9 is missing"):
        deletions.deleted_positions(LocalStore(), DeletionFile(f"{tmp_path}/index-9", 1, 20, 1), 10)


@pytest.mark.ci
def test_reading_does_not_import_pandas(tmp_path: Path) -> None:
    path = tmp_path / "data-0.parquet"
    write(path, rows(10))
    script = """
import pickle, sys
from paimon_spark.engine.read.split_reader import read_split
request, split = pickle.load(open(sys.argv[1], "rb"))
assert sum(b.num_rows for b in read_split(request, split)) == 4
assert "pandas" not in sys.modules
"""
    import pickle

    r = request(("id", "v", "p", FILE_PATH, PARTITION, BUCKET), predicate=greater(5), with_row_kind=True)
    plan = tmp_path / "plan"
    plan.write_bytes(pickle.dumps((r, split(tmp_path, meta(path, 10)))))
    done = subprocess.run([sys.executable, "-c", script, str(plan)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
