"""WriteRequest: what a writing task needs to know. Picklable."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.partition_path import PartitionDirectories


class KnownKeys(NamedTuple):
    """Keys of rows of one bucket.

    Attributes:
        partition: BinaryRow bytes.
        bucket: its number.
        keys: the primary key columns in order, canonical types.
    """

    partition: bytes
    bucket: int
    keys: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """Rows to write to one branch.

    Attributes:
        handle: the branch, with its latest schema and the options in force for this write.
        commit_user: who will commit; a part of some file names.
        base: the head of the branch when the write was planned; sequence numbers, bucket counts and hash indexes
            continue from it. None: the branch has no snapshot, or the write replaces everything it touches
            (`ignores_existing`).
        ignores_existing: an overwrite: nothing is continued (Java `ignorePreviousFiles`).
        writer_number: number of this writer among those that run beside each other; 0 when there is one.
        shares_buckets: whether another writer of the same job may write rows of the same bucket. Sequence numbers
            of such writers must differ, so each takes those of its own residue class (see `merge_tree`).
        assigner: (number, count) when the keys of a table with dynamic buckets are divided among writers, so that
            no two see the same key: this one sees those of channel `number` of `dynamic_buckets.assigner_channels`,
            and puts new ones into buckets of its own residue class modulo `count`. None: one writer sees all keys,
            or `shares_buckets`.
        job: of `job_files.new_job`, when files of killed writers are to be found again by their names.
        existing_keys: reads all keys of `base`; picklable. Only asked for by tables whose keys may move between
            partitions. With `ignores_existing`: keys of partitions that are not replaced, or only if rows come.
        padded: columns of type CHAR whose values are filled up with spaces, of `char_keys.padded_keys`.
        directories: where files of partitions go.
    """

    handle: TableHandle
    commit_user: str
    base: Snapshot | None = None
    ignores_existing: bool = False
    writer_number: int = 0
    shares_buckets: bool = False
    assigner: tuple[int, int] | None = None
    job: str | None = None
    existing_keys: Callable[[], Iterator[KnownKeys]] | None = None
    padded: frozenset[str] = frozenset()
    directories: PartitionDirectories = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "directories", PartitionDirectories(self.handle))
