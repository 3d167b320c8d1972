"""Columns of a table from an Arrow schema, and the changes that rows of a write need.

Field ids are those of `create.new_schema`; here they only count.

With `write.merge-schema`, new columns and fields are added behind the others, nullable. Types of existing columns stay,
unless `write.merge-schema.type-widening` is set; then a column becomes wide enough for the rows. A column never gets
narrower because the rows of one write are.

Source: Java `schema/SchemaMergingUtils`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.types as is_arrow
from pyarrow.types import is_null

from paimon_spark.errors import InvalidOptionError, SchemaMismatchError, UnsupportedFeatureError
from paimon_spark.format.casts.evolution import can_cast
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.definition.schema_changes import AddColumn, Path, SchemaChange, UpdateType, shown
from paimon_spark.options.write import EXPLICIT_CAST, TYPE_WIDENING, SchemaMergeOptions
from paimon_spark.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTEGER_NAMES,
    SMALLINT,
    STRING,
    TINYINT,
    VALUE_KIND,
    VARIANT,
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
)

_ATOMS: Final[dict[pa.DataType, DataType]] = {
    pa.bool_(): BOOLEAN,
    pa.int8(): TINYINT,
    pa.int16(): SMALLINT,
    pa.int32(): INT,
    pa.int64(): BIGINT,
    pa.uint8(): SMALLINT,
    pa.uint16(): INT,
    pa.uint32(): BIGINT,
    pa.uint64(): DecimalType(precision=20),
    pa.float16(): FLOAT,
    pa.float32(): FLOAT,
    pa.float64(): DOUBLE,
    pa.date32(): DATE,
    pa.date64(): DATE,
    pa.string(): STRING,
    pa.large_string(): STRING,
    pa.string_view(): STRING,
    pa.binary(): BYTES,
    pa.large_binary(): BYTES,
    pa.binary_view(): BYTES,
}
_UNIT_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_COMMENT_KEYS: Final = (b"description", b"comment")
_MAX_DECIMAL_DIGITS: Final = 38


def row_type(schema: pa.Schema) -> RowType:
    """The columns of a table that holds every value of `schema`; a comment is in metadata `description` or `comment`.

    Unsigned integers become the next wider type, timestamps keep their unit as precision.

    Raises:
        UnsupportedFeatureError: names the column whose type no Paimon type holds.
    """
    return RowType(False, tuple(_field(i, schema.field(i), "") for i in range(len(schema))))


def data_type(t: pa.DataType, where: str = "", nullable: bool = True) -> DataType:
    """The Paimon type of `t`; `where` is the column's path, for messages. Raises as `row_type`."""
    return _bare(t, where).with_nullable(nullable)


def _field(position: int, field: pa.Field, prefix: str) -> DataField:
    metadata = field.metadata or {}
    comment = next((metadata[k].decode("utf-8", "replace") for k in _COMMENT_KEYS if k in metadata), None)
    return DataField(position, field.name, data_type(field.type, prefix + field.name, field.nullable), comment)


def _bare(t: pa.DataType, where: str) -> DataType:
    found = _ATOMS.get(t)
    if found is not None:
        return found
    if isinstance(t, pa.BaseExtensionType):
        return VARIANT if t.extension_name == "arrow.parquet.variant" else _bare(t.storage_type, where)
    if is_arrow.is_dictionary(t) or is_arrow.is_run_end_encoded(t):
        return _bare(t.value_type, where)
    if is_arrow.is_fixed_size_binary(t):
        return BinaryType(length=t.byte_width, varying=False)
    if is_arrow.is_timestamp(t):
        return TimestampType(precision=_UNIT_DIGITS[t.unit], local_zone=t.tz is not None)
    if is_arrow.is_time(t):
        return TimeType(precision=_UNIT_DIGITS[t.unit])
    if is_arrow.is_decimal(t):
        return _decimal(t, where)
    return _nested(t, where)


def _decimal(t: pa.DataType, where: str) -> DataType:
    precision = t.precision - min(t.scale, 0)
    if precision > _MAX_DECIMAL_DIGITS or t.scale > precision:
        raise _refused(t, where, f"decimals have at most {_MAX_DECIMAL_DIGITS} digits, and no more after the point")
    return DecimalType(precision=precision, scale=max(t.scale, 0))


def _nested(t: pa.DataType, where: str) -> DataType:
    if is_arrow.is_struct(t):
        return RowType(fields=tuple(_field(i, t.field(i), f"{where}.") for i in range(t.num_fields)))
    if is_arrow.is_map(t):
        key = data_type(t.key_type, f"{where}.key", nullable=False)
        return MapType(key=key, value=data_type(t.item_type, f"{where}.value", t.item_field.nullable))
    if any(test(t) for test in _LISTS):
        return ArrayType(element=data_type(t.value_type, f"{where}.element", t.value_field.nullable))
    if is_arrow.is_null(t):
        raise _refused(t, where, "a column of nulls alone has no type; give it one with Table.cast or a schema")
    raise _refused(t, where, "cast it to a type that tables have")


_LISTS: Final = (
    is_arrow.is_list,
    is_arrow.is_large_list,
    is_arrow.is_fixed_size_list,
    is_arrow.is_list_view,
    is_arrow.is_large_list_view,
)


def _refused(t: pa.DataType, where: str, advice: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"column {where}: no type of a table holds the values of Arrow type {t}; {advice}",
        feature=f"Arrow type {t}",
        column=where,
    )


