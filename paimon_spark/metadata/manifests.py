"""Manifests and manifest lists of a table: read through a cache, written.

Metadata files never change and their names are never used again, so what was decoded once stays right for the
life of the process; Spark keeps its planning processes from query to query. The memory is bounded, and
nothing depends on it but speed.

Source: Paimon spec, chapter Manifest; Java `manifest/ManifestAvroWriter`, `manifest/ManifestList`,
`manifest/IndexManifestFile`, `utils/FileStorePathFactory`.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import CorruptFileError, FileMissingError
from paimon_spark.format import binary_row
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.metadata_files import index_manifest, manifest, manifest_writer
from paimon_spark.format.metadata_files.data_file import SimpleStats
from paimon_spark.format.metadata_files.index_manifest import IndexManifestEntry
from paimon_spark.format.metadata_files.manifest import BARE_SCHEMA, ENTRY_SCHEMA, FileKind, ManifestFileMeta
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.small_files import read_existing
from paimon_spark.spark_port import spread
from paimon_spark.types import RowType

CACHE_BYTES: Final = int(os.environ.get("PAIMON_SPARK_METADATA_CACHE_BYTES", 256 << 20))
"""Most bytes of decoded metadata a process remembers; 0 remembers nothing."""

_IDLE_S: Final = 300.0
"""Seconds that decoded metadata is remembered without being asked for, once more comes in."""
_BRIEF_S: Final = 20.0
"""The same, of small entries that were asked for only when they were new, as those of each trigger of a stream are."""
_BRIEF_BYTES: Final = 16 << 10
_SWEEP_S: Final = 5.0
_MOST_OF_A_GROUP: Final = 256
"""Entries of a group that are remembered: each snapshot has lists of its own, and rereading one costs little."""

_MANY_BYTES: Final = 256 << 20
"""Bytes of manifests that are worth a Spark job."""
_READ_BYTES: Final = 8 << 20
"""Bytes of manifests fetched and decoded at a time."""

_OBJECT_BYTES: Final = 500
"""What a list row or index entry is taken to occupy."""

V = TypeVar("V")


@dataclass(slots=True)
class _CacheEntry:
    """A value, its size, and when it was made and last asked for."""

    value: Any
    size_bytes: int
    made_s: float
    used_s: float

    def is_idle(self, now: float, idle_s: float) -> bool:
        """Whether it was not asked for in so many seconds, fewer if it is small and was only asked for when new."""
        brief = self.size_bytes <= _BRIEF_BYTES and self.used_s - self.made_s < _SWEEP_S
        return self.used_s < now - (min(idle_s, _BRIEF_S) if brief else idle_s)


class Cache:
    """Values by key, the least recently used dropped first. Safe to share between threads.

    Values that were not used for a while are dropped when something is put: processes of streams meet new metadata at
    each trigger, and would hold all of it up to the capacity.
    """

    def __init__(
        self, capacity_bytes: int, idle_s: float = _IDLE_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.capacity_bytes = capacity_bytes
        self.used_bytes = 0
        self._idle_s, self._clock = idle_s, clock
        self._values: OrderedDict[Any, _CacheEntry] = OrderedDict()
        self._lock = threading.Lock()
        self._swept_s = clock()
        self._groups: dict[str, deque[Any]] = {}

    def get(self, key: object) -> Any | None:
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            found.used_s = self._clock()
            return found.value

    def put(self, key: object, value: Any, size_bytes: int, *, group: str | None = None) -> None:
        """Remember `value`, unless it alone is larger than the capacity; of a `group`, only the last ones put."""
        with self._lock:
            if group is not None:
                members = self._groups.setdefault(group, deque())
                members.append(key)
                if len(members) > _MOST_OF_A_GROUP:
                    self._drop(members.popleft())
            self._drop(key)
            if size_bytes > self.capacity_bytes:
                return
            now = self._clock()
            self._values[key] = _CacheEntry(value, size_bytes, now, now)
            self.used_bytes += size_bytes
            while self.used_bytes > self.capacity_bytes or self._oldest().used_s < now - self._idle_s:
                self._drop(next(iter(self._values)))
            if self._swept_s < now - _SWEEP_S:
                self._swept_s = now
                for idle in [k for k, entry in self._values.items() if entry.is_idle(now, self._idle_s)]:
                    self._drop(idle)

    def forget(self, keys: Iterable[object]) -> None:
        """Drop these."""
        with self._lock:
            for key in keys:
                self._drop(key)

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
            self._groups.clear()
            self.used_bytes = 0

    def _drop(self, key: object) -> None:
        found = self._values.pop(key, None)
        if found is not None:
            self.used_bytes -= found.size_bytes

    def _oldest(self) -> _CacheEntry:
        return next(iter(self._values.values()))


CACHE: Final = Cache(CACHE_BYTES)
"""Everything decoded from metadata files in this process."""


def data_manifests(handle: TableHandle, snapshot: Snapshot) -> list[ManifestFileMeta]:
    """The manifests that make up the snapshot's state: base, then delta."""
    base = read_manifest_list(handle, snapshot.base_manifest_list)
    return [*base, *read_manifest_list(handle, snapshot.delta_manifest_list)]


