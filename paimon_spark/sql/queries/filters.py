"""Which conditions of a statement hold for every row that it needs of a table, as a condition for the scan.

Only an aid: the statement keeps all its conditions. So a condition is taken only where it is certain that Spark means
the same by it: conjuncts of WHERE and of inner joins' ON, beside the table itself, not where an outer join fills in
nulls for its rows, and between a column and literals of its own type. Everything else is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any, Final

from sqlglot import exp

from paimon_spark.predicate.ast import literal_text
from paimon_spark.sql.queries.columns import select_of
from paimon_spark.sql.queries.parse import Reading, Tree
from paimon_spark.sql.queries.references import Reference
from paimon_spark.sql.tokens import quoted
from paimon_spark.types import INTEGER_NAMES, AtomicType, CharType, DataType, DecimalType, RowType

_COMPARISONS: Final = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_SWAPPED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_SIDES: Final = ("", "LEFT", "RIGHT", "FULL")
_KINDS: Final = ("", "INNER", "OUTER", "CROSS", "SEMI", "ANTI")
_WHOLE: Final = re.compile(r"[0-9]{1,18}", re.ASCII)
_EXACT: Final = re.compile(r"[0-9]{1,18}|(?=[0-9.]{2,19}$)[0-9]+\.[0-9]+", re.ASCII)
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_PREFIX: Final = re.compile(r"[^%_\\]*%?")
_BIGINT: Final = 2**63
_SURE_PRECISION: Final = 18
"""Decimals of more digits may lose some when Spark looks for a type that holds both sides."""


def condition(
    reading: Reading, reference: Reference, row_type: RowType, args: Mapping[str, Any] | Sequence[Any] | None
) -> str | None:
    """A condition over the columns of a table that every row needed of it meets; None when none is known."""
    select = select_of(reference.node)
    if select is None or reading.has_pipes or reference.sample is not None or reference.has_new_columns:
        return None
    if reference.function is not None or select.args.get("laterals"):
        return None
    relations = _relations(select)
    if relations is None or not any(node is reference.node for node, _ in relations):
        return None
    if any(_disturbs(node) for node, _ in relations):
        return None
    is_alone = len(relations) == 1
    if [_name(reading, node) for node, _ in relations].count(reference.visible.lower()) != 1:
        return None
    if _is_filled_with_nulls(relations, reference.node):
        return None
    reader = _Reader(reading, reference.visible.lower() if not is_alone else None, reference, row_type, args)
    parts = [text for part in _conjuncts(select, relations) if (text := reader.text(part)) is not None]
    return " AND ".join(f"({p})" for p in parts) if parts else None


def _relations(select: Tree) -> list[tuple[Tree, Tree | None]] | None:
    """What stands in the FROM of a SELECT, each with its join; None when joins are nested."""
    from_ = select.args.get("from_") or select.args.get("from")
    if from_ is None:
        return None
    joins = select.args.get("joins") or []
    found = [(from_.this, None), *((j.this, j) for j in joins)]
    if any(node.args.get("joins") for node, _ in found):
        return None
    return found


def _disturbs(node: Tree) -> bool:
    return bool(node.args.get("pivots"))


def _name(reading: Reading, node: Tree) -> str:
    """The name that qualifies the columns of a relation, in lower case."""
    name = node.alias or (reading.name_at(node.this) if isinstance(node.this, exp.Identifier) else "")
    return str(name).lower()


def _is_filled_with_nulls(relations: Sequence[tuple[Tree, Tree | None]], node: Tree) -> bool:
    """Whether a join makes rows without one of this relation's, or shows its rows to no condition."""
    before_it = True
    for relation, join in relations:
        side = "" if join is None else str(join.args.get("side") or "").upper()
        kind = "" if join is None else str(join.args.get("kind") or "").upper()
        method = "" if join is None else str(join.args.get("method") or "").upper()
        if method or side not in _SIDES or kind not in _KINDS:
            return True
        if relation is node:
            before_it = False
            if side in ("LEFT", "FULL") or kind in ("SEMI", "ANTI"):
                return True
        elif not before_it and side in ("RIGHT", "FULL"):
            return True
    return False


def _conjuncts(select: Tree, relations: Sequence[tuple[Tree, Tree | None]]) -> Iterator[Tree]:
    """Conditions that every row of the FROM meets."""
    where = select.args.get("where")
    if where is not None:
        yield from _split(where.this)
    if all(
        join is None or (not join.args.get("side") and str(join.args.get("kind") or "").upper() in ("", "INNER"))
        for _, join in relations
    ):
        for _, join in relations:
            if join is not None and join.args.get("on") is not None:
                yield from _split(join.args["on"])


def _split(node: Tree) -> Iterator[Tree]:
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.And):
        yield from _split(node.this)
        yield from _split(node.expression)
    else:
        yield node


