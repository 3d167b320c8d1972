"""Options of a table for compaction: triggers, file sizes, expired records.

Source: Java `CoreOptions`, `append/AppendCompactCoordinator`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from paimon_spark.errors import InvalidOptionError
from paimon_spark.options.core import COMPACTION_TRIGGER, SPLIT_OPEN_COST
from paimon_spark.options.data_files import parse_data_file_options
from paimon_spark.options.descriptor import (
    Option,
    boolean,
    duration_ms,
    field_of,
    fraction,
    integer,
    memory_size,
    names,
    one_of,
    option,
    parse_group,
    string,
)

SMALL_FILE_RATIO: Final = Option(
    "compaction.small-file-ratio", fraction, 0.7, "Files smaller than this fraction of the target size are small."
)
STOP_TRIGGER: Final[Option[int | None]] = Option(
    "num-sorted-run.stop-trigger",
    integer,
    None,
    "Number of sorted runs at which a write compacts the bucket; the default is the compaction trigger plus three.",
)
OFFPEAK_START: Final = Option("compaction.offpeak.start.hour", integer, -1, "Start of the off-peak hours; -1: none.")
OFFPEAK_END: Final = Option(
    "compaction.offpeak.end.hour", integer, -1, "End of the off-peak hours (exclusive); -1: none."
)
FORCE_REWRITE: Final = Option(
    "compaction.force-rewrite-all-files", boolean, False, "A full compaction rewrites every file."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOptions:
    """When buckets of keys are compacted, and how.

    Attributes:
        trigger: so many sorted runs, or small files beside each other, start a compaction.
        stop_trigger: so many sorted runs make a writer compact.
        offpeak_hours: first hour, and the one after the last; None: there are none.
    """

    trigger: int
    stop_trigger: int
    small_file_ratio: float = field_of(SMALL_FILE_RATIO)
    max_size_amplification: int = option(
        "compaction.max-size-amplification-percent",
        integer,
        200,
        "Compact a bucket fully if the size of all other sorted runs exceeds this percentage of the last one.",
    )
    size_ratio: int = option(
        "compaction.size-ratio",
        integer,
        1,
        "Percentage by which a sorted run may be larger than the runs that are merged into it.",
    )
    offpeak_ratio: int = option(
        "compaction.offpeak-ratio", integer, 0, "Percentage added to compaction.size-ratio in off-peak hours."
    )
    offpeak_hours: tuple[int, int] | None
    optimization_interval_ms: int | None = option(
        "compaction.optimization-interval",
        duration_ms,
        None,
        "Interval of full compactions of a bucket, whatever its sizes.",
    )
    total_size_threshold: int | None = option(
        "compaction.total-size-threshold", memory_size, None, "Compact a bucket fully while it is smaller."
    )
    incremental_size_threshold: int | None = option(
        "compaction.incremental-size-threshold",
        memory_size,
        None,
        "Compact a bucket fully if the levels above its last one are larger.",
    )
    full_after_commits: int | None = option(
        "full-compaction.delta-commits",
        integer,
        None,
        "Full compaction after this number of batches of a stream; if positive, also after each batch write.",
    )
    force_up_level0: bool = option(
        "compaction.force-up-level-0", boolean, False, "Every compaction includes all files of level 0."
    )
    force_rewrite: bool = field_of(FORCE_REWRITE)
    row_deduplicate: bool = option(
        "changelog-producer.row-deduplicate", boolean, False, "Do not write -U and +U for rows that did not change."
    )
    row_deduplicate_ignored: tuple[str, ...] = option(
        "changelog-producer.row-deduplicate-ignore-fields",
        names,
        (),
        "Columns that are ignored when rows are compared for changes.",
    )

    def is_full_after(self, batch_id: int | None) -> bool:
        """Whether all of the buckets that a write wrote are merged: after a batch write (None), or a batch of a stream.

        Source: Java `paimon-spark` `abstractInnerTableDataWrite.needFullCompaction`.
        """
        every = self.full_after_commits or 0
        return every > 0 and (batch_id is None or (batch_id + 1) % every == 0)

    @property
    def may_be_early(self) -> bool:
        """Whether all of a bucket may be worth merging as soon as it is more than one sorted run."""
        early = self.optimization_interval_ms, self.total_size_threshold, self.incremental_size_threshold
        return any(option is not None for option in early)


def parse_compaction_options(raw: Mapping[str, str]) -> CompactionOptions:
    """The group of `raw`. Raises InvalidOptionError for a value of the wrong type."""
    trigger, stop = COMPACTION_TRIGGER.get(raw), STOP_TRIGGER.get(raw)
    start, end = OFFPEAK_START.get(raw), OFFPEAK_END.get(raw)
    return parse_group(
        CompactionOptions,
        raw,
        trigger=trigger,
        stop_trigger=max(trigger, trigger + 3 if stop is None else stop),
        offpeak_hours=None if -1 in (start, end) or start == end else (start, end),
    )


CLUSTERS: Final = Option(
    "clustering.incremental", boolean, False, "Compaction sorts rows by the clustering columns, incrementally."
)
CLUSTERING_COLUMNS: Final[Option[tuple[str, ...]]] = Option(
    "clustering.columns",
    names,
    (),
    "Columns that compaction sorts rows by, with commas between, where clustering.incremental is set.",
    fallbacks=("sink.clustering.by-columns",),
)


class SortStrategy(StrEnum):
    """How rows are ordered: by one column after the other, or along a curve through all."""

    ORDER = "order"
    ZORDER = "zorder"
    HILBERT = "hilbert"


_STRATEGIES: Final[Mapping[str, SortStrategy | None]] = {"auto": None, **{s.value: s for s in SortStrategy}}


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendCompactionOptions:
    """Which files without keys are compacted.

    Attributes:
        target_bytes: size that files aim at.
        small_bytes: files below are small.
        rewrites_all: a full compaction takes every file.
    """

    target_bytes: int
    small_bytes: int
    open_bytes: int = field_of(SPLIT_OPEN_COST)
    min_files: int = option(
        "compaction.min.file-num",
        integer,
        5,
        "Minimum number of small files that are compacted into one in tables without primary key.",
    )
    delete_ratio: float = option(
        "compaction.delete-ratio-threshold",
        fraction,
        0.2,
        "Rewrite a file without keys if more than this fraction of its rows is deleted.",
    )
    rewrites_all: bool = field_of(FORCE_REWRITE)
    clusters: bool = field_of(CLUSTERS)
    clustering_columns: tuple[str, ...] = field_of(CLUSTERING_COLUMNS)
    clustering: SortStrategy | None = option(
        "clustering.strategy",
        one_of(_STRATEGIES),
        None,
        "order, zorder or hilbert; auto takes order for one column, zorder for two to four, hilbert for more.",
        fallbacks=("sink.clustering.strategy",),
    )


def parse_append_compaction_options(raw: Mapping[str, str]) -> AppendCompactionOptions:
    """The group of `raw`. Raises InvalidOptionError for a value of the wrong type."""
    target = parse_data_file_options(raw).target_bytes(keyed=False)
    return parse_group(
        AppendCompactionOptions, raw, target_bytes=target, small_bytes=int(target * SMALL_FILE_RATIO.get(raw))
    )


RECORD_EXPIRE_TIME: Final[Option[int | None]] = Option(
    "record-level.expire-time", duration_ms, None, "Compaction removes rows that are older."
)
RECORD_TIME_FIELD: Final[Option[str | None]] = Option(
    "record-level.time-field", string, None, "Column that holds the time of a row."
)


@dataclass(frozen=True, slots=True)
class _RecordExpiryOptions:
    """How long rows are kept.

    Attributes:
        kept_s: seconds.
        column: tells when a row was young.
    """

    kept_s: int
    column: str


def parse_record_expiry_options(raw: Mapping[str, str]) -> _RecordExpiryOptions | None:
    """The group of `raw`; None where rows do not expire. Raises InvalidOptionError."""
    kept_ms, column = RECORD_EXPIRE_TIME.get(raw), (RECORD_TIME_FIELD.get(raw) or "").strip()
    if kept_ms is None:
        return None
    if not column:
        raise InvalidOptionError(
            f"{RECORD_EXPIRE_TIME.key} is set, but no column tells how old rows are; set {RECORD_TIME_FIELD.key}",
            option=RECORD_TIME_FIELD.key,
        )
    return _RecordExpiryOptions(kept_ms // 1000, column)
