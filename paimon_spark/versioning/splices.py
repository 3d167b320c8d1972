"""Whether one snapshot was made on top of another: told from what both say, nothing of data read.

Histories that other engines put together of two (a fast-forward that copies over what is there, a commit that came in
while main was replaced) have neighbours that do not follow on one another.
"""

from __future__ import annotations

from paimon_spark.errors import FileMissingError
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.manifests import read_manifest_list


def contradicts(before: Snapshot, after: Snapshot) -> bool:
    """Whether the numbers of rows that both state rule out that `after` was made on `before`. Reads nothing."""
    total, delta = after.total_record_count, after.delta_record_count
    return (
        total is not None
        and delta is not None
        and before.total_record_count is not None
        and total - delta != before.total_record_count
    )


def follows(handle: TableHandle, before: Snapshot, after: Snapshot) -> bool | None:
    """Whether `after` was made on `before`; None when that cannot be told. Reads three manifest lists.

    Raises:
        CorruptFileError: a list cannot be decoded.
    """
    if after.id != before.id + 1 or contradicts(before, after):
        return False
    try:
        added = _names(handle, before.delta_manifest_list)
        base = _names(handle, after.base_manifest_list)
        if added and added <= base:
            return True
        earlier = _names(handle, before.base_manifest_list)
        if earlier | added <= base:
            return True
    except FileMissingError:
        return None
    # A commit may merge manifests into new ones: then there are fewer, or all are new.
    rewritten = len(base) > 1 and not base & (earlier | added)
    return None if rewritten or len(base) < len(earlier | added) else False


def _names(handle: TableHandle, manifest_list: str) -> set[str]:
    return {m.file_name for m in read_manifest_list(handle, manifest_list)}
