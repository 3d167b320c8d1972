"""Opening of the store that a URL means, with retries for remote stores."""

from __future__ import annotations

import builtins
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import pyarrow as pa

from paimon_spark.errors import InvalidInputError, StorageError, UnsupportedFeatureError
from paimon_spark.options.catalog import ALLOWED_EXTERNAL_PATHS
from paimon_spark.options.known import is_file_system_option
from paimon_spark.redaction import has_password
from paimon_spark.storage.ahead import forget, settle, taken, written
from paimon_spark.storage.local import LocalStore
from paimon_spark.storage.remote_options import GCS_SCHEMES, OBJECT_STORES, S3_SCHEMES, arguments
from paimon_spark.storage.store import AtomicCreate, FileInfo, RangedStore, Store, open_ranges
from paimon_spark.text import integer_of, reason

if TYPE_CHECKING:
    from paimon_spark.storage.object_store import ObjectStore

_LOCAL: Final = ("file", "local")
_WEB: Final = ("http", "https")
_WEBHDFS_PORT: Final = 9870
"""Of Hadoop 3; fsspec takes that of Hadoop 2."""


def open_store(url: str, options: Mapping[str, str] | None = None) -> tuple[Store, str]:
    """The store of `url` and the path in it, without a trailing slash. Nothing is read yet.

    A store of this machine follows no symbolic links below that path; it and the directories above may be links.

    Args:
        url: a path of this machine (made absolute), or `scheme://…` for any scheme of fsspec.
        options: `fs.*` goes to fsspec without the prefix (dots nest: `fs.client_kwargs.region_name`);
            `s3.*` and `fs.s3a.*` are understood for S3; `hadoop.*`, `hadoop-conf-dir` and
            `security.kerberos.login.*` for HDFS; `catalog.allowed-external-paths` is kept; everything else is ignored.

    Raises:
        InvalidInputError: `url` is empty or has a password, or an option of fsspec cannot be read or is misspelt.
        UnsupportedFeatureError: it is http:// or https://.
        StorageError: the scheme is unknown, or the package for it is not installed.
    """
    options = dict(options or {})
    scheme, authority, path = split_url(url)
    if scheme in _LOCAL:
        path = os.path.abspath(authority + path if scheme == "local" else path)
        return LocalStore(_file_system_options(options), path), path
    if has_password(f"://{authority}"):
        raise InvalidInputError(
            f"the location {scheme}://{authority}{path} has a password, which everything that shows the location would "
            "show; leave it out, and give it in an option such as fs.password"
        )
    if scheme in _WEB:
        raise UnsupportedFeatureError(
            f"{url} cannot be opened: tables on a web server ({scheme}://) are not supported, as its folders cannot be "
            "listed; copy the table to a file system or an object store",
            feature=f"{scheme}://",
        )
    return _remote_store(url, options)


def _remote_store(url: str, options: Mapping[str, str]) -> tuple[Store, str]:
    scheme, authority, path = split_url(url)
    kept = _file_system_options(options)
    if scheme in OBJECT_STORES:
        return _object_store(scheme, authority, path, kept)
    # Imported only here: fsspec costs a Spark worker a tenth of a second, which local tables need not pay.
    from paimon_spark.storage.clients import check_arguments
    from paimon_spark.storage.fsspec_store import filesystem_class, fsspec_store
    from paimon_spark.storage.hdfs import SCHEMES as HDFS_SCHEMES
    from paimon_spark.storage.hdfs import HdfsStore

    if scheme == "memory":
        return fsspec_store("memory", {}, kept), "/" + _trim(f"{authority}/{path}".strip("/"))
    given = arguments(options)
    if scheme in HDFS_SCHEMES:
        return HdfsStore(scheme, authority, kept), _trim(path) or "/"
    # The class says which part of a URL is a host and which a path; this is how fsspec itself asks it.
    of_scheme = filesystem_class(scheme)
    check_arguments(of_scheme, given)
    try:
        path = str(of_scheme._strip_protocol(url))  # noqa: SLF001
    except Exception as e:  # of any file system, such as generic://, which is none by itself
        raise InvalidInputError(
            f"{url} is no location: the file system of {scheme}:// takes no such URL ({reason(e)}); give the URL of a "
            "store"
        ) from e
    host = authority if authority and not path.lstrip("/").startswith(authority) else ""
    store = fsspec_store(scheme, {**_host(scheme, authority), **given}, kept, host)
    return RetryingStore(store), _trim(path)


