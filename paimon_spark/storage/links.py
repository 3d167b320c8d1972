"""Symbolic links on local disks: found, and not followed inside a location that was opened.

The location itself and the directories above it may be links: users put warehouses and tables on other disks so. A link
below it was made by whoever may write there, and could lead to any file of the user.
"""

from __future__ import annotations

import os
import stat
from typing import cast

from paimon_spark.errors import StorageError
from paimon_spark.storage.store import ReadableStore, Store


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
