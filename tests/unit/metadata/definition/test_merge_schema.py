"""Schemas merged with those of new data (`merge-schema`): new columns, wider types and refusals."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import InvalidInputError, InvalidOptionError, SchemaMismatchError, UnsupportedFeatureError
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.definition.alter import apply
from paimon_spark.metadata.definition.create import new_schema
from paimon_spark.metadata.definition.ddl import data_type, row_type
from paimon_spark.metadata.definition.from_arrow import holds, merged_row, merged_schema
from paimon_spark.metadata.definition.schema_changes import AddColumn, UpdateType
from paimon_spark.options.descriptor import parse_group
from paimon_spark.options.write import SchemaMergeOptions
from paimon_spark.types import BIGINT

WIDEN = {"write.merge-schema.type-widening": "true"}
EXPLICIT = {**WIDEN, "write.merge-schema.explicit-cast": "true"}


def table(ddl: str, primary_keys: tuple[str, ...] = ()) -> TableSchema:
    return new_schema(row_type(ddl), primary_keys)


def merged(before: str, rows: str, options: dict[str, str] | None = None) -> str:
    schema = table(before)
    return str(
        apply(schema, merged_row(schema, row_type(rows), parse_group(SchemaMergeOptions, options or {}))).row_type
    )


def test_new_columns_and_fields_are_added_behind_the_others_as_nullable() -> None:
    assert merged(
        "a INT, s STRUCT<x: INT>, l ARRAY<STRUCT<y: INT>>, m MAP<STRING, STRUCT<z: INT>>",
        "b STRING NOT NULL, s STRUCT<w: INT, x: INT>, l ARRAY<STRUCT<v: DATE>>, m MAP<STRING, STRUCT<u: INT>>, "
        "t STRUCT<q: INT NOT NULL>",
    ) == str(
        row_type(
            "a INT, s STRUCT<x: INT, w: INT>, l ARRAY<STRUCT<y: INT, v: DATE>>, m MAP<STRING, STRUCT<z: INT, u: INT>>, "
            "b STRING, t STRUCT<q: INT NOT NULL>"
        )
    )


def test_an_arrow_schema_says_what_is_missing() -> None:
    schema = table("a INT")
    incoming = pa.schema(
        [pa.field("b", pa.int32(), metadata={"comment": "new"}), ("A", pa.int64()), ("_VALUE_KIND", pa.int8())]
    )
    changes = merged_schema(schema, incoming, parse_group(SchemaMergeOptions, {}))
    assert changes == [AddColumn(("b",), data_type("INT"), "new")]


def test_columns_of_nulls_alone_fit_what_is_there_and_make_nothing_new() -> None:
    assert merged_schema(table("a INT"), pa.schema([("a", pa.null())]), parse_group(SchemaMergeOptions, WIDEN)) == []
    with pytest.raises(UnsupportedFeatureError, match=r"column b: .* a column of nulls alone has no type"):
        merged_schema(table("a INT"), pa.schema([("b", pa.null())]), parse_group(SchemaMergeOptions, {}))


def test_types_stay_unless_widening_is_asked_for() -> None:
    assert merged("a INT, b VARCHAR(3)", "a BIGINT, b STRING") == str(row_type("a INT, b VARCHAR(3)"))
    assert merged("a INT, b VARCHAR(3)", "a BIGINT, b STRING", WIDEN) == str(row_type("a BIGINT, b STRING"))
    assert merged("s STRUCT<a: INT>, l ARRAY<INT>", "s STRUCT<a: BIGINT>, l ARRAY<BIGINT>", WIDEN) == str(
        row_type("s STRUCT<a: BIGINT>, l ARRAY<BIGINT>")
    )
    assert merged("d DECIMAL(5, 2)", "d DECIMAL(9, 2)", WIDEN) == str(row_type("d DECIMAL(9, 2)"))
    assert merged("t TIMESTAMP_NTZ(3)", "t TIMESTAMP_NTZ(6)", WIDEN) == str(row_type("t TIMESTAMP_NTZ(6)"))


@pytest.mark.parametrize("options", [{}, WIDEN, EXPLICIT])
def test_decimals_leave_columns_of_numbers_with_a_point_as_they_are(options: dict[str, str]) -> None:
    assert merged("a DOUBLE, b FLOAT", "a DECIMAL(20, 5), b DECIMAL(38, 2)", options) == str(
        row_type("a DOUBLE, b FLOAT")
    )


@pytest.mark.parametrize("options", [{}, WIDEN, EXPLICIT])
def test_a_column_never_gets_narrower(options: dict[str, str]) -> None:
    wide = "a BIGINT, b STRING, d DECIMAL(9, 2), t TIMESTAMP_NTZ(9), f DOUBLE"
    narrow = "a INT, b VARCHAR(3), d DECIMAL(5, 2), t TIMESTAMP_NTZ(6), f FLOAT"
    assert merged(wide, narrow, options) == str(row_type(wide))


def test_nullability_of_the_table_stays() -> None:
    schema = table("a INT NOT NULL, b INT")
    changes = merged_row(schema, row_type("a BIGINT, b BIGINT NOT NULL"), parse_group(SchemaMergeOptions, WIDEN))
    assert [str(f.type) for f in apply(schema, changes).fields] == ["BIGINT NOT NULL", "BIGINT"]


@pytest.mark.parametrize(
    ("before", "rows", "message"),
    [
        ("a INT", "a STRING", "explicit-cast = true allows it"),
        ("a INT", "a STRUCT<x: INT>", "could lose something"),
        ("d DECIMAL(5, 2)", "d DECIMAL(9, 4)", "decimals of another scale"),
        ("m MAP<INT, INT>", "m MAP<STRING, INT>", r"column m\.key"),
        ("b BINARY(9)", "b BINARY(3)", "values already there may be longer"),
    ],
)
def test_what_cannot_be_merged_is_refused(before: str, rows: str, message: str) -> None:
    with pytest.raises(SchemaMismatchError, match=message):
        merged(before, rows, WIDEN)


def test_explicit_casts_are_made_when_asked_for() -> None:
    assert merged("a INT", "a STRING", EXPLICIT) == str(row_type("a STRING"))
    with pytest.raises(InvalidOptionError, match=r"needs write\.merge-schema\.type-widening"):
        merged("a INT", "a STRING", {"write.merge-schema.explicit-cast": "true"})


def test_keys_become_wider_with_rows_alone() -> None:
    schema = table("k INT, v INT", ("k",))
    changes = merged_row(schema, row_type("k BIGINT, v INT"), parse_group(SchemaMergeOptions, WIDEN))
    assert str(apply(schema, changes).row_type.field("k").type) == "BIGINT NOT NULL"
    with pytest.raises(InvalidInputError, match="part of the primary key"):
        apply(schema, [UpdateType(("k",), BIGINT)])


_WORDS = st.sampled_from(
    ["TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "VARCHAR(3)", "CHAR(3)", "DECIMAL(5, 2)",
     "DECIMAL(12, 2)", "DATE", "TIMESTAMP_NTZ(3)", "TIMESTAMP_NTZ(9)", "TIMESTAMP_LTZ(6)", "BYTES", "BINARY(3)"]
)  # fmt: skip


@given(_WORDS, _WORDS, st.sampled_from([WIDEN, EXPLICIT]))
def test_a_merged_column_holds_the_rows_or_is_refused(before: str, rows: str, options: dict[str, str]) -> None:
    schema = table(f"a {before}")
    try:
        changes = merged_row(schema, row_type(f"a {rows}"), parse_group(SchemaMergeOptions, options))
    except SchemaMismatchError:
        return
    result = apply(schema, changes).row_type.field("a").type
    assert holds(result, data_type(rows))
    assert bool(changes) == (not holds(data_type(before), data_type(rows)))
    assert all(isinstance(c, UpdateType) and c.keep_nullability for c in changes)
    again = apply(schema, changes)
    assert merged_row(again, row_type(f"a {rows}"), parse_group(SchemaMergeOptions, options)) == []
