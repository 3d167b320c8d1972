"""Compacted changelogs: changelog files of several buckets in one file, each a slice found by its name.

`bucket-3/compacted-changelog-x$0-100-100-50.cc-orc` is 50 bytes at 100 of
`bucket-0/compacted-changelog-x$0-100.cc-orc`, and that name itself means the first 100 bytes of the file.

Source: Java `utils/CompactedChangelogPathResolver`, Flink's `CompactedChangelogReadOnlyFormat`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from paimon_spark.errors import CorruptFileError
from paimon_spark.storage.arrow_files import open_ranges
from paimon_spark.storage.store import FileInfo, ReadableStore

PREFIX: Final = "compacted-changelog-"
FORMAT_PREFIX: Final = "cc-"
_NAME: Final = re.compile(
    r"(?P<stem>[^.$]*)\$(?P<bucket>\d{1,10})-(?P<whole>\d{1,18})(-(?P<offset>\d{1,18})-(?P<length>\d{1,18}))?"
    r"\.(?P<extension>[^.]+)",
    re.ASCII,
)


def slice_of(store: ReadableStore, path: str) -> SliceStore | None:
    """Where the bytes of the file called `path` are; None when it is a file like any other.

    Raises:
        CorruptFileError: the name does not say where.
    """
    bucket_path, _, name = path.rpartition("/")
    if not name.startswith(PREFIX):
        return None
    m = _NAME.fullmatch(name)
    if m is None:
        url = store.url(path)
        raise CorruptFileError(
            f"invalid name of a compacted changelog: {url}; expected <name>$<bucket>-<length>[-<offset>-<length>].cc-…",
            path=url,
        )
    whole = int(m["whole"])
    if m["offset"] is None:
        return SliceStore(store, path, 0, whole)
    home = f"{bucket_path.rpartition('/')[0]}/bucket-{int(m['bucket'])}"
    real = f"{home}/{m['stem']}${m['bucket']}-{m['whole']}.{m['extension']}"
    return SliceStore(store, real, int(m["offset"]), int(m["length"]))


@dataclass(frozen=True, slots=True)
class SliceStore:
    """A readable store with one file: `length` bytes at `offset` of `path` in `inner`, whatever path is asked for.

    The verbs raise CorruptFileError when the file ends before the slice does.
    """

    inner: ReadableStore
    path: str
    offset: int
    length: int

    @property
    def identity(self) -> str:
        return f"{self.inner.identity}|{self.path}[{self.offset}+{self.length}]"

    def url(self, path: str) -> str:
        return self.inner.url(self.path)

    def read(self, path: str) -> bytes:
        return self.read_range(path, 0, self.length)

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        wanted = max(0, min(length, self.length - offset))
        data = self.inner.read_range(self.path, self.offset + offset, wanted)
        if len(data) < wanted:
            url = self.url(path)
            raise CorruptFileError(
                f"data file {url} ends before byte {self.offset + self.length}, where the part of it called "
                f"{path.rpartition('/')[2]} ends",
                path=url,
            )
        return data

    def read_many(self, paths: list[str]) -> list[bytes]:
        return [self.read(p) for p in paths]

    def open(self, path: str) -> pa.NativeFile:
        return open_ranges(path, self.length, self.read_range)

    def exists(self, path: str) -> bool:
        return self.inner.exists(self.path)

    def list(self, directory: str) -> list[FileInfo]:
        return []
