"""WriteRequest, the input of a writing task; names and removal of a job's files.

The UUID in a file name begins with text that all files of a job share, 60 random bits, so that files of killed tasks
are found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID, uuid4

import pyarrow as pa

from paimon_spark.errors import CommitConflictError, StorageError
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.partition_path import PartitionDirectories
from paimon_spark.redaction import get_logger
from paimon_spark.storage.store import Store

_LOG = get_logger(__name__)

_SHARED: Final = 19
"""Characters of a UUID that a job's files share: `xxxxxxxx-xxxx-4xxx-`."""
_NOT_DATA: Final = frozenset(
    ("snapshot", "schema", "manifest", "branch", "tag", "changelog", "consumer", "statistics", "service", "sink")
)
"""Directories of a table without files of writers."""


class KnownKeys(NamedTuple):
    """Keys of rows of one bucket: the primary key columns in order, canonical types."""

    partition: bytes
    bucket: int
    keys: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """Rows to write to one branch. Picklable.

    Attributes:
        handle: the branch, with its latest schema and the options in force for this write.
        commit_user: who will commit; a part of some file names.
        base: the head of the branch when the write was planned; sequence numbers, bucket counts and hash indexes
            continue from it. None: the branch has no snapshot, or the write replaces everything it touches.
        ignores_existing: an overwrite: nothing is continued (Java `ignorePreviousFiles`).
        writer_number: number of this writer among those that run beside each other; 0 when there is one.
        shares_buckets: whether another writer of the same job may write rows of the same bucket. Sequence numbers
            of such writers must differ, so each takes those of its own residue class (see `merge_tree`).
        assigner: (number, count) when the keys of a table with dynamic buckets are divided among writers: this one
            gets those of channel `number` of `dynamic_buckets.assigner_channels`, and puts new ones into buckets of
            its own residue class modulo `count`. None: one writer gets all keys, or `shares_buckets`.
        job: of `new_job`, when files of killed writers are to be found again by their names.
        existing_keys: reads all keys of `base`; picklable. Only called for tables whose keys may move between
            partitions. With `ignores_existing`: keys of partitions that are not replaced, or only if rows come.
        settles: whether rows of a table with a postponed bucket go to buckets at once where possible: those of batches
            (Java `postpone.batch-write-fixed-bucket`), not those of streams.
        padded: CHAR columns whose values are padded with spaces, of `input.padded_keys`.
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
    settles: bool = False
    padded: frozenset[str] = frozenset()
    directories: PartitionDirectories = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "directories", PartitionDirectories(self.handle))


def check_file_schemas(handle: TableHandle, newest_schema_id: int, doing: str) -> None:
    """Refuse to rewrite files with columns unknown to the handle, which the new files would lack.

    Raises:
        CommitConflictError: `newest_schema_id`, the newest schema of the files, is newer than the handle's.
    """
    if newest_schema_id > handle.schema.id:
        raise CommitConflictError(
            f"the schema of {handle.describe()} changed while {doing}, from schema {handle.schema.id} to "
            f"{newest_schema_id}. Nothing was changed; try again",
            table=handle.name,
            branch=handle.branch,
            schema_id=newest_schema_id,
        )


def new_job() -> str:
    """A new job id: text in the names of the job's files and of no others."""
    return str(uuid4())[:_SHARED]


def job_of(digest: bytes) -> str:
    """A job id made from the first 16 bytes of a digest."""
    return str(UUID(bytes=digest[:16], version=4))[:_SHARED]


def new_file_id(job: str | None) -> str:
    """A UUID for names of files; of the job when there is one."""
    fresh = str(uuid4())
    return fresh if job is None else job + fresh[_SHARED:]


def remove_job_files(handle: TableHandle, job: str) -> int:
    """Remove all files of a job that tried no commit; return how many. Driver; lists the table; raises nothing."""
    store, root = handle.store, handle.layout.root
    found: list[str] = []
    try:
        for info in store.list(root):
            if info.is_directory and info.name not in _NOT_DATA:
                _find(store, f"{root}/{info.name}", job, found)
        store.delete_many(found)
    except StorageError as e:
        _LOG.warning("files of a failed write to %s may remain, with %s in their names: %s", handle.describe(), job, e)
    return len(found)


def _find(store: Store, directory: str, job: str, found: list[str]) -> None:
    for info in store.list(directory):
        path = f"{directory}/{info.name}"
        if info.is_directory:
            _find(store, path, job, found)
        elif job in info.name:
            found.append(path)
