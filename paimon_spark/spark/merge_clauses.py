"""Clauses of MERGE: which rows they are for, and what they do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from paimon_spark.metadata.handle import TableHandle
from paimon_spark.spark.row_change import DELETE, INSERT, UPDATE


class When(Enum):
    """The rows of a clause: matching pairs, rows of the source alone, rows of the table alone."""

    MATCHED = "matched"
    NOT_MATCHED = "not matched"
    NOT_MATCHED_BY_SOURCE = "not matched by source"


class Verb(Enum):
    """Action of a clause."""

    UPDATE = UPDATE
    INSERT = INSERT
    DELETE = DELETE


class MissingFields(Enum):
    """How fields of a column are filled that the struct assigned to it lacks.

    Source: Java Spark connector, `MissingFieldBehavior`.
    """

    REFUSED = "refused"
    NULL = "null"
    KEPT = "those of the row that is updated"


@dataclass(frozen=True, slots=True)
class Clause:
    """WHEN … THEN …. Expressions are Spark SQL.

    Attributes:
        condition: None for all rows of the kind.
        values: expression by column of the table; a column that is left out keeps its value, or is null in a new row.
        same: expression by column of `compared_columns`; a row whose column has another value is refused.
        missing: how fields that structs among the values lack are filled.
    """

    when: When
    verb: Verb
    condition: str | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    same: Mapping[str, str] = field(default_factory=dict)
    missing: MissingFields = MissingFields.REFUSED


def compared_columns(handle: TableHandle) -> tuple[str, ...]:
    """Columns that an update of all columns compares, as it cannot set them.

    The primary key, or the partition columns of a table with data evolution.
    """
    return handle.schema.partition_keys if handle.options.data_evolution else handle.schema.primary_keys
