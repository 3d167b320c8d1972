"""Data files written by every format, and what their readers get back."""

from __future__ import annotations

import json
import math
import re
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paimon_spark.errors import DataError, InvalidOptionError, UnsupportedFeatureError
from paimon_spark.format.arrays.arrow_types import arrow_schema, arrow_type
from paimon_spark.format.avro_codec.container import open_container
from paimon_spark.format.data_files.registry import open_writer, read_rows
from paimon_spark.format.data_files.requests import FileRead, FileWrite, WrittenFile
from paimon_spark.storage.local import LocalStore
from paimon_spark.types import (
    INT,
    STRING,
    VARIANT,
    ArrayType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    parse_type,
)
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
def tables(
    draw: st.DrawFn, digits: int, variants: bool, all_times: bool = True
) -> tuple[tuple[DataField, ...], list[pa.RecordBatch]]:
    fields = fields_of(*draw(st.lists(types(digits=digits, variants=variants), min_size=1, max_size=4)))
    rows = draw(st.lists(st.tuples(*(values(f.type, all_times) for f in fields)), max_size=12))
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
    count = sum(b.num_rows for b in batches)
    assert written == (path.stat().st_size, count)
    table = pa.Table.from_batches(batches, arrow_schema(fields)).combine_chunks()
    for array, column in zip(read(path, fields, count), table.columns, strict=True):
        array.validate(full=True)
        assert pa.chunked_array([array]).equals(column), (array, column)


@SHARED_TMP
@given(drawn=tables(9, True), group=st.sampled_from([1, 100, 1 << 20]))
def test_parquet_gives_back_what_was_written(tmp_path: Path, drawn: Any, group: int) -> None:
    check_round_trip(tmp_path, "parquet", drawn, row_group_bytes=group)


@SHARED_TMP
@given(drawn=tables(9, False, False), stripe_at_once=st.sampled_from([-1, 8 << 20]))
def test_orc_gives_back_what_was_written(tmp_path: Path, drawn: Any, stripe_at_once: int) -> None:
    with patch("paimon_spark.format.data_files.orc._STRIPE_AT_ONCE_BYTES", stripe_at_once):
        check_round_trip(tmp_path, "orc", drawn)


@SHARED_TMP
@given(drawn=tables(6, False), nullable=st.booleans(), window=st.sampled_from([100, 16 << 20]))
def test_avro_gives_back_what_was_written(tmp_path: Path, drawn: Any, nullable: bool, window: int) -> None:
    with patch("paimon_spark.format.data_files.avro._WINDOW_BYTES", window):
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


EVERY_TYPE = {
    "BOOLEAN": "boolean", "TINYINT": "int32 (Int(8, true))", "SMALLINT": "int32 (Int(16, true))", "INT": "int32",
    "BIGINT": "int64", "FLOAT": "float", "DOUBLE": "double", "DATE": "int32 (Date)", "CHAR(3)": "binary (String)",
    "VARCHAR(3)": "binary (String)", "STRING": "binary (String)", "BYTES": "binary", "BINARY(2)": "binary",
    "DECIMAL(9, 2)": "int32 (Decimal(9, 2))", "DECIMAL(18, 2)": "int64 (Decimal(18, 2))",
    "DECIMAL(19, 2)": "fixed_len_byte_array(9) (Decimal(19, 2))",
    "DECIMAL(28, 2)": "fixed_len_byte_array(12) (Decimal(28, 2))",
    "DECIMAL(38, 2)": "fixed_len_byte_array(16) (Decimal(38, 2))",
    "TIME(3)": "int32 (Time(true, milliseconds))",
    "TIMESTAMP(3)": "int64 (Timestamp(false, milliseconds, false, false))",
    "TIMESTAMP(6)": "int64 (Timestamp(false, microseconds, false, false))",
    "TIMESTAMP(3) WITH LOCAL TIME ZONE": "int64 (Timestamp(true, milliseconds, false, false))",
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": "int64 (Timestamp(true, microseconds, false, false))",
    "TIMESTAMP(9)": "int96", "TIMESTAMP(7) WITH LOCAL TIME ZONE": "int96",
}  # fmt: skip


def parquet_schema(path: Path) -> list[str]:
    """Lines of the file's schema; arguments of annotations without their names."""
    text = str(pq.ParquetFile(path).schema).split("\n")[2:-2]
    return [re.sub(r"\w+=(?=[^ ])", "", re.sub(r" field_id=(-?\d+)", r"", line)).strip(" ;") for line in text]


