"""SQL statements, by Spark, and procedures, without it where that can be."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paimon_spark.cli.answer import Answer, rows, sentence
from paimon_spark.cli.call import Call
from paimon_spark.cli.command import Argument, Command, Kind, Scope
from paimon_spark.cli.commands.show import limit_of, some_rows
from paimon_spark.cli.failure import UsageError
from paimon_spark.cli.text import safe

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def _sql(call: Call) -> Answer:
    statements = _statements(call)
    catalog = call.catalog(may_make=any(map(_makes_a_database, statements)))
    from paimon_spark.cli.session import spark_session
    from paimon_spark.sql.execute import execute

    session = spark_session()
    answer = sentence("done", [])
    for statement in statements:
        answer = _shown(execute(catalog, statement, None, session), call["limit"])
    return answer


def _shown(frame: DataFrame, limit: int | None) -> Answer:
    if not frame.columns:
        return sentence("done", [])
    table = (frame if limit is None else frame.limit(limit + 1)).toArrow()
    found, has_more = some_rows(iter(table.to_batches()), limit)
    note = f"and more; --limit shows other than {limit} rows" if has_more else ""
    # Two columns of a query may have one name.
    names = [n if frame.columns.count(n) == 1 else f"{n}_{i}" for i, n in enumerate(frame.columns)]
    return rows(names, found, empty="no rows", note=note)


def _statements(call: Call) -> list[str]:
    if (call["statement"] is None) == (call["file"] is None):
        raise UsageError("sql needs one of a statement and --file; `paimon-spark sql --help` shows how")
    if call["statement"] is not None:
        return split(sys.stdin.read() if call["statement"] == "-" else call["statement"])
    try:
        return split(Path(call["file"]).read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as e:
        raise UsageError(f"file {call['file']} cannot be read: {e}") from e


def _makes_a_database(statement: str) -> bool:
    from paimon_spark.sql.tokens import tokenize

    first = [word.keyword for word in tokenize(statement)[:2]]
    return first[:1] == ["CREATE"] and first[1:] in (["DATABASE"], ["SCHEMA"])


def split(text: str) -> list[str]:
    """Statements with `;` between, as `split_statements` finds them. Raises UsageError: there is none."""
    from paimon_spark.sql.tokens import split_statements

    found = split_statements(text)
    if not found:
        raise UsageError("there is no SQL statement")
    return found


def _call(call: Call) -> Answer:
    named, positional = list[tuple[str, str]](), list[str]()
    for word in call["arguments"]:
        name, equals, value = word.partition("=")
        if equals and name.strip().replace("_", "").replace("-", "").isalnum():
            named.append((name.strip().removeprefix("--").replace("-", "_"), value))
        elif named:
            raise UsageError(f"{word!r}: arguments without a name come before those with one")
        else:
            positional.append(word)
    return run_procedure(call, call["procedure"], positional, named)


def run_procedure(
    call: Call, name: str, positional: Sequence[str] = (), named: Sequence[tuple[str, str]] = ()
) -> Answer:
    """Run a procedure, and show its rows. Spark starts only for those that need it."""
    from paimon_spark.errors import UnsupportedFeatureError
    from paimon_spark.metadata.definition.ddl import row_type
    from paimon_spark.sql.call_context import CallContext
    from paimon_spark.sql.procedures.binding import bind
    from paimon_spark.sql.procedures.registry import find_procedure

    found = find_procedure(name.lower().replace("-", "_").removeprefix("sys."))
    if not found.is_supported:
        raise UnsupportedFeatureError(
            f"procedure {found.name} cannot be done here: {found.instead}", feature=found.name
        )
    form, arguments = bind(found, positional, named)
    catalog = call.catalog()
    where = CallContext(catalog)
    if form.needs_spark:
        from paimon_spark.cli.session import spark_session
        from paimon_spark.sql.session import Session

        where = CallContext.of(Session.of(catalog, spark_session()))
    values: list[tuple[Any, ...]] = [tuple(row) for row in form.run(where, arguments)]
    return rows(row_type(form.result).names, values, empty=f"{safe(form.name)}: no rows")


COMMANDS = (
    Command(
        "sql",
        None,
        "run SQL statements, as catalog.sql does; starts Spark",
        _sql,
        (
            Argument("statement", "statement, or several with ; between; - reads them from stdin", positional=True),
            Argument("file", "file with the statements", spellings=("-f",)),
            Argument("limit", "at most so many rows, or all", default=1000, parse=limit_of, spellings=("-n",)),
        ),
        Kind.WRITE,
        Scope.WAREHOUSE,
        details="The rows of the last statement are printed.",
    ),
    Command(
        "call",
        None,
        "run a procedure of Paimon, as CALL sys.… does; most need no Spark",
        _call,
        (
            Argument("procedure", "its name, such as create_tag", positional=True, required=True),
            Argument(
                "arguments",
                "name=value, such as table=db.t, or values in order",
                positional=True,
                repeated=True,
                metavar="ARGUMENT",
            ),
        ),
        Kind.WRITE,
        Scope.WAREHOUSE,
    ),
)
