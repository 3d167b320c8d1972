"""The statistics file that ANALYZE leaves: rows of a snapshot, and values of its columns.

Source: Java `stats/Statistics`, `stats/ColStats`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from typing import Any, Final

from paimon_spark.errors import CorruptFileError
from paimon_spark.format.json_files import decode_object, encode_value

_KEYS: Final = ("colId", "distinctCount", "min", "max", "nullCount", "avgLen", "maxLen")
"""JSON keys of the fields of `ColumnStatistics`, in order."""


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Statistics of a column; None for an unknown value.

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
    """Contents of a statistics file; None for an unknown value.

    Attributes:
        snapshot_id, schema_id: of the snapshot that was looked at.
        record_count: rows that a read gives.
        record_size: bytes of files that these rows take, roughly.
        columns: by name.
    """

    snapshot_id: int
    schema_id: int
    record_count: int | None
    record_size: int | None
    columns: Mapping[str, ColumnStatistics] | None = field(default_factory=dict)


def encode(statistics: Statistics) -> bytes:
    """The bytes of a statistics file, keys in Java's order; what is unknown is left out."""
    found = {
        "snapshotId": statistics.snapshot_id,
        "schemaId": statistics.schema_id,
        "mergedRecordCount": statistics.record_count,
        "mergedRecordSize": statistics.record_size,
        "colStats": columns_json(statistics),
    }
    return encode_value({k: v for k, v in found.items() if v is not None}, indent=2)


def columns_json(statistics: Statistics) -> dict[str, Any] | None:
    """The JSON value of the columns; what is unknown is left out."""
    if statistics.columns is None:
        return None
    return {
        name: {key: value for key, value in zip(_KEYS, astuple(column), strict=True) if value is not None}
        for name, column in statistics.columns.items()
    }


def decode(data: bytes, path: str) -> Statistics:
    """Read a statistics file. Raises CorruptFileError."""

    def build(raw: dict[str, Any]) -> Statistics:
        columns = raw.get("colStats")
        return Statistics(
            int(raw["snapshotId"]),
            int(raw["schemaId"]),
            _number(raw, "mergedRecordCount"),
            _number(raw, "mergedRecordSize"),
            None if columns is None else {name: _column(column) for name, column in columns.items()},
        )

    return decode_object(
        data, build, lambda why: CorruptFileError(f"statistics file {path} cannot be read: {why}", path=path)
    )


def _column(raw: Mapping[str, Any]) -> ColumnStatistics:
    return ColumnStatistics(
        int(raw["colId"]),
        _number(raw, "distinctCount"),
        _text(raw, "min"),
        _text(raw, "max"),
        _number(raw, "nullCount"),
        _number(raw, "avgLen"),
        _number(raw, "maxLen"),
    )


def _text(raw: Mapping[str, Any], key: str) -> str | None:
    return None if raw.get(key) is None else str(raw[key])


def _number(raw: Mapping[str, Any], key: str) -> int | None:
    return None if raw.get(key) is None else int(raw[key])
