"""Connections to buckets by obstore, and facts of its errors.

A runtime of obstore has threads, which a fork does not take along: a call in the child would wait for ever. A child of
a process that has used obstore therefore loads the library a second time, with a runtime of its own.

Sources: obstore 0.12; object_store `client/retry.rs` and `lib.rs` for the texts of errors; tokio-rs/tokio#4301.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import ModuleType
from typing import Any, Final

from paimon_spark.errors import StorageError

_EXTENSION: Final = "obstore._obstore"
_LOCK: Final = threading.RLock()
_MOST_CONNECTIONS: Final = 256

RETRIES: Final[dict[str, Any]] = {
    "max_retries": 2,
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=2), "base": 2},
    "retry_timeout": timedelta(seconds=60),
}
"""With the time that a connection may take, an address where nothing answers is reported within ten seconds."""
CLIENT: Final[dict[str, Any]] = {"connect_timeout": "2s", "read_timeout": "60s", "timeout": "1h"}


class _Process:
    """State of one process: whether obstore was used, and the buckets that are connected."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.is_used = False
        self.connections: dict[Hashable, Any] = {}


_process = _Process()


def package(extra: str) -> ModuleType:
    """The package obstore, able to work in this process. Raises StorageError, naming the extra that installs it."""
    try:
        with _LOCK:
            return _loaded()
    except ImportError as e:
        raise StorageError(
            f"obstore, by which object stores are reached, is not installed: install paimon-spark[{extra}]"
        ) from e


def _loaded() -> ModuleType:
    global _process
    if _process.pid != os.getpid():
        used, _process = _process.is_used, _Process()
        if used:
            _load_again()
    found = importlib.import_module("obstore")
    importlib.import_module("obstore.store")
    _process.is_used = True
    return found


def connection(extra: str, key: Hashable, make: Callable[[ModuleType], Any]) -> Any:
    """The connection to a bucket that this process has under a key; `make` makes the first by obstore.

    Raises as `package`.
    """
    with _LOCK:
        module = package(extra)
        found = _process.connections.get(key)
        if found is None:
            if len(_process.connections) >= _MOST_CONNECTIONS:
                _process.connections.pop(next(iter(_process.connections)))
            found = _process.connections[key] = make(module)
        return found


def _load_again() -> None:
    """Import obstore as a second copy of its library: only a file of its own gets new memory and threads."""
    original = str(sys.modules[_EXTENSION].__file__)
    with open(original, "rb") as file:
        library = file.read()
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("obstore")
        copy = f"/proc/self/fd/{descriptor}"
    else:
        descriptor, copy = tempfile.mkstemp(suffix=os.path.basename(original))
    with open(descriptor, "wb", closefd=False) as file:
        file.write(library)
    for name in [n for n in sys.modules if n == "obstore" or n.startswith("obstore.")]:
        del sys.modules[name]
    finder = _Copy(copy)
    sys.meta_path.insert(0, finder)
    try:
        importlib.import_module("obstore")
    finally:
        sys.meta_path.remove(finder)


