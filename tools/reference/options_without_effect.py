"""Why options of Paimon do nothing here: patterns of their keys, by reason. The first pattern that fits counts."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final

REASONS: Final[dict[str, tuple[str, ...]]] = {
    "Older releases had them; Java Paimon 2.0 passes over them": (
        "write-mode", "log.*", "record-level.time-field-type",
        "compaction.early-max.file-num", "compaction.max.file-num", "compaction.max-sorted-run-num",
        "manifest.merge-optimize.enabled",
    ),
    "Inside Java, set by its own readers": ("batch-scan-mode", "key-value.sequence_number.enabled"),
    "Of a Spark session with Java's connector, which does not look for them in a table": (
        "legacy-timestamp-mapping.enabled", "read.allow.fullScan", "source.split.target-size-with-column-pruning",
        "write.use-v2-write", "write.hive-style-dynamic-partition.enabled",
    ),
    "What cannot be read is an error here, always, as with `scan.fallback-branch.read-fail-fast`": (
        "scan.ignore-corrupt-files", "scan.ignore-lost-files", "scan.fallback-branch.read-fail-fast",
    ),
    "Batch reads here make no tags, and their splits have no order": (
        "scan.plan-auto-tag-for-read.time-retained", "scan.plan-sort-partition",
    ),
    "Columns and tables that are refused, or stored here in the plain form that every reader knows": (
        "blob-*", "blob.*", "vector.*", "variant.*", "chain-table.*", "object-location", "data-file.external-paths.*",
        "lookup.blob-as-descriptor", "materialized-table.*",
    ),
    "Indexes, sidecars and searches, which only speed up and are not used here": (
        "bitmap-index.*", "btree-index.*", "multivalue-index.*", "sorted-index.*", "global-index.*", "*.search-mode",
        "vector-search.*", "data-evolution.row-sidecar.*",
    ),
    "Changes of data-evolution tables, which are refused here": ("data-evolution.*", "write.data-evolution.*"),
    "Callbacks after commits, of which a write warns": ("visibility-callback.*",),
    "A Hive metastore, which a warehouse of files lacks, in Java Paimon as here; a warning says so": ("metastore.*",),
    "Flink jobs: their sources, sinks, lookup joins and listeners": (
        "sink.*", "source.*", "continuous.discovery-interval", "scan.bounded", "scan.infer-parallelism*",
        "scan.parallelism", "scan.split-enumerator.*", "scan.watermark.*", "scan.max-*", "scan.dedicated-*",
        "lookup.async*", "lookup.bootstrap-parallelism", "lookup.cache", "lookup.cache-rows", "lookup.dynamic-*",
        "lookup.refresh.*", "lookup.continuous.*", "changelog.precommit-compact*", "precommit-compact",
        "scan.remove-normalize", "changelog-producer.compaction-interval", "unaware-bucket.*",
        "streaming-read.*", "read.shuffle-*", "partition.end-input-to-done", "partition.idle-*",
        "partition.mark-done*", "partition.time-interval", "partition.sink-strategy", "commit.custom-listeners",
        "local-merge-buffer-size", "filesystem.job-level-settings.enabled", "snapshot.watermark-idle-timeout",
        "cross-partition-upsert.bootstrap-parallelism",
    ),
    "Rows of a postponed bucket wait until they are compacted, as with `postpone.batch-write-fixed-bucket = false`": (
        "postpone.*",
    ),
    "When and how Java compacts and clusters: other files, the same rows": (
        "compaction.*", "clustering.*", "commit.force-compact", "manifest-sort.*", "sort-compaction.*",
        "zorder.*", "lookup-compact*", "lookup-wait", "changelog-producer.lookup-wait", "lookup.remote-file.*",
        "snapshot.expire.execution-mode",
    ),
    "How much memory, disk and how many threads Java takes": (
        "async-file-write", "cache-page-size", "page-size", "file-reader-async-threshold", "*.thread-num",
        "local-sort.*", "local-kv-db.*", "sort-engine", "sort-spill-*", "spill-compression*",
        "write-buffer-for-append", "write.batch-*", "write-manifest-cache", "lookup.*", "scan.manifest.parallelism",
        "cross-partition-upsert.index-ttl",
    ),
}  # fmt: skip


def by_reason(keys: Iterable[str]) -> dict[str, list[str]]:
    """The keys under the reason why they do nothing, in the order of `REASONS`.

    Raises:
        KeyError: no reason is known for a key.
    """
    out: dict[str, list[str]] = {reason: [] for reason in REASONS}
    for key in sorted(keys):
        out[_reason(key)].append(key)
    return {reason: found for reason, found in out.items() if found}


def _reason(key: str) -> str:
    for reason, patterns in REASONS.items():
        if any(fnmatchcase(key, pattern) for pattern in patterns):
            return reason
    raise KeyError(f"no reason is known why option {key} does nothing here: describe it, refuse it or add a reason")
