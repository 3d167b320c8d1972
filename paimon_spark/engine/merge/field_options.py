"""Options of single columns and of merge functions: `fields.<column>.…`, parsed once into frozen groups.

Source: Java `CoreOptions`, `mergetree/compact/PartialUpdateMergeFunction.Factory`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from paimon_spark.errors import InvalidOptionError
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.options.descriptor import Option, boolean, enum_of, integer, names, string

_PREFIX: Final = "fields."
_SEQUENCE_GROUP: Final = ".sequence-group"
_MAX_INT: Final = 2**31 - 1

DEFAULT_AGGREGATE: Option[str | None] = Option(
    "fields.default-aggregate-function", string, None, "Aggregate function of columns that name none."
)
AGGREGATION_REMOVE = Option(
    "aggregation.remove-record-on-delete", boolean, False, "-D removes the whole row of an aggregation table."
)
PARTIAL_UPDATE_REMOVE = Option(
    "partial-update.remove-record-on-delete",
    boolean,
    False,
    "-D removes the whole row of a partial-update table.",
)
PARTIAL_UPDATE_REMOVE_BY_GROUP: Option[tuple[str, ...]] = Option(
    "partial-update.remove-record-on-sequence-group",
    names,
    (),
    "Sequence columns whose group's -D removes the whole row of a partial-update table.",
)


class NestedKeyNullStrategy(str, Enum):
    """How nested_update handles elements whose nested key contains a null."""

    MERGE = "merge"
    IGNORE = "ignore"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class FieldOptions:
    """The `fields.<column>.…` options of one column.

    Attributes:
        aggregate_function: as configured for this column, None when it is not.
        delimiter: between values of listagg.
        nested_key, nested_sequence: fields of the elements of a nested table.
        count_limit: most elements of a nested table.
        ts_field: field that holds the time in merge_map_with_keytime; None means the last.
    """

    column: str
    aggregate_function: str | None
    ignore_retract: bool
    distinct: bool
    delimiter: str
    nested_key: tuple[str, ...]
    nested_key_nulls: NestedKeyNullStrategy
    nested_sequence: tuple[str, ...]
    count_limit: int
    ts_field: str | None


def field_options(column: str, raw: Mapping[str, str]) -> FieldOptions:
    """The options of one column. Raises InvalidOptionError."""

    def key(suffix: str) -> str:
        return f"{_PREFIX}{column}.{suffix}"

    function: Option[str | None] = Option(key("aggregate-function"), string, None, "Aggregate function.")
    ts_field: Option[str | None] = Option(key("ts-field"), string, None, "Time field of the map's values.")
    no_names: tuple[str, ...] = ()
    return FieldOptions(
        column=column,
        aggregate_function=function.get(raw),
        ignore_retract=Option(key("ignore-retract"), boolean, False, "Skip -U and -D.").get(raw),
        distinct=Option(key("distinct"), boolean, False, "Keep values once.").get(raw),
        delimiter=Option(key("list-agg-delimiter"), string, ",", "Between values.").get(raw),
        nested_key=Option(key("nested-key"), names, no_names, "Key of the elements.").get(raw),
        nested_key_nulls=Option(
            key("nested-key-null-strategy"),
            enum_of(NestedKeyNullStrategy),
            NestedKeyNullStrategy.MERGE,
            "Elements with a null in their key.",
        ).get(raw),
        nested_sequence=Option(key("nested-sequence-field"), names, no_names, "Order of elements.").get(raw),
        count_limit=Option(key("count-limit"), integer, _MAX_INT, "Most elements.").get(raw),
        ts_field=ts_field.get(raw),
    )


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


def sequence_groups(schema: TableSchema, raw: Mapping[str, str]) -> tuple[SequenceGroup, ...]:
    """The `fields.<a>[,<b>].sequence-group = …` options.

    Raises:
        InvalidOptionError: a column is unknown, a primary key, or in two groups.
    """
    groups = []
    seen: set[str] = set()
    for key, value in sorted(raw.items()):
        if not (key.startswith(_PREFIX) and key.endswith(_SEQUENCE_GROUP)):
            continue
        sequence = _group_columns(key[len(_PREFIX) : -len(_SEQUENCE_GROUP)].split(","), key, schema)
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
