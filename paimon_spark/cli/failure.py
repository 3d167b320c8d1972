"""Errors → exit codes and what people or programs read of them."""

from __future__ import annotations

import json
from enum import IntEnum

from paimon_spark.cli.answer import plain
from paimon_spark.cli.text import safe
from paimon_spark.errors import (
    AlreadyExistsError,
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


MEANINGS = {
    Exit.DONE: "done; `diff`: both are the same; `doctor`: nothing is wrong",
    Exit.FOUND: "`diff`: there are differences; `doctor`: there are findings",
    Exit.USAGE: "wrong usage, or refused: what was asked cannot be done, or was not confirmed",
    Exit.NOT_FOUND: "a table, branch, tag, snapshot or anything else that was named does not exist",
    Exit.CONFLICT: "somebody else was faster, or is at work: the same command may succeed later",
    Exit.STORE: "the store failed, or a file in it is missing or damaged",
    Exit.BUG: "an error of this program; `--verbose` shows where",
    Exit.INTERRUPTED: "interrupted by Ctrl-C",
    Exit.CLOSED: "whoever read the output closed it",
}
"""What each code means, for the reference."""


class UsageError(InvalidInputError):
    """The command is written wrongly."""

    kind = "usage"


class NoWarehouseError(NotFoundError):
    """The directory that is said to be the warehouse does not exist."""

    kind = "warehouse-not-found"


class NotConfirmedError(PaimonError):
    """Something would have been taken away, and nobody said yes. Nothing was changed."""

    kind = "not-confirmed"


def exit_code(error: BaseException) -> Exit:
    """The exit code that an error leads to."""
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
            | UnsupportedFeatureError()
            | LineageError()
            | NotConfirmedError()
        ):
            return Exit.USAGE
        case PaimonError() | OSError():
            return Exit.STORE
        case _:
            return Exit.USAGE if _is_of_spark(error) else Exit.BUG


def told(error: BaseException, as_json: bool) -> str:
    """What is written to stderr."""
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


_IN_A_SHELL = (
    ("ignore_if_exists=True", "--if-not-exists"),
    ("cascade=True", "--cascade"),
    ("replace_tag moves it, delete_tag deletes it", "`tag replace` moves it, `tag delete` deletes it"),
)
"""What the library tells its callers to do, and how a shell does it."""


def _message(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    text = str(error).strip()
    for of_python, of_shell in _IN_A_SHELL if isinstance(error, PaimonError) else ():
        text = text.replace(of_python, of_shell)
    if _is_of_spark(error):
        return text.split("\n\nJVM stacktrace", 1)[0].split("\nJVM stacktrace", 1)[0]
    if isinstance(error, PaimonError | OSError) and text:
        return text
    return f"{type(error).__name__}: {text}; --verbose shows where it comes from"


def told_by_spark(error: BaseException) -> BaseException:
    """The error of this package whose trace Spark's shows, else the error itself."""
    if not _is_of_spark(error):
        return error
    from paimon_spark.sql.queries.errors import raised_in

    return raised_in(error) or error


def _is_of_spark(error: BaseException) -> bool:
    return any(t.__module__.startswith("pyspark.errors") for t in type(error).__mro__)
