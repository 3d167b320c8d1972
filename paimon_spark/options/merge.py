"""Options of a table for merge functions: deletes, and `fields.<column>.…` of single columns.

Source: Java `CoreOptions`, `mergetree/compact/PartialUpdateMergeFunction.Factory`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from paimon_spark.options.descriptor import Option, boolean, enum_of, integer, names, string

COLUMN_PREFIX: Final = "fields."
SEQUENCE_GROUP: Final = ".sequence-group"
_MAX_INT: Final = 2**31 - 1

DEFAULT_AGGREGATE: Option[str | None] = Option(
    "fields.default-aggregate-function", string, None, "Aggregate function of columns that name none."
)
AGGREGATION_REMOVE = Option(
    "aggregation.remove-record-on-delete", boolean, False, "A row of kind -D removes the row of its key."
)
PARTIAL_UPDATE_REMOVE = Option(
    "partial-update.remove-record-on-delete",
    boolean,
    False,
    "A row of kind -D removes the whole row of its key.",
)
PARTIAL_UPDATE_REMOVE_BY_GROUP: Option[tuple[str, ...]] = Option(
    "partial-update.remove-record-on-sequence-group",
    names,
    (),
    "A -D in these sequence groups removes the row of its key.",
)


@dataclass(frozen=True, slots=True)
class MergeOptions:
    """How rows of one key are merged, beside the merge engine.

    Attributes:
        default_aggregate: aggregate function of columns that name none; None: as the engine has it.
        aggregation_removes: a row of kind -D removes the row of its key (merge engine aggregation).
        partial_update_removes: the same, of merge engine partial-update.
        removing_columns: sequence columns; a row of kind -D that holds one removes the row of its key.
        sequence_groups: sequence columns and the columns they order, as written.
        texts: options of columns, as text; `column` parses those of one.
    """

    default_aggregate: str | None
    aggregation_removes: bool
    partial_update_removes: bool
    removing_columns: tuple[str, ...]
    sequence_groups: Mapping[str, str]
    texts: Mapping[str, str]

    def column(self, name: str) -> FieldOptions:
        """The options of one column. Raises InvalidOptionError."""
        return field_options(name, self.texts)


def parse_merge_options(raw: Mapping[str, str]) -> MergeOptions:
    """The group of `raw`. Raises InvalidOptionError for a value of the wrong type."""
    texts = {key: text for key, text in raw.items() if key.startswith(COLUMN_PREFIX)}
    return MergeOptions(
        default_aggregate=DEFAULT_AGGREGATE.get(raw),
        aggregation_removes=AGGREGATION_REMOVE.get(raw),
        partial_update_removes=PARTIAL_UPDATE_REMOVE.get(raw),
        removing_columns=PARTIAL_UPDATE_REMOVE_BY_GROUP.get(raw),
        sequence_groups={
            key[len(COLUMN_PREFIX) : -len(SEQUENCE_GROUP)]: text
            for key, text in sorted(texts.items())
            if key.endswith(SEQUENCE_GROUP)
        },
        texts=texts,
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
        return f"{COLUMN_PREFIX}{column}.{suffix}"

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
