"""Giving a file of this machine its name only where nothing has that name yet, in one step."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Final

_AT_FDCWD_LINUX: Final = -100
_RENAME_NOREPLACE: Final = 1  # Linux: renameat2
_RENAME_EXCL: Final = 4  # macOS: renamex_np
_CANNOT: Final = frozenset(
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
        if e.errno not in _CANNOT:
            raise
        rename_no_replace(old, new)
        return
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
    """The system's own call; None where there is none that we know."""
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
