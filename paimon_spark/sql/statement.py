"""Parsed statements: the base class, and those of no particular kind."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias, Union

from paimon_spark.errors import PaimonError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Name: TypeAlias = tuple[str, ...]
"""The parts of a name: of a table, a column, or a nested field."""


class Outcome(Enum):
    """What a command returns instead of rows."""

    RUN_BY_SPARK = "the statement is not about tables of the catalog, so Spark runs it"


Result: TypeAlias = Union["DataFrame", Outcome, None]
"""What a command returns: rows, None for no rows, or that Spark is to run the statement."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A parsed statement. Subclasses are frozen; they hold names, values, and text that Spark parses.

    Attributes:
        sql: its whole text.
    """

    sql: str


@dataclass(frozen=True, slots=True)
class TableStatement(Statement):
    """A statement about one table.

    Attributes:
        table: parts of its name; `$branch_<name>` at the end means that branch.
    """

    table: Name


@dataclass(frozen=True, slots=True)
class Query(Statement):
    """A query, or any other statement that Spark runs."""


@dataclass(frozen=True, slots=True)
class InvalidStatement(TableStatement):
    """A statement that is wrong for tables of the catalog; for other tables Spark decides.

    Attributes:
        error: what is wrong.
        creates: the table is to be created.
        provider: format after USING.
    """

    error: PaimonError
    creates: bool = False
    provider: str | None = None


@dataclass(frozen=True, slots=True)
class UnsupportedStatement(Statement):
    """A statement that is not supported for tables of the catalog.

    Attributes:
        names: the tables it is about; it is refused when one of them is the catalog's, or when there is no name.
        feature: what is not supported.
        instead: what to do instead.
    """

    names: tuple[Name, ...]
    feature: str
    instead: str
