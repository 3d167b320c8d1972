"""Warehouses and the tables in them: locations, file names of lineage, warnings given once.

Files of lineage are in `<warehouse>/paimon.db/_lineage/`. A directory of a database without a schema is no table.

Source: Java `catalog/FileSystemCatalog` for the layout.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final
from urllib.parse import quote

from paimon_spark.errors import PaimonError
from paimon_spark.lineage.index.provenance import TableRef
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.options.location import DATABASE_SUFFIX
from paimon_spark.redaction import get_logger
from paimon_spark.storage.local import within
from paimon_spark.storage.store import Store

_LOG = get_logger(__name__)
DATABASE: Final = "paimon"
"""The database of the lineage tables."""
FILE_VERSION: Final = 1
_LONGEST: Final = 120
"""Bytes of a quoted name before it is cut; file systems allow 255, and other parts are put around it."""
_DIGEST: Final = 32
_MOST_WARNINGS: Final = 1000
_warned: set[tuple[str, str]] = set()
_lock: Final = Lock()


@dataclass(frozen=True, slots=True)
class Warehouse:
    """A warehouse; `root` is its directory in `store`. Picklable."""

    store: Store
    root: str

    @property
    def url(self) -> str:
        return self.store.url(self.root)

    @property
    def identity(self) -> tuple[str, str]:
        """A key that is unique in this process."""
        return self.store.identity, self.root

    def exists(self) -> bool:
        """Whether its directory is there, or a file below it."""
        return self.store.exists(self.root)

    def table_root(self, database: str, table: str) -> str:
        """The directory of a table."""
        return f"{self.root}/{database}{DATABASE_SUFFIX}/{table}"

    @property
    def lineage_dir(self) -> str:
        """The directory of the files of lineage."""
        return f"{self.root}/{DATABASE}{DATABASE_SUFFIX}/_lineage"


@dataclass(frozen=True, slots=True)
class WarehouseTable:
    """A branch of a table, and its warehouse."""

    warehouse: Warehouse
    ref: TableRef


def find_warehouse_table(handle: TableHandle) -> WarehouseTable | None:
    """The warehouse of a branch; None when its path is not `<warehouse>/<database>.db/<table>`. Reads nothing."""
    parts = split_table_path(handle.layout.root)
    if parts is None:
        return None
    root, database, table = parts
    return WarehouseTable(Warehouse(within(handle.store, root), root), TableRef.of(database, table, handle.branch))


def split_table_path(path: str) -> tuple[str, str, str] | None:
    """Split the path or URL of a table into warehouse, database and table; None when it is not in a database."""
    folder, _, table = path.rpartition("/")
    root, _, database = folder.rpartition("/")
    if not root or not table or not database.endswith(DATABASE_SUFFIX) or database == DATABASE_SUFFIX:
        return None
    return root, database.removesuffix(DATABASE_SUFFIX), table


def is_lineage_table(ref: TableRef) -> bool:
    """Whether a table is in the database of lineage, which is never recorded."""
    return ref.database == DATABASE


def quote_name(name: str) -> str:
    """Quote any text as a file name: as in URLs, dots too, so that no name is hidden or the parent directory.

    Long names are cut and end in a digest of the whole; names are not read back, as the files hold them.
    """
    text = quote(name, safe="", errors="surrogatepass").replace(".", "%2E").replace("~", "%7E")
    if text and len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST - _DIGEST - 1]}~{short_digest(name, _DIGEST)}"


def short_digest(text: str, length: int) -> str:
    """The first hexadecimal digits of the SHA-256 of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]


def encode_file(**fields: Any) -> bytes:
    """The content of a small file of lineage."""
    return json.dumps({"version": FILE_VERSION, **fields}, ensure_ascii=True).encode()


def warn_once(about: str, what: str, error: Exception | None = None) -> None:
    """Log a warning once for each process; an error that is not ours comes with its stack."""
    key = (about, what)
    with _lock:
        if key in _warned:
            return
        if len(_warned) >= _MOST_WARNINGS:
            _warned.clear()
        _warned.add(key)
    stack = None if error is None or isinstance(error, PaimonError | OSError) else error
    _LOG.warning("lineage of %s: %s%s", about, what, "" if error is None else f": {error}", exc_info=stack)


def forget_warnings() -> None:
    """Give all warnings again, as a new process does."""
    with _lock:
        _warned.clear()
