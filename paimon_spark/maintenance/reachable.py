"""List the paths of all files that snapshots, tags, changelogs and branches need.

A path is absolute in the table's own store, and a full URL where a file is in another store. External files that
may be deleted for the table are kept apart from those that are left.

Source: Java `operation/OrphanFilesClean`, `operation/LocalOrphanFilesClean`, `io/DataFilePathFactory`,
`utils/FileStorePathFactory`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import FileMissingError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_numpy import array_of, scalar_of
from paimon_spark.format.data_files.registry import PREFIX as COMPACTED_CHANGELOG
from paimon_spark.format.data_files.registry import slice_of
from paimon_spark.format.metadata_files.index_manifest import IndexManifestEntry
from paimon_spark.format.metadata_files.manifest import ManifestFileMeta
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.maintenance.roots import (
    all_roots,
    branch_directories,
    changelog_lists,
    grouped,
    missing_metadata,
    state_lists,
    still_there,
)
from paimon_spark.metadata.external_files import ExternalFiles, data_files_of, index_refusal, path_text
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.change import Root, RootKind
from paimon_spark.metadata.manifests import (
    find_index_manifests,
    find_manifest_lists,
    read_manifests,
)
from paimon_spark.metadata.own_files import ref_directories
from paimon_spark.metadata.partition_path import PartitionDirectories, index_file_path
from paimon_spark.spark_port import spread

_TOGETHER: Final = 256
"""Manifest lists fetched together."""
_MANY_BYTES: Final = 32 << 20
"""Bytes of manifests that are worth a Spark job."""


def reachable_names(handle: TableHandle, *, here: bool = False) -> Iterator[pa.Array]:
    """Yield names of all files that snapshots, tags and long-lived changelogs of all branches need, and of their own.

    As `PATHS`, some more than once; files that expire meanwhile are skipped. Executors read many manifests, unless
    `here`.

    Raises UnsafeDeletionError, at the end: metadata that a root needs is missing, so the files that it names are
    unknown.
    """
    branches = branch_directories(handle)
    main = branches[0]
    yield array_of([path.rpartition("/")[2] for branch in branches for path in ref_files(branch)], PATHS)
    roots = all_roots(handle)
    missing: set[str] = set()
    entry_names = partial(_entry_names, main)
    yield from map(_names, shared_files(main, [r.snapshot for r in roots], entry_names, missing, here=here))
    if missing:
        _check_roots(main, roots, missing)


def _check_roots(main: TableHandle, roots: Sequence[Root], missing: set[str]) -> None:
    """Check that no existing root needs metadata that is missing. Raises UnsafeDeletionError."""
    for root in roots:
        lists = (*state_lists(root), *changelog_lists(root))
        index = None if root.kind is RootKind.CHANGELOG else root.snapshot.index_manifest
        found = find_manifest_lists(main, lists)
        needed = [*lists, *(m.file_name for metas in found.values() for m in metas or ()), *([index] if index else [])]
        gone = next((name for name in needed if name in missing), None)
        if gone is not None and still_there(main, root):
            raise missing_metadata(main, root, gone)


def _names(paths: pa.Array) -> pa.Array:
    """The names of files, without their directories."""
    return pc.replace_substring_regex(paths, r"^.*/", "") if pc.any(pc.match_substring(paths, "/")).as_py() else paths


def _entry_names(main: TableHandle, entries: pa.Table) -> pa.Array:
    """Names of the files of entries; most need no path for that."""
    names = entries.column("file_name").combine_chunks()
    external = entries.column("external_path")
    if external.null_count < len(entries) or pc.any(pc.starts_with(names, COMPACTED_CHANGELOG)).as_py():
        return entry_paths(main, entries)
    extra = pc.list_flatten(entries.column("extra_files").combine_chunks())
    return pa.concat_arrays([names.cast(PATHS), extra.cast(PATHS)])


def ref_files(branch: TableHandle) -> Iterator[str]:
    """Yield the paths of a branch's own files."""
    for directory, names in ref_directories(branch.layout):
        for info in branch.store.list(directory):
            if not info.is_directory and names.fullmatch(info.name):
                yield f"{directory}/{info.name}"


def shared_files(
    main: TableHandle,
    snapshots: Sequence[Snapshot],
    files_of: Callable[[pa.Table], pa.Array],
    missing: set[str] | None = None,
    *,
    here: bool = True,
) -> Iterator[pa.Array]:
    """Yield metadata, index and statistics files that the snapshots name, and the result of `files_of` for entries.

    Names of missing metadata files are added to `missing`. Executors read many manifests, unless `here`; then
    `files_of` must be picklable.
    """
    missing = set() if missing is None else missing
    lists = _distinct(
        name for s in snapshots for name in (s.base_manifest_list, s.delta_manifest_list, s.changelog_manifest_list)
    )
    indexes = _distinct(s.index_manifest for s in snapshots)
    statistics = _distinct(s.statistics for s in snapshots)
    metas: dict[str, ManifestFileMeta] = {}
    for start in range(0, len(lists), _TOGETHER):
        for name, rows in find_manifest_lists(main, lists[start : start + _TOGETHER]).items():
            if rows is None:
                missing.add(name)
            metas.update((m.file_name, m) for m in rows or ())
    yield array_of([main.layout.manifest_path(name) for name in (*lists, *indexes, *metas)], PATHS)
    yield array_of([main.layout.statistics_path(name) for name in statistics], PATHS)
    for start in range(0, len(indexes), _TOGETHER):
        for name, entries in find_index_manifests(main, indexes[start : start + _TOGETHER]).items():
            if entries is None:
                missing.add(name)
            yield index_paths(main, list(entries or ()))
    groups = list(grouped(metas.values(), lambda meta: meta.file_size))
    is_small = sum(meta.file_size for meta in metas.values()) < _MANY_BYTES
    for names, gone in spread(partial(_files_of, main, files_of), groups, here=here or is_small):
        missing |= gone
        yield names


