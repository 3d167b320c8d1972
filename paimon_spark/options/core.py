"""Descriptors and enums of the options that decide how a table is laid out, read and merged.

Source: Java `CoreOptions`.
"""

from __future__ import annotations

from enum import Enum

from paimon_spark.options.descriptor import Option, boolean, enum_of, integer, memory_size, names, string


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
    "bucket-function.type",
    enum_of(BucketFunction),
    BucketFunction.DEFAULT,
    "How a bucket key becomes a bucket.",
)
MERGE_ENGINE = Option(
    "merge-engine",
    enum_of(MergeEngine),
    MergeEngine.DEDUPLICATE,
    "How rows of one primary key become one row.",
)
SEQUENCE_FIELD: Option[tuple[str, ...]] = Option(
    "sequence.field", names, (), "Columns that order the rows of one key before their arrival does."
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
DV_MERGE_ON_READ = Option(
    "deletion-vectors.merge-on-read", boolean, False, "Readers of a deletion vector table merge level 0 too."
)
FORCE_LOOKUP = Option("force-lookup", boolean, False, "Compaction looks keys up in deeper levels.")
NUM_LEVELS: Option[int | None] = Option(
    "num-levels", integer, None, "LSM levels; default is the compaction trigger plus one."
)
COMPACTION_TRIGGER = Option("num-sorted-run.compaction-trigger", integer, 5, "Sorted runs that start a compaction.")
PARTITION_DEFAULT_NAME = Option(
    "partition.default-name", string, "__DEFAULT_PARTITION__", "Directory value of a null or blank partition."
)
PARTITION_LEGACY_NAME = Option(
    "partition.legacy-name", boolean, True, "Partition directories use the internal text of values."
)
DATA_FILE_DIRECTORY: Option[str | None] = Option(
    "data-file.path-directory", string, None, "Directory between the table and its partitions for data files."
)
INDEX_IN_DATA_DIR = Option("index-file-in-data-file-dir", boolean, False, "Index files lie in the bucket directory.")
ROW_TRACKING = Option("row-tracking.enabled", boolean, False, "Rows have an id and a sequence number.")
DATA_EVOLUTION = Option("data-evolution.enabled", boolean, False, "Files may hold only some columns of a row range.")
SPLIT_TARGET_SIZE = Option("source.split.target-size", memory_size, 128 << 20, "Bytes a read task aims at.")
SPLIT_OPEN_COST = Option("source.split.open-file-cost", memory_size, 4 << 20, "Least bytes a file counts for.")
FALLBACK_BRANCH = Option(
    "scan.fallback-branch", string, "", "The branch that is read where a partition is not in the branch in force."
)
PRIMARY_BRANCH = Option("scan.primary-branch", string, "", "The branch whose partitions come first.")
SEQUENCE_NUMBER_COLUMN = Option(
    "table-read.sequence-number.enabled",
    boolean,
    False,
    "`$audit_log` and `$binlog` with a sequence number: refused.",
)
ALLOW_UNSAFE_CREATE = Option(
    "commit.allow-unsafe-create",
    boolean,
    False,
    "Commit on a store that cannot make a file exclusively; two racing writers may lose a commit.",
)
