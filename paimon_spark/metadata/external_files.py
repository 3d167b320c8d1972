"""ExternalFiles: which files outside its directory a table may name, and where they are.

Whoever may write a table chooses its options and the paths in its manifests. A path is followed only below a root that
the table lists and the user's catalog allows. Everything that opens or deletes such a file asks here. Places are parsed
strictly and compared by path segments, as the text may be hostile: what cannot be compared for certain is no place.

Source of the paths: Java `io/DataFileMeta.externalPath`, `index/IndexFileMeta.externalPath`,
`fs/ExternalPathProvider`; the rules are this package's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote

from paimon_spark.errors import InvalidOptionError, UnsupportedFeatureError
from paimon_spark.format.metadata_files.index_manifest import DELETION_VECTORS, HASH, IndexManifestEntry
from paimon_spark.options.catalog import ALLOWED_EXTERNAL_PATHS
from paimon_spark.options.data_files import EXTERNAL_PATHS
from paimon_spark.options.descriptor import Option, names
from paimon_spark.storage.store import Store
from paimon_spark.storage.urls import external_path, open_store
from paimon_spark.text import counted, safe

if TYPE_CHECKING:
    from paimon_spark.metadata.handle import TableHandle
    from paimon_spark.options.table import TableOptions


_INDEX_PATH: Final[Option[tuple[str, ...]]] = Option("global-index.external-path", names, (), "")
OPTIONS: Final = (EXTERNAL_PATHS.key, _INDEX_PATH.key)
"""Options of tables that have files outside their directory."""
_FEATURE: Final = "external paths"
_SHOWN: Final = 300
"""Most characters of a path in a message."""
_NAMED: Final = 5
"""Most paths in a message."""


@dataclass(frozen=True, slots=True)
class ExternalFiles:
    """The external files of one table and kind. Picklable.

    Attributes:
        own: the table's directory, or one in it.
        listed: roots that the table's options list.
        allowed: roots that the user's catalog allows; None for the default.
        keys: the options that list roots.
    """

    own: StorePath | None
    listed: tuple[StorePath, ...]
    allowed: tuple[StorePath, ...] | None
    keys: str

    def refusal(self, url: str, *, delete: bool = False) -> str | None:
        """Why a file may not be read, or with `delete` not be deleted; None when it may."""
        place = find_place(url)
        if place is None:
            return "it is no absolute path or URL, or leads upwards"
        if not any(place.is_below(root) for root in self.listed):
            return f"it is below no root that the table lists in its option {self.keys}"
        if place.is_local and (self.own is None or not self.own.is_local):
            return "it is on this machine, and the table is not"
        if self.allowed is None:
            if delete:
                return f"the catalog option {ALLOWED_EXTERNAL_PATHS.key} is not set; list its root there"
            if self.own is None or not place.shares_store(self.own):
                return f"it is in another store; list its root in the catalog option {ALLOWED_EXTERNAL_PATHS.key}"
            return None
        allowing = [root for root in self.allowed if place.is_below(root)]
        if not allowing:
            return f"it is below no root in the catalog option {ALLOWED_EXTERNAL_PATHS.key}; list its root there"
        # A root around the table is around the warehouse or a whole store, where the files of others are, too.
        if delete and self.own is not None and all(self.own.may_be_in(root) for root in allowing):
            return (
                f"the root in the catalog option {ALLOWED_EXTERNAL_PATHS.key} holds the table itself, too, and allows "
                "only reads; list a root of external files alone there"
            )
        return None

    def open(self, store: Store, url: str, table: str, *, delete: bool = False) -> tuple[Store, str]:
        """The store and path of a file to be read, or with `delete` to be deleted. Connects to nothing yet.

        Raises:
            UnsupportedFeatureError: the file may not be followed.
            StorageError: there is no file system for its scheme.
        """
        reason, place = self.refusal(url, delete=delete), find_place(url)
        if reason is not None or place is None:
            raise UnsupportedFeatureError(
                f"file {_short(url)} of table {table} lies outside the table and is not followed: {reason}",
                feature=_FEATURE,
                path=url,
                table=table,
                option=ALLOWED_EXTERNAL_PATHS.key,
            )
        return _opened(store, self.own, place)


def allowed_roots(store: Store) -> tuple[str, ...] | None:
    """Roots that the user's catalog allows, from the store's options; None for the default."""
    return ALLOWED_EXTERNAL_PATHS.get(getattr(store, "options", {}))


def external_data_files(store: Store, inside: str, options: TableOptions) -> ExternalFiles:
    """The rules for data files of a table; `inside` is a path in its directory, in `store`."""
    return _rules(store, inside, options.external_paths, EXTERNAL_PATHS.key)


def data_files_of(handle: TableHandle) -> ExternalFiles:
    """As `external_data_files`. Raises InvalidOptionError for a root of the option that is not a URL."""
    return external_data_files(handle.store, handle.layout.root, handle.options)


def index_files_of(handle: TableHandle, kind: str) -> ExternalFiles:
    """The rules for index files of a kind: those of buckets lie with the data files, others below a root of theirs."""
    if kind in (DELETION_VECTORS, HASH):
        return data_files_of(handle)
    roots = (*handle.options.external_paths, *_INDEX_PATH.get(handle.options.raw))
    return _rules(handle.store, handle.layout.root, roots, f"{EXTERNAL_PATHS.key} or {_INDEX_PATH.key}")


def index_refusal(handle: TableHandle, entry: IndexManifestEntry, *, delete: bool) -> str | None:
    """As `ExternalFiles.refusal`, of an index file; None for files in the table."""
    if entry.external_path is None:
        return None
    return index_files_of(handle, entry.index_type).refusal(entry.external_path, delete=delete)


def path_text(handle: TableHandle, url: str) -> str:
    """A URL as a path in the table's store where it leads there; else as it is. Opens and checks nothing."""
    place = find_place(url)
    if place is None:
        return url
    own = find_place(handle.location)
    if own is not None and place.shares_store(own):
        return open_store(place.url, getattr(handle.store, "options", {}))[1]
    return place.url