def _object_store(scheme: str, authority: str, path: str, options: Mapping[str, str]) -> tuple[Store, str]:
    from paimon_spark.storage import azure, gcs, s3

    inside = path.lstrip("/")
    if scheme in S3_SCHEMES:
        store: ObjectStore = s3.S3Store(s3.s3_settings(options), options, "s3")
    elif scheme in GCS_SCHEMES:
        store = gcs.GcsStore(gcs.gcs_settings(options), options, scheme)
    else:
        at = authority if "@" in authority else ""
        store = azure.AzureStore(azure.azure_settings(options, at), options, scheme, at)
        authority = authority.partition("@")[0]
    return RetryingStore(store), _trim(f"{authority}/{inside}")


def _host(scheme: str, authority: str) -> dict[str, Any]:
    """Arguments for file systems whose URL names a server: WebHDFS and others."""
    if scheme not in ("webhdfs", "ftp", "sftp", "ssh", "smb") or not authority:
        return {}
    user, _, place = authority.rpartition("@")
    host, _, port = place.partition(":")
    out: dict[str, Any] = {"host": host}
    if (number := integer_of(port)) is not None:
        out["port"] = number
    elif scheme == "webhdfs":
        out["port"] = _WEBHDFS_PORT
    if user:
        out["user" if scheme == "webhdfs" else "username"] = user
    return out


def has_directories(url: str) -> bool:
    """Whether the store of `url` has directories: an object store cannot tell an empty one from a missing one."""
    return split_url(url)[0] not in OBJECT_STORES


def split_url(url: str) -> tuple[str, str, str]:
    """Scheme, authority and path; text without scheme is a local path. Raises InvalidInputError if empty."""
    if not url or not url.strip():
        raise InvalidInputError("the location is empty; give a path or a URL such as s3://bucket/wh/db.db/t")
    head, separator, rest = url.partition("://")
    if separator and head and all(c.isalnum() or c in "+-." for c in head):
        authority, slash, path = rest.partition("/")
        return head.lower(), authority, slash + path
    if url.startswith("file:"):
        return "file", "", url.removeprefix("file:")
    return "file", "", url


def external_path(store: Store, url: str) -> tuple[Store, str]:
    """Where a file lies that has a URL: in `store` when that reaches it, else in another with its options.

    URLs that a table's metadata names are checked before, by `metadata.external_files`.
    Raises StorageError when there is no file system for its scheme.
    """
    other, path = open_store(url, getattr(store, "options", {}))
    return (store, path) if other.identity == store.identity else (other, path)


def _trim(path: str) -> str:
    """`path` without trailing and doubled slashes."""
    lead = "/" if path.startswith("/") else ""
    return lead + "/".join(part for part in path.split("/") if part)


def _file_system_options(options: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in options.items() if is_file_system_option(k) or k == ALLOWED_EXTERNAL_PATHS.key}


T = TypeVar("T")
_ANSWERED: Final[set[str]] = set()
"""Stores that have answered this process, by identity."""


class _RemoteStore(Store, RangedStore, Protocol):
    """A store whose open files are ranges of its own reads."""

    @property
    def options(self) -> Mapping[str, str]: ...


