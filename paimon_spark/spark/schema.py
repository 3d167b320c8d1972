"""Paimon types ↔ Spark types, checks of `.schema(…)`, columns fitted to a table.

CHAR and VARCHAR are STRING here, because Spark knows their lengths only for tables of a catalog; nothing is padded or
cut on reading.

Source: Paimon's Spark connector, `SparkTypeUtils`.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as spark

from paimon_spark.errors import SchemaMismatchError, UnsupportedFeatureError
from paimon_spark.types import (
    BYTES,
    STRING,
    ArrayType,
    AtomicType,
    BinaryType,
    CharType,
    DataField,
    DataType,
    DecimalType,
    MapType,
    MultisetType,
    RowType,
    TimestampType,
    TimeType,
    in_any_case,
)

_ATOMS: Final[dict[str, type[spark.DataType]]] = {
    "BOOLEAN": spark.BooleanType,
    "TINYINT": spark.ByteType,
    "SMALLINT": spark.ShortType,
    "INT": spark.IntegerType,
    "BIGINT": spark.LongType,
    "FLOAT": spark.FloatType,
    "DOUBLE": spark.DoubleType,
    "DATE": spark.DateType,
    "VARIANT": spark.VariantType,
}
_DIGITS: Final = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
_WIDER: Final[dict[str, tuple[type[spark.DataType], ...]]] = {
    "TINYINT": (spark.ShortType, spark.IntegerType, spark.LongType, spark.FloatType, spark.DoubleType),
    "SMALLINT": (spark.IntegerType, spark.LongType, spark.FloatType, spark.DoubleType),
    "INT": (spark.LongType, spark.DoubleType),
    "FLOAT": (spark.DoubleType,),
}
"""Types that hold every value of a type exactly."""
_CHAR_METADATA: Final = "__CHAR_VARCHAR_TYPE_STRING"
"""The metadata in which Spark stores CHAR(n) and VARCHAR(n) of a column of type STRING."""
_DEFAULT_METADATA: Final = "CURRENT_DEFAULT"
_CHAR: Final = re.compile(r"(var)?char\((\d+)\)", re.IGNORECASE)


def spark_schema(row_type: RowType) -> spark.StructType:
    """The Spark schema of a row, with comments. Raises UnsupportedFeatureError: Spark cannot read a column's type."""
    return spark.StructType([_field(f.name, f.type, f.description, f.name) for f in row_type])


def spark_type(t: DataType, where: str = "") -> spark.DataType:
    """The Spark type of `t`; `where` is the column's path, for messages. Raises as `spark_schema`."""
    match t:
        case AtomicType(name=name) if name in _ATOMS:
            return _ATOMS[name]()
        case CharType():
            return spark.StringType()
        case BinaryType():
            return spark.BinaryType()
        case DecimalType():
            return spark.DecimalType(t.precision, t.scale)
        case TimeType():
            return spark.IntegerType()
        case TimestampType():
            return spark.TimestampType() if t.local_zone else spark.TimestampNTZType()
        case ArrayType():
            return spark.ArrayType(spark_type(t.element, f"{where}.element"), t.element.nullable)
        case MapType():
            key, value = spark_type(t.key, f"{where}.key"), spark_type(t.value, f"{where}.value")
            return spark.MapType(key, value, t.value.nullable)
        case MultisetType():
            return spark.MapType(spark_type(t.element, f"{where}.element"), spark.IntegerType(), False)
        case RowType():
            fields = [_field(f.name, f.type, f.description, f"{where}.{f.name}") for f in t]
            return spark.StructType(fields)
    raise UnsupportedFeatureError(
        f"column {where.split('.')[0]}: type {t} of {where} cannot be read in Spark; "
        "name the other columns in option columns or in .schema(...)",
        feature=str(t.with_nullable(True)),
        column=where,
    )


def _field(name: str, t: DataType, comment: str | None, where: str) -> spark.StructField:
    metadata = {"comment": comment} if comment else None
    return spark.StructField(name, spark_type(t, where), t.nullable, metadata)


