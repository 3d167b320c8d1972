"""Creation, moves and deletion of files through fsspec.

Files are written to `.<name>.<uuid>.tmp` beside their place and then renamed, where the file system renames; a killed
process may leave such a file, which nothing ever reads.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from fsspec import AbstractFileSystem

from paimon_spark import progress
from paimon_spark.storage.store import ATTEMPTS, concurrently, put_whole, with_parents


def renames(cls: type[Any]) -> bool:
    """Whether a class of file system renames in one step; others copy and delete."""
    return cls.mv is not AbstractFileSystem.mv


def write(fs: Any, path: str, data: bytes, move: Callable[[str], object]) -> None:
    """Make or replace a file, whole; `move` gives a temporary file its name."""
    if renames(type(fs)):
        put_beside(fs, path, data, move)
    else:
        with_parents(path, lambda: fs.pipe_file(path, data), partial(make_directory, fs))


def put_beside(fs: Any, path: str, data: bytes, move: Callable[[str], object]) -> None:
    """Put a file with `data` at `path`: `move` gives the name to a temporary file."""
    put_whole(path, lambda temporary: fs.pipe_file(temporary, data), move, fs.rm_file, partial(make_directory, fs))


def open_for_writing(fs: Any, path: str) -> Any:
    """A binary file object."""
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


def remove_many(fs: Any, paths: Iterable[str]) -> None:
    """Delete the files that exist."""
    for_each(fs, paths, lambda path: remove(fs, path))


def remove_tree(fs: Any, directory: str, *, takes_patterns: bool) -> None:
    """Delete a directory if it exists, while others may remove from it or add to it.

    `takes_patterns`: the file system takes the characters * ? [ of a name for a pattern.
    """

    def is_gone() -> bool:
        fs.invalidate_cache(directory)
        return not fs.exists(directory)

    _repeat(lambda: _remove_directory(fs, directory, takes_patterns), is_gone)


def _remove_directory(fs: Any, directory: str, takes_patterns: bool) -> None:
    """Delete a directory. Raises FileNotFoundError when it, or an entry of it, is gone."""
    if not takes_patterns or not any(c in directory for c in "*?["):
        fs.rm(directory, recursive=True)
        return
    found = fs.find(directory, withdirs=True, detail=True)
    remove_many(fs, (name for name, info in found.items() if info["type"] != "directory"))
    directories = [name for name, info in found.items() if info["type"] == "directory"]
    for name in sorted({*directories, directory}, reverse=True):
        with suppress(FileNotFoundError):
            fs.rmdir(name)


def move_tree(fs: Any, old: str, new: str, last: Sequence[str], remove_old: Callable[[], object]) -> None:
    """Move a directory to where nothing is; a copy and a removal where the file system knows no renaming.

    Of a copy, what lies below the names in `last` comes after everything else, and goes before it.
    """
    if renames(type(fs)):
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
        remove_many(fs, parts[name])
    remove_old()


def for_each(fs: Any, paths: Iterable[str], act: Callable[[str], None], what: str | None = None) -> None:
    """Do something to files, several at a time where the file system allows. The first failure is raised.

    With `what` its progress is reported under that name.
    """
    every = list(paths)
    for done, _ in enumerate(concurrently(act, every, one_by_one=not fs.async_impl), 1):
        if what is not None:
            progress.report(what, done, len(every))
