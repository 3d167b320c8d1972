"""Column definitions in SQL text, parsed with types, comments and defaults."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import InvalidInputError, UnsupportedFeatureError
from paimon_spark.metadata.definition.ddl import data_type, default_text, row_type
from paimon_spark.types import ArrayType, DataType, MapType, RowType, TimestampType, parse_type


def test_columns_are_read_with_everything_about_them() -> None:
    columns = row_type(
        "`a b` BIGINT NOT NULL COMMENT 'it''s', select: STRUCT<x: INT NOT NULL, y ARRAY<DECIMAL(10,2)> COMMENT 'q'>, "
        "m MAP<STRING,ARRAY<MAP<INT,INT>>> -- the end\n, n int default -5 not null, s string comment 'c' default 'x'"
    )
    assert columns.names == ("a b", "select", "m", "n", "s")
    first, row, mapped, number, text = columns
    assert (str(first.type), first.description) == ("BIGINT NOT NULL", "it's")
    assert str(row.type) == "ROW<x INT NOT NULL, y ARRAY<DECIMAL(10, 2)>>"
    assert isinstance(row.type, RowType) and row.type.fields[1].description == "q"
    assert str(mapped.type) == "MAP<STRING NOT NULL, ARRAY<MAP<INT NOT NULL, INT>>>"
    assert (str(number.type), number.default_value) == ("INT NOT NULL", "-5")
    assert (text.description, text.default_value) == ("c", "'x'")


@pytest.mark.parametrize(
    ("ddl", "text"),
    [
        ("timestamp", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        ("TIMESTAMP_LTZ(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
        ("timestamp_ntz", "TIMESTAMP(6)"),
        ("TIMESTAMP_NTZ(9)", "TIMESTAMP(9)"),
        ("TIMESTAMP(3) WITHOUT TIME ZONE", "TIMESTAMP(3)"),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
        ("long", "BIGINT"),
        ("byte", "TINYINT"),
        ("short", "SMALLINT"),
        ("integer", "INT"),
        ("real", "FLOAT"),
        ("double precision", "DOUBLE"),
        ("decimal", "DECIMAL(10, 0)"),
        ("numeric(5)", "DECIMAL(5, 0)"),
        ("binary", "BYTES"),
        ("binary(4)", "BINARY(4)"),
        ("bytes", "BYTES"),
        ("varchar(9)", "VARCHAR(9)"),
        ("char(3)", "CHAR(3)"),
        ("variant", "VARIANT"),
        ("time(3)", "TIME(3)"),
        ("multiset<string>", "MULTISET<STRING>"),
        ("array<struct<a:array<int>>>", "ARRAY<ROW<a ARRAY<INT>>>"),
        ("decimal(10, 2) not null", "DECIMAL(10, 2) NOT NULL"),
    ],
)
def test_types_of_spark_and_of_paimon_are_read(ddl: str, text: str) -> None:
    assert str(data_type(ddl)) == text


@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        ("", "expected the name of a column, found the end"),
        ("a", "expected a type, found the end"),
        ("a int,", "expected the name of a column, found the end"),
        ("a int b", "expected a comma or the end, found 'b' at position 7"),
        ("a array<int", "expected '>', found the end"),
        ("a struct<b int,>", "expected a field"),
        ("'a' int", "expected the name of a column"),
        ("a char", "CHAR needs a length"),
        ("a timestamp(3)", r"TIMESTAMP\(3\) is an instant for Spark and none for Paimon"),
        ("a decimal(50,2)", r"DECIMAL\(50, 2\) is outside"),
        ("a timestamp_ntz(10)", "0 to 9 digits"),
        ("a int comment", "expected a text in quotes"),
        ("a vector<float,3>", "expected ARRAY"),
    ],
)
def test_what_is_not_ddl_is_refused_with_its_place(ddl: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        row_type(ddl)


@pytest.mark.parametrize(
    "ddl",
    [
        "a foo",
        "a blob",
        "a int default 1 + 1",
        "a int default now()",
        "a int default -'x'",
        "a int default 5::int",
        "a array<int> default array(1 + 1)",
        "a array<int> default array(1",
        "a array<int> default array(now())",
        "a array<string> default array('a,b')",
        "a map<int, string> default map(1, '')",
        "a array<string> default array(' x')",
        "a struct<x: int> default named_struct('x', 1)",
        "a array<int> default array(1) || array(2)",
        "a interval day to second",
    ],
)
def test_what_tables_cannot_have_is_refused_as_such(ddl: str) -> None:
    with pytest.raises((UnsupportedFeatureError, InvalidInputError)):
        row_type(ddl)


def test_an_unknown_type_is_reported_with_the_nearest_name() -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"unknown type STRNG at position 3; did you mean 'STRING'\?"):
        row_type("a strng")


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("'a'", "'a'"),
        ("'it''s'", "'it's'"),
        ("5", "5"),
        ("-1.5", "-1.5"),
        ("99.99D", "99.99"),
        ("7L", "7"),
        ("TRUE", "true"),
        ("NULL", None),
        ("DATE '2024-01-02'", "'2024-01-02'"),
        ("map()", "map()"),
        ("MAP(99, 99.99D)", "map(99, 99.99)"),
        ("map(9999, 'hello')", 'map(9999, "hello")'),
        ("array(1, -2, NULL)", "array(1, -2, null)"),
        ("array('a', 'b c')", "[a, b c]"),
        ("struct(1, 'x', array(1))", "{1, x, array(1)}"),
        ("struct(1, map('k', struct(2, NULL)))", 'struct(1, map("k", struct(2, null)))'),
    ],
)
def test_a_default_is_the_text_of_a_literal(sql: str, text: str | None) -> None:
    assert default_text(sql, "c") == text


_ATOMS = st.sampled_from(
    [
        parse_type(t)
        for t in ("INT", "STRING", "BYTES", "DECIMAL(7, 3)", "VARCHAR(4)", "CHAR(2)", "BINARY(3)", "DATE", "TIME(3)")
    ]
) | st.builds(lambda p, z: TimestampType(precision=p, local_zone=z), st.integers(0, 9), st.booleans())
_TYPES = st.recursive(
    _ATOMS,
    lambda inner: (
        st.builds(lambda e, n: ArrayType(element=e.with_nullable(n)), inner, st.booleans())
        | st.builds(lambda k, v: MapType(key=k.with_nullable(False), value=v), _ATOMS, inner)
    ),
    max_leaves=6,
)


@given(_TYPES, st.booleans())
def test_the_text_of_a_type_reads_as_the_type(t: DataType, nullable: bool) -> None:
    wanted = t.with_nullable(nullable)
    assert data_type(_spelt(str(wanted))) == wanted


def _spelt(text: str) -> str:
    """With every TIMESTAMP(p) said to be without time zone, which Paimon's own text leaves out."""
    marked = text.replace(" WITH LOCAL TIME ZONE", "#")
    out, rest = "", marked
    while "TIMESTAMP(" in rest:
        before, _, after = rest.partition("TIMESTAMP(")
        precision, _, rest = after.partition(")")
        out += f"{before}TIMESTAMP({precision})" + ("" if rest.startswith("#") else " WITHOUT TIME ZONE")
    return (out + rest).replace("#", " WITH LOCAL TIME ZONE")
