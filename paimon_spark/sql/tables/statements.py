"""Statements on definitions of tables and databases, as they were read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

from paimon_spark.errors import PaimonError
from paimon_spark.metadata.definition.schema_changes import SchemaChange
from paimon_spark.sql.statement import Statement
from paimon_spark.types import RowType

Name: TypeAlias = tuple[str, ...]
Spec: TypeAlias = Mapping[str, str | None]
"""The text of a value, or None for null, by partition column."""
Outcome: TypeAlias = Any
"""What running a statement gives: None, or NotImplemented when it is Spark's."""


class Making(Enum):
    """What becomes of a table that is there."""

    CREATE = "CREATE TABLE"
    IF_NOT_EXISTS = "CREATE TABLE IF NOT EXISTS"
    CREATE_OR_REPLACE = "CREATE OR REPLACE TABLE"
    REPLACE = "REPLACE TABLE"

    @property
    def replaces(self) -> bool:
        return self in (Making.CREATE_OR_REPLACE, Making.REPLACE)


@dataclass(frozen=True, slots=True)
class CreateTable(Statement):
    """CREATE TABLE, or REPLACE TABLE.

    Attributes:
        columns: None when a query gives them.
        partition: names of partition columns.
        properties: as written.
        location: as written.
        query: text of the query whose rows it gets.
        provider: after USING; None when nothing is.
    """

    name: Name
    making: Making = Making.CREATE
    columns: RowType | None = None
    partition: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    location: str | None = None
    query: str | None = None
    provider: str | None = None


@dataclass(frozen=True, slots=True)
class CreateTableLike(Statement):
    """CREATE TABLE … LIKE another table."""

    name: Name
    source: Name
    if_not_exists: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    location: str | None = None
    provider: str | None = None


@dataclass(frozen=True, slots=True)
class DropTable(Statement):
    """DROP TABLE."""

    name: Name
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AlterTable(Statement):
    """ALTER TABLE of columns and properties; the names of columns are as written.

    Attributes:
        if_exists: columns to drop that are not there are no error.
    """

    name: Name
    changes: tuple[SchemaChange, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameTable(Statement):
    """ALTER TABLE … RENAME TO."""

    name: Name
    new: Name


@dataclass(frozen=True, slots=True)
class AddPartitions(Statement):
    """ALTER TABLE … ADD PARTITION."""

    name: Name
    specs: tuple[Spec, ...]


@dataclass(frozen=True, slots=True)
class DropPartitions(Statement):
    """ALTER TABLE … DROP PARTITION."""

    name: Name
    specs: tuple[Spec, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class Misread(Statement):
    """A statement that is wrong for tables of the catalog; on others Spark is to judge it.

    Attributes:
        error: what is wrong.
        creates: the table is one to be made.
        provider: after USING.
    """

    name: Name
    error: PaimonError
    creates: bool = False
    provider: str | None = None


@dataclass(frozen=True, slots=True)
class CreateDatabase(Statement):
    """CREATE DATABASE.

    Attributes:
        kept_nowhere: clauses that a warehouse of directories has no place for.
    """

    name: Name
    if_not_exists: bool = False
    location: str | None = None
    kept_nowhere: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DropDatabase(Statement):
    """DROP DATABASE."""

    name: Name
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class AlterDatabase(Statement):
    """ALTER DATABASE, whatever of it."""

    name: Name


@dataclass(frozen=True, slots=True)
class CreateView(Statement):
    """CREATE VIEW, not a temporary one.

    Attributes:
        query: its text; blank when none was found.
    """

    name: Name
    query: str
