"""Versioned Apache Paimon tables for PySpark, with no JAR.

Read: option text → options → refs (version → Snapshot) → metadata (manifests) → scan → DataSplit → read (+ merge)
→ Arrow batches → spark. DataSplits, ReadRequests, TableHandle and Predicate are all that crosses processes.
Write: rows → spark → WriteJob (plans, makes or evolves the table) → write (+ merge) → data files → CommitMessages →
commit → manifests → one Snapshot. WriteJobs and CommitMessages are all that crosses processes.

Spark imports this package in every session, so it imports nothing heavy: names load when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paimon_spark.errors import PaimonError

if TYPE_CHECKING:
    from paimon_spark.spark.register import register
    from paimon_spark.spark.session import configure_session
    from paimon_spark.table.batch_write import WriteResult
    from paimon_spark.table.catalog import Catalog, load_catalog
    from paimon_spark.table.loading import load_table
    from paimon_spark.table.scan import Scan
    from paimon_spark.table.table import Table

__version__ = "0.1.0"

__all__ = [
    "Catalog",
    "PaimonError",
    "Scan",
    "Table",
    "WriteResult",
    "__version__",
    "configure_session",
    "load_catalog",
    "load_table",
    "register",
]

_MODULES = {
    "Catalog": "paimon_spark.table.catalog",
    "Scan": "paimon_spark.table.scan",
    "Table": "paimon_spark.table.table",
    "WriteResult": "paimon_spark.table.batch_write",
    "configure_session": "paimon_spark.spark.session",
    "load_catalog": "paimon_spark.table.catalog",
    "load_table": "paimon_spark.table.loading",
    "register": "paimon_spark.spark.register",
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return __all__
