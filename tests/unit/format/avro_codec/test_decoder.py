"""Avro containers: both decoders give the same, and hostile bytes are refused."""

from __future__ import annotations

import json
import zlib
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import CorruptFileError, UnsupportedFeatureError
from paimon_spark.format.avro_codec import container as avro
from paimon_spark.format.avro_codec import decoder
from tests.harness.avro_files import avro_file

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "i", "type": "int"},
        {"name": "l", "type": ["null", "long"]},
        {"name": "s", "type": "string"},
        {"name": "b", "type": ["null", "bytes"]},
        {"name": "f", "type": "float"},
        {"name": "d", "type": ["null", "double"]},
        {"name": "t", "type": ["null", "boolean"]},
        {"name": "z", "type": "null"},
        {"name": "longs", "type": ["null", {"type": "array", "items": ["null", "long"]}]},
        {"name": "ints", "type": {"type": "array", "items": "int"}},
        {"name": "names", "type": {"type": "array", "items": "string"}},
        {
            "name": "inner",
            "type": ["null", {"type": "record", "name": "q", "fields": [{"name": "x", "type": ["long", "null"]}]}],
        },
        {"name": "lists", "type": {"type": "array", "items": {"type": "array", "items": ["null", "string"]}}},
    ],
}
longs = st.integers(-(2**63), 2**63 - 1) | st.integers(-70, 70)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "i": st.integers(-(2**31), 2**31 - 1),
            "l": st.none() | longs,
            "s": st.text(max_size=10),
            "b": st.none() | st.binary(max_size=10),
            "f": st.floats(width=32, allow_nan=False),
            "d": st.none() | st.floats(allow_nan=False),
            "t": st.none() | st.booleans(),
            "z": st.none(),
            "longs": st.none() | st.lists(st.none() | longs, max_size=4),
            "ints": st.lists(st.integers(-70, 70), max_size=3),
            "names": st.lists(st.text(max_size=3), max_size=3),
            "inner": st.none() | st.fixed_dictionaries({"x": st.none() | longs}),
            "lists": st.lists(st.lists(st.none() | st.text(max_size=2), max_size=2), max_size=2),
        }
    ),
    max_size=12,
)


def containers(files: list[list[Any]], sync_interval: int = 40, **how: Any) -> list[avro.Container]:
    data = [avro_file(SCHEMA, rows, sync_interval=sync_interval, **how) for rows in files]
    return [avro.open_container(d, f"file {i}") for i, d in enumerate(data)]


@given(st.lists(ROWS, min_size=1, max_size=4), st.sampled_from([1, 40, 1000]))
def test_both_decoders_give_the_rows(files: list[list[dict[str, Any]]], sync_interval: int) -> None:
    opened = containers(files, sync_interval)
    expected = [row for rows in files for row in rows]
    group = [p for c in opened for p in c.payloads()]
    lanes = decoder._decode_in_parallel(group, opened[0].type, opened[0].type) if group else None
    assert lanes is not None or not expected
    for in_parallel in (False, True, None):
        decoded = decoder.decode(opened, in_parallel=in_parallel)
        decoded.validate(full=True)
        assert decoded.to_pylist() == expected
        assert lanes is None or decoded.combine_chunks().equals(lanes)


PATHS = st.sets(st.sampled_from([(f["name"],) for f in SCHEMA["fields"]][:-1]) | st.just(("inner", "x")))


@given(st.lists(ROWS, min_size=1, max_size=4), PATHS, st.booleans())
def test_fields_can_be_left_out(
    files: list[list[dict[str, Any]]], paths: set[tuple[str, ...]], in_parallel: bool
) -> None:
    arrays = list(decoder.iter_arrays(containers(files), in_parallel=in_parallel, without=paths))
    expected = [{k: v for k, v in row.items() if (k,) not in paths} for rows in files for row in rows]
    for row in expected if ("inner", "x") in paths else ():
        if row.get("inner") is not None:
            row["inner"] = {}
    assert [row for a in arrays for row in a.to_pylist()] == expected
    for array in arrays:
        array.validate(full=True)


@given(st.lists(ROWS, min_size=1, max_size=4), st.integers(1, 5), st.integers(1, 200))
def test_groups_of_blocks_of_any_size_give_the_same(files: list[list[dict[str, Any]]], lanes: int, size: int) -> None:
    opened = containers(files, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoder, "_MAX_BLOCKS", lanes)
        patch.setattr(decoder, "_GROUP_BYTES", size)
        arrays = list(decoder.iter_arrays(opened, in_parallel=True))
    assert [row for a in arrays for row in a.to_pylist()] == [row for rows in files for row in rows]


