"""A snapshot whose only news is a file of statistics of whole columns.

Source: Java `stats/Statistics`, `stats/ColStats`, `operation/FileStoreCommitImpl.commitStatistics`.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from paimon_spark.engine.commit.attempts import BATCH_COMMIT_IDENTIFIER, Author, make_snapshot
from paimon_spark.engine.commit.changes import Changes
from paimon_spark.engine.commit.committer import new_commit_user
from paimon_spark.engine.commit.entries import no_entries
from paimon_spark.engine.commit.publish import check_store
from paimon_spark.engine.commit.requests import Wanted
from paimon_spark.errors import CommitOutcomeUnknownError
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.retry import Surroundings

_NOW = Surroundings()


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """What is known of a column; None is unknown.

    Attributes:
        column_id: its field id.
        distinct_count: distinct values, roughly.
        minimum, maximum: as text, in the form of Java's serializer of the type.
        null_count: rows in which it is null.
        average_length, longest: of a value.
    """

    column_id: int
    distinct_count: int | None = None
    minimum: str | None = None
    maximum: str | None = None
    null_count: int | None = None
    average_length: int | None = None
    longest: int | None = None


@dataclass(frozen=True, slots=True)
class Statistics:
    """What a statistics file holds.

    Attributes:
        snapshot_id, schema_id: of the snapshot that was looked at.
        record_count: rows that a read gives.
        record_size: bytes of files that these rows take, roughly.
        columns: by name.
    """

    snapshot_id: int
    schema_id: int
    record_count: int
    record_size: int
    columns: Mapping[str, ColumnStatistics] = field(default_factory=dict)


def commit_statistics(handle: TableHandle, statistics: Statistics, around: Surroundings = _NOW) -> Snapshot:
    """Make statistics those of the branch, by a snapshot of kind ANALYZE; later ones of the same schema keep them.

    Raises:
        UnsupportedFeatureError: the store cannot create a snapshot exclusively (`publish.check_store`).
        CommitRetriesExhaustedError: others were faster every time.
        CommitOutcomeUnknownError: the store stopped answering at the decisive moment.
        StorageError: the store failed before that; the table is as before.
    """
    check_store(handle)
    name = f"stats-{uuid.uuid4()}-0"
    path = handle.layout.statistics_path(name)
    handle.store.write(path, encode(statistics))
    nothing = Changes(no_entries(), no_entries())
    wanted = Wanted(CommitKind.ANALYZE, BATCH_COMMIT_IDENTIFIER, lambda _: nothing, statistics=name)
    options = handle.options.commit
    try:
        return make_snapshot(handle, options, wanted, Author(new_commit_user(handle.options)), around).snapshot
    except CommitOutcomeUnknownError:
        raise
    except Exception:
        handle.store.delete(path)
        raise


def encode(statistics: Statistics) -> bytes:
    """The bytes of a statistics file, keys in Java's order; what is unknown is left out."""
    columns = {name: _known(column) for name, column in statistics.columns.items()}
    found = {
        "snapshotId": statistics.snapshot_id,
        "schemaId": statistics.schema_id,
        "mergedRecordCount": statistics.record_count,
        "mergedRecordSize": statistics.record_size,
        "colStats": columns,
    }
    return json.dumps(found, ensure_ascii=False, indent=2).encode()


def _known(column: ColumnStatistics) -> dict[str, Any]:
    found = {
        "colId": column.column_id,
        "distinctCount": column.distinct_count,
        "min": column.minimum,
        "max": column.maximum,
        "nullCount": column.null_count,
        "avgLen": column.average_length,
        "maxLen": column.longest,
    }
    return {key: value for key, value in found.items() if value is not None}
