"""Files of a table for checks: which exist, which are reachable, and which reachable ones are missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import pyarrow as pa

from paimon_spark.errors import FileMissingError
from paimon_spark.format.arrays.arrow_numpy import array_of
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.maintenance.listing import DiskFile, disk_files, list_files, own_tree
from paimon_spark.maintenance.reachable import PATHS, entry_paths, index_paths, ref_files, shared_files
from paimon_spark.maintenance.roots import all_roots, branch_directories
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import read_index_manifest, read_manifest_list, read_manifests
from paimon_spark.metadata.snapshots import find_changelog, list_changelog_ids, list_snapshots
from paimon_spark.metadata.tags import list_tags
from paimon_spark.storage.store import FileInfo
from paimon_spark.storage.urls import external_path

T = TypeVar("T")


def files_on_disk(handle: TableHandle) -> list[DiskFile]:
    """List every file below the table's directory."""
    trees = [own_tree(handle)]
    return disk_files(trees, list_files(trees, lambda _, __, files: files, here=True))


def reachable_files(handle: TableHandle) -> set[str]:
    """Paths of the files needed by the snapshots, tags and changelogs of all branches, and of these themselves.

    Files that a manifest only names in DELETE entries are included, and may be gone.
    """
    branches = branch_directories(handle)
    main = branches[0]
    refs = [path for branch in branches for path in ref_files(branch)]
    if main.store.exists(main.layout.main_branch_file):
        refs.append(main.layout.main_branch_file)
    snapshots = [root.snapshot for root in all_roots(handle)]
    parts = shared_files(main, snapshots, lambda entries: entry_paths(main, entries))
    return set(pa.concat_arrays([array_of(refs, PATHS), *parts]).to_pylist())


def missing_files(handle: TableHandle) -> list[str]:
    """Missing files among those that must exist: metadata, and data alive in a snapshot or tag.

    Merges the manifests of each snapshot.
    """
    branches = branch_directories(handle)
    main = branches[0]
    ends = [end for branch in branches for end in _ends(branch)]
    there = _Presence(main)
    needed = (path for end in ends for part in _needed(main, end, there) for path in part.to_pylist())
    return [path for path in dict.fromkeys(needed) if not there.has(path)]


class _RootNeeds(NamedTuple):
    """What a root needs: the state of its snapshot, its changelog, or both."""

    snapshot: Snapshot
    state: bool
    changelog: bool


def _ends(branch: TableHandle) -> list[_RootNeeds]:
    changelogs = (find_changelog(branch, i) for i in list_changelog_ids(branch))
    return [
        *(_RootNeeds(s, state=True, changelog=True) for s in list_snapshots(branch)),
        *(_RootNeeds(tag.snapshot, state=True, changelog=False) for tag in list_tags(branch)),
        *(_RootNeeds(c, state=False, changelog=True) for c in changelogs if c is not None),
    ]


def _needed(main: TableHandle, end: _RootNeeds, there: _Presence) -> Iterator[pa.Array]:
    snapshot = end.snapshot
    names = [snapshot.base_manifest_list, snapshot.delta_manifest_list] if end.state else []
    logs = [snapshot.changelog_manifest_list] if end.changelog and snapshot.changelog_manifest_list else []
    indexes = [snapshot.index_manifest] if end.state and snapshot.index_manifest else []
    yield array_of([main.layout.manifest_path(name) for name in (*names, *logs, *indexes)], PATHS)
    if end.state and snapshot.statistics:
        yield array_of([main.layout.statistics_path(snapshot.statistics)], PATHS)
    for name in indexes:
        yield index_paths(main, _or_empty(read_index_manifest, main, name))
    for lists, entries_of in ((names, live_entries), (logs, read_manifests)):
        metas = [m for name in lists for m in _or_empty(read_manifest_list, main, name)]
        paths = [main.layout.manifest_path(m.file_name) for m in metas]
        yield array_of(paths, PATHS)
        if all(map(there.has, paths)):
            yield entry_paths(main, entries_of(main, metas))


class _Presence:
    """Which files exist, by one listing of each directory asked for."""

    def __init__(self, main: TableHandle) -> None:
        self._main = main
        self._names: dict[str, frozenset[str]] = {}

    def has(self, path: str) -> bool:
        directory, _, name = path.rpartition("/")
        names = self._names.get(directory)
        if names is None:
            names = frozenset(i.name for i in self._listed(directory) if not i.is_directory)
            self._names[directory] = names
        return name in names

    def _listed(self, directory: str) -> list[FileInfo]:
        if "://" not in directory:
            return self._main.store.list(directory)
        store, inside = external_path(self._main.store, directory)
        return store.list(inside)


def _or_empty(read: Callable[[TableHandle, str], list[T]], main: TableHandle, name: str) -> list[T]:
    try:
        return read(main, name)
    except FileMissingError:
        return []
