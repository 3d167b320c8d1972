"""Find and delete the external files of a table that is dropped.

Source: Java `catalog/FileSystemCatalog.dropTableImpl`, which deletes whole external paths; here only the files go that
the table's manifests name, as other tables may have files beside them.
"""

from __future__ import annotations

from dataclasses import dataclass

from paimon_spark.errors import PaimonError
from paimon_spark.metadata.external_files import OPTIONS, left_outside, open_for_deletion
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.named_outside import named_outside
from paimon_spark.redaction import get_logger
from paimon_spark.storage.store import Store

_LOG = get_logger(__name__)


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
