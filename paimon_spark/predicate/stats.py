"""Evaluation of predicates on statistics and file indexes, to skip files and rows.

Conservative: rows are ruled out only when none of them can make the predicate true. Unknown statistics, floats whose
NaNs writers leave out of minimum and maximum, and bounds cut short by writers keep them.

Source: for indexes, Java `fileindex/FileIndexPredicate`, `io/FileIndexEvaluator`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.format.arrays.arrow_numpy import Bool, validity, values
from paimon_spark.format.data_files.requests import Bounds, BoundsOf
from paimon_spark.format.file_index.indexes import ColumnIndexes, FileIndexes
from paimon_spark.predicate.arrow import compare
from paimon_spark.predicate.ast import (
    NEGATED,
    And,
    Column,
    Compare,
    Computed,
    Constant,
    In,
    IsNotNull,
    IsNull,
    Literal,
    Not,
    NullSafeEqual,
    Op,
    Or,
    Predicate,
    Text,
    TextOp,
)
from paimon_spark.predicate.patterns import like_shape
from paimon_spark.types import AtomicType, DataField

_MAX_LITERALS: Final = 100
"""A longer IN list is judged by its least and greatest value only."""


class ColumnStatsArrays(NamedTuple):
    """Statistics of one column in many files.

    Attributes:
        minimum, maximum: bounds of the non-null values in the column's canonical type, null where unknown; None
            when unknown everywhere.
        null_counts: nulls per file, negative where unknown; None when unknown everywhere.
    """

    minimum: pa.Array | None
    maximum: pa.Array | None
    null_counts: npt.NDArray[np.int64] | None


StatsOf: TypeAlias = Callable[[str], "ColumnStatsArrays | None"]
"""Statistics of a top-level column by name; None when nothing is known."""


def may_match(predicate: Predicate, row_counts: npt.NDArray[np.int64], stats_of: StatsOf) -> Bool:
    """For each file, False when certainly no row makes `predicate` true.

    Literals of the predicate are of their columns' types; `row_counts` may be upper bounds.
    """
    return _StatsEvaluator(row_counts, stats_of).may(predicate, True)


class _StatsEvaluator:
    """Evaluates the tree with NOT pushed to the leaves: `wanted` False asks whether a leaf may be false."""

    def __init__(self, row_counts: npt.NDArray[np.int64], stats_of: StatsOf) -> None:
        self.rows = row_counts
        self.stats_of = stats_of

    def may(self, predicate: Predicate, wanted: bool) -> Bool:
        match predicate:
            case Not(child):
                return self.may(child, not wanted)
            case And(children) | Or(children):
                return self._fold(children, wanted, isinstance(predicate, And) == wanted)
            case Constant(value):
                return self._all(value is wanted)
            case Compare(op, column, literal):
                return self._compare(op if wanted else NEGATED[op], column, literal)
            case NullSafeEqual(column, None):
                return self._is_null(column, wanted)
            case NullSafeEqual(column, literal):
                assert literal is not None
                if wanted:
                    return self._compare(Op.EQ, column, literal)
                return self._compare(Op.NE, column, literal) | self._is_null(column, True)
            case In(column, literals, has_null):
                return self._in(column, literals) if wanted else self._not_in(column, literals, has_null)
            case IsNull(column):
                return self._is_null(column, wanted)
            case IsNotNull(column):
                return self._is_null(column, not wanted)
            case Text(op, column, pattern):
                return self._text(op, column, pattern) if wanted else self._has_values(column)
            case Computed():
                return self._all(True)

    def _all(self, value: bool) -> Bool:
        return np.full(len(self.rows), value, np.bool_)

    def _fold(self, children: tuple[Predicate, ...], wanted: bool, conjunction: bool) -> Bool:
        result = self._all(conjunction)
        for child in children:
            part = self.may(child, wanted)
            result = result & part if conjunction else result | part
        return result

    def _stats(self, column: Column) -> ColumnStatsArrays | None:
        return self.stats_of(column.name) if len(column.path) == 1 else None

    def _has_values(self, column: Column) -> Bool:
        """False where every value is null, so that no comparison is true."""
        return self._is_null(column, False)

    def _is_null(self, column: Column, wanted: bool) -> Bool:
        stats = self._stats(column)
        if stats is None or stats.null_counts is None:
            return self._all(True)
        some: Bool = stats.null_counts != 0 if wanted else stats.null_counts < self.rows
        return some

    def _compare(self, op: Op, column: Column, literal: Literal) -> Bool:
        stats = self._stats(column)
        if stats is None:
            return self._all(True)
        kept = self._has_values(column)
        minimum, maximum = stats.minimum, stats.maximum
        if minimum is None or maximum is None:
            return kept
        if pa.types.is_floating(minimum.type):
            return kept & _compare_float_bounds(op, minimum, maximum, literal)
        match op:
            case Op.EQ:
                return kept & _known(Op.LE, minimum, literal) & _known(Op.GE, maximum, literal)
            case Op.NE:
                return kept & (_known(Op.NE, minimum, literal) | _known(Op.NE, maximum, literal))
            case Op.LT | Op.LE:
                return kept & _known(op, minimum, literal)
            case Op.GT | Op.GE:
                return kept & _known(op, maximum, literal)

    def _in(self, column: Column, literals: tuple[Literal, ...]) -> Bool:
        if len(literals) > _MAX_LITERALS:
            if any(v != v for v in literals):  # NaN, which has no order
                return self._has_values(column)
            return self._compare(Op.GE, column, min(literals)) & self._compare(Op.LE, column, max(literals))
        result = self._all(False)
        for literal in literals:
            result |= self._compare(Op.EQ, column, literal)
        return result

    def _not_in(self, column: Column, literals: tuple[Literal, ...], has_null: bool) -> Bool:
        if has_null:
            return self._all(False)
        result = self._has_values(column)
        if len(literals) <= _MAX_LITERALS:
            for literal in literals:
                result &= self._compare(Op.NE, column, literal)
        return result

    def _text(self, op: TextOp, column: Column, pattern: str) -> Bool:
        if op is TextOp.LIKE:
            shape = like_shape(pattern)
            if shape.exact:
                return self._compare(Op.EQ, column, shape.prefix)
            op, pattern = TextOp.STARTS_WITH, shape.prefix
        stats = self._stats(column)
        kept = self._has_values(column)
        if op is not TextOp.STARTS_WITH or stats is None or stats.minimum is None or stats.maximum is None:
            return kept
        prefix = pattern.encode(errors="surrogatepass")  # half of a pair is in no text
        kept &= _known(Op.GE, stats.maximum.cast(pa.binary()), prefix)
        after = _after_prefix(prefix)
        return kept if after is None else kept & _known(Op.LT, stats.minimum.cast(pa.binary()), after)


def _known(op: Op, bound: pa.Array, literal: Literal) -> Bool:
    """`bound op literal`, True where the bound is unknown."""
    mask = compare(op, bound, literal)
    return np.where(validity(mask), values(mask), True) if mask.null_count else values(mask)


def _compare_float_bounds(op: Op, minimum: pa.Array, maximum: pa.Array, literal: Literal) -> Bool:
    """Comparison with bounds that say nothing of NaNs, which are above every number and not in the bounds."""
    if op in (Op.GT, Op.GE, Op.NE) or literal != literal:
        return np.ones(len(minimum), np.bool_)
    low: Bool = _known(Op.LE if op is Op.EQ else op, minimum, literal) | _nan_or_null(minimum)
    if op is not Op.EQ:
        return low
    return low & (_known(Op.GE, maximum, literal) | _nan_or_null(maximum))


def _nan_or_null(bound: pa.Array) -> Bool:
    unknown: Bool = ~validity(bound) | values(pc.is_nan(bound))
    return unknown


def _after_prefix(prefix: bytes) -> bytes | None:
    """The least byte string above all that start with `prefix`, or None."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes((stripped[-1] + 1,)) if stripped else None


