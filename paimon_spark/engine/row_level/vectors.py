"""Rows that go → deletion vectors, and data files that go as a whole. Driver only.

Source: Java `deletionvectors/append/BaseAppendDeleteFileMaintainer`, Spark's `PaimonSparkWriter`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from paimon_spark.engine.commit.index_files import has_buckets
from paimon_spark.engine.row_level.dropped import DroppedRows
from paimon_spark.engine.tasks.commit_message import CommitMessage, Increment
from paimon_spark.format.metadata_files import deletion_vector
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.format.metadata_files.deletion_vector import Positions
from paimon_spark.format.metadata_files.index_manifest import IndexManifestEntry
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.bucket_state import BucketStates
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.vector_files import (
    changed_vectors,
    read_vectors,
    remove_index_files,
    united,
    vector_files,
)

Place = tuple[bytes, int]


def deletion_changes(
    handle: TableHandle,
    snapshot: Snapshot,
    dropped: Iterable[DroppedRows],
    rewritten: Sequence[CommitMessage] = (),
) -> list[CommitMessage]:
    """Messages that mark rows as deleted: new vectors united with those there were.

    A file that loses its last row is deleted itself, and its vector goes. So do the vectors of the files that
    `rewritten` deletes. After an error no new index file is left.

    Args:
        handle: the table.
        snapshot: what the rows were found in.
        dropped: the rows; several of one file may come apart.
        rewritten: messages of files written again.

    Raises:
        CorruptFileError, StorageError: vectors cannot be read, or not be written.
    """
    gathered: dict[Place, dict[str, DroppedRows]] = {}
    for rows in dropped:
        files = gathered.setdefault((rows.partition, rows.bucket), {})
        files[rows.file.file_name] = _together(files.get(rows.file.file_name), rows)
    gone: dict[Place, list[str]] = {}
    for message in rewritten:
        names = [f.file_name for f in message.data.deleted_files]
        gone.setdefault((message.partition, message.bucket), []).extend(names)
    before = vector_files(handle, snapshot)
    states = BucketStates(handle, snapshot)
    out: list[CommitMessage] = []
    try:
        for place in dict.fromkeys((*gathered, *gone)):
            increment = _changes(handle, place, before.get(place, []), gathered.get(place, {}), gone.get(place, ()))
            total = states.of(place[0]).total_buckets
            if increment:
                out.append(CommitMessage(*place, handle.options.bucket if total is None else total, increment))
    except BaseException:
        remove_index_files(handle, [e for m in out for e in m.data.new_index_files])
        raise
    return out


def _changes(
    handle: TableHandle,
    place: Place,
    before: Sequence[IndexManifestEntry],
    dropped: dict[str, DroppedRows],
    gone: Iterable[str],
) -> Increment:
    known: dict[str, Positions] = {}
    for entry in before:
        known.update(read_vectors(handle, entry, dropped))
    changes: dict[str, Positions | None] = dict.fromkeys(gone)
    deleted: list[DataFileMeta] = []
    for name, rows in dropped.items():
        positions = rows.positions
        if positions is not None:
            positions = united(known[name], positions) if name in known else positions
        if positions is None or len(positions) == rows.file.row_count:
            deleted.append(rows.file)
            positions = None
        changes[name] = positions
    new, replaced = changed_vectors(handle, place, before, changes, in_one_file=has_buckets(handle))
    return Increment(deleted_files=tuple(deleted), new_index_files=tuple(new), deleted_index_files=tuple(replaced))


def _together(a: DroppedRows | None, b: DroppedRows) -> DroppedRows:
    if a is None:
        return b
    first, second = a.positions, b.positions
    if first is None or second is None:
        return a if first is None else b
    positions = united(first, second)
    return replace(b, count=len(positions), vector=deletion_vector.encode(positions, bitmap64=True))