def delta_manifests(handle: TableHandle, snapshot: Snapshot) -> list[ManifestFileMeta]:
    """The manifests of what the snapshot's commit added and deleted."""
    return read_manifest_list(handle, snapshot.delta_manifest_list)


def changelog_manifests(handle: TableHandle, snapshot: Snapshot) -> list[ManifestFileMeta]:
    """The manifests of the snapshot's changelog files; none when it has no changelog."""
    name = snapshot.changelog_manifest_list
    return [] if name is None else read_manifest_list(handle, name)


def read_manifest_list(handle: TableHandle, name: str) -> list[ManifestFileMeta]:
    """The rows of a manifest list, in order.

    Raises:
        CorruptFileError: names the file that cannot be decoded.
        FileMissingError: there is no such file; the snapshot may have expired meanwhile.
        UnknownFormatVersionError: written by a newer format.
    """
    return list(_remembered(handle, name, manifest.decode_manifest_list))


def read_index_manifest(handle: TableHandle, name: str) -> list[IndexManifestEntry]:
    """The index files an index manifest names. Raises as `read_manifest_list`."""
    return list(_remembered(handle, name, index_manifest.decode))


def _remembered(handle: TableHandle, name: str, decode: Callable[[bytes, str], list[V]]) -> tuple[V, ...]:
    path = handle.layout.manifest_path(name)
    found: tuple[V, ...] | None = CACHE.get((handle.store.identity, path))
    if found is None:
        data = handle.store.read(path)
        found = tuple(decode(data, handle.store.url(path)))
        remember_list(handle, name, found, len(data))
    return found


def find_manifest_lists(handle: TableHandle, names: Sequence[str]) -> dict[str, tuple[ManifestFileMeta, ...] | None]:
    """The rows of many manifest lists, fetched together, by name; None for those that are not there.

    Raises as `read_manifest_list`, but for missing files.
    """
    return _find(handle, names, manifest.decode_manifest_list)


def find_index_manifests(handle: TableHandle, names: Sequence[str]) -> dict[str, tuple[IndexManifestEntry, ...] | None]:
    """As `find_manifest_lists`, of index manifests."""
    return _find(handle, names, index_manifest.decode)


def _find(
    handle: TableHandle, names: Sequence[str], decode: Callable[[bytes, str], list[V]]
) -> dict[str, tuple[V, ...] | None]:
    paths = {handle.layout.manifest_path(name): name for name in names}
    found: dict[str, tuple[V, ...] | None] = {
        name: CACHE.get((handle.store.identity, path)) for path, name in paths.items()
    }
    wanted = [path for path, name in paths.items() if found[name] is None]
    for path, data in read_existing(handle.store, wanted):
        found[paths[path]] = rows = tuple(decode(data, handle.store.url(path)))
        remember_list(handle, paths[path], rows, len(data))
    return found