class _Reader:
    """One table's conditions, from sqlglot's trees to the text that a scan takes."""

    def __init__(
        self,
        reading: Reading,
        qualifier: str | None,
        reference: Reference,
        row_type: RowType,
        args: Mapping[str, Any] | Sequence[Any] | None,
    ) -> None:
        self.reading = reading
        self.qualifier = qualifier
        self.visible = reference.visible.lower()
        self.args = args if isinstance(args, Mapping) else {}
        self.columns: dict[str, tuple[str, DataType] | None] = {}
        for field in row_type:
            key = field.name.lower()
            self.columns[key] = None if key in self.columns else (field.name, field.type)

    def text(self, node: Tree) -> str | None:
        """A condition as text; None when it is none of this table's, or when in doubt."""
        found = self._positive(node)
        # Releases of sqlglot differ in whether NOT LIKE is a NOT around LIKE or a mark on it.
        return f"NOT ({found})" if found is not None and node.args.get("negate") else found

    def _positive(self, node: Tree) -> str | None:
        match node:
            case exp.Paren():
                return self.text(node.this)
            case exp.And() | exp.Or():
                left, right = self.text(node.this), self.text(node.expression)
                word = "AND" if isinstance(node, exp.And) else "OR"
                return None if left is None or right is None else f"({left}) {word} ({right})"
            case exp.Not():
                inner = self.text(node.this)
                return None if inner is None else f"NOT ({inner})"
            case exp.Is() if isinstance(node.expression, exp.Null):
                column = self._column(node.this)
                return None if column is None else f"{quoted(column[0])} IS NULL"
            case exp.NullSafeEQ():
                return self._comparison(node, "<=>")
            case exp.In():
                return self._in(node)
            case exp.Between():
                return self._between(node)
            case exp.Like():
                return self._like(node)
        sign = _COMPARISONS.get(type(node))
        return None if sign is None else self._comparison(node, sign)

    def _comparison(self, node: Tree, sign: str) -> str | None:
        left, right = node.this, node.expression
        column, value = self._column(left), right
        if column is None:
            column, value, sign = self._column(right), left, _SWAPPED.get(sign, sign)
        if column is None:
            return None
        text = self._value(value, column[1])
        return None if text is None else f"{quoted(column[0])} {sign} {text}"

    def _in(self, node: Tree) -> str | None:
        column = self._column(node.this)
        if column is None or not node.expressions or node.args.get("query") or node.args.get("unnest"):
            return None
        values = [self._value(v, column[1]) for v in node.expressions]
        if None in values:
            return None
        return f"{quoted(column[0])} IN ({', '.join(str(v) for v in values)})"

    def _between(self, node: Tree) -> str | None:
        column = self._column(node.this)
        if column is None or node.args.get("symmetric"):
            return None
        low, high = self._value(node.args["low"], column[1]), self._value(node.args["high"], column[1])
        return None if low is None or high is None else f"{quoted(column[0])} BETWEEN {low} AND {high}"

    def _like(self, node: Tree) -> str | None:
        column = self._column(node.this)
        if column is None or isinstance(node.parent, exp.Escape) or not _is_text(column[1]):
            return None
        pattern = node.expression
        if not isinstance(pattern, exp.Literal) or not _PREFIX.fullmatch(str(pattern.this)):
            return None
        text = self._value(pattern, column[1])
        return None if text is None else f"{quoted(column[0])} LIKE {text}"

    def _column(self, node: Tree) -> tuple[str, DataType] | None:
        """The column of the table that a node surely names."""
        while isinstance(node, exp.Paren):
            node = node.this
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier) or node.args.get("db"):
            return None
        qualifier = node.args.get("table")
        if qualifier is None:
            if self.qualifier is not None:
                return None  # another relation may have a column of the name
        elif self.reading.name_at(qualifier).lower() != self.visible:
            return None
        return self.columns.get(self.reading.name_at(node.this).lower())

    def _value(self, node: Tree, dtype: DataType) -> str | None:
        """A literal as text, when Spark compares it with such a column without a cast of the column."""
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.Placeholder):
            return self._parameter(node, dtype)
        if isinstance(node, exp.Boolean):
            return str(bool(node.this)).lower() if _is(dtype, "BOOLEAN") else None
        sign = ""
        if isinstance(node, exp.Neg):
            sign, node = "-", node.this
        if isinstance(node, exp.Literal) and not node.is_string:
            pattern = _WHOLE if _is(dtype, *INTEGER_NAMES) else _EXACT if _is_small_decimal(dtype) else None
            return sign + str(node.this) if pattern is not None and pattern.fullmatch(str(node.this)) else None
        if sign:
            return None
        if isinstance(node, exp.Cast) and _is(dtype, "DATE") and node.to.this is exp.DataType.Type.DATE:
            node = node.this
        if isinstance(node, exp.Literal) and node.is_string and self._is_plain(str(node.this)):
            return self._text(str(node.this), dtype)
        return None

    def _parameter(self, node: Tree, dtype: DataType) -> str | None:
        value = self.args.get(str(node.this)) if node.this else None
        if isinstance(value, bool):
            return None
        if isinstance(value, int) and _is(dtype, *INTEGER_NAMES) and -_BIGINT <= value < _BIGINT:
            return str(value)
        if isinstance(value, str):
            return self._text(value, dtype)
        if type(value) is date and _is(dtype, "DATE"):
            return f"DATE '{value.isoformat()}'"
        return None

    def _text(self, text: str, dtype: DataType) -> str | None:
        if _is_text(dtype):
            return literal_text(text) if text.isprintable() else None
        if not _is(dtype, "DATE") or not _DATE.fullmatch(text):
            return None
        try:
            return f"DATE '{date.fromisoformat(text).isoformat()}'"
        except ValueError:
            return None

    def _is_plain(self, text: str) -> bool:
        """Whether a text literal says just what stands between its quotes, wherever it stands."""
        sql = self.reading.sql
        places = [w for w in self.reading.tokens if w.is_text and w.text == text]
        return bool(places) and all(
            sql[w.start] in "'\"" and sql[w.start + 1 : w.end - 1] == text and "\\" not in text and "'" not in text
            for w in places
        )


def _is(dtype: DataType, *names: str) -> bool:
    return isinstance(dtype, AtomicType) and dtype.name in names


def _is_text(dtype: DataType) -> bool:
    """STRING or VARCHAR; texts of CHAR are padded by some and not by others."""
    return isinstance(dtype, CharType) and dtype.varying


def _is_small_decimal(dtype: DataType) -> bool:
    return isinstance(dtype, DecimalType) and dtype.precision <= _SURE_PRECISION
