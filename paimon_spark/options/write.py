"""Options of a table for writers: memory, row kinds, and how many buckets partitions get.

Source: Java `CoreOptions`, `table/PostponeUtils.determineBucketNum`, where the default is the parallelism of the job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from paimon_spark.errors import InvalidOptionError
from paimon_spark.options.core import IGNORE_DELETE, MERGE_ENGINE, MergeEngine
from paimon_spark.options.descriptor import Option, boolean, integer, memory_size, string
from paimon_spark.options.merge import PARTIAL_UPDATE_REMOVE

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
IGNORE_UPDATE_BEFORE: Final = Option("ignore-update-before", boolean, False, "Rows of kind -U are skipped.")
DELETE_AS_CHANGELOG: Final = Option(
    "delete.force-produce-changelog", boolean, False, "SQL's DELETE of whole partitions writes rows of kind -D."
)
UPSERT_KEY: Final = Option(
    "upsert-key",
    string,
    "",
    "Columns of a table without primary key; appends are refused, as Java's Spark merges them by these.",
)
BITMAP64: Final = Option("deletion-vectors.bitmap64", boolean, False, "Deletion vectors have positions of 64 bits.")
VECTOR_FILE_SIZE: Final = Option(
    "deletion-vector.index-file.target-size", memory_size, 2 << 20, "Bytes a file of deletion vectors aims at."
)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Memory of writers and the meaning of row kinds.

    Attributes:
        buffer_bytes: memory for rows that wait; beyond it they go to files, of the table or aside.
        spillable: whether local disk may be used; without it small files are written when memory is short.
        spill_max_disk_bytes: most local disk of a writer; None for no limit.
        max_open_writers: most buckets whose files are open at once.
        rowkind_field: column of row kinds; None: rows are +I unless a column `_VALUE_KIND` says otherwise.
        ignore_delete: rows of kind -U and -D are skipped.
        ignore_update_before: rows of kind -U are skipped.
        delete_as_changelog: a DELETE of whole partitions writes rows of kind -D.
        upsert_key: columns that Java's Spark merges appended rows by, as written; empty for none.
        bitmap64: deletion vectors have positions of 64 bits.
        vector_file_bytes: size that files of deletion vectors aim at.
        retracts_refused: why the merge engine takes no rows of kind -U and -D; None when it does.
    """

    buffer_bytes: int
    spillable: bool
    spill_max_disk_bytes: int | None
    max_open_writers: int
    rowkind_field: str | None
    ignore_delete: bool
    ignore_update_before: bool
    delete_as_changelog: bool
    upsert_key: str
    bitmap64: bool
    vector_file_bytes: int
    retracts_refused: str | None = None


def parse_write_options(raw: Mapping[str, str]) -> WriteOptions:
    """The group of `raw`. Raises InvalidOptionError for a value of the wrong type."""
    return WriteOptions(
        buffer_bytes=WRITE_BUFFER_SIZE.get(raw),
        spillable=SPILLABLE.get(raw),
        spill_max_disk_bytes=SPILL_MAX_DISK.get(raw),
        max_open_writers=max(1, MAX_OPEN_WRITERS.get(raw)),
        rowkind_field=ROWKIND_FIELD.get(raw),
        ignore_delete=IGNORE_DELETE.get(raw),
        ignore_update_before=IGNORE_UPDATE_BEFORE.get(raw),
        delete_as_changelog=DELETE_AS_CHANGELOG.get(raw),
        upsert_key=UPSERT_KEY.get(raw).strip(),
        bitmap64=BITMAP64.get(raw),
        vector_file_bytes=VECTOR_FILE_SIZE.get(raw),
        retracts_refused=_retracts_refused(raw),
    )


def _retracts_refused(raw: Mapping[str, str]) -> str | None:
    """Why retracts cannot be merged.

    Java fails only when two rows of a key are merged, which may be after the commit, with a table that cannot be read.

    Source: Java `mergetree/compact/FirstRowMergeFunction`, `PartialUpdateMergeFunction`.
    """
    match MERGE_ENGINE.get(raw):
        case MergeEngine.FIRST_ROW:
            return "keeps the first row of each key (merge-engine = first-row)"
        case MergeEngine.PARTIAL_UPDATE:
            grouped = any(k.startswith("fields.") and k.endswith(".sequence-group") for k in raw)
            if not grouped and not PARTIAL_UPDATE_REMOVE.get(raw):
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


@dataclass(frozen=True, slots=True)
class PostponedBucketOptions:
    """How many buckets a partition gets whose rows waited for them.

    Attributes:
        default_buckets: buckets of a partition, without `target_rows`.
        target_rows: rows of one bucket.
    """

    default_buckets: int
    target_rows: int | None

    def buckets_of_new_partition(self, row_count: int) -> int:
        """How many buckets a partition of `row_count` waiting rows gets."""
        return self.default_buckets if self.target_rows is None else max(1, -(-row_count // self.target_rows))


def parse_postponed_bucket_options(raw: Mapping[str, str]) -> PostponedBucketOptions:
    """The group of `raw`. Raises InvalidOptionError: an option is no positive number."""
    for option in (POSTPONED_DEFAULT_BUCKETS, POSTPONED_TARGET_ROWS):
        value = option.get(raw)
        if value is not None and value <= 0:
            raise InvalidOptionError(f"option {option.key} = {value}: expected a number above 0", option=option.key)
    return PostponedBucketOptions(POSTPONED_DEFAULT_BUCKETS.get(raw), POSTPONED_TARGET_ROWS.get(raw))


MERGE_SCHEMA = Option("write.merge-schema", boolean, False, "Columns that the table lacks are added to it.")
TYPE_WIDENING: Final = Option(
    "write.merge-schema.type-widening", boolean, False, "write.merge-schema also widens the types of columns."
)
EXPLICIT_CAST: Final = Option(
    "write.merge-schema.explicit-cast",
    boolean,
    False,
    "Type widening also makes changes that may lose something of values already there.",
)


@dataclass(frozen=True, slots=True)
class SchemaMergeOptions:
    """What a write adds to the schema of its table.

    Attributes:
        enabled: columns that the table lacks are added.
        widens_types: columns become wide enough for the rows.
        explicit_casts: also where values already there may lose something.
    """

    enabled: bool
    widens_types: bool
    explicit_casts: bool


def parse_schema_merge_options(raw: Mapping[str, str]) -> SchemaMergeOptions:
    """The group of `raw`. Raises InvalidOptionError for a value of the wrong type."""
    return SchemaMergeOptions(MERGE_SCHEMA.get(raw), TYPE_WIDENING.get(raw), EXPLICIT_CAST.get(raw))
