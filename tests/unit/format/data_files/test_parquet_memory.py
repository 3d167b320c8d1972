"""Files that are read side by side share the memory for bytes that are not decoded yet."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_spark.format.data_files import parquet
from paimon_spark.format.data_files.registry import read_rows
from paimon_spark.format.data_files.requests import FileRead
from paimon_spark.storage.local import LocalStore
from paimon_spark.types import DataField, parse_type

FIELDS = (DataField(0, "a", parse_type("BYTES")),)


@pytest.fixture
def large_row_group(tmp_path: Path) -> Path:
    """4 MiB that do not compress, in one row group."""
    path = tmp_path / "f.parquet"
    column = pa.array([os.urandom(1024) for _ in range(4096)], pa.binary())
    pq.write_table(pa.table({"a": column}), path, use_dictionary=False, data_page_size=64 << 10)
    return path


def held_at_first_rows(path: Path, open_files: int) -> int:
    """Arrow memory that reading takes while the first few rows are out."""
    before = pa.total_allocated_bytes()
    rows = read_rows(FileRead(LocalStore(), str(path), FIELDS, 4096, 64, open_files=open_files))
    next(iter(rows))
    return int(pa.total_allocated_bytes() - before)


def test_the_more_files_are_open_the_less_each_holds(large_row_group: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_LOCAL_BYTES", 8 << 20)
    monkeypatch.setattr(parquet, "_FETCHED_BYTES", 2 << 20)
    assert held_at_first_rows(large_row_group, 1) > 4 << 20
    assert held_at_first_rows(large_row_group, 8) < 2 << 20


def test_small_row_groups_of_texts_come_in_whole_batches(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    table = pa.table({"a": [b"%d" % (n % 5) for n in range(1000)]})
    pq.write_table(table, path, row_group_size=16)
    found = list(read_rows(FileRead(LocalStore(), str(path), FIELDS, 1000, 256)))
    assert all(240 <= rows.row_count <= 256 for rows in found[:-1])
    assert pa.chunked_array([rows.arrays[0] for rows in found]) == table.column("a")
