"""A value for a table's column, with the names of fields and the types of NULLs that the column has.

Source: Spark's `TableOutputResolver`; Java Spark connector, `PaimonAnalysis.addCastToStructByPosition`.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.types import ArrayType as SparkArray
from pyspark.sql.types import DataType as SparkType
from pyspark.sql.types import MapType as SparkMap
from pyspark.sql.types import NullType, StructField, StructType

from paimon_spark.spark.schema import spark_type
from paimon_spark.types import ArrayType, DataField, DataType, MapType, RowType, in_any_case


def fitted(column: Column, found: SparkType, wanted: DataType, name: str, *, by_place: bool = False) -> Column:
    """The column as a write takes it: what else differs, the write casts or refuses.

    Args:
        column: the value.
        found: its type.
        wanted: type of the table's column.
        name: of the table's column.
        by_place: whether fields of structs are filled by their places, as columns are by INSERT without BY NAME.
    """
    made = _fitted(found, wanted, name, by_place)
    return column if made == found else column.cast(made)


def _fitted(found: SparkType, wanted: DataType, name: str, by_place: bool) -> SparkType:
    match found, wanted:
        case NullType(), _:  # nothing but nulls, or nothing at all, as in array()
            return spark_type(wanted, name)
        case StructType(), RowType() if by_place and len(found.fields) == len(wanted.fields):
            pairs = zip(found.fields, wanted.fields, strict=True)
            return StructType([_field(w.name, f, w, name, by_place) for f, w in pairs])
        case StructType(), RowType():
            known = {f.name: in_any_case(f.name, wanted.names) for f in found.fields}
            fields = [
                f if (n := known[f.name]) is None else _field(f.name, f, wanted.field(n), name, by_place)
                for f in found.fields
            ]
            return StructType(fields)
        case SparkArray(), ArrayType():
            return SparkArray(_fitted(found.elementType, wanted.element, name, by_place), found.containsNull)
        case SparkMap(), MapType():
            key = _fitted(found.keyType, wanted.key, name, by_place)
            return SparkMap(key, _fitted(found.valueType, wanted.value, name, by_place), found.valueContainsNull)
    return found


def _field(called: str, found: StructField, wanted: DataField, name: str, by_place: bool) -> StructField:
    return StructField(called, _fitted(found.dataType, wanted.type, name, by_place), found.nullable)
