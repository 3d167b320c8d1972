"""Table types as Spark types, and which declared schemas are accepted."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from paimon_spark.errors import SchemaMismatchError, UnsupportedFeatureError
from paimon_spark.spark.schema import arrow_schema, check_readable_as, spark_schema
from paimon_spark.types import DataField, DataType, RowType, parse_type


def row(**types: str) -> RowType:
    return RowType(False, tuple(DataField(i, n, parse_type(t)) for i, (n, t) in enumerate(types.items())))


@pytest.mark.parametrize(
    ("paimon", "expected"),
    [
        ("BOOLEAN", "boolean"),
        ("TINYINT", "tinyint"),
        ("SMALLINT", "smallint"),
        ("INT", "int"),
        ("BIGINT", "bigint"),
        ("FLOAT", "float"),
        ("DOUBLE", "double"),
        ("CHAR(3)", "string"),
        ("VARCHAR(3)", "string"),
        ("STRING", "string"),
        ("BINARY(3)", "binary"),
        ("BYTES", "binary"),
        ("DECIMAL(20, 4)", "decimal(20,4)"),
        ("DATE", "date"),
        ("TIME(3)", "int"),
        ("TIMESTAMP(3)", "timestamp_ntz"),
        ("TIMESTAMP(9)", "timestamp_ntz"),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", "timestamp"),
        ("VARIANT", "variant"),
    ],
)
def test_every_type_has_a_spark_type(paimon: str, expected: str) -> None:
    schema = spark_schema(row(a=paimon, b=paimon + " NOT NULL"))
    assert [f.dataType.simpleString() for f in schema] == [expected, expected]
    assert [f.nullable for f in schema] == [True, False]


def test_nested_types_keep_their_nullability() -> None:
    inner = {"id": 5, "name": "x", "type": "INT NOT NULL"}
    struct: DataType = parse_type({"type": "ROW", "fields": [inner]})
    array = parse_type({"type": "ARRAY", "element": "INT NOT NULL"})
    multiset = parse_type({"type": "MULTISET NOT NULL", "element": "STRING"})
    map_type = parse_type({"type": "MAP", "key": "STRING", "value": "INT"})
    fields = enumerate((struct, array, multiset, map_type))
    schema = spark_schema(RowType(False, tuple(DataField(i, f"c{i}", t) for i, t in fields)))
    assert schema["c0"].dataType == spark.StructType().add("x", spark.IntegerType(), False)
    assert schema["c1"].dataType == spark.ArrayType(spark.IntegerType(), False)
    assert schema["c2"].dataType == spark.MapType(spark.StringType(), spark.IntegerType(), False)
    assert schema["c3"].dataType == spark.MapType(spark.StringType(), spark.IntegerType(), True)
    assert not schema["c2"].nullable


def test_a_comment_comes_along() -> None:
    schema = spark_schema(RowType(False, (DataField(0, "a", parse_type("INT"), "what it is"),)))
    assert schema["a"].metadata == {"comment": "what it is"}


def test_a_type_that_cannot_be_read_names_its_column_and_the_way_out() -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"column b: type BLOB .* option columns"):
        spark_schema(row(a="INT", b="BLOB"))


def test_the_arrow_schema_is_the_one_spark_checks() -> None:
    schema = arrow_schema(spark_schema(row(a="INT NOT NULL", b="TIMESTAMP(3) WITH LOCAL TIME ZONE")))
    assert schema.equals(pa.schema([pa.field("a", pa.int32(), False), ("b", pa.timestamp("us", "UTC"))]))


FITS = [
    ("INT", "bigint"), ("INT", "double"), ("INT", "decimal(12,2)"), ("TINYINT", "float"), ("FLOAT", "double"),
    ("DECIMAL(5, 2)", "decimal(7,3)"), ("CHAR(2)", "string"), ("TIME(0)", "int"), ("BYTES", "binary"),
]  # fmt: skip
FAILS = [
    ("BIGINT", "int"), ("BIGINT", "double"), ("INT", "float"), ("INT", "decimal(10,1)"), ("INT", "string"),
    ("DECIMAL(5, 2)", "decimal(5,1)"), ("DECIMAL(5, 2)", "decimal(5,3)"), ("STRING", "binary"), ("DATE", "timestamp"),
    ("TIMESTAMP(6)", "timestamp"), ("DOUBLE", "float"),
]  # fmt: skip


def ddl(text: str) -> spark.DataType:
    """Simple names only: parsing DDL needs a session."""
    if text.startswith("decimal"):
        precision, scale = text.removeprefix("decimal(").removesuffix(")").split(",")
        return spark.DecimalType(int(precision), int(scale))
    names: dict[str, type[spark.DataType]] = {
        "int": spark.IntegerType, "bigint": spark.LongType, "float": spark.FloatType, "double": spark.DoubleType,
        "string": spark.StringType, "binary": spark.BinaryType, "timestamp": spark.TimestampType,
    }  # fmt: skip
    return names[text]()


@pytest.mark.parametrize(("paimon", "asked"), FITS)
def test_a_wider_type_may_be_declared(paimon: str, asked: str) -> None:
    check_readable_as("a", parse_type(paimon), True, ddl(asked), True)


@pytest.mark.parametrize(("paimon", "asked"), FAILS)
def test_a_type_that_could_lose_values_may_not(paimon: str, asked: str) -> None:
    with pytest.raises(SchemaMismatchError, match=r"declares column a as .* does not fit without loss"):
        check_readable_as("a", parse_type(paimon), True, ddl(asked), True)


def test_not_null_may_not_be_declared_of_what_may_be_null() -> None:
    with pytest.raises(SchemaMismatchError, match="declares column a NOT NULL"):
        check_readable_as("a", parse_type("INT"), True, spark.IntegerType(), False)
    check_readable_as("a", parse_type("INT NOT NULL"), False, spark.IntegerType(), False)


def test_fewer_fields_of_a_row_may_be_declared() -> None:
    fields = [{"id": 5, "name": "x", "type": "INT"}, {"id": 6, "name": "y", "type": "STRING"}]
    struct = parse_type({"type": "ROW", "fields": fields})
    check_readable_as("s", struct, True, spark.StructType().add("y", spark.StringType()), True)
    with pytest.raises(SchemaMismatchError, match=r"field s\.z"):
        check_readable_as("s", struct, True, spark.StructType().add("z", spark.StringType()), True)
    with pytest.raises(SchemaMismatchError, match=r"column s\.x"):
        check_readable_as("s", struct, True, spark.StructType().add("x", spark.StringType()), True)
