"""Opening of the store that a URL means, with retries for remote stores."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

import pyarrow as pa

from paimon_spark.errors import InvalidInputError, StorageError, UnsupportedFeatureError
from paimon_spark.options.catalog import ALLOWED_EXTERNAL_PATHS
from paimon_spark.options.known import is_file_system_option
from paimon_spark.redaction import has_password
from paimon_spark.storage.local import LocalStore
from paimon_spark.storage.store import AtomicCreate, FileInfo, Store, open_ranges
from paimon_spark.text import integer_of, reason

_LOCAL: Final = ("file", "local")
_S3: Final = ("s3", "s3a", "s3n")
_WEB: Final = ("http", "https")
_WEBHDFS_PORT: Final = 9870
"""Of Hadoop 3; fsspec takes that of Hadoop 2."""
_NUMBERS: Final = ("_size", "_timeout", "_concurrency", "_blocksize", "port", "retries")


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
    # Imported only here: fsspec costs a Spark worker a tenth of a second, which local tables need not pay.
    from paimon_spark.storage.clients import check_arguments, check_key_pair, s3_settings
    from paimon_spark.storage.fsspec_store import FsspecStore, filesystem_class
    from paimon_spark.storage.hdfs import SCHEMES as HDFS_SCHEMES
    from paimon_spark.storage.hdfs import HdfsStore

    scheme, authority, path = split_url(url)
    kept = _file_system_options(options)
    if scheme in _S3:
        bucket_path = _trim(authority + "/" + path.lstrip("/"))
        given = _fsspec_arguments(options)
        if given:  # else its client need not be imported yet
            check_arguments("s3", filesystem_class("s3"), given)
        settings = _merged(s3_settings(options), given)
        check_key_pair(settings)
        return RetryingStore(FsspecStore("s3", {**settings, "use_listings_cache": False}, kept)), bucket_path
    if scheme == "memory":
        return FsspecStore("memory", {}, kept), "/" + _trim(f"{authority}/{path}".strip("/"))
    arguments = _fsspec_arguments(options)
    if scheme in HDFS_SCHEMES:
        return HdfsStore(scheme, authority, kept), _trim(path) or "/"
    # The class says which part of a URL is a host and which a path; this is how fsspec itself asks it.
    of_scheme = filesystem_class(scheme)
    check_arguments(scheme, of_scheme, arguments)
    try:
        path = str(of_scheme._strip_protocol(url))  # noqa: SLF001
    except Exception as e:  # of any file system, such as generic://, which is none by itself
        raise InvalidInputError(
            f"{url} is no location: the file system of {scheme}:// takes no such URL ({reason(e)}); give the URL of a "
            "store"
        ) from e
    host = authority if authority and not path.lstrip("/").startswith(authority) else ""
    store = FsspecStore(scheme, {**_host(scheme, authority), **arguments}, kept, host)
    return RetryingStore(store), _trim(path)


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
    scheme = split_url(url)[0]
    if scheme in _LOCAL:
        return True
    from paimon_spark.storage.fsspec_write import has_directories as protocol_has_directories

    return protocol_has_directories("s3" if scheme in _S3 else scheme)


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


def _fsspec_arguments(options: Mapping[str, str]) -> dict[str, Any]:
    """The `fs.*` options as arguments: prefix gone, dots nest, true/false, JSON and sizes become values."""
    out: dict[str, Any] = {}
    for key, text in options.items():
        if not key.startswith("fs.") or key.lower().startswith("fs.s3a."):
            continue
        *outer, last = key[3:].split(".")
        target = out
        for name in outer:
            target = target.setdefault(name, {})
            if not isinstance(target, dict):
                raise InvalidInputError(f"option {key}: {name} is given both as a value and as a group")
        target[last] = _value(key, text)
    return out


def _value(key: str, text: str) -> Any:
    stripped = text.strip()
    if stripped.lower() in ("true", "false"):
        return stripped.lower() == "true"
    if stripped.startswith(("{", "[")):
        try:
            return json.loads(stripped)
        except (ValueError, RecursionError) as e:
            raise InvalidInputError(f"option {key} is not valid JSON: {e}", option=key) from e
    number = integer_of(stripped) if key.endswith(_NUMBERS) and not stripped.startswith("-") else None
    return text if number is None else number


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`over` on top of `base`, nested groups joined."""
    out = dict(base)
    for key, value in over.items():
        old = out.get(key)
        out[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return out


T = TypeVar("T")
_ANSWERED: Final[set[str]] = set()
"""Stores that have answered this process, by identity."""


class _RangedStore(Store, Protocol):
    """A store whose open files are ranges of its own `read_range`."""

    @property
    def options(self) -> Mapping[str, str]: ...

    def size(self, path: str) -> int: ...


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

    inner: _RangedStore
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
        return self._repeat(lambda: self.inner.read(path))

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self._repeat(lambda: self.inner.read_range(path, offset, length))

    def read_many(self, paths: list[str]) -> list[bytes]:
        return self._repeat(lambda: self.inner.read_many(paths))

    def open(self, path: str) -> pa.NativeFile:
        size = self._repeat(lambda: self.inner.size(path))
        return open_ranges(path, size, self.read_range)

    def exists(self, path: str) -> bool:
        return self._repeat(lambda: self.inner.exists(path))

    def list(self, directory: str) -> list[FileInfo]:
        return self._repeat(lambda: self.inner.list(directory))

    @property
    def atomic_create(self) -> AtomicCreate:
        return self.inner.atomic_create

    @property
    def renames_directories(self) -> bool:
        return self.inner.renames_directories

    def create_exclusive(self, path: str, data: bytes) -> None:
        self.inner.create_exclusive(path, data)

    def write(self, path: str, data: bytes) -> None:
        self._repeat(lambda: self.inner.write(path, data))

    def open_output(self, path: str) -> pa.NativeFile:
        return self.inner.open_output(path)

    def delete(self, path: str) -> None:
        self._repeat(lambda: self.inner.delete(path))

    def delete_many(self, paths: Sequence[str]) -> None:
        self._repeat(lambda: self.inner.delete_many(paths))

    def delete_tree(self, directory: str) -> None:
        self._repeat(lambda: self.inner.delete_tree(directory))

    def make_directory(self, directory: str) -> None:
        self._repeat(lambda: self.inner.make_directory(directory))

    def rename_tree(self, old: str, new: str, last: Sequence[str] = ()) -> None:
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
