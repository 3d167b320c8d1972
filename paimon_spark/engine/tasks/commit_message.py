"""CommitMessage: the files that a writer of one bucket wrote.

Source: Java `table/sink/CommitMessageImpl`, `io/DataIncrement`, `io/CompactIncrement`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.format.metadata_files.index_manifest import IndexManifestEntry


@dataclass(frozen=True, slots=True)
class Increment:
    """Files of a bucket that are added and deleted together. All exist in the store before the commit.

    Attributes:
        new_files: data files added.
        deleted_files: data files of the snapshot read that are replaced, exactly as its manifests describe them.
        changelog_files: changelog files added.
        new_index_files: index files added (`kind` is not looked at). A HASH file replaces the one of its bucket,
            which need not be named in `deleted_index_files`; the one that a deletion vector file replaces must be.
        deleted_index_files: index files of the snapshot read that are replaced.
    """

    new_files: tuple[DataFileMeta, ...] = ()
    deleted_files: tuple[DataFileMeta, ...] = ()
    changelog_files: tuple[DataFileMeta, ...] = ()
    new_index_files: tuple[IndexManifestEntry, ...] = ()
    deleted_index_files: tuple[IndexManifestEntry, ...] = ()

    def __bool__(self) -> bool:
        return bool(
            self.new_files
            or self.deleted_files
            or self.changelog_files
            or self.new_index_files
            or self.deleted_index_files
        )


NOTHING = Increment()


class RowCounts(NamedTuple):
    """Numbers of rows; None where a number is unknown."""

    inserted: int | None = 0
    updated: int | None = 0
    deleted: int | None = 0

    @classmethod
    def total(cls, counts: Iterable[RowCounts]) -> RowCounts:
        """The sums; None where one of the numbers is unknown."""
        return cls(*(sum_if_known(column) for column in zip(cls(), *counts, strict=True)))


def sum_if_known(numbers: Iterable[int | None]) -> int | None:
    """The sum; None if one of the numbers is."""
    known = list(numbers)
    return None if None in known else sum(n for n in known if n is not None)


NO_ROWS = RowCounts()
UNKNOWN_ROWS = RowCounts(None, None, None)


@dataclass(frozen=True, slots=True)
class CommitMessage:
    """Changes of one bucket. Picklable; holds no client and no open file.

    Attributes:
        partition: BinaryRow bytes of the partition columns, with arity prefix.
        bucket: bucket number.
        total_buckets: what `_TOTAL_BUCKETS` of its entries becomes: the bucket count of the partition, -1 or -2.
        data: what rows written did; becomes a snapshot of kind APPEND, or OVERWRITE when it deletes anything.
        compact: what a compaction did; becomes a snapshot of kind COMPACT after the other.
        rows: the rows that its writer was given, by kind: +I, +U, -D. The first message of a writer has them all.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    data: Increment = field(default=NOTHING)
    compact: Increment = field(default=NOTHING)
    rows: RowCounts = field(default=NO_ROWS, compare=False)
