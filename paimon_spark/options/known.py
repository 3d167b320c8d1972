"""Names and value types of all table options of Paimon.

A misspelt option is an error, and a stored value of the wrong type too. Values of options that are not listed by type
are free text.

Source: Java `CoreOptions`, `FlinkConnectorOptions`, `SparkConnectorOptions` and the options of its global
indexes, with fallback keys, of every release.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from paimon_spark.options.catalog import is_catalog_option
from paimon_spark.options.data_files import per_level, stats_mode
from paimon_spark.options.descriptor import Option, boolean, duration_ms, fraction, integer, memory_size, one_of, string
from paimon_spark.options.lineage import OF_ONE_USE
from paimon_spark.options.retention import time_of_day_ms, whole_days

TABLE_OPTION_PREFIXES: Final = (
    "fields.", "file-index.", "metadata.iceberg.", "blob-descriptor.", "file.compression.",
    "commit.callback.", "tag.callback.", "format-table.", "parquet.", "orc.", "avro.", "csv.", "json.",
    "text.",
)  # fmt: skip
"""Groups of options whose names hold a column, or that go to a library as they are."""

STORAGE_PREFIXES: Final = (
    "fs.",
    "s3.",
    "s3a.",
    "gs.",
    "azure.",
    "hadoop.",
    "hadoop-conf-dir",
    "security.kerberos.login.",
)
"""Beginnings of options that say how to reach a file system."""

_BOOLEANS: Final = """
    add-column-before-partition aggregation.remove-record-on-delete alter-column-null-to-not-null.disabled
    async-file-write auto-create blob-as-descriptor blob-compaction.enabled blob-view.resolve.enabled
    blob-write-null-on-fetch-failure blob-write-null-on-missing-file blob.split-by-file-size
    bucket-append-ordered chain-table.enabled chain-table.split.key-range-enabled
    chain-table.streaming.merge-snapshot changelog-producer.lookup-wait changelog-producer.row-deduplicate
    clustering.incremental clustering.incremental.optimize-write commit.allow-unsafe-create
    commit.discard-duplicate-files commit.force-compact commit.force-create-snapshot
    compaction.force-rewrite-all-files compaction.force-up-level-0 compaction.skip-expired-partitions
    consumer.changelog-only consumer.ignore-progress data-evolution.compaction.rewrite-row-ids
    data-evolution.enabled data-evolution.merge-into.file-pruning data-evolution.merge-into.source-persist
    data-evolution.row-sidecar.enabled data-file.thin-mode deduplicate.ignore-delete
    delete.force-produce-changelog deletion-vectors.bitmap64 deletion-vectors.enabled
    deletion-vectors.merge-on-read deletion-vectors.modifiable disable-explicit-type-casting
    dynamic-partition-overwrite end-input.check-partition-expire file-index.read.enabled
    file.suffix.include.compression
    first-row.ignore-delete force-lookup global-index.enabled ignore-delete ignore-update-before
    incremental-between-tag-to-snapshot index-file-in-data-file-dir key-value.sequence_number.enabled
    lookup-wait lookup.blob-as-descriptor lookup.cache.bloom.filter.enabled lookup.remote-file.enabled
    manifest-sort.enabled manifest.delete-file-drop-stats manifest.merge-optimize.enabled
    metadata.stats-dense-store metastore.partitioned-table overwrite-upgrade partial-update.ignore-delete
    partial-update.remove-record-on-delete partition.end-input-to-done partition.legacy-name
    partition.timestamp-format.strict pk-clustering-override postpone.batch-write-fixed-bucket
    postpone.merge-on-read primary-key.nullable query-auth.enabled read.allow.fullScan row-tracking.enabled
    row-tracking.partition-group-on-commit scan.fallback-branch.read-fail-fast scan.ignore-corrupt-files
    scan.ignore-lost-files scan.plan-sort-partition sequence.snapshot-ordering
    snapshot.clean-empty-directories snapshot.expire.clean-empty-directories snapshot.ignore-empty-commit
    streaming-read-append-overwrite streaming-read-overwrite table-read.sequence-number.enabled
    tag.automatic-completion tag.create-success-file tag.time-expire-enabled variant.inferShreddingSchema
    vector-search.distribute.enabled visibility-callback.enabled write-buffer-for-append
    write-buffer-spillable write-only write.compaction-skip write.merge-schema
    write.hive-style-dynamic-partition.enabled write.merge-schema.explicit-cast write.merge-schema.type-widening
