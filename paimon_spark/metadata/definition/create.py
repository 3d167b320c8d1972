"""Creation of a table: columns, keys and options to schema-0, with new field ids.

Source: Paimon spec, chapter Schema; Java `schema/Schema`, `schema/SchemaManager.createTable`, `types/ReassignFieldId`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count

from paimon_spark.advice import CREATE_MISSING_TABLE
from paimon_spark.errors import FileAlreadyThereError, InvalidInputError, TableAlreadyExistsError
from paimon_spark.format.casts.defaults import check_default
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.definition.option_rules import check_storable, warn_of_unknown, warn_without_effect
from paimon_spark.metadata.definition.validate import check_case, check_keys_exist, validate
from paimon_spark.metadata.features import check_files_inside, check_readable, check_type
from paimon_spark.metadata.handle import is_table
from paimon_spark.metadata.layout import Layout
from paimon_spark.metadata.retry import now_ms
from paimon_spark.metadata.schemas import create_schema
from paimon_spark.options.core import PRIMARY_KEY_NULLABLE
from paimon_spark.options.descriptor import names
from paimon_spark.storage.store import Store
from paimon_spark.types import ArrayType, DataField, DataType, MapType, MultisetType, RowType, VectorType

PRIMARY_KEY = "primary-key"
PARTITION = "partition"
_NAME_LISTS = frozenset(("bucket-key", "sequence.field"))
"""Older Paimon takes the blanks after a comma for a part of the name."""


def create_table(
    store: Store,
    root: str,
    columns: RowType,
    primary_keys: Sequence[str] = (),
    partition_keys: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    comment: str | None = None,
    *,
    name: str | None = None,
    clock_ms: Callable[[], int] = now_ms,
) -> TableSchema:
    """Make a table: validate its definition and write `schema-0`. Exactly one of several racing callers succeeds.

    Args:
        store: where the table will be.
        root: its directory in `store`.
        columns: in order; their field ids are given anew.
        primary_keys: column names; the option `primary-key` may hold them instead.
        partition_keys: column names; the option `partition` may hold them instead.
        options: table options as text; unknown ones are kept and warned about.
        comment: of the table.
        name: how messages call the table; default is its URL.
        clock_ms: epoch milliseconds now.

    Raises:
        TableAlreadyExistsError: there is one.
        InvalidInputError, InvalidOptionError, ColumnNotFoundError: Paimon has no such table.
        UnsupportedFeatureError: it needs a feature that this package lacks.
        StorageError: the schema could not be written; there is no table.
    """
    shown = name or store.url(root)
    schema = new_schema(columns, primary_keys, partition_keys, options, comment, clock_ms())
    check_new(schema, shown)
    if is_table(store, root):
        raise _exists(shown, store.url(root))
    try:
        create_schema(store, Layout(root), schema)
    except FileAlreadyThereError as e:
        raise _exists(shown, store.url(root)) from e
    return schema


def check_new(schema: TableSchema, table: str = "the table") -> None:
    """Check the definition of a new table; warn about options that Paimon does not know. Raises as `create_table`."""
    check_type(schema, table)
    check_case(schema.row_type.names)
    for field in schema.fields:
        check_default(field.name, field.type, field.default_value)
    validate(schema, table)
    check_readable(schema, schema.options, table)
    check_files_inside(schema, table)
    warn_of_unknown(schema.options, table)
    warn_without_effect(schema.options, table)


def new_schema(
    columns: RowType,
    primary_keys: Sequence[str] = (),
    partition_keys: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    comment: str | None = None,
    time_ms: int = 0,
) -> TableSchema:
    """The first schema of a table, not yet validated: keys moved out of the options, field ids given.

    Raises:
        InvalidInputError: keys are given twice, or a key names no column.
        InvalidOptionError: an option says where the table is, or how to reach its file system.
    """
    text = {str(k): str(v) for k, v in (options or {}).items()}
    for key, value in text.items():
        check_storable(key, value)
    for key in _NAME_LISTS & text.keys():
        text[key] = ",".join(names(text[key]))
    row_type, highest = renumbered(columns)
    given = TableSchema(
        0, row_type, highest, _names(partition_keys), _names(primary_keys), text, comment or None, time_ms
    )
    return with_keys_of_options(given)


def with_keys_of_options(schema: TableSchema) -> TableSchema:
    """The schema with the options `primary-key` and `partition` made its keys.

    Primary key columns are NOT NULL; with `primary-key.nullable` none of them is.

    Raises:
        InvalidInputError: keys are given twice, or a key names no column.
    """
    options = dict(schema.options)
    keys = _keys(options, PRIMARY_KEY, schema.primary_keys)
    partition = _keys(options, PARTITION, schema.partition_keys)
    check_keys_exist(schema.row_type, keys, "primary key")
    check_keys_exist(schema.row_type, partition, "partition key")
    nullable = PRIMARY_KEY_NULLABLE.get(options)
    fields = tuple(replace(f, type=f.type.with_nullable(nullable)) if f.name in keys else f for f in schema.fields)
    row_type = replace(schema.row_type, fields=fields)
    return replace(schema, row_type=row_type, primary_keys=keys, partition_keys=partition, options=options)


def _names(given: Sequence[str]) -> tuple[str, ...]:
    return names(given) if isinstance(given, str) else tuple(given)


def _keys(options: dict[str, str], option: str, given: tuple[str, ...]) -> tuple[str, ...]:
    """The keys of the argument or of the option, which is taken out of `options`."""
    text = options.pop(option, None)
    if text is None:
        return given
    if given and names(text) != given:
        raise InvalidInputError(
            f"the {option} is given twice: {list(given)} and option {option} = {text!r}; give one of them",
            option=option,
        )
    return names(text)


def _exists(name: str, url: str) -> TableAlreadyExistsError:
    return TableAlreadyExistsError(
        f"table {name} already exists at {url}; open it, drop it first, {CREATE_MISSING_TABLE}",
        table=name,
        path=url,
    )


class FieldIds:
    """Gives out field ids above `highest`; `highest` is the last one given."""

    __slots__ = ("_ids", "highest")

    def __init__(self, highest: int = -1) -> None:
        self.highest = highest
        self._ids: Iterator[int] = count(highest + 1)

    def next(self) -> int:
        """The next id."""
        self.highest = next(self._ids)
        return self.highest

    def column(self, field: DataField) -> DataField:
        """A new column: its own id first, then those of the rows inside it."""
        own = self.next()
        return replace(field, id=own, type=self.inside(field.type))

    def inside(self, t: DataType) -> DataType:
        """The type with new ids for the fields of all rows in it; a field's inner rows come before itself."""
        match t:
            case RowType():
                return replace(t, fields=tuple(self._nested(f) for f in t.fields))
            case ArrayType() | MultisetType() | VectorType():
                return replace(t, element=self.inside(t.element))
            case MapType():
                key = self.inside(t.key)
                return replace(t, key=key, value=self.inside(t.value))
        return t

    def _nested(self, field: DataField) -> DataField:
        inner = self.inside(field.type)
        return replace(field, id=self.next(), type=inner)


def renumbered(fields: Iterable[DataField]) -> tuple[RowType, int]:
    """Columns of a new table with their field ids, and the highest one."""
    ids = FieldIds()
    return RowType(False, tuple(ids.column(f) for f in fields)), ids.highest
