"""Requests of statements and DataFrame writes, as plain values: rows, a new table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from paimon_spark.types import RowType


@dataclass(frozen=True, slots=True)
class InsertRequest:
    """Rows to add to a table, or to put in place of others.

    Attributes:
        overwrites: whether rows are replaced; also by `replace_where`.
        partition: the text of the constant by column, None for a column without a value.
        columns: those that the rows fill, in their order; None: all of the table.
        by_name: whether columns match by name and not by position.
        replace_where: the condition of the rows to replace.
        if_not_exists: whether partitions that exist are left alone.
        options: of the write.
        evolves: whether the schema of the table may change.
    """

    overwrites: bool = False
    partition: Mapping[str, str | None] = field(default_factory=dict)
    columns: tuple[str, ...] | None = None
    by_name: bool = False
    replace_where: str | None = None
    if_not_exists: bool = False
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    evolves: bool = False

    @property
    def of_frame(self) -> str:
        """Text in place of a statement where the rows are those of a DataFrame."""
        return f"{'overwrite' if self.overwrites else 'append'} DataFrame"


class CreateMode(Enum):
    """Action when the table exists."""

    CREATE = "CREATE TABLE"
    IF_NOT_EXISTS = "CREATE TABLE IF NOT EXISTS"
    CREATE_OR_REPLACE = "CREATE OR REPLACE TABLE"
    REPLACE = "REPLACE TABLE"

    @property
    def replaces(self) -> bool:
        return self in (CreateMode.CREATE_OR_REPLACE, CreateMode.REPLACE)

    @property
    def operation(self) -> str:
        """Operation recorded in the snapshot of the rows."""
        made = CreateMode.CREATE if self is CreateMode.IF_NOT_EXISTS else self
        return f"{made.value.replace(' ', '_')}_AS_SELECT"


@dataclass(frozen=True, slots=True)
class TableRequest:
    """A table to create or replace; without `columns` its rows give them.

    `provider` is its format, `location` where it is to be stored.
    """

    mode: CreateMode = CreateMode.CREATE
    columns: RowType | None = None
    partition: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    location: str | None = None
    provider: str | None = None