""".split()  # noqa: SIM905 - a list of names reads better without quotes
_INTEGERS: Final = """
    bucket changelog.num-retained.max changelog.num-retained.min clustering.history-partition.limit
    commit.max-retries compaction.file-num-limit compaction.max-size-amplification-percent
    compaction.min.file-num compaction.offpeak-ratio compaction.offpeak.end.hour compaction.offpeak.start.hour
    compaction.size-ratio cross-partition-upsert.bootstrap-parallelism delete-file.thread-num
    dynamic-bucket.assigner-parallelism dynamic-bucket.initial-buckets dynamic-bucket.max-buckets
    file-operation.thread-num file.compression.zstd-level full-compaction.delta-commits
    global-index.build.max-parallelism global-index.build.max-shard global-index.thread-num
    local-sort.max-num-file-handles lookup-compact.max-interval lookup.merge-records-threshold
    lookup.remote-file.level-threshold manifest.merge-min-count metadata.stats-keep-first-n-columns num-levels
    num-sorted-run.compaction-trigger num-sorted-run.stop-trigger partition.expiration-batch-size
    partition.expiration-max-num postpone.batch-write-fixed-bucket.max-parallelism
    postpone.batch-write-fixed-bucket.rescale-load-factor postpone.default-bucket-num read.batch-size
    scan.bucket scan.manifest.parallelism scan.max-splits-per-task snapshot.expire.limit
    snapshot.num-retained.max snapshot.num-retained.min sort-compaction.local-sample.magnification
    sort-spill-threshold spill-compression.zstd-level tag.num-retained-max
    variant.shredding.adaptive.maxInferBufferRow variant.shredding.maxInferBufferRow
    variant.shredding.maxSchemaDepth variant.shredding.maxSchemaWidth vector-search.lateral-join.batch-size
    write-max-writers-to-spill write.batch-size zorder.var-length-contribution
""".split()  # noqa: SIM905 - a list of names reads better without quotes
_LONGS: Final = """
    commit.strict-mode.last-safe-snapshot data-evolution.reassign.skip-contiguous-row-count
    data-evolution.row-sidecar.max-selected-rows dynamic-bucket.target-row-num
    global-index.row-count-per-shard lookup.cache-rows postpone.target-row-num-per-bucket
    scan.bounded.watermark scan.creation-time-millis scan.file-creation-time-millis scan.snapshot-id
    scan.timestamp-millis scan.watermark target-file-row-num
""".split()  # noqa: SIM905 - a list of names reads better without quotes
_FRACTIONS: Final = """
    compaction.delete-ratio-threshold compaction.small-file-ratio
    data-evolution.row-sidecar.max-selection-ratio lookup.cache.bloom.filter.fpp
    lookup.cache.high-priority-pool-ratio lookup.hash-load-factor variant.shredding.adaptive.retentionRatio
    variant.shredding.minFieldCardinalityRatio
""".split()  # noqa: SIM905 - a list of names reads better without quotes
_DURATIONS: Final = """
    changelog.time-retained clustering.history-partition.idle-to-full-sort commit.max-retry-wait
    commit.min-retry-wait commit.timeout compaction.optimization-interval consumer.expiration-time
    continuous.discovery-interval cross-partition-upsert.index-ttl lookup.cache-file-retention
    lookup.continuous.discovery-interval partition.expiration-check-interval partition.expiration-time
    partition.idle-time-to-report-statistic record-level.expire-time scan.plan-auto-tag-for-read.time-retained
    snapshot.time-retained snapshot.watermark-idle-timeout streaming.read.snapshot.delay tag.creation-delay
    tag.creation-period-duration tag.default-time-retained visibility-callback.check-interval
    visibility-callback.timeout
""".split()  # noqa: SIM905 - a list of names reads better without quotes
_SIZES: Final = """
    blob.copy-buffer-size blob.target-file-size cache-page-size compaction.incremental-size-threshold
    compaction.total-size-threshold data-evolution.row-id-conflict-rewrite.max-size
    deletion-vector.index-file.target-size file-index.in-manifest-threshold file-reader-async-threshold
    file.block-size local-kv-db.block-size
    local-merge-buffer-size lookup.cache-max-disk-size lookup.cache-max-memory-size lookup.merge-buffer-size
    manifest-sort.max-rewrite-size manifest.full-compaction-threshold-size manifest.target-file-size page-size
    postpone.target-size-per-bucket sort-spill-buffer-size source.split.open-file-cost
    source.split.target-size target-file-size vector.target-file-size write-buffer-size
    write-buffer-spill.max-disk-size write.batch-memory