@dataclass(frozen=True, slots=True)
class RetryingStore:
    """Store over `inner` that repeats a call after a retryable StorageError, later and later.

    A store that has not answered this process yet, and cannot be reached, is not asked again: its address may be wrong.
    Reads inside a file that `open` gave are repeated too. Never repeated: `create_exclusive`, whose caller must
    look what became of it; `rename_tree`; and writes to a file that `open_output` gave.

    Attributes:
        attempts: calls at most, the first included.
        first_delay_s: least wait before the second call; waits double, and up to as much again is added.
    """

    inner: _RemoteStore
    attempts: int = 4
    first_delay_s: float = 0.2
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False, compare=False)

    @property
    def identity(self) -> str:
        return self.inner.identity

    @property
    def options(self) -> Mapping[str, str]:
        return self.inner.options

    def url(self, path: str) -> str:
        return self.inner.url(path)

    def read(self, path: str) -> bytes:
        return bytes(taken(self.identity, path, self.read_now))

    def read_now(self, path: str) -> bytes:
        """As `read`, whatever was asked ahead."""
        return self._repeat(lambda: self.inner.read(path))

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        settle(self.identity, path)
        return self._repeat(lambda: self.inner.read_range(path, offset, length))

    def read_many(self, paths: list[str]) -> list[bytes]:
        for path in paths:
            settle(self.identity, path)
        return self._repeat(lambda: self.inner.read_many(paths))

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return self._repeat(lambda: self.inner.read_ranges(path, ranges))

    def read_end(self, path: str, length: int, expected: int | None = None) -> tuple[bytes, int]:
        settle(self.identity, path)
        return self._repeat(lambda: self.inner.read_end(path, length, expected))

    def open(self, path: str, size: int | None = None) -> pa.NativeFile:
        return open_ranges(self, path, size)

    def exists(self, path: str) -> bool:
        settle(self.identity, path)
        return self._repeat(lambda: self.inner.exists(path))

    def list(self, directory: str) -> list[FileInfo]:
        return list(taken(self.identity, directory, self.list_now, is_list=True))

    def list_now(self, directory: str) -> builtins.list[FileInfo]:
        """As `list`, whatever was asked ahead."""
        return self._repeat(lambda: self.inner.list(directory))

    def list_tree(self, directory: str) -> Mapping[str, builtins.list[FileInfo]] | None:
        """The entries of a directory and of all below it, by path; None where the store lists one at a time."""
        whole = getattr(self.inner, "list_tree", None)
        return None if whole is None else self._repeat(lambda: whole(directory))

    @property
    def atomic_create(self) -> AtomicCreate:
        return self.inner.atomic_create

    @property
    def renames_directories(self) -> bool:
        return self.inner.renames_directories

    def create_exclusive(self, path: str, data: bytes) -> None:
        forget(self.identity, path)
        self.inner.create_exclusive(path, data)

    def write(self, path: str, data: bytes) -> None:
        written(self.identity, path, lambda: self._repeat(lambda: self.inner.write(path, data)), len(data))

    def open_output(self, path: str) -> pa.NativeFile:
        upload = getattr(self.inner, "open_upload", None)
        return self.inner.open_output(path) if upload is None else upload(path, self.write)

    def delete(self, path: str) -> None:
        settle(self.identity, path)
        forget(self.identity, path)
        self._repeat(lambda: self.inner.delete(path))

    def delete_many(self, paths: Sequence[str]) -> None:
        for path in paths:
            settle(self.identity, path)
            forget(self.identity, path)
        self._repeat(lambda: self.inner.delete_many(paths))

    def delete_tree(self, directory: str) -> None:
        forget(self.identity, directory)
        self._repeat(lambda: self.inner.delete_tree(directory))

    def make_directory(self, directory: str) -> None:
        self._repeat(lambda: self.inner.make_directory(directory))

    def rename_tree(self, old: str, new: str, last: Sequence[str] = ()) -> None:
        forget(self.identity, old)
        forget(self.identity, new)
        self.inner.rename_tree(old, new, last)

    def _repeat(self, call: Callable[[], T]) -> T:
        delay = self.first_delay_s
        for _ in range(self.attempts - 1):
            try:
                found = call()
                _ANSWERED.add(self.identity)
                return found
            except StorageError as e:
                if not e.retryable or (e.context.get("unreachable") and self.identity not in _ANSWERED):
                    raise
            self.sleep(delay * (1 + random.random()))  # noqa: S311 - spreads callers out, guards nothing
            delay *= 2
        return call()