@given(ROWS, st.data())
def test_damaged_files_are_refused_or_read_alike(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    whole = bytearray(avro_file(SCHEMA, rows, codec="null", sync_interval=40))
    if data.draw(st.booleans()):
        whole = whole[: data.draw(st.integers(0, len(whole)))]
    for _ in range(data.draw(st.integers(0, 3))):
        if whole:
            whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    error = ""
    try:
        opened = avro.open_container(bytes(whole), "the file")
        decoder.decode([opened], in_parallel=True).validate(full=True)
    except (CorruptFileError, UnsupportedFeatureError) as e:
        error = str(e)
    assert not error or "the file" in error


@given(ROWS, st.sampled_from([1, 40, 1000]), st.integers(1, 300))
def test_a_file_is_the_same_in_parts(rows: list[dict[str, Any]], sync_interval: int, window: int) -> None:
    data = avro_file(SCHEMA, rows, sync_interval=sync_interval)
    whole = avro.open_container(data, "f")
    parts = list(avro.stream_container(lambda at, length: data[at : at + length], "f", window))
    assert [r for p in parts for r in avro.records(p)] == list(avro.records(whole))
    assert [b.start + p.offset for p in parts for b in p.blocks] == [b.start for b in whole.blocks]
    assert [p.first_block for p in parts] == list(accumulate((len(p.blocks) for p in parts[:-1]), initial=0))


@given(ROWS, st.data())
def test_a_file_that_is_cut_short_is_refused_in_parts(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    whole = avro_file(SCHEMA, rows, sync_interval=40)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    ends = {0, *(b.start + b.size + 16 for b in avro.open_container(whole, "f").blocks)}
    try:
        read = sum(p.count for p in avro.stream_container(lambda at, length: cut[at : at + length], "f", 50))
    except CorruptFileError:
        return
    assert len(cut) in ends or read == 0


@given(st.binary(max_size=200))
def test_garbage_is_refused(data: bytes) -> None:
    for garbage in (data, b"Obj\x01" + data):
        with pytest.raises(CorruptFileError, match="the file"):
            decoder.decode([avro.open_container(garbage, "the file")])


@given(st.binary(max_size=100), st.integers(1, 5))
def test_garbage_records_are_refused_or_read_alike(payload: bytes, count: int) -> None:
    whole = container_of(SCHEMA, [(count, payload)])
    opened = avro.open_container(whole, "the file")
    try:
        group = list(opened.payloads())
    except CorruptFileError:
        return
    lanes = decoder._decode_in_parallel(group, opened.type, opened.type)
    try:
        records = decoder.decode([opened], in_parallel=False).combine_chunks()
    except CorruptFileError:
        records = None
    assert lanes is None or (records is not None and lanes.equals(records))


def container_of(schema: Any, blocks: list[tuple[int, bytes]], codec: bytes = b"null") -> bytes:
    """A container of blocks as they are."""
    out = b"Obj\x01" + varint(2)
    for key, value in ((b"avro.schema", json.dumps(schema).encode()), (b"avro.codec", codec)):
        out += varint(len(key)) + key + varint(len(value)) + value
    out += varint(0) + b"s" * 16
    for count, payload in blocks:
        out += varint(count) + varint(len(payload)) + payload + b"s" * 16
    return out


def varint(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


ROW = {
    "i": 1, "l": None, "s": "é", "b": b"x", "f": 0.5, "d": 1.5, "t": True, "z": None, "longs": [1, None],
    "ints": [1], "names": ["a"], "inner": {"x": 1}, "lists": [["a"]],
}  # fmt: skip


@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard", "snappy", "bzip2", "xz"])
def test_codecs(codec: str) -> None:
    if codec == "snappy":
        pytest.importorskip("cramjam")
    opened = containers([[ROW] * 50], codec=codec)
    assert [b.rows for b in opened[0].blocks] == [1] * 50
    assert decoder.decode(opened).to_pylist() == [ROW] * 50


def test_snappy_blocks_are_checked() -> None:
    body = pa.Codec("snappy").compress(varint(5), asbytes=True)
    good = container_of("long", [(1, body + zlib.crc32(varint(5)).to_bytes(4, "big"))], b"snappy")
    assert list(avro.records(avro.open_container(good, "f"))) == [5]
    bad = container_of("long", [(1, body + b"abcd")], b"snappy")
    with pytest.raises(CorruptFileError, match="checksum"):
        list(avro.records(avro.open_container(bad, "f")))


def test_an_unknown_codec_is_named() -> None:
    with pytest.raises(UnsupportedFeatureError, match="lzo"):
        list(avro.records(avro.open_container(container_of("long", [(1, varint(5))], b"lzo"), "f")))


def test_a_block_that_inflates_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro, "MAX_BLOCK_BYTES", 1 << 16)
    for codec in ("deflate", "zstandard", "bzip2", "xz"):
        bomb = avro_file("string", ["a" * (1 << 18)], codec=codec)
        with pytest.raises(CorruptFileError, match="more than 65536 bytes"):
            list(avro.records(avro.open_container(bomb, "f")))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "record", "name": "r", "fields": [{"name": "x", "type": "r"}]},
        {"type": "array", "items": "null"},
        {"type": "array", "items": {"type": "record", "name": "r", "fields": []}},
        {"type": "fixed", "name": "f", "size": -1},
        [],
        "nothing",
        7,
        {"no": "type"},
    ],
)
def test_schemas_without_end_or_sense_are_refused(schema: Any) -> None:
    with pytest.raises(CorruptFileError, match="the file"):
        avro.open_container(container_of(schema, []), "the file")


