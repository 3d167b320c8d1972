"""LocalStore: the file system of this machine, with creation that never replaces a file.

Symbolic links inside a location that was opened are found and not followed. The location itself and the directories
above it may be links: users put warehouses and tables on other disks so. A link below it was made by whoever may write
there, and could lead to any file of the user.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from operator import itemgetter
from typing import Final, cast

import pyarrow as pa

from paimon_spark.errors import FileAlreadyThereError, FileMissingError, StorageError
from paimon_spark.redaction import get_logger
from paimon_spark.storage.store import (
    ATTEMPTS,
    AtomicCreate,
    FileInfo,
    ReadableStore,
    Store,
    open_output_file,
    put_whole,
    with_parents,
)

_LOG = get_logger(__name__)
_NOT_EMPTY: Final = (errno.ENOTEMPTY, errno.EEXIST)
_IN_THE_WAY: Final = (*_NOT_EMPTY, errno.ENOTDIR)
"""Failures to rename a directory to where something is."""
_NUMBER_BYTES: Final = 20
"""Longest file that may be changed in place: the digits of a 64-bit number."""


@dataclass(frozen=True, slots=True)
class LocalStore:
    """Store over local paths. Files are read whole with one call, or handed to Arrow as `OSFile`.

    A new file's bytes go to `.<name>.<uuid>.tmp` beside it, which then takes the name in one step (by a hard
    link, or a rename that does not replace). A killed process may leave such a file; nothing ever reads it.

    Symbolic links below `root` are not followed: listings have them as files or leave them out, deletes remove the
    link, and reads and writes through one are refused.

    Attributes:
        options: file system options the user gave; they matter only for files outside this store.
        root: the location that was opened, which may be a link itself; empty: links are followed but by listings.
    """

    options: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    root: str = field(default="", repr=False, compare=False)

    @property
    def identity(self) -> str:
        return "file:"

    def url(self, path: str) -> str:
        return f"file://{path}"

    def read(self, path: str) -> bytes:
        self.check_path(path)
        with _failures("read", path), open(path, "rb") as f:
            return f.read()

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        self.check_path(path)
        with _failures("read", path), open(path, "rb") as f:
            f.seek(offset)
            return f.read(length)

    def read_many(self, paths: list[str]) -> list[bytes]:
        return [self.read(p) for p in paths]

    def open(self, path: str, size: int | None = None) -> pa.NativeFile:
        self.check_path(path)
        with _failures("open", path):
            return pa.OSFile(path, "rb")

    def exists(self, path: str) -> bool:
        self._refuse_links("look at", path, last=False)
        return os.path.exists(path)

    def is_link(self, path: str) -> bool:
        """Whether the path is a symbolic link. Not in `Store`: no other store has links."""
        return os.path.islink(path)

    def within(self, root: str) -> LocalStore:
        """The store that follows no links below another location."""
        return self if root == self.root else replace(self, root=root)

    def check_path(self, path: str) -> None:
        """Check that no link below `root` is on the way to a file, as before each read. Raises StorageError."""
        self._refuse_links("read", path)

    def list(self, directory: str) -> list[FileInfo]:
        self._refuse_links("list", directory)
        try:
            with _failures("list", directory), os.scandir(directory) as entries:
                found = [info for info in map(_info, entries) if info is not None]
        except FileMissingError:
            return []
        found.sort(key=itemgetter(0))
        return found

    @property
    def atomic_create(self) -> AtomicCreate:
        return AtomicCreate.NATIVE

    @property
    def renames_directories(self) -> bool:
        return True

    def create_exclusive(self, path: str, data: bytes) -> None:
        def move(temporary: str) -> None:
            try:
                move_no_replace(temporary, path)
            except FileExistsError as e:
                raise FileAlreadyThereError(f"there is a file {path} already", path=path) from e

        self._refuse_links("create", path, last=False)
        with _failures("create", path):
            _put_whole(path, data, move)

    def write(self, path: str, data: bytes) -> None:
        self._refuse_links("write", path, last=False)
        if 0 < len(data) <= _NUMBER_BYTES and _last_byte_changed(path, data):
            return
        with _failures("write", path):
            _put_whole(path, data, lambda temporary: os.replace(temporary, path))

    def open_output(self, path: str) -> pa.NativeFile:
        self._refuse_links("write", path)
        with _failures("write", path):
            file = with_parents(path, lambda: open(path, "wb"), _make_directory)  # noqa: SIM115 - the caller closes it
        return open_output_file(file, lambda: _failures("write", path))

    def delete(self, path: str) -> None:
        link = find_link(self.root, path, last=False)
        if link is not None:
            _warn_of({link})
            return
        with suppress(FileMissingError), _failures("delete", path):
            os.unlink(path)

    def delete_many(self, paths: Sequence[str]) -> None:
        links = set()
        for path in paths:
            link = find_link(self.root, path, last=False)
            if link is None:
                self.delete(path)
            else:
                links.add(link)
        _warn_of(links)

    def delete_tree(self, directory: str) -> None:
        """As `Store.delete_tree`; of a link, the link alone."""
        link = find_link(self.root, directory, last=False)
        if link is not None:
            _warn_of({link})
            return
        with suppress(FileMissingError), _failures("delete", directory):
            if os.path.islink(directory):
                _LOG.warning("the link %s was deleted, and nothing of what it points to", directory)
                os.unlink(directory)
            else:
                _remove_tree(directory)

    def remove_if_empty(self, directory: str) -> bool:
        """Remove a directory that holds nothing, in one step with the look; whether it was removed. No other store can.

        Not in `Store`: elsewhere a file made meanwhile could be lost.
        """
        if find_link(self.root, directory) is not None:
            return False
        try:
            os.rmdir(directory)
        except OSError:
            return False
        return True

    def make_directory(self, directory: str) -> None:
        self._refuse_links("make directory", directory)
        with _failures("make directory", directory):
            _make_directory(directory)

    def rename_tree(self, old: str, new: str, last: Sequence[str] = ()) -> None:
        self._refuse_links("rename", old)
        self._refuse_links("write", new)
        with _failures("rename", old):
            os.stat(old)
            # A rename would replace an empty directory.
            if os.path.lexists(new):
                raise FileAlreadyThereError(f"cannot move {old} to {new}: something is there already", path=new)
            try:
                with_parents(new, lambda: os.rename(old, new), _make_directory)
            except OSError as e:
                if e.errno not in _IN_THE_WAY or not os.path.lexists(new):
                    raise
                raise FileAlreadyThereError(f"cannot move {old} to {new}: something is there now", path=new) from e

    def _refuse_links(self, verb: str, path: str, *, last: bool = True) -> None:
        link = find_link(self.root, path, last=last)
        if link is not None:
            raise refused(verb, path, link)


def _warn_of(links: set[str]) -> None:
    """Warn of links whose targets may hold files that a deletion named."""
    for link in sorted(links):
        _LOG.warning("nothing was deleted below %s: it is a symbolic link, which is not followed", link)


def _put_whole(path: str, data: bytes, move: Callable[[str], object]) -> None:
    """Put a file with `data` at `path`: `move` gives the name to a temporary file."""

    def write(temporary: str) -> None:
        with open(temporary, "xb") as f:
            f.write(data)

    put_whole(path, write, move, os.unlink, _make_directory)


def _make_directory(directory: str) -> None:
    """Make a directory and its parents unless they exist, while others make them and remove those that are empty."""
    for _ in range(ATTEMPTS - 1):
        # `makedirs` fails when what it found is gone before its next step: a parent, or the directory itself.
        with suppress(FileExistsError, FileNotFoundError):
            os.makedirs(directory, exist_ok=True)
            return
    os.makedirs(directory, exist_ok=True)


def _last_byte_changed(path: str, data: bytes) -> bool:
    """Change a file in place that differs from `data` in the last byte only; whether that was done.

    Readers see the old byte or the new one, and all who change one file in place agree on the bytes before it. It pays
    for the hint LATEST, which every commit counts up. Replacing it deletes a file each time, and ext4 without a journal
    skips recently deleted files one by one whenever it makes a new one. Links are replaced: a copy of a table that
    consists of links has a hint of its own.
    """
    try:
        status = os.lstat(path)
        if status.st_nlink != 1 or not stat.S_ISREG(status.st_mode):
            return False
        with open(path, "r+b", buffering=0) as f:
            found = f.read(len(data) + 1)
            if len(found) != len(data) or found[:-1] != data[:-1]:
                return False
            f.seek(len(data) - 1)
            return f.write(data[-1:]) == 1
    except OSError:
        return False


def _remove_tree(directory: str) -> None:
    """Remove a directory and its contents while others may remove from it or add to it."""
    for left in range(ATTEMPTS, 0, -1):
        with os.scandir(directory) as entries:
            found = [(entry.path, entry.is_dir(follow_symlinks=False)) for entry in entries]
        for path, is_directory in found:
            with suppress(FileNotFoundError):
                if is_directory:
                    _remove_tree(path)
                else:
                    os.unlink(path)
        try:
            os.rmdir(directory)
        except OSError as e:
            if e.errno not in _NOT_EMPTY or left == 1:
                raise
        else:
            return


def _info(entry: os.DirEntry[str]) -> FileInfo | None:
    """The entry, whatever a link points to; None when it was removed meanwhile or is a broken link."""
    try:
        found = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    is_link = stat.S_ISLNK(found.st_mode)
    try:
        linked = is_link and stat.S_ISDIR(entry.stat().st_mode)
    except OSError:  # its target is missing, out of reach or a link back to it
        return None
    is_directory = stat.S_ISDIR(found.st_mode)
    size = 0 if is_directory or is_link else found.st_size
    return FileInfo(entry.name, size, is_directory, found.st_mtime_ns // 1_000_000, linked)


@contextmanager
def _failures(verb: str, path: str) -> Iterator[None]:
    try:
        yield
    except StorageError:
        raise
    except (FileNotFoundError, NotADirectoryError) as e:
        raise FileMissingError(f"there is no file {path}", path=path) from e
    except (OSError, ValueError) as e:  # ValueError: a NUL in the path
        raise StorageError(f"cannot {verb} {path}: {e}", path=path, retryable=False) from e


_AT_FDCWD_LINUX: Final = -100
_RENAME_NOREPLACE: Final = 1  # Linux: renameat2
_RENAME_EXCL: Final = 4  # macOS: renamex_np
_UNSUPPORTED: Final = frozenset(
    (errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EMLINK)
)


def move_no_replace(old: str, new: str) -> None:
    """Move a file to `new` unless something is there. By a hard link, else by a rename that does not replace.

    Readers see nothing at `new`, or the whole file. When the call dies halfway, `old` may be left over.

    Raises:
        FileExistsError: something is at `new`, which stays as it is.
        OSError: anything else; ENOTSUP when the file system can do neither.
    """
    try:
        os.link(old, new)
    except FileExistsError:
        # NFS repeats a request whose answer was lost, and then finds the link it made itself.
        if not _same_file(old, new):
            raise
    except OSError as e:
        if e.errno not in _UNSUPPORTED:
            raise
        rename_no_replace(old, new)
        return
    with suppress(OSError):  # `new` is there, whatever happens to `old`: someone may have renamed the directory of both
        os.unlink(old)


def rename_no_replace(old: str, new: str) -> None:
    """Rename a file or directory unless something is at `new`. Raises FileExistsError, else OSError as above."""
    rename = _system_rename()
    if rename is None:
        raise OSError(errno.ENOTSUP, "this system has no rename that does not replace", new)
    rename(old, new)


def _same_file(old: str, new: str) -> bool:
    try:
        return os.path.samefile(old, new)
    except FileNotFoundError:
        return False


@cache
def _system_rename() -> Callable[[str, str], None] | None:
    """The system's own call; None on systems without one."""
    if os.name == "nt":
        return os.rename  # which refuses to replace there
    libc = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "darwin" and hasattr(libc, "renamex_np"):
        return lambda old, new: _checked(libc.renamex_np(os.fsencode(old), os.fsencode(new), _RENAME_EXCL), old, new)
    if sys.platform == "linux" and hasattr(libc, "renameat2"):
        return lambda old, new: _checked(
            libc.renameat2(
                _AT_FDCWD_LINUX, os.fsencode(old), _AT_FDCWD_LINUX, os.fsencode(new), ctypes.c_uint(_RENAME_NOREPLACE)
            ),
            old,
            new,
        )
    return None


