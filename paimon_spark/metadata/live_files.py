"""Live files of a table: ADD and DELETE entries of manifests folded.

Source: Paimon spec, chapter Manifest; Java `manifest/FileEntry`, `operation/AbstractFileStoreScan`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import CorruptFileError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.metadata_files.manifest import FileKind, ManifestFileMeta
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.manifests import CACHE, read_manifests

I64 = npt.NDArray[np.int64]

_MOST_CODES: Final = 1 << 62
_WHICH: Final = ("partition", "bucket", "level", "embedded_index", "external_path", "extra_files")
"""What, beside its name, tells a file from others."""


def live_entries(handle: TableHandle, metas: Sequence[ManifestFileMeta], *, passing: bool = False) -> pa.Table:
    """The ADD entries of the manifests that no entry deletes, in manifest order.

    A file is the same when partition, bucket, level, name, extra files, embedded index and external path are. As in
    Java's scan the order of manifests does not count: a file is added once and deleted once. A DELETE
    without its ADD (whose manifest was left out) has no effect.

    Args:
        handle: the branch.
        metas: the manifests.
        passing: remember the outcome only until the next such call for the table: writers meet a new head each time.

    Raises:
        CorruptFileError: a file is added twice, or a manifest cannot be decoded.
        FileMissingError: a manifest is gone; the snapshot may have expired meanwhile.
    """
    names = tuple(m.file_name for m in metas)
    place = handle.store.identity, handle.layout.root
    found: pa.Table | None = CACHE.get(("live", *place, names))
    if found is not None:
        return found
    last: tuple[tuple[str, ...], pa.Table] | None = CACHE.get(("live for writers", *place)) if passing else None
    if last is not None and last[0] == names:
        return last[1]
    found = _fold(handle, metas, read_manifests(handle, metas))
    if passing:
        CACHE.put(("live for writers", *place), (names, found), found.nbytes)
    else:
        CACHE.put(("live", *place, names), found, found.nbytes)
    return found


def delta_entries(handle: TableHandle, metas: Sequence[ManifestFileMeta]) -> pa.Table:
    """All entries of the manifests of one commit, ADD and DELETE, not folded. Raises as `live_entries`."""
    return read_manifests(handle, metas)


def changelog_entries(handle: TableHandle, metas: Sequence[ManifestFileMeta]) -> pa.Table:
    """The entries of changelog manifests; changelog files are only ever added. Raises as `live_entries`."""
    return read_manifests(handle, metas)


def file_ids(entries: pa.Table, by: Sequence[str] = _WHICH) -> I64:
    """A number per entry, equal exactly for entries of one file, ADD or DELETE.

    Args:
        entries: of manifests.
        by: columns that, beside the name, tell files apart.
    """
    if len(entries) == 0:
        return np.empty(0, np.int64)
    return _file_ids(entries, _codes(entries.column("file_name")), by)


def _fold(handle: TableHandle, metas: Sequence[ManifestFileMeta], entries: pa.Table) -> pa.Table:
    deleted = _values(entries, "kind") == FileKind.DELETE
    names = _codes(entries.column("file_name"))
    if len(entries) == 0 or int(names.max()) + 1 == len(entries):
        return entries if not deleted.any() else _where(entries, ~deleted)
    file_ids = _file_ids(entries, names)
    deletes = np.bincount(file_ids[deleted], minlength=int(file_ids.max()) + 1)
    live = ~deleted & (deletes[file_ids] == 0)
    adds = np.bincount(file_ids[live])
    if len(adds) and adds.max() > 1:
        raise _added_twice(handle, metas, entries, np.flatnonzero(live & (file_ids == int(adds.argmax()))))
    return _where(entries, live)


def _where(entries: pa.Table, mask: npt.NDArray[np.bool_]) -> pa.Table:
    return entries.filter(arrow_numpy.boolean_array(mask))


def _file_ids(entries: pa.Table, names: I64, by: Sequence[str] = _WHICH) -> I64:
    """A number per entry, equal exactly for equal files."""
    ids, distinct = names, int(names.max()) + 1
    for name in by:
        column = entries.column(name)
        if column.null_count == len(column):
            continue
        codes = _codes(_joined(column) if pa.types.is_list(column.type) else column)
        count = int(codes.max()) + 1
        if count == 1:
            continue
        if distinct * count > _MOST_CODES:
            ids = np.unique(ids, return_inverse=True)[1]
            distinct = int(ids.max()) + 1
        ids = ids * count + codes
        distinct *= count
    return np.unique(ids, return_inverse=True)[1]


def _codes(column: pa.ChunkedArray) -> I64:
    """A number per value, from 0 up without gaps, equal exactly for equal values; null is a value."""
    if len(column) == 0:
        return np.empty(0, np.int64)
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.chunk(0)
    return arrow_numpy.values(encoded.indices).astype(np.int64)


def _joined(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Lists of file names as one text each. Names hold no NUL (the decoder checks it)."""
    return pc.binary_join(column, arrow_numpy.scalar("\0", pa.string()))


def _values(entries: pa.Table, name: str) -> npt.NDArray[Any]:
    chunks = [arrow_numpy.values(c) for c in entries.column(name).chunks]
    return np.concatenate(chunks) if chunks else np.empty(0, np.int8)


def _added_twice(
    handle: TableHandle, metas: Sequence[ManifestFileMeta], entries: pa.Table, rows: I64
) -> CorruptFileError:
    ends = np.cumsum([m.num_added_files + m.num_deleted_files for m in metas])
    places = np.searchsorted(ends, rows, side="right").tolist()
    paths = [handle.store.url(handle.layout.manifest_path(metas[i].file_name)) for i in places]
    name = entries.column("file_name")[int(rows[0])].as_py()
    return CorruptFileError(
        f"{handle.describe()}: file {name!r} is added twice, by {' and by '.join(dict.fromkeys(paths))}; "
        "reading it twice would give wrong rows",
        path=paths[-1],
        file_name=name,
    )
