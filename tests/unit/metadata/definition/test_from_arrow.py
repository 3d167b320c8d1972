"""Column definitions from Arrow schemas."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.format.arrays.arrow_types import arrow_schema
from paimon_spark.metadata.definition.from_arrow import data_type, row_type
from paimon_spark.types import DataField, RowType

_ROW = pa.struct([pa.field("a", pa.int8(), nullable=False), ("b", pa.string())])


@pytest.mark.parametrize(
    ("arrow", "text"),
    [
        (pa.bool_(), "BOOLEAN"),
        (pa.int8(), "TINYINT"),
        (pa.int16(), "SMALLINT"),
        (pa.int32(), "INT"),
        (pa.int64(), "BIGINT"),
        (pa.uint8(), "SMALLINT"),
        (pa.uint16(), "INT"),
        (pa.uint32(), "BIGINT"),
        (pa.uint64(), "DECIMAL(20, 0)"),
        (pa.float16(), "FLOAT"),
        (pa.float32(), "FLOAT"),
        (pa.float64(), "DOUBLE"),
        (pa.large_string(), "STRING"),
        (pa.string_view(), "STRING"),
        (pa.large_binary(), "BYTES"),
        (pa.binary(5), "BINARY(5)"),
        (pa.date32(), "DATE"),
        (pa.date64(), "DATE"),
        (pa.time32("s"), "TIME(0)"),
        (pa.time32("ms"), "TIME(3)"),
        (pa.time64("us"), "TIME(6)"),
        (pa.timestamp("s"), "TIMESTAMP(0)"),
        (pa.timestamp("ms"), "TIMESTAMP(3)"),
        (pa.timestamp("us"), "TIMESTAMP(6)"),
        (pa.timestamp("ns"), "TIMESTAMP(9)"),
        (pa.timestamp("us", tz="Europe/Berlin"), "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        (pa.decimal128(12, 3), "DECIMAL(12, 3)"),
        (pa.decimal256(38, 3), "DECIMAL(38, 3)"),
        (pa.decimal128(5, -2), "DECIMAL(7, 0)"),
        (pa.dictionary(pa.int32(), pa.string()), "STRING"),
        (pa.run_end_encoded(pa.int32(), pa.date32()), "DATE"),
        (pa.large_list(pa.field("x", pa.int32(), nullable=False)), "ARRAY<INT NOT NULL>"),
        (pa.list_(pa.float32(), 3), "ARRAY<FLOAT>"),
        (pa.map_(pa.string(), pa.int32()), "MAP<STRING NOT NULL, INT>"),
        (_ROW, "ROW<a TINYINT NOT NULL, b STRING>"),
        (pa.uuid(), "BINARY(16)"),
    ],
)
def test_every_arrow_type_has_one_that_holds_its_values(arrow: pa.DataType, text: str) -> None:
    assert str(data_type(arrow)) == text
    assert str(data_type(arrow, nullable=False)) == text + " NOT NULL"


@pytest.mark.parametrize(
    ("arrow", "advice"),
    [
        (pa.null(), "a column of nulls alone has no type"),
        (pa.duration("us"), "cast it"),
        (pa.month_day_nano_interval(), "cast it"),
        (pa.decimal256(50, 2), "at most 38 digits"),
    ],
)
def test_types_that_no_table_has_are_refused_by_the_path_of_their_column(arrow: pa.DataType, advice: str) -> None:
    schema = pa.schema([("c", pa.list_(pa.struct([("x", arrow)])))])
    with pytest.raises(UnsupportedFeatureError, match=rf"column c\.element\.x: .*{advice}"):
        row_type(schema)


def test_comments_and_nullability_come_along() -> None:
    schema = pa.schema(
        [
            pa.field("a", pa.int32(), nullable=False, metadata={"comment": "the key"}),
            pa.field("b", pa.int32(), metadata={"description": "as pypaimon has it"}),
        ]
    )
    a, b = row_type(schema)
    assert (a.type.nullable, a.description) == (False, "the key")
    assert (b.type.nullable, b.description) == (True, "as pypaimon has it")


_TYPES: st.SearchStrategy[pa.DataType] = st.deferred(
    lambda: (
        st.sampled_from(
            [
                pa.bool_(),
                pa.int8(),
                pa.int64(),
                pa.float64(),
                pa.string(),
                pa.binary(),
                pa.date32(),
                pa.time32("ms"),
                pa.timestamp("ms"),
                pa.timestamp("us", tz="UTC"),
                pa.timestamp("ns"),
                pa.decimal128(9, 4),
            ]
        )
        | st.builds(lambda t, n: pa.list_(pa.field("element", t, n)), _TYPES, st.booleans())
        | st.builds(lambda t, n: pa.map_(pa.string(), pa.field("value", t, n)), _TYPES, st.booleans())
        | st.lists(st.tuples(_TYPES, st.booleans()), min_size=1, max_size=3).map(
            lambda fields: pa.struct([pa.field(f"f{i}", t, n) for i, (t, n) in enumerate(fields)])
        )
    )
)


@given(st.lists(st.tuples(_TYPES, st.booleans()), min_size=1, max_size=4))
def test_canonical_arrow_types_come_back_from_the_columns_made_of_them(found: list[tuple[pa.DataType, bool]]) -> None:
    schema = pa.schema([pa.field(f"c{i}", t, n) for i, (t, n) in enumerate(found)])
    columns = row_type(schema)
    assert type(columns) is RowType and all(isinstance(f, DataField) for f in columns)
    assert arrow_schema(columns).equals(schema)