@dataclass(frozen=True, slots=True)
class RowGroupFilter:
    """Whether the rows of a row group may match; picklable, a `MayMatch` of the readers of data files.

    Attributes:
        predicate: over columns of the schema being read.
        columns: for each column the predicate may be tested on, its name in the file; others decide nothing.
    """

    predicate: Predicate
    columns: Mapping[str, str]

    def __call__(self, bounds_of: BoundsOf) -> bool:
        def bounds(column: Column) -> Bounds | None:
            name = self.columns.get(column.name)
            return None if name is None or len(column.path) > 1 else bounds_of(name, column.type)

        return row_group_may_match(self.predicate, bounds)


def row_group_may_match(predicate: Predicate, bounds_of: Callable[[Column], Bounds | None]) -> bool:
    """False only when no row can make the predicate true. NOT, LIKE and other conditions without bounds keep all."""
    match predicate:
        case And(children):
            return all(row_group_may_match(c, bounds_of) for c in children)
        case Or(children):
            return any(row_group_may_match(c, bounds_of) for c in children)
        case Constant(value):
            return value is True
        case Compare() | NullSafeEqual() | In() | IsNull() | IsNotNull() | Text():
            bounds = bounds_of(predicate.column)
            return bounds is None or _leaf_may_match(predicate, bounds)
    return True


