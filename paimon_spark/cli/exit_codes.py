"""Exit codes of errors, and their text or JSON on stderr."""

from __future__ import annotations

import json
import sys
import traceback
from enum import IntEnum

from paimon_spark.advice import Entrance, reworded
from paimon_spark.errors import (
    AlreadyExistsError,
    BranchDivergedError,
    CommitConflictError,
    CommitRetriesExhaustedError,
    HistoryChangedError,
    InvalidInputError,
    LineageError,
    NotFoundError,
    OperationInProgressError,
    PaimonError,
    UnsupportedFeatureError,
)
from paimon_spark.operations.answer import plain
from paimon_spark.text import safe


class Exit(IntEnum):
    """Exit codes."""

    DONE = 0
    FOUND = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    STORE = 5
    BUG = 70
    INTERRUPTED = 130
    CLOSED = 141


EXIT_CODES = {
    Exit.DONE: "success; `diff`: no differences; `doctor`: no findings",
    Exit.FOUND: "`diff`: differences; `doctor`: findings",
    Exit.USAGE: "wrong usage, unsupported, or not confirmed",
    Exit.NOT_FOUND: "a table, branch, tag, snapshot or anything else that was named does not exist",
    Exit.CONFLICT: "conflict with another process: the same command may succeed later",
    Exit.STORE: "the store failed, or a file in it is missing or damaged",
    Exit.BUG: "a bug of this program; `--verbose` shows the traceback",
    Exit.INTERRUPTED: "interrupted by Ctrl-C",
    Exit.CLOSED: "the reader of the output closed it",
}
"""What each code means."""


class NotConfirmedError(PaimonError):
    """A command that deletes something was not confirmed, and changed nothing."""

    kind = "not-confirmed"


def exit_code(error: BaseException) -> Exit:
    """The exit code of an error."""
    match error:
        case KeyboardInterrupt():
            return Exit.INTERRUPTED
        case BrokenPipeError():
            return Exit.CLOSED
        case NotFoundError():
            return Exit.NOT_FOUND
        case CommitConflictError() | CommitRetriesExhaustedError() | OperationInProgressError() | HistoryChangedError():
            return Exit.CONFLICT
        case (
            InvalidInputError()
            | AlreadyExistsError()
            | BranchDivergedError()
            | UnsupportedFeatureError()
            | LineageError()
            | NotConfirmedError()
        ):
            return Exit.USAGE
        case PaimonError() | OSError():
            return Exit.STORE
        case _:
            return Exit.USAGE if _is_of_spark(error) else Exit.BUG


def print_error(error: BaseException, *, as_json: bool, verbose: bool) -> None:
    """Print an error on stderr, with its traceback if `verbose`."""
    if verbose:
        traceback.print_exception(error, file=sys.stderr)
    print(error_text(reported(error), as_json), file=sys.stderr)


def error_text(error: BaseException, as_json: bool) -> str:
    """The error as stderr shows it."""
    if as_json:
        context = plain(error.context) if isinstance(error, PaimonError) else {}
        return json.dumps({"error": {"kind": _kind(error), "message": _message(error), "context": context}})
    return "\n".join(("" if i else "error: ") + safe(line) for i, line in enumerate(_message(error).splitlines()))


def _kind(error: BaseException) -> str:
    match error:
        case PaimonError():
            return error.kind
        case KeyboardInterrupt():
            return "interrupted"
        case OSError():
            return "storage-error"
        case _:
            return "spark-error" if _is_of_spark(error) else "internal-error"


def _message(error: BaseException) -> str:
    text = str(error).strip()
    if isinstance(error, PaimonError):
        text = reworded(text, Entrance.COMMAND, str(error.context.get("table", "TABLE")))
    if isinstance(error, KeyboardInterrupt):
        text = reworded(text, Entrance.COMMAND)
        return f"interrupted: {text}" if text else "interrupted"
    if _is_of_spark(error):
        return _first_line(text)
    if isinstance(error, PaimonError | OSError) and text:
        return text
    return f"{type(error).__name__}: {text}; --verbose shows the traceback"


def _first_line(text: str) -> str:
    """The first line of an error of Spark, which has the cause and the position; and the error of Python in it."""
    head, found, rest = text.partition("\nTraceback (most recent call last):")
    raised = next((line for line in rest.splitlines() if line and not line[0].isspace()), "")
    first = head.strip().partition("\n")[0]
    return f"{first} {raised}" if found and raised else first


def reported(error: BaseException) -> BaseException:
    """The error to report: an interrupt that caused this one, or the error of this package that Spark wraps."""
    cause: BaseException | None = error
    seen: list[BaseException] = []  # causes may be a circle
    while cause is not None and not any(cause is known for known in seen):
        if isinstance(cause, KeyboardInterrupt):  # the jobs that it cancels fail
            return cause
        seen.append(cause)
        cause = cause.__cause__ or cause.__context__
    if not _is_of_spark(error):
        return error
    from paimon_spark.spark.session import unwrapped

    return unwrapped(error) or error


def _is_of_spark(error: BaseException) -> bool:
    return any(t.__module__.startswith("pyspark.errors") for t in type(error).__mro__)
