"""Deletion vectors of a rebase: rows that a branch deleted are deleted in main's files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_spark.engine.commit.entries import numbers
from paimon_spark.engine.commit.index_files import has_buckets
from paimon_spark.engine.tasks.commit_message import CommitMessage, Increment
from paimon_spark.format.metadata_files.deletion_vector import Positions
from paimon_spark.format.metadata_files.index_manifest import IndexManifestEntry
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.live_files import BucketStates
from paimon_spark.metadata.resolve import Resolved
from paimon_spark.metadata.vector_files import (
    changed_vectors,
    read_vectors,
    remove_index_files,
    united,
    vector_files,
)

NO_ROWS: Final[Positions] = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class DeletedRows:
    """How deletion vectors of the files that two versions have differ.

    Attributes:
        deleted: positions that the later version alone has, by partition and bucket, and name of the data file.
        back: files with positions that the earlier version alone has.
    """

    deleted: Mapping[tuple[bytes, int], Mapping[str, Positions]] = field(default_factory=dict)
    back: frozenset[str] = frozenset()

    @classmethod
    def of(cls, old: Resolved, new: Resolved, files: pa.Table) -> DeletedRows:
        """`files`: entries of those that both versions have."""
        both = set(files.column("file_name").to_pylist())
        before, after = (vector_files(v.handle, v.snapshot) for v in (old, new))
        deleted: dict[tuple[bytes, int], dict[str, Positions]] = defaultdict(dict)
        back: set[str] = set()
        for place in dict.fromkeys((*before, *after)):
            ranges = [_ranges(entries.get(place, ())) for entries in (before, after)]
            names = {name for name, _ in ranges[0].items() ^ ranges[1].items()} & both
            was, now = (_positions(v, entries.get(place, ()), names) for v, entries in ((old, before), (new, after)))
            for name in names:
                first, second = was.get(name, NO_ROWS), now.get(name, NO_ROWS)
                more = np.setdiff1d(second, first, assume_unique=True)
                if len(more):
                    deleted[place][name] = more
                if len(np.setdiff1d(first, second, assume_unique=True)):
                    back.add(name)
        return cls(deleted, frozenset(back))

    @property
    def files(self) -> frozenset[str]:
        """Names of data files whose rows were deleted."""
        return frozenset(name for files in self.deleted.values() for name in files)

    @property
    def count(self) -> int:
        """Of deleted rows."""
        return sum(len(rows) for files in self.deleted.values() for rows in files.values())


def _ranges(entries: Iterable[IndexManifestEntry]) -> dict[str, tuple[str, int]]:
    """Where the vector of each data file lies."""
    return {r.data_file_name: (e.file_name, r.offset) for e in entries for r in e.deletion_vectors or ()}


def _positions(
    version: Resolved, entries: Iterable[IndexManifestEntry], names: Collection[str]
) -> dict[str, Positions]:
    return {name: rows for e in entries for name, rows in read_vectors(version.handle, e, names).items()}


def deleted_at(version: Resolved, entries: pa.Table) -> dict[str, Positions]:
    """The rows of data files that are deleted at a version."""
    names = set(entries.column("file_name").to_pylist()) if len(entries) else set()
    found = vector_files(version.handle, version.snapshot) if names else {}
    return {n: rows for each in found.values() for n, rows in _positions(version, each, names).items()}


def rows_at(version: Resolved, entries: pa.Table) -> int:
    """The rows of files at a version, those aside that are deleted."""
    deleted = deleted_at(version, entries)
    return int(numbers(entries, "row_count").sum()) - sum(map(len, deleted.values()))


def vector_changes(main: TableHandle, head: Snapshot, gone: pa.Table, of_branch: DeletedRows) -> list[CommitMessage]:
    """The deletion vectors that main's files get: those of files that stay, none of removed ones."""
    changes: dict[tuple[bytes, int], dict[str, Positions | None]] = defaultdict(dict)
    places = (gone.column(name).to_pylist() for name in ("partition", "bucket", "file_name"))
    for partition, bucket, name in zip(*places, strict=True):
        changes[partition, bucket][name] = None
    there = vector_files(main, head)
    if not there and not of_branch.deleted:
        return []
    for place, deleted in of_branch.deleted.items():
        known = _positions(Resolved(main, head, ""), there.get(place, ()), deleted)
        changes[place].update({n: united(known.get(n, NO_ROWS), rows) for n, rows in deleted.items()})
    states = BucketStates(main, head)
    out: list[CommitMessage] = []
    try:
        for place, files in changes.items():
            new, old = changed_vectors(main, place, there.get(place, ()), files, in_one_file=has_buckets(main))
            if new or old:
                total = states.of(place[0]).total_buckets
                done = Increment(new_index_files=tuple(new), deleted_index_files=tuple(old))
                out.append(CommitMessage(*place, main.options.bucket if total is None else total, done))
    except BaseException:
        remove_index_files(main, [e for m in out for e in m.data.new_index_files])
        raise
    return out
