"""The two versions that are compared: the files that differ, and the rows of these files."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from paimon_spark.engine.read.evolution import evolve
from paimon_spark.engine.read.split_reader import read_split, read_splits
from paimon_spark.engine.row_diff.compare import ADDED, CHANGE, Differences, compare
from paimon_spark.engine.scan.plan import Plan
from paimon_spark.engine.tasks import DataSplit, DeletionFile, ReadRequest, SplitMode
from paimon_spark.format.arrays.arrow_numpy import boolean_array, byte_slices, scalar
from paimon_spark.format.arrays.arrow_types import arrow_schema, arrow_type
from paimon_spark.format.arrays.pieces import is_text
from paimon_spark.format.bucket_hash import hashes
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.types import VALUE_KIND, ArrayType, DataField, DataType, MapType, RowKind, RowType

UNIT_SPLITS: Final = {"source.split.target-size": "1 b", "source.split.open-file-cost": "1 b"}
"""Table options with which every unit of files that must be read together is a split of its own."""
PART_ROWS: Final = 4_000_000
"""Maximum of rows, before merging, that are compared at a time."""
PART_BYTES = 2 << 30
"""Maximum of bytes of merged rows that are compared at a time, as far as keys and rows can be told apart."""
_MOST_PARTS: Final = 1 << 16
_MOST_FIRST: Final = 64
"""Parts by the number of rows alone, which manifests may say wrongly; in one process those of many bytes are divided.
"""
_MOST_DIVIDED: Final = 256
_HASHED: Final = 4
"""Columns that are hashed of rows without keys."""
_LONG: Final = 256
"""Bytes of a value that are hashed."""
_KINDS: Final = pa.array([kind.symbol for kind in RowKind])
_SameField = Callable[[DataField, DataField], bool]


@dataclass(frozen=True, slots=True)
class Version:
    """Reader of one version's rows as columns of the newer one. Picklable.

    Attributes:
        requests: by branch, for the version's own columns.
        own: columns of the version.
        columns: of the result, in the newer names and types, with the version's field ids; a column that the version
            lacks has an id of its own and comes out as nulls.
        with_kinds: rows that were written, not merged: retracts are kept, and `VALUE_KIND` is the last column.
    """

    requests: Mapping[str, ReadRequest]
    own: RowType
    columns: tuple[DataField, ...]
    with_kinds: bool = False

    @property
    def schema(self) -> pa.Schema:
        """Of the rows."""
        schema = arrow_schema(self.columns)
        return schema.append(pa.field(VALUE_KIND, pa.int8(), nullable=False)) if self.with_kinds else schema

    def read(self, split: DataSplit) -> Iterator[pa.RecordBatch]:
        """The rows of a split. Raises as `read_split`."""
        evolution = evolve(self.columns, self.own.fields, {})
        names = tuple(f.name for f in evolution.file_fields)
        request = replace(self.requests[split.branch], columns=names, with_row_kind=self.with_kinds)
        types = [arrow_type(f.type) for f in evolution.file_fields]
        for batch in read_split(request, split):
            columns = batch.columns[1:] if self.with_kinds else batch.columns
            arrays = [a if a.type == t else a.cast(t, safe=False) for a, t in zip(columns, types, strict=True)]
            made = evolution.columns(arrays, batch.num_rows)
            if self.with_kinds:
                made = [*made, pc.index_in(batch.column(0), value_set=_KINDS).cast(pa.int8())]
            yield pa.RecordBatch.from_arrays(made, schema=self.schema)


@dataclass(frozen=True)
class Comparison:
    """Which rows of two versions are compared, and how. Picklable.

    Attributes:
        old, new: the versions.
        keys: the primary key; empty compares rows as multisets.
        compared: columns in which rows may differ; null in a version that lacks them.
    """

    old: Version
    new: Version
    keys: tuple[str, ...]
    compared: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        """Of the rows of both versions."""
        return arrow_schema(self.new.columns)

    @cached_property
    def _hashed(self) -> list[str]:
        """Columns by whose hash rows are dealt to parts: equal ones have equal bytes."""
        names = self.keys or self.compared
        types = {f.name: self.schema.field(f.name).type for f in self.new.columns}
        flat = [n for n in names if not (pat.is_nested(types[n]) or pat.is_floating(types[n]) or pat.is_null(types[n]))]
        return flat if self.keys else flat[:_HASHED]

    def parts_of(self, rows: int, at_least: int = 1) -> int:
        """Into how many parts so many rows are cut, each of which has all rows of its keys.

        One, whatever is asked for, where no column can be hashed.
        """
        return max(at_least, min(-(-rows // PART_ROWS), _MOST_PARTS)) if self._hashed else 1

    def part(self, batch: pa.RecordBatch, parts: int) -> np.ndarray:
        """The part of each row."""
        columns = [_shortened(batch.column(name)) for name in self._hashed]
        return hashes(pa.RecordBatch.from_arrays(columns, names=self._hashed)).view(np.uint32) % np.uint32(parts)

    def compare(self, old: Sequence[pa.RecordBatch], new: Sequence[pa.RecordBatch]) -> Differences:
        """The differences between all rows that some keys have in each version."""
        before, after = (pa.Table.from_batches(list(batches), self.schema) for batches in (old, new))
        return compare(before, after, self.keys, self.compared)

    def run(self, old: Sequence[DataSplit], new: Sequence[DataSplit]) -> Iterator[Differences]:
        """The differences between the rows of these splits, in this process.

        One for each `parts_of` their rows, or more where they have many bytes.
        """
        for before, after in self._parts([(self.old, old), (self.new, new)]):
            yield self.compare(before, after)

    def run_on_top(
        self, base: Sequence[DataSplit], old: Sequence[DataSplit], new: Sequence[DataSplit]
    ) -> Iterator[Differences]:
        """The differences between the rows that `old` has more than `base`, and those of `new`.

        `base` and `new` are splits of the new version. As `run` otherwise.
        """
        for there, more, after in self._parts([(self.new, base), (self.old, old), (self.new, new)]):
            if base:
                rows = self.compare(there, more).rows
                more = rows.filter(pc.equal(rows.column(CHANGE), ADDED)).drop_columns([CHANGE]).to_batches()
            yield self.compare(more, after)

    def _parts(self, sides: Sequence[tuple[Version, Sequence[DataSplit]]]) -> Iterator[list[list[pa.RecordBatch]]]:
        """The rows of all sides, part by part. A part of too many bytes is divided before it is read to its end."""
        rows = sum(s.row_count for _, splits in sides for s in splits)
        first = min(self.parts_of(rows), _MOST_FIRST)
        most = first * _MOST_DIVIDED if self._hashed else first
        waiting = [(part, first) for part in reversed(range(first))]
        while waiting:
            part, parts = waiting.pop()
            held: list[list[pa.RecordBatch]] = [[] for _ in sides]
            seen = size = 0
            for number, batch in self._rows_of(sides, part, parts):
                held[number].append(batch)
                seen, size = seen + batch.num_rows, size + batch.nbytes
                if size > PART_BYTES and parts < most:
                    break
            else:
                yield held
                continue
            del held
            expected = size * (rows // parts) // max(seen, 1)
            factor = max(min(-(-expected // PART_BYTES), most // parts), 2)
            waiting += [(part + parts * n, parts * factor) for n in reversed(range(factor))]

    def _rows_of(
        self, sides: Sequence[tuple[Version, Sequence[DataSplit]]], part: int, parts: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows of a part, with the number of their side."""
        for number, (version, splits) in enumerate(sides):
            for batch in self._rows(version, splits, part, parts):
                yield number, batch

    def _rows(self, version: Version, splits: Sequence[DataSplit], part: int, parts: int) -> Iterator[pa.RecordBatch]:
        for batch in read_splits(version.read, splits, os.cpu_count() or 1):
            yield batch if parts == 1 else batch.filter(pa.array(self.part(batch, parts) == part))


