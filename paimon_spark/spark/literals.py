"""NULL, of which Spark knows no type, as a value of a table's column."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.types import DataType as SparkType
from pyspark.sql.types import NullType

from paimon_spark.spark.schema import spark_type
from paimon_spark.types import DataType


def typed(column: Column, found: SparkType, wanted: DataType, name: str) -> Column:
    """A column of Spark's type `found` for the column `name`: nothing but NULL gets its type, all else is left."""
    return column.cast(spark_type(wanted, name)) if isinstance(found, NullType) else column
