"""Arrow columns as Avro records: byte for byte what fastavro writes of the same values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import FormatError
from paimon_spark.format.avro_codec import container as avro
from paimon_spark.format.avro_codec import decoder, encoder
from tests.unit.format.avro_codec.test_decoder import ROWS, SCHEMA

MORE = {
    "type": "record",
    "name": "more",
    "fields": [
        {"name": "row", "type": SCHEMA},
        {"name": "map", "type": ["null", {"type": "map", "values": ["null", "long"]}]},
        {"name": "six", "type": ["null", {"type": "fixed", "name": "six", "size": 6}]},
        {"name": "records", "type": {"type": "array", "items": ["null", {"type": "record", "name": "p", "fields": [
            {"name": "x", "type": "string"}, {"name": "y", "type": ["null", {"type": "map", "values": "bytes"}]},
        ]}]}},
    ],
}  # fmt: skip
TYPE = avro.parse_type(MORE)
maps = st.dictionaries(st.text(max_size=3), st.none() | st.integers(-500, 500), max_size=3)
records = st.fixed_dictionaries(
    {
        "x": st.text(max_size=3),
        "y": st.none() | st.dictionaries(st.text(max_size=3), st.binary(max_size=3), max_size=2),
    }
)
MORE_ROWS = ROWS.flatmap(
    lambda rows: (
        st.lists(
            st.fixed_dictionaries(
                {
                    "row": st.sampled_from(rows),
                    "map": st.none() | maps,
                    "six": st.none() | st.binary(min_size=6, max_size=6),
                    "records": st.lists(st.none() | records, max_size=3),
                }
            ),
            max_size=8,
        )
        if rows
        else st.just([])
    )
)


def payload(encoded: pa.Array) -> bytes:
    return b"".join(encoded.to_pylist())


@given(MORE_ROWS, st.data())
def test_records_have_the_bytes_of_fastavro(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(rows)))
    count = data.draw(st.integers(0, len(rows) - start))
    values = decoder.array_of(rows, TYPE).slice(start, count)
    encoded = encoder.encode(values, TYPE)
    encoded.validate(full=True)
    assert len(encoded) == count
    assert payload(encoded) == avro.FileSchema(MORE).encode_rows(rows[start : start + count])


@given(MORE_ROWS)
def test_values_of_pyarrow_s_own_making_are_the_same(rows: list[dict[str, Any]]) -> None:
    """Its null lists and records may hide values, its large types have wide offsets."""
    values = pa.array(rows, decoder.arrow_type(TYPE))
    assert payload(encoder.encode(values, TYPE)) == avro.FileSchema(MORE).encode_rows(rows)


def test_hidden_values_of_null_lists_and_records_are_not_written() -> None:
    t = avro.parse_type(["null", {"type": "array", "items": "int"}])
    lists = pa.Array.from_buffers(
        pa.list_(pa.int32()),
        3,
        [pa.py_buffer(b"\x05"), pa.py_buffer(np.array([0, 1, 3, 4], np.int32))],
        children=[pa.array([7, 8, 9, 10], pa.int32())],
    )
    assert lists.to_pylist() == [[7], None, [10]]
    assert encoder.encode(lists, t).to_pylist() == [b"\x02\x02\x0e\x00", b"\x00", b"\x02\x02\x14\x00"]


def test_large_types_are_written_as_the_others() -> None:
    t = avro.parse_type({"type": "array", "items": "string"})
    values = pa.array([["a"], [], ["bc", "d"]], pa.large_list(pa.large_string()))
    assert payload(encoder.encode(values, t)) == b"\x02\x02a\x00\x00\x04\x04bc\x02d\x00"


@pytest.mark.parametrize("kind", ["long", "string", {"type": "array", "items": "int"}])
def test_a_null_that_the_type_has_not_is_refused(kind: Any) -> None:
    t = avro.parse_type(kind)
    with pytest.raises(FormatError, match="a value is null"):
        encoder.encode(pa.nulls(2, decoder.arrow_type(t)), t)


def test_a_schema_without_fields_makes_records_without_bytes() -> None:
    t = avro.parse_type({"type": "record", "name": "r", "fields": [{"name": "n", "type": "null"}]})
    values = pa.StructArray.from_arrays([pa.nulls(3)], names=["n"])
    assert encoder.encode(values, t).to_pylist() == [b"", b"", b""]


def test_blocks_have_the_rows_asked_for() -> None:
    encoded = encoder.encode(pa.array(range(7), pa.int64()), avro.parse_type("long"))
    assert encoder.slices(encoded, 3) == [(3, b"\x00\x02\x04"), (3, b"\x06\x08\x0a"), (1, b"\x0c")]
    assert encoder.slices(encoded.slice(5), 3) == [(2, b"\x0a\x0c")]
    assert encoder.slices(encoded[:0], 3) == []
