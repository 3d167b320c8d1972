"""Changes of single columns, applied to a schema and to the options that name them.

Source: Java `SchemaManager.generateTableSchema`, `applyRenameColumnsToOptions`, which knows fewer options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from paimon_spark.errors import AlreadyExistsError, ColumnNotFoundError, InvalidInputError
from paimon_spark.format.casts.defaults import check_default
from paimon_spark.format.casts.evolution import can_cast
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.definition.create import FieldIds
from paimon_spark.metadata.definition.schema_changes import (
    AddColumn,
    After,
    Before,
    DropColumn,
    First,
    Last,
    MoveColumn,
    Path,
    Position,
    RenameColumn,
    SchemaChange,
    UpdateComment,
    UpdateDefault,
    UpdateNullability,
    UpdateType,
    shown,
)
from paimon_spark.metadata.definition.validate import is_system_column
from paimon_spark.options.core import SEQUENCE_GROUP
from paimon_spark.options.data_files import INDEX_PREFIX
from paimon_spark.options.descriptor import COLUMN_PREFIX, Option, boolean, did_you_mean
from paimon_spark.types import ArrayType, DataField, DataType, MapType, MultisetType, RowType, VectorType

Fields: TypeAlias = tuple[DataField, ...]
_NO_NULL_TO_NOT_NULL = Option(
    "alter-column-null-to-not-null.disabled", boolean, True, "A column with nulls never becomes NOT NULL."
)
_NO_EXPLICIT_CASTS = Option("disable-explicit-type-casting", boolean, False, "Types only widen.")
_BEFORE_PARTITION = Option(
    "add-column-before-partition", boolean, False, "New columns stand before the partition keys."
)


def applied(schema: TableSchema, change: SchemaChange) -> TableSchema:
    """The schema after a change. Raises InvalidInputError, ColumnNotFoundError, AlreadyExistsError: not possible."""
    match change:
        case AddColumn():
            return _add(schema, change)
        case DropColumn():
            return _drop(schema, change)
        case RenameColumn():
            return _rename(schema, change)
        case UpdateType():
            return _retype(schema, change)
        case UpdateNullability():
            return _set_nullable(schema, change)
        case UpdateComment(path, comment):
            return _with_field(schema, path, lambda f: replace(f, description=comment or None))
        case UpdateDefault(path, default):
            return _with_field(schema, path, lambda f: _with_default(f, path, default))
        case MoveColumn(path, position):
            return _with_fields(schema, path, lambda fields: _moved(fields, path, position))
    raise AssertionError(change)


def _add(schema: TableSchema, change: AddColumn) -> TableSchema:
    path, name = change.path, change.path[-1]
    if not change.type.nullable:
        raise InvalidInputError(
            f"column {shown(path)} cannot be added as NOT NULL: rows that are there already have no value for it",
            column=shown(path),
        )
    check_default(shown(path), change.type, change.default)
    ids = FieldIds(schema.highest_field_id)
    added = ids.column(DataField(0, name, change.type, change.comment or None, change.default))
    position = change.position or _default_position(schema, path)

    def with_added(fields: Fields) -> Fields:
        _check_new_name(fields, path, name)
        return _placed(fields, added, position, path)

    return replace(_with_fields(schema, path, with_added), highest_field_id=ids.highest)


def _default_position(schema: TableSchema, path: Path) -> Position:
    if len(path) == 1 and schema.partition_keys and _BEFORE_PARTITION.get(schema.options):
        first = next(f.name for f in schema.fields if f.name in schema.partition_keys)
        return Before(first)
    return Last()


def _check_new_name(fields: Fields, path: Path, name: str) -> None:
    where = shown((*path[:-1], name))
    if not name.strip() or (len(path) == 1 and is_system_column(name)):
        raise InvalidInputError(f"{name!r} cannot be the name of a column: Paimon keeps it for itself", column=name)
    for f in fields:
        if f.name.lower() == name.lower():
            why = "it exists already" if f.name == name else f"there is a column {f.name!r}"
            raise AlreadyExistsError(f"column {where} cannot be made: {why}", column=where)


def _drop(schema: TableSchema, change: DropColumn) -> TableSchema:
    path = change.path
    if len(path) == 1:
        _check_no_key(schema, path, "dropped", "partition key", "primary key")

    def without(fields: Fields) -> Fields:
        _found(fields, path)
        if len(fields) == 1:
            raise InvalidInputError(f"column {shown(path)} cannot be dropped: it is the last one", column=shown(path))
        return tuple(f for f in fields if f.name != path[-1])

    return _with_fields(schema, path, without)


def _rename(schema: TableSchema, change: RenameColumn) -> TableSchema:
    path, new = change.path, change.new_name
    if len(path) == 1:
        _check_no_key(schema, path, "renamed", "partition key")
    if path[-1] == new:
        return _with_field(schema, path, lambda f: f)

    def renamed(fields: Fields) -> Fields:
        _found(fields, path)
        _check_new_name(tuple(f for f in fields if f.name != path[-1]), path, new)
        return tuple(replace(f, name=new) if f.name == path[-1] else f for f in fields)

    after = _with_fields(schema, path, renamed)
    if len(path) > 1:
        return after
    return replace(
        after,
        primary_keys=tuple(new if k == path[0] else k for k in schema.primary_keys),
        options=renamed_options(schema.options, path[0], new),
    )


def _retype(schema: TableSchema, change: UpdateType) -> TableSchema:
    path = change.path
    if len(path) == 1:
        keys = () if change.of_keys else ("primary key", "bucket key")
        _check_no_key(schema, path, "given another type", "partition key", *keys)
    explicit = not _NO_EXPLICIT_CASTS.get(schema.options)

    def retyped(old: DataType) -> DataType:
        new = change.type.with_nullable(old.nullable) if change.keep_nullability else change.type
        _check_nullability(schema, path, old.nullable, new.nullable)
        return _cast(shown(path), old, new, explicit)

    after = _with_type(schema, path, retyped)
    if len(path) == 1:
        field = after.row_type.field(path[0])
        check_default(shown(path), field.type, field.default_value)
    return after


def _cast(where: str, old: DataType, new: DataType, explicit: bool) -> DataType:
    """`new` with the field ids of `old`, when what is in files of `old` can be read as it."""
    match old, new:
        case (ArrayType() | MultisetType(), ArrayType() | MultisetType()) if type(old) is type(new):
            return replace(new, element=_cast(f"{where}.element", old.element, new.element, explicit))
        case MapType(), MapType():
            if old.key.with_nullable(True) != new.key.with_nullable(True):
                raise _no_cast(f"{where}.key", old.key, new.key, "keys of a map never change their type")
            return replace(new, key=old.key, value=_cast(f"{where}.value", old.value, new.value, explicit))
        case RowType(), RowType():
            if old.names != new.names:
                raise _no_cast(where, old, new, f"add, drop or rename fields by their path, such as {where}.x")
            pairs = zip(old.fields, new.fields, strict=True)
            fields = tuple(replace(o, type=_cast(f"{where}.{o.name}", o.type, n.type, explicit)) for o, n in pairs)
            return replace(new, fields=fields)
    if not can_cast(old, new, explicit):
        other = " with disable-explicit-type-casting = true" if can_cast(old, new, True) else ""
        raise _no_cast(where, old, new, f"values cannot be cast so{other}; add a column of the new type instead")
    return new


def _no_cast(where: str, old: DataType, new: DataType, why: str) -> InvalidInputError:
    return InvalidInputError(f"column {where} cannot change from {old} to {new}: {why}", column=where)


def _set_nullable(schema: TableSchema, change: UpdateNullability) -> TableSchema:
    path = change.path
    if len(path) == 1 and change.nullable:
        _check_no_key(schema, path, "made nullable", "primary key")

    def switched(old: DataType) -> DataType:
        _check_nullability(schema, path, old.nullable, change.nullable)
        return old.with_nullable(change.nullable)

    return _with_type(schema, path, switched)


def _check_nullability(schema: TableSchema, path: Path, old: bool, new: bool) -> None:
    if old and not new and _NO_NULL_TO_NOT_NULL.get(schema.options):
        raise InvalidInputError(
            f"column {shown(path)} cannot become NOT NULL: rows that are there may hold null. If none does, set option "
            f"{_NO_NULL_TO_NOT_NULL.key} = false first",
            column=shown(path),
        )


def _with_default(field: DataField, path: Path, default: str | None) -> DataField:
    check_default(shown(path), field.type, default)
    return replace(field, default_value=default)


def _moved(fields: Fields, path: Path, position: Position) -> Fields:
    field = _found(fields, path)
    if isinstance(position, (After, Before)) and position.column == field.name:
        raise InvalidInputError(f"column {shown(path)} cannot be moved next to itself", column=shown(path))
    return _placed(tuple(f for f in fields if f is not field), field, position, path)


def _placed(fields: Fields, field: DataField, position: Position, path: Path) -> Fields:
    match position:
        case First():
            place = 0
        case Last():
            place = len(fields)
        case After(column):
            place = fields.index(_found(fields, (*path[:-1], column))) + 1
        case Before(column):
            place = fields.index(_found(fields, (*path[:-1], column)))
    return (*fields[:place], field, *fields[place:])


def _check_no_key(schema: TableSchema, path: Path, verb: str, *kinds: str) -> None:
    keys = {
        "partition key": schema.partition_keys,
        "primary key": schema.primary_keys,
        "bucket key": schema.bucket_keys,
    }
    for kind in kinds:
        if path[0] in keys[kind]:
            raise InvalidInputError(f"column {path[0]!r} cannot be {verb}: it is part of the {kind}", column=path[0])


def _found(fields: Fields, path: Path) -> DataField:
    for f in fields:
        if f.name == path[-1]:
            return f
    names = [shown((*path[:-1], f.name)) for f in fields]
    raise ColumnNotFoundError(
        f"there is no column {shown(path)}{did_you_mean(shown(path), names)}; the columns are {', '.join(names)}",
        column=shown(path),
    )


def _with_field(schema: TableSchema, path: Path, change: Callable[[DataField], DataField]) -> TableSchema:
    def changed(fields: Fields) -> Fields:
        old = _found(fields, path)
        return tuple(change(f) if f is old else f for f in fields)

    return _with_fields(schema, path, changed)


def _with_fields(schema: TableSchema, path: Path, change: Callable[[Fields], Fields]) -> TableSchema:
    """`change` of the fields of the row that holds the last name of `path`."""

    def changed(t: DataType) -> DataType:
        if not isinstance(t, RowType):
            inner = "element" if isinstance(t, (ArrayType, MultisetType)) else "value"
            hint = f"; say {shown((*path[:-1], inner, path[-1]))}" if isinstance(t, (ArrayType, MapType)) else ""
            raise ColumnNotFoundError(
                f"there is no column {shown(path)}: {shown(path[:-1])} is of type {t}, not a row{hint}",
                column=shown(path),
            )
        return replace(t, fields=change(t.fields))

    return _with_type(schema, path[:-1], changed)


def _with_type(schema: TableSchema, path: Path, change: Callable[[DataType], DataType]) -> TableSchema:
    """`change` of the type at `path`; the empty path is the row of all columns."""
    changed = _type_at(schema.row_type, path, 0, change)
    assert isinstance(changed, RowType)
    return replace(schema, row_type=changed)


def _type_at(t: DataType, path: Path, depth: int, change: Callable[[DataType], DataType]) -> DataType:
    if depth == len(path):
        return change(t)
    name = path[depth]
    match t:
        case RowType():
            old = _found(t.fields, path[: depth + 1])
            new = replace(old, type=_type_at(old.type, path, depth + 1, change))
            return replace(t, fields=tuple(new if f is old else f for f in t.fields))
        case ArrayType() | MultisetType() | VectorType() if name == "element":
            return replace(t, element=_type_at(t.element, path, depth + 1, change))
        case MapType() if name == "value":
            return replace(t, value=_type_at(t.value, path, depth + 1, change))
        case MapType() if name == "key":
            raise InvalidInputError(f"column {shown(path)}: keys of a map never change", column=shown(path))
    raise ColumnNotFoundError(
        f"there is no column {shown(path)}: {shown(path[:depth])} is of type {t}, which has no {name!r}",
        column=shown(path),
    )


_VALUES: Final = frozenset(
    (
        "bucket-key", "sequence.field", "rowkind.field", "record-level.time-field", "upsert-key",
        "clustering.columns", "sink.clustering.by-columns", "changelog-producer.row-deduplicate-ignore-fields",
        "partial-update.remove-record-on-sequence-group",
    )
)  # fmt: skip
"""Options whose value is a list of columns."""


def renamed_options(options: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    """`options` of a table whose column `old` is now called `new`; their order stays."""

    def name(column: str) -> str:
        return new if column == old else column

    return {_key(key, name): _value(key, text, name) for key, text in options.items()}


def _key(key: str, name: Callable[[str], str]) -> str:
    if key.startswith(COLUMN_PREFIX):
        columns, dot, rest = key.removeprefix(COLUMN_PREFIX).partition(".")
        if dot:
            return COLUMN_PREFIX + ",".join(map(name, columns.split(","))) + dot + rest
    if key.startswith(INDEX_PREFIX) and key.count(".") > 2:
        kind, column, rest = key.removeprefix(INDEX_PREFIX).split(".", 2)
        return f"{INDEX_PREFIX}{kind}.{name(column)}.{rest}"
    return key


def _value(key: str, text: str, name: Callable[[str], str]) -> str:
    if key in _VALUES or (key.startswith(COLUMN_PREFIX) and key.endswith(SEQUENCE_GROUP)):
        return ",".join(name(column.strip()) for column in text.split(","))
    if key.startswith(INDEX_PREFIX) and key.endswith(".columns"):
        return ",".join(_indexed(column.strip(), name) for column in text.split(","))
    return text


def _indexed(text: str, name: Callable[[str], str]) -> str:
    """`column`, or `column[key]` for one key of a map."""
    column, bracket, rest = text.partition("[")
    return name(column) + bracket + rest
