"""Options of a table for writers and commits: memory, buckets, retries, manifests.

Source: Java `CoreOptions`, `table/PostponeUtils.determineBucketNum`, where the default is the parallelism of the job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final

from paimon_spark.errors import InvalidOptionError
from paimon_spark.options.core import (
    ALLOW_UNSAFE_CREATE,
    IGNORE_DELETE,
    MERGE_ENGINE,
    PARTIAL_UPDATE_REMOVE,
    SEQUENCE_GROUP,
    MergeEngine,
)
from paimon_spark.options.data_files import ZSTD_LEVEL
from paimon_spark.options.descriptor import (
    Option,
    at_least_one,
    boolean,
    duration_ms,
    enum_of,
    field_of,
    integer,
    memory_size,
    option,
    parse_group,
    string,
    texts_by_column,
    trimmed,
)

MAX_OPEN_WRITERS: Final = Option(
    "write-max-writers-to-spill",
    integer,
    10,
    "Maximum number of buckets with open files; rows of further buckets are buffered.",
)
ROWKIND_FIELD: Final[Option[str | None]] = Option(
    "rowkind.field", string, None, "Text column that holds the row kinds +I, -U, +U and -D."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Memory of writers and the meaning of row kinds.

    Attributes:
        rowkind_field: column of row kinds; None: rows are +I unless a column `_VALUE_KIND` says otherwise.
        retracts_refused: why the merge engine takes no rows of kind -U and -D; None when it does.
    """

    buffer_bytes: int = option(
        "write-buffer-size", memory_size, 256 << 20, "Memory of a writing task for rows that are not yet in files."
    )
    spillable: bool = option(
        "write-buffer-spillable", boolean, True, "Spill buffered rows to local disk if memory is short."
    )
    spill_max_disk_bytes: int | None = option(
        "write-buffer-spill.max-disk-size",
        memory_size,
        None,
        "Maximum local disk that a writer uses before it writes files.",
    )
    max_open_writers: int
    rowkind_field: str | None = field_of(ROWKIND_FIELD)
    ignore_delete: bool = field_of(IGNORE_DELETE)
    ignore_update_before: bool = option("ignore-update-before", boolean, False, "Skip -U rows.")
    delete_as_changelog: bool = option(
        "delete.force-produce-changelog", boolean, False, "A DELETE of whole partitions writes -D rows."
    )
    upsert_key: str = option(
        "upsert-key",
        trimmed,
        "",
        "Key columns of a table without primary key; appends are refused, because Java's Spark connector merges them.",
    )
    bitmap64: bool = option("deletion-vectors.bitmap64", boolean, False, "Use 64-bit positions in deletion vectors.")
    vector_file_bytes: int = option(
        "deletion-vector.index-file.target-size", memory_size, 2 << 20, "Target size of a file of deletion vectors."
    )
    index_update_action: str = option(
        "global-index.column-update-action",
        trimmed,
        "THROW_ERROR",
        "IGNORE lets UPDATE and MERGE set columns with a global index, which keeps old values; else it is refused.",
    )
    retracts_refused: str | None = None


def parse_write_options(raw: Mapping[str, str]) -> WriteOptions:
    """The group of `raw`. Raises InvalidOptionError for a value of the wrong type."""
    return parse_group(
        WriteOptions,
        raw,
        max_open_writers=max(1, MAX_OPEN_WRITERS.get(raw)),
        retracts_refused=_retracts_refused(raw),
    )


def _retracts_refused(raw: Mapping[str, str]) -> str | None:
    """Why retracts cannot be merged.

    Java fails only when two rows of a key are merged, which may be after the commit, with a table that cannot be read.

    Source: Java `mergetree/compact/FirstRowMergeFunction`, `PartialUpdateMergeFunction`.
    """
    match MERGE_ENGINE.get(raw):
        case MergeEngine.FIRST_ROW:
            return "keeps the first row of each key (merge-engine = first-row)"
        case MergeEngine.PARTIAL_UPDATE:
            if not texts_by_column(raw, SEQUENCE_GROUP) and not PARTIAL_UPDATE_REMOVE.get(raw):
                return (
                    "merges columns (merge-engine = partial-update) without a rule for deletes: neither "
                    "partial-update.remove-record-on-delete nor sequence groups"
                )
    return None


MAX_BUCKETS: Final = Option(
    "dynamic-bucket.max-buckets", integer, -1, "Maximum number of buckets of a partition; -1: unlimited."
)

