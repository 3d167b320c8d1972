"""Creation, moves and deletion of files through fsspec.

Object stores have no directories and put a file there whole. The others write to `.<name>.<uuid>.tmp`
beside the file and then rename; a killed process may leave such a file, which nothing ever reads.
"""

from __future__ import annotations

import errno
import inspect
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final
from uuid import uuid4

from fsspec import AbstractFileSystem

from paimon_spark import progress
from paimon_spark.errors import StorageError
from paimon_spark.storage.clients import AZURE, CONDITIONS, GCS, http_status
from paimon_spark.storage.store import ATTEMPTS, AtomicCreate, concurrently, put_whole, with_parents

_OBJECT_STORES: Final = ("s3", *GCS, *AZURE)
_WEBHDFS: Final = "webhdfs"
_IN_MEMORY: Final = threading.RLock()
_PART_BYTES: Final = 8 << 20


def has_directories(protocol: str) -> bool:
    """Whether the file system has directories, which are created before files and renamed with them."""
    return protocol not in _OBJECT_STORES


def renames_directories(protocol: str, cls: type[Any]) -> bool:
    """Whether the file system renames a directory in one step."""
    return has_directories(protocol) and cls.mv is not AbstractFileSystem.mv


def call_lock(protocol: str) -> AbstractContextManager[object]:
    """The lock to hold during a call: the memory file system is one dictionary that all threads share."""
    return _IN_MEMORY if protocol == "memory" else nullcontext()


def atomic_create(protocol: str, cls: Any, options: Mapping[str, str]) -> AtomicCreate:
    """Whether `create` is exclusive: the store has a conditional write, and the package installed offers it."""
    if protocol in ("memory", _WEBHDFS):
        return AtomicCreate.NATIVE
    if protocol == "s3":
        offered = _takes(cls, "mode") and client_knows_conditions() and conditional_writes(options)
    elif protocol in GCS:
        offered = _takes(cls, "mode")
    else:
        offered = protocol in AZURE and _takes(cls, "overwrite")
    return AtomicCreate.NATIVE if offered else AtomicCreate.NONE


def _takes(cls: Any, argument: str) -> bool:
    return argument in inspect.signature(cls._pipe_file).parameters


def create(fs: Any, protocol: str, path: str, data: bytes) -> None:
    """Create a file in one conditional step; `is_conflict` tells whether an error means that it exists."""
    if protocol == "memory":  # the caller holds `call_lock`
        if fs.exists(path):
            raise FileExistsError(path)
        fs.pipe_file(path, data)
    elif protocol in AZURE:
        fs.pipe_file(path, data, overwrite=False)
    elif protocol == _WEBHDFS:
        _put_whole(fs, path, data, lambda temporary: _rename_on_webhdfs(fs, temporary, path, "NONE"))
    else:
        if protocol == "s3":
            check_conditional_writes(fs, path)
        fs.pipe_file(path, data, mode="create")


def is_conflict(cause: BaseException) -> bool:
    """Whether a conditional write failed because the file exists."""
    return isinstance(cause, FileExistsError) or http_status(cause) == 412


def write(fs: Any, protocol: str, path: str, data: bytes) -> None:
    """Make or replace a file, whole."""
    if not has_directories(protocol):
        fs.pipe_file(path, data)
        return
    if type(fs).mv is AbstractFileSystem.mv:  # it can only copy
        with_parents(path, lambda: fs.pipe_file(path, data), partial(make_directory, fs))
        return

    def move(temporary: str) -> None:
        if protocol != _WEBHDFS:
            fs.mv(temporary, path)
            return
        try:
            _rename_on_webhdfs(fs, temporary, path, "OVERWRITE")
        except FileExistsError:  # HttpFS never replaces
            remove(fs, path)
            _rename_on_webhdfs(fs, temporary, path, "OVERWRITE")

    _put_whole(fs, path, data, move)


def _put_whole(fs: Any, path: str, data: bytes, move: Callable[[str], object]) -> None:
    """Put a file with `data` at `path`: `move` gives the name to a temporary file."""
    put_whole(path, lambda temporary: fs.pipe_file(temporary, data), move, fs.rm_file, partial(make_directory, fs))


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


def open_for_writing(fs: Any, protocol: str, path: str) -> Any:
    """A binary file object; it uploads in parts that bound its memory."""
    if not has_directories(protocol):
        return fs.open(path, "wb", block_size=_PART_BYTES)
    return with_parents(path, lambda: fs.open(path, "wb"), partial(make_directory, fs))


def make_directory(fs: Any, directory: str) -> None:
    """Make a directory and its parents unless they exist, while others make them and remove those that are empty."""
    _repeat(lambda: fs.makedirs(directory, exist_ok=True), lambda: False)


def _repeat(act: Callable[[], object], is_over: Callable[[], bool]) -> None:
    """Repeat a change of a directory that others change too, until it succeeds or `is_over`."""
    for _ in range(ATTEMPTS - 1):
        try:
            act()
            return
        except Exception as e:
            if not _comes_of_others(e):
                raise
            if is_over():
                return
    act()


def _comes_of_others(cause: Exception) -> bool:
    """Whether others may have made, filled or removed a directory meanwhile; SFTP and FTP say only that they failed."""
    says_nothing = (type(cause) is OSError and cause.errno is None) or type(cause).__name__ == "error_perm"
    return (
        says_nothing
        or isinstance(cause, (FileExistsError, FileNotFoundError))
        or getattr(cause, "errno", None) == errno.ENOTEMPTY
    )


