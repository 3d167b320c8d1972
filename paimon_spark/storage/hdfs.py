"""HdfsStore: HDFS through the client of hdfs-native, which needs no JVM.

Files appear whole: they are written as `.<name>.<uuid>.tmp` beside their place and renamed. The name node renames in
one step, and refuses when the new name is taken, so one of several writers of a file wins. A killed process may leave
such a temporary file, which nothing ever reads.

Sources: Hadoop `ClientProtocol.rename2`; Java Paimon `HadoopUtils` (where settings of Hadoop come from).
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa

from paimon_spark.errors import FileMissingError, StorageError
from paimon_spark.storage.store import (
    AtomicCreate,
    FileInfo,
    KnownRanges,
    already_there,
    check_own_file,
    concurrently,
    open_output_file,
    open_ranges,
    put_whole,
    with_parents,
)
from paimon_spark.text import reason

SCHEMES: Final = ("hdfs", "viewfs")
_SETTING: Final = "hadoop."
_CONF_DIR: Final = "hadoop-conf-dir"
_PRINCIPAL: Final = "security.kerberos.login.principal"
_KEYTAB: Final = "security.kerberos.login.keytab"
_ATTEMPTS: Final = "dfs.client.failover.max.attempts"
_ATTEMPTS_OF_ONE_NODE: Final = "4"
_ENVIRONMENT: Final = ("HADOOP_CONF_DIR", "HADOOP_HOME", "HADOOP_USER_NAME", "HADOOP_PROXY_USER")
"""What the client reads when it is made."""
_CACHED_S: Final = 3.5
"""The client keeps connections to data nodes for three seconds, for all of a process, and does not notice a fork."""
_READING: Final = ("read", "open", "look for", "list")


class HdfsStore:
    """Store over HDFS. A client is made on first use in each process, so it pickles and survives forks.

    The client repeats by itself what a name node in standby refused and what a lost data node did not answer.

    Args:
        scheme: `hdfs` or `viewfs`.
        authority: `host:port`, a name service of the configuration, or nothing for `fs.defaultFS`.
        options: the user's own file system options: `hadoop.<setting>`, `hadoop-conf-dir` and those of Kerberos.
    """

    def __init__(self, scheme: str, authority: str = "", options: Mapping[str, str] | None = None) -> None:
        self.scheme = scheme
        self.authority = authority
        self.options = dict(options or {})

    def __reduce__(self) -> tuple[Any, ...]:
        return HdfsStore, (self.scheme, self.authority, self.options)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HdfsStore) and self.__reduce__() == other.__reduce__()

    def __hash__(self) -> int:
        return hash(self.identity)

    def __repr__(self) -> str:
        return f"HdfsStore({self.scheme}://{self.authority})"

    @property
    def identity(self) -> str:
        settings = json.dumps(self.options, sort_keys=True)
        return f"{self.scheme}://{self.authority}#{hashlib.sha256(settings.encode()).hexdigest()[:16]}"

    def url(self, path: str) -> str:
        return f"{self.scheme}://{self.authority}/{path.lstrip('/')}"

    def read(self, path: str) -> bytes:
        with self._failures("read", path) as client:
            return bytes(client.read(path).read())

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        if length <= 0:
            return b""
        with self._failures("read", path) as client:
            return _read_range(client.read(path), offset, length)

    def read_many(self, paths: list[str]) -> list[bytes]:
        return [*concurrently(self.read, paths)]

    def open(self, path: str, size: int | None = None) -> pa.NativeFile:
        with self._failures("open", path) as client:
            reader = client.read(path)

        def read_part(offset: int, length: int) -> bytes:
            with self._failures("read", path):
                return _read_range(reader, offset, length)

        return open_ranges(KnownRanges(len(reader), read_part), path, size)

    def exists(self, path: str) -> bool:
        with self._failures("look for", path) as client:
            return _status(client, path) is not None

    def list(self, directory: str) -> list[FileInfo]:
        with self._failures("list", directory) as client:
            try:
                found = list(client.list_status(directory, False))
            except (FileNotFoundError, NotADirectoryError):
                return []
        # Of a file the listing is the file itself.
        return sorted(_info(status) for status in found if status.path != directory)

    @property
    def atomic_create(self) -> AtomicCreate:
        return AtomicCreate.NATIVE

    @property
    def renames_directories(self) -> bool:
        return True

    def create_exclusive(self, path: str, data: bytes) -> None:
        with self._failures("create", path) as client:

            def move(temporary: str) -> None:
                try:
                    client.rename(temporary, path, False)
                except FileExistsError:
                    client.delete(temporary, False)
                    check_own_file(self, path, data)

            _put_whole(client, path, data, move)

    def write(self, path: str, data: bytes) -> None:
        with self._failures("write", path) as client:
            _put_whole(client, path, data, lambda temporary: client.rename(temporary, path, True))

    def open_output(self, path: str) -> pa.NativeFile:
        with self._failures("write", path) as client:
            file = client.create(path)
        return open_output_file(file, lambda: self._failures("write", path))

    def delete(self, path: str) -> None:
        with self._failures("delete", path) as client:
            client.delete(path, False)

    def delete_many(self, paths: Sequence[str]) -> None:
        for _ in concurrently(self.delete, paths):
            pass

    def delete_tree(self, directory: str) -> None:
        with self._failures("delete", directory) as client:
            client.delete(directory, True)

    def make_directory(self, directory: str) -> None:
        with self._failures("make directory", directory) as client:
            _make_directory(client)(directory)

    def rename_tree(self, old: str, new: str, last: Sequence[str] = ()) -> None:
        with self._failures("rename", old) as client:
            if _status(client, old) is None:
                raise FileMissingError(f"cannot move {self.url(old)}: nothing is there", path=old)
            make_directory = _make_directory(client)
            make_directory(new.rpartition("/")[0] or "/")
            try:
                with_parents(new, lambda: client.rename(old, new, False), make_directory)
            except FileExistsError as e:
                raise already_there(self, new) from e
            except FileNotFoundError as e:
                raise FileMissingError(f"cannot move {self.url(old)}: nothing is there now", path=old) from e

    @contextmanager
    def _failures(self, verb: str, path: str) -> Iterator[Any]:
        """The client, with everything it raises turned into our errors."""
        try:
            yield self._client()
        except StorageError:
            raise
        except Exception as e:  # the client raises OSError, RuntimeError and others
            if verb in _READING and isinstance(e, (FileNotFoundError, NotADirectoryError)):
                raise FileMissingError(f"there is no file {self.url(path)}", path=path) from e
            raise StorageError(f"cannot {verb} {self.url(path)}: {_reason(e)}", path=path) from e

    def _client(self) -> Any:
        environment = tuple(os.environ.get(name) for name in _ENVIRONMENT)
        return _clients.get((os.getpid(), self.identity, environment), self._connect)

    def _connect(self) -> Any:
        """A new client. Raises StorageError: hdfs-native is missing, or the address or configuration is wrong."""
        try:
            from hdfs_native import Client
        except ImportError as e:
            raise StorageError(
                f"no file system for {self.scheme}:// is installed: install paimon-spark[hdfs]", protocol=self.scheme
            ) from e
        settings = {k.removeprefix(_SETTING): v for k, v in self.options.items() if k.startswith(_SETTING)}
        host, _, port = self.authority.rpartition("@")[2].rpartition(":")
        if host and port.isdigit():
            self._check_host(host)
            # No other name node can take over: Hadoop's fifteen attempts would take minutes.
            settings.setdefault(_ATTEMPTS, _ATTEMPTS_OF_ONE_NODE)
        login = {"kerberos_principal": self.options.get(_PRINCIPAL), "kerberos_keytab": self.options.get(_KEYTAB)}
        given = {k: v for k, v in login.items() if v}
        try:
            return Client(f"{self.scheme}://{self.authority}", settings, self.options.get(_CONF_DIR), **given)
        except Exception as e:
            raise StorageError(
                f"{self.scheme}://{self.authority} cannot be opened: {_reason(e)}; name a host with its port, or a "
                f"name service that hdfs-site.xml describes in HADOOP_CONF_DIR or in the option {_CONF_DIR}",
                protocol=self.scheme,
            ) from e

    def _check_host(self, host: str) -> None:
        """Raise StorageError for a host that is not known; the client would ask for it for minutes."""
        try:
            socket.getaddrinfo(host, None)
        except OSError as e:
            raise StorageError(
                f"there is no host {host!r}, named by {self.scheme}://{self.authority}: {e.strerror}; "
                "check the address of the name node",
                protocol=self.scheme,
            ) from e


class _Clients:
    """The clients of this process, which all its stores share, and those that a forked process found.

    A client is never ended: the threads of one that a process found do not run there, and its end would wait for them.
    """

    def __init__(self) -> None:
        self._made: dict[tuple[Any, ...], Any] = {}
        self._lock = threading.Lock()
        self._ready_at = 0.0
        os.register_at_fork(after_in_child=self._forked)

    def get(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """The client of a key, which is made at the first call."""
        with self._lock:
            if key not in self._made:
                time.sleep(max(0.0, self._ready_at - time.monotonic()))
                self._made[key] = make()
            return self._made[key]

    def _forked(self) -> None:
        """In a new process: wait with the first use until what parent and child would share has been dropped."""
        self._lock = threading.Lock()
        if self._made:
            self._ready_at = time.monotonic() + _CACHED_S


_clients: Final = _Clients()


def _read_range(reader: Any, offset: int, length: int) -> bytes:
    """Bytes of a file; the client panics when asked for more than there are."""
    length = min(length, len(reader) - offset)
    return bytes(reader.read_range(offset, length)) if length > 0 else b""


def _put_whole(client: Any, path: str, data: bytes, move: Callable[[str], object]) -> None:
    """Put a file with `data` at `path`: `move` gives the name to a temporary file."""

    def write(temporary: str) -> None:
        file = client.create(temporary)
        try:
            file.write(data)
        finally:
            file.close()

    put_whole(path, write, move, lambda temporary: client.delete(temporary, False), _make_directory(client))


def _make_directory(client: Any) -> Callable[[str], object]:
    return lambda directory: client.mkdirs(directory, create_parent=True)


def _status(client: Any, path: str) -> Any | None:
    try:
        return client.get_file_info(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _info(status: Any) -> FileInfo:
    return FileInfo(
        status.path.rstrip("/").rsplit("/", 1)[-1],
        0 if status.isdir else status.length,
        status.isdir,
        status.modification_time,
    )


def _reason(cause: Exception) -> str:
    """As `text.reason`, without the stack of the server, whose ends of lines the client may have escaped."""
    return reason(cause).partition("\\n")[0]
