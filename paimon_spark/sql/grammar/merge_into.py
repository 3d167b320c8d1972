"""Text → MERGE."""

from __future__ import annotations

from collections.abc import Sequence

from paimon_spark.sql.tokens import opening
from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.rows.pieces import assignments, expressions, names, piece
from paimon_spark.sql.grammar.write import Action, Assignment, Matched, Merge, Refused, WhenClause
from paimon_spark.sql.statement import Statement
from paimon_spark.sql.tokens import Word


def read_merge(cursor: Cursor, prefix: str = "") -> Statement:
    """MERGE INTO … . Raises SqlSyntaxError."""
    cursor.expect("MERGE")
    evolves = cursor.take("WITH", "SCHEMA", "EVOLUTION")
    cursor.expect("INTO")
    cursor.take("TABLE")
    name = cursor.name()
    if evolves:
        return Refused(
            cursor.sql,
            (name,),
            "MERGE WITH SCHEMA EVOLUTION",
            "Add the columns first, with ALTER TABLE … ADD COLUMNS, then MERGE",
        )
    alias = None
    if not cursor.at("USING"):
        cursor.take("AS")
        alias = cursor.identifier("an alias, or USING")
    cursor.expect("USING")
    first = cursor.index
    source = piece(cursor, "ON")
    source_alias = alias_of(cursor.words[first : cursor.index])
    cursor.expect("ON")
    condition = piece(cursor, "WHEN")
    clauses = []
    while cursor.take("WHEN"):
        clauses.append(_clause(cursor))
    if not clauses:
        cursor.fail("WHEN MATCHED or WHEN NOT MATCHED")
    cursor.end()
    _check_order(cursor, clauses)
    return Merge(cursor.sql, name, alias, source, source_alias, condition, tuple(clauses), prefix)


def _clause(cursor: Cursor) -> WhenClause:
    matched = Matched.BOTH
    if cursor.take("NOT", "MATCHED"):
        matched = Matched.SOURCE
        if cursor.take("BY", "SOURCE"):
            matched = Matched.TARGET
        else:
            cursor.take("BY", "TARGET")
    else:
        cursor.expect("MATCHED")
    condition = piece(cursor, "THEN") if cursor.take("AND") else None
    cursor.expect("THEN")
    if matched is Matched.SOURCE:
        cursor.expect("INSERT")
        return WhenClause(matched, Action.INSERT, condition, _inserted(cursor))
    if cursor.take("DELETE"):
        return WhenClause(matched, Action.DELETE, condition)
    cursor.expect("UPDATE", "SET")
    if matched is Matched.BOTH and cursor.take("*"):
        return WhenClause(matched, Action.UPDATE, condition)
    return WhenClause(matched, Action.UPDATE, condition, assignments(cursor, "WHEN"))


def _inserted(cursor: Cursor) -> tuple[Assignment, ...] | None:
    if cursor.take("*"):
        return None
    columns = names(cursor)
    cursor.expect("VALUES")
    values = expressions(cursor)
    if len(columns) != len(values):
        cursor.fail(f"{len(columns)} values, for the columns named, and not {len(values)}")
    return tuple(map(Assignment, columns, values))


def _check_order(cursor: Cursor, clauses: Sequence[WhenClause]) -> None:
    """Only the last clause of each kind may be without a condition: those behind it would never count."""
    for kind in Matched:
        of_kind = [c for c in clauses if c.matched is kind]
        if any(c.condition is None for c in of_kind[:-1]):
            cursor.fail(f"a condition in every WHEN {kind.value} but the last: the others would never count")


def alias_of(words: Sequence[Word]) -> str | None:
    """What the relation of these words is called: its alias, or the last part of its name."""
    end = len(words)
    if words[-1].keyword == ")" and words[0].keyword != "(":
        return _before_columns(words)
    last = words[-1]
    if end > 1 and last.is_name and not last.is_number and not last.is_text and words[-2].keyword not in (".", "$"):
        return last.text
    if end > 2 and words[0].keyword == "(" and last.keyword == ")":
        return _before_columns(words)
    name = ""
    for i, word in enumerate(words):
        if i % 2 == 0 and word.is_name:
            name += word.text
        elif word.keyword == ".":
            name = ""
        elif word.keyword == "$":
            name += "$"
        else:
            break
    return name or None


def _before_columns(words: Sequence[Word]) -> str | None:
    """The alias of `… alias (a, b)`; None where the brackets at the end are no list of columns."""
    index = opening(words, len(words) - 1)
    if index is None or index < 2 or not words[index - 1].is_name or words[index - 2].keyword == ".":
        return None
    return words[index - 1].text
