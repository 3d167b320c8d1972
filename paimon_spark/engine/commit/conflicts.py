"""Conflicts of a commit with concurrent ones: pure functions over manifest entries.

Two appends never conflict, nor does an append with a compaction. What deletes files conflicts with whatever deleted
them before, and files with keys above level 0 may not overlap.

Source: Java `operation/commit/ConflictDetection`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.engine.commit.entries import I64, adds, codes, column, numbers, together, where
from paimon_spark.engine.commit.index_files import has_buckets
from paimon_spark.engine.commit.row_ids import range_conflict
from paimon_spark.engine.merge.ordering import column_words, sort_rows
from paimon_spark.format.arrays.arrow_numpy import Bool, array_of
from paimon_spark.format.binary_row import decode_column
from paimon_spark.format.metadata_files.index_manifest import DELETION_VECTORS, IndexManifestEntry
from paimon_spark.format.metadata_files.manifest import FileKind
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.live_files import file_ids
from paimon_spark.metadata.partition_path import partition_path_of
from paimon_spark.types import RowType

_SHOWN: Final = 5


def find_conflict(
    handle: TableHandle,
    base: pa.Table,
    base_index: Sequence[IndexManifestEntry],
    changes: pa.Table,
    index: Sequence[IndexManifestEntry],
    *,
    overwrites: bool,
    checks_vectors: bool,
    keys_are_ranges: bool,
    next_row_id: int = 0,
    compacts: bool = False,
) -> str | None:
    """Describe the first conflict of `changes` with `base`; None without a conflict.

    Args:
        handle: the branch.
        base: live entries of all partitions that `changes` and `index` touch.
        base_index: index files of the head.
        changes: ADD and DELETE entries.
        index: index files added and deleted.
        overwrites: the commit is of kind OVERWRITE, which alone may change the number of buckets.
        checks_vectors: the table has deletion vectors, and the writers chose theirs on a head that may be older.
        keys_are_ranges: files above level 0 are sorted by key, so their key ranges may not overlap.
        next_row_id: of the head.
        compacts: the commit is of kind COMPACT.
    """
    return (
        (None if overwrites else bucket_conflict(handle, base, changes))
        or file_conflict(base, changes)
        or (
            vector_conflict(base, base_index, changes, index, by_bucket=has_buckets(handle)) if checks_vectors else None
        )
        or (key_conflict(handle.schema.key_type, base, changes) if keys_are_ranges else None)
        or (range_conflict(base, changes, next_row_id, compacts=compacts) if handle.options.data_evolution else None)
    )


def bucket_conflict(handle: TableHandle, base: pa.Table, changes: pa.Table) -> str | None:
    """Whether a partition would have files of two numbers of buckets."""
    entries = together(base, where(changes, adds(changes)))
    counts = numbers(entries, "total_buckets")
    fixed = counts > 0
    if not fixed.any():
        return None
    partitions = column(entries, "partition")
    ids = codes(partitions)
    first = np.zeros(int(ids.max()) + 1, np.int64)
    rows = np.flatnonzero(fixed)[::-1]
    first[ids[rows]] = counts[rows]
    wrong = np.flatnonzero(fixed & (counts != first[ids]))
    if not len(wrong):
        return None
    row = int(wrong[0])
    place = partition_path_of(handle, partitions[row].as_py()) or "the table"
    return (
        f"{place} has {int(first[ids[row]])} buckets and the commit brings files for {int(counts[row])}; "
        "overwrite it with all its rows to change their number"
    )


def file_conflict(base: pa.Table, changes: pa.Table) -> str | None:
    """Whether a file to delete is not there, or a file to add is."""
    if len(changes) == 0:
        return None
    ids = file_ids(together(base, changes))
    here, ours = ids[: len(base)], ids[len(base) :]
    if len(np.unique(ours)) < len(ours):
        counts = np.bincount(ours)
        return f"the commit names {_names(changes, counts[ours] > 1)} twice"
    known, new = np.isin(ours, here), adds(changes)
    if (~new & ~known).any():
        return f"it replaces {_names(changes, ~new & ~known)}, which another commit deleted or rewrote"
    if (new & known).any():
        return f"it adds {_names(changes, new & known)}, which the table already has"
    return None


def vector_conflict(
    base: pa.Table,
    base_index: Sequence[IndexManifestEntry],
    changes: pa.Table,
    index: Sequence[IndexManifestEntry],
    *,
    by_bucket: bool,
) -> str | None:
    """Whether a data file that the commit deletes or marks has another deletion vector than the writers read.

    Paimon checks only tables without buckets. With `by_bucket`, a new vector file of a bucket must also replace the
    current one, which the commit names.
    """
    there = _vectors(base_index)
    known = _vectors(e for e in index if e.kind == FileKind.DELETE)
    given = [r.data_file_name for e in index if e.kind == FileKind.ADD for r in e.deletion_vectors or ()]
    if len(set(given)) < len(given):
        return "it gives one data file two deletion vectors"
    unseen = _unseen(base_index, index) if by_bucket else None
    if unseen is not None:
        return f"another commit gave the bucket the deletion vectors {unseen.file_name}, which it would replace"
    new = adds(changes)
    added = set(column(where(changes, new), "file_name").to_pylist())
    deleted = set(column(where(changes, ~new), "file_name").to_pylist())
    live = _names_among(base, {*given, *known})
    for name in (*deleted, *given, *known):
        if name in added:
            continue
        if name not in deleted and name not in live:
            return f"it marks rows of {name}, which another commit deleted or rewrote"
        if there.get(name) != known.get(name):
            return f"rows of {name} were deleted by another commit meanwhile"
    return None


def key_conflict(key_type: RowType, base: pa.Table, changes: pa.Table) -> str | None:
    """Whether files of one bucket and level above 0 would hold overlapping ranges of keys."""
    files = together(base, changes)
    ids, added = file_ids(files), adds(files)
    gone = np.unique(ids[~added])
    live = added & ~np.isin(ids, gone) & (numbers(files, "level") >= 1)
    group = _groups(files)
    ours = np.arange(len(files)) >= len(base)
    live &= np.isin(group, np.unique(group[live & ours]))
    if live.sum() < 2:
        return None
    files, group = where(files, live), group[live]
    pairs = _touching(key_type, files, group)
    if not len(pairs):
        return None
    pair = np.zeros(len(files), np.bool_)
    pair[pairs[0]] = True
    return f"at one level of a bucket the keys of {_names(files, pair)} would overlap"


def overlapping_groups(key_type: RowType, files: pa.Table) -> Bool:
    """For every file, whether any two files of its partition, bucket and level share keys."""
    group = _groups(files)
    pairs = _touching(key_type, files, group)
    return np.isin(group, group[pairs.ravel()])


def _touching(key_type: RowType, files: pa.Table, group: I64) -> I64:
    """Pairs of rows of one group that follow each other by smallest key and overlap."""
    low, high = _key_ranks(key_type, files)
    order = np.lexsort((low, group))
    touch = (group[order][1:] == group[order][:-1]) & (high[order][:-1] >= low[order][1:])
    places = np.flatnonzero(touch)
    return np.stack([order[places], order[places + 1]], axis=1)


def _groups(files: pa.Table) -> I64:
    """A number per partition, bucket and level."""
    ids = codes(column(files, "partition"))
    for name in ("bucket", "level"):
        found = codes(column(files, name))
        ids = ids * (int(found.max(initial=0)) + 1) + found
    return ids


def _key_ranks(key_type: RowType, files: pa.Table) -> tuple[I64, I64]:
    rows = pa.concat_arrays([column(files, "min_key"), column(files, "max_key")])
    words = [w for i, f in enumerate(key_type) for w in column_words(decode_column(rows, i, f.type, exact=False))]
    order, ties = sort_rows(words, len(rows))
    ranks = np.zeros(len(rows), np.int64)
    if words:
        ranks[order] = np.cumsum(~ties)
    return ranks[: len(files)], ranks[len(files) :]


def _vectors(index: Iterable[IndexManifestEntry]) -> dict[str, str]:
    """The file that holds the vector, by data file."""
    return {
        r.data_file_name: e.file_name
        for e in index
        if e.index_type == DELETION_VECTORS
        for r in e.deletion_vectors or ()
    }


def _unseen(base_index: Iterable[IndexManifestEntry], index: Iterable[IndexManifestEntry]) -> IndexManifestEntry | None:
    """A vector file of the head whose bucket gets a new one from a commit that does not name it as replaced."""
    named = {e.file_name for e in index if e.kind == FileKind.DELETE}
    taken = {(e.partition, e.bucket) for e in index if e.kind == FileKind.ADD and e.index_type == DELETION_VECTORS}
    return next(
        (
            e
            for e in base_index
            if e.index_type == DELETION_VECTORS and (e.partition, e.bucket) in taken and e.file_name not in named
        ),
        None,
    )


def _names_among(files: pa.Table, names: Iterable[str]) -> set[str]:
    """Columns of a file among `names`."""
    wanted = array_of(sorted(names), pa.string())
    found = column(files, "file_name")
    return set(found.filter(pc.is_in(found, value_set=wanted)).to_pylist())


def _names(files: pa.Table, mask: Bool) -> str:
    found = column(where(files, mask), "file_name").to_pylist()
    names = list(dict.fromkeys(found))
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
