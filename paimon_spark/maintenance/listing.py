"""List the files of a table's directories, of few here and of many on executors.

Levels of directories are listed from the top. Where a level has many files, the executors of the active Spark session
list what is below its other directories. Files are columns, not objects: there may be millions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from paimon_spark import progress
from paimon_spark.format.arrays.arrow_numpy import array_of
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.spark_port import can_spread, spread
from paimon_spark.storage.store import FileInfo, Store

FILES: Final = pa.schema(
    [
        ("tree", pa.int32()),
        ("directory", pa.dictionary(pa.int32(), pa.string())),
        ("name", pa.string()),
        ("size", pa.int64()),
        ("modified_ms", pa.int64()),
    ]
)
"""Columns of listed files: number of the tree, path of the directory, and as in `FileInfo`."""
MANY_FILES: Final = 200_000
"""Estimated files of a level that are worth a Spark job."""
_CONCURRENT: Final = 8
_FIRST: Final = 32
"""Directories of a level that are listed before its files are estimated."""
_TASKS: Final = 256

Choose = Callable[["DirectoryTree", str, list[FileInfo]], list[FileInfo]]
"""The files of a directory that are wanted."""


class DiskFile(NamedTuple):
    """A listed file; `path` as in `reachable.PATHS`, `modified_ms` None where the store reports no time."""

    path: str
    size: int
    modified_ms: int | None


class DirectoryTree(NamedTuple):
    """A directory to be listed with everything below; `is_own` when its store is the table's."""

    store: Store
    root: str
    is_own: bool

    def name(self, path: str) -> str:
        """The path as `reachable.PATHS` has it."""
        return path if self.is_own else self.store.url(path)


def own_tree(handle: TableHandle) -> DirectoryTree:
    """The table's directory."""
    return DirectoryTree(handle.store, handle.layout.root, is_own=True)


def listed(tree: int, directory: str, files: Sequence[FileInfo]) -> pa.Table:
    """Files of a directory of a tree, given by its number, as `FILES`."""
    return _table(_Place(tree, directory), files) if files else FILES.empty_table()


class _Place(NamedTuple):
    tree: int
    directory: str


class _Listed(NamedTuple):
    """Result of a listing: wanted files, inner directories, and the counts of directories and files."""

    files: list[pa.Table]
    inside: list[_Place]
    directories: int
    seen: int


@dataclass(frozen=True, slots=True)
class _Lister:
    """Lists directories of trees. Picklable."""

    trees: Sequence[DirectoryTree]
    choose: Choose

    def one(self, place: _Place) -> _Listed:
        """List one directory."""
        tree = self.trees[place.tree]
        infos = tree.store.list(place.directory)
        inside = [_Place(place.tree, f"{place.directory}/{i.name}") for i in infos if i.is_directory]
        files = [i for i in infos if not i.is_directory]
        wanted = self.choose(tree, place.directory, files)
        return _Listed([_table(place, wanted)] if wanted else [], inside, 1, len(files))

    def below(self, places: Sequence[_Place]) -> _Listed:
        """List directories and everything below them. Executor."""
        waiting, found, listed, seen = list(places), [], 0, 0
        while waiting:
            one = self.one(waiting.pop())
            waiting += one.inside
            found += one.files
            listed += 1
            seen += one.seen
        return _Listed([pa.concat_tables(found).combine_chunks()] if found else [], [], listed, seen)


def _table(place: _Place, files: Sequence[FileInfo]) -> pa.Table:
    count = len(files)
    directory = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(count, np.int32)), array_of([place.directory], pa.string())
    )
    names, sizes, _, modified, *_ = zip(*files, strict=True)
    columns = [
        pa.repeat(pa.scalar(place.tree, pa.int32()), count),
        directory,
        array_of(list(names), pa.string()),
        array_of(list(sizes), pa.int64()),
        array_of(list(modified), pa.int64()),
    ]
    return pa.Table.from_arrays(columns, schema=FILES)


def list_files(trees: Sequence[DirectoryTree], choose: Choose, *, here: bool = False) -> pa.Table:
    """The files of trees that `choose` wants, as `FILES`.

    Args:
        trees: where to look.
        choose: picklable.
        here: list in this process, however many there are.

    Raises:
        StorageError: a directory cannot be listed.
    """
    lister = _Lister(trees, choose)
    level = [_Place(n, tree.root) for n, tree in enumerate(trees)]
    found = [pa.Table.from_batches([], FILES)]
    listed = 0

    def add(one: _Listed) -> list[_Place]:
        nonlocal listed
        listed += one.directories
        found.extend(one.files)
        progress.report("list", listed, None, "directories")
        return one.inside

    with ThreadPoolExecutor(_CONCURRENT, thread_name_prefix="paimon-list") as pool:
        while level:
            deeper: list[_Place] = []
            seen = 0
            for one in pool.map(lister.one, level[:_FIRST]):
                deeper += add(one)
                seen += one.seen
            rest = level[_FIRST:]
            if rest and not here and seen / _FIRST * len(rest) >= MANY_FILES and can_spread():
                for one in spread(lister.below, list(_groups([*rest, *deeper]))):
                    add(one)
                break
            for one in pool.map(lister.one, rest):
                deeper += add(one)
            level = deeper
    progress.report("list", listed, listed, "directories")
    return pa.concat_tables(found)


def disk_files(trees: Sequence[DirectoryTree], files: pa.Table) -> list[DiskFile]:
    """Files given as `FILES`."""
    return [
        DiskFile(trees[tree].name(f"{directory}/{name}"), size, modified_ms)
        for tree, directory, name, size, modified_ms in zip(*(c.to_pylist() for c in files.columns), strict=True)
    ]


def _groups(places: Sequence[_Place]) -> Iterator[list[_Place]]:
    """Places in groups of one size, as neighbours often have as many files."""
    size = -(-len(places) // _TASKS)
    for start in range(0, len(places), size):
        yield list(places[start : start + size])