def _checked(result: int, old: str, new: str) -> None:
    if result == 0:
        return
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS):  # the file system does not know the flag
        code = errno.ENOTSUP
    raise OSError(code, os.strerror(code), old, None, new)


def find_link(root: str, path: str, *, last: bool = True) -> str | None:
    """Path of the first symbolic link between `root` and `path`; None without one.

    Args:
        root: the location that was opened, which may be a link itself; empty: nothing is looked at.
        path: what is below it. Nothing else is looked at.
        last: whether `path` itself counts.
    """
    at = root.rstrip("/")
    if not root or not path.startswith(f"{at}/"):
        return None
    parts = path[len(at) + 1 :].split("/")
    for part in parts if last else parts[:-1]:
        at = f"{at}/{part}"
        try:
            mode = os.lstat(at).st_mode
        except (OSError, ValueError):  # nothing is there, so nothing is below it
            return None
        if stat.S_ISLNK(mode):
            return at
    return None


def refused(verb: str, path: str, link: str) -> StorageError:
    """The error for a path that leads through a link."""
    return StorageError(
        f"cannot {verb} {path}: {link} is a symbolic link, and links inside a table or warehouse are not followed; "
        "put a copy of its target in its place, or delete the link",
        path=path,
        retryable=False,
    )


def check_path(store: ReadableStore, path: str) -> None:
    """Check that no link is on the way to a file which other programs read. Raises StorageError."""
    check = getattr(store, "check_path", None)
    if check is not None:
        check(path)


def within(store: Store, root: str) -> Store:
    """`store` when links below `root` are not followed: for a table of a warehouse, whose folder may be a link."""
    confined = getattr(type(store), "within", None)  # of the type: wrappers forward what they lack to the store inside
    return store if confined is None else cast(Store, confined(store, root))


def is_link(store: ReadableStore, path: str) -> bool:
    """Whether a path is a symbolic link, on stores that have links."""
    look = getattr(store, "is_link", None)
    return look is not None and bool(look(path))
