"""Commit messages as changes of a snapshot, and removal of files of failed commits.

Source: Java `operation/commit/ManifestEntryChanges`, `operation/FileStoreCommitImpl.abort`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from paimon_spark.engine.commit.entries import no_entries
from paimon_spark.engine.tasks.commit_message import CommitMessage, Increment
from paimon_spark.errors import PaimonError
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.format.metadata_files.index_manifest import IndexManifestEntry
from paimon_spark.format.metadata_files.manifest import FileKind
from paimon_spark.format.metadata_files.manifest_writer import FilesOfBucket, entries
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.partition_path import PartitionDirectories, index_file_path
from paimon_spark.text import logger

_LOG = logger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """The changes of one snapshot.

    Attributes:
        files: ADD and DELETE entries, as `ENTRY_SCHEMA` in one chunk.
        changelog: ADD entries of changelog files.
        index: index files added and deleted; their `kind` says which.
    """

    files: pa.Table
    changelog: pa.Table
    index: tuple[IndexManifestEntry, ...] = ()

    def __bool__(self) -> bool:
        return bool(len(self.files) or len(self.changelog) or self.index)


def data_changes(messages: Sequence[CommitMessage]) -> Changes:
    """The changes of written rows: new files first, then those they replace."""
    return _changes([(m, m.data) for m in messages], adds_first=True)


def compact_changes(messages: Sequence[CommitMessage]) -> Changes:
    """The changes of compactions: deleted files first, then new ones."""
    return _changes([(m, m.compact) for m in messages], adds_first=False)


def _changes(increments: Sequence[tuple[CommitMessage, Increment]], *, adds_first: bool) -> Changes:
    files: list[FilesOfBucket] = []
    changelog: list[FilesOfBucket] = []
    index: list[IndexManifestEntry] = []
    for message, done in increments:
        place = message.partition, message.bucket, message.total_buckets
        parts = [
            FilesOfBucket(FileKind.ADD, *place, done.new_files),
            FilesOfBucket(FileKind.DELETE, *place, done.deleted_files),
        ]
        files += parts if adds_first else parts[::-1]
        changelog.append(FilesOfBucket(FileKind.ADD, *place, done.changelog_files))
        index += _of_kind(FileKind.DELETE, done.deleted_index_files)
        index += _of_kind(FileKind.ADD, done.new_index_files)
    return Changes(_entries(files), _entries(changelog), tuple(index))


def _entries(parts: Sequence[FilesOfBucket]) -> pa.Table:
    return entries(parts) if any(p.files for p in parts) else no_entries()


def _of_kind(kind: FileKind, index: Iterable[IndexManifestEntry]) -> list[IndexManifestEntry]:
    return [e._replace(kind=int(kind)) for e in index]


def new_files(increment: Increment) -> set[str]:
    """Names of the new files of an increment."""
    files = (*increment.new_files, *increment.changelog_files)
    return {f.file_name for f in files} | {e.file_name for e in increment.new_index_files}


def remove_files(handle: TableHandle, messages: Sequence[CommitMessage], keep: Collection[str]) -> None:
    """Delete the new files of messages, except names in `keep`. Failures leave orphans and are logged.

    A file that an increment also names as deleted is not new (only its level changed) and stays.
    """
    by_path: list[str] = []
    directories = PartitionDirectories(handle)
    try:
        for message in messages:
            by_path += _paths(handle, directories, message, keep)
        handle.store.delete_many(by_path)
    except PaimonError as e:
        _LOG.warning("files of a failed commit to %s remain: %s", handle.describe(), e)


def _paths(
    handle: TableHandle, directories: PartitionDirectories, message: CommitMessage, keep: Collection[str]
) -> Iterator[str]:
    buckets = directories.bucket_paths(message.partition, message.bucket)
    for increment in (message.data, message.compact):
        old = {f.file_name for f in increment.deleted_files} | {e.file_name for e in increment.deleted_index_files}
        for file in (*increment.new_files, *increment.changelog_files):
            if file.file_name not in keep and file.file_name not in old:
                yield from (path for bucket in buckets for path in _file_paths(handle, bucket, file))
        for entry in increment.new_index_files:
            if entry.file_name not in keep and entry.file_name not in old and entry.external_path is None:
                yield index_file_path(handle, entry, directories)


def _file_paths(handle: TableHandle, bucket: str, file: DataFileMeta) -> Iterator[str]:
    if file.external_path is not None:  # outside the table; writers of this package make none
        return
    yield handle.layout.data_path(bucket, file.file_name)
    for extra in file.extra_files:
        yield handle.layout.data_path(bucket, extra)