def test_parquet_has_the_physical_types_of_java(tmp_path: Path) -> None:
    kinds = [kind for name in EVERY_TYPE for kind in (name, name + " NOT NULL")]
    fields = fields_of(*kinds)
    write(tmp_path / "f.parquet", [], fields)
    want = []
    for number, (kind, f) in enumerate(zip(kinds, fields, strict=True)):
        physical, _, annotation = EVERY_TYPE[kind.removesuffix(" NOT NULL")].partition(" ")
        repetition = "optional" if f.type.nullable else "required"
        want.append(f"{repetition} {physical} c{number} {annotation}".strip())
    assert parquet_schema(tmp_path / "f.parquet") == want


def test_parquet_carries_field_ids_as_java_counts_them(tmp_path: Path) -> None:
    ints = ArrayType(True, ArrayType(True, INT))
    fields = (
        DataField(7, "a", ints),
        DataField(8, "m", MapType(True, STRING, RowType(True, (DataField(9, "r", ints),)))),
        DataField(10, "s", MultisetType(True, STRING)),
        DataField(11, "v", VARIANT),
    )
    write(tmp_path / "f.parquet", [], fields)
    text = str(pq.ParquetFile(tmp_path / "f.parquet").schema)
    found = re.findall(r"field_id=(\d+) (\w+)", text)
    base, step = 536870911, 1024
    assert [(int(number), name) for number, name in found] == [
        (7, "a"), (base + 7 * step + 1, "element"), (base + 7 * step + 2, "element"),
        (8, "m"), (base - 8 * step - 1, "key"), (base + 8 * step + 1, "value"),
        (9, "r"), (base + 9 * step + 1, "element"), (base + 9 * step + 2, "element"),
        (10, "s"), (base - 10 * step - 1, "key"), (base + 10 * step + 1, "value"),
        (11, "v"), (0, "value"), (1, "metadata"),
    ]  # fmt: skip


def test_parquet_has_no_arrow_schema_and_knows_its_codec(tmp_path: Path) -> None:
    fields = fields_of("INT")
    batch = batch_of(fields, [1, 2])
    for codec, want in (("zstd", "ZSTD"), ("none", "UNCOMPRESSED"), ("SNAPPY", "SNAPPY"), ("lz4", "LZ4")):
        path = tmp_path / f"{codec}.parquet"
        write(path, [batch], fields, compression=codec)
        found = pq.read_metadata(path)
        assert found.metadata is None
        assert found.row_group(0).column(0).compression == want
    write(tmp_path / "own.parquet", [batch], fields, settings={"parquet.compression": "gzip"})
    assert pq.read_metadata(tmp_path / "own.parquet").row_group(0).column(0).compression == "GZIP"


def test_parquet_has_dictionaries_where_values_repeat(tmp_path: Path) -> None:
    fields = fields_of("STRING", "BIGINT", ArrayType(True, STRING))
    rows = range(1000)
    batch = batch_of(fields, [f"{n % 5}" for n in rows], list(rows), [[f"{n % 3}"] for n in rows])
    write(tmp_path / "f.parquet", [batch], fields)
    group = pq.read_metadata(tmp_path / "f.parquet").row_group(0)
    assert [group.column(i).has_dictionary_page for i in range(3)] == [True, False, True]
    write(tmp_path / "g.parquet", [batch], fields, settings={"parquet.enable.dictionary": "false"})
    group = pq.read_metadata(tmp_path / "g.parquet").row_group(0)
    assert not any(group.column(i).has_dictionary_page for i in range(3))


def test_small_batches_become_row_groups_of_the_size_asked(tmp_path: Path) -> None:
    fields = fields_of("BIGINT NOT NULL")
    batches = [batch_of(fields, list(range(n, n + 10))) for n in range(0, 1000, 10)]
    write(tmp_path / "f.parquet", batches, fields, row_group_rows=300)
    found = pq.read_metadata(tmp_path / "f.parquet")
    assert [found.row_group(i).num_rows for i in range(found.num_row_groups)] == [300, 300, 300, 100]
    write(tmp_path / "g.parquet", batches, fields, row_group_bytes=8 * 500)
    found = pq.read_metadata(tmp_path / "g.parquet")
    assert [found.row_group(i).num_rows for i in range(found.num_row_groups)] == [500, 500]


