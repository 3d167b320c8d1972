"""Compute a Diff of two versions from metadata; relate the histories of two versions.

A Diff has files, deletion vectors, columns and options. Manifests that both snapshots list are not read. Files are the
same when partition, bucket, name and path are equal; a file that compaction only moved to another level is the same
file. Columns are matched by field id.

Tests: tests/unit/versioning/test_diff.py, test_other_history.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.engine.scan.file_stats import Partitions
from paimon_spark.errors import FileMissingError
from paimon_spark.format.arrays.arrow_numpy import Bool, fixed_array, scalar, take_indices, values
from paimon_spark.format.metadata_files.index_manifest import DeletionVectorRange, IndexManifestEntry
from paimon_spark.format.metadata_files.manifest import ENTRY_SCHEMA, FileKind, ManifestFileMeta
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.branches import ancestry, is_main, newest_shared, read_fork, same_snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import MAIN
from paimon_spark.metadata.live_files import file_ids, live_entries
from paimon_spark.metadata.manifests import data_manifests, find_manifest_lists, read_manifests
from paimon_spark.metadata.partition_path import partition_texts
from paimon_spark.metadata.resolve import Resolved, resolve
from paimon_spark.metadata.retry import retry
from paimon_spark.metadata.schemas import list_schema_ids, read_schema
from paimon_spark.metadata.snapshots import find_snapshot
from paimon_spark.metadata.vector_files import read_vectors, vector_files
from paimon_spark.metadata.version import text_version
from paimon_spark.redaction import shown_option
from paimon_spark.types import DataField, RowType
from paimon_spark.versioning.diff import ColumnChange, Diff, PartitionDiff, Side

_ATTEMPTS: Final = 6
"""Times that versions are looked up whose files vanish meanwhile."""


def compare(handle: TableHandle, old: str, new: str | None) -> Diff:
    """The differences between two versions. Reads metadata only."""
    sides = _resolved(handle, old, new)

    def have_moved(_: FileMissingError) -> bool:
        nonlocal sides
        before, sides = sides, _resolved(handle, old, new)
        return not all(same_snapshot(a.snapshot, b.snapshot) for a, b in zip(before, sides, strict=True))

    files = retry(lambda: changed_files(*sides), _ATTEMPTS, on=FileMissingError, again=have_moved)
    return _diff(handle, (old, new), sides, files)


def _resolved(handle: TableHandle, old: str, new: str | None) -> tuple[Resolved, Resolved]:
    return resolve(handle, text_version(old)), resolve(handle, None if new is None else text_version(new))


def _diff(
    handle: TableHandle, asked: tuple[str, str | None], sides: tuple[Resolved, Resolved], files: pa.Table
) -> Diff:
    old, new = sides
    related = relation(old.handle, old.snapshot, new.handle, new.snapshot)
    partitions = _partitions(new.handle, files)
    before, after = old.handle.schema, new.handle.schema
    columns = changed_columns(before, after, shared_field_id(old.handle, new.handle)) if before != after else ()
    keys = sorted(before.options.keys() | after.options.keys())
    options = {k: (before.options.get(k), after.options.get(k)) for k in keys}
    return Diff(
        table=handle.name,
        old=_side(asked[0], old),
        new=_side(new.handle.branch if asked[1] is None else asked[1], new),
        **{f.name: sum(getattr(p, f.name) for p in partitions) for f in fields(PartitionDiff) if f.name != "partition"},
        partitions=partitions,
        columns=columns,
        options={k: pair for k, pair in options.items() if pair[0] != pair[1]},
        common_snapshot_id=related.common,
        ahead=related.ahead,
        behind=related.behind,
        files=files,
    )


def _side(version: str, found: Resolved) -> Side:
    s = found.snapshot
    return Side(
        version,
        found.label,
        found.handle.branch,
        None if s is None else s.id,
        None if s is None else s.time_ms,
        found.handle.schema.id,
        0 if s is None else s.total_record_count,
    )


def _partitions(handle: TableHandle, files: pa.Table) -> tuple[PartitionDiff, ...]:
    """The sums of each partition that has files in the list."""
    if len(files) == 0:
        return ()
    whole = files.combine_chunks()
    found = Partitions(handle, whole.column("partition").chunk(0))
    added, removed, changed = change_masks(whole)
    row_counts, sizes, deleted = (values(whole.column(n).chunk(0)) for n in ("row_count", "file_size", "deleted_rows"))
    count = len(found.rows)

    def total(mask: np.ndarray, amounts: np.ndarray | None = None) -> list[int]:
        weights = np.ones(len(whole), np.int64) if amounts is None else amounts
        out = np.zeros(count, np.int64)
        np.add.at(out, found.codes[mask], weights[mask])
        return [int(v) for v in out]

    sums = zip(
        total(added), total(removed), total(added, sizes), total(removed, sizes), total(added, row_counts),
        total(removed, row_counts), total(changed), total(changed, np.maximum(deleted, 0)),
        total(changed, np.maximum(-deleted, 0)), strict=True,
    )  # fmt: skip
    rows = zip(found.row_bytes, sums, strict=True)
    made = [PartitionDiff(partition_texts(handle, row, legacy=False), *each) for row, each in rows]
    return tuple(sorted(made, key=lambda p: p.name))


def shared_field_id(old: TableHandle, new: TableHandle) -> int | None:
    """The highest field id that both branches assigned before they diverged; None on one branch.

    Afterwards each assigns ids of its own, so an id may mean two columns.
    """
    if old.layout == new.layout:
        return None
    shared = shared_schema(old, new)
    return -1 if shared is None else shared.highest_field_id


def shared_schema(old: TableHandle, new: TableHandle) -> TableSchema | None:
    """The newest schema that two branches had before they diverged; None when they share none."""
    ids = [set(list_schema_ids(h.store, h.layout)) for h in (old, new)]
    shared = None
    for i in sorted(ids[0] & ids[1]):
        ours, theirs = (read_schema(h.store, h.layout, i) for h in (old, new))
        if ours != theirs:
            break
        shared = ours
    return shared


def changed_columns(old: TableSchema, new: TableSchema, shared_field_id: int | None = None) -> tuple[ColumnChange, ...]:
    """The differences, in the order of the new schema's columns, dropped ones last.

    `shared_field_id`: the highest field id that both branches assigned before they diverged; above it only fields with
    the same id and name are the same. None when one schema evolved from the other.
    """
    return tuple(_changes(old.row_type, new.row_type, shared_field_id, ""))


def lost_definition(old: TableSchema, new: TableSchema, base: TableSchema | None) -> tuple[str, ...]:
    """Options, columns and types, as text, that `old` has got since `base`, which both come from, and `new` lacks."""
    before: Mapping[str, str] = {} if base is None else base.options
    out = [
        f"option {key} = {shown_option(key, old.options[key])}" if key in old.options else f"option {key}, unset"
        for key in sorted({*old.options, *before})
        if old.options.get(key) not in (before.get(key), new.options.get(key))
        or (key in before and key not in old.options and key in new.options)
    ]
    columns, kept = ({f.name: f.type for f in schema.fields} for schema in (old, new))
    had = {} if base is None else {f.name: f.type for f in base.fields}
    out += [f"column {name}" for name in columns if name not in had and name not in kept]
    out += [
        f"type {t} of column {name}"
        for name, t in columns.items()
        if name in had and name in kept and t not in (had[name], kept[name])
    ]
    return tuple(out)


def _changes(old: RowType, new: RowType, shared: int | None, prefix: str) -> Iterator[ColumnChange]:
    before, after = (
        {(f.id, "" if shared is None or f.id <= shared else f.name): f for f in side.fields} for side in (old, new)
    )
    both = [key for key in after if key in before]
    places = {key: place for place, key in enumerate(before)}
    moved = set(both) - set(_staying([places[key] for key in both], both))
    for place, (key, f) in enumerate(after.items()):
        name = prefix + f.name
        was = before.get(key)
        if was is None:
            yield ColumnChange("added", name, f.id, None, str(f.type))
            continue
        if was.name != f.name:
            yield ColumnChange("renamed", name, f.id, prefix + was.name, name)
        yield from _within(was, f, shared, name)
        if was.description != f.description:
            yield ColumnChange("commented", name, f.id, was.description, f.description)
        if was.default_value != f.default_value:
            yield ColumnChange("defaulted", name, f.id, was.default_value, f.default_value)
        if key in moved:
            yield ColumnChange("moved", name, f.id, str(places[key] + 1), str(place + 1))
    for key, f in before.items():
        if key not in after:
            yield ColumnChange("dropped", prefix + f.name, f.id, str(f.type), None)


def _within(was: DataField, f: DataField, shared: int | None, name: str) -> Iterator[ColumnChange]:
    if was.type == f.type:
        return
    if isinstance(was.type, RowType) and isinstance(f.type, RowType) and was.type.nullable == f.type.nullable:
        yield from _changes(was.type, f.type, shared, name + ".")
    else:
        yield ColumnChange("retyped", name, f.id, str(was.type), str(f.type))


def _staying(places: Sequence[int], keys: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """The longest run of fields that kept their order; the others were moved."""
    best: list[list[int]] = []
    for i, place in enumerate(places):
        longest = max((chain for chain in best if places[chain[-1]] < place), key=len, default=[])
        best.append([*longest, i])
    return [keys[i] for i in max(best, key=len, default=[])]


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


class _Vector(NamedTuple):
    """The position of a data file's deletion vector."""

    handle: TableHandle
    entry: IndexManifestEntry
    range: DeletionVectorRange


