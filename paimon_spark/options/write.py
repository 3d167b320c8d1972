"""Options of a table for writers: memory, row kinds, and how many buckets partitions get.

Source: Java `CoreOptions`, `table/PostponeUtils.determineBucketNum`, where the default is the parallelism of the job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from paimon_spark.errors import InvalidOptionError
from paimon_spark.options.descriptor import Option, boolean, integer, memory_size, string
from paimon_spark.options.table import IGNORE_DELETE, MERGE_ENGINE, MergeEngine

WRITE_BUFFER_SIZE: Final = Option(
    "write-buffer-size", memory_size, 256 << 20, "Memory for rows that are not yet in files, of one writing task."
)
SPILLABLE: Final = Option(
    "write-buffer-spillable", boolean, True, "Rows may be put aside on local disk when memory is short."
)
SPILL_MAX_DISK: Final[Option[int | None]] = Option(
    "write-buffer-spill.max-disk-size", memory_size, None, "Local disk a writer may use before it writes files."
)
MAX_OPEN_WRITERS: Final = Option(
    "write-max-writers-to-spill", integer, 10, "Most buckets whose files are open at once; rows of others wait."
)
ROWKIND_FIELD: Final[Option[str | None]] = Option(
    "rowkind.field", string, None, "A text column whose values +I, -U, +U, -D say what rows do."
)
REMOVE_ON_DELETE: Final = Option(
    "partial-update.remove-record-on-delete", boolean, False, "A row of kind -D removes the whole row of its key."
)
IGNORE_UPDATE_BEFORE: Final = Option("ignore-update-before", boolean, False, "Rows of kind -U are skipped.")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How rows are taken in.

    Attributes:
        buffer_bytes: memory for rows that wait; beyond it they go to files, of the table or aside.
        spillable: whether local disk may be used; without it small files are written when memory is short.
        max_open_writers: most buckets whose files are open at once.
        rowkind_field: column of row kinds; None: rows are +I unless a column `_VALUE_KIND` says otherwise.
        ignore_delete: rows of kind -U and -D are skipped.
        ignore_update_before: rows of kind -U are skipped.
        retracts_refused: why the merge engine takes no rows of kind -U and -D; None when it does.
    """

    buffer_bytes: int
    spillable: bool
    max_open_writers: int
    rowkind_field: str | None
    ignore_delete: bool
    ignore_update_before: bool
    retracts_refused: str | None = None


def parse_write_options(raw: Mapping[str, str]) -> WriteOptions:
    """The group of `raw`. Raises InvalidOptionError for a value of the wrong type."""
    return WriteOptions(
        buffer_bytes=WRITE_BUFFER_SIZE.get(raw),
        spillable=SPILLABLE.get(raw),
        max_open_writers=max(1, MAX_OPEN_WRITERS.get(raw)),
        rowkind_field=ROWKIND_FIELD.get(raw),
        ignore_delete=IGNORE_DELETE.get(raw),
        ignore_update_before=IGNORE_UPDATE_BEFORE.get(raw),
        retracts_refused=_retracts_refused(raw),
    )


def _retracts_refused(raw: Mapping[str, str]) -> str | None:
    """Why retracts cannot be merged.

    Java finds out when two rows of a key meet, which may be after the commit: a table that nobody can read any more.

    Source: Java `mergetree/compact/FirstRowMergeFunction`, `PartialUpdateMergeFunction`.
    """
    match MERGE_ENGINE.get(raw):
        case MergeEngine.FIRST_ROW:
            return "keeps the first row of each key (merge-engine = first-row)"
        case MergeEngine.PARTIAL_UPDATE:
            grouped = any(k.startswith("fields.") and k.endswith(".sequence-group") for k in raw)
            if not grouped and not REMOVE_ON_DELETE.get(raw):
                return (
                    "merges columns (merge-engine = partial-update) without a rule for deletes: neither "
                    "partial-update.remove-record-on-delete nor sequence groups"
                )
    return None


