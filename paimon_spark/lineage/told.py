"""What a snapshot's batch read of a source: what the snapshot says, else what rows of the source's warehouse say."""

from __future__ import annotations

from paimon_spark.lineage.graph import Node
from paimon_spark.lineage.model import Provenance, SourceRange
from paimon_spark.lineage.series import Series


def range_of(said: Provenance, sink: Node, source: Node, rows: Series) -> SourceRange | None:
    """What the batch that made a snapshot read of a table; None when nothing.

    A batch job finds out what it read from the notes in the warehouse of its sink. What it read in another one is told
    by the rows there, of the barrier that reads and writes were both given.

    Args:
        said: what the snapshot says.
        sink: the table that the snapshot is of.
        source: the table that may have been read.
        rows: of the job and the source.
    """
    for known in said.sources:
        if known.ref == source.ref and (known.warehouse or sink.warehouse) == source.warehouse:
            return known
    if said.query_id is not None or source.warehouse == sink.warehouse:
        return None
    row = rows.row(said.barrier)
    if row < 0 or rows.barriers[row] != said.barrier:
        return None
    return SourceRange(source.ref, source.warehouse, last=rows.snapshots[row])
