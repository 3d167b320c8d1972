"""Which files two snapshots do not share, and which have other deletion vectors: vectors over manifest entries.

What both snapshots have of one manifest is the same, so only the manifests of one side are read: few, where the two
share much. A file is told by its place and name; one that compaction only moved to another level is the same file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.format.arrays.arrow_numpy import fixed_array, scalar, take_indices, values
from paimon_spark.format.metadata_files.index_manifest import DeletionVectorRange, IndexManifestEntry
from paimon_spark.format.metadata_files.manifest import ENTRY_SCHEMA, FileKind
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.live_files import file_ids, live_entries
from paimon_spark.metadata.manifests import data_manifests, read_manifests
from paimon_spark.metadata.vector_files import read_vectors, vector_files

_COLUMNS: Final = ("partition", "bucket", "file_name", "level", "row_count", "file_size")
_PLACE: Final = ("partition", "bucket", "external_path")
ADDED, REMOVED, CHANGED = "added", "removed", "changed"
_NAMES: Final = (ADDED, REMOVED, CHANGED)

SCHEMA: Final = pa.schema(
    [
        ("change", pa.string()),
        *((name, ENTRY_SCHEMA.field(name).type) for name in _COLUMNS),
        ("deleted_rows", pa.int64()),
    ]
)
"""One row for each file that differs: `change` is added, removed or changed; `partition` is BinaryRow bytes;
`deleted_rows` is how many rows more its deletion vector deletes, 0 unless it is changed."""

I64 = npt.NDArray[np.int64]


class Version(NamedTuple):
    """A snapshot, and the branch that it is read on; None is an empty table."""

    handle: TableHandle
    snapshot: Snapshot | None


class _Vector(NamedTuple):
    """Where the deletion vector of a data file lies."""

    handle: TableHandle
    entry: IndexManifestEntry
    range: DeletionVectorRange


def changed_files(old: Version, new: Version) -> pa.Table:
    """The files that differ, as `SCHEMA`: those only in `new`, only in `old`, and in both with other vectors.

    No data file is opened. Files of deletion vectors are, where nothing else tells whether two are the same.

    Raises:
        CorruptFileError: a manifest or file of deletion vectors cannot be read.
        FileMissingError: a manifest is gone; the snapshot may have expired meanwhile.
    """
    apart = _apart(old, new)
    vectors = _changed_vectors(old, new)
    if not vectors:
        return apart
    return pa.concat_tables([apart, _with_changed_vectors(new, vectors, apart)])


def _apart(old: Version, new: Version) -> pa.Table:
    sides = [
        {} if v.snapshot is None else {m.file_name: m for m in data_manifests(v.handle, v.snapshot)} for v in (old, new)
    ]
    tables, signs = [], []
    for (mine, others), version, sign in zip((sides, sides[::-1]), (old, new), (-1, 1), strict=True):
        metas = [meta for name, meta in mine.items() if name not in others]
        entries = read_manifests(version.handle, metas)
        kinds = values(entries.column("kind").combine_chunks()) if len(entries) else np.empty(0, np.int8)
        tables.append(entries)
        signs.append(np.where(kinds == FileKind.DELETE, -sign, sign).astype(np.int64))
    entries, sign_of = pa.concat_tables(tables), np.concatenate(signs)
    ids = file_ids(entries, _PLACE)
    # An entry of each file; the last, as its level is where the file came to lie.
    last = np.zeros(int(ids.max()) + 1 if len(ids) else 0, np.int64)
    last[ids] = np.arange(len(ids))
    net = np.zeros(len(last), np.int64)
    np.add.at(net, ids, sign_of)
    picked = [last[net > 0], last[net < 0]]
    return pa.concat_tables(
        [_rows(entries, p, change, np.zeros(len(p), np.int64)) for p, change in zip(picked, _NAMES, strict=False)]
    )


def _rows(entries: pa.Table, picked: I64, change: str, deleted: I64) -> pa.Table:
    chosen = entries.select(_COLUMNS).take(take_indices(np.sort(picked)))
    columns = [pa.repeat(scalar(change, pa.string()), len(picked)), *chosen.columns, fixed_array(deleted, pa.int64())]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _changed_vectors(old: Version, new: Version) -> dict[tuple[bytes, int, str], int]:
    """Data files whose vectors differ, by partition, bucket and name: how many rows more are deleted in `new`."""
    if (old.snapshot and old.snapshot.index_manifest) == (new.snapshot and new.snapshot.index_manifest):
        return {}
    index = [vector_files(v.handle, v.snapshot) for v in (old, new)]
    both = [{(e.partition, e.bucket, e.file_name) for entries in side.values() for e in entries} for side in index]
    shared = both[0] & both[1]
    before, after = (_vectors(v.handle, side, shared) for v, side in zip((old, new), index, strict=True))
    out: dict[tuple[bytes, int, str], int] = {}
    unclear: list[tuple[bytes, int, str]] = []
    for key in before.keys() | after.keys():
        counts = [0 if key not in side else side[key].range.cardinality for side in (before, after)]
        if counts[0] is None or counts[1] is None or counts[0] == counts[1]:
            unclear.append(key)
        else:
            out[key] = counts[1] - counts[0]
    if unclear:
        first, second = (_read({k: side[k] for k in unclear if k in side}) for side in (before, after))
        nothing = np.empty(0, np.int64)
        for key in unclear:
            a, b = first.get(key, nothing), second.get(key, nothing)
            if not np.array_equal(a, b):
                out[key] = len(b) - len(a)
    return out


def _vectors(
    handle: TableHandle,
    index: Mapping[tuple[bytes, int], Iterable[IndexManifestEntry]],
    shared: set[tuple[bytes, int, str]],
) -> dict[tuple[bytes, int, str], _Vector]:
    return {
        (*place, r.data_file_name): _Vector(handle, entry, r)
        for place, entries in index.items()
        for entry in entries
        if (*place, entry.file_name) not in shared
        for r in entry.deletion_vectors or ()
    }


def _read(vectors: Mapping[tuple[bytes, int, str], _Vector]) -> dict[tuple[bytes, int, str], I64]:
    by_file: dict[tuple[bytes, int, str], list[tuple[bytes, int, str]]] = {}
    for key, vector in vectors.items():
        by_file.setdefault((*key[:2], vector.entry.file_name), []).append(key)
    out: dict[tuple[bytes, int, str], I64] = {}
    for keys in by_file.values():
        vector = vectors[keys[0]]
        found = read_vectors(vector.handle, vector.entry, {key[2] for key in keys})
        out.update({key: np.asarray(found[key[2]], np.int64) for key in keys})
    return out


def _with_changed_vectors(new: Version, vectors: Mapping[tuple[bytes, int, str], int], apart: pa.Table) -> pa.Table:
    """The data files of the vectors, but for those that one side only has: what goes takes its vector along."""
    assert new.snapshot is not None or not vectors
    entries = live_entries(new.handle, data_manifests(new.handle, new.snapshot)) if new.snapshot else apart.slice(0, 0)
    names = pa.array(sorted({name for _, _, name in vectors}), pa.string())
    chosen = np.flatnonzero(np.asarray(pc.is_in(entries.column("file_name"), value_set=names)))
    places = entries.select(("partition", "bucket", "file_name")).take(take_indices(chosen)).to_pylist()
    keys = [(row["partition"], row["bucket"], row["file_name"]) for row in places]
    only_new = apart.filter(pc.equal(apart.column("change"), scalar(ADDED, pa.string())))
    added = set(only_new.column("file_name").to_pylist())
    pairs = [(i, vectors[key]) for i, key in zip(chosen.tolist(), keys, strict=True) if key in vectors]
    pairs = [(i, n) for i, n in pairs if entries.column("file_name")[i].as_py() not in added]
    picked, deleted = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
    return _rows(entries, picked, CHANGED, deleted)
