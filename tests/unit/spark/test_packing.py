"""Splits packed into Spark tasks, and large Parquet files divided among several."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.engine.read.split_reader import read_split
from paimon_spark.engine.tasks import DataSplit, DeletionFile, SplitMode
from paimon_spark.format.metadata_files.data_file import DataFileMeta, SimpleStats
from paimon_spark.spark.batch_read import pack
from tests.harness.real_tables import a_catalog

MIB = 1 << 20


def file(name: str, size: int) -> DataFileMeta:
    stats = SimpleStats(b"lots of", b"bytes", (1,))
    return DataFileMeta(name, size, 10, b"", b"", stats, stats, 0, 0, 0, 0, embedded_index=b"x" * 100)


def split(bucket: int, sizes: list[int], mode: SplitMode = SplitMode.RAW, deleted: bool = False) -> DataSplit:
    files = tuple(file(f"{bucket}-{i}", size) for i, size in enumerate(sizes))
    deletions = tuple(DeletionFile(f"dv-{f.file_name}", 1, 2, 3) for f in files) if deleted else ()
    return DataSplit("main", 1, b"", bucket, f"/t/bucket-{bucket}", mode, files, deletions)


def test_no_splits_make_no_partitions() -> None:
    assert pack([], 128 * MIB, 4 * MIB, cores=2) == []


def test_many_small_splits_become_one_task() -> None:
    assert len(pack([split(i, [1000]) for i in range(3)], 128 * MIB, 4 * MIB, cores=8)) == 1


def test_a_table_that_fits_into_one_target_still_keeps_all_cores_busy() -> None:
    groups = pack([split(0, [20 * MIB] * 4)], 128 * MIB, 4 * MIB, cores=2)
    assert [sum(s.size_bytes for s in g) for g in groups] == [40 * MIB, 40 * MIB]


def test_a_big_table_is_cut_at_the_target() -> None:
    groups = pack([split(i, [64 * MIB]) for i in range(100)], 128 * MIB, 4 * MIB, cores=2)
    assert len(groups) == 50
    assert {sum(s.size_bytes for s in g) for g in groups} == {128 * MIB}


def test_files_that_must_be_merged_stay_together() -> None:
    groups = pack([split(0, [200 * MIB] * 3, SplitMode.MERGE)], 128 * MIB, 4 * MIB, cores=2)
    assert [len(s.files) for g in groups for s in g] == [3]


def test_a_deletion_vector_stays_with_its_file() -> None:
    for group in pack([split(0, [100 * MIB] * 3, deleted=True)], 128 * MIB, 4 * MIB, cores=2):
        for s in group:
            assert [d.path for d in s.deletions if d] == [f"dv-{f.file_name}" for f in s.files]


def test_statistics_do_not_travel() -> None:
    (group,) = pack([split(0, [1])], 128 * MIB, 4 * MIB, cores=1)
    f = group[0].files[0]
    assert f.embedded_index == b"x" * 100  # readers skip rows by it
    assert f.value_stats == SimpleStats(b"", b"", ())


def test_a_large_parquet_file_is_read_by_several_tasks() -> None:
    whole = replace(split(0, [100 * MIB]), files=(replace_file("data.parquet", 100 * MIB, 1001),))
    groups = pack([whole], 128 * MIB, 4 * MIB, cores=4)
    parts = [s.rows for g in groups for s in g]
    assert sorted(p for p in parts if p) == [(0, 250), (250, 500), (500, 750), (750, 1001)]
    assert len(groups) == 4
    assert pack([whole], 128 * MIB, 4 * MIB, cores=1)[0][0].rows is None


@pytest.mark.parametrize("name", ["data.orc", "data.avro"])
def test_files_that_are_read_from_the_beginning_are_not_cut(name: str) -> None:
    whole = replace(split(0, [1]), files=(replace_file(name, 100 * MIB, 1001),))
    assert [s.rows for g in pack([whole], 128 * MIB, 4 * MIB, cores=4) for s in g] == [None]


@pytest.mark.parametrize("mode", [SplitMode.MERGE, SplitMode.CHANGES, SplitMode.EVOLVED])
def test_files_of_other_modes_are_not_cut(mode: SplitMode) -> None:
    whole = replace(split(0, [1], mode), files=(replace_file("data.parquet", 100 * MIB, 1001),))
    assert [s.rows for g in pack([whole], 128 * MIB, 4 * MIB, cores=4) for s in g] == [None]


def replace_file(name: str, size: int, rows: int) -> DataFileMeta:
    return file(name, size)._replace(row_count=rows)


@pytest.mark.parametrize("count", [1, 2, 7, 50])
def test_the_parts_of_a_file_have_each_row_once(tmp_path: Path, count: int) -> None:
    catalog = a_catalog(tmp_path)
    schema = pa.schema([("id", pa.int64()), ("s", pa.string())])
    settings = {"parquet.block.size": "20 kb", "file-index.bitmap.columns": "s", "deletion-vectors.enabled": "true"}
    table = catalog.create_table("db.t", schema, options=settings)
    rows = 20_000
    table.write(pa.table([pa.array(range(rows)), [f"s{i % 3}" for i in range(rows)]], schema=schema))
    table.delete("id % 5 = 0")
    [whole] = table.scan().plan().splits
    [file_] = whole.files
    assert pq.ParquetFile(tmp_path / "db.db" / "t" / "bucket-0" / file_.file_name).num_row_groups > 5
    bounds = [rows * n // count for n in range(count + 1)]
    for where, wanted in ((None, range(rows)), ("s = 's1'", range(1, rows, 3))):
        request = table.scan(where=where).plan().requests["main"]
        parts = [replace(whole, rows=bound) for bound in pairwise(bounds)]
        found = [i for part in parts for b in read_split(request, part) for i in b.column("id").to_pylist()]
        assert found == [i for i in wanted if i % 5]


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 300), min_size=1, max_size=6), st.sampled_from(list(SplitMode)))),
    st.integers(1, 8),
)
def test_every_file_is_read_once(shapes: list[tuple[list[int], SplitMode]], cores: int) -> None:
    splits = [split(i, [s * MIB for s in sizes], mode) for i, (sizes, mode) in enumerate(shapes)]
    groups = pack(splits, 128 * MIB, 4 * MIB, cores)
    assert all(groups)
    found = sorted(f.file_name for g in groups for s in g for f in s.files)
    assert found == sorted(f.file_name for s in splits for f in s.files)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 300)), max_size=30), st.integers(1, 8))
def test_what_belongs_together_stays_in_order_in_one_task(files: list[tuple[int, int]], cores: int) -> None:
    splits = [replace(split(bucket, [size * MIB, 1]), bucket_path=str(i)) for i, (bucket, size) in enumerate(files)]
    groups = pack(splits, 128 * MIB, 4 * MIB, cores, together=lambda s: s.bucket)
    for bucket in {b for b, _ in files}:
        (group,) = [g for g in groups if any(s.bucket == bucket for s in g)]
        assert [s.bucket_path for s in group if s.bucket == bucket] == [
            str(i) for i, (b, _) in enumerate(files) if b == bucket
        ]
    assert sum(len(s.files) for g in groups for s in g) == 2 * len(files)
