"""Options of a table that decide its layout, reading and merging, and those of columns.

Source: Java `CoreOptions`, `mergetree/compact/PartialUpdateMergeFunction.Factory`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
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


class MergeEngine(str, Enum):
    """How rows of one primary key become one row."""

    DEDUPLICATE = "deduplicate"
    PARTIAL_UPDATE = "partial-update"
    AGGREGATION = "aggregation"
    FIRST_ROW = "first-row"


class ChangelogProducer(str, Enum):
    """Who writes changelog files, and when."""

    NONE = "none"
    INPUT = "input"
    LOOKUP = "lookup"
    FULL_COMPACTION = "full-compaction"


class SortOrder(str, Enum):
    """Which of two sequence values is the later one."""

    ASCENDING = "ascending"
    DESCENDING = "descending"


class BucketFunction(str, Enum):
    """How a bucket key becomes a bucket number."""

    DEFAULT = "default"
    MOD = "mod"
    HIVE = "hive"


PRIMARY_KEY_NULLABLE = Option("primary-key.nullable", boolean, False, "Primary key columns may hold null.")
BUCKET = Option("bucket", integer, -1, "Buckets of a partition; -1 unaware or dynamic, -2 postponed.")
BUCKET_FUNCTION = Option(
    "bucket-function.type", enum_of(BucketFunction), BucketFunction.DEFAULT, "How a bucket key becomes a bucket."
)
MERGE_ENGINE = Option(
    "merge-engine", enum_of(MergeEngine), MergeEngine.DEDUPLICATE, "How rows of one primary key become one row."
)
SEQUENCE_ORDER = Option(
    "sequence.field.sort-order", enum_of(SortOrder), SortOrder.ASCENDING, "Direction of sequence.field."
)
IGNORE_DELETE = Option(
    "ignore-delete",
    boolean,
    False,
    "Rows of kind -U and -D are skipped.",
    ("first-row.ignore-delete", "deduplicate.ignore-delete", "partial-update.ignore-delete"),
)
CHANGELOG_PRODUCER = Option(
    "changelog-producer", enum_of(ChangelogProducer), ChangelogProducer.NONE, "Who writes changelog files."
)
DELETION_VECTORS = Option("deletion-vectors.enabled", boolean, False, "Deletes are kept as vectors beside data files.")
MERGE_ON_READ = Option(
    "deletion-vectors.merge-on-read", boolean, False, "Readers of a deletion vector table merge level 0 too."
)
NUM_LEVELS: Option[int | None] = Option(
    "num-levels", integer, None, "LSM levels; default is the compaction trigger plus one."
)
COMPACTION_TRIGGER = Option("num-sorted-run.compaction-trigger", integer, 5, "Sorted runs that start a compaction.")
SPLIT_OPEN_COST = Option("source.split.open-file-cost", memory_size, 4 << 20, "Least bytes a file counts for.")
FALLBACK_BRANCH = Option(
    "scan.fallback-branch", trimmed, "", "The branch that is read where a partition is not in the branch in force."
)
PRIMARY_BRANCH = Option("scan.primary-branch", trimmed, "", "The branch whose partitions come first.")
SEQUENCE_NUMBER_COLUMN = Option(
    "table-read.sequence-number.enabled", boolean, False, "`$audit_log` and `$binlog` with a sequence number: refused."
)
ALLOW_UNSAFE_CREATE = Option(
    "commit.allow-unsafe-create",
    boolean,
    False,
    "Commit on a store that cannot make a file exclusively; two racing writers may lose a commit.",
)


SEQUENCE_GROUP: Final = ".sequence-group"
_MAX_INT: Final = 2**31 - 1


PARTIAL_UPDATE_REMOVE = Option(
    "partial-update.remove-record-on-delete", boolean, False, "A row of kind -D removes the whole row of its key."
)
PARTIAL_UPDATE_REMOVE_BY_GROUP: Option[tuple[str, ...]] = Option(
    "partial-update.remove-record-on-sequence-group",
    names,
    (),
    "A -D in these sequence groups removes the row of its key.",
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
        "fields.default-aggregate-function", string, None, "Aggregate function of columns that name none."
    )
    aggregation_removes: bool = option(
        "aggregation.remove-record-on-delete", boolean, False, "A row of kind -D removes the row of its key."
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


class NestedKeyNullStrategy(str, Enum):
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
