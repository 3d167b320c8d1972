"""Home: the warehouse, database and name that a table has by its path; where lineage keeps its own files.

Own files lie in `<warehouse>/paimon.db/_lineage/`. A directory of a database without a schema is no table to anybody.

Source: Java `catalog/FileSystemCatalog` for the layout.

Names of jobs and queries as parts of paths: any text becomes one file name that every store takes.

Source: own.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from paimon_spark.lineage.provenance import TableRef
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.options.location import DATABASE_SUFFIX
from paimon_spark.storage.store import Store

DATABASE: Final = "paimon"
"""The database of the lineage tables."""
_PASSWORD: Final = re.compile(r"(^[A-Za-z0-9+.-]+://[^/:@]*):[^/@]*@")


@dataclass(frozen=True, slots=True)
class Warehouse:
    """A warehouse, reached as its tables are. Picklable.

    Attributes:
        root: its directory in `store`.
    """

    store: Store
    root: str

    @property
    def url(self) -> str:
        return self.store.url(self.root)

    @property
    def identity(self) -> tuple[str, str]:
        """What tells it from other warehouses in this process."""
        return self.store.identity, self.root

    def table_root(self, database: str, table: str) -> str:
        """The directory of a table."""
        return f"{self.root}/{database}{DATABASE_SUFFIX}/{table}"

    @property
    def own(self) -> str:
        """The directory of lineage's own files."""
        return f"{self.root}/{DATABASE}{DATABASE_SUFFIX}/_lineage"


@dataclass(frozen=True, slots=True)
class WarehouseTable:
    """Where a branch of a table is at home."""

    warehouse: Warehouse
    ref: TableRef


def find_warehouse_table(handle: TableHandle) -> WarehouseTable | None:
    """The home of a branch; None when its path is not `<warehouse>/<database>.db/<table>`. Reads nothing."""
    parts = split_table_path(handle.layout.root)
    if parts is None:
        return None
    root, database, table = parts
    return WarehouseTable(Warehouse(handle.store, root), TableRef.of(database, table, handle.branch))


def split_table_path(path: str) -> tuple[str, str, str] | None:
    """Root of the warehouse, database and table of a table's path or URL; None where it is not that of a database."""
    folder, _, table = path.rpartition("/")
    root, _, database = folder.rpartition("/")
    if not root or not table or not database.endswith(DATABASE_SUFFIX) or database == DATABASE_SUFFIX:
        return None
    return root, database.removesuffix(DATABASE_SUFFIX), table


def without_password(url: str) -> str:
    """A URL as it may be written down for everybody who reads the warehouse."""
    return _PASSWORD.sub(r"\1@", url)


def is_lineage_table(ref: TableRef) -> bool:
    """Whether a table is one of lineage's own database, which is never recorded."""
    return ref.database == DATABASE


_LONGEST: Final = 120
"""Bytes of a quoted name that stand for themselves; file systems allow 255, and more is put behind and before it."""
_DIGEST: Final = 32


def quote_name(name: str) -> str:
    """A file name for any text, the same for the same text. Letters, digits, `-` and `_` stay as they are.

    Other characters are quoted as in URLs, dots too, so that no name is hidden, or the directory above. Long names are
    cut, and end in a digest of the whole. What a file is about stands in it: names are not read back.
    """
    text = quote(name, safe="", errors="surrogatepass").replace(".", "%2E").replace("~", "%7E")
    if text and len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST - _DIGEST - 1]}~{short_digest(name, _DIGEST)}"


def short_digest(text: str, length: int) -> str:
    """Hexadecimal digits that tell a text from others."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]
