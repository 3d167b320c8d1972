"""Data files written by every format, and what their readers get back."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paimon_spark.errors import DataError
from paimon_spark.fileformat.registry import open_writer, read_rows
from paimon_spark.fileformat.rows import FileRead
from paimon_spark.fileformat.writing import FileWrite, WrittenFile
from paimon_spark.spec.arrow import arrow_schema, arrow_type
from paimon_spark.storage.local import LocalStore
from paimon_spark.types import INT, ArrayType, DataField, DataType, RowType, parse_type
from tests.harness.typed_values import array_of, types, values

SHARED_TMP = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
FORMATS = ("parquet", "orc", "avro")


def fields_of(*kinds: str | DataType) -> tuple[DataField, ...]:
    parsed = [parse_type(k) if isinstance(k, str) else k for k in kinds]
    return tuple(DataField(i, f"c{i}", t) for i, t in enumerate(parsed))


def write(path: Path, batches: list[pa.RecordBatch], fields: tuple[DataField, ...], **more: Any) -> WrittenFile:
    writer = open_writer(FileWrite(LocalStore(), str(path), path.suffix[1:], fields, **more))
    for batch in batches:
        writer.write(batch)
    return writer.close()


def read(path: Path, fields: tuple[DataField, ...], count: int) -> list[pa.Array]:
    runs = list(read_rows(FileRead(LocalStore(), str(path), fields, count)))
    return [
        pa.concat_arrays([r.arrays[i] for r in runs]) if runs else array_of([], f.type) for i, f in enumerate(fields)
    ]


def batch_of(fields: tuple[DataField, ...], *columns: list[Any]) -> pa.RecordBatch:
    arrays = [array_of(c, f.type) for c, f in zip(columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(fields))


@st.composite
def tables(draw: st.DrawFn, digits: int, variants: bool) -> tuple[tuple[DataField, ...], list[pa.RecordBatch]]:
    fields = fields_of(*draw(st.lists(types(digits=digits, variants=variants), min_size=1, max_size=4)))
    rows = draw(st.lists(st.tuples(*(values(f.type) for f in fields)), max_size=12))
    whole = batch_of(fields, *([row[i] for row in rows] for i in range(len(fields))))
    cuts = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    bounds = [0, *cuts, len(rows)]
    return fields, [whole.slice(a, b - a) for a, b in pairwise(bounds)]


def check_round_trip(
    tmp_path: Path, name: str, drawn: tuple[tuple[DataField, ...], list[pa.RecordBatch]], **more: Any
) -> None:
    fields, batches = drawn
    path = tmp_path / f"{uuid4()}.{name}"
    written = write(path, batches, fields, **more)
    assert written == (path.stat().st_size, sum(b.num_rows for b in batches))
    table = pa.Table.from_batches(batches, arrow_schema(fields)).combine_chunks()
    for array, column in zip(read(path, fields, written.row_count), table.columns, strict=True):
        array.validate(full=True)
        assert pa.chunked_array([array]).equals(column), (array, column)


@SHARED_TMP
@given(drawn=tables(9, True), group=st.sampled_from([1, 100, 1 << 20]))
def test_parquet_gives_back_what_was_written(tmp_path: Path, drawn: Any, group: int) -> None:
    check_round_trip(tmp_path, "parquet", drawn, row_group_bytes=group)


@SHARED_TMP
@given(drawn=tables(9, False))
def test_orc_gives_back_what_was_written(tmp_path: Path, drawn: Any) -> None:
    check_round_trip(tmp_path, "orc", drawn)


@SHARED_TMP
@given(drawn=tables(6, False), nullable=st.booleans())
def test_avro_gives_back_what_was_written(tmp_path: Path, drawn: Any, nullable: bool) -> None:
    check_round_trip(tmp_path, "avro", drawn, row_is_nullable=nullable)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    ("kind", "child"),
    [
        ("BIGINT NOT NULL", pa.array([None, 7])),
        ("STRING NOT NULL", pa.array([None, "a"])),
        ("TIMESTAMP(6) NOT NULL", pa.array([None, 5], pa.timestamp("us"))),
        ("ARRAY<INT> NOT NULL", pa.array([None, [1, None]], arrow_type(ArrayType(False, INT)))),
    ],
)
def test_a_null_row_may_have_null_fields_that_are_never_null(
    tmp_path: Path, name: str, kind: str, child: pa.Array
) -> None:
    inner = ArrayType(False, INT) if kind.startswith("ARRAY") else parse_type(kind)
    fields = fields_of(RowType(True, (DataField(9, "f", inner),)))
    rows = pa.StructArray.from_arrays([child], fields=list(arrow_type(fields[0].type)), mask=pa.array([True, False]))
    batch = pa.RecordBatch.from_arrays([rows], schema=arrow_schema(fields))
    write(tmp_path / f"f.{name}", [batch, batch.slice(1)], fields)
    want = child[1].as_py()
    assert read(tmp_path / f"f.{name}", fields, 3)[0].to_pylist() == [None, {"f": want}, {"f": want}]


def test_a_null_in_a_field_that_is_never_null_is_an_error(tmp_path: Path) -> None:
    fields = fields_of(RowType(True, (DataField(9, "f", parse_type("INT NOT NULL")),)))
    rows = pa.StructArray.from_arrays([pa.array([None], pa.int32())], fields=list(arrow_type(fields[0].type)))
    with pytest.raises(DataError, match=r"field f of a row is null, its type is NOT NULL"):
        write(tmp_path / "f.parquet", [pa.RecordBatch.from_arrays([rows], schema=arrow_schema(fields))], fields)


@pytest.mark.parametrize("name", FORMATS)
def test_a_null_row_inside_a_row_keeps_its_neighbours(tmp_path: Path, name: str) -> None:
    inner = RowType(True, (DataField(2, "b", INT),))
    fields = fields_of(RowType(True, (DataField(1, "a", inner),)))
    rows = [{"a": None}, {"a": {"b": 1}}, {"a": None}, {"a": {"b": 3}}]
    write(tmp_path / f"f.{name}", [batch_of(fields, rows)], fields)
    assert read(tmp_path / f"f.{name}", fields, 4)[0].to_pylist() == rows
