"""Minimum and maximum of floating-point columns in the footers of Parquet files: none where NaN is."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paimon_spark.errors import FormatError
from paimon_spark.format.arrays.arrow_types import arrow_schema
from paimon_spark.format.data_files.parquet_footer import as_file, without_bounds
from paimon_spark.format.data_files.registry import open_writer, read_rows
from paimon_spark.format.data_files.requests import FileRead, FileWrite
from paimon_spark.storage.local import LocalStore
from paimon_spark.types import ArrayType, DataField, DataType, MapType, RowType, parse_type
from tests.harness.typed_values import array_of

NAN = math.nan
INT, FLOAT, DOUBLE = map(parse_type, ("INT", "FLOAT", "DOUBLE"))
KEY = parse_type("DOUBLE NOT NULL")
FLOATS = st.none() | st.sampled_from([0.0, -0.0, NAN, math.inf, -math.inf]) | st.floats(width=32)


def write(path: Path, kinds: list[DataType], rows: list[tuple[Any, ...]], group_rows: int) -> pq.FileMetaData:
    fields = tuple(DataField(i, f"c{i}", kind) for i, kind in enumerate(kinds))
    arrays = [array_of([row[i] for row in rows], f.type) for i, f in enumerate(fields)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(fields))
    writer = open_writer(FileWrite(LocalStore(), str(path), "parquet", fields, row_group_rows=group_rows))
    for begin in range(0, len(rows), group_rows):
        writer.write(batch.slice(begin, group_rows))
    written = writer.close()
    assert written.file_size == path.stat().st_size
    found = [
        pa.concat_arrays(c)
        for c in zip(*(r.arrays for r in read_rows(FileRead(LocalStore(), str(path), fields, len(rows)))), strict=True)
    ]
    assert repr([a.to_pylist() for a in found]) == repr([a.to_pylist() for a in arrays])
    return pq.read_metadata(path)


def bounds(metadata: pq.FileMetaData) -> list[dict[str, tuple[Any, Any] | None]]:
    """For each row group, minimum and maximum of each leaf; None where there are none."""
    out = []
    for i in range(metadata.num_row_groups):
        chunks = [metadata.row_group(i).column(j) for j in range(metadata.num_columns)]
        stats = {c.path_in_schema: c.statistics for c in chunks}
        out.append({path: (s.min, s.max) if s and s.has_min_max else None for path, s in stats.items()})
    return out


def test_a_column_chunk_with_nan_has_no_bounds_and_keeps_its_null_count(tmp_path: Path) -> None:
    rows = [(1, 1.0, 1.0), (2, 2.0, NAN), (3, None, 3.0), (4, NAN, None), (5, 5.0, -0.0), (6, 0.0, math.inf)]
    metadata = write(tmp_path / "f.parquet", [INT, FLOAT, DOUBLE], rows, 2)
    assert bounds(metadata) == [
        {"c0": (1, 2), "c1": (1.0, 2.0), "c2": None},
        {"c0": (3, 4), "c1": None, "c2": (3.0, 3.0)},
        {"c0": (5, 6), "c1": (-0.0, 5.0), "c2": (-0.0, math.inf)},
    ]
    stats = [[metadata.row_group(i).column(j).statistics for j in (1, 2)] for i in range(3)]
    assert [[s.null_count for s in group] for group in stats] == [[0, 0], [1, 1], [0, 0]]
    assert math.copysign(1, stats[2][0].min) == -1  # zeros of either sign lie between the bounds


def test_nested_floats_and_timestamps_of_twelve_bytes_stand_beside_one_another(tmp_path: Path) -> None:
    numbers = RowType(True, (DataField(7, "d", DOUBLE), DataField(8, "n", INT), DataField(9, "e", DOUBLE)))
    kinds = [parse_type("TIMESTAMP(9)"), numbers, ArrayType(True, FLOAT), MapType(True, KEY, ArrayType(True, DOUBLE))]
    row = {"d": 1.0, "n": 1, "e": 1.0}
    rows: list[tuple[Any, ...]] = [
        (1, row, [1.0], [(1.0, [1.0])]),
        (2, {**row, "e": NAN}, [1.0, NAN, None], [(1.0, [1.0, NAN])]),
        (3, None, None, [(NAN, None)]),
    ]
    found = bounds(write(tmp_path / "f.parquet", kinds, rows, 1))
    assert [{path for path, ends in group.items() if ends is None} - {"c0"} for group in found] == [
        set(),
        {"c1.e", "c2.list.element", "c3.key_value.value.list.element"},
        {"c1.d", "c1.n", "c1.e", "c2.list.element", "c3.key_value.key", "c3.key_value.value.list.element"},
    ]


def test_nan_in_the_slot_of_a_null_takes_no_bounds_away(tmp_path: Path) -> None:
    values = pa.Array.from_buffers(
        pa.float64(), 2, [pa.py_buffer(b"\x01"), pa.array([1.0, NAN]).buffers()[1]], null_count=1
    )
    fields = (DataField(0, "c0", DOUBLE),)
    writer = open_writer(FileWrite(LocalStore(), str(tmp_path / "f.parquet"), "parquet", fields))
    writer.write(pa.RecordBatch.from_arrays([values], schema=arrow_schema(fields)))
    writer.close()
    assert bounds(pq.read_metadata(tmp_path / "f.parquet")) == [{"c0": (1.0, 1.0)}]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
@given(rows=st.lists(st.tuples(FLOATS, st.none() | st.lists(FLOATS, max_size=3)), min_size=1, max_size=9))
def test_no_value_lies_outside_of_the_bounds_of_its_chunk(tmp_path: Path, rows: list[tuple[Any, Any]]) -> None:
    metadata = write(tmp_path / f"{uuid4()}.parquet", [DOUBLE, ArrayType(True, FLOAT)], rows, 3)
    for i, group in enumerate(bounds(metadata)):
        part = rows[3 * i : 3 * i + 3]
        for path, values in (("c0", [r[0] for r in part]), ("c1.list.element", [v for r in part for v in r[1] or ()])):
            ends, present = group[path], [v for v in values if v is not None]
            if any(map(math.isnan, present)) or not present:
                assert ends is None
            else:
                assert ends is not None
                assert all(ends[0] <= v <= ends[1] for v in present)
                assert ends[0] != 0 or math.copysign(1, ends[0]) == -1
                assert ends[1] != 0 or math.copysign(1, ends[1]) == 1


def test_a_footer_that_lacks_a_chunk_is_an_error(tmp_path: Path) -> None:
    pq.write_table(pa.table({"c": [1.0]}), tmp_path / "f.parquet")
    data = (tmp_path / "f.parquet").read_bytes()
    footer = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
    edited = pq.read_metadata(pa.BufferReader(as_file(without_bounds(footer, {(0, 0)}))))
    assert edited.row_group(0).column(0).statistics.to_dict() == {
        **pq.read_metadata(tmp_path / "f.parquet").row_group(0).column(0).statistics.to_dict(),
        "has_min_max": False, "min": None, "max": None,
    }  # fmt: skip
    for missing in ((0, 1), (1, 0)):
        with pytest.raises(FormatError, match="lacks the column chunks"):
            without_bounds(footer, {missing})
