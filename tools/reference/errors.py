"""The tree of errors → docs/reference/errors.md."""

from __future__ import annotations

import ast
import inspect
from typing import Final

from paimon_spark import errors
from paimon_spark.errors import PaimonError
from tools.reference.text import code, page, table

WHAT_TO_DO: Final = {
    "PaimonError": "Catch it to catch everything that this package raises on purpose.",
    "NotFoundError": "Correct the name; the message offers the nearest ones.",
    "SnapshotExpiredError": "Take a snapshot that is alive, a tag or a savepoint; the message names the range.",
    "AlreadyExistsError": "Take another name, or ask to ignore it.",
    "InvalidInputError": "Correct the call. It is a `ValueError` too.",
    "UnsupportedFeatureError": "Do what the message says instead; `context['feature']` names the feature.",
    "FormatError": "Look at the file that the message names.",
    "CorruptFileError": "Restore the file, or roll back to a version that does not need it.",
    "UnknownFormatVersionError": "Use a newer paimon-spark.",
    "DataError": "Correct the rows.",
    "CommitError": "Ask the subclass.",
    "CommitConflictError": "Nothing was committed: read again, and write again.",
    "CommitRetriesExhaustedError": "Nothing was committed: call again later.",
    "CommitOutcomeUnknownError": "Look at the snapshots before writing again.",
    "UnsafeDeletionError": "Nothing was deleted: run `doctor`, mend what it finds, call again.",
    "OperationInProgressError": "Wait for the other process, and call again.",
    "StreamError": "Ask the subclass.",
    "HistoryChangedError": "Start a new checkpoint, where the message says.",
    "OffsetError": "Use the checkpoint with the table and options it was made with.",
    "BatchesLostError": "Run the lost batches again from a new checkpoint, or accept it: `write.stream.lost-batches`.",
    "SchemaChangedError": "Restart the query.",
    "LineageError": "Switch lineage on, or ask as the message says.",
    "StorageError": "`retryable` says whether the same call may succeed later.",
}
"""What a caller does about a class of errors; a class without a sentence of its own does what its base does."""


def errors_page() -> str:
    """The page."""
    rows = [
        ("&nbsp;" * 4 * depth + code(cls.__name__), code(cls.kind), _what(cls), WHAT_TO_DO.get(cls.__name__, ""))
        for depth, cls in tree(PaimonError)
    ]
    return page("Errors", _INTRODUCTION, table(("class", "kind", "what it says", "what to do"), rows))


_INTRODUCTION: Final = """
Everything that this package raises on purpose is a `PaimonError` of `paimon_spark.errors`. The class says what a caller
can do next, `kind` is a stable code for programs, `context` holds what the message speaks of (path, table, branch,
ids). A message says what was asked, on which table and branch, what was found, and what to do. Through Spark an
error arrives as text, with the same message. A class without a sentence is handled as the one that it stands under.
"""


def tree(cls: type[PaimonError], depth: int = 0) -> list[tuple[int, type[PaimonError]]]:
    """`cls` and everything below it, as they stand in the file."""
    stated = [c for c in vars(errors).values() if inspect.isclass(c) and issubclass(c, PaimonError)]
    below = [c for c in stated if c.__bases__[0] is cls]
    out = [(depth, cls)]
    for c in below:
        out += tree(c, depth + 1)
    return out


def _what(cls: type[PaimonError]) -> str:
    source = next(
        node
        for node in ast.parse(inspect.getsource(errors)).body
        if isinstance(node, ast.ClassDef) and node.name == cls.__name__
    )
    doc = ast.get_docstring(source) or ""
    return doc.split("\n\n")[0]
