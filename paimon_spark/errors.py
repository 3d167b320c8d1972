"""Exceptions: the class tells callers what they can do, `kind` is a stable code.

Messages say what was asked, what was found and what to do. Errors cross process borders
(Spark's driver, planners and executors), so every one of them pickles with its context.
"""

from __future__ import annotations

from typing import Any

from paimon_spark.redaction import without_passwords
from paimon_spark.text import safe


class PaimonError(Exception):
    """Base of everything this package raises on purpose.

    The message is one line that is safe for terminals and logs: names and values in it may come from files and users,
    so that control characters, line ends and halves of surrogate pairs are shown escaped.

    Attributes:
        kind: stable kebab-case code of the error's class.
        context: what the message speaks of (path, table, branch, ids…), for programs.
    """

    kind = "paimon-error"

    def __init__(self, message: str, **context: Any) -> None:
        message = safe(without_passwords(message))
        super().__init__(message)
        self.message = message
        self.context = {k: without_passwords(v) if isinstance(v, str) else v for k, v in context.items()}

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.context)


def _rebuild(cls: type[PaimonError], message: str, context: dict[str, Any]) -> PaimonError:
    return cls(message, **context)


class NotFoundError(PaimonError):
    """A named table, branch, tag or other object does not exist."""

    kind = "not-found"


class TableNotFoundError(NotFoundError):
    kind = "table-not-found"


class DatabaseNotFoundError(NotFoundError):
    kind = "database-not-found"


class WarehouseNotFoundError(DatabaseNotFoundError):
    """The directory of the warehouse does not exist, so none of its databases does."""

    kind = "warehouse-not-found"


class SnapshotNotFoundError(NotFoundError):
    kind = "snapshot-not-found"


class SnapshotExpiredError(SnapshotNotFoundError):
    """The snapshot did exist and has been removed by expiry."""

    kind = "snapshot-expired"


class TagNotFoundError(NotFoundError):
    kind = "tag-not-found"


class BranchNotFoundError(NotFoundError):
    kind = "branch-not-found"


class SavepointNotFoundError(NotFoundError):
    kind = "savepoint-not-found"


class VersionNotFoundError(NotFoundError):
    """A version text matched nothing; the message lists what was tried and what lives."""

    kind = "version-not-found"


class JobNotFoundError(NotFoundError):
    kind = "job-not-found"


class ColumnNotFoundError(NotFoundError):
    kind = "column-not-found"


class AlreadyExistsError(PaimonError):
    """An object to be created exists already."""

    kind = "already-exists"


class TableAlreadyExistsError(AlreadyExistsError):
    kind = "table-already-exists"


class TagAlreadyExistsError(AlreadyExistsError):
    kind = "tag-already-exists"


class BranchAlreadyExistsError(AlreadyExistsError):
    kind = "branch-already-exists"


class DatabaseAlreadyExistsError(AlreadyExistsError):
    kind = "database-already-exists"


class InvalidInputError(PaimonError, ValueError):
    """The call itself is wrong; correct it and call again."""

    kind = "invalid-input"


class InvalidOptionError(InvalidInputError):
    kind = "invalid-option"


class VersionSyntaxError(InvalidInputError):
    kind = "version-syntax"


class PredicateSyntaxError(InvalidInputError):
    kind = "predicate-syntax"


class SqlSyntaxError(InvalidInputError):
    kind = "sql-syntax"


class ProcedureNotFoundError(NotFoundError):
    kind = "procedure-not-found"


class SchemaMismatchError(InvalidInputError):
    kind = "schema-mismatch"


class BranchDivergedError(PaimonError):
    """Main has commits that the branch lacks, so the branch was not merged; choose what becomes of them."""

    kind = "branch-diverged"


class CheckFailedError(PaimonError):
    """A check found rows that must not be published, so nothing was; correct the rows on the branch."""

    kind = "check-failed"


class UnsupportedFeatureError(PaimonError):
    """The table or the request needs something this package would get wrong, so it refuses.

    `context["feature"]` names the option, type or file feature.
    """

    kind = "unsupported-feature"


class FormatError(PaimonError):
    """Bytes on disk are not what the Paimon format says."""

    kind = "format-error"


class CorruptFileError(FormatError):
    """A file is missing, cut short or garbage; `context["path"]` names it."""

    kind = "corrupt-file"


class UnknownFormatVersionError(FormatError):
    """A file states a format version newer than this package knows."""

    kind = "unknown-format-version"


class DataError(PaimonError):
    """Rows cannot be merged or converted as the table demands (overflow, a bad cast, a retract refused)."""

    kind = "data-error"


class CommitError(PaimonError):
    """A commit did not make a snapshot, or its outcome is unknown."""

    kind = "commit-error"


class CommitConflictError(CommitError):
    """A concurrent commit conflicts with this one. Nothing was committed; read again and write again."""

    kind = "commit-conflict"


class CommitRetriesExhaustedError(CommitError):
    """Concurrent commits won every attempt. Nothing was committed; the same call may succeed later."""

    kind = "commit-retries-exhausted"


class CommitOutcomeUnknownError(CommitError):
    """The snapshot may exist or not, or only a tag or another branch has it; look before writing again."""

    kind = "commit-outcome-unknown"


class UnsafeDeletionError(PaimonError):
    """Nothing was deleted, because the files still needed cannot be determined."""

    kind = "unsafe-deletion"


class OperationInProgressError(PaimonError):
    """Another process is changing the table's tags or branches."""

    kind = "operation-in-progress"


class StreamError(PaimonError):
    """A stream cannot go on as it is; a row would be lost or come twice."""

    kind = "stream-error"


class HistoryChangedError(StreamError):
    """The history of the branch was replaced since a stream read or wrote it."""

    kind = "history-changed"


class OffsetError(StreamError):
    """An offset of a checkpoint is not of this table and read, or cannot be understood."""

    kind = "offset-error"


class BatchesLostError(StreamError):
    """Batches that a stream committed are no longer in the branch, or may not be."""

    kind = "batches-lost"


class SchemaChangedError(StreamError):
    """A column that a running stream reads or writes was dropped or given another type."""

    kind = "schema-changed"


class LineageError(PaimonError):
    """Lineage is not switched on in the warehouse, or cannot tell what was asked."""

    kind = "lineage-error"


class StorageError(PaimonError):
    """The store failed. `retryable` says whether the same call may succeed later."""

    kind = "storage-error"

    @property
    def retryable(self) -> bool:
        return bool(self.context.get("retryable", False))


class CatalogError(StorageError):
    """The metastore of a catalog could not be reached, or refused what was asked."""

    kind = "catalog-error"


class FileMissingError(StorageError, FileNotFoundError):
    """The store holds no file at the path asked for."""

    kind = "file-missing"


class FileAlreadyThereError(StorageError, FileExistsError):
    """The store holds a file where a new one was to be created exclusively."""

    kind = "file-already-there"
