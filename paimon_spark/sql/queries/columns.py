"""Find the columns of a table that a query may need.

Every name in the query counts, for every table that has such a column. All columns count when a `*` may reach the
result, and when columns are used by position or without being named.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise
from typing import Final

from sqlglot import exp

from paimon_spark.sql.queries.parse import DOLLAR, ParsedQuery, Tree
from paimon_spark.sql.queries.references import Reference, ancestors

_ALL_WORDS: Final = frozenset(("NATURAL", "PIVOT", "UNPIVOT", "IDENTIFIER", "|>"))
"""Keywords that make every column count, as they use columns without naming them."""


def names(parsed: ParsedQuery) -> frozenset[str]:
    """Every name in a query, in lower case."""
    return frozenset(w.text.lower() for w in parsed.tokens if not w.is_text)


def needs_all(parsed: ParsedQuery, reference: Reference) -> bool:
    """Whether all columns of a table count."""
    keys = [w.keyword for w in parsed.tokens]
    if _ALL_WORDS.intersection(keys) or reference.function is not None or reference.has_new_columns:
        return True
    if any(a == "BY" and b == "ALL" for a, b in pairwise(keys)):
        return True
    return _Reach(parsed).table(reference.node, reference.visible)


def stars(reference: Reference) -> tuple[Tree, ...]:
    """The `*` that include the columns of a table, apart from `count(*)`."""
    select = select_of(reference.node)
    if select is None:
        return ()
    return tuple(s for s in _stars(select) if _qualifier(s) in ("", reference.visible.lower()))


def select_of(node: Tree) -> Tree | None:
    """The SELECT whose FROM has the table; None when it is elsewhere."""
    inner = node
    for around in ancestors(node):
        if isinstance(around, exp.Select):
            return around if inner is not None and isinstance(inner, exp.From | exp.Join) else None
        if not isinstance(around, exp.From | exp.Join | exp.Subquery | exp.Paren | exp.Table):
            return None
        inner = around
    return None


class _Reach:
    """Follows the columns of a table outwards through the query."""

    def __init__(self, parsed: ParsedQuery) -> None:
        self.parsed = parsed
        self.seen: list[Tree] = []

    def table(self, node: Tree, visible: str) -> bool:
        """Whether all columns of `node` in a FROM are needed."""
        if any(n is node for n in self.seen):
            return True
        self.seen.append(node)
        select = select_of(node)
        if select is None or self._is_a_value(visible):
            return True
        wrapped = [a for a in ancestors(node) if isinstance(a, exp.Subquery) and select_of(a) is select]
        if any(a.alias for a in wrapped):
            return True
        return any(self._star(star, select) for star in _stars(select) if _qualifier(star) in ("", visible.lower()))

    def _star(self, star: Tree, select: Tree) -> bool:
        """Whether the columns of a star are needed."""
        written = star.parent if isinstance(star.parent, exp.Column) else star
        if written.parent is not select or written.arg_key != "expressions":
            return True
        return self._output(select)

    def _output(self, select: Tree) -> bool:
        """Whether all columns of a SELECT are needed."""
        if select.args.get("distinct") or _has_ordinals(select):
            return True
        parent = select.parent
        if isinstance(parent, exp.Exists):
            return False
        if isinstance(parent, exp.Subquery) and isinstance(parent.parent, exp.Exists):
            return False
        if isinstance(parent, exp.Subquery):
            if _renames(parent) or any(parent.args.get(k) for k in ("order", "pivots", "sample")):
                return True
            return select_of(parent) is None or self.table(parent, parent.alias)
        if isinstance(parent, exp.CTE):
            return _renames(parent) or self._cte(parent)
        return True

    def _cte(self, cte: Tree) -> bool:
        """Whether all columns of a common table expression are needed by any use of it."""
        name = cte.alias.lower()
        for tree in self.parsed.trees or ():
            for node in tree.find_all(exp.Table):
                if node.name.lower() != name or len(node.parts) != 1:
                    continue
                if _renames(node) or self.table(node, node.alias or node.name):
                    return True
        return False

    def _is_a_value(self, visible: str) -> bool:
        """Whether the name of a relation is used as a value: `SELECT t FROM t`."""
        columns = (c for tree in self.parsed.trees or () for c in tree.find_all(exp.Column))
        bare = (c.this for c in columns if isinstance(c.this, exp.Identifier) and not c.table)
        return any(self.parsed.name_at(name).lower() == visible.lower() for name in bare)


def _stars(select: Tree) -> list[Tree]:
    """The stars of a SELECT, without those of nested queries and `count(*)`."""
    return [s for s in select.find_all(exp.Star) if s.find_ancestor(exp.Select) is select and not _is_counted(s)]


def _is_counted(star: Tree) -> bool:
    return isinstance(star.parent, exp.Count) and star.parent.this is star and not star.parent.expressions


def _qualifier(star: Tree) -> str:
    """The last part of the qualifier before `.*`, in lower case."""
    return str(star.parent.table).lower() if isinstance(star.parent, exp.Column) else ""


def _renames(node: Tree) -> bool:
    """Whether an alias renames the columns by position."""
    alias = node.args.get("alias")
    return isinstance(alias, exp.TableAlias) and bool(alias.args.get("columns"))


def _has_ordinals(select: Tree) -> bool:
    """Whether columns are used by position, as in ORDER BY 2."""
    for key in ("order", "group", "sort", "cluster", "distribute"):
        part = select.args.get(key)
        for item in () if part is None else part.expressions:
            inner = item.this if isinstance(item, exp.Ordered) else item
            if not isinstance(inner, exp.Column):
                return True
    return False


def metadata_named(parsed: ParsedQuery, reference: Reference, candidates: Collection[str]) -> tuple[str, ...]:
    """Metadata columns of a table that a query names, with or without a qualifier."""
    by_lower = {c.lower(): c for c in candidates}
    found: list[str] = []
    for tree in parsed.trees or ():
        for column in tree.find_all(exp.Column):
            name = by_lower.get(column.name.lower())
            if name is None or name in found:
                continue
            qualifier = column.table.lower().replace(DOLLAR, "$")
            if qualifier in ("", reference.visible.lower()):
                found.append(name)
    return tuple(found)
