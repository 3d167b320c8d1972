"""Find the files that are alive in any of many snapshots, by counting manifest entries.

Two snapshots differ only by the manifests that they do not share, so only those are read, each once. Files are the same
when partition, bucket and name are equal: levels may change. Counts are relative to a first snapshot: of the files not
alive there, those with a count above zero are alive in the other one.

Source of the identity: Java `operation/FileDeletionBase.containsDataFile`.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import FileMissingError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_numpy import Bool, array_of, scalar_of
from paimon_spark.format.metadata_files.manifest import FileKind, ManifestFileMeta
from paimon_spark.maintenance.roots import Ids, difference, grouped, union
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.manifests import Cache, read_manifests

I64 = npt.NDArray[np.int64]

_KEYS: Final = pa.large_string()
_FIRST: Final = ("partition", "bucket", "file_name", "file_size", "extra_files", "external_path")
"""Columns kept of each file: its location and size."""
_KEY_COLUMNS: Final = ("partition", "bucket", "file_name")
_MANY: Final = 1000
"""Entries of a manifest from which on its names are remembered."""
_NAMES: Final = Cache(64 << 20)
"""Hashes of the names in manifests, 8 bytes each, so that expiry after each of many commits of a process need not read
all manifests of other branches each time. A manifest never changes."""


@dataclass(slots=True)
class Files:
    """Numbers of all files seen so far, with their names and locations."""

    _keys: pa.Array = field(default_factory=lambda: array_of([], _KEYS))
    _firsts: list[pa.Table] = field(default_factory=list)
    _partitions: dict[bytes, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._keys)

    def numbered(self, entries: pa.Table) -> I64:
        """The number of each entry's file."""
        keys = self._key(entries)
        found = pc.index_in(keys, value_set=self._keys)
        if found.null_count:
            fresh = pc.unique(keys.filter(pc.is_null(found)))
            start = len(self._keys)
            self._keys = pa.concat_arrays([self._keys, fresh])
            found = pc.index_in(keys, value_set=self._keys)
            numbers, rows = np.unique(arrow_numpy.values(found), return_index=True)
            self._firsts.append(entries.select(_FIRST).take(arrow_numpy.take_indices(rows[numbers >= start])))
        return arrow_numpy.values(found).astype(np.int64)

    def among(self, entries: pa.Table, numbers: I64, names: pa.Array) -> tuple[I64, I64]:
        """The rows of entries whose file is one of `numbers`, which have these names; and the number of each."""
        # Names exclude most rows; keys, which take time to compute, are computed of the rest.
        is_named = pc.is_in(entries.column("file_name"), value_set=names).combine_chunks()
        rows = np.flatnonzero(arrow_numpy.values(is_named))
        if len(rows) == 0:
            return _NOTHING
        keys = self._key(entries.select(_KEY_COLUMNS).take(arrow_numpy.take_indices(rows)))
        found = pc.index_in(keys, value_set=self._keys.take(arrow_numpy.take_indices(numbers)))
        valid = arrow_numpy.validity(found)
        return rows[valid], numbers[arrow_numpy.values(found)[valid]]

    def table(self, numbers: I64) -> pa.Table:
        """The files with these numbers: `_FIRST` columns of manifest entries."""
        return pa.concat_tables(self._firsts).take(arrow_numpy.take_indices(numbers)).combine_chunks()

    def _key(self, entries: pa.Table) -> pa.Array:
        partition = entries.column("partition").combine_chunks().dictionary_encode()
        known = self._partitions
        codes = np.array([known.setdefault(p, len(known)) for p in partition.dictionary.to_pylist()], np.int64)
        buckets = arrow_numpy.values(entries.column("bucket").combine_chunks()).astype(np.int64)
        places = codes[arrow_numpy.values(partition.indices)] * (1 << 33) + buckets
        names = entries.column("file_name").combine_chunks().cast(_KEYS)
        place = arrow_numpy.fixed_array(places, pa.int64()).cast(_KEYS)
        return pc.binary_join_element_wise(names, place, scalar_of("/", _KEYS))