def remember_list(handle: TableHandle, name: str, rows: Sequence[Any], size_bytes: int) -> None:
    """Remember the rows of a manifest list or index manifest, whose file has so many bytes."""
    key = (handle.store.identity, handle.layout.manifest_path(name))
    CACHE.put(key, tuple(rows), 4 * size_bytes + _OBJECT_BYTES * (1 + len(rows)), group="manifest lists")


def forget(handle: TableHandle, paths: Iterable[str]) -> None:
    """Drop what was decoded of metadata files that are deleted, or of which a newer snapshot has others."""
    CACHE.forget((handle.store.identity, path) for path in paths)


def remember_manifest(handle: TableHandle, name: str, entries: pa.Table) -> None:
    """Remember a manifest that was written just now."""
    if entries.schema.equals(ENTRY_SCHEMA):
        # In one piece: else every merge would hand on the pieces of all before it.
        entries = entries.combine_chunks()
        key = (handle.store.identity, handle.layout.manifest_path(name))
        CACHE.put(key, _ManifestRows(entries, 0, len(entries)), entries.nbytes + _OBJECT_BYTES)


class _ManifestRows(NamedTuple):
    """Where a manifest's entries lie: rows of a table of manifests decoded together."""

    entries: pa.Table
    start: int
    rows: int


def read_manifests(handle: TableHandle, metas: Sequence[ManifestFileMeta], *, statistics: bool = True) -> pa.Table:
    """The entries of manifests, in the order given, as `ENTRY_SCHEMA`; without `statistics`, lacking `STATISTICS`.

    Raises as `read_manifest_list`; CorruptFileError also when a manifest lacks entries that its list counts.
    """
    identity = handle.store.identity
    paths = [handle.layout.manifest_path(m.file_name) for m in metas]
    places: dict[str, _ManifestRows] = {}
    for path in paths:
        found = CACHE.get((identity, path))
        if found is None and not statistics:
            found = CACHE.get((identity, path, _BARE))
        if found is not None:
            places[path] = found
    wanted = {p: m for p, m in zip(paths, metas, strict=True) if p not in places}
    here = sum(m.file_size for m in wanted.values()) < _MANY_BYTES
    groups = list(_groups(wanted))
    read = partial(_read, handle, statistics=statistics)
    for group, found in zip(groups, spread(read, groups, here=here), strict=True):
        places.update(_placed(handle, group, *found, statistics=statistics))
    return _assembled([places[p] for p in paths], (ENTRY_SCHEMA if statistics else BARE_SCHEMA).names)


_BARE: Final = "bare"
"""Ends the key of a manifest that is remembered without statistics."""


def _groups(metas: dict[str, ManifestFileMeta]) -> Iterator[dict[str, ManifestFileMeta]]:
    group: dict[str, ManifestFileMeta] = {}
    size = 0
    for path, meta in metas.items():
        if group and size + meta.file_size > _READ_BYTES:
            yield group
            group, size = {}, 0
        group[path] = meta
        size += meta.file_size
    if group:
        yield group


def _read(handle: TableHandle, metas: dict[str, ManifestFileMeta], *, statistics: bool) -> tuple[pa.Table, list[int]]:
    """The entries of manifests, and how many each has. Executor, or in process."""
    paths = list(metas)
    urls = [handle.store.url(p) for p in paths]
    data = handle.store.read_many(paths)
    return manifest.decode_manifests(list(zip(urls, data, strict=True)), statistics=statistics)


