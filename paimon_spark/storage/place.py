"""Place: where a URL in metadata leads, parsed strictly and compared by path segments.

Text of a table's files may be hostile: what cannot be compared for certain is no place.
"""

from __future__ import annotations

import os
import re
from typing import Final, NamedTuple
from urllib.parse import unquote

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(/.*)?", re.DOTALL)
_SAME: Final = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs", "local": "file"}
"""Schemes that are other names of one."""
_DECODINGS: Final = 4
"""Times that `%XX` is decoded, as layers of a store may decode it again."""


class Place(NamedTuple):
    """A path in a store.

    Attributes:
        scheme: in lower case, `s3` for `s3a`.
        authority: bucket or host; empty on this machine and in memory.
        path: from `/` on, without doubled and trailing slashes; empty for the whole store.
    """

    scheme: str
    authority: str
    path: str

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"

    @property
    def is_local(self) -> bool:
        """Whether it is a path of this machine."""
        return self.scheme == "file"

    def shares_store(self, other: Place) -> bool:
        """Whether both are in one bucket, on one host or on this machine."""
        return self[:2] == other[:2]

    def is_below(self, root: Place) -> bool:
        """Whether the place is inside a directory; on this machine also where links are followed."""
        if not self.shares_store(root) or not _is_below(self.path, root.path):
            return False
        return not self.is_local or _is_below(_real(self.path), _real(root.path))

    def may_be_in(self, root: Place) -> bool:
        """Whether the place may be a directory or inside it, with links followed or not."""
        if not self.shares_store(root):
            return False
        inside = self.path == root.path or _is_below(self.path, root.path)
        if inside or not self.is_local:
            return inside
        path, directory = _real(self.path), _real(root.path)
        return path == directory or _is_below(path, directory)


def find_place(url: str) -> Place | None:
    """The place that an absolute path or URL names; None where it has `..` or another form.

    Segments `.` and `..` are looked for in decoded text too, as some stores decode `%XX`.
    """
    text = url.strip()
    found = _URL.fullmatch(text if not text.startswith("/") else f"file:{text}")
    if found is None or any(ord(c) < 32 or ord(c) == 127 or 0xD800 <= ord(c) < 0xE000 for c in text):
        return None
    scheme, authority, path = found[1].lower(), found[2] or "", found[3] or ""
    scheme = _SAME.get(scheme, scheme)
    if not _is_plain(f"{authority}/{path}"):
        return None
    if scheme == "memory":
        authority, path = "", f"/{authority}/{path}"
    if scheme == "file" and authority:
        return None
    return Place(scheme, authority, "".join(f"/{part}" for part in path.split("/") if part))


def _is_plain(path: str) -> bool:
    """Whether no segment leads upwards, however often the path is decoded."""
    for _ in range(_DECODINGS):
        if any(part in (".", "..") for part in re.split(r"[/\\]", path)):
            return False
        decoded = unquote(path)
        if decoded == path:
            return True
        path = decoded
    return False


def _is_below(path: str, root: str) -> bool:
    return path.startswith(f"{root.rstrip('/')}/")


def _real(path: str) -> str:
    return os.path.realpath(path or "/")
