"""Readers of small JSON files that another process may be writing or removing."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from paimon_spark.errors import CorruptFileError, FileMissingError
from paimon_spark.storage.store import Store
from paimon_spark.text import id_of

T = TypeVar("T")

WAITS_S: Final = (0.02, 0.1, 0.2)
"""Waits before reading again a file that does not decode: some stores show a file before it is complete."""


def read_decoded(
    store: Store, path: str, decode: Callable[[bytes, str], T], sleep: Callable[[float], None] = time.sleep
) -> T:
    """The decoded file. A file that does not decode is read again after each of `WAITS_S`.

    Raises:
        FileMissingError: no such file, at once.
        CorruptFileError: it still does not decode.
    Source: Java `SnapshotManager.fromPath`, which retries for the same reason.
    """
    for wait in (*WAITS_S, None):
        try:
            return decode(store.read(path), path)
        except CorruptFileError:
            if wait is None:
                raise
            sleep(wait)
    raise AssertionError


def find_decoded(store: Store, path: str, decode: Callable[[bytes, str], T]) -> T | None:
    """As `read_decoded`; None for a missing file."""
    try:
        return read_decoded(store, path, decode)
    except FileMissingError:
        return None


def find_many(store: Store, paths: Sequence[str], decode: Callable[[bytes, str], T]) -> list[T | None]:
    """As `find_decoded` for each path, read together."""
    if not paths:
        return []
    try:
        return [decode(data, path) for data, path in zip(store.read_many(list(paths)), paths, strict=True)]
    except (FileMissingError, CorruptFileError):  # one is deleted or being written
        return [find_decoded(store, path, decode) for path in paths]


def find_bytes(store: Store, path: str) -> bytes | None:
    """Bytes of a file; None if it is missing. Raises StorageError."""
    try:
        return store.read(path)
    except FileMissingError:
        return None


_MOST_CONTENTS_BYTES: Final = 16 << 20
_CONTENTS: Final[dict[str, bytes]] = {}
"""Contents of files that were read in this process, by digest; the oldest go first."""


def read_listed(store: Store, path: str, digest: str) -> bytes:
    """The file, whose content a listing gave the digest: the MD5 in hexadecimal.

    A content that this process has read is not read again. Raises FileMissingError, StorageError.
    """
    known = _CONTENTS.get(digest)
    if known is not None:
        return known
    data = store.read(path)
    if hashlib.md5(data, usedforsecurity=False).hexdigest() == digest:  # else the file was changed meanwhile
        _CONTENTS[digest] = data
        size = sum(map(len, list(_CONTENTS.values())))
        while size > _MOST_CONTENTS_BYTES:
            size -= len(_CONTENTS.pop(next(iter(_CONTENTS)), b""))
    return data


def text_of(data: bytes, path: str) -> str:
    """The text of a small file; `path` is for messages. Raises CorruptFileError: it is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as e:
        raise CorruptFileError(f"{path} is no text in UTF-8: {e.reason} at byte {e.start}", path=path) from e


def read_existing(store: Store, paths: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """The files with their paths, but those that are not there, or no longer. Raises StorageError."""
    try:
        yield from zip(paths, store.read_many(list(paths)), strict=True)
        return
    except FileMissingError:
        pass
    for path in paths:
        data = find_bytes(store, path)
        if data is not None:
            yield path, data


def numbered(store: Store, directory: str, prefix: str) -> list[int]:
    """Ids of the files `<prefix><id>` in a directory, ascending; temporary and other files do not count."""
    return numbers((info.name for info in store.list(directory)), prefix)


def numbers(names: Iterable[str], prefix: str) -> list[int]:
    """Ids of the names `<prefix><id>`, ascending; others do not count."""
    ids = []
    for name in names:
        found = id_of(name.removeprefix(prefix)) if name.startswith(prefix) else None
        if found is not None:
            ids.append(found)
    return sorted(ids)


def checked_text(value: Any) -> str:
    """Text from JSON. Raises ValueError for an empty text or another type."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{str(value)[:50]!r} is not text")
    return value


def checked_number(value: Any) -> int:
    """Whole number from JSON. Raises ValueError for another type."""
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise ValueError(f"{str(value)[:50]!r} is not a 64-bit number")
    return value
