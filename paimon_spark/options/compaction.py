"""Options of a table for compaction: what triggers it, what it rewrites, which records it drops.

Source: Java `CoreOptions`, `append/AppendCompactCoordinator`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from paimon_spark.errors import InvalidOptionError
from paimon_spark.options.core import COMPACTION_TRIGGER, SPLIT_OPEN_COST
from paimon_spark.options.data_files import parse_data_file_options
from paimon_spark.options.descriptor import Option, boolean, duration_ms, fraction, integer, memory_size, names, string

ROW_DEDUPLICATE: Final = Option(
    "changelog-producer.row-deduplicate", boolean, False, "A row written again unchanged gives no -U and +U."
)
ROW_DEDUPLICATE_IGNORED: Final[Option[tuple[str, ...]]] = Option(
    "changelog-producer.row-deduplicate-ignore-fields", names, (), "Columns whose change alone is none."
)
SMALL_FILE_RATIO: Final = Option(
    "compaction.small-file-ratio", fraction, 0.7, "Files below this part of the target size are small."
)
STOP_TRIGGER: Final[Option[int | None]] = Option(
    "num-sorted-run.stop-trigger",
    integer,
    None,
    "Sorted runs of a bucket with which a write compacts it; default is the compaction trigger plus three.",
)
MAX_SIZE_AMPLIFICATION: Final = Option(
    "compaction.max-size-amplification-percent",
    integer,
    200,
    "All of a bucket is merged when what lies above its last sorted run is larger than so many percent of that.",
)
SIZE_RATIO: Final = Option(
    "compaction.size-ratio", integer, 1, "Percent by which a sorted run may be larger than what is merged into it."
)
OFFPEAK_START: Final = Option(
    "compaction.offpeak.start.hour", integer, -1, "First hour in which compaction.offpeak-ratio counts; -1: never."
)
OFFPEAK_END: Final = Option(
    "compaction.offpeak.end.hour", integer, -1, "Hour from which compaction.offpeak-ratio counts no more; -1: never."
)
OFFPEAK_RATIO: Final = Option(
    "compaction.offpeak-ratio", integer, 0, "Percent added to compaction.size-ratio off peak."
)
OPTIMIZATION_INTERVAL: Final[Option[int | None]] = Option(
    "compaction.optimization-interval", duration_ms, None, "How often all of a bucket is merged, whatever its sizes."
)
TOTAL_SIZE_THRESHOLD: Final[Option[int | None]] = Option(
    "compaction.total-size-threshold", memory_size, None, "All of a bucket is merged while it is smaller."
)
INCREMENTAL_SIZE_THRESHOLD: Final[Option[int | None]] = Option(
    "compaction.incremental-size-threshold",
    memory_size,
    None,
    "All of a bucket is merged when what lies above its last level is larger.",
)
FULL_COMPACTION_DELTA_COMMITS: Final[Option[int | None]] = Option(
    "full-compaction.delta-commits",
    integer,
    None,
    "More than 0: each batch write merges all of the buckets it wrote; a stream does with every so many commits.",
)
FORCE_UP_LEVEL_0: Final = Option(
    "compaction.force-up-level-0", boolean, False, "Every compaction takes all files of level 0."
)
FORCE_REWRITE: Final = Option(
    "compaction.force-rewrite-all-files", boolean, False, "A full compaction writes every file anew."
)


@dataclass(frozen=True, slots=True)
class CompactionOptions:
    """How this package compacts.

    Attributes:
        trigger: so many sorted runs, or small files beside each other, are worth being made one.
        stop_trigger: so many sorted runs make a writer compact.
        small_file_ratio: files below this part of the target size are small.
        max_size_amplification, size_ratio, offpeak_ratio: percent.
        offpeak_hours: first hour, and the one after the last; None: there are none.
        optimization_interval_ms, total_size_threshold, incremental_size_threshold: None: not asked for.
        full_after_commits: a stream merges all of the buckets it wrote with every so many commits; None: not asked for.
        row_deduplicate: a row written again unchanged is no change.
        row_deduplicate_ignored: columns that do not count for that.
    """

    trigger: int
    stop_trigger: int
    small_file_ratio: float
    max_size_amplification: int
    size_ratio: int
    offpeak_ratio: int
    offpeak_hours: tuple[int, int] | None
    optimization_interval_ms: int | None
    total_size_threshold: int | None
    incremental_size_threshold: int | None
    full_after_commits: int | None
    force_up_level0: bool
    force_rewrite: bool
    row_deduplicate: bool
    row_deduplicate_ignored: tuple[str, ...]

    @property
    def full_after_writes(self) -> bool:
        """Whether a batch write merges all of the buckets it wrote."""
        return (self.full_after_commits or 0) > 0

    @property
    def may_be_early(self) -> bool:
        """Whether all of a bucket may be worth merging as soon as it is more than one sorted run."""
        early = self.optimization_interval_ms, self.total_size_threshold, self.incremental_size_threshold
        return any(option is not None for option in early)


def parse_compaction_options(raw: Mapping[str, str]) -> CompactionOptions:
    """The group of `raw`. Raises InvalidOptionError for a value of the wrong type."""
    trigger, stop = COMPACTION_TRIGGER.get(raw), STOP_TRIGGER.get(raw)
    start, end = OFFPEAK_START.get(raw), OFFPEAK_END.get(raw)
    return CompactionOptions(
        trigger=trigger,
        stop_trigger=max(trigger, trigger + 3 if stop is None else stop),
        small_file_ratio=SMALL_FILE_RATIO.get(raw),
        max_size_amplification=MAX_SIZE_AMPLIFICATION.get(raw),
        size_ratio=SIZE_RATIO.get(raw),
        offpeak_ratio=OFFPEAK_RATIO.get(raw),
        offpeak_hours=None if -1 in (start, end) or start == end else (start, end),
        optimization_interval_ms=OPTIMIZATION_INTERVAL.get(raw),
        total_size_threshold=TOTAL_SIZE_THRESHOLD.get(raw),
        incremental_size_threshold=INCREMENTAL_SIZE_THRESHOLD.get(raw),
        full_after_commits=FULL_COMPACTION_DELTA_COMMITS.get(raw),
        force_up_level0=FORCE_UP_LEVEL_0.get(raw),
        force_rewrite=FORCE_REWRITE.get(raw),
        row_deduplicate=ROW_DEDUPLICATE.get(raw),
        row_deduplicate_ignored=ROW_DEDUPLICATE_IGNORED.get(raw),
    )


MIN_FILE_NUM: Final = Option(
    "compaction.min.file-num", integer, 5, "So many small files of a table without keys are worth being made one."
)
DELETE_RATIO: Final = Option(
    "compaction.delete-ratio-threshold",
    fraction,
    0.2,
    "Part of the rows of a file without keys that must be deleted before it is written again for that.",
)
CLUSTERS: Final = Option("clustering.incremental", boolean, False, "Compaction sorts rows by columns, a bit at a time.")


@dataclass(frozen=True, slots=True)
class AppendCompactionOptions:
    """Which files are worth being written again.

    Attributes:
        target_bytes: what files aim at.
        small_bytes: files below are small.
        open_bytes: what opening a file counts for.
        min_files: so many small files are worth being made one.
        delete_ratio: files of which more than this part of the rows is deleted are written again for that alone.
        rewrites_all: a full compaction takes every file.
        clusters: compaction sorts rows by columns, a bit at a time.
    """

    target_bytes: int
    small_bytes: int
    open_bytes: int
    min_files: int
    delete_ratio: float
    rewrites_all: bool
    clusters: bool = False


def parse_append_compaction_options(raw: Mapping[str, str]) -> AppendCompactionOptions:
    """The group of `raw`. Raises InvalidOptionError for a value of the wrong type."""
    target = parse_data_file_options(raw).target_bytes(keyed=False)
    return AppendCompactionOptions(
        target_bytes=target,
        small_bytes=int(target * SMALL_FILE_RATIO.get(raw)),
        open_bytes=SPLIT_OPEN_COST.get(raw),
        min_files=MIN_FILE_NUM.get(raw),
        delete_ratio=DELETE_RATIO.get(raw),
        rewrites_all=FORCE_REWRITE.get(raw),
        clusters=CLUSTERS.get(raw),
    )


RECORD_EXPIRE_TIME: Final[Option[int | None]] = Option(
    "record-level.expire-time", duration_ms, None, "Compactions leave rows out that are older."
)
RECORD_TIME_FIELD: Final[Option[str | None]] = Option(
    "record-level.time-field", string, None, "The column that tells how old a row is."
)


@dataclass(frozen=True, slots=True)
class RecordExpiryOptions:
    """How long rows are kept.

    Attributes:
        kept_s: seconds.
        column: tells when a row was young.
    """

    kept_s: int
    column: str


def parse_record_expiry_options(raw: Mapping[str, str]) -> RecordExpiryOptions | None:
    """The group of `raw`; None where rows do not expire. Raises InvalidOptionError."""
    kept_ms, column = RECORD_EXPIRE_TIME.get(raw), (RECORD_TIME_FIELD.get(raw) or "").strip()
    if kept_ms is None:
        return None
    if not column:
        raise InvalidOptionError(
            f"{RECORD_EXPIRE_TIME.key} is set, but no column tells how old rows are; set {RECORD_TIME_FIELD.key}",
            option=RECORD_TIME_FIELD.key,
        )
    return RecordExpiryOptions(kept_ms // 1000, column)