TARGET_ROWS: Final = Option(
    "dynamic-bucket.target-row-num", integer, 2_000_000, "Keys a bucket takes before it is full."
)
INITIAL_BUCKETS: Final[Option[int | None]] = Option(
    "dynamic-bucket.initial-buckets", integer, None, "Buckets that the first keys of a partition are spread over."
)
MAX_BUCKETS: Final = Option("dynamic-bucket.max-buckets", integer, -1, "Most buckets of a partition; -1 is no limit.")
ASSIGNER_PARALLELISM: Final[Option[int | None]] = Option(
    "dynamic-bucket.assigner-parallelism", integer, None, "Tasks among which keys are divided to be given a bucket."
)

MOST_BUCKETS: Final = 32767
"""Bucket numbers are Java shorts in memory, so there are no more."""
_DEFAULT_SPREAD: Final = 8


@dataclass(frozen=True, slots=True)
class DynamicBucketOptions:
    """How new keys find a bucket.

    Attributes:
        target_rows: keys a bucket takes before it is full.
        initial_buckets: buckets the first keys are spread over; None when the option is not set.
        max_buckets: most buckets of a partition, when limited.
        assigner_parallelism: tasks among which keys are divided; None when the option is not set.
    """

    target_rows: int
    initial_buckets: int | None
    max_buckets: int | None
    assigner_parallelism: int | None

    @property
    def spread(self) -> int:
        """Buckets that writers which know nothing of each other spread new keys over."""
        return min(self.initial_buckets or _DEFAULT_SPREAD, self.max_buckets or MOST_BUCKETS)

    @property
    def bucket_limit(self) -> int:
        """One more than the largest bucket number."""
        return min(self.max_buckets or MOST_BUCKETS, MOST_BUCKETS)


def parse_dynamic_bucket_options(raw: Mapping[str, str]) -> DynamicBucketOptions:
    """The group of `raw`. Raises InvalidOptionError for a value of the wrong type or range."""
    most = MAX_BUCKETS.get(raw)
    for option, value in ((TARGET_ROWS, TARGET_ROWS.get(raw)), (INITIAL_BUCKETS, INITIAL_BUCKETS.get(raw))):
        if value is not None and value < 1:
            raise InvalidOptionError(f"option {option.key} = {value}: expected at least 1", option=option.key)
    if most == 0 or most < -1:
        raise InvalidOptionError(
            f"option {MAX_BUCKETS.key} = {most}: expected -1 or at least 1", option=MAX_BUCKETS.key
        )
    return DynamicBucketOptions(
        target_rows=TARGET_ROWS.get(raw),
        initial_buckets=INITIAL_BUCKETS.get(raw),
        max_buckets=None if most == -1 else most,
        assigner_parallelism=ASSIGNER_PARALLELISM.get(raw),
    )


POSTPONED_DEFAULT_BUCKETS: Final = Option(
    "postpone.default-bucket-num", integer, 1, "Buckets of a partition whose rows get buckets for the first time."
)
POSTPONED_TARGET_ROWS: Final[Option[int | None]] = Option(
    "postpone.target-row-num-per-bucket", integer, None, "Rows that such a partition gets a bucket for."
)


def buckets_of_new_partition(raw: Mapping[str, str], row_count: int) -> int:
    """How many buckets a partition of `row_count` waiting rows gets.

    Raises:
        InvalidOptionError: an option is no positive number.
    """
    for option in (POSTPONED_DEFAULT_BUCKETS, POSTPONED_TARGET_ROWS):
        value = option.get(raw)
        if value is not None and value <= 0:
            raise InvalidOptionError(f"option {option.key} = {value}: expected a number above 0", option=option.key)
    target = POSTPONED_TARGET_ROWS.get(raw)
    return POSTPONED_DEFAULT_BUCKETS.get(raw) if target is None else max(1, -(-row_count // target))
