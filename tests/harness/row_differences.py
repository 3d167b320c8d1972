"""Row differences computed value by value in Python, to compare `Table.diff(rows=True)` with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from paimon_spark.jobs.row_diff.row_diff import RowDiff
from tests.harness.rows import row_line, rows_of


@dataclass
class Expected:
    """What differs: lines of rows, how often, and changed values by column."""

    added: Counter[str] = field(default_factory=Counter)
    removed: Counter[str] = field(default_factory=Counter)
    before: Counter[str] = field(default_factory=Counter)
    after: Counter[str] = field(default_factory=Counter)
    columns: Counter[str] = field(default_factory=Counter)


def by_brute_force(old: pa.Table, new: pa.Table, keys: Sequence[str] = ()) -> Expected:
    """The differences between all rows of two versions with the same columns."""
    sides = [[_unordered(row) for row in rows_of(side)] for side in (old, new)]
    if not keys:
        counts = [Counter(map(row_line, side)) for side in sides]
        return Expected(added=counts[1] - counts[0], removed=counts[0] - counts[1])
    before, after = ({row_line([row[k] for k in keys]): row for row in side} for side in sides)
    assert [len(before), len(after)] == [len(side) for side in sides], "a key comes once"
    out = Expected()
    for key in before.keys() | after.keys():
        a, b = before.get(key), after.get(key)
        if a is None:
            out.added[row_line(b)] += 1
        elif b is None:
            out.removed[row_line(a)] += 1
        elif row_line(a) != row_line(b):
            out.before[row_line(a)] += 1
            out.after[row_line(b)] += 1
            out.columns.update(name for name in a if row_line(a[name]) != row_line(b[name]))
    return out


def assert_is(found: RowDiff, expected: Expected, about: str = "", columns: Sequence[str] | None = None) -> None:
    """Counts and rows are the expected ones, of these columns where they are given."""
    rows = found.to_arrow()
    kinds = rows.column("_change").to_pylist()
    plain = rows.drop_columns(["_change"])
    plain = plain if columns is None else plain.select(columns)
    got: dict[str, Counter[str]] = {kind: Counter() for kind in ("added", "removed", "before", "after")}
    for kind, row in zip(kinds, rows_of(plain), strict=True):
        got[kind][row_line(_unordered(row))] += 1
    for kind, counter in got.items():
        assert counter == getattr(expected, kind), f"{about} {kind}"
    counts = (found.added, found.removed, found.changed)
    assert counts == tuple(c.total() for c in (expected.added, expected.removed, expected.after)), about
    assert dict(found.columns) == dict(expected.columns), about


def _unordered(value: Any) -> Any:
    """A row or value with the entries of maps, lists of pairs, in one order."""
    if isinstance(value, dict):
        return {k: _unordered(v) for k, v in value.items()}
    if isinstance(value, list):
        items = [_unordered(v) for v in value]
        is_map = bool(items) and all(isinstance(i, list) and len(i) == 2 for i in items)
        return sorted(items, key=row_line) if is_map else items
    return value
