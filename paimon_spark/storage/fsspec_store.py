"""Stores over the file systems of fsspec: in memory, WebHDFS, SFTP and what users register."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from typing import Any, Final

import fsspec
import pyarrow as pa

from paimon_spark.errors import FileMissingError, PaimonError, StorageError
from paimon_spark.storage import clients, fsspec_write
from paimon_spark.storage.store import (
    READING,
    AtomicCreate,
    FileInfo,
    already_there,
    check_own_file,
    open_output_file,
    open_ranges,
    parent_of,
)
from paimon_spark.text import reason

_RETRYABLE_ERRNOS: Final = frozenset(
    (errno.EAGAIN, errno.EBUSY, errno.ECONNRESET, errno.ECONNREFUSED, errno.ECONNABORTED, errno.EPIPE,
     errno.ETIMEDOUT, errno.EINTR, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ESTALE)
)  # fmt: skip
_RETRYABLE_NAMES: Final = (
    "Timeout", "TimeoutError", "ConnectionError", "ConnectionClosedError", "ClientOSError",
    "ServerDisconnectedError", "ClientPayloadError", "IncompleteReadError", "ResponseStreamingError",
    "ServiceUnavailable", "ProxyError", "SSLError", "HTTPClientError", "ResponseParserError", "ServiceRequestError",
    "ServiceResponseError", "TransportError",
)  # fmt: skip
_RETRYABLE_STATUSES: Final = frozenset((408, 409, 425, 429, 500, 502, 503, 504))
_IN_MEMORY: Final = threading.RLock()


class FsspecStore:
    """Store over an fsspec file system, made on first use in each process, so it pickles and survives forks.

    Args:
        protocol: fsspec's name of the file system.
        storage_options: its arguments; they may hold secrets and never appear in messages or `repr`.
        options: the user's own file system options, for files outside this store.
        authority: host part that `url` puts between scheme and path, such as `nn:8020` of HDFS.
    """

    def __init__(
        self,
        protocol: str,
        storage_options: Mapping[str, Any] | None = None,
        options: Mapping[str, str] | None = None,
        authority: str = "",
    ) -> None:
        self.protocol = protocol
        self.storage_options = dict(storage_options or {})
        self.options = dict(options or {})
        self.authority = authority
        self._filesystem: tuple[int, Any] | None = None
        self._identity: str | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.protocol, self.storage_options, self.options, self.authority)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.__reduce__() == other.__reduce__()

    def __hash__(self) -> int:
        return hash(self.identity)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.protocol!r})"

    @property
    def identity(self) -> str:
        if self._identity is None:
            settings = json.dumps(self.storage_options, sort_keys=True, default=str)
            digest = hashlib.sha256(settings.encode()).hexdigest()[:16]
            self._identity = f"{self.protocol}://{self.authority}#{digest}"
        return self._identity

    def url(self, path: str) -> str:
        if self.authority or path.startswith("/"):
            return f"{self.protocol}://{self.authority}/{path.lstrip('/')}"
        return f"{self.protocol}://{path}"

    def read(self, path: str) -> bytes:
        with self._failures("read", path) as fs:
            return bytes(fs.cat_file(path))

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        if length <= 0:
            return b""
        with self._failures("read", path) as fs:
            try:
                return bytes(fs.cat_file(path, start=offset, end=offset + length))
            except Exception as e:
                if _begins_behind_the_end(e):
                    return b""
                raise

    def read_many(self, paths: list[str]) -> list[bytes]:
        if len(paths) < 2:
            return [self.read(p) for p in paths]
        with self._failures("read", paths[0]) as fs:
            # Not `cat`, which would take the characters * ? [ of a name for a pattern.
            found = fs.cat_ranges(list(paths), [None] * len(paths), [None] * len(paths), on_error="return")
        for path, data in zip(paths, found, strict=True):
            if isinstance(data, Exception):
                raise self._failure("read", path, data) from data
        return [bytes(data) for data in found]

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return [self.read_range(path, offset, length) for offset, length in ranges]

    def read_end(self, path: str, length: int, expected: int | None = None) -> tuple[bytes, int]:
        with self._failures("open", path) as fs:
            fs.invalidate_cache(parent_of(path))
            info = fs.info(path)
        if info.get("type") == "directory" or info.get("size") is None:
            raise FileMissingError(f"there is no file {self.url(path)}", path=path)
        size = int(info["size"])
        start = max(size - length, 0)
        return self.read_range(path, start, size - start), size

    def open(self, path: str, size: int | None = None) -> pa.NativeFile:
        return open_ranges(self, path, size)

    def exists(self, path: str) -> bool:
        with self._failures("look for", path) as fs:
            fs.invalidate_cache(parent_of(path))
            try:
                fs.info(path)
            except (FileNotFoundError, NotADirectoryError):
                return False
            return True

    def list(self, directory: str) -> list[FileInfo]:
        base = directory.strip("/")
        with self._failures("list", directory) as fs:
            fs.invalidate_cache(directory)
            try:
                entries = fs.ls(directory, detail=True)
            except (FileNotFoundError, NotADirectoryError):
                return []
        # A store without directories may hold an object named like the directory itself; it is no entry.
        return sorted(_info(e) for e in entries if e["name"].strip("/") != base)

    @property
    def atomic_create(self) -> AtomicCreate:
        return AtomicCreate.NONE

    @property
    def renames_directories(self) -> bool:
        return fsspec_write.renames(filesystem_class(self.protocol))

    def create_exclusive(self, path: str, data: bytes) -> None:
        if self.atomic_create is AtomicCreate.NONE:
            if self.exists(path):
                raise already_there(self, path)
            self.write(path, data)
            return
        with self._failures("create", path) as fs:
            try:
                self._create(fs, path, data)
            except FileExistsError:
                check_own_file(self, path, data)

    def _create(self, fs: Any, path: str, data: bytes) -> None:
        """Create a file in one step that only one of several callers can do. Raises FileExistsError."""
        raise NotImplementedError

    def write(self, path: str, data: bytes) -> None:
        with self._failures("write", path) as fs:
            fsspec_write.write(fs, path, data, lambda temporary: self._replace(fs, temporary, path))

    def _replace(self, fs: Any, old: str, new: str) -> None:
        """Rename a file, over one that may be there."""
        fs.mv(old, new)

    def open_output(self, path: str) -> pa.NativeFile:
        with self._failures("write", path) as fs:
            file = fsspec_write.open_for_writing(fs, path)
        return open_output_file(file, lambda: self._failures("write", path))

    def delete(self, path: str) -> None:
        with self._failures("delete", path) as fs:
            fsspec_write.remove(fs, path)

    def delete_many(self, paths: Sequence[str]) -> None:
        if paths:
            with self._failures("delete", paths[0]) as fs:
                fsspec_write.remove_many(fs, paths)

    def delete_tree(self, directory: str) -> None:
        with self._failures("delete", directory) as fs:
            self._remove_tree(fs, directory)

    def _remove_tree(self, fs: Any, directory: str) -> None:
        fsspec_write.remove_tree(fs, directory, takes_patterns=True)

    def make_directory(self, directory: str) -> None:
        with self._failures("make directory", directory) as fs:
            fsspec_write.make_directory(fs, directory)

    def rename_tree(self, old: str, new: str, last: Sequence[str] = ()) -> None:
        if not self.exists(old):
            raise FileMissingError(f"cannot move {self.url(old)}: nothing is there", path=old)
        if self.exists(new):
            raise already_there(self, new)
        with self._failures("rename", old) as fs:
            fsspec_write.move_tree(fs, old, new, last, lambda: self._remove_tree(fs, old))

    @contextmanager
    def _failures(self, verb: str, path: str) -> Iterator[Any]:
        """The file system, with everything it raises turned into our errors."""
        try:
            with self._call_lock():
                yield self._fs()
        except PaimonError:
            raise
        except Exception as e:  # backends raise what their clients raise, of any class
            raise self._failure(verb, path, e) from e

    def _call_lock(self) -> AbstractContextManager[object]:
        """The lock to hold during a call."""
        return nullcontext()

    def _failure(self, verb: str, path: str, cause: Exception) -> StorageError:
        clients.check_known(filesystem_class(self.protocol), self.storage_options, cause)
        url = self.url(path)
        if verb in READING and isinstance(cause, (FileNotFoundError, NotADirectoryError)):
            return FileMissingError(f"there is no file {url}", path=path)
        return StorageError(
            f"cannot {verb} {url}: {type(cause).__name__}: {cause}", path=path, retryable=is_retryable(cause)
        )

    def _fs(self) -> Any:
        pid = os.getpid()
        if self._filesystem is None or self._filesystem[0] != pid:
            self._filesystem = (pid, make_filesystem(self.protocol, self.storage_options))
        return self._filesystem[1]


class MemoryStore(FsspecStore):
    """Store in the memory of this process, which all threads share; it is one dictionary."""

    @property
    def atomic_create(self) -> AtomicCreate:
        return AtomicCreate.NATIVE

    def _call_lock(self) -> AbstractContextManager[object]:
        return _IN_MEMORY

    def _create(self, fs: Any, path: str, data: bytes) -> None:
        if fs.exists(path):
            raise FileExistsError(path)
        fs.pipe_file(path, data)


class WebHdfsStore(FsspecStore):
    """Store over the HTTP interface of HDFS: WebHDFS, or HttpFS."""

    @property
    def atomic_create(self) -> AtomicCreate:
        return AtomicCreate.NATIVE

    def _create(self, fs: Any, path: str, data: bytes) -> None:
        fsspec_write.put_beside(fs, path, data, lambda temporary: _rename_on_webhdfs(fs, temporary, path, "NONE"))

    def _replace(self, fs: Any, old: str, new: str) -> None:
        try:
            _rename_on_webhdfs(fs, old, new, "OVERWRITE")
        except FileExistsError:  # HttpFS never replaces
            fsspec_write.remove(fs, new)
            _rename_on_webhdfs(fs, old, new, "OVERWRITE")

    def _remove_tree(self, fs: Any, directory: str) -> None:
        fsspec_write.remove_tree(fs, directory, takes_patterns=False)


def _rename_on_webhdfs(fs: Any, old: str, new: str, option: str) -> None:
    """Rename a file in one step of the name node, which replaces a file only with the option `OVERWRITE`.

    HttpFS does not know the option: it never replaces, and answers false. Raises FileExistsError.

    Source: Hadoop's documentation of WebHDFS, `RENAME`; `NamenodeWebHdfsMethods`, `FSOperations.FSRename` of HttpFS.
    """
    try:
        # fsspec's own `mv` gives no options, and does not look at the answer.
        answer = fs._call("RENAME", method="put", path=old, destination=new, renameoptions=option)  # noqa: SLF001
    except RuntimeError as e:
        if "already exists" in str(e):
            raise FileExistsError(new) from e
        raise
    if answer.content and answer.json().get("boolean") is False:
        raise FileExistsError(new)


_OF_PROTOCOL: Final[Mapping[str, type[FsspecStore]]] = {"memory": MemoryStore, "webhdfs": WebHdfsStore}


def fsspec_store(
    protocol: str,
    storage_options: Mapping[str, Any] | None = None,
    options: Mapping[str, str] | None = None,
    authority: str = "",
) -> FsspecStore:
    """The store of a protocol; arguments as of `FsspecStore`."""
    return _OF_PROTOCOL.get(protocol, FsspecStore)(protocol, storage_options, options, authority)


def filesystem_class(protocol: str) -> Any:
    """The class of a protocol. Raises StorageError, naming the extra to install if its package is missing."""
    try:
        return fsspec.get_filesystem_class(protocol)
    except ImportError as e:
        what = "install paimon-spark[webhdfs]" if protocol == "webhdfs" else f"install the package it needs ({e})"
        raise StorageError(f"no file system for {protocol}:// is installed: {what}", protocol=protocol) from e
    except ValueError as e:
        raise StorageError(
            f"no file system is known for {protocol}://; fsspec knows "
            + ", ".join(sorted(fsspec.available_protocols())),
            protocol=protocol,
        ) from e


def make_filesystem(protocol: str, storage_options: Mapping[str, Any]) -> Any:
    """The fsspec file system.

    Raises:
        StorageError: its package is missing, or it cannot be set up so.
        InvalidOptionError: it has no such argument.
    """
    cls = filesystem_class(protocol)
    try:
        return cls(**storage_options)
    except Exception as e:  # whatever the backend's own client raises
        clients.check_known(cls, storage_options, e)
        raise StorageError(
            f"the file system of {protocol}:// cannot be opened: {reason(e)}",
            protocol=protocol,
            retryable=is_retryable(e),
        ) from e


def is_retryable(cause: BaseException) -> bool:
    """Whether the call that failed so may succeed when repeated: lost connections, time-outs, throttling.

    Also what a file system in memory says that another thread wrote to while it was listed.
    """
    if isinstance(cause, (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)):
        return False
    if isinstance(cause, (ConnectionError, TimeoutError)):
        return True
    if isinstance(cause, OSError) and cause.errno in _RETRYABLE_ERRNOS:
        return True
    if clients.http_status(cause) in _RETRYABLE_STATUSES:
        return True
    if isinstance(cause, RuntimeError) and "changed size during iteration" in str(cause):
        return True
    return any(c.__name__.endswith(_RETRYABLE_NAMES) for c in type(cause).__mro__)


def _info(entry: Mapping[str, Any]) -> FileInfo:
    is_directory = entry.get("type") == "directory"
    return FileInfo(
        str(entry["name"]).rstrip("/").rsplit("/", 1)[-1],
        0 if is_directory else int(entry.get("size") or 0),
        is_directory,
        _modified_ms(entry),
    )


def _modified_ms(entry: Mapping[str, Any]) -> int | None:
    """Backends call the time of change by many names, and give a datetime, seconds or ISO text."""
    for key in ("LastModified", "last_modified", "mtime", "updated", "modified", "created", "modificationTime"):
        value = entry.get(key)
        if isinstance(value, datetime):
            aware = value if value.tzinfo else value.replace(tzinfo=UTC)
            return int(aware.timestamp() * 1000)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return int(value) if key == "modificationTime" else int(value * 1000)  # WebHDFS gives milliseconds
        if isinstance(value, str):
            try:
                return int(datetime.fromisoformat(value).timestamp() * 1000)
            except ValueError:
                continue
    return None


def _begins_behind_the_end(error: Exception) -> bool:
    """Whether a store refused to read a range because it begins behind the end of the file."""
    if isinstance(error, FileNotFoundError):
        return False
    text = f"{type(error).__name__} {error}"
    return clients.http_status(error) == 416 or any(mark in text for mark in ("InvalidRange", "not satisfiable"))