def remove(fs: Any, path: str) -> None:
    """Delete a file if it exists."""
    with suppress(FileNotFoundError):
        fs.rm_file(path)


def remove_many(fs: Any, protocol: str, paths: Iterable[str]) -> None:
    """Delete the files that exist."""
    if protocol == "s3":
        delete_objects(fs, list(paths))
    else:
        for_each(fs, paths, lambda path: remove(fs, path))


def remove_tree(fs: Any, protocol: str, directory: str) -> None:
    """Delete a directory if it exists, while others may remove from it or add to it."""
    if protocol == "s3":
        delete_prefix(fs, directory)
    elif not has_directories(protocol):
        remove_many(fs, protocol, fs.find(directory))
    else:

        def is_gone() -> bool:
            fs.invalidate_cache(directory)
            return not fs.exists(directory)

        _repeat(lambda: _remove_directory(fs, protocol, directory), is_gone)


def _remove_directory(fs: Any, protocol: str, directory: str) -> None:
    """Delete a directory. Raises FileNotFoundError when it, or an entry of it, is gone."""
    if protocol == _WEBHDFS or not any(c in directory for c in "*?["):
        fs.rm(directory, recursive=True)
        return
    found = fs.find(directory, withdirs=True, detail=True)
    remove_many(fs, protocol, (name for name, info in found.items() if info["type"] != "directory"))
    directories = [name for name, info in found.items() if info["type"] == "directory"]
    for name in sorted({*directories, directory}, reverse=True):
        with suppress(FileNotFoundError):
            fs.rmdir(name)


def move_tree(fs: Any, protocol: str, old: str, new: str, last: Sequence[str] = ()) -> None:
    """Move a directory to where nothing is; a copy and a removal where the file system knows no renaming.

    Of a copy, what lies below the names in `last` comes after everything else, and goes before it.
    """
    if renames_directories(protocol, type(fs)):
        make_parents = partial(make_directory, fs)
        make_parents(new.rpartition("/")[0])
        with_parents(new, lambda: fs.mv(old, new), make_parents)
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
    for done, _ in enumerate(concurrently(act, every, one_by_one=not fs.async_impl), 1):
        if what is not None:
            progress.report(what, done, len(every))


_MIN_BOTOCORE: Final = (1, 35, 21)
_BULK: Final = 1000
_checked: set[tuple[int, str]] = set()


def conditional_writes(options: Mapping[str, str]) -> bool:
    """Whether `If-None-Match` may be used; `s3.conditional-writes=false` says that the server lacks it."""
    return options.get(CONDITIONS, "true").strip().lower() != "false"


def client_knows_conditions() -> bool:
    """Whether the client sends `If-None-Match`; older ones silently leave it out."""
    try:
        parts = version("botocore").split(".")[:3]
    except PackageNotFoundError:
        return False
    return tuple(int(part) for part in parts if part.isdigit()) >= _MIN_BOTOCORE


def check_conditional_writes(fs: Any, path: str) -> None:
    """Make sure, once per process, that a server other than AWS's knows conditional writes. Raises StorageError.

    Servers that do not know `If-None-Match` ignore it, and two commits would overwrite each other.
    """
    endpoint = str(fs.s3.meta.endpoint_url)
    if ".amazonaws." in endpoint or (os.getpid(), endpoint) in _checked:
        return
    directory, _, name = path.rpartition("/")
    probe = f"{directory}/.{name}.{uuid4()}.tmp"
    try:
        fs.pipe_file(probe, b"1", mode="create")
        try:
            fs.pipe_file(probe, b"2", mode="create")
        except Exception as e:
            if not (isinstance(e, FileExistsError) or "PreconditionFailed" in repr(e.__cause__)):
                raise
        else:
            raise StorageError(
                f"cannot create s3://{path} safely: the server at {endpoint} ignores If-None-Match, so commits could "
                f"overwrite each other. Use a server with conditional writes; or, if nobody else ever writes to the "
                f"table at the same time, set {CONDITIONS}=false and commit.allow-unsafe-create=true",
                path=path,
                retryable=False,
            )
    finally:
        fs.rm_file(probe)
    _checked.add((os.getpid(), endpoint))


def delete_objects(fs: Any, paths: list[str]) -> None:
    """Delete objects of one bucket, a thousand per request; those that are not there are no error.

    Raises StorageError when the server refuses to delete one.
    """
    for start in range(0, len(paths), _BULK):
        keys = [fs.split_path(path)[:2] for path in paths[start : start + _BULK]]
        answer = fs.call_s3(
            "delete_objects", Bucket=keys[0][0], Delete={"Objects": [{"Key": key} for _, key in keys], "Quiet": True}
        )
        for error in answer.get("Errors", ()):
            raise StorageError(
                f"cannot delete s3://{keys[0][0]}/{error.get('Key')}: {error.get('Code')}: {error.get('Message')}",
                path=f"{keys[0][0]}/{error.get('Key')}",
                retryable=error.get("Code") in ("InternalError", "SlowDown", "ServiceUnavailable"),
            )


def delete_prefix(fs: Any, directory: str) -> None:
    """Delete every object below `directory`, and the marker that other clients make for the directory itself."""
    bucket, key, _ = fs.split_path(directory)
    prefix, token = f"{key}/", dict[str, str]()
    while True:
        page = fs.call_s3("list_objects_v2", Bucket=bucket, Prefix=prefix, **token)
        if found := [f"{bucket}/{entry['Key']}" for entry in page.get("Contents", ())]:
            delete_objects(fs, found)
        if not page.get("IsTruncated"):
            return
        token = {"ContinuationToken": page["NextContinuationToken"]}
