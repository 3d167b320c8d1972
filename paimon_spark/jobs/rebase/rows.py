"""Tasks of a rebase by key: compare rows three ways, and write what main gets.

The rows of a bucket are compared in parts of bounded size: dealt by the hash of their keys, through local disk where
there are more. Driver and tasks hold one part at a time; of the rest only counts, and hashes of keys.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.engine.merge.spill import SpilledRun, SpillFile
from paimon_spark.engine.read.split_reader import read_splits
from paimon_spark.engine.row_diff.compare import MergedRows, ThreeWay
from paimon_spark.engine.row_diff.versions import Version
from paimon_spark.engine.row_level.replacement import Replacement, batches
from paimon_spark.engine.tasks import CommitMessage, DataSplit
from paimon_spark.engine.write.table_writer import TableWriter
from paimon_spark.format.arrays.arrow_numpy import array_of, boolean_array
from paimon_spark.format.arrays.pieces import divided, taken, together
from paimon_spark.format.bucket_hash import hashes
from paimon_spark.jobs.write.tasks import TaskWrite

SAMPLE: Final = 3
"""Keys that both changed, of which messages tell."""
PART_ROWS: Final = 4 << 20
"""Rows of all versions that are compared at a time."""
_PART_BYTES: Final = 64 << 20
"""Bytes of files whose rows are compared at a time."""
_COMPARED: Final = 3
"""Kinds of splits of a piece that are compared first: two of the base, and the branch."""
_CHANGED: Final = 5
"""Number of the first side with only the rows of keys that the branch changed."""
_MOST_PARTS: Final = 512
_WAITING_BYTES: Final = 64 << 20
"""Bytes of rows that wait for the disk."""
KEY_HASHES: Final = 8_000_000
"""Most keys whose hashes are kept, with 8 bytes each."""
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Piece:
    """Splits of some buckets, which hold all rows of their keys. Picklable.

    Attributes:
        number: of the piece, from 0.
        base: of the base, those that main lacks; `same` are those that main has, too.
        theirs, main: of the branch and main, those that the base lacks.
        written: of the records that the branch wrote, in order.
    """

    number: int
    base: tuple[DataSplit, ...]
    same: tuple[DataSplit, ...]
    theirs: tuple[DataSplit, ...]
    main: tuple[DataSplit, ...]
    written: tuple[DataSplit, ...] = ()

    @property
    def all(self) -> tuple[tuple[DataSplit, ...], ...]:
        return self.base, self.same, self.theirs, self.main, self.written

    @property
    def row_count(self) -> int:
        return sum(s.row_count for splits in self.all for s in splits)

    @property
    def size_bytes(self) -> int:
        return sum(s.size_bytes for splits in self.all for s in splits)


@dataclass(slots=True)
class RebasedRows:
    """Result of one or several pieces. Picklable.

    Attributes:
        rows: keys of main that change.
        kept: conflicts in which main's row stays.
        conflicts: keys that both changed to different rows.
        sample: a few of them, as rows of the key columns.
        against_order: rows that would lose against main's by the sequence field.
        changed, removed: rows that the merge engine cannot change, or remove.
        replaced: whether rows were removed so that a later record begins anew.
        messages: of the files written.
        keys: `hashes_of` the keys; None for too many.
    """

    rows: int = 0
    kept: int = 0
    conflicts: int = 0
    sample: pa.Table | None = None
    against_order: int = 0
    changed: int = 0
    removed: int = 0
    replaced: bool = False
    messages: list[CommitMessage] = field(default_factory=list)
    keys: list[I64] | None = field(default_factory=list)

    def add(self, other: RebasedRows) -> None:
        """Add the outcome of another piece."""
        for name in ("rows", "kept", "conflicts", "against_order", "changed", "removed"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.replaced |= other.replaced
        self.messages += other.messages
        if other.sample is not None:
            found = other.sample if self.sample is None else pa.concat_tables([self.sample, other.sample])
            self.sample = found.sort_by([(key, "ascending") for key in found.column_names]).slice(0, SAMPLE)
        self.keys = None if self.keys is None or other.keys is None else self.keys + other.keys
        if self.keys is not None and sum(map(len, self.keys)) > KEY_HASHES:
            self.keys = None

    @property
    def may_be_written(self) -> bool:
        """Whether the rows found so far may be written."""
        return not (self.against_order or self.changed or self.removed)


@dataclass(frozen=True, slots=True)
class RebaseTask:
    """Compares pieces, and writes what main gets. Picklable.

    Attributes:
        base, theirs, main: what reads the versions, in the columns of main as it will be.
        written: what reads the records of the branch, with their kinds; None where they are not known.
        three_way: how rows are merged.
        replacement: how main's rows are replaced.
        fails: conflicts are counted, and then nothing is written.
        write: None to only count.
        most_keys: most keys of a task whose hashes are kept.
    """

    base: Version
    theirs: Version
    main: Version
    written: Version | None
    three_way: ThreeWay
    replacement: Replacement
    fails: bool
    write: TaskWrite | None
    most_keys: int

    def run(self, pieces: Sequence[Piece], *, alone: bool = False) -> RebasedRows:
        """Compare some pieces, and write their rows. Executor or in process; after an error no file of it is left.

        `alone`: no other task of the job runs. Raises as `TaskWrite.write` and `Version.read`.
        """
        found = RebasedRows()
        writer: TableWriter | None = None
        try:
            for piece in pieces:
                for part in self._parts(piece, os.cpu_count() or 1 if alone else 1):
                    writer = self._part(part, found, writer, 0 if alone else piece.number, shares=not alone)
            found.messages = [] if writer is None else writer.close()
        except BaseException:
            if writer is not None:
                writer.abort()
            raise
        return found

    def _part(
        self, part: Sequence[pa.Table], found: RebasedRows, writer: TableWriter | None, number: int, *, shares: bool
    ) -> TableWriter | None:
        gone, same, theirs, main, written = part
        base = pa.concat_tables([gone, same])
        merged = self.three_way.merge(base, np.arange(len(base)) >= len(gone), theirs, main)
        records = self.replacement.records(merged, None if self.written is None else written)
        self._count(found, merged)
        found.changed += records.changed
        found.removed += records.removed
        found.replaced |= bool(len(records.removals))
        if self.write is None or not found.may_be_written or (self.fails and found.conflicts):
            return writer
        for step, each in enumerate(batches(records)):
            if step and writer is not None:
                writer.end_files()
            for batch in each:
                if writer is None:
                    writer = TableWriter(self.write.numbered(number, shares), batch.schema)
                writer.write(batch)
        return writer

    def _count(self, found: RebasedRows, merged: MergedRows) -> None:
        found.rows += len(merged.rows)
        found.kept += merged.kept
        found.conflicts += len(merged.conflicts)
        found.against_order += merged.against_order
        if len(merged.conflicts) and (found.sample is None or len(found.sample) < SAMPLE):
            found.add(RebasedRows(sample=taken(merged.conflicts, np.arange(min(SAMPLE, len(merged.conflicts))))))
        if self.write is not None and found.keys is not None:
            found.keys.append(hashes_of(merged.rows.select(self.three_way.keys)))
            if found.rows > self.most_keys:
                found.keys = None

    def _parts(self, piece: Piece, threads: int) -> Iterator[list[pa.Table]]:
        """The rows of a piece whose keys the branch changed, part by part: those of each kind of splits.

        Rows of base and branch are compared first; of main and the records of the branch only those of the keys that
        differ are kept.
        """
        parts = max(-(-piece.row_count // PART_ROWS), -(-piece.size_bytes // _PART_BYTES), 1)
        parts = min(parts, _MOST_PARTS)
        versions = (self.base, self.base, self.theirs, self.main, self.written or self.theirs)
        reads = [
            read_splits(version.read, splits, threads) for version, splits in zip(versions, piece.all, strict=True)
        ]
        with _Dealt(parts, self.three_way.keys) as dealt:
            for side in range(_COMPARED if parts > 1 else 0):
                dealt.put(side, reads[side])
            held: list[tuple[int, list[pa.Table]]] = []
            are_few = True
            for part in range(parts):
                rows = reads[:_COMPARED] if parts == 1 else [dealt.rows(side, part) for side in range(_COMPARED)]
                held.append(
                    (part, self._changed([_table(v, r) for v, r in zip(versions[:_COMPARED], rows, strict=True)]))
                )
                count = sum(len(table) for _, tables in held for table in tables)
                if parts > 1 and (not are_few or count > PART_ROWS // 4):
                    are_few = False
                    for at, tables in held:
                        for side, table in enumerate(tables):
                            dealt.keep(_CHANGED + side, at, table)
                    held = []
            if are_few:
                found = [pa.concat_tables(tables) for tables in zip(*(tables for _, tables in held), strict=True)]
                wanted = np.unique(np.concatenate([_hashes(t.select(self.three_way.keys)) for t in found]))
                rest = [self._of_keys(r, wanted) for r in reads[_COMPARED:]]
                yield [*found, *(_table(v, r) for v, r in zip(versions[_COMPARED:], rest, strict=True))]
                return
            for side in range(_COMPARED, len(versions)):
                dealt.put(side, reads[side])
            sides = (*range(_CHANGED, _CHANGED + _COMPARED), *range(_COMPARED, len(versions)))
            for part in range(parts):
                yield [_table(v, dealt.rows(side, part)) for v, side in zip(versions, sides, strict=True)]

    def _changed(self, tables: Sequence[pa.Table]) -> list[pa.Table]:
        """Of the rows of base, in two tables, and branch those whose keys the branch changed."""
        gone, same, theirs = tables
        base = pa.concat_tables([gone, same])
        of_base, of_branch = self.three_way.changed(base, theirs)
        is_gone = of_base < len(gone)
        return [taken(base, of_base[is_gone]), taken(base, of_base[~is_gone]), taken(theirs, of_branch)]

    def _of_keys(self, rows: Iterator[pa.RecordBatch], wanted: np.ndarray) -> Iterator[pa.RecordBatch]:
        """Rows whose key has one of some hashes, which are sorted."""
        for batch in rows:
            found = hashes(batch.select(list(self.three_way.keys)))
            places = np.minimum(np.searchsorted(wanted, found), max(len(wanted) - 1, 0))
            if len(wanted) and (is_wanted := wanted[places] == found).any():
                yield batch.filter(boolean_array(is_wanted))


def _table(version: Version, batches: Iterator[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(list(batches), version.schema)


class _Dealt:
    """Rows by side and part, on local disk: rows of one key are in one part."""

    def __init__(self, parts: int, keys: Sequence[str]) -> None:
        self._spill = SpillFile()
        self._parts, self._keys = parts, list(keys)
        self._waiting: dict[tuple[int, int], list[pa.RecordBatch]] = {}
        self._waiting_bytes = 0
        self._runs: dict[tuple[int, int], list[SpilledRun]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._spill.close()

    def put(self, side: int, batches: Iterable[pa.RecordBatch]) -> None:
        """Deal rows to parts."""
        for batch in batches:
            numbers = hashes(batch.select(self._keys)).view(np.uint32) % np.uint32(self._parts)
            for part, rows in divided(batch, numbers):
                self._waiting.setdefault((side, part), []).append(rows)
            self._add(batch.nbytes)

    def keep(self, side: int, part: int, rows: pa.Table) -> None:
        """Add rows that are all of one part."""
        self._waiting.setdefault((side, part), []).extend(rows.to_batches())
        self._add(rows.nbytes)

    def _add(self, size: int) -> None:
        self._waiting_bytes += size
        if self._waiting_bytes >= _WAITING_BYTES:
            self._flush()

    def rows(self, side: int, part: int) -> Iterator[pa.RecordBatch]:
        """The rows of a part."""
        self._flush()
        for run in self._runs.get((side, part), ()):
            yield from self._spill.read(run)

    def _flush(self) -> None:
        for place, rows in self._waiting.items():
            run = self._spill.put(together(rows))
            if run is not None:
                self._runs.setdefault(place, []).append(run)
        self._waiting, self._waiting_bytes = {}, 0


def hashes_of(keys: pa.Table) -> I64:
    """64 bits for each key, equal for equal keys."""
    salted = keys.append_column("", array_of([1] * len(keys), pa.int32()))
    high, low = _hashes(keys).astype(np.int64), _hashes(salted).view(np.uint32).astype(np.int64)
    found: I64 = (high << 32) | low
    return found


def _hashes(keys: pa.Table) -> npt.NDArray[np.int32]:
    """The hash of each key. Batch by batch, as all of them may be too long for one array."""
    return np.concatenate([np.zeros(0, np.int32), *(hashes(batch) for batch in keys.to_batches())])
