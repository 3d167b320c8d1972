"""Types that Spark cannot hash in row-level changes."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from paimon_spark.spark.row_change import has_hash

MAP = MapType(StringType(), IntegerType())


@pytest.mark.parametrize(
    ("data_type", "expected"),
    [
        (StringType(), True),
        (ArrayType(StructType([StructField("a", IntegerType())])), True),
        (MAP, False),
        (VariantType(), False),
        (ArrayType(MAP), False),
        (StructType([StructField("a", IntegerType()), StructField("b", ArrayType(VariantType()))]), False),
    ],
)
def test_spark_hashes_no_value_with_a_map_or_a_variant(data_type: DataType, expected: bool) -> None:
    assert has_hash(data_type) is expected
