"""Data files of a bucket: names, sizes, and what their entries say."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_spark.engine.write.data_files import DataFiles
from paimon_spark.engine.write.request import WriteRequest
from paimon_spark.errors import StorageError, UnsupportedFeatureError
from paimon_spark.format import binary_row
from paimon_spark.format.arrays.arrow_types import arrow_schema
from paimon_spark.format.data_files.registry import read_rows
from paimon_spark.format.data_files.requests import FileRead
from paimon_spark.format.metadata_files.data_file import DataFileMeta, FileSource
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import Layout
from paimon_spark.options.table import parse_table_options
from paimon_spark.storage.local import LocalStore
from paimon_spark.types import BIGINT, INT, STRING, DataField, RowType, parse_type

FIELDS = (DataField(0, "p", STRING), DataField(1, "k", BIGINT.with_nullable(False)), DataField(2, "v", INT))
KEYED: dict[str, Any] = {"primary_keys": ("p", "k"), "partition_keys": ("p",)}


def files(root: Path, options: Mapping[str, str] | None = None, bucket: int = 0, **schema: Any) -> DataFiles:
    table = TableSchema(3, RowType(False, FIELDS), 2, **schema)
    layout = Layout(str(root), data_directory=(options or {}).get("data-file.path-directory"))
    handle = TableHandle(LocalStore(), layout, "db.t", table, parse_table_options(options or {}))
    partition = binary_row.encode(["x"], [STRING]) if table.partition_keys else binary_row.EMPTY
    return DataFiles(WriteRequest(handle, "me"), partition, bucket)


def rows(count: int, start: int = 0) -> pa.RecordBatch:
    numbers = range(start, start + count)
    arrays = [["x"] * count, list(numbers), [None if n % 3 == 0 else n for n in numbers]]
    return pa.RecordBatch.from_arrays(
        [pa.array(a, f.type) for a, f in zip(arrays, arrow_schema(FIELDS), strict=True)], schema=arrow_schema(FIELDS)
    )


def keyed(count: int, start: int = 0, sequence: int = 0, kinds: list[int] | None = None) -> pa.RecordBatch:
    values = rows(count, start)
    numbers = pa.array(range(sequence, sequence + count), pa.int64())
    arrays = [numbers, pa.array(kinds or [0] * count, pa.int8()), *values.columns]
    return pa.RecordBatch.from_arrays(arrays, names=["_SEQUENCE_NUMBER", "_VALUE_KIND", *values.schema.names])


def names_in(root: Path) -> list[str]:
    return sorted(p.name for p in root.rglob("*") if p.is_file())


def test_a_file_of_a_table_without_keys_is_described(tmp_path: Path) -> None:
    made = files(tmp_path)
    writer = made.data(first_sequence_number=7)
    before = time.time()
    writer.write(rows(2))
    writer.write(rows(3, 2))
    (meta,) = writer.close()
    assert Path(made.path(meta.file_name)) == tmp_path / "bucket-0" / meta.file_name
    assert meta.file_name.startswith("data-")
    assert meta.file_name.endswith("-0.parquet")
    assert meta.file_size == Path(made.path(meta.file_name)).stat().st_size
    assert (meta.row_count, meta.schema_id, meta.level, meta.file_source, meta.delete_row_count) == (5, 3, 0, 0, 0)
    assert (meta.min_sequence_number, meta.max_sequence_number) == (7, 11)
    assert (meta.min_key, meta.max_key) == (binary_row.EMPTY, binary_row.EMPTY)
    assert meta.key_stats == (binary_row.EMPTY, binary_row.EMPTY, ())
    assert meta.value_stats_cols is None
    assert binary_row.decode(meta.value_stats.max_values, [f.type for f in FIELDS]) == ("x", 4, 4)
    assert meta.value_stats.null_counts == (0, 0, 2)
    assert meta.creation_time_ms is not None
    offset = time.localtime(before).tm_gmtoff
    assert -0.001 <= meta.creation_time_ms / 1000 - offset - before < 60  # the file has whole milliseconds


def test_a_file_of_a_table_with_keys_is_described(tmp_path: Path) -> None:
    made = files(tmp_path, **KEYED)
    writer = made.data(2, FileSource.COMPACT)
    writer.write(keyed(3, 5, 100, [0, 3, 1]))
    writer.write(keyed(1, 9, 50))
    (meta,) = writer.close()
    assert Path(made.path(meta.file_name)).parent == tmp_path / "p=x" / "bucket-0"
    assert (meta.row_count, meta.level, meta.file_source, meta.delete_row_count) == (4, 2, 1, 2)
    assert (meta.min_sequence_number, meta.max_sequence_number) == (50, 102)
    assert [binary_row.decode(k, [BIGINT]) for k in (meta.min_key, meta.max_key)] == [(5,), (9,)]
    assert binary_row.decode(meta.key_stats.min_values, [BIGINT]) == (5,)
    assert meta.key_stats.null_counts == (0,)
    found = pq.ParquetFile(made.path(meta.file_name))
    assert found.schema_arrow.names == ["_KEY_k", "_SEQUENCE_NUMBER", "_VALUE_KIND", "p", "k", "v"]
    ids = [int(f.metadata[b"PARQUET:field_id"]) for f in found.schema_arrow]
    assert ids == [1073741824, 2147483646, 2147483645, 0, 1, 2]


def test_thin_files_do_not_repeat_the_key(tmp_path: Path) -> None:
    made = files(tmp_path, {"data-file.thin-mode": "true", "metadata.stats-mode": "none"}, **KEYED)
    writer = made.data()
    writer.write(keyed(2))
    (meta,) = writer.close()
    names = pq.ParquetFile(made.path(meta.file_name)).schema_arrow.names
    assert names == ["_SEQUENCE_NUMBER", "_VALUE_KIND", "p", "k", "v"]
    assert binary_row.decode(meta.key_stats.max_values, [BIGINT]) == (1,)
    assert meta.value_stats_cols == ("k",)


def test_files_end_at_the_target_size(tmp_path: Path) -> None:
    made = files(tmp_path, {"target-file-size": "20 kb"})
    writer = made.data()
    for start in range(0, 20_000, 1000):
        writer.write(rows(1000, start))
    metas = writer.close()
    assert len(metas) > 2
    assert sum(m.row_count for m in metas) == 20_000
    assert all(10_000 < m.file_size < 40_000 for m in metas[:-1])
    assert [m.min_sequence_number for m in metas[1:]] == [m.max_sequence_number + 1 for m in metas[:-1]]
    assert [m.file_name.rpartition("-")[2] for m in metas] == [f"{i}.parquet" for i in range(len(metas))]
    stored = [r for m in metas for r in read_rows(FileRead(LocalStore(), made.path(m.file_name), FIELDS, m.row_count))]
    assert pa.concat_arrays([r.arrays[1] for r in stored]).to_pylist() == list(range(20_000))


@pytest.mark.ci
def test_one_large_batch_is_cut_into_files(tmp_path: Path) -> None:
    writer = files(tmp_path, {"target-file-size": "1 kb"}).data()
    writer.write(rows(250_000))
    assert [m.row_count for m in writer.close()] == [100_000, 100_000, 50_000]


@pytest.mark.parametrize("source", FileSource)
def test_the_target_of_rows_is_not_for_compactions(tmp_path: Path, source: FileSource) -> None:
    writer = files(tmp_path, {"target-file-row-num": "4"}).data(source=source)
    writer.write(rows(9))
    assert [m.row_count for m in writer.close()] == ([4, 4, 1] if source is FileSource.APPEND else [9])


def test_without_rows_there_is_no_file(tmp_path: Path) -> None:
    writer = files(tmp_path).data()
    writer.write(rows(0))
    assert writer.close() == ()
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("name", ["parquet", "orc", "avro"])
def test_abort_leaves_nothing(tmp_path: Path, name: str) -> None:
    made = files(tmp_path, {"target-file-row-num": "4", "file.format": name})
    writer = made.data()
    writer.write(rows(6))
    writer.flush()
    assert len(names_in(tmp_path)) == 2
    writer.abort()
    assert names_in(tmp_path) == []
    writer.abort()


def test_levels_and_changelogs_have_their_own_settings(tmp_path: Path) -> None:
    options = {
        "file.format.per.level": "0:avro", "changelog-file.prefix": "cl-", "changelog-file.format": "orc",
        "metadata.stats-mode.per.level": "0:none", "changelog-file.stats-mode": "counts",
        "file.suffix.include.compression": "true", "file.compression.per.level": "5:snappy",
    }  # fmt: skip
    made = files(tmp_path, options, **KEYED)
    metas: list[DataFileMeta] = []
    for writer in (made.data(), made.changelog(), made.data(5)):
        writer.write(keyed(2))
        metas += writer.close()
    data, changelog, deep = metas
    assert data.file_name.endswith("-0.zst.avro")
    assert changelog.file_name.startswith("cl-")
    assert changelog.file_name.endswith("-1.zst.orc")
    assert deep.file_name.endswith("-2.snappy.parquet")
    group = pq.ParquetFile(made.path(deep.file_name)).metadata.row_group(0)
    assert group.column(0).compression == "SNAPPY"
    assert data.value_stats_cols == ()
    assert changelog.value_stats.null_counts == (0, 0, 1)
    assert binary_row.decode(changelog.value_stats.max_values, [f.type for f in FIELDS]) == (None, None, None)


def test_only_the_first_columns_have_statistics_where_asked(tmp_path: Path) -> None:
    options = {"metadata.stats-keep-first-n-columns": "1", "fields.v.stats-mode": "counts"}
    writer = files(tmp_path, options).data()
    writer.write(rows(2))
    assert writer.close()[0].value_stats_cols == ("p", "v")
    writer = files(tmp_path, options | {"metadata.stats-dense-store": "false"}).data()
    writer.write(rows(2))
    (meta,) = writer.close()
    assert meta.value_stats_cols is None
    assert meta.value_stats.null_counts == (0, None, 1)


def test_files_of_the_postponed_bucket_tell_who_wrote_them(tmp_path: Path) -> None:
    made = files(tmp_path, bucket=-2, **KEYED)
    writer = made.data()
    writer.write(keyed(1))
    (meta,) = writer.close()
    assert meta.file_name.startswith("data--u-me-s-0-w-")
    assert meta.file_name.endswith(".avro")
    assert Path(made.path(meta.file_name)).parent == tmp_path / "p=x" / "bucket-postpone"
    assert meta.value_stats_cols == ()


def test_the_directory_of_data_files_may_be_another(tmp_path: Path) -> None:
    made = files(tmp_path, {"data-file.path-directory": "data"}, **KEYED)
    assert made.directory == str(tmp_path / "data" / "p=x" / "bucket-0")


@pytest.mark.parametrize(
    ("options", "feature"),
    [
        ({"file.format": "lance"}, "file.format=lance"),
        ({"changelog-file.format": "csv"}, "file.format=csv"),
        ({"data-file.external-paths": "s3://b/x"}, "data-file.external-paths"),
    ],
)
def test_what_cannot_be_written_is_refused(tmp_path: Path, options: dict[str, str], feature: str) -> None:
    with pytest.raises(UnsupportedFeatureError) as caught:
        files(tmp_path, options)
    assert caught.value.context["feature"] == feature


@pytest.mark.parametrize(
    ("name", "kind"), [("avro", "TIMESTAMP(9)"), ("avro", "VARIANT"), ("orc", "VARIANT"), ("parquet", "BLOB")]
)
def test_a_type_that_the_format_lacks_is_refused_by_name(tmp_path: Path, name: str, kind: str) -> None:
    table = TableSchema(0, RowType(False, (DataField(0, "odd", parse_type(kind)),)), 0)
    options = parse_table_options({"file.format": name})
    handle = TableHandle(LocalStore(), Layout(str(tmp_path)), "db.t", table, options)
    nothing = pa.RecordBatch.from_arrays([pa.nulls(1)], names=["odd"])
    with pytest.raises(UnsupportedFeatureError, match="odd"):
        DataFiles(WriteRequest(handle, "me"), binary_row.EMPTY, 0).data().write(nothing)
    assert names_in(tmp_path) == []


@dataclass(frozen=True)
class FullStore(LocalStore):
    """A disk that takes the first bytes only."""

    room: int = 4

    def open_output(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(_Full(super().open_output(path), self.room), mode="w")


@dataclass
class _Full:
    out: pa.NativeFile
    room: int
    closed: bool = field(default=False)

    def write(self, data: Any) -> int:
        if self.out.tell() + len(data) > self.room:
            raise OSError(28, "No space left on device")
        self.out.write(data)
        return len(data)

    def tell(self) -> int:
        return int(self.out.tell())

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True
        self.out.close()


@pytest.mark.parametrize("name", ["parquet", "orc", "avro"])
def test_a_full_disk_is_an_error_that_names_the_file(tmp_path: Path, name: str) -> None:
    table = TableSchema(0, RowType(False, FIELDS), 2)
    options = parse_table_options({"file.format": name})
    handle = TableHandle(FullStore(), Layout(str(tmp_path)), "db.t", table, options)
    writer = DataFiles(WriteRequest(handle, "me"), binary_row.EMPTY, 0).data()
    writer.write(rows(1000))
    with pytest.raises(StorageError, match=rf"data file file://{tmp_path}/bucket-0/data-.*No space left"):
        writer.close()
    writer.abort()
    assert names_in(tmp_path) == []
