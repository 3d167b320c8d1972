"""Merge engine options checked against a schema: aggregate functions, sequence groups.

Source: Java `mergetree/compact/PartialUpdateMergeFunction.Factory`, `mergetree/compact/aggregate/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from paimon_spark.errors import InvalidOptionError, UnsupportedFeatureError
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.options.core import (
    IGNORE_DELETE,
    PARTIAL_UPDATE_REMOVE,
    PARTIAL_UPDATE_REMOVE_BY_GROUP,
    SEQUENCE_GROUP,
    FieldOptions,
    MergeEngine,
    MergeOptions,
)
from paimon_spark.options.descriptor import COLUMN_PREFIX
from paimon_spark.options.table import TableOptions
from paimon_spark.types import (
    ArrayType,
    AtomicType,
    BinaryType,
    CharType,
    DataType,
    DecimalType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
)

FUNCTIONS: Final = frozenset(
    (
        "primary-key", "last_value", "last_non_null_value", "first_value", "first_non_null_value",
        "first_not_null_value", "max", "min", "bool_and", "bool_or", "sum", "product", "merge_map",
        "merge_map_with_keytime", "listagg", "collect", "nested_update", "nested_partial_update", "hll_sketch",
        "theta_sketch", "rbm32", "rbm64",
    )
)  # fmt: skip
"""Names of the aggregate functions."""
_LAST_NON_NULL: Final = "last_non_null_value"
_NUMERIC: Final = frozenset(("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE"))


class _ColumnFunction(NamedTuple):
    """The aggregate function of a column, with the column's options and type."""

    name: str
    options: FieldOptions
    type: DataType


def check_merging(schema: TableSchema, options: TableOptions) -> None:
    """Check the options of the merge engine of a table with a primary key. Raises as `column_functions`."""
    if options.merge_engine is MergeEngine.AGGREGATION:
        column_functions(schema, options)
    elif options.merge_engine is MergeEngine.PARTIAL_UPDATE:
        partial_update_groups(schema, options)
        column_functions(schema, options)


def column_functions(schema: TableSchema, options: TableOptions) -> dict[str, _ColumnFunction]:
    """The aggregate functions of the columns, by name: of all, or with partial-update of those that name one.

    Raises:
        InvalidOptionError: options of a column contradict each other or the schema.
        UnsupportedFeatureError: an aggregate function is unknown.
    """
    chosen = _partial_update_functions if options.merge_engine is MergeEngine.PARTIAL_UPDATE else _aggregations
    out = {}
    for field, name in chosen(schema, options).items():
        column = options.merge.column(field)
        data_type = schema.row_type.field(field).type
        check_function(name, column, data_type)
        out[field] = _ColumnFunction(name, column, data_type)
    return out


def _aggregations(schema: TableSchema, options: TableOptions) -> dict[str, str]:
    out = {}
    for field in schema.fields:
        configured = options.merge.column(field.name).aggregate_function
        if field.name in options.sequence_fields:
            out[field.name] = "last_value"
        elif field.name in schema.primary_keys:
            out[field.name] = "primary-key"
        else:
            out[field.name] = configured or options.merge.default_aggregate or _LAST_NON_NULL
    return out


def _partial_update_functions(schema: TableSchema, options: TableOptions) -> dict[str, str]:
    group_of = {column: group for group in sequence_groups(schema, options.merge) for column in group.columns}
    out = {}
    for field in schema.fields:
        group = group_of.get(field.name)
        if field.name in schema.primary_keys or (group is not None and field.name in group.sequence):
            continue
        function = options.merge.column(field.name).aggregate_function or options.merge.default_aggregate
        if function is None:
            continue
        if group is None and function != _LAST_NON_NULL:
            raise InvalidOptionError(
                f"column {field.name!r}: aggregate function {function!r} needs a sequence group in a "
                "partial-update table",
                option=f"fields.{field.name}.aggregate-function",
            )
        out[field.name] = function
    return out


def partial_update_groups(schema: TableSchema, options: TableOptions) -> tuple[SequenceGroup, ...]:
    """The sequence groups of a partial-update table, checked with its other options. Raises InvalidOptionError."""
    merge, groups = options.merge, sequence_groups(schema, options.merge)
    by_group = PARTIAL_UPDATE_REMOVE_BY_GROUP.key
    for excluded, one, other in (
        (merge.partial_update_removes and options.ignore_delete, PARTIAL_UPDATE_REMOVE.key, IGNORE_DELETE.key),
        (bool(merge.removing_columns) and options.ignore_delete, by_group, IGNORE_DELETE.key),
        (merge.partial_update_removes and bool(groups), PARTIAL_UPDATE_REMOVE.key, "fields.<column>.sequence-group"),
    ):
        if excluded:
            raise InvalidOptionError(f"options {one} and {other} exclude each other", option=one)
    for column in sorted(set(merge.removing_columns) - {c for g in groups for c in g.sequence}):
        raise InvalidOptionError(
            f"option {by_group}: {column!r} is not a sequence column of any sequence group", option=by_group
        )
    return groups


