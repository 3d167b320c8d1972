"""The statistics file of whole columns: values and JSON.

Source: Java `stats/Statistics`, `stats/ColStats`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from typing import Final

_KEYS: Final = ("colId", "distinctCount", "min", "max", "nullCount", "avgLen", "maxLen")
"""JSON keys of the fields of `ColumnStatistics`, in order."""


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


def encode(statistics: Statistics) -> bytes:
    """The bytes of a statistics file, keys in Java's order; what is unknown is left out."""
    columns = {
        name: {key: value for key, value in zip(_KEYS, astuple(column), strict=True) if value is not None}
        for name, column in statistics.columns.items()
    }
    found = {
        "snapshotId": statistics.snapshot_id,
        "schemaId": statistics.schema_id,
        "mergedRecordCount": statistics.record_count,
        "mergedRecordSize": statistics.record_size,
        "colStats": columns,
    }
    return json.dumps(found, ensure_ascii=False, indent=2).encode()