def row_type(schema: spark.StructType, *, all_nullable: bool = False) -> RowType:
    """The columns of a table for `schema`, with ids from 0. CHAR and VARCHAR columns keep their lengths.

    With `all_nullable`, NOT NULL is ignored, as by Spark in CREATE TABLE AS SELECT.

    Raises:
        UnsupportedFeatureError: a type that tables cannot have.
    """
    return RowType(False, tuple(_column(i, f, f.name, all_nullable) for i, f in enumerate(schema.fields)))


def column(name: str, data_type: spark.DataType) -> DataField:
    """A nullable column of a type. Raises as `row_type`."""
    return _column(0, spark.StructField(name, data_type), name, False)


def _column(position: int, field: spark.StructField, where: str, all_nullable: bool) -> DataField:
    metadata = field.metadata or {}
    length = _CHAR.fullmatch(metadata.get(_CHAR_METADATA, ""))
    if length:
        data_type: DataType = CharType(length=int(length[2]), varying=bool(length[1]))
    else:
        data_type = _paimon_type(field.dataType, where, all_nullable)
    default = metadata.get(_DEFAULT_METADATA)
    if default is not None:
        from paimon_spark.metadata.definition.ddl import default_text  # only columns with defaults pay for the parser

        default = default_text(default, where)
    data_type = data_type.with_nullable(all_nullable or field.nullable)
    return DataField(position, field.name, data_type, metadata.get("comment"), default)


def _paimon_type(t: spark.DataType, where: str, all_nullable: bool) -> DataType:
    atom = next((name for name, kind in _ATOMS.items() if type(t) is kind), None)
    if atom is not None:
        return AtomicType(name=atom)
    match t:
        case spark.CharType():
            return CharType(length=t.length, varying=False)
        case spark.VarcharType():
            return CharType(length=t.length, varying=True)
        case spark.StringType():
            return STRING
        case spark.BinaryType():
            return BYTES
        case spark.DecimalType():
            return DecimalType(precision=t.precision, scale=t.scale)
        case spark.TimestampType():
            return TimestampType(precision=6, local_zone=True)
        case spark.TimestampNTZType():
            return TimestampType(precision=6)
        case spark.TimeType():
            return TimeType(precision=min(t.precision, 3))
        case spark.ArrayType():
            element = _paimon_type(t.elementType, f"{where}.element", all_nullable)
            return ArrayType(element=element.with_nullable(all_nullable or t.containsNull))
        case spark.MapType():
            key, value = (
                _paimon_type(x, f"{where}.{n}", all_nullable) for x, n in ((t.keyType, "key"), (t.valueType, "value"))
            )
            return MapType(key=key.with_nullable(False), value=value.with_nullable(all_nullable or t.valueContainsNull))
        case spark.StructType():
            fields = (_column(i, f, f"{where}.{f.name}", all_nullable) for i, f in enumerate(t.fields))
            return RowType(fields=tuple(fields))
    raise UnsupportedFeatureError(
        f"column {where.split('.')[0]}: no type of a table holds Spark's {t.simpleString()}; "
        f"cast {where} to another type",
        feature=t.simpleString(),
        column=where,
    )


def arrow_schema(schema: spark.StructType) -> pa.Schema:
    """The Arrow schema that Spark requires of batches for `schema`, exactly."""
    # Private to Spark, but it is what Spark's own worker compares our batches with.
    from pyspark.sql.pandas.types import to_arrow_schema

    build: Any = to_arrow_schema
    try:
        built: pa.Schema = build(schema, timezone="UTC")
    except TypeError:  # in older PySpark UTC is the default and has no parameter
        built = build(schema)
    return built


def check_readable_as(column: str, t: DataType, nullable: bool, asked: spark.DataType, asked_nullable: bool) -> None:
    """Check that Spark's type `asked` holds every value of `t` unchanged.

    Raises:
        SchemaMismatchError: it cannot; the message names the column and both types.
    """
    if nullable and not asked_nullable:
        raise SchemaMismatchError(
            f".schema(...) declares column {column} NOT NULL, but in the table it may be null", column=column
        )
    if not _same_or_wider(column, t, asked):
        raise SchemaMismatchError(
            f".schema(...) declares column {column} as {asked.simpleString()}, but in the table it is {t} "
            f"({spark_type(t, column).simpleString()}), which does not fit without loss; "
            "read it as it is and cast afterwards",
            column=column,
        )