def open_for_deletion(handle: TableHandle, path: str) -> tuple[Store, str]:
    """The store and path of a file to delete: a path in the table's directory, or an external file.

    Raises UnsupportedFeatureError: it lies outside the table, and may not be deleted.
    """
    if path.startswith(f"{handle.layout.root}/") and not {"..", "."}.intersection(path.split("/")):
        return handle.store, path
    # Java writes file:/path; a path in a store has no scheme.
    url = handle.store.url(path) if path.startswith("/") or find_place(path) is None else path
    return index_files_of(handle, "").open(handle.store, url, handle.name, delete=True)


def left_outside(paths: Sequence[str]) -> str:
    """The message about files that were not deleted, or will not be."""
    shown = ", ".join(map(safe, paths[:_NAMED])) + (", …" if len(paths) > _NAMED else "")
    return (
        f"left {counted(len(paths), 'file')} outside the table, below no root that both its option "
        f"{EXTERNAL_PATHS.key} and the catalog option {ALLOWED_EXTERNAL_PATHS.key} list: {shown}"
    )


def _opened(store: Store, own: StorePath | None, place: StorePath) -> tuple[Store, str]:
    if own is not None and place.shares_store(own):
        return store, open_store(place.url, getattr(store, "options", {}))[1]
    return external_path(store, place.url)


def _rules(store: Store, inside: str, roots: tuple[str, ...], keys: str) -> ExternalFiles:
    allowed = allowed_roots(store)
    listed = tuple(place for root in roots if (place := find_place(root)) is not None)
    return ExternalFiles(find_place(store.url(inside)), listed, None if allowed is None else _places(allowed), keys)


@lru_cache(maxsize=16)
def _places(roots: tuple[str, ...]) -> tuple[StorePath, ...]:
    found = [find_place(root) for root in roots]
    for root, place in zip(roots, found, strict=True):
        if place is None:
            raise InvalidOptionError(
                f"option {ALLOWED_EXTERNAL_PATHS.key}: {root!r} is no absolute path or URL without '..'; give roots "
                "such as s3://bucket/directory, separated by commas",
                option=ALLOWED_EXTERNAL_PATHS.key,
            )
    return tuple(place for place in found if place is not None)


def _short(url: str) -> str:
    return safe(url if len(url) <= _SHOWN else f"{url[:_SHOWN]}…")


_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(/.*)?", re.DOTALL)
_SAME: Final = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs", "local": "file"}
"""Schemes that are other names of one."""
_DECODINGS: Final = 4
"""Times that `%XX` is decoded, as layers of a store may decode it again."""


class StorePath(NamedTuple):
    """A path in a store.

    Attributes:
        scheme: in lower case, `s3` for `s3a`.
        authority: bucket or host; empty on this machine and in memory.
        path: from `/` on, without doubled and trailing slashes; empty for the whole store.
    """

    scheme: str
    authority: str
    path: str

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"

    @property
    def is_local(self) -> bool:
        """Whether it is a path of this machine."""
        return self.scheme == "file"

    def shares_store(self, other: StorePath) -> bool:
        """Whether both are in one bucket, on one host or on this machine."""
        return self[:2] == other[:2]

    def is_below(self, root: StorePath) -> bool:
        """Whether the place is inside a directory; on this machine also where links are followed."""
        if not self.shares_store(root) or not _is_below(self.path, root.path):
            return False
        return not self.is_local or _is_below(_real(self.path), _real(root.path))

    def may_be_in(self, root: StorePath) -> bool:
        """Whether the place may be a directory or inside it, with links followed or not."""
        if not self.shares_store(root):
            return False
        inside = self.path == root.path or _is_below(self.path, root.path)
        if inside or not self.is_local:
            return inside
        path, directory = _real(self.path), _real(root.path)
        return path == directory or _is_below(path, directory)


def find_place(url: str) -> StorePath | None:
    """The place that an absolute path or URL names; None where it has `..` or another form.

    Segments `.` and `..` are looked for in decoded text too, as some stores decode `%XX`.
    """
    text = url.strip()
    found = _URL.fullmatch(text if not text.startswith("/") else f"file:{text}")
    if found is None or any(ord(c) < 32 or ord(c) == 127 or 0xD800 <= ord(c) < 0xE000 for c in text):
        return None
    scheme, authority, path = found[1].lower(), found[2] or "", found[3] or ""
    scheme = _SAME.get(scheme, scheme)
    if not _is_plain(f"{authority}/{path}"):
        return None
    if scheme == "memory":
        authority, path = "", f"/{authority}/{path}"
    if scheme == "file" and authority:
        return None
    return StorePath(scheme, authority, "".join(f"/{part}" for part in path.split("/") if part))


def _is_plain(path: str) -> bool:
    """Whether no segment leads upwards, however often the path is decoded."""
    for _ in range(_DECODINGS):
        if any(part in (".", "..") for part in re.split(r"[/\\]", path)):
            return False
        decoded = unquote(path)
        if decoded == path:
            return True
        path = decoded
    return False


def _is_below(path: str, root: str) -> bool:
    return path.startswith(f"{root.rstrip('/')}/")


def _real(path: str) -> str:
    return os.path.realpath(path or "/")
