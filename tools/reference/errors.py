"""The tree of errors → docs/reference/errors.md."""

from __future__ import annotations

import ast
import inspect
from typing import Final

from paimon_spark import errors
from paimon_spark.errors import PaimonError
from tools.reference.text import code, page, table

WHAT_TO_DO: Final = {
    "PaimonError": "Catch it to handle all errors of this package.",
    "NotFoundError": "Correct the name; the message offers the nearest ones.",
    "SnapshotExpiredError": "Use a snapshot in the range that the message names, a tag or a savepoint.",
    "AlreadyExistsError": "Use another name, or set `ignore_if_exists`.",
    "InvalidInputError": "Correct the call. It is also a `ValueError`.",
    "UnsupportedFeatureError": "Use the alternative in the message; `context['feature']` names the feature.",
    "FormatError": "Check the file that the message names.",
    "CorruptFileError": "Restore the file, or roll back to a version that does not need it.",
    "UnknownFormatVersionError": "Use a newer paimon-spark.",
    "DataError": "Correct the rows.",
    "CommitError": "See the subclasses.",
    "CommitConflictError": "Nothing was committed: read and write again.",
    "CommitRetriesExhaustedError": "Nothing was committed: call again later.",
    "CommitOutcomeUnknownError": "Check the snapshots before you write again.",
    "UnsafeDeletionError": "Nothing was deleted: run `doctor`, repair what it finds, then call again.",
    "OperationInProgressError": "Wait for the other process, and call again.",
    "StreamError": "See the subclasses.",
    "HistoryChangedError": "Start a new checkpoint at the version that the message names.",
    "OffsetError": "Use the checkpoint with the table and options it was made with.",
    "BatchesLostError": "Run the lost batches again from a new checkpoint, or set `write.stream.lost-batches`.",
    "SchemaChangedError": "Restart the query.",
    "LineageError": "Enable lineage, or follow the message.",
    "StorageError": "`retryable` says whether the same call may succeed later.",
}
"""What to do about a class of errors; the advice for the base class applies to a class without its own."""


def errors_page() -> str:
    """The page."""
    rows = [
        ("&nbsp;" * 4 * depth + code(cls.__name__), code(cls.kind), _what(cls), WHAT_TO_DO.get(cls.__name__, ""))
        for depth, cls in tree(PaimonError)
    ]
    return page("Errors", _INTRODUCTION, table(("class", "kind", "meaning", "what to do"), rows))


_INTRODUCTION: Final = """
All errors of this package are subclasses of `PaimonError`, and can be imported from `paimon_spark`. `kind` is a stable
code for programs; `context` holds the path, table, branch and ids in question. Through Spark an error arrives as text,
with the same message. Where a class has no advice of its own, the advice for its base class applies.
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