def _same_or_wider(column: str, t: DataType, asked: spark.DataType) -> bool:
    match t, asked:
        case RowType(), spark.StructType():
            _check_fields(column, t, asked)
            return True
        case ArrayType(), spark.ArrayType():
            check_readable_as(f"{column}.element", t.element, t.element.nullable, asked.elementType, asked.containsNull)
            return True
        case MapType(), spark.MapType():
            check_readable_as(f"{column}.key", t.key, False, asked.keyType, False)
            check_readable_as(f"{column}.value", t.value, t.value.nullable, asked.valueType, asked.valueContainsNull)
            return True
        case MultisetType(), spark.MapType(valueType=spark.IntegerType()):
            check_readable_as(f"{column}.element", t.element, False, asked.keyType, False)
            return True
        case AtomicType(name=name), spark.DecimalType() if name in _DIGITS:
            return asked.precision - asked.scale >= _DIGITS[name]
        case DecimalType(), spark.DecimalType():
            whole = t.precision - t.scale
            return asked.scale >= t.scale and asked.precision - asked.scale >= whole
        case AtomicType(name=name), _ if type(asked) in _WIDER.get(name, ()):
            return True
        case CharType(), spark.StringType() | spark.CharType() | spark.VarcharType():
            return True
    return spark_type(t, column) == asked


def _check_fields(column: str, t: RowType, asked: spark.StructType) -> None:
    for f in asked.fields:
        try:
            inner = t.field(f.name)
        except KeyError:
            raise SchemaMismatchError(
                f".schema(...) declares field {column}.{f.name}, but the table's column has the fields "
                + ", ".join(t.names),
                column=f"{column}.{f.name}",
            ) from None
        check_readable_as(f"{column}.{f.name}", inner.type, inner.type.nullable, f.dataType, f.nullable)


def fitted(column: Column, found: spark.DataType, wanted: DataType, name: str, *, by_place: bool = False) -> Column:
    """The column with the field names of the table's column `name`, NULL and dates with its type.

    The write casts or refuses the rest.

    With `by_place`, fields of structs are matched by position, as columns are by INSERT without BY NAME.

    Source: Spark's `TableOutputResolver`; Java Spark connector, `PaimonAnalysis.addCastToStructByPosition`.
    """
    made = _fitted(found, wanted, name, by_place)
    return column if made == found else _cast(column, found, made)


def _cast(column: Column, found: spark.DataType, wanted: spark.DataType) -> Column:
    """A cast to a type with other names of fields; Spark casts no structs that hold a VARIANT."""
    if found == wanted or not _holds_variant(found):
        return column if found == wanted else column.cast(wanted)
    match found, wanted:
        case spark.StructType(), spark.StructType():
            pairs = zip(found.fields, wanted.fields, strict=True)
            parts = [_cast(column.getField(f.name), f.dataType, w.dataType).alias(w.name) for f, w in pairs]
            return F.when(column.isNotNull(), F.struct(*parts))
        case spark.ArrayType(), spark.ArrayType():
            return F.transform(column, lambda x: _cast(x, found.elementType, wanted.elementType))
        case spark.MapType(), spark.MapType():
            return F.transform_values(column, lambda _, v: _cast(v, found.valueType, wanted.valueType))
    return column


def _holds_variant(t: spark.DataType) -> bool:
    match t:
        case spark.StructType():
            return any(_holds_variant(f.dataType) for f in t.fields)
        case spark.ArrayType():
            return _holds_variant(t.elementType)
        case spark.MapType():
            return _holds_variant(t.keyType) or _holds_variant(t.valueType)
    return isinstance(t, spark.VariantType)


