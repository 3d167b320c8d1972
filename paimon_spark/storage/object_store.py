"""Base of the stores of S3, Google Cloud Storage and Azure.

An object is made whole by one request, and only if none has its name where that is asked. There are no directories:
a prefix with objects is listed as one.
"""

from __future__ import annotations

import builtins
import hashlib
import io
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

import pyarrow as pa

from paimon_spark import progress
from paimon_spark.errors import FileMissingError, PaimonError, StorageError
from paimon_spark.redaction import without_passwords
from paimon_spark.storage import obstore_client
from paimon_spark.storage.obstore_client import Fault, fault_of
from paimon_spark.storage.store import (
    READING,
    AtomicCreate,
    FileInfo,
    already_there,
    check_own_file,
    concurrently,
    open_output_file,
    open_ranges,
    parent_of,
)

_PART_BYTES: Final = 8 << 20
_PARTS_AT_ONCE: Final = 4
_RANGE_BYTES: Final = 8 << 20
"""A longer range is fetched by several requests, as one connection has a limited rate."""


@dataclass(frozen=True)
class Settings:
    """How buckets of a kind of store are reached, as obstore takes it.

    Attributes:
        config: settings of the store.
        client: settings of the HTTP client.
        login: settings of who logs in, where `config` cannot say it; each kind of store has its own.
    """

    config: Mapping[str, Any] = field(default_factory=dict)
    client: Mapping[str, Any] = field(default_factory=dict)
    login: Mapping[str, Any] = field(default_factory=dict)


