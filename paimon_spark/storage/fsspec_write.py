"""How fsspec's file systems make, move and remove files: each has its own way, or none, to do it in one step.

Stores of objects have no directories and put a file there whole. The others write to `.<name>.<uuid>.tmp`
beside the file and then rename; a killed process may leave such a file, which nothing ever reads.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, Final, TypeVar
from uuid import uuid4

from fsspec import AbstractFileSystem

from paimon_spark import progress
from paimon_spark.errors import StorageError
from paimon_spark.storage import s3
from paimon_spark.storage.store import AtomicCreate

T = TypeVar("T")

_GCS: Final = ("gs", "gcs")
_AZURE: Final = ("az", "abfs", "abfss")
_OBJECT_STORES: Final = ("s3", *_GCS, *_AZURE)
_IN_MEMORY: Final = threading.RLock()
_PART_BYTES: Final = 8 << 20
_CONCURRENT: Final = 16


def has_directories(protocol: str) -> bool:
    """Whether directories are things of their own there, to be made before files and renamed with them."""
    return protocol not in _OBJECT_STORES


def renames_directories(protocol: str, cls: type[Any]) -> bool:
    """Whether a directory moves in one step: the file system has directories, and a way of its own to move them."""
    return has_directories(protocol) and cls.mv is not AbstractFileSystem.mv


def alone(protocol: str) -> AbstractContextManager[object]:
    """What to hold during a call: fsspec's memory is one dictionary of the process, for threads to take in turns."""
    return _IN_MEMORY if protocol == "memory" else nullcontext()


def atomic_create(protocol: str, cls: Any, options: Mapping[str, str]) -> AtomicCreate:
    """Whether `create` is exclusive: the store has a conditional write, and the package installed offers it."""
    if protocol == "memory":
        return AtomicCreate.NATIVE
    if protocol == "s3":
        offered = _takes(cls, "mode") and s3.client_knows_conditions() and s3.conditional_writes(options)
    elif protocol in _GCS:
        offered = _takes(cls, "mode")
    else:
        offered = protocol in _AZURE and _takes(cls, "overwrite")
    return AtomicCreate.NATIVE if offered else AtomicCreate.NONE


def _takes(cls: Any, argument: str) -> bool:
    return argument in inspect.signature(cls._pipe_file).parameters


def create(fs: Any, protocol: str, path: str, data: bytes) -> None:
    """Make a file in one conditional request. What `is_conflict` says of the error tells whether one was there."""
    if protocol == "memory":  # the caller holds `alone`
        if fs.exists(path):
            raise FileExistsError(path)
        fs.pipe_file(path, data)
    elif protocol in _AZURE:
        fs.pipe_file(path, data, overwrite=False)
    else:
        if protocol == "s3":
            s3.check_conditional_writes(fs, path)
        fs.pipe_file(path, data, mode="create")


def is_conflict(cause: BaseException) -> bool:
    """Whether a conditional write failed because something was there."""
    return isinstance(cause, FileExistsError) or http_status(cause) == 412


def http_status(cause: BaseException | None) -> int | None:
    """The status of the answer that an error of a cloud client reports, or an error it was made from."""
    for _ in range(5):
        if cause is None:
            return None
        response = getattr(cause, "response", None)
        if isinstance(response, Mapping):
            stated = [response.get("ResponseMetadata", {}).get("HTTPStatusCode")]
        else:
            stated = [getattr(cause, name, None) for name in ("status_code", "status", "code")]
        for status in stated:
            if isinstance(status, int):
                return status
        cause = cause.__cause__
    return None


def write(fs: Any, protocol: str, path: str, data: bytes) -> None:
    """Make or replace a file, whole."""
    if not has_directories(protocol):
        fs.pipe_file(path, data)
        return
    if not _renames(fs):
        with_parents(fs, path, lambda: fs.pipe_file(path, data))
        return
    directory, _, name = path.rpartition("/")
    temporary = f"{directory}/.{name}.{uuid4()}.tmp"
    try:
        with_parents(fs, temporary, lambda: fs.pipe_file(temporary, data))
        fs.mv(temporary, path)
        if fs.exists(temporary):  # WebHDFS does not replace, and does not complain
            fs.rm_file(path)
            fs.mv(temporary, path)
            if fs.exists(temporary):
                raise StorageError(f"the file system did not rename {temporary} to {path}", path=path)
    except BaseException:
        with suppress(Exception):
            fs.rm_file(temporary)
        raise


