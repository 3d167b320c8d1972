"""Data files that a commit deletes, as the manifests of their snapshot describe them.

Plans leave out what readers do not need; but a file in a manifest is known by its extra files and index bytes too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.engine.commit.entries import Touched
from paimon_spark.engine.tasks.commit_message import CommitMessage
from paimon_spark.errors import CommitConflictError
from paimon_spark.format.arrays.arrow_numpy import array_of, objects
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.format.metadata_files.manifest import files_of
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle

_Identity: TypeAlias = tuple[bytes, int, str]


def with_whole_metas(handle: TableHandle, snapshot: Snapshot, messages: Sequence[CommitMessage]) -> list[CommitMessage]:
    """The messages, their deleted files as in the manifests of `snapshot`. Driver only.

    Raises:
        CommitConflictError: the snapshot has no such file.
        FileMissingError: a manifest is gone; the snapshot may have expired meanwhile.
    """
    if not any(m.data.deleted_files for m in messages):
        return list(messages)
    known = _known(handle, snapshot, [m for m in messages if m.data.deleted_files])
    out = []
    for m in messages:
        files = tuple(
            _found(handle, snapshot, known, (m.partition, m.bucket, f.file_name)) for f in m.data.deleted_files
        )
        out.append(replace(m, data=replace(m.data, deleted_files=files)))
    return out


def _known(handle: TableHandle, snapshot: Snapshot, messages: Sequence[CommitMessage]) -> dict[_Identity, DataFileMeta]:
    partitions = array_of([m.partition for m in messages], pa.binary())
    entries = Touched(handle, partitions).live(snapshot)
    names = array_of([f.file_name for m in messages for f in m.data.deleted_files], pa.string())
    entries = entries.filter(pc.is_in(entries.column("file_name"), value_set=names))
    places = zip(
        *(objects(entries.column(name)) for name in ("partition", "bucket", "file_name")),
        files_of(entries),
        strict=False,
    )
    return {(partition, bucket, name): file for partition, bucket, name, file in places}


def _found(
    handle: TableHandle, snapshot: Snapshot, known: dict[_Identity, DataFileMeta], place: _Identity
) -> DataFileMeta:
    file = known.get(place)
    if file is None:
        raise CommitConflictError(
            f"data file {place[2]} of bucket {place[1]} is not in snapshot {snapshot.id} of {handle.describe()}, where "
            "its rows were read; read the table again and write again",
            table=handle.name,
            snapshot_id=snapshot.id,
        )
    return file