def changed_files(
    old: Resolved, new: Resolved, commits: tuple[Sequence[Snapshot], Sequence[Snapshot]] | None = None
) -> pa.Table:
    """The files that differ, as `SCHEMA`: those only in `new`, only in `old`, and in both with other vectors.

    `commits`: those of each side that count, since what both share; files that other commits added or removed, such as
    compactions, are left out. None for all. No data file is opened. Files of deletion vectors are, where nothing else
    tells whether two are the same.

    Raises FileMissingError: a manifest is gone; the snapshot may have expired meanwhile.
    """
    apart = (
        _apart(old, new) if commits is None else _net(old, new, [_deltas(old, commits[0]), _deltas(new, commits[1])])
    )
    vectors = _changed_vectors(old, new)
    if not vectors:
        return apart
    return pa.concat_tables([apart, _with_changed_vectors(new, vectors, apart)])


def change_masks(files: pa.Table) -> tuple[Bool, Bool, Bool]:
    """Which files of `SCHEMA` were added, which removed, and which have other vectors."""
    changes = files.column("change")
    added, removed, changed = (values(pc.equal(changes, scalar(name, pa.string())).combine_chunks()) for name in _NAMES)
    return added, removed, changed


def _apart(old: Resolved, new: Resolved) -> pa.Table:
    sides = [
        {} if v.snapshot is None else {m.file_name: m for m in data_manifests(v.handle, v.snapshot)} for v in (old, new)
    ]
    return _net(old, new, sides)


