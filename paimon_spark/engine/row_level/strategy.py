"""How rows of a table are deleted, and tables whose rows cannot be deleted or updated.

Source: Java Spark's `RowLevelOp`, `DeleteFromPaimonTableCommand`, `UpdatePaimonTableCommand`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from paimon_spark.errors import InvalidInputError, UnsupportedFeatureError
from paimon_spark.metadata.definition.merge_rules import sequence_groups
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.options.core import PARTIAL_UPDATE_REMOVE_BY_GROUP, ChangelogProducer, MergeEngine

REPLACES = (None, "last_value", "last_non_null_value")
"""Aggregate functions with which a row may be written twice."""
ADVICE = {
    MergeEngine.PARTIAL_UPDATE: "set partial-update.remove-record-on-delete=true for the table first",
    MergeEngine.AGGREGATION: "set aggregation.remove-record-on-delete=true for the table first",
    MergeEngine.FIRST_ROW: "overwrite the partition without the rows",
}


class DeleteStrategy(StrEnum):
    """How rows are deleted.

    RETRACTS: tables with keys: rows of kind -D are written, and merged like any others.
    VECTORS: the data files stay, deletion vectors mark the rows. So in all tables with data evolution.
    REWRITE: the data files are rewritten without the rows.

    Where a merge engine keeps its rows in spite of rows of kind -D, DELETE goes by the places of rows, as in tables
    without keys; no two files may have rows of one key then.
    """

    RETRACTS = "retracts"
    VECTORS = "vectors"
    REWRITE = "rewrite"


def delete_strategy(handle: TableHandle) -> DeleteStrategy:
    """How rows of the table are deleted. Raises UnsupportedFeatureError: they cannot be."""
    handle.check_writable()
    if handle.schema.primary_keys:
        return DeleteStrategy.RETRACTS
    if handle.options.deletion_vectors or handle.options.data_evolution:
        return DeleteStrategy.VECTORS
    return DeleteStrategy.REWRITE


def strategy_of_delete(handle: TableHandle) -> DeleteStrategy:
    """How DELETE deletes rows of the table; UPDATE and MERGE do as `delete_strategy` says.

    Raises:
        UnsupportedFeatureError: they cannot be deleted; says what to set.
    """
    strategy = delete_strategy(handle)
    if strategy is not DeleteStrategy.RETRACTS or _removes(handle) or handle.options.merge_engine not in ADVICE:
        check_deletes(handle)
        return strategy
    return DeleteStrategy.VECTORS if handle.options.deletion_vectors else DeleteStrategy.REWRITE


def unmerged(handle: TableHandle) -> UnsupportedFeatureError:
    """The error for rows that lie in several files of a table whose merge engine keeps them."""
    engine = handle.options.merge_engine
    return _refused(
        handle,
        "merge-engine",
        f"merge-engine {engine.value} keeps rows in spite of rows of kind -D, so they are removed from their files, "
        "and some may lie in several: compact the table fully first, CALL sys.compact(table => …), or "
        f"{ADVICE[engine]}",
    )


def _removes(handle: TableHandle) -> bool:
    """Whether a row of kind -D removes the row of its key."""
    engine, merge = handle.options.merge_engine, handle.options.merge
    return (
        engine is MergeEngine.DEDUPLICATE
        or (engine is MergeEngine.AGGREGATION and merge.aggregation_removes)
        or (engine is MergeEngine.PARTIAL_UPDATE and (merge.partial_update_removes or bool(merge.removing_columns)))
    )


def check_deletes(handle: TableHandle) -> None:
    """Refuse a table with keys where rows of kind -D do not delete, and data evolution without deletion vectors.

    Raises:
        UnsupportedFeatureError: says what to set.
    """
    options = handle.options
    if options.data_evolution and not options.deletion_vectors:
        raise UnsupportedFeatureError(
            f"rows of {handle.describe()} cannot be deleted: it has data-evolution.enabled, and only deletion vectors "
            "mark rows whose columns lie in several files; create the table with deletion-vectors.enabled = true",
            feature="delete with data-evolution.enabled and without deletion vectors",
            table=handle.name,
        )
    if not handle.schema.primary_keys:
        return
    if options.ignore_delete:
        raise _refused(handle, "ignore-delete", "it skips rows of kind -D; set ignore-delete=false first")
    engine = options.merge_engine
    if not _removes(handle):
        raise _refused(handle, "merge-engine", f"merge-engine {engine.value} keeps them; {ADVICE[engine]}")


def check_updates(handle: TableHandle) -> None:
    """Refuse a table on which a changed row would not take the place of the old one.

    Raises:
        UnsupportedFeatureError: names what stands in the way.
    """
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
    merge, schema = handle.options.merge, handle.schema
    functions = {f.name: merge.column(f.name).aggregate_function or merge.default_aggregate for f in schema.fields}
    adding = sorted(n for n, f in functions.items() if n not in schema.primary_keys and f not in REPLACES)
    if adding:
        raise _refused(
            handle, "fields.<column>.aggregate-function", f"column {adding[0]} would take in its old value again"
        )
    if sequence_groups(schema, merge):
        raise _refused(
            handle,
            "fields.<column>.sequence-group",
            "a changed row does not replace the columns of a sequence group that is null or older; write the columns "
            "that change, with those that order them, with Table.write",
        )


def check_set(handle: TableHandle, columns: Iterable[str]) -> None:
    """Refuse to set key columns, columns with which a row may lose against the old one, and such that move its place.

    Raises:
        InvalidInputError: a column of the primary key is set.
        UnsupportedFeatureError: a sequence field is set, or a partition column with data evolution.
    """
    for name in columns:
        if name in handle.schema.primary_keys:
            raise InvalidInputError(
                f"column {name} is part of the primary key of {handle.describe()}, so it cannot be updated; delete the "
                "rows and write them with their new keys",
                column=name,
            )
        if handle.options.data_evolution and name in handle.schema.partition_keys:
            raise UnsupportedFeatureError(
                f"partition column {name} of {handle.describe()} cannot be updated: with data-evolution.enabled a row "
                "keeps its place and its row id; delete the rows and write them to the other partition",
                feature="update of partition columns with data-evolution.enabled",
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
    """Columns of which one must not be null for a row of kind -D to delete; empty if it always does."""
    merge = handle.options.merge
    if handle.options.merge_engine is not MergeEngine.PARTIAL_UPDATE or merge.partial_update_removes:
        return ()
    removing = set(merge.removing_columns)
    groups = sequence_groups(handle.schema, merge)
    return tuple(c for g in groups if removing.intersection(g.sequence) for c in g.sequence)


def undeletable(handle: TableHandle) -> UnsupportedFeatureError:
    """The error for rows that are null in all of `removing_columns`."""
    columns = ", ".join(removing_columns(handle))
    return _refused(handle, PARTIAL_UPDATE_REMOVE_BY_GROUP.key, f"some of them hold null in {columns}, which decides")


def cleared_columns(handle: TableHandle) -> tuple[str, ...]:
    """Columns that are null in a row of kind -D, so that a later row of its key does not bring the old values back.

    After a row of kind -D, engines that merge columns start again with its values: Java since 2.0 with all columns,
    before it with those that cannot be null. With changelog-producer = input values stay as written.
    """
    options = handle.options
    engine = options.merge_engine
    begins_anew = (engine is MergeEngine.AGGREGATION and options.merge.aggregation_removes) or (
        engine is MergeEngine.PARTIAL_UPDATE and options.merge.partial_update_removes
    )
    if not begins_anew or options.changelog_producer is ChangelogProducer.INPUT:
        return ()
    kept = {*handle.schema.primary_keys, *options.sequence_fields, options.write.rowkind_field}
    return tuple(f.name for f in handle.schema.fields if f.type.nullable and f.name not in kept)


def _refused(handle: TableHandle, feature: str, why: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"rows of {handle.describe()} cannot be deleted or updated: {why}", feature=feature, table=handle.name
    )
