"""Conflicts over row ids in tables with data evolution, from manifest entries.

A file with some columns covers exactly the row ids of the file that it belongs to; a compaction covers those of all
files that it replaces. Two commits must not change the same column of the same rows.

Source: Java `operation/commit/ConflictDetection` (`checkRowIdExistence`, `checkRowIdRangeConflicts`,
`checkForRowIdFromSnapshot`), `operation/commit/RowIdColumnConflictChecker`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.engine.commit.entries import I64, adds, codes, column, named_in, numbers, present, together, where
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_numpy import Bool, array_of
from paimon_spark.format.metadata_files.data_file import DEDICATED
from paimon_spark.format.metadata_files.index_manifest import DELETION_VECTORS, IndexManifestEntry
from paimon_spark.format.metadata_files.manifest import FileKind
from paimon_spark.format.metadata_files.table_schema import TableSchema

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