def test_a_schema_that_doubles_itself_is_refused() -> None:
    fields: list[Any] = [{"name": "f0", "type": {"type": "fixed", "name": "t0", "size": 1}}]
    for i in range(1, 40):
        pair = [{"name": "a", "type": f"t{i - 1}"}, {"name": "b", "type": f"t{i - 1}"}]
        fields.append({"name": f"f{i}", "type": {"type": "record", "name": f"t{i}", "fields": pair}})
    schema = {"type": "record", "name": "r", "fields": fields}
    with pytest.raises(CorruptFileError, match="too large"):
        avro.open_container(container_of(schema, []), "the file")


def test_a_schema_nested_too_deep_is_refused() -> None:
    schema: Any = "int"
    for _ in range(500):
        schema = {"type": "array", "items": schema}
    with pytest.raises(CorruptFileError, match="nested more than 250 levels deep"):
        avro.open_container(container_of(schema, []), "the file")


@pytest.mark.parametrize(
    ("count", "payload"),
    [(2, varint(5)), (1, varint(5) * 2), (1 << 40, varint(5)), (1, b"\xff" * 12), (1, b"\x80")],
)
def test_records_must_fill_their_block(count: int, payload: bytes) -> None:
    opened = avro.open_container(container_of("long", [(count, payload)]), "the file")
    for in_parallel in (True, False):
        with pytest.raises(CorruptFileError, match="the file"):
            decoder.decode([opened], in_parallel=in_parallel)


def test_a_damaged_file_among_many_is_named() -> None:
    good = avro.open_container(container_of("string", [(1, varint(1) + b"a")] * 3), "the good file")
    bad = avro.open_container(container_of("string", [(1, varint(1) + b"\xff")]), "the bad file")
    with pytest.raises(CorruptFileError, match="the bad file"):
        decoder.decode([good, bad, good], in_parallel=True)


def test_shapes_the_lanes_do_not_know_are_left_to_records() -> None:
    schema = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "m", "type": {"type": "map", "values": ["null", "long"]}},
            {"name": "e", "type": {"type": "enum", "name": "e", "symbols": ["A", "B"]}},
            {"name": "x", "type": ["null", {"type": "fixed", "name": "f", "size": 2}]},
        ],
    }
    rows: list[dict[str, Any]] = [{"m": {"a": 1, "b": None}, "e": "B", "x": b"ab"}, {"m": {}, "e": "A", "x": None}]
    opened = avro.open_container(avro_file(schema, rows), "f")
    decoded = decoder.decode([opened], in_parallel=True).combine_chunks()
    decoded.validate(full=True)
    assert decoded.to_pylist() == [{**rows[0], "m": [("a", 1), ("b", None)]}, {**rows[1], "m": []}]


def test_a_union_of_two_values_is_refused() -> None:
    opened = avro.open_container(avro_file(["long", "string"], [1, "a"]), "the file")
    with pytest.raises(CorruptFileError, match="the file"):
        decoder.decode([opened])


def test_arrays_may_come_in_blocks_with_their_size() -> None:
    """Items in several blocks, one of them with a negative count and its bytes: legal, though nobody writes it."""
    array = varint(1) + varint(7) + varint(-2) + varint(2) + varint(8) + varint(300 - 300) + varint(0)
    schema = {"type": "array", "items": "long"}
    opened = avro.open_container(container_of(schema, [(1, array), (2, array * 2), (1, varint(0))]), "f")
    for in_parallel in (True, False):
        assert decoder.decode([opened], in_parallel=in_parallel).to_pylist() == [[7, 8, 0]] * 3 + [[]]


def test_type_names_may_be_used_again() -> None:
    fields = [
        {"name": "a", "type": {"type": "record", "name": "ns.q", "fields": [{"name": "x", "type": "long"}]}},
        {"name": "b", "type": "ns.q"},
    ]
    row = {"a": {"x": 1}, "b": {"x": 2}}
    opened = avro.open_container(avro_file({"type": "record", "name": "r", "fields": fields}, [row]), "f")
    assert decoder.decode([opened], in_parallel=True).to_pylist() == [row]


@pytest.mark.parametrize("in_parallel", [True, False])
def test_negative_zero_keeps_its_sign(in_parallel: bool) -> None:
    container = avro.open_container(avro_file(["null", "double"], [None, -0.0, 0.0]), "f")
    assert [str(v) for v in decoder.decode([container], in_parallel=in_parallel).to_pylist()] == [
        "None",
        "-0.0",
        "0.0",
    ]
