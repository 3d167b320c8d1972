"""Find the conditions of a query that its scan of a table may use to skip files and rows.

Only an aid: the query keeps all its conditions. A condition is used only when Spark certainly means the same by it: a
conjunct of WHERE or of an inner join's ON, of a table for whose rows no outer join fills in nulls, between a column and
literals of its own type. Everything else is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any, Final

from sqlglot import exp

from paimon_spark.errors import PaimonError
from paimon_spark.predicate.ast import Predicate, conjunction
from paimon_spark.predicate.parse import build_predicate
from paimon_spark.sql.queries.parse import ParsedQuery
from paimon_spark.sql.queries.references import Reference
from paimon_spark.sql.queries.scopes import Tree
from paimon_spark.types import INTEGER_NAMES, AtomicType, CharType, DataType, DecimalType, RowType

_COMPARISONS: Final = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ)
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
    parsed: ParsedQuery, reference: Reference, row_type: RowType, args: Mapping[str, Any] | Sequence[Any] | None
) -> Predicate | None:
    """A predicate that holds for every row that the query needs of a table; None when none is known."""
    select = parsed.scopes.select_of(reference.node)
    if select is None or parsed.has_pipes or reference.sample is not None or reference.has_new_columns:
        return None
    if reference.function is not None or select.args.get("laterals"):
        return None
    relations = [(select.args["from_"].this, None), *((j.this, j) for j in select.args.get("joins") or ())]
    if any(node.args.get("joins") or node.args.get("pivots") for node, _ in relations):
        return None
    if [id(node) for node, _ in relations if node.alias_or_name == reference.key] != [id(reference.node)]:
        return None
    if _is_filled_with_nulls(relations, reference.node):
        return None
    reader = _ConditionReader(parsed, len(relations) == 1, reference, row_type, args)
    try:
        found = [tree for part in _conjuncts(select, relations) if (tree := reader.condition(part)) is not None]
        return conjunction([build_predicate(tree, row_type) for tree in found])
    except (RecursionError, PaimonError):  # thousands of conditions in one another, or a value without meaning
        return None


def _is_filled_with_nulls(relations: Sequence[tuple[Tree, Tree | None]], node: Tree) -> bool:
    """Whether a join adds rows with nulls for this relation, or hides its columns from conditions."""
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


class _ConditionReader:
    """Reads one table's conditions: trees without aliases and parameters, which `build_predicate` takes."""

    def __init__(
        self,
        parsed: ParsedQuery,
        is_alone: bool,
        reference: Reference,
        row_type: RowType,
        args: Mapping[str, Any] | Sequence[Any] | None,
    ) -> None:
        self.parsed = parsed
        self.is_alone = is_alone
        self.visible = reference.key
        self.args = args if isinstance(args, Mapping) else {}
        self.columns: dict[str, tuple[str, DataType] | None] = {}
        for field in row_type:
            key = field.name.lower()
            self.columns[key] = None if key in self.columns else (field.name, field.type)

    def condition(self, node: Tree) -> Tree | None:
        """A condition on columns of the table; None when it is about something else, or when in doubt."""
        found = self._positive(node)
        # Releases of sqlglot differ in whether NOT LIKE is a NOT around LIKE or a mark on it.
        return exp.Not(this=found) if found is not None and node.args.get("negate") else found

    def _positive(self, node: Tree) -> Tree | None:
        match node:
            case exp.Paren():
                return self.condition(node.this)
            case exp.And() | exp.Or():
                left, right = self.condition(node.this), self.condition(node.expression)
                return None if left is None or right is None else type(node)(this=left, expression=right)
            case exp.Not():
                inner = self.condition(node.this)
                return None if inner is None else exp.Not(this=inner)
        left, dtype = self._column(node.this) if isinstance(node.this, exp.Expression) else (None, None)
        if left is None and isinstance(node, _COMPARISONS):
            right, dtype = self._column(node.expression)
            value = None if dtype is None else self._value(node.this, dtype)
            return None if value is None else type(node)(this=value, expression=right)
        if left is None or dtype is None:
            return None
        match node:
            case exp.Is() if isinstance(node.expression, exp.Null):
                return exp.Is(this=left, expression=exp.Null())
            case exp.In() if node.expressions and not node.args.get("query") and not node.args.get("unnest"):
                values = [self._value(v, dtype) for v in node.expressions]
                return None if None in values else exp.In(this=left, expressions=values)
            case exp.Between() if not node.args.get("symmetric"):
                low, high = self._value(node.args["low"], dtype), self._value(node.args["high"], dtype)
                return None if low is None or high is None else exp.Between(this=left, low=low, high=high)
            case exp.Like() if not isinstance(node.parent, exp.Escape) and _is_text(dtype):
                pattern = node.expression
                is_prefix = isinstance(pattern, exp.Literal) and _PREFIX.fullmatch(str(pattern.this))
                value = self._value(pattern, dtype) if is_prefix else None
                return None if value is None else exp.Like(this=left, expression=value)
        value = self._value(node.expression, dtype) if isinstance(node, _COMPARISONS) else None
        return None if value is None else type(node)(this=left, expression=value)

    def _column(self, node: Tree) -> tuple[Tree, DataType] | tuple[None, None]:
        """The column of the table that a node certainly names, without qualifier, and its type."""
        while isinstance(node, exp.Paren):
            node = node.this
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier) or node.args.get("db"):
            return None, None
        qualifier = node.args.get("table")
        if qualifier is None:
            if not self.is_alone:
                return None, None  # another relation may have a column of the name
        elif qualifier.name != self.visible:
            return None, None
        found = self.columns.get(node.name)
        return (None, None) if found is None else (exp.column(exp.to_identifier(found[0], quoted=True)), found[1])

    def _value(self, node: Tree, dtype: DataType) -> Tree | None:
        """A literal, when Spark compares it with a column of this type without a cast of the column."""
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.Placeholder):
            return self._parameter(node, dtype)
        if isinstance(node, exp.Boolean):
            return node.copy() if _is(dtype, "BOOLEAN") else None
        number = node.this if isinstance(node, exp.Neg) else node
        if isinstance(number, exp.Literal) and not number.is_string:
            is_small = isinstance(dtype, DecimalType) and dtype.precision <= _SURE_PRECISION
            pattern = _WHOLE if _is(dtype, *INTEGER_NAMES) else _EXACT if is_small else None
            return node.copy() if pattern is not None and pattern.fullmatch(str(number.this)) else None
        if isinstance(node, exp.Cast) and _is(dtype, "DATE") and node.to.this is exp.DataType.Type.DATE:
            node = node.this
        if isinstance(node, exp.Literal) and node.is_string and self._is_plain(str(node.this)):
            return _text(str(node.this), dtype)
        return None

    def _parameter(self, node: Tree, dtype: DataType) -> Tree | None:
        value = self.args.get(str(node.this)) if node.this else None
        if isinstance(value, int) and not isinstance(value, bool):
            is_bigint = _is(dtype, *INTEGER_NAMES) and -_BIGINT <= value < _BIGINT
            return exp.Literal.number(value) if is_bigint else None
        if isinstance(value, str):
            return _text(value, dtype)
        return _text(value.isoformat(), dtype) if type(value) is date and _is(dtype, "DATE") else None

    def _is_plain(self, text: str) -> bool:
        """Whether a text literal says just what stands between its quotes, wherever it stands."""
        sql = self.parsed.sql
        places = [t for t in self.parsed.tokens if t.is_text and t.text == text]
        return bool(places) and all(
            sql[t.start] in "'\"" and sql[t.start + 1 : t.end - 1] == text and "\\" not in text and "'" not in text
            for t in places
        )


def _text(text: str, dtype: DataType) -> Tree | None:
    """Text as a literal for a text column, or as a date for a DATE column."""
    if _is_text(dtype):
        return exp.Literal.string(text) if text.isprintable() else None
    if not _is(dtype, "DATE") or not _DATE.fullmatch(text):
        return None
    try:
        return exp.cast(exp.Literal.string(date.fromisoformat(text).isoformat()), "date")
    except ValueError:
        return None


def _is(dtype: DataType, *names: str) -> bool:
    return isinstance(dtype, AtomicType) and dtype.name in names


def _is_text(dtype: DataType) -> bool:
    """STRING or VARCHAR; texts of CHAR are padded by some and not by others."""
    return isinstance(dtype, CharType) and dtype.varying