@dataclass(frozen=True, slots=True)
class SequenceGroup:
    """Columns of a partial-update table that are replaced together, when newer by their sequence columns.

    Attributes:
        sequence: the columns that order the group.
        protected: the other columns of the group.
    """

    sequence: tuple[str, ...]
    protected: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.sequence + self.protected


def sequence_groups(schema: TableSchema, options: MergeOptions) -> tuple[SequenceGroup, ...]:
    """The `fields.<a>[,<b>].sequence-group = …` options.

    Raises:
        InvalidOptionError: a column is unknown, a primary key, or in two groups.
    """
    groups = []
    seen: set[str] = set()
    for names, value in options.sequence_groups.items():
        key = f"{COLUMN_PREFIX}{names}{SEQUENCE_GROUP}"
        sequence = _group_columns(names.split(","), key, schema)
        protected = _group_columns(value.split(","), key, schema)
        protected = tuple(c for c in protected if c not in sequence)
        for column in (*sequence, *protected):
            if column in seen:
                raise InvalidOptionError(
                    f"option {key} = {value!r}: column {column!r} is in two sequence groups", option=key
                )
        seen.update((*sequence, *protected))
        groups.append(SequenceGroup(sequence, protected))
    return tuple(groups)


def _group_columns(columns: Sequence[str], key: str, schema: TableSchema) -> tuple[str, ...]:
    for column in columns:
        if column not in schema.row_type.names:
            raise InvalidOptionError(f"option {key}: the table has no column {column!r}", option=key)
        if column in schema.primary_keys:
            raise InvalidOptionError(
                f"option {key}: primary key column {column!r} cannot be in a sequence group", option=key
            )
    return tuple(dict.fromkeys(columns))


def check_function(function: str, options: FieldOptions, type: DataType) -> None:
    """Check that an aggregate function is known and takes a column of a type.

    Raises:
        UnsupportedFeatureError: the function is unknown.
        InvalidOptionError: it does not take columns of this type.
    """
    if function not in FUNCTIONS:
        raise UnsupportedFeatureError(
            f"column {options.column!r}: aggregate function {function!r} is unknown; known are "
            + ", ".join(sorted(FUNCTIONS)),
            feature=function,
        )
    wanted = _wanted_type(function, type)
    if wanted is not None:
        raise InvalidOptionError(
            f"column {options.column!r}: aggregate function {function!r} needs {wanted}, the column is {type}",
            option=f"fields.{options.column}.aggregate-function",
        )
    if function == "nested_partial_update" and not options.nested_key:
        raise InvalidOptionError(
            f"column {options.column!r}: nested_partial_update needs 'fields.{options.column}.nested-key'",
            option=f"fields.{options.column}.nested-key",
        )


def _wanted_type(function: str, t: DataType) -> str | None:
    """Kind of column that the function needs, when `t` is of another kind."""
    rows = isinstance(t, ArrayType) and isinstance(t.element, RowType)
    match function:
        case "sum" | "product":
            fits = isinstance(t, DecimalType) or (isinstance(t, AtomicType) and t.name in _NUMERIC)
            return None if fits else "a number"
        case "bool_and" | "bool_or":
            return None if isinstance(t, AtomicType) and t.name == "BOOLEAN" else "a BOOLEAN"
        case "listagg":
            return None if isinstance(t, CharType) else "a STRING"
        case "collect":
            return None if isinstance(t, ArrayType) else "an ARRAY"
        case "merge_map":
            return None if isinstance(t, MapType) else "a MAP"
        case "merge_map_with_keytime":
            return None if isinstance(t, MapType) and isinstance(t.value, RowType) else "a MAP of ROWs"
        case "nested_update" | "nested_partial_update":
            return None if rows else "an ARRAY of ROWs"
        case "max" | "min":
            nested = isinstance(t, (ArrayType, MapType, MultisetType, RowType, VectorType))
            return "a comparable type" if nested else None
        case "hll_sketch" | "theta_sketch" | "rbm32" | "rbm64":
            return None if isinstance(t, BinaryType) else "a VARBINARY"
        case _:
            return None
