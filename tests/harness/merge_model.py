"""The merge of primary-key tables in its simplest form: dictionaries, one record at a time, as Java says it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from paimon_spark.engine.merge.key_value import LEVEL
from paimon_spark.engine.merge.sorted_merge import SequenceField
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.types import SEQUENCE_NUMBER, VALUE_KIND, RowType, parse_field

Row = dict[str, Any]
ADD, UPDATE_BEFORE, UPDATE_AFTER, DELETE = range(4)


@dataclass
class Record:
    key: int
    sequence: int
    kind: int
    level: int
    values: Row = field(default_factory=dict)

    @property
    def retract(self) -> bool:
        return self.kind in (UPDATE_BEFORE, DELETE)


def table(columns: dict[str, str], options: dict[str, str]) -> TableSchema:
    """A schema with key column `k` BIGINT and `columns` by type."""
    fields = [{"id": 0, "name": "k", "type": "BIGINT NOT NULL"}]
    fields += [{"id": i, "name": n, "type": t} for i, (n, t) in enumerate(columns.items(), 1)]
    row_type = RowType(False, tuple(parse_field(f) for f in fields))
    return TableSchema(0, row_type, len(fields), (), ("k",), options)


def batches(
    run: Sequence[Record], columns: dict[str, pa.DataType], levels: bool, rows: int
) -> Iterator[pa.RecordBatch]:
    """A run as sorted batches."""
    ordered = sorted(run, key=lambda r: r.key)
    for begin in range(0, len(ordered), rows):
        part = ordered[begin : begin + rows]
        data = {
            SEQUENCE_NUMBER: pa.array([r.sequence for r in part], pa.int64()),
            VALUE_KIND: pa.array([r.kind for r in part], pa.int8()),
            "k": pa.array([r.key for r in part], pa.int64()),
            **{n: pa.array([r.values[n] for r in part], t) for n, t in columns.items()},
        }
        if levels:
            data[LEVEL] = pa.array([r.level for r in part], pa.int32())
        yield pa.RecordBatch.from_pydict(data)


def null_first(value: Any) -> tuple[bool, Any]:
    return value is not None, 0 if value is None else value


def merged(
    records: Iterable[Record],
    function: Callable[[list[Record]], tuple[int, Row] | None],
    *,
    sequence: Sequence[SequenceField] = (),
    levels: bool = False,
    keep_deletes: bool = False,
) -> list[tuple[int, int, Row]]:
    """(kind, key, values) of each key, in key order."""

    def age(r: Record) -> tuple[Any, ...]:
        fields = [
            (r.values[f.name] is not None, (-1 if f.descending else 1) * (r.values[f.name] or 0)) for f in sequence
        ]
        return (*fields, r.sequence, not r.retract)

    keys: dict[int, list[Record]] = {}
    for r in sorted(records, key=age):
        keys.setdefault(r.key, []).append(r)
    out = []
    for key, group in sorted(keys.items()):
        result: tuple[int, Row] | None
        if len(group) == 1:
            result = (group[0].kind, group[0].values)
        else:
            result = function(smallest_level(group) if levels else group)
        if result is not None and (keep_deletes or result[0] in (ADD, UPDATE_AFTER)):
            out.append((result[0], key, result[1]))
    return out


def smallest_level(group: list[Record]) -> list[Record]:
    best = min((r for r in group if r.level > 0), key=lambda r: r.level, default=None)
    return [r for r in group if r.level == 0 or r is best]


class RefusedError(Exception):
    """The table does not allow the merge."""


def deduplicate(ignore_delete: bool) -> Callable[[list[Record]], tuple[int, Row] | None]:
    def run(group: list[Record]) -> tuple[int, Row] | None:
        kept = [r for r in group if not (ignore_delete and r.retract)]
        return (kept[-1].kind, kept[-1].values) if kept else None

    return run


def first_row(ignore_delete: bool) -> Callable[[list[Record]], tuple[int, Row] | None]:
    def run(group: list[Record]) -> tuple[int, Row] | None:
        if not ignore_delete and any(r.retract for r in group):
            raise RefusedError
        kept = [r for r in group if not r.retract]
        return (kept[0].kind, kept[0].values) if kept else None

    return run


def aggregation(
    add: dict[str, Callable[[Any, Any], Any]],
    retract: dict[str, Callable[[Any, Any], Any]],
    remove_on_delete: bool,
) -> Callable[[list[Record]], tuple[int, Row] | None]:
    """`add` and `retract` take (accumulated, new) by column."""

    def run(group: list[Record]) -> tuple[int, Row] | None:
        row: Row = dict.fromkeys(group[0].values)
        deleted = False
        for r in group:
            deleted = remove_on_delete and r.kind == DELETE
            if deleted:
                row = dict(r.values)
                continue
            for name, value in r.values.items():
                row[name] = (retract if r.retract else add)[name](row[name], value)
        return DELETE if deleted else ADD, row

    return run


def partial_update(
    *,
    groups: dict[tuple[str, ...], tuple[str, ...]] | None = None,
    functions: dict[str, Callable[[Any, Any], Any]] | None = None,
    undo: dict[str, Callable[[Any, Any], Any]] | None = None,
    ignore_delete: bool = False,
    remove_on_delete: bool = False,
    removing: frozenset[str] = frozenset(),
) -> Callable[[list[Record]], tuple[int, Row] | None]:
    """`groups` is protected columns by sequence columns; `functions` must be symmetric in their arguments."""
    groups, functions, undo = groups or {}, functions or {}, undo or {}
    grouped = {c for s, p in groups.items() for c in (*s, *p)}

    def run(group: list[Record]) -> tuple[int, Row] | None:
        row: Row = dict.fromkeys(group[0].values)
        filled = added = deleted = False
        for r in group:
            deleted = False
            if r.retract:
                if not filled:
                    row, filled = dict(r.values), True
                if ignore_delete:
                    continue
                if groups:
                    deleted = take_back(row, r)
                elif remove_on_delete:
                    deleted = r.kind == DELETE
                else:
                    raise RefusedError
                if deleted:
                    row = dict(r.values)
                continue
            filled = added = True
            for name, value in r.values.items():
                if name not in grouped and value is not None:
                    row[name] = value
            for seq, protected in groups.items():
                if all(r.values[s] is None for s in seq):
                    continue
                newer = not_older(r, row, seq)
                for name in protected:
                    if name in functions:
                        row[name] = functions[name](row[name], r.values[name])
                    elif newer:
                        row[name] = r.values[name]
                if newer:
                    row.update({s: r.values[s] for s in seq})
        return DELETE if deleted or not added else ADD, row

    def not_older(r: Record, row: Row, seq: tuple[str, ...]) -> bool:
        return [null_first(r.values[s]) for s in seq] >= [null_first(row[s]) for s in seq]

    def take_back(row: Row, r: Record) -> bool:
        for seq, protected in groups.items():
            if all(r.values[s] is None for s in seq):
                continue
            newer = not_older(r, row, seq)
            if newer and r.kind == DELETE and removing.intersection(seq):
                return True
            for name in protected:
                if name in functions:
                    row[name] = undo[name](row[name], r.values[name])
                elif newer:
                    row[name] = None
            if newer:
                row.update({s: r.values[s] for s in seq})
        return False

    return run
