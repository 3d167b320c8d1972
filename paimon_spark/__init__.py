"""Versioned Apache Paimon tables for PySpark, without a JAR.

Read: option text → options → version → Snapshot (metadata) → plan (engine.scan) → DataSplits → rows (engine.read)
→ Arrow batches in Spark's schema (spark). Spark's own readers read some files as they lie (spark_catalog).
Write: rows (spark, jobs) → WriteJob → data files (engine.write) → CommitMessages → commit (engine.commit) → Snapshot.

DataSplits, ReadRequests, WriteJobs, CommitMessages, TableHandles and Predicates are all that crosses processes.

Every Spark session imports this package, so it imports nothing heavy: public names load when they are used, and the
ports to Spark and to lineage name what implements them without importing it.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

from paimon_spark import spark_port
from paimon_spark.errors import (
    AlreadyExistsError,
    BatchesLostError,
    BranchAlreadyExistsError,
    BranchDivergedError,
    BranchNotFoundError,
    CatalogError,
    CheckFailedError,
    ColumnNotFoundError,
    CommitConflictError,
    CommitError,
    CommitOutcomeUnknownError,
    CommitRetriesExhaustedError,
    CorruptFileError,
    DatabaseAlreadyExistsError,
    DatabaseNotFoundError,
    DataError,
    FileAlreadyThereError,
    FileMissingError,
    FormatError,
    HistoryChangedError,
    InvalidInputError,
    InvalidOptionError,
    JobNotFoundError,
    LineageError,
    NotFoundError,
    OffsetError,
    OperationInProgressError,
    PaimonError,
    PredicateSyntaxError,
    ProcedureNotFoundError,
    SavepointNotFoundError,
    SchemaChangedError,
    SchemaMismatchError,
    SnapshotExpiredError,
    SnapshotNotFoundError,
    SqlSyntaxError,
    StorageError,
    StreamError,
    TableAlreadyExistsError,
    TableNotFoundError,
    TagAlreadyExistsError,
    TagNotFoundError,
    UnknownFormatVersionError,
    UnsafeDeletionError,
    UnsupportedFeatureError,
    VersionNotFoundError,
    VersionSyntaxError,
    WarehouseNotFoundError,
)
from paimon_spark.jobs import lineage_port

if TYPE_CHECKING:
    from paimon_spark.api.catalog import Catalog, load_catalog
    from paimon_spark.api.lineage_verbs import Lineage
    from paimon_spark.api.pipeline import Pipeline
    from paimon_spark.api.pipeline_branch import PipelineBranch
    from paimon_spark.api.release import Release
    from paimon_spark.api.table import Table, load_table
    from paimon_spark.api.views import View
    from paimon_spark.engine.commit.listeners import CommitEvent, CommitListener
    from paimon_spark.engine.compaction.task import CompactResult
    from paimon_spark.jobs.read.scan import Scan
    from paimon_spark.jobs.row_diff.row_diff import RowDiff
    from paimon_spark.jobs.write.commit import WriteResult
    from paimon_spark.lineage.asking.picture import Picture
    from paimon_spark.maintenance.removal import Removed
    from paimon_spark.metadata.branches import Branch
    from paimon_spark.metadata.tags import Savepoint, TagInfo
    from paimon_spark.spark.session import configure_session, register
    from paimon_spark.spark_catalog.session.attach import attach, detach
    from paimon_spark.versioning.damage import Finding
    from paimon_spark.versioning.diff import Diff
    from paimon_spark.versioning.log import History
    from paimon_spark.versioning.merge import MergeResult
    from paimon_spark.versioning.status import TableStatus

__version__ = "0.1.0"

__all__ = [
    "AlreadyExistsError",
    "BatchesLostError",
    "Branch",
    "BranchAlreadyExistsError",
    "BranchDivergedError",
    "BranchNotFoundError",
    "Catalog",
    "CatalogError",
    "CheckFailedError",
    "ColumnNotFoundError",
    "CommitConflictError",
    "CommitError",
    "CommitEvent",
    "CommitListener",
    "CommitOutcomeUnknownError",
    "CommitRetriesExhaustedError",
    "CompactResult",
    "CorruptFileError",
    "DataError",
    "DatabaseAlreadyExistsError",
    "DatabaseNotFoundError",
    "Diff",
    "FileAlreadyThereError",
    "FileMissingError",
    "Finding",
    "FormatError",
    "History",
    "HistoryChangedError",
    "InvalidInputError",
    "InvalidOptionError",
    "JobNotFoundError",
    "Lineage",
    "LineageError",
    "MergeResult",
    "NotFoundError",
    "OffsetError",
    "OperationInProgressError",
    "PaimonError",
    "Picture",
    "Pipeline",
    "PipelineBranch",
    "PredicateSyntaxError",
    "ProcedureNotFoundError",
    "Release",
    "Removed",
    "RowDiff",
    "Savepoint",
    "SavepointNotFoundError",
    "Scan",
    "SchemaChangedError",
    "SchemaMismatchError",
    "SnapshotExpiredError",
    "SnapshotNotFoundError",
    "SqlSyntaxError",
    "StorageError",
    "StreamError",
    "Table",
    "TableAlreadyExistsError",
    "TableNotFoundError",
    "TableStatus",
    "TagAlreadyExistsError",
    "TagInfo",
    "TagNotFoundError",
    "UnknownFormatVersionError",
    "UnsafeDeletionError",
    "UnsupportedFeatureError",
    "VersionNotFoundError",
    "VersionSyntaxError",
    "View",
    "WarehouseNotFoundError",
    "WriteResult",
    "__version__",
    "attach",
    "configure_session",
    "detach",
    "load_catalog",
    "load_table",
    "register",
]


def _spark_jobs() -> spark_port.SparkJobs:
    from paimon_spark.spark import jobs

    return jobs


def _spark_sql() -> spark_port.SparkSql:
    from paimon_spark.sql import execute

    return execute


def _planned_reads() -> spark_port.PlannedReads:
    from paimon_spark.spark_catalog.reads import dataframes

    return dataframes


def _planned_queries() -> spark_port.PlannedQueries:
    from paimon_spark.spark_catalog.session import statements

    return statements


def _lineage() -> lineage_port.LineageListener:
    from paimon_spark.lineage.recording import listener

    return listener


spark_port.implement(_spark_jobs, _spark_sql, _planned_reads, _planned_queries)
lineage_port.connect(_lineage)


def __getattr__(name: str) -> Any:
    """A public name, whose module is imported when the name is first used."""
    module: ModuleType
    match name:
        case "Catalog" | "load_catalog":
            from paimon_spark.api import catalog as module
        case "Lineage":
            from paimon_spark.api import lineage_verbs as module
        case "Pipeline" | "PipelineBranch":
            from paimon_spark.api import pipeline as module
        case "Release":
            from paimon_spark.api import release as module
        case "Table" | "load_table":
            from paimon_spark.api import table as module
        case "View":
            from paimon_spark.api import views as module
        case "CommitEvent" | "CommitListener":
            from paimon_spark.engine.commit import listeners as module
        case "CompactResult":
            from paimon_spark.engine.compaction import task as module
        case "WriteResult":
            from paimon_spark.jobs.write import commit as module
        case "RowDiff":
            from paimon_spark.jobs.row_diff import row_diff as module
        case "Scan":
            from paimon_spark.jobs.read import scan as module
        case "Picture":
            from paimon_spark.lineage.asking import picture as module
        case "Removed":
            from paimon_spark.maintenance import removal as module
        case "Branch":
            from paimon_spark.metadata import branches as module
        case "Savepoint" | "TagInfo":
            from paimon_spark.metadata import tags as module
        case "configure_session" | "register":
            from paimon_spark.spark import session as module
        case "attach" | "detach":
            from paimon_spark.spark_catalog.session import attach as module
        case "Diff":
            from paimon_spark.versioning import diff as module
        case "Finding":
            from paimon_spark.versioning import damage as module
        case "History":
            from paimon_spark.versioning import log as module
        case "MergeResult":
            from paimon_spark.versioning import merge as module
        case "TableStatus":
            from paimon_spark.versioning import status as module
        case _:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(module, name)


def __dir__() -> list[str]:
    return __all__
