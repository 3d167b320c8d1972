"""Find and delete the external files of a table that is dropped.

Source: Java `catalog/FileSystemCatalog.dropTableImpl`, which deletes whole external paths; here only the files go that
the table's manifests name, as other tables may have files beside them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import pyarrow.compute as pc

from paimon_spark.errors import FileMissingError, FormatError, PaimonError
from paimon_spark.format.metadata_files.manifest import ManifestFileMeta
from paimon_spark.metadata.external_files import OPTIONS, data_files_of, index_refusal, left_outside, open_for_deletion
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.layout import is_file_name
from paimon_spark.metadata.manifests import find_index_manifests, find_manifest_lists, read_manifests
from paimon_spark.storage.store import Store

_LOG = logging.getLogger(__name__)
T = TypeVar("T")


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
    names = [info.name for info in store.list(f"{root}/manifest") if not info.is_directory]
    for url, may in (*_data_files(handle, names), *_index_files(handle, names)):
        (deletable if may else left)[url] = None
    return OutsideFiles(handle, tuple(deletable), tuple(left))


def _data_files(handle: TableHandle, names: list[str]) -> Iterator[tuple[str, bool]]:
    """Yield external data files with the files beside them, and whether they may be deleted."""
    allowed = data_files_of(handle)
    metas: dict[str, ManifestFileMeta] = {}
    for name in names:
        if "manifest-list-" in name:
            found = _readable(name, partial(find_manifest_lists, handle, [name])) or {}
            metas.update((meta.file_name, meta) for rows in found.values() for meta in rows or ())
    for name, meta in metas.items():
        entries = _readable(name, partial(read_manifests, handle, [meta], statistics=False))
        if entries is None:
            continue
        some = entries.select(["file_name", "extra_files", "external_path"])
        for row in some.filter(pc.is_valid(some.column("external_path"))).to_pylist():
            directory = row["external_path"].rpartition("/")[0]
            for file in (row["file_name"], *row["extra_files"]):
                url = f"{directory}/{file}"
                yield url, is_file_name(file) and allowed.refusal(url, delete=True) is None


def _index_files(handle: TableHandle, names: list[str]) -> Iterator[tuple[str, bool]]:
    """Yield external index files, and whether they may be deleted."""
    for name in names:
        if "index-manifest-" in name:
            found = _readable(name, partial(find_index_manifests, handle, [name])) or {}
            for entry in (entry for entries in found.values() for entry in entries or ()):
                if entry.external_path is not None:
                    yield entry.external_path, index_refusal(handle, entry) is None


def _readable(name: str, read: Callable[[], T]) -> T | None:
    """What a file of metadata holds; None where it is gone or damaged."""
    try:
        return read()
    except FileMissingError:  # of a snapshot that expired in part
        return None
    except FormatError as e:
        _LOG.warning("external files that %s names stay: %s", name, e)
        return None