class ObjectStore(ABC):
    """Store over buckets; connections are made on first use in each process, so it pickles and survives forks.

    Paths are `bucket/key`.

    Args:
        settings: how buckets are reached; it may hold secrets and never appears in messages or `repr`.
        options: the user's own file system options, for files outside this store.
        scheme: of URLs.
        authority: what `url` puts between scheme and key in place of the bucket, such as `container@account` of Azure.
    """

    extra: ClassVar[str]
    """The extra of this package that installs the client."""
    login_options: ClassVar[str]
    """Options that say who a user is, for messages."""
    environment: ClassVar[str]
    """Beginning of the environment variables that obstore reads."""

    def __init__(
        self, settings: Settings, options: Mapping[str, str] | None = None, scheme: str = "", authority: str = ""
    ) -> None:
        self.settings = settings
        self.options = dict(options or {})
        self.scheme = scheme
        self.authority = authority
        self._identity: str | None = None

    @abstractmethod
    def connect(self, store_module: Any, bucket: str) -> Any:
        """A new connection of obstore to a bucket; `store_module` is `obstore.store`."""

    @abstractmethod
    def address(self) -> str | None:
        """The address of the server, where options give one."""

    def _info(self, listed: Mapping[str, Any]) -> FileInfo:
        changed_ms = int(listed["last_modified"].timestamp() * 1000)
        return FileInfo(_name(listed["path"]), listed["size"], False, changed_ms, digest=self.digest_of(listed))

    def digest_of(self, listed: Mapping[str, Any]) -> str | None:
        """The MD5 of a listed object in hexadecimal; None where the store does not say it."""
        return None

    def remove(self, bucket: str, keys: Sequence[str]) -> None:
        """Delete the objects that exist."""

        def delete(key: str) -> None:
            with suppress(FileNotFoundError):
                self.client(bucket).delete(key)

        for _ in concurrently(delete, keys):
            pass

    def remove_directories(self, bucket: str, keys: Sequence[str]) -> None:  # noqa: B027 - most stores have none
        """Delete the empty objects that other clients made to stand for directories of these names."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.settings, self.options, self.scheme, self.authority)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectStore) and self.__reduce__() == other.__reduce__()

    def __hash__(self) -> int:
        return hash(self.identity)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.scheme!r})"

    @property
    def identity(self) -> str:
        if self._identity is None:
            parts = [self.settings.config, self.settings.client, self.settings.login]
            text = json.dumps([dict(part) for part in parts], sort_keys=True, default=str)
            self._identity = f"{self.scheme}://{self.authority}#{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        return self._identity

    def url(self, path: str) -> str:
        bucket, _, key = path.partition("/")
        if self.authority and bucket == self.authority.partition("@")[0]:
            return f"{self.scheme}://{self.authority}/{key}"
        return f"{self.scheme}://{path}"

    def client(self, bucket: str) -> Any:
        """The connection of this process to a bucket. Raises StorageError: it cannot be made with these settings."""

        def make(obstore: Any) -> Any:
            try:
                return self.connect(obstore.store, bucket)
            except PaimonError:
                raise
            except Exception as e:  # obstore says what is wrong with a setting
                if fault_of(e).no_login:
                    raise self.failure("open", bucket, e) from e
                raise StorageError(
                    f"{self.scheme}://{bucket} cannot be opened: {fault_of(e).reason}; give {self.login_options}"
                ) from e

        variables = frozenset(item for item in os.environ.items() if item[0].startswith(self.environment))
        return obstore_client.connection(self.extra, (type(self).__name__, self.identity, bucket, variables), make)

    def read(self, path: str) -> bytes:
        with self._failures("read", path) as (client, key):
            return client.get(key).bytes().to_bytes()  # type: ignore[no-any-return]

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        if length <= 0:
            return b""
        with self._failures("read", path) as (client, key):
            try:
                return client.get_range(key, start=offset, length=length).to_bytes()  # type: ignore[no-any-return]
            except Exception as e:
                if obstore_client.begins_behind_the_end(e):
                    return b""
                raise

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        pieces = [
            (number, start, min(_RANGE_BYTES, offset + length - start))
            for number, (offset, length) in enumerate(ranges)
            for start in range(offset, offset + length, _RANGE_BYTES)
        ]
        found: list[list[bytes]] = [[] for _ in ranges]
        read = concurrently(lambda piece: self.read_range(path, piece[1], piece[2]), pieces)
        for (number, _, _), data in zip(pieces, read, strict=True):
            found[number].append(data)
        return [b"".join(parts) if len(parts) != 1 else parts[0] for parts in found]

    def read_end(self, path: str, length: int, expected: int | None = None) -> tuple[bytes, int]:
        with self._failures("open", path) as (client, key):
            try:
                found = client.get(key, options={"range": {"suffix": length}})
                return found.bytes().to_bytes(), int(found.meta["size"])
            except Exception as e:
                if obstore_client.begins_behind_the_end(e):
                    return b"", 0
                raise

    def read_many(self, paths: list[str]) -> list[bytes]:
        return list(concurrently(self.read, paths))

    def open(self, path: str, size: int | None = None) -> pa.NativeFile:
        return open_ranges(self, path, size)

    def exists(self, path: str) -> bool:
        with self._failures("look for", path) as (client, key):
            if not key:
                client.list_with_delimiter()
                return True
            with suppress(FileNotFoundError):
                client.head(key)
                return True
            return any(client.list(key, chunk_size=1))

    def list(self, directory: str) -> list[FileInfo]:
        with self._failures("list", directory) as (client, key):
            found = client.list_with_delimiter(key or None)
        directories = {_name(prefix): FileInfo(_name(prefix), 0, True, None) for prefix in found["common_prefixes"]}
        # One of the same path stands for the directory itself.
        files = (self._info(o) for o in found["objects"] if o["path"] != key)
        return sorted([*directories.values(), *(f for f in files if f.size or f.name not in directories)])

    def list_tree(self, directory: str) -> dict[str, builtins.list[FileInfo]]:
        """The entries of a directory and of all below it, by path: a page of listing for each thousand objects."""
        base = directory.rstrip("/")
        with self._failures("list", directory) as (client, key):
            listed = list(_listed(client, key))
        files: dict[str, dict[str, FileInfo]] = {base: {}}
        for o in listed:
            # Objects that stand for directories have the names of these.
            *parents, name = o["path"][len(key) :].strip("/").split("/")
            place = base
            for parent in parents:
                files[place][parent] = FileInfo(parent, 0, True, None)
                place = f"{place}/{parent}"
                files.setdefault(place, {})
            if name and not (o["size"] == 0 and name in files[place]):
                files[place][name] = self._info(o)
        return {place: sorted(found.values()) for place, found in files.items()}

    @property
    def atomic_create(self) -> AtomicCreate:
        return AtomicCreate.NATIVE

    @property
    def renames_directories(self) -> bool:
        return False

    def create_exclusive(self, path: str, data: bytes) -> None:
        with self._failures("create", path) as (client, key):
            try:
                client.put(key, data, mode="create", use_multipart=False)
            except Exception as e:
                if not fault_of(e).is_conflict:
                    raise
                check_own_file(self, path, data)

    def write(self, path: str, data: bytes) -> None:
        with self._failures("write", path) as (client, key):
            client.put(key, data, use_multipart=len(data) > _PART_BYTES, chunk_size=_PART_BYTES)

    def open_output(self, path: str) -> pa.NativeFile:
        return self.open_upload(path, self.write)

    def open_upload(self, path: str, write: Callable[[str, bytes], object]) -> pa.NativeFile:
        """As `open_output`; a small file is written whole, by `write`."""
        with self._failures("write", path) as (client, key):
            parts = obstore_client.package(self.extra).open_writer
        return open_output_file(
            _Upload(lambda data: write(path, data), lambda: parts(client, key, **_IN_PARTS)),
            lambda: self._failures("write", path),
        )

    def delete(self, path: str) -> None:
        with self._failures("delete", path) as (client, key), suppress(FileNotFoundError):
            client.delete(key)

    def delete_many(self, paths: Sequence[str]) -> None:
        for bucket, keys in _by_bucket(paths).items():
            with self._failures("delete", f"{bucket}/{keys[0]}"):
                self.remove(bucket, keys)

    def delete_tree(self, directory: str) -> None:
        with self._failures("delete", directory) as (client, prefix):
            bucket = directory.partition("/")[0]
            self._remove_listed(bucket, prefix, list(_listed(client, prefix)))

    def _remove_listed(self, bucket: str, prefix: str, listed: Sequence[Mapping[str, Any]]) -> None:
        """Delete what was listed below a prefix, the empty objects that stand for directories last."""
        self.remove(bucket, [o["path"] for o in listed if o["path"] != prefix])
        empty = sorted((o["path"] for o in listed if not o["size"]), reverse=True)
        if empty:
            self.remove_directories(bucket, empty)

    def make_directory(self, directory: str) -> None:  # noqa: B027 - part of the protocol of stores
        """Nothing: a directory is there when something is in it."""

    def rename_tree(self, old: str, new: str, last: Sequence[str] = ()) -> None:
        with self._failures("rename", old) as (client, prefix):
            bucket = old.partition("/")[0]
            listed = list(_listed(client, prefix))
        if not listed:
            raise FileMissingError(f"cannot move {self.url(old)}: nothing is there", path=old)
        if self.exists(new):
            raise already_there(self, new)
        target = new.partition("/")[2]
        parts: dict[str, list[Mapping[str, Any]]] = {name: [] for name in ("", *last)}
        for o in listed:
            name = o["path"][len(prefix) :].strip("/").split("/")[0]
            parts[name if name in parts else ""].append(o)

        def copy(key: str) -> None:
            client.copy(key, target + key[len(prefix) :])

        with self._failures("rename", old):
            for found in parts.values():
                keys = [o["path"] for o in found if o["path"] != prefix]
                for done, _ in enumerate(concurrently(copy, keys), 1):
                    progress.report("copy", done, len(keys))
            for name in last:
                self.remove(bucket, [o["path"] for o in parts[name]])
            self._remove_listed(bucket, prefix, parts[""])

    @contextmanager
    def _failures(self, verb: str, path: str) -> Iterator[tuple[Any, str]]:
        """The connection and the key of a path, with everything that obstore raises turned into our errors."""
        bucket, _, key = path.strip("/").partition("/")
        try:
            yield self.client(bucket), key
        except PaimonError:
            raise
        except Exception as e:  # obstore raises errors of its own, and those of Python
            raise self.failure(verb, path, e) from e

    def failure(self, verb: str, path: str, cause: Exception) -> StorageError:
        """The error of this package for one of obstore."""
        bucket = path.strip("/").partition("/")[0]
        fault = fault_of(cause)
        address = without_passwords(self.address() or f"{self.scheme}://{self.authority or bucket}")
        # These name no file: what is wrong is wrong for all of them, and the first one read is internal to Paimon.
        if fault.no_login:
            return StorageError(
                f"no login is given for {self.url(parent_of(path))}; give {self.login_options}", path=path
            )
        if fault.no_bucket or (verb == "list" and fault.status == 404):
            return StorageError(
                f"there is no bucket {bucket!r} at {address}: correct its name or the endpoint, or create it",
                path=path,
                bucket=bucket,
            )
        if fault.speaks_no_tls:
            return StorageError(
                f"the server at {address} does not answer to https://: begin the endpoint with http://, as in "
                f"http://{urlsplit(address).netloc}",
                path=path,
            )
        if fault.is_untrusted:
            return StorageError(
                f"the certificate of {address} is not trusted ({fault.reason}): give the certificate of its authority "
                "in a file that SSL_CERT_FILE names, for S3 also fs.client_kwargs.verify",
                path=path,
            )
        if fault.is_unreachable:
            return StorageError(
                f"nothing answers at {address}: correct the endpoint, or try later ({fault.reason})",
                path=path,
                retryable=True,
                unreachable=True,
            )
        return self._answered(verb, path, fault, address)

    def _answered(self, verb: str, path: str, fault: Fault, address: str) -> StorageError:
        if fault.other_region:
            return StorageError(
                f"{self.url(path)} is in another region than the one asked ({fault.reason}); give s3.region", path=path
            )
        if fault.is_refused:
            return StorageError(
                f"{address} refuses access to {self.url(parent_of(path))} ({verb}: {fault.reason}); correct "
                f"{self.login_options}, or the rights of that user",
                path=path,
            )
        if verb in READING and fault.is_missing:
            return FileMissingError(f"there is no file {self.url(path)}", path=path)
        return StorageError(f"cannot {verb} {self.url(path)}: {fault.reason}", path=path, retryable=fault.is_retryable)


_IN_PARTS: Final = {"buffer_size": _PART_BYTES, "max_concurrency": _PARTS_AT_ONCE}


class _Upload(io.RawIOBase):
    """A file that is written: one request while it is small, else parts, which are uploaded as they fill."""

    def __init__(self, put: Callable[[bytes], object], parts: Callable[[], Any]) -> None:
        self._put, self._open_parts = put, parts
        self._parts: Any = None
        self._buffer = bytearray()
        self._is_discarded = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._buffer += data
        if len(self._buffer) >= _PART_BYTES:
            self._upload()
        return memoryview(data).nbytes

    def _upload(self) -> None:
        if self._parts is None:
            self._parts = self._open_parts()
        self._parts.write(bytes(self._buffer))
        self._buffer.clear()

    def discard(self) -> None:
        """Forget the file: nothing of it was visible."""
        self._is_discarded = True
        self._buffer.clear()
        self._parts = None

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        if self._is_discarded:
            return
        if self._parts is None:
            self._put(bytes(self._buffer))
        else:
            if self._buffer:
                self._upload()
            self._parts.close()


def _listed(client: Any, prefix: str) -> Iterator[Mapping[str, Any]]:
    for found in client.list(prefix or None, chunk_size=1000):
        yield from found


def _by_bucket(paths: Sequence[str]) -> dict[str, list[str]]:
    out: dict[str, list[str]] = {}
    for path in paths:
        bucket, _, key = path.strip("/").partition("/")
        out.setdefault(bucket, []).append(key)
    return out


def _name(path: str) -> str:
    return path.rstrip("/").rsplit("/", 1)[-1]
