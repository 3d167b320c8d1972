"""Files of each format → canonical Arrow, by what their own libraries write."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paimon_spark.errors import CorruptFileError, DataError, FormatError, StorageError, UnsupportedFeatureError
from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.format.compression import decompressor
from paimon_spark.format.data_files.avro import decimals
from paimon_spark.format.data_files.parquet_footer import as_file, int96_as_bytes
from paimon_spark.format.data_files.registry import format_of, read_rows
from paimon_spark.format.data_files.requests import FileRead, Rows
from paimon_spark.storage.local import LocalStore
from paimon_spark.storage.store import KnownRanges, open_ranges
from paimon_spark.types import DataField, DecimalType, parse_type
from tests.harness.avro_files import avro_file
from tests.harness.search import examples

SHARED_TMP = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(25))


def read(path: Path, fields: dict[str, Any], count: int, **more: Any) -> dict[str, pa.Array]:
    wanted = tuple(DataField(i, n, parse_type(t)) for i, (n, t) in enumerate(fields.items()))
    runs: list[Rows] = list(read_rows(FileRead(LocalStore(), str(path), wanted, count, **more)))
    at = 0
    for run in runs:
        assert run.first == at
        at += run.row_count
    out = {}
    for i, f in enumerate(wanted):
        chunks = [r.arrays[i] for r in runs]
        for chunk in chunks:
            chunk.validate(full=True)
            assert chunk.type == arrow_type(f.type)
        out[f.name] = pa.concat_arrays(chunks)
    return out


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("data-1.parquet", "parquet"),
        ("data-1.zstd.parquet", "parquet"),
        ("data-1.csv.gz", "csv"),
        ("data-1.orc", "orc"),
        ("data-1.blob", "blob"),
        ("data-1.vector.lance", "vector"),
        ("data-1", ""),
        ("x.parquet.avro", "avro"),
        ("compacted-changelog-1$0-20.cc-parquet", "parquet"),
        ("compacted-changelog-1$0-20-20-7.cc-orc", "orc"),
        ("cc-data.cc-orc", "cc-orc"),
    ],
)
def test_the_name_tells_the_format(name: str, expected: str) -> None:
    assert format_of(name) == expected


@pytest.mark.parametrize(
    ("stored", "kind", "want"),
    [
        (pa.array([1, None], pa.int64()), "TINYINT", [1, None]),
        (pa.array([1, None], pa.int32()), "BIGINT", [1, None]),
        (pa.array([1.5, None], pa.float32()), "DOUBLE", [1.5, None]),
        (pa.array([b"a", None]), "STRING", ["a", None]),
        (pa.array(["a", None]), "BYTES", [b"a", None]),
        (pa.array(["a", None], pa.large_string()), "STRING", ["a", None]),
        (pa.array(["a", "a"]).dictionary_encode(), "STRING", ["a", "a"]),
        (pa.array([b"ab"], pa.binary(2)), "BINARY(2)", [b"ab"]),
        (pa.array([Decimal("1.50")], pa.decimal128(5, 2)), "DECIMAL(9, 2)", [Decimal("1.50")]),
        (pa.array([dt.time(1)], pa.time64("us")), "TIME(3)", [dt.time(1)]),
        (pa.array([1000], pa.int32()), "TIME(3)", [dt.time(0, 0, 1)]),
        (pa.array([1], pa.int32()), "DATE", [dt.date(1970, 1, 2)]),
        (pa.array([[1], None, []], pa.large_list(pa.int32())), "ARRAY<INT>", [[1], None, []]),
    ],
)
def test_foreign_parquet_types_become_canonical(tmp_path: Path, stored: pa.Array, kind: Any, want: list[Any]) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"c": stored}), path)
    wanted = {"type": "ARRAY", "element": "INT"} if kind == "ARRAY<INT>" else kind
    assert read(path, {"c": wanted}, len(want))["c"].to_pylist() == want


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize(("kind", "expected"), [("TIMESTAMP(3)", "ms"), ("TIMESTAMP(6)", "us"), ("TIMESTAMP(9)", "ns")])
def test_timestamps_take_the_unit_of_their_type(tmp_path: Path, unit: str, kind: str, expected: str) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"c": pa.array([-1, 1_000, None], pa.timestamp("ms")).cast(pa.timestamp(unit))}), path)
    out = read(path, {"c": kind}, 3)["c"]
    assert out.type.unit == expected
    assert out.cast(pa.timestamp("ms")).cast(pa.int64()).to_pylist() == [-1, 1_000, None]


def test_finer_digits_are_cut_downwards(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"c": pa.array([-1, 1], pa.timestamp("ns"))}), path)
    assert read(path, {"c": "TIMESTAMP(3)"}, 2)["c"].cast(pa.int64()).to_pylist() == [-1, 0]


def int96(path: Path, values: list[tuple[int, int] | None]) -> None:
    """A Parquet file whose INT96 column c holds (nanoseconds of the day, Julian day)."""
    raw = [None if v is None else v[0].to_bytes(8, "little", signed=True) + v[1].to_bytes(4, "little") for v in values]
    table = pa.table({"c": pa.array([0] * len(raw), pa.timestamp("ns"))})
    plain = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    pq.write_table(table, path, use_deprecated_int96_timestamps=True, **plain)
    data = path.read_bytes()
    epoch = (0).to_bytes(8, "little") + (2440588).to_bytes(4, "little")
    old = epoch * len(raw)
    assert data.count(old) == 1
    path.write_bytes(data.replace(old, b"".join(r or epoch for r in raw)))


DAY_NS = 86_400_000_000_000


@pytest.mark.parametrize(
    ("kind", "unit_ns"), [("TIMESTAMP(9)", 1), ("TIMESTAMP(6)", 1000), ("TIMESTAMP_LTZ(3)", 10**6)]
)
def test_int96_may_have_a_negative_time_of_day(tmp_path: Path, kind: str, unit_ns: int) -> None:
    path = tmp_path / "f.parquet"
    int96(path, [(-1, 2440588), (DAY_NS - 1, 2440587), (1, 2440588), (-DAY_NS, 2440587)])
    got = read(path, {"c": kind}, 4)["c"].cast(pa.int64()).to_pylist()
    assert got == [-1 // unit_ns, -1 // unit_ns, 1 // unit_ns, -2 * DAY_NS // unit_ns]


def test_int96_far_away_reads_right_or_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    int96(path, [(0, 2440588 + 2932896), (0, 1721426)])
    got = read(path, {"c": "TIMESTAMP(6)"}, 2)["c"].to_pylist()
    assert got == [dt.datetime(9999, 12, 31), dt.datetime(1, 1, 1)]
    with pytest.raises(DataError, match="1677-09-21 to 2262-04-11"):
        read(path, {"c": "TIMESTAMP(9)"}, 2)


@given(st.binary(max_size=200), st.integers(0, 400))
def test_footers_of_garbage_raise_our_error(garbage: bytes, at: int) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"c": pa.array([0], pa.timestamp("ns"))}), sink, use_deprecated_int96_timestamps=True)
    data = sink.getvalue().to_pybytes()
    footer = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
    assert pq.read_metadata(pa.BufferReader(as_file(int96_as_bytes(footer)))).schema.column(0).length == 12
    for bad in (garbage, footer[:at] + garbage + footer[at + len(garbage) :], footer[:at]):
        try:
            int96_as_bytes(bad)
        except FormatError:
            continue


def test_columns_the_file_lacks_are_null_and_nested_ones_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"r": pa.array([{"x": 1, "y": 2}, None])}), path)
    row = {"type": "ROW", "fields": [{"id": 1, "name": "y", "type": "BIGINT"}]}
    assert read(path, {"r": row, "gone": "INT"}, 2)["gone"].to_pylist() == [None, None]
    assert read(path, {"r": row}, 2)["r"].to_pylist() == [{"y": 2}, None]
    row["fields"].append({"id": 2, "name": "z", "type": "INT"})  # type: ignore[attr-defined]
    with pytest.raises(CorruptFileError, match=r"r\.z is not in the file"):
        read(path, {"r": row}, 2)


def test_names_with_dots_are_names(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"a.b": [1], "a": pa.array([{"b": 2, "c": 3}])}), path)
    out = read(path, {"a.b": "BIGINT", "a": {"type": "ROW", "fields": [{"id": 1, "name": "b", "type": "BIGINT"}]}}, 1)
    assert out["a.b"].to_pylist() == [1]
    assert out["a"].to_pylist() == [{"b": 2}]


def test_shredded_variants_and_maps_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    shredded = pa.array([{"metadata": b"m", "value": b"v", "typed_value": 1}])
    pq.write_table(pa.table({"v": shredded, "m": pa.array([{"k": 1}])}), path)
    with pytest.raises(UnsupportedFeatureError, match="column v is a shredded VARIANT"):
        read(path, {"v": "VARIANT"}, 1)
    with pytest.raises(UnsupportedFeatureError, match="shared-shredding"):
        read(path, {"m": {"type": "MAP", "key": "STRING", "value": "BIGINT"}}, 1)


def test_plain_variants_read_whatever_the_order_of_their_parts(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"v": pa.array([{"metadata": b"m", "value": b"v"}, None])}), path)
    assert read(path, {"v": "VARIANT"}, 2)["v"].to_pylist() == [{"value": b"v", "metadata": b"m"}, None]


# Strictly inside 64-bit nanoseconds, in microseconds.
NEAR_MICROSECONDS = st.none() | st.integers(-9_223_372_035_999_999, 9_223_372_035_999_999)


def nested_timestamps(values: list[int | None]) -> pa.Table:
    """Timestamps as a column and inside lists of rows and maps."""
    flat = pa.array(values, pa.timestamp("us"))
    rows = [None if v is None else [{"t": v}, None, {"t": None}] for v in values]
    nested = pa.array(rows, pa.list_(pa.struct([("t", pa.timestamp("us"))])))
    mapped = pa.array([[("k", v)] for v in values], pa.map_(pa.string(), pa.timestamp("us")))
    return pa.table(
        {"n": nested, "z": flat.cast(pa.timestamp("us", "UTC")), "c": flat, "m": mapped, "i": range(len(values))}
    )


NESTED_TIMESTAMPS = {
    "c": "TIMESTAMP(6)",
    "z": "TIMESTAMP_LTZ(6)",
    "n": {
        "type": "ARRAY",
        "element": {"type": "ROW", "fields": [{"id": 1, "name": "t", "type": "TIMESTAMP(6)"}]},
    },
    "m": {"type": "MAP", "key": "STRING", "value": "TIMESTAMP(6)"},
    "i": "BIGINT",
}


@SHARED_TMP
@given(
    values=st.lists(NEAR_MICROSECONDS, min_size=1, max_size=700),
    codec=st.sampled_from(["uncompressed", "zlib", "snappy", "lz4", "zstd"]),
    version=st.sampled_from(["0.11", "0.12"]),
)
def test_orc_timestamps_within_64_bit_nanoseconds(
    tmp_path: Path, values: list[int | None], codec: str, version: str
) -> None:
    path = tmp_path / "f.orc"
    po.write_table(nested_timestamps(values), path, compression=codec, file_version=version)
    out = read(path, NESTED_TIMESTAMPS, len(values), batch_rows=100)
    assert out["c"].cast(pa.int64()).to_pylist() == values
    assert out["z"].cast(pa.int64()).to_pylist() == values
    flat_nested = out["n"].values.flatten()[0].cast(pa.int64()).to_pylist()
    assert flat_nested == [x for v in values if v is not None for x in (v, None, None)]
    assert [x[0][1] for x in out["m"].to_pylist()] == out["c"].to_pylist()


@pytest.mark.parametrize("codec", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("far", [dt.datetime(1, 1, 2), dt.datetime(1677, 9, 21), dt.datetime(9999, 12, 31)])
def test_orc_timestamps_outside_64_bit_nanoseconds_are_refused(tmp_path: Path, codec: str, far: dt.datetime) -> None:
    path = tmp_path / "f.orc"
    micros = (far - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    po.write_table(nested_timestamps([0, None, micros]), path, compression=codec)
    for name, column in (("c", "c"), ("z", "z"), ("n", "n.element.t"), ("m", "m.value")):
        with pytest.raises(UnsupportedFeatureError, match=r"f\.orc.*1677-09-21 to 2262-04-11.*Parquet") as raised:
            read(path, {name: NESTED_TIMESTAMPS[name]}, 3)
        assert raised.value.context["column"] == column
        assert f"column {column} may hold" in str(raised.value)
    assert read(path, {"i": "BIGINT"}, 3)["i"].to_pylist() == [0, 1, 2]


def test_orc_timestamps_are_refused_for_nanosecond_columns_too(tmp_path: Path) -> None:
    path = tmp_path / "f.orc"
    po.write_table(pa.table({"c": pa.array([253402300799_000_000], pa.timestamp("us")), "i": [1]}), path)
    with pytest.raises(UnsupportedFeatureError, match=r"f\.orc.*column c.*1677-09-21 to 2262-04-11"):
        read(path, {"c": "TIMESTAMP(9)"}, 1)
    assert read(path, {"i": "BIGINT"}, 1)["i"].to_pylist() == [1]


DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**15), max_value=10**15)


@given(st.lists(st.none() | DECIMALS))
def test_decimals_of_bytes(values: list[Decimal | None]) -> None:
    def encoded(value: Decimal) -> bytes:
        unscaled = int(value.scaleb(3))
        return unscaled.to_bytes((unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1, "big", signed=True)

    raw = pa.array([None if v is None else encoded(v) for v in values], pa.binary())
    assert decimals(raw, DecimalType(True, 20, 3), 3).to_pylist() == values
    assert decimals(raw.slice(1), DecimalType(True, 20, 3), 3).to_pylist() == values[1:]


def test_avro_logical_types_are_read_by_their_unit_alone(tmp_path: Path) -> None:
    path = tmp_path / "f.avro"

    def column(name: str, avro: Any) -> dict[str, Any]:
        return {"name": name, "type": ["null", avro]}

    entry = {"type": "record", "name": "e", "fields": [{"name": "key", "type": "int"}, column("value", "string")]}
    schema = {
        "type": "record",
        "name": "record",
        "fields": [
            column("t", {"type": "long", "logicalType": "timestamp-millis"}),
            column("z", {"type": "long", "logicalType": "local-timestamp-micros"}),
            column("d", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}),
            column("m", {"type": "array", "items": entry, "logicalType": "map"}),
            column("s", {"type": "map", "values": ["null", "int"]}),
            column("day", {"type": "int", "logicalType": "date"}),
        ],
    }
    row = {"t": -1, "z": 1, "d": b"\xff", "m": [{"key": 1, "value": None}], "s": {"a": 1}, "day": -1}
    nothing = dict.fromkeys(row)
    path.write_bytes(avro_file(_raw(schema), [row, nothing]))
    out = read(
        path,
        {
            "t": "TIMESTAMP(3)",
            "z": "TIMESTAMP_LTZ(6)",
            "d": "DECIMAL(10, 2)",
            "m": {"type": "MAP", "key": "INT", "value": "STRING"},
            "s": {"type": "MAP", "key": "STRING", "value": "INT"},
            "day": "DATE",
        },
        2,
    )
    assert out["t"].cast(pa.int64()).to_pylist() == [-1, None]
    assert out["z"].cast(pa.int64()).to_pylist() == [1, None]
    assert out["d"].to_pylist() == [Decimal("-0.01"), None]
    assert out["m"].to_pylist() == [[(1, None)], None]
    assert out["s"].to_pylist() == [[("a", 1)], None]
    assert out["day"].to_pylist() == [dt.date(1969, 12, 31), None]


def _raw(schema: Any) -> Any:
    """The schema without logical types: units are then those of the column types, as in files without them."""
    if isinstance(schema, list):
        return [_raw(s) for s in schema]
    if isinstance(schema, dict):
        return {k: _raw(v) for k, v in schema.items() if k != "logicalType"}
    return schema


class Failing(LocalStore):
    """A store that is lost after the file was opened."""

    def open(self, path: str, size: int | None = None) -> pa.NativeFile:
        return open_ranges(KnownRanges(Path(path).stat().st_size, partial(self.fail, path)), path, size)

    def fail(self, path: str, offset: int, length: int) -> bytes:
        raise StorageError(f"no connection for {path}", path=path, retryable=True)


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_a_store_that_fails_is_no_corrupt_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"f.{kind}"
    (pq if kind == "parquet" else po).write_table(pa.table({"a": [1]}), path)
    with pytest.raises(StorageError, match="no connection for") as raised:
        list(read_rows(FileRead(Failing(), str(path), (DataField(0, "a", parse_type("BIGINT")),), 1)))
    assert raised.value.retryable


@pytest.mark.parametrize("codec", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
def test_orc_timestamps_of_every_codec(tmp_path: Path, codec: str) -> None:
    near = [dt.datetime(2024, 1, 1) + dt.timedelta(milliseconds=i * i) for i in range(5000)]
    far = [dt.datetime(1 + i % 9998, 1, 2, microsecond=i) for i in range(5000)]
    columns = {f"near{i}": pa.array(near, pa.timestamp("us")) for i in range(30)}
    table = pa.table({**columns, "far": pa.array(far, pa.timestamp("us"))})
    po.write_table(table, tmp_path / "f.orc", compression=codec)
    assert read(tmp_path / "f.orc", {"near0": "TIMESTAMP(6)"}, 5000)["near0"].to_pylist() == near
    with pytest.raises(UnsupportedFeatureError, match="column far may hold"):
        read(tmp_path / "f.orc", {"near0": "TIMESTAMP(6)", "far": "TIMESTAMP(6)"}, 5000)


@settings(max_examples=examples(200))
@given(data=st.one_of(st.binary(max_size=3000), st.text("ab", max_size=3000).map(str.encode)))
def test_lz4_blocks(data: bytes) -> None:
    decompress = decompressor("lz4", 4096)
    assert decompress is not None
    assert decompress(pa.Codec("lz4_raw").compress(data, asbytes=True)) == data


def test_lz4_blocks_that_are_too_large_or_damaged_are_refused() -> None:
    decompress = decompressor("lz4", 4096)
    assert decompress is not None
    packed = pa.Codec("lz4_raw").compress(b"a" * 4097, asbytes=True)
    with pytest.raises(FormatError, match="more than 4096 bytes"):
        decompress(packed)
    with pytest.raises((FormatError, OSError)):
        decompress(packed[:-3])


def test_orc_stripes_that_claim_more_rows_are_refused_before_memory_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "f.orc"
    po.write_table(pa.table({"a": [1, 2, 3]}), path, compression="uncompressed")
    data = path.read_bytes()
    at = data.rindex(b"\x28\x03", 0, data.rindex(b"\x22"))  # a stripe's field 5, before the types
    path.write_bytes(data[: at + 1] + b"\x7f" + data[at + 2 :])
    with pytest.raises(CorruptFileError, match="its stripes hold 127 rows"):
        read(path, {"a": "BIGINT"}, 3)
