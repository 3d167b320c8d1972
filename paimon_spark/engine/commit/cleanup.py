"""Which files of messages may go after a commit that did not happen.

Source: Java `operation/FileStoreCommitImpl.abort`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence

from paimon_spark.engine.tasks.commit_message import CommitMessage, Increment
from paimon_spark.errors import PaimonError
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.partition_path import PartitionDirectories, index_file_path

_LOG = logging.getLogger(__name__)


def new_files(increment: Increment) -> set[str]:
    """Names of the files that an increment brought."""
    files = (*increment.new_files, *increment.changelog_files)
    return {f.file_name for f in files} | {e.file_name for e in increment.new_index_files}


def remove(handle: TableHandle, messages: Sequence[CommitMessage], keep: Collection[str]) -> None:
    """Delete the files that messages brought, but for names in `keep`. Failures are logged, what stays is an orphan.

    A file that an increment also names as deleted is not new (only its level changed) and stays.
    """
    by_path: list[str] = []
    directories = PartitionDirectories(handle)
    try:
        for message in messages:
            by_path += _paths(handle, directories, message, keep)
        handle.store.delete_many(by_path)
    except PaimonError as e:
        _LOG.warning("files of a commit to %s that did not happen stay: %s", handle.describe(), e)


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
