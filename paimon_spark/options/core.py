"""Options of a table that decide its layout, reading and merging, and those of columns.

Source: Java `CoreOptions`, `mergetree/compact/PartialUpdateMergeFunction.Factory`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from paimon_spark.options.descriptor import (
    COLUMN_PREFIX,
    Option,
    boolean,
    enum_of,
    field_of,
    integer,
    memory_size,
    names,
    option,
    options_of,
    parse_group,
    string,
    texts_by_column,
    trimmed,
)


class MergeEngine(StrEnum):
    """How rows of one primary key become one row."""

    DEDUPLICATE = "deduplicate"
    PARTIAL_UPDATE = "partial-update"
    AGGREGATION = "aggregation"
    FIRST_ROW = "first-row"


class ChangelogProducer(StrEnum):
    """Who writes changelog files, and when."""

    NONE = "none"
    INPUT = "input"
    LOOKUP = "lookup"
    FULL_COMPACTION = "full-compaction"


class SortOrder(StrEnum):
    """Which of two sequence values is the later one."""

    ASCENDING = "ascending"
    DESCENDING = "descending"


class BucketFunction(StrEnum):
    """How a bucket key becomes a bucket number."""

    DEFAULT = "default"
    MOD = "mod"
    HIVE = "hive"


PRIMARY_KEY_NULLABLE = Option("primary-key.nullable", boolean, False, "Primary key columns may hold null.")
BUCKET = Option("bucket", integer, -1, "Number of buckets of a partition; -1: unaware or dynamic, -2: postponed.")
BUCKET_FUNCTION = Option(
    "bucket-function.type",
    enum_of(BucketFunction),
    BucketFunction.DEFAULT,
    "Function that computes the bucket from the bucket key.",
)
MERGE_ENGINE = Option(
    "merge-engine", enum_of(MergeEngine), MergeEngine.DEDUPLICATE, "How the rows of one primary key are merged."
)
SEQUENCE_ORDER = Option(
    "sequence.field.sort-order", enum_of(SortOrder), SortOrder.ASCENDING, "Sort order of sequence.field."
)
IGNORE_DELETE = Option(
    "ignore-delete",
    boolean,
    False,
    "Skip -U and -D rows.",
    ("first-row.ignore-delete", "deduplicate.ignore-delete", "partial-update.ignore-delete"),
)
CHANGELOG_PRODUCER = Option(
    "changelog-producer", enum_of(ChangelogProducer), ChangelogProducer.NONE, "How changelog files are produced."
)
DELETION_VECTORS = Option("deletion-vectors.enabled", boolean, False, "Store deletes as deletion vectors.")
MERGE_ON_READ = Option(
    "deletion-vectors.merge-on-read", boolean, False, "Readers of a table with deletion vectors also merge level 0."
)
NUM_LEVELS: Option[int | None] = Option(
    "num-levels", integer, None, "Number of LSM levels; the default is the compaction trigger plus one."
)
COMPACTION_TRIGGER = Option(
    "num-sorted-run.compaction-trigger", integer, 5, "Number of sorted runs that triggers a compaction."
)
SPLIT_OPEN_COST = Option(
    "source.split.open-file-cost", memory_size, 4 << 20, "Minimum size that each file counts for in a split."
)
FALLBACK_BRANCH = Option(
    "scan.fallback-branch", trimmed, "", "Branch from which partitions are read that the current branch does not have."
)
PRIMARY_BRANCH = Option("scan.primary-branch", trimmed, "", "Branch whose partitions take precedence.")
SEQUENCE_NUMBER_COLUMN = Option(
    "table-read.sequence-number.enabled", boolean, False, "Sequence numbers in `$audit_log` and `$binlog`: refused."
)
ALLOW_UNSAFE_CREATE = Option(
    "commit.allow-unsafe-create",
    boolean,
    False,
    "Allow commits on a store without exclusive creation; two concurrent writers may lose a commit.",
)


SEQUENCE_GROUP: Final = ".sequence-group"
_MAX_INT: Final = 2**31 - 1


PARTIAL_UPDATE_REMOVE = Option(
    "partial-update.remove-record-on-delete", boolean, False, "A -D row removes the whole row with its key."
)
PARTIAL_UPDATE_REMOVE_BY_GROUP: Option[tuple[str, ...]] = Option(
    "partial-update.remove-record-on-sequence-group",
    names,
    (),
    "A -D row of these sequence groups removes the row with its key.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
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

    default_aggregate: str | None = option(
        "fields.default-aggregate-function", string, None, "Aggregate function of columns that do not set one."
    )
    aggregation_removes: bool = option(
        "aggregation.remove-record-on-delete", boolean, False, "A -D row removes the row with its key."
    )
    partial_update_removes: bool = field_of(PARTIAL_UPDATE_REMOVE)
    removing_columns: tuple[str, ...] = field_of(PARTIAL_UPDATE_REMOVE_BY_GROUP)
    sequence_groups: Mapping[str, str]
    texts: Mapping[str, str]

    def column(self, name: str) -> FieldOptions:
        """The options of one column. Raises InvalidOptionError."""
        prefix = f"{COLUMN_PREFIX}{name}."
        read = {n: replace(o, key=prefix + o.key).get(self.texts) for n, o in options_of(FieldOptions).items()}
        return FieldOptions(column=name, **read)


def parse_merge_options(raw: Mapping[str, str]) -> MergeOptions:
    """The group of `raw`. Raises InvalidOptionError for a value of the wrong type."""
    texts = {key: text for key, text in raw.items() if key.startswith(COLUMN_PREFIX)}
    return parse_group(
        MergeOptions,
        raw,
        sequence_groups=texts_by_column(dict(sorted(texts.items())), SEQUENCE_GROUP),
        texts=texts,
    )


class NestedKeyNullStrategy(StrEnum):
    """How nested_update handles elements whose nested key contains a null."""

    MERGE = "merge"
    IGNORE = "ignore"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldOptions:
    """The `fields.<column>.…` options of one column."""

    column: str
    aggregate_function: str | None = option("aggregate-function", string, None, "Aggregate function, if configured.")
    ignore_retract: bool = option("ignore-retract", boolean, False, "Skip -U and -D.")
    distinct: bool = option("distinct", boolean, False, "Keep values once.")
    delimiter: str = option("list-agg-delimiter", string, ",", "Between values of listagg.")
    nested_key: tuple[str, ...] = option("nested-key", names, (), "Key of the elements of a nested table.")
    nested_key_nulls: NestedKeyNullStrategy = option(
        "nested-key-null-strategy",
        enum_of(NestedKeyNullStrategy),
        NestedKeyNullStrategy.MERGE,
        "Elements with a null in their key.",
    )
    nested_sequence: tuple[str, ...] = option("nested-sequence-field", names, (), "Order of the elements.")
    count_limit: int = option("count-limit", integer, _MAX_INT, "Most elements of a nested table.")
    ts_field: str | None = option("ts-field", string, None, "Time field of merge_map_with_keytime; default the last.")
