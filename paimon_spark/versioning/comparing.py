"""Two versions of a table compared by their metadata: versions as text in, a `Diff` out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_spark.engine.scan.partitions import Partitions
from paimon_spark.errors import FileMissingError
from paimon_spark.format import binary_row
from paimon_spark.format.arrays.arrow_numpy import values
from paimon_spark.metadata.branches import same_snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.partition_path import value_text
from paimon_spark.metadata.resolve import Resolved, resolve
from paimon_spark.metadata.schemas import list_schema_ids, read_schema
from paimon_spark.metadata.version import text_version
from paimon_spark.versioning.changed_columns import changed_columns
from paimon_spark.versioning.changed_files import ADDED, CHANGED, REMOVED, Version, changed_files
from paimon_spark.versioning.diff import Diff, PartitionDiff, Side
from paimon_spark.versioning.relation import relation

_TRIES: Final = 5
"""Times versions are looked up again when their files vanish meanwhile."""


def compare(handle: TableHandle, old: str, new: str | None) -> Diff:
    """What tells the versions apart. Metadata only.

    Args:
        handle: a branch as it is defined now.
        old: a version.
        new: another; None is the handle's branch as it stands.

    Raises:
        NotFoundError: a version does not exist, or has expired.
        CorruptFileError: metadata cannot be read.
    """
    sides = _resolved(handle, old, new)
    for _ in range(_TRIES):
        try:
            files = changed_files(*(Version(side.handle, side.snapshot) for side in sides))
            break
        except FileMissingError:
            before, sides = sides, _resolved(handle, old, new)
            if all(same_snapshot(a.snapshot, b.snapshot) for a, b in zip(before, sides, strict=True)):
                raise
    else:
        files = changed_files(*(Version(side.handle, side.snapshot) for side in sides))
    return _diff(handle, (old, new), sides, files)


def _resolved(handle: TableHandle, old: str, new: str | None) -> tuple[Resolved, Resolved]:
    return resolve(handle, text_version(old)), resolve(handle, None if new is None else text_version(new))


def _diff(
    handle: TableHandle, asked: tuple[str, str | None], sides: tuple[Resolved, Resolved], files: pa.Table
) -> Diff:
    old, new = sides
    related = relation(old.handle, old.snapshot, new.handle, new.snapshot)
    partitions = _partitions(new.handle, files)
    before, after = old.handle.schema, new.handle.schema
    columns = changed_columns(before, after, _shared_field_id(old.handle, new.handle)) if before != after else ()
    keys = sorted(before.options.keys() | after.options.keys())
    options = {k: (before.options.get(k), after.options.get(k)) for k in keys}
    return Diff(
        table=handle.name,
        old=_side(asked[0], old),
        new=_side(new.handle.branch if asked[1] is None else asked[1], new),
        files_added=sum(p.files_added for p in partitions),
        files_removed=sum(p.files_removed for p in partitions),
        bytes_added=sum(p.bytes_added for p in partitions),
        bytes_removed=sum(p.bytes_removed for p in partitions),
        rows_added=sum(p.rows_added for p in partitions),
        rows_removed=sum(p.rows_removed for p in partitions),
        files_changed=sum(p.files_changed for p in partitions),
        rows_deleted=sum(p.rows_deleted for p in partitions),
        rows_restored=sum(p.rows_restored for p in partitions),
        partitions=partitions,
        columns=columns,
        options={k: pair for k, pair in options.items() if pair[0] != pair[1]},
        common_snapshot_id=related.common,
        ahead=related.ahead,
        behind=related.behind,
        files=files,
    )


def _side(version: str, found: Resolved) -> Side:
    s = found.snapshot
    return Side(
        version,
        found.label,
        found.handle.branch,
        None if s is None else s.id,
        None if s is None else s.time_ms,
        found.handle.schema.id,
        0 if s is None else s.total_record_count,
    )


def _partitions(handle: TableHandle, files: pa.Table) -> tuple[PartitionDiff, ...]:
    """The sums of each partition that has files in the list."""
    if len(files) == 0:
        return ()
    whole = files.combine_chunks()
    found = Partitions(handle, whole.column("partition").chunk(0))
    changes = whole.column("change").to_numpy(zero_copy_only=False)
    rows, sizes, deleted = (values(whole.column(n).chunk(0)) for n in ("row_count", "file_size", "deleted_rows"))
    count = len(found.rows)

    def total(mask: np.ndarray, amounts: np.ndarray | None = None) -> list[int]:
        weights = np.ones(len(whole), np.int64) if amounts is None else amounts
        out = np.zeros(count, np.int64)
        np.add.at(out, found.codes[mask], weights[mask])
        return [int(v) for v in out]

    added, removed, changed = (changes == c for c in (ADDED, REMOVED, CHANGED))
    sums = zip(
        total(added), total(removed), total(added, sizes), total(removed, sizes), total(added, rows),
        total(removed, rows), total(changed), total(changed, np.maximum(deleted, 0)),
        total(changed, np.maximum(-deleted, 0)), strict=True,
    )  # fmt: skip
    made = [PartitionDiff(_texts(handle, row), *each) for row, each in zip(found.row_bytes, sums, strict=True)]
    return tuple(sorted(made, key=lambda p: p.name))


def _texts(handle: TableHandle, partition: bytes) -> Mapping[str, str | None]:
    columns = handle.schema.partition_type
    if not columns.fields:
        return {}
    decoded = binary_row.decode(partition, [f.type for f in columns], raw_timestamps=True)
    return {
        f.name: None if v is None else value_text(f.type, v, legacy=False)
        for f, v in zip(columns.fields, decoded, strict=True)
    }


def _shared_field_id(old: TableHandle, new: TableHandle) -> int | None:
    """The highest field id that both branches gave out together; None on one branch.

    Both give out ids of their own once they have parted, so an id may mean two columns.
    """
    if old.layout == new.layout:
        return None
    ids = [set(list_schema_ids(h.store, h.layout)) for h in (old, new)]
    shared = -1
    for i in sorted(ids[0] & ids[1]):
        ours, theirs = (read_schema(h.store, h.layout, i) for h in (old, new))
        if ours != theirs:
            break
        shared = ours.highest_field_id
    return shared
