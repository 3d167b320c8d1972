"""Names and value types of all table options of Paimon, and which options hold secrets.

A misspelt option is an error, and a stored value of the wrong type too. Values of options that are not listed by type
are free text.

Source: Java `CoreOptions`, `FlinkConnectorOptions`, `SparkConnectorOptions` and the options of its global
indexes, with fallback keys, of every release.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from paimon_spark.errors import InvalidOptionError
from paimon_spark.options.descriptor import boolean, duration_ms, integer, memory_size
from paimon_spark.options.lineage import OF_ONE_USE
from paimon_spark.options.tags import time_of_day_ms, whole_days

TABLE_OPTION_PREFIXES: Final = (
    "fields.", "file-index.", "metadata.iceberg.", "blob-descriptor.", "file.compression.",
    "commit.callback.", "tag.callback.", "format-table.", "parquet.", "orc.", "avro.", "csv.", "json.",
    "text.",
)  # fmt: skip
"""Groups of options whose names hold a column, or that go to a library as they are."""

STORAGE_PREFIXES: Final = ("fs.", "s3.", "s3a.")
"""Groups of options that say how to reach a file system."""

TABLE_OPTIONS: Final = frozenset(
    """
    add-column-before-partition aggregation.remove-record-on-delete alter-column-null-to-not-null.disabled
    async-file-write auto-create batch-scan-mode bitmap-index.compression bitmap-index.compression-level
    bitmap-index.dictionary-block-size bitmap-index.fallback-scan-max-size blob-as-descriptor
    blob-compaction.enabled blob-descriptor-field blob-external-storage-field blob-external-storage-path
    blob-field blob-view-field blob-view.resolve.enabled blob-write-null-on-fetch-failure
    blob-write-null-on-missing-file blob.copy-buffer-size blob.split-by-file-size
    blob.stored-descriptor-fields blob.target-file-size branch btree-index.block-size
    btree-index.build.max-parallelism btree-index.cache-size btree-index.compression
    btree-index.compression-level btree-index.fallback-scan-max-size btree-index.high-priority-pool-ratio
    btree-index.records-per-range bucket bucket-append-ordered bucket-function.type bucket-key cache-page-size
    chain-table.chain-partition-keys chain-table.enabled chain-table.split.key-range-enabled
    chain-table.streaming.merge-snapshot changelog-file.compression changelog-file.format
    changelog-file.prefix changelog-file.stats-mode changelog-producer changelog-producer.compaction-interval
    changelog-producer.lookup-wait changelog-producer.row-deduplicate
    changelog-producer.row-deduplicate-ignore-fields changelog.num-retained.max changelog.num-retained.min
    changelog.precommit-compact changelog.precommit-compact.buffer-size changelog.precommit-compact.thread-num
    changelog.time-retained clustering.columns clustering.history-partition.idle-to-full-sort
    clustering.history-partition.limit clustering.incremental clustering.incremental.mode
    clustering.incremental.optimize-write clustering.strategy commit.allow-unsafe-create commit.callbacks
    commit.custom-listeners commit.discard-duplicate-files commit.force-compact commit.force-create-snapshot
    commit.max-retries commit.max-retry-wait commit.min-retry-wait commit.strict-mode.last-safe-snapshot
    commit.timeout commit.user-prefix compaction.bucket-distribution-strategy
    compaction.delete-ratio-threshold compaction.early-max.file-num compaction.file-num-limit
    compaction.force-rewrite-all-files compaction.force-up-level-0 compaction.incremental-size-threshold
    compaction.manual-triggered compaction.max-size-amplification-percent compaction.max-sorted-run-num
    compaction.max.file-num compaction.min.file-num compaction.offpeak-ratio compaction.offpeak.end.hour
    compaction.offpeak.start.hour compaction.optimization-interval compaction.partition-spec
    compaction.size-ratio compaction.skip-expired-partitions compaction.small-file-ratio
    compaction.total-size-threshold consumer-id consumer.changelog-only consumer.expiration-time
    consumer.ignore-progress consumer.mode continuous.discovery-interval
    cross-partition-upsert.bootstrap-parallelism cross-partition-upsert.index-ttl
    data-evolution.compaction.rewrite-row-ids data-evolution.enabled data-evolution.merge-into.file-pruning
    data-evolution.merge-into.source-persist data-evolution.reassign.skip-contiguous-row-count
    data-evolution.row-id-conflict-rewrite.max-size data-evolution.row-sidecar.enabled
    data-evolution.row-sidecar.max-selected-rows data-evolution.row-sidecar.max-selection-ratio
    data-file.external-paths data-file.external-paths.specific-fs data-file.external-paths.strategy
    data-file.external-paths.weights data-file.path-directory data-file.prefix data-file.thin-mode
    deduplicate.ignore-delete delete-file.thread-num delete.force-produce-changelog
    deletion-vector.index-file.target-size deletion-vectors.bitmap64 deletion-vectors.enabled
    deletion-vectors.merge-on-read deletion-vectors.modifiable disable-explicit-type-casting
    dynamic-bucket.assigner-parallelism dynamic-bucket.initial-buckets dynamic-bucket.max-buckets
    dynamic-bucket.target-row-num dynamic-partition-overwrite end-input.check-partition-expire
    end-input.watermark file-operation.thread-num file-reader-async-threshold file.block-size file.compression
    file.compression.per.level file.compression.zstd-level file.format file.format.per.level
    file.suffix.include.compression filesystem.job-level-settings.enabled first-row.ignore-delete force-lookup
    full-compaction.delta-commits full-text-index.search-mode global-index.build.max-parallelism
    global-index.build.max-shard global-index.column-update-action global-index.enabled
    global-index.external-path global-index.row-count-per-shard global-index.search-mode
    global-index.thread-num ignore-delete ignore-update-before incremental-between
    incremental-between-scan-mode incremental-between-tag-to-snapshot incremental-between-timestamp
    incremental-to-auto-tag index-file-in-data-file-dir key-value.sequence_number.enabled
    legacy-timestamp-mapping.enabled local-kv-db.block-size local-merge-buffer-size
    local-sort.max-num-file-handles log.changelog-mode log.consistency log.format log.ignore-delete
    log.key.format log.retention log.scan log.scan.remove-normalize log.scan.timestamp-millis lookup-compact
    lookup-compact.max-interval lookup-wait lookup.async lookup.async-thread-number lookup.blob-as-descriptor
    lookup.bootstrap-parallelism lookup.cache lookup.cache-file-retention lookup.cache-max-disk-size
    lookup.cache-max-memory-size lookup.cache-rows lookup.cache-spill-compression
    lookup.cache.bloom.filter.enabled lookup.cache.bloom.filter.fpp lookup.cache.high-priority-pool-ratio
    lookup.continuous.discovery-interval lookup.dynamic-partition lookup.dynamic-partition.refresh-interval
    lookup.dynamic-partition.refresh.async lookup.hash-load-factor lookup.local-file-type
    lookup.merge-buffer-size lookup.merge-records-threshold lookup.refresh.async
    lookup.refresh.async.pending-snapshot-count lookup.refresh.full-load-threshold
    lookup.refresh.time-periods-blacklist lookup.remote-file.enabled lookup.remote-file.level-threshold
    manifest-sort.enabled manifest-sort.max-rewrite-size manifest-sort.partition-field manifest.compression
    manifest.delete-file-drop-stats manifest.format manifest.full-compaction-threshold-size
    manifest.merge-min-count manifest.merge-optimize.enabled manifest.target-file-size
    materialized-table.definition-query materialized-table.interval-freshness
    materialized-table.interval-freshness.time-unit materialized-table.logical-refresh-mode
    materialized-table.refresh-handler-bytes materialized-table.refresh-handler-description
    materialized-table.refresh-mode materialized-table.refresh-status merge-engine
    metadata.iceberg-compatible metadata.stats-dense-store metadata.stats-keep-first-n-columns
    metadata.stats-mode metadata.stats-mode.per.level metastore.partitioned-table metastore.tag-to-partition
    metastore.tag-to-partition.preview multivalue-index.compression multivalue-index.compression-level
    multivalue-index.dictionary-block-size num-levels num-sorted-run.compaction-trigger
    num-sorted-run.stop-trigger object-location overwrite-upgrade page-size partial-update.ignore-delete
    partial-update.remove-record-on-delete partial-update.remove-record-on-sequence-group partition
    partition.default-name partition.end-input-to-done partition.expiration-batch-size
    partition.expiration-check-interval partition.expiration-max-num partition.expiration-strategy
    partition.expiration-time partition.idle-time-to-done partition.idle-time-to-report-statistic
    partition.legacy-name partition.mark-done-action partition.mark-done-action.custom.class
    partition.mark-done-action.http.params partition.mark-done-action.http.timeout
    partition.mark-done-action.http.url partition.mark-done-action.mode partition.mark-done.recover-from-state
    partition.sink-strategy partition.time-interval partition.timestamp-format.strict
    partition.timestamp-formatter partition.timestamp-pattern path pk-bitmap.index.columns
    pk-btree.index.columns pk-clustering-override pk-full-text.index.columns pk-multivalue.index.columns
    pk-vector.index.columns postpone.batch-write-fixed-bucket
    postpone.batch-write-fixed-bucket.max-parallelism postpone.batch-write-fixed-bucket.rescale-load-factor
    postpone.default-bucket-num postpone.merge-on-read postpone.target-row-num-per-bucket
    postpone.target-size-per-bucket precommit-compact primary-key primary-key.nullable query-auth.enabled
    read.allow.fullScan read.batch-size read.changelog read.shuffle-bucket-with-partition
    read.stream.aligned read.stream.aligned.snapshots
    read.stream.maxBytesPerTrigger read.stream.maxFilesPerTrigger read.stream.maxRowsPerTrigger
    read.stream.maxTriggerDelayMs read.stream.minRowsPerTrigger record-level.expire-time
    record-level.time-field record-level.time-field-type row-tracking.enabled
    row-tracking.partition-group-on-commit rowkind.field savepoint.create-interval
    savepoint.create-time scalar-index.search-mode scan.bounded
    scan.bounded.watermark scan.bucket scan.creation-time-millis scan.dedicated-split-generation
    scan.fallback-branch scan.fallback-branch.read-fail-fast scan.fallback-delta-branch
    scan.fallback-snapshot-branch scan.file-creation-time-millis scan.ignore-corrupt-files
    scan.ignore-lost-files scan.infer-parallelism scan.infer-parallelism.max scan.manifest.parallelism
    scan.max-snapshot.count scan.max-splits-per-task scan.mode scan.parallelism scan.partitions
    scan.plan-auto-tag-for-read.time-retained scan.plan-sort-partition scan.primary-branch
    scan.remove-normalize scan.snapshot-id scan.split-enumerator.batch-size scan.split-enumerator.mode
    scan.tag-name scan.timestamp scan.timestamp-millis scan.version scan.watermark
    scan.watermark.alignment.group scan.watermark.alignment.max-drift scan.watermark.alignment.update-interval
    scan.watermark.emit.strategy scan.watermark.idle-timeout sequence.field sequence.field.sort-order
    sequence.snapshot-ordering sink.clustering.by-columns sink.clustering.sample-factor
    sink.clustering.sort-in-cluster sink.clustering.strategy sink.committer-cpu sink.committer-memory
    sink.committer-operator-chaining sink.coordinator-commit.enabled sink.cross-partition.managed-memory
    sink.key-only-deletes.enabled sink.managed.writer-buffer-memory sink.operator-uid.suffix sink.parallelism
    sink.process-time-zone sink.savepoint.auto-tag sink.use-managed-memory-allocator sink.watermark-time-zone
    sink.writer-coordinator.cache-expire-after-access sink.writer-coordinator.cache-memory
    sink.writer-coordinator.cache-soft-values sink.writer-coordinator.enabled
    sink.writer-coordinator.page-size sink.writer-coordinator.prefetch-manifests sink.writer-cpu
    sink.writer-memory sink.writer-refresh-detectors snapshot.clean-empty-directories
    snapshot.expire.clean-empty-directories snapshot.expire.execution-mode snapshot.expire.limit
    snapshot.ignore-empty-commit snapshot.num-retained.max snapshot.num-retained.min snapshot.time-retained
    snapshot.watermark-idle-timeout sort-compaction.local-sample.magnification sort-compaction.range-strategy
    sort-engine sort-spill-buffer-size sort-spill-threshold sorted-index.build.max-parallelism
    sorted-index.records-per-range source.checkpoint-align.enabled source.checkpoint-align.timeout
    source.operator-uid.suffix source.split.open-file-cost source.split.target-size
    source.split.target-size-with-column-pruning spill-compression spill-compression.zstd-level
    stream-scan-mode streaming-read-append-overwrite streaming-read-mode streaming-read-overwrite
    streaming-read.shuffle-bucket-with-partition streaming.read.snapshot.delay
    table-read.sequence-number.enabled tag.automatic-completion tag.automatic-creation
    tag.batch.customized-name tag.callbacks tag.create-success-file tag.creation-delay
    tag.creation-period tag.creation-period-duration tag.default-time-retained tag.num-retained-max
    tag.period-formatter tag.time-expire-enabled target-file-row-num target-file-size type
    unaware-bucket.compaction.parallelism unaware-bucket.no-shuffle upsert-key variant.inferShreddingSchema
    variant.shredding.adaptive.maxInferBufferRow variant.shredding.adaptive.retentionRatio
    variant.shredding.inferenceMode variant.shredding.maxInferBufferRow variant.shredding.maxSchemaDepth
    variant.shredding.maxSchemaWidth variant.shredding.minFieldCardinalityRatio variant.shreddingSchema
    vector-field vector-index.search-mode vector-search.distribute.enabled
    vector-search.lateral-join.batch-size vector-search.lateral-join.parallelism vector.file.format
    vector.target-file-size visibility-callback.check-interval visibility-callback.enabled
    visibility-callback.timeout write-buffer-for-append write-buffer-size write-buffer-spill.max-disk-size
    write-buffer-spillable write-manifest-cache write-max-writers-to-spill write-mode write-only
    write.batch-memory write.batch-size write.compaction-skip
    write.data-evolution.update-conflict-retry.max-attempts write.data-evolution.update-conflict-retry.wait-ms
    write.hive-style-dynamic-partition.enabled write.merge-schema write.merge-schema.explicit-cast
    write.merge-schema.type-widening write.sequence-number-init-mode write.use-v2-write
    zorder.var-length-contribution
    """.split()  # noqa: SIM905 - a list of names reads better without quotes
) | frozenset(OF_ONE_USE)
"""Keys of table options, as Java spells them, and those that are given for one use of a table and never stored."""

_LOWER: Final = frozenset(k.lower() for k in TABLE_OPTIONS)


def is_table_option(key: str) -> bool:
    """Whether `key`, in any case, names a table option."""
    lower = key.lower()
    return lower in _LOWER or lower.startswith(TABLE_OPTION_PREFIXES)


def is_storage_option(key: str) -> bool:
    """Whether `key` tells how to reach a file system."""
    return key.lower().startswith(STORAGE_PREFIXES)


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
    dynamic-partition-overwrite end-input.check-partition-expire file.suffix.include.compression
    first-row.ignore-delete force-lookup global-index.enabled ignore-delete ignore-update-before
    incremental-between-tag-to-snapshot index-file-in-data-file-dir key-value.sequence_number.enabled
    lookup-wait lookup.blob-as-descriptor lookup.cache.bloom.filter.enabled lookup.remote-file.enabled
    manifest-sort.enabled manifest.delete-file-drop-stats manifest.merge-optimize.enabled
    metadata.stats-dense-store metastore.partitioned-table overwrite-upgrade partial-update.ignore-delete
    partial-update.remove-record-on-delete partition.end-input-to-done partition.legacy-name
    partition.timestamp-format.strict pk-clustering-override postpone.batch-write-fixed-bucket
    postpone.merge-on-read primary-key.nullable query-auth.enabled row-tracking.enabled
    row-tracking.partition-group-on-commit scan.fallback-branch.read-fail-fast scan.ignore-corrupt-files
    scan.ignore-lost-files scan.plan-sort-partition sequence.snapshot-ordering
    snapshot.clean-empty-directories snapshot.expire.clean-empty-directories snapshot.ignore-empty-commit
    streaming-read-append-overwrite streaming-read-overwrite table-read.sequence-number.enabled
    tag.automatic-completion tag.create-success-file tag.time-expire-enabled variant.inferShreddingSchema
    vector-search.distribute.enabled visibility-callback.enabled write-buffer-for-append
    write-buffer-spillable write-only write.compaction-skip write.merge-schema
    write.merge-schema.explicit-cast write.merge-schema.type-widening
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
    deletion-vector.index-file.target-size file-reader-async-threshold file.block-size local-kv-db.block-size
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
_PER_LEVEL: Final = ("file.format.per.level", "file.compression.per.level", "metadata.stats-mode.per.level")
_STATS_MODES: Final = ("metadata.stats-mode", "changelog-file.stats-mode")
_STATS_MODE_FORM: Final = re.compile(r"none|counts|full|truncate\(\s*[1-9][0-9]*\s*\)", re.IGNORECASE)
_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1


def check_values(options: Mapping[str, str]) -> None:
    """Check that every option is of its type.

    Raises:
        InvalidOptionError: names the option, its text and what is expected.
    """
    for key, text in options.items():
        parse = _PARSERS.get(key)
        if parse is None:
            continue
        try:
            parse(text)
        except ValueError as e:
            raise InvalidOptionError(f"option {key} = {text!r}: {e}", option=key, value=text) from e


def per_level(text: str) -> dict[int, str]:
    """`0:avro,5:parquet` by level. Raises ValueError."""
    out = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        level, colon, value = part.partition(":")
        if not colon or not level.strip().isdigit() or not value.strip():
            raise ValueError("expected <level>:<value>, separated by commas, such as 0:avro,5:parquet")
        out[int(level)] = value.strip()
    return out


def _whole(largest: int) -> Callable[[str], object]:
    def parse(text: str) -> int:
        value = integer(text)
        if not -largest - 1 <= value <= largest:
            raise ValueError(f"expected a whole number up to {largest}")
        return value

    return parse


def _any_fraction(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("expected a number") from None


def _one_of(words: tuple[str, ...]) -> Callable[[str], object]:
    def parse(text: str) -> str:
        found = text.strip().lower().replace("_", "-")
        if found not in words:
            raise ValueError(f"expected one of {', '.join(words)}")
        return found

    return parse


def _stats_mode(text: str) -> str:
    if not _STATS_MODE_FORM.fullmatch(text.strip()):
        raise ValueError("expected none, counts, full or truncate(<characters>)")
    return text


def _stats_modes(text: str) -> list[str]:
    return [_stats_mode(mode) for mode in per_level(text).values()]


_PARSERS: Final[Mapping[str, Callable[[str], object]]] = MappingProxyType(
    {
        **dict.fromkeys(_BOOLEANS, boolean),
        **dict.fromkeys(_INTEGERS, _whole(_INT_MAX)),
        **dict.fromkeys(_LONGS, _whole(_LONG_MAX)),
        **dict.fromkeys(_FRACTIONS, _any_fraction),
        **dict.fromkeys(_DURATIONS, duration_ms),
        **dict.fromkeys(_SIZES, memory_size),
        **{key: _one_of(words) for key, words in _WORDS.items()},
        **dict.fromkeys(_PER_LEVEL, per_level),
        **dict.fromkeys(_STATS_MODES, _stats_mode),
        "metadata.stats-mode.per.level": _stats_modes,
        "savepoint.create-interval": whole_days,
        "savepoint.create-time": time_of_day_ms,
    }
)


HIDDEN: Final = "*********(redacted)"
"""What Spark shows, too."""
_SECRET: Final = re.compile(
    r"secret|password|passwd|token|credential|(?:access|account|private)[.-]?key|\bsas\b|url", re.IGNORECASE
)
"""What Spark hides unless it is configured otherwise, and what the keys of object stores are called besides."""


def is_secret(key: str) -> bool:
    """Whether the value of an option is not shown."""
    return _SECRET.search(key) is not None


def shown_option(key: str, value: str) -> str:
    """The value of an option as people may see it."""
    return HIDDEN if is_secret(key) else value


def shown_options(options: Mapping[str, str]) -> dict[str, str]:
    """Options as people may see them."""
    return {key: shown_option(key, value) for key, value in options.items()}


def shown_changes(options: Mapping[str, tuple[str | None, str | None]]) -> dict[str, tuple[str | None, str | None]]:
    """Old and new values of options as people may see them; None is not set, and stays."""
    return {
        key: (None if old is None else shown_option(key, old), None if new is None else shown_option(key, new))
        for key, (old, new) in options.items()
    }
