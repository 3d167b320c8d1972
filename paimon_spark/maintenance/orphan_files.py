"""Find orphan files, which nothing reachable names, and delete old ones.

Source: Java `operation/OrphanFilesClean`, with the same rules of what may be an orphan.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, NamedTuple

from paimon_spark import progress
from paimon_spark.display import ShownAsFacts
from paimon_spark.errors import InvalidInputError, UnsafeDeletionError
from paimon_spark.format.metadata_files.manifest import collector_paused
from paimon_spark.maintenance.change import check_there, recover
from paimon_spark.maintenance.reachable import reachable_names, ref_directories
from paimon_spark.maintenance.roots import branch_directories
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.lock import LOCK_DIRECTORY, LOCK_FILE
from paimon_spark.metadata.layout import CHANGELOG_PREFIX, EARLIEST, LATEST, SNAPSHOT_PREFIX
from paimon_spark.metadata.retry import now_ms
from paimon_spark.metadata.schemas import list_schema_ids
from paimon_spark.storage.store import FileInfo, Store
from paimon_spark.storage.urls import external_path

_DAY_MS: Final = 86_400_000
_CONCURRENT: Final = 8
_TOGETHER: Final = 1000
"""Files deleted with one call."""

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
        UnsafeDeletionError, CorruptFileError: metadata is missing or cannot be decoded, so nobody can tell what it
            needs.
        StorageError: a file cannot be read, or a directory not be listed.
    """
    # First what is there, then what is reachable: files of a commit made meanwhile are found reachable.
    candidates = _Candidates(handle)
    with collector_paused():
        there = [(tree, directory, infos) for tree in _trees(handle) for directory, infos in _walk(tree)]
    used = set(reachable_names(handle).to_pylist())
    progress.report("look at files", files := sum(len(infos) for _, _, infos in there), files)
    return [
        DiskFile(tree.name(f"{directory}/{info.name}"), info.size, info.modified_ms)
        for tree, directory, infos in there
        for info in candidates.among(tree, directory, [i for i in infos if i.name not in used])
        if older_than_ms is None or (info.modified_ms is not None and info.modified_ms < older_than_ms)
    ]


@dataclass(frozen=True, slots=True)
class RemovedOrphans(ShownAsFacts):
    """Orphans that were deleted, or with a dry run would be.

    Attributes:
        paths: absolute in the table's store, or full URLs in another store.
        finished: label of an operation of a dead process that was finished first; None if there was none.
    """

    files: int = 0
    bytes: int = 0
    paths: tuple[str, ...] = ()
    finished: str | None = None


def remove_orphan_files(
    handle: TableHandle,
    older_than_ms: int | None = None,
    *,
    dry_run: bool = False,
    clock_ms: Callable[[], int] = now_ms,
) -> RemovedOrphans:
    """Delete the orphans of all branches that were not changed since a time; one day ago if none is given.

    What a dead process left unfinished is finished first, but not by a dry run.

    Raises:
        InvalidInputError: the time is not in the past.
        UnsafeDeletionError: it cannot be told what is needed; nothing was deleted.
        CorruptFileError: as `orphans`.
        OperationInProgressError: another process changes tags or branches all the time.
        StorageError: a directory cannot be listed, or a file not be read or deleted.
    """
    now = clock_ms()
    before_ms = now - _DAY_MS if older_than_ms is None else older_than_ms
    if before_ms > now:
        raise InvalidInputError(
            f"orphan files of table {handle.name} older than {before_ms} ms were to be removed, but that time is not "
            f"in the past (it is {now} ms now): files of writes that go on would be deleted",
            table=handle.name,
        )
    check_there(handle)
    finished = None if dry_run else recover(handle)
    _check_branches(handle)
    found = orphans(handle, before_ms)
    if not dry_run:
        _delete(handle, [f.path for f in found])
    return RemovedOrphans(len(found), sum(f.size for f in found), tuple(f.path for f in found), finished)


