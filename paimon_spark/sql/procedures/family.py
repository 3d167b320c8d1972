"""Read and run CALL sys.<procedure>(…)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from paimon_spark.errors import SqlSyntaxError
from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.literals import evaluate
from paimon_spark.sql.names import CATALOG
from paimon_spark.sql.procedures.registry import PROCEDURES, call, find_procedure
from paimon_spark.sql.procedures.statements import Call

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.sql.session import Session

_DATABASE: Final = "sys"
_PLACES: Final = ((_DATABASE,), (CATALOG, _DATABASE))


def read_call(cursor: Cursor) -> Call | None:
    """Read a call of one of Paimon's procedures; None for one of another catalog. Raises SqlSyntaxError."""
    cursor.expect("CALL")
    *place, name = cursor.name("the name of a procedure")
    if not place and name.lower() in PROCEDURES:
        raise SqlSyntaxError(f"procedures are in the database sys: write CALL sys.{name}(…)", sql=cursor.sql)
    if tuple(p.lower() for p in place) not in _PLACES:
        return None
    cursor.expect("(")
    positional: list[str] = []
    named: list[tuple[str, str]] = []
    while not cursor.at(")"):
        argument = _name_of_argument(cursor)
        if argument is None and named:
            cursor.fail("name => value, as arguments without names come first")
        text = cursor.until(",", ")")
        if not text:
            cursor.fail("a value")
        if argument is None:
            positional.append(text)
        else:
            named.append((argument, text))
        if not cursor.take(","):
            break
        if cursor.at(")"):
            cursor.fail("an argument")
    cursor.expect(")")
    cursor.end()
    return Call(cursor.sql, name, tuple(positional), tuple(named))


def _name_of_argument(cursor: Cursor) -> str | None:
    """Go past `name =>`, and give the name; None when no name comes next."""
    start = cursor.index
    if cursor.token is not None and cursor.token.is_name:
        name = cursor.identifier()
        if cursor.take("=>"):
            return name
    cursor.index = start
    return None


def run_call(session: Session, statement: Call) -> DataFrame:
    """Run the procedure, and give what it returns. Raises as `registry.call`."""
    find_procedure(statement.name)  # an unknown one is said before its arguments are looked at
    values = evaluate(session, [*statement.positional, *(text for _, text in statement.named)])
    count = len(statement.positional)
    names = [name for name, _ in statement.named]
    done = call(session, statement.name, values[:count], list(zip(names, values[count:], strict=True)))
    return session.rows(done.result, done.rows)