def _leaf_may_match(predicate: Predicate, b: Bounds) -> bool:
    if isinstance(predicate, IsNull) or (isinstance(predicate, NullSafeEqual) and predicate.literal is None):
        return b.null_count != 0
    if b.null_count == b.row_count:
        return False
    match predicate:
        case Compare(op, column, literal):
            return _compare_bounds(op, column, literal, b)
        case NullSafeEqual(column, literal):
            return _compare_bounds(Op.EQ, column, literal, b)
        case In(column, literals):
            return _one_of_may_match(column, literals, b)
        case Text(TextOp.STARTS_WITH, _, prefix):
            is_below = isinstance(b.upper, str) and b.upper < prefix
            is_above = isinstance(b.lower, str) and b.lower[: len(prefix)] > prefix
            return not (is_below or is_above)
    return True


def _one_of_may_match(column: Column, literals: tuple[Any, ...], b: Bounds) -> bool:
    ordered = _ordered(literals) if len(literals) > _MAX_LITERALS else None
    if ordered is None:
        return any(_compare_bounds(Op.EQ, column, literal, b) for literal in literals)
    lower = _of_type(b.lower, ordered[0])
    place = 0 if lower is None else bisect_left(ordered, lower)
    return place < len(ordered) and _compare_bounds(Op.EQ, column, ordered[place], b)


@lru_cache(maxsize=8)
def _ordered(literals: tuple[Any, ...]) -> list[Any] | None:
    """The literals in order; None where they have none: NaN, and values of several types."""
    if len(set(map(type, literals))) > 1 or any(v != v for v in literals):
        return None
    return sorted(literals)


def _compare_bounds(op: Op, column: Column, literal: Any, b: Bounds) -> bool:
    if isinstance(literal, float) and math.isnan(literal):
        return True
    # NaN is larger than every number and no statistic counts it.
    lower, top = _of_type(b.lower, literal), _of_type(b.upper, literal)
    upper = None if isinstance(column.type, AtomicType) and column.type.name in ("FLOAT", "DOUBLE") else top
    match op:
        case Op.EQ:
            return (lower is None or bool(lower <= literal)) and (top is None or bool(top >= literal))
        case Op.LT:
            return lower is None or bool(lower < literal)
        case Op.LE:
            return lower is None or bool(lower <= literal)
        case Op.GT:
            return upper is None or bool(upper > literal)
        case Op.GE:
            return upper is None or bool(upper >= literal)
    return True