_DIGITS: Final = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}


def merged_schema(schema: TableSchema, incoming: pa.Schema, options: SchemaMergeOptions) -> list[SchemaChange]:
    """The changes that make room for rows of `incoming`; none when there is room. `options` are those of the write.

    Raises:
        SchemaMismatchError: a column cannot become wide enough.
        UnsupportedFeatureError: no type of a table holds the values of a column.
        InvalidOptionError: `explicit-cast` without `type-widening`.
    """
    # A column of nulls alone has no type of its own; it fits whatever the table has.
    typed = [f for f in incoming if not is_null(f.type) or _named(schema.row_type, f.name) is None]
    return merged_row(schema, row_type(pa.schema(typed)), options)


def merged_row(schema: TableSchema, incoming: RowType, options: SchemaMergeOptions) -> list[SchemaChange]:
    """As `merged_schema`, for rows whose types in the table would be those of `incoming`."""
    return merged_columns(schema.row_type, incoming, options)


def merged_columns(columns: RowType, incoming: RowType, options: SchemaMergeOptions) -> list[SchemaChange]:
    """As `merged_row`, for the columns of a table."""
    if options.explicit_casts and not options.widens_types:
        raise InvalidOptionError(
            f"option {EXPLICIT_CAST.key} = true needs {TYPE_WIDENING.key} = true", option=EXPLICIT_CAST.key
        )
    merge = _Merge(options.widens_types, options.explicit_casts)
    merge.row(columns, incoming, ())
    return merge.changes


@dataclass(slots=True)
class _Merge:
    widening: bool
    explicit: bool
    changes: list[SchemaChange] = field(default_factory=list)

    def row(self, base: RowType, update: RowType, path: Path) -> None:
        for f in update:
            found = _named(base, f.name)
            if found is not None:
                self.type(found.type, f.type, (*path, found.name))
            elif path or f.name != VALUE_KIND:
                self.changes.append(AddColumn((*path, f.name), f.type.with_nullable(True), f.description))

    def type(self, base: DataType, update: DataType, path: Path) -> None:
        match base, update:
            case RowType(), RowType():
                self.row(base, update, path)
            case (ArrayType() | MultisetType(), ArrayType() | MultisetType()) if type(base) is type(update):
                self.type(base.element, update.element, (*path, "element"))
            case MapType(), MapType():
                if self.widening and not holds(base.key, update.key):
                    raise _mismatch((*path, "key"), base.key, update.key, "keys of a map never change their type")
                self.type(base.value, update.value, (*path, "value"))
            case _ if self.widening and not holds(base, update):
                self.changes.append(
                    UpdateType(path, self._wider(base, update, path), keep_nullability=True, of_keys=True)
                )

    def _wider(self, base: DataType, update: DataType, path: Path) -> DataType:
        match base, update:
            case DecimalType(), DecimalType():
                if base.scale != update.scale:
                    raise _mismatch(path, base, update, "decimals of another scale are not merged; cast the column")
                return DecimalType(precision=max(base.precision, update.precision), scale=base.scale)
        if not can_cast(base, update, self.explicit):
            more = f"; option {EXPLICIT_CAST.key} = true allows it" if can_cast(base, update, True) else ""
            raise _mismatch(path, base, update, f"values already there could lose something{more}")
        if not self.explicit and _size(base) > _size(update):
            raise _mismatch(path, base, update, "values already there may be longer; cast the column")
        return update


def holds(base: DataType, update: DataType) -> bool:
    """Whether a column of type `base` takes every value of `update`, nullability aside.

    FLOAT and DOUBLE take decimals as any write does; Java would change the column, and round what it holds.
    """
    match base, update:
        case AtomicType(), AtomicType():
            if base.name in INTEGER_NAMES and update.name in INTEGER_NAMES:
                return INTEGER_NAMES.index(update.name) <= INTEGER_NAMES.index(base.name)
            return base.name == update.name or (base.name, update.name) == ("DOUBLE", "FLOAT")
        case DecimalType(), DecimalType():
            whole = base.precision - base.scale
            return update.scale <= base.scale and update.precision - update.scale <= whole
        case AtomicType(name="FLOAT" | "DOUBLE"), DecimalType():
            return True
        case DecimalType(), AtomicType(name=name) if name in _DIGITS:
            return base.precision - base.scale >= _DIGITS[name]
        case (CharType() | BinaryType(), CharType() | BinaryType()) if type(base) is type(update):
            return update.length <= base.length and (base.varying or base == update.with_nullable(base.nullable))
        case TimestampType(), TimestampType():
            return base.local_zone == update.local_zone and update.precision <= base.precision
        case TimeType(), TimeType():
            return update.precision <= base.precision
    return base.with_nullable(True) == update.with_nullable(True)


def _size(t: DataType) -> int:
    """Length or precision, of types that have one."""
    match t:
        case CharType() | BinaryType():
            return t.length
        case TimestampType() | TimeType():
            return t.precision
    return 0


def _named(row: RowType, name: str) -> DataField | None:
    """The field called `name`, else the only one called so in another case."""
    exact = next((f for f in row if f.name == name), None)
    near = [f for f in row if f.name.lower() == name.lower()]
    return exact or (near[0] if len(near) == 1 else None)


def _mismatch(path: Path, base: DataType, update: DataType, why: str) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"column {shown(path)} is {base} in the table and {update} in the rows, and cannot be merged: {why}",
        column=shown(path),
    )
