"""Orphans: files in a table's directories that nothing reachable names. Here they are only found.

Source: Java `operation/OrphanFilesClean`, whose rules of what may be an orphan these are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import pyarrow.compute as pc

from paimon_spark.maintenance.file_paths import PATHS
from paimon_spark.maintenance.reachable import branch_handles, reachable_files, ref_directories
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import CHANGELOG_PREFIX, EARLIEST, LATEST, SNAPSHOT_PREFIX
from paimon_spark.options.data_files import EXTERNAL_PATHS
from paimon_spark.spec.arrow_values import array_of
from paimon_spark.storage.store import FileInfo, Store
from paimon_spark.storage.urls import external_path

_CONCURRENT: Final = 8
_TEMPORARY: Final = re.compile(r"\..+\.[0-9a-f-]{36}\.tmp", re.DOTALL)
"""What stores, ours and Java's, call a file whose bytes are not complete yet."""

_BUCKET_PREFIX: Final = "bucket-"
_PACK_SUFFIX: Final = ".managed.blob"


class DiskFile(NamedTuple):
    """A file found; `path` as in `Reachable.paths`, `modified_ms` None where the store does not tell."""

    path: str
    size: int
    modified_ms: int | None


class _Tree(NamedTuple):
    """A directory whose files are looked at; `is_own` when its store is the table's."""

    store: Store
    root: str
    is_own: bool

    def name(self, path: str) -> str:
        return path if self.is_own else self.store.url(path)


def files_on_disk(handle: TableHandle) -> list[DiskFile]:
    """Every file below the table's directory and its external paths, whatever it is. Raises StorageError."""
    return [
        DiskFile(tree.name(f"{directory}/{info.name}"), info.size, info.modified_ms)
        for tree in _trees(handle)
        for directory, infos in _walk(tree)
        for info in infos
    ]


def orphans(handle: TableHandle, older_than_ms: int | None = None) -> list[DiskFile]:
    """The files that a clean-up may delete: of a table's own kinds, in their places, and not reachable.

    A write that is going on has made files that its commit will name, so give `older_than_ms` unless there is
    none. Files of a name that something reachable has are never orphans, wherever they lie.

    Args:
        handle: any branch of the table.
        older_than_ms: leave out files changed at or after this time, epoch milliseconds, or whose time is unknown.

    Raises:
        CorruptFileError: a metadata file cannot be decoded, so nobody can tell what it needs.
        StorageError: a file cannot be read, or a directory not be listed.
    """
    # First what is there, then what is reachable: files of a commit made meanwhile are found reachable.
    candidates = _Candidates(handle)
    found = [
        DiskFile(tree.name(f"{directory}/{info.name}"), info.size, info.modified_ms)
        for tree in _trees(handle)
        for directory, infos in _walk(tree)
        for info in candidates.among(tree, directory, infos)
        if older_than_ms is None or (info.modified_ms is not None and info.modified_ms < older_than_ms)
    ]
    names = array_of([f.path.rpartition("/")[2] for f in found], PATHS)
    used = pc.is_in(names, value_set=reachable_files(handle).names).to_pylist()
    return [f for f, is_used in zip(found, used, strict=True) if not is_used]


def _trees(handle: TableHandle) -> list[_Tree]:
    trees = [_Tree(handle.store, handle.layout.root, is_own=True)]
    for url in EXTERNAL_PATHS.get(handle.options.raw).split(","):
        if url.strip():
            store, path = external_path(handle.store, url.strip())
            trees.append(_Tree(store, path, store is handle.store))
    return trees


def _walk(tree: _Tree) -> Iterator[tuple[str, list[FileInfo]]]:
    """Each directory below the tree's root, itself included, with its files."""
    level = [tree.root]
    with ThreadPoolExecutor(_CONCURRENT, thread_name_prefix="paimon-list") as pool:
        while level:
            deeper = []
            for directory, infos in zip(level, pool.map(tree.store.list, level), strict=True):
                yield directory, [i for i in infos if not i.is_directory]
                deeper += [f"{directory}/{i.name}" for i in infos if i.is_directory]
            level = deeper


class _Candidates:
    """Which files of a table's directories are orphans unless something reachable names them."""

    def __init__(self, handle: TableHandle) -> None:
        self._layout = handle.layout
        self._partition_keys = len(handle.schema.partition_keys)
        layouts = [branch.layout for branch in branch_handles(handle)]
        self._refs = {directory for layout in layouts for directory, _ in ref_directories(layout)}
        self._snapshots = dict.fromkeys((layout.snapshot_dir for layout in layouts), SNAPSHOT_PREFIX)
        self._snapshots |= dict.fromkeys((layout.changelog_dir for layout in layouts), CHANGELOG_PREFIX)

    def among(self, tree: _Tree, directory: str, infos: list[FileInfo]) -> list[FileInfo]:
        if self._holds_shared_files(tree, directory):
            return [i for i in infos if not i.name.endswith(_PACK_SUFFIX)]
        if tree.is_own and directory in self._snapshots:
            prefix = self._snapshots[directory]
            return [i for i in infos if not i.name.startswith(prefix) and i.name not in (LATEST, EARLIEST)]
        if tree.is_own and (directory in self._refs or directory == tree.root):
            return [i for i in infos if _TEMPORARY.fullmatch(i.name)]
        return []

    def _holds_shared_files(self, tree: _Tree, directory: str) -> bool:
        """Whether it is a directory of manifests, indexes or statistics, or a bucket's."""
        if tree.is_own and directory in self._layout.shared_dirs:
            return True
        data_root = self._layout.data_root if tree.is_own else tree.root
        if not directory.startswith(f"{data_root}/"):
            return False
        *partition, bucket = directory[len(data_root) + 1 :].split("/")
        return (
            bucket.startswith(_BUCKET_PREFIX)
            and len(partition) == self._partition_keys
            and all("=" in part for part in partition)
        )