MOST_BUCKETS: Final = 32767
"""Bucket numbers are Java shorts in memory, so there are no more."""
_DEFAULT_SPREAD: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicBucketOptions:
    """How new keys find a bucket; a `max_buckets` of None sets no limit."""

    target_rows: int = option(
        "dynamic-bucket.target-row-num", at_least_one(integer), 2_000_000, "Maximum number of keys of a bucket."
    )
    initial_buckets: int | None = option(
        "dynamic-bucket.initial-buckets",
        at_least_one(integer),
        None,
        "Number of buckets that the first keys of a partition are distributed over.",
    )
    max_buckets: int | None
    assigner_parallelism: int | None = option(
        "dynamic-bucket.assigner-parallelism", integer, None, "Number of tasks that assign buckets to keys."
    )

    @property
    def spread(self) -> int:
        """Buckets that writers which know nothing of each other spread new keys over."""
        return min(self.initial_buckets or _DEFAULT_SPREAD, self.max_buckets or MOST_BUCKETS)

    @property
    def bucket_limit(self) -> int:
        """One more than the largest bucket number."""
        return min(self.max_buckets or MOST_BUCKETS, MOST_BUCKETS)


def parse_dynamic_bucket_options(raw: Mapping[str, str]) -> DynamicBucketOptions:
    """The group of `raw`. Raises InvalidOptionError for a value of the wrong type or range."""
    most = MAX_BUCKETS.get(raw)
    if most == 0 or most < -1:
        raise InvalidOptionError(
            f"option {MAX_BUCKETS.key} = {most}: expected -1 or at least 1", option=MAX_BUCKETS.key
        )
    return parse_group(DynamicBucketOptions, raw, max_buckets=None if most == -1 else most)


