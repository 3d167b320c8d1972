"""Deletion of the files of tables and of the folders of databases; files of others stay.

External files of a dropped table are deleted one by one.

Source: Java `catalog/FileSystemCatalog.dropTableImpl`, which deletes whole external paths; here only the files go that
the table's manifests name, as other tables may have files beside them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from paimon_spark.errors import PaimonError
from paimon_spark.metadata.external_files import OPTIONS, left_outside, open_for_deletion
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.layout import LATEST, SNAPSHOT_PREFIX, Layout
from paimon_spark.metadata.own_files import FoundFiles, OwnFiles, named_outside
from paimon_spark.redaction import get_logger
from paimon_spark.storage.local import is_link
from paimon_spark.storage.store import Store
from paimon_spark.text import safe

_LOG = get_logger(__name__)
MARKER: Final = ".database"
"""A file in databases of stores that have no directories; nothing reads it."""
_FIRST: Final = ("snapshot", "branch", "tag")
_SHOWN: Final = 10
_SNAPSHOT: Final = re.compile(rf"{SNAPSHOT_PREFIX}(\d+)", re.ASCII)


def drop_table_files(store: Store, root: str) -> list[str]:
    """Delete the files of a table, and its folder unless files of others are in it.

    Returns:
        URLs of the files and folders that stay. Of a folder that is a symbolic link, the link alone is deleted.

    Raises:
        CorruptFileError: the newest schema cannot be decoded, so the files of the table are not known.
        StorageError: a store failed.
    """
    if is_link(store, root):
        store.delete_tree(root)
        return []
    found = OwnFiles(store, root).find()
    *steps, last = _in_order(root, found.own)
    for paths in steps:
        store.delete_many(paths)
    if not found.others and store.renames_directories:  # empty ones would be anybody's once there is no schema
        for directory in found.directories[1:]:
            if directory.rpartition("/")[0] == root and directory != Layout(root).schema_dir:
                store.delete_tree(directory)
    store.delete_many(last)
    if found.others:
        _remove_directories(store, found)
        left = [store.url(path) for path in sorted(found.others)]
        _LOG.warning("%s stays: no writer of Paimon made %s", store.url(root), shown_paths(left))
        return left
    store.delete_tree(root)
    return []


def _in_order(root: str, own: Sequence[str]) -> list[list[str]]:
    """The files in steps: readers see the whole table, an empty one (no snapshots), or none (no schemas).

    The newest snapshot is deleted last, so that an older one is never the head.
    """
    snapshots = Layout(root).snapshot_dir
    numbers = {}
    for path in own:
        directory, _, name = path.rpartition("/")
        matched = _SNAPSHOT.fullmatch(name)
        if directory == snapshots and matched:
            numbers[path] = int(matched[1])
    newest = max(numbers.values(), default=None)
    older = sorted((p for p, number in numbers.items() if number != newest), key=numbers.__getitem__)
    steps: dict[str, list[str]] = {"older": older, **{name: [] for name in (*_FIRST, "others", "last")}}
    done = set(older)
    for path in own:
        if path not in done:
            part, _, below = path[len(root) + 1 :].partition("/")
            steps[_step(part, below)].append(path)
    # Other engines trust a hint even when it names a missing snapshot.
    steps["snapshot"].sort(key=lambda path: not path.endswith(f"/{LATEST}"))
    return list(steps.values())


def _step(part: str, below: str) -> str:
    if part in _FIRST:
        return part
    return "others" if below and part != "schema" else "last"


def _remove_directories(store: Store, found: FoundFiles) -> None:
    """Remove the directories of the table that hold nothing of others."""
    kept = set()
    for path in found.others:
        while "/" in path[1:]:
            path = path.rpartition("/")[0]
            kept.add(path)
    for directory in reversed(found.directories):
        if directory not in kept:
            store.delete_tree(directory)


def left_in_database(store: Store, root: str) -> list[str]:
    """Names of everything in the folder of a database."""
    return [info.name for info in store.list(root) if info.name != MARKER]


def remove_empty_database(store: Store, root: str) -> bool:
    """Remove the folder of a database in which `left_in_database` found nothing; whether it is gone.

    It stays where something was put into it meanwhile, on stores that can tell, or a link that leads nowhere.
    """
    remove = getattr(store, "remove_if_empty", None)
    if remove is None or is_link(store, root):
        store.delete_tree(root)
        return True
    store.delete(f"{root}/{MARKER}")
    return bool(remove(root)) or not store.exists(root)


def shown_paths(paths: Iterable[str]) -> str:
    """The first of some paths or names, for messages in one line."""
    found = [safe(path) for path in paths]
    more = f" and {len(found) - _SHOWN:,} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more


@dataclass(frozen=True, slots=True)
class OutsideFiles:
    """External paths that the manifests of a table name, by whether they may be deleted.

    Attributes:
        handle: the table; None when it has no external paths.
        deletable: URLs of files to delete with the table.
        left: URLs of files that stay.
    """

    handle: TableHandle | None = None
    deletable: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    def delete(self) -> None:
        """Delete the files after the table itself, and log those that stay. Raises StorageError."""
        if self.handle is None:
            return
        for url in self.deletable:
            store, path = open_for_deletion(self.handle, url)
            store.delete(path)
        if self.left:
            _LOG.warning("dropped table %s: %s", self.handle.name, left_outside(self.left))


def outside_files(store: Store, root: str, name: str) -> OutsideFiles:
    """The files outside the directory of a table whose options list external paths. Reads all its manifests.

    Files that unreadable metadata names stay; that is logged.
    """
    try:
        handle = open_table(store, root, name=name)
    except PaimonError as e:
        _LOG.warning("files of table %s outside its directory stay, if there are any: %s", name, e)
        return OutsideFiles()
    if not any(handle.options.raw.get(key, "").strip() for key in OPTIONS):
        return OutsideFiles()
    deletable: dict[str, None] = {}
    left: dict[str, None] = {}
    for url, may in named_outside(handle, delete=True):
        (deletable if may else left)[url] = None
    return OutsideFiles(handle, tuple(deletable), tuple(left))