def open_for_writing(fs: Any, protocol: str, path: str) -> Any:
    """A binary file object; it uploads in parts that bound its memory."""
    if not has_directories(protocol):
        return fs.open(path, "wb", block_size=_PART_BYTES)
    return with_parents(fs, path, lambda: fs.open(path, "wb"))


def with_parents(fs: Any, path: str, make: Callable[[], T]) -> T:
    """What `make` returns; when it finds no directory for `path`, that is made and `make` called again."""
    try:
        return make()
    except FileNotFoundError:
        fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        return make()


def remove(fs: Any, path: str) -> None:
    """Remove a file that may not be there."""
    with suppress(FileNotFoundError):
        fs.rm_file(path)


def remove_many(fs: Any, protocol: str, paths: Iterable[str]) -> None:
    """Remove files that may not be there."""
    if protocol == "s3":
        s3.delete_objects(fs, list(paths))
    else:
        for_each(fs, paths, lambda path: remove(fs, path))


def remove_tree(fs: Any, protocol: str, directory: str) -> None:
    """Remove a directory that may not be there."""
    if protocol == "s3":
        s3.delete_prefix(fs, directory)
    elif _is_pattern(directory) or not has_directories(protocol):
        found = fs.find(directory, withdirs=True, detail=True)
        remove_many(fs, protocol, (name for name, info in found.items() if info["type"] != "directory"))
        if has_directories(protocol):
            directories = [name for name, info in found.items() if info["type"] == "directory"]
            for name in sorted({*directories, directory}, reverse=True):
                with suppress(FileNotFoundError):
                    fs.rmdir(name)
    else:
        with suppress(FileNotFoundError):
            fs.rm(directory, recursive=True)


def move_tree(fs: Any, protocol: str, old: str, new: str, last: Sequence[str] = ()) -> None:
    """Move a directory to where nothing is; a copy and a removal where the file system knows no renaming.

    Of a copy, what lies below the names in `last` comes after everything else, and goes before it.
    """
    if renames_directories(protocol, type(fs)):
        fs.makedirs(new.rpartition("/")[0], exist_ok=True)
        fs.mv(old, new)
        return
    start = len(old.strip("/"))

    def copy(path: str) -> None:
        fs.cp_file(path, new + path.strip("/")[start:])

    parts: dict[str, list[str]] = {name: [] for name in ("", *last)}
    for path in fs.find(old):
        name = path.strip("/")[start:].strip("/").split("/")[0]
        parts[name if name in parts else ""].append(path)
    for found in parts.values():
        for_each(fs, found, copy, "copy")
    for name in last:
        remove_many(fs, protocol, parts[name])
    remove_tree(fs, protocol, old)


def for_each(fs: Any, paths: Iterable[str], act: Callable[[str], None], what: str | None = None) -> None:
    """Do something to files, several at a time where the file system allows. The first failure is raised.

    With `what` its progress is reported under that name.
    """
    every = list(paths)
    ends = not threading.main_thread().is_alive()  # no pool takes work in handlers of `atexit`
    if ends or not fs.async_impl:
        for done, path in enumerate(every, 1):
            act(path)
            if what is not None:
                progress.report(what, done, len(every))
        return
    with ThreadPoolExecutor(_CONCURRENT, thread_name_prefix="paimon-store") as pool:
        for done, _ in enumerate(pool.map(act, every), 1):
            if what is not None:
                progress.report(what, done, len(every))


def _renames(fs: Any) -> bool:
    return type(fs).mv is not AbstractFileSystem.mv


def _is_pattern(path: str) -> bool:
    return not {"*", "?", "["}.isdisjoint(path)