def _of_type(bound: Any, literal: Any) -> Any:
    """The bound if it is of the literal's type; else it says nothing (unscaled decimals, times, raw bytes)."""
    if isinstance(literal, float):
        return bound if isinstance(bound, (int, float)) and not math.isnan(bound) else None
    if type(bound) is not type(literal):
        return None
    if isinstance(literal, datetime) and (bound.tzinfo is None) != (literal.tzinfo is None):
        return None
    return bound


def indexed_columns(wanted: Iterable[DataField], stored: Iterable[DataField]) -> dict[str, DataField]:
    """The columns of a file that have the type they are read as, by the names that predicates have for them."""
    by_id = {f.id: f for f in stored}
    return {
        f.name: by_id[f.id]
        for f in wanted
        if f.id in by_id and f.type.with_nullable(True) == by_id[f.id].type.with_nullable(True)
    }


def rows_that_may_match(predicate: Predicate, indexes: FileIndexes, columns: Mapping[str, DataField]) -> Bool | None:
    """The rows of a data file that may make `predicate` true; None when the indexes rule out none.

    `columns` are those of the file that may be tested, by their names in the predicate. Raises FormatError,
    FileMissingError, StorageError: an index cannot be read.
    """
    rows = _Evaluator(indexes, columns).may(predicate, True)
    return None if rows is None or bool(rows.all()) else rows


class _Evaluator:
    """Evaluates the tree with NOT pushed to the leaves: `wanted` False asks where a leaf may be false."""

    def __init__(self, indexes: FileIndexes, columns: Mapping[str, DataField]) -> None:
        self._indexes = indexes
        self._columns = columns

    def may(self, predicate: Predicate, wanted: bool) -> Bool | None:
        match predicate:
            case Not(child):
                return self.may(child, not wanted)
            case And(children) | Or(children):
                parts = [self.may(child, wanted) for child in children]
                known = [p for p in parts if p is not None]
                if isinstance(predicate, And) == wanted:
                    return np.logical_and.reduce(known) if known else None
                return np.logical_or.reduce(known) if known and len(known) == len(parts) else None
            case Constant(value):
                return None if value is wanted else np.zeros(self._indexes.row_count, np.bool_)
            case Compare() | NullSafeEqual() | In() | IsNull() | IsNotNull() | Text():
                indexes = self._indexes_of(predicate.column)
                return None if indexes is None else _leaf(predicate, wanted, indexes)
        return None

    def _indexes_of(self, column: Column) -> ColumnIndexes | None:
        f = self._columns.get(column.name) if len(column.path) == 1 else None
        return None if f is None else self._indexes.column(f.name, f.type)


def _leaf(predicate: Predicate, wanted: bool, indexes: ColumnIndexes) -> Bool | None:
    match predicate:
        case Compare(op, _, literal):
            return _compare(op if wanted else NEGATED[op], literal, indexes)
        case IsNull() | NullSafeEqual(literal=None):
            return indexes.is_null() if wanted else indexes.is_not_null()
        case IsNotNull():
            return indexes.is_not_null() if wanted else indexes.is_null()
        case NullSafeEqual(_, literal) if wanted:
            return indexes.equal([literal])
        case In(_, literals, has_null):
            if wanted:
                return indexes.equal(literals)
            return None if has_null else indexes.not_equal(literals)
        case Text(op, _, pattern) if wanted and op is TextOp.LIKE and (shape := like_shape(pattern)).exact:
            return indexes.equal([shape.prefix])
    return None


def _compare(op: Op, literal: Literal, indexes: ColumnIndexes) -> Bool | None:
    match op:
        case Op.EQ:
            return indexes.equal([literal])
        case Op.NE:
            return indexes.not_equal([literal])
        case Op.LT | Op.LE:
            return indexes.between(None, literal, high_in=op is Op.LE)
        case Op.GT | Op.GE:
            return indexes.between(literal, None, low_in=op is Op.GE)
