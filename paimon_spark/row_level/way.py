"""How rows of a table are taken away.

Source: Java Spark's `RowLevelOp`, `DeleteFromPaimonTableCommand`, `UpdatePaimonTableCommand`.
"""

from __future__ import annotations

from enum import Enum

from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.merge.field_options import AGGREGATION_REMOVE, PARTIAL_UPDATE_REMOVE, PARTIAL_UPDATE_REMOVE_BY_GROUP
from paimon_spark.metadata.features import check_writable
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.options.table import MergeEngine

_ADVICE = {
    MergeEngine.PARTIAL_UPDATE: "set partial-update.remove-record-on-delete=true for the table first",
    MergeEngine.AGGREGATION: "set aggregation.remove-record-on-delete=true for the table first",
    MergeEngine.FIRST_ROW: "overwrite the partition without the rows",
}


class Way(str, Enum):
    """How rows go.

    RETRACTS: tables with keys: rows of kind -D are written, and merged like any others.
    VECTORS: the data files stay, deletion vectors mark the rows.
    REWRITE: the data files are written again without the rows.
    """

    RETRACTS = "retracts"
    VECTORS = "vectors"
    REWRITE = "rewrite"


def way_of(handle: TableHandle) -> Way:
    """How rows of the table go.

    Raises:
        UnsupportedFeatureError: they cannot, and why.
    """
    check_writable(handle.schema, handle.options.raw, handle.name)
    if handle.options.data_evolution:
        raise _refused(handle, "data-evolution.enabled", "a row of it lies in several files; use Java Paimon")
    if handle.schema.primary_keys:
        return Way.RETRACTS
    if handle.options.deletion_vectors:
        return Way.VECTORS
    return Way.REWRITE


def check_deletes(handle: TableHandle) -> None:
    """Refuse a table with keys on which rows of kind -D do not delete.

    Raises:
        UnsupportedFeatureError: says what to set.
    """
    options = handle.options
    if options.ignore_delete:
        raise _refused(handle, "ignore-delete", "it skips rows of kind -D; set ignore-delete=false first")
    raw, engine = options.raw, options.merge_engine
    deletes = (
        engine is MergeEngine.DEDUPLICATE
        or (engine is MergeEngine.AGGREGATION and AGGREGATION_REMOVE.get(raw))
        or (
            engine is MergeEngine.PARTIAL_UPDATE
            and (PARTIAL_UPDATE_REMOVE.get(raw) or bool(PARTIAL_UPDATE_REMOVE_BY_GROUP.get(raw)))
        )
    )
    if not deletes:
        raise _refused(handle, "merge-engine", f"merge-engine {engine.value} keeps them; {_ADVICE[engine]}")


def check_updates(handle: TableHandle) -> None:
    """Refuse a table on which a changed row would not take the place of the old one.

    Raises:
        UnsupportedFeatureError: names what stands in the way.
    """
    if handle.options.row_tracking:
        raise _refused(handle, "row-tracking.enabled", "a changed row would get a new row id; use Java Paimon")
    if not handle.schema.primary_keys:
        return
    engine = handle.options.merge_engine
    if engine not in (MergeEngine.DEDUPLICATE, MergeEngine.PARTIAL_UPDATE):
        raise UnsupportedFeatureError(
            f"rows of {handle.describe()} cannot be updated: merge-engine {engine.value} does not put a new row in the "
            "place of the old one; write the rows that the engine makes the wanted ones of, or overwrite the partition",
            feature=f"update with merge-engine {engine.value}",
            table=handle.name,
        )


def _refused(handle: TableHandle, feature: str, why: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"rows of {handle.describe()} cannot be deleted or updated: {why}", feature=feature, table=handle.name
    )
