"""Find and delete orphan files, which no snapshot, tag, changelog or branch needs.

Source: Java `operation/OrphanFilesClean`, with the same rules of what may be an orphan.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark import progress
from paimon_spark.display import MOST_ROWS, ShownAsFacts, amount
from paimon_spark.errors import InvalidInputError, UnsafeDeletionError
from paimon_spark.format.arrays.arrow_numpy import boolean_array, one_chunk, values
from paimon_spark.maintenance.change import check_there, recover
from paimon_spark.maintenance.listing import DirectoryTree, DiskFile, disk_files, list_files, listed, own_tree
from paimon_spark.maintenance.reachable import reachable_names
from paimon_spark.maintenance.removal import delete_files
from paimon_spark.maintenance.roots import branch_directories
from paimon_spark.metadata.external_files import open_for_deletion
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.lock import LOCK_DIRECTORY, LOCK_FILE
from paimon_spark.metadata.layout import CHANGELOG_PREFIX, EARLIEST, LATEST, SNAPSHOT_PREFIX
from paimon_spark.metadata.own_files import named_outside, ref_directories
from paimon_spark.metadata.retry import now_ms
from paimon_spark.metadata.schemas import list_schema_ids
from paimon_spark.redaction import get_logger
from paimon_spark.storage.store import FileInfo
from paimon_spark.text import counted, moment, safe

_LOG = get_logger(__name__)
_DAY_MS: Final = 86_400_000
_NAMES: Final = 500_000
"""Names that are looked for at once."""

_TEMPORARY: Final = re.compile(r"\..+\.[0-9a-f-]{36}\.tmp", re.DOTALL)
"""Name of an incomplete file, in our stores and in Java's."""

_BUCKET_PREFIX: Final = "bucket-"
_PACK_SUFFIX: Final = ".managed.blob"


def orphans(handle: TableHandle, older_than_ms: int | None = None, *, here: bool = False) -> list[DiskFile]:
    """The files that a clean-up may delete: of kinds that Paimon writes, in their directories, and not reachable.

    Running writes have files that their commits will name, so give `older_than_ms` (epoch milliseconds) unless there
    are none: files changed at or after it, or at an unknown time, are left out. A file whose name is reachable is
    never an orphan, in whatever directory. Large tables are looked at by executors, unless `here`.

    Raises:
        UnsafeDeletionError, CorruptFileError: metadata is missing or cannot be decoded, so what it needs is unknown.
        StorageError: a file cannot be read, or a directory cannot be listed.
    """
    # List files first, then find what is reachable: files of a concurrent commit are found reachable.
    trees = [own_tree(handle)]
    found = list_files(trees, _Candidates(handle, older_than_ms), here=here)
    outside = _outside(handle, older_than_ms)
    trees += [tree for tree, _ in outside]
    parts = [listed(n, tree.root, files) for n, (tree, files) in enumerate(outside, start=1)]
    found = pa.concat_tables([found, *parts])
    names = found.column("name")
    alone = np.ones(len(found), np.bool_)
    for used in _joined(reachable_names(handle, here=here)):
        alone &= ~values(one_chunk(pc.is_in(names, value_set=used.cast(pa.string()))))
    progress.report("look at files", len(found), len(found))
    return disk_files(trees, found.filter(boolean_array(alone)))


def _outside(handle: TableHandle, older_than_ms: int | None) -> list[tuple[DirectoryTree, list[FileInfo]]]:
    """Directories outside the table, and their files that the table's own manifests name and that may be deleted.

    Others are left: other tables may have files there, which look the same.
    """
    names: dict[str, set[str]] = {}
    for url, may in named_outside(handle, delete=True):
        if may:
            directory, _, name = url.rpartition("/")
            names.setdefault(directory, set()).add(name)
    out = []
    for directory, wanted in names.items():
        store, path = open_for_deletion(handle, f"{directory}/file")
        tree = DirectoryTree(store, path.rpartition("/")[0], store is handle.store)
        files = [i for i in store.list(tree.root) if i.name in wanted and not i.is_directory]
        out.append((tree, [i for i in files if _is_old(i, older_than_ms)]))
    return out


def _is_old(info: FileInfo, older_than_ms: int | None) -> bool:
    return older_than_ms is None or (info.modified_ms is not None and info.modified_ms < older_than_ms)


def _joined(parts: Iterable[pa.Array]) -> Iterator[pa.Array]:
    """Names in fewer and larger arrays, as each is looked for among all files."""
    waiting: list[pa.Array] = []
    for part in parts:
        waiting.append(part)
        if sum(map(len, waiting)) >= _NAMES:
            yield pa.concat_arrays(waiting)
            waiting = []
    if waiting:
        yield pa.concat_arrays(waiting)