def _files_of(
    main: TableHandle, files_of: Callable[[pa.Table], pa.Array], metas: Sequence[ManifestFileMeta]
) -> tuple[pa.Array, set[str]]:
    """The files that entries of manifests name, each once; and names of manifests that are missing."""
    missing: set[str] = set()
    return pc.unique(files_of(_entries(main, metas, missing))), missing


def _entries(main: TableHandle, metas: Sequence[ManifestFileMeta], missing: set[str]) -> pa.Table:
    """All entries of the manifests that exist, ADD and DELETE."""
    try:
        return read_manifests(main, metas)
    except FileMissingError:
        if len(metas) == 1:
            missing.add(metas[0].file_name)
            return read_manifests(main, [])
        half = len(metas) // 2
        return pa.concat_tables([_entries(main, metas[:half], missing), _entries(main, metas[half:], missing)])


def _distinct(names: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(name for name in names if name is not None))


PATHS: Final = pa.large_string()


def entry_paths(handle: TableHandle, entries: pa.Table) -> pa.Array:
    """The data files of the entries and their extra files, as `PATHS`, unordered, some more than once.

    Raises UnsupportedFeatureError: the partition columns have no known directory names.
    """
    if len(entries) == 0:
        return array_of([], PATHS)
    directories = _directories(handle, entries)
    names = entries.column("file_name").combine_chunks().cast(PATHS)
    own = _real_files(handle, _joined(directories, names))
    extra = entries.column("extra_files").combine_chunks()
    beside = directories.take(pc.list_parent_indices(extra))
    return pa.concat_arrays([own, _joined(beside, pc.list_flatten(extra).cast(PATHS))])


def index_paths(handle: TableHandle, entries: list[IndexManifestEntry]) -> pa.Array:
    """The index files of the entries, as `PATHS`. Raises as `entry_paths`."""
    directories = PartitionDirectories(handle)
    return array_of([_index_path(handle, directories, e) for e in entries], PATHS)


def _index_path(handle: TableHandle, directories: PartitionDirectories, entry: IndexManifestEntry) -> str:
    if entry.external_path is not None:
        return path_text(handle, entry.external_path)
    return index_file_path(handle, entry, directories)


def _directories(handle: TableHandle, entries: pa.Table) -> pa.Array:
    """The directory of each entry's file."""
    columns = (entries.column(name).combine_chunks() for name in ("partition", "bucket", "file_name"))
    paths, numbers = PartitionDirectories(handle).of_files(*columns)
    inside = array_of(paths, PATHS).take(arrow_numpy.take_indices(numbers))
    parents = external_directories(entries)
    if parents is None:
        return inside
    located = array_of([path_text(handle, parent) for parent in parents.dictionary.to_pylist()], PATHS)
    return pc.coalesce(located.take(parents.indices), inside)


def _joined(directories: pa.Array, names: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(directories, names, scalar_of("/", PATHS))


def _real_files(handle: TableHandle, paths: pa.Array) -> pa.Array:
    """The paths, with each part of a compacted changelog replaced by the file that holds it."""
    parts = pc.match_substring(paths, f"/{COMPACTED_CHANGELOG}")
    if not pc.any(parts).as_py():
        return paths
    slices = [slice_of(handle.store, path) for path in paths.filter(parts).to_pylist()]
    real = array_of([part.path for part in slices if part is not None], PATHS)
    return pa.concat_arrays([paths.filter(pc.invert(parts)), real])


_LAST_SEGMENT: Final = r"/[^/]*$"


def external_directories(entries: pa.Table) -> pa.DictionaryArray | None:
    """Directories of the entries' external paths, null for entries without; None when all are without."""
    external = entries.column("external_path").combine_chunks()
    if external.null_count == len(external):
        return None
    return pc.replace_substring_regex(external, _LAST_SEGMENT, "").dictionary_encode()


def followed(files: ExternalFiles, entries: pa.Table, *, delete: bool) -> pa.Array | None:
    """Whether the file of each entry may be read or deleted; None for all, as none has an external path."""
    directories = external_directories(entries)
    if directories is None:
        return None
    # A file is deleted by its name in the directory of its external path, together with the files beside it.
    may = [
        files.refusal(f"{directory}/file", delete=delete) is None for directory in directories.dictionary.to_pylist()
    ]
    return pc.fill_null(array_of(may, pa.bool_()).take(directories.indices), fill_value=True)


def deletable(handle: TableHandle, entries: pa.Table) -> tuple[pa.Table, list[str]]:
    """The entries whose files may be deleted, and the external paths of the others."""
    may = followed(data_files_of(handle), entries, delete=True)
    if may is None:
        return entries, []
    left = entries.filter(pc.invert(may)).column("external_path").to_pylist()
    return entries.filter(may), left


def deletable_indexes(
    handle: TableHandle, entries: Iterable[IndexManifestEntry]
) -> tuple[list[IndexManifestEntry], list[str]]:
    """The index files that may be deleted, and the external paths of the others."""
    may: list[IndexManifestEntry] = []
    left = []
    for entry in entries:
        if index_refusal(handle, entry, delete=True) is None:
            may.append(entry)
        else:
            left.append(str(entry.external_path))
    return may, left
