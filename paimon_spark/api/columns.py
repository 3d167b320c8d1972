"""The columns of a table as users state them: Arrow, Spark's StructType, DDL text or types of this package."""

from __future__ import annotations

import importlib
from typing import Any, Final, TypeAlias

import pyarrow as pa

from paimon_spark.errors import InvalidInputError
from paimon_spark.metadata.definition import ddl, from_arrow
from paimon_spark.options.location import quoted
from paimon_spark.types import DataField, DataType, RowType

SchemaLike: TypeAlias = Any
"""pyarrow.Schema, pyspark StructType, DDL text or RowType."""
_SPARK: Final = "pyspark.sql.types"


def columns_of(schema: SchemaLike) -> RowType:
    """The columns that `schema` states; their field ids only count.

    Raises:
        InvalidInputError: it states none.
        UnsupportedFeatureError: a type that no table has.
    """
    match schema:
        case RowType():
            return schema
        case str():
            return ddl.row_type(schema)
        case pa.Schema():
            return from_arrow.row_type(schema)
    if _is_spark(schema, "StructType"):
        return _spark_row_type(schema)
    raise _unknown(schema, "the columns of a table", "a pyarrow.Schema, a StructType or DDL text")


def column_of(name: str, stated: Any) -> DataField:
    """The column called `name` whose type, and perhaps comment and default, are `stated`. Raises as `columns_of`."""
    match stated:
        case DataType():
            return DataField(0, name, stated)
        case pa.DataType():
            return DataField(0, name, from_arrow.data_type(stated, name))
        case str():
            (field,) = _single(ddl.row_type(f"{quoted(name)} {stated}"), stated)
            return field
    if _is_spark(stated, ""):
        from_spark = importlib.import_module(_SPARK)
        field = from_spark.StructField(name, stated)
        return _spark_row_type(from_spark.StructType([field])).fields[0]
    raise _unknown(stated, f"the type of column {name}", "DDL text such as 'DECIMAL(10, 2)', or an Arrow or Spark type")


def _single(row: RowType, text: str) -> tuple[DataField]:
    if len(row) != 1:
        raise InvalidInputError(f"{text!r} is not the type of one column")
    return (row.fields[0],)


def _is_spark(value: Any, name: str) -> bool:
    kind = type(value)
    return kind.__module__ == _SPARK and kind.__name__.endswith(name or "Type")


def _spark_row_type(schema: Any) -> RowType:
    # pyspark belongs to paimon_spark.spark, above this package: importing it by name keeps the layers apart.
    found: RowType = importlib.import_module("paimon_spark.spark.schema").row_type(schema)
    return found


def _unknown(value: Any, what: str, wanted: str) -> InvalidInputError:
    kind = type(value)
    return InvalidInputError(f"{what} is {wanted}; found {kind.__module__}.{kind.__qualname__}")
