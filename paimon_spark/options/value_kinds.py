"""What the text of a stored table option must be: a number, true or false, a size, one of some words.

Only options whose type Paimon states are here; the rest is free text.

Source: Java `CoreOptions`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from paimon_spark.errors import InvalidOptionError
from paimon_spark.options.descriptor import boolean, duration_ms, integer, memory_size
from paimon_spark.options.tags import time_of_day_ms, whole_days

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
_STATS_MODE: Final = re.compile(r"none|counts|full|truncate\(\s*[1-9][0-9]*\s*\)", re.IGNORECASE)
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


def _fraction(text: str) -> float:
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
    if not _STATS_MODE.fullmatch(text.strip()):
        raise ValueError("expected none, counts, full or truncate(<characters>)")
    return text


def _stats_modes(text: str) -> list[str]:
    return [_stats_mode(mode) for mode in per_level(text).values()]


_PARSERS: Final[Mapping[str, Callable[[str], object]]] = MappingProxyType(
    {
        **dict.fromkeys(_BOOLEANS, boolean),
        **dict.fromkeys(_INTEGERS, _whole(_INT_MAX)),
        **dict.fromkeys(_LONGS, _whole(_LONG_MAX)),
        **dict.fromkeys(_FRACTIONS, _fraction),
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
