"""DELETE in a table that reads two branches: what it does not reach, and what it would let appear, is refused."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from paimon_spark.engine.read.split_reader import read_split
from paimon_spark.engine.scan.fallback import other_branch, other_partitions
from paimon_spark.engine.scan.one_branch import plan_branch
from paimon_spark.engine.scan.query import ScanQuery
from paimon_spark.format.arrays.arrow_numpy import values
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.predicate.arrow import matches
from paimon_spark.predicate.ast import Predicate, names_of


def refuse_rows_of_other_branch(handle: TableHandle, predicate: Predicate | None) -> None:
    """Refuse to delete the rows for which `predicate` is true where some are read from another branch. Driver.

    Raises:
        UnsupportedFeatureError: rows of the other branch are meant, or would be read once a partition has no other.
    """
    if other_branch(handle) is None:
        return
    head = latest_snapshot(handle)
    beside = other_partitions(handle, head)
    if beside is None:
        return
    for partition, rows in _matching(beside.other.handle, beside.snapshot, predicate, beside.read):
        if rows.num_rows:
            raise beside.not_reached(partition)
    if not beside.behind:
        return
    touched = {p for p, rows in _matching(handle, head, predicate, beside.behind) if rows.num_rows}
    for partition in sorted(touched - _keeping_rows(handle, head, predicate, frozenset(touched))):
        raise beside.would_appear(partition)


def _matching(
    handle: TableHandle, snapshot: Snapshot | None, predicate: Predicate | None, partitions: frozenset[bytes]
) -> Iterator[tuple[bytes, pa.RecordBatch]]:
    """Batches of the rows of partitions for which `predicate` is true, without a column that it does not name."""
    columns = tuple(n for n in handle.schema.row_type.names if n in names_of(predicate))
    plan = plan_branch(handle, snapshot, ScanQuery(columns=columns, predicate=predicate))
    for split in plan.splits:
        if split.partition in partitions:
            for batch in read_split(plan.request, split):
                yield split.partition, batch


def _keeping_rows(
    handle: TableHandle, snapshot: Snapshot | None, predicate: Predicate | None, partitions: frozenset[bytes]
) -> set[bytes]:
    """Of the partitions, those with a row for which `predicate` is not true."""
    if predicate is None:
        return set()
    columns = tuple(n for n in handle.schema.row_type.names if n in names_of(predicate))
    plan = plan_branch(handle, snapshot, ScanQuery(columns=columns))
    out: set[bytes] = set()
    for split in plan.splits:
        if split.partition in partitions - out and any(
            not values(matches(predicate, batch)).all() for batch in read_split(plan.request, split)
        ):
            out.add(split.partition)
    return out