@dataclass(frozen=True, slots=True, kw_only=True)
class PostponedBucketOptions:
    """How rows that wait for buckets are read, and how many buckets their partition gets."""

    default_buckets: int = option(
        "postpone.default-bucket-num",
        at_least_one(integer),
        1,
        "Number of buckets of a partition that is compacted for the first time.",
    )
    target_rows: int | None = option(
        "postpone.target-row-num-per-bucket",
        at_least_one(integer),
        None,
        "Target number of rows of a bucket of such a partition.",
    )
    batch_writes_settle: bool = option(
        "postpone.batch-write-fixed-bucket", boolean, True, "Batch writes put rows into buckets at once."
    )
    merge_on_read: bool = option(
        "postpone.merge-on-read", boolean, False, "Batch reads merge waiting rows with those of the buckets."
    )

    def buckets_of_new_partition(self, row_count: int) -> int:
        """How many buckets a partition of `row_count` waiting rows gets."""
        return self.default_buckets if self.target_rows is None else max(1, -(-row_count // self.target_rows))

    @property
    def buckets_of_unseen_rows(self) -> int | None:
        """How many buckets a new partition gets before its rows are counted; None if they have to be counted."""
        return self.default_buckets if self.target_rows is None else None


MERGE_SCHEMA = Option("write.merge-schema", boolean, False, "Add columns that the table lacks.")
TYPE_WIDENING: Final = Option(
    "write.merge-schema.type-widening", boolean, False, "write.merge-schema also widens the types of columns."
)
HIVE_PARTITIONS: Final = Option(
    "write.hive-style-dynamic-partition.enabled",
    boolean,
    False,
    "INSERT … PARTITION (column) takes the columns without a value from the end of the query, as Hive does.",
)
EXPLICIT_CAST: Final = Option(
    "write.merge-schema.explicit-cast",
    boolean,
    False,
    "Type widening also makes changes that may lose information of existing values.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaMergeOptions:
    """Additions of a write to the schema of its table."""

    enabled: bool = field_of(MERGE_SCHEMA)
    widens_types: bool = field_of(TYPE_WIDENING)
    explicit_casts: bool = field_of(EXPLICIT_CAST)

    def as_text(self) -> dict[str, str]:
        """The options of a write that ask for the same."""
        stated = {MERGE_SCHEMA: self.enabled, TYPE_WIDENING: self.widens_types, EXPLICIT_CAST: self.explicit_casts}
        return {option.key: str(value).lower() for option, value in stated.items()}


class _SequenceInit(StrEnum):
    """Where writers learn the largest sequence number of a bucket."""

    SCAN = "scan"
    SNAPSHOT = "snapshot"


MAX_RETRIES = Option("commit.max-retries", integer, 10, "Maximum number of retries of a commit that lost a race.")
MAX_RETRY_WAIT = Option("commit.max-retry-wait", duration_ms, 10_000, "Maximum wait before a retry.")
FORCE_CREATE_SNAPSHOT = Option(
    "commit.force-create-snapshot", boolean, False, "Create a snapshot for empty commits, too."
)
IGNORE_EMPTY_COMMIT: Option[bool | None] = Option(
    "snapshot.ignore-empty-commit", boolean, None, "Create no snapshot for a commit without changes."
)
LAST_SAFE_SNAPSHOT: Option[int | None] = Option(
    "commit.strict-mode.last-safe-snapshot",
    integer,
    None,
    "A commit fails if another user changed the same data after this snapshot.",
)
MANIFEST_TARGET_SIZE = Option("manifest.target-file-size", memory_size, 8 << 20, "Target size of a manifest.")
SEQUENCE_INIT = Option(
    "write.sequence-number-init-mode",
    enum_of(_SequenceInit),
    _SequenceInit.SCAN,
    "Where writers find the largest sequence number of a bucket.",
)
WRITE_ONLY = Option("write-only", boolean, False, "Writers neither compact nor expire.", ("write.compaction-skip",))
SNAPSHOT_ORDERING = Option(
    "sequence.snapshot-ordering", boolean, False, "Use the snapshot that added a row as its sequence number."
)
BUCKET_APPEND_ORDERED = Option(
    "bucket-append-ordered", boolean, True, "Keep the order of the rows of a bucket in tables without primary key."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOptions:
    """The options of a table that commits obey.

    Attributes:
        makes_empty_snapshots: whether a commit without changes makes a snapshot.
        last_safe_snapshot: strict mode is on when it is not None.
        checks_buckets: appends to fixed buckets compare the number of buckets with that of the table's files, since
            their writers do not look.
        sequence_in_properties: the largest sequence number is kept in the snapshot's properties.
    """

    max_retries: int = field_of(MAX_RETRIES)
    timeout_ms: int | None = option(
        "commit.timeout", duration_ms, None, "Maximum duration of a commit with its retries; unlimited if unset."
    )
    min_retry_wait_ms: int = option("commit.min-retry-wait", duration_ms, 10, "Minimum wait before a retry.")
    max_retry_wait_ms: int = field_of(MAX_RETRY_WAIT)
    user_prefix: str | None = option("commit.user-prefix", string, None, "Prefix of the names of commit users.")
    makes_empty_snapshots: bool
    discard_duplicate_files: bool = option(
        "commit.discard-duplicate-files", boolean, False, "An append skips files that the table already has."
    )
    last_safe_snapshot: int | None = field_of(LAST_SAFE_SNAPSHOT)
    overwrite_upgrade: bool = option(
        "overwrite-upgrade", boolean, True, "Move files of an overwrite to the highest level where their keys allow it."
    )
    manifest_target_bytes: int = field_of(MANIFEST_TARGET_SIZE)
    manifest_full_compaction_bytes: int = option(
        "manifest.full-compaction-threshold-size",
        memory_size,
        16 << 20,
        "Total size of the manifests to be merged at which a commit rewrites all of them.",
    )
    manifest_merge_min_count: int = option(
        "manifest.merge-min-count", integer, 30, "Number of small manifests at which a commit merges them."
    )
    delete_drop_stats: bool = option(
        "manifest.delete-file-drop-stats", boolean, False, "Do not store statistics in entries of deleted files."
    )
    row_tracking_groups: bool = option(
        "row-tracking.partition-group-on-commit",
        boolean,
        True,
        "Assign the row ids of a commit partition by partition.",
    )
    snapshot_sequence_ordering: bool = field_of(SNAPSHOT_ORDERING)
    sequence_in_properties: bool
    write_only: bool = field_of(WRITE_ONLY)
    allow_unsafe_create: bool = field_of(ALLOW_UNSAFE_CREATE)
    checks_buckets: bool
    pk_clustering_override: bool = option(
        "pk-clustering-override", boolean, False, "Order files of primary-key tables by other columns."
    )


def starts_from_snapshot(raw: Mapping[str, str]) -> bool:
    """Whether sequence numbers continue from a property of snapshots."""
    return SEQUENCE_INIT.get(raw) is _SequenceInit.SNAPSHOT


def parse_commit_options(raw: Mapping[str, str]) -> CommitOptions:
    """The group of `raw`. Raises InvalidOptionError for a value of the wrong type."""
    from_snapshot = starts_from_snapshot(raw)
    return parse_group(
        CommitOptions,
        raw,
        makes_empty_snapshots=FORCE_CREATE_SNAPSHOT.get(raw) or IGNORE_EMPTY_COMMIT.get(raw) is False,
        sequence_in_properties=from_snapshot,
        checks_buckets=WRITE_ONLY.get(raw) and (from_snapshot or not BUCKET_APPEND_ORDERED.get(raw)),
    )


class _ManifestFormat(Enum):
    """The file format of manifests, manifest lists and index manifests."""

    AVRO = "avro"
    ORC = "orc"
    PARQUET = "parquet"


MANIFEST_FORMAT = Option(
    "manifest.format",
    enum_of(_ManifestFormat),
    _ManifestFormat.AVRO,
    "Format of manifests, manifest lists and index manifests; pypaimon reads only avro.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestOptions:
    """The options of a table that its manifests are written by."""

    format: _ManifestFormat = field_of(MANIFEST_FORMAT)
    compression: str = option(
        "manifest.compression",
        string,
        "zstd",
        "Compression of manifests, manifest lists and index manifests.",
    )
    zstd_level: int = field_of(ZSTD_LEVEL)
    target_bytes: int = field_of(MANIFEST_TARGET_SIZE)
