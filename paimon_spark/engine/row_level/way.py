"""How rows of a table are taken away.

Source: Java Spark's `RowLevelOp`, `DeleteFromPaimonTableCommand`, `UpdatePaimonTableCommand`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from paimon_spark.engine.merge.field_options import (
    AGGREGATION_REMOVE,
    DEFAULT_AGGREGATE,
    PARTIAL_UPDATE_REMOVE,
    PARTIAL_UPDATE_REMOVE_BY_GROUP,
    field_options,
    sequence_groups,
)
from paimon_spark.errors import InvalidInputError, UnsupportedFeatureError
from paimon_spark.metadata.features import check_writable
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.options.table import ChangelogProducer, MergeEngine
from paimon_spark.options.write import ROWKIND_FIELD

_REPLACES = (None, "last_value", "last_non_null_value")
"""Aggregate functions with which a row may be written twice."""
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
    if engine is not MergeEngine.PARTIAL_UPDATE:
        return
    raw, schema = handle.options.raw, handle.schema
    default = DEFAULT_AGGREGATE.get(raw)
    functions = {f.name: field_options(f.name, raw).aggregate_function or default for f in schema.fields}
    adding = sorted(n for n, f in functions.items() if n not in schema.primary_keys and f not in _REPLACES)
    if adding:
        raise _refused(
            handle, "fields.<column>.aggregate-function", f"column {adding[0]} would take in its old value again"
        )
    if sequence_groups(schema, raw):
        raise _refused(
            handle,
            "fields.<column>.sequence-group",
            "a changed row does not replace the columns of a sequence group that is null or older; write the columns "
            "that change, with those that order them, with Table.write",
        )


def check_set(handle: TableHandle, columns: Iterable[str]) -> None:
    """Refuse to set columns that a row is known by, or with which it may lose against the old one.

    Raises:
        InvalidInputError: a column of the primary key is set.
        UnsupportedFeatureError: a sequence field is set.
    """
    for name in columns:
        if name in handle.schema.primary_keys:
            raise InvalidInputError(
                f"column {name} is part of the primary key of {handle.describe()}, so it cannot be updated; delete the "
                "rows and write them with their new keys",
                column=name,
            )
        if handle.schema.primary_keys and name in handle.options.sequence_fields:
            raise UnsupportedFeatureError(
                f"column {name} is the sequence field of {handle.describe()}: a row with an older value loses against "
                "the one that is there, so it cannot be updated; write whole rows with Table.write",
                feature="update of a sequence field",
                column=name,
            )


def removing_columns(handle: TableHandle) -> tuple[str, ...]:
    """Columns of which one must hold something, or a row of kind -D does not delete; empty where it always does."""
    raw = handle.options.raw
    if handle.options.merge_engine is not MergeEngine.PARTIAL_UPDATE or PARTIAL_UPDATE_REMOVE.get(raw):
        return ()
    removing = set(PARTIAL_UPDATE_REMOVE_BY_GROUP.get(raw))
    groups = sequence_groups(handle.schema, raw)
    return tuple(c for g in groups if removing.intersection(g.sequence) for c in g.sequence)


def undeletable(handle: TableHandle) -> UnsupportedFeatureError:
    """The error for rows that hold nothing in `removing_columns`."""
    columns = ", ".join(removing_columns(handle))
    return _refused(handle, PARTIAL_UPDATE_REMOVE_BY_GROUP.key, f"some of them hold null in {columns}, which decides")


def cleared_columns(handle: TableHandle) -> tuple[str, ...]:
    """Columns that are null in a row of kind -D, so that a later row of its key does not bring the old values back.

    Engines that gather rows begin anew with what a row of kind -D holds: Java since 2.0, of all columns; Java before
    it, of those that cannot be null. With a changelog of the rows as written these keep their values.
    """
    options = handle.options
    engine, raw = options.merge_engine, options.raw
    begins_anew = (engine is MergeEngine.AGGREGATION and AGGREGATION_REMOVE.get(raw)) or (
        engine is MergeEngine.PARTIAL_UPDATE and PARTIAL_UPDATE_REMOVE.get(raw)
    )
    if not begins_anew or options.changelog_producer is ChangelogProducer.INPUT:
        return ()
    kept = {*handle.schema.primary_keys, *options.sequence_fields, ROWKIND_FIELD.get(raw)}
    return tuple(f.name for f in handle.schema.fields if f.type.nullable and f.name not in kept)


def _refused(handle: TableHandle, feature: str, why: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"rows of {handle.describe()} cannot be deleted or updated: {why}", feature=feature, table=handle.name
    )
