"""Compacted changelogs: changelog files of several buckets in one, each found by the name of its part.

`bucket-3/compacted-changelog-x$0-100-100-50.cc-orc` is 50 bytes at 100 of
`bucket-0/compacted-changelog-x$0-100.cc-orc`, and that name itself means the first 100 bytes of the file.

Source: Java `utils/CompactedChangelogPathResolver`, Flink's `CompactedChangelogReadOnlyFormat`.
"""

from __future__ import annotations

import re
from typing import Final

from paimon_spark.errors import CorruptFileError
from paimon_spark.storage.slice import SliceStore
from paimon_spark.storage.store import ReadableStore

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
            f"the name of the compacted changelog {url} does not say which bytes are meant", path=url
        )
    whole = int(m["whole"])
    if m["offset"] is None:
        return SliceStore(store, path, 0, whole)
    home = f"{bucket_path.rpartition('/')[0]}/bucket-{int(m['bucket'])}"
    real = f"{home}/{m['stem']}${m['bucket']}-{m['whole']}.{m['extension']}"
    return SliceStore(store, real, int(m["offset"]), int(m["length"]))
