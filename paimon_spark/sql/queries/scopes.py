"""Find the scopes of a query by sqlglot: what each SELECT sees.

A column of a table is needed unless the scopes prove that a name in the query means something else. Where sqlglot finds
no scope, or a `*` may reach the result, all columns are needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final

from sqlglot import exp
from sqlglot.optimizer.scope import TRAVERSABLES, Scope, ScopeType, traverse_scope

Tree = Any
"""A node of sqlglot."""
_WRITTEN: Final = "written"
_QUERIES: Final = (exp.Select, exp.SetOperation)
_BY_POSITION: Final = ("order", "group", "sort", "cluster", "distribute")
_CHANGES_ROWS: Final = ("order", "pivots", "sample")


def lower_names(tree: Tree, dollar: str) -> None:
    """Put identifiers in lower case, as names of relations and columns have no case; `dollar` stands for `$`."""
    for identifier in tree.find_all(exp.Identifier):
        name = identifier.name.replace(dollar, "$") if "start" in identifier.meta else identifier.name
        identifier.meta[_WRITTEN] = name
        identifier.set("this", name.lower())


def written(identifier: Tree) -> str:
    """An identifier as the statement has it."""
    return str(identifier.meta.get(_WRITTEN, identifier.name))


class QueryScopes:
    """Scopes of the trees of a query, whose names are in lower case."""

    def __init__(self, trees: Sequence[Tree] = ()) -> None:
        self._trees = trees
        self._is_needed: dict[int, bool] = {}
        self._unseen: dict[int, tuple[int, ...]] = {}

    @cached_property
    def _scopes(self) -> dict[int, Scope]:
        """The scopes by the ids of their expressions."""
        found: dict[int, Scope] = {}
        for tree in self._trees:
            # sqlglot finds none in some statements and arguments of functions, so their queries are traversed too.
            for node in (tree, *tree.find_all(*_QUERIES)):
                if id(node) not in found and isinstance(node, TRAVERSABLES):
                    found |= {id(scope.expression): scope for scope in _traverse(node)}
        return found

    @cached_property
    def columns(self) -> tuple[tuple[Tree, Scope | None], ...]:
        """The columns in the query, each with its scope."""
        return tuple((c, self._around(c)) for tree in self._trees for c in tree.find_all(exp.Column))

    @cached_property
    def _stars(self) -> tuple[tuple[Tree, Scope], ...]:
        """The `*` in SELECTs, each with its scope, apart from `count(*)`."""
        scopes = filter(_is_select, self._scopes.values())
        return tuple((s, scope) for scope in scopes for s in scope.find_all(exp.Star) if not _is_counted(s))

    @cached_property
    def _aliases(self) -> tuple[int, ...]:
        """Positions of the names that the query gives to expressions."""
        return _positions(a.args.get("alias") for tree in self._trees for a in tree.find_all(exp.Alias))

    @cached_property
    def is_complete(self) -> bool:
        """Whether all queries have scopes."""
        return all(id(query) in self._scopes for tree in self._trees for query in tree.find_all(*_QUERIES))

    def is_cte(self, node: Tree) -> bool:
        """Whether a name is that of a common table expression that it sees."""
        if len(node.parts) != 1:
            return False
        if len(self._trees) > 1 or not self.is_complete:
            return any(cte.alias == node.name for tree in self._trees for cte in tree.find_all(exp.CTE))
        scope = self._around(node)
        while scope is not None and node.name not in scope.cte_sources:
            *_, root = _outwards(scope)
            scope = self._around(root.expression.parent)
        return scope is not None

    def select_of(self, node: Tree) -> Tree | None:
        """The SELECT whose FROM has a relation; None when it is elsewhere."""
        scope, select = self._around(node), node.find_ancestor(exp.Select)
        is_relation = isinstance(node.parent, exp.From | exp.Join | exp.Subquery)
        return select if is_relation and scope is not None and scope.expression is select else None

    def selects(self, scope: Scope | None) -> Iterator[Tree | None]:
        """The SELECTs whose relations a scope sees, from the inside out; None for those of the statement itself."""
        yield from (s.expression for s in _outwards(scope) if _is_select(s))
        yield None

    def stars(self, node: Tree, visible: str) -> list[Tree]:
        """The `*` that include the columns of a relation with the name `visible`, apart from `count(*)`."""
        around = next(filter(_is_select, _outwards(self._around(node))), None)
        stars = (star for star, scope in self._stars if scope is around)
        return [s for s in stars if (s.parent.table if isinstance(s.parent, exp.Column) else "") in ("", visible)]

    def needs_all(self, node: Tree, visible: str) -> bool:
        """Whether all columns of a relation are needed, as far as the scopes can say."""
        if id(node) not in self._is_needed:
            self._is_needed[id(node)] = True  # of a recursion
            self._is_needed[id(node)] = self._needs_all(node, visible)
        return self._is_needed[id(node)]

    def _needs_all(self, node: Tree, visible: str) -> bool:
        select = self.select_of(node)
        if select is None or _renames(node) or any(c.name == visible and not c.table for c, _ in self.columns):
            return True  # a relation's name may be a value: SELECT t FROM t
        for star in self.stars(node, visible):
            item = star.parent if isinstance(star.parent, exp.Column) else star
            if item.parent is not select or item.arg_key != "expressions" or self._returns_all(select):
                return True
        return False

    def _returns_all(self, select: Tree) -> bool:
        """Whether all columns of the result of a SELECT are needed."""
        scope, parent = self._scopes[id(select)], select.parent
        if select.args.get("distinct") or _has_positions(select):
            return True
        match scope.scope_type:
            case ScopeType.SUBQUERY:
                return not isinstance(parent.parent if isinstance(parent, exp.Subquery) else parent, exp.Exists)
            case ScopeType.DERIVED_TABLE if isinstance(parent.parent, exp.From | exp.Join):
                return any(map(parent.args.get, _CHANGES_ROWS)) or self.needs_all(parent, parent.alias)
            case ScopeType.CTE if isinstance(parent, exp.CTE) and not _renames(parent):
                tables = (t for tree in self._trees for t in tree.find_all(exp.Table))
                uses = [t for t in tables if t.name == parent.alias and self.is_cte(t)]
                return any(self.needs_all(t, t.alias_or_name) for t in uses)
        return True

    def foreign(self, node: Tree, visible: str) -> frozenset[int]:
        """Positions of names that are certainly no columns of a relation and of what is made of them.

        They are aliases and columns that belong to other relations or cannot see this one. Nothing is certain of a
        relation whose columns leave the SELECT by a `*`.
        """
        select = self.select_of(node)
        if select is None:
            return frozenset()
        if id(select) not in self._unseen:
            self._unseen[id(select)] = self._unseen_by(select)
        others = (
            column.this
            for column, scope in self.columns
            if column.table not in ("", visible) and not column.db and _is_relation(column.table, scope)
        )
        return frozenset((*self._aliases, *self._unseen[id(select)], *_positions(others)))

    def _unseen_by(self, select: Tree) -> tuple[int, ...]:
        """Positions of columns that see neither the relations of a SELECT nor its result by a name."""
        scope, region = self._scopes[id(select)], select
        while isinstance(region.parent, exp.Query):
            region = region.parent  # ORDER BY after brackets or a UNION
        inside = {id(column) for column in region.find_all(exp.Column)}
        found = (c for c, around in self.columns if id(c) not in inside or _is_shut(around, scope))
        return _positions(part for column in found for part in column.parts)

    def _around(self, node: Tree) -> Scope | None:
        """The innermost scope around a node."""
        while node is not None and id(node) not in self._scopes:
            node = node.parent
        return None if node is None else self._scopes[id(node)]


def _traverse(query: Tree) -> list[Scope]:
    """The scopes of a statement or query; none where sqlglot fails."""
    try:
        return traverse_scope(query)
    except Exception:  # noqa: BLE001 - whatever it raises on unknown syntax
        return []


def _is_select(scope: Scope) -> bool:
    return isinstance(scope.expression, exp.Select)


def _outwards(scope: Scope | None) -> Iterator[Scope]:
    while scope is not None:
        yield scope
        scope = scope.parent


def _is_shut(inner: Scope | None, scope: Scope) -> bool:
    """Whether an inner scope sees no relation of `scope`: it is in a FROM without LATERAL, or in a WITH."""
    child = next((s for s in _outwards(inner) if s.parent is scope), None)
    return child is not None and child.scope_type in (ScopeType.DERIVED_TABLE, ScopeType.CTE)


def _is_relation(name: str, scope: Scope | None) -> bool:
    return any(name == relation for s in _outwards(scope) for relation, _ in s.references)


def _positions(nodes: Iterable[Tree]) -> tuple[int, ...]:
    return tuple(n.meta["start"] for n in nodes if isinstance(n, exp.Identifier) and "start" in n.meta)


def _is_counted(star: Tree) -> bool:
    return isinstance(star.parent, exp.Count) and star.parent.this is star and not star.parent.expressions


def _renames(node: Tree) -> bool:
    """Whether an alias renames the columns by position."""
    alias = node.args.get("alias")
    return isinstance(alias, exp.TableAlias) and bool(alias.args.get("columns"))


def _has_positions(select: Tree) -> bool:
    """Whether columns are used by position, as in ORDER BY 2."""
    parts = (select.args.get(key) for key in _BY_POSITION)
    items = (item for part in parts if part is not None for item in part.expressions)
    return any(not isinstance(i.this if isinstance(i, exp.Ordered) else i, exp.Column) for i in items)
