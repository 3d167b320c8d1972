"""Reasons why options of Paimon have no effect: patterns of keys, by reason. The first match counts."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final

REASONS: Final[dict[str, tuple[str, ...]]] = {
    "Options of older releases that Java Paimon 2.0 ignores": (
        "write-mode", "log.*", "record-level.time-field-type",
        "compaction.early-max.file-num", "compaction.max.file-num", "compaction.max-sorted-run-num",
        "manifest.merge-optimize.enabled",
    ),
    "Internal options of Java's readers": ("batch-scan-mode", "key-value.sequence_number.enabled"),
    "Options of a Spark session with Java's connector, not of a table": (
        "legacy-timestamp-mapping.enabled", "source.split.target-size-with-column-pruning", "write.use-v2-write",
    ),
    "Files that cannot be read are always an error": (
        "scan.ignore-corrupt-files", "scan.ignore-lost-files", "scan.fallback-branch.read-fail-fast",
    ),
    "Batch reads create no tags and do not order splits": (
        "scan.plan-auto-tag-for-read.time-retained", "scan.plan-sort-partition",
    ),
    "Types and kinds of tables that are refused, or stored in the plain form that every reader supports": (
        "blob-*", "blob.*", "vector.*", "variant.*", "chain-table.*", "object-location", "data-file.external-paths.*",
        "lookup.blob-as-descriptor", "materialized-table.*",
    ),
    "Indexes and searches, which are not used": (
        "bitmap-index.*", "btree-index.*", "multivalue-index.*", "sorted-index.*", "global-index.*", "*.search-mode",
        "vector-search.*", "data-evolution.row-sidecar.*",
    ),
    "How Java changes tables with data evolution; here row ids never change, and a conflict is an error": (
        "data-evolution.*", "write.data-evolution.*",
    ),
    "Callbacks after commits; a write warns": ("visibility-callback.*",),
    "A Hive metastore, which a warehouse of files does not have; a warning says so": ("metastore.*",),
    "Flink sources, sinks, lookup joins and listeners": (
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
    "Postponed buckets, whose rows wait for compaction, as with `postpone.batch-write-fixed-bucket = false`": (
        "postpone.*",
    ),
    "When and how Java compacts and clusters; the rows are the same": (
        "compaction.*", "clustering.*", "commit.force-compact", "manifest-sort.*", "sort-compaction.*",
        "zorder.*", "lookup-compact*", "lookup-wait", "changelog-producer.lookup-wait", "lookup.remote-file.*",
        "snapshot.expire.execution-mode",
    ),
    "Memory, disk and threads of Java": (
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
