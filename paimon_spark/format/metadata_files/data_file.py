"""DataFileMeta: the description of a data file in a manifest, with its SimpleStats.

NamedTuples, because plans hold them by the hundred thousand: building one costs a third of a
dataclass and pickles to a plain tuple.

Source: Paimon spec, chapter Manifest; Java `io/DataFileMeta`, `stats/SimpleStats`.
"""

from __future__ import annotations

import time
from enum import IntEnum
from typing import NamedTuple


class FileSource(IntEnum):
    """Which kind of commit wrote the file."""

    APPEND = 0
    COMPACT = 1


class DataFileMeta(NamedTuple):
    """One data file of a bucket.

    Attributes:
        file_name: name inside the bucket directory.
        file_size: bytes.
        row_count: physical rows, retracts and rows deleted by vectors included.
        min_key, max_key: BinaryRow bytes (with arity prefix) of the trimmed primary key; arity 0 for append tables.
        key_stats: statistics of the trimmed primary key, in key order.
        value_stats: statistics of the columns in `value_stats_cols`.
        min_sequence_number, max_sequence_number: range of `_SEQUENCE_NUMBER` in the file; see `has_exact_sequences`.
        schema_id: schema the file was written with.
        level: LSM level; 0 for append tables.
        extra_files: names of files that live and die with this one (file indexes).
        creation_time_ms: local wall clock of the writer, read as if UTC; None when not recorded.
        delete_row_count: rows of kind -U or -D; None in files of old writers, where it is unknown. A hint: see
            `has_no_retracts`.
        embedded_index: file index bytes kept in the manifest.
        file_source: `FileSource`; None when the writer was older than 0.9.
        value_stats_cols: columns that `value_stats` covers; None means all columns of the file.
        external_path: full path of the file when it lies outside the table directory.
        first_row_id: row id of row 0 when the table tracks rows.
        write_cols: columns physically in the file; None means all of its schema.
        write_cols_sequences: per column maximum sequence after a data-evolution compaction.
    """

    file_name: str
    file_size: int
    row_count: int
    min_key: bytes
    max_key: bytes
    key_stats: SimpleStats
    value_stats: SimpleStats
    min_sequence_number: int
    max_sequence_number: int
    schema_id: int
    level: int
    extra_files: tuple[str, ...] = ()
    creation_time_ms: int | None = None
    delete_row_count: int | None = None
    embedded_index: bytes | None = None
    file_source: int | None = None
    value_stats_cols: tuple[str, ...] | None = None
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: tuple[str, ...] | None = None
    write_cols_sequences: tuple[int, ...] | None = None

    @property
    def has_no_retracts(self) -> bool:
        """Whether it is certain that no row is of kind -U or -D, so that `_VALUE_KIND` need not be read.

        A count of 0 alone is a hint: pypaimon 2.1 writes 0 for every file, also where `rowkind.field` gave rows the
        kind -D. It is certain for what a compaction wrote (`FileSource.COMPACT`): merging reads the kind of every row,
        drops retracts where no older row can lie below (Java `MergeTreeCompactManager`: into the deepest level with
        files, or with deletion vectors), keeps none of first-row tables, and counts those it keeps. The level proves
        nothing: a compaction that only moves a file down leaves its source and its count as the first writer set them.
        """
        return self.delete_row_count == 0 and self.file_source == FileSource.COMPACT

    @property
    def has_exact_sequences(self) -> bool:
        """Whether the range of sequence numbers can be that of the rows.

        Rows of one writer have numbers of their own, so a range narrower than the rows is not theirs: pypaimon 2.0
        gives the second and further files of a flush the last number of the whole flush as both ends. What a
        compaction wrote may hold rows of several writers that used the same numbers.
        """
        width = self.max_sequence_number - self.min_sequence_number + 1
        return self.file_source == FileSource.COMPACT or width >= self.row_count


def wall_clock_of(moment_ms: int) -> int:
    """Epoch milliseconds as the machine's local wall clock read as if UTC, as `creation_time_ms` counts."""
    try:
        return moment_ms + time.localtime(moment_ms // 1000).tm_gmtoff * 1000
    except (OverflowError, OSError, ValueError):  # beyond what the system's clock knows; no zone matters there
        return moment_ms


class SimpleStats(NamedTuple):
    """Statistics of some columns, still encoded.

    Attributes:
        min_values, max_values: BinaryRow bytes with the 4-byte big-endian arity prefix. A null in them means unknown.
        null_counts: nulls per column, in the same order; None where not counted.
    """

    min_values: bytes
    max_values: bytes
    null_counts: tuple[int | None, ...] | None