class _Copy:
    """Finds the copy of obstore's library in place of the original."""

    def __init__(self, path: str) -> None:
        self._path = path

    def find_spec(
        self, name: str, _path: object = None, _target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != _EXTENSION:
            return None
        loader = importlib.machinery.ExtensionFileLoader(name, self._path)
        return importlib.util.spec_from_file_location(name, self._path, loader=loader)


_STATUS: Final = re.compile(r"status code: (\d{3}) ?([\w -]*)")
_CODE: Final = re.compile(r"<Code>([^<]*)</Code>")
_MESSAGE: Final = re.compile(r"<Message>([^<]*)</Message>")
_KIND: Final = re.compile(r"kind: (Connect|Request|Timeout|Interrupted|Decode|Unknown),")
_SYSTEM: Final = re.compile(r'message: "([^"]+)"|"((?:dns error|failed to lookup)[^"]*)"')
_OF_MANY: Final = re.compile(r"request failed for key .*?: (.*?) \(code: (\w+)\)")
_BUSY: Final = ("InternalError", "SlowDown", "ServiceUnavailable")
_QUERY: Final = re.compile(r"\?\S*")
_NO_BUCKET: Final = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")
_NO_LOGIN: Final = (
    "169.254.169.254", "metadata.google.internal", "External AWS credential provider", "no login is configured",
)  # fmt: skip
_NO_TLS: Final = ("InvalidContentType", "InvalidMessage", "corrupt message")
_UNTRUSTED: Final = re.compile(r"InvalidCertificate\(\s*(\w+)")
_REGION: Final = ("incorrectly configured region", "AuthorizationHeaderMalformed", "PermanentRedirect")
_RETRYABLE: Final = frozenset((408, 409, 425, 429, 500, 502, 503, 504))
_PASSING: Final[Mapping[str, str]] = {
    "Connect": "no connection",
    "Request": "the request broke off",
    "Timeout": "no answer in time",
    "Interrupted": "the connection was interrupted",
    "Decode": "the answer broke off",
}
"""Kinds of failures without an answer that may pass, in words."""


@dataclass(frozen=True)
class Fault:
    """Facts of an error that obstore raised.

    Attributes:
        reason: a short text of it, without addresses and secrets.
        status: the status of the server's answer; None without one.
        is_missing: an object does not exist.
        is_conflict: an object exists that was to be created.
        no_bucket: the bucket does not exist.
        no_login: no credentials were found.
        is_refused: the server refuses access.
        is_unreachable: nothing answers at the address.
        speaks_no_tls: the server was asked by https:// and knows http:// only.
        is_untrusted: the server's certificate is not trusted.
        other_region: the bucket is in another region than the one asked.
        is_retryable: the call may succeed when repeated.
    """

    reason: str
    status: int | None
    is_missing: bool
    is_conflict: bool
    no_bucket: bool
    no_login: bool
    is_refused: bool
    is_unreachable: bool
    speaks_no_tls: bool
    is_untrusted: bool
    other_region: bool
    is_retryable: bool


def fault_of(error: Exception) -> Fault:
    """Facts of an error that a call of obstore raised."""
    text = str(error)
    name = type(error).__name__
    answered = _STATUS.search(text)
    status = int(answered.group(1)) if answered else None
    kinds = _KIND.findall(text)
    kind = kinds[0] if kinds else None
    no_login = _has(text, _NO_LOGIN)
    no_bucket = not no_login and _has(text, _NO_BUCKET)
    no_tls = _has(text, _NO_TLS)
    untrusted = _UNTRUSTED.search(text) is not None
    return Fault(
        reason=_reason(text, name, answered, kind),
        status=status,
        is_missing=isinstance(error, FileNotFoundError) and not no_bucket,
        is_conflict=name in ("AlreadyExistsError", "PreconditionError"),
        no_bucket=no_bucket,
        no_login=no_login,
        is_refused=name in ("PermissionDeniedError", "UnauthenticatedError") or status in (401, 403),
        is_unreachable=status is None and kind == "Connect" and not no_tls and not untrusted,
        speaks_no_tls=no_tls,
        is_untrusted=untrusted,
        other_region=_has(text, _REGION),
        is_retryable=status in _RETRYABLE
        or _has(text, _BUSY)
        or (status is None and kind in _PASSING and not untrusted),
    )


def begins_behind_the_end(error: Exception) -> bool:
    """Whether a store refused to read a range because it begins behind the end of the object."""
    text = str(error)
    found = _STATUS.search(text)
    return (found is not None and found.group(1) == "416") or "Wanted range starting at" in text


def _has(text: str, marks: tuple[str, ...]) -> bool:
    return any(mark in text for mark in marks)


def _reason(text: str, name: str, answered: re.Match[str] | None, kind: str | None) -> str:
    if of_many := _OF_MANY.search(text):
        return f"{of_many.group(2)}: {of_many.group(1)}"
    if answered:
        said = [m.group(1) for m in (_CODE.search(text), _MESSAGE.search(text)) if m]
        return ": ".join([f"{answered.group(1)} {answered.group(2)}".strip(), *said])
    if untrusted := _UNTRUSTED.search(text):
        return untrusted.group(1)
    if system := _SYSTEM.search(text):
        return str(next(filter(None, system.groups())))
    if kind is not None and kind in _PASSING:
        return _PASSING[kind]
    first = text.partition("\n\nDebug source")[0].strip().split("\n")[0]
    return _QUERY.sub("", first) or name
