"""Types: their text and JSON, both ways."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark import types as t
from paimon_spark.errors import FormatError

ATOMIC = st.sampled_from(
    [
        t.BOOLEAN,
        t.TINYINT,
        t.SMALLINT,
        t.INT,
        t.BIGINT,
        t.FLOAT,
        t.DOUBLE,
        t.DATE,
        t.VARIANT,
        t.STRING,
        t.BYTES,
    ]
)
SIZED = st.one_of(
    st.builds(t.CharType, length=st.integers(1, t.MAX_LENGTH), varying=st.booleans()),
    st.builds(t.BinaryType, length=st.integers(1, t.MAX_LENGTH), varying=st.booleans()),
    st.integers(1, 38).flatmap(lambda p: st.builds(t.DecimalType, precision=st.just(p), scale=st.integers(0, p))),
    st.builds(t.TimeType, precision=st.integers(0, 9)),
    st.builds(t.TimestampType, precision=st.integers(0, 9), local_zone=st.booleans()),
)
LEAVES = st.one_of(ATOMIC, SIZED).flatmap(lambda x: st.booleans().map(x.with_nullable))
FIELD_NAMES = st.text(min_size=1, max_size=5)


def nested(inner: st.SearchStrategy[t.DataType]) -> st.SearchStrategy[t.DataType]:
    fields = st.lists(
        st.builds(t.DataField, st.integers(0, 99), FIELD_NAMES, inner, st.none() | st.text(), st.none() | st.text()),
        max_size=3,
    )
    return st.one_of(
        st.builds(t.ArrayType, st.booleans(), inner),
        st.builds(t.MultisetType, st.booleans(), inner),
        st.builds(t.MapType, st.booleans(), inner, inner),
        st.builds(t.VectorType, st.booleans(), inner, st.integers(1, 9)),
        st.builds(t.RowType, st.booleans(), fields.map(tuple)),
    )


TYPES = st.recursive(LEAVES, nested, max_leaves=6)


@given(TYPES)
def test_every_type_survives_its_json(data_type: t.DataType) -> None:
    assert t.parse_type(json.loads(json.dumps(t.type_to_json(data_type)))) == data_type


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("integer not null", t.INT.with_nullable(False)),
        ("NUMERIC(5)", t.DecimalType(True, 5, 0)),
        ("DEC", t.DecimalType(True, 10, 0)),
        ("double precision", t.DOUBLE),
        ("TIMESTAMP", t.TimestampType(True, 6)),
        ("TIMESTAMP_LTZ(3)", t.TimestampType(True, 3, True)),
        ("TIMESTAMP(3) WITHOUT TIME ZONE", t.TimestampType(True, 3)),
        ("TIME", t.TimeType(True, 0)),
        ("CHAR", t.CharType(True, 1, False)),
        ("VARCHAR(2147483647)", t.STRING),
        ("INT ARRAY NOT NULL", t.ArrayType(False, t.INT)),
        ("BLOB NOT NULL", t.OpaqueType(False, "BLOB")),
        ("GEOMETRY(OGC:CRS84)", t.OpaqueType(True, "GEOMETRY(OGC:CRS84)")),
        ("SOMETHING_NEW(7)", t.OpaqueType(True, "SOMETHING_NEW(7)")),
    ],
)
def test_texts_that_java_accepts(text: str, expected: t.DataType) -> None:
    assert t.parse_type(text) == expected


@pytest.mark.parametrize(
    "value",
    [7, None, [], {}, {"type": 3}, {"type": "ARRAY"}, {"type": "ROW", "fields": 5}, "DECIMAL(39, 0)",
     "DECIMAL(3, 4)",      "TIMESTAMP(10)", "", "((", {"type": "VECTOR", "element": "INT", "length": "x"}],
)  # fmt: skip
def test_what_is_no_type_is_a_format_error(value: object) -> None:
    with pytest.raises(FormatError):
        t.parse_type(value)  # type: ignore[arg-type]


def test_types_nested_without_end_are_refused_not_followed() -> None:
    value: object = "INT"
    for _ in range(5000):
        value = {"type": "ARRAY", "element": value}
    with pytest.raises(FormatError, match="deep"):
        t.parse_type(value)  # type: ignore[arg-type]


def test_a_row_type_projects_by_name_and_finds_by_id() -> None:
    row = t.RowType(False, (t.DataField(0, "a", t.INT), t.DataField(5, "b", t.STRING)))
    assert row.project(["b", "a"]).names == ("b", "a")
    found = row.find_by_id(5)
    assert found is not None
    assert found.name == "b"
    assert row.find_by_id(1) is None
    with pytest.raises(KeyError):
        row.project(["c"])