@dataclass(slots=True)
class Counts:
    """Changes of each manifest to the counts of files, and the missing manifests."""

    handle: TableHandle
    metas: Sequence[ManifestFileMeta]
    files: Files = field(default_factory=Files)
    missing: set[int] = field(default_factory=set)
    _of: dict[int, tuple[I64, I64]] = field(default_factory=dict)

    def load(self, manifests: Collection[int], only: Bool | None = None) -> None:
        """Read manifests (numbers in `metas`) not read before; with `only`, just entries of these files."""
        wanted = [m for m in sorted(manifests) if m not in self._of]
        if only is not None:
            self._load_some(wanted, np.flatnonzero(only))
            return
        for group, ends, entries in self._entries(wanted):
            numbers, signs = self.files.numbered(entries), _signs(entries)
            for manifest, own, sign in zip(group, np.split(numbers, ends), np.split(signs, ends), strict=True):
                self._of[manifest] = own.copy(), sign.copy()  # not a view, which would keep the whole group's

    def _load_some(self, wanted: Sequence[int], numbers: I64) -> None:
        """Read the entries of files with these numbers."""
        if len(numbers) == 0:
            return
        names = _column(self.files.table(numbers), "file_name").cast(pa.string()).unique()
        hashes = name_hashes(names)
        unread = []
        for manifest in wanted:
            known = _NAMES.get(self._key(manifest))
            if known is None or np.isin(hashes, known).any():
                unread.append(manifest)
            else:
                self._of[manifest] = _NOTHING
        for group, ends, entries in self._entries(unread):
            rows, found = self.files.among(entries, numbers, names)
            signs = _signs(entries)[rows]
            at = np.searchsorted(rows, ends)
            for manifest, own, sign in zip(group, np.split(found, at), np.split(signs, at), strict=True):
                self._of[manifest] = own.copy(), sign.copy()
            for manifest, texts in zip(group, _split(entries.column("file_name"), ends), strict=True):
                if len(texts) >= _MANY:
                    known = np.unique(name_hashes(texts))
                    _NAMES.put(self._key(manifest), known, known.nbytes)

    def _key(self, manifest: int) -> Hashable:
        return self.handle.store.identity, self.handle.layout.manifest_path(self.metas[manifest].file_name)

    def added(self, manifest: int) -> I64:
        """The files that a manifest's ADD entries name."""
        numbers, signs = self._of.get(manifest, _NOTHING)
        return numbers[signs > 0]

    def named(self, manifest: int) -> I64:
        """The files that a manifest's entries name."""
        return self._of.get(manifest, _NOTHING)[0]

    def alive(self, first: Ids, states: Sequence[Ids]) -> Bool:
        """Which files, by number, are alive in any of `states` but not in `first`. Their manifests must be loaded."""
        # ADD less DELETE of the manifests by which a state differs from `first`: above zero only for files that it has
        # and `first` has not.
        counts = np.zeros(len(self.files), np.int64)
        found = np.zeros(len(self.files), np.bool_)
        for plus, minus in steps(first, states):
            changes = [(n, s) for m in plus.tolist() for n, s in [self._of.get(m, _NOTHING)]]
            changes += [(n, -s) for m in minus.tolist() for n, s in [self._of.get(m, _NOTHING)]]
            if changes:
                touched = np.concatenate([n for n, _ in changes])
                np.add.at(counts, touched, np.concatenate([s for _, s in changes]))
                found[touched[counts[touched] > 0]] = True
        return found

    def _entries(self, numbers: Sequence[int]) -> Iterator[tuple[list[int], I64, pa.Table]]:
        """Yield manifests decoded together: their numbers, the row where each but the last ends, and the entries."""
        for group in grouped(numbers, lambda number: self.metas[number].file_size):
            try:
                entries = read_manifests(self.handle, [self.metas[n] for n in group])
            except FileMissingError:
                yield from self._one_by_one(group)
                continue
            rows = [self.metas[n].num_added_files + self.metas[n].num_deleted_files for n in group]
            yield group, np.cumsum(np.array(rows[:-1], np.int64)), entries

    def _one_by_one(self, group: Sequence[int]) -> Iterator[tuple[list[int], I64, pa.Table]]:
        for n in group:
            try:
                yield [n], _NOTHING[0], read_manifests(self.handle, [self.metas[n]])
            except FileMissingError:
                self.missing.add(n)
                self._of[n] = _NOTHING


def name_hashes(names: pa.Array) -> npt.NDArray[np.uint64]:
    """Hash texts; the same in every process."""
    starts, data = arrow_numpy.byte_slices(names)
    width = -(-max(int(np.diff(starts).max(initial=0)), 1) // 8) * 8
    places = starts[:-1, None] + np.arange(width)
    padded = np.append(data, np.uint8(0))[np.where(places < starts[1:, None], places, len(data))]
    words = np.ascontiguousarray(padded).view(np.uint64)
    # Odd factors, and always the same ones: zeros after a text add nothing, so the width plays no part.
    factors = np.random.default_rng(1).integers(0, 1 << 62, words.shape[1], np.uint64) * np.uint64(2) + np.uint64(1)
    hashes: npt.NDArray[np.uint64] = (words * factors).sum(axis=1, dtype=np.uint64)
    return hashes


def _split(column: pa.ChunkedArray, ends: I64) -> Iterator[pa.Array]:
    bounds = [0, *ends.tolist(), len(column)]
    for start, end in pairwise(bounds):
        yield column.slice(start, end - start).combine_chunks()


def _signs(entries: pa.Table) -> I64:
    return np.where(arrow_numpy.values(_column(entries, "kind")) == FileKind.ADD, 1, -1).astype(np.int64)


_NOTHING: Final = (np.empty(0, np.int64), np.empty(0, np.int64))


def steps(first: Ids, states: Sequence[Ids]) -> Iterator[tuple[Ids, Ids]]:
    """Yield for each state the manifests that it has and the previous one lacks, and the reverse."""
    before = first
    for state in states:
        yield difference(state, before), difference(before, state)
        before = state


def changed_manifests(first: Ids, states: Sequence[Ids]) -> Ids:
    """The manifests by which neighbouring states differ, ascending."""
    return union(part for step in steps(first, states) for part in step)


def _column(entries: pa.Table, name: str) -> pa.Array:
    return entries.column(name).combine_chunks()
