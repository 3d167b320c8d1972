"""Conflicts of a commit with concurrent ones: pure functions over manifest entries.

Two appends never conflict, nor does an append with a compaction. What deletes files conflicts with whatever deleted
them before, and files with keys above level 0 may not overlap.

With data evolution, a file with some columns covers exactly the row ids of the file that it belongs to; a compaction
covers those of all files that it replaces. Two commits must not change the same column of the same rows.

Source: Java `operation/commit/ConflictDetection`, also its `checkRowIdExistence`, `checkRowIdRangeConflicts` and
`checkForRowIdFromSnapshot`; `operation/commit/RowIdColumnConflictChecker`.

Tests: tests/unit/engine/commit/test_conflicts.py, test_model.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.engine.commit.entries import I64, adds, codes, column, named_in, numbers, present, together, where
from paimon_spark.engine.commit.index_files import has_buckets
from paimon_spark.engine.merge.ordering import column_words, sort_rows
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_numpy import Bool, array_of
from paimon_spark.format.binary_row import decode_column
from paimon_spark.format.metadata_files.data_file import DEDICATED
from paimon_spark.format.metadata_files.index_manifest import DELETION_VECTORS, IndexManifestEntry
from paimon_spark.format.metadata_files.manifest import FileKind
from paimon_spark.format.metadata_files.table_schema import TableSchema
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


_BETWEEN: Final = "\0"


def rewrites_rows(changes: pa.Table) -> bool:
    """Whether files with given row ids are among the new ones: columns of rows that are there, or compacted files."""
    return bool((adds(changes) & present(changes, "first_row_id")).any())


def range_conflict(base: pa.Table, changes: pa.Table, next_row_id: int, *, compacts: bool) -> str | None:
    """Whether new files of existing rows do not fit the row ids of the live files.

    Args:
        base: live entries of all partitions that `changes` touches.
        changes: ADD and DELETE entries.
        next_row_id: first id that no row has.
        compacts: new files may cover several of the live ones.
    """
    new = adds(changes) & present(changes, "first_row_id") & _plain(changes)
    if not compacts:
        new &= numbers(changes, "first_row_id") < next_row_id
    if not new.any():
        return None
    there, ours = where(base, present(base, "first_row_id") & _plain(base)), where(changes, new)
    fits = _covered(there, ours) if compacts else _exact(there, ours)
    if not fits.all():
        which = column(ours, "file_name")[int(np.argmin(fits))].as_py()
        return (
            f"file {which} holds columns of rows whose files another commit rewrote or removed; their row ids are not "
            "together any more"
        )
    return _overlap(together(where(there, ~named_in(there, where(changes, ~adds(changes)))), ours))


def _exact(there: pa.Table, ours: pa.Table) -> Bool:
    """Which files have exactly the row ids of a live file."""
    known = np.stack(_ranges(there))
    wanted = np.stack(_ranges(ours))
    ids = np.unique(np.concatenate([known, wanted], axis=1), axis=1, return_inverse=True)[1].reshape(-1)
    return np.isin(ids[len(there) :], ids[: len(there)])


def _covered(there: pa.Table, ours: pa.Table) -> Bool:
    """Which files have only row ids that live files of their partition have without a gap."""
    partitions = codes(pa.concat_arrays([column(there, "partition"), column(ours, "partition")]))
    (low, high), (first, last) = _ranges(there), _ranges(ours)
    out = np.zeros(len(ours), np.bool_)
    for partition in np.unique(partitions[len(there) :]).tolist():
        mine = np.flatnonzero(partitions[len(there) :] == partition)
        near = partitions[: len(there)] == partition
        starts, ends = _joined(low[near], high[near])
        at = np.searchsorted(starts, first[mine], side="right") - 1
        inside = at >= 0
        out[mine] = inside & (last[mine] <= np.where(inside, ends[np.maximum(at, 0)] if len(ends) else 0, -1))
    return out


def _joined(low: I64, high: I64) -> tuple[I64, I64]:
    """Ranges joined where they overlap or follow each other, ascending."""
    order = np.lexsort((high, low))
    low, high = low[order], np.maximum.accumulate(high[order])
    begins = np.ones(len(low), np.bool_)
    begins[1:] = low[1:] > high[:-1] + 1
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], len(low))[: len(starts)] - 1
    return low[starts], high[ends]


def _overlap(files: pa.Table) -> str | None:
    """Whether row ids of two files overlap without being the same."""
    low, high = _ranges(files)
    order = np.lexsort((high, low))
    low, high = low[order], high[order]
    wrong = (low[1:] <= np.maximum.accumulate(high)[:-1]) & ((low[1:] != low[:-1]) | (high[1:] != high[:-1]))
    if not wrong.any():
        return None
    at = int(np.argmax(wrong))
    names = column(files, "file_name")
    first, second = (names[int(order[i])].as_py() for i in (at, at + 1))
    return (
        f"the row ids of {first} and {second} would overlap in part: another commit changed columns of rows that were "
        "compacted, or compacted rows whose columns were changed"
    )


def column_conflict(
    schemas: Mapping[int, TableSchema],
    ours: pa.Table,
    theirs: Iterable[tuple[int, pa.Table]],
    deleted: tuple[I64, I64],
    next_row_id: int,
) -> str | None:
    """Whether another commit changed or removed columns of the same rows, or columns of rows that are deleted.

    Java lets a row be deleted that another commit changed meanwhile; here that is a conflict, as the rows to delete
    were chosen by their old values.

    Args:
        schemas: by id, of all files.
        ours: new entries of the commit.
        theirs: id and entries of each snapshot since the rows were read; a rollback deletes files with changed columns.
        deleted: first and last row ids of the ranges in which the commit deletes rows.
        next_row_id: first id that no row had when the rows were read.
    """
    mine = list(_by_columns(schemas, _of_rows(where(ours, adds(ours)), next_row_id)))
    for snapshot_id, entries in theirs:
        for fields, low, high in _by_columns(schemas, _of_rows(entries, next_row_id)):
            if _meet(*deleted, low, high):
                return f"snapshot {snapshot_id} changed or removed columns in files whose rows are to be deleted"
            for others, first, last in mine:
                if fields & others and _meet(first, last, low, high):
                    name = _name(schemas, min(fields & others))
                    return f"snapshot {snapshot_id} changed or removed column {name} in the same files"
    return None


def deleted_ranges(live: pa.Table, index: Sequence[IndexManifestEntry]) -> tuple[I64, I64]:
    """First and last row ids of the live files whose deletion vectors a commit changes; vectors only grow."""
    counts = [
        {r.data_file_name: r.cardinality for e in index if e.kind == kind for r in e.deletion_vectors or ()}
        for kind in (FileKind.DELETE, FileKind.ADD)
        if any(e.index_type == DELETION_VECTORS for e in index)
    ]
    before, after = counts or ({}, {})
    names = [n for n, count in after.items() if count is None or n not in before or before[n] != count]
    marked = arrow_numpy.values(pc.is_in(column(live, "file_name"), value_set=array_of(names, pa.string())))
    return _ranges(where(live, marked & present(live, "first_row_id")))


def _of_rows(entries: pa.Table, next_row_id: int) -> pa.Table:
    """Files with columns of rows that were there."""
    return where(entries, present(entries, "first_row_id") & (numbers(entries, "first_row_id") < next_row_id))


def _by_columns(schemas: Mapping[int, TableSchema], files: pa.Table) -> Iterator[tuple[frozenset[int], I64, I64]]:
    """The files by the ids of their columns: first row ids, ascending, and last ones."""
    written = column(files, "write_cols")
    texts = pc.binary_join(written, arrow_numpy.scalar(_BETWEEN, pa.string()))
    names, schema_ids = codes(texts), numbers(files, "schema_id").astype(np.int64)
    low, high = _ranges(files)
    for kind in np.unique(np.stack([names, schema_ids]), axis=1).T.tolist():
        chosen = np.flatnonzero((names == kind[0]) & (schema_ids == kind[1]))
        given = written[int(chosen[0])].as_py()
        fields = schemas[kind[1]].fields
        ids = frozenset(f.id for f in fields if given is None or f.name in given)
        order = np.argsort(low[chosen], kind="stable")
        yield ids, low[chosen][order], high[chosen][order]


def _meet(low: I64, high: I64, first: I64, last: I64) -> bool:
    """Whether one of the ranges from `low` to `high`, ascending, meets one from `first` to `last`."""
    if not len(low) or not len(first):
        return False
    before = np.searchsorted(low, last, side="right")
    return bool((np.maximum.accumulate(high)[np.maximum(before - 1, 0)] >= first)[before > 0].any())


def _ranges(files: pa.Table) -> tuple[I64, I64]:
    low = numbers(files, "first_row_id").astype(np.int64)
    return low, low + numbers(files, "row_count").astype(np.int64) - 1


def _plain(files: pa.Table) -> Bool:
    """Files but those of one large column, whose ranges are parts of others."""
    names = column(files, "file_name")
    found = np.zeros(len(files), np.bool_)
    for mark in DEDICATED:
        found |= arrow_numpy.values(pc.match_substring(names, mark))
    return ~found


def _name(schemas: Mapping[int, TableSchema], field_id: int) -> str:
    newest = schemas[max(schemas)]
    return next((f.name for f in newest.fields if f.id == field_id), f"with id {field_id}")
