"""Manifests and manifest lists of a table, read through a cache.

Metadata files never change and their names are never used again, so what was decoded once stays right for the
life of the process; Spark keeps its planning processes from query to query. The memory is bounded, and
nothing depends on it but speed.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

import pyarrow as pa

from paimon_spark.errors import CorruptFileError, FileMissingError
from paimon_spark.format.metadata_files import index_manifest, manifest
from paimon_spark.format.metadata_files.index_manifest import IndexManifestEntry
from paimon_spark.format.metadata_files.manifest import ENTRY_SCHEMA, ManifestFileMeta
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle

CACHE_BYTES: Final = int(os.environ.get("PAIMON_SPARK_METADATA_CACHE_BYTES", 256 << 20))
"""Most bytes of decoded metadata a process remembers; 0 remembers nothing."""

_IDLE_S: Final = 300.0
"""Seconds that decoded metadata is remembered without being asked for, once more comes in."""

_READ_BYTES: Final = 64 << 20
"""Bytes of manifests fetched and decoded at a time."""

_OBJECT_BYTES: Final = 500
"""What a list row or index entry is taken to occupy."""

V = TypeVar("V")


@dataclass(slots=True)
class _CacheEntry:
    """A value, its size, and when it was last asked for."""

    value: Any
    size_bytes: int
    used_s: float


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

    def get(self, key: object) -> Any | None:
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            found.used_s = self._clock()
            return found.value

    def put(self, key: object, value: Any, size_bytes: int) -> None:
        """Remember `value`, unless it alone is larger than the capacity."""
        with self._lock:
            self._drop(key)
            if size_bytes > self.capacity_bytes:
                return
            now = self._clock()
            self._values[key] = _CacheEntry(value, size_bytes, now)
            self.used_bytes += size_bytes
            while self.used_bytes > self.capacity_bytes or self._oldest().used_s < now - self._idle_s:
                self._drop(next(iter(self._values)))

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
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
    key = (handle.store.identity, path)
    found: tuple[V, ...] | None = CACHE.get(key)
    if found is None:
        data = handle.store.read(path)
        found = tuple(decode(data, handle.store.url(path)))
        CACHE.put(key, found, 4 * len(data) + _OBJECT_BYTES * (1 + len(found)))
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
    paths = {name: handle.layout.manifest_path(name) for name in names}
    found: dict[str, tuple[V, ...] | None] = {
        name: CACHE.get((handle.store.identity, path)) for name, path in paths.items()
    }
    wanted = [name for name, rows in found.items() if rows is None]
    try:
        data: list[bytes | None] = list(handle.store.read_many([paths[name] for name in wanted]))
    except FileMissingError:
        data = [_read_or_none(handle, paths[name]) for name in wanted]
    for name, raw in zip(wanted, data, strict=True):
        if raw is not None:
            found[name] = rows = tuple(decode(raw, handle.store.url(paths[name])))
            CACHE.put((handle.store.identity, paths[name]), rows, 4 * len(raw) + _OBJECT_BYTES * (1 + len(rows)))
    return found


def _read_or_none(handle: TableHandle, path: str) -> bytes | None:
    try:
        return handle.store.read(path)
    except FileMissingError:
        return None


def remember_list(handle: TableHandle, name: str, metas: Sequence[ManifestFileMeta], size_bytes: int) -> None:
    """Remember a manifest list that was written just now, so that the next commit need not read it."""
    key = (handle.store.identity, handle.layout.manifest_path(name))
    CACHE.put(key, tuple(metas), 4 * size_bytes + _OBJECT_BYTES * (1 + len(metas)))


def remember_manifest(handle: TableHandle, name: str, entries: pa.Table) -> None:
    """Remember a manifest that was written just now."""
    if entries.schema.equals(ENTRY_SCHEMA):
        # In one piece: else every merge would hand on the pieces of all before it.
        entries = entries.combine_chunks()
        key = (handle.store.identity, handle.layout.manifest_path(name))
        CACHE.put(key, _ManifestRows(_Batch(entries), 0, len(entries)), entries.nbytes + _OBJECT_BYTES)


class _ManifestRows(NamedTuple):
    """Where a manifest's entries lie: rows of a table that was decoded with others."""

    batch: _Batch
    start: int
    rows: int


@dataclass(frozen=True, slots=True, eq=False)
class _Batch:
    """Entries of manifests decoded together."""

    entries: pa.Table


def read_manifests(handle: TableHandle, metas: Sequence[ManifestFileMeta]) -> pa.Table:
    """The entries of manifests, in the order given, as `ENTRY_SCHEMA`.

    Raises:
        CorruptFileError: a manifest cannot be decoded, or has not the entries that its list says.
        FileMissingError: there is no such file; the snapshot may have expired meanwhile.
        UnknownFormatVersionError: written by a newer format.
    """
    identity = handle.store.identity
    paths = [handle.layout.manifest_path(m.file_name) for m in metas]
    places: dict[str, _ManifestRows] = {}
    for path in paths:
        found = CACHE.get((identity, path))
        if found is not None:
            places[path] = found
    wanted = {p: m for p, m in zip(paths, metas, strict=True) if p not in places}
    for group in _groups(wanted):
        places.update(_read(handle, group))
    return _assembled([places[p] for p in paths])


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


def _read(handle: TableHandle, metas: dict[str, ManifestFileMeta]) -> dict[str, _ManifestRows]:
    paths = list(metas)
    urls = [handle.store.url(p) for p in paths]
    data = handle.store.read_many(paths)
    entries, counts = manifest.decode_manifests(list(zip(urls, data, strict=True)))
    _check_counts(urls, list(metas.values()), counts)
    batch = _Batch(entries)
    places: dict[str, _ManifestRows] = {}
    start = 0
    bytes_each = entries.nbytes / max(len(entries), 1)
    for path, count in zip(paths, counts, strict=True):
        places[path] = place = _ManifestRows(batch, start, count)
        CACHE.put((handle.store.identity, path), place, int(bytes_each * count) + _OBJECT_BYTES)
        start += count
    return places


def _check_counts(urls: list[str], metas: list[ManifestFileMeta], counts: list[int]) -> None:
    """A container cut at the end of a block looks whole; only its list knows how many entries it had."""
    for url, meta, count in zip(urls, metas, counts, strict=True):
        listed = meta.num_added_files + meta.num_deleted_files
        if count != listed:
            raise CorruptFileError(
                f"{url} holds {count} entries, and its manifest list says {listed}; one of the two is damaged",
                path=url,
            )


def _assembled(places: list[_ManifestRows]) -> pa.Table:
    """One table of all rows; places that follow each other in a batch become one slice."""
    slices: list[pa.Table] = []
    i = 0
    while i < len(places):
        batch, start, rows = places[i]
        i += 1
        while i < len(places) and places[i].batch is batch and places[i].start == start + rows:
            rows += places[i].rows
            i += 1
        slices.append(batch.entries.slice(start, rows))
    if not slices:
        return pa.Table.from_batches([], ENTRY_SCHEMA)
    return slices[0] if len(slices) == 1 else pa.concat_tables(slices)