""".split()  # noqa: SIM905 - a list of names reads better without quotes
_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "batch-scan-mode": ("none", "compact"),
    "bucket-function.type": ("default", "mod", "hive"),
    "changelog-producer": ("none", "input", "full-compaction", "lookup"),
    "consumer.mode": ("exactly-once", "at-least-once"),
    "data-file.external-paths.strategy": ("none", "specific-fs", "round-robin", "entropy-inject", "weight-robin"),
    "incremental-between-scan-mode": ("auto", "delta", "changelog", "diff"),
    "manifest.format": ("avro", "orc", "parquet"),
    "merge-engine": ("deduplicate", "partial-update", "aggregation", "first-row"),
    "partition.sink-strategy": ("none", "hash", "partition-dynamic"),
    "scan.mode": (
        "default", "latest-full", "full", "latest", "latest-delta", "compacted-full", "from-timestamp",
        "from-creation-timestamp", "from-file-creation-time", "from-snapshot", "from-snapshot-full", "incremental",
    ),
    "sequence.field.sort-order": ("ascending", "descending"),
    "snapshot.expire.execution-mode": ("sync", "async"),
    "sort-engine": ("min-heap", "loser-tree"),
    "stream-scan-mode": ("none", "compact-bucket-table", "file-monitor"),
    "tag.automatic-creation": ("none", "process-time", "watermark", "batch"),
    "tag.creation-period": ("daily", "hourly", "two-hours"),
    "tag.period-formatter": ("with-dashes", "without-dashes", "without-dashes-and-spaces"),
    "write.sequence-number-init-mode": ("scan", "snapshot"),
}  # fmt: skip
_FREE_TEXT: Final = """
    bitmap-index.compression bitmap-index.compression-level bitmap-index.dictionary-block-size
    bitmap-index.fallback-scan-max-size blob-descriptor-field blob-external-storage-field blob-external-storage-path
    blob-field blob-view-field blob.stored-descriptor-fields branch btree-index.block-size
    btree-index.build.max-parallelism btree-index.cache-size btree-index.compression btree-index.compression-level
    btree-index.fallback-scan-max-size btree-index.high-priority-pool-ratio btree-index.records-per-range bucket-key
    chain-table.chain-partition-keys changelog-file.compression changelog-file.format changelog-file.prefix
    changelog-producer.compaction-interval changelog-producer.row-deduplicate-ignore-fields
    changelog.precommit-compact changelog.precommit-compact.buffer-size changelog.precommit-compact.thread-num
    clustering.columns clustering.incremental.mode clustering.strategy commit.callbacks commit.custom-listeners
    commit.user-prefix compaction.bucket-distribution-strategy compaction.early-max.file-num
    compaction.manual-triggered compaction.max-sorted-run-num compaction.max.file-num compaction.partition-spec
    consumer-id data-file.external-paths data-file.external-paths.specific-fs data-file.external-paths.weights
    data-file.path-directory data-file.prefix end-input.watermark file.compression file.format
    filesystem.job-level-settings.enabled full-text-index.search-mode global-index.column-update-action
    global-index.external-path global-index.search-mode incremental-between incremental-between-timestamp
    incremental-to-auto-tag legacy-timestamp-mapping.enabled log.changelog-mode log.consistency log.format
    log.ignore-delete log.key.format log.retention log.scan log.scan.remove-normalize log.scan.timestamp-millis
    lookup-compact lookup.async lookup.async-thread-number lookup.bootstrap-parallelism lookup.cache
    lookup.cache-spill-compression lookup.dynamic-partition lookup.dynamic-partition.refresh-interval
    lookup.dynamic-partition.refresh.async lookup.local-file-type lookup.refresh.async
    lookup.refresh.async.pending-snapshot-count lookup.refresh.full-load-threshold
    lookup.refresh.time-periods-blacklist manifest-sort.partition-field manifest.compression
    materialized-table.definition-query materialized-table.interval-freshness
    materialized-table.interval-freshness.time-unit materialized-table.logical-refresh-mode
    materialized-table.refresh-handler-bytes materialized-table.refresh-handler-description
    materialized-table.refresh-mode materialized-table.refresh-status metadata.iceberg-compatible
    metastore.tag-to-partition metastore.tag-to-partition.preview multivalue-index.compression
    multivalue-index.compression-level multivalue-index.dictionary-block-size object-location
    partial-update.remove-record-on-sequence-group partition partition.default-name partition.expiration-strategy
    partition.idle-time-to-done partition.mark-done-action partition.mark-done-action.custom.class
    partition.mark-done-action.http.params partition.mark-done-action.http.timeout
    partition.mark-done-action.http.url partition.mark-done-action.mode partition.mark-done.recover-from-state
    partition.time-interval partition.timestamp-formatter partition.timestamp-pattern path pk-bitmap.index.columns
    pk-btree.index.columns pk-full-text.index.columns pk-multivalue.index.columns pk-vector.index.columns
    precommit-compact primary-key read.changelog read.shuffle-bucket-with-partition
    read.stream.aligned read.stream.aligned.snapshots read.stream.maxBytesPerTrigger read.stream.maxFilesPerTrigger
    read.stream.maxRowsPerTrigger read.stream.maxTriggerDelayMs read.stream.minRowsPerTrigger
    record-level.time-field record-level.time-field-type rowkind.field scalar-index.search-mode scan.bounded
    scan.dedicated-split-generation scan.fallback-branch scan.fallback-delta-branch scan.fallback-snapshot-branch
    scan.infer-parallelism scan.infer-parallelism.max scan.max-snapshot.count scan.parallelism scan.partitions
    scan.primary-branch scan.remove-normalize scan.split-enumerator.batch-size scan.split-enumerator.mode
    scan.tag-name scan.timestamp scan.version scan.watermark.alignment.group scan.watermark.alignment.max-drift
    scan.watermark.alignment.update-interval scan.watermark.emit.strategy scan.watermark.idle-timeout sequence.field
    sink.clustering.by-columns sink.clustering.sample-factor sink.clustering.sort-in-cluster
    sink.clustering.strategy sink.committer-cpu sink.committer-memory sink.committer-operator-chaining
    sink.coordinator-commit.enabled sink.cross-partition.managed-memory sink.key-only-deletes.enabled
    sink.managed.writer-buffer-memory sink.operator-uid.suffix sink.parallelism sink.process-time-zone
    sink.savepoint.auto-tag sink.use-managed-memory-allocator sink.watermark-time-zone
    sink.writer-coordinator.cache-expire-after-access sink.writer-coordinator.cache-memory
    sink.writer-coordinator.cache-soft-values sink.writer-coordinator.enabled sink.writer-coordinator.page-size
    sink.writer-coordinator.prefetch-manifests sink.writer-cpu sink.writer-memory sink.writer-refresh-detectors
    sort-compaction.range-strategy sorted-index.build.max-parallelism sorted-index.records-per-range
    source.checkpoint-align.enabled source.checkpoint-align.timeout source.operator-uid.suffix
    source.split.target-size-with-column-pruning spill-compression streaming-read-mode
    streaming-read.shuffle-bucket-with-partition tag.batch.customized-name tag.callbacks type
    unaware-bucket.compaction.parallelism unaware-bucket.no-shuffle upsert-key variant.shredding.inferenceMode
    variant.shreddingSchema vector-field vector-index.search-mode vector-search.lateral-join.parallelism
    vector.file.format write-manifest-cache write-mode write.data-evolution.update-conflict-retry.max-attempts
    write.data-evolution.update-conflict-retry.wait-ms write.use-v2-write
