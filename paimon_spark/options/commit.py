"""Options of a table for commits and manifests.

Source: Java `CoreOptions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum

from paimon_spark.options.core import ALLOW_UNSAFE_CREATE
from paimon_spark.options.data_files import ZSTD_LEVEL
from paimon_spark.options.descriptor import (
    Option,
    boolean,
    duration_ms,
    enum_of,
    field_of,
    integer,
    memory_size,
    option,
    parse_group,
    string,
)


class SequenceInit(StrEnum):
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
    enum_of(SequenceInit),
    SequenceInit.SCAN,
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


def parse_commit_options(raw: Mapping[str, str]) -> CommitOptions:
    """The group of `raw`. Raises InvalidOptionError for a value of the wrong type."""
    from_snapshot = SEQUENCE_INIT.get(raw) is SequenceInit.SNAPSHOT
    return parse_group(
        CommitOptions,
        raw,
        makes_empty_snapshots=FORCE_CREATE_SNAPSHOT.get(raw) or IGNORE_EMPTY_COMMIT.get(raw) is False,
        sequence_in_properties=from_snapshot,
        checks_buckets=WRITE_ONLY.get(raw) and (from_snapshot or not BUCKET_APPEND_ORDERED.get(raw)),
    )


class ManifestFormat(Enum):
    """The file format of manifests, manifest lists and index manifests."""

    AVRO = "avro"
    ORC = "orc"
    PARQUET = "parquet"


MANIFEST_FORMAT = Option(
    "manifest.format",
    enum_of(ManifestFormat),
    ManifestFormat.AVRO,
    "Format of manifests, manifest lists and index manifests; pypaimon reads only avro.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestOptions:
    """The options of a table that its manifests are written by."""

    format: ManifestFormat = field_of(MANIFEST_FORMAT)
    compression: str = option(
        "manifest.compression",
        string,
        "zstd",
        "Compression of manifests, manifest lists and index manifests.",
    )
    zstd_level: int = field_of(ZSTD_LEVEL)
    target_bytes: int = field_of(MANIFEST_TARGET_SIZE)
