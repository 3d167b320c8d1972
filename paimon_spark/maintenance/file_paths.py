"""Paths of the files that manifest entries name, for a whole table of entries at once.

A path is absolute in the table's own store, and a full URL where a file lies in another store.

Source: Java `io/DataFilePathFactory`, `utils/FileStorePathFactory`.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.python_values import array_of, scalar_of
from paimon_spark.format.data_files.compacted_changelog import PREFIX as COMPACTED_CHANGELOG
from paimon_spark.format.data_files.compacted_changelog import slice_of
from paimon_spark.format.metadata_files.index_manifest import IndexManifestEntry
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.partition_path import PartitionDirectories, index_file_path
from paimon_spark.storage.urls import external_path

PATHS: Final = pa.large_string()
_LAST_SEGMENT: Final = r"/[^/]*$"


def entry_paths(handle: TableHandle, entries: pa.Table) -> pa.Array:
    """The data files of the entries and the extra files beside them, as `PATHS`, in no order, some more than once.

    Raises:
        UnsupportedFeatureError: the partition columns have no known directory names.
        StorageError: an external file lies in a store that cannot be opened.
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


def last_segments(paths: pa.Array) -> pa.Array:
    """The names of files, without their directories."""
    return pc.replace_substring_regex(paths, r"^.*/", "")


def _index_path(handle: TableHandle, directories: PartitionDirectories, entry: IndexManifestEntry) -> str:
    path = index_file_path(handle, entry, directories)
    return path if entry.external_path is None else _located(handle, path)


def _directories(handle: TableHandle, entries: pa.Table) -> pa.Array:
    """The directory of each entry's file."""
    columns = (entries.column(name).combine_chunks() for name in ("partition", "bucket", "file_name"))
    paths, numbers = PartitionDirectories(handle).of_files(*columns)
    inside = array_of(paths, PATHS).take(arrow_numpy.take_indices(numbers))
    external = entries.column("external_path").combine_chunks()
    if external.null_count == len(external):
        return inside
    parents = pc.replace_substring_regex(external, _LAST_SEGMENT, "").dictionary_encode()
    located = array_of([_located(handle, parent) for parent in parents.dictionary.to_pylist()], PATHS)
    return pc.coalesce(located.take(parents.indices), inside)


def _located(handle: TableHandle, url: str) -> str:
    store, path = external_path(handle.store, url)
    return path if store is handle.store else store.url(path)


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
