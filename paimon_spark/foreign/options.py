"""Options and table properties of Iceberg and Delta Lake, and what takes their place here.

A name that ends in `.*` stands for all that begin with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class _Instead(NamedTuple):
    """Advice on an option or a table property: how it is spelt, and what to do, a part of a sentence."""

    name: str
    text: str


_BETWEEN: Final = "use `incremental-between` = `<start>,<end>`, versions of which the first is left out"
_BETWEEN_TIMES: Final = "use `incremental-between-timestamp` = `<start>,<end>`, times of which the first is left out"
_STREAM: Final = (
    "leave it out: a stream reads what commits append, and overwrites only with `streaming-read-overwrite` or "
    "`streaming-read-append-overwrite`"
)
_NO_PROPERTIES: Final = "snapshots take no properties of a write: name the version by `ALTER TABLE t CREATE TAG …`"
_NO_TRANSACTIONS: Final = "batch writes have no ids that make a second run do nothing; streams commit each batch once"
_CHOSEN_HERE: Final = "leave it out: rows are distributed by partition and bucket as the table needs it"
_SAVE_AS_TABLE: Final = "it works in `df.write.mode('overwrite').saveAsTable(…)`"
OPTIONS: Final[Mapping[str, str]] = {
    "tag": "use `scan.tag-name`, or `VERSION AS OF` in a query",
    "snapshot-id": "use `scan.snapshot-id`, or `VERSION AS OF` in a query",
    "as-of-timestamp": "use `scan.timestamp-millis`, or `TIMESTAMP AS OF` in a query",
    "start-snapshot-id": _BETWEEN,
    "end-snapshot-id": _BETWEEN,
    "start-timestamp": _BETWEEN_TIMES,
    "end-timestamp": _BETWEEN_TIMES,
    "readChangeFeed": _BETWEEN + ", or read `t$audit_log`, which has the changes of a table with a primary key",
    "readChangeData": _BETWEEN + ", or read `t$audit_log`, which has the changes of a table with a primary key",
    "startingVersion": _BETWEEN + "; a stream begins at `scan.snapshot-id`",
    "endingVersion": _BETWEEN,
    "startingTimestamp": _BETWEEN_TIMES + "; a stream begins at `scan.timestamp-millis`",
    "endingTimestamp": _BETWEEN_TIMES,
    "stream-from-timestamp": "use `scan.timestamp-millis`",
    "ignoreChanges": _STREAM,
    "ignoreDeletes": _STREAM,
    "skipChangeCommits": _STREAM,
    "streaming-skip-delete-snapshots": _STREAM,
    "streaming-skip-overwrite-snapshots": _STREAM,
    "streaming-max-files-per-micro-batch": "use `read.stream.maxFilesPerTrigger`",
    "streaming-max-rows-per-micro-batch": "use `read.stream.maxRowsPerTrigger`",
    "split-size": "use `source.split.target-size`",
    "file-open-cost": "use `source.split.open-file-cost`",
    "lookback": "leave it out: files are packed into splits by their sizes",
    "batch-size": "use `read.batch-size`",
    "vectorization-enabled": "leave it out: files are always read in batches",
    "replaceWhere": (
        f"{_SAVE_AS_TABLE}; elsewhere use `INSERT INTO t REPLACE WHERE <condition> SELECT …`, or "
        "`overwrite.partition` = `dt=2024-01-01`"
    ),
    "overwriteSchema": (
        f"{_SAVE_AS_TABLE}; elsewhere use `ALTER TABLE`, or `write.merge-schema` = `true` to add columns"
    ),
    "overwrite-mode": "use `partitionOverwriteMode` = `dynamic` or `static`",
    "mergeSchema": "use `write.merge-schema` = `true`, for a write",
    "merge-schema": "use `write.merge-schema` = `true`, for a write",
    "write-format": "use `file.format`",
    "target-file-size-bytes": "use `target-file-size`",
    "compression-codec": "use `file.compression`",
    "compression-level": "use `file.compression.zstd-level`",
    "maxRecordsPerFile": "use `target-file-row-num`",
    "distribution-mode": _CHOSEN_HERE,
    "fanout-enabled": _CHOSEN_HERE,
    "use-table-distribution-and-ordering": _CHOSEN_HERE,
    "check-nullability": "leave it out: nulls are always refused in columns that are NOT NULL",
    "check-ordering": "leave it out: columns are matched as Spark does, by name in `writeTo`",
    "isolation-level": "leave it out: every commit is checked for conflicts with those since it began",
    "optimizeWrite": _CHOSEN_HERE,
    "dataChange": "leave it out: `CALL sys.compact` rewrites files without changing rows",
    "snapshot-property.*": _NO_PROPERTIES,
    "userMetadata": _NO_PROPERTIES,
    "txnAppId": _NO_TRANSACTIONS,
    "txnVersion": _NO_TRANSACTIONS,
}
"""Options of reads, writes and streams."""

_SNAPSHOTS: Final = "use `snapshot.time-retained`"
_MODE: Final = "leave it out: `deletion-vectors.enabled` = `true` marks rows in place of rewriting files"
PROPERTIES: Final[Mapping[str, str]] = {
    "format-version": "leave it out: the format has no versions to choose",
    "write.format.default": "use `file.format`",
    "write.target-file-size-bytes": "use `target-file-size`",
    "write.parquet.compression-codec": "use `file.compression`",
    "write.parquet.compression-level": "use `file.compression.zstd-level`",
    "write.parquet.bloom-filter-enabled.column.*": "use `file-index.bloom-filter.columns`",
    "write.merge.mode": _MODE,
    "write.delete.mode": _MODE,
    "write.update.mode": _MODE,
    "write.distribution-mode": _CHOSEN_HERE,
    "write.wap.enabled": "leave it out: `SET spark.wap.branch` works for every table",
    "write.upsert.enabled": "use `primary-key`, by which every write replaces rows",
    "write.data.path": "use `data-file.external-paths`",
    "write.spark.accept-any-schema": "use `write.merge-schema`, for a write",
    "write.metadata.delete-after-commit.enabled": "leave it out: expiry deletes metadata that nothing needs",
    "write.metadata.previous-versions-max": "use `snapshot.num-retained.max`",
    "write.metadata.metrics.default": "use `metadata.stats-mode`",
    "write.metadata.metrics.column.*": "use `fields.<column>.stats-mode`",
    "history.expire.max-snapshot-age-ms": _SNAPSHOTS,
    "history.expire.min-snapshots-to-keep": "use `snapshot.num-retained.min`",
    "history.expire.max-ref-age-ms": "use `tag.default-time-retained`",
    "commit.retry.num-retries": "use `commit.max-retries`",
    "commit.manifest.target-size-bytes": "use `manifest.target-file-size`",
    "read.split.target-size": "use `source.split.target-size`",
    "read.split.open-file-cost": "use `source.split.open-file-cost`",
    "delta.logRetentionDuration": _SNAPSHOTS,
    "delta.deletedFileRetentionDuration": _SNAPSHOTS,
    "delta.enableChangeDataFeed": "use `changelog-producer`, of a table with a primary key",
    "delta.enableDeletionVectors": "use `deletion-vectors.enabled`",
    "delta.enableRowTracking": "use `row-tracking.enabled`",
    "delta.targetFileSize": "use `target-file-size`",
    "delta.autoOptimize.optimizeWrite": _CHOSEN_HERE,
    "delta.autoOptimize.autoCompact": "leave it out: writers compact unless `write-only` = `true`",
    "delta.dataSkippingNumIndexedCols": "use `metadata.stats-keep-first-n-columns`",
    "delta.checkpointInterval": "leave it out: there are no checkpoints",
    "delta.columnMapping.mode": "leave it out: columns have ids, and can be renamed and dropped",
    "delta.minReaderVersion": "leave it out: the format has no versions to choose",
    "delta.minWriterVersion": "leave it out: the format has no versions to choose",
    "delta.feature.*": "leave it out: the format has no table features to choose",
}
"""Table properties that are stored with a warning."""

_CHECKS: Final = "write to a branch, and publish it with checks: `Table.merge_branch('fix', checks={…})`"
GUARANTEES: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "delta.appendOnly": (("false",), "no table here refuses DELETE and UPDATE; a tag keeps the rows of a version"),
    "delta.constraints.*": ((), _CHECKS),
    "txnAppId": ((), _NO_TRANSACTIONS),
    "txnVersion": ((), _NO_TRANSACTIONS),
    "gc.enabled": (
        ("true",),
        (
            "set `write-only` = `true`, with which commits expire nothing, and do not call expire_snapshots; tags keep "
            "versions for ever"
        ),
    ),
}
"""Table properties that promise what is not kept here: values that promise nothing, and what to do instead."""


def _by_key(table: Mapping[str, object]) -> dict[str, str]:
    return {name.lower(): name for name in table}


_OPTIONS: Final = _by_key(OPTIONS)
_PROPERTIES: Final = _by_key(PROPERTIES)
_GUARANTEES: Final = _by_key(GUARANTEES)


def _find(key: str, by_key: Mapping[str, str]) -> str | None:
    """The name in a table for a key in any case."""
    lower = key.lower()
    found = by_key.get(lower)
    return found or next((n for k, n in by_key.items() if k.endswith(".*") and lower.startswith(k[:-1])), None)


def instead_of_option(key: str) -> _Instead | None:
    """Advice on an option of Iceberg or Delta Lake, whose key is in any case; None for others."""
    name = _find(key, _OPTIONS)
    return None if name is None else _advice(key, name, OPTIONS[name])


def instead_of_property(key: str) -> _Instead | None:
    """Advice on a table property of Iceberg or Delta Lake; None for others."""
    name = _find(key, _PROPERTIES)
    if name is not None:
        return _advice(key, name, PROPERTIES[name])
    name = _find(key, _GUARANTEES)
    return instead_of_option(key) if name is None else _advice(key, name, GUARANTEES[name][1])


def instead_of_guarantee(key: str, value: str) -> _Instead | None:
    """Advice on a table property whose value promises what is not kept here; None for others."""
    name = _find(key, _GUARANTEES)
    if name is None or value.strip().lower() in GUARANTEES[name][0]:
        return None
    return _advice(key, name, GUARANTEES[name][1])


def documented_options() -> list[tuple[str, str]]:
    """Options of reads and writes, and what to do here, in Markdown."""
    return _documented(OPTIONS)


def documented_properties() -> list[tuple[str, str]]:
    """Table properties, and what to do here, in Markdown; those that are refused come last."""
    refused = {k: f"refused; {text}" for k, (_, text) in GUARANTEES.items()}
    return _documented({**PROPERTIES, **refused})


def _documented(table: Mapping[str, str]) -> list[tuple[str, str]]:
    by_text: dict[str, list[str]] = {}
    for name, text in table.items():
        by_text.setdefault(text, []).append(f"`{name}`")
    return [(", ".join(names), text.removeprefix("use ")) for text, names in by_text.items()]


def _advice(key: str, name: str, text: str) -> _Instead:
    """Advice on a key, which is spelt as it is documented, as Spark may have made it lower-case."""
    spelt = name[:-1] + key[len(name) - 1 :] if name.endswith(".*") else name
    return _Instead(spelt, text.replace("`", ""))
