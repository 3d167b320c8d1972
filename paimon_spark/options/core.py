"""Descriptors and enums of the options that decide how a table is laid out, read and merged.

Source: Java `CoreOptions`.
"""

from __future__ import annotations

from enum import Enum

from paimon_spark.options.descriptor import Option, boolean, enum_of, integer, memory_size, trimmed


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