def _deltas(side: Resolved, commits: Sequence[Snapshot]) -> dict[str, ManifestFileMeta]:
    """The manifests of what commits added and removed, by name."""
    names = [s.delta_manifest_list for s in commits]
    lists = find_manifest_lists(side.handle, names)
    missing = [name for name in names if lists[name] is None]
    if missing:
        raise FileMissingError(
            f"manifest list {missing[0]} of table {side.handle.name} is gone; its snapshot may have expired meanwhile"
        )
    return {meta.file_name: meta for name in names for meta in lists[name] or ()}


def _net(old: Resolved, new: Resolved, sides: Sequence[Mapping[str, ManifestFileMeta]]) -> pa.Table:
    """The files that only one side has by these manifests, as `SCHEMA`."""
    tables, signs = [], []
    for (mine, others), version, sign in zip((sides, sides[::-1]), (old, new), (-1, 1), strict=True):
        metas = [meta for name, meta in mine.items() if name not in others]
        entries = read_manifests(version.handle, metas)
        kinds = values(entries.column("kind").combine_chunks()) if len(entries) else np.empty(0, np.int8)
        tables.append(entries)
        signs.append(np.where(kinds == FileKind.DELETE, -sign, sign).astype(np.int64))
    entries, sign_of = pa.concat_tables(tables), np.concatenate(signs)
    ids = file_ids(entries, _PLACE)
    # The last entry of each file, as it has the final level.
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


def _changed_vectors(old: Resolved, new: Resolved) -> dict[tuple[bytes, int, str], int]:
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


def _with_changed_vectors(new: Resolved, vectors: Mapping[tuple[bytes, int, str], int], apart: pa.Table) -> pa.Table:
    """The data files of the vectors, except files that only one side has."""
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


class Relation(NamedTuple):
    """How a new version is related to an old one.

    Attributes:
        common: id of the newest snapshot that both histories share; None when they share none, or none is known.
        ahead, behind: commits that only the new, and only the old version has; None when unknown.
    """

    common: int | None
    ahead: int | None
    behind: int | None


def relation(
    old: TableHandle, old_snapshot: Snapshot | None, new: TableHandle, new_snapshot: Snapshot | None
) -> Relation:
    """The relation of two snapshots, each on its branch; None is a branch without any."""
    if old_snapshot is None or new_snapshot is None:
        return Relation(None, new_snapshot.id if new_snapshot else 0, old_snapshot.id if old_snapshot else 0)
    if same_snapshot(old_snapshot, new_snapshot):
        return Relation(new_snapshot.id, 0, 0)
    trails = [dict(ancestry(h, s.id)) for h, s in ((old, old_snapshot), (new, new_snapshot))]
    common = max((min(newest, trails[1][name]) for name, newest in trails[0].items() if name in trails[1]), default=0)
    if common and not _holds(common, old, old_snapshot, new, new_snapshot):
        shared = newest_shared(old, new)
        common = 0 if shared is None else min(shared.id, old_snapshot.id, new_snapshot.id)
    if common:
        return Relation(common, new_snapshot.id - common, old_snapshot.id - common)
    if any(_began_empty(handle) for handle in (old, new)):
        return Relation(None, new_snapshot.id, old_snapshot.id)
    return Relation(None, None, None)


def _holds(common: int, old: TableHandle, old_snapshot: Snapshot, new: TableHandle, new_snapshot: Snapshot) -> bool:
    """Whether both histories may share the snapshot, as far as it exists: histories may have been replaced."""
    found = [
        snapshot if snapshot.id == common else find_snapshot(handle, common)
        for handle, snapshot in ((old, old_snapshot), (new, new_snapshot))
    ]
    return None in found or same_snapshot(*found)


def _began_empty(handle: TableHandle) -> bool:
    """Whether the branch was created without a snapshot, by its `FORK` file."""
    if is_main(handle) or handle.branch == MAIN:
        return False
    fork = read_fork(handle)
    return fork is not None and fork.snapshot_id is None
