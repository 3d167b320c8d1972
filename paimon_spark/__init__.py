"""Versioned Apache Paimon tables for PySpark, with no JAR.

Read: option text → options → refs (version → Snapshot) → metadata (manifests) → scan → DataSplit → read (+ merge)
→ Arrow batches → spark. DataSplits, ReadRequests, TableHandle and Predicate are all that crosses processes.
Write: rows → spark → WriteJob (plans, makes or evolves the table) → write (+ merge) → data files → CommitMessages →
commit → manifests → one Snapshot. WriteJobs and CommitMessages are all that crosses processes.

Spark imports this package in every session, so it imports nothing heavy: names load when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paimon_spark import spark_port
from paimon_spark.errors import PaimonError
from paimon_spark.jobs import lineage_port

if TYPE_CHECKING:
    from paimon_spark.api.catalog import Catalog, load_catalog
    from paimon_spark.api.lineage_verbs import Lineage
    from paimon_spark.api.table import Table, load_table
    from paimon_spark.engine.commit.listeners import CommitEvent, CommitListener
    from paimon_spark.engine.compaction.run import CompactResult
    from paimon_spark.jobs.batch_write import WriteResult
    from paimon_spark.jobs.scan import Scan
    from paimon_spark.lineage.picture import Picture
    from paimon_spark.maintenance.removal import Removed
    from paimon_spark.metadata.branches import Branch
    from paimon_spark.metadata.tags import Savepoint, TagInfo
    from paimon_spark.spark.session import configure_session, register
    from paimon_spark.versioning.diff import Diff
    from paimon_spark.versioning.doctor.findings import Finding
    from paimon_spark.versioning.log import History
    from paimon_spark.versioning.merge import MergeResult
    from paimon_spark.versioning.status import TableStatus

__version__ = "0.1.0"

__all__ = [
    "Branch",
    "Catalog",
    "CommitEvent",
    "CommitListener",
    "CompactResult",
    "Diff",
    "Finding",
    "History",
    "Lineage",
    "MergeResult",
    "PaimonError",
    "Picture",
    "Removed",
    "Savepoint",
    "Scan",
    "Table",
    "TableStatus",
    "TagInfo",
    "WriteResult",
    "__version__",
    "configure_session",
    "load_catalog",
    "load_table",
    "register",
]

_MODULES = {
    "Branch": "paimon_spark.metadata.branches",
    "Catalog": "paimon_spark.api.catalog",
    "CommitEvent": "paimon_spark.engine.commit.listeners",
    "CommitListener": "paimon_spark.engine.commit.listeners",
    "CompactResult": "paimon_spark.engine.compaction.run",
    "Diff": "paimon_spark.versioning.diff",
    "Finding": "paimon_spark.versioning.doctor.findings",
    "History": "paimon_spark.versioning.log",
    "Lineage": "paimon_spark.api.lineage_verbs",
    "MergeResult": "paimon_spark.versioning.merge",
    "Picture": "paimon_spark.lineage.picture",
    "Removed": "paimon_spark.maintenance.removal",
    "Savepoint": "paimon_spark.metadata.tags",
    "Scan": "paimon_spark.jobs.scan",
    "Table": "paimon_spark.api.table",
    "TableStatus": "paimon_spark.versioning.status",
    "TagInfo": "paimon_spark.metadata.tags",
    "WriteResult": "paimon_spark.jobs.batch_write",
    "configure_session": "paimon_spark.spark.session",
    "load_catalog": "paimon_spark.api.catalog",
    "load_table": "paimon_spark.api.table",
    "register": "paimon_spark.spark.session",
}


def _spark_jobs() -> spark_port.SparkJobs:
    from paimon_spark.spark import jobs

    return jobs


def _spark_sql() -> spark_port.SparkSql:
    from paimon_spark.sql import execute

    return execute


def _lineage() -> lineage_port.LineageListener:
    from paimon_spark.lineage import listener

    return listener


spark_port.implement(_spark_jobs, _spark_sql)
lineage_port.connect(_lineage)


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return __all__