def _shortened(array: pa.Array) -> pa.Array:
    """Long text and bytes without their middle, so that hashing takes no time; equal values stay equal."""
    if not is_text(array.type):
        return array
    texts, long = array.cast(pa.binary()), np.diff(byte_slices(array)[0]) > _LONG
    if not long.any():
        return texts
    ends = pc.binary_slice(texts, 0, _LONG // 2), pc.binary_slice(texts, -_LONG // 2)
    return pc.if_else(boolean_array(long), pc.binary_join_element_wise(*ends, scalar(b"", pa.binary())), texts)


def differing(old: Plan, new: Plan, *, merged_alike: bool) -> tuple[tuple[DataSplit, ...], tuple[DataSplit, ...]]:
    """The splits of each plan that the other lacks. Both were made with `UNIT_SPLITS`.

    `merged_alike`: rows of the same files are merged to the same rows in both versions.
    """
    before = {_identity(s, merged_alike, i): s for i, s in enumerate(old.splits)}
    after = {_identity(s, merged_alike, ~i): s for i, s in enumerate(new.splits)}
    return (
        tuple(s for key, s in before.items() if key not in after),
        tuple(s for key, s in after.items() if key not in before),
    )


def split_identity(split: DataSplit) -> Hashable:
    """Equal for splits that return the same rows, where the same files are merged to the same rows."""
    return _identity(split, True, 0)


def _identity(split: DataSplit, merged_alike: bool, number: int) -> Hashable:
    """Equal for splits that return the same rows; `number` is different for splits of which that is not known."""
    as_it_lies = split.mode in (SplitMode.RAW, SplitMode.EVOLVED)
    return (
        0 if as_it_lies or merged_alike else number,
        split.mode,
        split.partition,
        split.bucket,
        _files(split, split.files, split.deletions),
        _files(split, split.before_files, split.before_deletions),
    )


def _files(
    split: DataSplit, files: Sequence[DataFileMeta], deletions: Sequence[DeletionFile | None]
) -> frozenset[Hashable]:
    vectors = deletions or (None,) * len(files)
    return frozenset(
        (f.external_path or split.path_of(f), 0 if split.mode is SplitMode.RAW else f.level, v)
        for f, v in zip(files, vectors, strict=True)
    )


def grouped(
    old: Sequence[DataSplit], new: Sequence[DataSplit], place: Callable[[DataSplit], Hashable]
) -> list[tuple[list[DataSplit], list[DataSplit]]]:
    """The splits of both versions by what `place` returns for them: equal rows, or keys, have the same place."""
    found: dict[Hashable, tuple[list[DataSplit], list[DataSplit]]] = defaultdict(lambda: ([], []))
    for side, splits in enumerate((old, new)):
        for split in splits:
            found[place(split)][side].append(split)
    return list(found.values())


def with_ids_of(old: RowType, new: RowType, same: _SameField) -> tuple[DataField, ...]:
    """The columns of `new` with the ids of the same columns of `old`; others have ids that `old` does not have."""
    unused = -1
    out = []
    for f in new.fields:
        match = next((o for o in old.fields if same(o, f)), None)
        if match is None:
            out.append(replace(f, id=unused))
            unused -= 1
        else:
            out.append(replace(f, id=match.id, type=type_with_ids_of(match.type, f.type, same)))
    return tuple(out)


def type_with_ids_of(old: DataType, new: DataType, same: _SameField) -> DataType:
    """The type `new` with the ids of the same fields of `old` inside it, as `with_ids_of`."""
    match old, new:
        case RowType(), RowType():
            return replace(new, fields=with_ids_of(old, new, same))
        case ArrayType(), ArrayType():
            return replace(new, element=type_with_ids_of(old.element, new.element, same))
        case MapType(), MapType():
            return replace(
                new,
                key=type_with_ids_of(old.key, new.key, same),
                value=type_with_ids_of(old.value, new.value, same),
            )
    return new