@dataclass(frozen=True, slots=True, repr=False)
class RemovedOrphans(ShownAsFacts):
    """Orphan files that were deleted, or with a dry run would be.

    Attributes:
        paths: absolute in the table's store, or full URLs in another store.
        finished: label of an operation of a dead process that was finished first; None if there was none.
        dry_run: whether nothing was deleted.
        older_than_ms: the moment that was asked for, in epoch milliseconds; None if none was.
        outside: the table's external paths. Below them only files that its manifests name are looked at.
    """

    files: int = 0
    bytes: int = 0
    paths: tuple[str, ...] = ()
    finished: str | None = None
    dry_run: bool = field(default=False, compare=False)
    older_than_ms: int | None = field(default=None, compare=False)
    outside: tuple[str, ...] = ()

    def text_lines(self) -> list[str]:
        found = f"{counted(self.files, 'file')}, {amount(self.bytes)}"
        if self.older_than_ms is not None:
            found += f", older than {moment(self.older_than_ms)}"
        if not self.dry_run:
            return [f"deleted {found}", *self._remarks()]
        more = [f"  and {len(self.paths) - MOST_ROWS:,} more"] if len(self.paths) > MOST_ROWS else []
        return [
            f"would delete {found}",
            *(f"  {safe(path)}" for path in self.paths[:MOST_ROWS]),
            *more,
            *self._remarks(),
        ]

    def _remarks(self) -> list[str]:
        if not self.outside:
            return []
        where = safe(", ".join(self.outside))
        return [f"left files below {where} that no manifest of the table names: other tables may have files there"]


def remove_orphan_files(
    handle: TableHandle,
    older_than_ms: int | None = None,
    *,
    dry_run: bool = False,
    here: bool = False,
    clock_ms: Callable[[], int] = now_ms,
) -> RemovedOrphans:
    """Delete orphan files of all branches last changed before a time, by default one day ago.

    Large tables are looked at by the executors of the active Spark session, unless `here`.

    An operation that a dead process left unfinished is finished first, except by a dry run.
    """
    now = clock_ms()
    before_ms = now - _DAY_MS if older_than_ms is None else older_than_ms
    if before_ms > now:
        raise InvalidInputError(
            f"cannot remove orphan files of table {handle.name} older than {before_ms} ms: that time is not in the "
            f"past (now is {now} ms), and files of running writes would be deleted; give an earlier time",
            table=handle.name,
        )
    check_there(handle)
    finished = None if dry_run else recover(handle)
    _check_branches(handle)
    found = orphans(handle, before_ms, here=here)
    if not dry_run:
        delete_files(handle, [f.path for f in found], here=here)
        _LOG.info("%s: deleted %d orphan files", handle.describe(), len(found))
    paths, outside = tuple(f.path for f in found), tuple(handle.options.external_paths)
    return RemovedOrphans(len(found), sum(f.size for f in found), paths, finished, dry_run, outside=outside)


def _check_branches(handle: TableHandle) -> None:
    """Check that directories with snapshots or tags are branches. Source: Java `OrphanFilesClean.validBranches`."""
    incomplete = [
        branch.branch
        for branch in branch_directories(handle)[1:]
        if not branch.branch.startswith(".") and not list_schema_ids(branch.store, branch.layout)
        if any(branch.store.list(directory) for directory in (branch.layout.snapshot_dir, branch.layout.tag_dir))
    ]
    # What such a directory needs cannot be told from it, so its files would pass for orphans.
    if incomplete:
        raise UnsafeDeletionError(
            f"no orphan file of table {handle.name} was deleted: {', '.join(map(repr, incomplete))} below "
            f"{handle.store.url(handle.layout.branches_dir)} have snapshots or tags but no schema; another engine may "
            "be creating or deleting branches there. doctor() repairs them; otherwise delete these directories",
            table=handle.name,
            branches=incomplete,
        )


class _Candidates:
    """Which files of a table's directories are orphans unless they are reachable. Picklable."""

    def __init__(self, handle: TableHandle, older_than_ms: int | None) -> None:
        self._older_than_ms = older_than_ms
        self._layout = handle.layout
        self._partition_keys = len(handle.schema.partition_keys)
        layouts = [branch.layout for branch in branch_directories(handle)]
        self._refs = {directory for layout in layouts for directory, _ in ref_directories(layout)}
        self._refs |= {layout.branch_root for layout in layouts}
        self._lock_directory = f"{handle.layout.root}/{LOCK_DIRECTORY}"
        self._snapshots = dict.fromkeys((layout.snapshot_dir for layout in layouts), SNAPSHOT_PREFIX)
        self._snapshots |= dict.fromkeys((layout.changelog_dir for layout in layouts), CHANGELOG_PREFIX)

    def __call__(self, tree: DirectoryTree, directory: str, infos: list[FileInfo]) -> list[FileInfo]:
        """The candidates among the files of a directory."""
        return [i for i in self._among(tree, directory, infos) if _is_old(i, self._older_than_ms)]

    def _among(self, tree: DirectoryTree, directory: str, infos: list[FileInfo]) -> list[FileInfo]:
        if self._holds_shared_files(tree, directory):
            return [i for i in infos if not i.name.endswith(_PACK_SUFFIX)]
        if tree.is_own and directory in self._snapshots:
            prefix = self._snapshots[directory]
            return [i for i in infos if not i.name.startswith(prefix) and i.name not in (LATEST, EARLIEST)]
        if tree.is_own and directory == self._lock_directory:
            # Files of finished operations; without a lock none is running.
            return [] if any(i.name == LOCK_FILE for i in infos) else infos
        if tree.is_own and directory in self._refs:
            return [i for i in infos if _TEMPORARY.fullmatch(i.name)]
        return []

    def _holds_shared_files(self, tree: DirectoryTree, directory: str) -> bool:
        """Whether the directory holds manifests, indexes, statistics or the files of a bucket."""
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