def _check_branches(handle: TableHandle) -> None:
    """Check that what looks like a branch is one. Raises UnsafeDeletionError.

    Source: Java `OrphanFilesClean.validBranches`.
    """
    half = [
        branch.branch
        for branch in branch_directories(handle)[1:]
        if not branch.branch.startswith(".") and not list_schema_ids(branch.store, branch.layout)
        if any(branch.store.list(directory) for directory in (branch.layout.snapshot_dir, branch.layout.tag_dir))
    ]
    if half:
        raise UnsafeDeletionError(
            f"no orphan file of table {handle.name} was deleted: {', '.join(map(repr, half))} below "
            f"{handle.store.url(handle.layout.branches_dir)} have snapshots or tags but no schema, as if another "
            "engine were making or deleting branches there. doctor() repairs them; else delete these directories",
            table=handle.name,
            branches=half,
        )


def _delete(handle: TableHandle, paths: Sequence[str]) -> None:
    own = [path for path in paths if "://" not in path]
    for start in range(0, len(own), _TOGETHER):
        handle.store.delete_many(own[start : start + _TOGETHER])
        progress.report("delete", min(start + _TOGETHER, len(own)), len(paths))
    outside = [path for path in paths if "://" in path]
    for done, path in enumerate(outside, len(own) + 1):
        store, inside = external_path(handle.store, path)
        store.delete(inside)
        progress.report("delete", done, len(paths))


def _trees(handle: TableHandle) -> list[_Tree]:
    trees = [_Tree(handle.store, handle.layout.root, is_own=True)]
    for url in handle.options.external_paths:
        if url.strip():
            store, path = external_path(handle.store, url.strip())
            trees.append(_Tree(store, path, store is handle.store))
    return trees


def _walk(tree: _Tree) -> Iterator[tuple[str, list[FileInfo]]]:
    """Each directory below the tree's root, itself included, with its files."""
    level, listed = [tree.root], 0
    with ThreadPoolExecutor(_CONCURRENT, thread_name_prefix="paimon-list") as pool:
        while level:
            deeper = []
            for directory, infos in zip(level, pool.map(tree.store.list, level), strict=True):
                listed += 1
                progress.report("list", listed, None, "directories")
                yield directory, [i for i in infos if not i.is_directory]
                deeper += [f"{directory}/{i.name}" for i in infos if i.is_directory]
            level = deeper
    progress.report("list", listed, listed, "directories")


class _Candidates:
    """Which files of a table's directories are orphans unless something reachable names them."""

    def __init__(self, handle: TableHandle) -> None:
        self._layout = handle.layout
        self._partition_keys = len(handle.schema.partition_keys)
        layouts = [branch.layout for branch in branch_directories(handle)]
        self._refs = {directory for layout in layouts for directory, _ in ref_directories(layout)}
        self._refs |= {layout.branch_root for layout in layouts}
        self._lock_directory = f"{handle.layout.root}/{LOCK_DIRECTORY}"
        self._snapshots = dict.fromkeys((layout.snapshot_dir for layout in layouts), SNAPSHOT_PREFIX)
        self._snapshots |= dict.fromkeys((layout.changelog_dir for layout in layouts), CHANGELOG_PREFIX)

    def among(self, tree: _Tree, directory: str, infos: list[FileInfo]) -> list[FileInfo]:
        if self._holds_shared_files(tree, directory):
            return [i for i in infos if not i.name.endswith(_PACK_SUFFIX)]
        if tree.is_own and directory in self._snapshots:
            prefix = self._snapshots[directory]
            return [i for i in infos if not i.name.startswith(prefix) and i.name not in (LATEST, EARLIEST)]
        if tree.is_own and directory == self._lock_directory:
            # Files of operations that are over; without a lock none is running.
            return [] if any(i.name == LOCK_FILE for i in infos) else infos
        if tree.is_own and directory in self._refs:
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
