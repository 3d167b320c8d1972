"""All commands; also those that are not operations: sql, call, version, completion."""

from __future__ import annotations

import platform
import sys
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

from paimon_spark import __version__
from paimon_spark.cli.help import SHELLS, completion
from paimon_spark.cli.request import NOTHING, has_terminal, print_answer, rows_answer
from paimon_spark.cli.session import interruptible, spark_session
from paimon_spark.errors import WarehouseNotFoundError
from paimon_spark.operations import OPERATIONS
from paimon_spark.operations.answer import Answer, facts, lines
from paimon_spark.operations.operation import Argument, Effect, Operation, Request, Subject, UsageError, positional
from paimon_spark.operations.tables import first_rows, limit_of
from paimon_spark.spark_port import check_installed
from paimon_spark.text import safe

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PACKAGES: Final = ("pyspark", "pyarrow", "fsspec", "sqlglot")


@cache
def commands() -> tuple[Operation, ...]:
    """Every command, in the order in which help lists them."""
    found = [o for o in OPERATIONS if o.command]
    ours = [c for c in found if not c.is_action]
    return (*ours, *PROGRAM, *(c for c in found if c.is_action))


def _sql(a: Request) -> DataFrame | None:
    """Run the statements, and return the rows of the last; None after statements typed on a terminal."""
    if a["statement"] is None and a["file"] is None and has_terminal():
        _typed(a)
        return None
    statements = _statements(a)
    catalog = a.catalog(may_create=any(map(_creates_database, statements)))
    check_installed()
    from paimon_spark.sql.execute import execute

    session = spark_session(verbose=a["verbose"])
    *first, last = statements
    for statement in first:
        execute(catalog, statement, None, session)
    return execute(catalog, last, None, session)


def _typed(a: Request) -> None:
    """Run the statements that are typed, and print the rows of each."""
    from paimon_spark.cli.progress import showing_progress
    from paimon_spark.cli.repl import run_statements
    from paimon_spark.sql.execute import execute

    missing: WarehouseNotFoundError | None = None
    try:
        catalog = a.catalog()
    except WarehouseNotFoundError as e:  # CREATE DATABASE makes it
        missing, catalog = e, a.catalog(may_create=True)
    session = spark_session(verbose=a["verbose"])
    if not a["quiet"]:
        about = f"SQL on warehouse {safe(catalog.warehouse)}; statements end with ;, exit or Ctrl-D leaves"
        print(about if missing is None else f"warning: {safe(str(missing))}", file=sys.stderr)

    def run(statement: str) -> None:
        with interruptible(session), showing_progress(quiet=a["quiet"], as_json=a["json"]):
            found = _show_frame(a, execute(catalog, statement, None, session))
        print_answer(found, as_json=a["json"])

    run_statements(run, as_json=a["json"], verbose=a["verbose"])


def _show_frame(a: Request, frame: DataFrame | None) -> Answer:
    if frame is None:
        return NOTHING
    if not frame.columns:
        return lines("done", [])
    limit = a["limit"]
    table = (frame if limit is None else frame.limit(limit + 1)).toArrow()
    # Two columns of a query may have one name.
    names = [n if frame.columns.count(n) == 1 else f"{n}_{i}" for i, n in enumerate(frame.columns)]
    return first_rows(names, iter(table.to_batches()), limit)


def _statements(a: Request) -> list[str]:
    given, file = a["statement"], a["file"]
    if given is not None and file is not None:
        raise UsageError("sql takes a statement or --file, not both; see `paimon-spark sql --help`")
    if file is None:
        is_input = given in (None, "-")
        return split(("" if sys.stdin is None else sys.stdin.read()) if is_input else given)
    try:
        return split(Path(file).read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as e:
        raise UsageError(f"file {file} cannot be read: {e}") from e


def _creates_database(statement: str) -> bool:
    from paimon_spark.sql.tokens import tokenize

    first = [word.keyword for word in tokenize(statement)[:2]]
    return first[:1] == ["CREATE"] and first[1:] in (["DATABASE"], ["SCHEMA"])


def split(text: str) -> list[str]:
    """Split statements at `;` as `split_statements` does. Raises UsageError for a text without statements."""
    from paimon_spark.sql.tokens import split_statements

    found = split_statements(text)
    if not found:
        raise UsageError("there is no SQL statement; give one as argument, in --file, or on stdin")
    return found


def _call(a: Request) -> Answer:
    from paimon_spark.sql.procedures import call, find_procedure

    named, positional = list[tuple[str, object]](), list[object]()
    for word in a["arguments"]:
        name, equals, value = word.partition("=")
        if equals and name.strip().replace("_", "").replace("-", "").isalnum():
            named.append((name.strip().removeprefix("--").replace("-", "_"), value))
        elif named:
            raise UsageError(f"{word!r}: arguments without a name come before those with one")
        else:
            positional.append(word)
    procedure = a["procedure"].lower().replace("-", "_").removeprefix("sys.")
    find_procedure(procedure)  # an unknown name is reported before the warehouse is looked for
    returned = call(a.catalog(), procedure, positional, named)
    return rows_answer(returned.columns, list(returned.rows), empty=f"{procedure}: no rows")


def _versions(a: Request) -> dict[str, str]:
    packages = {name: _version_of(name) for name in _PACKAGES}
    return {"paimon-spark": __version__, "python": platform.python_version(), **packages}


def _version_of(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


PROGRAM: Final = (
    Operation(
        "run SQL statements, as catalog.sql does; starts Spark",
        _sql,
        (
            positional("statement", "statement, or several separated by ;", required=False, otherwise="stdin"),
            Argument("file", "file with the statements", spellings=("-f",)),
            Argument(
                "limit", "how many rows to print at most, or all", default=1000, parse=limit_of, spellings=("-n",)
            ),
        ),
        Effect.WRITE,
        Subject.WAREHOUSE,
        details="The rows of the last statement are printed. Without a statement, statements are read from stdin; on a "
        "terminal they are typed, and each is run when it ends with ;.",
        command="sql",
        show=_show_frame,
    ),
    Operation(
        "call a procedure of Paimon, as CALL sys.… does, without Spark",
        _call,
        (
            positional("procedure", "its name, such as create_tag"),
            positional(
                "arguments",
                "name=value, such as table=db.t, or values in order",
                required=False,
                repeated=True,
                metavar="ARGUMENT",
            ),
        ),
        Effect.WRITE,
        Subject.WAREHOUSE,
        command="call",
        show=lambda a, answer: answer,
    ),
    Operation(
        "print versions", _versions, subject=Subject.NOTHING, command="version", show=lambda a, found: facts(found)
    ),
    Operation(
        "print a script that completes commands in a shell",
        lambda a: completion(a["shell"], commands()),
        (positional("shell", "the shell", choices=SHELLS),),
        subject=Subject.NOTHING,
        details='For bash: eval "$(paimon-spark completion bash)". For fish: paimon-spark completion fish | source.',
        command="completion",
        show=lambda a, script: lines(script.splitlines(), {"shell": a["shell"], "script": script}),
    ),
    Operation(
        "print the path of the script that runs any command as a Spark job",
        lambda a: str(Path(__file__).resolve().parent / "job.py"),
        subject=Subject.NOTHING,
        details='spark-submit "$(paimon-spark job-script)" compact db.t --warehouse s3://lake/wh',
        command="job-script",
        show=lambda a, path: lines(path, {"path": path}),
    ),
)
