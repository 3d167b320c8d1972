"""Schema changes that `write.merge-schema` makes for the rows of a write.

New columns and fields are added behind the others, nullable. Types of existing columns stay, unless
`write.merge-schema.type-widening` is set; then a column becomes wide enough for the rows. A column never gets
narrower because the rows of one write are.

Source: Java `schema/SchemaMergingUtils`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from pyarrow.types import is_null

from paimon_spark.errors import InvalidOptionError, SchemaMismatchError
from paimon_spark.format.casts.evolution import can_cast
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.definition import from_arrow
from paimon_spark.metadata.definition.schema_changes import AddColumn, Path, SchemaChange, UpdateType, shown
from paimon_spark.options.write import EXPLICIT_CAST, TYPE_WIDENING, SchemaMergeOptions
from paimon_spark.types import (
    INTEGER_NAMES,
    VALUE_KIND,
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
    return merged_row(schema, from_arrow.row_type(pa.schema(typed)), options)


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
