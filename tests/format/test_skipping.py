"""Skipping never changes what a condition selects, on any golden table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.predicate.arrow import matches
from paimon_spark.predicate.ast import Column, Compare, In, IsNotNull, IsNull, Not, Op, Or, Predicate
from paimon_spark.types import ArrayType, AtomicType, DataField, MapType, MultisetType, RowType
from tests.harness.golden import BEYOND_NANOSECONDS, golden_path, golden_reads

TABLES = sorted({r.table for r in golden_reads()})
_UNORDERED = (ArrayType, MapType, MultisetType, RowType)


def conditions(field: DataField, values: list[Any]) -> list[Predicate]:
    column = Column((field.name,), field.type)
    known = [v for v in values if v is not None]
    if isinstance(field.type, _UNORDERED) or field.type.with_nullable(True) == AtomicType(name="VARIANT"):
        return [IsNull(column), IsNotNull(column)]
    out: list[Predicate] = [IsNull(column), IsNotNull(column), In(column, tuple(known[:3]))]
    for value in dict.fromkeys((known[0], known[-1])) if known else ():
        out += [Compare(op, column, value) for op in (Op.EQ, Op.LT, Op.GE)]
        out.append(Or((Not(Compare(Op.LE, column, value)), IsNull(column))))
    return out


def literals(column: pa.ChunkedArray) -> list[Any]:
    """Values as predicates have them: TIME as milliseconds, timestamps at microseconds."""
    if pa.types.is_time(column.type):
        return list(column.cast(pa.int32()).to_pylist())
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    if pa.types.is_nested(column.type):
        return []
    try:
        return list(column.unique().to_pylist())
    except OverflowError:  # years that Python's datetimes do not have
        return []


@pytest.mark.ci
@pytest.mark.parametrize("table", TABLES)
def test_skipping_changes_no_result(table: str) -> None:
    scan = paimon_spark.load_table(str(golden_path(table))).scan()
    if table in BEYOND_NANOSECONDS:
        scan = scan.project([name for name in scan.row_type.names if name not in BEYOND_NANOSECONDS[table]])
    everything = scan.to_arrow()
    for field in scan.row_type:
        for predicate in conditions(field, literals(everything.column(field.name))):
            want = everything.filter(matches(predicate, everything))
            assert rows(scan.filtered([predicate]).to_arrow()) == rows(want), predicate


def rows(table: pa.Table) -> list[str]:
    """Rows in one order, with timestamps as numbers: Python's end at the year 9999."""
    columns = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in table.columns]
    return sorted(map(repr, pa.table(columns, table.column_names).to_pylist()))