def _placed(
    handle: TableHandle, metas: dict[str, ManifestFileMeta], entries: pa.Table, counts: list[int], *, statistics: bool
) -> dict[str, _ManifestRows]:
    """Where the entries of each manifest lie, which is remembered. Raises CorruptFileError: some are missing."""
    places: dict[str, _ManifestRows] = {}
    start = 0
    bytes_each = entries.nbytes / max(len(entries), 1)
    for (path, meta), count in zip(metas.items(), counts, strict=True):
        listed = meta.num_added_files + meta.num_deleted_files
        if count != listed:  # a container cut at the end of a block looks whole
            url = handle.store.url(path)
            raise CorruptFileError(
                f"{url} holds {count} entries, and its manifest list says {listed}; one of the two is damaged",
                path=url,
            )
        places[path] = place = _ManifestRows(entries, start, count)
        key = (handle.store.identity, path) if statistics else (handle.store.identity, path, _BARE)
        CACHE.put(key, place, int(bytes_each * count) + _OBJECT_BYTES)
        start += count
    return places


def _assembled(places: list[_ManifestRows], columns: list[str]) -> pa.Table:
    """One table of these columns of all rows; places that follow each other in a batch become one slice."""
    slices: list[pa.Table] = []
    i = 0
    while i < len(places):
        entries, start, rows = places[i]
        i += 1
        while i < len(places) and places[i].entries is entries and places[i].start == start + rows:
            rows += places[i].rows
            i += 1
        slices.append(entries.select(columns).slice(start, rows))
    if not slices:
        return pa.Table.from_batches([], ENTRY_SCHEMA).select(columns)
    return slices[0] if len(slices) == 1 else pa.concat_tables(slices)


_NO_SCHEMA: Final = -(1 << 63)


def write_manifest(handle: TableHandle, entries: pa.Table) -> list[ManifestFileMeta]:
    """Write entries, in order, into manifests of about option `manifest.target-file-size`; none for no entries.

    Args:
        handle: the table.
        entries: as `ENTRY_SCHEMA`.

    Raises:
        StorageError: a manifest cannot be written; those before it are deleted again, as far as that goes.
        InvalidOptionError: option `manifest.format` names no format, or `manifest.compression` no codec of it.
    """
    options = handle.options.manifests
    prefix = f"manifest-{uuid.uuid4()}-"
    metas: list[ManifestFileMeta] = []
    start = 0
    encoded = manifest_writer.encode_manifests(
        entries, options.compression, options.zstd_level, options.format.value, target_bytes=options.target_bytes
    )
    try:
        for rows, data in encoded:
            name = f"{prefix}{len(metas)}"
            part = entries.slice(start, rows)
            metas.append(describe(handle.schema.partition_type, name, len(data), part))
            handle.store.write(handle.layout.manifest_path(name), data)
            remember_manifest(handle, name, part)
            start += rows
    except BaseException:
        handle.store.delete_many([handle.layout.manifest_path(m.file_name) for m in metas])
        raise
    return metas


def write_manifest_list(handle: TableHandle, metas: Sequence[ManifestFileMeta]) -> tuple[str, int]:
    """Write a manifest list; returns its name and its bytes. Raises as `write_manifest`."""
    options = handle.options.manifests
    data = manifest_writer.encode_manifest_list(metas, options.compression, options.zstd_level, options.format.value)
    name = f"manifest-list-{uuid.uuid4()}-0"
    handle.store.write(handle.layout.manifest_path(name), data)
    remember_list(handle, name, metas, len(data))
    return name, len(data)


def write_index_manifest(handle: TableHandle, entries: Sequence[IndexManifestEntry]) -> str:
    """Write an index manifest; returns its name. Raises as `write_manifest`."""
    options = handle.options.manifests
    data = index_manifest.encode(entries, options.compression, options.zstd_level, options.format.value)
    name = f"index-manifest-{uuid.uuid4()}-0"
    handle.store.write(handle.layout.manifest_path(name), data)
    return name


