"""Evaluation of predicates on the indexes of a data file, to skip the file, or rows of it.

Conservative, as `predicate.stats`: rows are ruled out only when they cannot make the predicate true.

Source: Java `fileindex/FileIndexPredicate`, `io/FileIndexEvaluator`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from paimon_spark.format.arrays.arrow_numpy import Bool
from paimon_spark.format.file_index.indexes import ColumnIndexes, FileIndexes
from paimon_spark.predicate.ast import (
    NEGATED,
    And,
    Column,
    Compare,
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
from paimon_spark.types import DataField


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
