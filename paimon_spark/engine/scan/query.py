"""ScanQuery: what one read asks of a plan."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_spark.predicate.ast import Predicate


@dataclass(frozen=True, slots=True)
class ScanQuery:
    """What one read asks of a plan. Hashable; one key of the plan cache.

    Attributes:
        columns: output columns in order; None means all columns of the table.
        predicate: only rows for which it is true are wanted.
        with_row_kind: add a first column `rowkind` and keep retracts.
        limit: rows after which the caller stops; the plan may stop there too, never short of it.
        batch_rows: most rows in an output batch.
        threads: whether readers may use Arrow's thread pool.
        max_level_only: primary-key tables: read only files of the last level, without merging (`$ro`).
        created_since_ms: read only files made at or after this moment, in epoch milliseconds.
    """

    columns: tuple[str, ...] | None = None
    predicate: Predicate | None = None
    with_row_kind: bool = False
    limit: int | None = None
    batch_rows: int = 65536
    threads: bool = False
    max_level_only: bool = False
    created_since_ms: int | None = None
