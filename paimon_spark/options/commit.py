"""Options of a table for commits and manifests: retries, checks, when and how manifests are written.

Source: Java `CoreOptions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from paimon_spark.options.core import ALLOW_UNSAFE_CREATE
from paimon_spark.options.data_files import ZSTD_LEVEL
from paimon_spark.options.descriptor import Option, boolean, duration_ms, enum_of, integer, memory_size, string


class SequenceInit(str, Enum):
    """Where writers learn the largest sequence number of a bucket."""

    SCAN = "scan"
    SNAPSHOT = "snapshot"


MAX_RETRIES = Option("commit.max-retries", integer, 10, "Times a commit is tried again after others were faster.")
TIMEOUT: Option[int | None] = Option(
    "commit.timeout", duration_ms, None, "How long a commit is tried again; unset is without end."
)
MIN_RETRY_WAIT = Option("commit.min-retry-wait", duration_ms, 10, "Least wait before a commit is tried again.")
MAX_RETRY_WAIT = Option("commit.max-retry-wait", duration_ms, 10_000, "Longest wait before a commit is tried again.")
USER_PREFIX: Option[str | None] = Option(
    "commit.user-prefix", string, None, "What the names of commit users begin with."
)
FORCE_CREATE_SNAPSHOT = Option("commit.force-create-snapshot", boolean, False, "Empty commits make a snapshot too.")
IGNORE_EMPTY_COMMIT: Option[bool | None] = Option(
    "snapshot.ignore-empty-commit", boolean, None, "Whether a commit without changes makes no snapshot."
)
DISCARD_DUPLICATE_FILES = Option(
    "commit.discard-duplicate-files", boolean, False, "An append leaves out files that the table already has."
)
LAST_SAFE_SNAPSHOT: Option[int | None] = Option(
    "commit.strict-mode.last-safe-snapshot",
    integer,
    None,
    "Snapshots after this one by other users may not have changed what a commit touches.",
)
OVERWRITE_UPGRADE = Option(
    "overwrite-upgrade", boolean, True, "Files of an overwrite go to the highest level where their keys allow it."
)
DYNAMIC_PARTITION_OVERWRITE = Option(
    "dynamic-partition-overwrite", boolean, True, "An overwrite replaces the partitions it has rows of."
)
MANIFEST_TARGET_SIZE = Option("manifest.target-file-size", memory_size, 8 << 20, "Bytes a manifest aims at.")
MANIFEST_FULL_COMPACTION_SIZE = Option(
    "manifest.full-compaction-threshold-size",
    memory_size,
    16 << 20,
    "Bytes of small manifests and ones with deletions that make a commit rewrite them all.",
)
MANIFEST_MERGE_MIN_COUNT = Option(
    "manifest.merge-min-count", integer, 30, "Small manifests that make a commit merge them."
)
DELETE_DROP_STATS = Option(
    "manifest.delete-file-drop-stats", boolean, False, "Entries that delete a file carry no statistics of it."
)
ROW_TRACKING_GROUPS = Option(
    "row-tracking.partition-group-on-commit",
    boolean,
    True,
    "Row ids of a commit are given partition by partition.",
)
SNAPSHOT_SEQUENCE_ORDERING = Option(
    "sequence.snapshot-ordering", boolean, False, "The sequence number of rows is the snapshot that added them."
)
SEQUENCE_INIT = Option(
    "write.sequence-number-init-mode",
    enum_of(SequenceInit),
    SequenceInit.SCAN,
    "Where writers learn the largest sequence number of a bucket.",
)
WRITE_ONLY = Option(
    "write-only", boolean, False, "Writers neither compact nor expire anything.", ("write.compaction-skip",)
)
BUCKET_APPEND_ORDERED = Option(
    "bucket-append-ordered", boolean, True, "Rows of a bucket without primary key keep their order."
)
PK_CLUSTERING_OVERRIDE = Option(
    "pk-clustering-override", boolean, False, "Files with keys are ordered by other columns."
)


@dataclass(frozen=True, slots=True)
class CommitOptions:
    """The options of a table that commits obey.

    Attributes:
        timeout_ms: None for no limit.
        user_prefix: None for none.
        makes_empty_snapshots: whether a commit without changes makes a snapshot.
        last_safe_snapshot: strict mode is on when it is not None.
        write_only: writers neither compact nor expire anything.
        allow_unsafe_create: commit on a store that cannot create a file exclusively.
        checks_buckets: appends to fixed buckets compare the number of buckets with that of the table's files, since
            their writers do not look.
        sequence_in_properties: the largest sequence number is kept in the snapshot's properties.
    """

    max_retries: int
    timeout_ms: int | None
    min_retry_wait_ms: int
    max_retry_wait_ms: int
    user_prefix: str | None
    makes_empty_snapshots: bool
    discard_duplicate_files: bool
    last_safe_snapshot: int | None
    overwrite_upgrade: bool
    dynamic_partition_overwrite: bool
    manifest_target_bytes: int
    manifest_full_compaction_bytes: int
    manifest_merge_min_count: int
    delete_drop_stats: bool
    row_tracking_groups: bool
    snapshot_sequence_ordering: bool
    sequence_in_properties: bool
    write_only: bool
    allow_unsafe_create: bool
    checks_buckets: bool
    pk_clustering_override: bool


def parse_commit_options(raw: Mapping[str, str]) -> CommitOptions:
    """The group of `raw`. Raises InvalidOptionError for a value of the wrong type."""
    write_only = WRITE_ONLY.get(raw)
    from_snapshot = SEQUENCE_INIT.get(raw) is SequenceInit.SNAPSHOT
    return CommitOptions(
        max_retries=MAX_RETRIES.get(raw),
        timeout_ms=TIMEOUT.get(raw),
        min_retry_wait_ms=MIN_RETRY_WAIT.get(raw),
        max_retry_wait_ms=MAX_RETRY_WAIT.get(raw),
        user_prefix=USER_PREFIX.get(raw),
        makes_empty_snapshots=FORCE_CREATE_SNAPSHOT.get(raw) or IGNORE_EMPTY_COMMIT.get(raw) is False,
        discard_duplicate_files=DISCARD_DUPLICATE_FILES.get(raw),
        last_safe_snapshot=LAST_SAFE_SNAPSHOT.get(raw),
        overwrite_upgrade=OVERWRITE_UPGRADE.get(raw),
        dynamic_partition_overwrite=DYNAMIC_PARTITION_OVERWRITE.get(raw),
        manifest_target_bytes=MANIFEST_TARGET_SIZE.get(raw),
        manifest_full_compaction_bytes=MANIFEST_FULL_COMPACTION_SIZE.get(raw),
        manifest_merge_min_count=MANIFEST_MERGE_MIN_COUNT.get(raw),
        delete_drop_stats=DELETE_DROP_STATS.get(raw),
        row_tracking_groups=ROW_TRACKING_GROUPS.get(raw),
        snapshot_sequence_ordering=SNAPSHOT_SEQUENCE_ORDERING.get(raw),
        sequence_in_properties=from_snapshot,
        write_only=write_only,
        allow_unsafe_create=ALLOW_UNSAFE_CREATE.get(raw),
        checks_buckets=write_only and (from_snapshot or not BUCKET_APPEND_ORDERED.get(raw)),
        pk_clustering_override=PK_CLUSTERING_OVERRIDE.get(raw),
    )


class ManifestFormat(Enum):
    """The file format of manifests, manifest lists and index manifests."""

    AVRO = "avro"
    ORC = "orc"
    PARQUET = "parquet"


MANIFEST_COMPRESSION = Option(
    "manifest.compression",
    string,
    "zstd",
    "Codec of manifests, manifest lists and index manifests, of those that their format has.",
)
MANIFEST_FORMAT = Option(
    "manifest.format",
    enum_of(ManifestFormat),
    ManifestFormat.AVRO,
    "Format of manifests, manifest lists and index manifests; pypaimon reads only avro.",
)


@dataclass(frozen=True, slots=True)
class ManifestOptions:
    """The options of a table that its manifests are written by."""

    format: ManifestFormat
    compression: str
    zstd_level: int
    target_bytes: int


def parse_manifest_options(raw: Mapping[str, str]) -> ManifestOptions:
    """The group of `raw`. Raises InvalidOptionError for a value of the wrong type."""
    return ManifestOptions(
        format=MANIFEST_FORMAT.get(raw),
        compression=MANIFEST_COMPRESSION.get(raw),
        zstd_level=ZSTD_LEVEL.get(raw),
        target_bytes=MANIFEST_TARGET_SIZE.get(raw),
    )