def _fitted(found: spark.DataType, wanted: DataType, name: str, by_place: bool) -> spark.DataType:
    match found, wanted:
        case spark.NullType(), _:  # nothing but nulls, or nothing at all, as in array()
            return spark_type(wanted, name)
        case spark.DateType(), TimestampType():  # midnight, of the session's time zone where the column has one
            return spark_type(wanted, name)
        case spark.StructType(), RowType() if by_place and len(found.fields) == len(wanted.fields):
            pairs = zip(found.fields, wanted.fields, strict=True)
            return spark.StructType([_fitted_field(w.name, f, w, name, by_place) for f, w in pairs])
        case spark.StructType(), RowType():
            known = {f.name: in_any_case(f.name, wanted.names) for f in found.fields}
            fields = [
                f if (n := known[f.name]) is None else _fitted_field(f.name, f, wanted.field(n), name, by_place)
                for f in found.fields
            ]
            return spark.StructType(fields)
        case spark.ArrayType(), ArrayType():
            return spark.ArrayType(_fitted(found.elementType, wanted.element, name, by_place), found.containsNull)
        case spark.MapType(), MapType():
            key = _fitted(found.keyType, wanted.key, name, by_place)
            return spark.MapType(key, _fitted(found.valueType, wanted.value, name, by_place), found.valueContainsNull)
    return found


def aligned(
    column: Column,
    found: spark.DataType,
    wanted: DataType,
    name: str,
    *,
    refuses_missing: bool = False,
    kept: Column | None = None,
) -> Column:
    """The column with the fields of its structs by name, in the order of the table's column `name`.

    So Spark can combine it with values of the table, which it does by position. Fields that it lacks are null, or those
    of `kept`, values of the table, outside arrays and maps.

    Raises:
        SchemaMismatchError: it lacks a field, with `refuses_missing`.
    """
    if not _is_out_of_order(found, wanted):
        return column
    how = partial(aligned, refuses_missing=refuses_missing)
    match found, wanted:
        case spark.StructType(), RowType():
            parts = []
            for w in wanted.fields:
                own, old = in_any_case(w.name, found.names), None if kept is None else kept.getField(w.name)
                if own is None and refuses_missing:
                    raise SchemaMismatchError(
                        f"column {name} has the field {w.name}, and the struct to be stored has only "
                        f"{', '.join(found.names)}; set single fields, SET {name}.x = …, or allow other fields with "
                        "write.merge-schema = true",
                        column=name,
                    )
                if own is None:
                    part = F.lit(None).cast(spark_type(w.type, name)) if old is None else old
                else:
                    part = how(column.getField(own), found[own].dataType, w.type, f"{name}.{w.name}", kept=old)
                parts.append(part.alias(w.name))
            return F.when(column.isNotNull(), F.struct(*parts))
        case spark.ArrayType(), ArrayType():
            return F.transform(column, lambda x: how(x, found.elementType, wanted.element, name))
        case spark.MapType(), MapType():
            keys = F.transform_keys(column, lambda k, _: how(k, found.keyType, wanted.key, name))
            return F.transform_values(keys, lambda _, v: how(v, found.valueType, wanted.value, name))
    return column


def _is_out_of_order(found: spark.DataType, wanted: DataType) -> bool:
    """Whether a struct has other fields than wanted, or in another order; one with unknown fields is left alone."""
    match found, wanted:
        case spark.StructType(), RowType():
            known = [in_any_case(f.name, wanted.names) for f in found.fields]
            if None in known:
                return False
            pairs = zip(found.fields, known, strict=True)
            is_inside = any(_is_out_of_order(f.dataType, wanted.field(n).type) for f, n in pairs if n is not None)
            return known != list(wanted.names) or is_inside
        case spark.ArrayType(), ArrayType():
            return _is_out_of_order(found.elementType, wanted.element)
        case spark.MapType(), MapType():
            return _is_out_of_order(found.keyType, wanted.key) or _is_out_of_order(found.valueType, wanted.value)
    return False


def _fitted_field(
    called: str, found: spark.StructField, wanted: DataField, name: str, by_place: bool
) -> spark.StructField:
    return spark.StructField(called, _fitted(found.dataType, wanted.type, name, by_place), found.nullable)
