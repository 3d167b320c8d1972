"""Messages of writers → manifest entries and index changes of the snapshots to make.

Source: Java `operation/commit/ManifestEntryChanges`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from paimon_spark.commit.entries import together
from paimon_spark.handoff.commit_message import CommitMessage, Increment
from paimon_spark.spec.data_file import DataFileMeta
from paimon_spark.spec.index_manifest import IndexManifestEntry
from paimon_spark.spec.manifest import FileKind
from paimon_spark.spec.manifest_writer import entries


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """What one snapshot does.

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
    """What the rows written do: new files first, then those they replace."""
    return _changes([(m, m.data) for m in messages], adds_first=True)


def compact_changes(messages: Sequence[CommitMessage]) -> Changes:
    """What the compactions do: files that go first, then those that come."""
    return _changes([(m, m.compact) for m in messages], adds_first=False)


def _changes(increments: Sequence[tuple[CommitMessage, Increment]], *, adds_first: bool) -> Changes:
    files: list[pa.Table] = []
    changelog: list[pa.Table] = []
    index: list[IndexManifestEntry] = []
    for message, done in increments:
        parts = [(FileKind.ADD, done.new_files), (FileKind.DELETE, done.deleted_files)]
        files += [_entries(kind, message, metas) for kind, metas in (parts if adds_first else parts[::-1]) if metas]
        if done.changelog_files:
            changelog.append(_entries(FileKind.ADD, message, done.changelog_files))
        index += _of_kind(FileKind.DELETE, done.deleted_index_files)
        index += _of_kind(FileKind.ADD, done.new_index_files)
    return Changes(together(*files), together(*changelog), tuple(index))


def _entries(kind: FileKind, message: CommitMessage, files: Sequence[DataFileMeta]) -> pa.Table:
    return entries(kind, message.partition, message.bucket, message.total_buckets, files)


def _of_kind(kind: FileKind, index: Iterable[IndexManifestEntry]) -> list[IndexManifestEntry]:
    return [e._replace(kind=int(kind)) for e in index]
