"""TableOptions: what a table says about itself that decides how its files are read and merged.

Options of single columns (`fields.<column>.…`) and of merge functions are parsed beside what they
configure, from `TableOptions.raw`.

Source: Java `CoreOptions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
ALLOW_UNSAFE_CREATE = Option(
    "commit.allow-unsafe-create",
    boolean,
    False,
    "Commit on a store that cannot make a file exclusively; two racing writers may lose a commit.",
)


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The options of a table in force for one read: stored ones, overridden by the read's own.

    Attributes:
        raw: all option text, for options parsed beside what they configure.
    """

    bucket: int
    bucket_function: BucketFunction
    merge_engine: MergeEngine
    sequence_fields: tuple[str, ...]
    sequence_descending: bool
    ignore_delete: bool
    changelog_producer: ChangelogProducer
    deletion_vectors: bool
    deletion_vectors_merge_on_read: bool
    force_lookup: bool
    num_levels: int
    partition_default_name: str
    partition_legacy_name: bool
    data_file_directory: str | None
    index_in_data_dir: bool
    row_tracking: bool
    data_evolution: bool
    split_target_bytes: int
    split_open_cost_bytes: int
    raw: Mapping[str, str]

    @property
    def need_lookup(self) -> bool:
        """Whether files above level 0 hold fully merged rows (Java `CoreOptions.needLookup`)."""
        return self.deletion_vectors or self.force_lookup or self.changelog_producer is ChangelogProducer.LOOKUP


def parse_table_options(raw: Mapping[str, str]) -> TableOptions:
    """The group of `raw`. Raises InvalidOptionError for a value of the wrong type."""
    levels = NUM_LEVELS.get(raw)
    return TableOptions(
        bucket=BUCKET.get(raw),
        bucket_function=BUCKET_FUNCTION.get(raw),
        merge_engine=MERGE_ENGINE.get(raw),
        sequence_fields=SEQUENCE_FIELD.get(raw),
        sequence_descending=SEQUENCE_ORDER.get(raw) is SortOrder.DESCENDING,
        ignore_delete=IGNORE_DELETE.get(raw),
        changelog_producer=CHANGELOG_PRODUCER.get(raw),
        deletion_vectors=DELETION_VECTORS.get(raw),
        deletion_vectors_merge_on_read=DV_MERGE_ON_READ.get(raw),
        force_lookup=FORCE_LOOKUP.get(raw),
        num_levels=levels if levels is not None else COMPACTION_TRIGGER.get(raw) + 1,
        partition_default_name=PARTITION_DEFAULT_NAME.get(raw),
        partition_legacy_name=PARTITION_LEGACY_NAME.get(raw),
        data_file_directory=DATA_FILE_DIRECTORY.get(raw),
        index_in_data_dir=INDEX_IN_DATA_DIR.get(raw),
        row_tracking=ROW_TRACKING.get(raw),
        data_evolution=DATA_EVOLUTION.get(raw),
        split_target_bytes=SPLIT_TARGET_SIZE.get(raw),
        split_open_cost_bytes=SPLIT_OPEN_COST.get(raw),
        raw=dict(raw),
    )


def read_defaults(raw: Mapping[str, str]) -> dict[str, str]:
    """Text that readers put in place of nulls, by column: the option `fields.<column>.default-value`.

    Only tables made before Paimon 1.3 have it; newer versions apply defaults on write, and keep them in the schema.
    """
    prefix, suffix = "fields.", ".default-value"
    return {
        key[len(prefix) : -len(suffix)]: text
        for key, text in raw.items()
        if key.startswith(prefix) and key.endswith(suffix)
    }