""".split()  # noqa: SIM905 - a list of names reads better without quotes
"""Options whose values are text of any kind."""


def _whole(largest: int) -> Callable[[str], object]:
    def parse(text: str) -> int:
        value = integer(text)
        if not -largest - 1 <= value <= largest:
            raise ValueError(f"expected a whole number up to {largest}")
        return value

    return parse


_PARSERS: Final[Mapping[str, Callable[[str], object]]] = MappingProxyType(
    {
        **dict.fromkeys(_BOOLEANS, boolean),
        **dict.fromkeys(_INTEGERS, _whole(2**31 - 1)),
        **dict.fromkeys(_LONGS, _whole(2**63 - 1)),
        **dict.fromkeys(_FRACTIONS, fraction),
        **dict.fromkeys(_DURATIONS, duration_ms),
        **dict.fromkeys(_SIZES, memory_size),
        **{key: one_of(dict.fromkeys(words)) for key, words in _WORDS.items()},
        **dict.fromkeys(("file.format.per.level", "file.compression.per.level"), per_level(string)),
        **dict.fromkeys(("metadata.stats-mode", "changelog-file.stats-mode"), stats_mode),
        "metadata.stats-mode.per.level": per_level(stats_mode),
        "branch.backup.time-retained": duration_ms,
        "savepoint.create-interval": whole_days,
        "savepoint.create-time": time_of_day_ms,
    }
)
TABLE_OPTIONS: Final = frozenset((*_PARSERS, *_FREE_TEXT, *OF_ONE_USE))
"""Keys of table options, as Java spells them, and those that are given for one use of a table and never stored."""
_LOWER: Final = frozenset(k.lower() for k in TABLE_OPTIONS)


def is_table_option(key: str) -> bool:
    """Whether `key`, in any case, names a table option."""
    lower = key.lower()
    return lower in _LOWER or lower.startswith(TABLE_OPTION_PREFIXES)


def is_file_system_option(key: str) -> bool:
    """Whether `key` tells how to reach a file system."""
    return key.lower().startswith(STORAGE_PREFIXES)


def is_storage_option(key: str) -> bool:
    """Whether `key` tells how to reach a file system, or the metastore that lists its tables."""
    return is_file_system_option(key) or is_catalog_option(key)


def check_values(options: Mapping[str, str]) -> None:
    """Check that every option has a value of its type. Raises InvalidOptionError."""
    for key, text in options.items():
        if key in _PARSERS:
            Option(key, _PARSERS[key], None, "").get({key: text})
