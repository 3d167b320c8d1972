"""Grammar of EXECUTE IMMEDIATE."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.grammar.clauses import expression
from paimon_spark.sql.statement import Statement


@dataclass(frozen=True, slots=True)
class ExecuteImmediate(Statement):
    """EXECUTE IMMEDIATE: the expression of the text, values of its parameters with their names, variables after INTO.

    A parameter by position has the name None.
    """

    text: str
    arguments: tuple[tuple[str | None, str], ...] = ()
    variables: tuple[str, ...] = ()


def read_execute_immediate(cursor: Cursor) -> ExecuteImmediate:
    """Read EXECUTE IMMEDIATE. Raises SqlSyntaxError."""
    text = expression(cursor, "INTO", "USING")
    variables: list[str] = []
    if cursor.take("INTO"):
        variables = cursor.listed(lambda: ".".join(cursor.name("the name of a variable")))
    arguments: list[tuple[str | None, str]] = []
    if cursor.take("USING"):
        arguments = cursor.parenthesised_list(lambda: _argument(cursor)) if _is_list(cursor) else _arguments(cursor)
    if any((name is None) is not (arguments[0][0] is None) for name, _ in arguments):
        cursor.fail("a name behind every value of USING, or behind none")
    names = [name for name, _ in arguments if name is not None]
    if len(set(names)) < len(names):
        cursor.fail("a different name behind every value of USING")
    return ExecuteImmediate(cursor.sql, text, tuple(arguments), tuple(variables))


def _arguments(cursor: Cursor) -> list[tuple[str | None, str]]:
    return cursor.listed(lambda: _argument(cursor))


def _argument(cursor: Cursor) -> tuple[str | None, str]:
    value = expression(cursor, ",", "AS")
    return (cursor.identifier("the name of a parameter") if cursor.take("AS") else None), value


def _is_list(cursor: Cursor) -> bool:
    """Whether the values are in brackets, up to the end of the statement."""
    if not cursor.at("("):
        return False
    at = cursor.index
    cursor.parenthesised()
    is_list, cursor.index = cursor.at_end, at
    return is_list