def describe(partition_type: RowType, name: str, size_bytes: int, entries: pa.Table) -> ManifestFileMeta:
    """The row of a manifest list for a manifest of `entries`."""
    deleted = int(np.count_nonzero(column_values(entries, "kind") == FileKind.DELETE))
    buckets, levels = column_values(entries, "bucket"), column_values(entries, "level")
    schema_ids = column_values(entries, "schema_id")
    some = len(entries) > 0
    min_row_id, max_row_id = _row_ids(entries)
    return ManifestFileMeta(
        name,
        size_bytes,
        len(entries) - deleted,
        deleted,
        partition_stats(partition_type, entries.column("partition")),
        int(schema_ids.max()) if some else _NO_SCHEMA,
        int(buckets.min()) if some else None,
        int(buckets.max()) if some else None,
        int(levels.min()) if some else None,
        int(levels.max()) if some else None,
        min_row_id,
        max_row_id,
    )


def _row_ids(entries: pa.Table) -> tuple[int | None, int | None]:
    first = entries.column("first_row_id")
    if len(entries) == 0 or first.null_count:
        return None, None
    ids = column_values(entries, "first_row_id")
    return int(ids.min()), int((ids + column_values(entries, "row_count")).max()) - 1


def partition_stats(partition_type: RowType, partitions: pa.ChunkedArray) -> SimpleStats:
    """Least and greatest value and nulls of every partition column, over the partitions of entries.

    Source: Java `format/SimpleStatsCollector` with full statistics; NaN is the greatest number, as there.
    """
    types = [f.type for f in partition_type.fields]
    if not types:
        return SimpleStats(binary_row.EMPTY, binary_row.EMPTY, ())
    encoded = partitions.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.chunk(0) if encoded.num_chunks else pa.array([], pa.binary()).dictionary_encode()
    distinct = encoded.dictionary
    counts = np.bincount(arrow_numpy.values(encoded.indices), minlength=len(distinct))
    least: list[Any] = []
    greatest: list[Any] = []
    nulls: list[int] = []
    for i, t in enumerate(types):
        column = binary_row.decode_column(distinct, i, t, exact=False)
        valid = arrow_numpy.validity(column)
        nulls.append(int(counts[~valid].sum()))
        bounds = _bounds(column)
        ends = [binary_row.decode(distinct[n].as_py(), types, raw_timestamps=True)[i] for n in bounds]
        least.append(ends[0] if ends else None)
        greatest.append(ends[-1] if ends else None)
    return SimpleStats(binary_row.encode(least, types), binary_row.encode(greatest, types), tuple(nulls))


def _bounds(column: pa.Array) -> list[int]:
    """The places of the least and the greatest value; none when all are null."""
    count = len(column) - column.null_count
    if count == 0:
        return []
    order = arrow_numpy.values(pc.array_sort_indices(column))
    return [int(order[0]), int(order[count - 1])]


def column_values(entries: pa.Table, name: str) -> npt.NDArray[Any]:
    """A column of numbers without nulls, in one piece."""
    chunks = [arrow_numpy.values(c) for c in entries.column(name).chunks]
    return np.concatenate(chunks) if chunks else np.empty(0, np.int64)


def contradicts(before: Snapshot, after: Snapshot) -> bool:
    """Whether the row counts of both show that `after` was not made on `before`. Reads nothing."""
    return not after.may_follow(before.total_record_count)


def follows(handle: TableHandle, before: Snapshot, after: Snapshot) -> bool | None:
    """Whether `after` was made on `before`; None when unknown. Reads three manifest lists.

    Neighbours may not follow each other: other engines join two histories, by a fast-forward that copies over existing
    files or a commit while main is replaced.
    """
    if after.id != before.id + 1 or contradicts(before, after):
        return False
    try:
        added = _manifest_names(handle, before.delta_manifest_list)
        base = _manifest_names(handle, after.base_manifest_list)
        if added and added <= base:
            return True
        earlier = _manifest_names(handle, before.base_manifest_list)
        if earlier | added <= base:
            return True
    except FileMissingError:
        return None
    # A commit may merge manifests into new ones: then there are fewer, or all are new.
    rewritten = len(base) > 1 and not base & (earlier | added)
    return None if rewritten or len(base) < len(earlier | added) else False


def _manifest_names(handle: TableHandle, manifest_list: str) -> set[str]:
    return {m.file_name for m in read_manifest_list(handle, manifest_list)}
