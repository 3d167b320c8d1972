"""The index files of the new snapshot, from those of the head and the changes.

Source: Java `manifest/IndexManifestFileHandler`.

Tests: tests/unit/engine/commit/test_conflicts.py, test_races.py, tests/unit/engine/row_level/test_columns.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from paimon_spark.errors import CommitConflictError, InvalidInputError
from paimon_spark.format.metadata_files.index_manifest import DELETION_VECTORS, HASH, IndexManifestEntry
from paimon_spark.format.metadata_files.manifest import FileKind
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.manifests import read_index_manifest, write_index_manifest

Entries = Sequence[IndexManifestEntry]


def has_buckets(handle: TableHandle) -> bool:
    """Whether rows of the table belong to buckets; in a table without, index files are shared by all of them."""
    return bool(handle.schema.primary_keys) or handle.options.bucket != -1


def head_index(handle: TableHandle, head: Snapshot | None) -> list[IndexManifestEntry]:
    """The index files of a snapshot."""
    if head is None or head.index_manifest is None:
        return []
    return read_index_manifest(handle, head.index_manifest)


def write_index(handle: TableHandle, head: Snapshot | None, changes: Entries) -> str | None:
    """Write the index manifest after `changes`, and return its name; the head's own without changes.

    Raises:
        CommitConflictError: the changes do not fit the head's index files.
    """
    before = None if head is None else head.index_manifest
    if not changes:
        return before
    return write_index_manifest(handle, combined(handle, head_index(handle, head), changes))


def combined(handle: TableHandle, before: Entries, changes: Entries) -> list[IndexManifestEntry]:
    """All index files after `changes`; types this package does not know are carried over. Raises as `write_index`."""
    old, new = _by_type(before), _by_type(changes)
    out: list[IndexManifestEntry] = []
    for index_type in dict.fromkeys((*old, *new)):
        combine = _combiner(handle, index_type)
        out += combine(handle, old.get(index_type, []), new.get(index_type, []))
    return out


def _by_type(entries: Entries) -> dict[str, list[IndexManifestEntry]]:
    ordered = sorted(entries, key=lambda e: e.index_type)
    return {index_type: list(group) for index_type, group in groupby(ordered, lambda e: e.index_type)}


def _combiner(
    handle: TableHandle, index_type: str
) -> Callable[[TableHandle, Entries, Entries], list[IndexManifestEntry]]:
    if index_type == HASH or (index_type == DELETION_VECTORS and has_buckets(handle)):
        return _by_bucket
    return _vectors_by_name if index_type == DELETION_VECTORS else _by_name


def _by_bucket(handle: TableHandle, before: Entries, changes: Entries) -> list[IndexManifestEntry]:
    """One file a bucket: a new one takes the place of the old."""
    found = {(e.partition, e.bucket): e for e in before}
    for e in changes:
        if e.kind == FileKind.DELETE:
            found.pop((e.partition, e.bucket), None)
    new = [e for e in changes if e.kind == FileKind.ADD]
    fresh = {(e.partition, e.bucket): e for e in new}
    if len(fresh) < len(new):
        twice = next(e for e in new if fresh[e.partition, e.bucket] is not e)
        raise InvalidInputError(
            f"a commit to {handle.describe()} brings two {twice.index_type} index files for bucket {twice.bucket}, "
            f"{twice.file_name} and {fresh[twice.partition, twice.bucket].file_name}; only one can be kept, so the "
            "writers of one bucket must put theirs together first",
            table=handle.name,
        )
    return list({**found, **fresh}.values())


def _vectors_by_name(handle: TableHandle, before: Entries, changes: Entries) -> list[IndexManifestEntry]:
    """Each data file has at most one vector; it is removed with the file that holds it."""
    found = {e.file_name: e for e in before}
    for e in changes:
        if e.kind == FileKind.DELETE and found.pop(e.file_name, None) is None:
            raise _conflict(handle, f"the deletion vector file {e.file_name} it replaces is not in the table any more")
    owners = {r.data_file_name for e in found.values() for r in e.deletion_vectors or ()}
    for e in changes:
        if e.kind == FileKind.ADD:
            names = [r.data_file_name for r in e.deletion_vectors or ()]
            twice = owners.intersection(names)
            if e.file_name in found or twice:
                raise _conflict(handle, f"the file {min(twice, default=e.file_name)} has a deletion vector already")
            owners.update(names)
            found[e.file_name] = e
    return list(found.values())


def _by_name(handle: TableHandle, before: Entries, changes: Entries) -> list[IndexManifestEntry]:
    """Global indexes: files by name, whose row ranges of one column do not overlap."""
    found = {e.file_name: e for e in before}
    for e in changes:
        if e.kind == FileKind.DELETE:
            found.pop(e.file_name, None)
    new = [e for e in changes if e.kind == FileKind.ADD]
    for e in new:
        rival = next((o for o in found.values() if _overlap(o, e)), None)
        if rival is not None:
            raise _conflict(handle, f"the index file {rival.file_name} covers rows that {e.file_name} indexes too")
    found.update({e.file_name: e for e in new})
    return list(found.values())


def _overlap(old: IndexManifestEntry, new: IndexManifestEntry) -> bool:
    a, b = old.global_index, new.global_index
    if a is None or b is None or a.index_field_id != b.index_field_id:
        return False
    if a.source_meta is not None and b.source_meta is not None:
        return False
    apart = a.row_range_end < b.row_range_start or b.row_range_end < a.row_range_start
    return not (a.extra_field_ids == b.extra_field_ids and apart)


def _conflict(handle: TableHandle, what: str) -> CommitConflictError:
    return CommitConflictError(
        f"the commit to {handle.describe()} contradicts one made meanwhile: {what}. Nothing was committed; "
        "read the table again and write again",
        table=handle.name,
        branch=handle.branch,
    )
