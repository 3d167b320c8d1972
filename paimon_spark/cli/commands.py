"""All commands; also those that are not operations: sql, call, version, completion.

`paimon-spark sql` without a statement reads statements that are typed on a terminal, one after the other.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

from paimon_spark import __version__
from paimon_spark.cli.exit_codes import print_error
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

PROMPT: Final = "sql> "
_CONTINUED: Final = "...> "
_ENDS: Final = ("exit", "quit")
_HISTORY_LINES: Final = 1000
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
    from paimon_spark.cli.commands import run_statements
    from paimon_spark.cli.progress import showing_progress
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


def run_statements(run: Callable[[str], None], *, as_json: bool = False, verbose: bool = False) -> None:
    """Read statements, which end with `;`, until `exit` or the end of the input, and run each.

    An error is printed, and the next statement is read. Ctrl-C drops what was typed, or interrupts the statement that
    runs, with its jobs.
    """
    from paimon_spark.sql.tokens import split_statements

    history = _History()
    text = ""
    while True:
        try:
            line = _read(_CONTINUED if text else PROMPT)
        except KeyboardInterrupt:
            print(file=sys.stderr)
            text = ""
            continue
        if line is None or (not text and line.strip().rstrip(";").strip().lower() in _ENDS):
            break
        text += line + "\n"
        if not _is_complete(text):
            continue
        try:
            for statement in split_statements(text):
                run(statement)
                sys.stdout.flush()
        except (KeyboardInterrupt, Exception) as e:  # noqa: BLE001 - the next statement is read in any case
            print_error(e, as_json=as_json, verbose=verbose)
        text = ""
    history.save()


def _read(prompt: str) -> str | None:
    """The next line without its end; None at the end of the input."""
    if sys.stdout.isatty():
        try:
            return input(prompt)
        except EOFError:
            print()
            return None
    print(prompt, end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    return line.removesuffix("\n") if line else None


def _is_complete(text: str) -> bool:
    """Whether the text ends with the `;` of its last statement, or has none."""
    from paimon_spark.errors import SqlSyntaxError
    from paimon_spark.sql.tokens import split_statements, tokenize

    try:
        split_statements(text)  # raises inside quotes, comments and blocks
        tokens = tokenize(text)
    except SqlSyntaxError:
        return False
    return not tokens or tokens[-1].keyword == ";"


class _History:
    """The lines typed before, which the arrow keys bring back, where Python has `readline`."""

    def __init__(self) -> None:
        home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
        self._path = Path(home) / "paimon-spark" / "sql_history"
        try:
            import readline
        except ImportError:  # Windows
            self._readline = None
            return
        self._readline = readline
        readline.set_history_length(_HISTORY_LINES)
        with suppress(OSError):
            readline.read_history_file(self._path)

    def save(self) -> None:
        """Write the lines to the file. One that cannot be written is left out."""
        if self._readline is None:
            return
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._readline.write_history_file(self._path)