def test_parquet_statistics_are_there_but_for_int96(tmp_path: Path) -> None:
    fields = fields_of("BIGINT", "TIMESTAMP(9)", "TIMESTAMP(6)")
    write(tmp_path / "f.parquet", [batch_of(fields, [1, None], [1, 2], [3, 4])], fields)
    group = pq.read_metadata(tmp_path / "f.parquet").row_group(0)
    assert [group.column(i).is_stats_set for i in range(3)] == [True, False, True]
    assert group.column(1).physical_type == "INT96"


def test_orc_carries_types_and_field_ids_of_java(tmp_path: Path) -> None:
    fields = fields_of("TIME(3)", "TIMESTAMP(6) WITH LOCAL TIME ZONE", ArrayType(True, INT))
    write(tmp_path / "f.orc", [], fields)
    schema = po.ORCFile(tmp_path / "f.orc").schema
    assert schema.types[:2] == [pa.int32(), pa.timestamp("ns", "UTC")]
    assert [f.metadata[b"paimon.id"] for f in schema] == [b"0", b"1", b"2"]
    assert schema.field(2).type.value_field.metadata[b"paimon.id"] == b"536872960"


@pytest.mark.parametrize("nullable", [True, False])
def test_avro_schemas_are_those_of_java(tmp_path: Path, nullable: bool) -> None:
    fields = fields_of("TIMESTAMP(3)", "TIMESTAMP(6) WITH LOCAL TIME ZONE NOT NULL", MapType(True, INT, STRING))
    write(tmp_path / "f.avro", [], fields, row_is_nullable=nullable)
    found = json.loads(open_container((tmp_path / "f.avro").read_bytes(), "f").schema_text)
    entry = {"type": "record", "name": "org.apache.paimon.avro.generated.record_c2"}
    entry["fields"] = [  # type: ignore[assignment]
        {"name": "key", "type": ["null", "int"]},
        {"name": "value", "type": ["null", "string"], "default": None},
    ]
    record = {
        "type": "record",
        "name": "org.apache.paimon.avro.generated.record",
        "fields": [
            {"name": "c0", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": None},
            {"name": "c1", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
            {
                "name": "c2",
                "type": ["null", {"type": "array", "items": entry, "logicalType": "map"}],
                "default": None,
            },
        ],
    }
    assert found == (["null", record] if nullable else record)


@pytest.mark.parametrize("name", FORMATS)
def test_an_unknown_codec_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises((InvalidOptionError, UnsupportedFeatureError), match="squash"):
        write(tmp_path / f"f.{name}", [batch_of(fields_of("INT"), [1])], fields_of("INT"), compression="squash")


def test_nan_and_infinities_are_kept(tmp_path: Path) -> None:
    fields = fields_of("FLOAT", "DOUBLE")
    rows = [math.nan, math.inf, -math.inf, -0.0]
    for name in FORMATS:
        write(tmp_path / f"f.{name}", [batch_of(fields, rows, rows)], fields)
        for column in read(tmp_path / f"f.{name}", fields, 4):
            assert repr(column.to_pylist()) == repr(rows)


@pytest.mark.parametrize(("kind", "bad", "good"), [("3", -1, -1000), ("6", -1_500_000, -2_000_000), ("9", -1, 1)])
def test_orc_refuses_timestamps_that_java_could_not_read(tmp_path: Path, kind: str, bad: int, good: int) -> None:
    fields = fields_of(ArrayType(True, parse_type(f"TIMESTAMP({kind})")))
    write(tmp_path / "good.orc", [batch_of(fields, [[good, None]])], fields)
    with pytest.raises(UnsupportedFeatureError, match=r"before 1970 with a fraction of a second.*parquet") as caught:
        write(tmp_path / "bad.orc", [batch_of(fields, [[good], [None, bad]])], fields)
    assert caught.value.context["feature"] == "timestamps before 1970 in ORC"


@pytest.mark.parametrize(("kind", "per_second"), [("3", 1000), ("6", 1_000_000)])
def test_orc_refuses_timestamps_that_it_could_not_read(tmp_path: Path, kind: str, per_second: int) -> None:
    fields = fields_of(ArrayType(True, parse_type(f"TIMESTAMP({kind})")))
    last = 9_223_372_035 * per_second
    write(tmp_path / "good.orc", [batch_of(fields, [[last, -last, None]])], fields)
    assert read(tmp_path / "good.orc", fields, 1)[0].values.cast(pa.int64()).to_pylist() == [last, -last, None]
    for bad in (last + per_second, -last - per_second):
        with pytest.raises(UnsupportedFeatureError, match=r"outside 1677-09-21 to 2262-04-11 .*parquet"):
            write(tmp_path / "bad.orc", [batch_of(fields, [[0], [None, bad]])], fields)
