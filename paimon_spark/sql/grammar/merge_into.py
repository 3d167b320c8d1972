"""Grammar of MERGE INTO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.grammar.clauses import Assignment, assignments, column_path, expression
from paimon_spark.sql.statement import Statement, TableStatement, UnsupportedStatement
from paimon_spark.sql.tokens import Token, opening_bracket


class Matched(Enum):
    """Which rows a WHEN clause is about: matching pairs, rows of the source only, rows of the table only."""

    BOTH = "MATCHED"
    SOURCE = "NOT MATCHED"
    TARGET = "NOT MATCHED BY SOURCE"


class Action(Enum):
    """What a WHEN clause does."""

    UPDATE = "UPDATE"
    DELETE = "DELETE"
    INSERT = "INSERT"


@dataclass(frozen=True, slots=True)
class WhenClause:
    """WHEN … THEN ….

    Attributes:
        matched: which rows.
        action: what is done with them.
        condition: further condition on these rows.
        assignments: of columns; None for `*`, and for DELETE.
    """

    matched: Matched
    action: Action
    condition: str | None = None
    assignments: tuple[Assignment, ...] | None = None


@dataclass(frozen=True, slots=True)
class Merge(TableStatement):
    """MERGE INTO.

    Attributes:
        alias: the name that conditions use; None without one.
        source: what follows USING: a table or a query, with its alias.
        source_alias: the name that conditions use for the source; None when it has none.
        condition: of ON.
        clauses: in order.
        prefix: WITH … written before MERGE.
    """

    alias: str | None
    source: str
    source_alias: str | None
    condition: str
    clauses: tuple[WhenClause, ...]
    prefix: str = ""


def read_merge(cursor: Cursor, prefix: str = "") -> Statement:
    """Read MERGE INTO. Raises SqlSyntaxError."""
    cursor.expect("MERGE")
    evolves = cursor.take("WITH", "SCHEMA", "EVOLUTION")
    cursor.expect("INTO")
    cursor.take("TABLE")
    name = cursor.name()
    if evolves:
        instead = "Add the columns first, with ALTER TABLE … ADD COLUMNS, then MERGE"
        return UnsupportedStatement(cursor.sql, (name,), "MERGE WITH SCHEMA EVOLUTION", instead)
    alias = None
    if not cursor.at("USING"):
        cursor.take("AS")
        alias = cursor.identifier("an alias, or USING")
    cursor.expect("USING")
    first = cursor.index
    source = expression(cursor, "ON")
    source_alias = visible_name(cursor.tokens[first : cursor.index])
    cursor.expect("ON")
    condition = expression(cursor, "WHEN")
    clauses = []
    while cursor.take("WHEN"):
        clauses.append(_when_clause(cursor))
    if not clauses:
        cursor.fail("WHEN MATCHED or WHEN NOT MATCHED")
    cursor.end()
    _check_conditions(cursor, clauses)
    return Merge(cursor.sql, name, alias, source, source_alias, condition, tuple(clauses), prefix)


def _when_clause(cursor: Cursor) -> WhenClause:
    matched = Matched.BOTH
    if cursor.take("NOT", "MATCHED"):
        matched = Matched.SOURCE
        if cursor.take("BY", "SOURCE"):
            matched = Matched.TARGET
        else:
            cursor.take("BY", "TARGET")
    else:
        cursor.expect("MATCHED")
    condition = expression(cursor, "THEN") if cursor.take("AND") else None
    cursor.expect("THEN")
    if matched is Matched.SOURCE:
        cursor.expect("INSERT")
        return WhenClause(matched, Action.INSERT, condition, _insert_action(cursor))
    if cursor.take("DELETE"):
        return WhenClause(matched, Action.DELETE, condition)
    cursor.expect("UPDATE", "SET")
    if matched is Matched.BOTH and cursor.take("*"):
        return WhenClause(matched, Action.UPDATE, condition)
    return WhenClause(matched, Action.UPDATE, condition, assignments(cursor, "WHEN"))


def _insert_action(cursor: Cursor) -> tuple[Assignment, ...] | None:
    if cursor.take("*"):
        return None
    columns = cursor.parenthesised_list(lambda: column_path(cursor))
    cursor.expect("VALUES")
    values = cursor.parenthesised_list(lambda: expression(cursor, ","))
    if len(columns) != len(values):
        cursor.fail(f"{len(columns)} values for the named columns instead of {len(values)}")
    return tuple(map(Assignment, columns, values))


def _check_conditions(cursor: Cursor, clauses: Sequence[WhenClause]) -> None:
    """Only the last clause of each kind may lack a condition: clauses behind it would never apply."""
    for kind in Matched:
        of_kind = [c for c in clauses if c.matched is kind]
        if any(c.condition is None for c in of_kind[:-1]):
            cursor.fail(f"a condition in every WHEN {kind.value} but the last: the others would never apply")


def visible_name(tokens: Sequence[Token]) -> str | None:
    """The name of a relation in conditions: its alias, or the last part of its name; None when it has neither."""
    last = tokens[-1]
    if last.keyword == ")" and tokens[0].keyword != "(":
        return _alias_before_columns(tokens)
    is_alias = last.is_name and not last.is_number and not last.is_text
    if len(tokens) > 1 and is_alias and tokens[-2].keyword not in (".", "$"):
        return last.text
    if len(tokens) > 2 and tokens[0].keyword == "(" and last.keyword == ")":
        return _alias_before_columns(tokens)
    name = ""
    for i, token in enumerate(tokens):
        if i % 2 == 0 and token.is_name:
            name += token.text
        elif token.keyword == ".":
            name = ""
        elif token.keyword == "$":
            name += "$"
        else:
            break
    return name or None


def _alias_before_columns(tokens: Sequence[Token]) -> str | None:
    """The alias of `… alias (a, b)`; None when the brackets at the end are not a list of columns."""
    index = opening_bracket(tokens, len(tokens) - 1)
    if index is None or index < 2 or not tokens[index - 1].is_name or tokens[index - 2].keyword == ".":
        return None
    return tokens[index - 1].text
